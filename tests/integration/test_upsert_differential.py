"""Updates and findAndModifies, valid, odd and malformed, through the proxy and without it.

Each generated message goes to both, with the same documents there before. The replies must be the
same but for assigned fields, and so must the documents be that are there then.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128

from support import elements as el
from support import wire
from support.elements import Element, document, elements
from support.full import FULL
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.servers import has
from support.upserts import DIRECT, FIELDS, PROXIED, at, bare, is_generated, without_value

COUNT = 10_000 if FULL else 1000
COMPRESSED = 10_000 if FULL else 150
TIMEOUT = 60.0  # of one command
RULES = [{"ns": f"{PROXIED}.{kind}", "field": name, "strategy": "random-digits", "digits": 12,
          "leading_zeros": False} for kind, name in FIELDS.items()]

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
    damage: int | None = None  # a byte of the last statement that is changed
    description: Any = None

    def message(self, db: str, lsid: bytes) -> bytes:
        options = [el.embedded("lsid", el.element(0x05, "id", bytes([16, 0, 0, 0, 4]) + lsid)),
                   *self.options, el.string("$db", db)]
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
    wrong: list[Any] = field(default_factory=lambda: [5, "text", None, [], {"a": 1}])

    def command(self) -> Generated:
        choose = self.choose
        command = choose.choice(["update", "update", "findAndModify", "findandmodify"])
        count = choose.choice([1, 1, 1, 2, 3, 5]) if command == "update" else 1
        names = ("q", "u") if command == "update" else ("query", "update")
        described = [self.statement(names) for _ in range(count)]
        raw = [self.raw(each) for each in described]
        made = Generated(choose.choice(list(FIELDS)), command, raw, self.options(command, described),
                         choose.choice(["array", "sequence", "sequence_first"]),
                         wire.CHECKSUM_PRESENT if choose.random() < 0.1 else 0)
        made.replayed = any(e.name == b"txnNumber" for e in made.options) and choose.random() < 0.3
        if choose.random() < 0.05:
            made.damage = choose.randrange(10_000)
        made.description = described
        return made

    def statement(self, names: tuple[str, str]) -> dict[str, Any]:
        choose = self.choose
        found: dict[str, Any] = {names[0]: copy.deepcopy(choose.choice(FILTERS)),
                                 names[1]: copy.deepcopy(choose.choice(UPDATES))}
        if choose.random() < 0.9:
            found["upsert"] = choose.choice(
                [True] * 12 + [False, 1, 0, 0.5, -0.0, None, "true", Decimal128("1"), Decimal128("0")])
        if names[0] == "q" and choose.random() < 0.15:
            found["multi"] = choose.random() < 0.8
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
        if command == "update" and choose.random() < 0.6:
            options.append(el.boolean("ordered", choose.random() < 0.5))
        if choose.random() < 0.4:
            options.append(el.int64("txnNumber", 1))
        for chance, element in [
                (0.1, el.string("comment", "why")), (0.1, el.int32("maxTimeMS", 60_000)),
                (0.1, el.embedded("let", el.int32("v", 1))),
                (0.1, el.boolean("bypassDocumentValidation", True)),
                (0.05, el.embedded("writeConcern", el.int32("w", 0))),
                (0.05, el.embedded("writeConcern", el.string("w", "majority"))),
                (0.03, el.int32("zork", 1)), (0.03, el.int32("stmtId", 5))]:
            if choose.random() < chance and element.name not in {e.name for e in options}:
                options.append(element)
        choose.shuffle(options)
        return options


def readable(reply: wire.Message | None) -> Any:
    return None if reply is None else without_quotes(bare(reply.body))


def without_quotes(value: Any) -> Any:
    """A reply whose error texts end where they quote the update, with the value in it."""
    if isinstance(value, list):
        return [without_quotes(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: each.partition("{")[0] if name == "errmsg" else without_quotes(each)
            for name, each in value.items()}


def alike(one: list[dict[str, Any]], other: list[dict[str, Any]], kind: str) -> tuple[Any, Any]:
    """The documents of the two collections, those of the first one without assigned values."""
    stripped = []
    for mine, theirs in zip(one, other):
        has_value = is_generated(at(mine, FIELDS[kind]))
        stripped.append(without_value(mine, kind) if has_value and kind != "id" else mine)
    return bare([*stripped, *one[len(other):]]), bare(other)


def of_modify(reply: Any, kind: str) -> Any:
    """The reply to a findAndModify, without the value in the document that it returns."""
    value = reply.get("value") if isinstance(reply, dict) else None
    if not isinstance(value, dict) or kind == "id":
        return reply
    # bare() has replaced the value.
    if at(value, FIELDS[kind]) == "an id":
        return {**reply, "value": without_value(value, kind)}
    return reply


@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("compressor, count", [
    (None, COUNT), *((name, COMPRESSED) for name in wire.COMPRESSORS)])
def test_the_same_as_without_the_proxy(
        replica_set: Mongod, compressor: str | None, count: int):
    """compressor: in which the proxy is sent its commands."""
    seed = f" {compressor}" if compressor else ""  # the server remembers sessions
    generator = Generator(random.Random("updates" + seed))
    lsid = random.Random("lsid" + seed)
    collections = {}
    for db in (PROXIED, DIRECT):
        replica_set.client.drop_database(db)
        for kind, name in FIELDS.items():
            made = replica_set.client[db].create_collection(
                kind, validator={"refused": {"$exists": False}})
            made.create_index("u", unique=True, sparse=True)
            made.insert_one({"_id": "u", "u": 1})
            collections[db, kind] = made
    direct, tally = wire.Reconnecting(replica_set.address, TIMEOUT), Counter[str]()
    with Proxy(configuration(replica_set, RULES)) as proxy:
        proxied = wire.Reconnecting(proxy.address, TIMEOUT, compressor)
        for number in range(count):
            this = generator.command()
            there = generator.choose.sample(EXISTING, generator.choose.randrange(3))
            for db in (PROXIED, DIRECT):
                collections[db, this.kind].delete_many({"_id": {"$ne": "u"}})
                if there:
                    collections[db, this.kind].insert_many(copy.deepcopy(there))
            lsids = lsid.randbytes(16), lsid.randbytes(16)
            for _ in range(1 + this.replayed):
                one = readable(proxied.call(this.message(PROXIED, lsids[0])))
                other = readable(direct.call(this.message(DIRECT, lsids[1])))
                told = (number, this, this.description, there)
                assert of_modify(one, this.kind) == other, told
                stored = [list(collections[db, this.kind].find()) for db in (PROXIED, DIRECT)]
                mine, theirs = alike(stored[0], stored[1], this.kind)
                assert mine == theirs, told
                tally_of(other, stored[0], this.kind, tally)
        proxied.close()
        with proxy.client() as client:
            rules = client.admin.command({"idproxy": "status"})["rules"]
    direct.close()
    # What was to be tested did happen.
    forwarded = Counter[str]()
    for rule in rules:
        forwarded.update(rule["upsertsForwarded"])
    assert tally["values"] > count / 40, tally
    retried = ["retried"] if has("retried_stmt_ids") else []
    for what in ("error", "writeErrors", *retried, "upserted"):
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
