"""Upserts that are as large as they may be, until they get their values: the sizes of documents, of
bodies, of messages and of replies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bson
import pytest

from support import wire
from support.fake_server import Request
from support.mongod import Mongod
from support.thief import Robbed, robbing, session

USER = 16 * 1024 * 1024  # a document
INTERNAL = USER + 16 * 1024  # what is around it
PART = 20_000  # statements of one command

RULES = [{"ns": "sizes.*", "field": "number", "strategy": "counter"}]


@pytest.fixture(scope="module")
def place(replica_set: Mongod) -> Iterator[Robbed]:
    with robbing(replica_set, RULES) as robbed:
        yield robbed


@pytest.fixture(params=[True, False], ids=["ordered", "unordered"])
def ordered(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(autouse=True)
def forget(place: Robbed, coll: str) -> Iterator[None]:
    yield
    place.thief.forget()
    place.server.client["sizes"].drop_collection(coll)


def upsert(k: int, size: int = 0, **more: Any) -> bytes:
    """A statement that inserts {k, x: <a text of this size>}."""
    return bson.encode({"q": {"k": k}, "u": {"$set": {"x": "x" * size, **more}}, "upsert": True})


def update(coll: str, statements: list[bytes], ordered: bool = True, form: str = "sequence",
           more: dict[str, Any] = {}) -> bytes:
    command: dict[str, Any] = {"update": coll, "ordered": ordered, "$db": "sizes", **more}
    if form == "sequence":
        return wire.op_msg(wire.body(command), wire.sequence("updates", statements))
    command["updates"] = [bson.decode(each) for each in statements]
    return wire.command(command)


def commands(place: Robbed) -> list[Request]:
    """The updates that reached the server."""
    return [Request.read(m.raw) for m in list(place.thief.messages)
            if m.direction == "to_server" and m.command == "update"]


def check_stored(place: Robbed, coll: str, count: int) -> None:
    found = list(place.server.client["sizes"][coll].find({}, {"k": 1, "number": 1}).sort("k"))
    assert [d["k"] for d in found] == list(range(count))
    assert len({d["number"] for d in found}) == count


UPDATES = {"operators": lambda text: {"$set": {"x": text}},
           "a_pipeline": lambda text: [{"$set": {"x": text}}]}


@pytest.mark.parametrize("room, fits", [(100, True), (0, False), (-1, False)])
@pytest.mark.parametrize("form", UPDATES)
@pytest.mark.parametrize("command", ["update", "findAndModify"])
def test_the_largest_document(place: Robbed, coll: str, command: str, form: str, room: int,
                              fits: bool):
    """One that would be small enough without its value is not stored without it, though its
    statement has more than 16 MiB."""
    least = len(bson.encode({"_id": bson.ObjectId(), "k": 1, "x": ""}))
    changed = UPDATES[form]("x" * (USER - least - room))
    if command == "update":
        message = update(coll, [bson.encode({"q": {"k": 1}, "u": changed, "upsert": True})])
    else:
        message = wire.command({"findAndModify": coll, "query": {"k": 1}, "update": changed,
                                "upsert": True, "comment": "c" * 200, "$db": "sizes"})
    reply = place.call(message).body
    errors = [reply] if not reply["ok"] else reply.get("writeErrors", [])
    assert [error["code"] for error in errors] == ([] if fits else [17420])
    found = list(place.server.client["sizes"][coll].find({}, {"x": 0}))
    assert [d["number"] for d in found] == ([1] if fits else [])
    if command == "update":
        assert place.call(update(coll, [upsert(2)])).body["n"] == 1
        (small,) = place.server.client["sizes"][coll].find({"k": 2})
        assert small["number"] == (2 if fits else 1), "that of the other one is used"


def test_a_statement_that_is_too_large_for_the_server(place: Robbed, coll: str):
    """Its own error, and nothing stored."""
    for message in (update(coll, [upsert(1, INTERNAL)]),
                    wire.command({"findAndModify": coll, "query": {}, "upsert": True,
                                  "update": {"$set": {"x": "x" * INTERNAL}}, "$db": "sizes"})):
        reply = place.call(message).body
        assert (reply["ok"], reply["code"]) == (0, 10334)
    assert place.server.client["sizes"][coll].find_one() is None


def test_a_body_that_becomes_too_large(place: Robbed, coll: str, ordered: bool):
    """Its statements move to a sequence."""
    least = len(update(coll, [upsert(0), upsert(1)], ordered, "array")) - 21
    room = INTERNAL - least
    statements = [upsert(0, room // 2), upsert(1, room - room // 2)]
    message = update(coll, statements, ordered, "array")
    assert len(message) == INTERNAL + 21
    reply = place.call(message).body
    assert (reply["ok"], reply["n"]) == (1, 2) and "writeErrors" not in reply
    assert [each["index"] for each in reply["upserted"]] == [0, 1]
    check_stored(place, coll, 2)
    (sent,) = commands(place)
    assert len(sent.sequences[b"updates"]) == 2


@pytest.mark.parametrize("numbered", [True, False], ids=["txnNumber", "plain"])
@pytest.mark.parametrize("count", [3, 48])
def test_a_message_that_becomes_too_large(place: Robbed, coll: str, count: int, ordered: bool,
                                          numbered: bool):
    """It goes in several; repeated by a driver, it changes nothing."""
    more = session() if numbered else {}
    place.server.client["sizes"][coll].create_index("k")
    room = wire.MAX_MESSAGE - len(update(coll, [upsert(k) for k in range(count)], ordered,
                                         more=more))
    message = update(coll, [upsert(k, room // count + (k < room % count)) for k in range(count)],
                     ordered, more=more)
    assert len(message) == wire.MAX_MESSAGE
    reply = place.call(message, timeout=300).body
    assert (reply["ok"], reply["n"], reply["nModified"]) == (1, count, 0)
    assert [each["index"] for each in reply["upserted"]] == list(range(count))
    assert "writeErrors" not in reply
    check_stored(place, coll, count)
    sent = commands(place)
    assert len(sent) == 2 and all(len(each.raw) <= wire.MAX_MESSAGE for each in sent)
    if numbered:
        again = place.call(message, timeout=300).body
        assert (again["n"], len(again["upserted"])) == (count, count)
        check_stored(place, coll, count)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [PART + 1, pytest.param(100_000, marks=pytest.mark.full)])
def test_a_reply_that_would_be_too_large(place: Robbed, coll: str, count: int):
    """mongod closes the connection when it has to report 100,000 errors."""
    stored = place.server.client["sizes"][coll]
    stored.create_index("k")
    stored.create_index("mail", unique=True, sparse=True)
    # What lies between the keys keeps mongod from looking at all upserts before that have failed.
    stored.insert_many([{"k": k + 0.5, "mail": k} for k in range(count)])
    message = update(coll, [upsert(k, mail=k) for k in range(count)], ordered=False)
    if count == 100_000:
        with wire.WireClient(place.server.address, timeout=300) as direct:
            direct.send(message)
            assert direct.closed_by_peer(300)
    raw = place.call(message, timeout=300)
    reply = raw.body
    assert (reply["ok"], reply["n"]) == (1, 0)
    assert [(each["index"], each["code"]) for each in reply["writeErrors"]] == [
        (k, 11000) for k in range(count)]
    assert len(raw.raw) <= INTERNAL, "more than any server sends"
    assert reply["writeErrors"][0]["keyPattern"] == {"mail": 1}
    assert stored.count_documents({}) == count
    sizes = [len(each.sequences[b"updates"]) for each in commands(place)]
    assert sum(sizes) == count and max(sizes) == PART
