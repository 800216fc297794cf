"""Counters that fell behind what is stored: old dumps, deleted documents, numbers of others.

No number goes twice to anybody, as a change stream has it, and no client sees a duplicate. Which number each
state of a collection leads to, for all forms of counters: tests/store/heal_test.cpp, allocate_test.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import bson
import pytest

from support import wire
from support.audit import Audit
from support.counters import (Load, counter, delete_counter, insert, numbers, set_counter, stored)
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.thief import Hold, Robbed, Thief, insert_message

_COUNTER = {"strategy": "counter", "block": 100}

# Databases name the rule, collections are fresh for each test: each has a counter of its own.
RULES = [
    {"ns": "after-2.*", "field": "n", **_COUNTER, "heal": {"after": 2}},
    {"ns": "id.*", "field": "_id", **_COUNTER},
    {"ns": "dotted.*", "field": "a.b", **_COUNTER},
    {"ns": "single.*", "field": "n", **_COUNTER, "block": {"size": 1}},
    {"ns": "off.*", "field": "n", **_COUNTER, "heal": {"mode": "off"}},
    {"ns": "gap.*", "field": "n", **_COUNTER, "block": {"size": 1}, "heal": {"mode": "gap"}},
    {"ns": "gap-blocks.*", "field": "n", **_COUNTER, "block": {"size": 10},
     "heal": {"mode": "gap"}},
    {"ns": "both.*", "field": "a", **_COUNTER, "name": "both"},
    {"ns": "both.*", "field": "b", **_COUNTER, "name": "both"},
    {"ns": "checked.*", "field": "n", **_COUNTER, "heal": {"at_start": True}},
]


@pytest.fixture(scope="module")
def robbed(replica_set: Mongod) -> Iterator[Robbed]:
    """The thief steals nothing: it tells what was sent."""
    with Thief(replica_set) as thief, Proxy(configuration(thief, RULES, replica_set)) as proxy:
        proxy.await_server()
        yield Robbed(replica_set, thief, proxy)


def filled(robbed: Robbed, ns: str, taken: Any, path: str = "n") -> Any:
    """A collection that has these numbers already; with a unique index."""
    collection = robbed.collection(ns)
    collection.create_index(path, **({} if path == "_id" else {"unique": True}))

    def document(n: Any) -> dict[str, Any]:
        for name in reversed(path.split(".")):
            n = {name: n}
        return n

    collection.insert_many([document(n) for n in taken])
    return collection


def new(robbed: Robbed, ns: str, path: str = "n") -> list[Any]:
    """The values of the documents with a key."""
    found = [d for d in stored(robbed.server.client, ns) if "k" in d]
    for name in path.split("."):
        found = [d[name] for d in found]
    return found


def int64s(*parts: Any) -> list[bson.Int64]:
    return [bson.Int64(n) for part in parts
            for n in (part if isinstance(part, range) else [part])]


class TestMax:
    """Behind the highest number that is stored, in one step."""

    def test_the_vector(self, robbed, coll):
        """V = 10 and 337 is the highest: 338 to 437 are reserved. Tried before: `after` numbers."""
        ns = f"after-2.{coll}"
        filled(robbed, ns, int64s(range(1, 338)))
        set_counter(robbed.server.client, ns, bson.Int64(10))
        assert robbed.insert(ns, [{"k": 0}])["n"] == 1
        tried = [m.documents[0]["n"] for m in robbed.thief.inserts(ns)]
        assert tried == [10, 11, 338]
        assert counter(robbed.server.client, ns)["COUNT"] == 438
        assert robbed.insert(ns, [{"k": 1}])["n"] == 1
        assert new(robbed, ns) == [338, 339]

    def test_several_in_one_batch(self, robbed, coll, ordered):
        ns = f"after-2.{coll}"
        filled(robbed, ns, int64s(range(1, 338)))
        set_counter(robbed.server.client, ns, bson.Int64(10))
        reply = robbed.insert(ns, [{"k": k} for k in range(5)], ordered=ordered)
        assert reply["n"] == 5 and "writeErrors" not in reply
        assert all(n > 337 for n in new(robbed, ns))

    @pytest.mark.parametrize("path, db", [("_id", "id"), ("a.b", "dotted")])
    def test_other_fields(self, robbed, coll, path, db):
        ns = f"{db}.{coll}"
        filled(robbed, ns, int64s(range(1, 338)), path)
        set_counter(robbed.server.client, ns, bson.Int64(10), path)
        assert robbed.insert(ns, [{"k": 0}])["n"] == 1
        assert new(robbed, ns, path) == [338]

    def test_all_fields_of_a_counter_count(self, robbed, coll):
        ns = f"both.{coll}"
        collection = robbed.collection(ns)
        for path in "ab":
            collection.create_index(path, unique=True, sparse=True)
        collection.insert_many([{"a": n} for n in range(1, 50)] + [{"b": n} for n in range(1, 338)])
        robbed.server.client["idproxy"]["uniqueIdentifierCounter"].replace_one(
            {"_id": "both"}, {"COUNT": 10}, upsert=True)
        assert robbed.insert(ns, [{"k": 0}, {"k": 1}])["n"] == 2
        assert min(new(robbed, ns, "a") + new(robbed, ns, "b")) >= 338

    def test_at_start(self, robbed, coll):
        """Before the first number is given out: no duplicate at all."""
        ns = f"checked.{coll}"
        filled(robbed, ns, int64s(range(1, 338)))
        set_counter(robbed.server.client, ns, bson.Int64(10))
        assert robbed.insert(ns, [{"k": 0}])["n"] == 1
        assert len(robbed.thief.inserts(ns)) == 1
        assert new(robbed, ns) == [338]

    def test_without_one_it_is_refused(self, robbed, coll):
        """The index that the duplicates are of begins with another field: the numbers are tried one
        by one."""
        ns = f"after-2.{coll}"
        collection = robbed.collection(ns)
        collection.create_index([("other", 1), ("n", 1)], unique=True)
        collection.insert_many([{"n": n} for n in int64s(range(1, 31))])
        set_counter(robbed.server.client, ns, bson.Int64(10))
        for k in range(8):
            reply = robbed.insert(ns, [{"k": k}])
            assert reply["n"] == 1 or reply["writeErrors"][0]["code"] == 11000, reply
        found = new(robbed, ns)
        assert len(found) >= 4 and min(found) > 30
        assert "createIndex" in str(robbed.proxy.wait_event("heal_refused"))


class TestKeeps:
    """A client stores numbers of its own while the proxy holds them: only these are left out, and the
    counter, which is not behind, stays where it is."""

    @pytest.mark.parametrize("own, expected, skipped, at_once", [
        ((3, 4, 6), [5, 7, 8, 9], 1, False),
        ((3, 4, 6), [5, 7, 8, 9], 1, True),
        ((3, 4, 5, 6, 7), [8, 9, 10, 11], 3, False),
        ((3, 5), [4, 6, 7, 8], None, True),
    ], ids=str)
    def test_what_is_free(self, replica_set, start_proxy, coll, own, expected, skipped, at_once):
        ns = f"keeps.{coll}"
        proxy = start_proxy(configuration(
            replica_set, [{"ns": ns, "field": "n", **_COUNTER, "block": {"size": 7}}]))
        replica_set.client["keeps"][coll].create_index("n", unique=True, sparse=True)
        assert insert(proxy, ns, [{}, {}])["n"] == 2
        assert insert(proxy, ns, [{"n": bson.Int64(n), "own": True} for n in own])["n"] == len(own)
        documents = [{"k": k} for k in range(4)]
        for batch in [documents] if at_once else [[document] for document in documents]:
            reply = insert(proxy, ns, batch)
            assert reply["n"] == len(batch) and "writeErrors" not in reply
        found = [d["n"] for d in stored(replica_set.client, ns) if "k" in d]
        assert sorted(found) == expected
        if not at_once:
            assert found == expected
        if skipped is not None and not at_once:
            assert proxy.wait_event("numbers_taken")["skipped"] == skipped
        assert not proxy.find_events("counter_healed")
        assert not proxy.find_events("block_dropped")


class TestGap:
    """The first free numbers, where behind the highest one would be too far."""

    def test_mode_gap(self, robbed, coll):
        ns = f"gap.{coll}"
        filled(robbed, ns, int64s(range(1, 21), 23, range(1000, 1010)))
        set_counter(robbed.server.client, ns, bson.Int64(10))
        for k in range(4):
            assert robbed.insert(ns, [{"k": k}])["n"] == 1
        assert new(robbed, ns) == [21, 22, 24, 25]

    def test_a_clients_own_number_near_the_end(self, robbed, coll):
        """It comes through the proxy, and the counter goes on as if nothing had been."""
        ns = f"single.{coll}"
        filled(robbed, ns, int64s(3, 4, 5))
        assert robbed.insert(ns, [{"k": 0, "n": bson.Int64(2**63 - 2)}, {"k": 1}])["n"] == 2
        for k in range(2, 6):
            assert robbed.insert(ns, [{"k": k}])["n"] == 1
        assert counter(robbed.server.client, ns)["COUNT"] < 1000
        assert max(new(robbed, ns)[1:]) < 1000

    def test_without_a_unique_index(self, robbed, coll):
        """Free numbers and taken ones by turns: none goes twice, or none is given."""
        ns = f"gap-blocks.{coll}"
        collection = robbed.collection(ns)
        collection.create_index("n")
        # Behind the first block, whose numbers nobody looks for.
        collection.insert_many([{"n": n} for n in int64s(range(1301, 1500), range(1530, 3000))])
        set_counter(robbed.server.client, ns, bson.Int64(1291))
        assert robbed.insert(ns, [{"k": 0}])["n"] == 1
        set_counter(robbed.server.client, ns, bson.Int64(3))
        for k in range(1, 60):
            reply = robbed.insert(ns, [{"k": k}] * 3)
            assert reply["ok"] or reply["code"] == 96, reply
        found = numbers(robbed.server.client, ns)
        assert len(set(found)) == len(found)


def test_off(robbed, coll):
    """The numbers of the block are tried one after the other, and that is all."""
    ns = f"off.{coll}"
    filled(robbed, ns, int64s(range(1, 6), 337))
    set_counter(robbed.server.client, ns, bson.Int64(1))
    assert robbed.insert(ns, [{"k": 0}])["n"] == 1
    assert new(robbed, ns) == [6]
    assert counter(robbed.server.client, ns)["COUNT"] == 101


INDEXES = {"unique": {"unique": True}, "plain": {}}


class TestUnderLoad:
    """The counter goes back, or away, while proxies hold numbers of it."""

    CLIENTS = 4
    BLOCK = 20

    @pytest.fixture(params=[1, 2], ids=["one-proxy", "two-proxies"])
    def proxies(self, request, replica_set, start_proxy, coll) -> list[Proxy]:
        rules = [{"ns": f"load.{coll}", "field": "n", **_COUNTER,
                  "block": {"size": self.BLOCK}}]
        return [start_proxy(configuration(replica_set, rules)) for _ in range(request.param)]

    def run(self, server: Mongod, proxies: list[Proxy], coll: str, index: str,
            accident: Callable[[str, int], None], times: int = 3) -> None:
        """accident(ns, number): what happens to the counter, several times."""
        ns = f"load.{coll}"
        server.client["load"][coll].create_index("n", **INDEXES[index])
        audit = Audit(server.uri, "load", [coll], "n")
        where = [lambda p=proxies[i % len(proxies)]: p.address for i in range(self.CLIENTS)]
        with Load(where, ns) as load:
            load.await_documents(150)
            for number in range(times):
                accident(ns, number)
                load.await_documents(300)
        audit.end()
        assert not audit.violations(), audit.violations()[:5]
        found = [n for n in numbers(server.client, ns) if isinstance(n, int)]
        assert len(set(found)) == len(found) == len(audit.values) >= load.documents

    @pytest.mark.parametrize("index", INDEXES)
    def test_an_older_dump_is_restored(self, replica_set, proxies, coll, index):
        self.run(replica_set, proxies, coll, index,
                 lambda ns, number: set_counter(replica_set.client, ns, bson.Int64(17 * number)))

    @pytest.mark.parametrize("index", INDEXES)
    def test_its_document_is_deleted(self, replica_set, proxies, coll, index):
        self.run(replica_set, proxies, coll, index,
                 lambda ns, _: delete_counter(replica_set.client, ns))

    @pytest.mark.parametrize("index", INDEXES)
    def test_a_proxy_that_comes_after_the_loss(self, replica_set, start_proxy, coll, index):
        """It finds no document and holds nothing; the other one has numbers left."""
        ns = f"load.{coll}"
        rules = [{"ns": ns, "field": "n", **_COUNTER, "block": {"size": self.BLOCK}}]
        replica_set.client["load"][coll].create_index("n", **INDEXES[index])
        first, second = (start_proxy(configuration(replica_set, rules)) for _ in range(2))
        assert insert(first, ns, 3)["n"] == 3
        delete_counter(replica_set.client, ns)
        for proxy in (second, first) * 30:
            reply = insert(proxy, ns, 1)
            assert reply["n"] == 1 and "writeErrors" not in reply
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found)

    def test_while_a_large_batch_is_under_way(self, replica_set, start_proxy, coll):
        """A lost counter begins again behind what others may still hold, in their hands too."""
        ns = f"load.{coll}"
        rules = [{"ns": ns, "field": "n", **_COUNTER, "block": {"size": 10}}]
        replica_set.client["load"][coll].create_index("n")
        first = start_proxy(configuration(replica_set, rules))
        with Thief(replica_set) as thief, Proxy(
                configuration(thief, rules, replica_set)) as second:
            assert insert(first, ns, 3)["n"] == 3
            hold = Hold(lambda message: message.ns == ns)
            with thief.hook(hold), wire.WireClient(second.address, 60) as client:
                client.send(insert_message(ns, [{}] * 5000))
                hold.await_held()
                delete_counter(replica_set.client, ns)
                for _ in range(30):
                    assert insert(first, ns, 3)["n"] == 3
                hold.release()
                assert client.receive().body["n"] == 5000
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found) == 5093

    def test_numbers_that_are_shared_by_collections(self, replica_set, start_proxy, coll):
        """Of which each has a unique index: it says nothing of the others."""
        names = [f"{coll}a", f"{coll}b"]
        rules = [{"ns": "shared-load.*", "field": "n", **_COUNTER, "name": coll,
                  "block": {"size": self.BLOCK}}]
        for name in names:
            replica_set.client["shared-load"][name].create_index("n", unique=True)
        proxies = [start_proxy(configuration(replica_set, rules)) for _ in range(2)]
        counters = replica_set.client["idproxy"]["uniqueIdentifierCounter"]
        for number, count in ((0, 1), (1, 51), (0, 3)):
            reply = insert(proxies[number], f"shared-load.{names[number]}", count)
            assert reply["n"] == count
        counters.update_one({"_id": coll}, {"$set": {"COUNT": bson.Int64(2)}})
        for i in range(40):
            number = i // 10 % 2
            reply = insert(proxies[number], f"shared-load.{names[number]}", 3)
            assert reply["n"] == 3 and "writeErrors" not in reply
        found = sum((numbers(replica_set.client, f"shared-load.{name}") for name in names), [])
        assert len(set(found)) == len(found) == 175
        replica_set.client.drop_database("shared-load")

    def test_a_dump_from_between_two_proxies(self, replica_set, start_proxy, coll):
        """Younger than one proxy's block, older than the other's: to the first one nothing seems
        to have gone back, and only a unique index can tell."""
        ns = f"load.{coll}"
        rules = [{"ns": ns, "field": "n", **_COUNTER, "block": {"size": self.BLOCK}}]
        replica_set.client["load"][coll].create_index("n", unique=True)
        first, second = (start_proxy(configuration(replica_set, rules)) for _ in range(2))
        assert insert(first, ns, 3)["n"] == 3
        for _ in range(20):
            assert insert(second, ns, 15)["n"] == 15
        set_counter(replica_set.client, ns, bson.Int64(201))
        for proxy in [first] * 30 + [second] * 30:
            reply = insert(proxy, ns, 3)
            assert reply["n"] == 3 and "writeErrors" not in reply
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found)

    def test_its_collection_is_dropped(self, replica_set, start_proxy, coll):
        """Of a store of its own."""
        rules = [{"ns": f"load.{coll}", "field": "n", **_COUNTER, "block": {"size": self.BLOCK}}]
        config = configuration(replica_set, rules, id_store={"db": coll})
        proxies = [start_proxy(config) for _ in range(2)]
        self.run(replica_set, proxies, coll, "unique",
                 lambda *_: replica_set.client.drop_database(coll))


class TestWatched:
    """Proxies that nobody restarts after a restore: docs/counters.md#restores."""

    @pytest.mark.full
    @pytest.mark.parametrize("index", INDEXES)
    def test_a_counter_that_was_set_back_is_noticed_without_an_insert(
            self, replica_set, start_proxy, coll, index):
        ns = f"watched.{coll}"
        collection = replica_set.client["watched"][coll]
        collection.create_index("n", **INDEXES[index])
        rules = [{"ns": ns, "field": "n", **_COUNTER}]
        proxies = [start_proxy(configuration(replica_set, rules)) for _ in range(2)]
        for proxy in proxies:
            assert insert(proxy, ns, 3)["n"] == 3
        set_counter(replica_set.client, ns, bson.Int64(2))
        eventually(lambda: any(p.find_events("counter_backwards") for p in proxies), 25)
        eventually(lambda: counter(replica_set.client, ns)["COUNT"] > 200, 25)
        for proxy in proxies * 10:
            reply = insert(proxy, ns, 3)
            assert reply["n"] == 3 and "writeErrors" not in reply
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found) == 66


class TestSetForward:
    """By a person with a shell, while proxies run: docs/counters.md#setting-a-counter."""

    @staticmethod
    def set_to(replica_set, ns: str, number: int) -> None:
        replica_set.client["idproxy"].uniqueIdentifierCounter.update_one(
            {"_id": f"{ns}.n"}, {"$set": {"COUNT": bson.Int64(number)}})

    @pytest.fixture
    def proxies(self, replica_set, start_proxy, coll) -> list[Proxy]:
        rules = [{"ns": f"forward.{coll}", "field": "n", "strategy": "counter"}]
        return [start_proxy(configuration(replica_set, rules)) for _ in range(2)]

    def test_a_quiet_counter_goes_on_there_at_once(self, replica_set, proxies, coll):
        ns = f"forward.{coll}"
        for proxy in proxies:
            assert insert(proxy, ns, 1)["n"] == 1
        self.set_to(replica_set, ns, 5000)
        for proxy in proxies:
            assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(replica_set.client, ns) == [1, 2, 5000, 5001]

    @pytest.mark.full
    def test_a_busy_one_within_twenty_seconds(self, replica_set, proxies, coll):
        ns = f"forward.{coll}"

        def all_forward() -> bool:
            return all(insert(proxy, ns, 3)["n"] == 3 for proxy in proxies) and min(
                numbers(replica_set.client, ns)[-3 * len(proxies):]) >= 1_000_000
        for proxy in proxies * 5:
            assert insert(proxy, ns, 300)["n"] == 300
        held = counter(replica_set.client, ns)["COUNT"]
        self.set_to(replica_set, ns, 1_000_000)
        assert not all_forward(), "the test needs proxies that hold numbers"
        eventually(all_forward, 25, "the proxies use the counter's new value")
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found)
        assert all(n < held or n >= 1_000_000 for n in found)
        assert not any(proxy.find_events("counter_backwards") for proxy in proxies)


class TestRestart:
    """Proxies that are started after a restore."""

    def test_an_older_counter_and_a_new_proxy(self, replica_set, start_proxy, coll):
        """No more than `after` numbers are tried in vain, and no client sees that."""
        ns = f"restart.{coll}"
        rules = [{"ns": ns, "field": "n", **_COUNTER}]
        replica_set.client["restart"][coll].create_index("n", unique=True)
        first = start_proxy(configuration(replica_set, rules))
        assert insert(first, ns, 500)["n"] == 500
        first.stop()
        set_counter(replica_set.client, ns, bson.Int64(100))
        second = start_proxy(configuration(replica_set, rules))
        for k in range(20):
            reply = insert(second, ns, [{"k": k}])
            assert reply["n"] == 1 and "writeErrors" not in reply
        second.stop()
        assert second.wait_event("stopped")["duplicates_resent"] <= 2
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == 520

    def test_two_proxies_heal_themselves(self, replica_set, start_proxy, coll):
        """Each on its own duplicates, whatever the other one did before."""
        ns = f"restart.{coll}"
        rules = [{"ns": ns, "field": "n", **_COUNTER, "block": {"size": 10}}]
        collection = replica_set.client["restart"][coll]
        collection.create_index("n", unique=True)
        set_counter(replica_set.client, ns, bson.Int64(1))
        proxies = [start_proxy(configuration(replica_set, rules)) for _ in range(2)]
        for proxy in proxies:
            assert insert(proxy, ns, 1)["n"] == 1
        held = numbers(replica_set.client, ns)
        collection.insert_many([{"n": bson.Int64(n)} for n in range(1, 501) if n not in held])
        for k in range(30):
            reply = insert(proxies[k % 2], ns, [{"k": k}])
            assert reply["n"] == 1 and "writeErrors" not in reply
        found = [d["n"] for d in stored(replica_set.client, ns) if d.get("k") is not None]
        assert len(set(found)) == len(found)
        for proxy in proxies:
            proxy.stop()
            assert proxy.wait_event("stopped")["duplicates_resent"] <= 2
