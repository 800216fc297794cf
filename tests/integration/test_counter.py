"""Counters: which numbers documents get, from one proxy or several, and which come back unused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bson
import pymongo
import pytest
from bson.raw_bson import RawBSONDocument

from support import elements as el
from support import wire
from support.admin import LISTEN, Admin
from support.counters import STORE, counter, insert, key_of, numbers, set_counter, stored
from support.elements import Element, document, elements, int32
from support.middleman import Cut
from support.mongod import Mongod
from support.process import eventually
from support.profiler import Profiler
from support.proxy import Proxy, configuration
from support.servers import check_retried
from support.thief import Robbed, insert_message, session
from support.threads import Threads

_COUNTER = {"strategy": "counter"}
_SINGLE = {**_COUNTER, "block": {"size": 1}}

FORMATS: dict[str, tuple[dict[str, Any], list[Element]]] = {
    "int64": ({}, [el.int64("n", n) for n in (1, 2, 3)]),
    "int32": ({"output": "int32"}, [int32("n", n) for n in (1, 2, 3)]),
    "too-long": ({"output": "string", "format": {"pad": 3}, "start": 999},
                 [el.string("n", n) for n in ("999", "1000", "1001")]),
    "framed": ({"output": "string", "format": {"pad": 4, "prefix": "R-", "suffix": "/26"}},
               [el.string("n", f"R-{n:04}/26") for n in (1, 2, 3)]),
}

SEQUENCES: dict[str, tuple[dict[str, int], list[int]]] = {
    "start": ({"start": 1000}, [1000, 1001, 1002]),
    "below-zero": ({"start": -2}, [-2, -1, 0]),
    "widest-step": ({"step": 65535}, [1, 65536, 131071]),
    "down-by-3": ({"start": 1, "step": -3, "max": -(2**63)}, [1, -2, -5]),
    "large": ({"start": 2**62}, [2**62, 2**62 + 1, 2**62 + 2]),
}

BLOCKS: dict[str, Any] = {
    "auto": "auto", "1": 1, "2": 2, "7": {"size": 7}, "100": 100, "1000": {"size": 1000},
}

# Databases name the rule, collections are fresh for each test: each has a counter of its own.
RULES = [
    *({"ns": f"format-{name}.*", "field": "n", **_COUNTER, **rule}
      for name, (rule, _) in FORMATS.items()),
    *({"ns": f"sequence-{name}.*", "field": "n", **_COUNTER, **rule}
      for name, (rule, _) in SEQUENCES.items()),
    *({"ns": f"block-{name}.*", "field": "n", **_COUNTER, "block": block}
      for name, block in BLOCKS.items()),
    {"ns": "id.*", "field": "_id", **_COUNTER},
    {"ns": "driver.*", "field": "_id", "assign": "driver", **_COUNTER},
    {"ns": "always.*", "field": "n", "assign": "always", **_COUNTER},
    {"ns": "plain.*", "field": "n", **_COUNTER, "report": True},
    {"ns": "single.*", "field": "n", **_SINGLE},
    {"ns": "dotted.*", "field": "a.b", **_SINGLE},
    {"ns": "ten.*", "field": "n", **_COUNTER, "max": 10},
    {"ns": "ten-single.*", "field": "n", **_SINGLE, "max": 10},
    {"ns": "int32-end.*", "field": "n", **_COUNTER, "start": 2**31 - 2, "output": "int32", "max": 2**31 - 1},
    {"ns": "javascript.*", "field": "n", **_COUNTER, "start": 2**53 - 2},
    {"ns": "shared.*", "field": "n", **_SINGLE, "name": "shared by many"},
    {"ns": "two.*", "field": "a", **_SINGLE, "name": "two fields"},
    {"ns": "two.*", "field": "b", **_SINGLE, "name": "two fields"},
    {"ns": "unused.*", "field": "n", **_COUNTER},
    {"ns": "unused-single.*", "field": "n", **_SINGLE},
    {"ns": "unused-two.*", "field": "a", **_COUNTER},
    {"ns": "unused-two.*", "field": "b", **_COUNTER, "max": 3},
    {"ns": "taken.*", "field": "n", **_COUNTER},
    {"ns": "taken-id.*", "field": "_id", **_COUNTER},
    {"ns": "tx-counter.*", "field": "n", **_COUNTER},
]


def refused(reply: dict[str, Any], ns: str) -> bool:
    """Error 96, as in docs/strategies.md#when-no-value-is-available."""
    assert (reply["ok"], reply["code"], reply["codeName"]) == (0, 96, "OperationFailed"), reply
    assert "errorLabels" not in reply
    assert all(word in reply["errmsg"] for word in (ns, "'n'", "counter")), reply["errmsg"]
    return True


def status_of_rules(proxy: Proxy) -> list[dict[str, Any]]:
    """What it says of its rules."""
    with proxy.client() as client:
        return client.admin.command("idproxy", "status")["rules"]


@pytest.mark.smoke
class TestValues:
    @pytest.mark.parametrize("name", FORMATS)
    def test_format(self, server: Mongod, proxy: Proxy, coll, name):
        ns = f"format-{name}.{coll}"
        assert insert(proxy, ns, 3)["n"] == 3
        assert numbers(server.client, ns) == [
            bson.decode(document(e))["n"] for e in FORMATS[name][1]]
        options = bson.CodecOptions(document_class=RawBSONDocument)
        raw = server.client[f"format-{name}"].get_collection(coll, codec_options=options).find()
        assert [elements(d.raw)[-1] for d in raw] == FORMATS[name][1], "types and all"

    @pytest.mark.parametrize("name", SEQUENCES)
    def test_sequence(self, server, proxy, coll, name):
        ns = f"sequence-{name}.{coll}"
        assert insert(proxy, ns, 2)["n"] == 2 and insert(proxy, ns, 1)["n"] == 1
        assert numbers(server.client, ns) == SEQUENCES[name][1]

    def test_id_comes_first(self, server, proxy, coll):
        assert insert(proxy, f"id.{coll}", 2)["n"] == 2
        assert [list(d.items()) for d in stored(server.client, f"id.{coll}")] == [
            [("_id", 1), ("k", 0)], [("_id", 2), ("k", 1)]]

    def test_dotted(self, server, proxy, coll):
        ns = f"dotted.{coll}"
        assert insert(proxy, ns, [{"k": 0}, {"a": {"c": 1}}])["n"] == 2
        assert numbers(server.client, ns, "a.b") == [1, 2]
        assert counter(server.client, ns, "a.b")["COUNT"] == 3

    def test_instead_of_a_drivers_id(self, server, proxy, coll):
        with proxy.client() as client:
            client["driver"][coll].insert_many([{"k": 0}, {"_id": "own"}, {"k": 2}])
        assert [d["_id"] for d in stored(server.client, f"driver.{coll}")] == [1, "own", 2]

    def test_always(self, server, proxy, coll):
        assert insert(proxy, f"always.{coll}", [{"n": 77}, {"k": 1}])["n"] == 2
        assert numbers(server.client, f"always.{coll}") == [1, 2]

    def test_what_the_client_sent_stays(self, server, proxy, coll):
        """And takes no number."""
        ns = f"single.{coll}"
        assert insert(proxy, ns, [{"n": 50}, {"k": 1}, {"n": None}, {"k": 3}])["n"] == 4
        assert numbers(server.client, ns) == [50, 1, None, 2]

    def test_report(self, server, proxy, coll):
        reply = insert(proxy, f"plain.{coll}", 3)
        assert reply["idproxy"]["assigned"] == [
            {"index": i, "field": "n", "value": i + 1} for i in range(3)]

    def test_a_collection_has_a_counter_of_its_own(self, server, proxy, coll):
        for each in (f"single.{coll}a", f"single.{coll}b"):
            assert insert(proxy, each, 2)["n"] == 2
            assert numbers(server.client, each) == [1, 2]
            assert counter(server.client, each)["COUNT"] == 3

    def test_collections_share_a_counter_that_has_a_name(self, server, proxy, coll):
        both = [f"shared.{coll}a", f"shared.{coll}b"]
        for i in range(6):
            assert insert(proxy, both[i % 2], 2)["n"] == 2
        found = sum((numbers(server.client, ns) for ns in both), [])
        first = min(found)
        assert sorted(found) == list(range(first, first + 12))
        assert not counter(server.client, both[0])
        document = server.client[STORE]["uniqueIdentifierCounter"].find_one("shared by many")
        assert document["COUNT"] == first + 12

    def test_fields_share_a_counter_that_has_a_name(self, server, proxy, coll):
        assert insert(proxy, f"two.{coll}", 5)["n"] == 5
        found = sum((numbers(server.client, f"two.{coll}", each) for each in "ab"), [])
        assert sorted(found) == list(range(min(found), min(found) + 10))

    def test_the_counters_own_collection_has_none(self, replica_set, start_proxy, coll):
        proxy = start_proxy(configuration(replica_set, [{"ns": "*", "field": "n", **_SINGLE}]))
        assert insert(proxy, f"{STORE}.{coll}", 1)["n"] == 1
        assert insert(proxy, f"any.{coll}", 1)["n"] == 1
        assert "n" not in stored(replica_set.client, f"{STORE}.{coll}")[0]
        assert numbers(replica_set.client, f"any.{coll}") == [1]


class TestBlocks:
    @pytest.mark.parametrize("name", BLOCKS)
    def test_numbers_in_order_and_without_gaps(self, server, proxy, coll, name):
        """Also of a batch that is larger than a block."""
        ns = f"block-{name}.{coll}"
        for size in (1, 1, 2, 30, 1, 99, 1, 1):
            assert insert(proxy, ns, size)["n"] == size
        assert numbers(server.client, ns) == list(range(1, 137))

    def test_a_hundred_thousand_documents(self, replica_set, replica_proxy, coll):
        message = wire.op_msg(
            wire.body({"insert": coll, "$db": "block-100"}),
            wire.sequence("documents", [document(int32("k", i)) for i in range(100_000)]))
        with wire.WireClient(replica_proxy.address, 60) as client:
            assert client.call(message)["n"] == 100_000
        found = numbers(replica_set.client, f"block-100.{coll}")
        assert found == list(range(1, 100_001))
        replica_set.client["block-100"].drop_collection(coll)

    def test_unordered_in_parts(self, replica_set, replica_proxy, coll):
        """More than 20,000 documents go in several commands, of which each has its numbers."""
        message = wire.op_msg(
            wire.body({"insert": coll, "$db": "single", "ordered": False}),
            wire.sequence("documents", [document(int32("k", i)) for i in range(50_000)]))
        with wire.WireClient(replica_proxy.address, 60) as client:
            assert client.call(message)["n"] == 50_000
        found = numbers(replica_set.client, f"single.{coll}")
        assert sorted(found) == list(range(1, 50_001))
        replica_set.client["single"].drop_collection(coll)

    def test_one_at_a_time_the_counter_says_what_comes_next(self, server, proxy, coll):
        ns = f"single.{coll}"
        for n in range(1, 6):
            assert insert(proxy, ns, 1)["n"] == 1
            assert counter(server.client, ns)["COUNT"] == n + 1
        assert insert(proxy, ns, 1000)["n"] == 1000
        assert counter(server.client, ns)["COUNT"] == 1006

    @pytest.mark.tsan
    def test_one_proxy_one_at_a_time_eight_clients(self, server, proxy, coll):
        """1, 2, 3 ... without a gap."""
        ns = f"single.{coll}"

        def client(number: int) -> None:
            with wire.WireClient(proxy.address, 60) as connection:
                for i in range(40):
                    documents = [{"k": (number, i, j)} for j in range(i % 3 + 1)]
                    reply = connection.call(insert_message(ns, documents))
                    assert reply["n"] == len(documents) and "writeErrors" not in reply, reply

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(client, range(8)))
        found = numbers(server.client, ns)
        assert sorted(found) == list(range(1, len(found) + 1))
        assert counter(server.client, ns)["COUNT"] == len(found) + 1

    def test_the_store_is_asked_once_for_each_block(self, replica_set, start_proxy, coll,
                                                    record):
        """As the server counts it: documents / block + 2."""
        config = configuration(replica_set, [
            {"ns": "trips.*", "field": "n", **_COUNTER, "block": 100}])
        config["id_store"] = {"db": coll}
        proxy = start_proxy(config)
        assert insert(proxy, f"trips.{coll}", 1)["n"] == 1
        with Profiler(replica_set, coll) as profiler:
            for _ in range(300):
                assert insert(proxy, f"trips.{coll}", 10)["n"] == 10
            # Besides, it looks once in ten seconds whether the counter has gone back, and says once
            # in thirty who it is.
            commands = [c for c in profiler.commands() if "find" not in c["command"]
                        and c["ns"] != f"{coll}.proxies"]
        assert numbers(replica_set.client, f"trips.{coll}") == list(range(1, 3002))
        record("store round trips per document, block 100", len(commands) / 3000)
        assert 28 <= len(commands) <= 3000 / 100 + 2, [c["command"] for c in commands]
        assert all("findAndModify" in c["command"] or "findandmodify" in c["command"]
                   for c in commands), commands


class TestTheEnd:
    """Where no number is left, or not as many as a batch needs."""

    @pytest.mark.parametrize("db", ["ten", "ten-single"])
    def test_nothing_is_inserted_unless_all_numbers_are_there(self, server, proxy, coll, db):
        ns = f"{db}.{coll}"
        set_counter(server.client, ns, bson.Int64(9))
        assert refused(insert(proxy, ns, 3), ns)
        assert not stored(server.client, ns)

    @pytest.mark.parametrize("db", ["ten", "ten-single"])
    def test_up_to_the_last(self, server, proxy, coll, db):
        ns = f"{db}.{coll}"
        for _ in range(5):
            assert insert(proxy, ns, 2)["n"] == 2
        for _ in range(3):
            assert refused(insert(proxy, ns, 1), ns)
        assert numbers(server.client, ns) == list(range(1, 11))

    def test_it_is_told_at_once(self, replica_set, start_proxy, coll):
        """In the words of the error, and once."""
        rules = [{"ns": f"end.{coll}", "field": "n", **_COUNTER, "max": 5},
                 {"ns": "end.*", "field": "n", **_COUNTER, "max": 5},
                 {"ns": f"shared-*.{coll}", "field": "n", **_COUNTER, "max": 5,
                  "store": {"key": coll}}]
        proxy = start_proxy(configuration(replica_set, rules, admin=LISTEN))
        admin = Admin(proxy)

        def state() -> list[str]:
            """Of each rule."""
            return [each.split(";")[0] for each in admin.rules()]
        names = [f"end.{coll}", f"end.{coll}-2", f"shared-x.{coll}"]
        for ns in names:
            assert insert(proxy, ns, 5)["n"] == 5
        for count, ns in enumerate(names, 1):
            reply = insert(proxy, ns, 1)
            assert refused(reply, ns)
            eventually(lambda: len(proxy.find_events("counter_exhausted")) == count, 20)
            reason = proxy.find_events("counter_exhausted")[-1]["reason"]
            assert "max, 5," in reason and reply["errmsg"].endswith(reason)
        for ns in names:
            assert refused(insert(proxy, ns, 1), ns)
        assert len(proxy.find_events("counter_exhausted")) == 3
        assert state()[0].startswith("not ready: all numbers up to max, 5,")
        assert state()[1:] == ["gives no values in 1 collection"] * 2
        assert admin.metrics()("idproxy_store_counters_exhausted") == 3
        assert admin.metrics()("idproxy_store_counters_refused") == 0
        assert admin.metrics()("idproxy_rule_numbers_left", rule="0") == 0
        said = status_of_rules(proxy)
        assert not any(each["ready"] for each in said)
        assert [each["not_ready"][0]["ns"] for each in said] == [*names[:2], f"shared-*.{coll}"]
        assert "max, 5," in str(said[0]["not_ready"])

    def test_of_int32(self, server, proxy, coll):
        ns = f"int32-end.{coll}"
        assert insert(proxy, ns, 2)["n"] == 2
        assert refused(insert(proxy, ns, 1), ns)
        assert numbers(server.client, ns) == [2**31 - 2, 2**31 - 1]

    def test_beyond_what_javascript_can_count(self, server, proxy, coll):
        ns = f"javascript.{coll}"
        assert insert(proxy, ns, 1)["n"] == 1
        assert insert(proxy, ns, 3)["n"] == 3
        assert numbers(server.client, ns) == [2**53 - 2 + i for i in range(4)]
        assert proxy.wait_event("counter_beyond_javascript")["level"] == "warning"


class TestSeveralProxies:
    @pytest.mark.tsan
    def test_eight_clients_two_proxies_blocks_of_ten(self, replica_set, start_proxy, coll):
        """No number twice, though nothing forbids it, and no insert is sent again."""
        ns = f"several.{coll}"
        rules = [{"ns": ns, "field": "n", **_COUNTER, "block": {"size": 10}}]
        all_of_them = [start_proxy(configuration(replica_set, rules)) for _ in range(2)]

        def client(number: int) -> None:
            proxy = all_of_them[number % 2]
            with wire.WireClient(proxy.address, 60) as connection:
                for i in range(40):
                    documents = [{"proxy": number % 2}] * (i % 4 * 3 + 1)
                    reply = connection.call(insert_message(ns, documents))
                    assert reply["n"] == len(documents) and "writeErrors" not in reply, reply

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(client, range(8)))
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found)
        assert min(found) == 1 and max(found) <= len(found) + 2 * 2 * 22
        for number, proxy in enumerate(all_of_them):
            proxy.stop()
            assert proxy.wait_event("stopped")["duplicates_resent"] == 0
        assert max(found) < counter(replica_set.client, ns)["COUNT"]

    def test_another_program_uses_the_same_counter(self, replica_set, start_proxy, coll):
        """By the published recipe, one number at a time."""
        ns = f"beside.{coll}"
        rules = [{"ns": ns, "field": "n", **_COUNTER, "block": {"size": 5}}]
        proxies = [start_proxy(configuration(replica_set, rules)) for _ in range(2)]
        assert insert(proxies[0], ns, 1)["n"] == 1
        collection = replica_set.client[STORE].get_collection(
            "uniqueIdentifierCounter", write_concern=pymongo.WriteConcern("majority"))
        own = []

        def other() -> None:
            while not thread.over.is_set():
                own.append(collection.find_one_and_update(
                    {"_id": key_of(ns)}, {"$inc": {"COUNT": 1}})["COUNT"])

        thread = Threads(other)
        with thread:
            for i in range(100):
                assert insert(proxies[i % 2], ns, i % 4 + 1)["n"] == i % 4 + 1
            eventually(lambda: len(own) > 20)
        found = numbers(replica_set.client, ns) + own
        assert len(set(found)) == len(found)


class TestGivingBack:
    """What a process holds and does not use, returns to the counter."""

    def rules(self, ns: str, block: Any = 100) -> list[dict[str, Any]]:
        return [{"ns": ns, "field": "n", **_COUNTER, "block": block}]

    @pytest.mark.parametrize("used, block", [
        (1, 100), (60, 100), (100, 100), (250, 100), (250, "auto")])
    def test_a_clean_stop_leaves_no_gap(self, replica_set, start_proxy, coll, used, block):
        ns = f"stop.{coll}"
        proxy = start_proxy(configuration(replica_set, self.rules(ns, block)))
        for part in (used // 2, used - used // 2):
            assert not part or insert(proxy, ns, part)["n"] == part
        proxy.stop()
        assert counter(replica_set.client, ns)["COUNT"] == used + 1
        again = start_proxy(configuration(replica_set, self.rules(ns)))
        assert insert(again, ns, 3)["n"] == 3
        assert numbers(replica_set.client, ns) == list(range(1, used + 4))

    def test_under_load(self, replica_set, start_proxy, coll):
        """The connections that end in the middle of an insert cost no number either, unless the
        insert was under way."""
        ns = f"stop.{coll}"
        proxy = start_proxy(configuration(replica_set, self.rules(ns)))
        going = threading.Event()

        def client() -> None:
            try:
                with wire.WireClient(proxy.address, 60) as connection:
                    while connection.call(insert_message(ns, [{}, {}]))["ok"] == 1:
                        going.set()
            except (wire.Closed, ConnectionError):
                pass

        with Threads(*[client] * 4):
            assert going.wait(30)
            proxy.stop()
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found)
        assert max(found) < counter(replica_set.client, ns)["COUNT"] <= len(found) + 1 + 4 * 2

    def test_not_over_the_head_of_another_proxy(self, replica_set, start_proxy, coll):
        """Whose block lies behind: only the last one can be given back."""
        ns = f"stop.{coll}"
        first, second = (start_proxy(configuration(replica_set, self.rules(ns))) for _ in range(2))
        assert insert(first, ns, 3)["n"] == 3 and insert(second, ns, 3)["n"] == 3
        first.stop()
        assert counter(replica_set.client, ns)["COUNT"] == 201
        lost = first.wait_event("numbers_lost")
        assert (lost["level"], lost["numbers"], lost["count"]) == ("info", "4 to 100", 97)
        assert insert(second, ns, 3)["n"] == 3
        second.stop()
        assert counter(replica_set.client, ns)["COUNT"] == 107
        assert numbers(replica_set.client, ns) == [1, 2, 3, 101, 102, 103, 104, 105, 106]
        assert not second.find_events("numbers_lost")


def test_an_unacknowledged_insert_of_a_client_that_leaves(replica_set, start_proxy, coll):
    """The first of its collection: it waits for numbers when its client has gone already."""
    proxy = start_proxy(configuration(
        replica_set, [{"ns": "leaves.*", "field": "n", "strategy": "counter"}]))
    for i in range(10):
        ns = f"leaves.{coll}-{i}"
        with wire.WireClient(proxy.address) as client:
            client.send(insert_message(ns, [{}, {}], more={"writeConcern": {"w": 0}},
                                       flags=wire.MORE_TO_COME))
        eventually(lambda ns=ns: numbers(replica_set.client, ns) == [1, 2], 20, "it is stored")


class TestUnused:
    """Numbers of documents that the server has not stored, as its reply proves, are used again."""

    @pytest.fixture(params=["unused", "unused-single"])
    def ns(self, request: pytest.FixtureRequest, robbed: Robbed, coll: str) -> str:
        """A collection with an index of the application's and a document that holds u: 0."""
        ns = f"{request.param}.{coll}"
        robbed.collection(ns).create_index("u", unique=True, sparse=True)
        robbed.collection(ns).create_index("n")
        robbed.collection(ns).insert_one({"u": 0})
        return ns

    def found(self, robbed: Robbed, ns: str) -> list[tuple[Any, int]]:
        """Keys and numbers, as stored."""
        return [(d["k"], d["n"]) for d in stored(robbed.server.client, ns) if "k" in d]

    @pytest.mark.parametrize("more", [{}, session()], ids=["plain", "txnNumber"])
    def test_a_foreign_duplicate_is_the_clients_own(self, robbed, ns, more):
        """One error, with the application's index; nothing is sent again, and no number is lost."""
        reply = robbed.insert(ns, [{"k": 0, "u": 0}], more=more)
        (error,) = reply["writeErrors"]
        assert (reply["n"], error["index"], error["code"]) == (0, 0, 11000)
        assert error["keyPattern"] == {"u": 1}
        assert len(robbed.thief.inserts(ns)) == 1
        assert robbed.insert(ns, [{"k": 1}, {"k": 2}])["n"] == 2
        assert self.found(robbed, ns) == [(1, 1), (2, 2)]

    def test_behind_the_error_of_an_ordered_batch(self, robbed, ns):
        reply = robbed.insert(ns, [{"k": 0}, {"k": 1, "u": 0}, {"k": 2}, {"k": 3}])
        assert reply["n"] == 1 and len(reply["writeErrors"]) == 1
        assert robbed.insert(ns, [{"k": k} for k in range(4, 8)])["n"] == 4
        assert self.found(robbed, ns) == [(0, 1), (4, 2), (5, 3), (6, 4), (7, 5)]

    def test_of_a_document_that_a_validator_refuses(self, robbed, ns):
        db, _, name = ns.partition(".")
        robbed.server.client[db].command("collMod", name, validator={"bad": {"$exists": False}})
        assert robbed.insert(ns, [{"k": 0, "bad": 1}])["writeErrors"][0]["code"] == 121
        assert robbed.insert(ns, [{"k": 1}])["n"] == 1
        assert self.found(robbed, ns) == [(1, 1)]

    def test_not_of_a_replay(self, robbed, ns):
        """Numbers drawn for what was stored long since: which ones stand there, is not known."""
        message = insert_message(ns, [{"k": 0}, {"k": 1, "u": 0}], ordered=False, more=session())
        for _ in range(2):
            reply = robbed.call(message).body
            assert (reply["n"], len(reply["writeErrors"])) == (1, 1)
        check_retried(reply, [0])
        assert robbed.insert(ns, [{"k": 2}, {"k": 3}])["n"] == 2
        found = self.found(robbed, ns)
        assert [k for k, _ in found] == [0, 2, 3] and found[0] == (0, 1)
        assert len({n for _, n in found}) == 3 and found[1][1] > 2

    def test_of_another_counter_that_has_none_left(self, robbed, coll):
        """Nothing was sent: the numbers that were at hand are still there."""
        ns = f"unused-two.{coll}"
        assert robbed.insert(ns, [{"k": 0}])["n"] == 1
        for _ in range(3):
            assert robbed.insert(ns, [{"k": 1}, {"k": 2}, {"k": 3}])["code"] == 96
        assert robbed.insert(ns, [{"k": 4}])["n"] == 1
        assert [(d["a"], d["b"]) for d in stored(robbed.server.client, ns)] == [(1, 1), (2, 2)]

    @pytest.mark.parametrize("code", [50, 11600])
    def test_not_of_an_insert_that_failed_as_a_whole(self, robbed, ns, code):
        """Part of it may be stored: a time limit ends it wherever it is."""
        failure = {"ok": 0.0, "code": code, "codeName": "SomeCode", "errmsg": "an error"}
        with robbed.thief.hook(self.answering(robbed, ns, failure)):
            assert robbed.insert(ns, [{"k": 0}, {"k": 1}])["code"] == code
        assert robbed.insert(ns, [{"k": 2}, {"k": 3}])["n"] == 2
        found = self.found(robbed, ns)
        assert len({n for _, n in found}) == len(found) == 4

    @pytest.mark.parametrize("code", [50, 91])
    def test_not_of_errors_that_prove_nothing(self, robbed, ns, ordered, code):
        """mongos says so of documents that a shard has stored before its connection was lost."""
        errors = [{"index": i, "code": code, "errmsg": "an error"}
                  for i in range(1 if ordered else 3)]
        answer = {"n": 0, "writeErrors": errors, "ok": 1.0}
        with robbed.thief.hook(self.answering(robbed, ns, answer)):
            reply = robbed.insert(ns, [{"k": k} for k in range(3)], ordered=ordered)
            assert [e["code"] for e in reply["writeErrors"]] == [code] * len(errors)
        assert robbed.insert(ns, [{"k": k} for k in range(3, 6)])["n"] == 3
        found = self.found(robbed, ns)
        assert len({n for _, n in found}) == len(found) == 6

    def test_not_of_a_duplicate_that_may_be_theirs(self, robbed, coll):
        """Where the server does not say which field it was: else that number would come up again
        and again."""
        ns = f"unused.{coll}"
        collection = robbed.collection(ns)
        collection.create_index("n", unique=True, name="some name")
        set_counter(robbed.server.client, ns, bson.Int64(1))
        collection.insert_one({"n": 1, "u": 0})
        answer = {"n": 0, "ok": 1.0, "writeErrors": [
            {"index": 0, "code": 11000, "errmsg": "E11000 duplicate key error index: some name"}]}
        with robbed.thief.hook(self.answering(robbed, ns, answer)):
            assert robbed.insert(ns, [{"k": 0}])["writeErrors"][0]["code"] == 11000
        assert robbed.insert(ns, [{"k": 1}])["n"] == 1
        assert robbed.thief.inserts(ns)[1].documents[0]["n"] == 2

    @staticmethod
    def answering(robbed: Robbed, ns: str, answer: dict[str, Any]) -> Callable[[Any], bytes]:
        """A hook by which the server seems to answer that, whatever it did."""
        def hook(message: Any) -> bytes:
            if message.direction == "to_server" or message.response_to not in {
                    m.request_id for m in robbed.thief.inserts(ns)}:
                return message.raw
            reply = wire.command(answer, request_id=message.request_id)
            return reply[:8] + message.raw[8:12] + reply[12:]
        return hook

    def test_not_of_an_insert_whose_reply_is_lost(self, robbed, ns):
        """It may have been stored."""
        def cut(message: Any) -> bytes:
            if message.direction == "to_client" and message.response_to in sent:
                raise Cut
            if message.ns == ns:
                sent.add(message.request_id)
            return message.raw

        sent: set[int] = set()
        with robbed.thief.hook(cut), wire.WireClient(robbed.proxy.address) as client:
            client.send(insert_message(ns, [{"k": 0}, {"k": 1}]))
            assert client.closed_by_peer()
        assert robbed.insert(ns, [{"k": 2}])["n"] == 1
        assert self.found(robbed, ns) == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.smoke
class TestDuplicates:
    """Numbers that somebody else has used."""

    @pytest.mark.parametrize("db, path", [("taken", "n"), ("taken-id", "_id")])
    @pytest.mark.parametrize("more", [False, True], ids=["plain", "txnNumber"])
    def test_three_of_a_thousand(self, robbed, coll, ordered, more, db, path):
        """One reply, n = 1000."""
        ns = f"{db}.{coll}"
        robbed.collection(ns).create_index(path, **({} if path == "_id" else {"unique": True}))
        robbed.thief.steal(ns, path, {0: 1, 499: 1, 999: 1})
        reply = robbed.insert(ns, [{"k": k} for k in range(1000)], ordered=ordered,
                              more=session() if more else {})
        assert (reply["ok"], reply["n"]) == (1, 1000) and "writeErrors" not in reply, reply
        found = robbed.stored(ns)
        assert [d["k"] for d in found] == list(range(1000))
        every = [d[path] for d in robbed.collection(ns).find()]
        assert len(set(every)) == 1003

    def test_a_drivers_replay_after_a_lost_reply(self, robbed, coll):
        """One document."""
        ns = f"taken.{coll}"
        lost: list[int] = []

        def cut(message: Any) -> bytes:
            if message.direction == "to_client" and not lost and message.response_to in {
                    m.request_id for m in robbed.thief.inserts(ns)}:
                lost.append(message.response_to)
                raise Cut
            return message.raw

        with robbed.thief.hook(cut), robbed.proxy.client(retryWrites=True) as client:
            client["taken"][coll].insert_one({"_id": 0, "k": 0})
            client["taken"][coll].insert_one({"_id": 1, "k": 1})
        assert lost and len(robbed.thief.inserts(ns)) == 3
        found = robbed.stored(ns)
        assert [d["k"] for d in found] == [0, 1] and found[0]["n"] < found[1]["n"]


@pytest.mark.smoke
class TestTransactions:
    def test_two_at_a_time(self, replica_set, replica_proxy, coll):
        """Numbers are drawn outside of them: none waits for the other, none conflicts."""
        ns = f"tx-counter.{coll}"
        replica_set.client["tx-counter"].create_collection(coll)
        with (replica_proxy.client() as client, client.start_session() as a,
              client.start_session() as b):
            collection = client["tx-counter"][coll]
            with a.start_transaction(), b.start_transaction():
                for k in range(4):
                    collection.insert_one({"k": k}, session=(a, b)[k % 2])
        assert sorted(numbers(replica_set.client, ns)) == [1, 2, 3, 4]

    def test_an_aborted_one_uses_its_numbers_up(self, replica_set, replica_proxy, coll):
        ns = f"tx-counter.{coll}"
        replica_set.client["tx-counter"].create_collection(coll)
        with replica_proxy.client() as client, client.start_session() as running:
            running.start_transaction()
            client["tx-counter"][coll].insert_one({"k": 0}, session=running)
            running.abort_transaction()
        assert insert(replica_proxy, ns, 1)["n"] == 1
        assert numbers(replica_set.client, ns) == [2]

    def test_a_duplicate_heals_at_once(self, replica_set, replica_proxy, coll):
        """The second run of the callback gets a number behind all that are taken."""
        ns = f"tx-counter.{coll}"
        collection = replica_set.client["tx-counter"][coll]
        collection.create_index("n", unique=True)
        collection.insert_many([{"n": bson.Int64(n)} for n in range(1, 501)])
        set_counter(replica_set.client, ns, bson.Int64(1))
        calls = []

        def callback(running: Any) -> None:
            calls.append(running)
            client["tx-counter"][coll].insert_one({"k": 0}, session=running)

        with replica_proxy.client() as client, client.start_session() as running:
            running.with_transaction(callback)
        assert len(calls) == 2
        assert [d["n"] for d in collection.find({"k": 0})] == [501]
