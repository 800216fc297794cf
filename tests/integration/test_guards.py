"""No value of a rule that demands a unique index is stored unguarded, whoever drops what; the first inserts into each
collection wait instead of failing; `create` makes no collection before a value needs it."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pymongo
import pytest
from bson import Binary, Int64
from pymongo.errors import PyMongoError
from pymongo.server_api import ServerApi

from support.counters import insert, set_counter
from support.full import FULL
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.servers import has
from support.threads import at_once

Start = Callable[..., Proxy]
EXISTING = {"number": {"$exists": True}}


def rule(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "number", **more}


# The strategies of each kind of demand, with the unique index that they need.
RULES = {
    "gapless": {"strategy": "gapless", "unique_index": "create"},
    "gapless_scope": {"strategy": "gapless", "unique_index": "create", "scope": ["kind"]},
    "counter_create": {"strategy": "counter", "unique_index": "create", "block": 1},
    "counter_scope": {"strategy": "counter", "unique_index": "create", "scope": ["kind"]},
    "digits_create": {"strategy": "random-digits", "digits": 2, "unique_index": "create",
                      "warn_fill": 0.9, "max_fill": 0.99},
    "digits_require": {"strategy": "random-digits", "digits": 2, "unique_index": "require",
                       "warn_fill": 0.9, "max_fill": 0.99},
}


def make_index(database: Any, name: str) -> None:
    database[name].create_index("number", unique=True, sparse=True)


def numbered_once(server: Mongod, name: str) -> Any:
    """A database whose orders have the number 1, and the index."""
    database = server.client[name]
    make_index(database, "orders")
    database.orders.insert_one({"number": Int64(1)})
    return database


# What takes the guard away. `through`: the database by which it is done.
def drop(through: Any, name: str) -> None:
    through[name].drop()


def drop_database(through: Any, _: str) -> None:
    through.client.drop_database(through.name)


def drop_indexes(through: Any, name: str) -> None:
    through.command("dropIndexes", name, index="*")


def delete_indexes(through: Any, name: str) -> None:
    through.command("deleteIndexes", name, index="*")


def rename_away(through: Any, name: str) -> None:
    through[name].rename(name + "_old", dropTarget=True)


def rename_over(through: Any, name: str) -> None:
    through[name + "_new"].insert_one({"kind": 1})
    through[name + "_new"].rename(name, dropTarget=True)


def to_capped(through: Any, name: str) -> None:
    through.command("convertToCapped", name, size=1 << 20)


def apply_ops(through: Any, name: str) -> None:
    through.client.admin.command("applyOps", [
        {"op": "c", "ns": f"{through.name}.$cmd", "o": {"drop": name}}])


def replace_by_out(through: Any, name: str) -> None:
    through[name + "_src"].insert_one({"kind": 1})
    list(through[name + "_src"].aggregate([{"$out": name}]))


REPLACING = [drop, drop_database, rename_away, rename_over, to_capped, apply_ops, replace_by_out]
DROPPING = [drop_indexes, delete_indexes]


class Audit:
    """What has ever been stored in the collection, by a change stream: each value once in each collection that it was."""

    def __init__(self, database: Any, name: str):
        self.name = name
        # A client of its own: that of the test may have seen the server before it was in a set.
        client = pymongo.MongoClient(*database.client.address, directConnection=True)
        self.stream = client[database.name].watch(max_await_time_ms=50)
        self.numbers: list[tuple[Any, Any]] = []  # of the collection as it is now
        self.twice: list[Any] = []

    def read(self) -> None:
        while (event := self.stream.try_next()) is not None:
            ns = event.get("ns", {}).get("coll")
            kind = event["operationType"]
            to = event.get("to", {}).get("coll")
            if kind == "dropDatabase" or (kind == "drop" and ns == self.name) \
                    or (kind == "rename" and self.name in (ns, to)):
                self.numbers = []
            if kind == "insert" and ns == self.name:
                document = event["fullDocument"]
                value = (document.get("kind"), document.get("number"))
                if value[1] is None:
                    continue
                if value in self.numbers:
                    self.twice.append(value)
                self.numbers.append(value)


@pytest.fixture
def proxies(replica_set: Mongod, start_proxy: Start, coll: str) -> Callable[..., list[Any]]:
    def start(options: dict[str, Any], count: int = 2, databases: list[str] = [coll]) -> list[Any]:
        rules = [rule(f"{database}.orders", **options) for database in databases]
        stack = []
        for _ in range(count):
            proxy = start_proxy(configuration(replica_set, rules))
            stack.append(proxy.client()[coll])
        return stack

    return start


def insert_some(databases: list[Any], count: int) -> list[str]:
    """With two writers at once; the errors."""
    errors: list[str] = []

    def write(database: Any) -> None:
        for _ in range(count):
            try:
                database.orders.insert_one({"kind": 1})
            except PyMongoError as error:
                errors.append(str(error))

    with concurrent.futures.ThreadPoolExecutor(len(databases)) as pool:
        list(pool.map(write, databases))
    return errors


@pytest.mark.parametrize("name", RULES)
def test_nothing_is_stored_twice(
        replica_set: Mongod, proxies: Callable[..., list[Any]], coll: str, name: str) -> None:
    """Through one of two proxies, and with each command that replaces the collection also past them. (Of an index that
    is dropped past a proxy, it learns within ten seconds: docs/strategies.md. So it does of each of these where writes
    cannot name the collection's UUID: there only through the proxy itself.) Each in a database of its own."""
    ways_to_take = {f"{coll}_{each.__name__}": each for each in [*REPLACING, *DROPPING]}
    for each in ways_to_take:
        orders = replica_set.client[each].orders
        if name.endswith("scope"):
            orders.create_index([("kind", 1), ("number", 1)], unique=True, partialFilterExpression=EXISTING)
        else:
            make_index(orders.database, "orders")
    its_proxies = proxies(RULES[name], databases=list(ways_to_take))

    def judge(database_name: str, take_away: Callable[[Any, str], None]) -> None:
        database = replica_set.client[database_name]
        both = [each.client[database.name] for each in its_proxies]
        audit = Audit(database, "orders")
        assert insert_some(both, 3) == []
        everywhere = take_away in REPLACING and has("collection_uuid")
        ways = [both[0], database] if everywhere else [both[0]]
        for through in ways:
            if through is database and name.endswith("require"):
                continue  # below
            take_away(through, "orders")
            writers = both if everywhere else both[:1]
            errors = insert_some(writers, 4)
            # $out keeps the indexes of the collection that it replaces.
            if name == "digits_require" and take_away is not replace_by_out:
                assert all("no unique index guards" in error for error in errors) and errors
                database.orders.drop()
                make_index(database, "orders")
                continue
            assert errors == [], take_away
            audit.read()
            assert audit.twice == [], take_away
            assert "unique" in str(database.orders.index_information())
        audit.read()
        assert audit.twice == [], take_away

    at_once(*(functools.partial(judge, *each) for each in ways_to_take.items()))


@pytest.mark.needs("collection_uuid")
def test_a_drop_under_load(replica_set: Mongod, proxies: Callable[..., list[Any]], coll: str) -> None:
    """Writers through two proxies, while the collection is dropped through one, and past both."""
    both = proxies(RULES["gapless"])
    database = replica_set.client[coll]
    audit = Audit(database, "orders")
    over = threading.Event()
    errors: list[str] = []

    def write(through: Any) -> None:
        while not over.is_set():
            try:
                through.orders.insert_many([{"kind": 1} for _ in range(3)])
            except PyMongoError as error:
                errors.append(str(error))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, each) for each in both * 2]
        for through in [both[0], database] * (20 if FULL else 4):
            eventually(lambda: database.orders.count_documents({}) > 20, 30)
            through.orders.drop()
        over.set()
        for writer in writers:
            writer.result()
    audit.read()
    assert audit.twice == []
    assert not [error for error in errors if "361" in error], errors[:3]
    assert not errors, errors[:3]


@contextmanager
def slow(server: Mongod, mode: Any, commands: list[str], ns: str,
         ms: int) -> Iterator[Callable[[], Any]]:
    """These commands on the collection take so long before they begin. Yields what waits for the
    first of them."""
    admin = server.client.admin
    before = admin.command("configureFailPoint", "failCommand", mode=mode, data={
        "failCommands": commands, "namespace": ns, "blockConnection": True, "blockTimeMS": ms})
    try:
        yield lambda: admin.command("waitForFailPoint", "failCommand",
                                    timesEntered=before["count"] + 1, maxTimeMS=20_000)
    finally:
        admin.command("configureFailPoint", "failCommand", mode="off")


@pytest.mark.needs("collection_uuid")
def test_each_wait_for_a_guard_has_its_own_patience(
        replica_set: Mongod, proxies: Callable[..., list[Any]], coll: str) -> None:
    """The collection is dropped before an insert, and again while the server is slow with it."""
    one, = proxies(RULES["counter_create"], 1)
    database = replica_set.client[coll]

    def replace() -> None:
        database.orders.drop()
        make_index(database, "orders")

    one.orders.insert_one({})
    replace()
    second = threading.Timer(1.5, replace)
    with slow(replica_set, {"skip": 1}, ["insert"], f"{coll}.orders", 2_500):
        second.start()
        one.orders.insert_one({"k": 1})
    second.join()
    assert database.orders.count_documents({"k": 1}) == 1


@pytest.mark.needs("collection_uuid")
def test_no_client_sees_how_the_server_says_that_a_collection_has_gone(
        replica_set: Mongod, start_proxy: Start, coll: str) -> None:
    """In the pause after a duplicate: the next attempt gets error 361, which no driver knows."""
    database = numbered_once(replica_set, coll)
    set_counter(replica_set.client, f"{coll}.orders", Int64(1), "number")
    proxy = start_proxy(configuration(replica_set, [rule(
        f"{coll}.orders", strategy="counter", unique_index="require", heal={"mode": "off"},
        retry={"backoff": "1s", "backoff_max": "1s", "deadline": "5s"})]))
    gone = threading.Timer(0.25, database.orders.drop)
    gone.start()
    reply = insert(proxy, f"{coll}.orders", 1)
    gone.join()
    codes = {each.get("code") for each in [reply, *reply.get("writeErrors", [])]} - {None}
    assert codes and codes <= {11000, 96}, reply
    assert not database.orders.find_one()


@pytest.mark.needs("collection_uuid")
def test_an_index_that_goes_while_gapless_looks(
        replica_set: Mongod, start_proxy: Start, coll: str) -> None:
    """It looks again, and makes the index; no insert is refused, then or later."""
    database = numbered_once(replica_set, coll)
    database.other.insert_one({})
    proxy = start_proxy(configuration(replica_set, [rule(f"{coll}.*", **RULES["gapless"])]))
    one = proxy.client(retryWrites=False)[coll]
    with slow(replica_set, "alwaysOn", ["find"], f"{coll}.orders", 400) as it_looks, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(one.orders.insert_one, {"k": 0})
        it_looks()
        one.client.admin.command("renameCollection", f"{coll}.other", to=f"{coll}.orders",
                                 dropTarget=True)
        first.result()
    for k in range(1, 6):
        one.orders.insert_one({"k": k})
    assert [each["number"] for each in database.orders.find(EXISTING).sort("k")] == list(range(1, 7))
    assert not proxy.find_events("gapless_refused")


@pytest.mark.needs("collection_uuid")
def test_a_transaction_runs_again(
        replica_set: Mongod, proxies: Callable[..., list[Any]], coll: str) -> None:
    one, other = proxies(RULES["counter_create"])
    for each in (one, other):
        each.orders.insert_one({})
    other.orders.drop()
    runs = []

    def insert(session: Any) -> None:
        runs.append(1)
        one.orders.insert_one({"kind": 1}, session=session)

    other.orders.insert_one({})  # so that the collection is there
    with one.client.start_session() as session:
        session.with_transaction(insert)
    assert len(runs) > 1
    assert replica_set.client[coll].orders.count_documents({"kind": 1}) == 1


@pytest.mark.needs("collection_uuid")
def test_upserts_of_an_update_name_the_collection_too(
        replica_set: Mongod, proxies: Callable[..., list[Any]], coll: str) -> None:
    one, = proxies(RULES["counter_create"], 1)
    one.orders.insert_one({})
    replica_set.client[coll].orders.drop()
    for k in range(2):
        one.orders.update_one({"k": k}, {"$set": {"x": 1}}, upsert=True)
    stored = list(replica_set.client[coll].orders.find())
    assert len({each["number"] for each in stored}) == 2
    assert "number_idproxy" in replica_set.client[coll].orders.index_information()


# ---- first inserts -------------------------------------------------------------------------------

@pytest.fixture
def tenants(coll: str) -> list[dict[str, Any]]:
    return [rule(f"{coll}*.orders", strategy="counter", unique_index="create"),
            rule(f"{coll}*.invoices", strategy="gapless", unique_index="create"),
            rule(f"{coll}*.codes", strategy="counter", scope=["kind"], unique_index="create"),
            rule(f"{coll}*.pins", strategy="random-digits", digits=9, unique_index="create")]


COLLECTIONS = ["orders", "invoices", "codes", "pins"]
THREADS = 8


def first_inserts(proxy: Proxy, databases: list[str]) -> list[str]:
    """The errors of one insert into each collection of each database."""
    client = proxy.client(retryWrites=False, maxPoolSize=THREADS)

    def insert(name: str) -> list[str]:
        errors = []
        for collection in COLLECTIONS:
            try:
                client[name][collection].insert_one({"kind": 1})
            except PyMongoError as error:
                errors.append(str(error))
        return errors

    with client, concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return [error for errors in pool.map(insert, databases) for error in errors]


def test_first_inserts_wait(replica_set: Mongod, start_proxy: Start, coll: str,
                            tenants: list[dict[str, Any]]) -> None:
    """New collections, and after a restart existing ones, without the driver's repetition."""
    databases = [f"{coll}{n}" for n in range(250 if FULL else 12)]
    try:
        for _ in range(2):
            proxy = start_proxy(configuration(replica_set, tenants))
            assert first_inserts(proxy, databases) == []
            proxy.stop()
        for name in databases:
            assert replica_set.client[name].invoices.distinct("number") == [1, 2]
            assert "number_idproxy" in replica_set.client[name].orders.index_information()
    finally:
        for name in databases:
            replica_set.client.drop_database(name)


def test_a_collection_that_an_index_cannot_be_made_for_is_refused(
        replica_set: Mongod, start_proxy: Start, coll: str) -> None:
    replica_set.client[coll].orders.insert_many([{"number": 1}, {"number": 1}])
    proxy = start_proxy(configuration(
        replica_set, [rule(f"{coll}.*", strategy="counter", unique_index="create")]))
    with proxy.client() as client, pytest.raises(PyMongoError, match="same value") as error:
        client[coll].orders.insert_one({})
    assert error.value.code == 96


@pytest.mark.needs("time_series")
def test_views_and_time_series_under_a_wildcard(
        replica_set: Mongod, start_proxy: Start, coll: str) -> None:
    """The first write into a collection that turns out to be one of these goes as the client sent it."""
    database = replica_set.client[coll]
    database.create_collection("readings", timeseries={"timeField": "at"})
    database.create_collection("view", viewOn="orders")
    now = replica_set.client.admin.command("hello")["localTime"]
    for _ in range(3):
        proxy = start_proxy(configuration(
            replica_set, [rule(f"{coll}.*", strategy="counter", unique_index="create")]))
        with proxy.client() as client:
            client[coll].readings.insert_one({"at": now})
            with pytest.raises(PyMongoError) as error:
                client[coll].view.insert_one({})
            assert error.value.code == 166
        proxy.stop()
    assert all("number" not in each for each in database.readings.find())


# ---- `create` ------------------------------------------------------------------------------------

def test_the_application_makes_its_collection_itself(
        replica_set: Mongod, start_proxy: Start, coll: str) -> None:
    proxy = start_proxy(configuration(
        replica_set, [rule(f"{coll}.orders", strategy="counter", unique_index="create")]))
    database = replica_set.client[coll]
    proxy.wait_event("listening", 20)
    assert database.list_collection_names() == []
    with proxy.client() as client:
        client[coll].create_collection("orders", validator={"x": {"$exists": True}},
                                       collation={"locale": "de"})
        client[coll].orders.insert_one({"x": 1})
        assert client[coll].orders.find_one()["number"] == 1
    assert "validator" in database.orders.options()
    assert database.orders.index_information()["number_idproxy"]["unique"]


def test_the_index_is_made_where_the_collection_is_there_at_the_start(
        replica_set: Mongod, start_proxy: Start, coll: str) -> None:
    database = replica_set.client[coll]
    database.create_collection("orders")
    start_proxy(configuration(
        replica_set, [rule(f"{coll}.orders", strategy="counter", unique_index="create")]))
    eventually(lambda: "number_idproxy" in database.orders.index_information(), 30)


def test_proxies_that_start_together_make_one_index(
        replica_set: Mongod, start_proxy: Start, coll: str) -> None:
    rules = [rule(f"{coll}{n}.orders", strategy="counter", unique_index="create") for n in range(8)]
    with ExitStack() as stack:
        started = [start_proxy(configuration(replica_set, rules)) for _ in range(3)]
        clients = [stack.enter_context(proxy.client(retryWrites=False)) for proxy in started]
        for n in range(8):
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                list(pool.map(lambda c, n=n: c[f"{coll}{n}"].orders.insert_one({}), clients))
            assert len(replica_set.client[f"{coll}{n}"].orders.index_information()) == 2
            replica_set.client.drop_database(f"{coll}{n}")


@pytest.mark.needs("collection_uuid")
def test_a_client_that_names_the_collection_itself(
        replica_set: Mongod, proxies: Callable[..., list[Any]], coll: str) -> None:
    one, = proxies(RULES["counter_create"], 1)
    one.orders.insert_one({})
    uuid = next(iter(one.list_collections()))["info"]["uuid"]
    assert one.command("insert", "orders", documents=[{}], collectionUUID=uuid)["n"] == 1
    other = Binary(bytes(16), 4)
    reply = one.client[coll].command("insert", "orders", documents=[{}], collectionUUID=other,
                                     check=False)
    assert reply["writeErrors"][0]["code"] == 361


@pytest.mark.needs("strict_api")
def test_the_strict_api_goes_without(replica_set: Mongod, start_proxy: Start, coll: str) -> None:
    proxy = start_proxy(configuration(
        replica_set, [rule(f"{coll}.orders", strategy="counter", unique_index="create")]))
    strict = ServerApi("1", strict=True)
    with proxy.client(server_api=strict) as client:
        client[coll].orders.insert_one({})
        assert client[coll].orders.find_one()["number"] == 1


@pytest.fixture(autouse=True)
def _clean(replica_set: Mongod, coll: str) -> Iterator[None]:
    yield
    replica_set.client.drop_database(coll)


@pytest.mark.full
def test_more_collections_than_are_remembered(start_proxy: Start, record):
    """Of 4,096 the proxy knows what no plan needs any more: each insert finds its guard, also where that has just been
    forgotten."""
    names = [f"c{i}" for i in range(4500)]
    with Mongod() as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: make_index(server.client.many, name), names))
        proxy = start_proxy(configuration(server, [rule("many.*", strategy="uuid", unique_index="require")]))
        with proxy.client() as client:
            began = time.monotonic()
            for _ in range(3):
                list(pool.map(lambda name: client.many[name].insert_one({}), names))
            record("inserts a second, each into the next of 4,500 collections", 3 * len(names) / (time.monotonic() - began))
        assert all(server.client.many[name].count_documents(EXISTING) == 3 for name in names)
