#!/usr/bin/env python3
"""softrnic's judge on a kernel's soft-RoCE: judge.py [--from verbs|wire] [--family NAME] [--continue] [--bin FOLDER] [--page FILE]

Over the verbs, `softrnic conform --backend hardware -d rxe0` runs in the machine; from the wire, `softrnic conform --peer` runs
here against its helper in the machine. Each family of cases is a run of its own, whose results are kept in the folder
`judge` of the cache; `--continue` runs the families that have none. What fails or is declared and does not happen is
told, and the exit status is 1 then; 3 when it cannot be run here. `--page` writes the page about the device.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import network  # noqa: E402
from machine import Machine, Unavailable, end_in_order, prepare, say  # noqa: E402
from verdicts import page  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVICE = "rxe0"
DECLARED = ROOT / "conformance" / "deviations" / "rxe-6.1.toml"
UNAVAILABLE = 3
HELPER_PORT = 18517
# What a family may take: on an emulated processor, of a host that others use.
PATIENCE = 3000
# What a case may take.
LIMIT = "600s"
VIEWS = ("verbs", "wire")


def arguments():
    parser = argparse.ArgumentParser(description="softrnic's judge on a kernel's soft-RoCE")
    parser.add_argument("--from", dest="view", choices=VIEWS, action="append", help="how it is judged; both unless said")
    parser.add_argument("--family", action="append", metavar="NAME", help="only these; may be repeated")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="only families of which no results are kept")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target" / "release", help="folder of the softrnic command")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target" / "kernel-peer", help="folder of the kernel")
    parser.add_argument("--page", type=pathlib.Path, help="write the page of all results that are kept to this file")
    return parser.parse_args()


def families(softrnic):
    """All of them, by the judge."""
    told = json.loads(subprocess.run([softrnic, "--json", "conform", "list"], check=True, stdout=subprocess.PIPE).stdout)
    return list(dict.fromkeys(case["case"].split("/")[0] for case in told["tables"]["cases"]))


class Judge:
    """One machine with the device, and whoever asks it."""

    def __init__(self, machine, softrnic, kept):
        self.machine, self.softrnic, self.kept = machine, softrnic, kept
        self.helper = None

    def file(self, view, family):
        return self.kept / f"{view}-{family}.json"

    def run(self, view, family):
        """Judges a family; what the judge says, and whether all is as declared."""
        words = ["conform", "--filter", family, "--limit", LIMIT, "--deviations", str(DECLARED)]
        status, output = self.over_verbs(words, family) if view == "verbs" else self.from_wire(words, family)
        return status == 0, output

    def over_verbs(self, words, family):
        result = self.machine.jobs / "result.json"
        result.unlink(missing_ok=True)
        command = [self.softrnic, *words, "--backend", "hardware", "-d", DEVICE, "--results", "/tmp/jobs/result.json"]
        status, output = self.machine.run(" ".join(str(word) for word in command), PATIENCE)
        if result.exists():
            result.replace(self.file("verbs", family))
        return status, output

    def from_wire(self, words, family):
        self.await_helper()
        own, peer = network.ADDRESSES["v4"]
        new = self.file("wire", "new")
        done = subprocess.run(
            [self.softrnic, *words, "--peer", f"{peer}:{HELPER_PORT}", "-d", own, "--results", new],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        if self.helper.status() is not None:
            # What it was asked last has ended it; its results are those of no device.
            console = (self.machine.jobs / "console.log").read_text(errors="replace")
            return 1, f"{done.stdout}\nthe helper ended with {self.helper.status()}: {self.helper.output()[-600:]}\n{console[-1500:]}"
        if new.exists():
            new.replace(self.file("wire", family))
        return done.returncode, done.stdout

    def await_helper(self):
        """Starts the helper, unless it runs."""
        if self.helper is not None and self.helper.status() is None:
            return
        self.helper = self.machine.start(
            f"exec {self.softrnic} conform serve --backend hardware -d {DEVICE} --bind 0.0.0.0 --listen {HELPER_PORT}")
        listens = f"[[ $(</proc/net/tcp) =~ :{HELPER_PORT:04X}\\ [0-9A-F:]+\\ 0A ]]"
        status, _ = self.machine.run(f"exec 9<> <(:); for i in {{1..400}}; do {listens} && exit 0; read -r -t 0.25 -u 9; done; exit 1", 150)
        if status != 0:
            raise Unavailable(f"the helper does not listen: {self.helper.output()}")


def main():
    options = arguments()
    softrnic = options.bin.resolve() / "softrnic"
    if not softrnic.exists():
        say(f"judge: there is no {softrnic}: cargo build --release -p softrnic")
        return UNAVAILABLE
    kept = options.cache.resolve() / "judge"
    wrong = []
    end_in_order()
    try:
        prepare(options.cache)
        network.enter()
        kept.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="softrnic-judge-") as folder:
            machine = Machine(options.cache, pathlib.Path(folder) / "jobs", network.machine_addresses(), tap=network.TAP)
            try:
                kernel = machine.wait_ready()
                say(f"judge: Linux {kernel} is ready")
                judge = Judge(machine, softrnic, kept)
                for view in options.view or VIEWS:
                    for family in options.family or families(softrnic):
                        if options.go_on and judge.file(view, family).exists():
                            continue
                        good, output = judge.run(view, family)
                        say(f"{'good  ' if good else 'FAILED'} {family}, {view}" + ("" if good else f"\n{output}"))
                        wrong += [] if good else [f"{family}, {view}"]
            finally:
                machine.stop()
    except Unavailable as why:
        say(f"judge: cannot be run here: {why}")
        return UNAVAILABLE
    if options.page:
        files = [kept / f"{view}-{family}.json" for view in VIEWS for family in families(softrnic)]
        options.page.write_text(page("soft-RoCE of Linux 6.1", DECLARED, [file for file in files if file.exists()]))
    print(f"not as declared: {', '.join(wrong)}" if wrong else "all as declared")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
