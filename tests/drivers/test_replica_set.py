"""Three members behind the proxy: each driver keeps all that it does with a replica set.

Its program gets the address of the first listener and the name of the set, and nothing else. It
must never have known, nor been connected to, anything but listeners of the proxy.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import bson
import pytest
from pymongo.collection import Collection

from program import StepFailed, Steps
from support.access import Access
from support.full import FULL
from support.process import eventually, free_ports
from support.proxy import Proxy, Server, configuration
from support.replica_set import PASSIVE, Member, ReplicaSet
from support.wire import COMPRESSORS

# The first test of a driver may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(600)

STEP_DOWNS = 10 if FULL else 2
# What drivers report when they lose the primary, they report without a proxy too.
COMPRESSED_IN_FULL = [pytest.param(each, marks=pytest.mark.full) for each in COMPRESSORS]
STEP_DOWN_WAYS = ["proxy", pytest.param("direct", marks=pytest.mark.full), *COMPRESSED_IN_FULL]

DRIVERS = ["pymongo", "node", "go", "java", "libmongoc"]

# Of the numbers four in ten are taken, see `documents`.
RULES = [
    {"ns": "replicated_*.test_*", "field": "number", "strategy": "random-digits", "digits": 3,
     "max_fill": 0.99, "retry": {"attempts": 100, "deadline": "60s"}},
    {"ns": "replicated_*.test_*", "field": "serial", "strategy": "counter"},
]
TAKEN = 400

# What a server says that is the primary no more, or is about to be none.
STEP_DOWN = {91, 189, 10107, 11600, 11602, 13435, 13436}


@dataclass
class Way:
    """How a driver gets to the members: where it has to go for each of them, and how it gets in."""

    name: str
    seed: str
    address: dict[str, str]
    access: Access
    compressor: str = ""

    @property
    def uri(self) -> str:
        compressed = [f"compressors={self.compressor}"] if self.compressor else []
        return self.access.uri(self.seed, "replicaSet=rs0", *compressed)

    @property
    def addresses(self) -> set[str]:
        return {*self.address.values()}


@pytest.fixture(scope="module")
def new_set() -> Callable[[], ReplicaSet]:
    return lambda: ReplicaSet("rs0")


@pytest.fixture(scope="module")
def new_proxy() -> Callable[[Server], Proxy]:
    """new_proxy(upstream)"""
    return lambda upstream: Proxy(configuration(upstream, RULES))


@pytest.fixture(scope="module")
def three(new_set) -> Iterator[ReplicaSet]:
    with new_set() as running:
        yield running


@pytest.fixture(scope="module")
def direct(three) -> Way:
    return Way("direct", three.members[0].address, {m.address: m.address for m in three.members},
               three.app_access)


def through(name: str, running: Proxy) -> Way:
    found = eventually(lambda: all_three(running), 30, "there are three listeners")
    return Way(name, running.address, {each["server"]: each["address"] for each in found},
               running.access)


def all_three(proxy: Proxy) -> list[dict[str, Any]]:
    """The listeners, once there is one for each member: first those for hosts of the URI."""
    found = proxy.find_events("listening") + proxy.find_events("member_joined")
    return found if len(found) == 3 else []


@pytest.fixture(scope="module")
def proxy(three, new_proxy) -> Iterator[Way]:
    with new_proxy(three) as running:
        yield through("proxy", running)
        assert not running.find_events("compressed_message")


@pytest.fixture(scope="module")
def proxy_of_one(three, new_proxy) -> Iterator[Way]:
    """Its configuration names one of the members."""
    with new_proxy(three.members[0]) as running:
        yield through("proxy_of_one", running)


@pytest.fixture(scope="module", params=["proxy", *COMPRESSED_IN_FULL])
def way(request) -> Way:
    """A test can ask for others by `@pytest.mark.parametrize("way", […], indirect=True)`. With the name of
    a compressor this is the proxy, with a driver that asks for it."""
    name = request.param
    if name in COMPRESSORS:
        return replace(request.getfixturevalue("proxy"), name=name, compressor=name)
    return request.getfixturevalue(name)


@pytest.fixture(scope="module", params=DRIVERS)
def driver(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def db(driver, way) -> str:
    """A database of their own."""
    return f"replicated_{driver}_{way.name}"


@pytest.fixture(scope="module")
def program(request, driver, db, way) -> Iterator[Steps]:
    with request.getfixturevalue(driver).steps(uri=way.uri, db=db) as running:
        yield running


def compressed_bytes(three: ReplicaSet, compressor: str) -> dict[int, int]:
    """How many have come to each server process, by its pid."""
    statuses = [member.client.admin.command("serverStatus") for member in three.members]
    return {each["pid"]: each["network"]["compression"][compressor]["decompressor"]["bytesIn"]
            for each in statuses}


@pytest.fixture
def client(program, way, three) -> Iterator[Steps]:
    """The driver's program, which has met nobody that it should not when the test is over."""
    before = compressed_bytes(three, way.compressor) if way.compressor else {}
    yield program
    three.heal()
    if way.compressor:
        now = compressed_bytes(three, way.compressor)
        assert any(n > before.get(pid, 0) for pid, n in now.items())
    assert program.peers <= way.addresses
    # PyMongo's events come half a second later.
    eventually(lambda: {*program("topology")["ever"]} == way.addresses)


@pytest.fixture
def documents(three, db, coll) -> Collection:
    """What the test's client writes, past the proxy. The id store does not look up which numbers
    are free through a hidden index: they are to collide."""
    collection = three.client[db][coll]
    collection.create_index("number", unique=True, sparse=True, hidden=True)
    collection.create_index("serial", unique=True, sparse=True)
    collection.insert_many({"number": bson.Int64(i)} for i in range(TAKEN))
    return collection


def of_client(documents: Collection) -> list[dict[str, Any]]:
    return list(documents.find({"k": {"$exists": True}}).sort("k"))


def check(documents: Collection, way: Way, ks: Iterable[int], perhaps: Iterable[int] = ()) -> None:
    """They are stored once each, with values of their own if they went through a proxy."""
    found = of_client(documents)
    stored = [d["k"] for d in found]
    assert stored == sorted({*ks} | ({*perhaps} & {*stored}))
    if way.name != "direct":
        assert len({d["number"] for d in found}) == len({d["serial"] for d in found}) == len(found)
        assert all(TAKEN <= d["number"] < 1000 and d["serial"] > 0 for d in found)


@contextmanager
def failing(members: list[Member], point: str, **data: Any) -> Iterator[list[int]]:
    """Each of them fails once, if it comes to it. Filled in at the end: how often they have."""
    def configure(member: Member, **more: Any) -> int:
        return member.client.admin.command("configureFailPoint", point, **more)["count"]

    happened: list[int] = []
    before = [configure(m, mode={"times": 1}, data=data) for m in members]
    try:
        yield happened
    finally:
        happened += [configure(m, mode="off") - n for m, n in zip(members, before)]


def step_down(three: ReplicaSet) -> None:
    """Another member becomes the primary."""
    old = three.primary
    while three.primary is old:  # again, if nobody else stood for election in time
        three.step_down()


def await_topology(client: Steps, way: Way, three: ReplicaSet) -> None:
    """Until the driver knows who the primary is, and knows all."""
    def known() -> bool:
        primary = three.primary
        return client("topology")["servers"] == {
            way.address[m.address]: "RSPrimary" if m is primary else "RSSecondary"
            for m in three.members}
    eventually(known, 30, "the driver knows the set")


def knows_all(client: Steps, way: Way, three: ReplicaSet) -> None:
    """The driver knows all three, and is connected to all three and to no one else."""
    await_topology(client, way, three)
    eventually(lambda: client.connected() == way.addresses, 30, "it is connected to all three")


@pytest.mark.parametrize("way", ["direct", "proxy", "proxy_of_one"], indirect=True)
def test_topology(client, way, three):
    """Directly these are the members: were they that behind the proxy, it would be seen."""
    knows_all(client, way, three)


def insert(client: Steps, documents: Collection, first: int, count: int) -> None:
    assert client("insert", coll=documents.name, first=first, count=count)["inserted"] == count


def find(client: Steps, documents: Collection, times: int = 1, secondary: bool = False,
         comment: str = "") -> list[int]:
    return client("find", coll=documents.name, times=times, secondaryPreferred=secondary,
                  comment=comment)["found"]


def life(client: Steps, documents: Collection, k: int) -> dict[str, Any]:
    """The document as the driver has read it in the end."""
    done = client("life", coll=documents.name, k=k)
    document = done.pop("document")
    assert done == {"modified": 1, "n": 2, "inserted": 2, "deleted": 1}
    return document


def test_crud(client, way, documents):
    read = [life(client, documents, k) for k in range(10)]
    check(documents, way, range(10))
    assert read == of_client(documents)


def test_transactions(client, way, three, db, documents):
    """Thirty-two numbers are drawn: that none is taken happens once in ten million runs."""
    three.client[db].create_collection("log")
    three.client[db].sums.insert_one({"_id": "sum", "n": 0})
    result = client("transactions", coll=documents.name, count=16, size=1, own=True)
    assert result["outcomes"] == ["ok"] * 16
    assert result["calls"] > 16
    check(documents, way, range(32))
    assert three.client[db].log.count_documents({}) == 16
    assert three.client[db].sums.find_one()["n"] == 32


def test_change_stream(client, way, three, documents):
    """It goes on after a step-down, and after a lost connection: from where it was."""
    client("watch", coll=documents.name)
    insert(client, documents, 0, 5)
    events = client("events", count=5)["events"]
    step_down(three)
    three.await_health()
    await_topology(client, way, three)
    insert(client, documents, 5, 5)
    events += client("events", count=5)["events"]
    insert(client, documents, 10, 5)
    with failing(three.members, "failCommand", failCommands=["getMore"], closeConnection=True,
                 namespace=documents.full_name) as happened:
        events += client("events", count=5)["events"]
    assert sum(happened)
    client("unwatch")
    check(documents, way, range(15))
    assert events == of_client(documents)


def answered(member: Member, documents: Collection, comment: str) -> int:
    """How many commands with this comment the member's profiler has seen."""
    return member.client[documents.database.name]["system.profile"].count_documents(
        {"command.find": documents.name, "command.comment": comment})


@pytest.mark.parametrize("secondary", [True, False], ids=["secondaryPreferred", "primary"])
def test_reads_go_where_they_are_to_go(client, way, three, documents, secondary):
    insert(client, documents, 0, 3)
    three.await_health()
    comment = uuid.uuid4().hex
    for member in three.members:
        member.client[documents.database.name].command("profile", 2)
    found = find(client, documents, 20, secondary, comment)
    for member in three.members:
        member.client[documents.database.name].command("profile", 0)
    assert found == [3] * 20
    primary = answered(three.primary, documents, comment)
    secondaries = [answered(member, documents, comment) for member in three.secondaries]
    assert (primary, sum(secondaries)) == ((0, 20) if secondary else (20, 0))


def test_a_read_is_tried_again(client, three, documents):
    insert(client, documents, 0, 3)
    with failing([three.primary], "failCommand", failCommands=["find"], closeConnection=True,
                 namespace=documents.full_name) as happened:
        assert find(client, documents) == [3]
    assert happened == [1]


@pytest.mark.parametrize("point", ["failCommand", "onPrimaryTransactionalWrite"],
                         ids=["before", "after"])
def test_a_write_is_tried_again(client, way, three, documents, point):
    """The connection is lost before the server has stored the documents, or after it has."""
    insert(client, documents, 0, 3)
    data = {"failCommands": ["insert"], "namespace": documents.full_name}
    with failing([three.primary], point, closeConnection=True,
                 **(data if point == "failCommand" else {})) as happened:
        insert(client, documents, 3, 3)
    assert happened == [1]
    check(documents, way, range(6))


class Lives:
    """What a driver does all the time, before something happens to the primary and after it.

    Drivers try once more, and then may meet the same again: from the server that steps down, or
    from the one that has just stepped up."""

    def __init__(self, client: Steps, documents: Collection, excused: Callable[[set[int]], bool]):
        self._client, self._documents, self._is_excused = client, documents, excused
        self._ks = itertools.count()
        self._lived: dict[int, dict[str, Any]] = {}
        self._excused: list[int] = []

    def _one_more(self) -> None:
        k = next(self._ks)
        try:
            self._lived[k] = life(self._client, self._documents, k)
        except StepFailed as failed:
            if not self._is_excused(failed.codes):
                raise
            self._excused.append(k)

    def during(self, happening: Callable[[], None]) -> None:
        with ThreadPoolExecutor(1) as pool:
            happened = pool.submit(happening)
            while not happened.done():
                self._one_more()
            happened.result()
        wanted = len(self._lived) + 5
        while len(self._lived) < wanted:
            self._one_more()

    def check(self, way: Way) -> None:
        check(self._documents, way, self._lived, perhaps=self._excused)
        stored = {d["k"]: d for d in of_client(self._documents)}
        assert self._lived == {k: stored[k] for k in self._lived}


@pytest.mark.parametrize("way", STEP_DOWN_WAYS, indirect=True)
def test_step_downs(client, way, three, documents):
    """The application hears of none, or what the server says of it: nothing of the proxy's own."""
    lives = Lives(client, documents, lambda codes: bool(codes) and codes <= STEP_DOWN)
    for _ in range(STEP_DOWNS):
        lives.during(lambda: step_down(three))
    lives.check(way)


@pytest.mark.full
@pytest.mark.parametrize("way", ["direct", "proxy", *COMPRESSORS], indirect=True)
def test_the_primary_dies(client, way, three, documents):
    """Here connections are lost as well."""
    lives = Lives(client, documents, lambda codes: codes <= STEP_DOWN)
    for _ in range(2):
        await_topology(client, way, three)
        lives.during(three.primary.kill)
        three.heal()
    lives.check(way)


class Writer:
    """A driver's program that inserts all the time, until stop()."""

    def __init__(self, steps: Steps, coll: str):
        self.steps, self._coll = steps, coll
        self.stored: list[int] = []
        self.perhaps: list[int] = []
        self._thread = ThreadPoolExecutor(1)
        self._stopping = False
        self._done = self._thread.submit(self._run)
        self.known: set[str] = set()

    def _run(self) -> None:
        for k in itertools.count():
            if self._stopping:
                return
            try:
                self.steps("insert", coll=self._coll, first=k, count=1)
                self.stored.append(k)
            except StepFailed as failed:
                if not failed.codes or not failed.codes <= STEP_DOWN:
                    raise
                self.perhaps.append(k)
            self.known = {*self.steps("topology")["servers"]}

    def knows(self, listeners: set[str]) -> bool:
        """That these are all, and has written something since it has been asked."""
        if self._done.done():
            self._done.result()
        return self.known == listeners

    def stop(self) -> None:
        self._stopping = True
        self._done.result()
        self._thread.shutdown()


def test_members_come_move_and_go(request, new_set, new_proxy):
    """While all five write: each follows, and no insert fails that would not directly."""
    everywhere = set()
    with new_set() as four, new_proxy(four) as proxy:
        def listeners() -> set[str]:
            """Those of the members that the set has now."""
            joined = {e["server"]: e["address"] for e in
                      proxy.find_events("listening") + proxy.find_events("member_joined")}
            found = {joined[m.address] for m in four.members if m.address in joined}
            everywhere.update(found)
            return found if len(found) == len(four.members) else set()

        uri = proxy.set_uri("rs0")
        writers = {}
        for name in DRIVERS:
            steps = request.getfixturevalue(name).steps(uri=uri, db="moving")
            request.addfinalizer(steps.kill)
            writers[name] = Writer(steps, name)

        def all_follow() -> None:
            now = eventually(listeners, 60, "the members have listeners")
            for name, writer in writers.items():
                eventually(lambda: writer.knows(now), 60, f"{name} knows {now}")

        all_follow()
        new = four.add(PASSIVE)  # no election takes connections without a word
        all_follow()
        four.await_health()
        (port,) = free_ports(1)
        four.move(new, port)
        all_follow()
        four.remove(new)
        all_follow()
        for name, writer in writers.items():
            eventually(lambda: len(writer.stored) > 10, 60, f"{name} goes on writing")
            writer.stop()
            assert writer.steps.peers <= everywhere, name
            assert {*writer.steps("topology")["ever"]} <= everywhere, name
            stored = [d["k"] for d in four.client.moving[name].find().sort("k")]
            assert stored == sorted({*writer.stored} | ({*writer.perhaps} & {*stored})), name
            writer.steps.close()
