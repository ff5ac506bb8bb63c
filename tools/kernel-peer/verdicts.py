#!/usr/bin/env python3
"""A page about a device from its results: verdicts.py TITLE RESULTS.json DEVIATIONS.toml >docs/devices/NAME.md

RESULTS.json is what `softrnic conform --backend hardware --results` has written.
"""

import collections
import json
import sys
import tomllib


def matches(pattern, case):
    return case.startswith(pattern[:-1]) if pattern.endswith("*") else case == pattern or case.startswith(pattern + "/")


def main():
    title, results, deviations = sys.argv[1:]
    with open(results) as file:
        report = json.load(file)
    with open(deviations, "rb") as file:
        declared = tomllib.load(file).get("deviation", [])
    families = collections.defaultdict(collections.Counter)
    wrong = {}
    for result in report["results"]:
        status = result["status"]
        if status in ("fail", "deviation"):
            wrong[result["name"]] = result["message"]
        families[result["name"].split("/")[0]][status if status != "fail" else "deviation"] += 1
    print(f"# {title}\n")
    print(f"Judged by `softrnic conform --backend hardware`; made by `tools/kernel-peer/verdicts.py`. Device: {report['device']}.")
    print("What only packets can ask is not applicable here: a device is judged from the wire by `conform --peer`.\n")
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
