#!/usr/bin/env python3
"""A page about a device from its results: verdicts.py TITLE DEVIATIONS.toml RESULTS.json... >docs/devices/NAME.md

Results are what `softrnic conform --results` has written: over the verbs (`--backend hardware`), from the wire (`--peer`),
all cases in one file or in several. A case that is not applicable in one of them counts by the other.
"""

import collections
import json
import sys
import tomllib

WRONG = ("fail", "deviation")
# Whose verdict counts where two views have one: what is wrong in either is wrong.
WEIGHT = {"not-applicable": 0, "pass": 1, "stale-deviation": 1, "deviation": 2, "fail": 2}


def matches(pattern, case):
    return case.startswith(pattern[:-1]) if pattern.endswith("*") else case == pattern or case.startswith(pattern + "/")


def merged(reports):
    """The result of each case."""
    results = {}
    for report in reports:
        for result in report["results"]:
            known = results.get(result["name"])
            if known is None or WEIGHT[known["status"]] < WEIGHT[result["status"]]:
                results[result["name"]] = result
    return results


def families(results):
    """Rows of a Markdown table."""
    counted = collections.defaultdict(collections.Counter)
    for result in results.values():
        kind = "wrong" if result["status"] in WRONG else "none" if result["status"] == "not-applicable" else "right"
        counted[result["name"].split("/")[0]][kind] += 1
    counted["all"] = sum(counted.values(), collections.Counter())
    return ["| family | as the rules say | otherwise | not applicable |", "|---|---|---|---|",
            *(f"| {family} | {counts['right']} | {counts['wrong']} | {counts['none']} |" for family, counts in counted.items())]


def differences(declared, wrong):
    """A line for each declared deviation that happened; its cases are taken out of `wrong`."""
    for deviation in declared:
        patterns = deviation["cases"] if isinstance(deviation["cases"], list) else [deviation["cases"]]
        cases = [name for name in wrong if any(matches(pattern, name) for pattern in patterns)]
        if not cases:
            continue
        rules = sorted({"/".join(name.split("/")[:2]) for name in cases})
        yield (f"* {sentence(deviation['difference'])} {sentence(deviation['reason'])} "
               f"({len(cases)} {'case' if len(cases) == 1 else 'cases'}; rules: {', '.join(f'`{rule}`' for rule in rules)})")
        for name in cases:
            wrong.pop(name)


def sentence(text):
    """A name in code or of a function begins as it is written."""
    first = text.split(maxsplit=1)[0]
    begun = text if "_" in first or "`" in first else text[0].upper() + text[1:]
    return begun if begun.endswith(".") else begun + "."


def page(title, deviations, files):
    """The whole as Markdown."""
    documents = [json.loads(open(file).read()) for file in files]
    # The first form of result files had one run, and no envelope.
    reports = [run for document in documents for run in document.get("runs", [document])]
    results = merged(reports)
    with open(deviations, "rb") as file:
        declared = tomllib.load(file).get("deviation", [])
    judged = collections.Counter()
    for report in reports:
        judged[report["device"]] += len(report["results"])
    wrong = {name: result["message"] for name, result in results.items() if result["status"] in WRONG}
    told = list(differences(declared, wrong))
    return "\n".join([
        f"# {title}", "",
        f"Judged by `softrnic conform`: {', '.join(f'{device} ({count} cases)' for device, count in judged.items())}."
        " Made by `tools/kernel-peer/judge.py`.",
        "Not applicable is what the device does not have, and what was not asked from the wire. Reasons that tell of a",
        "driver's inside are conclusions from what it did, not from its source.", "",
        *families(results), "", "## Where it differs", "", *told,
        *(["", "## Not declared", "", *(f"* `{name}`: {message}" for name, message in wrong.items())] if wrong else []), ""])


if __name__ == "__main__":
    print(page(sys.argv[1], sys.argv[2], sys.argv[3:]), end="")
