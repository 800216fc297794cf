"""A value once given stays: what updates do to it, by the rule's `keep`.

Each write goes through the proxy; where a replacement is kept, what is stored is compared with the
same replacement that has the value in it, sent directly to mongod.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import bson
import pymongo
import pytest
from bson import SON, Int64, ObjectId, Timestamp
from pymongo import ReplaceOne, ReturnDocument, UpdateOne
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.write_concern import WriteConcern

from support import scrape, wire
from support.admin import LISTEN
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.servers import has
from support.threads import at_once

DOLLAR_PREFIXED = 52

_names = (f"c{i}" for i in itertools.count())

COUNTER = {"strategy": "counter", "block": 1}
RULES = [
    {"ns": "keep.*", "field": "number", **COUNTER},
    {"ns": "nulls.*", "field": "number", "assign": "missing-or-null", **COUNTER},
    {"ns": "zeros.*", "field": "number", "assign": "missing-or-zero", **COUNTER},
    {"ns": "always.*", "field": "number", "keep": "always", **COUNTER},
    {"ns": "off.*", "field": "number", "keep": "off", **COUNTER},
    {"ns": "dotted.*", "field": "a.b.n", **COUNTER},
    {"ns": "dotted.*", "field": "a.m", **COUNTER},
    {"ns": "two.*", "field": "number", **COUNTER},
    {"ns": "two.*", "field": "code", "strategy": "random-digits", "digits": 12},
    {"ns": "two.*", "field": "_id", "strategy": "uuid"},
    {"ns": "scoped.*", "field": "number", "scope": ["tenant"], "unique_index": "create",
     **COUNTER},
    {"ns": "gapless.*", "field": "number", "strategy": "gapless", "unique_index": "create"},
]


@pytest.fixture(scope="module", params=["standalone", "replica_set"])
def server(request: pytest.FixtureRequest) -> Mongod:
    return request.getfixturevalue(request.param)


of_sets = pytest.mark.parametrize("server", ["replica_set"], indirect=True)


@pytest.fixture(scope="module")
def proxy(server: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(server, RULES, admin=LISTEN)) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[pymongo.MongoClient]:
    with proxy.client() as client:
        yield client


@pytest.fixture
def proxy_of_its_own(server: Mongod, start_proxy: Callable[..., Proxy]) -> Proxy:
    """Whose log has all lines: a proxy writes ten of one event in a second at most."""
    return start_proxy(configuration(server, RULES, admin=LISTEN))


@pytest.fixture
def name() -> str:
    return next(_names)


def taken_away(proxy: Proxy, ns: str, reason: str) -> float:
    return sum(value for series, value in scrape.metrics(proxy).items()
               if series.startswith("idproxy_rule_values_taken_away_total{")
               and f'ns="{ns}"' in series and f'reason="{reason}"' in series)


# ---- replacements ------------------------------------------------------------------------------

def replace_one(coll, filter, document, **options):
    coll.replace_one(filter, document, **options)


def find_and_replace(coll, filter, document, **options):
    coll.find_one_and_replace(filter, document, **options)


def bulk(coll, filter, document, **options):
    coll.bulk_write([UpdateOne({"_id": "other"}, {"$set": {"y": 1}}),
                     ReplaceOne(filter, document, **options)])


FORMS = [replace_one, find_and_replace, bulk]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("upsert", [False, True])
@pytest.mark.parametrize("db, sent", [("keep", {}), ("nulls", {}), ("nulls", {"number": None}),
                                      ("zeros", {"number": 0}), ("always", {"number": None})])
def test_a_replacement_keeps_the_value(client, name, form, upsert, db, sent):
    coll = client[db][name]
    coll.insert_one({"_id": 1, "x": 1})
    before = coll.find_one()
    form(coll, {"_id": 1}, {"x": 2, **sent}, upsert=upsert)
    assert coll.find_one() == {"_id": 1, "x": 2, "number": before["number"]}
    odd = {"y": [1, {"$a" if has("dollar_fields") else "a.b": 1}], "z": "$x"}
    form(coll, {"x": 2}, {"_id": 1, **odd, **sent}, upsert=upsert)
    assert coll.find_one() == {"_id": 1, **odd, "number": before["number"]}
    form(coll, {"_id": 1}, {"number": 99}, upsert=upsert)
    assert coll.find_one() == {"_id": 1, "number": 99}, "its own value is the client's right"


@pytest.mark.parametrize("form", FORMS)
def test_an_upsert_gives_a_value(client, name, form):
    coll = client.keep[name]
    form(coll, {"_id": 1}, {"x": 1}, upsert=True)
    assert coll.find_one() == {"_id": 1, "x": 1, "number": 1}
    form(coll, {"x": 5}, {"x": 5}, upsert=True)
    assert coll.find_one({"x": 5})["number"] == 2


def test_saving_costs_no_number(client, name):
    coll = client.keep[name]
    for i in range(10):
        coll.replace_one({"_id": 1}, {"x": i}, upsert=True)
        coll.find_one_and_replace({"_id": 2}, {"x": i}, upsert=True)
    assert sorted(each["number"] for each in coll.find()) == [1, 2]
    coll.insert_one({})
    assert sorted(each["number"] for each in coll.find()) == [1, 2, 3]


def test_answers_are_those_of_the_replacement(client, name):
    coll = client.keep[name]
    result = coll.replace_one({"_id": 1}, {"x": 1}, upsert=True)
    assert (result.matched_count, result.upserted_id) == (0, 1)
    result = coll.replace_one({"_id": 1}, {"x": 2}, upsert=True)
    assert (result.matched_count, result.modified_count, result.upserted_id) == (1, 1, None)
    result = coll.replace_one({"_id": 7}, {"x": 2})
    assert (result.matched_count, result.upserted_id) == (0, None)
    after = {"return_document": ReturnDocument.AFTER, "upsert": True}
    assert coll.find_one_and_replace({"_id": 1}, {"x": 3}, **after) == {
        "_id": 1, "x": 3, "number": 1}
    assert coll.find_one_and_replace({"_id": 3}, {"x": 3}, **after) == {
        "_id": 3, "x": 3, "number": 2}
    assert coll.find_one_and_replace({"_id": 4}, {"x": 3}, upsert=True) is None
    with pytest.raises(OperationFailure) as raised:
        coll.replace_one({"_id": 1}, {"_id": 2, "x": 1}, upsert=True)
    assert raised.value.code == 66


def test_values_of_several_that_found_a_document_do_not_come_back(client, name):
    """The reply does not say whether a document without the field took one."""
    coll = client.keep[name]
    client.keep.command("insert", name, documents=[{"_id": 1, "number": 10}])
    coll.bulk_write([ReplaceOne({"_id": i}, {"x": 1}, upsert=True) for i in range(1, 4)])
    numbers = {each["_id"]: each["number"] for each in coll.find()}
    assert numbers[1] == 10 and len(set(numbers.values())) == 3
    coll.insert_one({"_id": 9})
    assert coll.find_one({"_id": 9})["number"] > max(numbers[2], numbers[3])


def test_a_document_without_the_field_has_none_afterwards(client, server, name):
    server.client.keep[name].insert_one({"_id": 1})
    client.keep[name].replace_one({"_id": 1}, {"x": 1})
    assert client.keep[name].find_one() == {"_id": 1, "x": 1}
    client.keep[name].replace_one({"_id": 1}, {"x": 2}, upsert=True)
    assert client.keep[name].find_one() == {"_id": 1, "x": 2}


@pytest.mark.parametrize("stored, sent, kept", [
    ({"a": {"b": {"n": 5}, "m": 6}}, {}, {"a": {"b": {"n": 5}, "m": 6}}),
    ({"a": {"b": {"n": 5}, "m": 6}}, {"a": {"c": 1}}, {"a": {"c": 1, "b": {"n": 5}, "m": 6}}),
    ({"a": {"b": {"n": 5}, "m": 6}}, {"a": {"b": {"q": 1}}}, {"a": {"b": {"q": 1, "n": 5}, "m": 6}}),
    ({"a": {"m": 6}}, {"a": {"b": {"q": 1}}}, {"a": {"b": {"q": 1}, "m": 6}}),
    ({}, {"a": {"b": {"q": 1}}}, {"a": {"b": {"q": 1}}}),
    ({}, {}, {}),
    ({"a": [{"m": 1}]}, {"a": {"c": 1}}, {"a": {"c": 1}}),
    ({"a": {"b": [{"n": 1}], "m": 6}}, {}, {"a": {"m": 6}}),
    ({"a": 7}, {"z": 1}, {"z": 1}),
])
def test_dotted_fields(client, server, name, stored, sent, kept):
    server.client.dotted[name].insert_one({"_id": 1, **stored})
    client.dotted[name].replace_one({"_id": 1}, sent)
    assert client.dotted[name].find_one() == {"_id": 1, **kept}


@pytest.mark.parametrize("sent", [{}, {"a": {"c": 1}}, {"a": {"b": {"q": 1}}}])
def test_dotted_fields_of_upserts(client, name, sent):
    coll = client.dotted[name]
    for i in range(2):
        coll.replace_one({"_id": 1}, {"x": i, **sent}, upsert=True)
        found = coll.find_one()
        assert found["a"]["b"]["n"] == 1 and found["a"]["m"] == 1 and found["x"] == i
        del found["a"]["b"]["n"], found["a"]["m"]
    assert list(found)[:2] == ["_id", "x"]


def test_several_rules(client, name):
    coll = client.two[name]
    coll.replace_one({"k": 1}, {"k": 1}, upsert=True)
    first = coll.find_one()
    assert first["number"] == 1 and 0 <= first["code"] < 10**12
    coll.replace_one({"k": 1}, {"k": 1, "x": 2}, upsert=True)
    assert coll.find_one() == {**first, "x": 2}


def test_a_scope_comes_from_the_replacement(client, name):
    coll = client.scoped[name]
    for tenant, number in [("a", 1), ("b", 1), ("a", 2)]:
        coll.replace_one({"k": (tenant, number)}, {"k": (tenant, number), "tenant": tenant},
                         upsert=True)
        assert coll.find_one({"k": (tenant, number)})["number"] == number


def test_without_gaps(client, name):
    coll = client.gapless[name]
    for i in range(3):
        for key in "ab":
            coll.replace_one({"_id": key}, {"x": i}, upsert=True)
            coll.find_one_and_replace({"_id": key + "2"}, {"x": i}, upsert=True)
    assert sorted(each["number"] for each in coll.find()) == [1, 2, 3, 4]
    coll.bulk_write([ReplaceOne({"_id": key}, {"x": 9}) for key in "ab"])
    assert sorted(each["number"] for each in coll.find()) == [1, 2, 3, 4]


@pytest.mark.parametrize("ordered", [False, True])
def test_without_gaps_one_by_one(client, server, name, ordered):
    """Some are there, with numbers and without; a document without one takes it."""
    coll = client.gapless[name]
    coll.insert_many([{"_id": 1, "x": 0}, {"_id": 2, "x": 0}])
    server.client.gapless[name].insert_one({"_id": 3, "x": 0})
    for i in range(1, 4):
        coll.bulk_write([ReplaceOne({"_id": key}, {"x": i}, upsert=True) for key in (2, 4, 3, 1, 5, i + 5)],
                        ordered=ordered)
        found = {each["_id"]: each for each in coll.find()}
        assert {found[1]["number"], found[2]["number"]} == {1, 2}
        assert sorted(each["number"] for each in found.values()) == list(range(1, i + 6))
        assert all(found[key]["x"] == i for key in (1, 2, 3, 4, 5))


@of_sets
def test_without_gaps_in_a_transaction(client, name):
    coll = client.gapless[name]
    coll.insert_one({"_id": 1})
    with client.start_session() as session, session.start_transaction():
        coll.replace_one({"_id": 1}, {"x": 1}, upsert=True, session=session)
        coll.replace_one({"_id": 2}, {"x": 1}, upsert=True, session=session)
    assert [each["number"] for each in coll.find().sort("_id")] == [1, 2]
    with pytest.raises(OperationFailure, match="in a command of its own"), \
            client.start_session() as session, session.start_transaction():
        coll.bulk_write([ReplaceOne({"_id": key}, {"x": 2}, upsert=True) for key in (1, 3)],
                        session=session)


def test_a_filter_with_the_value(client, name):
    coll = client.keep[name]
    coll.insert_one({"_id": 1})
    coll.replace_one({"number": 1}, {"x": 1}, upsert=True)
    assert coll.find_one() == {"_id": 1, "x": 1, "number": 1}
    coll.replace_one({"number": 77, "_id": 2}, {"x": 1}, upsert=True)
    assert coll.find_one({"_id": 2}) == {"_id": 2, "x": 1}, "as the plain replacement does"


def test_unacknowledged(client, name):
    coll = client.keep[name].with_options(write_concern=WriteConcern(w=0))
    coll.replace_one({"_id": 1}, {"x": 1}, upsert=True)
    coll.replace_one({"_id": 1}, {"x": 2}, upsert=True)
    assert client.keep[name].find_one({"x": 2})["number"] >= 1


def test_a_taken_value_is_replaced(client, server, name):
    server.client.keep[name].create_index("number", unique=True)
    coll = client.keep[name]
    coll.insert_one({})
    server.client.keep[name].insert_many([{"number": i} for i in range(2, 5)])
    coll.replace_one({"_id": 1}, {"x": 1}, upsert=True)
    coll.find_one_and_replace({"_id": 2}, {"x": 1}, upsert=True)
    assert coll.find_one({"_id": 1})["number"] > 4 and coll.find_one({"_id": 2})["number"] > 4


# ---- what is forwarded as it is ----------------------------------------------------------------

def deep(levels: int) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in range(levels):
        document = {"x": document}
    return document


LOST = [
    ("server_time", {"x": Timestamp(0, 0)}, {}),
    ("too_deep", deep(172), {}),
    ("array_filters", {"x": 1}, {"arrayFilters": []}),
    ("too_large", {"x": "x" * (2**24 - 60)}, {}),
    ("sets_missing", {"number": None}, {}),
    ("unset", {"$unset": {"number": ""}}, {}),
    ("sets_missing", {"$set": {"number": None}}, {}),
    ("sets", {"$set": {"number": 8}}, {}),
    ("sets", {"$inc": {"number": 1}}, {}),
    ("renames", {"$rename": {"number": "old"}}, {}),
    ("pipeline", [{"$set": {"number": 1}}], {}),
    ("pipeline", [{"$unset": ["number"]}], {}),
    ("pipeline", [{"$replaceWith": {"x": 1}}], {}),
]


def test_what_takes_a_value_away_is_seen(proxy_of_its_own, server, name):
    proxy, client = proxy_of_its_own, proxy_of_its_own.client()
    for number, (reason, update, options) in enumerate(LOST):
        time.sleep(0.11)  # or not each would be in the log
        collection = f"{name}_{number}"
        for each in client, server.client:
            each.keep[collection + ("" if each is client else "d")].insert_one({"_id": 1, "number": 5, "m": 1})
        before = taken_away(proxy, "keep.*", reason)
        statement = {"q": {"_id": 1}, "u": update, **options}
        mine = client.keep.command("update", collection, updates=[statement], check=False)
        its = server.client.keep.command("update", collection + "d", updates=[statement], check=False)
        assert mine["n"] == its["n"] and mine.get("nModified") == its.get("nModified"), collection
        stored, direct = (server.client.keep[collection + end].find_one() for end in ("", "d"))
        if reason == "server_time":
            assert stored.pop("x") and direct.pop("x")
        assert stored == direct
        assert taken_away(proxy, "keep.*", reason) == before + 1, collection
        logged = [each for each in proxy.find_events("value_taken_away") if each["ns"] == f"keep.{collection}"]
        assert [(each["reason"], each["level"]) for each in logged] == [
            (reason, "info" if reason == "sets" else "warning")]
    client.close()


def test_off(proxy_of_its_own, name):
    proxy, client = proxy_of_its_own, proxy_of_its_own.client()
    coll = client.off[name]
    coll.insert_one({"_id": 1})
    before = taken_away(proxy, "off.*", "off")
    coll.replace_one({"_id": 1}, {"x": 1})
    assert coll.find_one() == {"_id": 1, "x": 1}
    coll.replace_one({"_id": 2}, {"x": 1}, upsert=True)
    assert coll.find_one({"_id": 2}) == {"_id": 2, "x": 1}
    assert taken_away(proxy, "off.*", "off") == before + 2
    assert proxy.wait_event("value_taken_away", ns=f"off.{name}")["reason"] == "off"
    client.close()


# Of which the server makes no document for a pipeline, but takes _id for a replacement; and what it
# refuses in an upsert.
FILTERS = [
    {"_id": 5, "tenant": "a", "$and": [{"tenant": "a"}]}, {"$and": [{"k": 1}, {"k": 1}]},
    {"k": {"$all": [1, 2]}}, {"k": 1, "$or": [{"k": 1}]}, {"k": {"$in": [1], "$eq": 1}},
    {"a": 1, "a.b": 2}, {"a.b": 2, "a": 1}, {"": 1}, {"_id.a": 1}, {"_id": {"a": 1}, "_id.a": 1},
    {"$expr": {"$eq": ["$k", 1]}}, {"_id": 5, "$or": [{"k": 1}, {"k": 2}]},
]


@pytest.mark.parametrize("filter", FILTERS, ids=str)
@pytest.mark.parametrize("method", ["update", "two", "findAndModify"])
@pytest.mark.parametrize("exists", [False, True])
def test_filters_of_all_forms(client, server, name, filter, method, exists):
    """The same as without the proxy, but for the number."""
    statement = {"q": filter, "u": {"x": 1}, "upsert": True}
    if method == "findAndModify":
        command = {"query": filter, "update": {"x": 1}, "upsert": True}
    else:
        command = {"updates": [statement, {"q": {"_id": "none"}, "u": {"x": 1}}][:1 + (method == "two")]}
    said, stored = [], []
    for each in client, server.client:
        coll = each.keep[name + ("" if each is client else "d")]
        if exists:
            coll.insert_one({"_id": 5, "k": 1, "tenant": "a", "number": 7})
        reply = each.keep.command({"findAndModify" if method == "findAndModify" else "update": coll.name, **command},
                                  check=False)
        said.append((reply.get("n"), reply.get("code"), codes(reply)))
        stored.append([{k: v for k, v in each.items() if k != "number" and not isinstance(v, ObjectId)}
                       for each in coll.find()])
    assert said[0] == said[1] and stored[0] == stored[1]
    kept = server.client.keep[name].find_one({"_id": 5})
    if exists and method != "two":
        assert kept["number"] == 7


def test_a_body_at_its_limit(proxy, client, server, name):
    """The value that is stored is the one drawn for it."""
    coll = client.keep[name]
    for i in range(20):
        coll.replace_one({"_id": i}, {"x": 1}, upsert=True)
    command = {"update": name, "updates": [{"q": {"_id": "big"}, "u": {"x": "x" * (2**24 - 200)},
                                            "upsert": True}], "$db": "keep", "comment": ""}
    command["comment"] = "c" * (2**24 + 2**14 - 10 - len(bson.encode(command)))
    with wire.WireClient(proxy.address, 60) as raw:
        raw.send(wire.command(command))
        assert raw.receive().body["n"] == 1
    assert coll.find_one({"_id": "big"}, {"number": 1})["number"] == 21
    direct = server.client.keep.command("findAndModify", name, query={"_id": "big"}, upsert=True,
                                        update={"x": "y" * (2**24 - 200)}, comment="c" * 16_000,
                                        fields={"_id": 1})
    assert direct["lastErrorObject"]["n"] == 1
    mine = client.keep.command("findAndModify", name, query={"_id": 1}, upsert=True,
                               update={"x": "y" * (2**24 - 200)}, comment="c" * 16_000,
                               fields={"_id": 1})
    assert mine["lastErrorObject"] == direct["lastErrorObject"]


@pytest.mark.parametrize("upsert", [False, True])
def test_one_without_a_reply_that_has_no_room(proxy, client, server, name, upsert):
    """Sent as it is: an error would reach nobody."""
    coll = server.client.keep[name]
    coll.insert_many([{"_id": i, "number": i} for i in range(48)])
    before = taken_away(proxy, "keep.*", "too_large")
    body = {"update": name, "$db": "keep", "writeConcern": {"w": 0}}
    sequence = wire.sequence("updates", [{"q": {"_id": i}, "u": {"x": "x" * 999_800}, "upsert": upsert}
                                         for i in range(48)])
    body["comment"] = "c" * (48_000_000 - 54 - len(wire.body(body)) - len(sequence))
    with wire.WireClient(proxy.address, 60) as raw:
        raw.send(wire.op_msg(wire.body(body), sequence, flags=2))
        raw.send(wire.command({"ping": 1, "$db": "admin"}))
        assert raw.receive().body["ok"] == 1
    assert coll.count_documents({"x": {"$exists": True}}) == 48
    assert taken_away(proxy, "keep.*", "too_large") == before + 48


# ---- keep: always ------------------------------------------------------------------------------

@pytest.mark.parametrize("update, change", [
    ({"$unset": {"number": ""}}, {}),
    ({"$set": {"number": None}}, {}),
    ({"$set": {"number": None, "x": 2}}, {"x": 2}),
    ({"$unset": {"number": "", "x": ""}, "$set": {"y": 1}}, {"x": None, "y": 1}),
    ({"$set": {"number": None}, "$unset": {"z": ""}}, {}),
])
@pytest.mark.parametrize("upsert", [False, True])
@pytest.mark.parametrize("method", ["update_one", "update_many", "find_one_and_update"])
def test_always(client, name, update, change, upsert, method):
    coll = client.always[name]
    coll.insert_one({"_id": 1, "x": 1})
    expected = {"_id": 1, "x": 1, "number": 1, **change}
    getattr(coll, method)({"_id": 1}, update, upsert=upsert)
    assert coll.find_one() == {k: v for k, v in expected.items() if v is not None}
    if upsert:
        getattr(coll, method)({"_id": 2}, update, upsert=True)
        assert coll.find_one({"_id": 2})["number"] > 1
    if not change and "z" not in str(update) and method == "update_one":
        assert coll.update_one({"_id": 1}, update).raw_result["nModified"] == 0


@pytest.mark.parametrize("other", [{"$set": 1}, {"$set": [5]}, {"$set": "\x10x\0\1\0\0\0"},
                                   {"$inc": True}, {"$set": {}, "$push": b"abc"}], ids=str)
def test_always_leaves_malformed_updates_alone(client, server, name, other):
    said = []
    for each in client, server.client:
        coll = each.always[name + ("" if each is client else "d")]
        coll.insert_one({"_id": 1, "number": 5})
        reply = each.always.command("update", coll.name, updates=[
            {"q": {}, "u": {"$unset": {"number": ""}, **other}}], check=False)
        said.append((reply["n"], codes(reply)))
        assert coll.find_one() == {"_id": 1, "number": 5}
    assert said[0] == said[1]


def test_always_leaves_other_values(client, name):
    coll = client.always[name]
    coll.insert_one({"_id": 1})
    coll.update_one({"_id": 1}, {"$set": {"number": 7}})
    assert coll.find_one()["number"] == 7


# ---- exactly once ------------------------------------------------------------------------------

@of_sets
def test_in_a_transaction(client, server, name):
    server.client.keep.create_collection(name)
    coll = client.keep[name]
    with client.start_session() as session:
        for i in range(2):
            with session.start_transaction():
                coll.replace_one({"_id": 1}, {"x": i}, upsert=True, session=session)
                coll.find_one_and_replace({"_id": 2}, {"x": i}, upsert=True, session=session)
                coll.replace_one({"_id": 1}, {"y": i}, upsert=True, session=session)
    assert {each["_id"]: each["number"] for each in coll.find()} == {1: 1, 2: 2}
    with client.start_session() as session, session.start_transaction():
        coll.find_one_and_replace({"_id": 3}, {"x": 1}, upsert=True, session=session)
        session.abort_transaction()
    assert coll.count_documents({}) == 2


@of_sets
@pytest.mark.parametrize("method", ["replace_one", "find_one_and_replace"])
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_a_repeated_write(proxy, server, name, method, exists, times):
    """The connection ends at the first command, or at each from the second one on."""
    client = proxy.client(appname=name)  # not the store, which sends findAndModify, too
    coll = client.keep[name]
    if exists:
        coll.insert_one({"_id": 1})
    command = "update" if method == "replace_one" else "findAndModify"
    # Of an upsert, the first command is the one without.
    server.client.admin.command("configureFailPoint", "failCommand", mode={"skip": times - 1} if
                                times == 2 else {"times": 1},
                                data={"failCommands": [command], "closeConnection": True,
                                      "appName": name})
    try:
        getattr(coll, method)({"_id": 1}, {"x": 1}, upsert=True)
    except AutoReconnect:
        assert times == 2
    finally:
        server.client.admin.command("configureFailPoint", "failCommand", mode="off")
    getattr(coll, method)({"_id": 1}, {"x": 2}, upsert=True)
    (stored,) = coll.find()
    # A number that was sent when the connection was lost may be stored.
    assert stored.pop("number") == 1 or (times == 2 and not exists)
    assert stored == {"_id": 1, "x": 2}
    client.close()


@of_sets
def test_a_repetition_gets_the_recorded_answer(client, server, name):
    statement = {"q": {"_id": 1}, "u": {"x": 1}, "upsert": True}
    with client.start_session() as session:
        for command, fields in [
                ("update", {"updates": [statement]}),
                ("findAndModify", {"query": {"_id": 2}, "update": {"x": 1}, "upsert": True,
                                   "new": True})]:
            txn = Int64(1 if command == "update" else 2)
            first, second = (
                client.keep.command(SON([(command, name), *fields.items(), ("lsid", session.session_id),
                                         ("txnNumber", txn)])) for _ in range(2))
            if command == "update":
                assert first["upserted"] == second["upserted"]
            else:
                assert first["value"] == second["value"]
    assert sorted(each["number"] for each in client.keep[name].find()) == [1, 2]
    client.keep[name].insert_one({"_id": 3})
    assert client.keep[name].find_one({"_id": 3})["number"] > 2


def test_many_save_the_same_documents(start_proxy: Callable[..., Proxy], server, name):
    """Through two proxies: none is lost, none is twice, none changes to another document."""
    rules = [{"ns": "storm.*", "field": "number", "strategy": "counter"}]
    proxies = [start_proxy(configuration(server, rules)) for _ in range(2)]
    server.client.storm[name].create_index("number", unique=True, sparse=True)
    seen: dict[int, set[int]] = {key: set() for key in range(8)}
    lock = threading.Lock()

    def save(proxy: Proxy, seed: int) -> None:
        source = random.Random(seed)
        with proxy.client() as client:
            coll = client.storm[name]
            for i in range(40):
                key = source.randrange(8)
                try:
                    found = coll.find_one_and_replace(
                        {"_id": key}, {"by": seed, "i": i}, upsert=True,
                        return_document=ReturnDocument.AFTER)
                except OperationFailure as error:
                    assert error.code == 11000 and "_id_" in str(error)  # two inserted it
                    continue
                with lock:
                    seen[key].add(found["number"])

    at_once(*(partial(save, proxies[i % 2], i) for i in range(6)))
    assert all(len(numbers) == 1 for numbers in seen.values()), seen
    assert len(set.union(*seen.values())) == 8


# ---- replacement against replacement -----------------------------------------------------------

def anything(source: random.Random, depth: int = 0) -> Any:
    simple = [None, 0, 1.5, "", "$x", "$$ROOT", True, b"\0", Timestamp(0, 0) if depth else 3]
    if depth > 2 or source.random() < 0.6:
        return source.choice(simple)
    if source.random() < 0.5:
        return [anything(source, depth + 1) for _ in range(source.randrange(3))]
    return {source.choice(["a", "b.c", "", "$lit", "é"]) if depth else source.choice("abcdefg"):
            anything(source, depth + 1) for _ in range(source.randrange(3))}


def codes(reply: dict[str, Any]) -> list[int]:
    return [each["code"] for each in reply.get("writeErrors", [])]


def compare(client, server, name: str, rounds: int) -> None:
    source = random.Random(47)
    mine, its = client.keep[name], server.client.keep[name + "d"]
    for i in range(rounds):
        key = source.randrange(4)
        filter = source.choice([{"_id": key}, {"_id": key, "k": key}, {"k": key}])
        document = {source.choice("abcdefg"): anything(source) for _ in range(source.randrange(5))}
        document["k"] = key
        if source.random() < 0.2:
            document["_id"] = key
        stored = server.client.keep[name].find_one(filter)
        number = stored.get("number") if stored else None
        options: dict[str, Any] = {}
        if source.random() < 0.3:
            options["hint"] = "_id_"
        if source.random() < 0.2:
            options["collation"] = {"locale": "en", "strength": 2}
        sent = [{"q": filter, "u": document, **options}]
        direct = [{"q": filter, "u": {**document, **({"number": number} if number else {})},
                   **options}]
        if stored is None:
            each = {"_id": key, **document}
            mine.insert_one(dict(each))
            its.insert_one({**each, "number": mine.find_one({"_id": key})["number"]})
            continue
        one = client.keep.command("update", name, updates=sent)
        other = server.client.keep.command("update", name + "d", updates=direct)
        assert one["n"] == other["n"], document
        assert codes(one) == codes(other), document
        assert not codes(one) if has("dollar_fields") else set(codes(one)) <= {DOLLAR_PREFIXED}, document
        assert server.client.keep[name].find_one({"_id": key}) == its.find_one({"_id": key}), document


def test_random_replacements(client, server, name):
    compare(client, server, name, 300)


@pytest.mark.full
def test_many_random_replacements(client, server, name):
    compare(client, server, name, 10_000)


@of_sets
def test_change_events_never_remove_the_id(client, server, name):
    coll = client.keep[name]
    coll.insert_one({"_id": 1, "x": 0, "pad": "x" * 200})
    with server.client.keep[name].watch(full_document="updateLookup") as stream:
        for i in range(1, 4):
            coll.replace_one({"_id": 1}, {"x": i, "pad": "x" * 200})
        for i in range(1, 4):
            event = stream.next()
            assert event["documentKey"] == {"_id": 1}
            removed = event.get("updateDescription", {}).get("removedFields", [])
            assert "_id" not in removed and "number" not in removed
