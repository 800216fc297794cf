"""What the proxy learns of collections with the rights of the store's user, and what it does then.

unique_index, views and time-series collections, how full a space of random numbers is, and which
privilege is missing.
"""

from __future__ import annotations

import functools
import pathlib
import signal
import threading
from collections.abc import Callable
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.admin import LISTEN, Admin
from support.guarded import Guarded
from support.middleman import Middleman
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, configuration
from support.servers import has
from support.typed import create_index

HOST_UNREACHABLE = 6
OPERATION_FAILED = 96

# A rule that is not ready is looked at every 10 s, and so is a store that is down.
SOON = 40


def rule(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "number", "strategy": "random-digits", **more}


def fails(client: pymongo.MongoClient, db: str, collection: str = "orders") -> OperationFailure:
    """The error of an insert that needs a value."""
    with pytest.raises(OperationFailure) as raised:
        client[db][collection].insert_one({})
    return raised.value


def insert(client: pymongo.MongoClient, db: str, collection: str = "orders") -> bool:
    """An insert that needs a value; False if it is refused."""
    try:
        client[db][collection].insert_one({})
    except OperationFailure as error:
        assert error.code in (HOST_UNREACHABLE, OPERATION_FAILED)
        return False
    return True


def events(proxy: Proxy, name: str, **fields: str) -> list[dict[str, Any]]:
    return [event for event in proxy.find_events(name)
            if all(event.get(field) == value for field, value in fields.items())]


def await_event(proxy: Proxy, name: str, **fields: str) -> dict[str, Any]:
    return eventually(lambda: events(proxy, name, **fields), SOON, f"event {name} {fields}")[0]


def await_indexes(mongod: Mongod, db: str, collection: str = "orders") -> set[str]:
    """The unique indexes of a collection, once there is one."""
    def unique() -> set[str]:
        listed = mongod.client[db][collection].index_information()
        return {name for name, index in listed.items() if index.get("unique")}
    return eventually(unique, SOON)


# --- Unique indexes ---

def test_warns_once_of_a_missing_unique_index(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    db = standalone.client[coll]
    db.bare.insert_one({})
    db.compound.create_index([("number", 1), ("x", 1)], unique=True)
    db.guarded.create_index("number", unique=True)
    db.sparse.create_index([("number", -1)], unique=True, sparse=True)
    names = ["bare", "compound", "guarded", "sparse", "absent"]
    proxy = start_proxy(configuration(standalone, [rule(f"{coll}.{name}") for name in names]))
    assert "number_1_x_1 does not do" in await_event(
        proxy, "no_unique_index", ns=f"{coll}.compound")["message"]
    bare = await_event(proxy, "no_unique_index", ns=f"{coll}.bare")
    assert bare["command"] == (
        f'db.getSiblingDB("{coll}").getCollection("bare").createIndex('
        '{"number": -1}, {unique: true, '
        'partialFilterExpression: {"number": {$exists: true}}, '
        'name: "number_idproxy"})')
    assert bare["message"] == "no unique index keeps a value from being stored twice"
    db.bare.insert_one({})
    create_index(standalone.client, bare["command"])
    with proxy.client() as client:
        for name in names:
            assert insert(client, coll, name)
    assert len(proxy.find_events("no_unique_index")) == 2


def test_required_index_appears_later(
        replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    proxy = start_proxy(configuration(replica_set, [rule(f"{coll}.orders", unique_index="require")]))
    with proxy.client() as client:
        error = fails(client, coll)
        assert error.code == OPERATION_FAILED
        command = f'db.getSiblingDB("{coll}").getCollection("orders").createIndex({{"number": -1}}'
        assert command in str(error)
        assert command in await_event(proxy, "not_ready", ns=f"{coll}.orders")["reason"]
        # What brings its own value, and other collections, are not concerned.
        client[coll].orders.insert_one({"number": 1})
        client[coll].others.insert_one({})

        replica_set.client[coll].orders.create_index("number", unique=True)
        eventually(lambda: insert(client, coll), SOON)
    await_event(proxy, "ready_again", ns=f"{coll}.orders")
    assert len(proxy.find_events("not_ready")) == len(proxy.find_events("ready_again")) == 1
    stored = replica_set.client[coll].orders.find_one({"number": {"$ne": 1}})
    assert isinstance(stored["number"], int)


@pytest.mark.tsan
def test_required_index_of_a_collection_behind_a_wildcard(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    standalone.client[coll].guarded.create_index("number", unique=True)
    proxy = start_proxy(configuration(standalone, [rule("*", unique_index="require")]))
    with proxy.client(retryWrites=False) as client:
        eventually(lambda: insert(client, coll, "guarded"), SOON)
        eventually(lambda: fails(client, coll, "bare").code == OPERATION_FAILED, SOON)


@pytest.mark.tsan
def test_creates_the_index(replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    """Documents without the field, from before the rule, are no duplicates of one another."""
    replica_set.client[coll].orders.insert_many([{}, {}])
    proxy = start_proxy(configuration(replica_set, [rule(f"{coll}.orders", unique_index="create")]))
    assert await_indexes(replica_set, coll) == {"number_idproxy"}
    with proxy.client() as client:
        eventually(lambda: insert(client, coll), SOON)
    assert not proxy.find_events("no_unique_index")


def test_says_why_the_index_cannot_be_created(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    orders = standalone.client[coll].orders
    orders.insert_many([{"_id": i, "number": 123456789} for i in range(2)])
    proxy = start_proxy(configuration(standalone, [rule(f"{coll}.orders", unique_index="create")]))
    reason = await_event(proxy, "not_ready", ns=f"{coll}.orders")["reason"]
    assert "documents have the same value" in reason
    with proxy.client() as client:
        error = fails(client, coll)
        assert error.code == OPERATION_FAILED and reason in str(error)
        orders.delete_one({"_id": 0})
        eventually(lambda: insert(client, coll), SOON)
    assert await_indexes(standalone, coll) == {"number_idproxy"}
    assert "123456789" not in proxy.log()


def test_not_ready_while_the_index_is_built(
        replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    """A standalone does not tell an index that is being built from one that is there."""
    orders = replica_set.client[coll].orders
    orders.insert_one({"number": 1})
    build = threading.Thread(target=orders.create_index, args=["number"], kwargs={"unique": True})
    hang = functools.partial(
        replica_set.client.admin.command, "configureFailPoint", "hangAfterStartingIndexBuild")
    hang(mode="alwaysOn")
    try:
        build.start()
        eventually(lambda: "number_1" in orders.index_information(), SOON)
        proxy = start_proxy(
            configuration(replica_set, [rule(f"{coll}.orders", unique_index="require")]))
        event = await_event(proxy, "not_ready", ns=f"{coll}.orders")
        assert "still being built" in event["reason"]
        with proxy.client(retryWrites=False) as client:
            assert fails(client, coll).code == HOST_UNREACHABLE
    finally:
        hang(mode="off")
        build.join()
    with proxy.client() as client:
        eventually(lambda: insert(client, coll), SOON)


@pytest.mark.tsan
def test_not_ready_while_the_store_is_down(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    port = free_port()
    config = configuration(
        standalone, [rule(f"{coll}.orders", unique_index="require"), rule(f"{coll}.others")],
        id_store={"uri": f"mongodb://127.0.0.1:{port}"})
    proxy = start_proxy(config)
    with proxy.client(retryWrites=False) as client:
        assert fails(client, coll).code == HOST_UNREACHABLE  # unchecked
        reason = await_event(proxy, "not_ready", ns=f"{coll}.orders")["reason"]
        error = fails(client, coll)
        assert error.code == HOST_UNREACHABLE and reason in str(error)
        assert "the id store does not answer" in reason
        client[coll].others.insert_one({})
        assert standalone.client[coll].others.find_one()["number"] is not None
        await_event(proxy, "inspection_failing")
        standalone.client[coll].orders.create_index("number", unique=True)
        with Middleman(standalone.address, port):
            eventually(lambda: insert(client, coll), SOON)
            await_event(proxy, "inspection_again")
        # What was seen is believed for a while.
        assert insert(client, coll)


def test_a_store_that_hangs_holds_nobody_up(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    with Mongod() as store:
        store.process.send_signal(signal.SIGSTOP)
        try:
            proxy = start_proxy(configuration(
                standalone, [rule(f"{coll}.orders"), rule(f"{coll}.made", unique_index="create")],
                store))
            with proxy.client(retryWrites=False) as client:
                assert insert(client, coll)
                assert fails(client, coll, "made").code == HOST_UNREACHABLE
            proxy.stop(timeout=15)
        finally:
            store.process.send_signal(signal.SIGCONT)  # or the test's own client waits for it at its end


# --- Views and time-series collections ---

@pytest.mark.needs("time_series")
@pytest.mark.tsan
@pytest.mark.parametrize("ns", ["{}.*", "*"])
def test_leaves_views_and_time_series_alone(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str, ns: str) -> None:
    db = standalone.client[coll]
    db.create_collection("readings", timeseries={"timeField": "at"})
    db.create_collection("view", viewOn="orders")
    proxy = start_proxy(configuration(standalone, [rule(ns.format(coll))]))
    measurement = {"at": db.command("hello")["localTime"]}
    with proxy.client() as client:
        def is_left_alone() -> bool:
            taken = client[coll].readings.insert_one(dict(measurement)).inserted_id
            return "number" not in db.readings.find_one({"_id": taken})
        if ns == "*":
            eventually(is_left_alone, SOON)  # its database is not listed before it is used
        assert is_left_alone()
        with pytest.raises(OperationFailure) as through:
            client[coll].view.insert_one({})
        with pytest.raises(OperationFailure) as direct:
            db.view.insert_one({})
        assert through.value.code == direct.value.code
        client[coll].orders.insert_one({"_id": 1})
    assert "number" in db.orders.find_one({"_id": 1})


# --- How full a space is ---

@pytest.mark.tsan
def test_refuses_what_is_above_max_fill(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    db = standalone.client[coll]
    for name, count in [("full", 91), ("filling", 50), ("allowed", 91)]:
        db[name].create_index("number", unique=True)
        db[name].insert_many([{"number": i} for i in range(count)])
    proxy = start_proxy(configuration(standalone, [
        rule(f"{coll}.{name}", digits=2, retry={"attempts": 100}, **limits)
        for name, limits in [("full", {}), ("filling", {}), ("allowed", {"max_fill": 0.95})]]))
    await_event(proxy, "numbers_used_up", ns=f"{coll}.full", documents="91")
    with proxy.client() as client:
        error = fails(client, coll, "full")
        assert error.code == OPERATION_FAILED
        assert "91 %" in str(error) and "max_fill is 90 %" in str(error)
        assert insert(client, coll, "filling")
        assert insert(client, coll, "allowed")
    warning = await_event(proxy, "numbers_run_out", ns=f"{coll}.filling")
    assert "with 90 documents" in warning["message"]
    await_event(proxy, "numbers_run_out", ns=f"{coll}.allowed")


def test_refuses_when_most_draws_are_taken(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    """The store's user need not be able to count."""
    db = standalone.client[coll]
    db.orders.create_index("number", unique=True)
    db.orders.insert_many([{"number": i} for i in range(970)])
    with Mongod() as empty:
        proxy = start_proxy(configuration(
            standalone, [rule(f"{coll}.orders", digits=3, retry={"attempts": 100})], store=empty))
        with proxy.client() as client:
            def refused() -> bool:
                try:
                    client[coll].orders.insert_one({})
                except OperationFailure as error:
                    return error.code == OPERATION_FAILED
                return False
            eventually(refused, SOON)
        await_event(proxy, "numbers_used_up", ns=f"{coll}.orders", documents="0")


def fill_of(admin: Admin) -> tuple[float, float]:
    metrics = admin.metrics()
    return metrics("idproxy_rule_documents"), metrics("idproxy_rule_fill_ratio")


@pytest.mark.parametrize("with_value, without, digits", [(100, 900, 3), (20_000, 80_000, 5)])
def test_counts_documents_that_have_a_value(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str, with_value: int,
        without: int, digits: int) -> None:
    """And shows them before the first insert."""
    numbers = standalone.client[coll].orders
    numbers.insert_many([{"number": i} for i in range(with_value)])
    numbers.insert_many([{"other": i} for i in range(without // 2)])
    numbers.insert_many([{"number": None} for _ in range(without // 2)])
    proxy = start_proxy(configuration(
        standalone, [rule(f"{coll}.orders", digits=digits)], admin=LISTEN))
    admin = Admin(proxy)
    documents, fill = fill_of(admin)
    assert documents == with_value and fill == pytest.approx(with_value / 10**digits)
    assert admin.metrics()("idproxy_rule_max_fill_ratio") == 0.9


@pytest.mark.parametrize("index", [
    {"sparse": True}, {"partialFilterExpression": {"number": {"$exists": True}}}], ids=str)
def test_counts_by_the_index_in_a_large_collection(
        large: Mongod, start_proxy: Callable[..., Proxy], index: dict[str, Any]) -> None:
    """As a sample does only by chance."""
    orders = large.client.large.orders
    orders.create_index("number", name="counted", unique=True, **index)
    try:
        proxy = start_proxy(configuration(large, [rule("large.orders", digits=6)], admin=LISTEN))
        assert fill_of(Admin(proxy)) == (100_000, 0.1)
    finally:
        orders.drop_index("counted")


@pytest.fixture(scope="module")
def large(standalone: Mongod) -> Mongod:
    """With 300,000 documents, a third of them with a number."""
    db = standalone.client.large
    db.one.insert_one({})
    db.one.aggregate([
        {"$set": {"number": {"$range": [0, 300_000]}}}, {"$unwind": "$number"}, {"$unset": "_id"},
        {"$set": {"number": {"$cond": [{"$lt": ["$number", 100_000]}, "$number", "$$REMOVE"]}}},
        {"$out": "orders"}])
    return standalone


def test_samples_if_counting_takes_too_long(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    orders = standalone.client[coll].orders
    orders.insert_many([{"number": i} if i % 50 == 0 else {} for i in range(50_000)])
    standalone.client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data={
        "failCommands": ["count"], "errorCode": 50, "appName": "mongo-idproxy"})
    try:
        proxy = start_proxy(configuration(
            standalone, [rule(f"{coll}.orders", digits=5)], admin=LISTEN))
        documents, _ = fill_of(Admin(proxy))
    finally:
        refused = standalone.client.admin.command("configureFailPoint", "failCommand", mode="off")
    assert refused["count"] > 0
    # A thousand documents tell 2 % from none and from all; seven standard deviations are 3.1 %.
    assert documents < 50_000 * 0.051


def test_the_count_is_as_fresh_as_the_warning(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    standalone.client[coll].orders.create_index("number", unique=True)
    proxy = start_proxy(configuration(
        standalone, [rule(f"{coll}.orders", digits=3, retry={"attempts": 100, "deadline": "60s"})],
        admin=LISTEN))
    admin = Admin(proxy)
    assert fill_of(admin) == (0, 0)
    with proxy.client() as client:
        client[coll].orders.insert_many([{} for _ in range(500)])
        await_event(proxy, "numbers_run_out", ns=f"{coll}.orders")
        client[coll].orders.insert_many([{} for _ in range(380)])
        warnings = eventually(
            lambda: len(found := events(proxy, "numbers_run_out")) > 1 and found, SOON)
    # They may be counted while they are inserted, but never before.
    assert all(int(warning["documents"]) > 100 for warning in warnings)
    documents, fill = eventually(
        lambda: (found := fill_of(admin))[0] == pytest.approx(880, rel=0.05) and found, SOON)
    assert fill >= documents / 1000


# --- Privileges ---

# What a user of the store may do with the store itself.
STORE = [{"role": "readWrite", "db": "idproxy"}]


def granted(db: str, actions: list[str]) -> dict[str, Any]:
    return {"resource": {"db": db, "collection": ""}, "actions": actions}


def start_guarded(start_proxy: Callable[..., Proxy], mongod: Guarded, user: str,
                  rules: list[dict[str, Any]], tmp_path: pathlib.Path) -> Proxy:
    uri_file = tmp_path / "uri"
    uri_file.write_text(mongod.uri_of(user) + "\n")
    uri_file.chmod(0o600)
    return start_proxy(configuration(mongod, rules, id_store={"uri_file": str(uri_file)}))


def as_root(proxy: Proxy) -> pymongo.MongoClient:
    return proxy.client(username="root", password="secret", authSource="admin")


def rules_of(db: str) -> list[dict[str, Any]]:
    return [rule(f"{db}.warned"), rule(f"{db}.required", unique_index="require"),
            rule(f"{db}.created", unique_index="create")]


def test_names_each_missing_privilege_once(
        guarded: Guarded, start_proxy: Callable[..., Proxy], coll: str,
        tmp_path: pathlib.Path) -> None:
    guarded.client[coll].warned.insert_one({})
    if has("time_series"):
        guarded.client[coll].create_collection("readings", timeseries={"timeField": "at"})
    guarded.add_user(f"{coll}-blind", STORE)
    proxy = start_guarded(start_proxy, guarded, f"{coll}-blind",
                          [*rules_of(coll), rule(f"{coll}.readings")], tmp_path)
    privileges = ["collStats", "listCollections", "listIndexes"]
    for privilege in privileges:
        event = await_event(proxy, "missing_privilege", privilege=privilege)
        assert event["db"] == coll and f"may not {privilege} in {coll}" in event["message"]
    with as_root(proxy) as client:
        assert insert(client, coll, "warned")
        for name in ["required", "created"]:
            error = fails(client, coll, name)
            assert error.code == OPERATION_FAILED and "may not listIndexes" in str(error)
        # A time-series collection that is not known to be one counts as ordinary.
        client[coll].readings.insert_one({"at": guarded.client.admin.command("hello")["localTime"]})
    assert "number" in guarded.client[coll].readings.find_one()
    assert sorted(event["privilege"] for event in proxy.find_events("missing_privilege")) \
        == privileges
    assert "secret" not in proxy.log()


def test_names_the_privilege_to_make_an_index(
        guarded: Guarded, start_proxy: Callable[..., Proxy], coll: str,
        tmp_path: pathlib.Path) -> None:
    guarded.add_user(f"{coll}-reader", STORE, [granted(
        coll, ["listCollections", "find", "listIndexes", "collStats"])])
    proxy = start_guarded(start_proxy, guarded, f"{coll}-reader",
                          [rule(f"{coll}.created", unique_index="create")], tmp_path)
    with as_root(proxy) as client:
        error = fails(client, coll, "created")
    assert error.code == OPERATION_FAILED and "may not createIndex" in str(error)
    assert await_event(proxy, "missing_privilege", privilege="createIndex")["db"] == coll


def test_the_documented_privileges_suffice(
        guarded: Guarded, start_proxy: Callable[..., Proxy], coll: str,
        tmp_path: pathlib.Path) -> None:
    guarded.client[coll].required.create_index("number", unique=True)
    if has("time_series"):
        guarded.client[coll].create_collection("readings", timeseries={"timeField": "at"})
    guarded.add_user(f"{coll}-able", STORE, [granted(
        coll, ["listCollections", "find", "listIndexes", "collStats", "createIndex"])])
    proxy = start_guarded(start_proxy, guarded, f"{coll}-able",
                          [*rules_of(coll), rule(f"{coll}.readings")], tmp_path)
    with as_root(proxy) as client:
        for name in ["warned", "required", "created"]:
            assert insert(client, coll, name)
        assert await_indexes(guarded, coll, "created") == {"number_idproxy"}
        client[coll].readings.insert_one({"at": guarded.client.admin.command("hello")["localTime"]})
    assert ("number" in guarded.client[coll].readings.find_one()) is not has("time_series")
    assert not proxy.find_events("missing_privilege")
    assert not proxy.find_events("not_ready")


def test_counts_all_documents_if_it_may_not_look(
        guarded: Guarded, start_proxy: Callable[..., Proxy], coll: str) -> None:
    guarded.client[coll].orders.insert_many([{} for _ in range(50)])
    guarded.add_user(f"{coll}-counter", STORE, [granted(
        coll, ["listCollections", "listIndexes", "collStats"])])
    proxy = start_proxy(configuration(
        guarded, [rule(f"{coll}.orders", digits=3)], admin=LISTEN,
        id_store={"uri": guarded.uri_of(f"{coll}-counter")}))
    assert await_event(proxy, "missing_privilege", privilege="find")["db"] == coll
    assert fill_of(Admin(proxy)) == (50, 0.05)
    assert len(proxy.find_events("missing_privilege")) == 1


def test_becomes_ready_when_the_privilege_is_granted(
        guarded: Guarded, start_proxy: Callable[..., Proxy], coll: str,
        tmp_path: pathlib.Path) -> None:
    guarded.client[coll].required.create_index("number", unique=True)
    guarded.add_user(f"{coll}-late", STORE, [granted(coll, ["collStats"])])
    proxy = start_guarded(start_proxy, guarded, f"{coll}-late",
                          [rule(f"{coll}.required", unique_index="require")], tmp_path)
    await_event(proxy, "missing_privilege", privilege="listIndexes")
    guarded.client.admin.command(
        "grantPrivilegesToRole", f"{coll}-late", privileges=[granted(coll, ["listIndexes"])])
    with as_root(proxy) as client:
        eventually(lambda: insert(client, coll, "required"), SOON)
