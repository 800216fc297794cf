"""Adds up what scripts/test ran: a table of the parts, the ten slowest cases, and as the last line
"N passed, N failed, N skipped".

Reads below the directory given: *.xml (JUnit, of ctest, GoogleTest and pytest), *.checks (a line for
each single check: outcome, name, seconds), and PART.part (its seconds and its outcome, which may be
"failed" with or without a test saying so). Fails if nothing passed, if anything failed, and under
CI=true if anything was skipped.
"""

import collections
import os
import pathlib
import sys
import xml.etree.ElementTree as ET
from typing import NamedTuple


class Case(NamedTuple):
    part: str
    name: str
    seconds: float
    outcome: str  # passed, failed or skipped
    message: str = ""


def cases_of(results: pathlib.Path) -> list[Case]:
    cases = []
    for path in sorted(results.rglob("*.xml")):
        part = path.relative_to(results).parts[0].split(".")[0]
        for case in ET.parse(path).iter("testcase"):
            kinds = {child.tag for child in case}
            outcome, message = "passed", ""
            if kinds & {"failure", "error"}:
                outcome = "failed"
            elif case.get("name", "").startswith("unit."):
                continue  # a program of unit tests: its own file lists them
            elif "skipped" in kinds:
                outcome, message = "skipped", case.find("skipped").get("message", "")
            names = [name for name in (case.get("classname"), case.get("name")) if name]
            name = names[-1] if len(set(names)) == 1 else ".".join(names)
            cases.append(Case(part, name, float(case.get("time") or 0), outcome, message))
    for path in sorted(results.glob("*.checks")):
        for line in path.read_text().splitlines():
            outcome, name, seconds = line.split()
            cases.append(Case(path.stem, name, float(seconds), outcome))
    return cases


def main(results: pathlib.Path) -> bool:
    cases = cases_of(results)
    count = collections.Counter(case.outcome for case in cases)
    print(f"{'part':<12} {'seconds':>8} {'cases':>7}  result")
    for path in sorted(results.glob("*.part"), key=lambda path: path.stat().st_mtime_ns):
        seconds, outcome = path.read_text().split()
        own = [case for case in cases if case.part == path.stem]
        print(f"{path.stem:<12} {seconds:>8} {len(own):>7}  {outcome}")
        # One that failed without a failing test, as when it does not build, counts as a case.
        count["failed"] += outcome == "failed" and not any(c.outcome == "failed" for c in own)
    print("\nthe slowest cases, in seconds:")
    for case in sorted(cases, key=lambda case: -case.seconds)[:10]:
        print(f"{case.seconds:8.1f}  {case.part}: {case.name}")
    print()
    for case in cases:
        if case.outcome != "passed":
            print(f"{case.outcome}: {case.part}: {case.name} {case.message}".rstrip())
    not_allowed = count["skipped"] if os.environ.get("CI") == "true" else 0
    if not_allowed:
        print(f"under CI=true {not_allowed} skipped tests are a failure")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return bool(count["passed"]) and not count["failed"] and not not_allowed


if __name__ == "__main__":
    sys.exit(not main(pathlib.Path(sys.argv[1])))
