"""Many clients, and large messages of many: what is served, what the proxy holds for it, and that
all of it is gone afterwards.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from support import wire
from support.admin import Admin
from support.crowd_server import LARGE_REPLY, CrowdServer
from support.full import FULL
from support.mongod import Mongod
from support.process import LITTLE_QUARANTINE, eventually, memory
from support.proxy import Proxy, configuration, is_sanitized
from support.scrape import metric
from support.threads import at_once
from support.wire import Closed, WireClient

RULES = [{"ns": "scale.ruled", "field": "n", "strategy": "uuid"}]
PING = {"ping": 1, "$db": "admin"}
MIB = 1 << 20

Start = Callable[..., Proxy]


@pytest.fixture(scope="module", autouse=True)
def enough_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def crowd() -> Iterator[CrowdServer]:
    with CrowdServer() as running:
        yield running


@pytest.fixture
def start(crowd: CrowdServer, standalone: Mongod, start_proxy: Start) -> Start:
    def start(**limits: str) -> Proxy:
        return start_proxy(
            configuration(crowd, RULES, standalone, admin={"listen": "127.0.0.1:0"},
                          limits={"drain": "1s", "first_byte": "5m", **limits}),
            environment=LITTLE_QUARANTINE)
    return start


def events(proxy: Proxy) -> int:
    """But for what the server's first reply to hello tells, which may come at any time."""
    return sum('"server_release"' not in line for line in proxy.log().splitlines())


def open_clients(proxy: Proxy, stack: ExitStack, number: int) -> list[WireClient]:
    return [stack.enter_context(WireClient(proxy.address, 60)) for _ in range(number)]


def all_served(clients: list[WireClient]) -> None:
    message = wire.command(PING)
    for client in clients:
        client.send(message)
    for client in clients:
        assert client.receive().body["ok"] == 1


def await_rest(proxy: Proxy, descriptors: int) -> None:
    eventually(lambda: metric(proxy, "idproxy_connections") == 0, 30, "nobody is connected")
    proxy.await_descriptors(descriptors, 30)


class TestConnections:
    @pytest.mark.parametrize("how", ["fin", "reset"])
    def test_connect_and_leave(self, start, record, how):
        number = 5000 if FULL else 1000
        proxy = start()
        rest = proxy.descriptors_at_rest()
        accepted, lines = metric(proxy, "idproxy_connections_accepted_total"), events(proxy)
        began = time.monotonic()
        for _ in range(number):
            client = WireClient(proxy.address)
            if how == "reset":
                client.reset()
            else:
                client.close()
        record(f"{number} clients connected and left, s", time.monotonic() - began)
        eventually(lambda: metric(proxy, "idproxy_connections_accepted_total") >= accepted + number,
                   30, "all of them were seen")
        await_rest(proxy, rest)
        assert events(proxy) == lines
        assert metric(proxy, "idproxy_log_lines_suppressed_total") == 0
        assert metric(proxy, "idproxy_connections_closed_total") == 0

    @pytest.mark.parametrize("number", [1000, pytest.param(10_000, marks=pytest.mark.full)])
    def test_idle(self, start, record, number):
        proxy = start()
        rest = proxy.descriptors_at_rest()
        # Both sides of each are descriptors of the proxy, which may have fewer.
        number = min(number, int(metric(proxy, "idproxy_connections_limit")))
        before, lines = memory(proxy.pid, "VmRSS"), events(proxy)
        with ExitStack() as stack:
            began = time.monotonic()
            clients = open_clients(proxy, stack, number)
            record(f"{number} clients connected, s", time.monotonic() - began)
            all_served(clients)
            record(f"{number} clients connected and served, s", time.monotonic() - began)
            assert metric(proxy, "idproxy_connections") == number
            resident = memory(proxy.pid, "VmRSS")
            record(f"{number} idle clients, RSS, MiB", resident / MIB)
            record("bytes of RSS for each of them", (resident - before) / number)
            assert is_sanitized() or resident < 200 * MIB
            all_served(clients)
        await_rest(proxy, rest)
        assert events(proxy) == lines

    @pytest.mark.full
    def test_all_at_once(self, start, record):
        """Each speaks when all of them have connected."""
        proxy = start()
        rest = proxy.descriptors_at_rest()
        with ExitStack() as stack:
            began = time.monotonic()
            clients = open_clients(proxy, stack, 5000)
            record("5000 connects, s", time.monotonic() - began)
            all_served(clients)
            record("5000 connects and pings, s", time.monotonic() - began)
        await_rest(proxy, rest)


READERS = """
import http.client, sys, threading
address, paths = sys.argv[1], ["/", "/?clients=app:x", "/status.json?clients=all", "/metrics"]
stop, read = threading.Event(), []

def work(index):
    while not stop.is_set():
        connection = http.client.HTTPConnection(address, timeout=60)
        try:
            connection.request("GET", paths[index % len(paths)])
            answer = connection.getresponse()
            answer.read()
            read.append(answer.status)
        except OSError:
            pass
        connection.close()

threads = [threading.Thread(target=work, args=[i]) for i in range(64)]
for each in threads: each.start()
sys.stdin.read()
stop.set()
for each in threads: each.join()
print(read.count(200), len(read))
"""
"""Reads the pages with 64 threads until its input ends; prints how many it got, of how many answers."""


@contextmanager
def readers(admin: Admin, record: Callable[[str, float], None]) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", READERS, admin.address], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        yield
        pages, answers = map(int, process.communicate()[0].split())
        record("pages read meanwhile", pages)
        record("refused meanwhile (503)", answers - pages)
        assert pages > 0


class TestPages:
    """Those who read what takes long do not stop those who ask whether it lives."""

    @pytest.mark.parametrize("number", [1000, pytest.param(10_000, marks=pytest.mark.full)])
    def test_liveness_beside_64_readers(self, start, record, number):
        proxy = start()
        admin = Admin(proxy)
        number = min(number, int(metric(proxy, "idproxy_connections_limit")))
        with ExitStack() as stack:
            all_served(open_clients(proxy, stack, number))
            stack.enter_context(readers(admin, record))
            p99 = []
            for _ in range(3):
                took = []
                for _ in range(200):
                    began = time.monotonic()
                    assert admin.get("/livez").status == 200
                    took.append(time.monotonic() - began)
                p99.append(sorted(took)[-2])
            record(f"p99 of /livez beside 64 readers and {number} clients, ms", min(p99) * 1000)
            assert is_sanitized() or min(p99) < 0.05


def inserted(proxy: Proxy, message: bytes, outcomes: list[Any]) -> None:
    try:
        with WireClient(proxy.address, 150) as client:
            outcomes.append(client.call(message)["n"])
    except (Closed, OSError, KeyError) as error:
        outcomes.append(error)


class TestLargeMessages:
    @pytest.mark.parametrize("number", [5, pytest.param(50, marks=pytest.mark.full)])
    def test_more_than_there_is_memory_for(self, start, record, number):
        """Backpressure: each waits for its turn, and none is refused."""
        proxy = start(buffered_messages="64MiB", message="2m")
        message = wire.op_msg(
            wire.body({"insert": "ruled", "$db": "scale"}),
            wire.sequence("documents", [{"x": i, "pad": "x" * 11_970_000} for i in range(4)]))
        assert len(message) > 47_000_000
        before = memory(proxy.pid, "VmRSS")
        outcomes: list[Any] = []
        at_once(*[lambda: inserted(proxy, message, outcomes)] * number, timeout=170)
        assert outcomes == [4] * number
        peak = memory(proxy.pid, "VmHWM")
        record(f"{number} inserts of 48 MB within 64 MiB, peak RSS, MiB", peak / MIB)
        assert peak < (before + 160 * MIB if is_sanitized() else 128 * MIB)
        assert metric(proxy, "idproxy_buffered_messages_waits_total") > 0
        eventually(lambda: metric(proxy, "idproxy_buffered_messages_bytes") == 0, 10)

    def test_readers_that_do_not_read(self, start, record):
        """What a server sends them stays with the server and in the kernel."""
        proxy = start()
        with ExitStack() as stack:
            clients = open_clients(proxy, stack, 101)
            all_served(clients)
            other = clients.pop()
            before = memory(proxy.pid, "VmRSS")
            for client in clients:
                client.send(wire.command({"find": "large", "$db": "scale"}))
            received = 'idproxy_bytes_total{peer="server",direction="received"}'

            def stalled() -> bool:
                at_first = metric(proxy, received)
                all_served([other] * 20)
                time.sleep(0.3)
                return at_first > 100 * 65536 and metric(proxy, received) - at_first < 100_000
            eventually(stalled, 60, "nothing more goes through")
            grown = memory(proxy.pid, "VmRSS") - before
            record("100 clients that read nothing, RSS, MiB", grown / MIB)
            record("received for each of them, MiB", metric(proxy, received) / 100 / MIB)
            assert grown < 48 * MIB
            for client in clients[-3:]:  # who does not read is cut off 30 s after it was asked
                assert len(client.receive().raw) > LARGE_REPLY
                assert client.call(PING)["ok"] == 1
        eventually(lambda: metric(proxy, "idproxy_connections") == 0, 20)

    @pytest.mark.full
    @pytest.mark.timeout(120)
    def test_a_reader_that_pauses(self, start):
        """Not quite as long as TCP_USER_TIMEOUT, which ends it though its end answers."""
        proxy = start()
        with WireClient(proxy.address, 60) as client:
            client.send(wire.command({"find": "large", "$db": "scale"}))
            time.sleep(25)
            assert len(client.receive().raw) > LARGE_REPLY
