"""Three servers behind the proxy that step down, die and are cut off, and drivers that write.

The drivers' connection string names one listener and the set, and nothing else that they would not
say without a proxy. The same load goes directly to the servers at the same time: what an
application hears of there, it may hear of through the proxy.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pymongo
import pytest

from support import failover
from support.audit import Audit
from support.chaos import CrashNode
from support.counters import numbers
from support.elements import Element
from support.failover import Table, Told, Writer, Writers
from support.full import FULL
from support.middleman import Middleman, deafen, lost_packets
from support.process import eventually
from support.proxy import COMPRESSED, Proxy, Server, configuration
from support.replica_set import Member, ReplicaSet
from support.secured import Certificates, SecuredSet
from support.servers import has
from support.values import digits_of, to_uuid
from support.wire import EXHAUST_ALLOWED, MORE_TO_COME, Closed, command

# That connections log in again after a fault, drivers/test_secured_set.py shows each time.
SECURED = pytest.mark.secured(full=True)
STEP_DOWNS, KILLS = (20, 10) if FULL else (2, 1)
DIGITS = 6 if FULL else 5
RETRY = {"attempts": 100, "deadline": "60s"}
RULES = [
    {"ns": "through.digits", "field": "number", "strategy": "random-digits", "digits": DIGITS,
     "max_fill": 0.99, "retry": RETRY, "report": True},
    {"ns": "through.sparse", "field": "number", "strategy": "random-digits", "digits": DIGITS,
     "max_fill": 0.99, "retry": RETRY, "report": True},
    {"ns": "through.counter", "field": "n", "strategy": "counter", "block": {"size": 20},
     "report": True},
    {"ns": "through.ids", "field": "_id", "strategy": "counter", "assign": "driver",
     "block": {"size": 5}, "report": True},
    {"ns": "through.uuid", "field": "_id", "strategy": "uuid", "report": True},
    {"ns": "failover.*", "field": "n", "strategy": "counter", "block": {"size": 2},
     "report": True},
    {"ns": "frozen.*", "field": "_id", "strategy": "uuid", "report": True},
]


@pytest.fixture(scope="module")
def three(secured: Certificates | None) -> Iterator[ReplicaSet]:
    with SecuredSet(secured) if secured else ReplicaSet() as running:
        yield running


@pytest.fixture
def start_proxy(secured: Certificates | None,
                start_proxy: Callable[..., Proxy]) -> Callable[..., Proxy]:
    """Where all is secured its clients log in as the application does."""
    def start(config: dict[str, Any]) -> Proxy:
        if not secured:
            return start_proxy(config)
        return start_proxy({**config, "listen": secured.listen()}, access=secured.application)
    return start


@pytest.fixture(autouse=True)
def whole_again(three: ReplicaSet) -> Iterator[None]:
    yield
    three.heal()


@pytest.fixture
def connect(three: ReplicaSet) -> Iterator[Callable[..., pymongo.MongoClient]]:
    """connect(proxy): a driver that knows one listener; connect(three): without a proxy."""
    with ExitStack() as stack:
        def new(where: Proxy | ReplicaSet, **options: Any) -> pymongo.MongoClient:
            return stack.enter_context(pymongo.MongoClient(
                where.access.uri(where.address, f"replicaSet={three.name}"),
                **{"w": "majority", "serverSelectionTimeoutMS": 60_000, **COMPRESSED, **options}))
        yield new


def listeners(proxy: Proxy, servers: Iterable[Server]) -> list[str]:
    """The addresses that stand for these servers, in their order."""
    return [proxy.listener_of(each.address) for each in servers]


def stayed(client: pymongo.MongoClient, proxy: Proxy, servers: Iterable[Server]) -> bool:
    """The driver knows these servers, all of them, by the proxy's listeners."""
    known = {f"{host}:{port}" for host, port in client.topology_description.server_descriptions()}
    return known == set(listeners(proxy, servers))


# Drivers' load.

def tables(own: bool) -> list[Table]:
    """own: without a proxy, in collections that no proxy fills."""
    db = "direct" if own else "through"
    return [
        Table(f"{db}.digits", "number", None if own else digits_of(DIGITS, "int64", True), own=own,
              operations=("insert_one", "ordered", "unordered")),
        # A collision ends a transaction, so here not every other number is taken.
        Table(f"{db}.sparse", "number", None if own else digits_of(DIGITS, "int64", True), own=own,
              operations=("transaction",)),
        Table(f"{db}.counter", "n", own=own),
        Table(f"{db}.ids", "_id", own=own, driver_id=not own),
        Table(f"{db}.uuid", "_id", None if own else uuid7, own=own),
    ]


def uuid7(value: Element) -> None:
    """Made at some time of this long test."""
    assert to_uuid(value, "standard").version == 7


def taken(table: Table) -> range:
    """Numbers that are in use from the start."""
    if table.own or table.assigned != "number":
        return range(0)
    return range(0, 10**DIGITS, 2 if table.name == "digits" else 8)


NO_NUMBER = "OperationFailure 6"
"""Where the next primary gets no majority for longer than a counter waits, twice."""


def failures_through(load: Writers) -> int:
    """Without ConfigurationError: on a connection without sessions (STEPPING_DOWN) every
    transaction ends in one, for as long as the connection lives."""
    return sum(count for (_, error), count in load.errors_of("through").items()
               if error != "ConfigurationError")


def fate(three: ReplicaSet, writers: Writers, what: str, chance: random.Random) -> None:
    """One fault, and until everybody writes again."""
    if what == "step_down":
        three.step_down()
    elif what == "hand_over":
        failover.hand_over(three, chance)
    else:
        three.await_health()
        dead = failover.kill(three)
    writers.await_progress()
    if what == "kill":
        dead.restart()


@SECURED
@pytest.mark.timeout(3600 if FULL else 900)
def test_step_downs_and_dead_primaries(three, start_proxy, connect, record):
    """Two proxies, which fill the same collections, and the direct way, all at once."""
    through, direct = tables(own=False), tables(own=True)
    for table in through + direct:
        table.prepare(three.client, taken(table))
    proxies = [start_proxy(configuration(three, RULES)) for _ in range(2)]
    told = Told()
    clients = [connect(proxy, event_listeners=[told]) for proxy in proxies]
    audits = [Audit(three.uri, "through", ["counter"], "n"),
              Audit(three.uri, "through", ["ids"], "_id")]

    without = connect(three)
    writers = [Writer("direct", without, table) for table in direct]
    writers += [Writer("through", client, table) for client in clients for table in through]
    chance = random.Random(STEP_DOWNS)
    faults = ["step_down", "hand_over"] * (STEP_DOWNS // 2) + ["step_down"] * (STEP_DOWNS % 2)
    faults += ["kill"] * KILLS
    chance.shuffle(faults)
    with Writers(writers, "failover") as load:
        load.await_progress()
        for what in faults:
            fate(three, load, what, chance)
    three.await_health()

    known = {error for _, error in load.errors_of("direct")} | failover.LOST_TOO | {NO_NUMBER}
    if three.access.user:
        known.add(failover.NO_KEYS)
    heard = {error for _, error in load.errors_of("through")}
    assert heard <= known, load.errors
    assert failures_through(load) <= 2 * len(faults), load.errors
    assert all(stayed(client, proxy, three.members) for client, proxy in zip(clients, proxies))

    # MongoDB 4.4 itself loses documents.
    for table in through + (direct if has("keeps_writes") else []):
        violations = table.violations(three.client)
        assert not violations, violations[:5]
    for table in through:
        violations = told.violations(table, three.client)
        assert not violations, violations[:5]
    for audit, name in zip(audits, ("through.counter", "through.ids")):
        audit.end()
        for (ns, k), values in told.values.items():
            for value in values if ns == name else []:
                audit.told(value, k)
        assert not audit.violations(), audit.violations()[:5]

    # What was to be tested did happen.
    for way in ("direct", "through"):
        assert all(load.done[way, operation] > len(faults) for operation in failover.FEW)
    stopped: Counter[str] = Counter()
    for proxy, client in zip(proxies, clients):
        client.close()  # which says goodbye to the server
        proxy.stop()
        stopped.update({name: value for name, value in proxy.wait_event("stopped").items()
                        if isinstance(value, int)})
    assert stopped["duplicates_cured"] > 10 * len(faults)
    assert stopped["transactions_transient"] > 0
    assert stopped["duplicates_given_up"] == 0
    outcomes = sum((table.ledger.outcomes() for table in through), Counter())
    assert outcomes["refused"] > 0
    for name, value in [("documents through the proxy", outcomes["ok"]),
                        ("duplicates cured", stopped["duplicates_cured"]),
                        ("errors through the proxy", load.errors_of("through").total()),
                        ("errors without it", load.errors_of("direct").total())]:
        record(f"{name}, {STEP_DOWNS} step-downs and {KILLS} kills", value)


def test_the_load_sees_what_is_wrong(three, start_proxy, connect, coll):
    """Each of four faults that are planted, and no other. The ledger's own test is in test_chaos.py, the audit's in
    test_counter_crash.py."""
    proxy = start_proxy(configuration(three, RULES))
    table, told = Table(f"failover.{coll}", "n"), Told()
    table.prepare(three.client)
    collection = three.client["failover"][coll]
    with Writers([Writer("through", connect(proxy, event_listeners=[told]), table)]) as load:
        load.await_progress(8)
        three.primary.client.admin.command(
            "configureFailPoint", "failCommand", mode={"times": 1},
            data={"failCommands": ["insert"], "errorCode": 8000, "namespace": table.ns})
        load.await_progress(1)

    def found() -> list[str]:
        return [each.replace("\n", " ") for each in [
            *table.violations(three.client), *told.violations(table, three.client),
            *(error for _, error in load.errors_of("through"))]]

    assert len(found()) == 1 and "8000" in found()[0], found()
    lost, doubled, renumbered = [k for k, sent in table.ledger.sent.items() if sent.outcome == "ok"][:3]
    collection.delete_one({"k": lost})
    collection.insert_one({**collection.find_one({"k": doubled}), "_id": 1, "n": -1})
    collection.update_one({"k": renumbered}, {"$inc": {"n": 1_000_000}})
    assert any(f"k={lost}: ok, missing" in each for each in found()), found()
    assert any(f"k={doubled}: ok, stored 2 times" in each for each in found()), found()
    # Of documents without an `_id`, nothing is reported where retriedStmtIds are missing.
    of_report = [each for each in found() if "told" in each]
    expected = [doubled, renumbered] if has("retried_stmt_ids") else []
    assert sorted(int(each.partition("k=")[2].partition(":")[0]) for each in of_report) == sorted(expected), found()
    assert len(found()) == 3 + len(expected), found()


# Cables between the proxy and the servers. The set's own names lead past them, and the proxy has to
# find out which server is which.

@pytest.fixture
def cables(three: ReplicaSet) -> Iterator[list[Middleman]]:
    """One to each member, in their order."""
    with ExitStack() as stack:
        yield [stack.enter_context(Middleman(member.address)) for member in three.members]


def behind(three: ReplicaSet, cables: list[Middleman], rules: list[dict[str, Any]] = [],
           connect_timeout: str = "5s") -> dict[str, Any]:
    """The configuration of a proxy that knows the servers by their cables."""
    upstream = SimpleNamespace(address=",".join(cable.address for cable in cables),
                               access=three.access)
    config = configuration(upstream, rules, three)
    config["upstream"]["connect_timeout"] = connect_timeout
    return config


def sockets_to(proxy: Proxy, address: str) -> int:
    """How many the proxy holds that lead to this address, whatever their state."""
    port = int(address.rpartition(":")[2])
    held = set(os.listdir(f"/proc/{proxy.pid}/fd"))
    inodes = set()
    for name in held:
        try:
            inodes.add(os.readlink(f"/proc/{proxy.pid}/fd/{name}"))
        except FileNotFoundError:
            pass  # closed meanwhile
    with open("/proc/net/tcp") as file:
        sockets = [line.split() for line in file.readlines()[1:]]
    return sum(int(fields[2].rpartition(":")[2], 16) == port and f"socket:[{fields[9]}]" in inodes
               for fields in sockets)


# A driver that notices soon when a server is silent.
IMPATIENT = {"connectTimeoutMS": 1000, "heartbeatFrequencyMS": 500}
NO_CONNECTION = "NetworkTimeout"
"""Of a connection that was not made, TLS and login included, within connectTimeoutMS: no reply has
a limit here. Seen with sanitizers on a busy machine."""


@contextmanager
def cut_off(three: ReplicaSet, cable: Middleman, primary: Member, how: str) -> Iterator[None]:
    """For as long as the context lasts; another is elected, if the primary cannot be reached."""
    others = three.secondaries
    if how == "pulled":
        cable.pull()
        three.step_up(others[0])
        yield
        cable.mend()
    elif how == "reset":
        cable.reset()
        yield
    else:
        primary.process.send_signal(signal.SIGSTOP)
        try:
            eventually(lambda: any(m.hello().get("isWritablePrimary") for m in others), 60)
            yield
        finally:
            primary.process.send_signal(signal.SIGCONT)


@pytest.mark.tsan
@SECURED
@pytest.mark.parametrize("how", ["pulled", "reset", "frozen"])
def test_the_primary_is_cut_off_under_load(three, cables, start_proxy, connect, coll, how):
    """pulled: nothing arrives any more, and nobody says so. reset: connections end; the next ones
    are served. frozen: it takes what is sent, and says nothing. The load goes on at the next
    primary, on connections that were there, and then another election follows.

    No counter where a server is frozen: for seconds the next primary gets no majority, because the
    third server still waits for what the frozen one has for it. A writer can wait that long, and a
    counter says after 2 s that it has no number.
    """
    table, told = Table(f"failover.{coll}", "n"), Told()
    if how == "frozen":
        table = Table(f"frozen.{coll}", "_id", uuid7)
    table.prepare(three.client)
    config = behind(three, cables, RULES, connect_timeout="500ms")
    config["limits"] = {"message": "1s"}
    proxy = start_proxy(config)
    client = connect(proxy, event_listeners=[told], **IMPATIENT)
    audit = Audit(three.uri, table.db, [coll], table.assigned)
    with Writers([Writer("through", client, table)] * 4, how) as load:
        load.await_progress()
        for _ in range(3 if FULL else 1):
            old = three.primary
            cable = cables[three.members.index(old)]
            with cut_off(three, cable, old, how):
                load.await_progress()
                if how != "reset":
                    # The driver has closed what it had there. Within limits.message so has the
                    # proxy, but for attempts to connect: the driver's monitor has two connections,
                    # and the proxy makes one of its own.
                    eventually(lambda: sockets_to(proxy, cable.address) <= 3, 15, "it is let go")
            three.await_health()
            three.step_up(three.secondaries[-1])
            load.await_progress()
    known = failover.LOST_TOO | {NO_CONNECTION} | (set() if how == "frozen" else {NO_NUMBER})
    assert {error for _, error in load.errors_of("through")} <= known, load.errors
    assert failures_through(load) <= 20, load.errors
    assert stayed(client, proxy, cables)
    audit.end()
    for (_, k), values in told.values.items():
        for value in values:
            audit.told(value, k)
    violations = [*table.violations(three.client), *told.violations(table, three.client),
                  *audit.violations()]
    assert not violations, violations[:5]


@SECURED
def test_a_server_that_is_silent(three, cables, start_proxy):
    """Others are served meanwhile; who would connect to it is refused; it is served again."""
    proxy = start_proxy(behind(three, cables, connect_timeout="2s"))
    where = listeners(proxy, cables)
    for address in where:
        eventually(lambda address=address: serves(proxy, address), 15, "it is served")
    with ExitStack() as stack:
        others = [stack.enter_context(proxy.raw_client(address)) for address in where[1:]]
        cables[0].pull()
        with proxy.raw_client(where[0]) as client:
            assert client.closed_by_peer(10)
        assert all(client.call({"ping": 1, "$db": "admin"})["ok"] for client in others)
        assert all(serves(proxy, address) for address in where[1:])
        cables[0].mend()
        eventually(lambda: serves(proxy, where[0]), 60, "it is served again")


def serves(proxy: Proxy, address: str = "") -> bool:
    """A new client of this listener, or of the first one, gets an answer."""
    try:
        with proxy.raw_client(address, 5) as client:
            return client.call({"ping": 1, "$db": "admin"})["ok"] == 1
    except (Closed, OSError):
        return False


@pytest.mark.full
@SECURED
@pytest.mark.timeout(300)
def test_half_open(three, cables, start_proxy, record):
    """Nobody says anything any more, on either side, and both are freed: who waits for an answer,
    by TCP_USER_TIMEOUT; who does not, by keepalive (30 s and three probes of 10 s, of which the
    user timeout of 30 s allows no more)."""
    proxy = start_proxy(behind(three, cables))
    before = proxy.descriptors_at_rest()
    near = proxy.listener_of(cables[0].address)
    with Middleman(near) as downstream, ExitStack() as stack:
        ping = {"ping": 1, "$db": "admin"}
        silent = [stack.enter_context(proxy.raw_client(near, 5)) for _ in range(6)]
        gone = [stack.enter_context(proxy.raw_client(downstream.address, 5)) for _ in range(6)]
        assert all(client.call(ping)["ok"] for client in silent + gone)
        eventually(lambda: cables[0].is_quiet() and downstream.is_quiet())
        cables[0].pull()
        downstream.pull()
        started = time.monotonic()
        for client in silent[:3] + gone[:3]:
            client.send(command(ping))
        with ThreadPoolExecutor(len(silent)) as pool:
            closed = list(pool.map(lambda client: client.closed_by_peer(90), silent))
        assert all(closed), closed
        proxy.await_descriptors(before + 2, 90)
        record("seconds until half-open connections are freed", time.monotonic() - started)
        cables[0].mend()
        eventually(lambda: serves(proxy, near), 60, "it is served again")


# A server that dies.

@pytest.mark.tsan
@SECURED
@pytest.mark.parametrize("whom", ["primary", "secondary"])
def test_a_member_dies(three, start_proxy, record, whom):
    """Its clients are closed at once, nobody else's, and new ones until it is back."""
    proxy = start_proxy(configuration(three, []))
    member = three.primary if whom == "primary" else three.secondaries[0]
    near = proxy.listener_of(member.address)
    where = listeners(proxy, [m for m in three.members if m is not member])
    ping = {"ping": 1, "$db": "admin"}
    with ExitStack() as stack:
        there = [stack.enter_context(proxy.raw_client(near)) for _ in range(20)]
        elsewhere = [stack.enter_context(proxy.raw_client(address))
                     for address in where for _ in range(5)]
        assert all(client.call(ping)["ok"] for client in there + elsewhere)
        member.kill()
        started = time.monotonic()
        assert all(client.closed_by_peer() for client in there)
        record("seconds until 20 clients of a dead server are closed", time.monotonic() - started)
        refused = [stack.enter_context(proxy.raw_client(near)) for _ in range(20)]
        assert all(client.closed_by_peer(10) for client in refused)
        assert all(client.call(ping)["ok"] for client in elsewhere)
        assert all(serves(proxy, address) for address in where)
        member.restart()
        started = time.monotonic()
        eventually(lambda: serves(proxy, near), 60, "it is served again")
        record("seconds until a server that is back is served", time.monotonic() - started)


class Tomb:
    """Stands where a server was and hears nobody, but counts who knocks."""

    def __init__(self, port: int):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        deafen(self._listener)
        self._listener.listen(512)

    @property
    def knocks(self) -> int:
        return lost_packets(self._listener)

    def __enter__(self) -> Tomb:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def test_a_dead_server_is_left_in_peace(start_proxy, record):
    """200 clients come, 50 at a time, and the server is asked no more often than backoff allows:
    doubled from 50 ms to 2 s, less the jitter."""
    with CrashNode("rs1") as node:
        config = configuration(node, [])
        config["upstream"]["connect_timeout"] = "300ms"  # less than until TCP knocks again
        proxy = start_proxy(config)
        assert serves(proxy)
        node.kill()
        with Tomb(node.port) as tomb:
            def knock(_: int) -> bool:
                with proxy.raw_client() as client:
                    return client.closed_by_peer(30)
            started = time.monotonic()
            assert knock(0), "from here on it is known to be dead"
            with ThreadPoolExecutor(50) as pool:
                assert all(pool.map(knock, range(200)))
            seconds = time.monotonic() - started
            record("attempts to connect to a dead server by 200 clients", tomb.knocks)
            assert 0 < tomb.knocks <= 10 + 2 * seconds, (tomb.knocks, seconds)
        node.restart()
        eventually(lambda: serves(proxy), 60, "it is served again")


# What monitors of drivers hear.

class Stream:
    """A monitor's connection, to which the server says hello whenever something changes."""

    def __init__(self, proxy: Proxy, address: str):
        self.client = proxy.raw_client(address, 30)
        first = self.client.call({"hello": 1, "$db": "admin"})
        self.client.send(command(
            {"hello": 1, "$db": "admin", "topologyVersion": first["topologyVersion"],
             "maxAwaitTimeMS": 500}, flags=EXHAUST_ALLOWED, request_id=(asked := 77)))
        self._last = asked
        self.hello: dict[str, Any] = first

    def next(self) -> dict[str, Any]:
        message = self.client.receive()
        assert message.flags & MORE_TO_COME and message.response_to == self._last
        self._last, self.hello = message.request_id, message.body
        return self.hello

    def until(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        eventually(lambda: condition(self.next()), 30, "the stream says so")


@SECURED
def test_streams_of_hello(three, start_proxy):
    """They tell of a new primary by the listener's name, in order, and end with their server."""
    proxy = start_proxy(configuration(three, []))
    where = {member.address: proxy.listener_of(member.address) for member in three.members}
    streams = {member.address: Stream(proxy, where[member.address]) for member in three.members}
    for fault in (ReplicaSet.step_down, failover.kill):
        old = three.primary
        fault(three)
        if fault is failover.kill:
            with pytest.raises(Closed):
                while True:
                    streams[old.address].next()
            del streams[old.address]
        new = where[three.primary.address]
        for address, stream in streams.items():
            # One that is elected says so a moment before it takes writes.
            stream.until(lambda hello: hello.get("primary") == new and
                         hello["isWritablePrimary"] == (where[address] == new))
            assert stream.hello["me"] == where[address]
            assert stream.hello["hosts"] == list(where.values())
    for stream in streams.values():
        stream.client.close()


# The id store.

@SECURED
def test_the_store_needs_one_secondary_of_the_uri(three, start_proxy, connect, coll):
    """It follows the set from there, also when that one is gone, as drivers do."""
    secondary = three.secondaries[0]
    proxy = start_proxy(configuration(secondary, RULES))
    client = connect(proxy)
    collection = client["failover"][coll]

    def inserted() -> bool:
        """Nothing of it is, where the counter has waited for the store in vain."""
        try:
            return bool(collection.insert_many([{}, {}, {}]))
        except pymongo.errors.OperationFailure as error:
            if error.code != 6:
                raise
            return False

    assert inserted()
    three.step_up(next(m for m in three.secondaries if m is not secondary))
    eventually(inserted, 30)
    secondary.kill()
    eventually(inserted, 30)
    assert stayed(client, proxy, three.members)
    found = numbers(three.client, f"failover.{coll}")
    assert len(set(found)) == 9 and max(found) <= 13
