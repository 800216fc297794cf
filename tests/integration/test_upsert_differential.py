"""Updates, findAndModifies and bulkWrites, valid and odd, through the proxy and without it; the first
two also malformed.

Each generated message goes to both, with the same documents there before. On its way from the proxy to
the server, many of the generated values are put into documents of somebody else's. The replies must be
the same but for assigned fields, and so must the documents be that are there then.
test_differential.py does this with inserts.
"""

from __future__ import annotations

import copy
import random
import re
import struct
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from support import elements as el
from support import wire
from support.bulk_write_server import BulkWriteServer
from support.chaos import StepRelay
from support.elements import Element, document, elements
from support.fake_server import Request
from support.full import FULL
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.servers import has
from support.upserts import (
    DIRECT, FIELDS, PROXIED, at, bare, is_generated, without_quotes, without_value)

COUNT = 10_000 if FULL else 500
COMPRESSED = 10_000 if FULL else 150
# A bulkWrite has several statements.
OF_BULK = {count: count if FULL else 2 * count // 3 for count in (COUNT, COMPRESSED)}
TIMEOUT = 60.0  # of one command
COMMANDS = ["update", "findAndModify", "bulkWrite"]  # in the normal run each is compressed in one way
RULES = [{"ns": f"{PROXIED}.{kind}", "field": name, "strategy": "random-digits", "digits": 12,
          "leading_zeros": False, "retry": {"attempts": 100, "deadline": "120s"},
          **({} if name == "_id" else {"keep": "off"})} for kind, name in FIELDS.items()]

EXISTING: list[dict[str, Any]] = [
    {"_id": "old", "k": 1, "x": 5, "number": 5, "reg": {"number": 6, "type": "x"}},
    {"_id": "older", "k": 2, "list": [{"a": 1}, {"a": 2}], "reg": [{"number": 1}, {"number": 2}]},
    {"_id": 7, "k": 1, "reg": 3, "text": "A"},
    {"_id": None, "k": 3, "number": None},
]
FILTERS: list[dict[str, Any]] = [
    {"k": 1}, {"k": 1}, {"k": 2}, {"k": 9}, {"k": 9}, {"k": 9}, {"k": 9, "x": 4}, {},
    {"_id": 7}, {"_id": "new"}, {"_id": {"$in": [1, 2]}}, {"_id": {"$type": "regex"}}, {"k": {"$gt": 8}},
    {"number": 5}, {"number": "Q", "k": 9}, {"reg.number": 6}, {"reg.type": "y"}, {"reg": 3},
    {"$or": [{"k": 9}]}, {"$or": [{"k": 9}, {"k": 8}]}, {"$and": [{"k": 9}, {"_id": "new"}]},
    {"list": {"$elemMatch": {"a": 1}}, "k": 9}, {"k": 9, "$comment": "why"}, {"$expr": {"$gt": ["$k", 1]}},
    {"text": "a"}, {"$where": "true"}, {"$bad": 1}, {"k": {"$bad": 1}},
]
UPDATES: list[Any] = [
    {"$set": {"x": 1}}, {"$set": {"x": 1}}, {"$inc": {"x": 1}}, {"$set": {"k": 4, "x": 1}},
    {"$setOnInsert": {"y": 1}}, {"$setOnInsert": {"y": 1}, "$inc": {"x": 1}}, 
    {"$setOnInsert": {} if has("empty_operators") else {"y": 2}},
    {"$setOnInsert": {"_id": "own", "number": "own", "reg": {"number": "own"}}},
    {"$setOnInsert": {"reg.type": "x"}}, {"$setOnInsert": {"reg": {"type": "x"}}},
    {"$set": {"number": 3}}, {"$set": {"reg.type": "z"}}, {"$set": {"reg": {}}}, {"$unset": {"reg": ""}},
    {"$push": {"list": {"_id": 1, "a": 3}}}, {"$set": {"list.$.a": 5}}, {"$set": {"list.$[].a": 5}},
    {"$set": {"reg.$[].number": 5}}, {"$rename": {"x": "number"}}, {"$rename": {"x": "z"}},
    {"$currentDate": {"number": False}}, {"$mul": {"x": 2}}, {"$min": {"_id": 1}},
    {"$set": {"_id": "other"}}, {"$set": {"u": 1}}, {"$set": {"refused": 1}},
    {}, {"k": 9}, {"k": 9, "number": 8}, {"_id": "new", "k": 9}, {"k": 9, "reg": {"number": 8}},
    {"$set": {"x": 1}, "y": 1}, {"y": 1, "$set": {"x": 1}}, {"$bad": {"x": 1}}, {"$set": 5},
    [], [{"$set": {"x": 1}}], [{"$addFields": {"x": {"$add": ["$k", 1]}}}, {"$set": {"z": "$x"}}],
    [{"$set": {"number": 3}}], [{"$set": {"z": "$number"}}], [{"$set": {"reg": {"z": 1}}}],
    [{"$set": {"z": {"$type": "$_id"}}}], [{"$unset": "x"}],
    [{"$project": {"x": 1}}], [{"$replaceWith": {"k": 9, "z": 1}}], [{"$set": {"u": 1}}],
    [{"$set": {"x": 1}, "$unset": "x"}], [{"$match": {"k": 1}}], [{"$set": {"x": {"$bad": 1}}}], [5],
    5, "text", None,
]
READING = [[{"$set": {"z": "$number"}}], [{"$set": {"z": {"$type": "$_id"}}}],
           {"$set": {"reg.$[].number": 5}}]
INSERTS: list[dict[str, Any]] = [
    {"k": 9}, {"k": 9, "x": 4}, {"_id": "new", "k": 9}, {"k": 9, "number": 8, "reg": {"number": 8}},
    {"k": 9, "reg": {"type": "x"}}, {"_id": "old"}, {"u": 1}, {"refused": 1}, {"_id": [1]}, {"$k": 1},
    bson.decode(document(*(e for e in el.every_type() if e.name not in (
        b"not_utf8", b"nan", b"undefined", b"symbol", b"dbPointer", b"when", b"timestamp")))),
]


@dataclass
class Generated:
    """One command in the making. What depends on the way is put in by message()."""

    kind: str
    command: str
    statements: list[bytes]  # of a findAndModify the fields of its body
    options: list[Element]
    form: str
    flags: int = 0
    replayed: bool = False
    independent: bool = False  # no statement can see what another one does
    ending: str = ""  # the command that ends the transaction of which this is all
    damage: int | None = None  # a byte of the last statement that is changed
    description: Any = None

    def message(self, db: str, lsid: bytes) -> bytes:
        options = [self._session(lsid), *self.options]
        if self.command == "bulkWrite":
            return self._bulk_write([*options, el.string("$db", "admin")], db)
        options.append(el.string("$db", db))
        name = el.string(self.command, self.kind)
        if self.command == "update":
            last = self.statements[-1]
            statements = [*self.statements[:-1], self._damaged(last, 4, len(last) - 5)]
            if self.form == "array":
                return self._framed([wire.body(document(
                    name, el.array("updates", statements), *options))])
            sections = [wire.body(document(name, *options)), wire.sequence("updates", statements)]
            return self._framed(sections if self.form == "sequence" else sections[::-1])
        body = document(name, *elements(self.statements[0]), *options)
        begin, own = len(document(name)) - 1, len(self.statements[0]) - 5
        return self._framed([wire.body(self._damaged(body, begin, own))])

    def end(self, lsid: bytes) -> bytes:
        """What ends the transaction."""
        return wire.command(document(
            el.int32(self.ending, 1), self._session(lsid), el.int64("txnNumber", 1),
            el.boolean("autocommit", False), el.string("$db", "admin")), request_id=99)

    def may_collide(self) -> bool:
        """Nobody sees documents of somebody else's, or that statements go again after later ones: no
        statement means all documents, and errors are told, by the proxy too."""
        told = not self.ending and not any(e.name == b"writeConcern" for e in self.options)
        in_order = self.independent or not any(
            e.name == b"ordered" and e.value == b"\0" for e in self.options)
        return told and in_order and not any(each.get(name, {"k": 1}) in ({}, {"$where": "true"})
                                for each in self.description for name in ("q", "query", "filter"))

    def _session(self, lsid: bytes) -> Element:
        return el.embedded("lsid", el.element(0x05, "id", bytes([16, 0, 0, 0, 4]) + lsid))

    def _bulk_write(self, options: list[Element], db: str) -> bytes:
        name, ops = el.int32("bulkWrite", 1), self.statements
        collections = [document(el.string("ns", f"{db}.{kind}")) for kind in (self.kind, "plain")]
        if self.form == "array":
            return self._framed([wire.body(document(
                name, el.array("ops", ops), *options, el.array("nsInfo", collections)))])
        sections = [wire.body(document(name, *options)), wire.sequence("ops", ops),
                    wire.sequence("nsInfo", collections)]
        return self._framed(sections if self.form == "sequence" else sections[::-1])

    def _framed(self, sections: list[bytes]) -> bytes:
        return wire.op_msg(*sections, flags=self.flags, request_id=99)

    def _damaged(self, raw: bytes, begin: int, size: int) -> bytes:
        if self.damage is None or size < 1:
            return raw
        place = begin + self.damage % size
        return raw[:place] + bytes([raw[place] ^ 0x41]) + raw[place + 1:]


@dataclass
class Generator:
    """Makes commands from a seed."""

    choose: random.Random
    name: str = "update"
    wrong: list[Any] = field(default_factory=lambda: [5, "text", None, [], {"a": 1}])

    @property
    def bulk(self) -> bool:
        return self.name == "bulkWrite"

    def command(self) -> Generated:
        choose = self.choose
        command = (choose.choice(["findAndModify", "findandmodify"]) if self.name == "findAndModify"
                   else self.name)
        count = 1 if command.startswith("find") else choose.choice([1, 1, 1, 2, 3, 5])
        names = ("q", "u") if command == "update" else ("query", "update")
        described = [self.op() if self.bulk else self.statement(names) for _ in range(count)]
        for each in described:
            if count > 1 and each.get(names[1]) in READING:  # what an upsert of the same command has got
                each[names[1]] = {"$set": {"x": 1}}
        independent = count == 1 or choose.random() < 0.3
        if count > 1 and independent:
            described = [self.independent(names, 100 + i) for i in range(count)]
        raw = [self.raw(each) for each in described]
        made = Generated(choose.choice(list(FIELDS)), command, raw, self.options(command, described),
                         choose.choice(["array", "sequence", "sequence_first"]),
                         wire.CHECKSUM_PRESENT if choose.random() < 0.1 else 0)
        made.independent = independent
        made.replayed = any(e.name == b"txnNumber" for e in made.options) and choose.random() < 0.3
        if choose.random() < 0.05:
            made.ending = choose.choice(["commitTransaction", "abortTransaction"])
            made.options = [e for e in made.options if e.name != b"txnNumber"] + [
                el.int64("txnNumber", 1), el.boolean("startTransaction", True),
                el.boolean("autocommit", False)]
        elif not self.bulk and choose.random() < 0.05:
            made.damage = choose.randrange(10_000)
        made.description = described
        return made

    def independent(self, names: tuple[str, str], k: int) -> dict[str, Any]:
        if self.bulk and self.choose.random() < 0.5:
            return {"insert": 0, "document": {"k": k}}
        update = copy.deepcopy(self.choose.choice([
            {"$set": {"x": 1}}, {"$setOnInsert": {"y": 1}, "$inc": {"x": 1}}, [{"$set": {"x": 1}}]]))
        if self.bulk:
            return {"update": 0, "filter": {"k": k}, "updateMods": update, "upsert": True}
        return {names[0]: {"k": k}, names[1]: update, "upsert": True}

    def op(self) -> dict[str, Any]:
        """Of a bulkWrite, in the first collection of two as a rule."""
        choose = self.choose
        ns = 1 if choose.random() < 0.1 else 0
        if choose.random() < 0.4:
            return {"insert": ns, "document": copy.deepcopy(choose.choice(INSERTS))}
        if choose.random() < 0.15:
            return {"delete": ns, "filter": copy.deepcopy(choose.choice(FILTERS)),
                    "multi": choose.random() < 0.3}
        names = {"q": "filter", "u": "updateMods"}
        made = {names.get(name, name): value for name, value in self.statement(("q", "u")).items()}
        if made.get("updateMods") in READING:  # what an insert of the same command has got
            made["updateMods"] = {"$set": {"x": 1}}
        return {"update": ns, **made}

    def statement(self, names: tuple[str, str]) -> dict[str, Any]:
        choose = self.choose
        found: dict[str, Any] = {names[0]: copy.deepcopy(choose.choice(FILTERS)),
                                 names[1]: copy.deepcopy(choose.choice(UPDATES))}
        if choose.random() < 0.9:
            found["upsert"] = choose.choice(
                [True] * 12 + [False, 1, 0, 0.5, -0.0, None, "true", Decimal128("1"), Decimal128("0")])
        if names[0] == "q" and choose.random() < 0.15:
            found["multi"] = choose.random() < 0.8
            if found[names[1]] == {"$currentDate": {"number": False}}:  # a duplicate, but for a millisecond
                found[names[1]] = {"$set": {"x": 1}}
        if names[0] == "query":
            if choose.random() < 0.5:
                found["new"] = True
            if choose.random() < 0.05:
                found["remove"] = choose.random() < 0.5
            if choose.random() < 0.1:
                found["sort"] = {"k": 1}
            if choose.random() < 0.1:
                found["fields"] = {"k": 1, "x": 1}
        for chance, name, value in [
                (0.08, "collation", {"locale": "en", "strength": 2}), (0.05, "hint", {"_id": 1}),
                (0.03, "hint", "none"), (0.05, "arrayFilters", [{"i.a": 1}]), (0.02, "zork", 1)]:
            if choose.random() < chance:
                found[name] = value
        if choose.random() < 0.03:
            found[choose.choice(list(found))] = choose.choice(self.wrong)
        if choose.random() < 0.03:
            del found[choose.choice(list(found))]
        entries = list(found.items())
        choose.shuffle(entries)
        return dict(entries)

    def raw(self, statement: dict[str, Any]) -> bytes:
        parts = elements(bson.encode(statement))
        if parts and self.choose.random() < 0.02:
            parts.append(self.choose.choice(parts))  # a repeated field
        return document(*parts)

    def options(self, command: str, statements: list[dict[str, Any]]) -> list[Element]:
        choose = self.choose
        options: list[Element] = []
        if command in ("update", "bulkWrite") and choose.random() < 0.6:
            options.append(el.boolean("ordered", choose.random() < 0.5))
        if choose.random() < 0.4:
            options.append(el.int64("txnNumber", 1))
        for chance, element in [
                (0.1, el.string("comment", "why")), (0.1, el.int32("maxTimeMS", 60_000)),
                (0.1, el.embedded("let", el.int32("v", 1))),
                (0.1, el.boolean("bypassDocumentValidation", True)),
                (0.05, el.embedded("writeConcern", el.int32("w", 0))),
                (0.05, el.embedded("writeConcern", el.string("w", "majority"))),
                (0.05, el.boolean("errorsOnly", True) if self.bulk else el.int32("zork", 1)),
                (0.03, el.int32("zork", 1)), (0.03, el.int32("stmtId", 5))]:
            if choose.random() < chance and element.name not in {e.name for e in options}:
                options.append(element)
        choose.shuffle(options)
        return options


def readable(reply: wire.Message | None) -> Any:
    if reply is None:
        return None
    body = without_quotes(bare(reply.body))
    if body.get("code") == 22:  # InvalidBSON: the text may quote bytes of the session's id
        body["errmsg"] = ""
    return body


def alike(documents: list[dict[str, Any]], kind: str) -> list[Any]:
    """Without assigned values, in an order that does not depend on what was sent again."""
    stripped = [without_value(each, kind) if kind != "id" and is_generated(at(each, FIELDS[kind]))
                else each for each in documents]
    return sorted(bare(stripped), key=lambda each: repr(sorted(each.items())))


def of_modify(reply: Any, kind: str) -> Any:
    """The reply to a findAndModify, without the value in the document that it returns."""
    value = reply.get("value") if isinstance(reply, dict) else None
    if not isinstance(value, dict) or kind == "id":
        return reply
    # bare() has replaced the value.
    if at(value, FIELDS[kind]) == "an id":
        return {**reply, "value": without_value(value, kind)}
    return reply


class Collider:
    """For a relay: puts generated values that come by into documents of its own.

    kind: of the collection; while it is empty, values pass. planted: how many did not.
    """

    def __init__(self, server: Mongod, seed: str):
        self._database, self._choose = server.client[PROXIED], random.Random(seed)
        self.kind, self.planted = "", 0

    def __call__(self, write: Request) -> None:
        if not self.kind or self._choose.random() < 0.5:
            return
        found = [struct.unpack_from("<q", write.raw + bytes(8), each.end())[0]
                 for each in re.finditer(rb"\x12[^\0]*\0", write.raw)]
        for value in {each for each in map(Int64, found) if is_generated(each)}:
            made: Any = value
            for name in reversed(FIELDS[self.kind].split(".")):
                made = {name: made}
            if not self._database[self.kind].count_documents({FIELDS[self.kind]: value}, limit=1):
                self._database[self.kind].insert_one({**made, "stolen": True})
                self.planted += 1


@pytest.fixture
def collections(replica_set: Mongod) -> dict[tuple[str, str], Any]:
    """By database and kind: alike, with indexes, a validator, and a document to collide with."""
    found = {}
    for db in (PROXIED, DIRECT):
        replica_set.client.drop_database(db)
        for kind, name in {**FIELDS, "plain": "number"}.items():
            made = replica_set.client[db].create_collection(
                kind, validator={"refused": {"$exists": False}})
            made.create_index("u", unique=True, sparse=True)
            if name != "_id":
                made.create_index(name, unique=True, sparse=True)
            made.insert_one({"_id": "u", "u": 1})
            found[db, kind] = made
    return found


def takes_away(statement: dict[str, Any]) -> bool:
    """Whether it may take away the value that a statement before it got."""
    update = statement.get("u", statement.get("updateMods"))
    is_replacement = isinstance(update, dict) and not any(name.startswith("$") for name in update)
    return is_replacement or any(word in str(update) for word in ("$unset", "$project", "$replaceWith"))


def without_modified(reply: Any) -> Any:
    """The reply without any nModified."""
    if isinstance(reply, list):
        return [without_modified(each) for each in reply]
    if isinstance(reply, dict):
        return {k: without_modified(v) for k, v in reply.items() if k != "nModified"}
    return reply


@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("command, compressor, count", [
    pytest.param(command, compressor, COMPRESSED if compressor else COUNT, marks=[
        *[pytest.mark.needs("retried_stmt_ids", "collection_uuid")][:command == "bulkWrite"],
        *[pytest.mark.full][:compressor not in (None, its_own)]])
    for command, its_own in zip(COMMANDS, wire.COMPRESSORS, strict=True)
    for compressor in (None, *wire.COMPRESSORS)])
def test_the_same_as_without_the_proxy(
        replica_set: Mongod, collections: dict[tuple[str, str], Any], compressor: str | None,
        count: int, command: str):
    """compressor: in which the proxy is sent its commands."""
    seed = (f" {compressor}" if compressor else "") + f" {command}"
    generator = Generator(random.Random("updates" + seed), command)
    bulk = generator.bulk
    lsid = random.Random("lsid" + seed)  # the server remembers sessions
    count = OF_BULK[count] if bulk else count
    collider = Collider(replica_set, seed)
    tally = Counter[str]()
    with ExitStack() as stack:
        relay = stack.enter_context(StepRelay(replica_set.address, before=collider))
        front = (stack.enter_context(BulkWriteServer(replica_set, relay)) if bulk else relay)
        proxy = stack.enter_context(Proxy(configuration(front, RULES, replica_set)))
        direct = wire.Reconnecting(front.address if bulk else replica_set.address, TIMEOUT)
        proxied = wire.Reconnecting(proxy.address, TIMEOUT, compressor)
        for number in range(count):
            this = generator.command()
            there = generator.choose.sample(EXISTING, generator.choose.randrange(3))
            for db in (PROXIED, DIRECT):
                for kind in (this.kind, *(["plain"] if bulk else [])):
                    collections[db, kind].delete_many({"_id": {"$ne": "u"}})
                    if there:
                        collections[db, kind].insert_many(copy.deepcopy(there))
            lsids = lsid.randbytes(16), lsid.randbytes(16)
            for _ in range(1 + this.replayed):
                other = readable(direct.call(this.message(DIRECT, lsids[1])))
                collider.kind, collider.planted = this.kind if this.may_collide() else "", 0
                one = readable(proxied.call(this.message(PROXIED, lsids[0])))
                collider.kind = ""
                told = (number, other, this, there)
                if len(this.statements) > 1 and any(map(takes_away, this.description)):
                    one, other = without_modified(one), without_modified(other)
                assert of_modify(one, this.kind) == other, told
                if this.ending:
                    ends = [readable(way.call(this.end(lsids[place]))) for place, way in
                            enumerate((proxied, direct))]
                    assert ends[0] == ends[1], told
                if collider.planted and other and other["ok"] == 0:
                    # mongod reads pipelines again after it has carried out the statements: of an
                    # unknown stage it makes an error of the whole command, in place of the duplicate.
                    break
                for kind in (this.kind, *(["plain"] if bulk else [])):
                    stored = [list(collections[db, kind].find({"stolen": {"$exists": False}}))
                              for db in (PROXIED, DIRECT)]
                    assert alike(stored[0], this.kind) == alike(stored[1], this.kind), told
                    tally_of(other, stored[0], this.kind, tally)
        proxied.close()
        direct.close()
        with proxy.client() as client:
            rules = client.admin.command({"idproxy": "status"})["rules"]
        proxy.stop()
        stopped = proxy.wait_event("stopped")
    # What was to be tested did happen.
    forwarded = Counter[str]()
    for rule in rules:
        forwarded.update(rule["forwarded"])
    assert tally["values"] > count / 40, tally
    assert stopped["duplicates_cured"] > count / 100, stopped
    assert stopped["duplicates_given_up"] == 0, stopped
    retried = ["retried"] if has("retried_stmt_ids") else []
    of_update = ["writeErrors", "upserted"] if command == "update" else []
    for what in ("error", *retried, *of_update):
        assert tally[what] >= 3 or count < COUNT, (what, tally)
    for reason in ("replacement", "replacement_loses_field", "empty_update", "filter_names_field",
                   "update_names_field", "pipeline_replaces", "filter_fixes_id", "unknown_form"):
        assert forwarded[reason] >= 1 or count < COUNT, (reason, forwarded)


def tally_of(reply: Any, stored: list[Any], kind: str, tally: Counter[str]) -> None:
    if reply is None:
        tally["closed"] += 1
        return
    tally["error"] += reply["ok"] == 0
    tally["retried"] += "retriedStmtIds" in reply or "retriedStmtId" in reply
    for name in ("writeErrors", "upserted"):
        tally[name] += name in reply
    tally["values"] += any(is_generated(at(each, FIELDS[kind])) for each in stored)
