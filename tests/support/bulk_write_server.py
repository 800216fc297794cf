"""A mongod that has the command bulkWrite of MongoDB 8.0, made of one that has not.

It stands in front of a real mongod and relays every byte, except that it says of itself that it is
8.0, and carries out bulkWrite by inserts, updates and deletes on the client's own upstream
connection: collections, indexes, transactions and statements that were executed before are mongod's.

What it answers follows
- the drivers' specification: source/crud/bulk-write.md, retryable-writes/tests/unified/
  client-bulkWrite-*.yml and transactions/tests/unified/client-bulkWrite.yml of mongodb/specifications
- the server's interface and what its source says of it, read for facts: bulk_write.idl (fields, types),
  bulk_write_common.cpp (checks of the whole command), bulk_write_parser.cpp (fields of a result and
  their order), bulk_write.cpp and handleError in write_ops_exec.cpp (what ends a command) of mongodb/mongo.

What it lacks: `sort` of an update, unless mongod has it; encryption; explain; the limit of 32 MB for
all results of a command.
"""

from __future__ import annotations

import itertools
import queue
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any, Literal

import bson
from bson.codec_options import CodecOptions
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from . import wire
from .elements import Element, document, element, elements, int32, string
from .fake_server import Request, reply_of_sections
from .hello import changed, mapped
from .middleman import Connection, Cut, Direction, Middleman
from .mongod import Mongod
from .proxy import Server

VERSION, MAX_WIRE_VERSION = (8, 0, 0), 25
NS = "admin.$cmd.bulkWrite"
MAX_BATCH, MAX_REPLY = 100_000, 16 * 1024 * 1024
_MAX_GROUP = 10_000  # if all of them fail, mongod's reply has room for the errors
MAX_OBJECT = MAX_REPLY + 16 * 1024  # of a command, but for its sequences, and of an element of those

_RAW = CodecOptions(document_class=RawBSONDocument)

# Types of BSON, by their numbers in it.
_NULLS = (0x0A, 0x06)
_TYPES = {0x01: "double", 0x02: "string", 0x03: "object", 0x04: "array", 0x05: "binData",
          0x07: "objectId", 0x08: "bool", 0x09: "date", 0x0B: "regex", 0x10: "int",
          0x11: "timestamp", 0x12: "long", 0x13: "decimal"}
_NUMBER, _BOOL, _OBJECT, _ARRAY = (0x12, 0x10, 0x13, 0x01), (0x08,), (0x03,), (0x04,)

Fields = dict[str, tuple[int, ...]]
"""Which types each field of a document may have."""

_COMMAND: Fields = {
    "ops": _ARRAY, "nsInfo": _ARRAY, "cursor": _OBJECT, "ordered": _BOOL, "errorsOnly": _BOOL,
    "bypassDocumentValidation": (*_BOOL, *_NUMBER), "stmtId": (0x10,), "stmtIds": _ARRAY,
    "let": _OBJECT, "bypassEmptyTsReplacement": (*_BOOL, *_NUMBER)}
# What each command may have, and the inserts, updates and deletes are given as well.
_GENERIC = ("lsid", "txnNumber", "autocommit", "comment", "maxTimeMS", "writeConcern", "apiVersion",
            "apiStrict", "apiDeprecationErrors", "$clusterTime", "bypassDocumentValidation")
_FIRST_OF_TRANSACTION = ("startTransaction", "readConcern")
_NS_INFO: Fields = {
    "ns": (0x02,), "collectionUUID": (0x05,), "encryptionInformation": _OBJECT,
    "isTimeseriesNamespace": _BOOL}
_OPS: dict[str, Fields] = {
    "insert": {"insert": _NUMBER, "document": _OBJECT},
    "update": {
        "update": _NUMBER, "filter": _OBJECT, "sort": _OBJECT, "multi": _BOOL,
        "updateMods": (*_OBJECT, *_ARRAY), "upsert": _BOOL, "upsertSupplied": _BOOL,
        "arrayFilters": _ARRAY, "hint": (*_OBJECT, 0x02), "constants": _OBJECT,
        "collation": _OBJECT},
    "delete": {
        "delete": _NUMBER, "filter": _OBJECT, "multi": _BOOL, "hint": (*_OBJECT, 0x02),
        "collation": _OBJECT}}
_REQUIRED = {"insert": ("insert", "document"), "update": ("update", "filter", "updateMods"),
             "delete": ("delete", "filter")}
# The fields of an op, as those of a statement of the same command are called.
_STATEMENT = {"filter": "q", "updateMods": "u", "constants": "c"}
_NAMES = {2: "BadValue", 9: "FailedToParse", 13: "Unauthorized", 14: "TypeMismatch",
          16: "InvalidLength", 43: "CursorNotFound", 72: "InvalidOptions", 73: "InvalidNamespace"}
# What stands in the reply behind the counts, in this order: all but the statements of the last command's.
_BEHIND = ("electionId", "opTime", "retriedStmtIds", "writeConcernError", "ok", "errorLabels",
           "$clusterTime", "operationTime")
_ON_VIEW = 166  # an error of a whole insert, yet of one op

Items = list[dict[str, Any]]


class Refusal(Exception):
    """The whole command is answered with this error."""

    def __init__(self, code: int, errmsg: str):
        super().__init__(errmsg)
        self.body = {"ok": 0.0, "errmsg": errmsg, "code": code,
                     "codeName": _NAMES.get(code, f"Location{code}")}


@dataclass(frozen=True)
class Group:
    """One op, or inserts into one namespace that follow each other: one command upstream."""

    kind: str  # insert, update or delete
    ns: int
    first: int  # the index of its first op
    ops: list[RawBSONDocument]


@dataclass(frozen=True)
class BulkWrite:
    """A bulkWrite as it came, over the connection of this number."""

    request: Request
    connection: int

    @cached_property
    def body(self) -> RawBSONDocument:
        """All fields but ops and nsInfo, unless those stand in the body's arrays."""
        return bson.decode(self.request.body, _RAW)

    @cached_property
    def ops(self) -> list[RawBSONDocument]:
        return self._list("ops")

    @cached_property
    def ns_info(self) -> list[RawBSONDocument]:
        return self._list("nsInfo")

    @property
    def namespaces(self) -> list[str]:
        return [each["ns"] for each in self.ns_info]

    @property
    def ordered(self) -> bool:
        return self.body.get("ordered") is not False

    @property
    def stops_at_error(self) -> bool:
        """Of a transaction, an error is the end."""
        return self.ordered or "autocommit" in self.body

    @property
    def is_numbered(self) -> bool:
        """Its ops are retryable statements."""
        return "txnNumber" in self.body and "autocommit" not in self.body

    @property
    def is_acknowledged(self) -> bool:
        return self.body.get("writeConcern", {}).get("w") != 0

    def statement(self, index: int) -> int:
        """The number of this op's statement."""
        if (numbers := self.body.get("stmtIds")) is not None:
            return numbers[index]
        return self.body.get("stmtId", 0) + index

    def groups(self, largest: int) -> Iterator[Group]:
        first = 0
        while first < len(self.ops):
            kind, ns = _kind_and_ns(self.ops[first])
            last = first + 1
            while (kind == "insert" and last < len(self.ops) and last < first + largest
                   and _kind_and_ns(self.ops[last]) == (kind, ns)):
                last += 1
            yield Group(kind, ns, first, self.ops[first:last])
            first = last

    def _list(self, name: str) -> list[RawBSONDocument]:
        sequence = self.request.sequences.get(name.encode())
        if sequence is None:  # in a large array they are views
            sequence = [bytes(each.raw) for each in self.body.get(name, [])]
        return [RawBSONDocument(each) for each in sequence]

    def check(self) -> None:
        """Raises Refusal for what mongod refuses before it carries out anything, or Cut."""
        if len(self.request.raw) > wire.MAX_MESSAGE:
            raise Cut
        known = wire.op_msg(wire.body(self.request.body), *(
            wire.sequence(name, each) for name, each in self.request.sequences.items()))
        if len(self.request.raw) - len(known) > 4:  # a checksum
            raise Refusal(40431, "Duplicate document sequence")
        for each in (self.request.body, *itertools.chain(*self.request.sequences.values())):
            if len(each) > MAX_OBJECT:
                raise Refusal(10334, f"BSONObj size: {len(each)} is invalid.")
        if self.body.get("$db") != "admin":
            raise Refusal(13, "bulkWrite may only be run against the admin database.")
        _check(self.request.body, "bulkWrite", _COMMAND, (), also=(
            "bulkWrite", *_GENERIC, *_FIRST_OF_TRANSACTION))
        for name in ("ops", "nsInfo"):
            self._check_list(name)
        for each in self.ns_info:
            _check(each.raw, "bulkWrite.nsInfo", _NS_INFO, ("ns",))
        for each in self.ops:
            _check_op(each)
        self._check_numbers()
        for ns in self.namespaces:
            db, _, name = ns.partition(".")
            if not db or not name:
                raise Refusal(73, f"Invalid namespace specified for bulkWrite: '{ns}'")
        for each in self.ops:
            if _kind_and_ns(each)[1] >= len(self.namespaces):
                raise Refusal(
                    2, f"BulkWrite ops entry {dict(each)} has an invalid nsInfo index.")

    def _check_list(self, name: str) -> None:
        array = next((e for e in elements(self.request.body) if e.name == name.encode()), None)
        in_sequence = name.encode() in self.request.sequences
        if array and in_sequence:
            raise Refusal(40433, f"Duplicate field between body and document sequence {name}")
        if not in_sequence and (not array or array.type in _NULLS):
            raise Refusal(40414, f"BSON field 'bulkWrite.{name}' is missing but a required field")
        for each in elements(array.value) if array else []:
            _check_type(each, f"bulkWrite.{name}.{each.name.decode()}", _OBJECT)

    def _check_numbers(self) -> None:
        count = len(self.ops)
        if not 1 <= count <= MAX_BATCH:
            raise Refusal(16, f"Write batch sizes must be between 1 and {MAX_BATCH}. "
                              f"Got {count} operations.")
        numbers = self.body.get("stmtIds")
        if numbers is None:
            return
        if "stmtId" in self.body:
            raise Refusal(72, "May not specify both stmtId and stmtIds in bulkWrite command.")
        if any(type(each) is not int for each in numbers):
            raise Refusal(14, "BSON field 'bulkWrite.stmtIds' has a wrong type, expected 'int'")
        if len(numbers) != count:
            raise Refusal(16, "Number of statement ids must match the number of batch entries. "
                              f"Got {len(numbers)} statement ids but {count} operations.")


def _kind_and_ns(op: RawBSONDocument) -> tuple[str, int]:
    """Its first field: insert, update or delete, and a number of any type."""
    kind, ns = next(iter(op.items()))
    number = float(str(ns))
    return kind, 0 if isnan(number) else int(max(-2.0**31, min(number, 2.0**31)))


def _check_op(op: RawBSONDocument) -> None:
    kind = next(iter(op), "")
    if kind not in _OPS:  # whichever it is, its first field says it
        raise Refusal(40415, f"BSON field 'bulkWrite.{kind}' is an unknown field.")
    _check(op.raw, "bulkWrite.ops", _OPS[kind], _REQUIRED[kind])
    if _kind_and_ns(op)[1] < 0:
        raise Refusal(2, f"BSON field '{kind}' value must be >= 0, actual value '{op[kind]}'")


def _check(raw: bytes, path: str, fields: Fields, required: Sequence[str],
           also: Sequence[str] = ()) -> None:
    """also: further fields, of any type."""
    found = elements(raw)
    names = [each.name.decode() for each in found]
    for place, (each, name) in enumerate(zip(found, names)):
        if name in names[:place]:
            raise Refusal(40413, f"BSON field '{path}.{name}' is a duplicate field")
        if name in fields:
            _check_type(each, f"{path}.{name}", fields[name])
        elif name not in also and name[:1] != "$":
            raise Refusal(40415, f"BSON field '{path}.{name}' is an unknown field.")
    present = {name for each, name in zip(found, names) if each.type not in _NULLS}
    for name in required:
        if name not in present:
            raise Refusal(40414, f"BSON field '{path}.{name}' is missing but a required field")


def _check_type(each: Element, path: str, types: tuple[int, ...]) -> None:
    """A null counts as if the field were not there."""
    if each.type in types or each.type in _NULLS:
        return
    code = 9 if path.endswith((".updateMods", ".hint")) else 14
    raise Refusal(code, f"BSON field '{path}' is the wrong type '{_TYPES.get(each.type, each.type)}',"
                        f" expected types '{[_TYPES[t] for t in types]}'")


@dataclass
class Outcome:
    """What the ops have come to so far."""

    bulk: BulkWrite
    items: Items
    counts: dict[str, int]
    behind: dict[str, Any]

    @staticmethod
    def of(bulk: BulkWrite) -> Outcome:
        return Outcome(bulk, [], dict.fromkeys(
            ("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"), 0), {"ok": 1.0})

    def add(self, group: Group, reply: dict[str, Any]) -> bool:
        """False if nothing is to follow."""
        retried = self.behind.get("retriedStmtIds", []) + reply.pop("retriedStmtIds", [])
        self.behind |= {name: reply[name] for name in _BEHIND if name in reply}
        if retried:
            self.behind["retriedStmtIds"] = retried
        errors = {each["index"]: each for each in reply.get("writeErrors", [])}
        for place in range(len(group.ops)):
            if place in errors:
                self._add_error(group.kind, group.first + place, errors[place])
                if self.bulk.stops_at_error:
                    return False
            else:
                self._add_success(group.kind, group.first + place, reply)
        return True

    def _add_error(self, kind: str, index: int, error: dict[str, Any]) -> None:
        """error: as it stands in writeErrors."""
        more = {k: v for k, v in error.items()
                if k not in ("index", "code", "codeName", "errmsg")}
        self.items.append({"ok": 0.0, "idx": index, "code": error["code"],
                           "errmsg": error["errmsg"], **more, "n": 0,
                           **({"nModified": 0} if kind == "update" else {})})
        self.counts["nErrors"] += 1

    def _add_success(self, kind: str, index: int, reply: dict[str, Any]) -> None:
        n = 1 if kind == "insert" else reply["n"]
        item = {"ok": 1.0, "idx": index, "n": n}
        if kind == "update":
            item["nModified"] = reply["nModified"]
            self.counts["nModified"] += reply["nModified"]
            if upserted := reply.get("upserted"):
                item["upserted"] = {"_id": upserted[0]["_id"]}
        counter = "nUpserted" if "upserted" in item else {
            "insert": "nInserted", "update": "nMatched", "delete": "nDeleted"}[kind]
        self.counts[counter] += n
        if not self.bulk.body.get("errorsOnly"):
            self.items.append(item)


Fault = Literal["lose request", "lose reply"] | dict[str, Any] | None

_own_ids = itertools.count(-2_000_000_000)
_cursor_ids = itertools.count(1 << 40)


class BulkWriteServer(Middleman):
    """From construction until close(); with a set of one member it is that member's address.

    through: what stands between it and mongod, if anything does. batch_size: how many results a
    batch holds at most. Thread-safety: attributes are set while no bulkWrite is on its way.
    """

    def __init__(self, mongod: Mongod, through: Server | None = None,
                 batch_size: int = MAX_BATCH):
        self.batch_size = batch_size
        self.received: list[BulkWrite] = []  # but for those that it refused
        self.faults: list[Fault] = []
        """What becomes of the next bulkWrites, one each: the connection is lost before it is carried
        out or after that, or this is the answer."""
        self.failures_of_ops: list[dict[str, Any]] = []
        """Errors {code, errmsg} of the next ops, one each, which then are not carried out."""
        self._mongod = mongod.address
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._cursors: dict[int, tuple[Any, Items]] = {}  # session and what is left
        super().__init__((through or mongod).address, script=self._pass)

    def of(self, ns: str) -> list[dict[str, Any]]:
        """The documents of all inserts into `ns` that it has received, in order."""
        return [bson.decode(op["document"].raw) for bulk in self.received for op in bulk.ops
                if "insert" in op and bulk.namespaces[_kind_and_ns(op)[1]] == ns]

    def _pass(self, connection: Connection, direction: Direction, raw: bytes) -> bytes:
        if direction == "to_client":
            return self._reply(raw)
        request = Request.read(raw)
        try:
            body = self._answer(connection, request)
        except Refusal as refusal:
            body = refusal.body
        if body is None:
            return raw
        (flags,) = struct.unpack_from("<I", request.raw, 16)
        if not flags & wire.MORE_TO_COME:
            answer = reply_of_sections(request, wire.body(body), flags=flags & wire.CHECKSUM_PRESENT)
            compressor = wire.compressor_of(raw)
            connection.client.sendall(wire.deflated(answer, compressor) if compressor else answer)
        return b""

    def _answer(self, connection: Connection, request: Request) -> dict[str, Any] | None:
        """None if mongod is to answer."""
        if request.command == "bulkWrite":
            bulk = BulkWrite(request, connection.number)
            bulk.check()
            self.received.append(bulk)
            return self._write(connection, bulk)
        if request.command == "getMore":
            body = bson.decode(request.body, _RAW)
            return self._next_batch(body) if body["collection"] == "$cmd.bulkWrite" else None
        if request.command == "killCursors":
            body = bson.decode(request.body, _RAW)
            if body["killCursors"] == "$cmd.bulkWrite":
                killed = [each for each in body["cursors"] if self._cursors.pop(each, None)]
                return {"cursorsKilled": killed, "cursorsAlive": [], "cursorsUnknown": [],
                        "cursorsNotFound": [e for e in body["cursors"] if e not in killed], "ok": 1.0}
        return None

    # Commands of its own.

    def _write(self, connection: Connection, bulk: BulkWrite) -> dict[str, Any]:
        fault = self.faults.pop(0) if self.faults else None
        if fault == "lose request":
            raise Cut
        if isinstance(fault, dict):
            return fault
        outcome = Outcome.of(bulk)
        for group in bulk.groups(1 if self.failures_of_ops else _MAX_GROUP):
            if self.failures_of_ops:
                reply = {"writeErrors": [{"index": 0, **self.failures_of_ops.pop(0)}]}
            else:
                reply = self._execute(connection, bulk, group)
            if reply.get("ok") == 0 and reply["code"] != _ON_VIEW:
                return reply
            if reply.get("ok") == 0:
                reply = {"writeErrors": [{"index": i, "code": _ON_VIEW, "errmsg": reply["errmsg"]}
                                         for i in range(len(group.ops))]}
            if not outcome.add(group, reply):
                break
        if fault == "lose reply":
            raise Cut
        return self._first_batch(outcome)

    def _execute(self, connection: Connection, bulk: BulkWrite, group: Group) -> dict[str, Any]:
        """The reply of mongod."""
        entry = bulk.ns_info[group.ns]
        db, _, name = entry["ns"].partition(".")
        command: dict[str, Any] = {group.kind: name, "ordered": bulk.ordered, "$db": db}
        command |= {each: bulk.body[each] for each in _GENERIC if each in bulk.body}
        if not bulk.is_acknowledged:
            command["writeConcern"] = {"w": 1}
        if "collectionUUID" in entry:
            command["collectionUUID"] = entry["collectionUUID"]
        if group.kind != "insert" and "let" in bulk.body:
            command["let"] = bulk.body["let"]
        if group.first == 0:
            command |= {each: bulk.body[each] for each in _FIRST_OF_TRANSACTION
                        if each in bulk.body}
        if bulk.is_numbered:
            command["stmtIds"] = [bulk.statement(group.first + i) for i in range(len(group.ops))]
        sequence = {"insert": "documents", "update": "updates", "delete": "deletes"}[group.kind]
        number = next(_own_ids)
        answers = self._answers[number] = queue.SimpleQueue()
        try:
            connection.server.sendall(wire.op_msg(
                wire.body(command), wire.sequence(sequence, _statements(group)), request_id=number))
            while connection.server_closed_at is None:
                try:
                    return dict(answers.get(timeout=0.1))
                except queue.Empty:
                    pass
            raise Cut
        finally:
            del self._answers[number]

    def _first_batch(self, outcome: Outcome) -> dict[str, Any]:
        body = outcome.bulk.body
        items = outcome.items if outcome.bulk.is_acknowledged else []
        size = min(self.batch_size, int(body.get("cursor", {}).get("batchSize", MAX_BATCH)))
        batch, rest = _split(items, size)
        cursor = Int64(next(_cursor_ids) if rest else 0)
        if rest:
            self._cursors[cursor] = body.get("lsid"), rest
        return {"cursor": {"id": cursor, "firstBatch": batch, "ns": NS}, **outcome.counts,
                **{name: outcome.behind[name] for name in _BEHIND if name in outcome.behind}}

    def _next_batch(self, body: RawBSONDocument) -> dict[str, Any]:
        cursor = body["getMore"]
        if cursor not in self._cursors:
            raise Refusal(43, f"cursor id {cursor} not found")
        session, items = self._cursors[cursor]
        if body.get("lsid") != session:
            raise Refusal(13, f"Cannot run getMore on cursor {cursor}, which was created in session "
                              f"{session}, in session {body.get('lsid')}")
        batch, rest = _split(items, min(self.batch_size, int(body.get("batchSize", MAX_BATCH))))
        self._cursors[cursor] = session, rest
        if not rest:
            del self._cursors[cursor]
        return {"cursor": {"nextBatch": batch, "id": cursor if rest else Int64(0), "ns": NS},
                "ok": 1.0}

    # What mongod says.

    def _reply(self, raw: bytes) -> bytes:
        _, _, response_to, op_code = struct.unpack_from("<iiii", raw)
        if answers := self._answers.get(response_to):
            answers.put(bson.decode(wire.parse(raw).body_bytes, _RAW))
            return b""
        if op_code == wire.OP_COMPRESSED or not any(
                name in raw for name in (b"\x10maxWireVersion\0", b"\x04versionArray\0")):
            return raw
        return mapped(changed(raw, _of_8_0), {self._mongod: self.address})


def _statements(group: Group) -> list[RawBSONDocument | bytes]:
    if group.kind == "insert":
        return [op["document"] for op in group.ops]
    (op,) = group.ops
    own = [Element(e.type, _STATEMENT.get(e.name.decode(), e.name.decode()).encode(), e.value)
           for e in elements(op.raw) if e.name.decode() not in (group.kind, "multi")]
    multi = op.get("multi") is True
    return [document(*own, element(0x08, "multi", bytes([multi])) if group.kind == "update"
                     else int32("limit", 0 if multi else 1))]


def _split(items: Items, size: int) -> tuple[Items, Items]:
    """As many as a batch holds, and the rest. A batch that must have some has one at least."""
    room, place = MAX_REPLY, 0
    while place < min(size, len(items)) and (room := room - len(bson.encode(items[place]))) >= 0:
        place += 1
    place = max(place, min(size, 1))
    return items[:place], items[place:]


def _of_8_0(each: Element) -> Element:
    """A field of hello's or buildInfo's reply, as 8.0 has it."""
    if each.name == b"maxWireVersion":
        return int32(each.name, MAX_WIRE_VERSION)
    if each.name == b"version":
        return string(each.name, ".".join(map(str, VERSION)))
    if each.name == b"versionArray":
        return element(0x04, each.name, document(
            *(int32(str(i), part) for i, part in enumerate((*VERSION, 0)))))
    return each


# Commands for it, built by hand.

FORMS = ["body", "reversed", "sequences", "sequences first", "mixed"]
"""Where ops and nsInfo stand."""


def bulk_write(ops: Any, *namespaces: str, **more: Any) -> dict[str, Any]:
    """The command, with both in its body."""
    return {"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": ns} for ns in namespaces], **more,
            "$db": "admin"}


def message(body: dict[str, Any], form: str = "sequences", **options: Any) -> bytes:
    """It as a message of this form."""
    head, *rest = body.items()
    others = {k: v for k, v in body.items() if k not in ("ops", "nsInfo")}
    ops, ns_info = (wire.sequence(name, body[name]) for name in ("ops", "nsInfo"))
    return wire.op_msg(*{
        "body": [wire.body(body)],
        "reversed": [wire.body(dict([head, *reversed(rest)]))],
        "sequences": [wire.body(others), ops, ns_info],
        "sequences first": [ns_info, ops, wire.body(others)],
        "mixed": [wire.body({**others, "nsInfo": body["nsInfo"]}), ops],
    }[form], **options)
