"""Duplicates: just the documents that collided are sent again, and the client sees one clean reply.

A thief between proxy and mongod makes chosen documents collide, as often as the test says, and
keeps what was sent (support/thief.py). Every document has its key k, its place in the message.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from support import elements as el
from support import wire
from support.elements import Element, document, elements, int32
from support.full import FULL
from support.middleman import Cut
from support.mongod import Mongod
from support.process import eventually
from support.servers import check_retried, has
from support.thief import (ALWAYS, Hold, Passed, Robbed, fresh, insert_message, robbing, session,
                           slow_replies)

_DIGITS = {"strategy": "random-digits"}
# For small spaces that tests fill.
_FILLED = {**_DIGITS, "max_fill": 0.99}
_TEXT = {"strategy": "random-digits", "output": "string"}
_MODES = ["driver", "always", "missing-or-null"]

# Databases name the rule, collections are fresh for each test.
RULES = [
    {"ns": "id.*", "field": "_id", **_DIGITS},
    {"ns": "field.*", "field": "made", **_DIGITS},
    {"ns": "id-uuid.*", "field": "_id", "strategy": "uuid"},
    {"ns": "id-objectid.*", "field": "_id", "strategy": "objectid"},
    {"ns": "dotted.*", "field": "registration.number", **_DIGITS},
    {"ns": "deep.*", "field": "a.b.c.d", **_DIGITS},
    {"ns": "text.*", "field": "made", **_TEXT},
    {"ns": "id-text.*", "field": "_id", **_TEXT},
    {"ns": "two.*", "field": "a", **_DIGITS},
    {"ns": "two.*", "field": "b", **_DIGITS},
    *({"ns": f"assign-{mode}.*", "field": "_id", "assign": mode, **_DIGITS} for mode in _MODES),
    {"ns": "kept.*", "field": "_id", "assign": "driver", "keep_driver_id": "driver_id", **_DIGITS},
    {"ns": "attempts-0.*", "field": "made", "retry": {"attempts": 0}, **_DIGITS},
    {"ns": "attempts-1.*", "field": "made", "retry": {"attempts": 1}, **_DIGITS},
    {"ns": "attempts-3.*", "field": "made", "retry": {"attempts": 3}, **_DIGITS},
    {"ns": "deadline.*", "field": "made", **_DIGITS, "retry": {
        "attempts": 100, "backoff": "50ms", "backoff_max": "50ms", "deadline": "1s"}},
    {"ns": "backoff.*", "field": "made", **_DIGITS, "retry": {
        "attempts": 100, "backoff": "30ms", "backoff_max": "30ms", "deadline": "60s"}},
    {"ns": "tiny-1.*", "field": "made", "digits": 1, "retry": {"attempts": 100}, **_FILLED},
    {"ns": "tiny-1-default.*", "field": "made", "digits": 1, **_FILLED},
    {"ns": "tiny-2.*", "field": "made", "digits": 2, "retry": {
        "attempts": 100, "deadline": "60s"}, **_FILLED},
    {"ns": "four-digits.*", "field": "_id", "digits": 4, "retry": {"attempts": 100}, **_FILLED},
    {"ns": "five-digits.*", "field": "made", "digits": 5, "output": "int32",
     "retry": {"attempts": 1}, **_FILLED},
    {"ns": "patient.*", "field": "made", "retry": {"deadline": "60s"}, **_DIGITS},
]

@dataclass
class Place(Robbed):
    """A proxy and its server; numbered: inserts are retryable writes, with a txnNumber."""

    numbered: bool = False

    def session(self) -> dict[str, Any]:
        return session() if self.numbered else {}

    def message(self, ns: str, documents: list[Any], more: dict[str, Any] = {},
                **options: Any) -> bytes:
        return insert_message(ns, documents, more={**self.session(), **more}, **options)

    def insert(self, ns: str, documents: list[Any], **options: Any) -> dict[str, Any]:
        return self.call(self.message(ns, documents, **options)).body

    def direct(self, message: bytes) -> dict[str, Any]:
        """The answer to the same message past the proxy."""
        with wire.WireClient(self.server.address, 30) as client:
            return client.call(message)


@pytest.fixture(scope="module")
def robbed_standalone(standalone: Mongod, replica_set: Mongod) -> Iterator[Robbed]:
    """Nobody counts the documents of full spaces: where they are counted, none are."""
    with robbing(standalone, RULES, replica_set) as running:
        yield running


@pytest.fixture(scope="module")
def robbed_replica_set(standalone: Mongod, replica_set: Mongod) -> Iterator[Robbed]:
    """As robbed_standalone, in front of the replica set."""
    with robbing(replica_set, RULES, standalone) as running:
        yield running


PLACES = ["standalone", "replica_set", "txnNumber"]


@pytest.fixture(params=["standalone", pytest.param("replica_set", marks=pytest.mark.full), "txnNumber"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each test that asks for it runs on both kinds of server, on the set with txnNumber; in the full run also without
    it, which differs from a standalone by what numbered replies have too."""
    server = "standalone" if request.param == "standalone" else "replica_set"
    robbed = request.getfixturevalue(f"robbed_{server}")
    yield Place(**vars(robbed), numbered=request.param == "txnNumber")
    robbed.thief.forget()


def heavy(always: str) -> pytest.MarkDecorator:
    """For tests that take many seconds: in the normal run only in this place, in the full run in
    all of them."""
    others = [p for p in PLACES if p != always]
    return pytest.mark.parametrize(
        "place", [always, *(pytest.param(p, marks=pytest.mark.full) for p in others)],
        indirect=True)


@pytest.fixture
def replica(robbed_replica_set: Robbed) -> Iterator[Place]:
    """The replica set, with txnNumber."""
    yield Place(**vars(robbed_replica_set), numbered=True)
    robbed_replica_set.thief.forget()


def numbered(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"k": i, "text": f"document {i}", **more} for i in range(count)]


def at_path(found: dict[str, Any], path: str) -> Any:
    for name in path.split("."):
        found = found[name]
    return found


def errors(reply: dict[str, Any]) -> list[tuple[int, int]]:
    return [(e["index"], e["code"]) for e in reply.get("writeErrors", [])]


def check_sends(sends: list[Passed], numbers: list[int] | None = None) -> None:
    """What a re-send must share with the first send, and what it must have of its own.

    numbers: the statement numbers of the request's documents, if not 0, 1, 2...
    """
    def kept(message: Passed) -> list[Element]:
        own = (b"stmtId", b"stmtIds", b"maxTimeMS")
        return [e for e in message.head if e.name not in own]

    first, *again = sends
    position = {d.get("k"): i for i, d in enumerate(first.documents)}
    assert len({m.request_id for m in sends}) == len(sends)
    for message in again:
        assert message.connection == first.connection, "the client's own upstream connection"
        assert kept(message) == kept(first)
        if first.element("txnNumber") and not first.element("autocommit"):
            places = [position[d["k"]] for d in message.documents]
            expected = [numbers[p] if numbers else p for p in places]
            assert message.element("stmtIds") == el.element(0x04, "stmtIds", document(
                *(int32(str(i), n) for i, n in enumerate(expected)))), message.body
            assert message.element("stmtId") is None


def check_values(sends: list[Passed], replies: list[Passed], paths: list[str]) -> None:
    """A document that collided has a new value, never seen before in this request; the others,
    and all else in every document, are as they were."""
    before: dict[Any, dict[str, Any]] = {}
    seen: dict[str, set[bytes]] = {path: set() for path in paths}
    collided: dict[Any, set[str]] = {}
    for message, reply in zip(sends, replies, strict=True):
        for sent in message.documents:
            key = sent["k"]
            for path in paths:
                value = bson.encode({"": at_path(sent, path)})
                if key in before and path not in collided.get(key, ()):
                    assert at_path(sent, path) == at_path(before[key], path)
                    continue
                assert value not in seen[path], f"drawn again: {at_path(sent, path)}"
                seen[path].add(value)
            assert without(sent, paths) == without(before.get(key, sent), paths)
            assert list(sent) == list(before.get(key, sent))
            before[key] = sent
        collided = {
            message.documents[e["index"]]["k"]: {
                path for path in paths for pattern in e["keyPattern"]
                if path == pattern or path.startswith(pattern + ".")}
            for e in reply.body.get("writeErrors", []) if e["code"] == 11000}


def without(found: dict[str, Any], paths: list[str]) -> dict[str, Any]:
    """The document, without what is at these paths."""
    copy = bson.decode(bson.encode(found))
    for path in paths:
        *parents, last = path.split(".")
        (at_path(copy, ".".join(parents)) if parents else copy).pop(last, None)
    return copy


def check_cured(place: Place, ns: str, reply: dict[str, Any], keys: list[list[int]],
                *paths: str) -> None:
    """The request was sent as these keys say, everything is stored, and the reply says so."""
    sends, replies = place.thief.inserts(ns), place.thief.replies(ns)
    assert place.sent_keys(ns) == keys
    assert (reply["ok"], reply["n"]) == (1, len(keys[0])) and "writeErrors" not in reply, reply
    check_sends(sends)
    check_values(sends, replies, list(paths))
    last = {d["k"]: d for m in sends for d in m.documents}
    stored = place.stored(ns)
    assert [without(d, ["_id"] if "_id" not in paths else []) for d in stored] == [
        last[k] for k in sorted(last)]


def taken(place: Place, ns: str, theft_count: int) -> None:
    """The thief stored as many documents as the test thinks: the collisions were real."""
    assert place.collection(ns).count_documents({"stolen": True}) == theft_count


class TestResend:
    @pytest.mark.parametrize("times", [1, 5])
    def test_one_document(self, place, coll, times, ordered):
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", times)
        reply = place.insert(ns, numbered(1), ordered=ordered)
        check_cured(place, ns, reply, [[0]] * (times + 1), "made")
        taken(place, ns, times)

    @pytest.mark.parametrize("form", ["sequence", "sequence_first", "body"])
    @pytest.mark.parametrize("times, keys", [
        ({1: 1}, [[0, 1, 2, 3, 4], [1]]),
        ({0: 1, 4: 1}, [[0, 1, 2, 3, 4], [0, 4]]),
        ({1: 1, 3: 2}, [[0, 1, 2, 3, 4], [1, 3], [3]]),
        ({0: 3, 1: 1, 2: 2}, [[0, 1, 2, 3, 4], [0, 1, 2], [0, 2], [0]]),
        ({k: 1 for k in range(5)}, [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]),
    ], ids=["one", "ends", "two_rounds", "three_rounds", "all"])
    def test_unordered_sends_what_failed(self, place, coll, times, keys, form):
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", times)
        reply = place.insert(ns, numbered(5), ordered=False, form=form)
        check_cured(place, ns, reply, keys, "made")

    @pytest.mark.parametrize("form", ["sequence", "sequence_first", "body"])
    @pytest.mark.parametrize("times, keys", [
        ({1: 1}, [[0, 1, 2, 3, 4], [1, 2, 3, 4]]),
        ({0: 1, 4: 1}, [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [4]]),
        ({1: 1, 3: 2}, [[0, 1, 2, 3, 4], [1, 2, 3, 4], [3, 4], [3, 4]]),
        ({2: 3}, [[0, 1, 2, 3, 4], [2, 3, 4], [2, 3, 4], [2, 3, 4]]),
    ], ids=["one", "ends", "two_rounds", "three_rounds"])
    def test_ordered_sends_the_tail(self, place, coll, times, keys, form):
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", times)
        reply = place.insert(ns, numbered(5), ordered=True, form=form)
        check_cured(place, ns, reply, keys, "made")

    @pytest.mark.parametrize("db", ["id", "id-uuid", "id-objectid"])
    def test_ids(self, place, coll, db, ordered):
        """Every strategy has a fresh value; the index is that of _id."""
        ns = f"{db}.{coll}"
        place.thief.steal(ns, "_id", {0: 2, 2: 1})
        reply = place.insert(ns, numbered(4), ordered=ordered)
        keys = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [2, 3]] if ordered else [
            [0, 1, 2, 3], [0, 2], [0]]
        check_cured(place, ns, reply, keys, "_id")

    def test_every_byte_but_the_value(self, place, coll, ordered):
        """Documents with every type of BSON, small and large, are stored as they were sent."""
        ns = fresh(place, "field", coll, "made")
        sent = [document(int32("k", i), *el.every_type(), el.string("s", "x" * size))
                for i, size in enumerate([0, 3000, 100_000, 10])]
        place.thief.steal(ns, "made", 1)
        reply = place.insert(ns, sent, ordered=ordered)
        assert (reply["n"], "writeErrors" in reply) == (4, False)
        for before, after in zip(sent, place.stored_raw(ns), strict=True):
            first, *others, made = elements(after)
            assert (first.name, made.name) == (b"_id", b"made")
            assert b"".join(e.raw for e in others) == before[4:-1]

    def test_a_thousand(self, place, coll, ordered):
        """The first, one in the middle and the last of a large batch collide: one reply."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {0: 1, 499: 1, 999: 1})
        reply = place.insert(ns, numbered(1000), ordered=ordered)
        every = list(range(1000))
        if ordered:
            self.check_tails(place, ns, 1000)
        keys = place.sent_keys(ns) if ordered else [every, [0, 499, 999]]
        assert keys[0] == every
        check_cured(place, ns, reply, keys, "made")
        assert reply.keys() == place.direct(place.message(f"lucky.{coll}", numbered(1))).keys()

    def check_tails(self, place: Place, ns: str, count: int) -> None:
        """Ordered: each send goes on with the first document that is not stored. A long tail may
        go in several messages, since the whole of it would be sent for each collision."""
        at = 0
        for keys, reply in zip(place.sent_keys(ns), place.thief.replies(ns), strict=True):
            assert keys == list(range(at, at + len(keys)))
            at += reply.body["n"]
        assert at == count

    def test_pymongo(self, place, coll, ordered):
        """Forty documents of which every third collides; the driver's own ids stay."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", lambda d: d["k"] % 3 == 0)
        with place.proxy.client(retryWrites=place.numbered) as client:
            result = client["field"][coll].insert_many(
                [{"k": i} for i in range(40)], ordered=ordered)
        stored = place.stored(ns)
        assert [d["_id"] for d in stored] == result.inserted_ids
        assert len({d["made"] for d in stored}) == 40
        taken(place, ns, 14)
        numbers = place.thief.inserts(ns)[1].element("stmtIds")
        assert (numbers is not None) == place.numbered

    def test_beside_a_document_that_cannot_have_a_value(self, place, coll, ordered):
        """Document 2 is refused by the proxy; it counts when documents are numbered."""
        ns = fresh(place, "dotted", coll, "registration.number")
        sent = numbered(5)
        sent[2]["registration"] = "a string"
        place.thief.steal(ns, "registration.number", {1: 1, 3: 1})
        reply = place.insert(ns, sent, ordered=ordered)
        assert errors(reply) == [(2, 28)]
        assert reply["n"] == (2 if ordered else 4)
        assert [d["k"] for d in place.stored(ns)] == ([0, 1] if ordered else [0, 1, 3, 4])
        if not ordered and place.numbered:
            # 4.4 gives no number to the document that stands for 2.
            numbers = [1, 3] if has("keeps_writes") else [1, 2]
            assert place.thief.inserts(ns)[1].body["stmtIds"] == numbers

    @pytest.mark.tsan
    def test_many_clients_in_a_small_space(self, place, coll):
        """Sixteen clients draw 1,600 of 10,000 numbers, which collide by themselves."""
        ns = f"four-digits.{coll}"

        def client(number: int) -> None:
            with wire.WireClient(place.proxy.address, 60) as connection:
                for at in range(0, 100, 10):
                    batch = [{"k": number * 100 + at + i} for i in range(10)]
                    reply = connection.call(place.message(ns, batch, ordered=at % 20 == 0))
                    assert reply["n"] == 10, reply

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(client, range(16)))
        assert [d["k"] for d in place.stored(ns)] == list(range(1600))
        assert len(place.thief.inserts(ns)) > 160, "nothing collided"


class TestStatementNumbers:
    """With txnNumber: what decides between lost, doubled and right
    (docs/server-behaviour.md#retryable-writes)."""

    OFFSETS = {
        "none": ({}, [0, 1, 2, 3, 4]),
        "stmtId": ({"stmtId": 7}, [7, 8, 9, 10, 11]),
        "stmtId_negative": ({"stmtId": -9}, [-9, -8, -7, -6, -5]),
        "stmtIds": ({"stmtIds": [3, 100_000, 0, 9, 5]}, [3, 100_000, 0, 9, 5]),
    }

    @pytest.mark.parametrize("name", OFFSETS)
    def test_offset_by_the_clients_own(self, replica, coll, name, ordered):
        more, numbers = self.OFFSETS[name]
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 2, 3: 1})
        message = replica.message(ns, numbered(5), ordered=ordered, more=more)
        assert replica.call(message).body["n"] == 5
        sends = replica.thief.inserts(ns)
        assert {k: v for k, v in sends[0].body.items() if k.startswith("stmt")} == more
        check_sends(sends, numbers)
        assert len(sends) == (4 if ordered else 3)
        self.check_replay(replica, ns, message, numbers)

    def check_replay(self, replica: Place, ns: str, message: bytes, numbers: list[int]) -> None:
        """The driver's retry of the whole message finds every statement executed."""
        before = replica.stored_raw(ns)
        again = replica.call(message).body
        assert again["n"] == 5
        check_retried(again, numbers)
        assert replica.stored_raw(ns) == before

    @pytest.mark.parametrize("more", [{"stmtIds": [1, 1]}, {"stmtIds": [4, 0, 2, 4]}],
                             ids=str)
    def test_equal_ones_are_refused(self, replica, coll, more):
        """They would abort the primary; nothing reaches it."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made")
        reply = replica.insert(ns, numbered(len(more["stmtIds"])), more=more)
        assert (reply["ok"], reply["code"], reply["codeName"]) == (0, 72, "InvalidOptions")
        assert not replica.thief.inserts(ns) and not replica.stored(ns)

    def test_only_with_a_transaction_number(self, replica, coll, ordered):
        """A session alone needs none: no driver retries this."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1, 3: 1})
        replica.numbered = False
        reply = replica.insert(ns, numbered(5), ordered=ordered, more={
            "lsid": session()["lsid"]})
        every = list(range(5))
        check_cured(replica, ns, reply,
                    [every, every[1:], every[3:]] if ordered else [every, [1, 3]], "made")
        assert not [m for m in replica.thief.inserts(ns) if m.element("stmtIds")]

    @pytest.mark.parametrize("more", [{"stmtIds": [5, 6, 7, 8, 9]}, {"stmtId": 5}], ids=str)
    def test_without_effect(self, replica, coll, more, ordered):
        """mongod takes them without txnNumber too, but wants as many as documents."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1, 3: 1})
        replica.numbered = False
        reply = replica.insert(ns, numbered(5), ordered=ordered, more=more)
        assert (reply["n"], "writeErrors" in reply) == (5, False), reply
        assert [d["k"] for d in replica.stored(ns)] == [0, 1, 2, 3, 4]

    def test_statements_executed_before(self, replica, coll, ordered):
        """Some statements were executed by an attempt that did not come through the proxy; of an
        ordered insert, 4.4 only stands the first ones."""
        executed = [0, 1] if ordered and not has("keeps_writes") else [0, 2]
        ns = fresh(replica, "field", coll, "made")
        mine = session()
        assert replica.direct(insert_message(
            ns, [{"k": k, "made": 1 + k} for k in executed],
            more={**mine, "stmtIds": executed}))["n"] == 2
        replica.thief.steal(ns, "made", {k: 1 for k in range(4) if k not in executed})
        reply = replica.insert(ns, numbered(4), ordered=ordered, more=mine)
        assert reply["n"] == 4, reply
        check_retried(reply, executed)
        assert "writeErrors" not in reply
        stored = {d["k"]: d["made"] for d in replica.stored(ns)}
        assert list(stored) == [0, 1, 2, 3]
        assert [stored[k] for k in executed] == [1 + k for k in executed]

    def test_the_sessions_next_write_is_stored(self, replica, coll, ordered):
        """The proxy used no number of its own."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", 2)
        mine = session()
        for number in (1, 2, 3):
            batch = [{"k": number * 10 + i} for i in range(3)]
            mine["txnNumber"] = bson.Int64(number)
            reply = replica.insert(ns, batch, ordered=ordered, more=mine)
            assert reply["n"] == 3 and "retriedStmtIds" not in reply
        assert [d["k"] for d in replica.stored(ns)] == [10, 11, 12, 20, 21, 22, 30, 31, 32]

    @pytest.mark.parametrize("method", ["insert_one", "insert_many"])
    def test_pymongo_retries_what_the_server_refused(self, replica, coll, method):
        """The re-send is answered with NotWritablePrimary: the driver's retry of everything
        stores only what is missing."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {0: 1, 2: 1})
        armed: list[bool] = []

        def step_down(message: Passed) -> bytes:
            if message.ns == ns and message.element("stmtIds") and not armed:
                armed.append(True)
                _fail_next_insert(replica.server, ns, errorCode=10107,
                                  errorLabels=["RetryableWriteError"])
            return message.raw

        with replica.thief.hook(step_down), replica.proxy.client() as client:
            target = client["field"][coll]
            if method == "insert_one":
                target.insert_one(RawBSONDocument(bson.encode({"k": 0})))
            else:
                target.insert_many([RawBSONDocument(bson.encode({"k": i})) for i in range(4)],
                                   ordered=False)
        stored = replica.stored(ns)
        assert [d["k"] for d in stored] == ([0] if method == "insert_one" else [0, 1, 2, 3])
        sends = replica.thief.inserts(ns)
        # 4.4 leaves out the rest of what is repeated: it is sent once more.
        assert len(sends) == 3 or not has("keeps_writes")
        assert sends[2].element("stmtIds") is None


def _fail_next_insert(server: Mongod, ns: str, times: int = 1, **data: Any) -> None:
    server.client.admin.command(
        "configureFailPoint", "failCommand", mode={"times": times},
        data={"failCommands": ["insert"], "namespace": ns, **data})


@dataclass
class Shape:
    """A unique index on which generated values collide."""

    name: str
    db: str
    field: str
    keys: list[tuple[str, int]] | None = None  # None: the index on _id
    options: dict[str, Any] = field(default_factory=dict)
    collection: dict[str, Any] = field(default_factory=dict)
    copy: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)  # in each document

    def make(self, place: Robbed, coll: str) -> str:
        target = place.server.client[self.db].create_collection(coll, **self.collection)
        if self.keys:
            target.create_index(self.keys, unique=True, **self.options)
        return f"{self.db}.{coll}"


_NO_CASE = {"collation": {"locale": "en", "strength": 2}}
_LONG_TEXT = "ä" * 10_000

SHAPES = [
    Shape("plain", "field", "made", [("made", 1)]),
    Shape("descending", "field", "made", [("made", -1)]),
    Shape("misleading_name", "field", "made", [("made", 1)], {"name": "other_1"}),
    Shape("compound", "field", "made", [("tenant", 1), ("made", -1)], copy=("tenant",),
          more={"tenant": 5}),
    Shape("compound_first", "field", "made", [("made", -1), ("tenant", 1)], copy=("tenant",),
          more={"tenant": 5}),
    Shape("compound_null", "field", "made", [("tenant", 1), ("made", 1)]),
    Shape("compound_dotted", "dotted", "registration.number",
          [("tenant.id", -1), ("registration.number", 1)], copy=("tenant.id",),
          more={"tenant": {"id": "t"}}),
    Shape("multikey_beside", "field", "made", [("tags", 1), ("made", 1)], copy=("tags",),
          more={"tags": ["a", "b"]}),
    Shape("dotted", "dotted", "registration.number", [("registration.number", 1)]),
    Shape("prefix", "dotted", "registration.number", [("registration", 1)],
          copy=("registration",)),
    Shape("prefix_of_more", "dotted", "registration.number", [("registration", 1)],
          copy=("registration",), more={"registration": {"country": "x"}}),
    Shape("prefix_deep", "deep", "a.b.c.d", [("a.b", 1)], copy=("a",)),
    Shape("partial", "field", "made", [("made", 1)],
          {"partialFilterExpression": {"status": "live"}}, copy=("status",),
          more={"status": "live"}),
    Shape("sparse", "field", "made", [("made", 1)], {"sparse": True}),
    Shape("collated", "text", "made", [("made", 1)], _NO_CASE),
    Shape("collated_compound", "text", "made", [("x", 1), ("made", -1)], _NO_CASE),
    Shape("default_collation", "text", "made", [("made", 1)], collection=_NO_CASE),
    Shape("default_collation_id", "id-text", "_id", collection=_NO_CASE),
    Shape("id", "id", "_id"),
    Shape("cut_in_mid_character", "field", "made", [("text", 1), ("made", 1)], copy=("text",),
          more={"text": _LONG_TEXT}),
    Shape("cut_by_one_more", "field", "made", [("text", 1), ("made", 1)], copy=("text",),
          more={"text": "x" + _LONG_TEXT}),
]
if has("clustered"):
    SHAPES += [
        Shape("clustered", "id", "_id",
              collection={"clusteredIndex": {"key": {"_id": 1}, "unique": True}}),
        Shape("clustered_named", "id", "_id", collection={
            "clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "made by id"}}),
    ]
BY_NAME = {shape.name: shape for shape in SHAPES}


class TestOurs:
    """A key of keyPattern is the field, or a dotted prefix of it."""

    @pytest.mark.parametrize("name", BY_NAME)
    def test_is_cured(self, place, coll, name, ordered):
        shape = BY_NAME[name]
        ns = shape.make(place, coll)
        place.thief.steal(ns, shape.field, {0: 1, 2: 2}, shape.copy)
        reply = place.insert(ns, [{"k": i, **shape.more} for i in range(4)], ordered=ordered)
        keys = [[0, 1, 2, 3], [0, 1, 2, 3], [2, 3], [2, 3]] if ordered else [
            [0, 1, 2, 3], [0, 2], [2]]
        check_cured(place, ns, reply, keys, shape.field)

    def test_the_shapes_are_what_they_are_called(self, robbed_replica_set, coll):
        """Otherwise the table above says less than it seems to."""
        def error(name: str) -> dict[str, Any]:
            shape = BY_NAME[name]
            ns = shape.make(robbed_replica_set, f"{coll}-{name}")
            row = {shape.field: "1" if "text" in shape.db else 1, **shape.more}
            message = insert_message(ns, [row, row])
            with wire.WireClient(robbed_replica_set.server.address) as client:
                client.send(message)
                raw = client.receive().body_bytes
            (found,) = bson.decode(raw, wire._LENIENT)["writeErrors"]
            return found | {"raw": raw}

        coded = error("default_collation_id")
        if has("clustered"):
            assert "hexEncoded" in coded
            assert "index:" not in error("clustered")["errmsg"]
        else:  # a key of the collation as it is, though it may be no UTF-8
            assert coded["keyValue"]["_id"].startswith("\x14")
        with pytest.raises(UnicodeDecodeError):
            cut = [error(name)["raw"] for name in ("cut_in_mid_character", "cut_by_one_more")]
            for raw in cut:
                (only,) = elements(_element(raw, "writeErrors").value)
                _element(only.value, "errmsg").value[4:-1].decode()

    def test_two_indexes_one_after_the_other(self, place, coll, ordered):
        """mongod reports only the first; the second speaks when the first is content."""
        ns = fresh(place, "two", coll, "a", "b")
        place.thief.steal(ns, "a", {1: 1})
        place.thief.steal(ns, "b", {1: 2})
        reply = place.insert(ns, numbered(3), ordered=ordered)
        keys = [[0, 1, 2], *[[1, 2] if ordered else [1]] * 3]
        check_cured(place, ns, reply, keys, "a", "b")


class TestAssign:
    """What replaces a sent value is renewed in its place."""

    def oid(self, seconds_ago: float = 1) -> ObjectId:
        stamp = struct.pack(">I", int(time.time() - seconds_ago))
        return ObjectId(stamp + ObjectId().binary[4:])

    @pytest.mark.parametrize("mode", _MODES)
    @pytest.mark.parametrize("place_of_id", ["first", "last"])
    def test_is_cured(self, place, coll, mode, place_of_id, ordered):
        ns = f"assign-{mode}.{coll}"
        place.thief.steal(ns, "_id", {0: 2, 2: 1})
        sent = []
        for i in range(3):
            made = {"_id": None if mode == "missing-or-null" else self.oid()}
            sent.append({**made, "k": i} if place_of_id == "first" else {"k": i, **made})
        reply = place.insert(ns, sent, ordered=ordered)
        keys = [[0, 1, 2]] * 3 + [[2]] if ordered else [[0, 1, 2], [0, 2], [0]]
        check_cured(place, ns, reply, keys, "_id")
        assert all(isinstance(d["_id"], int) for d in place.stored(ns))

    @pytest.mark.parametrize("value", ["mine", 5, None, "old"])
    def test_what_is_not_replaced_is_not_renewed(self, place, coll, value, ordered):
        """The duplicate of a value that the client chose is the client's."""
        if value == "old":
            value = self.oid(3600)
        ns = f"assign-driver.{coll}" if value is not None else f"id.{coll}"
        place.collection(ns).insert_one({"_id": value, "stolen": True})
        sent = [{"k": 0, "_id": self.oid()} if value is not None else {"k": 0},
                {"k": 1, "_id": value}]
        place.thief.steal(ns, "_id", {0: 1})
        reply = place.insert(ns, sent, ordered=ordered)
        assert (reply["n"], errors(reply)) == (1, [(1, 11000)])
        assert reply["writeErrors"][0]["keyValue"] == {"_id": value}
        assert place.sent_keys(ns) == [[0, 1], [0, 1] if ordered else [0]]

    def test_the_drivers_id_is_kept_beside(self, place, coll, ordered):
        ns = f"kept.{coll}"
        place.thief.steal(ns, "_id", {0: 2, 2: 1})
        with place.proxy.client(retryWrites=place.numbered) as client:
            result = client["kept"][coll].insert_many(
                [{"k": i} for i in range(4)], ordered=ordered)
        stored = place.stored(ns)
        assert [d["driver_id"] for d in stored] == result.inserted_ids
        assert len({d["_id"] for d in stored if isinstance(d["_id"], int)}) == 4


def _element(raw: bytes, name: str) -> Element:
    (found,) = [e for e in elements(raw) if e.name == name.encode()]
    return found


class TestForeign:
    """What is not ours keeps its index, its text and its effects."""

    def untouched(self, place: Place, ns: str, message: bytes) -> dict[str, Any]:
        """The message is sent once, and the reply is mongod's to the last byte."""
        reply = place.call(message)
        assert len(place.thief.inserts(ns)) == 1
        (answer,) = place.thief.replies(ns)
        assert reply.raw == answer.raw
        return bson.decode(reply.body_bytes, wire._LENIENT)

    # Rule's database, keys of a unique index, a field of each document.
    NOT_OURS = {
        "below": ("field", [("made.x", 1)], {}),
        "below_in_compound": ("field", [("tenant", 1), ("made.x.y", 1)], {"tenant": 1}),
        "below_dotted": ("dotted", [("registration.number.x", 1)], {}),
        "longer_name": ("field", [("made_by", 1)], {"made_by": "me"}),
        "shorter_name": ("field", [("mad", 1)], {"mad": 1}),
        "other_case": ("field", [("Made", 1)], {"Made": 1}),
        "beside_dotted": ("dotted", [("registration.country", 1)],
                          {"registration": {"country": "x"}}),
        "prefix_of_a_name": ("dotted", [("reg", 1)], {"reg": 1}),
        "named_as_ours": ("field", [("other", 1)], {"other": 1}),
    }

    @pytest.mark.parametrize("name", NOT_OURS)
    def test_another_index(self, place, coll, name, ordered):
        db, keys, more = self.NOT_OURS[name]
        ns = f"{db}.{coll}"
        options = {"name": "made_1"} if name == "named_as_ours" else {}
        place.collection(ns).create_index(keys, unique=True, **options)
        reply = self.untouched(place, ns, place.message(
            ns, [{"k": i, **more} for i in range(3)], ordered=ordered))
        assert errors(reply) == ([(1, 11000)] if ordered else [(1, 11000), (2, 11000)])
        assert list(reply["writeErrors"][0]["keyPattern"]) == [key for key, _ in keys]
        assert [d["k"] for d in place.stored(ns)] == [0]

    @pytest.mark.parametrize("fieldname, db", [("made", "field"), ("_id", "id"),
                                               ("registration.number", "dotted")])
    def test_the_clients_own_value(self, place, coll, fieldname, db, ordered):
        ns = fresh(place, db, coll, *([fieldname] if fieldname != "_id" else []))
        own: dict[str, Any] = {"registration": {"number": 5}} if db == "dotted" else {fieldname: 5}
        place.collection(ns).insert_one({**own, "stolen": True})
        reply = self.untouched(place, ns, place.message(
            ns, [{"k": 0}, {"k": 1, **own}, {"k": 2}], ordered=ordered))
        assert (reply["n"], errors(reply)) == (1 if ordered else 2, [(1, 11000)])

    @pytest.mark.parametrize("first", ["foreign", "ours"])
    def test_a_foreign_index_violated_by_the_same_document(self, place, coll, first, ordered):
        """One error, no loop; ours is cured on the way, if it is first."""
        ns = fresh(place, "field", coll, *(
            ["email", "made"] if first == "foreign" else ["made", "email"]))
        place.collection(ns).insert_one({"email": "a@b", "stolen": True})
        place.thief.steal(ns, "made", {2: 1})
        sent = numbered(4)
        sent[2]["email"] = "a@b"
        reply = place.insert(ns, sent, ordered=ordered)
        assert (reply["ok"], reply["n"], errors(reply)) == (1, 2 if ordered else 3, [(2, 11000)])
        (error,) = reply["writeErrors"]
        assert (error["keyPattern"], error["keyValue"]) == ({"email": 1}, {"email": "a@b"})
        assert [d["k"] for d in place.stored(ns)] == ([0, 1] if ordered else [0, 1, 3])
        again = [[2, 3]] if ordered else [[2]]
        assert place.sent_keys(ns) == [[0, 1, 2, 3]] + (again if first == "ours" else [])

    # What is wrong with a document, and the code of its error.
    BAD: dict[str, tuple[dict[str, Any], int]] = {
        "validation": ({"checked": "text"}, 121),
        "size": ({"s": "x" * (16 * 1024 * 1024)}, 2),
        "duplicate": ({"email": "a@b"}, 11000),
        "id_is_an_array": ({"_id": [1]}, 53 if has("array_id_is_53") else 2),
        "dollar_in_id": ({"_id": {"$a": 1}}, 52),
    }

    def checked(self, place: Place, coll: str) -> str:
        place.server.client["field"].create_collection(
            coll, validator={"checked": {"$in": [None, 1]}})
        ns = fresh(place, "field", coll, "email", "made")
        place.collection(ns).insert_one({"email": "a@b", "stolen": True})
        return ns

    @pytest.mark.parametrize("bad", BAD)
    def test_stops_an_ordered_batch(self, place, coll, bad):
        """Documents 0 and 1 are cured, 2 is bad, 3 would collide too but has no turn."""
        more, code = self.BAD[bad]
        ns = self.checked(place, coll)
        place.thief.steal(ns, "made", {0: 1, 1: 1, 3: 1})
        reply = place.insert(ns, [{"k": 0}, {"k": 1}, {"k": 2, **more}, {"k": 3}, {"k": 4}])
        assert (reply["ok"], reply["n"], errors(reply)) == (1, 2, [(2, code)])
        assert place.sent_keys(ns) == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [1, 2, 3, 4]]
        assert [d["k"] for d in place.stored(ns)] == [0, 1]
        answer = place.thief.replies(ns)[-1].body["writeErrors"][0]
        assert reply["writeErrors"] == [answer | {"index": 2}]
        assert list(reply["writeErrors"][0]) == list(answer)

    def test_all_of_them_in_an_unordered_batch(self, place, coll):
        """Errors of the first send and of a later one, in the order of the documents."""
        ns = self.checked(place, coll)
        bad = [{"k": 2 * i + 1, **more} for i, (more, _) in enumerate(self.BAD.values())]
        good = [{"k": 2 * i} for i in range(len(bad) + 1)]
        place.thief.steal(ns, "made", {0: 1, 2: 2, 4: 1, 10: 3})
        reply = place.insert(ns, sorted(good + bad, key=lambda d: d["k"]), ordered=False)
        assert (reply["ok"], reply["n"]) == (1, len(good))
        assert errors(reply) == [(2 * i + 1, code) for i, (_, code) in enumerate(self.BAD.values())]
        first = place.thief.replies(ns)[0].body["writeErrors"]
        assert reply["writeErrors"] == [e for e in first if e["index"] % 2]
        assert place.sent_keys(ns)[1:] == [[0, 2, 4, 10], [2, 10], [10]]
        assert [d["k"] for d in place.stored(ns)] == [d["k"] for d in good]

    def test_errors_of_different_sends_ascend(self, place, coll):
        """Document 1 shows its foreign duplicate only in the second send, 3 in the first, 0 in
        the third."""
        ns = fresh(place, "field", coll, "made", "email")
        place.collection(ns).insert_one({"email": "a@b", "stolen": True})
        place.thief.steal(ns, "made", {0: 2, 1: 1, 4: 1})
        sent = [{"k": i, **({"email": "a@b"} if i in (0, 1, 3) else {})} for i in range(5)]
        reply = place.insert(ns, sent, ordered=False)
        assert (reply["n"], errors(reply)) == (2, [(0, 11000), (1, 11000), (3, 11000)])
        assert all(e["keyPattern"] == {"email": 1} for e in reply["writeErrors"])

    def test_an_error_text_cut_in_mid_character(self, place, coll):
        """It arrives as mongod wrote it, though it is no UTF-8; in a merged reply too."""
        for kept in (BY_NAME["cut_in_mid_character"], BY_NAME["cut_by_one_more"]):
            ns = f"field.{coll}-{kept.name}"
            place.collection(ns).create_index(
                [("text", 1), ("own", 1)], unique=True,
                partialFilterExpression={"own": {"$exists": True}})
            place.collection(ns).create_index("made", unique=True)
            place.collection(ns).insert_one({**kept.more, "own": 1, "stolen": True})
            place.thief.steal(ns, "made", {0: 1})
            sent = [{"k": 0}, {"k": 1, **kept.more, "own": 1}, {"k": 2, "text": "short"}]
            reply = place.call(place.message(ns, sent, ordered=False))
            (mine,) = elements(_element(reply.body_bytes, "writeErrors").value)
            _, theirs = elements(_element(
                place.thief.replies(ns)[0].body_bytes, "writeErrors").value)
            assert mine.value == theirs.value
            assert reply.body["n"] == 2


class TestBody:
    """What the client sent beside the documents."""

    def test_is_sent_again_as_it_is(self, replica, coll, ordered):
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1, 2: 1})
        time_now = replica.server.client.admin.command("ping")["$clusterTime"]
        strict = {"apiVersion": "1", "apiStrict": True, "apiDeprecationErrors": False}
        if not has("strict_api"):
            strict = {}
        replica.insert(ns, numbered(4), ordered=ordered, more={
            "writeConcern": {"w": 1, "j": False, "wtimeout": 5000},
            "bypassDocumentValidation": True, "comment": {"why": ["test", 1.5]},
            "$clusterTime": time_now, "$readPreference": {"mode": "primary"}, **strict})
        sends = replica.thief.inserts(ns)
        check_sends(sends)
        assert {e.name for e in sends[1].head} >= {
            b"writeConcern", b"comment", b"$clusterTime", b"lsid", b"ordered",
            *(name.encode() for name in strict)}
        assert [d["k"] for d in replica.stored(ns)] == [0, 1, 2, 3]

    @pytest.mark.parametrize("form", ["sequence", "sequence_first", "body"])
    def test_checksum(self, place, coll, form, ordered):
        """Re-sends have a right one, if the request has; so has the merged reply."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {1: 2})
        reply = place.call(place.message(
            ns, numbered(3), ordered=ordered, form=form, flags=wire.CHECKSUM_PRESENT))
        assert reply.body["n"] == 3 and reply.flags & wire.CHECKSUM_PRESENT
        sends = place.thief.inserts(ns)
        assert len(sends) == 3 and all(m.flags & wire.CHECKSUM_PRESENT for m in sends)
        check_sends(sends)  # and Passed verifies the checksums

    # Options that mongod takes, in a form that no driver sends.
    ODD: dict[str, dict[str, Any]] = {
        "ordered_null": {"ordered": None}, "stmtId_null": {"stmtId": None},
        "autocommit_null": {"autocommit": None},
        "startTransaction_null": {"startTransaction": None},
        "maxTimeMS_decimal": {"maxTimeMS": bson.Decimal128("5000")},
        "maxTimeMS_the_largest": {"maxTimeMS": 2**31 - 1},
        "stmtId_that_overflows": {"stmtId": 2**31 - 2},
        "w_as_double": {"writeConcern": {"w": 1.0}}, "empty_writeConcern": {"writeConcern": {}},
    }

    @pytest.mark.parametrize("name", ODD)
    def test_odd_options(self, replica, coll, name):
        """Cured or passed on, but what the reply says is true, and the retry of it harmless."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1, 3: 1})
        head = {"insert": coll, "ordered": False, **session(), **self.ODD[name], "$db": "field"}
        message = wire.op_msg(wire.body(head), wire.sequence("documents", numbered(5)))
        reply = replica.call(message).body
        missing = {i for i, code in errors(reply) if code == 11000}
        if reply["n"] < 5 - len(missing):  # ordered by default: it stops
            missing |= set(range(min(missing), 5))
        assert (reply["ok"], reply["n"]) == (1, 5 - len(missing)), reply
        assert {d["k"] for d in replica.stored(ns)} == set(range(5)) - missing
        again = replica.call(message).body
        if "code" in again:  # where the server has left some out, and options keep it unknown which
            assert again["code"] == 96 and not has("keeps_writes"), again
            return
        assert (again["ok"], again["n"]) == (1, 5), again
        assert [d["k"] for d in replica.stored(ns)] == [0, 1, 2, 3, 4]


class TestMaxTime:
    """maxTimeMS is for the whole command, however often it is sent."""

    @pytest.mark.parametrize("number", [5000, bson.Int64(5000), 5000.0], ids=["int32", "int64",
                                                                             "double"])
    def test_is_charged(self, place, coll, number, ordered):
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {1: 2})
        with slow_replies(place.thief, place.server, lambda sent: sent.ns == ns, 0.05):
            reply = place.insert(ns, numbered(3), ordered=ordered, more={"maxTimeMS": number})
        assert reply["n"] == 3
        sent = [m.body["maxTimeMS"] for m in place.thief.inserts(ns)]
        assert sent[0] == 5000 and len(sent) == 3
        assert 0 < sent[2] <= sent[1] - 50 and sent[1] <= 5000 - 50, sent

    def test_used_up(self, replica, coll, ordered):
        """The last duplicate is the answer, as mongod wrote it."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: ALWAYS})
        with slow_replies(replica.thief, replica.server, lambda sent: sent.ns == ns, 2.5):
            reply = replica.insert(ns, numbered(3), ordered=ordered, more={"maxTimeMS": 2000})
        assert (reply["ok"], reply["n"], errors(reply)) == (1, 1 if ordered else 2, [(1, 11000)])
        assert len(replica.thief.inserts(ns)) == 1
        assert reply["writeErrors"] == replica.thief.replies(ns)[0].body["writeErrors"]


class TestMerge:
    """The client cannot tell a merged reply from a lucky one
    (docs/server-behaviour.md#merging-replies)."""

    TIMES = ("opTime", "operationTime", "$clusterTime", "electionId")

    def like(self, place: Place, ns: str, reply: wire.Message, lucky: dict[str, Any]) -> None:
        """Fields and their order as in the lucky reply, values too; times are the last reply's."""
        mine = reply.body
        if has("order_of_reply"):
            assert list(mine) == list(lucky)
        assert sorted((e.name, e.type) for e in elements(reply.body_bytes)) == sorted(
            (e.name, e.type) for e in elements(bson.encode(lucky)))
        last = place.thief.replies(ns)[-1]
        for name in self.TIMES:
            if name in lucky:
                assert _element(reply.body_bytes, name) == last.element(name)
        for name in lucky.keys() - set(self.TIMES):
            assert mine[name] == lucky[name]
        assert reply.flags == 0 and reply.op_code == wire.OP_MSG

    def lucky(self, place: Place, coll: str, documents: list[dict[str, Any]], ordered: bool,
              more: dict[str, Any] = {}) -> dict[str, Any]:
        """mongod's reply to these documents where nothing collides."""
        return place.direct(place.message(
            f"lucky.{coll}", documents, ordered=ordered, more=more))

    @pytest.mark.parametrize("times", [{1: 1}, {0: 2, 2: 1}, {0: 1, 1: 1, 2: 1, 3: 1}], ids=str)
    def test_all_stored(self, place, coll, times, ordered):
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", times)
        reply = place.call(place.message(ns, numbered(4), ordered=ordered))
        self.like(place, ns, reply, self.lucky(place, coll, numbered(4), ordered))

    def test_with_an_error(self, place, coll, ordered):
        """Everything cured but a document that no server takes."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {0: 1, 2: 1})
        sent = numbered(5)
        sent[3]["_id"] = [1]
        reply = place.call(place.message(ns, sent, ordered=ordered))
        self.like(place, ns, reply, self.lucky(place, coll, sent, ordered))

    WRITE_CONCERN_ERROR = {"code": 64, "codeName": "WriteConcernFailed",
                           "errmsg": "waiting for replication timed out",
                           "errInfo": {"wtimeout": True}}

    def fail_sends(self, place: Place, ns: str, which: set[int], **error: Any) -> Any:
        """A hook that makes the server add a writeConcernError to these sends."""
        count = itertools.count()

        def hook(message: Passed) -> bytes:
            if message.ns == ns and (number := next(count)) in which:
                text = f"send {number}"
                _fail_next_insert(place.server, ns, writeConcernError={
                    **self.WRITE_CONCERN_ERROR, "errmsg": text, **error})
            return message.raw
        return place.thief.hook(hook)

    @pytest.mark.parametrize("which", [{1}, {0, 1}, {2}, {0, 1, 2}], ids=str)
    def test_the_last_write_concern_error(self, replica, coll, which, ordered):
        """Of the last of three sends, or of an earlier one."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 2})
        with self.fail_sends(replica, ns, which):
            reply = replica.insert(ns, numbered(3), ordered=ordered)
        assert reply["n"] == 3 and "writeErrors" not in reply
        assert len(replica.thief.inserts(ns)) == 3
        found = reply.get("writeConcernError")
        if max(which) == 2 or found:  # one that a later send outlived may be dropped
            assert found["code"] == 64 and found["errmsg"] == f"send {max(which)}"
            names = list(reply)
            if has("order_of_reply"):
                assert names.index("n") < names.index("writeConcernError") < names.index("ok")

    def test_a_retryable_write_concern_error_has_its_label(self, replica, coll, ordered):
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1})
        message = replica.message(ns, numbered(3), ordered=ordered)
        with self.fail_sends(replica, ns, {1}, code=91, codeName="ShutdownInProgress"):
            reply = replica.call(message).body
        assert (reply["ok"], reply["n"], reply["writeConcernError"]["code"]) == (1, 3, 91)
        assert reply["errorLabels"] == ["RetryableWriteError"]
        names = [name for name in reply if name not in self.TIMES]
        expected = ["n", "writeConcernError", "ok", "errorLabels"]
        assert names == expected if has("order_of_reply") else set(names) == set(expected)
        before = replica.stored_raw(ns)
        assert replica.call(message).body["n"] == 3  # the driver's retry
        assert replica.stored_raw(ns) == before

    @pytest.mark.parametrize("code, name", [
        (10107, "NotWritablePrimary"), (91, "ShutdownInProgress"), (13, "Unauthorized")])
    def test_an_error_of_the_whole_re_send_is_the_answer(self, replica, coll, code, name, ordered):
        """As it came, but for responseTo; nothing more is sent."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: ALWAYS})

        def hook(message: Passed) -> bytes:
            if message.ns == ns and message.element("stmtIds"):
                _fail_next_insert(replica.server, ns, errorCode=code)
            return message.raw

        with replica.thief.hook(hook):
            reply = replica.call(replica.message(ns, numbered(3), ordered=ordered))
        assert (reply.body["ok"], reply.body["codeName"]) == (0, name)
        assert reply.body_bytes == replica.thief.replies(ns)[-1].body_bytes
        assert len(replica.thief.inserts(ns)) == 2

    def test_a_server_that_knows_no_statement_numbers(self, replica, coll, ordered):
        """The duplicates found before are the answer: without stmtIds no retry is safe."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1})

        def hook(message: Passed) -> bytes:
            if message.ns == ns and message.element("stmtIds"):
                return message.raw.replace(b"stmtIds", b"stmtIdx")
            return message.raw.replace(b"stmtIdx", b"stmtIds")

        with replica.thief.hook(hook):
            reply = replica.call(replica.message(ns, numbered(3), ordered=ordered))
        refused = replica.thief.replies(ns)[1].body
        assert refused["ok"] == 0 and "stmtIdx" in refused["errmsg"]
        assert (reply.body["ok"], reply.body["n"]) == (1, 1 if ordered else 2)
        assert errors(reply.body) == [(1, 11000)]


class TestBounds:
    def last_duplicate(self, place: Place, ns: str, reply: dict[str, Any], index: int) -> None:
        """The one error is mongod's last one, at the client's index."""
        (last,) = place.thief.replies(ns)[-1].body["writeErrors"]
        assert reply["writeErrors"] == [last | {"index": index}]
        assert list(reply["writeErrors"][0]) == list(last)
        sent = [d for d in place.thief.inserts(ns)[-1].documents if d["k"] == index]
        assert last["keyValue"] == {"made": sent[0]["made"]}

    @pytest.mark.parametrize("attempts", [1, 3])
    def test_attempts(self, place, coll, attempts, ordered):
        """Exactly so many re-sends; then the last duplicate as mongod wrote it."""
        ns = fresh(place, f"attempts-{attempts}", coll, "made")
        place.thief.steal(ns, "made", {2: ALWAYS})
        reply = place.insert(ns, numbered(5), ordered=ordered)
        assert (reply["ok"], reply["n"]) == (1, 2 if ordered else 4)
        again = [2, 3, 4] if ordered else [2]
        assert place.sent_keys(ns) == [[0, 1, 2, 3, 4]] + [again] * attempts
        self.last_duplicate(place, ns, reply, 2)
        assert [d["k"] for d in place.stored(ns)] == ([0, 1] if ordered else [0, 1, 3, 4])
        check_sends(place.thief.inserts(ns))
        check_values(place.thief.inserts(ns), place.thief.replies(ns), ["made"])

    def test_in_the_middle_of_a_long_ordered_batch(self, place, coll):
        """Everything before it is stored, nothing behind it."""
        ns = fresh(place, "attempts-3", coll, "made")
        place.thief.steal(ns, "made", {5: 1, 300: 2, 700: ALWAYS, 900: 1})
        reply = place.insert(ns, numbered(1000))
        assert (reply["ok"], reply["n"]) == (1, 700)
        self.last_duplicate(place, ns, reply, 700)
        assert [d["k"] for d in place.stored(ns)] == list(range(700))

    def test_deadline(self, place, coll, ordered):
        """Of 100 attempts 50 ms apart only those within a second are made."""
        ns = fresh(place, "deadline", coll, "made")
        place.thief.steal(ns, "made", {1: ALWAYS})
        reply = place.insert(ns, numbered(3), ordered=ordered)
        assert (reply["ok"], reply["n"]) == (1, 1 if ordered else 2)
        self.last_duplicate(place, ns, reply, 1)
        sends = place.thief.inserts(ns)
        assert 2 <= len(sends) < 101
        (ended,) = eventually(lambda: [event["ended_by"] for event in place.proxy.find_events(
            "duplicates_given_up") if event.get("ns") == ns], 10)
        assert ended == "retry.deadline"
        assert [d["k"] for d in place.stored(ns)] == ([0] if ordered else [0, 2])

    def full(self, place: Place, db: str, coll: str, values: range, free: set[int] = set()) -> str:
        ns = fresh(place, db, coll, "made")
        place.collection(ns).insert_many(
            [{"made": bson.Int64(v), "stolen": True} for v in values if v not in free])
        return ns

    @pytest.mark.parametrize("db, most", [("tiny-1-default", 9), ("tiny-1", 10)])
    def test_a_full_space(self, place, coll, db, most, ordered):
        """The original duplicate, in bounded time; no number is tried twice."""
        ns = self.full(place, db, coll, range(10))
        reply = place.insert(ns, numbered(1), ordered=ordered)
        assert (reply["ok"], reply["n"], errors(reply)) == (1, 0, [(0, 11000)])
        self.last_duplicate(place, ns, reply, 0)
        tried = [m.documents[0]["made"] for m in place.thief.inserts(ns)]
        assert len(tried) == most == len(set(tried))

    @pytest.mark.parametrize("free", [0, 9])
    def test_the_last_free_value_is_found(self, place, coll, free):
        ns = self.full(place, "tiny-1", coll, range(10), {free})
        assert place.insert(ns, numbered(1))["n"] == 1
        tried = [m.documents[0]["made"] for m in place.thief.inserts(ns)]
        assert tried[-1] == free and len(tried) == len(set(tried)) <= 10

    def test_five_free_values_for_five_documents(self, place, coll, ordered):
        free = {3, 14, 15, 92, 65}
        ns = self.full(place, "tiny-2", coll, range(100), free)
        reply = place.insert(ns, numbered(5), ordered=ordered)
        assert (reply["n"], "writeErrors" in reply) == (5, False), reply
        assert {d["made"] for d in place.stored(ns)} == free
        check_values(place.thief.inserts(ns), place.thief.replies(ns), ["made"])


class TestMany:
    """A hundred thousand documents in one message, the most that mongod takes."""

    COUNT = 100_000
    STORM = COUNT if FULL else 50_000  # three messages, and those for what collided
    PART = 20_000

    def sent(self, count: int = COUNT) -> list[bytes]:
        return [document(int32("k", i)) for i in range(count)]

    def check_parts(self, place: Place, ns: str) -> None:
        """Unordered, no message has more than a part, so that no reply can be too large."""
        sizes = [len(m.raw_documents) for m in place.thief.inserts(ns)]
        assert max(sizes) <= self.PART and len(sizes) >= 5, sizes

    def check_stored(self, place: Place, ns: str) -> None:
        found = [(d["k"], d["made"]) for d in place.collection(ns).find(
            {"stolen": {"$exists": False}}, {"k": 1, "made": 1}).sort("k")]
        assert [k for k, _ in found] == list(range(self.STORM))
        assert len({made for _, made in found}) == self.STORM

    @heavy("txnNumber")
    @pytest.mark.timeout(600)
    def test_a_storm(self, place, coll):
        """Unordered, and every single document collides once."""
        ns = fresh(place, "patient", coll, "made")
        place.thief.steal(ns, "made", 1)
        message = place.message(ns, self.sent(self.STORM), ordered=False)
        reply = place.call(message, timeout=300).body
        assert (reply["ok"], reply["n"]) == (1, self.STORM) and "writeErrors" not in reply
        self.check_parts(place, ns)
        self.check_stored(place, ns)
        if place.numbered:
            self.check_numbers(place, ns)
            again = place.call(message, timeout=300).body
            assert again["n"] == self.STORM
            check_retried(again, range(self.STORM))
            self.check_stored(place, ns)
        place.collection(ns).drop()

    def check_numbers(self, place: Place, ns: str) -> None:
        """The first send may go without only if it begins with the first document."""
        for message in place.thief.inserts(ns):
            keys = [d["k"] for d in message.documents]
            if message.element("stmtIds"):
                assert message.body["stmtIds"] == keys
            else:
                assert keys == list(range(len(keys)))

    @heavy("standalone")
    @pytest.mark.timeout(600)
    def test_a_full_space(self, place, coll):
        """Nothing can be stored: as many errors as documents, each once, in order."""
        ns = fresh(place, "five-digits", coll, "made")
        place.collection(ns).insert_many(
            [{"made": v, "stolen": True} for v in range(self.COUNT)])
        raw = place.call(place.message(ns, self.sent(), ordered=False), timeout=300)
        reply = raw.body
        assert (reply["ok"], reply["n"]) == (1, 0)
        assert errors(reply) == [(i, 11000) for i in range(self.COUNT)]
        assert len(raw.raw) <= 16 * 1024 * 1024 + 16 * 1024, "more than any server sends"
        assert reply["writeErrors"][0]["keyPattern"] == {"made": 1}
        assert not place.stored(ns)
        self.check_parts(place, ns)
        place.collection(ns).drop()

    def test_one_document_too_many(self, place, coll, ordered):
        """mongod's own error, and nothing stored: the limit is the client's to keep."""
        ns = f"field.{coll}"
        reply = place.call(place.message(ns, self.sent(self.COUNT + 1), ordered=ordered)).body
        assert (reply["ok"], reply["code"]) == (0, 16)
        assert not place.stored(ns)


class TestFullMessages:
    """Messages that are as long as they may be, until each document gets its id."""

    def full(self, place: Place, ns: str, count: int, ordered: bool,
             more: dict[str, Any] = {}) -> bytes:
        """A message of exactly 48,000,000 bytes with so many documents."""
        more = {**place.session(), **more}
        room = (wire.MAX_MESSAGE - len(insert_message(
            ns, [self.sent(i, 0) for i in range(count)], ordered=ordered, more=more)))
        sizes = [room // count + (i < room % count) for i in range(count)]
        message = insert_message(ns, [self.sent(i, size) for i, size in enumerate(sizes)],
                                 ordered=ordered, more=more)
        assert len(message) == wire.MAX_MESSAGE
        return message

    def sent(self, i: int, size: int) -> bytes:
        return document(int32("k", i), el.string("s", "x" * size))

    def check(self, place: Place, ns: str, count: int, field: str, sends: int = 2) -> None:
        found = place.collection(ns).aggregate([
            {"$match": {"stolen": {"$exists": False}}}, {"$sort": {"k": 1}},
            {"$project": {"k": 1, field: 1, "size": {"$strLenBytes": "$s"}}}], allowDiskUse=True)
        found = list(found)
        assert [d["k"] for d in found] == list(range(count))
        assert len({bytes(d[field]) if isinstance(d[field], bytes) else d[field]
                    for d in found}) == count
        if field == "_id":
            assert not any(isinstance(d["_id"], ObjectId) for d in found)
        messages = place.thief.inserts(ns)
        assert len(messages) >= sends
        assert all(len(m.raw) <= wire.MAX_MESSAGE for m in messages)

    def check_split(self, place: Place, coll: str, count: int, ordered: bool) -> None:
        ns = f"id-uuid.{coll}"
        message = self.full(place, ns, count, ordered)
        reply = place.call(message, timeout=300).body
        assert (reply["ok"], reply["n"]) == (1, count) and "writeErrors" not in reply
        assert list(reply) == list(place.direct(place.message(f"lucky.{coll}", numbered(1))))
        self.check(place, ns, count, "_id")
        if place.numbered:
            again = place.call(message, timeout=300).body
            assert again["n"] == count
            check_retried(again, range(count))
            assert place.collection(ns).count_documents({}) == count
        place.collection(ns).drop()

    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("count", [3, 48])
    def test_is_split(self, place, coll, count, ordered):
        self.check_split(place, coll, count, ordered)

    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("bad", [0, 47])
    def test_an_error_in_one_part(self, replica, coll, bad, ordered):
        """Ordered, no later part is sent; unordered, the index is the client's."""
        ns = fresh(replica, "field", coll, "k")
        replica.collection(ns).insert_one({"k": bad, "stolen": True})
        reply = replica.call(self.full(replica, ns, 48, ordered), timeout=300).body
        assert errors(reply) == [(bad, 11000)]
        assert reply["n"] == (bad if ordered else 47)
        assert replica.collection(ns).count_documents({"stolen": {"$exists": False}}) == reply["n"]
        replica.collection(ns).drop()

    @pytest.fixture
    def large_cache(self, replica: Place) -> Iterator[None]:
        """What a transaction has written must stay in the cache, and that of the tests is small."""
        def resize(size: str) -> None:
            replica.server.client.admin.command(
                "setParameter", 1, wiredTigerEngineRuntimeConfig=f"cache_size={size}")
        resize("1GB")
        yield
        resize("256MB")

    @pytest.mark.timeout(600)
    def test_in_a_transaction(self, replica, large_cache, coll, ordered):
        """Two statements of one transaction, of which only the first starts it."""
        ns = f"id-uuid.{coll}"
        replica.server.client["id-uuid"].create_collection(coll)
        mine = {"autocommit": False, **session()}
        message = self.full(replica, ns, 48, ordered, more={**mine, "startTransaction": True})
        reply = replica.call(message, timeout=300).body
        assert (reply["ok"], reply["n"]) == (1, 48), reply
        sends = replica.thief.inserts(ns)
        assert [m.element("startTransaction") is not None for m in sends] == [
            True, *[False] * (len(sends) - 1)]
        assert replica.collection(ns).count_documents({}) == 0
        commit = replica.direct(wire.command({"commitTransaction": 1, **mine, "$db": "admin"}))
        assert commit["ok"] == 1, commit
        self.check(replica, ns, 48, "_id")
        replica.collection(ns).drop()

    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("bad", [0, 2])
    def test_an_error_in_a_transaction(self, replica, large_cache, coll, bad, ordered):
        """A foreign duplicate in one of the statements: its index is the client's, nothing after
        it is sent, and nothing is stored."""
        ns = fresh(replica, "id-uuid", coll, "k")
        replica.collection(ns).insert_one({"k": bad, "stolen": True})
        mine = {"autocommit": False, "startTransaction": True, **session()}
        reply = replica.call(self.full(replica, ns, 3, ordered, more=mine), timeout=300).body
        assert (reply["ok"], reply["n"], errors(reply)) == (1, bad, [(bad, 11000)])
        assert len(replica.thief.inserts(ns)) == (1 if bad == 0 else 2)
        assert replica.collection(ns).count_documents({}) == 1
        replica.collection(ns).drop()

    def test_unacknowledged_is_dropped(self, place, coll):
        ns = f"id-uuid.{coll}"
        place.numbered = False
        message = self.full(place, ns, 48, False, more={"writeConcern": {"w": 0}})
        assert message[16:20] == bytes(4)
        with wire.WireClient(place.proxy.address, 60) as client:
            client.send(message[:16] + struct.pack("<I", wire.MORE_TO_COME) + message[20:])
            client.send(wire.command({"ping": 1, "$db": "admin"}, request_id=5))
            assert client.receive().response_to == 5
        assert not place.thief.inserts(ns)
        assert place.collection(ns).count_documents({}) == 0


class TestUnacknowledged:
    @pytest.mark.parametrize("concern", [{"writeConcern": {"w": 0}}, {}], ids=["w0", "flag_only"])
    def test_is_injected_and_never_sent_again(self, place, coll, ordered, concern):
        """No reply is invented, and the next reply is that of the next message. The server looks at moreToCome only."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {1: 1})
        with wire.WireClient(place.proxy.address) as client:
            for number in range(3):
                client.send(insert_message(
                    ns, [{"k": 3 * number + i} for i in range(3)], ordered=ordered,
                    more=concern, flags=wire.MORE_TO_COME))
            client.send(wire.command({"ping": 1, "$db": "admin"}, request_id=78))
            assert client.receive().response_to == 78
            reply = client.call(insert_message(ns, [{"k": 100}], ordered=ordered))
        assert reply["n"] == 1
        assert place.sent_keys(ns) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [100]]
        lost = {1, 2} if ordered else {1}
        assert {d["k"] for d in place.stored(ns)} == {*range(9), 100} - lost
        assert all("made" in d for d in place.stored(ns))

    def test_with_a_reply_it_is_as_mongod_answers_it(self, place, coll):
        """w: 0 without moreToCome: n is 0, whatever happened, so nothing can be cured."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {1: 1})
        reply = place.call(insert_message(ns, numbered(3), ordered=False,
                                          more={"writeConcern": {"w": 0}}))
        assert (reply.body.get("n", 0), reply.body["ok"]) == (0, 1)  # 4.4 has no n
        assert [d["k"] for d in place.stored(ns)] == [0, 2]


class TestOrder:
    """From the first send to the merged reply no later message of the connection goes on."""

    @pytest.mark.tsan
    def test_later_messages_wait(self, place, coll, ordered):
        ns = fresh(place, "patient", coll, "made")
        place.thief.steal(ns, "made", {1: 1})
        hold = Hold(lambda m: m.ns == ns and len(place.thief.inserts(ns)) == 2)
        find = wire.command({"find": coll, "filter": {"k": {"$exists": True}}, "$db": "patient"},
                            request_id=2)
        with place.thief.hook(hold), wire.WireClient(place.proxy.address, 60) as client:
            client.send(place.message(ns, numbered(3), ordered=ordered, request_id=1) + find +
                        place.message(ns, [{"k": 3}], request_id=3) +
                        wire.command({"ping": 1, "$db": "admin"}, request_id=4))
            hold.await_held()
            self.others_are_served(place, coll)
            (connection,) = {m.connection for m in place.thief.inserts(ns)}
            waiting = [m for m in place.thief.messages if m.connection == connection]
            # With 4.4 the proxy asks in between, by an update, what was executed.
            assert [m.command for m in waiting
                    if m.direction == "to_server" and m.command != "update"] == ["insert"] * 2
            hold.release()
            replies = [client.receive() for _ in range(4)]
        assert [r.response_to for r in replies] == [1, 2, 3, 4]
        assert replies[0].body["n"] == 3
        assert [d["k"] for d in sorted(
            replies[1].body["cursor"]["firstBatch"], key=lambda d: d["k"])] == [0, 1, 2]
        assert replies[2].body["n"] == 1

    def others_are_served(self, place: Place, coll: str) -> None:
        """Meanwhile; among them inserts that collide, on every thread of the proxy."""
        self.are_served(place, self.stolen_from(place, coll))

    def stolen_from(self, place: Place, coll: str) -> str:
        ns = fresh(place, "field", f"{coll}-others", "made")
        place.thief.steal(ns, "made", 1)
        return ns

    def are_served(self, place: Place, ns: str) -> None:
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda i: place.insert(ns, [{"k": i}]), range(8)))
        assert all(r["n"] == 1 for r in replies)

    def test_others_are_served_during_backoff(self, replica, coll):
        ns = fresh(replica, "backoff", coll, "made")
        replica.thief.steal(ns, "made", {0: 95})
        others = self.stolen_from(replica, coll)
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(replica.insert, ns, numbered(1))
            eventually(lambda: len(replica.thief.inserts(ns)) > 2)
            self.are_served(replica, others)
            assert not slow.done(), "too fast to show anything"
            assert slow.result(60)["n"] == 1

    @pytest.mark.tsan
    def test_pipelined_inserts_that_all_collide(self, place, coll):
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", lambda d: d["k"] % 3)
        messages = []
        for n in range(20):
            messages.append(wire.command({"ping": 1, "$db": "admin"}, request_id=100 + n))
            messages.append(place.message(ns, [{"k": 10 * n + i} for i in range(10)],
                                          ordered=n % 2 == 0, request_id=n))
        with wire.WireClient(place.proxy.address, 60) as client:
            client.send(b"".join(messages))
            replies = [client.receive() for _ in messages]
        assert [r.response_to for r in replies[::2]] == [100 + n for n in range(20)]
        assert [(r.response_to, r.body["n"]) for r in replies[1::2]] == [
            (n, 10) for n in range(20)]
        sent = [{d["k"] // 10 for d in m.documents} for m in place.thief.inserts(ns)]
        assert all(len(s) == 1 for s in sent)
        assert [s.pop() for s in sent] == sorted(
            m.documents[0]["k"] // 10 for m in place.thief.inserts(ns))
        assert [d["k"] for d in place.stored(ns)] == list(range(200))

    @pytest.mark.parametrize("number", [0, 1, 2, 5])
    def test_request_ids_that_repeat(self, place, coll, number):
        """mongod takes any, the same for all messages too; the proxy's own begin low."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", 2)
        ping = wire.command({"ping": 1, "$db": "admin"}, request_id=number)
        inserts = [place.message(ns, [{"k": 3 * n + i} for i in range(3)], request_id=number)
                   for n in range(3)]
        with wire.WireClient(place.proxy.address) as client:
            client.send(ping + inserts[0] + ping + inserts[1] + inserts[2] + ping)
            replies = [client.receive() for _ in range(6)]
        assert [r.response_to for r in replies] == [number] * 6
        assert [r.body.get("n") for r in replies] == [None, 3, None, 3, 3, None]
        assert [d["k"] for d in place.stored(ns)] == list(range(9))

    def test_behind_a_stream_of_replies(self, place, coll):
        """An exhaust cursor is still being sent when the insert comes."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", 2)
        plain = place.collection(f"plain.{coll}")
        plain.insert_many([{"_id": i, "s": "x" * 10_000} for i in range(200)])
        with wire.WireClient(place.proxy.address) as client:
            cursor = client.call({"find": coll, "batchSize": 2, "$db": "plain"})["cursor"]
            client.send(wire.command(
                {"getMore": cursor["id"], "collection": coll, "batchSize": 2, "$db": "plain"},
                flags=wire.EXHAUST_ALLOWED, request_id=700) +
                place.message(ns, numbered(3), request_id=701))
            ids = [d["_id"] for d in cursor["firstBatch"]]
            flags = wire.MORE_TO_COME
            while flags & wire.MORE_TO_COME:
                reply = client.receive()
                ids += [d["_id"] for d in reply.body["cursor"]["nextBatch"]]
                flags = reply.flags
            assert ids == list(range(200))
            reply = client.receive()
        assert (reply.response_to, reply.body["n"]) == (701, 3)
        assert [d["k"] for d in place.stored(ns)] == [0, 1, 2]


class TestLostReplies:
    """A connection is cut while a request is out; then the driver sends the same once more."""

    # The number of the message of this insert, in its direction, that does not arrive.
    POINTS: list[tuple[str, int]] = [
        ("to_server", 0), ("to_client", 0), ("to_server", 1), ("to_client", 1),
        ("to_server", 2), ("to_client", 2)]

    def cut_at(self, place: Place, ns: str, direction: str, number: int) -> Any:
        def hook(message: Passed) -> bytes:
            if done.is_set() or message.direction != direction:
                return message.raw
            mine = place.thief.inserts(ns) if direction == "to_server" else place.thief.replies(ns)
            if len(mine) == number + 1 and mine[-1] is message:
                done.set()
                raise Cut
            return message.raw
        done = threading.Event()
        return place.thief.hook(hook)

    @pytest.mark.smoke
    @pytest.mark.parametrize("direction, number", POINTS)
    def test_replay(self, replica, coll, direction, number, ordered):
        """F4: nothing is stored twice or lost, nothing stored is changed."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1, 3: 2})
        documents = [{"_id": ObjectId(), **each} for each in numbered(5)]  # as drivers send them
        message = replica.message(ns, documents, ordered=ordered)
        with self.cut_at(replica, ns, direction, number):
            with wire.WireClient(replica.proxy.address) as client:
                client.send(message)
                with pytest.raises(wire.Closed):
                    client.receive()
        sent = len(replica.thief.inserts(ns))
        assert sent == number + 1, "nothing is sent again on a connection of the proxy's own"
        before = {d["k"]: d for d in replica.stored(ns)}
        reply = replica.call(message).body
        assert (reply["ok"], reply["n"]) == (1, 5) and "writeErrors" not in reply
        stored = {d["k"]: d for d in replica.stored(ns)}
        assert list(stored) == [0, 1, 2, 3, 4]
        assert {k: stored[k] for k in before} == before
        if has("retried_stmt_ids"):
            check_retried(reply, before)

    @pytest.mark.parametrize("direction, number", POINTS)
    def test_pymongo_retries(self, replica, coll, direction, number, ordered):
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1, 3: 2})
        with replica.proxy.client() as client:
            client.admin.command("ping")
            with self.cut_at(replica, ns, direction, number):
                result = client["field"][coll].insert_many(
                    [{"k": i} for i in range(5)], ordered=ordered)
        assert [d["_id"] for d in replica.stored(ns)] == result.inserted_ids
        assert [d["k"] for d in replica.stored(ns)] == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("direction, number", POINTS)
    def test_without_a_number_the_client_is_told(self, place, coll, direction, number, ordered):
        """The connection is closed, and nothing is sent again."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {1: 1, 3: 2})
        place.numbered = False
        with self.cut_at(place, ns, direction, number):
            with wire.WireClient(place.proxy.address) as client:
                client.send(place.message(ns, numbered(5), ordered=ordered))
                assert client.closed_by_peer()
        assert len(place.thief.inserts(ns)) == number + 1
        keys = [d["k"] for d in place.stored(ns)]
        assert keys == sorted(set(keys))

    def test_lost_during_backoff(self, place, coll, ordered):
        """The client is told at once, and nothing is sent again on another connection."""
        ns = fresh(place, "backoff", coll, "made")
        place.thief.steal(ns, "made", {1: ALWAYS})
        with wire.WireClient(place.proxy.address) as client:
            client.send(place.message(ns, numbered(3), ordered=ordered))
            sends = eventually(lambda: len(found := place.thief.inserts(ns)) > 2 and found)
            place.thief.connections[sends[0].connection].end()
            assert client.closed_by_peer()
        assert place.insert(fresh(place, "field", coll), numbered(1))["n"] == 1
        assert {m.connection for m in place.thief.inserts(ns)} == {sends[0].connection}
        assert [d["k"] for d in place.stored(ns)] == ([0] if ordered else [0, 2])


class TestCounters:
    """What the log says when the proxy ends."""

    RULES = [{"ns": "count.*", "field": "made", "retry": {"attempts": 3}, **_DIGITS},
             {"ns": "count-surface.*", "field": "made", "in_transaction": "surface", **_DIGITS}]
    NAMES = ["duplicates_resent", "duplicates_cured", "duplicates_given_up", "duplicates_foreign",
             "transactions_transient", "transactions_surfaced", "unacknowledged"]

    def run(self, start_robbed: Any, server: Mongod, coll: str, scenario: Any,
            db: str = "count") -> list[int]:
        robbed = start_robbed(server, self.RULES)
        ns = fresh(robbed, db, coll, "made", "email")
        scenario(robbed, ns)
        stopped = robbed.stopped()
        return [stopped[name] for name in self.NAMES]

    def test_cured(self, start_robbed, server, coll):
        """Unordered: 0 once, 2 twice, so three re-sent documents, two of them cured."""
        def scenario(robbed: Robbed, ns: str) -> None:
            robbed.thief.steal(ns, "made", {0: 1, 2: 2})
            assert robbed.insert(ns, numbered(4), ordered=False)["n"] == 4
        assert self.run(start_robbed, server, coll, scenario) == [3, 2, 0, 0, 0, 0, 0]

    def test_given_up(self, start_robbed, server, coll):
        def scenario(robbed: Robbed, ns: str) -> None:
            robbed.thief.steal(ns, "made", {0: ALWAYS, 3: ALWAYS})
            assert robbed.insert(ns, numbered(4), ordered=False)["n"] == 2
            warning = robbed.proxy.wait_event("duplicates_given_up")
            assert (warning["ns"], warning["field"], warning["attempts"]) == (ns, "made", 3)
            assert warning["level"] == "warning" and warning["ended_by"] == "retry.attempts"
        assert self.run(start_robbed, server, coll, scenario) == [6, 0, 2, 0, 0, 0, 0]
