"""Upserts that could have a value: with multi, whose field of a scope or a template the statement
itself fixes, and what `refuse` refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from pymongo.errors import DuplicateKeyError, OperationFailure

from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration

_COUNTER = {"strategy": "counter"}
RULES = [
    {"ns": "plain.*", "field": "number", **_COUNTER, "heal": {"mode": "off"}},
    {"ns": "tenant.*", "field": "number", **_COUNTER, "scope": ["tenant"]},
    {"ns": "nested.*", "field": "number", **_COUNTER, "scope": ["a.tenant"]},
    {"ns": "nobody.*", "field": "number", **_COUNTER, "scope": ["tenant"],
     "on_missing_scope": "null"},
    {"ns": "text.*", "field": "number", **_COUNTER, "scope": ["tenant"],
     "output": "string", "template": "{field:tenant}-{counter:03}"},
    {"ns": "gapless.*", "field": "number", "strategy": "gapless"},
    {"ns": "scoped.*", "field": "number", "strategy": "gapless", "scope": ["tenant"]},
    {"ns": "lenient.*", "field": "number", "strategy": "gapless", "upserts": "assign"},
    {"ns": "strict.*", "field": "_id", **_COUNTER, "upserts": "refuse"},
]

_collections = (f"_{i}" for i in itertools.count())
SET = {"$set": {"x": 1}}


@pytest.fixture
def coll() -> str:
    return next(_collections)


@pytest.fixture(scope="module")
def client(proxy: Proxy) -> Iterator[pymongo.MongoClient]:
    with proxy.client() as connected:
        yield connected


def guard(server: Mongod, db: str, coll: str, *keys: str) -> Any:
    """The collection, past the proxy, with a unique index on these keys."""
    collection = server.client[db][coll]
    collection.create_index([(key, 1) for key in keys], unique=True,
                            partialFilterExpression={"number": {"$exists": True}})
    return collection


def upsert_when_ready(collection: Any, filter: dict[str, Any], update: Any) -> None:
    """The proxy has yet to look at a new collection's index."""
    def tried() -> bool:
        try:
            return bool(collection.update_one(filter, update, upsert=True))
        except OperationFailure as error:
            if error.code not in (6, 96):
                raise
            return False
    eventually(tried, 20, "the rule is ready")


# ---- multi ---------------------------------------------------------------------------------------


def behind(server: Mongod, ns: str) -> None:
    """Sets the counter back to 1, below numbers that are stored."""
    server.client.idproxy.uniqueIdentifierCounter.replace_one(
        {"_id": ns + ".number"}, {"COUNT": 1}, upsert=True)


class TestMulti:
    def test_goes_again_with_another_number(self, server, client, coll):
        direct = guard(server, "plain", coll, "number")
        direct.insert_many([{"number": n} for n in range(1, 20, 2)])
        behind(server, f"plain.{coll}")
        for k in range(6):
            result = client.plain[coll].update_many({"k": k}, SET, upsert=True)
            assert result.upserted_id is not None
        numbers = [d["number"] for d in direct.find({"k": {"$exists": True}}).sort("k")]
        assert numbers == [2, 4, 6, 8, 10, 12]

    def test_in_a_batch(self, server, client, coll):
        direct = guard(server, "plain", coll, "number")
        direct.insert_many([{"number": n} for n in range(1, 20, 2)])
        behind(server, f"plain.{coll}")
        direct.insert_many([{"k": 1}, {"k": 1}])
        for ordered in (True, False):
            result = client.plain[coll].bulk_write(
                [pymongo.UpdateMany({"k": k}, {"$inc": {f"n_{ordered}": 1}}, upsert=True)
                 for k in (0, 1, 2, 0)], ordered=ordered)
            # In the second round all are there.
            assert result.upserted_count == (2 if ordered else 0)
        counts = {d["_id"]: d.get("n_True") for d in direct.find({"k": {"$exists": True}})}
        assert sorted(counts.values()) == [1, 1, 1, 2], "no statement has been executed twice"
        numbers = [d["number"] for d in direct.find({"k": {"$in": [0, 2]}})]
        assert len({*numbers}) == 2 and all(n % 2 == 0 for n in numbers)

    def test_of_an_index_with_other_fields_never_goes_again(self, server, client, coll):
        """It may have changed documents before it failed."""
        direct = guard(server, "plain", coll, "number", "t")
        direct.insert_many([{"number": n} for n in range(1, 20)])
        behind(server, f"plain.{coll}")
        with pytest.raises(DuplicateKeyError):
            client.plain[coll].update_many({"k": 1}, SET, upsert=True)
        assert direct.count_documents({"k": 1}) == 0

    def test_a_duplicate_that_comes_from_a_match_is_the_clients(self, server, client, coll):
        direct = guard(server, "plain", coll, "number")
        direct.create_index("mail", unique=True, sparse=True)
        direct.insert_many([{"k": 1, "n": 0}, {"k": 1, "n": 0}])
        with pytest.raises(DuplicateKeyError) as caught:
            client.plain[coll].update_many(
                {"k": 1}, {"$set": {"mail": "a"}, "$inc": {"n": 1}}, upsert=True)
        assert caught.value.details["keyPattern"] == {"mail": 1}
        assert sorted(d["n"] for d in direct.find({"k": 1})) == [0, 1], "once"


# ---- scope and template --------------------------------------------------------------------------

# Each fixes the tenant, for a new document.
FIXED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "equality": ({"tenant": "acme"}, SET),
    "eq": ({"tenant": {"$eq": "acme"}}, SET),
    "and": ({"$and": [{"tenant": "acme"}, {"y": {"$exists": False}}]}, SET),
    "set": ({}, {"$set": {"tenant": "acme", "x": 1}}),
    "set_on_insert": ({}, {"$setOnInsert": {"tenant": "acme"}}),
    "filter_and_set": ({"tenant": "acme"}, {"$set": {"tenant": "acme"}, "$inc": {"x": 1}}),
    "inc_beside": ({"tenant": "acme"}, {"$inc": {"x": 1}}),
}
# The document may belong to anybody.
OPEN: dict[str, tuple[dict[str, Any], Any]] = {
    "nowhere": ({}, SET),
    "in": ({"tenant": {"$in": ["acme", "other"]}}, SET),
    "or": ({"$or": [{"tenant": "acme"}, {"tenant": "other"}]}, SET),
    "regex": ({"tenant": {"$regex": "^acme"}}, SET),
    "exists": ({"tenant": {"$exists": False}}, SET),
    "another_in_set": ({"tenant": "acme"}, {"$set": {"tenant": "other"}}),
    "unset": ({"tenant": "acme"}, {"$unset": {"tenant": ""}}),
    "rename": ({"tenant": "acme"}, {"$rename": {"tenant": "who"}}),
    "push": ({}, {"$push": {"tenant": "acme"}}),
    "array": ({"tenant": ["acme"]}, SET),
    "pipeline": ({"tenant": "acme"}, [{"$set": {"x": 1}}]),
    "replacement": ({"tenant": "acme"}, {"x": 1}),
}


def run(collection: Any, filter: dict[str, Any], update: Any) -> Any:
    replaces = isinstance(update, dict) and not any(key.startswith("$") for key in update)
    return (collection.replace_one if replaces else collection.update_one)(
        filter, update, upsert=True)


class TestScope:
    @pytest.mark.parametrize("db", ["tenant", "scoped"])
    @pytest.mark.parametrize("form", FIXED)
    def test_that_the_upsert_fixes(self, server, client, coll, db, form):
        direct = guard(server, db, coll, "tenant", "number")
        first = {"tenant": "other"}
        upsert_when_ready(client[db][coll], {**first, "k": 0}, SET)
        filter, update = FIXED[form]
        for k in (1, 2, 2):
            client[db][coll].update_one({"k": k, **filter}, update, upsert=True)
        client[db][coll].find_one_and_update({"k": 3, **filter}, update, upsert=True)
        client[db][coll].update_many({"k": 4, **filter}, update, upsert=True)
        stored = [(d["tenant"], d["number"]) for d in direct.find().sort("k")]
        assert stored == [("other", 1), *(("acme", n) for n in range(1, 5))]

    @pytest.mark.parametrize("form", OPEN)
    def test_that_it_leaves_open(self, server, client, coll, form):
        direct = guard(server, "tenant", coll, "tenant", "number")
        upsert_when_ready(client.tenant[coll], {"tenant": "acme", "k": 0}, SET)
        filter, update = OPEN[form]
        run(client.tenant[coll], {"k": 1, **filter}, update)
        assert all("number" not in d for d in direct.find({"number": None}))
        assert direct.count_documents({"number": {"$exists": True}}) == 1

    @pytest.mark.parametrize("form", OPEN)
    def test_that_it_leaves_open_without_gaps(self, server, client, coll, form):
        direct = guard(server, "scoped", coll, "tenant", "number")
        upsert_when_ready(client.scoped[coll], {"tenant": "acme", "k": 0}, SET)
        filter, update = OPEN[form]
        with pytest.raises(OperationFailure) as caught:
            run(client.scoped[coll], {"k": 1, **filter}, update)
        assert caught.value.code == 96, caught.value
        assert direct.count_documents({}) == 1

    def test_of_several_statements(self, server, client, coll):
        """Each has the sequence of its own."""
        for db in ("tenant", "scoped"):
            direct = guard(server, db, coll, "tenant", "number")
            upsert_when_ready(client[db][coll], {"tenant": "a", "k": 0}, SET)
            client[db][coll].bulk_write(
                [pymongo.UpdateOne({"tenant": "abc"[k % 3], "k": k}, SET, upsert=True)
                 for k in range(1, 13)])
            for tenant, count in ("a", 5), ("b", 4), ("c", 4):
                numbers = [d["number"] for d in direct.find({"tenant": tenant}).sort("k")]
                assert numbers == [*range(1, count + 1)]

    def test_of_a_dotted_field(self, server, client, coll):
        direct = guard(server, "nested", coll, "a.tenant", "number")
        upsert_when_ready(client.nested[coll], {"a.tenant": "x", "k": 0}, SET)
        for k, (filter, update) in enumerate([
                ({"a.tenant": "x"}, SET), ({}, {"$set": {"a.tenant": "x"}}),
                ({}, {"$setOnInsert": {"a": {"tenant": "x", "y": 1}}})], 1):
            client.nested[coll].update_one({"k": k, **filter}, update, upsert=True)
        assert [d["number"] for d in direct.find().sort("k")] == [1, 2, 3, 4]
        client.nested[coll].update_one({"k": 9, "a": {"tenant": "x"}}, SET, upsert=True)
        assert "number" not in direct.find_one({"k": 9})

    def test_of_nobody(self, server, client, coll):
        direct = guard(server, "nobody", coll, "tenant", "number")
        upsert_when_ready(client.nobody[coll], {"k": 0}, SET)
        client.nobody[coll].update_one({"k": 1, "tenant": None}, SET, upsert=True)
        client.nobody[coll].update_one({"k": 2, "tenant": "x"}, SET, upsert=True)
        assert [d["number"] for d in direct.find().sort("k")] == [1, 2, 1]

    def test_in_a_template(self, server, client, coll):
        direct = guard(server, "text", coll, "tenant", "number")
        upsert_when_ready(client.text[coll], {"tenant": "acme", "k": 0}, SET)
        client.text[coll].update_one({"k": 1}, {"$set": {"tenant": 7}}, upsert=True)
        assert [d["number"] for d in direct.find().sort("k")] == ["acme-001", "7-001"]
        client.text[coll].update_one({"k": 2}, {"$set": {"tenant": 7.5}}, upsert=True)
        assert "number" not in direct.find_one({"k": 2})


# ---- refuse --------------------------------------------------------------------------------------


class TestRefuse:
    """Only what could store no value at all. The default of a rule without gaps."""

    @pytest.fixture
    def begun(self, server, client, coll) -> Any:
        guard(server, "gapless", coll, "number")
        upsert_when_ready(client.gapless[coll], {"k": 0}, SET)
        return server.client.gapless[coll]

    @pytest.mark.parametrize("filter, update", [
        ({}, {"$set": {"number": 70}}), ({"number": 70}, SET), ({}, {"number": 70}),
        ({}, {"$inc": {"number": 70}}), ({}, {"$setOnInsert": {"number": 70}}),
        ({"number": {"$eq": 70}}, {"$set": {"number": 70}})])
    def test_not_what_brings_a_value(self, client, begun, coll, filter, update):
        run(client.gapless[coll], {"k": 1, **filter}, update)
        assert begun.find_one({"number": 70})

    @pytest.mark.parametrize("filter, update", [
        ({"number": {"$gt": 5}}, SET), ({"number": None}, SET),
        ({}, {"$set": {"number": None}}), ({}, {"$set": {"number.x": 1}}),
        ({"number": 70}, {"$unset": {"number": ""}}), ({}, [{"$unset": "x"}])])
    def test_what_may_bring_none(self, client, begun, coll, filter, update):
        with pytest.raises(OperationFailure, match="upserts` is refuse") as caught:
            run(client.gapless[coll], {"k": 1, **filter}, update)
        assert caught.value.code == 96
        assert begun.count_documents({}) == 1

    def test_nothing_where_the_rule_says_assign(self, server, client, coll):
        guard(server, "lenient", coll, "number")
        upsert_when_ready(client.lenient[coll], {"k": 0}, SET)
        client.lenient[coll].update_one({"k": 1}, [{"$unset": "x"}], upsert=True)
        assert "number" not in server.client.lenient[coll].find_one({"k": 1})

    def test_of_an_id(self, server, client, coll):
        client.strict[coll].update_one({"_id": 5}, SET, upsert=True)
        client.strict[coll].replace_one({"_id": 6}, {"x": 1}, upsert=True)
        assert [d["_id"] for d in server.client.strict[coll].find().sort("_id")] == [5, 6]
        with pytest.raises(OperationFailure, match="find the document by other fields than _id"):
            client.strict[coll].update_one({"_id": {"$gt": 7}}, SET, upsert=True)


# ---- the log -------------------------------------------------------------------------------------


def test_the_log_has_a_line_for_each_namespace_and_reason(
        server: Mongod, start_proxy: Callable[..., Proxy], coll: str):
    """With the way out, and the cure where a document may lack the field."""
    proxy = start_proxy(configuration(server, [
        {"ns": "log.*", "field": "number", "keep": "off", **_COUNTER},
        {"ns": "ids.*", "field": "_id", **_COUNTER}]))
    with proxy.client() as client:
        one, other = client.log[coll], client.log[coll + "other"]
        for _ in range(2):
            one.replace_one({"k": 1}, {"x": 1}, upsert=True)
            one.update_one({"k": 2}, {"$set": {"number": 7}}, upsert=True)
            other.replace_one({"k": 1}, {"x": 1}, upsert=True)
        client.log.command({"update": coll + "many", "updates": [
            {"q": {"k": k}, "u": {}, "upsert": True} for k in range(3)]})
        client.ids[coll].update_one({"_id": 1}, SET, upsert=True)
        client.ids[coll].update_one({"_id": {"$gt": 1}}, SET, upsert=True)
    events = proxy.find_events("upsert_forwarded")
    assert [(e["ns"], e["reason"], e["upserts"]) for e in events] == [
        (f"log.{coll}", "replacement_loses_field", 1), (f"log.{coll}", "update_names_field", 1),
        (f"log.{coll}other", "replacement_loses_field", 1), (f"log.{coll}many", "empty_update", 3),
        (f"ids.{coll}", "filter_names_field", 1)]
    lacks, brings, _, _, of_id = (e["message"] for e in events)
    assert f"backfill --config FILE --ns log.{coll} --field number" in lacks
    assert "may lack the field" in lacks
    assert "has the value that the client sends" in brings and "backfill" not in brings
    assert "lack" not in of_id and "backfill" not in of_id
    assert "find the document by other fields than _id" in of_id
