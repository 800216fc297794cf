"""Malformed and ambiguous messages: the proxy answers as mongod does, or closes as mongod does.

Each message goes to a mongod directly, and through the proxy to another mongod of the same
version, on a namespace with a rule. Both must say the same, and at the end both must hold the
same documents, the assigned fields aside.
"""

from __future__ import annotations

import random
import struct
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import bson
import pytest

from support import elements as el
from support import wire
from support.elements import array, boolean, document, element, elements, embedded, int32, string
from support.full import FULL
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.servers import has

DB = "bad"
RULES = [
    {"ns": "bad.id", "field": "_id", "strategy": "uuid"},
    {"ns": "bad.field", "field": "made", "strategy": "objectid"},
    {"ns": "bad.path", "field": "made.there", "strategy": "objectid"},
    {"ns": "tiny.*", "field": "made", "strategy": "random-digits", "digits": 1,
     "output": "int32", "max_fill": 0.99},
]
COLLECTIONS = ["id", "field", "path"]

# The request id of the ping that follows each message: its answer shows that the connection lives.
PING_ID = 0x7A7A7A7A
PING = wire.command({"ping": 1, "$db": "admin"}, request_id=PING_ID)


class Outcome(NamedTuple):
    """What a message led to: the replies before the ping's, and the fate of the connection."""

    replies: list[dict[str, Any]]
    end: str  # alive or closed


def essence(reply: wire.Message) -> dict[str, Any]:
    """What of a reply must be equal on both ways."""
    body = reply.body
    kept: dict[str, Any] = {
        name: body[name] for name in ("ok", "code", "codeName", "n", "$err") if name in body}
    if "writeErrors" in body:
        kept["writeErrors"] = [(e["index"], e["code"]) for e in body["writeErrors"]]
    kept["response_to"] = reply.response_to
    kept["checksum"] = reply.op_code == wire.OP_MSG and bool(reply.flags & wire.CHECKSUM_PRESENT)
    return kept


def framing(data: bytes) -> str:
    """Whether data is whole messages, ends inside one, or has an impossible length in it."""
    at = 0
    while at < len(data):
        if at + 16 > len(data):
            return "unfinished"
        (length,) = struct.unpack_from("<i", data, at)
        if not 16 <= length <= wire.MAX_MESSAGE:
            return "impossible"
        at += length
    return "whole" if at == len(data) else "unfinished"


class Channel:
    """A connection that is made anew whenever the peer has closed it."""

    def __init__(self, address: str):
        self._address = address
        self._client: wire.WireClient | None = None

    def outcome(self, data: bytes) -> Outcome:
        if self._client is None:
            self._client = wire.WireClient(self._address)
        client, replies, whole = self._client, [], framing(data) == "whole"
        try:
            client.send(data + PING if whole else data)
            if framing(data) == "unfinished":
                client.finish()
            while True:
                reply = client.receive()
                if reply.response_to == PING_ID:
                    return Outcome(replies, "alive")
                replies.append(essence(reply))
        except wire.Closed:
            self.close()
            return Outcome(replies, "closed")
        except bson.errors.InvalidBSON as error:
            self.close()  # the next message is not to find the rest of this one's answers
            raise AssertionError(
                f"{self._address} answers {data.hex()} by {reply.raw.hex()}") from error

    def close(self) -> None:
        if self._client:
            self._client.close()
        self._client = None


def same(direct: Outcome, proxied: Outcome) -> bool:
    if direct == proxied:
        return True
    # A peer that closes with data unread resets the connection, and replies underway may be lost.
    shorter = min(len(direct.replies), len(proxied.replies))
    return (direct.end == proxied.end == "closed" and
            direct.replies[:shorter] == proxied.replies[:shorter])


class Pair:
    """The two ways to a server."""

    def __init__(self, direct: Mongod, behind: Mongod, proxy: Proxy):
        self.direct, self.behind, self.proxy = direct, behind, proxy
        self._channels = Channel(direct.address), Channel(proxy.address)

    def outcomes(self, data: bytes) -> tuple[Outcome, Outcome]:
        one, other = (channel.outcome(data) for channel in self._channels)
        return one, other

    def contents(self) -> tuple[Counter, Counter]:
        return _contents(self.direct), _contents(self.behind)

    def without_their_value(self) -> dict[str, int]:
        """How many documents behind the proxy slipped past their rule."""
        bad = self.behind.client["bad"]
        wanted = {"id": {"_id": {"$not": {"$type": "objectId"}}}, "field": {"made": {"$exists": True}},
                  "path": {"made.there": {"$exists": True}}}
        return {name: count for name, having in wanted.items()
                if (count := bad[name].count_documents({"$nor": [having]}))}

    def clean(self) -> None:
        for mongod in (self.direct, self.behind):
            with wire.WireClient(mongod.address) as client:
                for db in _databases(client):
                    client.call(wire.command(document(int32("dropDatabase", 1),
                                                      string("$db", db))))

    def close(self) -> None:
        for channel in self._channels:
            channel.close()


# The contents of a server, read as bytes: mutations make names that are no UTF-8.

def _within(raw: bytes, *path: str) -> bytes:
    """The value at this path of embedded documents and arrays."""
    for name in path:
        raw = next(e.value for e in elements(raw) if e.name == name.encode())
    return raw


def _text(raw: bytes, name: str) -> bytes:
    return _within(raw, name)[4:-1]


def _listed(client: wire.WireClient, request: bytes, *path: str) -> list[bytes]:
    client.send(request)
    reply = client.receive()
    return [e.value for e in elements(_within(reply.body_bytes, *path))]


def _databases(client: wire.WireClient) -> list[bytes]:
    listed = _listed(client, wire.command({"listDatabases": 1, "$db": "admin"}), "databases")
    return [name for name in (_text(raw, "name") for raw in listed)
            if name not in (b"admin", b"config", b"local", b"idproxy")]  # the last: who the proxy is


def _contents(mongod: Mongod) -> Counter:
    """Every stored document without what the proxy or the server assigned."""
    found: Counter = Counter()
    all_in_one = embedded("cursor", int32("batchSize", 1_000_000))
    with wire.WireClient(mongod.address) as client:
        for db in _databases(client):
            for collection in _listed(client, wire.command(document(
                    int32("listCollections", 1), all_in_one, string("$db", db))),
                    "cursor", "firstBatch"):
                name = _text(collection, "name")
                for stored in _listed(client, wire.command(document(
                        string("find", name), int32("batchSize", 1_000_000), string("$db", db))),
                        "cursor", "firstBatch"):
                    kept = tuple(
                        e.raw for e in elements(stored)
                        if not (e.name == b"_id" and e.type in (0x05, 0x07)) and e.name != b"made")
                    found[db, name, kept] += 1
    return found


@pytest.fixture(scope="module")
def pair(standalone: Mongod) -> Iterator[Pair]:
    with Mongod() as behind:
        with Proxy(configuration(behind, RULES)) as proxy:
            both = Pair(standalone, behind, proxy)
            both.clean()
            yield both
            both.close()
            both.clean()


# Parts of messages. All take the collection that the message is for.

K = int32("k", 1)
DOC = document(K)


def head(coll: str, *more: el.Element) -> bytes:
    return document(string("insert", coll), *more, string("$db", DB))


def insert(coll: str, *documents: bytes) -> bytes:
    return wire.op_msg(wire.body(head(coll)), wire.sequence("documents", list(documents)))


def sections(*parts: bytes, **options: Any) -> Callable[[str], bytes]:
    return lambda coll: wire.op_msg(wire.body(head(coll)), *parts, **options)


def with_doc(*parts: bytes | el.Element) -> Callable[[str], bytes]:
    """An insert of one document, made of these elements."""
    return lambda coll: insert(coll, document(*parts))


def with_raw(raw: bytes) -> Callable[[str], bytes]:
    """An insert of a document that is these very bytes."""
    return lambda coll: insert(coll, raw)


def with_body(*parts: el.Element) -> Callable[[str], bytes]:
    """An insert of one document in a sequence, whose body ends with these elements and $db."""
    return lambda coll: wire.op_msg(
        wire.body(head(coll, *parts)), wire.sequence("documents", [DOC]))


def with_documents(value: el.Element) -> Callable[[str], bytes]:
    """An insert whose body has this as `documents`."""
    return lambda coll: wire.command(head(coll, value))


def with_name(name: el.Element) -> Callable[[str], bytes]:
    return lambda coll: wire.op_msg(wire.body(document(name, string("$db", DB))),
                                    wire.sequence("documents", [DOC]))


def with_db(*db: el.Element) -> Callable[[str], bytes]:
    return lambda coll: wire.op_msg(wire.body(document(string("insert", coll), *db)),
                                    wire.sequence("documents", [DOC]))


def raw_message(payload: Callable[[str], bytes]) -> Callable[[str], bytes]:
    return lambda coll: wire.message(wire.OP_MSG, payload(coll))


def keys(*names: str) -> el.Element:
    return element(0x04, "documents", document(
        *(element(0x03, name, DOC) for name in names)))


def nested(depth: int, kind: int = 0x03) -> el.Element:
    """A document (or array) inside a document and so on."""
    ahead = b"".join(struct.pack("<i", 5 + 8 * left) + bytes([kind]) + b"0\0"
                     for left in range(depth, 0, -1))
    return element(kind, "deep", ahead + document() + bytes(depth))


def scoped(depth: int) -> el.Element:
    """Code with a scope that holds code with a scope and so on."""
    inner = document()
    for _ in range(depth):
        value = struct.pack("<i", len(inner) + 10) + struct.pack("<i", 2) + b"f\0" + inner
        inner = document(element(0x0F, "0", value))
    return element(0x03, "deep", inner)


def resized(raw: bytes, size: int) -> bytes:
    """The document with another length at its start."""
    return struct.pack("<i", size) + raw[4:]


def broken(kind: int, value: bytes) -> Callable[[str], bytes]:
    """A document in whose middle stands an element with this value."""
    return with_doc(int32("a", 1), element(kind, "b", value), int32("c", 1))


def i32(value: int) -> bytes:
    return struct.pack("<i", value)


def checksummed(coll: str, checksum: int | None = None) -> bytes:
    return wire.op_msg(wire.body(head(coll)), wire.sequence("documents", [DOC]),
                       flags=wire.CHECKSUM_PRESENT, checksum=checksum)


SEQ = wire.sequence("documents", [DOC])

MESSAGES: dict[str, Callable[[str], bytes]] = {
    "good": sections(SEQ),
    "good_body": with_documents(array("documents", [DOC, DOC])),

    # Sections.
    "no_sections": lambda coll: wire.op_msg(),
    "no_body": lambda coll: wire.op_msg(SEQ),
    "two_bodies": lambda coll: wire.op_msg(wire.body(head(coll)), wire.body(head(coll)), SEQ),
    "two_different_bodies": lambda coll: wire.op_msg(
        wire.body(head(coll)), SEQ, wire.body({"ping": 1, "$db": "admin"})),
    "sequence_twice": sections(SEQ, SEQ),
    "empty_sequence_twice": sections(
        wire.sequence("documents", []), wire.sequence("documents", [])),
    "sequence_and_body": lambda coll: wire.op_msg(
        wire.body(head(coll, array("documents", [DOC]))), SEQ),
    "sequence_and_empty_body": lambda coll: wire.op_msg(
        wire.body(head(coll, array("documents", []))), SEQ),
    "empty_sequence_and_body": lambda coll: wire.op_msg(
        wire.body(head(coll, array("documents", [DOC]))), wire.sequence("documents", [])),
    "sequence_before_and_body": lambda coll: wire.op_msg(
        SEQ, wire.body(head(coll, array("documents", [DOC])))),
    **{f"kind_{kind}": sections(bytes([kind]) + SEQ[1:]) for kind in (2, 3, 127, 255)},
    **{f"kind_{kind}_after": sections(SEQ, bytes([kind]) + DOC) for kind in (2, 3, 255)},
    "unknown_sequence": sections(wire.sequence("others", [DOC])),
    "unknown_sequence_too": sections(SEQ, wire.sequence("others", [DOC])),
    "unknown_empty_sequence_too": sections(SEQ, wire.sequence("others", [])),
    "sequence_of_another_case": sections(wire.sequence("Documents", [DOC])),
    "sequence_without_name": sections(wire.sequence("", [DOC])),
    "sequence_with_dotted_name": sections(SEQ, wire.sequence("a.b", [DOC])),
    "sequence_named_as_the_command": sections(SEQ, wire.sequence("insert", [DOC])),
    "sequence_named_db": sections(SEQ, wire.sequence("$db", [DOC])),
    "sequence_named_ordered": sections(SEQ, wire.sequence("ordered", [DOC])),
    "sequence_name_without_end": sections(b"\1" + i32(12) + b"document"),
    **{f"sequence_size_{size}": sections(wire.sequence("documents", [DOC], size=size))
       for size in (0, 3, 4, 5, 13, 14, 15, 27, 29, 1000, 2**31 - 1, -1, -(2**31))},
    "sequence_size_cut_short": sections(b"\1\0\0"),
    "kind_byte_alone": sections(b"\1"),
    "kind_0_byte_alone": sections(b"\0"),
    "bytes_after": sections(SEQ, b"\0\0"),
    "many_sections": sections(SEQ, *(wire.sequence(f"s{i}", []) for i in range(1000))),

    # Documents in a sequence.
    "empty_sequence": sections(wire.sequence("documents", [])),
    **{f"document_size_{size}": sections(wire.sequence("documents", [resized(DOC, size)]))
       for size in (0, 1, 4, 5, 11, 13, 1000, 2**31 - 1, -1, -(2**31))},
    **{f"second_document_size_{size}": sections(
        wire.sequence("documents", [DOC, resized(DOC, size)])) for size in (0, 4, 11, 13)},
    "document_cut_short": sections(wire.sequence("documents", [DOC[:3]])),
    "document_without_end": with_raw(DOC[:-1] + b"\1"),
    "good_then_bad": lambda coll: insert(coll, DOC, document(element(0x14, "x", b"")), DOC),
    "100000_documents": lambda coll: insert(coll, *[document()] * 100_000),
    "100001_documents": lambda coll: insert(coll, *[document()] * 100_001),

    # The body.
    **{f"body_size_{size}": lambda coll, size=size: wire.op_msg(
        wire.body(resized(head(coll), size)), SEQ)
       for size in (0, 1, 4, 5, 20, 1000, 2**31 - 1, -1, -(2**31))},
    "empty_body": lambda coll: wire.op_msg(wire.body(document()), SEQ),
    "body_without_end": lambda coll: wire.op_msg(wire.body(head(coll)[:-1] + b"\1"), SEQ),
    "no_documents": lambda coll: wire.command(head(coll)),
    "documents_empty": with_documents(array("documents", [])),
    "documents_twice": lambda coll: wire.command(
        head(coll, array("documents", [DOC]), array("documents", [DOC]))),
    "insert_twice": with_body(string("insert", "other")),
    "ordered_twice": with_body(boolean("ordered", True), boolean("ordered", False)),
    "comment_twice": with_body(int32("comment", 1), int32("comment", 2)),
    "unknown_twice": with_body(int32("zork", 1), int32("zork", 2)),
    "documents_first": lambda coll: wire.command(document(
        array("documents", [DOC]), string("insert", coll), string("$db", DB))),
    **{f"documents_keys_{'_'.join(names) or 'none'}": with_documents(keys(*names))
       for names in [("1", "2"), ("0", "0"), ("",), ("a",), ("00", "01"), ("0", "2"), ("1", "0"),
                     ("0", "1", "3"), ("-1",), (" 0",)]},
    **{f"documents_{name}": with_documents(value) for name, value in {
        "string": string("documents", "x"), "object": embedded("documents", K),
        "object_with_array_keys": embedded("documents", element(0x03, "0", DOC)),
        "int": int32("documents", 1), "null": el.null("documents"),
        "undefined": element(0x06, "documents"),
        "of_ints": element(0x04, "documents", document(int32("0", 1))),
        "of_strings": element(0x04, "documents", document(string("0", "x"))),
        "of_nulls": element(0x04, "documents", document(el.null("0"))),
        "of_arrays": element(0x04, "documents", document(element(0x04, "0", document()))),
        "mixed": element(0x04, "documents", document(element(0x03, "0", DOC), int32("1", 1))),
        "too_long": element(0x04, "documents", resized(document(element(0x03, "0", DOC)), 500)),
        "too_short": element(0x04, "documents", resized(document(element(0x03, "0", DOC)), 10)),
        "negative": element(0x04, "documents", resized(document(element(0x03, "0", DOC)), -5)),
        "inner_too_long": element(0x04, "documents", document(
            element(0x03, "0", resized(DOC, 30)))),
        "inner_too_short": element(0x04, "documents", document(
            element(0x03, "0", resized(DOC, 6)))),
    }.items()},

    # Command name, collection and database.
    **{f"command_{name}": lambda coll, name=name: wire.op_msg(
        wire.body(document(string(name, coll), string("$db", DB))), SEQ)
       for name in ("Insert", "INSERT", " insert", "insert ", "inser", "inserts", "")},
    **{f"name_{name}": with_name(value) for name, value in {
        "symbol": string("insert", "id", 0x0E), "code": string("insert", "id", 0x0D),
        "int": int32("insert", 1), "null": el.null("insert"), "object": embedded("insert"),
        "uuid": element(0x05, "insert", i32(16) + b"\4" + bytes(16)),
        "empty": string("insert", ""), "nul_inside": string("insert", b"id\0x"),
        "nul_only": string("insert", b"\0"),
        "dollar_cmd": string("insert", "$cmd"), "dollar": string("insert", "a$b"),
        "dot_first": string("insert", ".a"), "dot_last": string("insert", "a."),
        "system": string("insert", "system.foo"), "views": string("insert", "system.views"),
        "long": string("insert", "x" * 300), "not_utf8": string("insert", b"\xff\xfe"),
        "length_0": element(0x02, "insert", i32(0) + b"id\0"),
        "length_negative": element(0x02, "insert", i32(-1) + b"id\0"),
        "length_large": element(0x02, "insert", i32(1000) + b"id\0"),
        "length_max": element(0x02, "insert", i32(2**31 - 1) + b"id\0"),
        "without_end": element(0x02, "insert", i32(2) + b"id"),
    }.items()},
    **{f"db_{name}": with_db(*value) for name, value in {
        "missing": [], "int": [int32("$db", 1)], "null": [el.null("$db")],
        "empty": [string("$db", "")], "space": [string("$db", "a b")],
        "dot": [string("$db", "a.b")], "nul_inside": [string("$db", b"bad\0x")],
        "symbol": [string("$db", DB, 0x0E)], "long": [string("$db", "x" * 100)],
        "dollar": [string("$db", "$x")], "external": [string("$db", "$external")],
        "other_case": [string("$db", "BAD")], "slash": [string("$db", "a/b")],
        "twice": [string("$db", DB), string("$db", DB)],
        "two": [string("$db", DB), string("$db", "other")],
        "length_0": [element(0x02, "$db", i32(0) + b"bad\0")],
    }.items()},
    "db_first": lambda coll: wire.op_msg(
        wire.body(document(string("$db", DB), string("insert", coll))), SEQ),
    "db_in_the_middle": lambda coll: wire.op_msg(
        wire.body(document(string("insert", coll), string("$db", DB), int32("comment", 1))), SEQ),

    # Options.
    **{f"option_{name}": with_body(value) for name, value in {
        "ordered_string": string("ordered", "no"), "ordered_int": int32("ordered", 1),
        "ordered_null": el.null("ordered"), "ordered_double": el.double("ordered", 0.0),
        "unknown": int32("zork", 1), "max_time": int32("maxTimeMS", -1),
        "write_concern": embedded("writeConcern", string("w", "nonsense")),
        "write_concern_type": int32("writeConcern", 1),
        "txn_number": el.int64("txnNumber", 1), "lsid_type": int32("lsid", 1),
        "lsid_empty": embedded("lsid"), "stmt_id": int32("stmtId", 0),
        "stmt_ids_of_wrong_length": element(0x04, "stmtIds", document(int32("0", 1), int32("1", 2))),
        "stmt_ids_type": int32("stmtIds", 1), "api": string("apiVersion", "1"),
        "api_unknown": string("apiVersion", "9"), "let": embedded("let"),
        "read_concern": embedded("readConcern", string("level", "local")),
        "deep_comment": embedded("comment", nested(190)),
        "autocommit": boolean("autocommit", False),
    }.items()},
    "explain": lambda coll: wire.command(document(
        embedded("explain", string("insert", coll), array("documents", [DOC])),
        string("$db", DB))),
    "update_with_documents": lambda coll: wire.op_msg(
        wire.body(document(string("update", coll), string("$db", DB))), SEQ),
    "find_with_documents": lambda coll: wire.op_msg(
        wire.body(document(string("find", coll), string("$db", DB))), SEQ),

    # Flags and checksum.
    **{f"flag_{bit}": sections(SEQ, flags=1 << bit) for bit in range(2, 32)},
    "checksum": checksummed,
    "checksum_wrong": lambda coll: checksummed(coll, 1),
    "checksum_zero": lambda coll: checksummed(coll, 0),
    "checksum_missing": raw_message(
        lambda coll: struct.pack("<I", 1) + wire.body(head(coll)) + SEQ),
    "checksum_missing_in_body": raw_message(lambda coll: struct.pack("<I", 1) + wire.body(
        head(coll, array("documents", [DOC])))),
    "checksum_wrong_of_bad_bson": lambda coll: wire.op_msg(
        wire.body(head(coll)), wire.sequence("documents", [resized(DOC, 4)]),
        flags=wire.CHECKSUM_PRESENT, checksum=1),
    "checksum_right_of_bad_bson": lambda coll: wire.op_msg(
        wire.body(head(coll)), wire.sequence("documents", [resized(DOC, 4)]),
        flags=wire.CHECKSUM_PRESENT),
    "checksum_wrong_of_unknown_kind": lambda coll: wire.op_msg(
        wire.body(head(coll)), b"\7" + DOC, flags=wire.CHECKSUM_PRESENT, checksum=1),
    "checksum_wrong_on_no_rule": lambda coll: wire.op_msg(
        wire.body(document(string("insert", "none"), string("$db", DB))), SEQ,
        flags=wire.CHECKSUM_PRESENT, checksum=1),
    "checksum_wrong_on_ping": lambda coll: wire.command(
        {"ping": 1, "$db": "admin"}, flags=wire.CHECKSUM_PRESENT, checksum=1),
    "checksum_wrong_on_hello": lambda coll: wire.command(
        {"hello": 1, "compression": ["zlib"], "$db": "admin"}, flags=wire.CHECKSUM_PRESENT,
        checksum=1),
    "more_to_come": sections(SEQ, flags=wire.MORE_TO_COME),
    "more_to_come_of_bad_bson": sections(
        wire.sequence("documents", [resized(DOC, 4)]), flags=wire.MORE_TO_COME),
    "exhaust_allowed": sections(SEQ, flags=wire.EXHAUST_ALLOWED),

    # Short messages.
    **{f"op_msg_of_{size}": lambda coll, size=size: wire.message(wire.OP_MSG, bytes(size - 16))
       for size in (16, 17, 19, 20, 21, 22, 24, 25, 26, 30)},
    "op_query_of_16": lambda coll: wire.message(wire.OP_QUERY, b""),
    "op_query_of_20": lambda coll: wire.message(wire.OP_QUERY, bytes(4)),
    "op_query_without_end_of_name": lambda coll: wire.message(wire.OP_QUERY, bytes(4) + b"admin"),
    "op_query_hello_cut": lambda coll: wire.message(
        wire.OP_QUERY, bytes(4) + b"admin.$cmd\0" + i32(0) + i32(-1) + i32(500) + b"\x10"),
    "op_query_insert": lambda coll: wire.op_query(
        "bad.$cmd", document(string("insert", coll), array("documents", [DOC]))),
    "op_query_hello_bad_compression": lambda coll: wire.op_query(
        "admin.$cmd", document(int32("isMaster", 1), int32("compression", 5))),
    "op_query_hello_compression_twice": lambda coll: wire.op_query("admin.$cmd", document(
        int32("isMaster", 1), element(0x04, "compression", document(string("0", "zlib"))),
        element(0x04, "compression", document(string("0", "zstd"))))),
    "hello_twice": lambda coll: wire.command(document(
        int32("hello", 1), int32("hello", 1), string("$db", "admin"))),
    "hello_bad_compression": lambda coll: wire.command(document(
        int32("hello", 1), int32("compression", 5), string("$db", "admin"))),
    "hello_compression_of_ints": lambda coll: wire.command(document(
        int32("hello", 1), element(0x04, "compression", document(int32("0", 5))),
        string("$db", "admin"))),
    "hello_of_bad_bson": lambda coll: wire.command(document(
        int32("hello", 1), element(0x14, "x"), string("$db", "admin"))),

    # Elements of a document.
    "id_twice": with_doc(int32("_id", 1), K, int32("_id", 2)),
    "id_twice_equal": with_doc(int32("_id", 3), int32("_id", 3)),
    "id_twice_at_the_end": with_doc(K, int32("_id", 4), int32("_id", 5)),
    "id_twice_far_apart": with_doc(
        element(0x07, "_id", bytes(12)), *el.every_type(), el.null("_id")),
    "id_array": with_doc(element(0x04, "_id", document())),
    "id_regex": with_doc(element(0x0B, "_id", b"a\0\0")),
    "id_undefined": with_doc(element(0x06, "_id")),
    "id_dollar": with_doc(embedded("_id", int32("$a", 1))),
    "id_embedded": with_doc(embedded("_id", int32("a", 1))),
    "id_cut": with_doc(K, element(0x07, "_id", bytes(11))),
    "made_twice": with_doc(int32("made", 1), K, int32("made", 2)),
    "made_cut": with_doc(element(0x03, "made", i32(100))),
    "made_of_unknown_type": with_doc(element(0x20, "made", bytes(8))),
    "made_not_an_object_but_bad": with_doc(element(0x03, "made", resized(document(K), 6))),
    **{f"type_{kind:#x}": broken(kind, bytes(8)) for kind in (0x14, 0x20, 0x7E, 0x80, 0xFE)},
    "type_0": with_doc(int32("a", 1), b"\0", int32("c", 1)),
    **{f"string_length_{length}": broken(0x02, i32(length) + b"ab\0")
       for length in (0, 1, 2, 4, 100, 2**31 - 1, -1, -(2**31))},
    "string_without_end": broken(0x02, i32(2) + b"ab"),
    "string_cut": with_doc(element(0x02, "b", b"\1\0")),
    **{f"bool_{value}": broken(0x08, bytes([value])) for value in (2, 255)},
    "bool_cut": with_doc(element(0x08, "b")),
    "name_without_end": with_raw(i32(9) + b"\x10abc\0"[:5]),
    "name_only": with_raw(i32(8) + b"\x0ab\0"[:3] + b"\0"),
    "name_not_utf8": with_doc(int32(b"\xff\xfe", 1)),
    "name_empty": with_doc(int32("", 1)),
    **{f"embedded_size_{size}": broken(0x03, resized(DOC, size))
       for size in (0, 4, 5, 6, 11, 13, 40, 2**31 - 1, -1)},
    "embedded_without_end": broken(0x03, DOC[:-1] + b"\1"),
    "array_with_odd_keys": broken(0x04, document(int32("5", 1), int32("x", 1))),
    "array_size": broken(0x04, resized(document(int32("0", 1)), 50)),
    **{f"binary_length_{length}": broken(0x05, i32(length) + b"\0abc")
       for length in (-1, 2, 4, 1000, 2**31 - 1)},
    "old_binary_inner_length": broken(0x05, i32(7) + b"\2" + i32(99) + b"abc"),
    "old_binary_too_short": broken(0x05, i32(2) + b"\2ab"),
    "regex_without_end": with_doc(element(0x0B, "b", b"a\0i")),
    "dbpointer_length": broken(0x0C, i32(0) + b"a\0" + bytes(12)),
    **{f"scoped_code_size_{size}": broken(
        0x0F, i32(size) + i32(2) + b"f\0" + document()) for size in (0, 14, 16, 100, -1)},
    "scoped_code_inner": broken(0x0F, i32(15) + i32(50) + b"f\0" + document()),
    "scoped_code_scope": broken(0x0F, i32(15) + i32(2) + b"f\0" + resized(document(), 9)),
    "decimal_cut": with_doc(element(0x13, "b", bytes(15))),
    "date_cut": with_doc(element(0x09, "b", bytes(7))),
    "end_too_early": with_raw(i32(20) + int32("a", 1).raw + b"\0" + bytes(8)),

    # Depth.
    **{f"depth_{depth}": with_doc(K, nested(depth)) for depth in (
        50, 100, 150, 178, 179, 180, 181, 199, 200, 201, 250, 1000, 10_000, 100_000)},
    **{f"array_depth_{depth}": with_doc(K, nested(depth, 0x04)) for depth in (100, 250, 10_000)},
    **{f"scope_depth_{depth}": with_doc(K, scoped(depth)) for depth in (10, 100, 250, 1000)},
    **{f"body_depth_{depth}": with_body(nested(depth)) for depth in (100, 250, 10_000)},
    "documents_depth": with_documents(array("documents", [document(K, nested(10_000))])),
    "made_depth": with_doc(embedded("made", nested(150))),
    "made_depth_bomb": with_doc(embedded("made", nested(10_000))),

    # Cut off in the middle, and the rest never comes.
    **{f"cut_{at}": lambda coll, at=at: sections(SEQ)(coll)[:at] for at in (1, 4, 15, 16, 20, 40)},
    "cut_before_the_last_byte": lambda coll: sections(SEQ)(coll)[:-1],
}


# A scalar where the path of a rule leads is an error of the proxy alone (see test_insert.py).
CASES = [(name, coll) for name in MESSAGES for coll in COLLECTIONS
         if (name, coll) != ("made_twice", "path")
         # Servers before 5.1 take what the proxy refuses as later ones do (see test_relay.py).
         and (name != "op_query_insert" or has("only_op_msg"))
         # 4.4 takes a document for a view, and refuses to list collections from then on.
         and (not name.endswith("_views") or has("checks_views"))]


@pytest.mark.parametrize("name, coll", CASES)
def test_as_the_server(pair: Pair, name: str, coll: str):
    data = MESSAGES[name](coll)
    direct, proxied = pair.outcomes(data)
    assert same(direct, proxied), f"\ndirectly: {direct}\nproxied:  {proxied}"
    # The proxy and its other clients go on.
    assert pair.proxy.alive()
    with wire.WireClient(pair.proxy.address) as other:
        assert other.call({"ping": 1, "$db": "admin"})["ok"] == 1


def test_afterwards_both_servers_hold_the_same(pair: Pair):
    pair.clean()
    for name, coll in CASES:
        if not name.startswith("1000"):
            pair.outcomes(MESSAGES[name](coll))
    direct, behind = pair.contents()
    assert direct, "some of the messages are good"
    assert not direct - behind and not behind - direct
    assert not pair.without_their_value()


def test_equal_stmt_ids_are_refused(replica_set: Mongod):
    """They would make the primary abort."""
    insert = {"insert": "id", "documents": [{"k": 1}, {"k": 2}], "txnNumber": bson.Int64(1),
              "lsid": {"id": bson.Binary(uuid.uuid4().bytes, 4)}, "$db": "bad"}
    with (Proxy(configuration(replica_set, RULES)) as proxy,
          wire.WireClient(proxy.address) as client):
        assert client.call({**insert, "stmtIds": [7, 7]})["code"] == 72
        assert client.call({**insert, "stmtIds": [7, 8]})["n"] == 2


@pytest.mark.tsan
def test_an_error_made_here_waits_for_the_replies_before_it(pair: Pair):
    """An id that cannot be given is answered by the proxy, but not before its turn."""
    pair.behind.client.admin.command(
        "configureFailPoint", "failCommand", mode={"times": 1},
        data={"failCommands": ["find"], "blockConnection": True, "blockTimeMS": 300,
              "namespace": "tiny.slow"})
    refused = wire.op_msg(
        wire.body({"insert": "c", "$db": "tiny"}),
        wire.sequence("documents", [DOC] * 11), request_id=2)
    with wire.WireClient(pair.proxy.address) as client:
        client.send(wire.command({"find": "slow", "$db": "tiny"}, request_id=1) + refused +
                    wire.command({"ping": 1, "$db": "admin"}, request_id=3))
        replies = [client.receive() for _ in range(3)]
    assert [r.response_to for r in replies] == [1, 2, 3]
    assert [r.body.get("code") for r in replies] == [None, 96, None]


# Random mutations of valid messages.

INTERESTING = [0, 1, 2, 3, 4, 5, 8, 16, 127, 128, 255, 2**15, 2**31 - 1, -1, -(2**31)]


def originals(coll: str) -> list[bytes]:
    rich = document(int32("k", 1), *el.every_type())
    body = head(coll, array("documents", [rich, DOC]))
    made = embedded("made", K) if coll != "path" else embedded("else", K)
    return [
        sections(SEQ)(coll), insert(coll, rich, DOC, rich), wire.command(body),
        wire.op_msg(wire.sequence("documents", [DOC, DOC]), wire.body(head(coll))),
        wire.op_msg(wire.sequence("documents", [document(int32("_id", 1), K)] * 2),
                    wire.body(head(coll, boolean("ordered", False)))),
        checksummed(coll), insert(coll, document(made, K)),
    ]


def mutate(choose: random.Random, data: bytes) -> bytes:
    """One to three small changes; half of the time the length in the header is put right again."""
    changed = bytearray(data)
    for _ in range(choose.choice([1, 1, 1, 2, 3])):
        at = choose.randrange(len(changed))
        match choose.randrange(7):
            case 0:
                changed[at] ^= 1 << choose.randrange(8)
            case 1:
                changed[at] = choose.choice([0, 1, 2, 3, 4, 5, 7, 0x10, 0x7F, 0x80, 0xFF])
            case 2:
                del changed[at:at + choose.randrange(1, 9)]
            case 3:
                changed[at:at] = choose.randbytes(choose.randrange(1, 9))
            case 4:
                part = changed[at:at + choose.randrange(1, 40)]
                where = choose.randrange(len(changed))
                changed[where:where] = part
            case 5:
                at = choose.randrange(16, max(17, len(changed) - 4))
                changed[at:at + 4] = struct.pack("<i", choose.choice(INTERESTING))
            case 6:
                at = choose.randrange(16, max(17, len(changed) - 4))
                (value,) = struct.unpack("<i", (changed[at:at + 4] + bytes(4))[:4])
                value = (value + choose.choice([-1, 1, -5, 5]) + 2**31) % 2**32 - 2**31
                changed[at:at + 4] = struct.pack("<i", value)
    if len(changed) >= 4 and choose.random() < 0.8:
        changed[:4] = struct.pack("<i", len(changed))
    return bytes(changed)


@pytest.mark.timeout(600)
def test_random_mutations(pair: Pair):
    pair.clean()
    count, limit_seconds = 10_000 if FULL else 2_500, 90
    deadline, alive = time.monotonic() + limit_seconds, 0
    for number in range(count):
        choose = random.Random(number)
        coll = choose.choice(COLLECTIONS)
        data = mutate(choose, choose.choice(originals(coll)))
        direct, proxied = pair.outcomes(data)
        assert same(direct, proxied), (
            f"mutation {number}: {data.hex()}\ndirectly: {direct}\nproxied:  {proxied}")
        alive += direct.end == "alive"
        if time.monotonic() > deadline:
            break
    assert number >= 1000 and alive > number / 10
    one, other = pair.contents()
    assert not one - other and not other - one
