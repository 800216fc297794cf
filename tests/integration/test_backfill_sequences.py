"""mongo-idproxy backfill where documents decide which sequence their value comes from, and where numbers
must have no gaps."""

from __future__ import annotations

import datetime
import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.backfill import Backfill, Done, failing, updated_twice
from support.counters import Load, insert
from support.mongod import Mongod
from support.proxy import configuration
from support.threads import Threads

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
    assert rehearsal.code == 0, rehearsal
    assert "known with the first one" in rehearsal.report, rehearsal
    assert "the proxy makes the unique index when it starts" in rehearsal.errors, rehearsal
    assert "n_idproxy" not in there.collection.index_information()
    there.collection.create_index("n", unique=True, sparse=True)
    proxy = start_proxy(there.config)
    assert insert(proxy, there.ns, [{"ok": True}])["n"] == 1
    rehearsal = there.run("--dry-run")
    assert "101 to 220" in rehearsal.report, rehearsal

    def write() -> None:
        number = 1000
        while not writer.over.is_set():
            number += 1
            assert insert(proxy, there.ns, [{"_id": number, "ok": True}])["n"] == 1
            there.collection.delete_one({"_id": 10 * (number % 12) + 5, "n": {"$exists": False}})

    writer = Threads(write)
    with writer:
        first = there.start()
        first.await_given(there.collection, "n", 30, _id={"$lt": 120})
        first.stop()
        done = there.run()
    assert done.number("left") == 12 and done.code == 1, done
    assert "the collection's validator refuses it (error 121)" in done.report
    numbers = sorted(n for n in there.values() if n is not None)
    assert numbers == list(range(100, 100 + len(numbers)))
    assert done.number("numbers not stored") == 0


def inserts_tried(mongod: Mongod) -> int:
    """Documents that clients have sent to the server, stored or not."""
    return mongod.client.admin.command("serverStatus")["opcounters"]["insert"]


class TestGaplessBesideManyWriters:
    """It gets its share of the numbers, as each process that wants some does. Measured in documents, since
    the machine may be busy: while it gave 400 numbers, others got 16,000 before, and now 300 to 1,000."""

    DOCUMENTS = 400

    def begin(self, place: Callable[..., Place], start_proxy: Callable[..., Any], proxies: int,
              writers: int) -> tuple[Place, Load]:
        there = place("gapless")
        there.collection.insert_many([{"_id": i} for i in range(self.DOCUMENTS)])
        there.collection.create_index("n", unique=True, sparse=True)
        running = [start_proxy(there.config) for _ in range(proxies)]
        for each in running:
            assert insert(each, there.ns, [{"k": -1}])["n"] == 1
        where = [lambda at=each: at.address for each in running for _ in range(writers)]
        return there, Load(where, there.ns, sizes=(1,))

    def audit(self, there: Place) -> int:
        """The numbers that others got while it ran. No number is missing, and none is stored twice."""
        old = there.values(_id={"$lt": self.DOCUMENTS})
        assert old == sorted(old) and len(old) == self.DOCUMENTS
        numbers = sorted(there.values())
        assert numbers == list(range(1, len(numbers) + 1))
        return old[-1] - old[0] + 1 - self.DOCUMENTS

    def test_of_one_proxy(self, place, start_proxy, record):
        there, load = self.begin(place, start_proxy, 1, 8)
        with load:
            load.await_documents(20)
            begun = time.monotonic()
            done = there.run()
            record("400 documents beside eight writers: seconds", time.monotonic() - begun)
        assert done.code == 0 and done.number("given") == self.DOCUMENTS, done
        assert done.number("left") == 0 and done.number("numbers not stored") == 0, done
        others = self.audit(there)
        record("numbers that others got meanwhile", others)
        assert others < 5 * self.DOCUMENTS, done

    def test_of_two_proxies(self, place, start_proxy, replica_set, record):
        """Nor do the three processes spend their time on refused numbers: one in two documents has one."""
        there, load = self.begin(place, start_proxy, 2, 8)
        tried = inserts_tried(replica_set)
        with load:
            load.await_documents(20)
            done = there.run()
        tried = inserts_tried(replica_set) - tried
        assert done.code == 0 and done.number("left") == 0, done
        others = self.audit(there)
        assert others < 10 * self.DOCUMENTS, done
        record("numbers that others got meanwhile", others)
        record("refused inserts per document of the proxies", tried / load.documents - 1)
        record("refused updates per document of the backfill",
               done.number("duplicates renewed") / self.DOCUMENTS)
        assert tried < 3 * load.documents
        assert done.number("duplicates renewed") < 3 * self.DOCUMENTS, done
        each = [sum(len(keys) for who, keys in load.acknowledged if who // 8 == at) for at in (0, 1)]
        assert min(each) > sum(each) / 10, "each of the proxies gets its share"

    @pytest.mark.parametrize("fault", [
        pytest.param({"writeConcernError": {"code": 64, "errmsg": "no majority"}}, id="carried-out"),
        pytest.param({"closeConnection": True}, id="lost"),
        pytest.param({"errorCode": 91}, id="stepping-down")])
    def test_updates_without_an_answer(self, place, start_proxy, replica_set, fault):
        """Their documents get the number that is next then, unless they have one. The first update only
        asks for the privilege."""
        there, load = self.begin(place, start_proxy, 1, 2)
        with load, failing(replica_set, ["update"], {"skip": 1}, namespace=there.ns,
                           **fault) as await_failures:
            running = there.start("--rate", "200")
            await_failures(3)
            load.await_documents(5)
        done = running.end()
        assert done.code == 0 and done.number("given") == self.DOCUMENTS, done
        assert not updated_twice(replica_set.client, there.ns)
        self.audit(there)

    def test_stops_while_others_take_each_number(self, place, start_proxy):
        there, load = self.begin(place, start_proxy, 1, 4)
        with load:
            running = there.start()
            running.await_given(there.collection, "n", 5, _id={"$lt": self.DOCUMENTS})
            done = running.stop()
        assert done.code == 1 and "stopped by a signal" in done.report, done
        assert there.run().code == 0
        self.audit(there)
