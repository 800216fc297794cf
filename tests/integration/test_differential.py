"""Inserts in which every generated value collides, against the same inserts without the proxy.

Each of the generated messages goes directly to mongod, into one database, with the values that a
rule would assign put in by the test; and through the proxy into another, where just before it gets
there each generated value is put, once, into a document of somebody else's. The client must not be
able to tell the two apart but by times and ids, and in the end both databases must hold the same
documents but for the ids.
"""

from __future__ import annotations

import itertools
import random
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from support import elements as el
from support import wire
from support.chaos import StepRelay
from support.elements import Element, document, elements, int32
from support.fake_server import Request
from support.full import FULL
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.servers import has

COUNT = 20_000 if FULL else 600
COMPRESSED = 10_000 if FULL else 150
TIMEOUT = 120.0  # of one command

# Of one length, so that sizes in messages and errors are the same on both ways.
DIRECT, PROXIED = "direct_", "proxied"

# Collection (kind) -> the fields that its rules assign.
FIELDS = {"id": ["_id"], "number": ["number"], "path": ["reg.number"], "two": ["_id", "number"]}

LARGEST = 16 * 1024 * 1024

# All values have twelve digits: that is how they are known, and kept apart from what clients send.
LOWEST = 10**11
RULES = [
    {"ns": f"{PROXIED}.{kind}", "field": name, "strategy": "random-digits", "digits": 12,
     "leading_zeros": False, "retry": {"deadline": "120s"}}
    for kind, fields in FIELDS.items() for name in fields]


def is_generated(element: Element) -> bool:
    return element.type == 0x12 and LOWEST <= struct.unpack("<q", element.value)[0] < 10 * LOWEST


# What a rule does, done by the test.

@dataclass
class NotViable(Exception):
    """The path of a rule leads through something that is no document."""

    what: Element


def with_value(raw: bytes, path: list[str], value: bytes) -> bytes:
    """The document with an int64 of these bytes at path, unless the field is there."""
    parts = elements(raw)
    name = path[0].encode()
    at = next((i for i, e in enumerate(parts) if e.name == name), None)
    if at is None:
        made = el.element(0x12, path[-1], value)
        for outer in reversed(path[:-1]):
            made = el.embedded(outer, made)
        return document(made, *parts) if path == ["_id"] else document(*parts, made)
    if len(path) == 1:
        return raw
    if parts[at].type != 0x03:
        raise NotViable(parts[at])
    parts[at] = el.element(0x03, name, with_value(parts[at].value, path[1:], value))
    return document(*parts)


# Generated inserts.

@dataclass
class Insert:
    """One message in the making. What depends on the way (database, session, values) is put in by
    message()."""

    kind: str
    documents: list[bytes]
    options: list[Element]
    form: str
    flags: int = 0
    session: bytes | None = None  # the number of a retryable write
    checksum: int | None = None
    acknowledged: bool = True
    replayed: bool = False
    damage: Callable[[bytes], bytes] | None = None  # done to the whole message
    name: str = ""

    def message(self, db: str, lsid: bytes, documents: list[bytes] | None = None) -> bytes:
        raw = self.documents if documents is None else documents
        options = list(self.options)
        if self.session is not None:
            options += [el.embedded("lsid", el.element(
                0x05, "id", struct.pack("<iB", 16, 4) + lsid)), *elements(self.session)]
        head = [el.string("insert", self.kind), *options, el.string("$db", db)]
        if self.form == "body":
            head.insert(1 + len(options) // 2, el.array("documents", raw))
            parts = [wire.body(document(*head))]
        else:
            parts = [wire.body(document(*head)), wire.sequence("documents", raw)]
        if self.form == "sequence_first":
            parts.reverse()
        whole = wire.op_msg(*parts, flags=self.flags, checksum=self.checksum, request_id=99)
        return self.damage(whole) if self.damage else whole


@dataclass
class Generator:
    """Makes inserts from a seed; counts keys, so that documents can be told apart."""

    choose: random.Random
    keys: Iterator[int] = field(default_factory=itertools.count)
    values: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    large_left: int = 4

    def insert(self) -> Insert:
        choose = self.choose
        kind = choose.choice(list(FIELDS))
        size = choose.choice([1, 1, 1, 1, 2, 2, 3, 3, 5, 5, 8, 13, 20, 50])
        odd = choose.choice([0, 0, 0.1, 0.5])
        documents = [self.odd_document(kind) if choose.random() < odd else self.document()
                     for _ in range(size)]
        made = Insert(kind, documents, [], choose.choice(["body", "sequence", "sequence_first"]))
        made.options = self.options(made)
        if choose.random() < 0.1:
            made.flags |= wire.CHECKSUM_PRESENT
        if choose.random() < 0.08:
            self.spoil(made)
        choose.shuffle(made.options)
        return made

    def document(self) -> bytes:
        choose = self.choose
        parts = [int32("k", next(self.keys))]
        more = choose.sample(RICH, choose.choice([0, 1, 3])) if choose.random() < 0.5 else [
            el.string("text", "x" * choose.randrange(60))]
        parts += more
        choose.shuffle(parts)
        return document(*parts)

    def odd_document(self, kind: str) -> bytes:
        choose = self.choose
        k = int32("k", next(self.keys))

        def own(number: int) -> Element:
            """A value of the client's own where the rule would put one."""
            value = el.int64(FIELDS[kind][0].split(".")[-1], number)
            return el.embedded("reg", value) if kind == "path" else value

        mine = own(next(self.values))
        odd: list[Callable[[], bytes]] = [
            lambda: document(),
            lambda: document(k, int32("u", choose.randrange(3))),  # taken, or soon to be
            lambda: document(k, int32("u", choose.randrange(3))),
            lambda: document(k, int32("u", 100 + next(self.keys))),
            lambda: document(k, int32("refused", 1)),
            lambda: document(k, int32("refused", 1), int32("u", 0)),
            lambda: document(k, mine),
            lambda: document(mine, k),
            lambda: document(k, own(-7)),  # a duplicate, from the second one on
            lambda: document(k, el.null(mine.name)),
            lambda: document(k, el.element(0x04, "_id", document())),
            lambda: document(k, el.element(0x0B, "_id", b"a\0\0")),
            lambda: document(k, el.element(0x06, "_id")),
            lambda: document(k, el.embedded("_id", int32("$a", 1))),
            lambda: document(int32("_id", 1), k, int32("_id", 2)),
            lambda: document(k, int32("reg", 5)),
            lambda: document(k, el.array("reg", [])),
            lambda: document(k, el.string("reg", "x"), int32("u", 0)),
            lambda: document(k, el.embedded("reg", int32("other", 1))),
            lambda: document(k, int32("reg.number", 1), int32("_id.a", 1), int32("$x", 1)),
            lambda: document(k, int32("twice", 1), int32("twice", 2), int32("", 3)),
            lambda: document(k, el.element(0x11, "when", bytes(8))),
            lambda: document(k, *RICH),
        ]
        if self.large_left and choose.random() < 0.01:
            self.large_left -= 1
            size = LARGEST + choose.choice([-30, -1, 0, 1])  # of which some have room for a value
            return document(k, el.string("s", "x" * (size - len(document(k, el.string("s", ""))))))
        return choose.choice(odd)()

    def options(self, made: Insert) -> list[Element]:
        choose = self.choose
        options = []
        if choose.random() < 0.8:
            options.append(el.boolean("ordered", choose.random() < 0.5))
        if choose.random() < 0.5:
            made.session = document(el.int64("txnNumber", 1), *self.stmt_ids(len(made.documents)))
            made.replayed = choose.random() < 0.2
        for chance, element in [
                (0.15, el.string("comment", "why")), (0.05, el.embedded("comment", int32("a", 1))),
                (0.15, el.boolean("bypassDocumentValidation", choose.random() < 0.5)),
                (0.15, int32("maxTimeMS", 60_000)), (0.05, el.int64("maxTimeMS", 60_000)),
                (0.1, el.string("apiVersion", "1")), (0.05, el.boolean("apiStrict", True)),
                (0.03, el.embedded("readConcern", el.string("level", "local")))]:
            if choose.random() < chance and element.name not in {e.name for e in options}:
                options.append(element)
        concern = choose.choice([None] * 8 + [
            [int32("w", 1)], [int32("w", 1), el.boolean("j", True)], [el.string("w", "majority")],
            [int32("w", 2)], [el.string("w", "nobody")], [int32("w", 0)]])
        if concern is not None:
            options.append(el.embedded("writeConcern", *concern))
            made.acknowledged = concern != [int32("w", 0)]
        return options

    def stmt_ids(self, count: int) -> list[Element]:
        choose = self.choose
        match choose.randrange(6):
            case 0:
                return [int32("stmtId", choose.choice([0, 1, 100_000]))]
            case 1:
                # mongod keeps -1 and -2 for itself: what comes behind them fails with 217.
                numbers = choose.sample([*range(-9, -2), *range(count + 50)], count)
                return [ints("stmtIds", numbers)]
            case _:
                return []

    def spoil(self, made: Insert) -> None:
        """Something that mongod refuses as a whole, or closes on."""
        choose, made.name = self.choose, "spoiled"
        options: list[list[Element]] = [
            [int32("zork", 1)], [el.embedded("let")], [int32("maxTimeMS", -1)],
            [el.string("ordered", "no")], [el.string("apiVersion", "9")],
            [int32("comment", 1), int32("comment", 2)], [int32("writeConcern", 1)],
            [el.embedded("readConcern", el.string("level", "nonsense"))]]
        session: list[list[Element]] = [
            [ints("stmtIds", range(len(made.documents) + 1))], [el.int64("stmtId", 1)],
            [ints("stmtIds", range(len(made.documents))), int32("stmtId", 0)],
            [el.string("txnNumber", "x")], [el.boolean("autocommit", False)],
            [int32("stmtIds", 1)]]
        match choose.randrange(8):
            case 0:
                made.documents = []
            case 1:
                made.documents[choose.randrange(len(made.documents))] = document(
                    int32("k", next(self.keys)), el.element(0x20, "bad", bytes(8)))
            case 2:
                made.flags, made.checksum = wire.CHECKSUM_PRESENT, 1
            case 3:
                raw = made.documents[-1]
                made.documents[-1] = struct.pack("<i", len(raw) + 1) + raw[4:]
            case 4:
                # A section of a kind that does not exist.
                made.flags, made.damage = 0, lambda whole: whole[:20] + b"\2" + whole[21:]
            case 5:
                made.session = document(el.int64("txnNumber", 1), *choose.choice(session))
                made.replayed = False
            case _:
                made.options = [e for e in made.options if e.name not in (
                    b"ordered", b"comment", b"apiVersion", b"maxTimeMS", b"writeConcern")]
                made.options += choose.choice(options)
                made.acknowledged = True


def ints(name: str, numbers: Any) -> Element:
    return el.element(0x04, name, document(
        *(int32(str(i), n) for i, n in enumerate(numbers))))


# The server looks into these names, in one way or another.
RICH = [e for e in el.every_type() if e.name != b"undefined"]


# The two ways.

class Collider:
    """For a relay: of the first insert that comes after arm(), every generated value is stored in a
    document of the thief's own before the insert passes."""

    def __init__(self, server: Mongod):
        self._database = server.client[PROXIED]
        self._armed = False
        self.planted = 0  # in all
        self.failures: list[Exception] = []

    def arm(self, armed: bool) -> None:
        self._armed = armed

    def __call__(self, insert: Request) -> None:
        if not self._armed:
            return
        self._armed = False
        try:
            self._plant(insert)
        except (ValueError, struct.error, IndexError):
            pass  # a malformed document: mongod refuses all of it
        except Exception as failure:
            self.failures.append(failure)

    def _plant(self, insert: Request) -> None:
        kind = insert.options["insert"]
        stolen = [RawBSONDocument(document(*made, el.boolean("stolen", True)))
                  for raw in insert.documents for path in FIELDS[kind]
                  for made in [self._alone(raw, path.split("."))] if made]
        if stolen:
            self._database[kind].insert_many(
                stolen, ordered=False, bypass_document_validation=True)
        self.planted += len(stolen)

    def _alone(self, raw: bytes, path: list[str]) -> list[Element]:
        """The one generated element at path with its parents; nothing if there is none."""
        named = [e for e in elements(raw) if e.name == path[0].encode()]
        if len(named) != 1:
            return []
        if len(path) == 1:
            return named if is_generated(named[0]) else []
        if named[0].type != 0x03:
            return []
        inner = self._alone(named[0].value, path[1:])
        return [el.embedded(path[0], *inner)] if inner else []


# Comparison.

_TIMES = {b"opTime", b"$clusterTime", b"operationTime", b"electionId"}
# The last of them: a document that mongod cannot read to its end is named by its _id if it has one.
_ID = re.compile(rb"(?<!\d)\d{12}(?!\d)|ObjectId\('[0-9a-f]{24}'\)|"
                 rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|"
                 rb" in object with (unknown _id|_id: \d{12})")


def normal(raw: bytes, array: bool = False) -> list[Any]:
    """A reply without what may differ: the order, names and types of all fields, and the values of
    those that are no times and hold no ids."""
    found: list[Any] = []
    for each in elements(raw):
        value: Any = each.value
        if each.name in _TIMES:
            value = None
        elif each.type in (0x03, 0x04):
            value = normal(value)
        elif each.type == 0x07 or is_generated(each):
            value = "an id"
        elif each.type == 0x02:
            value = _ID.sub(b"<id>", value[4:]).replace(PROXIED.encode(), DIRECT.encode())
        found.append((each.type, each.name, value))
    return found


def readable(reply: wire.Message | None) -> str:
    return "closed" if reply is None else str(reply.body)[:3000]


def expected_of(reply: wire.Message | None, refused: dict[int, bytes]) -> list[Any] | None:
    """What the direct reply is to become. mongod was given {_id: []} for each document whose path
    is blocked; the proxy says so in words of its own."""
    if reply is None:
        return None
    raw = normal(reply.body_bytes)
    return [reply.flags, _in_order(_with_refusals(raw, refused))]


def _with_refusals(reply: list[Any], refused: dict[int, bytes]) -> list[Any]:
    changed = []
    for kind, name, value in reply:
        if name == b"writeErrors":
            value = [(k, n, _refusal(entry) if _index(entry) in refused else entry)
                     for k, n, entry in value]
        changed.append((kind, name, value))
    return changed


def _index(entry: list[Any]) -> int:
    return next(struct.unpack("<i", value)[0] for _, name, value in entry if name == b"index")


def _refusal(entry: list[Any]) -> list[Any]:
    """index, code 28, and whatever text."""
    index = next(e for e in entry if e[1] == b"index")
    return [index, (0x10, b"code", struct.pack("<i", 28)), (0x02, b"errmsg", b"not viable")]


def seen_of(reply: wire.Message | None, refused: dict[int, bytes]) -> list[Any] | None:
    """What the proxied reply is, with the proxy's own error texts taken out."""
    if reply is None:
        return None
    seen = normal(reply.body_bytes)
    for _, name, value in seen:
        if name == b"writeErrors":
            for _, _, entry in value:
                if _index(entry) in refused:
                    for at, (kind, inner, text) in enumerate(entry):
                        if inner == b"errmsg":
                            assert text and text != b"\0"
                            entry[at] = (kind, inner, b"not viable")
    return [reply.flags, _in_order(seen)]


def _in_order(reply: list[Any]) -> list[Any]:
    """MongoDB 4.4 puts errors before opTime, and a merged reply behind."""
    return reply if has("order_of_reply") else sorted(reply, key=lambda field: field[1])


def stored(server: Mongod, db: str, kind: str) -> Counter[bytes]:
    """The documents, without the values that a rule or the server gave them."""
    found: Counter[bytes] = Counter()
    options = bson.codec_options.CodecOptions(document_class=RawBSONDocument)
    collection = server.client[db].get_collection(kind, codec_options=options)
    for each in collection.find({"stolen": {"$exists": False}}):
        found[_bare(bytes(each.raw))] += 1
    return found


def _bare(raw: bytes) -> bytes:
    """A value that was assigned becomes a mark of itself, in its place. A Timestamp(0, 0) has
    become the server's time."""
    parts = []
    for each in elements(raw):
        if is_generated(each) or (each.name == b"_id" and each.type == 0x07):
            each = el.element(0x0A, each.name)
        elif each.name == b"reg" and each.type == 0x03:
            each = el.element(0x03, each.name, _bare(each.value))
        elif each.name in (b"when", b"timestamp"):
            each = el.element(0x11, each.name)
        parts.append(each)
    return document(*parts)


# The test.

@pytest.fixture
def collections(replica_set: Mongod) -> Mongod:
    """The two databases, alike: indexes, a validator, and documents to collide with."""
    for db in (DIRECT, PROXIED):
        replica_set.client.drop_database(db)
        for kind, fields in FIELDS.items():
            collection = replica_set.client[db].create_collection(
                kind, validator={"refused": {"$exists": False}})
            collection.create_index("u", unique=True, sparse=True)
            for name in fields:
                if name != "_id":
                    collection.create_index(name, unique=True, sparse=True)
            collection.insert_one({"_id": "first", "u": 0})
    return replica_set


@pytest.mark.timeout(3600 if FULL else 600)
@pytest.mark.parametrize("compressor, count", [
    (None, COUNT), *((name, COMPRESSED) for name in wire.COMPRESSORS)])
def test_the_same_as_without_collisions(
        collections: Mongod, compressor: str | None, count: int):
    """compressor: in which the proxy is sent its inserts."""
    server = collections
    seed = f" {compressor}" if compressor else ""  # the server remembers sessions
    generator, lsid = Generator(random.Random("inserts" + seed)), random.Random("lsid" + seed)
    collider = Collider(server)
    values = itertools.count(LOWEST)
    tally: Counter[str] = Counter()
    direct = wire.Reconnecting(server.address, TIMEOUT)
    with StepRelay(server.address, before=collider) as relay:
        with Proxy(configuration(relay, RULES, server)) as proxy:
            proxied = wire.Reconnecting(proxy.address, TIMEOUT, compressor)
            for number in range(count):
                insert = generator.insert()
                lsids = lsid.randbytes(16), lsid.randbytes(16)
                assigned, refused = assign(insert, values)
                for again in range(1 + insert.replayed):
                    collider.arm(insert.acknowledged and not again)
                    one = direct.call(insert.message(DIRECT, lsids[0], assigned))
                    other = proxied.call(insert.message(PROXIED, lsids[1]))
                    assert other is None or other.response_to == 99
                    if again and not has("keeps_writes"):
                        continue  # MongoDB 4.4 forgets documents and errors; the proxy does not
                    assert seen_of(other, refused) == expected_of(one, refused), (
                        f"insert {number}, time {again + 1}: {insert.kind}, {insert.form}, "
                        f"{len(insert.documents)} documents, options "
                        f"{bson.decode(document(*insert.options))}, session "
                        f"{insert.session and bson.decode(insert.session)}\n"
                        f"directly: {readable(one)}\nproxied:  {readable(other)}\n"
                        f"sent: {[d[:300] for d in insert.documents[:5]]}")
                    tally_of(other, tally)
            proxied.close()
            proxy.stop()
            stopped = proxy.wait_event("stopped")
    direct.close()
    for kind in FIELDS:
        one, other = stored(server, DIRECT, kind), stored(server, PROXIED, kind)
        assert one == other, (kind, (one - other).most_common(5), (other - one).most_common(5))
        assert sum(one.values()) > count / 4

    # What was to be tested did happen.
    assert not collider.failures
    assert collider.planted > 4 * count
    assert stopped["duplicates_cured"] > 3 * count and stopped["duplicates_given_up"] == 0
    retried = ["retriedStmtIds"] if has("retried_stmt_ids") else []
    for what in ("closed", "error", "writeErrors", *retried, "writeConcernError",
                 *(f"code {code}" for code in (2, 28, *([53] if has("array_id_is_53") else []), 52, 121, 11000))):
        assert tally[what] >= 3 or count < COUNT, (what, tally)


def assign(insert: Insert, values: Iterator[int]) -> tuple[list[bytes], dict[int, bytes]]:
    """The documents as the rules of the kind would have them, and those that cannot have it."""
    assigned, refused = [], {}
    for index, raw in enumerate(insert.documents):
        # What is too large already, mongod is left to refuse as it came.
        for path in FIELDS[insert.kind] if len(raw) <= LARGEST else []:
            try:
                raw = with_value(raw, path.split("."), struct.pack("<q", next(values)))
            except NotViable:
                refused[index] = raw
                raw = document(el.element(0x04, "_id", document()))
            except ValueError:  # malformed: mongod refuses all of it
                pass
        assigned.append(raw)
    return assigned, refused


def tally_of(reply: wire.Message | None, tally: Counter[str]) -> None:
    if reply is None:
        tally["closed"] += 1
        return
    body = reply.body
    tally["error"] += body["ok"] == 0
    for name in ("writeErrors", "retriedStmtIds", "writeConcernError"):
        tally[name] += name in body
    for error in body.get("writeErrors", []):
        tally[f"code {error['code']}"] += 1
