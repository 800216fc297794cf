"""The proxy's own unique index beside those that applications make: they are made as without a proxy, the field is
guarded at any time, and the proxy's own goes once the application's guards as well."""

from __future__ import annotations

import concurrent.futures
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from bson import Int64
from pymongo.errors import NotPrimaryError, OperationFailure

from support.guarded import Guarded
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.secured import STORE_ACTIONS
from support.servers import has
from support.threads import Threads, at_once

Start = Callable[..., Proxy]
EXISTING = {"number": {"$exists": True}}
OWN = "number_idproxy"
SOON = 20

# What ODMs have made, as createIndexes: Mongoose ({unique}, {unique, sparse}), Beanie and Morphia the same, Spring's
# @Indexed(unique = true), Django's backend (by $type), and whether it guards numbers of the rule.
APPLICATIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "plain": ({}, False),
    "sparse": ({"sparse": True}, False),
    "unique": ({"unique": True}, True),
    "unique_sparse": ({"unique": True, "sparse": True}, True),
    "named": ({"unique": True, "sparse": True, "name": "idx_number"}, True),
    "by_type": ({"unique": True, "partialFilterExpression": {"number": {"$type": "number"}}}, True),
    "by_one_type": ({"unique": True, "partialFilterExpression": {"number": {"$type": "long"}}}, False),
    "by_another_type": ({"unique": True, "partialFilterExpression": {"number": {"$type": "int"}}}, False),
    "background": ({"unique": True, "background": True}, True),
    "the_same": ({"unique": True, "partialFilterExpression": EXISTING}, True),
    "the_same_descending": ({"unique": True, "partialFilterExpression": EXISTING, "key": -1}, True),
    "unique_descending": ({"unique": True, "key": -1}, True),
}


def rule(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "number", "strategy": "counter", "block": 1, "unique_index": "create", **more}


def make(collection: Any, application: str) -> None:
    options = dict(APPLICATIONS[application][0])
    collection.create_index([("number", options.pop("key", 1))], **options)


def others(collection: Any) -> set[str]:
    """The names of its indexes."""
    return set(collection.index_information()) - {"_id_"}


def is_guarded(collection: Any) -> bool:
    """A stored number cannot be stored again."""
    number = collection.find_one(EXISTING)["number"]
    with pytest.raises(OperationFailure, match="E11000"):
        collection.insert_one({"number": Int64(number)})
    return True


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Mongod:
    """A replica set; tests on_both run in front of a standalone too."""
    return request.getfixturevalue(getattr(request, "param", "replica_set"))


on_both = pytest.mark.parametrize("server", ["standalone", "replica_set"], indirect=True)


@pytest.fixture
def proxy(server: Mongod, start_proxy: Start, coll: str) -> Iterator[Proxy]:
    yield start_proxy(configuration(server, [rule(f"{coll}.*")]))
    server.client.drop_database(coll)


def test_its_name_and_options(server: Mongod, proxy: Proxy, coll: str) -> None:
    with proxy.client() as client:
        client[coll].orders.insert_one({})
    assert server.client[coll].orders.index_information()[OWN] == {
        "v": 2, "key": [("number", -1)], "unique": True, "partialFilterExpression": EXISTING}


def test_the_fields_of_the_scope_in_the_rules_order(
        server: Mongod, start_proxy: Start, coll: str) -> None:
    proxy = start_proxy(configuration(server, [rule(f"{coll}.orders", scope=["tenant", "branch"])]))
    with proxy.client() as client:
        client[coll].orders.insert_one({"tenant": 1, "branch": 1})
    index = server.client[coll].orders.index_information()["tenant_branch_number_idproxy"]
    assert [field for field, _ in index["key"]] == ["tenant", "branch", "number"]
    assert index["unique"] and index["partialFilterExpression"] == EXISTING


def each_application(judge: Callable[[str, bool], None]) -> None:
    """In a collection of its name, side by side."""
    at_once(*(functools.partial(judge, application, guards) for application, (_, guards) in APPLICATIONS.items()))


@on_both
def test_made_after_the_proxys(server: Mongod, proxy: Proxy, coll: str) -> None:
    def judge(application: str, guards: bool) -> None:
        stored, orders = server.client[coll][application], client[coll][application]
        orders.insert_one({})
        assert others(stored) == {OWN}
        make(orders, application)
        make(orders, application)  # as at its next start
        orders.insert_one({})
        assert is_guarded(stored)
        if guards:
            eventually(lambda: len(others(stored)) == 1 and OWN not in others(stored), SOON)
            event = proxy.wait_event("guard_yields", SOON, ns=f"{coll}.{application}", field="number")
            assert event["index"] in others(stored) and event["level"] == "info"
        make(orders, application)
        orders.insert_one({})
        assert is_guarded(stored)
        assert len(others(stored)) == (1 if guards else 2), application
        assert stored.distinct("number") == [1, 2, 3]

    with proxy.client() as client:
        each_application(judge)
    guarding = {f"{coll}.{application}" for application, (_, guards) in APPLICATIONS.items() if guards}
    assert {event["ns"] for event in proxy.find_events("guard_yields")} == guarding
    assert not proxy.find_events("not_ready")


@on_both
def test_there_before_the_proxy(server: Mongod, start_proxy: Start, coll: str) -> None:
    def judge(application: str, guards: bool) -> None:
        stored, orders = server.client[coll][application], client[coll][application]
        its = others(stored)
        orders.insert_one({})
        make(orders, application)
        orders.insert_one({})
        assert is_guarded(stored)
        assert others(stored) == (its if guards else its | {OWN}), application

    for application in APPLICATIONS:
        make(server.client[coll][application], application)
    proxy = start_proxy(configuration(server, [rule(f"{coll}.*")]))
    with proxy.client() as client:
        each_application(judge)
    assert not proxy.find_events("not_ready")


@pytest.mark.parametrize("application", ["plain", "sparse", "by_one_type"])
def test_an_application_names_its_index_by_the_key(
        server: Mongod, proxy: Proxy, coll: str, application: str) -> None:
    """Of two indexes with that key, a server would find none."""
    with proxy.client() as client:
        orders = client[coll].orders
        orders.insert_one({})
        make(orders, application)
        number = {"number": 1}
        found = {**number, "x": {"$exists": False}}
        if application == "by_one_type":
            found["number"] = Int64(1)
        assert len(list(orders.find(found).hint(number))) == 1
        assert orders.update_one(found, {"$set": {"x": 1}}, hint=number).modified_count == 1
        client[coll].command("collMod", "orders", index={"keyPattern": number, "hidden": True})
        client[coll].command("dropIndexes", "orders", index=number)
        orders.insert_one({})
    assert others(server.client[coll].orders) == {OWN} and is_guarded(server.client[coll].orders)


@on_both
def test_one_that_is_the_proxys_own_for_the_server(server: Mongod, proxy: Proxy, coll: str) -> None:
    """The client gets its index, and no other error than it would without a proxy."""
    stored = server.client[coll].orders
    with proxy.client() as client:
        client[coll].orders.insert_one({})
        make(client[coll].orders, "the_same_descending")
        event = proxy.wait_event("guard_makes_room", SOON)
        assert (event["ns"], event["index"]) == (f"{coll}.orders", OWN)
        eventually(lambda: len(others(stored)) == 1, SOON)
        # The next one is in conflict with the application's own.
        with pytest.raises(OperationFailure) as error:
            client[coll].orders.create_index("x", name=next(iter(others(stored))))
        assert error.value.code == 86
    assert len(proxy.find_events("guard_makes_room")) == 1


@pytest.mark.needs("equal_keys")
@pytest.mark.parametrize("first, second", [("the_same", "the_same_descending"), ("the_same_descending", "the_same")])
def test_the_same_in_both_directions(
        server: Mongod, proxy: Proxy, coll: str, first: str, second: str) -> None:
    """The second comes before the proxy's own has yielded to the first."""
    with proxy.client() as client:
        client[coll].orders.insert_one({})
        make(client[coll].orders, first)
        make(client[coll].orders, second)
        client[coll].orders.insert_one({})
    stored = server.client[coll].orders
    eventually(lambda: others(stored) == {"number_1", "number_-1"}, SOON)
    assert stored.distinct("number") == [1, 2] and is_guarded(stored)


def test_two_fields_whose_indexes_would_have_one_name(server: Mongod, start_proxy: Start, coll: str) -> None:
    """Both are made at the same time."""
    create = {"ns": f"{coll}.*", "strategy": "counter", "block": 1, "unique_index": "create"}
    proxy = start_proxy(configuration(
        server, [{**create, "field": "a_b"}, {**create, "field": "b", "scope": ["a"]}]))
    with proxy.client(retryWrites=False) as client:
        for n in range(20):
            client[coll][f"c{n}"].insert_one({"a": 1})
            assert others(server.client[coll][f"c{n}"]) == {"a_b_idproxy", "a_b_idproxy_2"}
    assert not proxy.find_events("not_ready")


def test_a_proxy_that_died_in_between_has_left_two(server: Mongod, start_proxy: Start, coll: str) -> None:
    """Both guard, and both yield."""
    stored = server.client[coll].orders
    stored.create_index([("number", 1)], unique=True, partialFilterExpression=EXISTING, name=OWN)
    stored.create_index([("number", -1)], unique=True, partialFilterExpression=EXISTING, name=f"{OWN}_2")
    proxy = start_proxy(configuration(server, [rule(f"{coll}.orders")]))
    with proxy.client() as client:
        client[coll].orders.insert_one({})
        assert len(others(stored)) == 2
        stored.create_index([("number", 1), ("x", 1)], unique=True)  # guards nothing
        client[coll].orders.create_index([("x", 1)])
        client[coll].orders.insert_one({})
        assert len(others(stored)) == 4
        if has("equal_keys"):
            make(client[coll].orders, "unique")
            eventually(lambda: not {OWN, f"{OWN}_2"} & others(stored), SOON)
            client[coll].orders.insert_one({})
            assert is_guarded(stored)


def test_what_0_2_0_made_goes_on_guarding(server: Mongod, start_proxy: Start, coll: str) -> None:
    stored = server.client[coll].orders
    stored.create_index("number", unique=True, sparse=True)
    proxy = start_proxy(configuration(server, [rule(f"{coll}.orders")]))
    with proxy.client() as client:
        client[coll].orders.insert_one({})
    assert others(stored) == {"number_1"} and is_guarded(stored)


@pytest.mark.parametrize("output, alias, guards", [
    ("int32", "int", True), ("int32", "long", False), ("string", "string", True), ("string", "number", False),
    ("int64", "number", True)])
def test_by_the_type_of_the_values(server: Mongod, start_proxy: Start, coll: str, output: str, alias: str,
                                   guards: bool) -> None:
    stored = server.client[coll].orders
    stored.create_index("number", unique=True, partialFilterExpression={"number": {"$type": alias}})
    pad = {"format": {"pad": 9}} if output == "string" else {}
    proxy = start_proxy(configuration(
        server, [rule(f"{coll}.orders", unique_index="require", output=output, **pad)]))
    with proxy.client(retryWrites=False) as client:
        if guards:
            client[coll].orders.insert_one({})
            assert stored.count_documents(EXISTING) == 1
        else:
            with pytest.raises(OperationFailure, match="it holds some of the documents only") as error:
                client[coll].orders.insert_one({})
            assert error.value.code == 96


def test_its_own_comes_back_when_the_applications_goes(
        server: Mongod, proxy: Proxy, coll: str) -> None:
    with proxy.client() as client:
        client[coll].orders.insert_one({})
        make(client[coll].orders, "unique")
        proxy.wait_event("guard_yields", SOON)
        client[coll].orders.drop_index("number_1")
        client[coll].orders.insert_one({})
        assert others(server.client[coll].orders) == {OWN} and is_guarded(server.client[coll].orders)


@on_both
def test_none_but_its_own_is_dropped(server: Mongod, start_proxy: Start, coll: str) -> None:
    """Whatever its name."""
    database = server.client[coll]
    strangers: dict[str, dict[str, Any]] = {
        "named": {"unique": True, "name": OWN},
        "hidden": {"unique": True, "partialFilterExpression": EXISTING, "name": OWN, "hidden": True},
        "expires": {"unique": True, "partialFilterExpression": EXISTING, "name": OWN, "expireAfterSeconds": 3600},
        "beside": {"unique": True, "partialFilterExpression": EXISTING, "name": f"{OWN}_of_mine"}}
    for name, options in strangers.items():
        database[name].create_index("number", **options)
        database[name].create_index([("number", -1)], unique=True, name="other")
    database.required.create_index("number", unique=True, partialFilterExpression=EXISTING, name=OWN)
    database.required.create_index([("number", -1)], unique=True)
    before = {name: others(database[name]) for name in [*strangers, "required"]}
    proxy = start_proxy(configuration(server, [
        rule(f"{coll}.required", unique_index="require"), rule(f"{coll}.*")]))
    with proxy.client() as client:
        client[coll].last.insert_one({})
        make(client[coll].last, "unique")
        for name in before:
            client[coll][name].insert_one({})
    proxy.wait_event("guard_yields", SOON, ns=f"{coll}.last")
    assert {name: others(database[name]) for name in before} == before


def test_one_that_is_being_built_is_none_yet(
        standalone: Mongod, start_proxy: Start, coll: str) -> None:
    """Which a standalone does not tell by listIndexes."""
    stored, admin = standalone.client[coll].orders, standalone.client.admin
    proxy = start_proxy(configuration(standalone, [rule(f"{coll}.orders")]))

    def asked() -> int:
        return admin.command("serverStatus")["metrics"]["commands"]["collStats"]["total"]

    with proxy.client() as client:
        client[coll].orders.insert_one({})
        hang = {"configureFailPoint": "hangAfterStartingIndexBuild"}
        admin.command({**hang, "mode": "alwaysOn"})
        with Threads(lambda: make(stored, "unique")):
            try:
                eventually(lambda: standalone.client[coll].command("collStats", "orders")["indexBuilds"], SOON)
                before = asked()
                eventually(lambda: asked() > before, SOON)
                client[coll].orders.insert_one({})
                assert others(stored) == {OWN, "number_1"}
                assert not proxy.find_events("guard_yields")
            finally:
                admin.command({**hang, "mode": "off"})
        eventually(lambda: others(stored) == {"number_1"}, 2 * SOON)


def test_a_command_that_the_proxys_own_build_refuses(
        standalone: Mongod, start_proxy: Start, coll: str) -> None:
    """It is carried out once the index is there."""
    command = ({"collMod": "orders", "index": {"name": "x_1", "hidden": True}} if has("drops_beside_builds")
               else {"dropIndexes": "orders", "index": "x_1"})
    stored, admin = standalone.client[coll].orders, standalone.client.admin
    stored.create_index("x")
    stored.insert_one({"number": Int64(1)})
    hang = {"configureFailPoint": "hangAfterStartingIndexBuild"}
    entered = admin.command({**hang, "mode": "alwaysOn"})["count"]
    try:
        proxy = start_proxy(configuration(standalone, [rule(f"{coll}.orders")]))
        admin.command({"waitForFailPoint": hang["configureFailPoint"], "timesEntered": entered + 1,
                       "maxTimeMS": SOON * 1000})
        with pytest.raises(OperationFailure) as error:
            stored.database.command(command)
        assert error.value.code == 12587

        def refusals() -> int:
            counts = admin.command("serverStatus")["metrics"]["commands"]
            return sum(counts[name]["failed"] for name in ("dropIndexes", "collMod"))

        with proxy.client() as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
            before = refusals()
            done = pool.submit(client[coll].command, command)
            try:
                eventually(lambda: refusals() > before, SOON)
                assert not done.done()
            finally:
                admin.command({**hang, "mode": "off"})
            assert done.result()["ok"]
            client[coll].orders.insert_one({})
    finally:
        admin.command({**hang, "mode": "off"})
    assert OWN in others(stored) and stored.distinct("number") == [1, 2]


def test_a_proxy_that_stops_does_not_wait_for_its_own_build(
        standalone: Mongod, start_proxy: Start, coll: str) -> None:
    """Which can take hours: who waits for it is told to try again."""
    admin = standalone.client.admin
    proxy = start_proxy(configuration(standalone, [rule(f"{coll}.orders")]))
    hang = {"configureFailPoint": "hangAfterStartingIndexBuild"}
    with proxy.client() as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        client[coll].orders.insert_one({})
        entered = admin.command({**hang, "mode": "alwaysOn"})["count"]
        try:
            refused = pool.submit(make, client[coll].orders, "the_same_descending")
            admin.command({"waitForFailPoint": hang["configureFailPoint"], "timesEntered": entered + 1,
                           "maxTimeMS": SOON * 1000})
            proxy.process.send_signal(signal.SIGTERM)
            with pytest.raises(NotPrimaryError) as error:  # as after any other server's 91
                refused.result(SOON)
            assert error.value.details["code"] == 91
        finally:
            admin.command({**hang, "mode": "off"})
    assert proxy.process.wait(SOON) == 0


def test_without_the_right_to_make_indexes_nothing_changes(
        guarded: Guarded, start_proxy: Start, coll: str) -> None:
    """A client that may not make indexes gets error 13, and makes nobody make room."""
    guarded.add_user(f"{coll}-store", [{"role": "readWrite", "db": "idproxy"}], [
        {"resource": {"db": coll, "collection": ""}, "actions": [*STORE_ACTIONS, "createIndex", "dropIndex"]}])
    guarded.add_user(f"{coll}-reader", [], [{"resource": {"db": coll, "collection": "orders"},
                                             "actions": ["find", "insert"]}])
    proxy = start_proxy(configuration(guarded, [rule(f"{coll}.orders")],
                                      id_store={"uri": guarded.uri_of(f"{coll}-store")}))
    uri = guarded.uri_of(f"{coll}-reader").replace(guarded.address, proxy.address)
    with pymongo.MongoClient(uri) as client:
        client[coll].orders.insert_one({})
        with pytest.raises(OperationFailure) as error:
            make(client[coll].orders, "the_same_descending")
        assert error.value.code == 13
        client[coll].orders.insert_one({})
    assert others(guarded.client[coll].orders) == {OWN}


def test_the_store_may_not_drop_it(guarded: Guarded, start_proxy: Start, coll: str) -> None:
    guarded.add_user(coll, [{"role": "readWrite", "db": "idproxy"}], [
        {"resource": {"db": coll, "collection": ""}, "actions": [*STORE_ACTIONS, "createIndex"]}])
    stored = guarded.client[coll].orders
    proxy = start_proxy(configuration(
        guarded, [rule(f"{coll}.orders")], id_store={"uri": guarded.uri_of(coll)}))
    stored.insert_one({})
    eventually(lambda: others(stored) == {OWN}, SOON)
    make(stored, "unique")
    event = proxy.wait_event("missing_privilege", SOON)
    assert event["privilege"] == "dropIndex"
    assert others(stored) == {OWN, "number_1"}


def test_an_application_that_drops_its_index_at_once(
        replica_set: Mongod, start_proxy: Start, coll: str) -> None:
    """Perhaps while the proxy's own is being dropped. Each insert is stored, and in the end there is a guard."""
    proxy = start_proxy(configuration(replica_set, [rule(f"{coll}.orders")]))
    stored = replica_set.client[coll].orders
    over = threading.Event()
    with proxy.client(retryWrites=False) as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        client[coll].orders.insert_one({})

        def write() -> int:
            written = 0
            while not over.is_set():
                client[coll].orders.insert_one({})
                written += 1
            return written

        writer = pool.submit(write)
        try:
            for n in range(20):
                make(client[coll].orders, "unique")
                for _ in range(n % 4):  # each has the indexes looked at
                    client[coll].orders.insert_one({"k": 1})
                client[coll].orders.drop_index("number_1")
        finally:
            over.set()
        written = writer.result()
        client[coll].orders.insert_one({})
    expected = written + 2 + stored.count_documents({"k": 1})
    assert stored.distinct("number") == list(range(1, expected + 1))
    eventually(lambda: others(stored) == {OWN}, SOON)
    assert is_guarded(stored) and not proxy.find_events("not_ready")


def test_beside_a_hidden_guard(server: Mongod, start_proxy: Start, coll: str) -> None:
    """A counter could not read through it, and somebody hides an index before dropping it."""
    stored = server.client[coll].orders
    stored.create_index("number", unique=True, partialFilterExpression=EXISTING)
    server.client[coll].command("collMod", "orders", index={"name": "number_1", "hidden": True})
    proxy = start_proxy(configuration(server, [rule(f"{coll}.*")]))
    with proxy.client() as client:
        for _ in range(3):
            client[coll].orders.insert_one({})
    assert others(stored) == {"number_1", OWN} and is_guarded(stored)
    assert not proxy.find_events("not_ready")


def test_null_beside_an_index_by_type(server: Mongod, start_proxy: Start, coll: str) -> None:
    """Which lets null in as often as the application likes: so does the proxy's."""
    stored = server.client[coll].orders
    make(stored, "by_one_type")
    proxy = start_proxy(configuration(server, [rule(f"{coll}.*")]))
    with proxy.client() as client:
        ids = [client[coll].orders.insert_one({}).inserted_id for _ in range(3)]
        eventually(lambda: OWN in others(stored), SOON)
        for each in ids:
            client[coll].orders.update_one({"_id": each}, {"$set": {"number": None}})
    assert stored.distinct("number") == [None]


@pytest.mark.parametrize("code", [46, 276])
def test_a_refusal_that_passes(replica_set: Mongod, start_proxy: Start, coll: str, code: int) -> None:
    """Inserts wait, or get error 6: drivers send them again."""
    proxy = start_proxy(configuration(replica_set, [rule(f"{coll}.*")]))
    replica_set.client.admin.command(
        "configureFailPoint", "failCommand", mode={"times": 1},
        data={"failCommands": ["createIndexes"], "errorCode": code, "namespace": f"{coll}.orders"})
    with proxy.client() as client:
        for _ in range(3):
            client[coll].orders.insert_one({})
    assert replica_set.client[coll].orders.distinct("number") == [1, 2, 3]


@pytest.mark.parametrize("application", ["unique", "the_same", "by_type"])
def test_writers_through_several_proxies(
        replica_set: Mongod, start_proxy: Start, coll: str, application: str) -> None:
    """While the application's index comes and the proxy's own goes, each number is stored once, and none is left out."""
    rules = [{"ns": f"{coll}.orders", "field": "number", "strategy": "gapless", "unique_index": "create"}]
    clients = [start_proxy(configuration(replica_set, rules)).client() for _ in range(2)]
    stored = replica_set.client[coll].orders
    clients[0][coll].orders.insert_one({})
    over = threading.Event()

    def write(client: Any) -> int:
        written = 0
        while not over.is_set():
            client[coll].orders.insert_one({})
            written += 1
        return written

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, client) for client in clients]
        try:
            make(clients[0][coll].orders, application)
            eventually(lambda: others(stored) == {"number_1"}, SOON)
            seen = stored.estimated_document_count()
            eventually(lambda: stored.estimated_document_count() > seen + 20, SOON)
        finally:
            over.set()
        written = sum(writer.result() for writer in writers)
    numbers = sorted(each["number"] for each in stored.find())
    assert numbers == list(range(1, written + 2))
    for client in clients:
        client.close()
