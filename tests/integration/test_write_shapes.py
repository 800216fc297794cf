"""Odd shapes of the four write commands: each goes through the proxy and directly, and must have the same
reply and the same documents, but for the value; also where the first values are taken, so that the proxy
sends again.

The proxy stands before a server of 8.0 as far as bulkWrite goes (support/bulk_write_server.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest
from bson.objectid import ObjectId

from support import wire
from support.bulk_write_server import BulkWriteServer, bulk_write
from support.bulk_write_server import message as bulk_message
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.servers import has
from support.thief import Passed, Robbed, Thief, session, slow_replies
from support.upserts import DIRECT, PROXIED, bare, without_quotes

TAKEN = 3  # how many values are

# A collection's name ends with its kind.
_COUNTER = {"strategy": "counter", "heal": {"mode": "off"}}
RULES = [
    {"ns": f"{PROXIED}.*_guarded", "field": "number", "unique_index": "create", **_COUNTER},
    {"ns": f"{PROXIED}.*_number", "field": "number", **_COUNTER},
    {"ns": f"{PROXIED}.*_id", "field": "_id", **_COUNTER},
    {"ns": f"{PROXIED}.*_text", "field": "text", "template": "N-{counter}", "output": "string",
     **_COUNTER},
    {"ns": f"{PROXIED}.*_hidden", "field": "hidden", **_COUNTER},
]
FIELDS = {"number": "number", "id": "_id", "text": "text", "hidden": "hidden",
          "guarded": "number"}
VALUES: dict[str, Callable[[int], Any]] = {"text": lambda n: f"N-{n}"}

COMMANDS = ["insert", "update", "findAndModify", pytest.param(
    "bulkWrite", marks=pytest.mark.needs("retried_stmt_ids", "collection_uuid"))]
commands = pytest.mark.parametrize("command", COMMANDS)


@dataclass
class Place(Robbed):
    front: BulkWriteServer = field(kw_only=True)

    def on(self, db: str) -> str:
        """The address for commands on this database."""
        return self.proxy.address if db == PROXIED else self.front.address

    def take(self, ns: str, kind: str) -> None:
        """The first values are somebody else's."""
        value = VALUES.get(kind, bson.Int64)
        self.collection(ns).insert_many(
            [{FIELDS[kind]: value(n), "stolen": True} for n in range(1, TAKEN + 1)])
        self.server.client.idproxy.uniqueIdentifierCounter.insert_one(
            {"_id": f"{ns}.{FIELDS[kind]}", "COUNT": 1})


@pytest.fixture(scope="module")
def place(replica_set: Mongod) -> Iterator[Place]:
    with (Thief(replica_set) as thief, BulkWriteServer(replica_set, thief) as front,
          Proxy(configuration(front, RULES, replica_set)) as proxy):
        yield Place(replica_set, thief, proxy, front=front)


# ---- commands ------------------------------------------------------------------------------------

Fields = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """more: further fields of the body, or what makes them of a collection; statement: further
    fields of each statement of an update; set: what documents get, by their keys. A findAndModify is
    the statement of key 1; a bulkWrite has an insert, an upsert and an insert."""

    more: Fields | Callable[[Any], Fields] = field(default_factory=dict)
    statement: Fields = field(default_factory=dict)
    set: dict[int, Fields] = field(default_factory=dict)
    count: int = 3
    kind: str = "number"
    collection: Fields = field(default_factory=dict)
    new: bool = True  # of findAndModify
    form: str = "sequence"
    reverse: bool = False  # the fields behind the first
    needs: tuple[str, ...] = ()
    code: int | None = None  # what the reply must have, of the command or of a statement


_NAMES = {"insert": "documents", "update": "updates"}


def statements(shape: Shape, command: str, keys: range) -> list[Fields]:
    def documents(k: int) -> Fields:
        own = {"k": k, "text" if shape.kind != "text" else "words": "x" * k, **shape.set.get(k, {})}
        return own if shape.kind == "id" else {"_id": f"key{k}", **own}

    def upsert(k: int) -> Fields:
        own = documents(k)
        query = {"k": own.pop("k"), **({"_id": own.pop("_id")} if "_id" in own else {})}
        if "let" in shape.statement:
            query["$expr"] = {"$ne": ["$words", "$$v"]}
        more = {k: v for k, v in shape.statement.items() if k != "let"}
        return {"q": query, "u": {"$set": own}, "upsert": True, **more}

    if command == "insert":
        return [documents(k) for k in keys]
    if command == "bulkWrite":
        names = {"q": "filter", "u": "updateMods"}
        return [{"insert": 0, "document": documents(k)} if k % 2 == 0 else
                {"update": 0, **{names.get(n, n): v for n, v in upsert(k).items()}} for k in keys]
    return [upsert(k) for k in keys]


def built(shape: Shape, command: str, db: str, name: str, more: Fields) -> bytes:
    count = 1 if command == "findAndModify" else shape.count
    first = 1 if command == "findAndModify" else 0
    made = statements(shape, command, range(first, first + count))
    if command == "bulkWrite":
        own = {n: more[n] for n in ("collectionUUID", "encryptionInformation") if n in more}
        body = bulk_write(made, f"{db}.{name}", **{n: v for n, v in more.items() if n not in own})
        body["nsInfo"][0] |= own
        forms = {"body": "body", "sequence": "sequences", "sequence_first": "sequences first"}
        form = "reversed" if shape.reverse else forms[shape.form]
        return bulk_message(body, form)
    if command == "findAndModify":
        (one,) = made
        body = {command: name, "query": one.pop("q"), "update": one.pop("u"), **one,
                "new": shape.new, **{n: v for n, v in more.items() if n != "ordered"}, "$db": db}
    else:
        body = {command: name, **more, "$db": db}
    if command in _NAMES and shape.form == "body":
        body[_NAMES[command]] = made
    if shape.reverse:
        first_field, *rest = body.items()
        body = dict([first_field, *reversed(rest)])
    sections = [wire.body(body)]
    if command in _NAMES and shape.form != "body":
        sections.append(wire.sequence(_NAMES[command], made))
    return wire.op_msg(*(sections[::-1] if shape.form == "sequence_first" else sections))


def alike(value: Any, dropped: str) -> Any:
    """Without what may differ, and without the value of the rule: also of `_id`s in replies."""
    if isinstance(value, list):
        return [alike(each, dropped) for each in value]
    if not isinstance(value, dict):
        return value
    found = {n: alike(v, dropped) for n, v in value.items() if n != dropped}
    if isinstance(found.get("upserted"), (int, ObjectId)):
        found["upserted"] = "an id"
    return found


# ---- each shape ----------------------------------------------------------------------------------

def uuid_of(collection: Any) -> Fields:
    (found,) = collection.database.list_collections(filter={"name": collection.name})
    return {"collectionUUID": found["info"]["uuid"]}


def encrypted(collection: Any) -> Fields:
    """As a driver sends it that encrypts the field `hidden`."""
    (found,) = collection.database.list_collections(filter={"name": collection.name})
    return {"encryptionInformation": {
        "type": 1, "schema": {collection.full_name: found["options"]["encryptedFields"]},
        "deleteTokens": {collection.full_name: {}}}}


def with_encryption(path: str = "hidden") -> Fields:
    return {"encryptedFields": {"fields": [
        {"path": path, "keyId": bson.Binary(bytes(16), 4), "bsonType": "string"}]}}


STRICT = {"apiVersion": "1", "apiStrict": True, "apiDeprecationErrors": True}
CLUSTERED = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}
NO_CASE = {"collation": {"locale": "en", "strength": 2}}
TWICE = {1: {"u": "taken"}}  # a duplicate of the application's own
NO_SUCH_TAG = {"writeConcern": {"w": "nosuchtag"}}
TOO_MANY = {"writeConcern": {"w": 5, "wtimeout": 20}}

SHAPES: dict[str, Shape] = {
    "plain": Shape(),
    "array": Shape(form="body"),
    "sequence first": Shape(form="sequence_first"),
    "fields reversed": Shape({"ordered": False, "comment": 1, "maxTimeMS": 60_000}, reverse=True),
    "fields reversed, array": Shape({"ordered": False, "lsid": {"id": bson.Binary(bytes(16), 4)}},
                                    form="body", reverse=True),
    "comment": Shape({"comment": {"why": [1, "x", None]}}),
    "let": Shape({"let": {"v": "words"}}, statement={"let": True}),
    "maxTimeMS": Shape({"maxTimeMS": bson.Int64(60_000)}),
    "collectionUUID": Shape(uuid_of, needs=("collection_uuid",)),
    "another's collectionUUID": Shape(
        lambda _: {"collectionUUID": bson.Binary(bytes(16), 4)}, needs=("collection_uuid",)),
    "apiStrict": Shape(STRICT, needs=("strict_api",)),
    "apiVersion alone": Shape({"apiVersion": "1"}, needs=("strict_api",)),
    "another apiVersion": Shape({"apiVersion": "2"}, needs=("strict_api",), code=322),
    "apiStrict, unordered, retryable": Shape(
        lambda _: {**STRICT, "ordered": False, **session()}, needs=("strict_api",)),
    "w 1": Shape({"writeConcern": {"w": 1}}),
    "empty writeConcern": Shape({"writeConcern": {}}),
    "j": Shape({"writeConcern": {"j": True}}),
    "majority": Shape({"writeConcern": {"w": "majority", "wtimeout": 10_000}}),
    "w of tags that are not there": Shape(NO_SUCH_TAG, code=79),
    "w of too many": Shape(TOO_MANY, code=100),
    "writeConcernError beside writeErrors": Shape(
        {**TOO_MANY, "ordered": False}, set=TWICE, code=11000),
    "writeConcernError and an end": Shape({**NO_SUCH_TAG, "ordered": True}, set=TWICE, code=11000),
    "writeErrors": Shape({"ordered": False}, set=TWICE, code=11000),
    "retryable": Shape(lambda _: session()),
    "stmtIds": Shape(lambda _: {**session(), "stmtIds": [7, 3, 5]}),
    "stmtId": Shape(lambda _: {**session(), "stmtId": 7}),
    "bypassDocumentValidation": Shape({"bypassDocumentValidation": True}, set={1: {"refused": 1}}),
    "refused by a validator": Shape({"ordered": False}, set={1: {"refused": 1}}, code=121),
    "$readPreference": Shape({"$readPreference": {"mode": "primary"}}),
    "collation of the statements": Shape(statement=NO_CASE),
    "encrypted": Shape(encrypted, collection=with_encryption(), count=1, new=False,
                       needs=("queryable_encryption",)),
    "encrypted, retryable": Shape(
        lambda collection: {**encrypted(collection), **session(), "ordered": False},
        collection=with_encryption(), count=1, new=False, needs=("queryable_encryption",)),
    "hint": Shape(statement={"hint": {"_id": 1}}),
    "arrayFilters": Shape(statement={"arrayFilters": [{"i": 1}]}),
    "a collated collection": Shape(collection=NO_CASE, kind="text"),
    "a collated collection, unordered": Shape({"ordered": False}, collection=NO_CASE, kind="text"),
    "a collated collection, its _id": Shape(collection=NO_CASE, kind="id"),
    "a clustered collection": Shape(collection=CLUSTERED, needs=("clustered",)),
    "a clustered collection, its _id": Shape(collection=CLUSTERED, kind="id", needs=("clustered",)),
    "a clustered collection, unordered": Shape(
        {"ordered": False}, collection=CLUSTERED, kind="id", needs=("clustered",)),
}


def create(place: Place, db: str, name: str, **options: Any) -> Any:
    """By hand: PyMongo encrypts only for MongoDB 7.0."""
    database = place.server.client[db]
    database.command({"create": name, "validator": {"refused": {"$exists": False}}, **options})
    return database[name]


def both(place: Place, shape: Shape, command: str, name: str, is_taken: bool) -> list[Fields]:
    """Through the proxy and directly: reply and documents."""
    found = []
    name = f"{name}_{shape.kind}"
    for db in (PROXIED, DIRECT):
        collection = create(place, db, name, **shape.collection)
        collection.create_index("u", unique=True, sparse=True)
        if FIELDS[shape.kind] != "_id":
            collection.create_index(FIELDS[shape.kind], unique=True, partialFilterExpression={
                FIELDS[shape.kind]: {"$exists": True}})
        collection.insert_one({"_id": "own", "u": "taken", "stolen": True})
        if is_taken and db == PROXIED:
            place.take(f"{db}.{name}", shape.kind)
        more = shape.more(collection) if callable(shape.more) else shape.more
        with wire.client(place.on(db)) as client:
            reply = client.call(built(shape, command, db, name, more))
        found.append({"reply": reply, "stored": place.stored(f"{db}.{name}")})
    return found


def check(place: Place, shape: Shape, command: str, name: str, is_taken: bool) -> Fields:
    proxied, direct = both(place, shape, command, name, is_taken)
    dropped = FIELDS[shape.kind]
    def of(way: Fields) -> Fields:
        return without_quotes(bare(alike(way, dropped)))

    told = proxied["reply"], direct["reply"]
    assert of(proxied) == of(direct), told
    if has("order_of_reply"):
        assert list(told[0]) == list(told[1]), told
    values = [each.get(dropped) for each in proxied["stored"]]
    if shape.kind == "id":
        values = [each for each in values if isinstance(each, int)]
    wanted = VALUES.get(shape.kind, int)
    stored = [wanted(TAKEN * is_taken + n) for n in range(1, 1 + len(direct["stored"]))]
    if is_taken or "writeErrors" not in direct["reply"]:
        assert len(set(values)) == len(stored) and None not in values, values
    return direct["reply"]


@pytest.mark.parametrize("is_taken", [False, True], ids=["free", "taken"])
@commands
@pytest.mark.parametrize("name", SHAPES)
def test_the_same_as_without_the_proxy(place: Place, coll: str, name: str, command: str,
                                       is_taken: bool):
    shape = SHAPES[name]
    if not all(map(has, shape.needs)):
        pytest.skip("the server cannot")
    reply = check(place, shape, command, coll, is_taken)
    told = str(reply)
    assert shape.code is None or f"'code': {shape.code}" in told, reply


# ---- encryption ----------------------------------------------------------------------------------

@pytest.mark.needs("queryable_encryption")
@commands
@pytest.mark.parametrize("path", ["hidden", "hidden.below"])
def test_a_value_for_an_encrypted_field_is_refused(place: Place, coll: str, command: str, path: str):
    """Nothing is sent, and the reply names the field."""
    name = f"{coll}_hidden"
    collection = create(place, PROXIED, name, **with_encryption(path))
    with wire.client(place.proxy.address) as client:
        reply = client.call(built(Shape(new=False), command, PROXIED, name, encrypted(collection)))
    assert (reply["ok"], reply["code"]) == (0, 96), reply
    assert f"field 'hidden' of {PROXIED}.{name}" in reply["errmsg"]
    assert place.stored(f"{PROXIED}.{name}") == []


# ---- statements ----------------------------------------------------------------------------------

@commands
def test_equal_numbers_of_statements_are_refused(place: Place, coll: str, command: str):
    """A mongod may end of them. findAndModify has one statement, and mongod does not know stmtIds."""
    more = {**session(), "stmtIds": [5, 5]}
    with wire.client(place.proxy.address) as client:
        reply = client.call(built(Shape(count=2), command, PROXIED, f"{coll}_number", more))
    codes = [40415, 51177] if command == "findAndModify" else [72]
    assert reply["ok"] == 0 and reply["code"] in codes, reply
    assert place.stored(f"{PROXIED}.{coll}_number") == []


# ---- time ----------------------------------------------------------------------------------------

def concerns(message: Passed, name: str) -> bool:
    """It is a write into this collection, as mongod gets it."""
    return (message.direction == "to_server"
            and message.command in ("insert", "update", "findAndModify")
            and message.body[message.command] == name)


def with_time(place: Place, command: str, name: str, milliseconds: int,
              seconds: float) -> tuple[Fields, list[int]]:
    """The reply, and the maxTimeMS of each send. The first values are taken."""
    collection = place.server.client[PROXIED][name]
    collection.create_index("number", unique=True, sparse=True)
    place.take(collection.full_name, "number")
    with (slow_replies(place.thief, place.server, lambda sent: concerns(sent, name), seconds),
          wire.client(place.proxy.address) as client):
        reply = client.call(built(Shape(count=1), command, PROXIED, name,
                                  {"maxTimeMS": milliseconds}))
    return reply, [int(m.body["maxTimeMS"]) for m in list(place.thief.messages)
                   if concerns(m, name)]


@commands
def test_max_time_is_for_all_sends_together(place: Place, coll: str, command: str):
    reply, times = with_time(place, command, f"{coll}_number", 9000, 0.03)
    assert reply["ok"] == 1 and "writeErrors" not in reply and not reply.get("nErrors"), reply
    assert times[0] == 9000 and len(times) == TAKEN + 1
    assert all(0 < later <= sooner - 30 for sooner, later in zip(times, times[1:])), times


@commands
def test_max_time_that_is_used_up(place: Place, coll: str, command: str):
    """The duplicate is the answer, as mongod wrote it."""
    reply, times = with_time(place, command, f"{coll}_number", 1000, 1.1)
    assert len(times) == 1 and "'code': 11000" in str(reply), reply
    assert place.stored(f"{PROXIED}.{coll}_number") == []


# ---- collections that come and go ----------------------------------------------------------------

def on_the_way(place: Place, command: str, name: str, happens: Callable[[Any], Any]) -> Fields:
    """The reply to the command, while this happens to the collection, before mongod gets it."""
    collection, done = place.server.client[PROXIED][name], []

    def hook(message: Passed) -> bytes:
        if concerns(message, name) and not done:
            done.append(happens(collection))
        return message.raw

    with place.thief.hook(hook), wire.client(place.proxy.address) as client:
        reply = client.call(built(Shape(), command, PROXIED, name, {}))
    assert done
    return reply


def without_it(place: Place, command: str, name: str) -> tuple[Fields, list[Fields]]:
    with wire.client(place.on(DIRECT)) as client:
        reply = client.call(built(Shape(), command, DIRECT, name, {}))
    return reply, place.stored(f"{DIRECT}.{name}")


@commands
@pytest.mark.parametrize("how", ["dropped", "created", "dropped, guarded"])
def test_a_collection_that_changes_on_the_way(place: Place, coll: str, command: str, how: str):
    if how.endswith("guarded") and not has("collection_uuid"):
        pytest.skip("the server knows no collectionUUID")
    name = f"{coll}_{'guarded' if how.endswith('guarded') else 'number'}"
    collection = place.server.client[PROXIED][name]
    if how != "created":
        collection.create_index("number", unique=True, sparse=True)
        place.take(collection.full_name, "number")
    happens = {"created": lambda it: it.database.create_collection(it.name, **NO_CASE)}.get(
        how, lambda it: it.drop())
    reply = on_the_way(place, command, name, happens)
    direct, expected = without_it(place, command, name)
    assert alike(bare(reply), "number") == alike(bare(direct), "number")
    stored = place.stored(collection.full_name)
    assert alike(stored, "number") == expected
    assert len({each["number"] for each in stored}) == len(expected)
    # findAndModify cannot name the collection that it means.
    if how == "dropped, guarded" and command != "findAndModify":
        assert "number_idproxy" in collection.index_information()
