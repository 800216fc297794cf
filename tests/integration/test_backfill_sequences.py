"""mongo-idproxy backfill where documents decide which sequence their value comes from, and where numbers
must have no gaps."""

from __future__ import annotations

import datetime
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from support.backfill import Backfill, Done
from support.counters import insert
from support.mongod import Mongod
from support.proxy import configuration

DB = "backfill_sequences"


class Place:
    """A collection with one rule, and how to backfill it."""

    def __init__(self, mongod: Mongod, directory: pathlib.Path, coll: str, **rule: Any):
        self.ns = f"{DB}.{coll}"
        self.collection = mongod.client[DB][coll]
        self.config = configuration(mongod, [
            {"ns": self.ns, "field": "n", "unique_index": "create", **rule}])
        self._directory = directory

    def start(self, *options: str) -> Backfill:
        return Backfill(self._directory, self.config, self.ns, "n", *options)

    def run(self, *options: str) -> Done:
        return self.start(*options).end()

    def values(self, **matching: Any) -> list[Any]:
        """In the order of _id."""
        return [each.get("n") for each in self.collection.find(matching, sort=[("_id", 1)])]


@pytest.fixture
def place(replica_set: Mongod, tmp_path: pathlib.Path, coll: str) -> Callable[..., Place]:
    def make(strategy: str = "counter", **rule: Any) -> Place:
        return Place(replica_set, tmp_path, coll, strategy=strategy, **rule)
    return make


def day(year: int, month: int = 6) -> datetime.datetime:
    return datetime.datetime(year, month, 1, 12, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize("layout", ["unique-count", "mongoose-sequence"])
def test_each_tenant_gets_its_own_numbers(place, start_proxy, layout):
    """Behind those that a proxy gave; documents without the field are left."""
    there = place(scope=["site.tenant"], store={"layout": layout})
    proxy = start_proxy(there.config)
    assert insert(proxy, there.ns, [{"_id": -1, "site": {"tenant": "a"}}])["n"] == 1
    there.collection.insert_many(
        [{"_id": i, "site": {"tenant": "ab"[i % 2]}} for i in range(2500)] +
        [{"_id": 3000}, {"_id": 3001, "site": [{"tenant": "a"}]}])
    done = there.run()
    assert done.code == 1 and done.number("given") == 2500 and done.number("left") == 2, done
    assert "1: field 'site.tenant' is missing: the rule's `scope` needs it" in done.report
    assert "1: field 'site.tenant' lies within an array" in done.report
    a = there.values(**{"site.tenant": "a", "_id": {"$gte": 0, "$lt": 2500}})
    assert a[0] > 1 and a == list(range(a[0], a[0] + 1250))
    assert there.values(**{"site.tenant": "b"}) == list(range(1, 1251))
    again = there.run()
    assert again.code == 1 and again.number("given") == 0 and again.number("left") == 2, again


@pytest.mark.parametrize("strategy", ["counter", "gapless"])
def test_the_period_is_that_of_each_document(place, strategy):
    there = place(strategy, output="string", template="INV-{yyyy}-{counter:03}", reset="yearly",
                  scope=["tenant"], timezone="Europe/Berlin")
    there.collection.insert_many([
        {"_id": 1, "tenant": "a", "at": day(2024)}, {"_id": 2, "tenant": "a", "at": day(2025)},
        {"_id": 3, "tenant": "b", "at": day(2024)}, {"_id": 4, "tenant": "a", "at": day(2024)},
        {"_id": 5, "tenant": "a", "at": "2024"}, {"_id": 6, "tenant": "a", "n": "INV-2025-041"},
        # 23:30 in UTC, when it is the next year in Berlin.
        {"_id": 7, "tenant": "a", "at": datetime.datetime(2024, 12, 31, 23, 30)}])
    refused = there.run()
    assert refused.code == 64, refused
    assert "has a `reset`: --period-from must name the field with the date" in refused.errors
    rehearsal = there.run("--dry-run", "--period-from", "at")
    if strategy == "counter":  # gapless has no numbers without the index, which this does not make
        assert "depend on the document" in rehearsal.report, rehearsal
    done = there.run("--period-from", "at")
    assert done.code == 1 and done.number("given") == 5, done
    assert "1: field 'at' has no date, which --period-from needs" in done.report
    assert there.values() == ["INV-2024-001", "INV-2025-042", "INV-2024-001", "INV-2024-002", None,
                              "INV-2025-041", "INV-2025-043"]


def test_a_sequence_at_its_end_leaves_the_others_alone(place):
    there = place(scope=["tenant"], max=3)
    there.collection.insert_many(
        [{"_id": i, "tenant": "a" if i < 10 else "b"} for i in range(12)])
    done = there.run()
    assert done.code == 1 and done.number("given") == 5 and done.number("left") == 7, done
    assert "7: its sequence gives no values: " in done.report
    assert there.values(tenant="a") == [1, 2, 3] + 7 * [None]
    assert there.values(tenant="b") == [1, 2]


def test_gapless_beside_a_proxy(place, start_proxy):
    """Documents that come, go and are refused meanwhile, and another run that is stopped, leave no gap."""
    there = place("gapless", start=100)
    there.collection.database.create_collection(
        there.collection.name, validator={"$or": [{"n": {"$exists": False}}, {"ok": True}]})
    there.collection.insert_many([{"_id": i, "ok": i % 10 != 0} for i in range(120)])
    rehearsal = there.run("--dry-run")
    assert rehearsal.code == 69, rehearsal  # it makes no index
    there.collection.create_index("n", unique=True, sparse=True)
    proxy = start_proxy(there.config)
    assert insert(proxy, there.ns, [{"ok": True}])["n"] == 1
    rehearsal = there.run("--dry-run")
    assert "101 to 220" in rehearsal.report, rehearsal
    ended = threading.Event()

    def write() -> None:
        number = 1000
        while not ended.is_set():
            number += 1
            assert insert(proxy, there.ns, [{"_id": number, "ok": True}])["n"] == 1
            there.collection.delete_one({"_id": 10 * (number % 12) + 5, "n": {"$exists": False}})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        first = there.start()
        first.await_given(there.collection, "n", 30, _id={"$lt": 120})
        first.stop()
        done = there.run()
    finally:
        ended.set()
        writer.join()
    assert done.number("left") == 12 and done.code == 1, done
    assert "the collection's validator refuses it (error 121)" in done.report
    numbers = sorted(n for n in there.values() if n is not None)
    assert numbers == list(range(100, 100 + len(numbers)))
    assert done.number("numbers not stored") == 0
