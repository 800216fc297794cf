"""Upserts: which of them get a value, what the server makes of it, and what is forwarded.

Each row of docs/server-behaviour.md#upserts goes through the proxy and directly to mongod, with a
rule for `_id`, for another field and for a dotted one, as update, as update with multi and as
findAndModify; without a document that matches, and with several that do.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import OperationFailure

from support import scrape
from support.elements import elements
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.servers import has
from support.upserts import DIRECT, FIELDS, PROXIED, at, bare, is_generated, without_value
from support.values import DEFAULTS, Variant

_DIGITS = {"strategy": "random-digits", "digits": 12, "leading_zeros": False}
RULES = [
    # Replacements that keep a value, and get one, are in test_keep.py.
    *({"ns": f"{PROXIED}.{kind}*", "field": name, **_DIGITS,
       **({} if name == "_id" else {"keep": "off"})} for kind, name in FIELDS.items()),
    {"ns": "strict.*", "field": "number", "upserts": "refuse", "keep": "off", **_DIGITS},
    {"ns": "lax.*", "field": "number", "upserts": "forward", **_DIGITS},
    {"ns": "two.*", "field": "number", "report": True, **_DIGITS},
    {"ns": "two.*", "field": "_id", **_DIGITS},
    {"ns": "counted.*", "field": "number", "strategy": "counter"},
    *({"ns": f"made-{v.name}.*", "field": "made", **v.rule} for v in DEFAULTS),
]
RULE_OF = {kind: place for place, kind in enumerate(FIELDS)}

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"

_collections = (f"_{i}" for i in itertools.count())


@dataclass
class Row:
    """A filter and an update. What becomes of the field, by kind: "value", "own" (the client sends
    one), or the reason for which the upsert is forwarded."""

    filter: dict[str, Any]
    update: Any
    id: str
    number: str
    path: str
    existing: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_replacement(self) -> bool:
        return isinstance(self.update, dict) and not any(k[:1] == "$" for k in self.update)


def row(filter: dict[str, Any], update: Any, id: str = "value", number: str = "value",
        path: str = "value", **more: Any) -> Row:
    # Only stages of a pipeline are carried out on a document that matches.
    existing = EXISTING if isinstance(update, list) else EXISTING[:2]
    return Row(filter, update, id, number, path, **{"existing": existing, **more})


# Documents that match, with and without the fields, which no upsert may change for the rule's sake.
EXISTING: list[dict[str, Any]] = [
    {"_id": "old", "k": 1},
    {"_id": "old", "k": 1, "number": 5, "reg": {"number": 6, "type": "x"}},
    {"_id": "old", "k": 1, "reg": [{"number": 1}, {"number": 2}, 3]},
    {"_id": "old", "k": 1, "number": None, "reg": 7},
    {"_id": None, "k": 1, "reg": {"number": None}},
    {"_id": "old", "k": 1, "reg": None},
]
K, SET = {"k": 1}, {"$set": {"x": 1}}
FILTER, UPDATE = "filter_names_field", "update_names_field"
REPLACES, FIXES, UNKNOWN = "pipeline_replaces", "filter_fixes_id", "unknown_form"
NOTHING: dict[str, Any] = {"existing": []}

ROWS: dict[str, Row] = {
    # Operators.
    "set": row(K, SET),
    "no_filter": row({}, SET, **NOTHING),
    "own_set_on_insert": row(K, {"$setOnInsert": {"y": 1}, "$set": {"x": 1}}),
    **({"empty_set_on_insert": row(K, {"$setOnInsert": {}})} if has("empty_operators") else {}),
    "own_id": row(K, {"$set": {"x": 1}, "$setOnInsert": {"_id": 7}}, id="own"),
    "own_number": row(K, {"$setOnInsert": {"number": 7}}, number="own"),
    "own_null": row(K, {"$setOnInsert": {"number": None}}, number="own"),
    "own_path": row(K, {"$setOnInsert": {"reg.number": 7}}, path="own"),
    "own_in_document": row(K, {"$setOnInsert": {"reg": {"number": 7}}}, path="own"),
    "document_around": row(K, {"$setOnInsert": {"reg": {"type": "x"}}}, path=UPDATE),
    "inc_beside": row(K, {"$inc": {"reg.count": 1}, "$push": {"list": 1}},
                      existing=EXISTING[:2]),
    "set_number": row(K, {"$set": {"number": 7}}, number=UPDATE),
    "set_below": row(K, {"$set": {"number.x": 7}}, number=UPDATE, existing=EXISTING[:1]),
    "set_around": row(K, {"$set": {"reg": {"number": 1}}}, path=UPDATE),
    "inc_path": row(K, {"$inc": {"reg.number": 1}}, path=UPDATE, existing=EXISTING[:2]),
    "rename_to": row(K, {"$rename": {"old": "number"}}, number=UPDATE),
    "set_id": row(K, {"$set": {"_id": 7}}, id=UPDATE),
    "into_arrays": row(K, {"$set": {"reg.$[].x": 1}}, path=UPDATE, existing=[EXISTING[2]]),
    "array_filters": row({**K, "list": {"$exists": False}}, {"$set": {"list.$[i].x": 1}},
                         options={"arrayFilters": [{"i.y": 1}]}, **NOTHING),
    # Filters.
    "id_equal": row({"_id": 7}, SET, id=FILTER, existing=[{"_id": 7, "k": 1}]),
    "id_eq": row({"_id": {"$eq": 7}}, SET, id=FILTER, existing=[{"_id": 7}]),
    "id_in_one": row({"_id": {"$in": [7]}}, SET, id=FILTER, existing=[{"_id": 7}]),
    "id_in_two": row({"_id": {"$in": [7, 8]}}, SET, id=FILTER, existing=[{"_id": 7}]),
    "id_and": row({"$and": [{"_id": 7}, K]}, SET, id=FILTER, existing=[{"_id": 7, "k": 1}]),
    "id_or": row({"$or": [{"_id": 7}]}, SET, id=FILTER, existing=[{"_id": 7}]),
    "id_below": row({"_id.a": 7}, SET, id=FILTER, existing=[{"_id": {"a": 7}}]),
    "id_gt": row({"_id": {"$gt": 7}}, SET, id=FILTER, existing=[{"_id": 8}]),
    "id_exists": row({"_id": {"$exists": True}}, SET, id=FILTER),
    "number_equal": row({"number": "Q"}, SET, number=FILTER, existing=[{"number": "Q"}]),
    "number_and": row({"$and": [{"number": "Q"}]}, SET, number=FILTER,
                      existing=[{"number": "Q"}]),
    "number_elem_match": row({"number": {"$elemMatch": {"$eq": "Q"}}}, SET, number=FILTER,
                             existing=[{"number": ["Q"]}]),
    "path_elem_match": row({"reg": {"$elemMatch": {"number": "Q"}}}, SET, number=FILTER,
                           path=FILTER, existing=[{"reg": [{"number": "Q"}]}]),
    "path_document": row({"reg": {"type": "x"}}, SET, path=FILTER,
                         existing=[{"reg": {"type": "x"}}]),
    "path_beside": row({"reg.type": "x"}, SET, existing=[{"reg": {"type": "x"}}]),
    "number_nor": row({"$nor": [{"number": 1}]}, SET, number=FILTER, existing=[{"number": 2}]),
    "expr": row({"$expr": {"$eq": ["$k", 1]}}, SET, **NOTHING),
    # Replacements.
    "empty": row(K, {}, "empty_update", "empty_update", "empty_update"),
    "replacement": row(K, {"k": 1, "z": 1}, "replacement", "replacement_loses_field",
                       "replacement_loses_field"),
    "replacement_with_all": row(K, {"_id": "old", "number": 1, "reg": {"number": 1}}, "own", "own",
                                "own", existing=EXISTING[:2]),
    "replacement_of_id": row({"_id": 7}, {"z": 1}, FILTER, "replacement_loses_field",
                             "replacement_loses_field", existing=[{"_id": 7, "number": 1}]),
    "mixed": row(K, {"$set": {"x": 1}, "y": 1}, UNKNOWN, UNKNOWN, UNKNOWN),
    # Pipelines.
    "pipeline": row(K, [{"$set": {"x": 1}}, {"$addFields": {"y": {"$add": ["$k", 1]}}}]),
    "pipeline_empty": row(K, []),
    "pipeline_beside": row({**K, "reg.type": "x"}, [{"$set": {"x": 1}}], **NOTHING),
    "pipeline_dollar_text": row(K, [{"$set": {"x": {"$literal": "$k"}}}]),
    "pipeline_number": row(K, [{"$set": {"number": 7}}], number=UPDATE),
    "pipeline_around": row(K, [{"$set": {"reg": {"x": 1}}}], path=UPDATE),
    "pipeline_reads": row(K, [{"$set": {"x": "$number"}}], number=UPDATE),
    "pipeline_reads_id": row(K, [{"$set": {"x": {"$type": "$_id"}}}], id=UPDATE),
    "pipeline_unset": row(K, [{"$unset": "x"}], REPLACES, REPLACES, REPLACES),
    "pipeline_project": row(K, [{"$project": {"k": 1}}], REPLACES, REPLACES, REPLACES),
    "pipeline_replace_with": row(K, [{"$replaceWith": {"k": 1}}], REPLACES, REPLACES, REPLACES),
    "pipeline_replace_root": row(K, [{"$replaceRoot": {"newRoot": {"k": 1}}}], REPLACES, REPLACES,
                                 REPLACES),
    "pipeline_of_id": row({"_id": 7}, [{"$set": {"x": 1}}], FILTER, FIXES, FIXES,
                          existing=[{"_id": 7}]),
    "pipeline_of_number": row({"number": 7}, [{"$set": {"x": 1}}], number=FILTER,
                              existing=[{"number": 7}]),
}


@dataclass
class Two:
    """The same command through the proxy and directly, into collections of one name."""

    proxied: Any
    direct: Any
    kind: str
    name: str = field(default_factory=lambda: next(_collections))

    def databases(self) -> Iterator[Any]:
        yield self.proxied[PROXIED]
        yield self.direct[DIRECT]

    def collections(self) -> list[Any]:
        """Past the proxy."""
        return [self.direct[db][self.kind + self.name] for db in (PROXIED, DIRECT)]

    def fill(self, documents: list[dict[str, Any]]) -> None:
        for each in self.collections():
            each.delete_many({})
            if documents:
                each.insert_many([{"_id": "old", **d} for d in documents])

    def run(self, command: str, row: Row) -> tuple[Any, Any]:
        """The two replies, without what may differ."""
        coll = self.kind + self.name
        if command == "findAndModify":
            body = {command: coll, "query": row.filter, "update": row.update, "upsert": True,
                    "new": True, **row.options}
        else:
            body = {"update": coll, "updates": [
                {"q": row.filter, "u": row.update, "upsert": True, "multi": command == "multi",
                 **row.options}]}
        one, other = (db.command(body, check=False) for db in self.databases())
        return one, other

    def stored(self) -> tuple[list[Any], list[Any]]:
        one, other = (list(each.find().sort("k")) for each in self.collections())
        return one, other


@pytest.fixture(scope="module")
def clients(replica_set: Mongod, replica_proxy: Proxy) -> Iterator[tuple[Any, Any]]:
    with replica_proxy.client() as proxied:
        yield proxied, replica_set.client


def forwarded(client: Any, rule: int) -> dict[str, int]:
    return client.admin.command({"idproxy": "status"})["rules"][rule]["forwarded"]


@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize("name", ROWS)
def test_each_form(clients: tuple[Any, Any], name: str, kind: str):
    this, expected = ROWS[name], getattr(ROWS[name], kind)
    two = Two(*clients, kind)
    before = forwarded(clients[0], RULE_OF[kind])
    commands = ["update", "findAndModify"] if this.is_replacement else [
        "update", "multi", "findAndModify"]
    for command in commands:
        two.fill([])
        check_insert(two, command, this, expected)
    for document in this.existing:
        for command in commands if document is this.existing[0] else ["update"]:
            two.fill([document])
            replies, stored = two.run(command, this), two.stored()
            assert bare(replies[0]) == bare(replies[1]), (command, document)
            assert stored[0] == stored[1], (command, document)
    after = forwarded(clients[0], RULE_OF[kind])
    grown = {reason: count for reason, count in after.items() if count > before.get(reason, 0)}
    assert list(grown) == ([] if expected in ("value", "own") else [expected])


def check_insert(two: Two, command: str, this: Row, expected: str) -> None:
    replies = two.run(command, this)
    (one, other) = two.stored()
    if not other:  # the server refuses it
        assert bare(replies[0]) == bare(replies[1]) and not one, command
        return
    assert len(one) == len(other) == 1
    value = at(one[0], FIELDS[two.kind])
    assert is_generated(value) == (expected == "value"), (command, one)
    rest = without_value(one[0], two.kind) if expected == "value" else one[0]
    assert bare(rest) == bare(other[0]), command
    if command == "findAndModify":
        assert replies[0]["value"] == one[0]
        replies = [{**r, "value": None} for r in replies]
    assert bare(replies[0]) == bare(replies[1]), command


# ---- what the proxy does with them --------------------------------------------------------------


@pytest.fixture
def name() -> str:
    return next(_collections)


@pytest.mark.smoke
def test_many_statements_in_one_command(clients: tuple[Any, Any], name: str):
    proxied, direct = clients
    statements = [{"q": {"k": k}, "u": SET, "upsert": k % 2 == 0} for k in range(10)]
    reply = proxied.two.command({"update": name, "updates": statements})
    assert (reply["n"], reply["nModified"]) == (5, 0)
    assert [each["index"] for each in reply["upserted"]] == [0, 2, 4, 6, 8]
    found = {d["k"]: d for d in direct.two[name].find()}
    assert sorted(found) == [0, 2, 4, 6, 8]
    assert all(is_generated(d["_id"]) and is_generated(d["number"]) for d in found.values())
    assert [each["_id"] for each in reply["upserted"]] == [found[k]["_id"] for k in sorted(found)]
    assert reply["idproxy"]["assigned"] == [
        {"index": k, "field": "number", "value": found[k]["number"]} for k in sorted(found)]


@pytest.mark.parametrize("variant", DEFAULTS, ids=lambda each: each.name)
def test_every_strategy(clients: tuple[Any, Any], name: str, variant: Variant):
    """In each command that can insert; what is there keeps its value."""
    through, direct = (client[f"made-{variant.name}"][name] for client in clients)
    direct.create_index("made", unique=True, sparse=True)
    for x in range(2):
        change = {"$set": {"x": x}}
        through.update_one({"k": 0}, change, upsert=True)
        through.update_many({"k": 1}, change, upsert=True)
        through.find_one_and_update({"k": 2}, change, upsert=True)
        through.replace_one({"k": 3}, {"k": 3, "x": x}, upsert=True)
        through.find_one_and_replace({"k": 4}, {"k": 4, "x": x}, upsert=True)
        through.update_one({"k": 5}, [change], upsert=True)
        through.bulk_write([kind({"k": k}, change, upsert=True)
                            for k, kind in enumerate([UpdateOne, UpdateMany] * 10, 6)])
        raw = direct.with_options(CodecOptions(document_class=RawBSONDocument)).find().sort("k")
        found = [{e.name: e for e in elements(d.raw)}[b"made"] for d in raw]
        assert len({each.value for each in found}) == len(found) == 26
        for each in found:
            variant.check(each)
        assert x == 0 or found == first
        first = found


@pytest.mark.smoke
def test_find_one_and_update_returns_the_value(clients: tuple[Any, Any], name: str):
    document = clients[0].two[name].find_one_and_update(
        {"k": 1}, {"$set": {"x": 1}}, upsert=True, return_document=ReturnDocument.AFTER)
    assert is_generated(document["number"]) and is_generated(document["_id"])


def test_the_page_shows_what_works(clients: tuple[Any, Any], name: str):
    orders = clients[0].two[name]
    shown = "db.orders.updateOne({customer: 7}, {$inc: {items: 1}}, {upsert: true})"
    assert shown in (DOCS / "duplicates.md").read_text()
    orders.delete_many({})
    orders.update_one({"customer": 7}, {"$inc": {"items": 1}}, upsert=True)
    assert set(orders.find_one()) == {"_id", "customer", "items", "number"}


def test_explain_stays_as_it_is(clients: tuple[Any, Any], name: str):
    statement = {"q": {"k": 1}, "u": SET, "upsert": True}
    reply = clients[0].two.command({"explain": {"update": name, "updates": [statement]}})
    assert "setOnInsert" not in str(reply)


def test_numbers_of_documents_that_were_there_are_used_again(
        clients: tuple[Any, Any], name: str):
    """Many upserts that find their document, and no gap for it."""
    proxied, direct = clients
    direct.counted[name].create_index("number", unique=True, sparse=True)
    collection = proxied.counted[name]
    for k in range(5):
        for _ in range(4):
            collection.update_one({"k": k}, {"$inc": {"n": 1}}, upsert=True)
            collection.find_one_and_update({"k": k}, {"$inc": {"n": 1}}, upsert=True)
    numbers = [d["number"] for d in direct.counted[name].find().sort("k")]
    assert numbers == list(range(numbers[0], numbers[0] + 5))


def test_refused(clients: tuple[Any, Any], name: str):
    proxied, direct = clients
    collection = proxied.strict[name]
    collection.update_one({"k": 1}, SET, upsert=True)
    with pytest.raises(OperationFailure) as caught:
        proxied.strict.command({"update": name, "updates": [
            {"q": {"k": 2}, "u": SET, "upsert": True}, {"q": {"k": 3}, "u": {}, "upsert": True}]})
    assert caught.value.code == 96 and "(empty_update)" in str(caught.value)
    with pytest.raises(OperationFailure) as caught:
        collection.find_one_and_replace({"k": 4}, {"x": 1}, upsert=True)
    assert caught.value.code == 96 and "(replacement_loses_field)" in str(caught.value)
    collection.replace_one({"k": 1}, {"k": 1, "x": 1})  # no upsert
    assert [d["k"] for d in direct.strict[name].find()] == [1]


def test_forwarded_as_the_rule_says(clients: tuple[Any, Any], name: str):
    proxied, direct = clients
    proxied.lax[name].update_one({"k": 1}, SET, upsert=True)
    assert set(direct.lax[name].find_one()) == {"_id", "k", "x"}
    assert forwarded(proxied, 4)["configured"] >= 1


def test_forwarded_upserts_are_logged_and_counted(
        replica_set: Mongod, start_proxy: Callable[..., Proxy], name: str):
    """Once an hour for each rule, with the namespace and the way out."""
    proxy = start_proxy(configuration(replica_set, RULES, admin={"listen": "127.0.0.1:0"}))
    with proxy.client() as client:
        for k in range(3):
            client.strict[name].update_one({"k": k}, SET, upsert=True)
            client[PROXIED]["number" + name].replace_one({"k": k}, {"x": 1}, upsert=True)
            client[PROXIED]["id" + name].update_one({"_id": k}, SET, upsert=True)
            client.lax[name].update_one({"k": k}, SET, upsert=True)
    first, second = proxy.find_events("upsert_forwarded")
    assert (first["rule"], first["ns"], first["field"], first["reason"]) == (
        1, f"{PROXIED}.number{name}", "number", "replacement_loses_field")
    assert "use update operators such as $set" in first["message"]
    assert (second["rule"], second["reason"]) == (0, "filter_names_field")
    labels = ('rule="1",ns="proxied.number*",field="number",strategy="random-digits",'
              'reason="replacement_loses_field"')
    assert scrape.metric(proxy, f"idproxy_rule_upserts_forwarded_total{{{labels}}}") == 3
    assert scrape.metric(proxy, 'idproxy_requests_total{kind="update"}') == 3


def test_a_store_that_is_down_stops_only_upserts_that_need_a_value(
        replica_set: Mongod, start_proxy: Callable[..., Proxy], name: str):
    unreachable = {"uri": "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300"}
    rules = [{"ns": "down.*", "field": "number", "strategy": "counter"}]
    proxy = start_proxy(configuration(replica_set, rules, id_store=unreachable))
    replica_set.client.down[name].insert_one({"k": 2})
    with proxy.client(retryWrites=False) as client:
        collection = client.down[name]
        collection.update_one({"k": 1}, SET)
        collection.replace_one({"k": 2}, {"k": 2}, upsert=True)  # of one that is there
        collection.update_one({"k": 2}, {"$setOnInsert": {"number": 1}}, upsert=True)
        for refused in (lambda: collection.update_one({"k": 3}, SET, upsert=True),
                        lambda: collection.find_one_and_update({"k": 3}, SET, upsert=True)):
            with pytest.raises(OperationFailure) as caught:
                refused()
            assert caught.value.code == 6
    assert [d["k"] for d in replica_set.client.down[name].find()] == [2]
