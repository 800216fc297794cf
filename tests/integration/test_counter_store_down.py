"""The servers of the counters cannot be reached: what goes on, what is said, and for how long."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pymongo
import pymongo.errors
import pytest

from support import wire
from support.access import Access
from support.admin import LISTEN, Admin
from support.chaos import CrashNode
from support.counters import counter, insert, numbers
from support.middleman import Cut, Middleman
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.secrets import PASSWORD
from support.thief import Passed, Thief, insert_message, session
from support.threads import Threads

RULES = [
    {"ns": "counted.*", "field": "n", "strategy": "counter", "block": {"size": 10}},
    {"ns": "single.*", "field": "n", "strategy": "counter", "block": {"size": 1}},
    {"ns": "auto.*", "field": "n", "strategy": "counter"},
    {"ns": "bare.*", "field": "n", "strategy": "counter", "block": {"size": 1}},
    {"ns": "ends.*", "field": "n", "strategy": "counter", "block": {"size": 1}, "max": 1},
    *({"ns": "three.*", "field": each, "strategy": "counter"} for each in "nop"),
    {"ns": "waits.*", "field": "n", "strategy": "counter", "block": {"size": 1},
     "on_store_down": {"action": "wait", "wait": "1900ms"}},
    {"ns": "waits-briefly.*", "field": "n", "strategy": "counter", "block": {"size": 1},
     "on_store_down": {"action": "wait", "wait": "200ms"}},
    {"ns": "made.*", "field": "n", "strategy": "uuid"},
]

# docs/strategies.md#when-no-value-is-available promises 2 s. No test is to fail for a machine that
# was busy for a moment.
PATIENCE = 8.0

REPEATABLE = ["RetryableWriteError", "NoWritesPerformed"]
TRANSACTION = {"autocommit": False, "startTransaction": True}
LABELS: dict[str, tuple[Callable[[], dict[str, Any]], list[str] | None]] = {
    "plain": (lambda: {}, None),
    "session": (lambda: {"lsid": session()["lsid"]}, None),
    "txnNumber": (session, REPEATABLE),
    "transaction": (lambda: {**session(), **TRANSACTION}, ["TransientTransactionError"]),
}


def unavailable(reply: dict[str, Any]) -> bool:
    return (reply["ok"], reply.get("code"), reply.get("codeName")) == (0, 6, "HostUnreachable")


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = time.monotonic()
    result = call()
    return result, time.monotonic() - started


def recovery(proxy: Proxy, ns: str) -> float:
    """How long it takes until an insert gets its number."""
    started = time.monotonic()

    def served() -> bool:
        reply = insert(proxy, ns, 1)
        assert reply["ok"] or unavailable(reply), reply
        return bool(reply["ok"])
    eventually(served, 15, "the counter is served again")
    return time.monotonic() - started


@pytest.fixture(scope="module")
def gate(standalone: Mongod) -> Iterator[Middleman]:
    """The store is behind it, and nothing else."""
    with Middleman(standalone.address) as gate:
        yield gate


@pytest.fixture(scope="module")
def proxy(replica_set: Mongod, gate: Middleman) -> Iterator[Proxy]:
    """Its clients' server is another one than its store's."""
    with Proxy(config(replica_set, gate)) as running:
        yield running


def config(server: Mongod, gate: Middleman) -> dict[str, Any]:
    return {**configuration(server, RULES),
            "id_store": {"uri": f"{gate.uri}&serverSelectionTimeoutMS=300"}}


def patient(server: Mongod, gate: Middleman) -> dict[str, Any]:
    """As long as it is by default."""
    return {**configuration(server, RULES), "id_store": {"uri": gate.uri}}


def upstream(server: Thief) -> dict[str, Any]:
    return {"upstream": {"uri": f"mongodb://{server.address}/"}}


@pytest.fixture(autouse=True)
def open_again(gate: Middleman, proxy: Proxy, coll: str) -> Iterator[None]:
    yield
    gate.open()
    recovery(proxy, f"single.after_{coll}")


@pytest.mark.usefixtures("lonely")  # whose time passes meanwhile
class TestDown:
    def test_what_a_client_is_told(self, replica_set, start_proxy, gate, coll, record):
        """And when, and that nothing was inserted."""
        ns = f"single.{coll}"
        proxy = start_proxy(patient(replica_set, gate))
        gate.shut()
        for name, (more, labels) in LABELS.items():
            reply, seconds = timed(lambda: insert(proxy, ns, 2, more=more()))
            assert unavailable(reply), reply
            assert reply.get("errorLabels") == labels
            assert all(word in reply["errmsg"] for word in (ns, "'n'", "counter")), reply["errmsg"]
            record(f"store down, {name}: seconds until it is said", seconds)
            assert seconds < PATIENCE
        assert not numbers(replica_set.client, ns)

    @pytest.mark.parametrize("db", ["bare", "ends"])
    def test_the_repetition_of_a_write_that_is_stored(self, replica_set, start_proxy, gate, coll,
                                                      db):
        """Its reply was lost, and now there is no number for it: the application hears that it is
        not known what became of the write, and not that it failed."""
        ns = f"{db}.{coll}"
        with Thief(replica_set) as thief:
            proxy = start_proxy({**patient(replica_set, gate), **upstream(thief)})

            def lose_the_reply(message: Passed) -> bytes:
                if message not in thief.replies(ns):
                    return message.raw
                if db == "bare":
                    gate.shut()
                raise Cut
            with (pymongo.MongoClient(f"mongodb://{proxy.address}/?directConnection=true") as app,
                  thief.hook(lose_the_reply), pytest.raises(pymongo.errors.AutoReconnect)):
                app[db][coll].insert_one({})
            assert len(thief.inserts(ns)) == 1
        assert numbers(replica_set.client, ns) == [1]

    def test_served_until_the_block_ends(self, proxy, gate, replica_set, coll):
        """And from where it ended, once the store is back."""
        ns = f"counted.{coll}"
        assert insert(proxy, ns, 1)["n"] == 1
        gate.shut()
        given = 1
        while (reply := insert(proxy, ns, 1))["ok"]:
            given += 1
        assert unavailable(reply) and 10 <= given <= 20
        assert all(unavailable(insert(proxy, ns, 1)) for _ in range(3))
        gate.open()
        recovery(proxy, ns)
        found = numbers(replica_set.client, ns)
        assert found[:given] == list(range(1, given + 1))
        assert found == sorted(set(found)) and found[given] <= given + 21

    def test_everything_else_goes_on(self, proxy, gate, coll):
        gate.shut()
        assert unavailable(insert(proxy, f"single.{coll}", 1))
        assert insert(proxy, f"made.{coll}", 3)["n"] == 3
        assert insert(proxy, f"no-rule.{coll}", 3)["n"] == 3
        assert insert(proxy, f"single.{coll}", [{"n": 5}])["n"] == 1, "it needs no number"

    def test_nobody_waits_for_those_who_wait(self, proxy, gate, coll):
        """Fifty clients hang on the store; another one does not notice."""
        assert insert(proxy, f"waits.{coll}", 1)["n"] == 1
        gate.shut()
        with ThreadPoolExecutor(50) as pool:
            waiting = [pool.submit(insert, proxy, f"waits.{coll}", 1) for _ in range(50)]
            times = []
            for _ in range(20):
                reply, seconds = timed(lambda: insert(proxy, f"made.{coll}", 1))
                assert reply["n"] == 1
                times.append(seconds)
            assert sorted(times)[-3] < 1, times  # any of them would take 1.9 s
            assert all(unavailable(each.result()) for each in waiting)

    def test_the_connection_goes_on(self, proxy, gate, coll):
        """Replies keep their order, and the next insert finds the store again."""
        gate.shut()
        with wire.WireClient(proxy.address, 30) as client:
            client.send(insert_message(f"single.{coll}", [{}], request_id=1) +
                        wire.command({"ping": 1, "$db": "admin"}, request_id=2))
            replies = [client.receive() for _ in range(2)]
            assert [r.response_to for r in replies] == [1, 2]
            assert unavailable(replies[0].body) and replies[1].body["ok"] == 1
            gate.open()
            eventually(lambda: client.call(insert_message(f"single.{coll}", [{}]))["ok"], 15)

    def test_a_client_that_does_not_wait_for_replies(self, proxy, gate, replica_set, coll):
        """Without a number its insert is dropped, never forwarded."""
        gate.shut()
        with wire.WireClient(proxy.address, 30) as client:
            client.send(insert_message(f"single.{coll}", [{"k": 0}], flags=wire.MORE_TO_COME,
                                       more={"writeConcern": {"w": 0}}) +
                        wire.command({"ping": 1, "$db": "admin"}, request_id=2))
            assert client.receive().response_to == 2
        assert not numbers(replica_set.client, f"single.{coll}")

    def test_it_is_logged_once(self, replica_set, start_proxy, gate, coll):
        proxy = start_proxy(config(replica_set, gate))
        assert insert(proxy, f"single.{coll}", 1)["n"] == 1
        gate.shut()
        for _ in range(3):
            assert unavailable(insert(proxy, f"single.{coll}", 1))
        gate.open()
        recovery(proxy, f"single.{coll}")
        proxy.stop()
        assert [len(proxy.find_events(name)) for name in ("store_down", "store_up")] == [1, 1]


class TestBack:
    @pytest.mark.parametrize("db", ["single", "counted", "auto"])
    def test_service_returns(self, proxy, gate, coll, record, db):
        """Within a second, on a machine that has nothing else to do."""
        ns = f"{db}.{coll}"
        assert insert(proxy, ns, 1)["n"] == 1
        gate.shut()
        eventually(lambda: unavailable(insert(proxy, ns, 1)))
        gate.open()
        seconds = recovery(proxy, ns)
        record(f"{db}: seconds until the store serves again", seconds)
        assert seconds < 15

    def test_what_could_not_be_given_back_is_given_back_later(
            self, replica_set, standalone, start_proxy, gate, coll):
        """Since nobody has gone on."""
        ns = f"counted.{coll}"
        proxy = start_proxy(config(replica_set, gate))
        assert insert(proxy, ns, 1)["n"] == 1
        gate.shut()
        insert(proxy, f"single.{coll}", 1)  # so that the store is asked in any case
        proxy.wait_event("store_down", timeout=20)
        gate.open()
        recovery(proxy, f"single.{coll}")
        proxy.stop()
        assert counter(standalone.client, ns)["COUNT"] == 2

    def test_down_at_start(self, replica_set, start_proxy, gate, coll, record):
        gate.shut()
        proxy, seconds = timed(lambda: start_proxy(patient(replica_set, gate)))
        record("seconds until the proxy is ready without its store", seconds)
        assert insert(proxy, f"made.{coll}", 1)["n"] == 1
        reply, seconds = timed(lambda: insert(proxy, f"single.{coll}", 1, more=session()))
        assert unavailable(reply) and reply["errorLabels"] == REPEATABLE
        assert seconds < PATIENCE
        gate.open()
        record("down at start: seconds until it serves", recovery(proxy, f"single.{coll}"))
        assert numbers(replica_set.client, f"single.{coll}") == [1]

    def test_it_stops_while_the_store_is_gone(self, replica_set, start_proxy, gate, coll):
        """With numbers that it cannot give back."""
        proxy = start_proxy(config(replica_set, gate))
        assert insert(proxy, f"counted.{coll}", 1)["n"] == 1
        gate.shut()
        _, seconds = timed(proxy.stop)
        assert seconds < 30


class TestWaiting:
    """on_store_down: wait."""

    def test_it_comes_back_in_time(self, proxy, gate, replica_set, coll):
        """A client who comes while it is known to be down sees nothing of it. A busy machine may
        find the store too late, but not every time."""
        ns = f"waits.{coll}"
        assert insert(proxy, ns, 1)["n"] == 1
        with wire.WireClient(proxy.address, 30) as client:

            def gets_it() -> bool:
                gate.shut()
                assert unavailable(insert(proxy, ns, 1)), "nobody waits for ever"
                client.send(insert_message(ns, [{}]))
                client.socket.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    client.receive()
                gate.open()
                client.socket.settimeout(30)
                reply = client.receive().body
                if reply["ok"]:
                    assert reply["n"] == 1
                    return True
                assert unavailable(reply), reply
                recovery(proxy, f"single.{coll}-more")
                return False

            assert any(gets_it() for _ in range(5))
        assert numbers(replica_set.client, ns) == [1, 2], "who was refused took none"

    def test_it_does_not(self, proxy, gate, coll):
        ns = f"waits-briefly.{coll}"
        eventually(lambda: insert(proxy, ns, 1).get("n") == 1, 30)  # on a busy machine
        gate.shut()
        reply, seconds = timed(lambda: insert(proxy, ns, 1))
        assert unavailable(reply) and 0.19 < seconds < PATIENCE


class TestSlow:
    """A store that takes its time, or for ever."""

    @pytest.fixture
    def slow(self, standalone: Mongod) -> Iterator[Callable[[int], None]]:
        """slow(ms): from now on every findAndModify takes that long."""
        def block(milliseconds: int) -> None:
            standalone.client.admin.command(
                "configureFailPoint", "failCommand", mode="alwaysOn", data={
                    "failCommands": ["findAndModify"], "blockConnection": True,
                    "blockTimeMS": milliseconds, "appName": "mongo-idproxy"})
        yield block
        standalone.client.admin.command("configureFailPoint", "failCommand", mode="off")

    def test_slow(self, proxy, slow, replica_set, coll):
        ns = f"single.{coll}"
        assert insert(proxy, ns, 1)["n"] == 1
        slow(300)
        for _ in range(3):
            assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(replica_set.client, ns) == [1, 2, 3, 4]

    def test_slower_than_anybody_waits(self, proxy, slow, replica_set, standalone, coll):
        """The refill goes on, and its numbers are used by those who come later."""
        ns = f"single.{coll}"
        assert insert(proxy, ns, 1)["n"] == 1
        slow(3000)
        reply, seconds = timed(lambda: insert(proxy, ns, 1))
        assert unavailable(reply) and seconds < PATIENCE
        standalone.client.admin.command("configureFailPoint", "failCommand", mode="off")
        recovery(proxy, ns)
        assert numbers(replica_set.client, ns) == [1, 2]

    def test_many_who_wait(self, proxy, slow, replica_set, coll):
        """One block for all of them, in the order in which they came."""
        ns = f"single.{coll}"
        assert insert(proxy, ns, 1)["n"] == 1
        slow(300)
        clients = [wire.WireClient(proxy.address, 30) for _ in range(200)]
        for client in clients:
            client.send(insert_message(ns, [{}, {}]))
        for client in clients:
            assert client.receive().body["n"] == 2
            client.close()
        assert sorted(numbers(replica_set.client, ns)) == list(range(1, 402))

    def test_it_answers_once_with_any_error(self, proxy, replica_set, standalone, coll):
        """That may pass. And goes on the next time."""
        for code in (50, 91, 112, 251, 11601, 11602):
            ns = f"single.{coll}-{code}"
            assert insert(proxy, ns, 1)["n"] == 1
            standalone.client.admin.command(
                "configureFailPoint", "failCommand", mode={"times": 1}, data={
                    "failCommands": ["findAndModify"], "errorCode": code,
                    "appName": "mongo-idproxy"})
            recovery(proxy, ns)
            found = numbers(replica_set.client, ns)
            assert found == sorted(set(found)) and found[-1] <= 4

    def test_several_counters(self, proxy, slow, coll):
        """Nobody waits longer for three of them than for one."""
        slow(1600)
        reply, seconds = timed(lambda: insert(proxy, f"three.{coll}", 1))
        assert unavailable(reply) and seconds < 5.5

    def test_a_prefetched_block_hides_it(self, proxy, slow, replica_set, coll):
        """No insert waits while there are numbers left."""
        ns = f"counted.{coll}"
        assert insert(proxy, ns, 1)["n"] == 1
        slow(1800)
        for _ in range(9):
            reply, seconds = timed(lambda: insert(proxy, ns, 1))
            assert reply["n"] == 1 and seconds < 1.6
        assert numbers(replica_set.client, ns) == list(range(1, 11))


@pytest.fixture(scope="module")
def node() -> Iterator[CrashNode]:
    """A store of its own that is killed, and stopped by SIGSTOP."""
    with CrashNode("rs_store") as node:
        yield node


class TestItsServer:
    """The same with a server that really dies, or hangs."""

    def test_kill_9(self, node, replica_set, start_proxy, coll, record):
        ns = f"counted.{coll}"
        proxy = start_proxy(configuration(replica_set, RULES, node))
        for _ in range(3):
            assert insert(proxy, ns, 1)["n"] == 1
        node.kill()
        given = 3
        while (reply := insert(proxy, ns, 1, more=session()))["ok"]:
            given += 1
        assert unavailable(reply) and reply["errorLabels"] == REPEATABLE
        assert insert(proxy, f"made.{coll}", 1)["n"] == 1
        node.restart()
        record("kill -9: seconds until the store serves again", recovery(proxy, ns))
        found = numbers(replica_set.client, ns)
        assert found[:given] == list(range(1, given + 1))
        assert len(set(found)) == len(found)

    def test_it_hangs(self, node, replica_set, start_proxy, coll, record):
        """No connection ends, and no answer comes."""
        ns = f"bare.{coll}"  # nothing is fetched ahead
        proxy = start_proxy(configuration(replica_set, RULES, node))
        assert insert(proxy, ns, 1)["n"] == 1
        node.process.send_signal(signal.SIGSTOP)
        try:
            reply, seconds = timed(lambda: insert(proxy, ns, 1))
            assert unavailable(reply) and seconds < PATIENCE
            assert insert(proxy, f"made.{coll}", 1)["n"] == 1
        finally:
            node.process.send_signal(signal.SIGCONT)
        record("SIGSTOP: seconds until the store serves again", recovery(proxy, ns))
        found = numbers(replica_set.client, ns)
        assert found == sorted(set(found)) and found[-1] <= 4

    def test_it_hangs_for_ever(self, node, replica_set, start_proxy, coll):
        """The proxy ends all the same."""
        proxy = start_proxy(configuration(replica_set, RULES, node))
        assert insert(proxy, f"single.{coll}", 1)["n"] == 1
        node.process.send_signal(signal.SIGSTOP)
        try:
            assert unavailable(insert(proxy, f"single.{coll}", 1))
            _, seconds = timed(proxy.stop)
            assert seconds < 15
        finally:
            node.process.send_signal(signal.SIGCONT)


@pytest.mark.tsan
def test_on_and_off_under_load(replica_set, start_proxy, gate, coll):
    """Clients come, wait and leave while the store comes and goes: no number twice."""
    proxy = start_proxy(config(replica_set, gate))
    ns = f"counted.{coll}"

    def client() -> None:
        while not clients.over.is_set():
            with wire.WireClient(proxy.address, 30) as connection:
                for i in range(7):
                    reply = connection.call(insert_message(ns, [{}] * (i + 1)))
                    assert reply["ok"] or unavailable(reply), reply
                connection.send(insert_message(ns, [{}] * 3))  # and leaves

    clients = Threads(*[client] * 6)
    with clients:
        for _ in range(3):
            count = replica_set.client["counted"][coll].estimated_document_count()
            eventually(lambda: replica_set.client["counted"][
                coll].estimated_document_count() > count + 50, 30, "progress")
            gate.shut()
            eventually(lambda: unavailable(insert(proxy, ns, 1)), 30)
            gate.open()
    found = numbers(replica_set.client, ns)
    assert len(set(found)) == len(found)


# Longer than a counter's demand lasts (BlockCache::kDemandLasts, 10 s), then a round trip that began
# within it, at most 3 s, and then the second for which its failure is an answer (kFailureLasts).
QUIET = 15.0


class Door:
    """Lets the proxy into its store, or does not."""

    def __init__(self, uri: str, shut: Callable[[], Any], open_: Callable[[], Any]):
        self.uri = uri
        self.shut = shut
        self.open = open_


@pytest.fixture(scope="module")
def guarded() -> Iterator[Mongod]:
    """A store that knows its users."""
    with Mongod(options=["--auth"]) as mongod:
        mongod.client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
        yield mongod


@contextmanager
def changed_password(guarded: Mongod) -> Iterator[Door]:
    """The right one is in the proxy's connection string; its user has another one while the door
    is shut, from the start on."""
    name = f"idproxy{time.monotonic_ns()}"
    with pymongo.MongoClient(Access(user="root", password=PASSWORD).uri(
            guarded.address, "directConnection=true")) as root:
        def change(to: str) -> None:
            root.admin.command("updateUser", name, pwd=to)
        root.admin.command("createUser", name, pwd=PASSWORD * 2, roles=["readWriteAnyDatabase"])
        yield Door(Access(user=name, password=PASSWORD).uri(guarded.address),
                   lambda: change(PASSWORD * 2), lambda: change(PASSWORD))


@dataclass
class Lonely:
    """Proxies that were asked for numbers once, in vain: two behind each door, which is shut."""

    ways: list[tuple[Door, Proxy, Proxy]]
    asked: float


@pytest.fixture(scope="module")
def lonely(replica_set: Mongod, standalone: Mongod, guarded: Mongod) -> Iterator[Lonely]:
    def ask_in_vain(proxy: Proxy) -> None:
        """For numbers of two counters."""
        for db in ("counted", "single"):
            reply, seconds = timed(lambda: insert(proxy, f"{db}.lonely{proxy.pid}", 1))
            assert unavailable(reply) and seconds < PATIENCE
        proxy.wait_event("store_down")

    with changed_password(guarded) as password, Middleman(standalone.address) as gate, ExitStack() as stack:
        def start(door: Door) -> Proxy:
            return stack.enter_context(Proxy({
                **configuration(replica_set, RULES, admin=LISTEN), "id_store": {"uri": door.uri}}))

        gate.shut()
        ways = [(door, start(door), start(door)) for door in (password, Door(gate.uri, gate.shut, gate.open))]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(ask_in_vain, [proxy for _, *both in ways for proxy in both]))
        yield Lonely(ways, time.monotonic())


def test_its_return_is_noticed(replica_set, lonely, record):
    """The store is away for long, and nobody wants a number meanwhile: it is asked about once a second, and no more.
    What it said long ago is no answer to the first insert afterwards, and where nobody inserts, it is noticed too."""
    def failed(proxy: Proxy) -> float:
        return Admin(proxy).metrics()("idproxy_store_round_trips_failed_total")

    ways = lonely.ways
    time.sleep(max(0, lonely.asked + QUIET - time.monotonic()))
    before = [(time.monotonic(), failed(idle)) for _, idle, _ in ways]
    time.sleep(5)
    for (_, idle, _), (since, already) in zip(ways, before):
        assert Admin(idle).metrics()("idproxy_store_up") == 0
        assert 0 < failed(idle) - already <= time.monotonic() - since + 2

    for door, idle, inserts in ways:
        ns = f"single.lonely{inserts.pid}"
        already = failed(inserts)
        door.open()
        started = time.monotonic()
        reply = insert(inserts, ns, 1)
        if not reply["ok"]:
            # It was asked about just when the door opened, and that was the answer; or the answer
            # came later than a client waits, on a busy machine.
            assert failed(inserts) > already or "not answered in time" in reply["errmsg"], reply
            eventually(lambda: insert(inserts, ns, 1)["ok"], 15, "a number")
        assert numbers(replica_set.client, ns) == [1]

        idle.wait_event("store_up", timeout=15)
        record("quiet: seconds until the store's return is noticed", time.monotonic() - started)
        eventually(lambda: Admin(idle).metrics()("idproxy_store_up") == 1, 15, "all have noticed")
        assert "id store: answers\n" in Admin(idle).get("/readyz").text
        assert insert(idle, f"single.lonely{idle.pid}", 1)["n"] == 1
        assert len(idle.find_events("store_up")) == 1


def test_a_wrong_password_is_called_that(replica_set, start_proxy, guarded, coll):
    """Also to the client, without saying more than it may know. No numbers can be lost by it."""
    with changed_password(guarded) as password:
        proxy = start_proxy({**configuration(replica_set, RULES, admin=LISTEN),
                             "id_store": {"uri": password.uri}})

    def is_told() -> bool:
        """Who asks before the store has answered is told that."""
        reply = insert(proxy, f"single.{coll}", 1)
        assert unavailable(reply)
        return "refuses the proxy's login" in reply["errmsg"]
    eventually(is_told, 20)
    assert not proxy.find_events("block_dropped")
    assert "Authentication failed" in proxy.wait_event("store_down")["reason"]
    assert "Authentication failed" in Admin(proxy).get("/readyz").text
    assert Admin(proxy).metrics()("idproxy_store_blocks_dropped_total") == 0
