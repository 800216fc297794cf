"""A client that ends its direction of the connection, and goes on reading: what it sent before is
answered, as mongod answers it, before the connection ends.

What becomes of a write at each of its steps when the client ends, closes or is cut off, is in
tests/unit/net/connection_pair_test.cpp (DoesNoMoreThanItsClientHadAskedForWhenItLeft)."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from support import wire
from support.access import OPEN
from support.fake_server import FakeServer, Request, reply_to
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.scrape import metric
from support.secured import Certificates
from support.thief import Robbed, fresh, insert_message, robbing
from support.tls_by_hand import ByHand
from support.wire import Closed, WireClient

PING = wire.command({"ping": 1, "$db": "admin"})
RULES = [{"ns": "ruled.*", "field": "made", "strategy": "uuid"},
         {"ns": "paused.*", "field": "made", "strategy": "uuid", "retry": {"backoff": "50ms"}},
         {"ns": "counted.*", "field": "n", "strategy": "counter"}]


@contextmanager
def connected(address: str, tls: ssl.SSLContext | None, timeout: float = 30) -> Iterator[WireClient]:
    with WireClient(address, timeout) as client:
        if tls:
            client.socket = ByHand(client.socket, tls)
        yield client


def end(client: WireClient, how: str) -> None:
    if "close_notify" in how:
        client.socket.close_notify()
    if "fin" in how:
        client.finish()


def replies(client: WireClient) -> list[dict[str, Any]]:
    """All of them, up to the end of the connection."""
    found = []
    try:
        while True:
            found.append(client.receive().body)
    except Closed:
        return found


def insert(coll: str, *keys: int, db: str = "ruled", **more: Any) -> dict[str, Any]:
    return {"insert": coll, "documents": [{"k": k} for k in keys], "$db": db, **more}


WAYS = [("plain", "fin"), ("tls", "close_notify"), ("tls", "close_notify, fin")]


@pytest.fixture(scope="module")
def secure(certificates: Certificates) -> Iterator[Mongod]:
    with Mongod(options=certificates.options, access=certificates.access) as mongod:
        yield mongod


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: " ".join(way))
def leg(request, certificates, standalone, secure) -> Iterator[SimpleNamespace]:
    """A proxy without TLS, or with TLS on both sides."""
    kind, how = request.param
    # The store's own connections come when they like, and are not counted where it is another server.
    server, store = (secure, standalone) if kind == "tls" else (standalone, secure)
    listen = {"listen": certificates.listen()} if kind == "tls" else {}
    access = certificates.access if kind == "tls" else OPEN
    config = configuration(server, RULES, store, **listen, admin={"listen": "127.0.0.1:0"})
    with Proxy(config, access=access) as proxy:
        yield SimpleNamespace(proxy=proxy, server=server, tls=access.tls, how=how)


def nothing_is_left(proxy: Proxy) -> None:
    eventually(lambda: metric(proxy, "idproxy_connections") == 0, 10, "no client")
    eventually(lambda: metric(proxy, "idproxy_buffered_messages_bytes") == 0, 10, "no memory")


@pytest.mark.tsan
class TestEachSide:
    def test_all_is_answered(self, leg, coll):
        unacknowledged = wire.op_msg(wire.body(insert(coll, 3, writeConcern={"w": 0})),
                                     flags=wire.MORE_TO_COME)
        descriptors = leg.proxy.descriptors_at_rest()
        for run in range(10):
            stored = leg.server.client["ruled"][coll]
            stored.drop()
            with connected(leg.proxy.address, leg.tls) as client:
                client.send(PING + wire.command(insert(coll, 1, 2)) + unacknowledged +
                            wire.command({"find": coll, "sort": {"k": 1}, "$db": "ruled"}) +
                            wire.command({"idproxy": "status", "$db": "admin"}) + PING)
                end(client, leg.how)
                found = replies(client)
            assert [each["ok"] for each in found] == [1] * 5, f"run {run}: {found}"
            assert found[1]["n"] == 2
            assert [d["k"] for d in found[2]["cursor"]["firstBatch"]] == [1, 2, 3]
            assert all("made" in d for d in found[2]["cursor"]["firstBatch"])
        leg.proxy.await_descriptors(descriptors)
        nothing_is_left(leg.proxy)

    def test_large_replies_of_a_slow_reader(self, leg, coll):
        leg.server.client["plain"][coll].insert_one({"s": "x" * 4_000_000})
        with connected(leg.proxy.address, leg.tls) as client:
            client.send(wire.command({"find": coll, "$db": "plain"}) * 10)
            end(client, leg.how)
            time.sleep(0.2)
            assert len(replies(client)) == 10
        nothing_is_left(leg.proxy)

    def test_an_idle_connection_ends_at_once(self, leg):
        with connected(leg.proxy.address, leg.tls) as client:
            assert client.call(PING)["ok"] == 1
            end(client, leg.how)
            assert client.closed_by_peer()


@pytest.fixture(scope="module")
def place(replica_set: Mongod) -> Iterator[Robbed]:
    with robbing(replica_set, RULES) as robbed:
        yield robbed


@pytest.mark.tsan
def test_duplicates_are_sent_again(place: Robbed, coll: str):
    ns = fresh(place, "paused", coll, "made")
    place.thief.steal(ns, "made", {1: 2})
    with wire.client(place.proxy.address, "snappy") as client:
        client.send(insert_message(ns, [{"k": k} for k in range(3)]))
        client.finish()
        reply = client.receive().body
        assert (reply["ok"], reply["n"]) == (1, 3) and "writeErrors" not in reply
        assert client.closed_by_peer()
    assert [d["k"] for d in place.stored(ns)] == [0, 1, 2]
    assert len(place.thief.inserts(ns)) == 3


@pytest.mark.tsan
def test_an_insert_waits_for_the_store(replica_set: Mongod, standalone: Mongod, coll: str):
    """And the requests behind it for the insert."""
    behind = [PING, wire.command({"buildInfo": 1, "$db": "admin"})]
    with Proxy(configuration(replica_set, RULES, standalone)) as proxy:
        with WireClient(proxy.address) as client:
            assert client.call(insert(coll, 0, db="counted"))["n"] == 1
            standalone.client.admin.command(
                "configureFailPoint", "failCommand", mode="alwaysOn", data={
                    "failCommands": ["findAndModify"], "blockConnection": True,
                    "blockTimeMS": 500, "appName": "mongo-idproxy"})
            try:
                client.send(wire.command(insert(coll, 1, 2, db="counted")) + b"".join(behind))
                client.finish()
                assert [each.get("n") for each in replies(client)] == [2] + [None] * len(behind)
            finally:
                standalone.client.admin.command("configureFailPoint", "failCommand", mode="off")
    assert [(d["k"], d["n"]) for d in replica_set.client["counted"][coll].find().sort("k")] == [
        (0, 1), (1, 2), (2, 3)]


class TestAsAServer:
    """The server is told of the end as soon as nothing more goes to it."""

    def outcome(self, address: str, *messages: bytes) -> list[tuple[Any, ...]]:
        with WireClient(address, 30) as client:
            for message in messages:
                client.send(message)
            client.finish()
            return [(each["ok"], each.get("code")) for each in replies(client)]

    def test_reads_are_interrupted(self, server, proxy, coll):
        """As those of a client that closes its connection, which looks the same."""
        server.client["plain"][coll].insert_one({})
        find = wire.command({"find": coll, "filter": {"$where": "sleep(20000) || true"},
                             "$db": "plain"})
        started = time.monotonic()
        expected = self.outcome(server.address, find, PING)
        assert self.outcome(proxy.address, find, PING) == expected
        assert time.monotonic() - started < 20, expected

    @pytest.mark.parametrize("flags", [0, wire.EXHAUST_ALLOWED])
    def test_a_hello_that_waits(self, server, proxy, flags):
        with WireClient(proxy.address) as client:
            version = client.call({"hello": 1, "$db": "admin"})["topologyVersion"]
        hello = wire.command({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 20_000,
                              "$db": "admin"}, flags=flags)
        started = time.monotonic()
        expected = self.outcome(server.address, hello)
        assert self.outcome(proxy.address, hello) == expected
        assert time.monotonic() - started < 20, expected


class TestBounds:
    """limits.message, for whoever does not go on."""

    @pytest.fixture
    def limited(self, standalone) -> Iterator[Callable[[Any], Proxy]]:
        running: list[Proxy] = []

        def start(server: Any) -> Proxy:
            running.append(Proxy(configuration(
                server, RULES, standalone, limits={"message": "1s", "drain": "1s"},
                log={"level": "debug", "format": "json"}, admin={"listen": "127.0.0.1:0"})))
            return running[-1]
        yield start
        for proxy in running:
            nothing_is_left(proxy)
            proxy.stop()

    def given_up(self, proxy: Proxy, number: int) -> None:
        eventually(lambda: metric(
            proxy, 'idproxy_connections_closed_total{reason="message"}') == number, 20)
        assert len(proxy.find_events("answer_timeout")) == number

    def test_a_client_that_never_reads(self, standalone, limited, coll):
        standalone.client["plain"][coll].insert_one({"s": "x" * 15_000_000})
        proxy = limited(standalone)
        with WireClient(proxy.address) as client:
            client.send(wire.command({"find": coll, "$db": "plain"}) * 10)
            client.finish()
            self.given_up(proxy, 1)

    @pytest.mark.parametrize("db, how, size", [
        ("plain", "finish", 1), ("ruled", "finish", 1), ("ruled", "close", 15_000_000)])
    def test_a_server_that_never_answers(self, limited, db, how, size):
        """A client that has closed its connection looks no different. The server's ends, too."""
        over = threading.Event()

        def never(_: Request) -> bytes:
            over.wait(60)
            return b""

        with FakeServer() as server:
            server.script = [never] * 3
            proxy = limited(server)
            with WireClient(proxy.address) as client:
                client.send(insert_message(f"{db}.c", [{"s": "x" * size}] * 2) + PING)
                eventually(lambda: server.inserts)
                getattr(client, how)()
                self.given_up(proxy, 1)
            over.set()
            eventually(lambda: server.connected == 0, 5, "the server's connection is closed")
            assert not proxy.find_events("upstream_unreachable")

    def test_a_server_that_takes_its_time(self, limited):
        """The time counts from the last event: many short ones may last longer together."""
        def slow(request: Request) -> bytes:
            time.sleep(0.4)
            return reply_to(request, {"n": 1, "ok": 1.0})

        with FakeServer() as server:
            server.script = [slow] * 5
            proxy = limited(server)
            with WireClient(proxy.address) as client:
                client.send(wire.command(insert("c", 1)) * 5)
                client.finish()
                assert [each["n"] for each in replies(client)] == [1] * 5
            self.given_up(proxy, 0)
