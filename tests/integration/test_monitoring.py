"""The dashboard and the alerts: promtool accepts them, and they name only metrics, labels, values and pages
that there are. What the program itself has, test_documented.py compares with docs/metrics.md."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.admin import LISTEN, Admin
from support.process import eventually, free_port
from support.proxy import configuration

from test_documented import (EVENTS, METRICS, ROOT, leads_somewhere, metrics_described, pages_with_keys,
                             names_in, rows_of)

ALERTS = ROOT / "prometheus" / "alerts.yml"
CASES = ROOT / "prometheus" / "alerts_test.yml"
DASHBOARD = ROOT / "dashboards" / "mongo-idproxy.json"

# What Prometheus itself adds to all series, and the series of its own.
_OF_PROMETHEUS = {"job", "instance"}
_ITS_OWN = {"up": set(), "ALERTS": {"alertname", "alertstate"}}

_SELECTOR = re.compile(r"\b(up|ALERTS|(?:idproxy|process)_[a-z_]+)\b(?:\{(.*?)\})?")
_MATCHER = re.compile(r'([a-z_]+)\s*[=!]~?\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
_KEY = re.compile(
    r" +(?:- )?(alert|expr|for|labels|severity|annotations|summary|description|page): ?(.*)")
# A label of the text that somebody reads, and of the legend of a line.
_IN_TEXT = re.compile(r"\$labels\.([a-z_]+)")
_IN_LEGEND = re.compile(r"\{\{([a-z_]+)\}\}")


def promtool(*arguments: str | pathlib.Path) -> None:
    """It must be content. scripts/setup test installs it."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def alerts() -> list[dict[str, str]]:
    """Each with its keys, those of its labels and annotations among them. The file is simple: a key a
    line, and texts of several lines after ">-"."""
    found: list[dict[str, str]] = []
    for line in ALERTS.read_text().splitlines():
        if key := _KEY.match(line):
            if key[1] == "alert":
                found.append({})
            last, value = key[1], key[2].removeprefix(">-")
            found[-1][last] = value
        elif found and line.startswith(" " * 10) and not line.lstrip().startswith("#"):
            found[-1][last] = f"{found[-1][last]} {line.strip()}".strip()
    return found


def texts_of(alert: dict[str, str]) -> list[str]:
    return [alert["summary"], alert["description"]]


def panels() -> list[dict[str, Any]]:
    return json.loads(DASHBOARD.read_text())["panels"]


def with_queries() -> list[dict[str, Any]]:
    return [panel for panel in panels() if panel["type"] != "row"]


def queries() -> list[tuple[str, str]]:
    """Where it is, and the query: of all alerts and panels."""
    return [(each["alert"], each["expr"]) for each in alerts()] + [
        (panel["title"], target["expr"]) for panel in with_queries() for target in panel["targets"]]


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """Name of a series -> its labels."""
    known = {name: each | _OF_PROMETHEUS for name, each in (*metrics_described().items(), *_ITS_OWN.items())}
    for cell, meaning, _ in rows_of(METRICS, "Metric"):
        if meaning.startswith("histogram"):
            (name,) = names_in(cell)
            known[f"{name}_bucket"] = known[name] | {"le"}
            known[f"{name}_count"] = known[name]
    return known


def selected(query: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each series of a query, and the values that it wants of its labels."""
    for name, matchers in _SELECTOR.findall(query):
        yield name, dict(_MATCHER.findall(matchers))


def grouped_by(query: str) -> set[str]:
    return {label.strip() for group in _GROUPING.findall(query) for label in group.split(",")}


def test_alerts_are_rules():
    promtool("check", "rules", "--lint-fatal", ALERTS)


def test_alerts_fire_when_they_should():
    promtool("test", "rules", CASES)


def test_each_alert_has_a_case_in_which_it_fires():
    fired = set(re.findall(r'ALERTS\{alertname="(\w+)"', CASES.read_text()))
    assert fired == {each["alert"] for each in alerts()}


def test_the_case_in_which_all_is_well_has_what_alerts_look_at():
    (well,) = re.findall(r"(?s)- name: all is well.*?(?=\n  - name:)", CASES.read_text())
    there = {name for name, _ in selected(well)}
    for alert in alerts():
        assert {name for name, _ in selected(alert["expr"])} <= there, alert["alert"]


def test_alerts_are_complete():
    """And read whole, by this test itself."""
    found, text = alerts(), ALERTS.read_text()
    assert len({each["alert"] for each in found}) == len(found) == text.count("- alert:") > 20
    whole = " ".join(text.replace(">-", "").split())
    for each in found:
        assert each["severity"] in ("critical", "warning"), each
        for part in (each["expr"], *texts_of(each), each["page"]):
            assert len(part) > 10 and part in whole, each


def test_texts_name_labels_that_an_alert_has():
    of_alert: dict[str, list[set[str]]] = {}
    for name, others in re.findall(r'ALERTS\{alertname="(\w+)", (.*?)\}', CASES.read_text()):
        of_alert.setdefault(name, []).append({label for label, _ in _MATCHER.findall(others)})
    for alert in alerts():
        for has in of_alert[alert["alert"]]:
            assert set(_IN_TEXT.findall(" ".join(texts_of(alert)))) <= has, alert


def test_texts_name_keys_and_events_that_there_are():
    known = EVENTS.read_text() + pages_with_keys()
    texts = [text for each in alerts() for text in texts_of(each)]
    texts += [panel["description"] for panel in with_queries()]
    for text in texts:
        for name in re.findall(r"(?<![\w.])[a-z]+_[a-z_]+\b", re.sub(r"\{\{.*?\}\}", "", text)):
            assert re.search(rf"\b{name}\b", known) or name == "scrape_configs", f"{name}: {text}"
        for page in re.findall(r"\bdocs/[\w-]+\.md", text):
            assert (ROOT / page).exists(), text


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_the_page_of_an_alert_is_there(alert: dict[str, str]):
    page, _, anchor = alert["page"].partition("#")
    assert page.startswith("docs/") and anchor and leads_somewhere(ROOT / page, anchor)


def test_queries_name_metrics_and_labels_that_there_are(labels):
    for where, query in queries():
        series = list(selected(query))
        assert series, f"{where}: {query}"
        for name, wanted in series:
            assert name in labels, f"{where}: {name}"
            assert name == "ALERTS" or set(wanted) <= labels[name], f"{where}: {name} {wanted}"
        either = set().union(*(labels[name] for name, _ in series))
        assert grouped_by(query) <= either, f"{where}: {query}"


def test_cases_have_series_that_there_are(labels):
    for name, has in re.findall(r"series: '(\w+)\{(.*?)\}'", CASES.read_text()):
        assert {label for label, _ in _MATCHER.findall(has)} <= labels[name], name


def test_queries_name_values_that_there_are():
    """In the metric's row, or on a page to which it leads."""
    rows = {name: " ".join(row) for row in rows_of(METRICS, "Metric") for name in names_in(row[0])}
    for where, query in queries():
        for name, wanted in selected(query):
            for label in set(wanted) - _OF_PROMETHEUS:
                if name in _ITS_OWN:
                    continue
                told = rows[name] + "".join((METRICS.parent / page).read_text() for page in re.findall(
                    r"\]\(([\w-]+\.md)", rows[name]))
                for value in wanted[label].split("|"):
                    assert re.search(rf'`{value}`|`{label}="{value}"`', told), f"{where}: {label}={value}"


def test_states_are_those_of_the_program():
    (meaning,) = (meaning for name, meaning, _ in rows_of(METRICS, "Metric") if "idproxy_server_state{" in name)
    code = (ROOT / "src" / "rewrite" / "hello_reply.cpp").read_text()
    (names,) = re.findall(r"kNames\{([^}]*)\}", code)
    assert set(re.findall(r"`(\w+)`", meaning)) == {"state", "down", *re.findall(r'"(\w+)"', names)}


def test_prometheus_understands_the_queries_of_the_dashboard(tmp_path):
    """As rules, which have no variables."""
    rules = [{"record": f"panel:{panel['id']}:{target['refId']}",
              "expr": target["expr"].replace("$__rate_interval", "5m")}
             for panel in with_queries() for target in panel["targets"]]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", path)


@pytest.fixture
def prometheus(tmp_path) -> Iterator[Callable[[str], Callable[[str], list[Any]]]]:
    """Begins to scrape an address, and returns what queries it."""
    running: list[subprocess.Popen[bytes]] = []

    def scrape(address: str) -> Callable[[str], list[Any]]:
        path, port = tmp_path / "prometheus.yml", free_port()
        path.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [
            {"job_name": "mongo-idproxy", "static_configs": [{"targets": [address]}]}]}))
        running.append(subprocess.Popen(
            ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={tmp_path / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]))

        def is_ready() -> bool:
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=10).status == 200
            return False
        eventually(is_ready, 60)

        def query(text: str) -> list[Any]:
            asked = urllib.parse.urlencode({"query": text})
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}", timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        return query

    yield scrape
    for each in running:
        each.terminate()
        each.wait(30)


def test_panels_have_data_of_a_running_proxy(replica_set, coll, start_proxy, prometheus):
    """All but those of TLS, which it does not have, of what goes wrong only now and then, and of a rate
    that is known after a minute."""
    rules = [{"ns": f"{coll}.n", "field": "n", "strategy": "counter", "max": 100_000},
             {"ns": f"{coll}.d", "field": "d", "strategy": "random-digits", "digits": 5}]
    for each in "nd":
        replica_set.client[coll][each].create_index(each, unique=True)
    proxy = start_proxy(configuration(replica_set, rules, admin=LISTEN))
    query = prometheus(Admin(proxy).address)
    without = {"Alerts A", "Certificate expires in A", "Connections B", "Forwarded without a value A",
               "Numbers end A", "Numbers end B", "Numbers end in A"}

    def has_data(text: str) -> bool:
        chosen = text.replace("$__rate_interval", "30s").replace("$job", ".+").replace("$instance", ".+")
        return bool(query(chosen))

    with proxy.client(compressors="zlib") as client:
        left = {f"{panel['title']} {target['refId']}": target["expr"]
                for panel in with_queries() for target in panel["targets"]}
        assert without <= set(left)

        def all_have() -> bool:
            client[coll].n.insert_one({})
            client[coll].d.insert_one({})
            for name in [name for name, text in left.items() if has_data(text)]:
                del left[name]
            return set(left) <= without

        eventually(lambda: query("up == 1"), 30, "it scrapes")
        with contextlib.suppress(TimeoutError):
            eventually(all_have, 120)
        assert set(left) <= without


def test_queries_ask_for_the_chosen_proxies():
    for panel in with_queries():
        for target in panel["targets"]:
            for name, wanted in selected(target["expr"]):
                assert wanted.get("job", "").startswith("$job") and \
                    wanted.get("instance", "").startswith("$instance"), f"{panel['title']}: {name}"


def test_legends_name_labels_of_their_lines():
    for panel in with_queries():
        for target in panel["targets"] if panel["type"] != "table" else []:
            named = set(_IN_LEGEND.findall(target["legendFormat"]))
            assert target["legendFormat"] and named <= grouped_by(target["expr"]), panel["title"]


def test_panels_have_all_that_one_needs():
    for panel in with_queries():
        assert re.fullmatch(r"[A-Z].*\.", panel["description"]), panel["title"]
        if panel["type"] != "table":
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}, panel["title"]
        assert len({each["refId"] for each in panel["targets"]}) == len(panel["targets"])


def test_panels_have_ids_and_places_of_their_own():
    places: dict[tuple[int, int], str] = {}
    for panel in panels():
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                other = places.setdefault((x, y), panel["title"])
                assert other == panel["title"], f"{other} and {panel['title']} at {x}, {y}"
    for key in ("id", "title"):
        assert len({panel[key] for panel in panels()}) == len(panels())


def test_the_dashboard_can_be_imported():
    """It asks for the data source, and as a file that Grafana loads it takes the default one."""
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["uid"] == "mongo-idproxy" and "id" not in dashboard
    assert [each["name"] for each in dashboard["__inputs"]] == ["DS_PROMETHEUS"]
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert variables["DS_PROMETHEUS"]["type"] == "datasource"
    # All jobs are those with proxies, while a proxy of theirs may have been down all the time.
    assert "allValue" not in variables["job"] and variables["instance"]["allValue"] == ".*"
    types = {each["id"] for each in dashboard["__requires"] if each["type"] == "panel"}
    assert types == {panel["type"] for panel in with_queries()}
