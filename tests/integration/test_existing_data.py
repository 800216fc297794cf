"""Collections that had documents before the proxy: a counter begins behind them whatever indexes there
are, and what the proxy tells people to type works and helps within seconds."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pytest
from pymongo.errors import OperationFailure

from support.admin import LISTEN, Admin
from support.counters import counter, insert
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.typed import create_index, create_index_in

DB = "existing"
START = 100_000
SMALL = 10_000  # a collection with fewer documents is

# Collection -> how many documents it has, and its index on the field: its key and options.
COLLECTIONS: dict[str, tuple[int, list[tuple[str, int]], dict[str, Any]]] = {
    "empty": (0, [], {}),
    "none": (200_000, [], {}),
    "plain": (1000, [("orderNo", 1)], {}),
    "sparse": (1000, [("orderNo", 1)], {"unique": True, "sparse": True}),
    "exists": (1000, [("orderNo", -1)],
               {"unique": True, "partialFilterExpression": {"orderNo": {"$exists": True}}}),
    "type": (1000, [("orderNo", 1)],
             {"unique": True, "partialFilterExpression": {"orderNo": {"$type": "number"}}}),
    "long": (1000, [("orderNo", 1)],
             {"unique": True, "partialFilterExpression": {"orderNo": {"$type": "long"}}}),
    "compound": (1000, [("orderNo", 1), ("paid", 1)], {}),
}


def rule(collection: str, **more: Any) -> dict[str, Any]:
    return {"ns": f"{DB}.{collection}", "field": "orderNo", "strategy": "counter", **more}


def state(proxy: Proxy) -> str:
    return Admin(proxy).get("/readyz").text


def await_ready(proxy: Proxy) -> None:
    """Of all rules, as /readyz says."""
    eventually(lambda: "not ready: " not in state(proxy), 20, "ready")


@pytest.fixture(scope="module")
def filled(replica_set: Mongod) -> Iterator[Mongod]:
    db = replica_set.client[DB]
    for name, (documents, key, options) in COLLECTIONS.items():
        if documents:
            db[name].insert_many([{"paid": n} for n in range(documents)])
        if key:
            db[name].create_index(key, **options)
    yield replica_set


@pytest.fixture(scope="module")
def ready(filled: Mongod) -> Iterator[Proxy]:
    rules = [rule(name, start=START) for name in COLLECTIONS]
    with Proxy(configuration(filled, rules, admin=LISTEN)) as proxy:
        await_ready(proxy)
        yield proxy


class TestFirstNumber:
    @pytest.mark.parametrize("name", COLLECTIONS)
    def test_is_start(self, filled: Mongod, ready: Proxy, name: str) -> None:
        assert insert(ready, f"{DB}.{name}", [{"k": 0}, {"k": 1}])["n"] == 2
        found = filled.client[DB][name].find({"k": {"$exists": True}}).sort("k")
        assert [document["orderNo"] for document in found] == [START, START + 1]

    def test_was_looked_for_in_all_documents_where_there_is_no_index(self, ready: Proxy) -> None:
        scanned = {event["counter"].split(".")[-2] for event in ready.find_events("scan_done")}
        assert scanned == {"none"}, "small ones are read at once"
        begun = ready.find_events("scan_begun")
        assert {event["documents"] for event in begun} == {200_000}

    @pytest.mark.parametrize("options", [{}, {"unique": True, "sparse": True}],
                             ids=["no-index", "unique"])
    def test_is_behind_those_that_are_stored(self, replica_set: Mongod, start_proxy, coll: str,
                                             options: dict[str, Any]) -> None:
        collection = replica_set.client[DB][coll]
        collection.insert_many([{"orderNo": n} for n in (7, 300.0, "text", None)])
        if options:
            collection.create_index("orderNo", **options)
        proxy = start_proxy(configuration(replica_set, [rule(coll)]))
        assert insert(proxy, f"{DB}.{coll}", [{"k": 0}])["n"] == 1
        assert collection.find_one({"k": 0})["orderNo"] == 301


class TestScan:
    def test_before_the_first_insert(self, replica_set: Mongod, start_proxy: Callable[..., Proxy],
                                     coll: str) -> None:
        """The rule is ready, and says that this insert will wait for another scan: nothing keeps what
        the first one found from changing."""
        collection = replica_set.client[DB][coll]
        collection.insert_many([{"orderNo": 7}, *({} for _ in range(SMALL))])
        proxy = start_proxy(configuration(replica_set, [rule(coll)], admin=LISTEN))
        proxy.wait_event("scan_done", 20)
        told = ": ready; the first insert reads the whole collection"
        eventually(lambda: told in state(proxy), 20)
        with proxy.client() as client:
            def numbers() -> dict[str, Any]:
                (found,) = client.admin.command("idproxy", "status")["rules"][0]["numbers"]
                return found
            assert (numbers()["next"], numbers()["reads_collection"]) == (8, True)
            time.sleep(1.5)  # what the scan found is forgotten
            collection.insert_one({"orderNo": 70})
            client[DB][coll].insert_one({"k": 0})
            assert numbers()["reads_collection"] is False
        assert told not in state(proxy)
        assert collection.find_one({"k": 0})["orderNo"] == 71

    def test_of_many_small_ones(self, replica_set: Mongod, start_proxy: Callable[..., Proxy],
                                coll: str) -> None:
        """Each is read at once, and no insert is refused, right after the start."""
        names = [f"{coll}_{n}" for n in range(80)]
        for name in names:
            replica_set.client[DB][name].insert_many([{"orderNo": 1}, {"orderNo": 2}])
        proxy = start_proxy(configuration(replica_set, [rule(name) for name in names]))
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            replies = pool.map(lambda name: insert(proxy, f"{DB}.{name}", 1), names)
            assert [reply.get("n") for reply in replies] == [1] * len(names)
        assert all(replica_set.client[DB][name].find_one({"orderNo": 3}) for name in names)
        assert not proxy.find_events("scan_begun")

    def test_off(self, replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
        """The rule says so before the first insert, and what to type, which then helps."""
        collection = replica_set.client[DB][coll]
        collection.insert_many([{} for _ in range(10)])
        proxy = start_proxy(configuration(
            replica_set, [rule(coll, scan="off", start=START)], admin=LISTEN))
        event = proxy.wait_event("not_ready")
        reply = insert(proxy, f"{DB}.{coll}", 1)
        assert reply["code"] == 96 and "`scan` is off" in reply["errmsg"]
        assert create_index_in(reply["errmsg"]) == create_index_in(event["reason"])
        assert "not ready: " in state(proxy)

        create_index(replica_set.client, reply["errmsg"])
        begun = time.monotonic()
        eventually(lambda: insert(proxy, f"{DB}.{coll}", [{"k": 0}])["ok"], 20)
        assert time.monotonic() - begun < 20
        await_ready(proxy)
        assert collection.find_one({"k": 0})["orderNo"] == START

    def test_that_waits_for_its_turn(self, replica_set: Mongod, start_proxy: Callable[..., Proxy],
                                     coll: str) -> None:
        """Another proxy reads a collection: inserts wait for two seconds and get an error that drivers
        repeat. When the other one is gone, its turn ends by itself."""
        replica_set.client[DB][coll].insert_many([{} for _ in range(SMALL)])
        turns = replica_set.client["idproxy"]["scans"]
        far = replica_set.client.admin.command("hello")["localTime"].replace(year=9000)
        turns.replace_one({"_id": "turn"}, {"holder": "another", "until": far}, upsert=True)
        proxy = start_proxy(configuration(replica_set, [rule(coll)], admin=LISTEN))
        with proxy.client(retryWrites=False) as client:
            begun = time.monotonic()
            with pytest.raises(OperationFailure) as raised:
                client[DB][coll].insert_one({})
            assert time.monotonic() - begun > 1.5
            assert raised.value.code == 6
            assert "no index begins with orderNo" in str(raised.value)
            assert "not ready: " in state(proxy)
            assert not counter(replica_set.client, f"{DB}.{coll}", "orderNo")
            turns.update_one({"_id": "turn"}, [{"$set": {"until": "$$NOW"}}])
            # Those who waited have made the counter, though nobody asks any more.
            eventually(lambda: counter(replica_set.client, f"{DB}.{coll}", "orderNo"), 20)
            await_ready(proxy)
            client[DB][coll].insert_one({})
        assert replica_set.client[DB][coll].find_one({"orderNo": 1})


# Documents, and the advice for them.
DOCUMENTS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "none": ([], "$exists: true"),
    "without": ([{}, {}, {"orderNo": bson.Int64(5)}], "$exists: true"),
    "all": ([{"orderNo": bson.Int64(n)} for n in range(1_000)], "$exists: true"),
    "null": ([{"orderNo": None}, {"orderNo": None}, {"orderNo": 5}, {}], '$type: "number"'),
}


@pytest.fixture(scope="module")
def advised(replica_set: Mongod) -> Iterator[Proxy]:
    """Rules that are not ready, and one that is."""
    db = replica_set.client[DB]
    for way in ("require", "create"):
        for name, (documents, _) in DOCUMENTS.items():
            collection = db[f"{way}-{name}"]
            if documents:
                collection.insert_many([dict(document) for document in documents])
        db[f"{way}-other"].create_index("orderNo", partialFilterExpression={"paid": 1})
    rules = [rule(f"{way}-{name}", unique_index=way)
             for way in ("require", "create") for name in [*DOCUMENTS, "other"]]
    with Proxy(configuration(replica_set, rules, admin=LISTEN)) as proxy:
        yield proxy


class TestAdvice:
    """The unique index that the proxy recommends, or makes."""

    @staticmethod
    def stays_usable(mongod: Mongod, proxy: Proxy, collection: str) -> None:
        """Numbers are unique, and documents without one are in nobody's way."""
        ns = f"{DB}.{collection}"
        eventually(lambda: insert(proxy, ns, 2).get("n") == 2, 20)
        stored = mongod.client[DB][collection]
        stored.insert_many([{}, {}])
        with pytest.raises(OperationFailure):
            stored.insert_one({"orderNo": stored.find_one({"k": 0})["orderNo"]})

    @pytest.mark.parametrize("name", DOCUMENTS)
    def test_can_be_typed_and_helps(self, replica_set: Mongod, advised: Proxy, name: str) -> None:
        collection = f"require-{name}"

        def refused() -> str:
            reply = insert(advised, f"{DB}.{collection}", 1)
            return reply["code"] == 96 and reply["errmsg"]
        error = eventually(refused, 20)
        assert create_index_in(error).endswith(
            f'{{unique: true, partialFilterExpression: {{"orderNo": {{{DOCUMENTS[name][1]}}}}}, '
            'name: "orderNo_idproxy"})')
        create_index(replica_set.client, error)
        self.stays_usable(replica_set, advised, collection)

    @pytest.mark.parametrize("name", [*DOCUMENTS, "other"])
    def test_is_made(self, replica_set: Mongod, advised: Proxy, name: str) -> None:
        self.stays_usable(replica_set, advised, f"create-{name}")

    def test_stands_beside_another_index(self, replica_set: Mongod, advised: Proxy) -> None:
        reply = insert(advised, f"{DB}.require-other", 1)
        assert create_index(replica_set.client, reply["errmsg"]) == "orderNo_idproxy"
        self.stays_usable(replica_set, advised, "require-other")

    def test_of_a_sharded_collection_names_reserve(
            self, replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
        """Where no unique index on the field can be made. (A failpoint answers as a mongos does.)"""
        replica_set.client[DB].create_collection(coll)
        fail = {"failCommands": ["createIndexes"], "errorCode": 67,
                "namespace": f"{DB}.{coll}"}
        replica_set.client.admin.command(
            "configureFailPoint", "failCommand", mode="alwaysOn", data=fail)
        try:
            proxy = start_proxy(configuration(replica_set, [rule(coll, unique_index="create")]))
            reason = proxy.wait_event("not_ready", 20)["reason"]
            assert "67" in reason and "shard key" in reason and "`reserve`" in reason
        finally:
            replica_set.client.admin.command("configureFailPoint", "failCommand", mode="off")
