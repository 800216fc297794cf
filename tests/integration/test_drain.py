"""SIGTERM: what is under way ends, what comes late is told to go elsewhere, and it is soon over.

A real replica set answers; what is under way is held up there by a failpoint, so that it is under
way for as long as the test likes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import bson
import pymongo
import pytest
from bson.int64 import Int64

from support import wire
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, configuration
from support.scrape import readiness

RULES = [{"ns": "drain.ruled", "field": "_id", "strategy": "counter"}]
SHUTTING_DOWN = 91


def session() -> dict[str, Any]:
    return {"id": bson.Binary(bson.ObjectId().binary + b"\0\0\0\0", 4)}


FIND = {"find": "held", "filter": {}, "$db": "drain"}


@contextmanager
def held_up(mongod: Mongod) -> Iterator[Callable[[], None]]:
    """FIND waits at the server until the function is called, or the context ends."""
    def set_to(mode: str) -> None:
        mongod.client.admin.command("configureFailPoint", "waitInFindBeforeMakingBatch",
                                    mode=mode, data={"nss": "drain.held"})

    mongod.client.drain.held.update_one({"_id": 1}, {"$set": {"x": 1}}, upsert=True)
    set_to("alwaysOn")
    try:
        yield lambda: set_to("off")
    finally:
        set_to("off")


def await_held_up(mongod: Mongod, number: int = 1) -> None:
    def finds() -> int:
        return len(list(mongod.client.admin.aggregate([
            {"$currentOp": {"allUsers": True, "idleConnections": False}},
            {"$match": {"command.find": "held"}}])))
    eventually(lambda: finds() == number, 30, "all finds are held up")


@pytest.fixture
def drained(replica_set: Mongod, start_proxy: Callable[..., Proxy]) -> Proxy:
    return start_proxy(configuration(
        replica_set, RULES, limits={"drain": "20s"}, admin={"listen": "127.0.0.1:0"}))


def terminate(proxy: Proxy) -> None:
    proxy.process.send_signal(signal.SIGTERM)
    proxy.wait_event("draining")


def ended(proxy: Proxy, timeout: float = 60.0) -> None:
    """By itself, as it should."""
    assert proxy.process.wait(timeout) == 0


def is_refusal(reply: wire.Message, *labels: str) -> None:
    body = reply.body
    assert (body["ok"], body["code"], body["codeName"]) == (0, SHUTTING_DOWN, "ShutdownInProgress")
    assert body.get("errorLabels", []) == list(labels)


def test_idle_connections_close_at_once(drained: Proxy):
    with wire.WireClient(drained.address) as spoken, wire.WireClient(drained.address) as silent:
        spoken.call({"ping": 1, "$db": "admin"})
        terminate(drained)
        assert spoken.closed_by_peer() and silent.closed_by_peer()
        ended(drained)
    with pytest.raises(OSError):
        wire.WireClient(drained.address)
    assert drained.find_events("stopped") and not drained.find_events("drain_forced")


def test_what_is_under_way_is_answered(drained: Proxy, replica_set: Mongod):
    with held_up(replica_set) as let_go, wire.WireClient(drained.address) as client:
        client.send(wire.command(FIND))
        await_held_up(replica_set)
        terminate(drained)
        with pytest.raises(OSError):
            wire.WireClient(drained.address)  # nobody is let in
        assert readiness(drained) == (503, "draining")
        let_go()
        assert client.receive().body["ok"] == 1
        assert client.closed_by_peer()
    ended(drained)


LATE: dict[str, tuple[dict[str, Any], *tuple[str, ...]]] = {
    "find": ({"find": "c", "filter": {}}, "RetryableWriteError"),
    "insert": ({"insert": "plain", "documents": [{"_id": 1}]}, "RetryableWriteError"),
    "ruled_insert": ({"insert": "ruled", "documents": [{"x": 1}]}, "RetryableWriteError"),
    "large_ruled_insert": ({"insert": "ruled", "documents": [{"x": "x" * 100_000}]},
                           "RetryableWriteError"),
    "retryable": ({"insert": "plain", "documents": [{"_id": 2}], "lsid": session(),
                   "txnNumber": Int64(1)}, "RetryableWriteError", "NoWritesPerformed"),
    "in_a_transaction": ({"insert": "ruled", "documents": [{"x": 2}], "lsid": session(),
                          "txnNumber": Int64(1), "autocommit": False, "startTransaction": True},
                         "TransientTransactionError"),
    "later_in_a_transaction": ({"find": "c", "filter": {}, "lsid": session(),
                                "txnNumber": Int64(1), "autocommit": False},
                               "TransientTransactionError"),
    "commit": ({"commitTransaction": 1, "lsid": session(), "txnNumber": Int64(1),
                "autocommit": False, "$db": "admin"}, "RetryableWriteError"),
    "abort": ({"abortTransaction": 1, "lsid": session(), "txnNumber": Int64(1),
               "autocommit": False, "$db": "admin"}, "RetryableWriteError"),
    "hello": ({"hello": 1, "$db": "admin"},),
    "isMaster": ({"isMaster": 1, "$db": "admin"},),
}


@pytest.mark.parametrize("compressor", [None, *wire.COMPRESSORS])
def test_what_comes_late_is_told_so(
        drained: Proxy, replica_set: Mongod, compressor: str | None):
    """Behind something that is still under way; and none of it reaches the server."""
    lates = {name: late for name, late in LATE.items()
             if compressor is None or name not in ("hello", "isMaster")}
    with held_up(replica_set) as let_go:
        clients = {}
        for name in lates:
            clients[name] = wire.client(drained.address, compressor)
            clients[name].send(wire.command(FIND))
        await_held_up(replica_set, len(lates))
        terminate(drained)
        for name, (late, *_) in lates.items():
            clients[name].send(wire.command({**late, "$db": late.get("$db", "drain")},
                                             request_id=77))
        time.sleep(0.2)  # so that most of them come before, and the rest after
        let_go()
        for name, (_, *labels) in lates.items():
            assert clients[name].receive().body["ok"] == 1
            refusal = clients[name].receive()
            assert refusal.response_to == 77, name
            is_refusal(refusal, *labels)
            assert clients[name].closed_by_peer()
            clients[name].close()
    ended(drained)
    stored = replica_set.client.drain
    assert stored.plain.count_documents({}) == 0 and stored.ruled.count_documents({}) == 0


def test_unacknowledged_writes_are_not_lost(drained: Proxy, replica_set: Mongod):
    """Nobody would hear that they came late."""
    target = replica_set.client.drain.unacknowledged
    target.drop()
    with held_up(replica_set) as let_go, wire.WireClient(drained.address) as client:
        client.send(wire.command(FIND))
        await_held_up(replica_set)
        terminate(drained)
        client.send(wire.command({"insert": "unacknowledged", "documents": [{"_id": 1}],
                                  "writeConcern": {"w": 0}, "$db": "drain"},
                                 flags=wire.MORE_TO_COME))
        let_go()
        client.receive()
        assert client.closed_by_peer()
    ended(drained)
    eventually(lambda: target.count_documents({}) == 1, 10, "it is stored")


def awaited_hello(client: wire.WireClient, flags: int = 0) -> bytes:
    version = client.call({"hello": 1, "$db": "admin"})["topologyVersion"]
    return wire.command({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 30_000,
                         "$db": "admin"}, flags=flags, request_id=55)


def test_a_hello_that_waits_for_news_is_answered(drained: Proxy):
    with wire.WireClient(drained.address) as client:
        client.send(awaited_hello(client))
        time.sleep(0.2)  # it waits at the server
        terminate(drained)
        reply = client.receive()
        assert reply.response_to == 55 and not reply.flags & wire.MORE_TO_COME
        is_refusal(reply)
        assert client.closed_by_peer()
    ended(drained)


def test_a_stream_of_hellos_ends(drained: Proxy, replica_set: Mongod):
    with wire.WireClient(drained.address) as client:
        client.send(awaited_hello(client, wire.EXHAUST_ALLOWED).replace(
            b"maxAwaitTimeMS\0\x30\x75", b"maxAwaitTimeMS\0\xc8\x00"))
        first = client.receive()
        second = client.receive()
        assert first.flags & wire.MORE_TO_COME and second.response_to == first.request_id
        terminate(drained)
        last = second
        while (reply := client.receive()).flags & wire.MORE_TO_COME:
            last = reply
        assert reply.response_to == last.request_id
        is_refusal(reply)
        assert client.closed_by_peer()
    ended(drained)


def test_an_exhaust_cursor_is_cut_between_replies(drained: Proxy, replica_set: Mongod):
    source = replica_set.client.drain.source
    source.drop()
    source.insert_many([{"_id": i, "pad": "x" * 1000} for i in range(20_000)])
    with wire.WireClient(drained.address) as client:
        cursor = client.call({"find": "source", "batchSize": 1, "$db": "drain"})["cursor"]["id"]
        client.send(wire.command({"getMore": cursor, "collection": "source", "batchSize": 1,
                                  "$db": "drain"}, flags=wire.EXHAUST_ALLOWED))
        received = [client.receive()]
        terminate(drained)
        with pytest.raises(wire.Closed):
            while True:
                received.append(client.receive())
    assert 0 < len(received) < 19_999
    assert all(reply.body["ok"] == 1 for reply in received)
    ended(drained)


def test_the_limit_cuts_off_what_is_left(replica_set: Mongod, start_proxy: Callable[..., Proxy]):
    proxy = start_proxy(configuration(replica_set, RULES, limits={"drain": "300ms"}))
    with held_up(replica_set), wire.WireClient(proxy.address) as client:
        client.send(wire.command(FIND))
        await_held_up(replica_set)
        terminate(proxy)
        assert client.closed_by_peer()
        ended(proxy)
    assert proxy.wait_event("drain_forced")["connections"] == 1


def test_a_second_signal_ends_it_at_once(drained: Proxy, replica_set: Mongod):
    with held_up(replica_set), wire.WireClient(drained.address) as client:
        client.send(wire.command(FIND))
        await_held_up(replica_set)
        terminate(drained)
        drained.process.send_signal(signal.SIGTERM)
        assert client.closed_by_peer()
        ended(drained, 15)  # well before the drain's limit


@pytest.mark.parametrize("before", [[], [signal.SIGTERM]], ids=["serving", "draining"])
def test_sigquit_ends_it_at_once(drained: Proxy, replica_set: Mongod, before: list[signal.Signals]):
    with held_up(replica_set), wire.WireClient(drained.address) as client:
        client.send(wire.command(FIND))
        await_held_up(replica_set)
        for each in before:
            drained.process.send_signal(each)
            drained.wait_event("draining")
        drained.process.send_signal(signal.SIGQUIT)
        assert client.closed_by_peer()
        ended(drained, 15)  # well before the drain's limit
    assert "SIGQUIT" in drained.wait_event("stopping")["message"]
    assert drained.find_events("stopped") and not drained.find_events("drain_forced")


def test_signals_for_other_programs(drained: Proxy):
    """mongod's logrotate sends SIGUSR1 to all that it takes for mongod."""
    with wire.WireClient(drained.address) as client:
        for each in ("USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "PWR"):
            drained.process.send_signal(signal.Signals[f"SIG{each}"])
            assert client.call({"ping": 1, "$db": "admin"})["ok"] == 1, each
        drained.process.send_signal(signal.SIGHUP)  # comes after those
        drained.wait_event("reloaded")
        assert client.call({"ping": 1, "$db": "admin"})["ok"] == 1


def test_transactions_go_on_elsewhere(replica_set: Mongod, start_proxy: Callable[..., Proxy]):
    """One that nothing is under way of does not hold its connection."""
    first, second = (start_proxy(configuration(replica_set, RULES)) for _ in range(2))
    target = replica_set.client.drain.ruled
    target.drop()
    replica_set.client.drain.create_collection("ruled")
    lsid = session()
    inside = {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False, "$db": "drain"}
    with wire.WireClient(first.address) as client:
        assert client.call({"insert": "ruled", "documents": [{"x": 1}], "startTransaction": True,
                            **inside})["n"] == 1
        terminate(first)
        assert client.closed_by_peer()
        ended(first)
    with wire.WireClient(second.address) as client:
        assert client.call({"insert": "ruled", "documents": [{"x": 2}], **inside})["n"] == 1
        assert client.call({"commitTransaction": 1, **inside, "$db": "admin"})["ok"] == 1
    assert target.count_documents({}) == 2


def test_a_change_stream_resumes(replica_set: Mongod, start_proxy: Callable[..., Proxy]):
    config = configuration(replica_set, RULES, listen={"address": "127.0.0.1", "port": free_port()})
    first = start_proxy(config)
    target = replica_set.client.drain.watched
    target.drop()
    target.insert_one({"_id": 0})
    with first.client() as client, client.drain.watched.watch(max_await_time_ms=500) as stream:
        target.insert_one({"_id": 1})
        assert stream.next()["documentKey"] == {"_id": 1}
        token = stream.resume_token
        terminate(first)
        ended(first)
        second = start_proxy(config)  # at its port, since the driver wants to tell somebody that it ends
    target.insert_one({"_id": 2})
    with second.client() as client, client.drain.watched.watch(resume_after=token) as stream:
        assert stream.next()["documentKey"] == {"_id": 2}


def test_clients_that_are_just_connecting(drained: Proxy):
    """Nobody has heard of them yet: they are closed, and nothing hangs."""
    clients = [wire.WireClient(drained.address) for _ in range(50)]
    terminate(drained)
    for client in clients:
        assert client.closed_by_peer()
        client.close()
    ended(drained)


def test_a_driver_sees_no_error(replica_set: Mongod, start_proxy: Callable[..., Proxy]):
    """With retryable writes and reads, while the proxy is started anew on its port."""
    config = configuration(replica_set, RULES, listen={"address": "127.0.0.1", "port": 0})
    first = start_proxy(config)
    port = int(first.address.rpartition(":")[2])
    with pymongo.MongoClient(first.set_uri("rs0"), heartbeatFrequencyMS=500,
                             serverSelectionTimeoutMS=30_000) as client:
        target = client.drain.get_collection("driver")
        target.drop()
        for number in range(20):
            target.insert_one({"number": number})
            if number == 10:
                terminate(first)
                ended(first)
                start_proxy({**config, "listen": {"address": "127.0.0.1", "port": port}})
        assert target.count_documents({}) == 20
