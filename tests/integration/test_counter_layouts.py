"""Where a counter is kept: documents of every published layout, old ones, broken ones.

What each value in such a document, and each number in the collection, leads to: tests/store (allocate_test,
scan_test, unguarded_test), which asks a real server without a proxy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bson
import pytest

from support.counters import (STORE, counter, insert, is_int64, key_of, numbers, set_counter,
                              stored)
from support.mongod import Mongod
from support.process import eventually
from support.proxy import configuration

# One number at a time: what stands in the document is then exactly what was given out.
_SINGLE = {"strategy": "counter", "block": {"size": 1}}

# Name: collection, field, and whether it holds the number given out last.
LAYOUTS = {
    "unique-count": ("uniqueIdentifierCounter", "COUNT", False),
    "counters-next": ("counters", "next", True),
    "counters-seq": ("counters", "seq", True),
    "ids-index": ("ids", "index", False),
}

RULES = [
    *({"ns": f"{name}.*", "field": "n", **_SINGLE, "store": {"layout": name}} for name in LAYOUTS),
    {"ns": "plain.*", "field": "n", **_SINGLE},
    {"ns": "blocks.*", "field": "n", "strategy": "counter", "block": 100},
    {"ns": "down.*", "field": "n", **_SINGLE, "step": -1},
    {"ns": "late.*", "field": "n", **_SINGLE, "start": 100},
    {"ns": "elsewhere.*", "field": "n", **_SINGLE,
     "store": {"db": "idproxy_other", "collection": "mine"}},
    {"ns": "sequence.orders", "field": "n", **_SINGLE, "store": {
        "collection": "sequence", "layout": "custom", "key_field": "id", "key": "orders",
        "value_field": "seq", "value_is": "last",
        "filter": {"reference_value": None}}},
    {"ns": "identity.orders", "field": "n", **_SINGLE, "store": {
        "collection": "identitycounters", "layout": "custom", "key_field": "model",
        "key": "Order", "value_field": "count", "value_is": "last",
        "filter": {"field": "number", "groupingField": ""}}},
]


def of(name: str, server: Mongod) -> Any:
    return server.client[STORE][LAYOUTS[name][0]]


class TestLayouts:
    @pytest.mark.parametrize("value", [0, bson.Int64(-5)],
                             ids=lambda v: f"{type(v).__name__}{v}")
    @pytest.mark.parametrize("name", LAYOUTS)
    def test_a_document_that_is_there(self, server, proxy, coll, name, value):
        """It is moved on by what was given out, and keeps its other fields."""
        ns, (_, field, last) = f"{name}.{coll}", LAYOUTS[name]
        before = {"_id": key_of(ns), "NOTES": ["a", "b"], field: value, "zz": 1.5}
        of(name, server).insert_one(before)
        assert insert(proxy, ns, 2)["n"] == 2 and insert(proxy, ns, 1)["n"] == 1
        first = value + 1 if last else value
        assert numbers(server.client, ns) == [first, first + 1, first + 2]
        after = of(name, server).find_one({"_id": key_of(ns)})
        assert after == {**before, field: value + 3} and list(after) == list(before)

    @pytest.mark.parametrize("name", LAYOUTS)
    def test_none_is_there(self, server, proxy, coll, name):
        ns, (_, field, last) = f"{name}.{coll}", LAYOUTS[name]
        assert insert(proxy, ns, 3)["n"] == 3
        assert numbers(server.client, ns) == [1, 2, 3]
        found = of(name, server).find_one({"_id": key_of(ns)})
        assert found[field] == (3 if last else 4) and is_int64(found[field])

    def test_a_database_of_its_own(self, server, proxy, coll):
        ns = f"elsewhere.{coll}"
        assert insert(proxy, ns, 3)["n"] == 3
        assert server.client["idproxy_other"]["mine"].find_one({"_id": key_of(ns)})["COUNT"] == 4
        assert not counter(server.client, ns)

    @pytest.mark.parametrize("db, collection, document, field", [
        ("sequence", "sequence", {"id": "orders", "reference_value": None, "seq": 41}, "seq"),
        ("identity", "identitycounters",
         {"model": "Order", "field": "number", "groupingField": "", "count": 41, "__v": 0},
         "count"),
    ], ids=["mongoose-sequence", "identitycounters"])
    def test_those_of_odms(self, server, proxy, db, collection, document, field):
        """Among others, of other groups, which stay as they are."""
        counters = server.client[STORE][collection]
        counters.drop()
        server.client[db].drop_collection("orders")
        all_of_them = [dict(document), *(
            {**document, name: "other"} for name in document if name not in (field, "__v"))]
        counters.insert_many(all_of_them)
        assert insert(proxy, f"{db}.orders", 2)["n"] == 2
        assert numbers(server.client, f"{db}.orders") == [42, 43]
        all_of_them[0][field] = 43
        assert list(counters.find().sort("_id")) == all_of_them

    @pytest.mark.parametrize("apart", [False, True], ids=["one file", "a proxy each"])
    def test_two_in_one_document(self, replica_set, start_proxy, apart):
        """Each continues or begins by itself, also where no unique index guards its field."""
        replica_set.client.drop_database("forum")
        replica_set.client["forum"]["objects"].insert_one({"_key": "global", "nextUid": 5})
        rules = [{"ns": f"forum.{name}", "field": "n", "strategy": "counter", "store": {
            "db": "forum", "collection": "objects", "layout": "custom", "key_field": "_key",
            "key": "global", "value_field": field, "value_is": "last"}}
            for name, field in (("users", "nextUid"), ("topics", "nextTid"))]
        files = [rules[:1], rules[1:]] if apart else [rules]
        proxies = [start_proxy(configuration(replica_set, each)) for each in files]
        for proxy, name in ((proxies[0], "users"), (proxies[-1], "topics")):
            assert insert(proxy, f"forum.{name}", 3)["n"] == 3
        assert numbers(replica_set.client, "forum.users") == [6, 7, 8]
        assert numbers(replica_set.client, "forum.topics") == [1, 2, 3]
        (found,) = replica_set.client["forum"]["objects"].find()
        assert found["nextUid"] >= 8 and found["nextTid"] >= 3


class TestMakingOne:
    """No document: the counter begins behind what the collection already has."""

    @pytest.mark.parametrize("taken, first", [([3, 7], 100), ([-4, 2.0, 300.0], 301)])
    def test_behind_the_highest_number(self, server, proxy, coll, taken, first):
        ns = f"late.{coll}"
        collection = server.client["late"][coll]
        collection.create_index("n", unique=True)
        for n in [*taken, "text", bson.ObjectId(), None, True]:
            collection.insert_one({"n": n})
        assert insert(proxy, ns, [{"k": 0}])["n"] == 1
        assert collection.find_one({"k": 0})["n"] == first

    def test_every_rule_of_a_shared_counter_counts(self, replica_set, start_proxy, coll):
        """Also one that nobody has inserted for yet."""
        db = replica_set.client["shared-rules"]
        names = [f"{coll}a", f"{coll}b"]
        for name in names:
            db[name].create_index("n")
        db[names[1]].insert_many([{"n": bson.Int64(n)} for n in range(1, 301)])
        proxy = start_proxy(configuration(replica_set, [
            {"ns": f"shared-rules.{name}", "field": "n", "strategy": "counter", "name": coll}
            for name in names]))
        assert insert(proxy, f"shared-rules.{names[0]}", 3)["n"] == 3
        assert insert(proxy, f"shared-rules.{names[1]}", 3)["n"] == 3
        found = sum((numbers(replica_set.client, f"shared-rules.{name}") for name in names), [])
        assert len(set(found)) == len(found) == 306

    def test_text_of_any_width(self, replica_set, start_proxy, coll):
        """Its order is not that of its numbers: none goes twice, or none is given."""
        ns = f"any-width.{coll}"
        collection = replica_set.client["any-width"][coll]
        collection.create_index("n")
        collection.insert_many([{"n": f"INV-{n:03}"} for n in [*range(1, 101), *range(121, 400)]])
        proxy = start_proxy(configuration(replica_set, [
            {"ns": ns, "field": "n", "strategy": "counter", "output": "string",
             "format": {"prefix": "INV-", "pad": 3}, "block": {"size": 10}}]))
        for _ in range(40):
            reply = insert(proxy, ns, 13)
            assert reply["ok"] or reply["code"] == 96, reply
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found)

    def test_two_at_once(self, replica_set, start_proxy, coll):
        """Both find none; one document, and no number twice."""
        rules = [{"ns": "race.*", "field": "n", **_SINGLE}]
        proxies = [start_proxy(configuration(replica_set, rules)) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            for i in range(20):
                ns = f"race.{coll}{i}"
                replies = list(pool.map(lambda proxy: insert(proxy, ns, 2), proxies))
                assert [r["n"] for r in replies] == [2, 2], replies
                assert sorted(numbers(replica_set.client, ns)) == [1, 2, 3, 4]

    def test_an_existing_one_wins_over_start(self, server, proxy, coll):
        ns = f"late.{coll}"
        set_counter(server.client, ns, 5)
        assert insert(proxy, ns, 2)["n"] == 2
        assert numbers(server.client, ns) == [5, 6]
        eventually(lambda: [e for e in proxy.find_events("counter_behind_start")
                            if ns in str(e)], what="a warning")


BROKEN = {"text": "7", "2^53": 2.0**53, "below_-2^53": -(2.0**60)}


class TestBrokenDocuments:
    """A number is given out if it is certain, or none is."""

    @pytest.mark.parametrize("db", ["plain", "blocks"])
    @pytest.mark.parametrize("name", BROKEN)
    def test_what_is_no_integer_is_refused(self, server, proxy, coll, name, db):
        """Above all 2^53: $inc would change nothing, and say nothing."""
        ns = f"{db}.{coll}"
        set_counter(server.client, ns, BROKEN[name])
        for _ in range(2):
            reply = insert(proxy, ns, 1)
            assert (reply["ok"], reply["code"], reply["codeName"]) == (
                0, 96, "OperationFailed"), reply
            assert all(word in reply["errmsg"] for word in (ns, "'n'", "counter", "integer"))
        assert not stored(server.client, ns)
        after = counter(server.client, ns)["COUNT"]
        if isinstance(BROKEN[name], float):
            assert isinstance(after, float)
        else:
            assert bson.encode({"": after}) == bson.encode({"": BROKEN[name]})

    def test_doubles_downwards(self, server, proxy, coll):
        """At -2^53 they stand still."""
        ns = f"down.{coll}"
        set_counter(server.client, ns, -(2.0**53))
        assert insert(proxy, ns, 1)["code"] == 96
        assert not stored(server.client, ns)

    @pytest.mark.parametrize("value", [41.0, -0.0])
    def test_a_whole_double_becomes_an_integer(self, server, proxy, coll, value):
        """As a counter that was made in a shell; and again, when the shell has touched it."""
        ns = f"plain.{coll}"
        set_counter(server.client, ns, value)
        for _ in range(3):
            assert insert(proxy, ns, 2)["n"] == 2
        assert is_int64(counter(server.client, ns)["COUNT"])
        server.client[STORE]["uniqueIdentifierCounter"].update_one(
            {"_id": key_of(ns)}, {"$inc": {"COUNT": 1.0}})
        for _ in range(3):
            assert insert(proxy, ns, 2)["n"] == 2
        first = int(value)
        found = numbers(server.client, ns)
        assert found == [*range(first, first + 6), *range(first + 7, first + 13)]
        assert all(is_int64(n) for n in found)

    @pytest.mark.parametrize("db, left", [("plain", 0), ("plain", 5), ("blocks", 50)])
    def test_near_the_end_of_int64(self, server, proxy, coll, left, db):
        """Nothing wraps, nothing repeats, and the counter stays an integer."""
        ns, value = f"{db}.{coll}", bson.Int64(2**63 - 1 - left)
        set_counter(server.client, ns, value)
        replies = [insert(proxy, ns, n) for n in (left + 2, 1, 1, left + 2)]
        assert all(r["ok"] or r["code"] == 96 for r in replies), replies
        assert replies[0]["ok"] == 0, "more than there are"
        found = numbers(server.client, ns)
        assert found == list(range(value, value + len(found)))
        assert is_int64(counter(server.client, ns)["COUNT"])

    def test_it_breaks_while_it_is_in_use(self, server, proxy, coll):
        ns = f"plain.{coll}"
        assert insert(proxy, ns, 2)["n"] == 2
        set_counter(server.client, ns, "three")
        assert insert(proxy, ns, 1)["code"] == 96
        assert numbers(server.client, ns) == [1, 2]

    def test_others_go_on(self, server, proxy, coll):
        set_counter(server.client, f"plain.{coll}a", "seven")
        assert insert(proxy, f"plain.{coll}a", 1)["code"] == 96
        assert insert(proxy, f"plain.{coll}b", 1)["n"] == 1
        assert insert(proxy, f"no-rule.{coll}", 1)["n"] == 1
