"""bulkWrite of each driver's client, which sends the command bulkWrite of MongoDB 8.0: every document gets
its values, duplicates are cured, and what is sent again is not stored twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from program import Program
from support.bulk_write_server import BulkWriteServer
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.thief import Robbed, Thief, fresh
from support.upserts import is_generated

# The first test of a driver may have to fetch its tool chain.
pytestmark = [pytest.mark.timeout(600), pytest.mark.needs("retried_stmt_ids", "collection_uuid")]

DRIVERS = ["node", "go", "java"]  # PyMongo: tests/integration/test_bulk_write.py
RULES = [{"ns": "bulk.*", "field": "made", "strategy": "random-digits", "digits": 12,
          "leading_zeros": False, "retry": {"attempts": 100}}]
COUNT = 30


@dataclass
class Place(Robbed):
    front: BulkWriteServer | None = None


@pytest.fixture(scope="module")
def place(replica_set: Mongod) -> Iterator[Place]:
    """A batch holds fewer results than a bulkWrite has."""
    with (Thief(replica_set) as thief, BulkWriteServer(replica_set, thief, batch_size=7) as front,
          Proxy(configuration(front, RULES, replica_set)) as proxy):
        yield Place(replica_set, thief, proxy, front=front)


@pytest.mark.parametrize("driver", DRIVERS, indirect=True)
def test_bulk_write(place: Place, driver: Program, coll: str) -> None:
    with driver.steps(watched=False, uri=place.proxy.set_uri("rs0"), db="bulk") as steps:
        for number, (ordered, verbose, way) in enumerate(itertools.product(
                (True, False), (True, False), ("plain", "transaction", "lose request", "lose reply"))):
            one = fresh(place, "bulk", f"{coll}_{number}", "made")
            two = f"bulk.{coll}_{number}two"
            place.thief.steal(one, "made", {0: 2, 4: 0 if way == "transaction" else 1})
            place.collection(two).insert_one({"_id": "it is there", "k": -1})
            if way.startswith("lose"):
                place.front.faults = [way]
            done = steps("bulk", namespaces=[one, two], count=COUNT, ordered=ordered,
                         verbose=verbose, transaction=way == "transaction")
            assert done == {"inserted": COUNT, "upserted": 1, "results": verbose * (COUNT + 1),
                            "calls": 3 if way == "transaction" else 1}, (ordered, verbose, way)
            stored = place.stored(one) + place.stored(two)[1:]
            assert sorted(d["k"] for d in stored) == list(range(COUNT + 1))
            assert all(is_generated(d["made"]) and d["text"] == f"text {d['k']}" for d in stored)
            assert not place.front.faults
