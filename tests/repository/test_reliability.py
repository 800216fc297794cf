"""docs/reliability.md names a test for each attack and fault, and has the figures of docs/reliability.json."""

from __future__ import annotations

import ast
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs/reliability.md").read_text()


class Row(NamedTuple):
    of: str
    what: str
    tests: str
    runs: str

    def names(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.tests)


ROWS = [Row(*cells) for cells in re.findall(r"(?m)^\| ([AF]\d+) \| (.*?) \| (.*?) \| (.*?) \|$", PAGE)]


@functools.cache
def named_in(path: pathlib.Path) -> dict[str, bool]:
    """Names of pytest's, as it writes them, and whether only scripts/test full runs them."""
    found = {}

    def look(nodes: list[ast.stmt], within: str = "") -> None:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                look(node.body, f"{node.name}::")
            elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[within + node.name] = "pytest.mark.full" in map(ast.unparse, node.decorator_list)
    look(ast.parse(path.read_text()).body)
    return found


@functools.cache
def units_in(path: pathlib.Path) -> list[str]:
    """As scripts/test finds them."""
    return [f"{suite}.{name}" for suite, name in re.findall(
        r"(?m)^TEST(?:_F|_P)?\((\w+), *(\w+)\)", path.read_text())]


def is_full(name: str) -> bool:
    """Fails where there is no such test."""
    file, _, test = name.partition("::")
    if test:
        path = TESTS / ("" if "/" in file else "integration") / file
        return named_in(path)[test]
    file, _, test = name.partition(" ")
    assert not test or test in units_in(TESTS / file)
    assert (TESTS / file).exists() and (test or file.startswith("fuzz/fuzz_"))
    return False


def test_every_attack_and_fault_has_a_row():
    assert [row.of for row in ROWS] == [*(f"A{n}" for n in range(1, 26)), *(f"F{n}" for n in range(1, 31))]
    assert all(row.names() or "*Not covered:*" in row.tests for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.of)
def test_its_tests_are_there(row):
    full = [is_full(name) for name in row.names()]
    assert row.runs.startswith("full" if all(full) else "each")


def test_the_tests_of_the_text_are_there():
    named = re.findall(r"`(test_\w+\.py::[\w:]+)`", PAGE.split("\n## Attacks\n")[0])
    assert named and not any(map(is_full, named))


def test_what_is_not_covered_is_listed():
    listed = re.findall(r"(?m)^- ([AF]\d+): ", PAGE.split("\n## What is not covered\n")[1])
    assert listed == [row.of for row in ROWS if "*Not covered:*" in row.tests]


@pytest.mark.parametrize("script, some", [
    ("soak", {"--seed", "--record"}), ("fuzz", {"--minutes"}), ("test", {"--piece"})])
def test_the_scripts_know_what_the_page_has_them_do(script: str, some: set[str]):
    usage = (ROOT / "scripts" / script).read_text().split("\n\n")[0]
    named = re.findall(r"--\w+", "".join(re.findall(rf"(?m)^scripts/{script} .*$", PAGE)))
    assert some <= {*named} and all(option in usage for option in named)


@pytest.mark.parametrize("script, words, reason", [
    ("soak", ["--hours", "1"], "unknown argument '--hours'"), ("fuzz", ["--hours", "1"], "unknown argument '--hours'"),
    ("fuzz", ["--minutes"], "--minutes needs a number"), ("fuzz", ["nothing"], "there is no target 'nothing'")])
def test_what_the_scripts_do_not_know(script: str, words: list[str], reason: str):
    done = subprocess.run([ROOT / "scripts" / script, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and reason in done.stderr


# ---- scripts/reliability

def reliability(root: pathlib.Path, *words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, ROOT / "scripts/reliability", "--root", root, *words],
                          capture_output=True, text=True, timeout=60)


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/reliability.md").write_text(PAGE)
    return tmp_path


FUZZ = {"kind": "fuzz", "commit": "0123456789ab", "date": "2026-11-30", "minutes": 60, "findings": 0,
        "target": "insert", "inputs": 10**9}
SOAK = {"kind": "soak", "commit": "0123456789ab", "date": "2026-11-30", "minutes": 20.4, "findings": 0,
        "server": "6.0.5", "seed": "7", "faults": {"cut": 1000, "clock": 234}, "documents": 10_000_000,
        "planted": ["twice"], "secured": True}


def add(tree: pathlib.Path, run: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    (tree / "run.json").write_text(json.dumps(run))
    return reliability(tree, "add", tree / "run.json")


def test_the_page_has_the_figures_of_the_record(tree):
    """Each run has what its kind needs, and the page is what the script makes of them."""
    if (record := ROOT / "docs/reliability.json").exists():
        shutil.copy(record, tree / "docs")
    done = reliability(tree, "page")
    assert done.returncode == 0, done.stderr
    assert (tree / "docs/reliability.md").read_text() == PAGE


def test_runs_are_added_up(tree):
    newer = {**SOAK, "commit": "ba9876543210", "date": "2026-12-01", "findings": 1}
    for run in (SOAK, FUZZ, newer):
        assert add(tree, run).returncode == 0
    assert json.loads((tree / "docs/reliability.json").read_text()) == [SOAK, FUZZ, newer]
    figures = re.findall(r"(?m)^\| (?:soak|fuzz) .*$", (tree / "docs/reliability.md").read_text())
    assert figures == [
        "| soak | 2 | 41 | 2,468 | 20,000,000 |  | 1 | ba987654 | 2026-12-01 |",
        "| fuzz | 1 | 60 |  |  | 1,000,000,000 | 0 | 01234567 | 2026-11-30 |"]


@pytest.mark.parametrize("run, mistake", [
    ([], "a run is an object"), ({**SOAK, "kind": "walk"}, "one of soak, "),
    ({key: value for key, value in SOAK.items() if key != "planted"}, "planted is missing"),
    ({**SOAK, "commit": ""}, "commit is ''"), ({**SOAK, "documents": "many"}, "documents is 'many'"),
    ({**SOAK, "faults": ["cut"]}, "faults is ['cut']"), ({**SOAK, "faults": {"cut": "once"}}, "faults is not"),
    ({**FUZZ, "date": "today"}, "date is not")])
def test_what_is_no_run_is_refused(tree, run, mistake):
    done = add(tree, run)
    assert done.returncode == 1 and "run.json: run 1: " in done.stderr and mistake in done.stderr
    assert not (tree / "docs/reliability.json").exists()
    assert (tree / "docs/reliability.md").read_text() == PAGE
