"""What ODMs and tools send when they save a document a second time, whose number they do not know: real
ones, whose applications are as they would be without the proxy.

Their programs know three steps, for one database each: `init` makes their indexes, as they do at their start, `first`
stores new documents, and `second` changes the same objects in memory and stores them again. Each document has its `way`, by
which it is stored, and an `item`, which is "cup" and then "pot". Collections begin with "orders".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pymongo
import pytest
from bson import Int64
from pymongo.database import Database

from program import Program
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration

# The first test of an ODM may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(1800)

KEEPS = ["off", "replacements", "always"]
INDEXED = ["fresh", "there"]
DBS = [*KEEPS, *INDEXED, "nulls"]

KEYS: dict[str, dict[str, str]] = {
    "off": {"keep": "off"},
    "replacements": {},  # the default
    "always": {"keep": "always"},
    **{db: {"keep": "always", "unique_index": "create"} for db in INDEXED},
    "nulls": {"keep": "off", "assign": "missing"},
}
RULES = [{"ns": f"{db}.orders*", "field": "number", "strategy": "counter", "assign": "missing-or-null", **KEYS[db]}
         for db in DBS]

# Way -> the least `keep` with which its first write gets a number, and the one with which the second write leaves it.
INSERTED, REPLACED = ("off", "off"), ("off", "replacements")
SET, UPSERTED, SET_UPSERTED = ("off", "always"), ("replacements", "replacements"), ("always", "always")
WAYS: dict[str, dict[str, tuple[str, str]]] = {
    "python_odms": {
        "beanie insert": SET,
        "beanie save": SET_UPSERTED,
        "beanie replace": REPLACED,
        "beanie without nulls": SET,  # by $unset
        "django save": SET,
        "django bulk_create 0": SET,
        "django bulk_create 1": SET,
        "mongoengine save": INSERTED,
    },
    "node_odms": {
        **{f"mongoose {version} {way}": INSERTED for version in (8, 9)
           for way in ("save", "insertMany 0", "insertMany 1", "bulkSave 0", "bulkSave 1")},
        **{f"mongoose {version} replaceOne": UPSERTED for version in (8, 9)},
        "typeorm save": SET,
        "typeorm several 0": SET,
        "typeorm several 1": SET,
    },
    "java_odms": {
        "spring save": REPLACED,
        "spring save with an id": UPSERTED,
        "spring saveAll 0": REPLACED,
        "spring saveAll 1": REPLACED,
        "spring @Version": REPLACED,
        "morphia save": REPLACED,
        "morphia save 0": REPLACED,
        "morphia save 1": REPLACED,
        "morphia @Version": REPLACED,
    },
    "tools": {
        "kafka 0": UPSERTED,
        "kafka 1": UPSERTED,
        "mongoimport --mode upsert": UPSERTED,
        "mongoimport --mode merge": INSERTED,
    },
}


# Those that send null for a number that they do not know, as docs/drivers.md says of zero values.
NULLS = ("beanie insert", "beanie save", "beanie replace", "django")


class Tools:
    """By the commands that they send: a sink of Kafka Connect, and mongoimport, which is in no package registry."""

    def __init__(self, client: pymongo.MongoClient):
        self._client = client

    def __call__(self, step: str, db: str) -> None:
        shop = self._client[db]
        if step == "init":
            for coll in ("orders_kafka", "orders_mongoimport"):
                shop[coll].create_index("number", unique=True, sparse=True)
            return
        item = {"first": "cup", "second": "pot"}[step]
        shop.orders_kafka.bulk_write([
            pymongo.ReplaceOne({"_id": k}, {"_id": k, "way": f"kafka {k}", "item": item}, upsert=True)
            for k in range(2)])
        replaced, merged = ({"_id": mode, "way": f"mongoimport --mode {mode}", "item": item}
                            for mode in ("upsert", "merge"))
        shop.orders_mongoimport.bulk_write(
            [pymongo.ReplaceOne({"_id": "upsert"}, replaced, upsert=True)], ordered=False)
        shop.orders_mongoimport.bulk_write(
            [pymongo.UpdateOne({"_id": "merge"}, {"$set": merged}, upsert=True)], ordered=False)


@dataclass
class Odms:
    """Those of one language. They start once."""

    ways: dict[str, tuple[str, str]]
    do: Callable[..., Any]

    def with_keep(self, keep: str, write: int) -> set[str]:
        """The ways whose first (0) or second (1) write leaves a number with it."""
        return {way for way, needed in self.ways.items() if needed[write] in KEEPS[:KEEPS.index(keep) + 1]}

    def stored(self, db: Database) -> dict[str, dict[str, Any]]:
        """Way -> document, with its collection's name."""
        return {each["way"]: {**each, "coll": coll} for coll in collections(db)
                for each in db[coll].find({"way": {"$in": [*self.ways]}})}


def collections(db: Database) -> list[str]:
    return db.list_collection_names(filter={"name": {"$regex": "^orders"}})


def numbers(found: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Of those that have one; no collection has one twice."""
    having = {way: each["number"] for way, each in found.items() if each.get("number") is not None}
    assert len({(found[way]["coll"], number) for way, number in having.items()}) == len(having)
    return having


@pytest.fixture(scope="module")
def proxy(replica_set: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(replica_set, RULES)) as running:
        yield running


@pytest.fixture(scope="module", params=WAYS)
def odms(request: pytest.FixtureRequest, proxy: Proxy) -> Iterator[Odms]:
    with ExitStack() as stack:
        if request.param == "tools":
            do: Callable[..., Any] = Tools(stack.enter_context(proxy.client()))
        else:
            program: Program = request.getfixturevalue(request.param)
            do = stack.enter_context(program.steps(watched=False, uri=proxy.uri, dbs=DBS))
        yield Odms(WAYS[request.param], do)


def test_what_they_send(odms, replica_set):
    """At first, for a number that they do not know."""
    odms.do("first", db="nulls")
    found = odms.stored(replica_set.client["nulls"])
    assert {way for way, each in found.items() if each.get("number", 0) is None} == {
        way for way in odms.ways if way.startswith(NULLS)}


@pytest.mark.parametrize("keep", KEEPS)
def test_saved_twice(odms, proxy, replica_set, keep):
    """A number given at the first save is kept at the second, which uses none up."""
    db = replica_set.client[keep]

    odms.do("first", db=keep)
    first = odms.stored(db)
    assert {way: each["item"] for way, each in first.items()} == dict.fromkeys(odms.ways, "cup")
    given = numbers(first)
    assert {*given} == odms.with_keep(keep, 0)

    odms.do("second", db=keep)
    second = odms.stored(db)
    assert {way: each["item"] for way, each in second.items()} == dict.fromkeys(odms.ways, "pot")
    kept = numbers(second)
    assert kept == {way: number for way, number in given.items() if way in odms.with_keep(keep, 1)}

    colls = {each["coll"] for each in first.values()}
    # Beanie learns the number of a first save(), and sends it with the second: `sets`.
    told = {event["ns"] for event in proxy.find_events("value_taken_away") if event["reason"] != "sets"} & {
        f"{keep}.{coll}" for coll in colls}
    # With `off` the proxy cannot know whether a replaced document has a number.
    lost = {*given} - {*kept} | {way for way, form in odms.ways.items() if keep == "off" and form == UPSERTED}
    assert told == {f"{keep}.{first[way]['coll']}" for way in lost}, "each loss is said, and nothing else"

    with proxy.client() as client:
        for coll in colls - {"orders_kafka"}:  # whose command has several statements
            client[keep][coll].insert_one({"_id": "next"})
            here = [number for way, number in given.items() if first[way]["coll"] == coll]
            assert db[coll].find_one("next")["number"] == max(here, default=0) + 1, coll


@pytest.mark.parametrize("keep, said", [("off", "replace"), ("replacements", "update")])
def test_what_a_change_stream_says(proxy, replica_set, keep, said):
    """A document whose difference is smaller than the document."""
    document = {"_id": 1, "item": "cup", "text": "a long one" * 20}
    with proxy.client() as client:
        orders = client[keep].orders_watched
        orders.insert_one(document)
        number = {} if keep == "off" else {"number": replica_set.client[keep].orders_watched.find_one(1)["number"]}
        with orders.watch(full_document="updateLookup") as stream:
            orders.replace_one({"_id": 1}, {**document, "item": "pot"})
            event = stream.next()
            assert (event["operationType"], event["fullDocument"]) == (said, {**document, "item": "pot", **number})
            again = orders.replace_one({"_id": 1}, {"item": "pot", "text": document["text"]})
            assert again.modified_count == (1 if keep == "off" else 0)


def guards(db: Database, coll: str) -> list[str]:
    return [name for name, index in db[coll].index_information().items()
            if index.get("unique") and [field for field, _ in index["key"]] == ["number"]]


def refuses(db: Database, coll: str, number: Int64) -> bool:
    """A number that is there."""
    try:
        db[coll].insert_one({"number": number})
    except pymongo.errors.DuplicateKeyError:
        return True
    return False


@pytest.mark.parametrize("db", INDEXED)
def test_its_own_index(odms, proxy, replica_set, db):
    """The application makes its index before the proxy does, or after it: it starts, and is guarded throughout. In the
    end one index guards: the application's, if it makes one that holds numbers of all types. Django's has one type."""
    shop = replica_set.client[db]
    if db == "there":
        with proxy.client() as client:
            for coll in {each["coll"] for each in odms.stored(replica_set.client["fresh"]).values()}:
                client[db][coll].insert_one({})
                assert guards(shop, coll) == ["number_idproxy"]

    odms.do("init", db=db)
    odms.do("first", db=db)
    first = odms.stored(shop)
    assert {*numbers(first)} == {*odms.ways}
    odms.do("second", db=db)
    assert numbers(odms.stored(shop)) == {
        way: number for way, number in numbers(first).items() if way in odms.with_keep("always", 1)}

    number = Int64(1_000_000)
    for coll in {each["coll"] for each in first.values()}:
        shop[coll].insert_one({"number": number})
        assert refuses(shop, coll, number)
        if coll == "orders_django":
            eventually(lambda coll=coll: "number_idproxy" in (found := guards(shop, coll)) and len(found) == 2, 60, coll)
            continue
        (name,) = eventually(lambda coll=coll: len(found := guards(shop, coll)) == 1 and found, 60, coll)
        own = coll != "orders_sparse"  # the only one whose model has no index
        assert (name != "number_idproxy") == own, coll
        assert refuses(shop, coll, number)
        if own and db == "there":
            proxy.wait_event("guard_yields", ns=f"{db}.{coll}")
