"""Adds up what scripts/test ran: the last line is "N passed, N failed, N skipped".

Reads below the directory given: *.xml (JUnit, of ctest, GoogleTest and pytest), *.checks (a line
for each single check), and PART.failed (a part that failed, with or without a test saying so).
Fails if nothing passed, if anything failed, and under CI=true if anything was skipped.
"""

import os
import pathlib
import sys
import xml.etree.ElementTree as ET

results = pathlib.Path(sys.argv[1])
passed = failed = skipped = 0
failed_parts = {path.stem for path in results.glob("*.failed")}

for path in sorted(results.rglob("*.xml")):
    for case in ET.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.get('classname')}.{case.get('name')}"
        if not kinds & {"failure", "error"} and case.get("name", "").startswith("unit."):
            continue  # a program of unit tests: its own file lists them
        if kinds & {"failure", "error"}:
            failed += 1
            failed_parts.discard(path.relative_to(results).parts[0].split(".")[0])
        elif "skipped" in kinds:
            skipped += 1
            print(f"skipped: {name}: {case.find('skipped').get('message', '')}")
        else:
            passed += 1

for path in results.glob("*.checks"):
    outcomes = path.read_text().split()
    passed += outcomes.count("passed")
    failed += outcomes.count("failed")
    if "failed" in outcomes:
        failed_parts.discard(path.stem)

# A part that failed without a failing test, as when it does not build, counts as one.
failed += len(failed_parts)

not_allowed = skipped if os.environ.get("CI") == "true" else 0
if not_allowed:
    print(f"under CI=true {skipped} skipped tests are a failure")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(bool(failed or not_allowed or not passed))
