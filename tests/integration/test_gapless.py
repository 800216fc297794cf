"""gapless: the numbers of stored documents are consecutive, whatever fails.

Every test ends with the same look: the numbers in the collection are start, start + 1, … without a
gap and without a duplicate.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import random
import re
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import bson
import pymongo
import pytest
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError

from support import wire
from support.admin import LISTEN, Admin
from support.chaos import StepRelay
from support.counters import STORE, insert
from support.full import FULL
from support.killed import insert_until_killed
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, binary, configuration
from support.servers import check_retried
from support.thief import insert_message, session
from support.threads import Threads, at_once

GAPLESS = {"field": "n", "strategy": "gapless"}
RULES = [
    {"ns": "seq.*", **GAPLESS},
    {"ns": "report.*", **GAPLESS, "report": True},
    {"ns": "text.*", **GAPLESS, "start": 7, "output": "string",
     "format": {"pad": 4, "prefix": "R-"}},
    {"ns": "short.*", **GAPLESS, "start": 2**31 - 2, "output": "int32"},
    {"ns": "two.*", **GAPLESS},
    {"ns": "two.*", "field": "c", "strategy": "counter"},
    {"ns": "id.*", "field": "_id", "strategy": "gapless", "assign": "driver"},
    {"ns": "made.*", **GAPLESS, "unique_index": "create"},
    {"ns": "bare.*", **GAPLESS},
]


def prepare(server: Mongod, ns: str) -> pymongo.collection.Collection:
    """A collection with a unique index on n, and one on u, and which refuses {v: "bad"}."""
    db, _, name = ns.partition(".")
    collection = server.client[db].create_collection(name, validator={"v": {"$ne": "bad"}})
    collection.create_index("n", unique=True, sparse=True)
    collection.create_index("u", unique=True, sparse=True)
    collection.insert_one({"u": "taken"})
    return collection


def numbers(server: Mongod, ns: str) -> list[Any]:
    db, _, name = ns.partition(".")
    return [d["n"] for d in server.client[db][name].find({"n": {"$exists": True}}).sort("n")]


def consecutive(server: Mongod, ns: str, start: int = 1) -> int:
    """How many there are."""
    found = numbers(server, ns)
    assert found == list(range(start, start + len(found))), found
    return len(found)


@pytest.fixture
def begun(server: Mongod, proxy: Proxy, coll: str) -> str:
    """The namespace of a prepared collection, in which the first number is stored."""
    return begin(server, proxy, f"seq.{coll}")


def begin(server: Mongod, proxy: Proxy, ns: str) -> str:
    prepare(server, ns)
    # The proxy looks at a collection's indexes when its first insert comes.
    eventually(lambda: insert(proxy, ns, [{"k": "first"}])["ok"], 20)
    return ns


def keys(server: Mongod, ns: str) -> list[Any]:
    """The keys of the documents, by their numbers."""
    db, _, name = ns.partition(".")
    return [d["k"] for d in server.client[db][name].find({"n": {"$exists": True}}).sort("n")]


FOREIGN = {"u": "taken"}
INVALID = {"v": "bad"}


class TestFailingDocuments:
    @pytest.mark.parametrize(("server", "numbered"), [
        ("standalone", False), ("replica_set", False), ("replica_set", True)], indirect=["server"])
    @pytest.mark.parametrize("failing", [{0}, {2}, {4}, {0, 1, 3}, {0, 1, 2, 3, 4}], ids=str)
    @pytest.mark.parametrize("fault", [FOREIGN, INVALID], ids=["foreign", "invalid"])
    def test_leave_no_gap(self, server, proxy, begun, ordered, failing, fault, numbered):
        documents = [{"k": k, **(fault if k in failing else {})} for k in range(5)]
        more = session() if numbered else {}
        reply = insert(proxy, begun, documents, ordered=ordered, more=more)
        code = 11000 if fault is FOREIGN else 121
        first = min(failing)
        told = [(e["index"], e["code"]) for e in reply.get("writeErrors", [])]
        assert told == [(k, code) for k in sorted(failing) if not ordered or k == first]
        stored = [k for k in range(5) if k not in failing and (not ordered or k < first)]
        assert reply["n"] == len(stored)
        assert keys(server, begun) == ["first", *stored]
        assert consecutive(server, begun) == 1 + len(stored)
        assert insert(proxy, begun, [{"k": "next"}])["n"] == 1
        assert consecutive(server, begun) == 2 + len(stored)

    def test_numbers_of_their_own(self, server, proxy, begun):
        reply = insert(proxy, begun, [{"k": 0}, {"k": 1, "n": 50}, {"k": 2}], ordered=False)
        assert reply["n"] == 3
        assert numbers(server, begun) == [1, 2, 3, 50]
        assert insert(proxy, begun, [{"k": 3}])["n"] == 1
        assert numbers(server, begun) == [1, 2, 3, 4, 50], "nobody has told it of the 50"
        for k in range(46):
            assert insert(proxy, begun, [{"k": k}])["n"] == 1
        assert numbers(server, begun) == list(range(1, 52)), "it meets the 50 and passes it"


class TestOtherWriters:
    """The manual's loop: insert the largest number + 1."""

    @staticmethod
    def by_hand(server: Mongod, ns: str) -> int:
        db, _, name = ns.partition(".")
        collection = server.client[db][name]
        while True:
            number = next(collection.find({"n": {"$exists": True}}).sort("n", -1).limit(1))["n"] + 1
            try:
                collection.insert_one({"k": "by hand", "n": bson.Int64(number)})
                return number
            except DuplicateKeyError:
                continue

    @pytest.mark.parametrize("count", [1, 5])
    def test_who_takes_the_next_number(self, server, proxy, begun, ordered, count):
        for _ in range(3):
            self.by_hand(server, begun)
            assert insert(proxy, begun, count, ordered=ordered)["n"] == count
        assert consecutive(server, begun) == 4 + 3 * count

    def test_all_at_once(self, replica_set, start_proxy, coll, record):
        ns = f"seq.{coll}"
        prepare(replica_set, ns)
        rules = [{"ns": ns, **GAPLESS}]
        proxies = [start_proxy(configuration(replica_set, rules)) for _ in range(2)]
        end = time.monotonic() + 4
        stored = [0] * 9
        failures: list[Any] = []

        def writer(number: int) -> None:
            choose = random.Random(number)
            with proxies[number % 2].client() as client:
                collection = client["seq"][coll]
                while time.monotonic() < end:
                    size = choose.choice([1, 1, 3, 10])
                    bad = [choose.random() < 0.05 for _ in range(size)]
                    documents = [dict(FOREIGN if each else {}) for each in bad]
                    try:
                        collection.insert_many(documents, ordered=False)
                    except BulkWriteError as failure:
                        codes = {e["keyPattern"].get("u") for e in failure.details["writeErrors"]}
                        if codes != {1}:
                            failures.append(failure.details)
                    except PyMongoError as failure:
                        failures.append(failure)
                        continue
                    stored[number] += size - sum(bad)

        def hand() -> None:
            while time.monotonic() < end:
                self.by_hand(replica_set, ns)
                stored[8] += 1
                time.sleep(0.02)

        assert insert(proxies[0], ns, 1)["n"] == 1
        at_once(hand, *(partial(writer, i) for i in range(8)))
        assert not failures, failures[:3]
        assert consecutive(replica_set, ns) == sum(stored) + 1
        assert all(count > 0 for count in stored), stored
        record("documents", sum(stored))


@pytest.mark.parametrize("server", ["replica_set"], indirect=True)
@pytest.mark.smoke
class TestAgain:
    """A driver sends a batch once more after it has lost the reply: a retryable write, which a
    standalone does not know."""

    def test_the_whole(self, server, proxy, begun, ordered):
        more = session()
        for _ in range(3):
            assert insert(proxy, begun, 4, ordered=ordered, more=more)["n"] == 4
            assert consecutive(server, begun) == 5
        assert insert(proxy, begun, 2)["n"] == 2
        assert consecutive(server, begun) == 7

    @pytest.mark.parametrize("executed", [1, 3])
    def test_of_which_a_part_is_stored(self, server, proxy, begun, ordered, executed):
        more = session()
        documents = [{"k": k} for k in range(6)]
        assert insert(proxy, begun, documents[:executed], ordered=ordered, more=more)["n"]
        assert insert(proxy, begun, 2)["n"] == 2
        reply = insert(proxy, begun, documents, ordered=ordered, more=more)
        assert reply["n"] == 6
        check_retried(reply, range(executed))
        assert consecutive(server, begun) == 9

    @pytest.mark.needs("retried_stmt_ids")  # an older server is asked for each document's _id
    def test_a_new_one_is_one_write(self, server, proxy, coll):
        """The members replicate it once; what is asked before writes nothing."""
        ns = begin(server, proxy, f"seq.{coll}")
        db = server.client.seq
        db.command("profile", 2)
        assert insert(proxy, ns, 20, more=session())["n"] == 20
        db.command("profile", 0)
        found = [(each.get("ninserted", 0), each.get("errCode", 0))
                 for each in db["system.profile"].find({"ns": ns, "op": "insert"}).sort("$natural")]
        assert [inserted for inserted, _ in found if inserted] == [20], found
        assert len(found) <= 2 and consecutive(server, ns) == 21

    def test_one_document(self, server, proxy, begun):
        more = session()
        for _ in range(2):
            assert insert(proxy, begun, 1, more=more)["n"] == 1
        assert insert(proxy, begun, 1)["n"] == 1
        assert consecutive(server, begun) == 3


class TestOtherCommands:
    def test_upserts(self, server, proxy, begun, ordered):
        updates = [{"q": {"k": k}, "u": {"$set": {"x": 1}}, "upsert": True}
                   for k in ("a", "first", "b", "a", "c")]
        with wire.WireClient(proxy.address, 30) as client:
            reply = client.call(wire.command({
                "update": begun.partition(".")[2], "updates": updates, "ordered": ordered,
                "$db": "seq"}))
        assert reply["n"] == 5 and [e["index"] for e in reply["upserted"]] == [0, 2, 4]
        assert keys(server, begun) == ["first", "a", "b", "c"]
        assert consecutive(server, begun) == 4

    def test_find_and_modify(self, server, proxy, begun):
        with proxy.client() as client:
            collection = client["seq"][begun.partition(".")[2]]
            for k in ("first", "a", "a", "b"):
                collection.find_one_and_update({"k": k}, {"$set": {"x": 1}}, upsert=True)
            with pytest.raises(DuplicateKeyError):
                collection.find_one_and_update({"k": "c"}, {"$set": FOREIGN}, upsert=True)
            TestOtherWriters.by_hand(server, begun)
            collection.find_one_and_update({"k": "d"}, {"$set": {"x": 1}}, upsert=True)
        assert keys(server, begun) == ["first", "a", "b", "by hand", "d"]
        assert consecutive(server, begun) == 5

    @pytest.mark.parametrize("acknowledged", [True, False])
    def test_without_a_write_concern_are_refused(self, server, proxy, begun, acknowledged):
        message = insert_message(begun, [{"k": 1}], more={"writeConcern": {"w": 0}},
                                 flags=0 if acknowledged else wire.MORE_TO_COME)
        with wire.WireClient(proxy.address, 30) as client:
            client.send(message)
            if acknowledged:
                reply = client.receive().body
                assert (reply["code"], reply["codeName"]) == (96, "OperationFailed")
                assert "w: 0" in reply["errmsg"]
            assert client.call(wire.command({"ping": 1, "$db": "admin"}))["ok"]
        assert consecutive(server, begun) == 1

    def test_wait_for_a_majority(self, replica_set, replica_proxy, coll):
        ns = begin(replica_set, replica_proxy, f"seq.{coll}")
        unreachable = {"writeConcern": {"w": 3, "wtimeout": 1}}
        reply = insert(replica_proxy, ns, 1, more=unreachable)
        assert reply["n"] == 1 and reply["writeConcernError"]["code"] in (64, 100)
        assert insert(replica_proxy, ns, 1, more={"writeConcern": {"w": 1}})["n"] == 1
        assert consecutive(replica_set, ns) == 3

    def test_next(self, server, proxy, begun):
        with proxy.client() as client:
            with pytest.raises(OperationFailure, match="for documents that are being stored") as no:
                client.admin.command("idproxy", "next", ns=begun, field="n")
            assert no.value.code == 96
        assert insert(proxy, begun, 1)["n"] == 1
        assert consecutive(server, begun) == 2


class TestValues:
    def test_text(self, server, proxy, coll):
        ns = begin(server, proxy, f"text.{coll}")
        assert insert(proxy, ns, 3)["n"] == 3
        assert numbers(server, ns) == ["R-0007", "R-0008", "R-0009", "R-0010"]

    def test_the_last_one(self, server, proxy, coll):
        ns = begin(server, proxy, f"short.{coll}")
        assert insert(proxy, ns, 2)["code"] == 96
        assert insert(proxy, ns, 1)["n"] == 1
        reply = insert(proxy, ns, 1)
        assert reply["code"] == 96 and "2147483647" in reply["errmsg"]
        assert numbers(server, ns) == [2**31 - 2, 2**31 - 1]

    def test_as_id(self, server, proxy, coll):
        server.client["id"].create_collection(coll, validator={"v": {"$ne": "bad"}})
        with proxy.client() as client:
            collection = client["id"][coll]
            collection.insert_many([{"k": 0}, {"k": 1}])
            with pytest.raises(BulkWriteError):
                collection.insert_many([{"k": 2}, {"k": 3, **INVALID}, {"k": 4}], ordered=False)
        assert sorted(d["_id"] for d in server.client["id"][coll].find()) == [1, 2, 3, 4]


class TestReadiness:
    def test_demands_a_unique_index(self, server, proxy, coll):
        ns = f"bare.{coll}"
        reply = eventually(lambda: (found := insert(proxy, ns, 1))["code"] == 96 and found, 20)
        assert "no unique index guards the field" in reply["errmsg"]
        assert f'.getCollection("{coll}").createIndex({{"n": -1}}, {{unique: true' in reply["errmsg"]
        server.client["bare"][coll].create_index("n", unique=True)
        eventually(lambda: insert(proxy, ns, 1)["ok"], 20)
        assert consecutive(server, ns) == 1

    def test_makes_one_if_it_may(self, server, proxy, coll):
        eventually(lambda: insert(proxy, f"made.{coll}", 1)["ok"], 20)
        assert consecutive(server, f"made.{coll}") == 1

    def test_nothing_is_wrong_while_it_is_made(self, replica_set, start_proxy, coll):
        ns = f"{coll}.a"
        rules = [{"ns": ns, **GAPLESS, "unique_index": "create"}]
        proxy = start_proxy(configuration(replica_set, rules))
        eventually(lambda: insert(proxy, ns, 1)["ok"], 20)
        assert "n_idproxy" in replica_set.client[coll]["a"].index_information()
        assert not proxy.find_events("gapless_refused")

    def test_a_check_says_that_it_would_be_made(self, replica_set, coll, tmp_path):
        rules = [{"ns": f"{coll}.a", **GAPLESS, "unique_index": "create"}]
        file = tmp_path / "check.yaml"
        file.write_text(json.dumps(configuration(replica_set, rules)))
        replica_set.client[coll]["a"].insert_many([{} for _ in range(200)])  # too many to read all of them
        command = [binary(), "--check-config", "--connect", "--config", str(file)]
        for note in (True, False):
            checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert checked.returncode == 0, checked.stdout + checked.stderr
            assert "NOT READY" not in checked.stdout
            assert ("the proxy makes the unique index" in checked.stdout) == note
            replica_set.client[coll]["a"].create_index("n", unique=True, sparse=True)

    def test_before_the_first_insert(self, replica_set, start_proxy, coll, tmp_path):
        prepare(replica_set, f"{coll}.there").insert_one({"n": 41})
        rules = [{"ns": f"{coll}.there", **GAPLESS}, {"ns": f"{coll}.none", **GAPLESS}]
        admin = Admin(proxy := start_proxy(configuration(replica_set, rules, admin=LISTEN)))
        ready = proxy.wait_event("ready")
        assert ready["rules_ready"] == f"0 ({coll}.there, n)"
        assert ready["rules_not_ready"] == f"1 ({coll}.none, n)"
        metrics = admin.metrics()
        assert metrics("idproxy_rule_next_number", rule="0") == 42
        assert metrics("idproxy_store_requests_waiting") == 0
        with proxy.client() as client:
            there, none = client.admin.command("idproxy", "status")["rules"]
        assert there["ready"] and there["numbers"][0]["next"] == 42
        assert not none["ready"]
        file = tmp_path / "check.yaml"
        file.write_text(json.dumps(configuration(replica_set, rules)))
        checked = subprocess.run([binary(), "--check-config", "--connect", "--config", str(file)],
                                 capture_output=True, text=True, timeout=60)
        assert "next number: 42" in checked.stdout and "NOT READY" in checked.stdout
        assert checked.returncode == 69
        assert replica_set.client[STORE]["gaplessFloors"].find_one({"_id": f"{coll}.there.n"}) is None


class TestFloor:
    @pytest.mark.parametrize("floor, after", [(True, 5), (False, 4)])
    def test_the_highest_number_was_deleted(self, replica_set, start_proxy, coll, floor, after):
        ns = f"{coll}.a"
        collection = prepare(replica_set, ns)
        rules = [{"ns": ns, **GAPLESS, "floor": floor}]
        proxy = start_proxy(configuration(replica_set, rules))
        assert insert(proxy, ns, 4)["n"] == 4
        proxy.stop()
        collection.delete_one({"n": 4})
        proxy = start_proxy(configuration(replica_set, rules))
        assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(replica_set, ns) == [1, 2, 3, after]

    def test_of_a_transaction(self, replica_set, start_proxy, coll):
        ns = f"{coll}.a"
        collection = prepare(replica_set, ns)
        proxy = start_proxy(configuration(replica_set, [{"ns": ns, **GAPLESS}]))
        assert insert(proxy, ns, 3)["n"] == 3
        with proxy.client() as client, client.start_session() as running:
            with running.start_transaction():
                client[coll]["a"].insert_one({}, session=running)
        collection.delete_one({"n": 4})
        assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(replica_set, ns) == [1, 2, 3, 5]

    def test_is_kept_while_the_proxy_runs(self, server, proxy, begun):
        assert insert(proxy, begun, 3)["n"] == 3
        floors = server.client[STORE]["gaplessFloors"]
        eventually(lambda: floors.find_one({"_id": f"{begun}.n", "floor": 4}))


class TestThePage:
    """The example of docs/strategies.md#gapless."""

    def test_is_right(self, replica_set, start_proxy):
        page = (pathlib.Path(__file__).parents[2] / "docs" / "strategies.md").read_text()
        section = page.split("\n## gapless\n")[1].split("\n## ")[0]
        (rules,) = re.findall(r"(?s)```yaml\nrules:\n(.*?)```", section)
        rule: dict[str, Any] = dict(re.findall(r"(\w+): (.*)", rules))
        proxy = start_proxy(configuration(
            replica_set, [{**rule, "start": int(rule["start"])}]))
        rows = re.findall(r"(?m)^\| `(\[.*?\])`(.*?) \| (.*?) \|$", section)
        assert len(rows) == 4
        expected: dict[str, int] = {}
        with proxy.client() as client, client.start_session() as running:
            collection = client["shop"]["invoices"]
            eventually(lambda: client.admin.command("idproxy", "status")["rules"][0]["ready"], 20)
            for documents, how, stored in rows:
                batch = json.loads(documents)
                expected |= {k: int(n) for k, n in re.findall(r"`(\w)` (\d+)", stored)}
                if "aborted" in how:
                    running.start_transaction()
                    collection.insert_many(batch, session=running)
                    running.abort_transaction()
                elif "11000" in stored:
                    with pytest.raises(BulkWriteError) as failure:
                        collection.insert_many(batch, ordered="unordered" not in how)
                    assert [e["code"] for e in failure.value.details["writeErrors"]] == [11000]
                else:
                    collection.insert_many(batch)
        found = {d["_id"]: d["number"] for d in replica_set.client["shop"]["invoices"].find()}
        assert found == expected and len(found) == 5


class TestReload:
    def test_goes_on(self, replica_set, start_proxy, coll, tmp_path):
        ns = f"{coll}.a"
        prepare(replica_set, ns)
        config = configuration(replica_set, [{"ns": ns, **GAPLESS}])
        config |= {"listen": {"address": "127.0.0.1", "port": 0}, "admin": {"listen": None},
                   "log": {"format": "json"}}
        file = tmp_path / "proxy.yaml"
        file.write_text(json.dumps(config))
        proxy = start_proxy(file)
        assert insert(proxy, ns, 2)["n"] == 2
        for change in ({}, {"retry": {"attempts": 3}}, {"start": 100}):
            config["rules"] = [{"ns": ns, **GAPLESS, **change}]
            file.write_text(json.dumps(config))
            before = len(proxy.find_events("reloaded"))
            proxy.process.send_signal(1)
            eventually(lambda: len(proxy.find_events("reloaded")) > before)
            assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(replica_set, ns) == [1, 2, 3, 4, 100]


class TestTransactions:
    @pytest.fixture
    def client(self, replica_proxy: Proxy) -> Iterator[pymongo.MongoClient]:
        with replica_proxy.client() as connected:
            yield connected

    @pytest.fixture
    def ns(self, replica_set: Mongod, replica_proxy: Proxy, coll: str) -> str:
        return begin(replica_set, replica_proxy, f"seq.{coll}")

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_several_statements(self, replica_set, replica_proxy, client, ns, coll, end):
        collection = client["seq"][coll]
        with client.start_session() as running:
            running.start_transaction()
            collection.insert_one({"k": "a"}, session=running)
            collection.insert_many([{"k": "b"}, {"k": "c"}], session=running)
            collection.update_one({"k": "d"}, {"$set": {"x": 1}}, upsert=True, session=running)
            collection.insert_one({"k": "e"}, session=running)
            running.commit_transaction() if end == "commit" else running.abort_transaction()
        expected = ["first", *"abcde"] if end == "commit" else ["first"]
        assert keys(replica_set, ns) == expected
        # The end of the transaction was noticed: nothing collides.
        for k in range(3):
            assert insert(replica_proxy, ns, [{"k": k}])["n"] == 1
        assert consecutive(replica_set, ns) == len(expected) + 3

    def test_one_after_the_other(self, replica_set, client, ns, coll):
        collection = client["seq"][coll]
        calls = 0

        def callback(running: Any) -> None:
            nonlocal calls
            calls += 1
            collection.insert_one({"k": calls}, session=running)

        with client.start_session() as running:
            for _ in range(5):
                running.with_transaction(callback)
        assert calls == 5, "none had to run again"
        assert consecutive(replica_set, ns) == 6

    def test_a_failing_statement(self, replica_set, replica_proxy, client, ns, coll):
        collection = client["seq"][coll]
        with client.start_session() as running:
            running.start_transaction()
            collection.insert_one({"k": "a"}, session=running)
            with pytest.raises(DuplicateKeyError):
                collection.insert_one({"k": "b", **FOREIGN}, session=running)
        assert insert(replica_proxy, ns, 2)["n"] == 2
        assert consecutive(replica_set, ns) == 3

    def test_at_once(self, replica_set, replica_proxy, ns, coll):
        """They take each other's numbers, and the driver runs one of them again."""
        def run() -> None:
            with replica_proxy.client() as own, own.start_session() as running:
                for _ in range(4):
                    running.with_transaction(lambda s: (
                        own["seq"][coll].insert_one({"k": 1}, session=s),
                        own["seq"][coll].insert_one({"k": 2}, session=s)))

        at_once(run, run)
        assert consecutive(replica_set, ns) == 17

    def test_who_waits_for_it_does_not_hold_it_up(self, replica_set, replica_proxy, client, ns,
                                                  coll):
        collection = client["seq"][coll]
        with client.start_session() as running:
            running.start_transaction()
            collection.insert_one({"k": "a"}, session=running)
            other = partial(insert, replica_proxy, ns, [{"k": "other"}])
            with Threads(other, other):
                busy = {"active": True, "op": "insert", "ns": ns}
                eventually(lambda: list(replica_set.client.admin.aggregate(
                    [{"$currentOp": {}}, {"$match": busy}])), what="an insert that waits in the server")
                collection.insert_one({"k": "b"}, session=running)
                collection.insert_one({"k": "c"}, session=running)
                running.commit_transaction()
        assert keys(replica_set, ns) == ["first", "a", "b", "c", "other", "other"]
        assert consecutive(replica_set, ns) == 6


_keys = itertools.count()


class TestLostConnections:
    """Between the proxy and the server, before and after each write and each reply."""

    @pytest.mark.parametrize("retryable", [True, False])
    def test_at_every_step(self, replica_set, start_proxy, coll, retryable):
        ns = f"seq.{coll}"
        prepare(replica_set, ns)
        with StepRelay(replica_set.address, 0.12, coll) as relay:
            proxy = start_proxy(configuration(relay, [{"ns": ns, **GAPLESS}], replica_set))
            acknowledged: set[int] = set()
            refused: set[int] = set()

            def writer(number: int) -> None:
                choose = random.Random(number)
                with proxy.client(retryWrites=retryable) as client:
                    for _ in range(120 if FULL else 30):
                        size = choose.choice([1, 2, 5])
                        batch = [{"k": next(_keys), **(FOREIGN if choose.random() < 0.05 else {})}
                                 for _ in range(size)]
                        try:
                            client["seq"][coll].insert_many(batch, ordered=False)
                            acknowledged.update(d["k"] for d in batch)
                        except BulkWriteError:
                            refused.update(d["k"] for d in batch if "u" in d)
                        except PyMongoError:
                            pass

            at_once(*(partial(writer, i) for i in range(4)), timeout=120)
            assert sum(relay.dropped.values()) > 10
        count = consecutive(replica_set, ns)
        found = keys(replica_set, ns)
        assert len(set(found)) == count, "none twice"
        assert acknowledged <= set(found) and not refused & set(found)
        assert count > 50

    def test_the_proxy_is_killed(self, replica_set, start_proxy, coll):
        ns = f"seq.{coll}"
        prepare(replica_set, ns)
        rules = [{"ns": ns, **GAPLESS}]
        kept = start_proxy(configuration(replica_set, rules))
        acknowledged: set[int] = set()
        for _ in range(3):
            acknowledged.update(insert_until_killed(
                kept, Proxy(configuration(replica_set, rules)), ns,
                lambda _: {"k": next(_keys)}))
            consecutive(replica_set, ns)
        assert acknowledged <= set(keys(replica_set, ns))
