"""The Mongoose plugin mongoose-sequence beside the proxies, on the same counters."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bson.binary import Binary

from program import Program
from support.mongod import Mongod
from support.proxy import configuration

# The first test may have to fetch the plugin.
pytestmark = pytest.mark.timeout(600)

HOUSE = "00112233-4455-6677-8899-aabbccddeeff"
PLACES: list[dict[str, Any]] = [
    {"country": "fr", "address": {"city": "Paris"}, "floor": 3, "house": HOUSE},
    {"country": "fr", "address": {"city": "Paris"}, "floor": 3_000_000_000},
    {"address": {"city": "Roma"}},
    {},
]


def rules(db: str, block: int) -> list[dict[str, Any]]:
    counters = {"db": db, "layout": "mongoose-sequence"}
    return [
        {"ns": f"{db}.inhabitants", "field": "number", "strategy": "counter", "block": block,
         "scope": ["address.city", "country", "floor", "house"], "on_missing_scope": "null",
         "unique_index": "create", "store": {**counters, "key": "inhabitant_seq"}},
        {"ns": f"{db}.orders", "field": "order", "strategy": "counter", "block": block,
         "start": 100, "step": 10, "unique_index": "create", "store": {**counters, "key": "order"}},
    ]


@pytest.fixture
def db(replica_set: Mongod) -> str:
    """With the collections, so that the proxy makes the indexes before the first insert."""
    name = f"sequence-{uuid.uuid4().hex[:8]}"
    replica_set.client[name].create_collection("inhabitants")
    replica_set.client[name].create_collection("orders")
    return name


def numbers(server: Mongod, db: str, place: dict[str, Any]) -> list[int]:
    """In the order in which they were stored."""
    house = place.get("house")
    found = server.client[db].inhabitants.find({
        "country": place.get("country"), "address.city": place.get("address", {}).get("city"),
        "floor": place.get("floor"), "house": house and Binary.from_uuid(uuid.UUID(house))})
    return [each["number"] for each in found.sort("$natural")]


def test_they_continue_each_other(replica_set, start_proxy, mongoose_sequence: Program, db):
    proxy = start_proxy(configuration(replica_set, rules(db, 1)))
    steps = ["save", "insertMany", "insertMany", "save", "insertMany", "save"]
    done = mongoose_sequence("steps", uri=proxy.uri, db=db, steps=steps, documents=PLACES)
    assert done["saved"] == [n for n in (1, 4, 6) for _ in PLACES]
    for place in PLACES:
        assert numbers(replica_set, db, place) == [1, 2, 3, 4, 5, 6]
    done = mongoose_sequence("steps", uri=proxy.uri, db=db, steps=["insertMany", "save"] * 2,
                             documents=[{"item": "cup"}] * 2)
    assert done["saved"] == [120, 130, 160, 170]
    found = replica_set.client[db].orders.find().sort("$natural")
    assert [each["order"] for each in found] == list(range(100, 180, 10))
    counters = list(replica_set.client[db].counters.find({}, {"_id": 0}))
    assert len(counters) == len(PLACES) + 1
    assert {"id": "order", "reference_value": None, "seq": 170} in counters


def test_both_at_once(replica_set, start_proxy, mongoose_sequence: Program, db):
    """Two applications, each by a proxy of its own, which hold blocks: no number twice, no error."""
    proxies = [start_proxy(configuration(replica_set, rules(db, 5))) for _ in range(2)]
    steps = ["insertMany", "save"] * 15
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda proxy: mongoose_sequence(
            "steps", uri=proxy.uri, db=db, steps=steps, documents=PLACES), proxies))
    for at, place in enumerate(PLACES):
        found = numbers(replica_set, db, place)
        assert len(set(found)) == len(found) == 60
        assert {n for each in done for n in each["saved"][at::len(PLACES)]} <= set(found)
    assert replica_set.client[db].counters.count_documents({}) == len(PLACES)
