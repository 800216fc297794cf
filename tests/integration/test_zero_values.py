"""What typed languages send for a field that was never set: 0, "", an id of zeros. A rule with
`assign: missing-or-zero` takes it for a missing field, in inserts and in $setOnInsert of upserts; a
rule that leaves it says so once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from bson.binary import OLD_UUID_SUBTYPE, UUID_SUBTYPE
from pymongo.errors import DuplicateKeyError

from support.mongod import Mongod
from support.proxy import Proxy, configuration

COUNTER = {"strategy": "counter", "start": 1000}
RULES = [
    {"ns": "zero.ids*", "field": "_id", "assign": "missing-or-zero", **COUNTER},
    {"ns": "zero.*", "field": "number", "assign": "missing-or-zero", **COUNTER},
    {"ns": "null.*", "field": "number", "assign": "missing-or-null", **COUNTER},
    {"ns": "path.*", "field": "reg.number", "assign": "missing-or-zero", **COUNTER},
]

ZEROS: dict[str, Any] = {
    "null": None, "int32": 0, "int64": Int64(0), "double": 0.0, "negative": -0.0,
    "decimal": Decimal128("0"), "decimal_exponent": Decimal128("-0E-12"), "text": "",
    "object_id": ObjectId("0" * 24), "uuid": Binary(bytes(16), UUID_SUBTYPE),
    "old_uuid": Binary(bytes(16), OLD_UUID_SUBTYPE),
}
VALUES: dict[str, Any] = {
    "one": 1, "small": 1e-300, "decimal": Decimal128("1E-30"), "text": "0", "blank": " ",
    "boolean": False, "document": {}, "array": [], "object_id": ObjectId("0" * 23 + "1"),
    "bytes": bytes(16), "short": Binary(b"", UUID_SUBTYPE),
}

_collections = (f"_{i}" for i in itertools.count())


@pytest.fixture
def coll() -> str:
    return next(_collections)


@pytest.fixture(scope="module")
def client(proxy: Proxy) -> Iterator[pymongo.MongoClient]:
    with proxy.client() as connected:
        yield connected


def numbers(server: Mongod, ns: str, field: str = "number") -> list[Any]:
    db, _, coll = ns.partition(".")
    return [document[field] for document in server.client[db][coll].find().sort("_id")]


class TestInserts:
    @pytest.mark.parametrize("kind", ZEROS)
    def test_of_a_field(self, server, client, coll, kind):
        server.client.zero[coll].create_index("number", unique=True, sparse=True)
        for k in range(2):
            client.zero[coll].insert_one({"_id": k, "number": ZEROS[kind], "behind": 1})
        assert numbers(server, f"zero.{coll}") == [1000, 1001]
        stored = server.client.zero[coll].find_one({"_id": 0})
        assert list(stored) == ["_id", "number", "behind"], "the value stands where the zero stood"

    @pytest.mark.parametrize("kind", ZEROS)
    def test_of_the_id(self, server, client, coll, kind):
        for k in range(2):
            client.zero["ids" + coll].insert_one({"_id": ZEROS[kind], "k": k})
        assert numbers(server, f"zero.ids{coll}", "_id") == [1000, 1001]

    def test_of_a_path(self, server, client, coll):
        for k in range(2):
            client.path[coll].insert_one({"_id": k, "reg": {"number": 0, "x": 1}})
        assert numbers(server, f"path.{coll}", "reg") == [
            {"number": 1000, "x": 1}, {"number": 1001, "x": 1}]

    def test_leave_values(self, server, client, coll):
        client.zero[coll].insert_many(
            [{"_id": k, "number": value} for k, value in enumerate(VALUES.values())])
        assert numbers(server, f"zero.{coll}") == [*VALUES.values()]
        client.null[coll].insert_many([{"_id": 1, "number": None}, {"_id": 2, "number": 0}])
        assert numbers(server, f"null.{coll}") == [1000, 0]

    def test_in_many_documents_with_a_duplicate(self, server, client, coll):
        server.client.zero[coll].create_index("number", unique=True, sparse=True)
        client.zero[coll].insert_one({"_id": -1})
        server.client.zero[coll].insert_one({"_id": 100, "number": 1002})
        client.zero[coll].insert_many([{"_id": k, "number": 0 if k % 2 else ""} for k in range(10)],
                                      ordered=False)
        assert len({*numbers(server, f"zero.{coll}")}) == 12


class TestUpserts:
    @pytest.mark.parametrize("kind", ZEROS)
    def test_get_a_value_in_place_of_a_zero(self, server, client, coll, kind):
        collection = client.zero[coll]
        server.client.zero[coll].create_index("number", unique=True, sparse=True)
        on_insert = {"$setOnInsert": {"number": ZEROS[kind], "x": 1}}
        collection.update_one({"k": 0}, on_insert, upsert=True)
        collection.update_many({"k": 1}, on_insert, upsert=True)
        found = collection.find_one_and_update(
            {"k": 2}, on_insert, upsert=True, return_document=pymongo.ReturnDocument.AFTER)
        assert found["number"] == 1002
        collection.update_one({"k": 2}, on_insert, upsert=True)
        assert [d["number"] for d in server.client.zero[coll].find().sort("k")] == [
            1000, 1001, 1002]

    @pytest.mark.parametrize("on_insert", [
        {"reg": {"number": None}}, {"reg.number": 0}, {"reg": {"x": 1, "number": ""}}])
    def test_in_a_document(self, server, client, coll, on_insert):
        for k in range(2):
            client.path[coll].update_one({"_id": k}, {"$setOnInsert": on_insert}, upsert=True)
        assert [reg["number"] for reg in numbers(server, f"path.{coll}", "reg")] == [1000, 1001]

    def test_leave_documents_that_are_there(self, server, client, coll):
        server.client.zero[coll].insert_one({"_id": 1, "number": 0})
        for update in ({"$setOnInsert": {"number": 0}}, {"$set": {"x": 1}}):
            client.zero[coll].update_one({"_id": 1}, update, upsert=True)
        client.zero[coll].update_many({}, {"$setOnInsert": {"number": None}}, upsert=True)
        assert numbers(server, f"zero.{coll}") == [0]

    @pytest.mark.parametrize("update", [
        {"$set": {"number": 0}}, [{"$set": {"number": 0}}]])
    def test_leave_what_may_change_a_document(self, server, client, coll, update):
        client.zero[coll].update_one({"k": 1}, update, upsert=True)
        assert numbers(server, f"zero.{coll}") == [0]

    def test_in_a_replacement(self, server, client, coll):
        for _ in range(2):
            client.zero[coll].replace_one({"_id": 1}, {"number": 0}, upsert=True)
            assert numbers(server, f"zero.{coll}") == [1000]

    def test_of_a_rule_for_null(self, server, client, coll):
        for k, value in enumerate([None, 0, 7]):
            client.null[coll].update_one(
                {"_id": k}, {"$setOnInsert": {"number": value}}, upsert=True)
        assert numbers(server, f"null.{coll}") == [1000, 0, 7]


class TestTheLog:
    LEAVING = [
        {"ns": "zero.ids", "field": "_id", "assign": "missing", **COUNTER},
        {"ns": "zero.*", "field": "number", **COUNTER},
        {"ns": "null.*", "field": "number", "assign": "missing-or-null", **COUNTER},
        {"ns": "none.*", "field": "number", "assign": "missing-or-zero", **COUNTER},
    ]

    def test_names_the_first_zero_of_each_rule(
            self, server: Mongod, start_proxy: Callable[..., Proxy], coll: str):
        proxy = start_proxy(configuration(server, self.LEAVING))
        with proxy.client() as client:
            client.none[coll].insert_one({"number": 0})
            client.null[coll].insert_one({"number": None})
            client.zero[coll].insert_one({"number": 7})
            client.zero.ids.insert_one({"_id": ObjectId()})
            assert proxy.find_events("zero_stored") == []
            server.client.zero[coll].create_index("number", unique=True, sparse=True)
            client.zero[coll].insert_one({"number": 0})
            with pytest.raises(DuplicateKeyError):
                client.zero[coll].insert_one({"number": 0})
            client.null[coll].update_one({"k": 1}, {"$setOnInsert": {"number": ""}}, upsert=True)
            client.null[coll].insert_one({"number": 0})
            client.zero.ids.insert_one({"_id": 0})
        events = [(e["rule"], e["ns"], e["field"]) for e in proxy.find_events("zero_stored")]
        assert events == [(1, f"zero.{coll}", "number"), (2, f"null.{coll}", "number"),
                          (0, "zero.ids", "_id")]
        assert "assign: missing-or-zero" in proxy.find_events("zero_stored")[0]["message"]


