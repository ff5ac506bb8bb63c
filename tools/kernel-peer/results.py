"""Results of pairings: kept in a file as they come, so that a run goes on where another one ended; a page of them."""

import json
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commit():
    told = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    return told.stdout.strip() or "unknown"


class Results:
    """By title of a pairing: why it failed (None: it is good), frames, seconds, day, commit, version of the kernel."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.known = json.loads(self.path.read_text()) if self.path.exists() else {}

    def forget(self, pairings):
        for pairing in pairings:
            self.known.pop(pairing.title(), None)

    def is_good(self, pairing):
        known = self.known.get(pairing.title())
        return known is not None and known["failure"] is None

    def put(self, pairing, failure, frames, seconds, kernel):
        self.known[pairing.title()] = {"failure": failure, "frames": frames, "seconds": round(seconds), "kernel": kernel,
                                       "commit": commit(), "day": time.strftime("%Y-%m-%d")}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.known, indent=1))
        os.replace(new, self.path)

    def of(self, pairings):
        """What is known of those; None where nothing is."""
        return [(pairing, self.known.get(pairing.title())) for pairing in pairings]


def cell(result):
    return "not run" if result is None else "good" if result["failure"] is None else "FAILED"


def table(results):
    """Rows of a Markdown table: a line for each program, a column for each direction and family."""
    columns = [(direction, family) for direction in ("out", "in") for family in ("v4", "v6")]
    rows = {}
    for pairing, result in results:
        rows.setdefault(f"{pairing.group} {pairing.name}".strip(), {})[pairing.direction, pairing.family] = cell(result)
    return ["| program | softrnic asks, IPv4 | IPv6 | soft-RoCE asks, IPv4 | IPv6 |", "|---|---|---|---|---|",
            *(f"| {name} | " + " | ".join(cells.get(column, "") for column in columns) + " |" for name, cells in rows.items())]


def counts(results):
    """How many are good, failed, not run."""
    cells = [cell(result) for _, result in results]
    return tuple(cells.count(kind) for kind in ("good", "FAILED", "not run"))


def summary(results, dissected):
    good, failed, missing = counts(results)
    frames = sum(result["frames"] for _, result in results if result)
    return (f"{good} of {good + failed} pairings good, {missing} not run; {frames} frames of RoCE, every ICRC checked"
            + (", every capture shown to tshark" if dissected else "; tshark is not there"))


def several(values):
    return ", ".join(sorted(set(values)))


def page(results, dissected):
    """The whole as Markdown."""
    ran = [result for _, result in results if result]
    seconds = sum(result["seconds"] for result in ran)
    failures = [f"* {pairing.title()}: {result['failure']}" for pairing, result in results if result and result["failure"]]
    return "\n".join([
        f"# Interoperation with soft-RoCE of Linux {several(result['kernel'] for result in ran)}", "",
        f"{several(result['day'] for result in ran)}, commit {several(result['commit'] for result in ran)}, {seconds} s of pairings.",
        "Made by `tools/kernel-peer/interop.py --markdown FILE`.", "", summary(results, dissected) + ".", "",
        *table(results), *([""] + failures if failures else []), ""])
