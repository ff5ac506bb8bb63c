#!/usr/bin/env python3
"""softrnic against a kernel's soft-RoCE: interop.py [--quick] [--filter TEXT] [--continue] [--bin FOLDER] [--markdown FILE] [--list]

Boots Debian's kernel in QEMU without hardware virtualisation (`prepare.sh` makes it from packages), joins it to a network
namespace of this host by a tap, and runs programs between softrnic here and the kernel's device there, in both directions.
Every frame's ICRC is checked, and a dissector is asked. Each result is kept as it comes; `--continue` runs what is not good
among them. The exit status is 0 when all went well, 1 when something did not, 3 when it cannot be run here.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import network  # noqa: E402
from capture import Wire, complaint, dissector  # noqa: E402
from ends import Guest, Host  # noqa: E402
from machine import Machine, Unavailable, end_in_order, prepare, say  # noqa: E402
from managed import managed_pairings  # noqa: E402
from pairings import all_pairings, run  # noqa: E402
from results import Results, counts, page, summary, table  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNAVAILABLE = 3


def arguments():
    parser = argparse.ArgumentParser(description="softrnic against a kernel's soft-RoCE")
    parser.add_argument("--quick", action="store_true", help="a few pairings of each kind, about four minutes")
    parser.add_argument("--filter", action="append", default=[], metavar="TEXT",
                        help="only pairings whose title has this text; may be repeated")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="run what is not good in the results that are kept")
    parser.add_argument("--results", type=pathlib.Path, help="file in which results are kept; interop.json in the cache's folder")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target" / "debug", help="folder of the softrnic command")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target" / "kernel-peer", help="folder of the kernel")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the page of all results that are known to this file")
    parser.add_argument("--minutes", type=float, default=120, help="start no pairing after so many minutes, those of the machine's start among them")
    parser.add_argument("--list", action="store_true", help="show the pairings and end")
    return parser.parse_args()


def of_every_kind_first(pairings):
    """In such an order that a run that is cut short has seen all kinds: the quick ones, of these one of each group."""
    seen, places = collections.Counter(), {}
    for pairing in pairings:
        kind = not pairing.quick, pairing.group
        places[pairing.title()] = not pairing.quick, seen[kind]
        seen[kind] += 1
    return sorted(pairings, key=lambda pairing: places[pairing.title()])


class Run:
    """One machine, and what is run against it."""

    def __init__(self, machine, kernel, softrnic, folder, results):
        self.folder, self.kernel, self.results = pathlib.Path(folder), kernel, results
        self.host, self.guest = Host(softrnic, folder), Guest(softrnic, machine)
        self.wire = Wire(machine.dump)

    def play(self, chosen, end):
        """Runs them, but begins none after that time."""
        # The dissector looks at one capture while the next pairing runs.
        with concurrent.futures.ThreadPoolExecutor(1) as aside:
            looking = []
            for number, pairing in enumerate(chosen):
                if time.monotonic() > end:
                    say(f"interop: {len(chosen) - number} are not run for want of time")
                    break
                capture = self.folder / f"pairing-{number}.pcap"
                looking.append(aside.submit(self.finish, *self.exchange(pairing, capture), capture))
                while looking and looking[0].done():
                    looking.pop(0).result()
            for one in looking:
                one.result()

    def exchange(self, pairing, capture):
        """One exchange: the pairing, why it failed, frames, seconds."""
        started = time.monotonic()
        failure = run(pairing, self.host, self.guest, self.wire)
        passed = self.wire.news(capture)
        if failure is None and passed.wrong:
            failure = f"ICRC of frames {passed.wrong[:5]} is wrong"
        if failure is None and passed.frames == 0:
            failure = "no frame of RoCE passed"
        if failure is None and pairing.judge_messages:
            own = self.host.address(pairing.family), self.guest.address(pairing.family)
            client, server = own if pairing.direction == "out" else own[::-1]
            names = {client: "client", server: "server"}
            failure = pairing.judge_messages([(names.get(who, who), message) for who, message in passed.messages])
        return pairing, failure, passed.frames, time.monotonic() - started

    def finish(self, pairing, failure, frames, seconds, capture):
        """Asks the dissector, keeps the result, says it."""
        if failure is None and dissector():
            failure = complaint(capture)
        capture.unlink()
        self.results.put(pairing, failure, frames, seconds, self.kernel)
        say(f"{'good  ' if failure is None else 'FAILED'} {pairing.title()} ({frames} frames, {seconds:.0f} s)"
            + (f"\n         {failure}" if failure else ""))


def main():
    options = arguments()
    named = [pairing for pairing in all_pairings() + managed_pairings()
             if any(text in pairing.title() for text in options.filter or [""]) and (pairing.quick or not options.quick)]
    results = Results(options.results or options.cache / "interop.json")
    if not options.go_on:
        results.forget(named)
    chosen = [pairing for pairing in named if not results.is_good(pairing)]
    chosen = of_every_kind_first(chosen)
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
                Run(machine, kernel, options.bin / "softrnic", folder, results).play(chosen, started + 60 * options.minutes)
            finally:
                machine.stop()
    except Unavailable as why:
        say(f"interop: cannot be run here: {why}")
        return UNAVAILABLE
    of_all = results.of(named)
    good, failed, missing = counts(of_all)
    print("\n".join([*table(of_all), "", summary(of_all, dissector())]))
    if options.markdown:
        options.markdown.write_text(page(of_all, dissector()))
    print(f"{good} passed, {failed} failed, {missing} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
