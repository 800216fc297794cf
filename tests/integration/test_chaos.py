"""Connections that break at any step of an insert, with ids that collide: nothing lost or doubled.

What a driver was told about each document is held against what the server has in the end: stored
once if it was acknowledged, not at all if it was refused, at most once if nobody knows.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import bson
import pymongo
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import AutoReconnect, BulkWriteError, ServerSelectionTimeoutError

from support import elements as el
from support import wire
from support.chaos import Chain, CrashNode, Ledger, quiet
from support.elements import document, int32
from support.full import FULL
from support.middleman import Cut
from support.mongod import Mongod
from support.process import eventually
from support.proxy import COMPRESSED, Proxy, configuration
from support.servers import check_retried, has
from support.thief import Passed, Thief, insert_message, session
from support.values import digits_of

# Patient enough for a space of which three quarters are taken, and for a machine that is busy.
RETRY = {"attempts": 100, "deadline": "60s"}
RULES = [
    *({"ns": f"{field}{digits}.*", "field": name, "strategy": "random-digits", "digits": digits,
       "max_fill": 0.99, "retry": RETRY}
      for field, name in [("id", "_id"), ("field", "number")] for digits in (3, 4, 6)),
    {"ns": "long.*", "field": "_id", "strategy": "random-digits", "digits": 12,
     "leading_zeros": False, "retry": RETRY, "report": True},
]

DROPPED = 0.12

_collections = (f"c{i}" for i in itertools.count())


@pytest.fixture(autouse=True)
def quick_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyMongo looks at a server that it has lost at most twice a second, which is a pause after
    each fault that no assertion needs."""
    monkeypatch.setattr(pymongo.common, "MIN_HEARTBEAT_INTERVAL", 0.02)


# By a streaming hello it would learn only after 10 s that a server which said 91 is well.
DRIVER = {"retryWrites": True, "serverMonitoringMode": "poll", "serverSelectionTimeoutMS": 60_000,
          **COMPRESSED}


def stored(server: Mongod, db: str, coll: str) -> list[bytes]:
    """What this file's writers stored, as raw bytes, from the primary with majority."""
    options = CodecOptions(document_class=RawBSONDocument)
    collection = server.client[db].get_collection(
        coll, codec_options=options, read_concern=pymongo.read_concern.ReadConcern("majority"))
    return [bytes(d.raw) for d in collection.find({"k": {"$exists": True}})]


# The table of docs/server-behaviour.md#retryable-writes.

@dataclass(frozen=True)
class Writer:
    """One of those that write at the same time, each into collections of its own."""

    db: str
    field: str
    digits: int
    ordered: bool
    taken: range = range(0)  # numbers that are in use from the start
    batches: int = 150
    batch: int = 5

    def prepare(self, server: Mongod, coll: str) -> int:
        """A collection with its indexes; returns how many documents it has. The one with u: -1 is
        there for others to collide with."""
        collection = server.client[self.db][coll]
        collection.create_index("number", unique=True, sparse=True)
        collection.create_index("u", unique=True, sparse=True)
        documents = [{"u": -1, "number": -1},
                     *({self.field: bson.Int64(i)} for i in self.taken)]
        collection.insert_many(documents)
        return len(documents)

    def documents(self, seed: str) -> Iterator[list[tuple[int, bytes]]]:
        """Keys and documents. One batch in eight holds a document that the server refuses."""
        choose = random.Random(seed)
        for number in range(self.batches):
            refused = choose.randrange(self.batch * 8)
            yield [(k := number * self.batch + i, document(
                int32("k", k), el.string("text", "x" * choose.randrange(40)),
                int32("u" if i == refused else "v", -1), el.embedded("inner", el.null("n"))))
                for i in range(self.batch)]


WRITERS = [Writer(f"{db}{digits}", field, digits, ordered, taken)
           for db, field in [("id", "_id"), ("field", "number")]
           for digits, taken in [(3, range(0)), (4, range(0, 10_000, 2))]
           for ordered in (True, False)]


def write_all(collection: pymongo.collection.Collection, writer: Writer, ledger: Ledger,
              seed: str) -> None:
    """Inserts the batches one after the other and writes down what the driver says of each."""
    for batch in writer.documents(seed):
        for k, raw in batch:
            ledger.add(k, raw)
        keys = [k for k, _ in batch]
        try:
            collection.insert_many([RawBSONDocument(raw) for _, raw in batch],
                                   ordered=writer.ordered)
            refused: set[int] = set()
        except BulkWriteError as failure:
            errors = failure.details["writeErrors"]
            assert all(e["keyPattern"] == {"u": 1} for e in errors), errors
            assert failure.details["nInserted"] == (
                errors[0]["index"] if writer.ordered else len(keys) - len(errors))
            refused = {keys[e["index"]] for e in errors}
            if writer.ordered:
                refused |= {k for k in keys if k > min(refused)}
        except (AutoReconnect, ServerSelectionTimeoutError):
            continue
        for k in keys:
            ledger.sent[k].outcome = "refused" if k in refused else "ok"


@dataclass
class Run:
    """What happened to some writers."""

    told: list[Counter[str]]  # for each, how many documents had which outcome
    chain: Chain


def run(server: Mongod, writers: list[Writer], dropped: dict[str, float], seed: str) -> Run:
    """All writers at once; in the end the server must hold what each of them was told."""
    ledgers = [Ledger(w.field, digits_of(w.digits, "int64", True)) for w in writers]
    names = [next(_collections) for _ in writers]
    there = [w.prepare(server, name) for w, name in zip(writers, names)]

    with Chain(server, RULES, dropped, seed) as chain:
        def work(number: int) -> None:
            writer = writers[number]
            with pymongo.MongoClient(chain.uri, **DRIVER) as client:
                write_all(client[writer.db][names[number]], writer, ledgers[number],
                          f"{seed}/{number}")

        with ThreadPoolExecutor(len(writers)) as pool:
            list(pool.map(work, range(len(writers))))

    for writer, name, ledger, before in zip(writers, names, ledgers, there):
        eventually(lambda: quiet(server, writer.db), 60, "no insert is still being applied")
        violations = ledger.violations(stored(server, writer.db, name))
        assert not violations, (writer, violations)
        collection = server.client[writer.db][name]
        assert collection.count_documents({"k": {"$exists": False}}) == before
        collection.drop()
    return Run([ledger.outcomes() for ledger in ledgers], chain)


SIDES = {"downstream": {"upstream": 0, "downstream": DROPPED},
         "upstream": {"upstream": DROPPED, "downstream": 0},
         "both": {"upstream": DROPPED, "downstream": DROPPED}}


@pytest.mark.tsan
@pytest.mark.timeout(3600 if FULL else 600)
@pytest.mark.parametrize("side", [
    pytest.param("downstream", marks=pytest.mark.full), pytest.param("upstream", marks=pytest.mark.full), "both"])
def test_drops_at_random(replica_set: Mongod, side: str):
    """Eight writers at once: 150 batches of 5 each, 12 % of the steps dropped, on both sides or on one alone."""
    batches = sum(w.batches for w in WRITERS) * len(SIDES)
    for round_number in range(-(-10_000 // batches) if FULL else 1):
        this = run(replica_set, WRITERS, SIDES[side], f"{side}/{round_number}")
        # What was to be tested did happen.
        assert all(each["ok"] > 150 for each in this.told), this.told
        assert all(sum(each[o] for each in this.told) > 100 for o in ("refused", "unknown"))
        for relay, dropped in ((this.chain.upstream, SIDES[side]["upstream"]),
                               (this.chain.downstream, SIDES[side]["downstream"])):
            assert relay.steps > 2000
            assert 0.7 * dropped <= sum(relay.dropped.values()) / relay.steps <= 1.3 * dropped
            assert len(+relay.dropped) == (4 if dropped else 0), "each way, before and after"
        assert this.chain.stopped["duplicates_cured"] > 300
        assert this.chain.stopped["duplicates_foreign"] > 0


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", ["one", "two", "three"])
def test_drops_between_the_parts_of_a_batch(replica_set: Mongod, seed: str):
    """More than 20,000 documents, unordered, go in several commands, of which one in twenty
    documents comes back."""
    writer = Writer("id6", "_id", 6, False, range(0, 1_000_000, 20), batches=15, batch=20_050)
    this = run(replica_set, [writer], SIDES["upstream"], seed)
    assert this.told[0]["ok"] and this.chain.stopped["duplicates_resent"] > 1000
    assert sum(this.chain.upstream.dropped.values()) > 2


# The checker itself.

def ledger_of_four() -> tuple[Ledger, list[bytes]]:
    """k=1 ok, 2 ok, 3 refused, 4 unknown and not stored; and what the server then holds."""
    ledger = Ledger("number", digits_of(3, "int64", True))
    for k in (1, 2, 3, 4):
        ledger.add(k, document(int32("k", k), el.string("a", "x"), int32("b", 1)))
    for k, outcome in {1: "ok", 2: "ok", 3: "refused"}.items():
        ledger.sent[k].outcome = outcome
    return ledger, [as_stored(1, 10), as_stored(2, 20)]


def as_stored(k: int, number: int, *parts: el.Element) -> bytes:
    return document(el.element(0x07, "_id", bytes([0] * 11 + [k])), int32("k", k),
                    *(parts or (el.string("a", "x"), int32("b", 1))), el.int64("number", number))


PLANTED: dict[str, tuple[Callable[[list[bytes]], list[bytes]], list[str]]] = {
    "nothing": (lambda held: held, []),
    "unknown_once": (lambda held: [*held, as_stored(4, 40)], []),
    "missing": (lambda held: held[1:], ["k=1: ok, missing"]),
    "twice": (lambda held: [*held, as_stored(1, 30)], ["k=1: ok, stored 2 times"]),
    "unknown_twice": (lambda held: [*held, as_stored(4, 40), as_stored(4, 41)],
                      ["k=4: unknown, stored 2 times"]),
    "refused": (lambda held: [*held, as_stored(3, 30)], ["k=3: refused, stored"]),
    "another_value": (lambda held: [as_stored(1, 10, el.string("a", "y"), int32("b", 1)), held[1]],
                      ["k=1: not what was sent"]),
    "another_type": (lambda held: [as_stored(1, 10, el.string("a", "x"), el.int64("b", 1)),
                                   held[1]], ["k=1: not what was sent"]),
    "another_order": (lambda held: [as_stored(1, 10, int32("b", 1), el.string("a", "x")), held[1]],
                      ["k=1: not what was sent"]),
    "a_field_more": (lambda held: [as_stored(1, 10, el.string("a", "x"), int32("b", 1),
                                             el.null("c")), held[1]], ["k=1: not what was sent"]),
    "one_value_for_two": (lambda held: [held[0], as_stored(2, 10)],
                          ["k=2: has the value of k=1"]),
    "no_value": (lambda held: [document(int32("k", 1), el.string("a", "x"), int32("b", 1)),
                               held[1]], ["k=1: without a value"]),
    "wrong_shape": (lambda held: [as_stored(1, 1000), held[1]],
                    ["k=1: of the wrong shape: 1000 does not have 3 digits"]),
    "nobodys": (lambda held: [*held, as_stored(9, 90)], ["k=9: nobody sent it"]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_ledger_sees_each_violation(name: str):
    plant, expected = PLANTED[name]
    ledger, held = ledger_of_four()
    found = [v.removesuffix("\n") for v in ledger.violations(plant(held))]
    assert len(found) == len(expected)
    assert all(f.startswith(e) for f, e in zip(found, expected)), found


# Faults at chosen steps. A thief makes the first send collide, where a test is about the re-send.

DOCUMENTS = [document(int32("k", i), el.string("text", f"document {i}")) for i in range(5)]


@pytest.fixture
def coll() -> str:
    return next(_collections)


def checked(ledger_outcome: str) -> Ledger:
    """The five DOCUMENTS, all with this outcome."""
    ledger = Ledger("_id", digits_of(12, "int64", False))
    for k, raw in enumerate(DOCUMENTS):
        ledger.add(k, raw)
        ledger.sent[k].outcome = ledger_outcome
    return ledger


def is_resend(thief: Thief, message: Passed) -> bool:
    """An insert that is not the first one of its connection."""
    return bool(message.ns) and any(
        m is not message and m.connection == message.connection for m in thief.inserts(message.ns))


@dataclass
class Between:
    """A thief between a server and a proxy."""

    server: Mongod
    thief: Thief
    proxy: Proxy


@pytest.fixture(scope="module")
def between(replica_set: Mongod) -> Iterator[Between]:
    with Thief(replica_set) as thief:
        with Proxy(configuration(thief, RULES, replica_set)) as proxy:
            proxy.await_server()
            yield Between(replica_set, thief, proxy)


@pytest.fixture(scope="module")
def crashing() -> Iterator[Between]:
    with CrashNode("rs1") as node, Thief(node) as thief:
        with Proxy(configuration(thief, RULES, node)) as proxy:
            proxy.await_server()
            yield Between(node, thief, proxy)


STAGES = ["first", "resend"]


def steal_if_resend(between: Between, coll: str, stage: str) -> None:
    """Where the re-send is meant, two documents collide once."""
    between.thief.forget()
    if stage == "resend":
        between.thief.steal(f"long.{coll}", times={1: 1, 3: 1})


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_the_server_is_killed(crashing: Between, coll: str, when: str, stage: str, ordered: bool,
                              caplog: pytest.LogCaptureFixture):
    """SIGKILL while two inserts, or their re-sends, are being worked on (F2). A driver that
    retries gets each document stored once; a plain client is told nothing."""
    caplog.set_level(logging.DEBUG, "pymongo")  # if it fails: what the driver took for alive, and when
    server, thief = crashing.server, crashing.thief
    names = {f"long.{coll}": coll, f"long.plain-{coll}": f"plain-{coll}"}
    crashing.thief.forget()
    for ns, name in names.items():
        server.client["long"].create_collection(name)
        if stage == "resend":
            thief.steal(ns, times={1: 1, 3: 1})
    application = f"victim-{coll}"
    entered = 0

    def block() -> None:
        nonlocal entered
        entered = 2 + server.client.admin.command(
            "configureFailPoint", "failCommand", mode="alwaysOn",
            data={"failCommands": ["insert"], "blockConnection": True, "blockTimeMS": 60_000,
                  "appName": application})["count"]

    both_come, answered = threading.Barrier(2, block), threading.Semaphore(0)
    dead, back = threading.Event(), threading.Event()

    def meant(message: Passed) -> bool:
        return message.ns in names and (stage == "first" or is_resend(thief, message))

    def hook(message: Passed) -> bytes:
        if dead.is_set():
            if not back.is_set():
                raise Cut  # PyMongo does not retry on a member that is not the primary yet
            return message.raw
        if when == "before_apply" and meant(message):
            both_come.wait(20)
        if when == "after_apply" and message.direction == "to_client" and any(
                m.connection == message.connection and m.request_id == message.response_to and
                meant(m) for m in list(thief.messages)):
            answered.release()
            assert dead.wait(60)
            raise Cut
        return message.raw

    with (wire.WireClient(crashing.proxy.address, timeout=60) as plain,
          crashing.proxy.client(appname=application, **DRIVER) as client,
          ThreadPoolExecutor(1) as pool, thief.hook(hook)):
        plain.call({"hello": 1, "client": {
            "application": {"name": application}, "driver": {"name": "x", "version": "1"},
            "os": {"type": "Linux"}}, "$db": "admin"})
        driver = pool.submit(client["long"][coll].insert_many,
                             [RawBSONDocument(d) for d in DOCUMENTS], ordered)
        plain.send(insert_message(f"long.plain-{coll}", DOCUMENTS, ordered))
        if when == "before_apply":
            eventually(lambda: entered, 20, "both inserts come as far as the server")
            server.client.admin.command(
                "waitForFailPoint", "failCommand", timesEntered=entered, maxTimeMS=20_000)
        else:
            assert answered.acquire(timeout=20) and answered.acquire(timeout=20)
            applied = 3 if stage == "resend" and ordered else 5
            eventually(lambda: all(len(stored(server, "long", name)) == applied
                                   for name in names.values()), what="both are there to stay")
        server.kill()
        dead.set()
        with pytest.raises(wire.Closed):
            plain.receive()
        server.restart()
        back.set()
        driver.result(120)
    assert not checked("ok").violations(stored(server, "long", coll))
    left = stored(server, "long", f"plain-{coll}")
    assert not checked("unknown").violations(left)
    assert len(left) == (applied if when == "after_apply" else
                         0 if stage == "first" else 1 if ordered else 3)


def fail_once(between: Between, ns: str, stage: str, code: int) -> Callable[[Passed], bytes]:
    """A hook that makes the server answer one insert into ns with this error, and apply nothing."""
    done = False

    def hook(message: Passed) -> bytes:
        nonlocal done
        if not done and message.ns == ns and (
                stage == "first" or is_resend(between.thief, message)):
            done = True
            between.server.client.admin.command(
                "configureFailPoint", "failCommand", mode={"times": 1},
                data={"failCommands": ["insert"], "errorCode": code, "namespace": ns})
        return message.raw
    return hook


@pytest.mark.parametrize("code", [10107, 91, 11600])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("stage", STAGES)
class TestErrorsOfTheServer:
    """The server steps down or shuts down: its answer, with its labels, is the client's (F3)."""

    def test_passed_on(self, between: Between, coll: str, stage: str, ordered: bool, code: int):
        """Byte for byte but for responseTo; the retry by hand stores each document once, and
        reports the values of those only that it has stored itself."""
        ns, thief = f"long.{coll}", between.thief
        steal_if_resend(between, coll, stage)
        more = session()
        with (wire.WireClient(between.proxy.address) as client,
              thief.hook(fail_once(between, ns, stage, code))):
            client.send(insert_message(ns, DOCUMENTS, ordered, more=more, request_id=4711))
            reply = client.receive()
            said = thief.replies(ns)[-1]
            assert reply.response_to == 4711
            assert reply.raw[:8] + reply.raw[12:] == said.raw[:8] + said.raw[12:]
            assert (reply.body["ok"], reply.body["code"]) == (0, code)
            assert reply.body["errorLabels"] == ["RetryableWriteError"]
            before = ids_by_k(stored(between.server, "long", coll))
            assert sorted(before) == (
                [] if stage == "first" else [0] if ordered else [0, 2, 4])
            again = client.call(insert_message(ns, DOCUMENTS, ordered, more=more))
        assert (again["n"], again["ok"]) == (5, 1) and "writeErrors" not in again
        check_retried(again, before)
        after = ids_by_k(stored(between.server, "long", coll))
        assert before.items() <= after.items()
        if has("retried_stmt_ids"):
            assert reported(again) == {k: v for k, v in after.items() if k not in before}
        assert not checked("ok").violations(stored(between.server, "long", coll))


def ids_by_k(documents: list[bytes]) -> dict[int, int]:
    return {d["k"]: d["_id"] for d in map(bson.decode, documents)}


def reported(reply: dict[str, Any]) -> dict[int, int]:
    """The values that a reply says were assigned, by the document's index."""
    assigned = reply["idproxy"]["assigned"] if "idproxy" in reply else []
    assert all(entry["field"] == "_id" for entry in assigned)
    return {entry["index"]: entry["value"] for entry in assigned}


def cut_the_last_reply(thief: Thief, ns: str) -> Callable[[Passed], bytes]:
    """A hook that loses the first reply to an insert into ns which says that all is stored."""
    lost = False

    def hook(message: Passed) -> bytes:
        nonlocal lost
        if not lost and message in thief.replies(ns) and "writeErrors" not in message.body:
            lost = True
            raise Cut
        return message.raw
    return hook


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("stage", STAGES)
class TestLostReply:
    """All is stored, but the client never learns: its retry gets fresh values, of which none is
    stored (F4)."""

    def sent_ids(self, thief: Thief, ns: str) -> list[dict[int, set[int]]]:
        """For each connection, the values that each document was sent with."""
        by_connection: dict[int, dict[int, set[int]]] = {}
        for message in thief.inserts(ns):
            ids = by_connection.setdefault(message.connection, {})
            for each in message.documents:
                ids.setdefault(each["k"], set()).add(each["_id"])
        return list(by_connection.values())

    def check(self, between: Between, ns: str, coll: str) -> None:
        first, retry = self.sent_ids(between.thief, ns)
        for k, value in ids_by_k(stored(between.server, "long", coll)).items():
            assert value in first[k], "the stored document has the value of the first attempt"
            assert not first[k] & retry[k], "the retry got a value of its own"
        assert not checked("ok").violations(stored(between.server, "long", coll))

    def test_nothing_is_reported_of_a_replay(self, between: Between, coll: str, stage: str,
                                             ordered: bool):
        ns = f"long.{coll}"
        steal_if_resend(between, coll, stage)
        message = insert_message(ns, DOCUMENTS, ordered, more=session())
        with (wire.WireClient(between.proxy.address) as client,
              between.thief.hook(cut_the_last_reply(between.thief, ns))):
            client.send(message)
            with pytest.raises(wire.Closed):
                client.receive()
        with wire.WireClient(between.proxy.address) as client:
            again = client.call(message)
        assert again["n"] == 5
        check_retried(again, range(5))
        assert "idproxy" not in again
        self.check(between, ns, coll)
