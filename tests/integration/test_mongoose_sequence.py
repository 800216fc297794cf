"""Counters of the Mongoose plugin mongoose-sequence, which goes on using them beside the proxies.

What the plugin does is done here by its commands; tests/drivers/test_mongoose_sequence.py has the plugin
itself.
"""

from __future__ import annotations

import datetime
import itertools
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from support.admin import LISTEN, Admin
from support.counters import STORE, insert, is_int64, stored
from support.killed import insert_until_killed
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.threads import Threads

_keys = itertools.count()
INDEX = {"id_1_reference_value_1": [("id", 1), ("reference_value", 1)]}


def rule(ns: str, scope: list[str] | None = None, **more: Any) -> dict[str, Any]:
    store = {"layout": "mongoose-sequence", "key": f"{ns}_seq", **more.pop("store", {})}
    scoped = {"scope": scope, "unique_index": "create"} if scope else {}
    return {"ns": ns, "field": "n", "strategy": "counter", "block": 1, "store": store, **scoped,
            **more}


class Plugin:
    """The two commands by which mongoose-sequence 5 and 6 get a number for a document."""

    def __init__(self, server: Mongod, ns: str, fields: list[str] | None = None, start: int = 1,
                 step: int = 1):
        self.counters = server.client[STORE]["counters"]
        self.name, self._fields = f"{ns}_seq", fields
        self._start, self._step = start, step

    def reference(self, document: dict[str, Any]) -> dict[str, Any] | None:
        def at(path: str) -> Any:
            value: Any = document
            for part in path.split("."):
                value = value.get(part) if value else None
            return value
        return self._fields and {path: at(path) for path in sorted(self._fields)}

    def counter(self, document: dict[str, Any]) -> Any:
        return self.counters.find_one(
            {"id": self.name, "reference_value": self.reference(document)})

    def next(self, document: dict[str, Any]) -> int:
        key = {"id": self.name, "reference_value": self.reference(document)}
        try:
            before = self.counters.find_one_and_update(
                key, {"$setOnInsert": {"seq": self._start}}, upsert=True)
        except DuplicateKeyError:
            before = key
        if before is None:
            return self._start
        return self.counters.find_one_and_update(
            key, {"$inc": {"seq": self._step}}, return_document=ReturnDocument.AFTER)["seq"]


@pytest.fixture(scope="module")
def server(replica_set: Mongod) -> Mongod:
    # The plugin makes it when it starts.
    replica_set.client[STORE]["counters"].create_index(*INDEX.values(), unique=True)
    return replica_set


def ready(proxy: Proxy, ns: str, documents: list[Any]) -> dict[str, Any]:
    """The first insert into a collection can come before the proxy has made its index."""
    replies: list[dict[str, Any]] = []

    def done() -> bool:
        replies.append(insert(proxy, ns, documents))
        return replies[-1].get("ok") == 1
    eventually(done)
    return replies[-1]


def n_of(server: Mongod, ns: str) -> list[Any]:
    return [each["n"] for each in stored(server.client, ns)]


PARIS = {"country": "fr", "city": "paris"}
ROME = {"country": "it", "city": "rome"}


class TestOneAfterTheOther:
    def test_in_a_scope(self, server, start_proxy, coll):
        ns = f"inhabitants.{coll}"
        plugin = Plugin(server, ns, ["country", "city"])
        proxy = start_proxy(configuration(server, [rule(ns, ["country", "city"])]))
        assert [plugin.next(PARIS), plugin.next(PARIS)] == [1, 2]
        assert ready(proxy, ns, [PARIS, ROME, PARIS])["n"] == 3
        assert n_of(server, ns) == [3, 1, 4]
        assert [plugin.next(PARIS), plugin.next(ROME)] == [5, 2]
        assert insert(proxy, ns, [ROME, PARIS])["n"] == 2
        assert n_of(server, ns)[3:] == [3, 6]
        made = plugin.counter(ROME)
        assert list(made) == ["_id", "id", "reference_value", "seq"]
        assert list(made["reference_value"]) == ["city", "country"] and made["seq"] == 3
        assert plugin.counters.count_documents({"id": plugin.name}) == 2

    def test_without_a_scope(self, server, start_proxy, coll):
        ns = f"plain.{coll}"
        plugin = Plugin(server, ns, start=100, step=10)
        proxy = start_proxy(configuration(server, [rule(ns, start=100, step=10)]))
        assert insert(proxy, ns, 2)["n"] == 2
        assert plugin.next({}) == 120
        assert insert(proxy, ns, 1)["n"] == 1
        assert n_of(server, ns) == [100, 110, 130]
        assert plugin.counter({})["reference_value"] is None

    def test_values_of_every_type(self, server, start_proxy, coll):
        """Mongoose writes integers as int32 or double, and UUIDs as text."""
        ns = f"types.{coll}"
        paths = ["a.b", "x"]
        plugin = Plugin(server, ns, paths)
        some = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
        values = [7, 3e9, bson.Decimal128("5.0"), "text", "", True, bson.ObjectId(),
                  datetime.datetime(2026, 11, 25), None, Binary(b"bytes"), "Ö😀"]
        for value in [*values, str(some)]:
            assert plugin.next({"a": {"b": value}, "x": 1}) == 1
        proxy = start_proxy(configuration(
            server, [rule(ns, paths, on_missing_scope="null")]))
        documents = [{"a": {"b": value}, "x": bson.Int64(1)} for value in values]
        documents.append({"a": {"b": Binary.from_uuid(some)}, "x": 1.0})
        assert ready(proxy, ns, documents)["n"] == len(documents)
        assert set(n_of(server, ns)) == {2}
        assert insert(proxy, ns, [{}, {"a": {}}])["n"] == 2
        assert n_of(server, ns)[-2:] == [1, 2]
        assert plugin.counters.count_documents({"id": plugin.name}) == len(documents) + 1
        assert [plugin.next({"a": {"b": value}, "x": 1}) for value in values] == [3] * len(values)

    def test_the_proxy_changes_seq_alone(self, server, start_proxy, coll):
        ns = f"alone.{coll}"
        raw = server.client[STORE].get_collection(
            "counters", CodecOptions(document_class=RawBSONDocument))
        before = {"_id": bson.ObjectId(), "id": f"{ns}_seq",
                  "reference_value": {"city": "paris", "number": 7.0}, "seq": 2.0, "__v": 0}
        raw.insert_one(before)
        proxy = start_proxy(configuration(server, [rule(ns, ["number", "city"])]))
        assert ready(proxy, ns, [{"city": "paris", "number": 7}])["n"] == 1
        assert insert(proxy, ns, [{"city": "paris", "number": 7}])["n"] == 1
        assert n_of(server, ns) == [3, 4]
        after = bson.decode(raw.find_one({"_id": before["_id"]}).raw)
        assert is_int64(after["seq"])
        assert bson.encode({**after, "seq": 2.0}) == bson.encode(before)

    def test_a_collection_of_its_own(self, server, start_proxy, coll):
        """As with the plugin's `collection_name`; the proxy makes the index that the plugin makes."""
        ns = f"own.{coll}"
        proxy = start_proxy(configuration(
            server, [rule(ns, ["city"], store={"db": "own_db", "collection": coll})]))
        assert ready(proxy, ns, [{"city": "paris"}])["n"] == 1
        indexes = server.client["own_db"][coll].index_information()
        assert indexes["id_1_reference_value_1"]["unique"]
        server.client["own_db"][coll].create_index(*INDEX.values(), unique=True)  # the same one


class TestAtOnce:
    def test_new_scopes(self, server, start_proxy, coll):
        """Of all who make a counter, one does."""
        ns = f"new.{coll}"
        rules = [rule(ns, ["city"])]
        plugin = Plugin(server, ns, ["city"])
        proxies = [start_proxy(configuration(server, rules)) for _ in range(2)]
        for proxy in proxies:
            assert ready(proxy, ns, [{"city": "first"}])["n"] == 1
        with ThreadPoolExecutor(3) as pool:
            for i in range(15):
                city = {"city": f"c{i}"}
                futures = [pool.submit(insert, proxy, ns, [dict(city)]) for proxy in proxies]
                futures.append(pool.submit(plugin.next, city))
                replies = [each.result() for each in futures]
                assert [reply["n"] for reply in replies[:2]] == [1, 1]
                numbers = [each["n"] for each in server.client.new[coll].find(city)]
                assert sorted([*numbers, replies[2]]) == [1, 2, 3]
                assert plugin.counters.count_documents(
                    {"id": plugin.name, "reference_value": city}) == 1

    def test_proxies_that_are_killed_and_the_plugin(self, server, start_proxy, coll):
        """Blocks, give-back and crashes: the plugin never gets a number that is in use."""
        ns = f"many.{coll}"
        rules = [rule(ns, ["city"], block=10)]
        plugin = Plugin(server, ns, ["city"])
        collection = server.client.many[coll]
        kept = Proxy(configuration(server, rules))
        assert ready(kept, ns, [{"city": "a"}])["n"] == 1
        stored_by_plugin = 0

        def application() -> None:
            nonlocal stored_by_plugin
            for city in itertools.cycle("abc"):
                if thread.over.is_set():
                    return
                collection.insert_one({"city": city, "n": plugin.next({"city": city})})
                stored_by_plugin += 1

        thread = Threads(application)
        acknowledged: set[int] = set()
        with thread:
            for _ in range(2):
                acknowledged.update(insert_until_killed(
                    kept, Proxy(configuration(server, rules)), ns,
                    lambda choose: {"k": next(_keys), "city": choose.choice("abc")}))
        assert stored_by_plugin > 10
        kept.stop()
        lost = 0
        for city in "abc":
            found = [each["n"] for each in collection.find({"city": city})]
            assert len(set(found)) == len(found)
            lost += plugin.counter({"city": city})["seq"] - len(found)
        # Those of the proxy that stops in order may not come back: the plugin has numbers behind them.
        assert 0 <= lost <= 3 * 3 * 2 * 10, "two blocks for each proxy and scope"
        assert acknowledged <= {each["k"] for each in collection.find({"k": {"$exists": True}})}


class TestWhatGoesWrong:
    def test_numbers_of_the_plugin_that_the_counter_does_not_know(self, server, start_proxy, coll):
        """As after a restore of the counters: within their scope they are passed over."""
        ns = f"behind.{coll}"
        collection = server.client.behind[coll]
        plugin = Plugin(server, ns, ["city"])
        for city, numbers in (("paris", range(1, 30)), ("rome", range(1, 50))):
            collection.insert_many([{"city": city, "n": n} for n in numbers])
        plugin.next({"city": "paris"})
        proxy = start_proxy(configuration(server, [rule(ns, ["city"])]))
        assert ready(proxy, ns, [{"city": city, "k": 0} for city in ("paris", "rome")])["n"] == 2
        found = {each["city"]: each["n"] for each in collection.find({"k": 0})}
        assert found == {"paris": 30, "rome": 50}
        assert plugin.next({"city": "paris"}) == 31

    def test_a_counter_that_is_reset(self, server, start_proxy, coll):
        """By the plugin's counterReset(), while the proxy holds a block."""
        ns = f"reset.{coll}"
        plugin = Plugin(server, ns, ["city"])
        proxy = start_proxy(configuration(server, [rule(ns, ["city"], block=5)]))
        assert ready(proxy, ns, [{"city": "paris"} for _ in range(3)])["n"] == 3
        plugin.counters.update_many({"id": plugin.name}, {"$set": {"seq": 0}})
        for _ in range(3):
            assert insert(proxy, ns, [{"city": "paris"} for _ in range(4)])["n"] == 4
        assert len(set(n_of(server, ns))) == 15
        assert proxy.find_events("counter_backwards") or proxy.find_events("counter_healed")

    def test_an_index_that_cannot_be_made(self, server, start_proxy, coll):
        ns = f"unguarded.{coll}"
        counters = server.client[STORE][coll]
        counters.insert_many([{"id": "x", "reference_value": None} for _ in range(2)])
        proxy = start_proxy(configuration(server, [rule(ns, ["city"], store={"collection": coll})]))
        assert ready(proxy, ns, [{"city": "paris"}])["n"] == 1
        event = proxy.wait_event("counter_index_missing")
        assert event["reason"].startswith("error 11000 DuplicateKey: ")
        assert "dup key" not in event["reason"]
        assert event["command"] == (
            f'db.getSiblingDB("{STORE}").getCollection("{coll}").createIndex('
            '{"id": 1, "reference_value": 1}, {unique: true})')

    def test_what_the_status_and_the_log_call_it(self, server, start_proxy, coll):
        ns = f"named.{coll}"
        proxy = start_proxy(configuration(server, [rule(ns, ["city"])], admin=LISTEN))
        assert ready(proxy, ns, [{"city": "paris"}])["n"] == 1
        name = f'{{ "id" : "{ns}_seq", "reference_value" : {{ "city" : "paris" }} }}'
        with proxy.client() as client:
            numbers = client.admin.command("idproxy", "status")["rules"][0]["numbers"]
        assert [each["sequence"] for each in numbers] == [name]
        (created,) = proxy.find_events("counter_created")
        assert created["counter"] == f"{STORE}.counters {name}"
        assert "ready" in Admin(proxy).get("/readyz").text
