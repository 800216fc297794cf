"""Makes tables, a plot and a file of figures of what the programs of the benchmark print.

Usage: report.py [--json FILE] [--markdown FILE] [--svg FILE]
           Reads a line of JSON for each row, as report.hpp, cost.py and duplicates.py have them, prints
           each row as soon as it is there, and writes the files at the end.
       report.py machine [NAME=PROGRAM...]
           Prints such a line about this machine and these programs.
       report.py core
           Makes such a line of what Google Benchmark has measured of the core, as JSON.
       report.py pages FILE [ROOT]
           Writes the figures of FILE, made with --json, into the pages, and the plot beside them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from plot import plot

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIGURES = "docs/performance.json"
PLOT = "docs/performance.svg"
PAGES = ("README.md", "docs/performance.md", "src/README.md")

# Rows of the README's table, in its order.
SHORT = ("ping", "insert of 1, 512 B, number", "insert of 100, 512 B, number",
         "added latency, insert of 1, 512 B, number, p50", "memory, idle connection")

Row = dict[str, Any]


# ---- figures

def spread(values: list[float]) -> dict[str, float]:
    """Of seven values or more the quartiles, since the lowest and the highest one say little."""
    low, high = min(values), max(values)
    if len(values) >= 7:
        low, _, high = statistics.quantiles(values, n=4)
    return {"median": statistics.median(values), "low": low, "high": high}


def summary(line: Row) -> Row:
    """A row with medians in place of rounds, its figure, and whether that is what it must be."""
    columns = line["columns"]
    of, beside = columns.get(line["of"], []), columns.get(line["beside"], [])
    figure = [mine / its for mine, its in zip(of, beside)] if line["beside"] else of
    row = {"section": line["section"], "work": line["work"], "unit": line["unit"],
           "columns": {name: statistics.median(rounds) for name, rounds in columns.items()},
           "of": line["of"], "beside": line["beside"], "rounds": len(figure)}
    if figure:
        row["figure"] = spread(figure)
    if "must" in line:
        row |= {key: line[key] for key in ("must", "aim", "better")}
        row["met"] = met(row)
        if line["beside"] and figure and row["figure"]["low"] <= 1 <= row["figure"]["high"]:
            row["met"] += ", even"
    return rounded(row)


def met(row: Row) -> str:
    """By the figure as the tables show it."""
    if "figure" not in row:
        return "not measured"
    figure = round(row["figure"]["median"], 2)
    for bound in ("aim", "must"):
        if figure >= row[bound] if row["better"] == "higher" else figure <= row[bound]:
            return bound
    return "missed"


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return value


# ---- tables

def number(value: float | None) -> str:
    if value is None:
        return "–"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def figure_of(row: Row) -> str:
    if "figure" not in row:
        return "–"
    figure = row["figure"]
    text = f"{figure['median']:.2f}"
    return text if row["rounds"] < 2 else f"{text} ({figure['low']:.2f}–{figure['high']:.2f})"


def line_of(cells: list[str], widths: list[int]) -> str:
    first, *others = (cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(cells, widths)))
    return "| " + " | ".join([first, *others]) + " |"


class Table:
    """The rows of one section, which the first one gives its columns."""

    def __init__(self, row: Row):
        self.names = list(row["columns"])
        self.unit = row["unit"]
        self.widths = [max(54, len(row["work"]))] + [max(9, len(name)) for name in self.names]
        self.widths += [18, 6, 6, 6]

    def head(self) -> Iterator[str]:
        yield line_of(["", *self.names, "figure", "must", "aim", "met"], self.widths)
        yield "|---" + "|--:" * (len(self.widths) - 1) + "|"

    def line(self, row: Row) -> str:
        values = [number(row["columns"].get(name)) for name in self.names]
        bounds = [f"{row[bound]:.4g}" if bound in row else "–" for bound in ("must", "aim")]
        # The unit is the section's, where it is the same in all of its rows.
        work = row["work"] if row["unit"] == self.unit else f"{row['work']}, {row['unit']}"
        return line_of([work, *values, figure_of(row), *bounds, row.get("met", "–")], self.widths)


class Markdown:
    """Tables, section by section, while rows come in."""

    def __init__(self) -> None:
        self.section: str | None = None
        self.table: Table

    def lines(self, row: Row) -> Iterator[str]:
        if row["section"] != self.section:
            if self.section is not None:
                yield ""
            self.section, self.table = row["section"], Table(row)
            yield f"### {self.section} ({row['unit']})"
            yield ""
            yield from self.table.head()
        yield self.table.line(row)


def tables(figures: Row) -> Iterator[str]:
    """Of documents of 200 and 2,048 bytes only what is most common: performance.json has the rest."""
    markdown = Markdown()
    for row in figures["rows"]:
        if not re.search(r", (200|2048) B, (?!(number|nothing to do)$)", row["work"]):
            yield from markdown.lines(row)
    yield ""
    yield from figures["notes"]


def short_table(figures: Row) -> Iterator[str]:
    """With the machine, and how to repeat it."""
    rows = {row["work"]: row for row in figures["rows"]}
    yield "| | haproxy | mongo-idproxy | ratio | must |"
    yield "|---|--:|--:|--:|--:|"
    for work in SHORT:
        if work in rows:
            row = rows[work]
            its, mine = row["columns"]["haproxy"], row["columns"]["idproxy"]
            ratio = row["figure"]["median"] if row["beside"] else mine / its
            yield (f"| {work} | {number(its)} {row['unit']} | {number(mine)} {row['unit']} | {ratio:.2f} "
                   f"| {row['must']:.4g}{'' if row['beside'] else ' ' + row['unit']} |")
    yield ""
    yield f"CPU per operation, latency and memory, measured by `scripts/bench`: {about(figures['machine'])}"


# ---- the core

# By its name in core_steps.cpp.
STEPS = {
    "copy": "stands for `recv`, which copies the message from the kernel",
    "classify": "finds the namespace, its rules and the documents; once per message, whatever its size",
    "scan": "reads the names at the top level of each document, for all rules together, to know which fields it "
            "lacks",
    "scan, other fields each": "the same where no document has the fields of the one before it",
    "draw": "makes all values of the message, here UUIDs of version 7; together they need one look at the clock "
            "and one lock",
    "emit": "writes the documents with their values, and the lengths around them, into memory that the thread "
            "keeps",
    "all": "all of these, and the state that sending again may need",
}
# Steps of core_steps.cpp that are no Insert's, as people know them.
DRAWS = {"uuid_7": "`uuid` version 7", "uuid_4": "`uuid` version 4", "objectid": "`objectid`",
         "ulid": "`ulid`", "nanoid": "`nanoid`", "random_digits": "`random-digits`",
         "snowflake": "`snowflake`", "hide": "`permuted`, of a counter's number",
         "counter threads:1": "`counter`, from memory",
         "counter threads:2": "`counter`, from memory, two threads at once"}
SIZES = ("200", "512", "2048")

Core = dict[str, Any]


def core_of(measured: Any) -> Core:
    """ns of processor time. Of steps: by name, documents of an insert and their bytes, for an insert; of
    draws: by strategy, for a value."""
    core: Core = {"steps": {}, "draws": {}}
    for each in measured["benchmarks"]:
        if each.get("aggregate_name") != "median":
            continue
        name, *arguments = each["run_name"].split("/")
        if name.startswith("Insert"):
            step, size, count = arguments
            if name == "InsertOfOthers":
                step += ", other fields each"
            core["steps"].setdefault(step, {}).setdefault(count, {})[size] = each["cpu_time"]
        else:
            name = " ".join([name.removeprefix("draw_of").strip("_"), *arguments]).strip()
            core["draws"][DRAWS[name]] = 1e9 / each["items_per_second"]
    return rounded(core)


def core_table(core: Core) -> Iterator[str]:
    yield ("| Step | insert of 1, 512 B | of 100, per document: 200 B | 512 B | 2,048 B | GB/s at 512 B "
           "| What it does, and why |")
    yield "|---|--:|--:|--:|--:|--:|---|"
    for step, why in STEPS.items():
        of_one, of_hundred = core["steps"][step]["1"], core["steps"][step]["100"]
        each = [of_hundred[size] / 100 for size in SIZES]
        yield (f"| {step} | {of_one['512']:.0f} ns | " + " | ".join(f"{ns:.1f} ns" for ns in each) +
               f" | {512 / each[1]:.1f} | {why} |")
    yield ""
    yield "| Values, drawn a hundred at a time | each |"
    yield "|---|--:|"
    for name, nanoseconds in core["draws"].items():
        yield f"| {name} | {nanoseconds:.1f} ns |"


# ---- the machine

def first_line(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""


def version_of(name: str, program: str) -> str:
    flag = "-v" if name in ("haproxy", "nginx") else "--version"
    found = re.search(r"\b\d+\.\d+(\.\d+)?", first_line(program, flag))
    return f"{name} {found[0]}" if found else name


def machine(programs: list[str]) -> Row:
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"(?m)^model name\s*: (.*)$", info)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    virtual = "a virtual machine with " if re.search(r"(?m)^flags.*\bhypervisor\b", info) else ""
    return {"processor": model[1].strip() if model else platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory, 1),
            "virtual": bool(virtual), "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
            "programs": [version_of(*each.split("=", 1)) for each in programs],
            "commit": first_line("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "load_before": round(os.getloadavg()[0], 2)}


def about(found: Row) -> str:
    kind = "a virtual machine" if found["virtual"] else "a machine"
    return (f"{found['date']}, commit {found['commit']}, on {kind} with {found['cores']} cores of "
            f"{found['processor']}, {found['memory_gib']} GiB and {found['kernel']}, with "
            f"{', '.join(found['programs'])}; load average before: {found['load_before']}.")


# ---- files

def collect(lines: Iterator[str]) -> Row:
    """Prints tables meanwhile."""
    figures: Row = {"machine": None, "rows": [], "notes": []}
    markdown = Markdown()
    for line in lines:
        found = json.loads(line)
        if "machine" in found:
            figures["machine"] = found["machine"]
        elif "note" in found:
            figures["notes"].append(found["note"])
        elif "core" in found:
            figures["core"] = found["core"]
        else:
            row = summary(found)
            figures["rows"].append(row)
            print(*markdown.lines(row), sep="\n", flush=True)
    for note in figures["notes"]:
        print(note)
    if "core" in figures:
        print("", *core_table(figures["core"]), sep="\n")
    return figures


def text_of(figures: Row) -> str:
    """A row a line, so that changes can be read."""
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in figures["rows"])
    others = [f'"{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in figures.items()
              if key != "rows"]
    return "{" + ",\n".join([*others, f'"rows": [\n  {rows}\n]']) + "}\n"


def replaced(page: str, figures: Row) -> str:
    """With new text between <!-- figures: NAME --> and <!-- end of figures -->."""
    parts = {"tables": "\n".join(tables(figures)), "short": "\n".join(short_table(figures)),
             "machine": about(figures["machine"]), "core": "\n".join(core_table(figures["core"]))}
    return re.sub(r"(?s)(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)",
                  lambda found: f"{found[1]}{parts[found[2]]}\n{found[3]}", page)


def write_pages(file: pathlib.Path, root: pathlib.Path) -> None:
    """Of a run of `scripts/bench steps`, only the steps."""
    figures = json.loads(file.read_text())
    if not figures["rows"]:
        figures = json.loads((root / FIGURES).read_text()) | {"core": figures["core"]}
    (root / FIGURES).write_text(text_of(figures))
    (root / PLOT).write_text(plot(figures["rows"]))
    for page in PAGES:
        path = root / page
        path.write_text(replaced(path.read_text(), figures))


def main() -> int:
    if sys.argv[1:2] == ["machine"]:
        print(json.dumps({"machine": machine(sys.argv[2:])}))
        return 0
    if sys.argv[1:2] == ["core"]:
        print(json.dumps({"core": core_of(json.load(sys.stdin))}))
        return 0
    if sys.argv[1:2] == ["pages"]:
        write_pages(pathlib.Path(sys.argv[2]), pathlib.Path(*sys.argv[3:]) if sys.argv[3:] else ROOT)
        return 0
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__)
    for option in ("--json", "--markdown", "--svg"):
        parser.add_argument(option, type=pathlib.Path)
    options = parser.parse_args()
    figures = collect(sys.stdin)
    if not figures["rows"] and "core" not in figures:
        print("no row has such a name", file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(text_of(figures))
    if options.markdown:
        options.markdown.write_text("\n".join([about(figures["machine"]), "", *tables(figures)]) + "\n")
    if options.svg:
        options.svg.write_text(plot(figures["rows"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
