#!/usr/bin/env python3
"""softrnic against a kernel's soft-RoCE: interop.py [--quick] [--filter TEXT] [--bin FOLDER] [--markdown FILE] [--list]

Boots Debian's kernel in QEMU without hardware virtualisation (`prepare.sh` makes it from packages), joins it to a network
namespace of this host by a tap, and runs programs between softrnic here and the kernel's device there, in both directions.
Every frame's ICRC is checked, and a dissector is asked. The exit status is 0 when all went well, 1 when something did
not, 3 when it cannot be run here.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import network  # noqa: E402
from capture import Wire  # noqa: E402
from ends import Guest, Host  # noqa: E402
from machine import Machine, Unavailable, end_in_order, prepare, say  # noqa: E402
from managed import managed_pairings  # noqa: E402
from pairings import all_pairings, run  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNAVAILABLE = 3
NOT_RUN = "not run for want of time"


def arguments():
    parser = argparse.ArgumentParser(description="softrnic against a kernel's soft-RoCE")
    parser.add_argument("--quick", action="store_true", help="a few pairings of each kind, about four minutes")
    parser.add_argument("--filter", action="append", default=[], metavar="TEXT",
                        help="only pairings whose title has this text; may be repeated")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target" / "debug", help="folder of the softrnic command")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target" / "kernel-peer", help="folder of the kernel")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the results to this file as well")
    parser.add_argument("--minutes", type=float, default=120, help="start no pairing after so many; what was not run is said")
    parser.add_argument("--list", action="store_true", help="show the pairings and end")
    return parser.parse_args()


def table(results):
    """Rows of a Markdown table: a line for each program, a column for each direction and family."""
    columns = [(direction, family) for direction in ("out", "in") for family in ("v4", "v6")]
    rows = {}
    for pairing, verdict in results:
        rows.setdefault(f"{pairing.group} {pairing.name}".strip(), {})[pairing.direction, pairing.family] = verdict
    lines = ["| program | softrnic asks, IPv4 | IPv6 | soft-RoCE asks, IPv4 | IPv6 |", "|---|---|---|---|---|"]
    for name, verdicts in rows.items():
        cells = ["" if (verdict := verdicts.get(column, "")) == "" else verdict or "good" for column in columns]
        lines.append(f"| {name} | " + " | ".join({"": "", "good": "good", NOT_RUN: "not run"}.get(cell, "FAILED") for cell in cells) + " |")
    return lines


def play(chosen, machine, wire, options, folder):
    softrnic = options.bin / "softrnic"
    host, guest = Host(softrnic, folder), Guest(softrnic, machine)
    results, spans, frames = [], [], 0
    end = time.monotonic() + 60 * options.minutes
    for pairing in chosen:
        if time.monotonic() > end:
            results.append((pairing, NOT_RUN))
            continue
        started = time.monotonic()
        verdict = run(pairing, host, guest)
        roce, wrong, numbers = wire.news()
        frames += roce
        spans.append((numbers, pairing))
        if verdict is None and wrong:
            verdict = f"ICRC of frames {wrong[:5]} is wrong"
        if verdict is None and pairing.judge_messages:
            own = host.address(pairing.family), guest.address(pairing.family)
            client, server = own if pairing.direction == "out" else own[::-1]
            names = {client: "client", server: "server"}
            verdict = pairing.judge_messages([(names.get(who, who), message) for who, message in wire.messages])
        if verdict is None and roce == 0:
            verdict = "no frame of RoCE passed"
        results.append((pairing, verdict))
        say(f"{'good  ' if verdict is None else 'FAILED'} {pairing.title()} ({roce} frames, {time.monotonic() - started:.0f} s)"
            + (f"\n         {verdict}" if verdict else ""))
    complaints = wire.complaints()
    for number, text in (complaints or {}).items():
        owner = next((pairing for numbers, pairing in spans if number in numbers), None)
        for index, (pairing, verdict) in enumerate(results):
            if pairing is owner and verdict is None:  # the first complaint stands for others
                say(f"FAILED {pairing.title()}: the dissector, frame {number}: {text}")
                results[index] = (pairing, f"the dissector, frame {number}: {text}")
    return results, frames, complaints is not None


def main():
    options = arguments()
    chosen = [pairing for pairing in all_pairings() + managed_pairings()
              if any(text in pairing.title() for text in options.filter or [""]) and (pairing.quick or not options.quick)]
    # Those of every kind first: a run that is cut short has seen all kinds.
    chosen.sort(key=lambda pairing: not pairing.quick)
    if options.list:
        print("\n".join(pairing.title() for pairing in chosen))
        return 0
    options.bin = options.bin.resolve()
    if not (options.bin / "softrnic").exists():
        say(f"interop: there is no {options.bin / 'softrnic'}: cargo build -p softrnic -p softrnic-cabi -p softrnic-sysfs-shim; "
            "cargo build -p softrnic-verbs --example cm_echo")
        return UNAVAILABLE
    started = time.monotonic()
    end_in_order()
    try:
        prepare(options.cache)
        network.enter()
        with tempfile.TemporaryDirectory(prefix="softrnic-interop-") as folder:
            machine = Machine(options.cache, pathlib.Path(folder) / "jobs", network.machine_addresses(), tap=network.TAP,
                              dump=pathlib.Path(folder) / "wire.pcap")
            try:
                kernel = machine.wait_ready()
                say(f"interop: Linux {kernel} is ready after {time.monotonic() - started:.0f} s")
                results, frames, dissected = play(chosen, machine, Wire(machine.dump), options, pathlib.Path(folder))
            finally:
                machine.stop()
    except Unavailable as why:
        say(f"interop: cannot be run here: {why}")
        return UNAVAILABLE
    bad = [pairing for pairing, verdict in results if verdict and verdict is not NOT_RUN]
    ran = [pairing for pairing, verdict in results if verdict is not NOT_RUN]
    lines = table(results)
    seconds = time.monotonic() - started
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    summary = (f"{len(ran) - len(bad)} of {len(ran)} pairings good, {len(results) - len(ran)} not run; {frames} frames of RoCE, every ICRC checked"
               + (", no complaint of tshark's" if dissected and not bad else "" if dissected else "; tshark is not there"))
    print("\n".join([*lines, "", summary]))
    if options.markdown:
        failed = [f"* {pairing.title()}: {verdict}" for pairing, verdict in results if verdict and verdict is not NOT_RUN]
        head = [f"# Interoperation with soft-RoCE of Linux {kernel}", "",
                f"{time.strftime('%Y-%m-%d')}, commit {commit}, {seconds:.0f} s. Made by `tools/kernel-peer/interop.py`.", "",
                summary + ".", ""]
        options.markdown.write_text("\n".join([*head, *lines, *([""] + failed if failed else []), ""]))
    print(f"{len(ran) - len(bad)} passed, {len(bad)} failed, {len(results) - len(ran)} skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
