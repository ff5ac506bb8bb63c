#!/usr/bin/env python3
"""A page about a device from its results: verdicts.py TITLE DEVIATIONS.toml RESULTS.json... >docs/devices/NAME.md

Results are what `softrnic conform --results` has written: over the verbs (`--backend hardware`), from the wire (`--peer`).
A case that is not applicable in one of them counts by the other.
"""

import collections
import json
import sys
import tomllib


def matches(pattern, case):
    return case.startswith(pattern[:-1]) if pattern.endswith("*") else case == pattern or case.startswith(pattern + "/")


def main():
    title, deviations, *files = sys.argv[1:]
    documents = [json.load(open(file)) for file in files]
    # The first form of result files had one run, and no envelope.
    reports = [run for document in documents for run in document.get("runs", [document])]
    results = {}
    for report in reports:
        for result in report["results"]:
            known = results.get(result["name"])
            if known is None or known["status"] == "not-applicable":
                results[result["name"]] = result
    with open(deviations, "rb") as file:
        declared = tomllib.load(file).get("deviation", [])
    families = collections.defaultdict(collections.Counter)
    wrong = {}
    for result in results.values():
        status = result["status"]
        if status in ("fail", "deviation"):
            wrong[result["name"]] = result["message"]
        families[result["name"].split("/")[0]][status if status != "fail" else "deviation"] += 1
    print(f"# {title}\n")
    judged = ", ".join(f"{report['device']} ({len(report['results'])} cases)" for report in reports)
    print(f"Judged by `softrnic conform`: {judged}. Made by `tools/kernel-peer/verdicts.py`.")
    print("Not applicable is what the device does not have, and what was not asked from the wire.\n")
    print("| family | as the rules say | otherwise | not applicable |\n|---|---|---|---|")
    total = collections.Counter()
    for family, counts in families.items():
        total += counts
        print(f"| {family} | {counts['pass']} | {counts['deviation']} | {counts['not-applicable']} |")
    print(f"| all | {total['pass']} | {total['deviation']} | {total['not-applicable']} |\n")
    print("## Where it differs\n")
    for deviation in declared:
        patterns = deviation["cases"] if isinstance(deviation["cases"], list) else [deviation["cases"]]
        cases = [name for name in wrong if any(matches(pattern, name) for pattern in patterns)]
        if not cases:
            continue
        rules = sorted({"/".join(name.split("/")[:2]) for name in cases})
        difference = deviation["difference"][0].upper() + deviation["difference"][1:]
        print(f"* {difference}. {deviation['reason'][0].upper() + deviation['reason'][1:]}. "
              f"({len(cases)} {'case' if len(cases) == 1 else 'cases'}; rules: {', '.join(f'`{rule}`' for rule in rules)})")
        for name in cases:
            wrong.pop(name)
    if wrong:
        print("\n## Not declared\n")
        for name, message in wrong.items():
            print(f"* `{name}`: {message}")


main()
