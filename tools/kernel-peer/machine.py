"""A virtual machine with a distribution kernel and its soft-RoCE device, driven by jobs (machine/agent.sh)."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
# Emulated processors are tens of times slower than real ones, and share the host with others.
BOOT_SECONDS = 240


class Unavailable(Exception):
    """There can be no machine here; the text says why."""


def prepare(folder):
    """Makes kernel and initramfs in `folder`, unless they are there."""
    done = subprocess.run([HERE / "prepare.sh", folder], stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Unavailable(done.stderr.strip() or f"prepare.sh ended with {done.returncode}")


class Job:
    """A command in the machine."""

    def __init__(self, machine, number):
        self.machine, self.number = machine, number

    def _file(self, kind):
        return self.machine.jobs / f"{self.number}.{kind}"

    def output(self):
        try:
            return self._file("out").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def status(self):
        """The exit status, or None while it runs."""
        try:
            return int(self._file("rc").read_text())
        except FileNotFoundError:
            return None

    def wait(self, seconds):
        """The exit status; None if it still runs after that time."""
        deadline = time.monotonic() + seconds
        while self.status() is None and time.monotonic() < deadline:
            self.machine.check()
            time.sleep(0.05)
        return self.status()


class Machine:
    """One machine. Its work folder is `jobs`, inside of it /tmp/jobs."""

    def __init__(self, folder, jobs, addresses, mtu=4200, tap=None, cpus=2, dump=None):
        """`tap` is the interface of the host that its network goes to; without one it has none but its own.
        `dump` is a file for all frames."""
        self.jobs, self.next, self.dump = pathlib.Path(jobs), 1, dump
        shutil.rmtree(self.jobs, ignore_errors=True)
        self.jobs.mkdir(parents=True)
        shutil.copy(HERE / "machine" / "agent.sh", self.jobs / "agent.sh")
        (self.jobs / "machine.conf").write_text(f"MTU={mtu}\nADDRESSES='{' '.join(addresses)}'\n")
        folder = pathlib.Path(folder)
        # No header in front of frames: they are recorded as they pass, each as long as the wire allows.
        network = f"tap,id=n0,ifname={tap},script=no,downscript=no,vnet_hdr=off" if tap else "user,id=n0,restrict=on"
        accelerator = os.environ.get("KERNEL_PEER_ACCEL", "tcg")
        self.console = open(self.jobs / "console.log", "wb")
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", accelerator, "-cpu", "max", "-m", "2048", "-smp", str(cpus),
             "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio",
             "-kernel", folder / "vmlinuz", "-initrd", folder / "initramfs.gz",
             "-append", f"console=ttyS0 quiet panic=-1 project={PROJECT}",
             "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
             "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
             "-fsdev", f"local,id=jobs,path={self.jobs},security_model=none",
             "-device", "virtio-9p-pci,fsdev=jobs,mount_tag=jobs",
             "-netdev", network, "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:02",
             *(["-object", f"filter-dump,id=d0,netdev=n0,file={dump},maxlen=9000"] if dump else [])],
            stdin=subprocess.DEVNULL, stdout=self.console, stderr=subprocess.STDOUT)

    def check(self):
        """Raises if the machine is gone."""
        if self.process.poll() is not None:
            log = (self.jobs / "console.log").read_text(errors="replace")
            raise Unavailable(f"the machine ended with {self.process.returncode}:\n{log[-2000:]}")

    def wait_ready(self):
        """The version of its kernel, once it takes jobs."""
        deadline = time.monotonic() + BOOT_SECONDS
        while not (self.jobs / "ready").exists():
            self.check()
            if time.monotonic() > deadline:
                log = (self.jobs / "console.log").read_text(errors="replace")
                raise Unavailable(f"the machine is not ready after {BOOT_SECONDS} s:\n{log[-2000:]}")
            time.sleep(0.2)
        return (self.jobs / "ready").read_text().strip()

    def start(self, script):
        """Starts a job of bash."""
        job = Job(self, self.next)
        new = self.jobs / "new"
        new.write_text(script + "\n")
        new.rename(self.jobs / f"{self.next}.job")
        self.next += 1
        return job

    def run(self, script, seconds=120):
        """Its exit status and output."""
        job = self.start(script)
        return job.wait(seconds), job.output()

    def stop(self):
        (self.jobs / "stop").touch()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.console.close()


def end_in_order():
    """Makes a request to end (SIGTERM) an ordinary end, with which the machine ends, too."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def say(text):
    print(text, file=sys.stderr, flush=True)
