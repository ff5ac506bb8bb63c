"""What is run between softrnic and the kernel: a table."""

import dataclasses
import json
import pathlib

from ends import PATIENCE

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "tests" / "foreign" / "scenarios.py"
WINDOWS = pathlib.Path(__file__).resolve().parent / "windows.py"
RECORDING = ROOT / "conformance" / "captures"
MTUS = (256, 512, 1024, 2048, 4096)
WEATHER = "drop=1%,reorder=2%,seed=7"
DIRECTIONS = ("out", "in")  # softrnic is the client, the server
FAMILIES = ("v4", "v6")


@dataclasses.dataclass
class Pairing:
    """One exchange."""
    group: str
    name: str
    direction: str
    family: str
    # Makes a command of an end: (own end, its role, the other end) -> started command.
    start: object
    port: int
    # Judges both outputs: (client, server) -> why not, or None.
    judge: object = None
    quick: bool = False
    # What statuses both must end with; None: either.
    client_fails: bool = False
    server_fails: bool = False
    # Who dies, and how long after the client was started; by the connection manager, after both were connected.
    kills: str = ""
    kill_after: float = 0.0
    # They meet by the connection manager.
    by_manager: bool = False
    # The server does not end by itself.
    server_stays: bool = False
    # Judges the messages of connection managers: ([(who, attribute)]) -> why not, or None.
    judge_messages: object = None

    def title(self):
        return f"{self.group} {self.name} {self.direction} {self.family}"


def both(group, start, port, *, name="", quick=(), families=FAMILIES, directions=DIRECTIONS, **more):
    """A pairing for each direction and family. `quick`: those of which every day has one."""
    return [Pairing(group, name, direction, family, start, port, quick=(direction, family) in quick, **more)
            for direction in directions for family in families]


def verbs_program(program, options, device_option, gid_option, environment=None):
    """ibverbs-utils and perftest: the client names the server."""
    def start(end, role, other, family):
        command = [program, device_option, end.device(), gid_option, end.gid_index(family), *options]
        # They meet over IPv4; the family is that of the GIDs.
        if role == "client":
            command.append(other.address("v4"))
        return end.verbs(command, environment or {})
    return start


def own_command(command, environment=None):
    def start(end, role, other, family):
        words = list(command) + ([other.address(family)] if role == "client" else [])
        return end.own(words, family, environment or {})
    return start


def python_program(script, environment=None):
    def start(end, role, other, family):
        responder = end if role == "server" else other
        name = {"server": "responder", "client": "requester"}[role]
        # Both sides give the address that the responder has.
        command = ["/usr/bin/python3", script, name, 18600, end.device(), end.gid_index(family), responder.address("v4")]
        return end.verbs(command, {"PYTHONDONTWRITEBYTECODE": "1", **(environment or {})})
    return start


def as_recorded(family):
    """Judges the answers of the scenarios: those of two soft-RoCE devices, word for word."""
    file = {"v4": "rxe-scenarios.json", "v6": "rxe-v6-scenarios.json"}[family]

    def judge(client, server):
        recorded = json.loads((RECORDING / file).read_text())
        wrong = []
        for side, output in (("requester", client), ("responder", server)):
            told = json.loads(output.strip().splitlines()[-1])
            for name, sides in recorded.items():
                right, found = sides.get(side), told.get(name)
                if simple(right) != simple(found):
                    wrong.append(f"{name}, {side}: {found}, not {right}")
        return "; ".join(wrong) or None
    return judge


def simple(answer):
    """What of an answer is comparable: a refusal's text is the library's own."""
    if isinstance(answer, str):
        return "refused"
    return answer or None


def says(*texts):
    """Judges that the client says all of these."""
    def judge(client, server):
        missing = [text for text in texts if text not in client]
        return f"the client does not say {missing}" if missing else None
    return judge


def all_pairings():
    table = []
    # softrnic's own commands; every byte is checked.
    for name, options in (("rc", []), ("uc", ["--uc"]), ("ud", ["--ud"]), ("rc events", ["-e"]), ("rc inline", ["--inline", "-s", "64"])):
        command = ["pingpong", "-c", "-n", "60", *options]
        table += both("softrnic pingpong", own_command(command), 18515, name=name,
                      quick=[("out", "v4"), ("in", "v6")] if name == "rc" else [("in", "v4")] if name == "ud" else [])
    for mtu in MTUS:
        command = ["pingpong", "-c", "-n", "20", "-s", "10000", "-m", str(mtu)]
        table += both("softrnic pingpong", own_command(command), 18515, name=f"rc mtu {mtu}")
    # ibverbs-utils; -c checks what arrives.
    for kind in ("rc", "uc", "ud", "srq"):
        checks = ["-c"] if kind == "rc" else []
        size = ["-s", "1024"] if kind == "ud" else []
        count = ["-n", "60"]
        program = f"ibv_{kind}_pingpong"
        table += both(program, verbs_program(program, [*checks, *size, *count], "-d", "-g"), 18515,
                      quick=[("out", "v4"), ("in", "v4")] if kind in ("rc", "srq") else [("out", "v6")] if kind == "ud" else [])
        table += both(program, verbs_program(program, ["-e", *size, *count], "-d", "-g"), 18515, name="events")
    for mtu in MTUS:
        options = ["-c", "-n", "20", "-s", "10000", "-m", str(mtu)]
        table += both("ibv_rc_pingpong", verbs_program("ibv_rc_pingpong", options, "-d", "-g"), 18515, name=f"mtu {mtu}",
                      quick=[("out", "v4")] if mtu in (256, 4096) else [])
    # perftest.
    for operation in ("write", "read", "send", "atomic"):
        for metric in ("bw", "lat"):
            program = f"ib_{operation}_{metric}"
            sizes = ((),) if operation == "atomic" else (("-s", "65536"),) if metric == "bw" else (("-s", "8"),)
            for size in sizes:
                # Each end takes the depth of the other, which here is more than softrnic has.
                depth = ["-o", "8"] if operation in ("read", "atomic") else []
                options = ["-F", *depth, "-n", "60" if metric == "bw" else "40", *size, *(("-t", "8") if metric == "bw" else ())]
                table += both(program, verbs_program(program, options, "-d", "-x"), 18515,
                              quick=[("out", "v4")] if metric == "bw" else [])
    for operation, services in (("send", ("UC", "UD")), ("write", ("UC",))):
        for service in services:
            for metric in ("bw", "lat"):
                program = f"ib_{operation}_{metric}"
                # Unreliable services lose what the emulated processor does not take in time: few at once.
                flow = ["-t", "4", "-r", "128"] if (operation, metric) == ("send", "bw") else ["-t", "4"] if metric == "bw" else []
                options = ["-F", "-c", service, "-n", "40", "-s", "1024", *flow]
                table += both(program, verbs_program(program, options, "-d", "-x"), 18515, name=service)
    for mtu in (256, 4096):
        options = ["-F", "-n", "20", "-s", "65536", "-m", str(mtu), "-t", "8"]
        table += both("ib_write_bw", verbs_program("ib_write_bw", options, "-d", "-x"), 18515, name=f"mtu {mtu}")
    # Scenarios with the right status on both ends: sequence numbers that wrap, immediates, solicited events, bad keys,
    # bounds, receivers that are not ready.
    for family in FAMILIES:
        table += both("scenarios", python_program(SCENARIOS, {"SOFTRNIC_PROFILE": "rxe"}), 18600, name="57",
                      families=(family,), judge=as_recorded(family), quick=[("out", "v4")])
    table += both("windows", python_program(WINDOWS), 18600, name="bind, invalidate", quick=[("out", "v4"), ("in", "v4")],
                  judge=says("all as it must be"))
    # A peer that dies: the client's work ends with the status for it.
    table += both("dead peer", verbs_program("ib_write_bw", ["-F", "-D", "90", "-s", "4096", "-t", "4", "-u", "12"], "-d", "-x"), 18515,
                  name="ib_write_bw", families=("v4",), kills="server", kill_after=20.0, client_fails=True, server_fails=True,
                  judge=lambda client, server: None if "status 12" in client.lower() or "transport retry" in client.lower()
                  else f"the client does not name the status 12: {client[-400:]}")
    # Weather on softrnic's side; every byte is checked.
    foul = {"SOFTRNIC_FAULTS": WEATHER}
    table += both("weather", own_command(["pingpong", "-c", "-n", "300"], foul), 18515, name="softrnic pingpong",
                  quick=[("out", "v4")])
    table += both("weather", verbs_program("ibv_rc_pingpong", ["-c", "-n", "300"], "-d", "-g", foul), 18515,
                  name="ibv_rc_pingpong")
    table += both("weather", verbs_program("ib_write_bw", ["-F", "-n", "200", "-s", "65536", "-t", "8"], "-d", "-x", foul), 18515,
                  name="ib_write_bw", families=("v4",))
    return table


def run(pairing, host, guest):
    """Runs one; returns why it failed, or None."""
    client, server = (host, guest) if pairing.direction == "out" else (guest, host)
    serving = asking = None
    try:
        serving = pairing.start(server, "server", client, pairing.family)
        if not (server.await_listener(serving, pairing.port) if pairing.by_manager else serving.await_port(pairing.port)):
            return f"the server does not listen: {tail(serving)}"
        asking = pairing.start(client, "client", server, pairing.family)
        if pairing.kills:
            if pairing.by_manager and not await_connection(pairing, host, asking, serving):
                return f"they are not connected: {tail(asking)} | server: {tail(serving)}"
            ended = asking.wait(pairing.kill_after)
            if ended is not None:
                return f"the client ended with {ended} before one died: {tail(asking)} | server: {tail(serving)}"
            (serving if pairing.kills == "server" else asking).kill()
        if pairing.kills != "client":
            ended = asking.wait(PATIENCE)
            if ended is None:
                return f"the client hangs: {tail(asking)} | server: {tail(serving)}"
            if pairing.client_fails is not None and (ended != 0) != pairing.client_fails:
                return f"the client ended with {ended}: {tail(asking)} | server: {tail(serving)}"
        if pairing.kills != "server" and not pairing.server_stays:
            served = serving.wait(PATIENCE)
            if served is None:
                return f"the server hangs: {tail(serving)} | client: {tail(asking)}"
            if not pairing.server_fails and served != 0:
                return f"the server ended with {served}: {tail(serving)}"
        return pairing.judge(asking.output(), serving.output()) if pairing.judge else None
    finally:
        for command in (asking, serving):
            if command:
                command.kill()


def await_connection(pairing, host, asking, serving):
    """Waits until softrnic, which is one of both, says that they are connected."""
    own = asking if pairing.direction == "out" else serving
    return own.until(lambda: host.converses("established", pairing.port))


def tail(command):
    return " / ".join(command.output().strip().splitlines()[-6:])
