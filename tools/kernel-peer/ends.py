"""The two sides of a pairing: where a command runs, how long, and what it said."""

import json
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
        tables = [pathlib.Path(f"/proc/{self.process.pid}/net/{name}") for name in ("tcp", "tcp6")]
        return self.until(lambda: any(listens(table.read_text(), port) for table in tables if table.exists()))

    def until(self, holds):
        """Waits until that holds; whether it came to that before the command ended."""
        deadline = time.monotonic() + LISTEN_PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            if holds():
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
        # Without a process for each look: those are dear in the machine.
        return self.until(f"[[ $(</proc/net/tcp)$(</proc/net/tcp6) =~ :{port:04X}\\ [0-9A-F:]+\\ 0A ]]")

    def until(self, holds):
        """Waits until a command of the machine succeeds; whether it came to that before this one ended."""
        watch = self.machine.start(
            f"exec 9<> <(:); for i in {{1..{LISTEN_PATIENCE * 4}}}; do {holds} && exit 0; read -r -t 0.25 -u 9; done; exit 1")
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


def has_conversation(value, state, port):
    """Whether what `softrnic --json ps` tells has a listener or a connection in that state, of that port."""
    if isinstance(value, dict):
        if value.get("state") == state and str(value.get("service", "")).endswith(f":{port}"):
            return True
        value = list(value.values())
    return isinstance(value, list) and any(has_conversation(one, state, port) for one in value)


def quoted(word):
    return "'" + str(word).replace("'", "'\\''") + "'"


def example(softrnic, name):
    """An example of the verbs crate, built beside the softrnic command."""
    return str(pathlib.Path(softrnic).parent / "examples" / name)


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

    def managed(self, command, environment):
        """The same with the port service, to which connection managers belong."""
        return self.verbs(command, {"SOFTRNIC_SERVICE": self.softrnic, **environment})

    def converses(self, state, port):
        """Whether a connection manager here has a listener or a connection in that state."""
        told = subprocess.run([self.softrnic, "--json", "ps"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return has_conversation(json.loads(told.stdout or "null"), state, port)

    def await_listener(self, command, port):
        """Waits until the command listens to a port of the connection manager."""
        return command.until(lambda: self.converses("listen", port))

    def verbs(self, command, environment):
        """A verbs program on the drop-in."""
        addresses = ",".join(self.address(family) for family in ADDRESSES)
        return self.start([self.softrnic, "run", "-d", addresses, "--", *command], environment)

    def own(self, command, family, environment):
        """A command of softrnic on an emulated device."""
        options = ["--backend", "emulated", "-d", self.address(family)]
        return self.start([self.softrnic, *command, *options], environment)


    def connecting(self, command, family):
        """An example that finds its peer by address, on an emulated device."""
        environment = {"SOFTRNIC_BACKEND": "emulated", "SOFTRNIC_ADDRESS": self.address(family), "SOFTRNIC_SERVICE": self.softrnic}
        return self.start([example(self.softrnic, command[0]), *command[1:]], environment)


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

    def managed(self, command, environment):
        return self.verbs(command, environment)

    def await_listener(self, command, port):
        return command.until(f"rdma resource show cm_id | grep -q 'state LISTEN.*:{port} '")

    def verbs(self, command, environment):
        kept = {name: value for name, value in environment.items() if not name.startswith("SOFTRNIC_")}
        return MachineCommand(self.machine, command, kept)

    def own(self, command, family, environment):
        """A command of softrnic on the kernel's device, through rdma-core."""
        options = ["--backend", "hardware", "-d", self.address(family)]
        return self.verbs([self.softrnic, *command, *options], environment)

    def connecting(self, command, family):
        """An example that finds its peer by address, on the kernel's device, through rdma-core."""
        return MachineCommand(self.machine, [example(self.softrnic, command[0]), *command[1:]], {"SOFTRNIC_BACKEND": "hardware"})
