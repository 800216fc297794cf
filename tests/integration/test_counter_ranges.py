"""Ranges: the blog's documents, made or found, used by proxies and by others, lost and restored."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import bson
import pymongo
import pytest

from support.admin import LISTEN, Admin
from support.audit import Audit
from support.counters import STORE, Load, gaps, insert, is_int64, numbers, stored
from support.full import FULL
from support.middleman import Middleman
from support.mongod import Mongod
from support.pair import Pair
from support.process import eventually
from support.proxy import Proxy, binary, configuration
from support.thief import session
from support.threads import Threads

STRATEGIES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "strategies.md"
BLOCK = 20
KEY = "COUNTER DOCUMENT NUMBER {}"


def ranges_of(ns: str, collection: str, count: int = 20, width: int = 1000,
              **more: Any) -> dict[str, Any]:
    """A rule with ranges of its own."""
    return {"ns": ns, "field": "n", "strategy": "counter-ranges", "block": BLOCK,
            "ranges": {"count": count, "width": width}, "store": {"collection": collection}, **more}


# Collections are fresh for each test, and share the ranges of their rule.
RULES = [
    ranges_of("sticky.*", "sticky", width=100_000, report=True),
    ranges_of("random.*", "random", width=100_000, pick="random"),
    ranges_of("text.*", "text", output="string", format={"pad": 12}),
]


def documents(mongod: Mongod, collection: str) -> dict[int, dict[str, Any]]:
    """The ranges, by number."""
    found = mongod.client[STORE][collection].find({"_id": {"$regex": "^COUNTER DOCUMENT NUMBER"}})
    return {int(each["_id"].split()[-1]): each for each in found}


def set_range(mongod: Mongod, collection: str, number: int, **fields: Any) -> None:
    mongod.client[STORE][collection].update_one({"_id": KEY.format(number)}, {"$set": fields})


def make_ranges(mongod: Mongod, collection: str, bounds: list[tuple[Any, Any]]) -> None:
    """With these COUNTs and MAX_VALUEs."""
    mongod.client[STORE][collection].insert_many([
        {"_id": KEY.format(i), "COUNT": count, "MAX_VALUE": most, "NOTES": ""}
        for i, (count, most) in enumerate(bounds)])


def used(mongod: Mongod, collection: str, width: int = 1000) -> int:
    """How many numbers have been taken from all ranges."""
    return sum(each["COUNT"] - number * width
               for number, each in documents(mongod, collection).items())


def refused(reply: dict[str, Any]) -> str:
    assert (reply["ok"], reply["code"]) == (0, 96) and "errorLabels" not in reply, reply
    return reply["errmsg"]


class TestThePage:
    """docs/strategies.md#counter-ranges, executed."""

    TEXT = re.split(r"(?m)^## ", STRATEGIES.read_text().split("\n## counter-ranges\n")[1])[0]

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"(?ms)^```{language}\n(.*?)^```", self.TEXT)

    def test_its_example(self, replica_set, start_proxy, tmp_path: pathlib.Path):
        (rule,) = self.blocks("yaml")
        file = tmp_path / "config.yaml"
        config = configuration(replica_set, [], listen={"port": 0}, admin={"listen": None},
                               log={"format": "json"})
        del config["rules"]
        file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items())
                        + "rules:\n" + rule)
        proxy = start_proxy(file)
        assert insert(proxy, "bank.transfers", 5)["n"] == 5
        shown = re.search(r"_id: \"(.*?)\", COUNT: (\d+), MAX_VALUE: (\d+), NOTES", *self.blocks("js"))
        assert shown
        ranges = replica_set.client[STORE]["uniqueIdentifierCounter"]
        found = ranges.find_one({"_id": shown[1]})
        assert found["MAX_VALUE"] == int(shown[3]) and 0 <= int(shown[2]) - found["COUNT"] < 10**9
        others: dict[str, Any] = {"random": random, "Int64": bson.Int64}
        exec(*self.blocks("python"), others)
        theirs = [others["next_number"](ranges) for _ in range(20)]
        assert insert(proxy, "bank.transfers", 200)["n"] == 200
        ours = [each["number"] for each in stored(replica_set.client, "bank.transfers")]
        assert len({*theirs, *ours}) == 225


class TestDocuments:
    def test_those_of_the_blog(self, replica_set, start_proxy, coll):
        """As docs/strategies.md#counter-ranges shows them: made at the start, and used."""
        proxy = start_proxy(configuration(replica_set, [
            {"ns": f"{coll}.orders", "field": "n", "strategy": "counter-ranges",
             "store": {"collection": coll}}], admin=LISTEN))
        assert Admin(proxy).rules() == ["ready"]
        found = documents(replica_set, coll)
        assert len(found) == 1000
        for i, first, last in ((0, 0, 999999999), (499, 499000000000, 499999999999),
                               (999, 999000000000, 999999999999)):
            assert found[i]["COUNT"] == first and found[i]["MAX_VALUE"] == last
            assert is_int64(found[i]["COUNT"]) and is_int64(found[i]["MAX_VALUE"])
        created = proxy.find_events("ranges_created")
        assert [(e["count"], e["first"], e["last"]) for e in created] == [(1000, 0, 999999999999)]
        assert insert(proxy, f"{coll}.orders", 3)["n"] == 3
        values = numbers(replica_set.client, f"{coll}.orders")
        assert all(map(is_int64, values)) and len(set(values)) == 3
        number = values[0] // 10**9
        assert documents(replica_set, coll)[number]["COUNT"] > found[number]["COUNT"]

    def test_ranges_without_a_description_are_taken_as_they_are(self, replica_set, start_proxy,
                                                                coll):
        make_ranges(replica_set, coll, [(5, 9), (17.0, 19.0), (20, 29)])
        rule = {**ranges_of(f"{coll}.x", coll), "create": False}
        del rule["ranges"]
        proxy = start_proxy(configuration(replica_set, [rule]))
        assert insert(proxy, f"{coll}.x", 18)["n"] == 18
        assert sorted(numbers(replica_set.client, f"{coll}.x")) == [
            *range(5, 10), *range(17, 20), *range(20, 30)]
        assert "all numbers of the 3 ranges" in refused(insert(proxy, f"{coll}.x", 1))
        assert all(isinstance(each["COUNT"], int)
                   for each in documents(replica_set, coll).values())

    @pytest.mark.parametrize("change, reason", [
        ({"MAX_VALUE": 1500}, "has ranges that overlap: 'COUNTER DOCUMENT NUMBER 0' ends with 1500"),
        ({"MAX_VALUE": "999"}, "has a MAX_VALUE in 'COUNTER DOCUMENT NUMBER 0' that is not"),
    ])
    def test_why_they_cannot_be_used(self, replica_set, start_proxy, coll, change, reason):
        make_ranges(replica_set, coll, [(1000 * i, 1000 * i + 999) for i in range(20)])
        set_range(replica_set, coll, 0, **change)
        proxy = start_proxy(configuration(replica_set, [ranges_of(f"{coll}.x", coll)], admin=LISTEN))
        admin = Admin(proxy)
        line = f"not ready: the collection of ranges, {STORE}.{coll}, {reason}"
        assert admin.rules()[0].startswith(line)
        assert reason in refused(insert(proxy, f"{coll}.x", 1))
        assert reason in proxy.wait_event("not_ready", 30)["reason"]
        set_range(replica_set, coll, 0, MAX_VALUE=999)
        eventually(lambda: admin.rules() == ["ready"], 30)
        assert insert(proxy, f"{coll}.x", 1)["n"] == 1

    def test_a_check_writes_nothing(self, replica_set, tmp_path: pathlib.Path, coll):
        file = tmp_path / "config.yaml"
        rule = ranges_of(f"{coll}.x", coll, output="string", format={"pad": 6})
        file.write_text(json.dumps({**configuration(replica_set, [rule]), "admin": {"listen": None}}))
        done = subprocess.run([binary(), "--config", file, "--check-config", "--connect"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r'ready  +for example: "0\d{5}", from one of 20 ranges\n', done.stdout)
        assert not documents(replica_set, coll)


class TestValues:
    def test_text(self, replica_set, replica_proxy, coll):
        assert insert(replica_proxy, f"text.{coll}", 3)["n"] == 3
        assert all(re.fullmatch(r"0{7}\d{5}", n) for n in numbers(replica_set.client, f"text.{coll}"))

    def test_report_and_next(self, replica_set, replica_proxy, coll):
        reply = insert(replica_proxy, f"sticky.{coll}", 3)
        found = numbers(replica_set.client, f"sticky.{coll}")
        assert [each["value"] for each in reply["idproxy"]["assigned"]] == found
        with replica_proxy.client() as client:
            asked = client.admin.command(
                {"idproxy": "next", "ns": f"sticky.{coll}", "field": "n", "count": 5})["ids"]
        assert len({*asked, *found}) == 8

    def test_sticky_stays_at_four_ranges(self, replica_set, replica_proxy, coll):
        for _ in range(200):
            assert insert(replica_proxy, f"sticky.{coll}", 1)["n"] == 1
        found = numbers(replica_set.client, f"sticky.{coll}")
        assert len(set(found)) == 200 and len({n // 100_000 for n in found}) == 4

    def test_random_goes_everywhere(self, replica_set, replica_proxy, coll):
        for _ in range(40):
            assert insert(replica_proxy, f"random.{coll}", BLOCK)["n"] == BLOCK
        found = numbers(replica_set.client, f"random.{coll}")
        assert len(set(found)) == 40 * BLOCK and len({n // 100_000 for n in found}) > 10

    def test_a_large_batch(self, replica_set, replica_proxy, coll):
        assert insert(replica_proxy, f"sticky.{coll}", 5000)["n"] == 5000
        assert len(set(numbers(replica_set.client, f"sticky.{coll}"))) == 5000


class TestTheEnd:
    def test_nothing_is_inserted_unless_all_numbers_are_there(self, replica_set, start_proxy, coll):
        make_ranges(replica_set, coll, [(9, 9), (10, 19), (29, 29)])
        set_range(replica_set, coll, 1, COUNT=20)
        ns = f"{coll}.x"
        proxy = start_proxy(configuration(
            replica_set, [ranges_of(ns, coll, 3, 10)], admin=LISTEN))
        admin = Admin(proxy)
        assert admin.metrics()("idproxy_rule_numbers_left", rule="0") == 2
        assert admin.metrics()("idproxy_rule_ranges_live", rule="0") == 2
        warned = proxy.wait_event("ranges_run_out")
        assert (warned["left"], warned["total"], warned["live_ranges"]) == (2, 30, 2)
        assert "all numbers of the 3 ranges have been handed out" in refused(insert(proxy, ns, 3))
        assert not stored(replica_set.client, ns)
        assert insert(proxy, ns, 2)["n"] == 2
        assert sorted(numbers(replica_set.client, ns)) == [9, 29]
        refused(insert(proxy, ns, 1))
        assert proxy.wait_event("counter_exhausted", 20)["counter"] == f"{STORE}.{coll}"
        eventually(lambda: admin.rules()[0].startswith("not ready: all numbers of the 3"), 20)
        metrics = admin.metrics()
        assert metrics("idproxy_rule_ranges_live", rule="0") == 0
        assert metrics("idproxy_rule_numbers_left", rule="0") == 0
        assert metrics("idproxy_store_counters_exhausted") == 1
        set_range(replica_set, coll, 1, COUNT=15)
        eventually(lambda: admin.rules() == ["ready"], 20)
        assert insert(proxy, ns, 5)["n"] == 5

    def test_the_status_says_what_is_left(self, replica_set, start_proxy, coll):
        make_ranges(replica_set, coll, [(0, 99), (200, 199), (200, 299)])
        proxy = start_proxy(configuration(replica_set, [ranges_of(f"{coll}.x", coll, 3, 100)]))
        assert insert(proxy, f"{coll}.x", 7)["n"] == 7
        with proxy.client() as client:
            (rule,) = client.admin.command("idproxy", "status")["rules"]
        (its,) = rule["numbers"]
        assert (its["left"], its["live_ranges"], its["ranges"]) == (193, 2, 3)
        assert its["held"] > 0 and "next" in its

    def test_a_double_at_two_to_the_53_is_left_out(self, replica_set, start_proxy, coll):
        make_ranges(replica_set, coll, [(2.0**53, bson.Int64(2**53 + 999))])
        rule = ranges_of(f"{coll}.x", coll, 1, 1000)
        rule["ranges"]["first"] = 2**53 - 1
        proxy = start_proxy(configuration(replica_set, [rule]))
        for _ in range(2):
            refused(insert(proxy, f"{coll}.x", 1))
        assert documents(replica_set, coll)[0]["COUNT"] == 2.0**53
        assert "is not an integer" in proxy.wait_event("range_left_out", 20)["reason"]


class TestProcesses:
    @pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.full)])
    @pytest.mark.timeout(1800 if FULL else 600)
    def test_kill_9_with_two_proxies_and_the_blogs_procedure(
            self, replica_set, coll, kills, request: pytest.FixtureRequest):
        """No number twice; losses within two blocks for each active range."""
        config = configuration(replica_set, [ranges_of(f"{coll}.x", coll, 10, 100_000)])
        pair = Pair(config)
        request.addfinalizer(pair.kill)
        audit = Audit(replica_set.uri, coll, ["x"], "n")
        blog = Blog(replica_set, coll, coll)
        clients: list[Callable[[], str]] = [lambda i=i: pair.address(i) for i in range(4)]
        with blog, Load(clients, f"{coll}.x") as load:
            for number in range(kills):
                load.await_documents(3 * BLOCK)
                pair.kill_one(number)
            load.await_documents(10)
        pair.stop()
        audit.end()
        assert not audit.violations(), audit.violations()[:5]
        assert blog.taken > 20
        lost = used(replica_set, coll, 100_000) - len(audit.values)
        assert 0 <= lost <= kills * 2 * BLOCK * 4 + 2 * 2 * BLOCK * 4

    def test_an_unchanged_rule_keeps_its_blocks(self, replica_set, tmp_path: pathlib.Path, coll):
        file = tmp_path / "config.yaml"
        rules = [ranges_of(f"{coll}.x", coll, active=1)]

        def write(more: list[dict[str, Any]]) -> None:
            file.write_text(json.dumps({
                **configuration(replica_set, [*rules, *more]), "admin": {"listen": None},
                "listen": {"port": 0}, "log": {"format": "json"}}))

        write([])
        with Proxy(file) as proxy:
            assert insert(proxy, f"{coll}.x", 2)["n"] == 2
            for more in ([], [{"ns": f"{coll}.y", "field": "n", "strategy": "uuid"}]):
                write(more)
                count = len(proxy.find_events("reloaded"))
                tell_to_reload(proxy)
                eventually(lambda: len(proxy.find_events("reloaded")) > count, 20)
                assert insert(proxy, f"{coll}.x", 2)["n"] == 2
            found = numbers(replica_set.client, f"{coll}.x")
            assert found == list(range(found[0], found[0] + 6))
            rules[0] = ranges_of(f"{coll}.x", coll, active=1, pick="random")
            write([])
            tell_to_reload(proxy)
            eventually(lambda: len(proxy.find_events("reloaded")) == 3, 20)
            assert insert(proxy, f"{coll}.x", 50)["n"] == 50
        found = numbers(replica_set.client, f"{coll}.x")
        assert len(set(found)) == 56 and used(replica_set, coll) == 56


def tell_to_reload(proxy: Proxy) -> None:
    os.kill(proxy.pid, signal.SIGHUP)


class Blog(Threads):
    """Another program that takes its numbers as MongoDB's blog does, and stores documents with them:
    a document chosen at random, findAndModify with $inc, and another one if that has none left."""

    def __init__(self, mongod: Mongod, collection: str, db: str):
        self.taken = 0
        self._client: pymongo.MongoClient = pymongo.MongoClient(mongod.uri, w="majority")
        self._ranges = self._client[STORE][collection]
        self._into = self._client[db]["x"]
        super().__init__(self._take)

    def _take(self) -> None:
        chance = random.Random(1)
        count = self._ranges.count_documents({})
        while not self.over.wait(0.005):
            before = self._ranges.find_one_and_update(
                {"_id": KEY.format(chance.randrange(count))}, {"$inc": {"COUNT": bson.Int64(1)}})
            if before["COUNT"] > before["MAX_VALUE"]:
                continue
            self.taken += 1
            self._into.insert_one({"k": f"blog-{self.taken}", "n": before["COUNT"]})

    def __exit__(self, *end: Any) -> None:
        super().__exit__(*end)
        self._client.close()


class TestLosses:
    @pytest.fixture
    def guarded(self, replica_set, coll) -> str:
        """A collection whose field has a unique index."""
        replica_set.client[coll]["x"].create_index("n", unique=True)
        return f"{coll}.x"

    def test_an_older_dump_is_restored(self, replica_set, start_proxy, guarded, coll):
        proxy = start_proxy(configuration(replica_set, [ranges_of(guarded, coll, 4, 1000)]))
        collection = replica_set.client[STORE][coll]
        assert insert(proxy, guarded, 10)["n"] == 10
        dump = list(collection.find())
        assert insert(proxy, guarded, 300)["n"] == 300
        for each in dump:
            collection.replace_one({"_id": each["_id"]}, each)
        for _ in range(20):
            assert insert(proxy, guarded, 20)["n"] == 20
        found = numbers(replica_set.client, guarded)
        assert len(set(found)) == len(found) == 710

    @pytest.mark.parametrize("index", [True, False], ids=["unique", "plain"])
    def test_a_document_is_deleted_under_load(self, replica_set, start_proxy, coll, index):
        ns = f"{coll}.x"
        replica_set.client[coll]["x"].create_index("n", unique=index)
        proxy = start_proxy(configuration(replica_set, [ranges_of(ns, coll, 6, 1000, active=2)]))
        audit = Audit(replica_set.uri, coll, ["x"], "n")
        with Load([lambda: proxy.address] * 2, ns,
                  excused=lambda reply: reply.get("code") == 96) as load:
            load.await_documents(60)
            number = numbers(replica_set.client, ns)[-1] // 1000
            replica_set.client[STORE][coll].delete_one({"_id": KEY.format(number)})
            load.await_documents(200)
        audit.end()
        assert not audit.violations(), audit.violations()[:5]
        assert insert(proxy, ns, 5)["n"] == 5

    @pytest.mark.full
    def test_a_range_that_was_set_back_is_noticed(self, replica_set, start_proxy, guarded, coll):
        """Without an insert."""
        proxy = start_proxy(configuration(
            replica_set, [ranges_of(guarded, coll, 1, 1000, active=1)]))
        assert insert(proxy, guarded, 30)["n"] == 30
        set_range(replica_set, coll, 0, COUNT=0)
        proxy.wait_event("counter_backwards", 30)
        eventually(lambda: documents(replica_set, coll)[0]["COUNT"] >= 30, 20)

    def test_a_foreign_duplicate_is_the_clients_own(self, replica_set, start_proxy, guarded, coll):
        replica_set.client[coll]["x"].create_index("u", unique=True, sparse=True)
        proxy = start_proxy(configuration(replica_set, [ranges_of(guarded, coll)]))
        assert insert(proxy, guarded, [{"k": 0, "u": 1}])["n"] == 1
        reply = insert(proxy, guarded, [{"k": 1, "u": 1}, {"k": 2}], ordered=False)
        assert reply["n"] == 1
        (error,) = reply["writeErrors"]
        assert (error["index"], error["code"], error["keyPattern"]) == (0, 11000, {"u": 1})

    @pytest.mark.parametrize("db", ["sticky", "random"])
    @pytest.mark.parametrize("more", [False, True], ids=["plain", "txnNumber"])
    def test_three_of_a_thousand_collide(self, robbed, coll, ordered, more, db):
        """One reply, n = 1000."""
        ns = f"{db}.{coll}"
        robbed.collection(ns).create_index("n", unique=True)
        robbed.thief.steal(ns, "n", {0: 1, 499: 1, 999: 1})
        reply = robbed.insert(ns, [{"k": k} for k in range(1000)], ordered=ordered,
                              more=session() if more else {})
        assert (reply["ok"], reply["n"]) == (1, 1000) and "writeErrors" not in reply, reply
        assert [d["k"] for d in robbed.stored(ns)] == list(range(1000))
        assert len({d["n"] for d in robbed.collection(ns).find()}) == 1003

    def test_the_store_cannot_be_reached(self, replica_set, standalone, start_proxy, coll):
        """Numbers in memory are given out; then there is an error that drivers repeat."""
        with Middleman(standalone.address) as gate:
            config = {**configuration(replica_set, [ranges_of(f"{coll}.x", coll, active=1)]),
                      "id_store": {"uri": f"{gate.uri}&serverSelectionTimeoutMS=300"}}
            proxy = start_proxy(config)
            assert insert(proxy, f"{coll}.x", 1)["n"] == 1
            gate.shut()
            assert insert(proxy, f"{coll}.x", 5)["n"] == 5
            reply = insert(proxy, f"{coll}.x", 3 * BLOCK, more=session())
            assert reply["code"] == 6 and "RetryableWriteError" in reply["errorLabels"], reply
            gate.open()
            eventually(lambda: insert(proxy, f"{coll}.x", 3 * BLOCK).get("n"), 30)
        found = numbers(replica_set.client, f"{coll}.x")
        assert len(set(found)) == len(found) == 6 + 3 * BLOCK

    def test_gaps_are_those_of_blocks(self, replica_set, coll):
        """A proxy that is killed loses two blocks of each active range at most."""
        config = configuration(replica_set, [ranges_of(f"{coll}.x", coll, 2, 10_000, active=1)])
        for _ in range(3):
            proxy = Proxy(config)
            assert insert(proxy, f"{coll}.x", 2)["n"] == 2
            proxy.kill()
        found = numbers(replica_set.client, f"{coll}.x")
        assert len(set(found)) == 6
        for number in {n // 10_000 for n in found}:
            assert gaps([n for n in found if n // 10_000 == number]) <= 3 * 2 * BLOCK
