"""Connections that break at any step of an upsert, with ids that collide: nothing lost or doubled.

As test_chaos.py, for the ways that drivers have to write upserts. What each of them said of each
document is held against what the server has in the end (support.increments).
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bson
import pytest
from pymongo.errors import AutoReconnect

from program import Program, StepFailed, Steps, available
from support.chaos import Chain, quiet
from support.full import FULL
from support.increments import Increments
from support.mongod import Mongod
from support.process import eventually

# How many programs of each driver there are for each side and field. After each lost connection
# some drivers sleep until half a second is over since they last looked for their server.
PROGRAMS = {"pymongo": 2, "node": 1, "go": 1, "java": 1, "libmongoc": 4}
SIDES = ["downstream", "upstream"]
DROPPED = 0.12

VALUES = 10_000 if FULL else 1000
TAKEN = range(0, VALUES, 2)  # half of the values are in use from the start
FIELDS = {"upid": "_id", "upfield": "number"}
RETRY = {"attempts": 100, "deadline": "60s"}
RULES = [{"ns": f"{db}.*", "field": field, "strategy": "random-digits",
          "digits": len(str(VALUES - 1)), "max_fill": 0.99, "retry": RETRY}
         for db, field in FIELDS.items()]

OPERATIONS = ["updateOne", "findOneAndUpdate", "bulkWrite", "replaceOne", "updateMany"]
# The proxy never sends an updateMany again, and a replacement's value is the application's.
PASSED_ON = {"updateMany", "replaceOne"}
# Of each driver for each side and field; in full, 10,000 of each driver.
COUNT = 2_500 if FULL else 40

pytestmark = pytest.mark.timeout(3600 if FULL else 600)

_collections = (f"c{i}" for i in itertools.count())


class Writer:
    """One program of a driver, with a collection of its own in one of the databases of FIELDS."""

    def __init__(self, server: Mongod, chain: Chain, side: str, name: str, driver: Program,
                 db: str):
        self.name, self.side, self.db = name, side, db
        self._count = COUNT // PROGRAMS[name]
        self._keys = self._count // 2
        self.collection = server.client[db][next(_collections)]
        for unique in ("number", "k"):
            self.collection.create_index(unique, unique=True, sparse=True)
        self.collection.insert_many([{FIELDS[db]: bson.Int64(i)} for i in TAKEN])
        self._numbers = asked_for(chain, self.collection.full_name, FIELDS[db],
                                  self._count // len(OPERATIONS) + 1)
        self._driver, self._uri = driver, chain.uri
        self._choose = random.Random(f"{side}/{self.collection.full_name}")
        self.told, self.outcomes = Increments(), Counter[tuple[str, str]]()

    def write(self) -> None:
        with self._driver.steps(watched=False, uri=self._uri, db=self.db) as steps:
            for number in range(self._count):
                operation = self._operation(number)
                self.outcomes[operation["op"], self._do(steps, operation)] += 1

    def _operation(self, number: int) -> dict[str, Any]:
        op = OPERATIONS[number % len(OPERATIONS)]
        if op == "replaceOne":  # with a key of its own
            document = {"k": self._keys + number, "n": 1, FIELDS[self.db]: self._numbers.pop()}
            return {"op": op, "keys": [document["k"]], "replacement": document}
        keys = [self._choose.randrange(self._keys) for _ in range(5 if op == "bulkWrite" else 1)]
        return {"op": op, "keys": keys, "ordered": self._choose.random() < 0.5}

    def _do(self, steps: Steps, operation: dict[str, Any]) -> str:
        """Does it and writes down what came of it; returns the outcome."""
        keys = operation["keys"]
        try:
            result = steps("upsert", coll=self.collection.name, **operation)
        except StepFailed as failure:
            if failure.codes == {11000} and operation["op"] in PASSED_ON:
                return "refused"
            assert not failure.codes, failure
            self.told.unknown.update(keys)
            return "unknown"
        self.told.acknowledged.update(keys)
        if operation["op"] == "findOneAndUpdate":
            self.told.reported[keys[0]].append(result["document"])
            return "ok"
        assert result["matched"] + len(result["upserted"]) == len(keys), (operation, result)
        given = operation.get("replacement", {})
        for position, _id in result["upserted"].items():
            assert _id == given.get("_id", _id), (operation, result)
            self.told.inserted(keys[int(position)], {**given, "_id": _id})
        return "ok"

    def violations(self) -> list[str]:
        found = self.collection.find({"k": {"$exists": True}})
        return self.told.violations(found, FIELDS[self.db], is_free)


def asked_for(chain: Chain, ns: str, field: str, count: int) -> list[int]:
    """Values for replacements, as an application gets them over connections that may break."""
    request = {"idproxy": "next", "ns": ns, "field": field, "count": count}
    with chain.proxy.client() as client:
        for _ in range(20):
            try:
                return client.admin.command(request)["ids"]
            except AutoReconnect:
                pass
    raise AssertionError("no values")


def is_free(value: Any) -> bool:
    """A value that the rule can have made and that was not in use."""
    return isinstance(value, int) and 0 <= value < VALUES and value not in TAKEN


@pytest.fixture(scope="module")
def chains(request, replica_set) -> dict[str, Chain]:
    chains = {side: Chain(replica_set, RULES, {side: DROPPED}, side) for side in SIDES}
    for chain in chains.values():
        request.addfinalizer(chain.kill)
    return chains


@pytest.fixture(scope="module")
def writers(request, chains, replica_set) -> list[Writer]:
    """Those of each driver on each side, who are done. All at the same time, because most of it is
    waiting."""
    writers = [Writer(replica_set, chain, side, name, driver, db)
               for side, chain in chains.items()
               for name, driver in available(request, PROGRAMS).items()
               for db in FIELDS for _ in range(PROGRAMS[name])]
    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(Writer.write, writers))
    for chain in chains.values():
        chain.stop()
    eventually(lambda: quiet(replica_set, *FIELDS), 60, "the server is done with what was cut off")
    return writers


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("driver", PROGRAMS)
def test_nothing_is_lost_or_doubled(writers, driver, side, request):
    request.getfixturevalue(driver)
    for writer in writers:
        if (writer.name, writer.side) == (driver, side):
            assert (writer.db, writer.violations()) == (writer.db, [])


@pytest.mark.parametrize("driver", PROGRAMS)
def test_each_operation_was_done(writers, driver, request, record):
    request.getfixturevalue(driver)
    outcomes = sum((each.outcomes for each in writers if each.name == driver), Counter())
    for (op, outcome), times in sorted(outcomes.items()):
        record(f"{driver}: {op}, {outcome}", times)
    assert all(outcomes[op, "ok"] for op in OPERATIONS), outcomes


@pytest.mark.parametrize("side", SIDES)
def test_there_were_faults_and_collisions(writers, chains, side, record):
    """What was to be tested did happen."""
    relay, chain = getattr(chains[side], side), chains[side]
    count = sum(each.outcomes.total() for each in writers if each.side == side)
    record(f"{side}: operations", count)
    record(f"{side}: steps", relay.steps)
    record(f"{side}: cuts", sum(relay.dropped.values()))
    record(f"{side}: duplicates cured", chain.stopped["duplicates_cured"])
    assert relay.steps > 1.5 * count
    assert 0.6 * DROPPED < sum(relay.dropped.values()) / relay.steps < 1.4 * DROPPED
    assert all(relay.dropped[direction, fate] for direction in ("to_server", "to_client")
               for fate in ("drop_before", "drop_after"))
    assert chain.stopped["duplicates_cured"] > count / 20
