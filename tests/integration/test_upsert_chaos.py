"""Connections that break at any step of an upsert, with ids that collide: nothing lost or doubled.

Each upsert adds 1 to a field of the document with its key. What the driver was told about each is
held against what the server has in the end. The same as test_chaos.py for update and findAndModify.
"""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import bson
import pymongo
import pytest
from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import AutoReconnect, BulkWriteError, ServerSelectionTimeoutError

from support.chaos import Chain, quiet
from support.full import FULL
from support.increments import Increments
from support.mongod import Mongod
from support.process import eventually

DIGITS = 4
TAKEN = range(0, 10**DIGITS, 2)  # half of the values are in use from the start
FIELDS = {"upid": "_id", "upfield": "number"}
RULES = [{"ns": f"{db}.*", "field": name, "strategy": "random-digits", "digits": DIGITS,
          "max_fill": 0.99, "retry": {"attempts": 100, "deadline": "60s"}}
         for db, name in FIELDS.items()]
DRIVER = {"retryWrites": True, "serverMonitoringMode": "poll", "serverSelectionTimeoutMS": 60_000}
DROPPED = 0.12
SIDES = {"downstream": ["downstream"], "upstream": ["upstream"], "both": ["downstream", "upstream"]}
# Of each writer, of which there are four: bulk writes and findAndModifies.
OPERATIONS = 2_500 if FULL else 160
UPDATES: list[Any] = [{"$inc": {"n": 1}},
                      [{"$set": {"n": {"$add": [{"$ifNull": ["$n", 0]}, 1]}}}]]

_collections = (f"c{i}" for i in itertools.count())


@pytest.fixture(autouse=True)
def quick_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in test_chaos.py."""
    monkeypatch.setattr(pymongo.common, "MIN_HEARTBEAT_INTERVAL", 0.02)


@dataclass(frozen=True)
class Writer:
    """One of those that write at the same time, each into a collection of its own."""

    db: str
    ordered: bool

    def prepare(self, server: Mongod, coll: str) -> None:
        collection = server.client[self.db][coll]
        for name in ("number", "u"):
            collection.create_index(name, unique=True, sparse=True)
        collection.insert_many(
            [{"u": -1}, *({FIELDS[self.db]: bson.Int64(i)} for i in TAKEN)])

    def work(self, collection: Any, seed: str) -> Increments:
        choose, told = random.Random(seed), Increments()
        for _ in range(OPERATIONS):
            # Every key comes about five times, so that most upserts find their document.
            keys = [choose.randrange(OPERATIONS // 2) for _ in range(5)]
            update = choose.choice(UPDATES)
            if choose.random() < 0.5:
                self._modify(collection, keys[0], update, told)
            else:
                self._write(collection, keys, update, choose.randrange(20), told)
        return told

    def _modify(self, collection: Any, k: int, update: Any, told: Increments) -> None:
        try:
            document = collection.find_one_and_update(
                {"k": k}, update, upsert=True, return_document=ReturnDocument.AFTER)
            told.acknowledged[k] += 1
            told.reported[k].append(document)
        except (AutoReconnect, ServerSelectionTimeoutError):
            told.unknown[k] += 1

    def _write(self, collection: Any, keys: list[int], update: Any, refused: int,
               told: Increments) -> None:
        """refused: the position of an upsert that collides with another document by a field of the
        application's own."""
        updates = [UpdateOne({"k": -1 - i}, {"$set": {"u": -1}, "$inc": {"n": 1}}, upsert=True)
                   if i == refused else UpdateOne({"k": k}, update, upsert=True)
                   for i, k in enumerate(keys)]
        done = [i for i in range(len(keys)) if i != refused]
        try:
            result = collection.bulk_write(updates, ordered=self.ordered).bulk_api_result
            assert refused >= len(keys)
        except BulkWriteError as failure:
            result = failure.details
            (error,) = result["writeErrors"]
            assert error["keyPattern"] == {"u": 1} and error["index"] == refused, error
            if self.ordered:
                done = done[:refused]
        except (AutoReconnect, ServerSelectionTimeoutError):
            told.unknown.update(keys[i] for i in done)
            return
        assert result["nMatched"] + len(result["upserted"]) == len(done)
        told.acknowledged.update(keys[i] for i in done)
        for each in result["upserted"]:
            told.inserted(keys[each["index"]], {"_id": each["_id"]})


WRITERS = [Writer(db, ordered) for db in FIELDS for ordered in (True, False)]


@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("side", [
    pytest.param("downstream", marks=pytest.mark.full), pytest.param("upstream", marks=pytest.mark.full), "both"])
def test_drops_at_random(replica_set: Mongod, side: str):
    names = [next(_collections) for _ in WRITERS]
    for writer, name in zip(WRITERS, names):
        writer.prepare(replica_set, name)
    with Chain(replica_set, RULES, dict.fromkeys(SIDES[side], DROPPED), side) as chain:
        def work(number: int) -> Increments:
            writer = WRITERS[number]
            with pymongo.MongoClient(chain.uri, **DRIVER) as client:
                return writer.work(client[writer.db][names[number]], f"{side}/{number}")

        with ThreadPoolExecutor(len(WRITERS)) as pool:
            told = list(pool.map(work, range(len(WRITERS))))
    for writer, name, each in zip(WRITERS, names, told):
        eventually(lambda: quiet(replica_set, writer.db), 60, "no write is still at work")
        found = list(replica_set.client[writer.db][name].find({"n": {"$exists": True}}))
        violations = each.violations(found, FIELDS[writer.db], is_free)
        assert not violations, (writer, violations)
        replica_set.client[writer.db][name].drop()
    # What was to be tested did happen.
    assert all(each.acknowledged.total() > OPERATIONS for each in told)
    assert sum(each.unknown.total() for each in told) > 5
    assert all(sum(getattr(chain, each).dropped.values()) > OPERATIONS / 4 for each in SIDES[side])
    assert chain.stopped["duplicates_cured"] > OPERATIONS / 4
    assert chain.stopped["duplicates_foreign"] > 0


def is_free(value: Any) -> bool:
    """A value that the rule can have made and that was not in use."""
    return isinstance(value, bson.Int64) and 0 <= value < 10**DIGITS and value not in TAKEN


# The checker itself.

def test_increments_see_each_violation():
    told = Increments()
    told.acknowledged.update({1: 2, 2: 1})
    told.unknown.update({2: 1, 3: 1})
    told.inserted(1, {"_id": 10})
    told.reported[1].append({"_id": 10, "k": 1, "n": 2, "v": 1})
    good = [{"_id": 10, "k": 1, "n": 2, "v": 1}, {"_id": 20, "k": 2, "n": 2, "v": 3}]
    first, second = good

    def found(*stored: dict[str, Any]) -> list[str]:
        return told.violations(stored, "v", lambda value: value is not None)

    assert not found(*good) and not found(*good, {"k": 3, "n": 1, "v": 5})
    assert found(first) == ["k=2: 1 acknowledged and 1 unknown, executed 0 times"]
    assert found({**first, "n": 3}, second) == [
        "k=1: 2 acknowledged and 0 unknown, executed 3 times"]
    assert found({**first, "n": 1}, {"k": 1, "n": 1, "v": 7}, second)[0] == "k=1: stored 2 times"
    assert found(first, {**second, "v": 1}) == ["1 is stored 2 times"]
    assert found(first, {"k": 2, "n": 1}) == ["k=2: has None"]
    assert found(*good, {"k": 4, "n": 1, "v": 9}) == [
        "k=4: 0 acknowledged and 0 unknown, executed 1 times",
        "k=4: no upsert is reported to have inserted it"]
    assert [line.partition("{")[0] for line in found({**first, "v": 8}, second)] == ["k=1: reported "]
    assert [line.partition("{")[0] for line in found({**first, "_id": 8}, second)] == [
        "k=1: reported "] * 2
    told.reported[1].append({"n": 2})
    assert found(*good) == ["k=1: n=2 is reported 2 times"]
