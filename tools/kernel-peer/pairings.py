"""What is run between softrnic and the kernel: a table."""

import dataclasses
import json
import pathlib
import time

from ends import LISTEN_PATIENCE, PATIENCE

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "tests" / "foreign" / "scenarios.py"
WINDOWS = pathlib.Path(__file__).resolve().parent / "windows.py"
SURVIVOR = pathlib.Path(__file__).resolve().parent / "survivor.py"
RECORDING = ROOT / "conformance" / "captures"
MTUS = (256, 512, 1024, 2048, 4096)
# perftest's retries last for 8 s, not half of one: an emulated processor may get none for that long.
PATIENT = ("-u", "18")
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
    # Whether each must fail; None: either will do.
    client_fails: bool | None = False
    server_fails: bool | None = False
    # Who dies, once the exchange is under way, and after so many seconds more.
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


def either_says(text):
    """Judges that one of both says this: who is left."""
    def judge(client, server):
        return None if text in (client + server).lower() else f"who is left says: {client[-300:]} | {server[-300:]}"
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
                options = ["-F", *PATIENT, *depth, "-n", "60" if metric == "bw" else "40", *size, *(("-t", "8") if metric == "bw" else ())]
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
        options = ["-F", *PATIENT, "-n", "20", "-s", "65536", "-m", str(mtu), "-t", "8"]
        table += both("ib_write_bw", verbs_program("ib_write_bw", options, "-d", "-x"), 18515, name=f"mtu {mtu}")
    # Scenarios with the right status on both ends: sequence numbers that wrap, immediates, solicited events, bad keys,
    # bounds, receivers that are not ready.
    for family in FAMILIES:
        table += both("scenarios", python_program(SCENARIOS, {"SOFTRNIC_PROFILE": "rxe"}), 18600, name="57",
                      families=(family,), judge=as_recorded(family), quick=[("out", "v4")])
    table += both("windows", python_program(WINDOWS), 18600, name="bind, invalidate", quick=[("out", "v4"), ("in", "v4")],
                  judge=says("all as it must be"))
    # A peer that dies while both ask. perftest repeats 7 times, which soft-RoCE takes for "without end": softrnic is left.
    for who in ("server", "client"):
        table += both("dead peer", python_program(SURVIVOR), 18600, name=f"writes and reads, the {who}", kills=who, kill_after=1.0,
                      quick=[("out", "v4"), ("in", "v4")] if who == "server" else [], judge=either_says("the other end is dead"))
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
            options = ["-F", "-b", "-D", "200", "-s", "4096", "-t", "4", "-u", "16", *(["-o", "4"] if "read" in program else [])]
            table += both("dead peer", verbs_program(program, options, "-d", "-x"), 18515, name=f"{program}, soft-RoCE",
                          families=("v4",), directions=("out",) if who == "server" else ("in",), kills=who, kill_after=1.0,
                          client_fails=True, server_fails=True, judge=either_says("status 12"))
    # Weather on softrnic's side; every byte is checked.
    foul = {"SOFTRNIC_FAULTS": WEATHER}
    table += both("weather", own_command(["pingpong", "-c", "-n", "300"], foul), 18515, name="softrnic pingpong",
                  quick=[("out", "v4")])
    table += both("weather", verbs_program("ibv_rc_pingpong", ["-c", "-n", "300"], "-d", "-g", foul), 18515,
                  name="ibv_rc_pingpong")
    table += both("weather", verbs_program("ib_write_bw", ["-F", "-n", "200", "-s", "65536", "-t", "8"], "-d", "-x", foul), 18515,
                  name="ib_write_bw", families=("v4",))
    return table


def run(pairing, host, guest, wire):
    """Runs one; returns why it failed, or None."""
    client, server = (host, guest) if pairing.direction == "out" else (guest, host)
    serving = asking = None
    try:
        serving = pairing.start(server, "server", client, pairing.family)
        if not (server.await_listener(serving, pairing.port) if pairing.by_manager else serving.await_port(pairing.port)):
            return f"the server does not listen: {tail(serving)}"
        asking = pairing.start(client, "client", server, pairing.family)
        if pairing.kills:
            if not await_exchange(pairing, host, asking, serving, wire):
                return f"they exchange nothing: {tail(asking)} | server: {tail(serving)}"
            ended = asking.wait(pairing.kill_after)
            if ended is not None:
                return f"the client ended with {ended} before one died: {tail(asking)} | server: {tail(serving)}"
            (serving if pairing.kills == "server" else asking).kill()
        return (None if pairing.kills == "client" else wrong_end("client", asking, pairing.client_fails, serving)) or (
            None if pairing.kills == "server" or pairing.server_stays
            else wrong_end("server", serving, pairing.server_fails, asking)) or (
            pairing.judge(asking.output(), serving.output()) if pairing.judge else None)
    finally:
        for command in (asking, serving):
            if command:
                command.kill()


def wrong_end(name, command, fails, other):
    """Waits for the end of a command; why that is not as it must be, or None."""
    status = command.wait(PATIENCE)
    if status is None:
        return f"the {name} hangs: {tail(command)} | the other end: {tail(other)}"
    if fails is not None and (status != 0) != fails:
        return f"the {name} ended with {status}: {tail(command)} | the other end: {tail(other)}"
    return None


# So much of what is recorded is more than the programs need to meet.
UNDER_WAY = 1 << 18


def await_exchange(pairing, host, asking, serving, wire):
    """Waits until both are connected, which softrnic says of those that meet by the manager, or exchange messages."""
    own = asking if pairing.direction == "out" else serving
    if pairing.by_manager:
        return own.until(lambda: host.converses("established", pairing.port))
    deadline = time.monotonic() + LISTEN_PATIENCE
    while asking.wait(0.2) is None and time.monotonic() < deadline:
        if wire.grown() > UNDER_WAY:
            return True
    return False


def tail(command):
    """The last of what a command says, and its complaints, which may stand before: output to a file comes late."""
    lines = command.output().strip().splitlines()
    complaints = [line for line in lines[:-6] if any(word in line.lower() for word in ("status", "fail", "error", "cannot"))]
    return " / ".join(complaints[:4] + lines[-6:])
