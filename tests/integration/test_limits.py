"""What clients and servers can make the proxy wait for, or hold: each limit, that it bites where it
should and nowhere else, and the metric that says so.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from support import wire
from support.admin import Admin
from support.fake_server import FakeServer, Request, reply_to
from support.guarded import Guarded
from support.mongod import Mongod
from support.process import LITTLE_QUARANTINE, eventually, memory, processor_time
from support.proxy import Proxy, configuration, is_sanitized
from support.scrape import metric, metrics
from support.secrets import PASSWORD
from support.tls_by_hand import client_hello
from support.wire import Closed, WireClient

RULES = [{"ns": "limits.ruled", "field": "n", "strategy": "uuid"}]
PING = {"ping": 1, "$db": "admin"}
FIND = {"find": "plain", "filter": {}, "$db": "limits"}
HELLO = {"hello": 1, "$db": "admin"}
LEAST_BUDGET = 64 << 20
LARGE = 40_000_000  # of which the least budget has room for one

Limited = Callable[..., Proxy]


def large_insert(collection: str, size: int = LARGE, name: str = "large",
                 body_first: bool = True) -> bytes:
    """An insert of about this size; `name` is what the server knows it by."""
    pad = "x" * (size // 4)
    documents = [{"x": i, "pad": pad} for i in range(4)]
    sections = [wire.body({"insert": collection, "comment": name, "$db": "limits"}),
                wire.sequence("documents", documents)]
    return wire.op_msg(*(sections if body_first else reversed(sections)))


def small_insert(collection: str, name: str = "small") -> bytes:
    return wire.command({"insert": collection, "documents": [{"x": 1}], "comment": name,
                         "$db": "limits"})


class HoldingServer(FakeServer):
    """Answers inserts that the rule is for once it may, and remembers in which order they came."""

    def __init__(self) -> None:
        super().__init__()
        self.come: list[str] = []
        self.may_answer = threading.Event()
        self.others["insert"] = self._insert

    def _insert(self, request: Request) -> bytes:
        options = request.options
        if options["insert"] == "ruled":
            self.come.append(options["comment"])
            self.may_answer.wait(60)
        (flags,) = struct.unpack_from("<I", request.raw, 16)
        if flags & wire.MORE_TO_COME:
            return b""
        return reply_to(request, {"n": len(request.documents), "ok": 1.0})

    def close(self) -> None:
        self.may_answer.set()
        super().close()


class Sender:
    """A client that sends a message in a thread of its own, as it may take long to be read."""

    def __init__(self, proxy: Proxy, message: bytes, tls: ssl.SSLContext | None = None):
        self.client = WireClient(proxy.address, timeout=60, tls=tls)
        self._thread = threading.Thread(target=self._send, args=(message,), daemon=True)
        self._thread.start()

    def _send(self, message: bytes) -> None:
        try:
            self.client.send(message)
        except (Closed, OSError):
            pass  # who waits for the reply sees it

    def reply(self) -> dict[str, Any]:
        return self.client.receive().body

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.client.socket.shutdown(socket.SHUT_RDWR)  # which wakes the thread
        except OSError:
            pass
        self._thread.join(10)
        self.client.close()


def closed(proxy: Proxy, reason: str) -> float:
    """How many clients the proxy has closed for this reason."""
    return metric(proxy, f'idproxy_connections_closed_total{{reason="{reason}"}}')


def buffered(proxy: Proxy) -> float:
    return metric(proxy, "idproxy_buffered_messages_bytes")


def waiting(proxy: Proxy) -> float:
    return metric(proxy, "idproxy_buffered_messages_waiting")


def serves(proxy: Proxy) -> bool:
    """Whether a new client is served."""
    try:
        with WireClient(proxy.address) as client:
            return client.call(PING)["ok"] == 1
    except (Closed, OSError):
        return False


@pytest.fixture
def server() -> Iterator[HoldingServer]:
    with HoldingServer() as running:
        yield running


@pytest.fixture
def limited(server: HoldingServer, standalone: Mongod,
            start_proxy: Callable[..., Proxy]) -> Limited:
    """Starts a proxy with these limits."""
    def start(listen: dict[str, Any] = {}, within: tuple[str, ...] = (), **limits: str) -> Proxy:
        return start_proxy(configuration(
            server, RULES, standalone, admin={"listen": "127.0.0.1:0"},
            listen={"address": "127.0.0.1", "port": 0, **listen},
            limits={"drain": "1s", **limits}),
            within=within, environment=LITTLE_QUARANTINE)
    return start


class TestMaxConnections:
    def test_the_one_too_many(self, limited):
        proxy = limited({"max_connections": 3})
        began = time.monotonic()
        with ExitStack() as stack:
            clients = [stack.enter_context(WireClient(proxy.address)) for _ in range(3)]
            for client in clients:
                assert client.call(PING)["ok"] == 1
            for _ in range(60):
                with WireClient(proxy.address) as one_more:
                    assert one_more.closed_by_peer()
            assert closed(proxy, "max_connections") == 60
            assert metric(proxy, "idproxy_connections") == 3
            assert metric(proxy, "idproxy_connections_limit") == 3
            logged = len(proxy.find_events("too_many_connections"))
            assert 1 <= logged <= 10 * (time.monotonic() - began + 2)
            assert logged + metric(proxy, "idproxy_log_lines_suppressed_total") >= 60
            for client in clients:
                assert client.call(PING)["ok"] == 1
            clients[0].close()
            eventually(lambda: serves(proxy), 10, "the next one is served")


class TestFirstByte:
    def test_a_silent_client(self, limited):
        proxy = limited(first_byte="300ms")
        with WireClient(proxy.address) as client:
            assert client.closed_by_peer(20)
        assert closed(proxy, "first_byte") == 1
        eventually(lambda: metric(proxy, "idproxy_connections") == 0, 10)

    def test_one_byte_is_the_beginning_of_a_message(self, limited):
        proxy = limited(first_byte="10s", message="2s")
        with WireClient(proxy.address) as client:
            client.send(b"\x40")
            assert client.closed_by_peer(20)
        assert (closed(proxy, "first_byte"), closed(proxy, "message")) == (0, 1)

    def test_who_has_spoken_may_be_silent(self, limited):
        proxy = limited(first_byte="1s", message="1s")
        with WireClient(proxy.address) as client:
            assert client.call(PING)["ok"] == 1
            time.sleep(2)
            assert client.call(PING)["ok"] == 1
        assert (closed(proxy, "first_byte"), closed(proxy, "message")) == (0, 0)


BEGUN: dict[str, bytes] = {
    "header": wire.command(PING)[:7],
    "nothing_but_the_header": wire.command(PING)[:16],
    "relayed": wire.command({**FIND, "comment": "x" * 100_000})[:60_000],
    "collected": small_insert("ruled")[:-3],
    "collected_large": large_insert("ruled", 1_000_000)[:500_000],
    "sequence_before_the_body": large_insert("ruled", 1_000_000, body_first=False)[:500_000],
    "hello": wire.command(HELLO)[:-3],
}


class TestMessage:
    def test_begun(self, limited):
        proxy = limited(message="2s")
        with ExitStack() as stack:
            clients = {}
            for name, begun in BEGUN.items():
                clients[name] = stack.enter_context(WireClient(proxy.address))
                with suppress(Closed):  # by a limit that came before the last of it was sent
                    clients[name].send(begun)
            left = [name for name, client in clients.items() if not client.closed_by_peer(10)]
            assert left == []
        assert closed(proxy, "message") == len(BEGUN)
        assert len(proxy.find_events("message_timeout")) == len(BEGUN)
        eventually(lambda: buffered(proxy) == 0, 10)

    def test_begun_behind_a_whole_one(self, limited):
        """The next one's time begins when it does."""
        proxy = limited(message="500ms")
        with WireClient(proxy.address) as client:
            client.send(wire.command(PING) + wire.command(PING)[:10])
            assert client.receive().body["ok"] == 1
            assert client.closed_by_peer(20)
        assert closed(proxy, "message") == 1

    def test_begun_behind_an_exchange(self, limited):
        """Which holds it up for a while; then nobody but the client does."""
        proxy = limited(message="500ms")
        with WireClient(proxy.address) as client:
            client.send(wire.command(HELLO) + large_insert("ruled")[:300])
            assert client.receive().body["ok"] == 1
            assert client.closed_by_peer(20)
        assert closed(proxy, "message") == 1
        eventually(lambda: buffered(proxy) == 0, 10)

    @pytest.mark.parametrize("collection", ["plain", "ruled"])
    def test_a_trickle(self, limited, collection):
        proxy = limited(message="1s")
        message = large_insert(collection, 10_000)
        with WireClient(proxy.address) as client, pytest.raises(Closed):
            for at in range(len(message)):
                client.send(message[at:at + 1])
                time.sleep(0.05)
        assert closed(proxy, "message") == 1

    def test_a_client_that_never_pauses(self, limited, server):
        """No message of its ends where a read ends, but each ends soon."""
        server.may_answer.set()
        proxy = limited(message="3s")
        messages = [wire.command(PING), large_insert("plain", 100_000),
                    large_insert("ruled", 100_000)]
        with ExitStack() as stack:
            clients = [stack.enter_context(WireClient(proxy.address)) for _ in messages]
            for client, message in zip(clients, messages):
                client.send(message[:len(message) // 2])
            end = time.monotonic() + 4
            while time.monotonic() < end:
                for client, message in zip(clients, messages):
                    half = len(message) // 2
                    client.send(message[half:] + message[:half])
                    assert client.receive().body["ok"] == 1
        assert closed(proxy, "message") == 0

    @pytest.mark.parametrize("collection", ["plain", "ruled"])
    def test_a_server_that_does_not_read(self, limited, server, collection):
        """It is not the client that holds the message up."""
        server.early = lambda _: b""  # reads no more than the header before go_on
        server.may_answer.set()
        proxy = limited(message="2s")
        with Sender(proxy, large_insert(collection, 30_000_000)) as sender:
            eventually(lambda: server.early is None, 20, "the server has seen the header")
            time.sleep(3)
            assert closed(proxy, "message") == 0
            server.go_on.set()
            assert sender.reply()["n"] == 4
        assert closed(proxy, "message") == 0


class TestBufferedMessages:
    def test_large_ones_wait_and_small_ones_do_not(self, limited, server):
        """What is admitted has its room until the reply; who waits for more may do so for longer
        than limits.message; and nobody else is held up."""
        proxy = limited(buffered_messages="64MiB", message="4s")
        with ExitStack() as stack:
            def send(message: bytes) -> Sender:
                return stack.enter_context(Sender(proxy, message))

            senders = [send(large_insert("ruled", name="first"))]
            eventually(lambda: server.come == ["first"], 30, "the first one is at the server")
            assert LARGE <= buffered(proxy) <= LEAST_BUDGET
            before = memory(proxy.pid, "VmRSS")
            for number in range(5):
                senders.append(send(large_insert("ruled", name=f"large {number}")))
                eventually(lambda: waiting(proxy) == len(senders) - 1, 20, "it waits")
            small = [f"small {number}" for number in range(5)]
            for name in small:
                senders.append(send(small_insert("ruled", name=name)))
            begun = stack.enter_context(WireClient(proxy.address, 60))
            message = small_insert("ruled", name="in two parts")
            begun.send(message[:7])
            time.sleep(0.2)
            begun.send(message[7:])
            eventually(lambda: sorted(server.come) == sorted(["first", "in two parts", *small]), 20)
            assert waiting(proxy) == 5
            # Half of what the limit leaves is the most that one of them has received.
            assert memory(proxy.pid, "VmRSS") - before < 32 << 20
            assert buffered(proxy) <= LEAST_BUDGET

            other = stack.enter_context(WireClient(proxy.address))
            end = time.monotonic() + 5  # longer than limits.message
            while time.monotonic() < end:
                for command in (PING, FIND):
                    assert other.call(command)["ok"] == 1
                time.sleep(0.01)
            assert other.call(large_insert("plain", 1_000_000))["n"] == 4
            assert (closed(proxy, "message"), closed(proxy, "memory")) == (0, 0)

            server.may_answer.set()
            for each in senders:
                assert each.reply()["ok"] == 1
            assert begun.receive().body["n"] == 1
            assert set(server.come[7:]) == {f"large {number}" for number in range(5)}
        eventually(lambda: (buffered(proxy), waiting(proxy)) == (0, 0), 10)
        assert metric(proxy, "idproxy_buffered_messages_waits_total") >= 5
        assert metric(proxy, "idproxy_buffered_messages_limit_bytes") == LEAST_BUDGET

    def test_hello_does_not_wait(self, limited, server):
        """Drivers would take the server for dead."""
        proxy = limited(buffered_messages="64MiB")
        with Sender(proxy, large_insert("ruled", name="first")), ExitStack() as stack:
            eventually(lambda: server.come == ["first"], 30)
            stack.enter_context(Sender(proxy, large_insert("ruled", name="second")))
            eventually(lambda: waiting(proxy) == 1, 20)
            client = stack.enter_context(WireClient(proxy.address, 5))
            assert client.call(HELLO)["ok"] == 1
            assert client.call(wire.op_query("admin.$cmd", {"isMaster": 1}))["ok"] == 1
            assert client.call({"idproxy": "status", "$db": "admin"})["ok"] == 1
            server.may_answer.set()

    @pytest.mark.parametrize("secure, how", [(False, "reset"), (True, "fin")])
    def test_who_left_while_it_waited_is_passed_over(self, limited, server, certificates, how,
                                                     secure):
        """Of what it has sent, the proxy has read only a part, which may be noticed late."""
        proxy = limited(certificates.listen() if secure else {}, buffered_messages="64MiB",
                        first_byte="60s", message="60s")
        tls = certificates.access.tls if secure else None
        with Sender(proxy, large_insert("ruled", name="first"), tls):
            eventually(lambda: server.come == ["first"], 30)
            with Sender(proxy, large_insert("ruled", name="leaves"), tls) as leaving:
                eventually(lambda: waiting(proxy) == 1, 20)
                with Sender(proxy, large_insert("ruled", name="next"), tls) as last:
                    eventually(lambda: waiting(proxy) == 2, 20)
                    if how == "reset":
                        leaving.client.reset()
                    else:
                        leaving.client.socket.shutdown(socket.SHUT_RDWR)
                    server.may_answer.set()
                    assert last.reply()["n"] == 4
        assert "leaves" not in server.come
        eventually(lambda: (buffered(proxy), waiting(proxy)) == (0, 0), 10)

    def test_announced_and_never_sent(self, limited, server):
        """limits.message ends them, also where there is no room for what they announce."""
        proxy = limited(buffered_messages="64MiB", message="2s")
        with Sender(proxy, large_insert("ruled")) as sender, ExitStack() as stack:
            eventually(lambda: len(server.come) == 1, 20, "the first one has room")
            beginning = large_insert("ruled")[:1000]
            liars = [stack.enter_context(WireClient(proxy.address)) for _ in range(10)]
            for liar in liars:
                liar.send(beginning)
            assert all(liar.closed_by_peer(20) for liar in liars)
            assert waiting(proxy) == 0
            server.may_answer.set()
            assert sender.reply()["n"] == 4
        assert closed(proxy, "message") == 10
        eventually(lambda: (buffered(proxy), waiting(proxy)) == (0, 0), 10)

    def test_a_flood_of_unacknowledged_writes(self, limited, server):
        """The client is read no faster than the server reads."""
        number = 4000
        proxy = limited(buffered_messages="64MiB")
        message = wire.op_msg(
            wire.body({"insert": "ruled", "comment": "flood", "writeConcern": {"w": 0},
                       "$db": "limits"}),
            wire.sequence("documents", [{"pad": "x" * 20_000}]), flags=wire.MORE_TO_COME)
        assert serves(proxy)
        before = memory(proxy.pid, "VmRSS")
        with Sender(proxy, message * number) as sender:
            eventually(lambda: server.come == ["flood"], 20)
            read = 'idproxy_bytes_total{peer="client",direction="received"}'

            def stalled() -> bool:
                at_first = metric(proxy, read)
                time.sleep(0.3)
                return metric(proxy, read) == at_first
            eventually(stalled, 20, "the client is not read any more")
            assert metric(proxy, read) < number * len(message)
            assert memory(proxy.pid, "VmRSS") - before < (32 if is_sanitized() else 16) << 20
            server.may_answer.set()
            eventually(lambda: len(server.come) == number, 60, "all of them have come")
        assert closed(proxy, "message") == 0

    @pytest.mark.parametrize("collection", ["plain", "ruled"])
    def test_a_sequence_before_the_body(self, limited, server, collection):
        """It is held until it is known what it is for, so it counts."""
        server.may_answer.set()
        proxy = limited(buffered_messages="64MiB")
        message = large_insert(collection, 10_000_000, body_first=False)
        with WireClient(proxy.address, 60) as client:
            client.send(message[:10_000])
            eventually(lambda: buffered(proxy) == 10_000, 10, "it is counted by what has come")
            client.send(message[10_000:])
            assert client.receive().body["n"] == 4
        eventually(lambda: buffered(proxy) == 0, 10)


class TestAnnouncedMemory:
    """A24: clients hold what they have sent; who does not move gives way; halves do not wait for each
    other."""

    @pytest.fixture
    def served(self, standalone: Mongod, start_proxy: Callable[..., Proxy]) -> Limited:
        def start(**limits: str) -> Proxy:
            return start_proxy(configuration(standalone, RULES, admin={"listen": "127.0.0.1:0"},
                                             threads=2, limits=limits))
        return start

    def test_announced_memory_holds_nothing(self, served):
        proxy = served()
        with ExitStack() as stack:
            head = large_insert("ruled", 47_000_000)[:88]
            for _ in range(1000):
                stack.enter_context(WireClient(proxy.address)).send(head)
            client = stack.enter_context(WireClient(proxy.address, 30))
            assert client.call(small_insert("ruled"))["n"] == 1
            assert client.call(large_insert("ruled"))["n"] == 4
            assert metric(proxy, "idproxy_buffered_messages_waits_total") == 0
        assert closed(proxy, "memory") == 0

    def test_who_has_stopped_gives_way_and_who_moves_does_not(self, served):
        """With less memory than for both of them and a third."""
        proxy = served(buffered_messages="64MiB")
        with WireClient(proxy.address, 60) as moves, WireClient(proxy.address, 60) as stopped:
            message = large_insert("ruled", name="moves")
            moves.send(message[:5_000_000])
            stopped.send(large_insert("ruled", name="stopped")[:12_000_000])
            eventually(lambda: buffered(proxy) > 20_000_000)
            with Sender(proxy, large_insert("ruled")) as sender:
                at, end = 5_000_000, time.monotonic() + 30
                while not proxy.find_events("gave_way") and time.monotonic() < end:
                    moves.send(message[at:at + 1])
                    at += 1
                    time.sleep(0.2)
                assert sender.reply()["n"] == 4
                event = proxy.wait_event("gave_way")
                assert event["memory_bytes"] > 12_000_000
                assert event["client"].endswith(f":{stopped.socket.getsockname()[1]}")
                assert stopped.closed_by_peer(10)
            moves.send(message[at:])
            assert moves.receive().body["n"] == 4
        assert closed(proxy, "memory") == 1
        eventually(lambda: (buffered(proxy), waiting(proxy)) == (0, 0), 10)

    def test_who_stops_where_there_is_memory_goes_on(self, served):
        proxy = served()
        message = large_insert("ruled")
        with WireClient(proxy.address, 60) as client:
            client.send(message[:20_000_000])
            time.sleep(2.5)  # which is longer than where others wait
            client.send(message[20_000_000:])
            assert client.receive().body["n"] == 4
        assert closed(proxy, "memory") == 0

    def test_halves_do_not_wait_for_each_other(self, served):
        """Many at once, and memory for less than two."""
        proxy = served(buffered_messages="64MiB")
        with ExitStack() as stack:
            senders = [stack.enter_context(Sender(proxy, large_insert("ruled", name=str(number))))
                       for number in range(8)]
            for each in senders:
                assert each.reply()["n"] == 4
        assert (closed(proxy, "memory"), closed(proxy, "message")) == (0, 0)
        assert metric(proxy, "idproxy_buffered_messages_waits_total") > 0
        eventually(lambda: (buffered(proxy), waiting(proxy)) == (0, 0), 10)

    def test_the_page_says_who_holds_how_much(self, served):
        proxy = served()
        admin = Admin(proxy)
        with WireClient(proxy.address) as client, WireClient(proxy.address) as busy:
            client.send(large_insert("ruled")[:12_000_000])
            for _ in range(3):
                assert busy.call(PING)["ok"] == 1
            eventually(lambda: buffered(proxy) > 12_000_000)
            said = json.loads(admin.get("/status.json").text)
            first = said["clients"]["list"][0]
            assert first["address"].endswith(f":{client.socket.getsockname()[1]}")
            assert 12_000_000 <= first["memory"] <= 24_000_000
            assert said["limits"]["held_bytes"]["current"] >= first["memory"]
            assert "memory of messages" in admin.get("/").text

    def test_without_a_login_little_is_held(self, start_proxy):
        with Guarded() as mongod:
            mongod.add_user("app", ["readWriteAnyDatabase"])
            proxy = start_proxy(configuration(mongod, RULES, admin={"listen": "127.0.0.1:0"}))
            admin = Admin(proxy)
            eventually(lambda: json.loads(admin.get("/status.json").text)["servers"][0]["logins"])
            with WireClient(proxy.address) as client:
                assert client.call(HELLO)["ok"] == 1
                assert client.call(small_insert("ruled"))["code"] == 13
                assert client.call(large_insert("plain", 100_000))["code"] == 13
                client.send(large_insert("ruled", 70_000)[:200])
                assert client.closed_by_peer()
            event = proxy.wait_event("login_required")
            assert event["client"]
            with proxy.client(username="app", password=PASSWORD, authSource="admin") as known:
                known.limits.ruled.insert_one({"pad": "x" * 1_000_000})
                assert known.limits.ruled.find_one()["n"]


class TestTlsHandshake:
    def test_clients(self, limited, certificates):
        proxy = limited(certificates.listen(), tls_handshake="1s", first_byte="1s")
        hello = client_hello(certificates.access.tls)
        with ExitStack() as stack:
            silent, half, whole, trickle = (
                stack.enter_context(WireClient(proxy.address)) for _ in range(4))
            half.send(hello[:len(hello) // 2])
            whole.send(hello)
            with pytest.raises(Closed):
                for at in range(len(hello) - 1):
                    trickle.send(hello[at:at + 1])
                    time.sleep(0.05)
            assert all(each.closed_by_peer(10) for each in (silent, half, whole))
        assert (closed(proxy, "tls_handshake"), closed(proxy, "first_byte")) == (4, 0)
        late = proxy.find_events("tls_handshake_timeout")
        assert ["limits.tls_handshake" in each["message"] for each in late] == [True] * 4

    def test_then_the_first_byte(self, limited, certificates):
        proxy = limited(certificates.listen(), tls_handshake="5s", first_byte="1s")
        with WireClient(proxy.address, tls=certificates.access.tls) as silent:
            assert silent.closed_by_peer(20)
        assert (closed(proxy, "tls_handshake"), closed(proxy, "first_byte")) == (0, 1)


class TestConnectTimeout:
    @pytest.fixture
    def start(self, standalone: Mongod,
              start_proxy: Callable[..., Proxy]) -> Callable[[str], Proxy]:
        def start(uri: str) -> Proxy:
            proxy = start_proxy(
                {"upstream": {"uri": uri, "connect_timeout": "500ms"}, "rules": [],
                 "id_store": {"uri": standalone.uri}, "admin": {"listen": "127.0.0.1:0"}},
                await_ready=False)
            proxy.address = proxy.wait_event("listening", 30)["address"]
            # The page is there before the servers that it tells of.
            eventually(lambda: any("closed_total" in series for series in metrics(proxy)))
            return proxy
        return start

    def is_given_up(self, proxy: Proxy) -> None:
        before = closed(proxy, "connect")
        with WireClient(proxy.address) as speaks, WireClient(proxy.address) as silent:
            speaks.socket.settimeout(20)
            reply = speaks.call(PING)
            assert reply["code"] == 6 and reply["errmsg"].endswith(
                ": no answer within upstream.connect_timeout")
            assert speaks.closed_by_peer() and silent.closed_by_peer(20)
        assert closed(proxy, "connect") == before + 2
        assert metric(proxy, "idproxy_listener_connect_failures_total") >= 1
        assert metric(proxy, "idproxy_listener_up") == 0

    def test_no_answer_to_the_tls_handshake(self, start, certificates):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = "127.0.0.1:%d" % listener.getsockname()[1]
            self.is_given_up(start(certificates.access.uri(address)))

    def test_a_full_backlog(self, start):
        with ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            for _ in range(4):  # the kernel takes one more than it is told
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            self.is_given_up(start("mongodb://127.0.0.1:%d" % listener.getsockname()[1]))


def limit_descriptors(proxy: Proxy, limit: int) -> None:
    hard = resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (limit, hard))


def descriptors(proxy: Proxy) -> set[int]:
    return {int(name) for name in os.listdir(f"/proc/{proxy.pid}/fd")}


def leave_descriptors(proxy: Proxy, number: int) -> None:
    """It can have so many more. What is limited is the largest one, and there may be gaps."""
    used = descriptors(proxy)
    free = (each for each in itertools.count() if each not in used)
    limit_descriptors(proxy, next(itertools.islice(free, number, None)))


def has_gaps(proxy: Proxy) -> bool:
    """A descriptor behind a gap, once closed, can be beyond the limit."""
    used = descriptors(proxy)
    return max(used) + 1 > len(used)


class TestDescriptors:
    @pytest.mark.tsan
    @pytest.mark.no_ubsan
    @pytest.mark.parametrize("left", [0, 1, 2])
    def test_they_run_out(self, limited, left):
        proxy = limited()
        with ExitStack() as stack:
            clients = [stack.enter_context(WireClient(proxy.address)) for _ in range(10)]
            for client in clients:
                assert client.call(PING)["ok"] == 1
            assert serves(proxy)
            assert closed(proxy, "descriptors") == 0
            eventually(lambda: metric(proxy, "idproxy_connections") == 10, 10)
            def without_gaps() -> bool:
                """Not so if an earlier client's descriptor was closed only now."""
                limit_descriptors(proxy, 4096)
                while has_gaps(proxy):
                    clients.append(stack.enter_context(WireClient(proxy.address)))
                    assert clients[-1].call(PING)["ok"] == 1
                leave_descriptors(proxy, left)
                return not has_gaps(proxy)
            eventually(without_gaps, 20)
            began = time.monotonic()
            waiting = [stack.enter_context(WireClient(proxy.address)) for _ in range(60)]
            before = processor_time(proxy.pid)
            time.sleep(2)
            assert processor_time(proxy.pid) - before < 1.0  # a loop burns 2 s
            for client in clients:
                assert client.call(PING)["ok"] == 1
            # Who still waits when the others leave gets their places, and keeps them.
            eventually(lambda: sum(each.closed_by_peer(0.001) for each in waiting) >= 58, 60)
            for client in clients[:5]:
                client.close()
            eventually(lambda: serves(proxy), 60, "a new one is served after some have left")
            for client in clients[5:]:
                assert client.call(PING)["ok"] == 1
        limit_descriptors(proxy, 4096)
        eventually(lambda: metric(proxy, "idproxy_connections") == 0, 20)
        assert closed(proxy, "descriptors") > 0
        assert metric(proxy, "idproxy_accept_failures_total") > 0
        # It tries again after 100 ms, and at once for each new client.
        most = 10 * (time.monotonic() - began) + 200
        assert 0 < len(proxy.find_events("accept_failed")) < most
        assert serves(proxy)

    @pytest.mark.tsan
    @pytest.mark.no_ubsan
    def test_it_is_not_the_servers_fault(self, limited):
        """With one left, a client can be accepted and no server connected to."""
        proxy = limited()
        assert serves(proxy)
        eventually(lambda: metric(proxy, "idproxy_connections") == 0, 10)

        def starved() -> bool:
            leave_descriptors(proxy, 1)  # anew each time: the store's connections come and go
            return not serves(proxy)
        eventually(lambda: all(starved() for _ in range(5)), 20, "nobody can be served")
        limit_descriptors(proxy, 4096)
        eventually(lambda: serves(proxy), 20)
        assert metric(proxy, "idproxy_listener_connect_failures_total") == 0
        assert proxy.find_events("upstream_unreachable") == []

    @pytest.mark.parametrize("number", [64, 256])
    def test_few_from_the_start(self, limited, number):
        proxy = limited({"max_connections": 5000}, within=("prlimit", f"--nofile={number}:{number}"))
        lowered = proxy.wait_event("max_connections_lowered")
        permitted = lowered["permitted"]
        assert lowered["descriptors"] == number and permitted < number / 2
        assert "LimitNOFILE=" in lowered["message"]
        assert lowered["max_connections"] == 5000 and lowered["needed"] > 10_000
        assert metric(proxy, "idproxy_connections_limit") == permitted
        with ExitStack() as stack:
            clients = [stack.enter_context(WireClient(proxy.address)) for _ in range(permitted)]
            for client in clients:
                assert client.call(PING)["ok"] == 1
            for _ in range(number):
                with WireClient(proxy.address) as one_more:
                    assert one_more.closed_by_peer(10)
            before = processor_time(proxy.pid)
            time.sleep(1)
            assert processor_time(proxy.pid) - before < 0.5
            assert closed(proxy, "max_connections") == number
            for client in clients:
                assert client.call(PING)["ok"] == 1
        eventually(lambda: serves(proxy), 10)
        assert closed(proxy, "descriptors") == 0
