#!/usr/bin/env python3
"""perftest on soft-RoCE and on the drop-in inside one machine: speed.py [--bin FOLDER] [--runs N] [--filter TEXT] [--markdown FILE]

Both programs of a measurement run in the machine, on loopback: first on the kernel's device, then on softrnic's. The
processors are emulated, so only the ratio means something. Goal: ten times the bandwidth and the rate of messages, a
tenth of the typical latency.
"""

import argparse
import itertools
import math
import pathlib
import re
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from machine import Machine, Unavailable, end_in_order, prepare, say  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = "10.77.0.2"
# The kernel's driver has 4791 of every address.
PORT = 14791
GOAL = 10.0
PATIENCE = 300

# Name, program and options, what of the figures counts, unit, whether less is better. For each device its own number of
# iterations, so that both take seconds.
MEASUREMENTS = (
    ("bandwidth, WRITE 64 KiB, MTU 1024", "ib_write_bw -s 65536 -m 1024", 3, "MiB/s", False, 300, 600),
    ("bandwidth, WRITE 64 KiB, MTU 4096", "ib_write_bw -s 65536 -m 4096", 3, "MiB/s", False, 300, 600),
    ("bandwidth, SEND 64 KiB, MTU 4096", "ib_send_bw -s 65536 -m 4096", 3, "MiB/s", False, 300, 600),
    ("rate, WRITE 8 B", "ib_write_bw -s 8", 4, "million/s", False, 20000, 40000),
    ("latency, SEND 8 B, typical", "ib_send_lat -s 8", 4, "us", True, 1000, 2000),
    ("latency, WRITE 8 B, typical", "ib_write_lat -s 8", 4, "us", True, 1000, 2000),
)


class Unfinished(Exception):
    """A program that did not come to a figure; the text says why."""


def figures(output):
    """The line of numbers that perftest prints."""
    lines = [line.split() for line in output.splitlines() if re.match(r"^\s*\d+\s+\d+\s", line)]
    return [float(word) for word in lines[-1]] if lines else None


def typical(runs, *how, column):
    """The median of so many runs. perftest tells 0 or infinity where it could not find out how fast the processor's clock
    is, which happens where the host is busy: that is no figure."""
    told = (measure(*how)[column] for _ in range(3 * runs))
    found = list(itertools.islice((figure for figure in told if 0 < figure < math.inf), runs))
    if not found:
        raise Unfinished(f"{how[1]}: perftest has not found the speed of the clock")
    return statistics.median(found)


def measure(machine, command, prefix, device, index, iterations):
    run = f"{prefix} {command} -F -n {iterations} -d {device} -x {index}"
    # The server listens within a minute, or the client says that it does not.
    script = (f"timeout {PATIENCE} {run} >/tmp/server.log 2>&1 & server=$!; exec 9<> <(:)\n"
              "for i in {1..300}; do [[ $(</proc/net/tcp)$(</proc/net/tcp6) =~ :4853\\ [0-9A-F:]+\\ 0A ]] && break; read -r -t 0.2 -u 9; done\n"
              f"timeout {PATIENCE} {run} {ADDRESS}; status=$?; kill $server; wait $server; (( status )) && tail -n 4 /tmp/server.log; exit $status")
    status, output = machine.run(script, 2 * PATIENCE)
    found = figures(output)
    if status != 0 or not found:
        raise Unfinished(f"{run}: ended with {status}: {output[-600:]}")
    return found


def main():
    parser = argparse.ArgumentParser(description="perftest on soft-RoCE and on the drop-in inside one machine")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target" / "release", help="folder of the softrnic command")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target" / "kernel-peer", help="folder of the kernel")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="take the median of so many runs of each")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only measurements whose name has this text")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the results to this file as well")
    options = parser.parse_args()
    softrnic = options.bin.resolve() / "softrnic"
    if not softrnic.exists():
        say(f"speed: there is no {softrnic}: cargo build --release -p softrnic -p softrnic-cabi -p softrnic-sysfs-shim")
        return 3
    ours = f"env SOFTRNIC_PORT={PORT} {softrnic} run -d {ADDRESS} --"
    lines = ["| measurement | unit | soft-RoCE | softrnic | ratio | goal |", "|---|---|---|---|---|---|"]
    chosen = [row for row in MEASUREMENTS if options.filter in row[0]]
    missed = 0
    end_in_order()
    try:
        prepare(options.cache)
        with tempfile.TemporaryDirectory(prefix="softrnic-speed-") as folder:
            machine = Machine(options.cache, pathlib.Path(folder) / "jobs", [f"{ADDRESS}/24"], cpus=2)
            try:
                kernel = machine.wait_ready()
                say(f"speed: Linux {kernel} is ready")
                for name, command, column, unit, less, theirs_n, ours_n in chosen:
                    try:
                        theirs = typical(options.runs, machine, command, "", "rxe0", 1, theirs_n, column=column)
                        mine = typical(options.runs, machine, command, ours, "softrnic0", 0, ours_n, column=column)
                    except Unfinished as why:
                        say(f"speed: {name}: {why}")
                        lines.append(f"| {name} | {unit} | | | | no figure |")
                        missed += 1
                        continue
                    ratio = theirs / mine if less else mine / theirs
                    missed += ratio < GOAL
                    lines.append(f"| {name} | {unit} | {theirs:g} | {mine:g} | {ratio:.1f} | {'met' if ratio >= GOAL else 'MISSED'} |")
                    say(lines[-1])
            finally:
                machine.stop()
    except Unavailable as why:
        say(f"speed: cannot be run here: {why}")
        return 3
    print("\n".join(lines))
    print(f"{len(chosen) - missed} of {len(chosen)} met the goal of {GOAL:g} times")
    if options.markdown:
        options.markdown.write_text("\n".join([
            f"# softrnic beside soft-RoCE of Linux {kernel}", "",
            f"{time.strftime('%Y-%m-%d')}, one machine of QEMU without hardware virtualisation, both programs in it. Made by",
            "`tools/kernel-peer/speed.py`; only the ratios mean something.", "", *lines, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
