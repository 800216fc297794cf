"""docs/operations.md lists every event of the log and every metric, and none that there is not."""

from __future__ import annotations

import pathlib
import re
import urllib.request

import pytest

from support.mongod import Mongod
from support.process import free_port
from support.proxy import Proxy, configuration
from support.secured import Certificates

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPERATIONS = ROOT / "docs" / "operations.md"
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]

# A level, or two of them to choose from, and what is behind it: an event's name, or two of them.
_ONE_OF = r"(?:[^,;{{}}\"]*\?\s*)?{0}(?:\s*:\s*{0})?"
_EVENT = re.compile(
    _ONE_OF.format(r"\b(?:log::)?Level::(\w+)") + r"\s*,\s*" + _ONE_OF.format(r'"([a-z_]+)"'))
# Functions that log what they are told, always as a warning.
_WARNING = re.compile(r'\bprotocol_error\(\s*"([a-z_]+)"')
# An event whose name is none of these comes from elsewhere: whoever calls there is looked at.
_FORWARDED = re.compile(r"\blog::event\(\s*(?:log::Level::warning, event|remark\.level, remark\.event),")


def events_of_sources() -> dict[str, set[str]]:
    """Event -> its levels."""
    events: dict[str, set[str]] = {}
    for path in (ROOT / "src").rglob("*.cpp"):
        text = path.read_text()
        for level, other_level, name, other_name in _EVENT.findall(text):
            if other_name and other_level:
                events.setdefault(name, set()).add(level)
                events.setdefault(other_name, set()).add(other_level)
            else:
                events.setdefault(name, set()).update({level, other_level} - {""})
        for name in _WARNING.findall(text):
            events.setdefault(name, set()).add("warning")
    return events


def rows_below(heading: str) -> list[list[str]]:
    """Of all tables between this heading and the next of its rank: the cells of each row whose
    first cell is code."""
    text = OPERATIONS.read_text()
    section = re.split(r"(?m)^## ", text.split(f"\n## {heading}\n")[1])[0]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in section.splitlines() if line.startswith("| `")]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([a-z_]+)[`{]", cell)


def test_no_call_of_the_log_is_overlooked():
    for path in (ROOT / "src").rglob("*.cpp"):
        text = path.read_text()
        calls = [match.start() for match in re.finditer(r"\blog::event\(", text)]
        seen = [match.span() for known in (_EVENT, _FORWARDED) for match in known.finditer(text)]
        for call in calls:
            assert any(begin < call + 30 and end > call for begin, end in seen), \
                f"{path}: {text[call:call + 80]}"


def test_every_event_is_described():
    described: dict[str, set[str]] = {}
    for names, levels, *_ in rows_below("The log"):
        for name in names_in(names):
            assert name not in described, f"{name} is there twice"
            described[name] = set(levels.split(", "))
    assert described == events_of_sources()


@pytest.fixture(scope="module")
def families(standalone: Mongod, tmp_path_factory) -> dict[str, str]:
    """Name -> type, of all that a proxy has which uses everything."""
    certificates = Certificates.make(tmp_path_factory.mktemp("certificates"))
    port = free_port()
    rules = [{"ns": "shop.orders", "field": "number", "strategy": "counter"}]
    with Proxy(configuration(standalone, rules, admin={"listen": f"127.0.0.1:{port}"},
                             listen=certificates.listen())):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    return dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", text))


def test_every_metric_is_described(families):
    described = [name for names, *_ in rows_below("The metrics") for name in names_in(names)]
    assert len(described) == len(set(described))
    assert set(described) == set(families)


def test_every_metric_that_is_named_exists(families):
    """In examples, too."""
    series = set(families)
    for name, kind in families.items():
        if kind == "histogram":
            series |= {f"{name}_{suffix}" for suffix in ("bucket", "sum", "count")}
    for document in DOCUMENTS:
        for name in re.findall(r"\bidproxy_[a-z_]+\b", document.read_text()):
            assert name in series, f"{document.name}: {name}"


def test_every_event_that_is_named_exists():
    """In the other documents, too: code in a table's first column, or right before "in the log"."""
    events = events_of_sources()
    for document in DOCUMENTS:
        text = document.read_text()
        for section in re.findall(r"(?ms)^\| Event \|.*?(?=^$)", text):
            for row in re.findall(r"(?m)^\| (`[^|]+)\|", section):
                assert set(names_in(row)) <= set(events), f"{document.name}: {row}"
        for name in re.findall(r"`([a-z_]+)` in the log", text):
            assert name in events, f"{document.name}: {name}"


def test_the_store_user_is_the_same_everywhere():
    roles = [re.findall(r"(?ms)^use admin\ndb\.createRole.*?^```", (ROOT / name).read_text())
             for name in ("README.md", "docs/operations.md")]
    assert roles[0] and roles[0] == roles[1]


def anchors_of(document: pathlib.Path) -> set[str]:
    """Of its headings, as they are made for links."""
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", document.read_text()))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_headings():
    for document in DOCUMENTS:
        for path, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text()):
            target = (document.parent / path) if path else document
            assert anchor in anchors_of(target), f"{document.name}: {path}#{anchor}"
