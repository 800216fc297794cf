"""Batches that go in several commands look like one: also to those who send what mongod refuses.

mongod refuses some batches whole because of one document: then nothing of them may be stored,
though the proxy would send a large unordered batch in parts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import bson
import pytest

from support import wire
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.thief import session

RULES = [{"ns": "parts.*", "field": "_id", "strategy": "uuid"}]

COUNT = 20_001


def nested(levels: int) -> bytes:
    document = b"\5\0\0\0\0"
    for _ in range(levels):
        document = struct.pack("<i", len(document) + 8) + b"\3a\0" + document + b"\0"
    return document


# The document at the end of the batch, and how many of it are stored by mongod itself.
LAST = {
    "bad_bson_inside": bson.encode({"a": {"b": True}}).replace(b"\x08b\0\1", b"\x08b\0\7"),
    "string_too_long_inside": bson.encode({"a": {"b": "x"}}).replace(b"\2\0\0\0x", b"\x7f\0\0\0x"),
    "very_deep": nested(250),
    "deep": nested(150),
    "larger_than_any_document": bson.encode({"a": "x" * (16 * 1024 * 1024 + 17 * 1024)}),
    "larger_than_a_users_document": bson.encode({"a": "x" * (16 * 1024 * 1024 + 100)}),
    "an_array_as_id": bson.encode({"_id": [1]}),
    "ordinary": bson.encode({"a": 1}),
}


def insert(collection: str, documents: list[bytes], **fields: Any) -> bytes:
    body = bson.encode({"insert": collection, "$db": "parts", "ordered": False, **fields})
    content = b"documents\0" + b"".join(documents)
    section = b"\1" + struct.pack("<i", len(content) + 4) + content
    return wire.op_msg(b"\0" + body + section)


def answer(address: str, message: bytes) -> dict[str, Any] | None:
    """The reply without times; None if the connection was closed."""
    with wire.WireClient(address, timeout=60) as client:
        client.send(message)
        try:
            body = client.receive().body
        except wire.Closed:
            return None
    return {key: value for key, value in body.items()
            if key not in ("electionId", "opTime", "$clusterTime", "operationTime", "errmsg")}


@pytest.mark.parametrize("last", LAST)
def test_the_last_document_decides_as_it_does_without_the_proxy(
        server: Mongod, proxy: Proxy, last: str):
    documents = [bson.encode({"k": k}) for k in range(COUNT - 1)] + [LAST[last]]
    stored = {}
    replies = {}
    for name, address in ("direct", server.address), ("proxy", proxy.address):
        collection = server.client["parts"][name]
        collection.drop()
        replies[name] = answer(address, insert(name, documents))
        stored[name] = collection.count_documents({})
    for reply in replies.values():
        for error in (reply or {}).get("writeErrors", []):
            del error["errmsg"]
    assert replies["proxy"] == replies["direct"]
    assert stored["proxy"] == stored["direct"]


@pytest.mark.parametrize("first", [0, 5])
def test_keys_of_the_array_are_mongods_to_judge(server: Mongod, proxy: Proxy, first: int):
    """Keys that do not count from 0 make it refuse the command."""
    elements = b"".join(b"\3%d\0" % (first + i) + bson.encode({"k": i}) for i in range(COUNT))
    array = struct.pack("<i", len(elements) + 5) + elements + b"\0"
    fields = bson.encode({"insert": "keys", "$db": "parts", "ordered": False})[4:-1]
    body = fields + b"\4documents\0" + array
    message = wire.op_msg(b"\0" + struct.pack("<i", len(body) + 5) + body + b"\0")
    replies = []
    for address in server.address, proxy.address:
        server.client["parts"]["keys"].drop()
        replies.append(answer(address, message))
        replies.append(server.client["parts"]["keys"].count_documents({}))
    assert replies[:2] == replies[2:]
    assert replies[1] == (COUNT if first == 0 else 0)


def test_the_parts_are_real(server: Mongod, proxy: Proxy):
    """What the tests above are about happens: the server sees two commands."""
    before = server.client.admin.command("serverStatus")["metrics"]["commands"]["insert"]["total"]
    reply = answer(proxy.address, insert("real", [bson.encode({"k": k}) for k in range(COUNT)]))
    assert reply == {"n": COUNT, "ok": 1.0}
    after = server.client.admin.command("serverStatus")["metrics"]["commands"]["insert"]["total"]
    assert after - before == 2


# What does not fit into one message goes in several, to the byte. The proxy adds to these commands
# what it needs itself: numbers, the collection's UUID, numbers of statements, a write concern.

FULL_RULES = [
    {"ns": "full.invoices", "field": "number", "strategy": "gapless", "unique_index": "create"},
    {"ns": "full.orders", "field": "number", "strategy": "counter", "unique_index": "create"},
]


@pytest.fixture(scope="module")
def full(replica_set: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(replica_set, FULL_RULES)) as proxy:
        for rule in FULL_RULES:
            proxy.client()["full"][rule["ns"].split(".")[1]].insert_one({"_id": "first"})
        yield proxy


def document(key: int, text: str) -> dict[str, Any]:
    return {"_id": key, "text": text}


def upsert(key: int, text: str) -> dict[str, Any]:
    return {"q": {"_id": key}, "u": {"$set": {"text": text}}, "upsert": True}


def sized(size: int, fields: dict[str, Any], of: Any) -> bytes:
    """A message of exactly this size with three statements."""
    name = "documents" if of is document else "updates"

    def of_texts(lengths: list[int]) -> bytes:
        return wire.op_msg(wire.body(fields), wire.sequence(
            name, [of(key, "x" * length) for key, length in enumerate(lengths)]))

    room = size - len(of_texts([0, 0, 0]))
    message = of_texts([room // 3, room // 3, room - room // 3 * 2])
    assert len(message) == size
    return message


def store_next_number(orders: Any, direct: Any) -> None:
    """Past the proxy, which then finds it taken."""
    orders.insert_one({"_id": "last"})
    number = direct.find_one({"_id": "last"})["number"] + 1
    direct.insert_one({"_id": "past", "number": number})


# For each, the smallest size and the largest one that become too large only by what is added.
FULL = [
    ("insert", "invoices", document, (877, 901)),
    ("insert", "orders", document, (881, 901)),
    ("update", "orders", upsert, (824, 859)),
]


@pytest.mark.parametrize(("command", "name", "of", "sizes"), FULL,
                         ids=["gapless", "counter", "upserts"])
def test_a_command_that_becomes_too_large_goes_in_several(
        replica_set: Mongod, full: Proxy, command: str, name: str, of: Any,
        sizes: tuple[int, ...]):
    direct = replica_set.client["full"][name]
    for size in sizes:
        direct.delete_many({"_id": {"$ne": "first"}})
        fields: dict[str, Any] = {command: name, "ordered": True, "$db": "full"}
        if name == "orders":
            store_next_number(full.client()["full"][name], direct)
            fields |= session()
        reply = answer(full.address, sized(47_999_000 + size, fields, of))
        assert reply and reply["n"] == 3 and "writeErrors" not in reply, (size, reply)
        assert direct.count_documents({"text": {"$exists": True}}) == 3, size
