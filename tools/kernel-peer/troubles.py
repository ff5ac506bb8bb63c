#!/usr/bin/env python3
"""What softrnic says about a real device that cannot be used: troubles.py [--bin FOLDER] [--cache FOLDER]

In a machine with a kernel's soft-RoCE each trouble is made, a command of softrnic meets it, and must end by itself with
a text that says what is missing and how to get it. The last ones take the device away from commands that work.
The exit status is 0 when all did, 1 when one did not, 3 when there can be no machine here.
"""

import argparse
import dataclasses
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True

from machine import Machine, Unavailable, end_in_order, prepare, say  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = "10.77.0.2"
PATIENCE = 200
# What scripts begin with: `run` ends what hangs (status 124).
WORDS = """
run() {{ timeout {patience} "$@"; }}
softrnic={softrnic}
nobody='setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all'
device=$(ls /sys/class/net | grep -v '^lo$' | head -1)
listened() {{
  exec 9<> <(:)
  until [[ $(</proc/net/tcp)$(</proc/net/tcp6) =~ :4853\\ [0-9A-F:]+\\ 0A ]]; do read -r -t 0.2 -u 9; done
}}
# A client that meets a server.
served() {{
  timeout {patience} $softrnic pingpong --backend hardware -d rxe0 >/dev/null 2>&1 & server=$!
  listened
  run "$@" {address}; status=$?
  kill $server
  return $status
}}
"""


@dataclasses.dataclass
class Trouble:
    name: str
    # Commands of bash: what makes the trouble, what meets it, what ends it.
    make: str
    command: str
    undo: str
    # What must be said.
    says: tuple
    # The exit status; None: any but 0 and that of `timeout`.
    status: int | None = None


def at_work(command, then):
    """Both ends of a command, and what happens to them at work."""
    return (f"timeout {PATIENCE} $softrnic {command} >/tmp/server.log 2>&1 & server=$!\n"
            "listened\n"
            f"timeout {PATIENCE} $softrnic {command} {ADDRESS} & client=$!\n"
            "packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }\n"
            "begun=$(packets)\n"
            "until (( $(packets) > begun + 100 )) || ! kill -0 $client; do read -r -t 0.2 -u 9; done\n"
            "echo \"packets: $(( $(packets) - begun ))\"\n" + then)


PINGPONG = "pingpong --backend hardware -d rxe0 -n 10000000"
# Each end must end by itself with an error.
BOTH_FAIL = """
wait $client; of_client=$?; wait $server; of_server=$?
cat /tmp/server.log; echo "ended: $of_client $of_server"
"""
DELETED_WHEN_CLOSED = """
rdma link delete rxe0 & removal=$!
read -r -t 5 -u 9
kill -0 $client && kill -0 $server && kill -0 $removal && echo "it waits"
kill $client $server
wait $removal && [ -z "$(rdma link)" ] && echo "it is gone"
"""
LINK_UP = f"ip link set $device up; ip addr add {ADDRESS}/24 dev $device || true"
AGAIN = "rdma link add rxe0 type rxe netdev $device"
TROUBLES = (
    Trouble("no device", "rdma link delete rxe0", "run $softrnic devinfo --backend hardware", AGAIN,
            ("there is no RDMA device", "rdma link add")),
    Trouble("another device", "true", "run $softrnic pingpong --backend hardware -d mlx5_0", "true", ("no RDMA device is called mlx5_0", "rxe0")),
    Trouble("no permission", "chmod 600 /dev/infiniband/uverbs0", "run $nobody $softrnic pingpong --backend hardware -d rxe0",
            "chmod 666 /dev/infiniband/uverbs0", ("no permission on /dev/infiniband/uverbs0", "group")),
    Trouble("memlock limit", "true", "ulimit -l 64; served $nobody $softrnic pingpong --backend hardware -d rxe0 -s 1M", "true",
            ("memory cannot be locked", "ulimit -l")),
    Trouble("empty GID", "true", "served $softrnic pingpong --backend hardware -d rxe0 -g 7", "true", ("the entry of the GID table is empty", "give the interface an address")),
    Trouble("GID past the table", "true", "served $softrnic pingpong --backend hardware -d rxe0 -g 255", "true", ("GID",)),
    Trouble("address of nobody", "true", "run $softrnic pingpong --backend hardware -d 10.77.0.99", "true", ("10.77.0.99",)),
    Trouble("link down", "ip link set $device down", "run $softrnic pingpong --backend hardware -d rxe0",
            LINK_UP, ("the port of rxe0 is down", "ip link set")),
    Trouble("link down under pingpong", "true", at_work(PINGPONG, "ip link set $device down; " + BOTH_FAIL), LINK_UP,
            ("ended: 1 1",), 0),
    Trouble("link down under sleeping pingpong", "true", at_work(PINGPONG + " -e", "ip link set $device down; " + BOTH_FAIL), LINK_UP,
            ("ended: 1 1",), 0),
    # soft-RoCE of Linux 6.1 cannot be taken from programs: the removal waits until they have closed it.
    Trouble("device deleted under pingpong", "true", at_work(PINGPONG, DELETED_WHEN_CLOSED), AGAIN, ("it waits", "it is gone"), 0),
)


def meet(machine, trouble, softrnic):
    """What went wrong, or None; and what was said."""
    words = WORDS.format(patience=PATIENCE, softrnic=softrnic, address=ADDRESS)
    made, output = machine.run(words + trouble.make, 60)
    if made != 0:
        return f"it cannot be made: {output}", output
    status, output = machine.run(words + trouble.command, 3 * PATIENCE)
    undone, undoing = machine.run(words + trouble.undo, 60)
    if undone != 0:
        raise Unavailable(f"{trouble.name} cannot be undone: {undoing}")
    missing = [text for text in trouble.says if text not in output]
    if missing:
        return f"it does not say {missing}", output
    right = status == trouble.status if trouble.status is not None else status not in (None, 0, 124)
    return (None if right else f"it ended with {status}"), output


def main():
    parser = argparse.ArgumentParser(description="what softrnic says about a real device that cannot be used")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only those whose name has this text")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target" / "debug", help="folder of the softrnic command")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target" / "kernel-peer", help="folder of the kernel")
    options = parser.parse_args()
    softrnic = options.bin.resolve() / "softrnic"
    if not softrnic.exists():
        say(f"troubles: there is no {softrnic}: cargo build -p softrnic")
        return 3
    failed = 0
    end_in_order()
    try:
        prepare(options.cache)
        with tempfile.TemporaryDirectory(prefix="softrnic-troubles-") as folder:
            machine = Machine(options.cache, pathlib.Path(folder) / "jobs", [f"{ADDRESS}/24"])
            try:
                say(f"troubles: Linux {machine.wait_ready()} is ready")
                for trouble in TROUBLES:
                    if options.filter in trouble.name:
                        why, output = meet(machine, trouble, softrnic)
                        failed += why is not None
                        say(f"{'FAILED' if why else 'good  '} {trouble.name}{': ' + why if why else ''}\n"
                            + "".join(f"         {line}\n" for line in output.strip().splitlines()[-12:]))
            finally:
                machine.stop()
    except Unavailable as why:
        say(f"troubles: cannot be run here: {why}")
        return 3
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
