"""Adds up what scripts/test ran: a table of the parts, the ten slowest cases, the files that take longest,
and as the last line "N passed, N failed, N skipped".

The seconds of all files are kept in FILES, each as of the last run that had it: a line has its part, the
seconds, the cases and the file, with tabs between.

Usage: test_totals.py DIRECTORY FILES. Reads below the directory, or, of pieces of a run, below directories in
it that have numbers for names: *.xml (JUnit, of ctest, GoogleTest and
pytest), *.checks (a line for each single check: outcome, name, seconds), and PART.part (its seconds and its
outcome, which may be "failed" with or without a test saying so). Fails if nothing passed, if anything failed, and under
CI=true if anything was skipped.
"""

import collections
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ET
from typing import NamedTuple


class Case(NamedTuple):
    part: str
    name: str
    seconds: float
    outcome: str  # passed, failed or skipped
    message: str = ""
    file: str = ""  # from the root of the repository


def file_of(case: ET.Element) -> str:
    """GoogleTest names it, as it was where that was compiled; pytest's names of classes begin with it."""
    if found := re.search(r"\btests/.*", case.get("file", "")):
        return found[0]
    found = re.match(r"(\w+)\.(test_\w+)", case.get("classname", ""))
    return f"tests/{found[1]}/{found[2]}.py" if found else ""


def part_of(path: pathlib.Path) -> str:
    """By the first name that is not the number of a piece."""
    return next(name for name in path.parts if not name.isdigit()).split(".")[0]


def cases_of(results: pathlib.Path) -> list[Case]:
    cases = []
    for path in sorted(results.rglob("*.xml")):
        part = part_of(path.relative_to(results))
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
            cases.append(Case(part, name, float(case.get("time") or 0), outcome, message,
                              file_of(case)))
    for path in sorted(results.rglob("*.checks")):
        for line in path.read_text().splitlines():
            outcome, name, seconds = line.split()
            cases.append(Case(path.stem, name, float(seconds), outcome))
    return cases


Row = tuple[str, float, int, str]  # part, seconds, cases, file


def files_of(cases: list[Case]) -> list[Row]:
    """Those that take longest first."""
    seconds: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for case in cases:
        if case.file:
            seconds[case.part, case.file].append(case.seconds)
    rows = [(part, sum(each), len(each), file) for (part, file), each in seconds.items()]
    return sorted(rows, key=lambda row: -row[1])


def keep(files: pathlib.Path, rows: list[Row]) -> None:
    """Beside those of files that did not run this time, as long as these are there."""
    new = {(part, file) for part, _, _, file in rows}
    for line in files.read_text().splitlines() if files.exists() else []:
        part, seconds, count, file = line.split("\t")
        if (part, file) not in new and pathlib.Path(file).exists():
            rows.append((part, float(seconds), int(count), file))
    files.write_text("".join(f"{part}\t{seconds:.1f}\t{count}\t{file}\n"
                             for part, seconds, count, file in sorted(rows, key=lambda row: -row[1])))


def main(results: pathlib.Path, files: pathlib.Path) -> bool:
    cases = cases_of(results)
    count = collections.Counter(case.outcome for case in cases)
    print(f"{'part':<12} {'seconds':>8} {'cases':>7}  result")
    parts: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(results.rglob("*.part"), key=lambda path: path.stat().st_mtime_ns):
        seconds, outcome = path.read_text().split()
        parts.setdefault(path.stem, []).append((int(seconds), outcome))
    for part, pieces in parts.items():
        own = [case for case in cases if case.part == part]
        outcome = "failed" if any(each == "failed" for _, each in pieces) else "passed"
        print(f"{part:<12} {sum(each for each, _ in pieces):>8} {len(own):>7}  {outcome}")
        # One that failed without a failing test, as when it does not build, counts as a case.
        count["failed"] += outcome == "failed" and not any(c.outcome == "failed" for c in own)
    print("\nthe slowest cases, in seconds:")
    for case in sorted(cases, key=lambda case: -case.seconds)[:10]:
        print(f"{case.seconds:8.1f}  {case.part}: {case.name}")
    rows = files_of(cases)
    print(f"\nthe files that take longest, in seconds (all of them: {files}):")
    for part, seconds, number, file in rows[:20]:
        print(f"{seconds:8.1f} {number:6}  {part}: {file}")
    keep(files, rows)
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
    sys.exit(not main(*map(pathlib.Path, sys.argv[1:])))
