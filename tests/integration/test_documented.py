"""The pages name every event of the log, every metric, every key of the configuration and every exit
code, and none that there is not; what they and the sources refer to is there."""

from __future__ import annotations

import json
import pathlib
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest

from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, binary, configuration
from support.schema import keys, of_rules, schema, sections
from support.secured import STORE_ACTIONS, Certificates

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
CONFIGURATION = [ROOT / "docs" / f"{page}.md" for page in ("configuration", "permuted")]
EVENTS = ROOT / "docs" / "log-events.md"
LOGINS = ROOT / "docs" / "tls-and-logins.md"
METRICS = ROOT / "docs" / "metrics.md"
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"
SHIPPED = ROOT / "config" / "mongo-idproxy.yaml"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), ROOT / "src" / "README.md", *PAGES]

# A level, or two of them to choose from, and what is behind it: an event's name, or two of them.
_ONE_OF = r"(?:[^,;{{}}\"]*\?\s*)?{0}(?:\s*:\s*{0})?"
_EVENT = re.compile(
    _ONE_OF.format(r"\b(?:log::)?Level::(\w+)") + r"\s*,\s*" + _ONE_OF.format(r'"([a-z_]+)"'))
# Faults that end a connection, always logged as a warning.
_WARNING = re.compile(r'\b(?:protocol_error\(|ProtocolFault \w+)\{\s*"([a-z_]+)"')
# A row of the table of findings, with the level and the event of its kind.
_FINDING = re.compile(r'FindingKind k\w+\{\s*"[\w-]+",\s+k(\w+),[^}]*,\s+"([a-z_]+)"\}')
# An event whose name is none of these comes from elsewhere: whoever calls there is looked at. Of a finding the table says it.
_FORWARDED = re.compile(r"\blog::event\(\s*(?:(?:log::Level::warning, fault\.event|event\.level, event\.event|level, event|"
                        r"finding|found|news),|(?:state::)?[a-z_]+\()")


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
    for level, name in _FINDING.findall((ROOT / "include/idproxy/base/finding.hpp").read_text()):
        events.setdefault(name, set()).add({"Note": "info"}.get(level, level.lower()))
    return events


def tables(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Each table's first heading, and the cells of its rows."""
    for table in re.findall(r"(?m)(?:^\|.*\n)+", text):
        head, _, *rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                          for line in table.splitlines()]
        yield head[0], rows


def rows_of(page: pathlib.Path, first_heading: str) -> list[list[str]]:
    """Of all tables of the page whose first column has this heading."""
    return [row for head, rows in tables(page.read_text()) if head == first_heading for row in rows]


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


def test_lines_for_people_begin_with_the_event(tmp_path):
    """By which the page is sorted: "2026-11-27 12:00:00.000 error   cannot_listen  …"."""
    assert "has the local time, the level, the\nevent, the message and the fields" in EVENTS.read_text()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps({"listen": {"port": taken.getsockname()[1]}, "admin": {"listen": None},
                                    "log": {"format": "text"}}))
        done = subprocess.run([binary(), "--config", path], capture_output=True, text=True, timeout=60)
    lines = done.stderr.splitlines()
    assert lines and "cannot_listen" in done.stderr
    known = events_of_sources()
    for line in lines:
        level, event = re.match(r"\d{4}-\d\d-\d\d [\d:]{8}\.\d{3} (\w+) +(\w+)  \S", line).groups()
        assert level in known[event], line


def test_every_event_is_described():
    described: dict[str, set[str]] = {}
    for names, levels, *_ in rows_of(EVENTS, "Event"):
        for name in names_in(names):
            assert name not in described, f"{name} is there twice"
            described[name] = set(levels.split(", "))
    assert described == events_of_sources()


@pytest.fixture(scope="module")
def metrics(standalone: Mongod, tmp_path_factory) -> str:
    """/metrics of a proxy that uses everything."""
    certificates = Certificates.make(tmp_path_factory.mktemp("certificates"))
    port = free_port()
    rules = [{"ns": "shop.orders", "field": "number", "strategy": "counter"},
             {"ns": "shop.codes", "field": "code", "strategy": "random-digits"},
             {"ns": "shop.codes", "field": "id", "strategy": "counter-ranges"},
             {"ns": "shop.events", "field": "id", "strategy": "snowflake"}]
    with Proxy(configuration(standalone, rules, admin={"listen": f"127.0.0.1:{port}"},
                             listen=certificates.listen())):
        def scraped() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return answer.read().decode()

        # The server has answered a hello.
        return eventually(lambda: (page := scraped()).count("_round_trip_seconds{") and page, 30)


@pytest.fixture(scope="module")
def families(metrics: str) -> dict[str, str]:
    """Name -> type, of all metrics."""
    return dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", metrics))


def metrics_described() -> dict[str, set[str]]:
    """Name -> its labels: those behind it, and those that its section gives to all."""
    described: dict[str, set[str]] = {}
    for section in re.split(r"(?m)^## ", METRICS.read_text()):
        of_all = re.search(r"Each with the labels ([^.]*)\.", section)
        common = set(re.findall(r"`(\w+)`", of_all[1])) if of_all else set()
        for head, rows in tables(section):
            for names, *_ in rows if head == "Metric" else []:
                for name, own in re.findall(r"`([a-z_]+)(?:\{(.*?)\})?`", names):
                    described[name] = common | set(filter(None, own.split(",")))
    return described


def test_every_metric_is_described(families):
    described = [name for names, *_ in rows_of(METRICS, "Metric") for name in names_in(names)]
    assert len(described) == len(set(described))
    assert set(described) == set(families)


def test_every_label_of_a_metric_is_described(metrics):
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"(?m)^([a-z_]+?)(?:_bucket|_count|_sum)?(?:\{(.*)\})? \S+$", metrics):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    found = {name: labels - {"le"} for name, labels in found.items()}
    assert found == metrics_described()


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
        for head, rows in tables(text):
            for names, *_ in rows if head == "Event" else []:
                assert set(names_in(names)) <= set(events), f"{document.name}: {names}"
        for name in re.findall(r"`([a-z_]+)` in the log", text):
            assert name in events, f"{document.name}: {name}"


def test_the_store_users_role_is_the_one_that_is_tested():
    (role,) = re.findall(r"(?ms)^use admin\ndb\.createRole.*?^```", LOGINS.read_text())
    actions = [json.loads(found) for found in re.findall(r"actions: (\[.*?\])", LOGINS.read_text())]
    assert "roles: [{role: \"readWrite\", db: \"idproxy\"}]" in role
    assert actions == [STORE_ACTIONS, STORE_ACTIONS]
    assert '"createIndex", if rules say unique_index: create' in role


# ---- the configuration

def pages_with_keys() -> str:
    """The pages with keys."""
    return "".join(page.read_text() for page in CONFIGURATION)


def described_keys(heading: str) -> list[list[str]]:
    """The rows below this heading, up to the next one of any rank."""
    text = re.split(r"(?m)^#+ ", pages_with_keys().split(f"# {heading}\n")[1])[0]
    rows = [row for head, rows in tables(text) if head == "Key" for row in rows]
    assert rows, heading
    return [[row[0].strip("`"), *row[1:]] for row in rows]


TOP = ["listen", "upstream", "id_store", "admin, limits, log, threads", "Rules"]
BEFORE_RULES = [row for heading in TOP for row in described_keys(heading)]


def test_every_key_of_the_file_is_described():
    described = [row[0] for row in BEFORE_RULES]
    assert len(described) == len(set(described))
    assert set(described) == set(keys(schema()))


def test_every_key_of_a_rule_is_described():
    of_every_rule = {row[0] for row in described_keys("Keys of every rule")}
    headings = re.findall(r"(?m)^## Keys of the strategy (.*)$", pages_with_keys())
    rules = of_rules()
    assert set(keys(rules.pop("none"))) == {"ns", "except", "field", "strategy"} < of_every_rule
    assert sorted(headings) == sorted(rules)
    for strategy, its in rules.items():
        own = [row[0] for row in described_keys(f"Keys of the strategy {strategy}")]
        assert len(own) == len(set(own))
        assert of_every_rule.isdisjoint(own)
        # `reset` is a word, or a section with a key of its own.
        assert (of_every_rule | set(own)) - {"reset"} == set(keys(its)), strategy


def test_the_keys_that_leave_a_rule_its_values_are_named():
    """Whatever else of a rule a reload changes, it begins anew."""
    (table,) = re.findall(r"kOfTheRuleAlone\{(.*?)\}", (ROOT / "src/config/rules.cpp").read_text(), re.S)
    (sentence,) = re.findall(r"continues its values if only (.*?) changes\.", (ROOT / "docs/operations.md").read_text(), re.S)
    assert re.findall(r'"(\w+)"', table) == re.findall(r"`(\w+)`", sentence)


def test_the_schema_has_the_descriptions():
    for whole in (schema(), *of_rules().values()):
        for key, its in keys(whole).items():
            assert len(its.get("description", "")) > 10 and "](" not in its["description"], key


def test_strategies_name_keys_that_there_are():
    """Code that is a key with its value, but for options of MongoDB, and fields of counters' documents."""
    known = {key for its in of_rules().values() for key in (*keys(its), *sections(its))}
    names = {part for key in known for part in (key, key.rpartition(".")[2])}
    text = (ROOT / "docs" / "strategies.md").read_text()
    found = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?): [^`]*`", text))
    assert found - {"w", "j", "index", "next"} <= names, found - names


def shipped_values() -> dict[str, str]:
    """Dotted key -> value, of all that is no comment."""
    values: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in SHIPPED.read_text().splitlines():
        if found := re.match(r"( *)(\w+): *(.*?) *(?:#.*)?$", line):
            path = [(indent, key) for indent, key in path if indent < len(found[1])]
            path.append((len(found[1]), found[2]))
            if found[3]:
                values[".".join(key for _, key in path)] = found[3].strip('"')
    return values


def test_defaults_are_those_of_the_shipped_file():
    """Which tests/unit/config/config_test.cpp compares with the program's own."""
    assert {row[0]: row[2].strip("`") for row in BEFORE_RULES} == shipped_values()


def test_the_shipped_file_has_every_key_of_a_rule():
    text = SHIPPED.read_text()
    rows = [row for heading in re.findall(r"(?m)^##+ (Keys of .*)$", pages_with_keys())
            for row in described_keys(heading)]
    for key, *_, meaning in rows:
        if not meaning.startswith(("Reserved", "`layout: custom`")):
            assert re.search(rf"\b{key.rpartition('.')[2]}: ", text), key


def test_every_exit_code_is_described():
    header = (ROOT / "include/idproxy/app/command_line.hpp").read_text()
    codes = set(re.findall(r"(?m)^  \w+ = (\d+),", header))
    assert codes
    assert [row[0] for row in rows_of(TROUBLESHOOTING, "Exit code")] == sorted(codes, key=int)


# ---- links, and how long pages are

def anchors_of(document: pathlib.Path) -> set[str]:
    """Of its headings, as they are made for links, and those that it writes itself."""
    text = re.sub(r"(?ms)^```.*?^```", "", document.read_text())
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(
        re.findall(r'<a id="([\w-]+)"></a>', text))


def leads_somewhere(target: pathlib.Path, anchor: str) -> bool:
    return target.exists() and (not anchor or anchor in anchors_of(target))


def test_links_lead_to_files_and_headings():
    for document in DOCUMENTS:
        for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", document.read_text()):
            target = (document.parent / path) if path else document
            assert leads_somewhere(target, anchor), f"{document.name}: {path}#{anchor}"
            # The pages are installed without the source.
            source = document in PAGES and path.startswith(("../src", "../include", "../tests"))
            assert not source, f"{document.name}: {path}"


@pytest.mark.parametrize("folder", ["src", "include", "systemd", "config", "scripts", "tests"])
def test_pages_that_are_named_elsewhere_are_there(folder):
    """In what the program prints, and in comments."""
    for path in (ROOT / folder).rglob("*"):
        if path.suffix not in {".cpp", ".hpp", ".py", ".yaml", ".in", ""} or not path.is_file():
            continue
        if "corpus" in path.parts:
            continue
        for page, anchor in re.findall(r"\b(docs/[\w-]+\.md)(?:#([\w-]+))?",
                                       path.read_text(errors="replace")):
            assert leads_somewhere(ROOT / page, anchor), f"{path}: {page}#{anchor}"


def test_nothing_refers_to_pages_that_are_not_here():
    for folder in ("src", "include", "tests", "config", "systemd"):
        for path in (ROOT / folder).rglob("*.?pp"):
            text = re.sub(r"https?://\S+", "", path.read_text())
            for name in re.findall(r"\b([\w-]+\.md)\b", text):
                assert name in {page.name for page in DOCUMENTS}, f"{path}: {name}"


def test_what_the_readme_has_one_try(standalone, start_proxy):
    """The command that asks the proxy which scripts/quickstart has started; test_quickstart.py is about that."""
    (line,) = re.findall(r"(?m)^build/release/bin/(.*?) +# ", (ROOT / "README.md").read_text())
    admin = f"127.0.0.1:{free_port()}"
    start_proxy(configuration(standalone, [], admin={"listen": admin})).wait_event("admin_listening")
    assert line.startswith("mongo-idproxy ") and "127.0.0.1:27216" in line
    command = [binary(), *line.replace("127.0.0.1:27216", admin).split()[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("mongo-idproxy "), done.stderr


def test_pages_are_short():
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines())
               for path in (*PAGES, ROOT / "README.md", SHIPPED)}
    most = {"README.md": 150, "config/mongo-idproxy.yaml": 100}
    assert {name: lines for name, lines in lengths.items() if lines > most.get(name, 300)} == {}
