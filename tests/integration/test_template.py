"""Numbers written into texts: templates, periods, check digits."""

from __future__ import annotations

import datetime
import itertools
import json
import pathlib
import re
import subprocess
import zoneinfo
from typing import Any

import pytest
from stdnum import damm, luhn, verhoeff
from stdnum.iso7064 import mod_11_10, mod_97_10

from support.backfill import Backfill
from support.counters import STORE, insert, numbers, stored
from support.mongod import Mongod
from support.own_clock import OwnClock
from support.process import eventually
from support.proxy import binary, configuration

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "templates.md").read_text()
_TEXT = {"strategy": "counter", "field": "n", "output": "string", "block": {"size": 10}}
_DAY_FAR_EAST = "Pacific/Kiritimati"  # 14 hours ahead of UTC

# As python-stdnum has them.
CHECKS = {"luhn": luhn.calc_check_digit, "damm": damm.calc_check_digit,
          "verhoeff": verhoeff.calc_check_digit, "mod97-10": mod_97_10.calc_check_digits,
          "mod11-10": mod_11_10.calc_check_digit}
STARTS = {"short": 1, "long": 987_654_321_000}

def _fiscal_day(days: int) -> datetime.date:
    """So many days from now, but not on February 29, which begins no fiscal year."""
    day = datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=days)
    return day - datetime.timedelta(days=1) if (day.month, day.day) == (2, 29) else day


RULES = [
    {"ns": "yearly.*", **_TEXT, "template": "INV-{yyyy}-{counter:06}", "reset": "yearly"},
    *({"ns": f"fiscal{days}.*", **_TEXT, "template": "{fy}/{counter:03}",
       "reset": {"yearly": f"{_fiscal_day(days):%m-%d}"}} for days in (0, 3)),
    {"ns": "dated.*", **_TEXT, "template": "{yyyy}{MM}{dd}-{counter:03}"},
    {"ns": "zone.*", **_TEXT, "template": "{yyyy}-{MM}-{dd}/{counter}", "reset": "daily",
     "timezone": _DAY_FAR_EAST},
    {"ns": "check.*", **_TEXT, "template": "{counter:04}-{check}", "check": "mod11-10",
     "start": 794},
    {"ns": "affix.*", **_TEXT, "format": {"prefix": "K"}, "check": "damm", "start": 572},
    {"ns": "narrow.*", **_TEXT, "template": "{counter:01}", "on_width": "error", "start": 8},
    {"ns": "wide.*", **_TEXT, "template": "{counter:01}", "start": 8},
    {"ns": "field.*", **_TEXT, "template": "{field:country}-{counter:03}"},
    {"ns": "id.*", **_TEXT, "field": "_id", "template": "A{counter}", "assign": "missing"},
    {"ns": "repeats.*", **_TEXT, "template": "{counter:02}", "reset": "daily"},
    *({"ns": f"{check}-{name}.*", **_TEXT, "template": "{counter}{check}", "check": check,
       "start": start} for check in CHECKS for name, start in STARTS.items()),
]


@pytest.fixture(scope="module")
def server(replica_set: Mongod) -> Mongod:
    return replica_set


def today(hours: int = 0) -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)


def counters(server: Any) -> Any:
    return server.client[STORE]["uniqueIdentifierCounter"]


class TestTemplates:
    def test_a_counter_for_each_year(self, server, proxy, coll):
        ns = f"yearly.{coll}"
        assert insert(proxy, ns, 2)["n"] == 2 and insert(proxy, ns, 1)["n"] == 1
        year = today().year
        assert numbers(server.client, ns) == [f"INV-{year}-{n:06}" for n in (1, 2, 3)]
        found = counters(server).find_one({"_id": {"c": f"{ns}.n", "p": str(year)}})
        assert found["COUNT"] == 11

    @pytest.mark.parametrize("days", [0, 3])
    def test_a_fiscal_year(self, server, proxy, coll, days):
        """One that has just begun, and one that is about to end."""
        first = _fiscal_day(days).year - (1 if days else 0)
        shown = f"{first}-{(first + 1) % 100:02}"
        assert insert(proxy, f"fiscal{days}.{coll}", 2)["n"] == 2
        assert numbers(server.client, f"fiscal{days}.{coll}") == [f"{shown}/{n:03}" for n in (1, 2)]
        (counter,) = counters(server).find({"_id.c": f"fiscal{days}.{coll}.n"})
        assert counter["_id"]["p"] == f"{first}-{_fiscal_day(days):%m-%d}/P1Y"

    def test_a_day_that_becomes_a_fiscal_year(self, server, start_proxy, coll):
        """The year begins on the day whose counter is there: it has one of its own."""
        ns = f"fiscal-day.{coll}"
        shown = f"{_fiscal_day(0).year}-{(_fiscal_day(0).year + 1) % 100:02}"
        for template, reset, first in (
                ("{yyyy}{MM}{dd}-{counter:03}", "daily", f"{_fiscal_day(0):%Y%m%d}-001"),
                ("{fy}/{counter:03}", {"yearly": f"{_fiscal_day(0):%m-%d}"}, f"{shown}/001")):
            rule = {"ns": ns, **_TEXT, "template": template, "reset": reset}
            proxy = start_proxy(configuration(server, [rule]))
            insert(proxy, ns, 1)
            proxy.stop()
            assert numbers(server.client, ns)[-1] == first

    def test_one_counter_whose_text_shows_the_day(self, server, proxy, coll):
        ns = f"dated.{coll}"
        assert insert(proxy, ns, 2)["n"] == 2
        assert numbers(server.client, ns) == [f"{today():%Y%m%d}-{n:03}" for n in (1, 2)]
        assert counters(server).find_one({"_id": f"{ns}.n"})["COUNT"] == 11

    def test_a_day_begins_at_midnight_of_the_time_zone(self, server, proxy, coll):
        ns = f"zone.{coll}"
        assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(server.client, ns) == [f"{today(14):%Y-%m-%d}/1"]

    def test_check_digits(self, server, proxy, coll):
        assert insert(proxy, f"check.{coll}", 1)["n"] == 1
        assert numbers(server.client, f"check.{coll}") == ["0794-5"]
        assert insert(proxy, f"affix.{coll}", 1)["n"] == 1
        assert numbers(server.client, f"affix.{coll}") == ["K5724"]

    @pytest.mark.parametrize("name", STARTS)
    @pytest.mark.parametrize("check", CHECKS)
    def test_check_digits_of_many_numbers(self, server, proxy, coll, check, name):
        ns, count, start = f"{check}-{name}.{coll}", 1100, STARTS[name]
        assert insert(proxy, ns, count)["n"] == count
        assert numbers(server.client, ns) == [
            f"{number}{CHECKS[check](str(number))}" for number in range(start, start + count)]

    def test_a_field_of_the_document(self, server, proxy, coll):
        """One counter for all of them; a document without the field has an error of its own."""
        ns = f"field.{coll}"
        reply = insert(proxy, ns, [{"country": "DE"}, {"country": 7}, {}, {"country": "FR"}],
                       ordered=False)
        assert reply["n"] == 3
        (error,) = reply["writeErrors"]
        assert (error["index"], error["code"]) == (2, 2)
        assert error["errmsg"] == ("mongo-idproxy: no value for field 'n': field 'country' is "
                                   "missing: the rule's `template` needs it")
        assert numbers(server.client, ns) == ["DE-001", "7-002", "FR-003"]

    def test_beyond_the_width(self, server, proxy, coll):
        assert insert(proxy, f"wide.{coll}", 3)["n"] == 3
        assert numbers(server.client, f"wide.{coll}") == ["8", "9", "10"]
        event = proxy.wait_event("counter_beyond_width")
        assert event["counter"].endswith(f"wide.{coll}.n")
        assert insert(proxy, f"narrow.{coll}", 2)["n"] == 2
        reply = insert(proxy, f"narrow.{coll}", 1)
        assert reply["code"] == 96 and "up to max, 9," in reply["errmsg"]

    def test_as_id_and_beforehand(self, server, proxy, coll):
        assert insert(proxy, f"id.{coll}", 2)["n"] == 2
        assert [each["_id"] for each in stored(server.client, f"id.{coll}")] == ["A1", "A2"]
        with proxy.client() as client:
            ids = client.admin.command(
                "idproxy", "next", ns=f"yearly.{coll}", field="n", count=2)["ids"]
            assert ids == [f"INV-{today().year}-{n:06}" for n in (1, 2)]
            client.yearly[coll].update_one({"k": 5}, {"$set": {"x": 1}}, upsert=True)
            assert client.yearly[coll].find_one()["n"] == f"INV-{today().year}-000003"


@pytest.mark.parametrize("strategy", ["counter", "gapless"])
def test_a_fiscal_year_begins_at_midnight_of_the_zone(server, start_proxy, coll, tmp_path, strategy):
    """The page's example; also for documents from before, for the auditor, and after a lost counter."""
    section = PAGE.split("\n## Fiscal years\n")[1].split("\n## ")[0]
    (text,) = re.findall(r"(?s)```yaml\n  - (.*?)```", section)
    rule: dict[str, Any] = {key: value.strip('"') for key, value in
                            re.findall(r"(?m)^ *(\w+): ([^#\n]*\S)", text)}
    (first_day,) = re.fullmatch(r'\{yearly: "(\d\d-\d\d)"\}', rule["reset"]).groups()
    ns = f"{strategy}-bills.{coll}"
    zone = zoneinfo.ZoneInfo(rule["timezone"])
    config = configuration(server, [
        {**rule, "ns": ns, "strategy": strategy, "reset": {"yearly": first_day}}])
    moments = [(datetime.datetime.strptime(at, "%d %B %Y at %H:%M:%S").replace(tzinfo=zone), values.split(", "))
               for at, values in re.findall(r"(?m)^\| (\d.*?) \| (.*?) \|$", section)]
    clock = OwnClock(tmp_path)

    def set_to(at: datetime.datetime) -> None:
        clock.set_ahead(int((at - datetime.datetime.now(zone)).total_seconds()) + 1)

    set_to(moments[0][0] - datetime.timedelta(days=730))
    proxy = start_proxy(config, environment=clock.environment)
    eventually(lambda: insert(proxy, ns, 1).get("ok"))
    direct = server.client[f"{strategy}-bills"][coll]
    direct.delete_many({})
    ids = itertools.count()
    for at, values in moments:
        set_to(at)
        for _ in values:
            assert insert(proxy, ns, [{"_id": next(ids)}])["n"] == 1
    proxy.stop()
    for at, _ in moments:
        direct.insert_many([{"_id": next(ids), "at": at + datetime.timedelta(seconds=s)} for s in (0, 29)])
    done = Backfill(tmp_path, config, ns, "number", "--period-from", "at").end()
    assert done.code == 0 and done.number("given") == 4, done
    found = [each["number"] for each in direct.find().sort("_id")]
    assert found[:4] == [value for _, values in moments for value in values]
    assert [each.split("/")[0] for each in found[4:]] == [each[:-5] for each in found[0:4]]
    if strategy == "gapless":
        assert [each[-4:] for each in found[4:]] == ["0003", "0004"] * 2
    verified = subprocess.run(
        [binary(), "verify", "--config", tmp_path / "backfill.yaml", "--ns", ns, "--field", "number", "--json"],
        capture_output=True, text=True, timeout=60)
    assert verified.returncode == 0 and json.loads(verified.stdout)["sequences"]["count"] == 2, verified
    server.client[STORE].drop_collection("uniqueIdentifierCounter")
    again = start_proxy(config, environment=clock.environment)
    eventually(lambda: insert(again, ns, 1).get("ok"))
    assert numbers(server.client, ns, "number")[-1] == max(found)[:-4] + f"{int(max(found)[-4:]) + 1:04}"


class TestHealing:
    def test_behind_texts_of_its_own_year(self, server, proxy, coll):
        ns, year = f"yearly.{coll}", today().year
        server.client.yearly[coll].create_index("n", unique=True)
        server.client.yearly[coll].insert_many(
            [{"n": f"INV-{year}-000041"}, {"n": f"INV-{year - 1}-000999"}])
        assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(server.client, ns)[-1] == f"INV-{year}-000042"
        server.client.yearly[coll].insert_many([{"n": f"INV-{year}-{n:06}"} for n in (43, 44, 99)])
        assert insert(proxy, ns, 3)["n"] == 3  # two of them meet what is stored
        assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(server.client, ns)[-1] == f"INV-{year}-000101"

    def test_behind_texts_that_vary(self, server, proxy, coll):
        """The highest number is not in the last of the texts."""
        ns = f"dated.{coll}"
        server.client.dated[coll].create_index("n", unique=True)
        server.client.dated[coll].insert_many([{"n": "20010203-777"}, {"n": "20090101-005"}])
        assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(server.client, ns)[-1] == f"{today():%Y%m%d}-778"


class TestIndex:
    def test_values_that_repeat_need_a_further_field(self, server, proxy, coll):
        ns = f"repeats.{coll}"
        collection = server.client.repeats[coll]
        collection.create_index("n", unique=True)
        refusals = []

        def refused() -> bool:
            refusals.append(insert(proxy, ns, [{"day": "x"}]))
            return refusals[-1].get("code") == 96
        eventually(refused)
        assert re.search(r"no unique index guards the field \(n_1 does not do: its key needs a "
                         r"field that differs from period to period\); make it with .*"
                         r'createIndex\(\{"n": -1, <a field', refusals[-1]["errmsg"])
        collection.drop_indexes()
        collection.create_index([("day", 1), ("n", 1)], unique=True)
        eventually(lambda: insert(proxy, ns, [{"day": "x"}]).get("n") == 1)
        assert numbers(server.client, ns) == ["01"]


@pytest.mark.parametrize("rule, place, text", [
    ({"template": "{year}-{counter}"}, "template", "has {year}, which is no token: there are "),
    ({"template": "{field:a}{counter}"}, "template", "has {field:…} next to {counter}"),
    ({"template": "{field:a}{counter}", "scope": ["a"], "field": "_id"}, "template",
     "has {field:…} next to {counter}"),
    ({"template": "{field:n.x}-{counter}"}, "template",
     "has {field:n.x}: a field must not name the rule's own field 'n'"),
    ({"template": "{counter}", "timezone": "Mars/Base"}, "timezone",
     "must be a time zone that this host knows"),
    ({"template": "{counter}", "output": "int64"}, "template", "needs output: string"),
    *(({"template": "{fy}-{counter}", "reset": {"yearly": day}}, "reset.yearly",
       "must be the first day of the year as MM-DD, such as \"04-01\"; not 02-29")
      for day in ("02-29", "13-01", "04-31", "00-10", "4-1", "04-1", "04/01", "+4-01", "04-01 ", "april", "1")),
    ({"template": "{fy}-{counter}", "reset": {"yearly": ["04-01"]}}, "reset.yearly", "must be "),
    ({"template": "{fy}-{counter}", "reset": {}}, "reset.yearly", "is missing"),
    ({"template": "{fy}-{counter}", "reset": {"yearly": "04-01", "monthly": "01"}}, "reset",
     "unknown key 'monthly'"),
    ({"template": "{yyyy}-{counter}", "reset": "fiscal"}, "reset", "must be one of "),
    *(({"template": f"{token}-{{counter}}", **({"reset": reset} if reset else {})}, "template",
       "has {fy} or {fy4}, the fiscal year: `reset` must say when it begins")
      for token in ("{fy}", "{fy4}") for reset in (None, "yearly", "daily")),
    *(({"template": f"{{fy}}{token}-{{counter}}", "reset": {"yearly": "04-01"}}, "template",
       "has {fy} or {fy4}, the fiscal year, beside a date of the calendar") for token in ("{yyyy}", "{dd}")),
], ids=str)
def test_configuration_errors(tmp_path: pathlib.Path, rule, place, text):
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({"rules": [{"ns": "a.b", **_TEXT, **rule}]}))
    done = subprocess.run([binary(), "--check-config", "--config", path], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 78
    output = done.stdout + done.stderr
    assert re.search(rf"config\.yaml:\d+:\d+: error: rules\[0\]\.{place}: {re.escape(text)}",
                     output), output


def test_how_likely_a_guess_hits():
    """The page's table: documents / 10^digits."""
    head, _, *rows = re.findall(r"(?m)^\|.*$", PAGE.split("## How likely a guess hits\n")[1])
    documents = [int(re.sub(r"\D", "", cell)) for cell in head.split("|")[2:-1]]
    for digits, *cells in ([cell.strip() for cell in row.split("|")[1:-1]] for row in rows):
        one_in = [10 ** int(digits) // count for count in documents]
        assert cells == [f"1 in {n:,}" if n > 1 else "" for n in one_in], digits
