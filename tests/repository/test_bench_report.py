"""scripts/bench makes tables, a plot and pages of figures. No figure is measured here."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORT = ROOT / "tests" / "bench" / "report.py"
PAGES = ["README.md", "docs/performance.md", "src/README.md", "docs/performance.json",
         "docs/performance.svg"]

PING = {"section": "CPU per operation", "work": "ping", "unit": "us",
        "columns": {"haproxy": [10.0, 20.0, 10.0], "relay": [8.0, 8.0, 9.0], "idproxy": [9.0, 16.0, 7.0]},
        "of": "idproxy", "beside": "haproxy", "must": 0.95, "aim": 0.85, "better": "lower"}
# Of seven rounds the quartiles.
INSERT = {"section": "CPU per operation", "work": "insert", "unit": "us",
          "columns": {"haproxy": [1.0] * 7, "relay": [1.0] * 7, "idproxy": [0.5, 0.9, 0.9, 0.95, 1.0, 1.1, 1.9]},
          "of": "idproxy", "beside": "haproxy", "must": 1.0, "aim": 0.9, "better": "lower"}
MEMORY = {"section": "Memory", "work": "memory, idle connection", "unit": "KiB",
          "columns": {"haproxy": [3.2], "idproxy": [2.7]}, "of": "idproxy", "beside": "",
          "must": 2.6, "aim": 1.5, "better": "lower"}
MEMBERS = {"section": "Three members", "work": "inserts of 1", "unit": "documents/s",
           "columns": {"uuid": [1000.0], "counter": [960.0]}, "of": "counter", "beside": "uuid",
           "must": 0.95, "aim": 1.0, "better": "higher"}


def report(*words: str | pathlib.Path, given: str = "") -> str:
    done = subprocess.run([sys.executable, REPORT, *words], input=given, timeout=60, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def machine() -> dict[str, Any]:
    return json.loads(report("machine"))


def measured(machine: dict[str, Any], *rows: dict[str, Any]) -> str:
    return "".join(json.dumps(line) + "\n" for line in (machine, *rows, {"note": "All was well."}))


def cells(text: str, work: str) -> list[str]:
    (line,) = re.findall(rf"(?m)^\| {re.escape(work)} .*$", text)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_figures_are_ratios_within_a_round_or_values(machine, tmp_path):
    files = {option: tmp_path / option for option in ("json", "markdown", "svg")}
    options = [word for option, path in files.items() for word in (f"--{option}", path)]
    printed = report(*options, given=measured(machine, PING, INSERT, MEMORY, MEMBERS))
    for text in (printed, files["markdown"].read_text()):
        assert cells(text, "ping") == ["ping", "10.00", "8.00", "9.00", "0.80 (0.70–0.90)", "0.95",
                                       "0.85", "aim"]
        assert cells(text, "insert")[-1] == "must, even"
        assert cells(text, "memory, idle connection")[1:] == ["3.20", "2.70", "2.70", "2.6", "1.5",
                                                              "missed"]
        assert cells(text, "inserts of 1")[1:] == ["1,000", "960.0", "0.96", "0.95", "1", "must"]
        assert "All was well." in text
    figures = json.loads(files["json"].read_text())
    assert [row["met"] for row in figures["rows"]] == ["aim", "must, even", "missed", "must"]
    assert figures["rows"][0]["figure"] == {"median": 0.8, "low": 0.7, "high": 0.9}
    assert figures["machine"]["cores"] > 0
    texts = [each.text for each in ET.parse(files["svg"]).iter("{http://www.w3.org/2000/svg}text")]
    assert "ping" in texts and "haproxy = 1" in texts


def test_a_name_that_no_row_has_is_an_error(machine):
    done = subprocess.run([sys.executable, REPORT], input=json.dumps(machine), text=True, timeout=60,
                          stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, "no row has such a name\n")


@pytest.fixture
def pages(tmp_path) -> pathlib.Path:
    for page in PAGES:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    return tmp_path


def test_pages_and_plot_have_the_figures_of_the_file(pages):
    """Whoever changes one of them by hand, or the script, has to make them anew."""
    report("pages", pages / "docs/performance.json", pages)
    for page in PAGES:
        assert (pages / page).read_text() == (ROOT / page).read_text(), page


def test_new_figures_replace_those_of_the_pages(machine, pages):
    core = json.loads((ROOT / "docs/performance.json").read_text())["core"]
    report("--json", pages / "new.json", given=measured(machine, PING, {"core": core}))
    report("pages", pages / "new.json", pages)
    assert cells((pages / "README.md").read_text(), "ping")[1:] == ["10.00 us", "9.00 us", "0.80", "0.95"]
    assert "memory, idle connection" not in (pages / "docs/performance.md").read_text()
    assert len((pages / "README.md").read_text().splitlines()) <= 150


def test_steps_are_replaced_alone(machine, pages):
    core = json.loads((ROOT / "docs/performance.json").read_text())["core"]
    core["steps"]["scan"]["1"]["512"] = 98765.0
    report("--json", pages / "steps.json", given=measured(machine, {"core": core}))
    report("pages", pages / "steps.json", pages)
    assert "98765 ns" in (pages / "src/README.md").read_text()
    assert (pages / "README.md").read_text() == (ROOT / "README.md").read_text()


def test_what_google_benchmark_prints_becomes_ns_of_a_step():
    step = {"run_name": "Insert/scan/512/100", "aggregate_name": "median", "cpu_time": 12000.0,
            "items_per_second": 8e6}
    draw = {"run_name": "draw_of/uuid_7", "aggregate_name": "median", "cpu_time": 3000.0,
            "items_per_second": 4e7}
    mean = {**step, "aggregate_name": "mean", "cpu_time": 1.0}
    assert json.loads(report("core", given=json.dumps({"benchmarks": [step, mean, draw]}))) == {
        "core": {"steps": {"scan": {"100": {"512": 12000.0}}}, "draws": {"`uuid` version 7": 25.0}}}


def test_every_step_has_a_name():
    steps = (ROOT / "tests/bench/core_steps.cpp").read_text()
    names = [f"draw_of/{each}" for each in re.findall(r"BENCHMARK_CAPTURE\(draw_of, (\w+),", steps)]
    for name, threads in re.findall(r"(?m)^BENCHMARK\((\w+)\)(.*);$", steps):
        names += [f"{name}/threads:{n}" for n in re.findall(r"Threads\((\d)\)", threads)] or [name]
    assert len(names) == 10
    medians = [{"run_name": each, "aggregate_name": "median", "items_per_second": 1e9} for each in names]
    core = json.loads(report("core", given=json.dumps({"benchmarks": medians})))["core"]
    assert len(core["draws"]) == len(names)


def test_the_script_knows_what_the_page_has_it_do():
    """Each `scripts/bench` of the pages is named in the script's own first lines."""
    usage = "".join(line for line in (ROOT / "scripts/bench").read_text().splitlines(keepends=True)
                    if line.startswith("#"))
    texts = [(ROOT / page).read_text() for page in ("README.md", "docs/performance.md", "src/README.md",
                                                    "docs/operations.md", "docs/counters.md")]
    named = {word for text in texts for word in re.findall(r"scripts/bench (--\w+|\w+)", text)}
    assert {"check", "pages", "steps", "--quick", "--only", "--json"} <= named
    for word in named:
        assert re.search(rf"scripts/bench {word}\b|[ ,]{word} [A-Z]", usage), word


def test_an_unknown_word_is_refused():
    done = subprocess.run([ROOT / "scripts/bench", "--nonsense", "x"], text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert "unknown word '--nonsense'" in done.stderr
