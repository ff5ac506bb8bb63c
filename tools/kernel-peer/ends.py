"""The two sides of a pairing: where a command runs, how long, and what it said."""

import os
import pathlib
import subprocess
import time

from network import ADDRESSES

# Emulated processors, and a host that others use as well.
PATIENCE = 240
LISTEN_PATIENCE = 150


def listens(table, port):
    """Whether a TCP port is listened on, by the tables of /proc/net."""
    wanted = f":{port:04X} "
    return any(wanted in line and " 0A " in line for line in table.splitlines())


class HostCommand:
    """A process of the host's side."""

    def __init__(self, command, environment, log):
        self.log = pathlib.Path(log)
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(
                command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT)

    def await_port(self, port):
        deadline = time.monotonic() + LISTEN_PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            tables = [pathlib.Path(f"/proc/{self.process.pid}/net/{name}") for name in ("tcp", "tcp6")]
            if any(listens(table.read_text(), port) for table in tables if table.exists()):
                return True
            time.sleep(0.05)
        return False

    def wait(self, seconds):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def output(self):
        return self.log.read_text(errors="replace")


class MachineCommand:
    """A process in the machine, which ends by itself after a while."""

    def __init__(self, machine, command, environment):
        words = " ".join(quoted(word) for word in command)
        settings = " ".join(f"{name}={quoted(value)}" for name, value in environment.items())
        self.machine, self.pid = machine, f"{machine.next}.pid"
        # `timeout` leads a group of processes of its own.
        self.job = machine.start(f"echo $$ >{self.pid}; {settings} exec timeout {PATIENCE} {words}")

    def await_port(self, port):
        script = (f"for i in $(seq {LISTEN_PATIENCE * 5}); do grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6"
                  " && exit 0; sleep 0.2; done; exit 1")
        watch = self.machine.start(script)
        deadline = time.monotonic() + LISTEN_PATIENCE
        while time.monotonic() < deadline and self.job.status() is None:
            if watch.status() is not None:
                return watch.status() == 0
            time.sleep(0.05)
        return False

    def wait(self, seconds):
        return self.job.wait(seconds)

    def kill(self):
        if self.job.status() is None:
            self.machine.run(f"kill -KILL -$(cat {self.pid})", 20)
            self.job.wait(20)

    def output(self):
        return self.job.output()


def quoted(word):
    return "'" + str(word).replace("'", "'\\''") + "'"


class Host:
    """softrnic's side."""

    name = "softrnic"

    def __init__(self, softrnic, folder):
        self.softrnic, self.folder = str(softrnic), pathlib.Path(folder)
        self.number = 0

    def address(self, family):
        return ADDRESSES[family][0]

    def gid_index(self, family):
        return {"v4": 0, "v6": 1}[family]

    def device(self):
        return "softrnic0"

    def start(self, command, environment):
        self.number += 1
        environment = {"SOFTRNIC_SERVICE": "off", **environment}
        return HostCommand([str(word) for word in command], environment, self.folder / f"{self.number}.log")

    def verbs(self, command, environment):
        """A verbs program on the drop-in."""
        addresses = ",".join(self.address(family) for family in ADDRESSES)
        return self.start([self.softrnic, "run", "-d", addresses, "--", *command], environment)

    def own(self, command, family, environment):
        """A command of softrnic on an emulated device."""
        options = ["--backend", "emulated", "-d", self.address(family)]
        return self.start([self.softrnic, *command, *options], environment)


class Guest:
    """The kernel's side."""

    name = "soft-RoCE"

    def __init__(self, softrnic, machine):
        self.softrnic, self.machine = str(softrnic), machine

    def address(self, family):
        return ADDRESSES[family][1]

    def gid_index(self, family):
        # 0 is the link-local address.
        return {"v4": 1, "v6": 2}[family]

    def device(self):
        return "rxe0"

    def verbs(self, command, environment):
        kept = {name: value for name, value in environment.items() if not name.startswith("SOFTRNIC_")}
        return MachineCommand(self.machine, command, kept)

    def own(self, command, family, environment):
        """A command of softrnic on the kernel's device, through rdma-core."""
        options = ["--backend", "hardware", "-d", self.address(family)]
        return self.verbs([self.softrnic, *command, *options], environment)
