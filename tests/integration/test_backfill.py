"""mongo-idproxy backfill: documents from before their rule get their values, in order, whatever happens
meanwhile, and no value twice."""

from __future__ import annotations

import base64
import functools
import json
import os
import pathlib
import pty
import random
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import bson
import pymongo
import pytest
from bson import Binary, Decimal128, Int64, ObjectId

from support.backfill import Backfill, Done, failing, updated_twice
from support.counters import STORE, Load, insert, set_counter
from support.guarded import Guarded
from support.mongod import Mongod
from support.process import free_port, memory
from support.proxy import Proxy, binary, configuration
from support.replica_set import ReplicaSet
from support.secrets import PASSWORD
from support.secured import STORE_ACTIONS
from support.threads import at_once
from support.typed import create_index
from support.values import PERMUTED

ROOT = pathlib.Path(__file__).resolve().parents[2]
DB = "backfill"
DOCUMENTS = 2000


def rule(coll: str, field: str = "n", strategy: str = "counter", **more: Any) -> dict[str, Any]:
    return {"ns": f"{DB}.{coll}", "field": field, "strategy": strategy, **more}


class Place:
    """A collection, and how to backfill it."""

    def __init__(self, mongod: Any, directory: pathlib.Path, coll: str, **more: Any):
        self.client: pymongo.MongoClient = mongod.client
        self.ns = f"{DB}.{coll}"
        self.collection = mongod.client[DB][coll]
        self.field = more.pop("field", "n")
        self.config = configuration(mongod, [rule(coll, self.field, **more)])
        self._directory = directory

    def fill(self, count: int = DOCUMENTS, **more: Any) -> None:
        self.collection.insert_many([{"k": k, **more} for k in range(count)])

    def start(self, *options: str, **more: Any) -> Backfill:
        return Backfill(self._directory, self.config, self.ns, self.field, *options, **more)

    def run(self, *options: str) -> Done:
        return self.start(*options).end()

    def values(self, sort: str = "_id", order: int = 1) -> list[Any]:
        """In this order, of all documents."""
        found = []
        for document in self.collection.find({}, sort=[(sort, order)]):
            for name in self.field.split("."):
                document = document[name]
            found.append(document)
        return found


@pytest.fixture
def place(replica_set: Mongod, tmp_path: pathlib.Path, coll: str) -> Callable[..., Place]:
    def make(**more: Any) -> Place:
        return Place(replica_set, tmp_path, coll, **more)
    return make


class TestValues:
    def test_numbers_in_the_order_of_id_behind_those_given(self, place, start_proxy):
        there = place()
        there.fill()
        proxy = start_proxy(there.config)
        assert insert(proxy, there.ns, [{"k": -1}, {"k": -2}])["n"] == 2
        done = there.run()
        assert done.code == 0, done
        assert (done.number("given"), done.number("had one before"), done.number("left")) == (
            DOCUMENTS, 2, 0)
        assert "2,000 documents of" in done.errors and "waiting" not in done.errors
        old = there.collection.find({"k": {"$gte": 0}}, sort=[("_id", 1)])
        given = [document["n"] for document in old]
        first = given[0]
        assert first >= 3 and given == list(range(first, first + DOCUMENTS))
        assert all(isinstance(value, bson.Int64) for value in given)
        assert f"{first} to {given[-1]}\n" in done.report
        assert insert(proxy, there.ns, 1200)["n"] == 1200
        assert len(set(there.values())) == DOCUMENTS + 1202
        done = there.run()
        assert done.code == 0 and done.number("given") == 0, done

    @pytest.mark.parametrize("minus, index", [
        pytest.param("", False, id="up", marks=pytest.mark.full),
        pytest.param("-", True, id="down-index")])
    def test_in_another_order(self, place, minus, index):
        """Also where many have the same."""
        there = place()
        created = list(range(300)) * 2
        random.Random(1).shuffle(created)
        there.collection.insert_many([{"created": each} for each in created])
        if index:
            there.collection.create_index("created")
        done = there.run("--sort", f"{minus}created")
        assert done.code == 0, done
        assert there.values() != sorted(there.values())
        found = there.collection.find({}, sort=[("n", 1)])
        in_order = [document["created"] for document in found]
        assert in_order == sorted(created, reverse=bool(minus))
        assert sorted(there.values()) == list(range(1, 601))

    @pytest.mark.full
    def test_text_down_from_a_start(self, place):
        there = place(start=900, step=-2, output="string", format={"prefix": "R-", "pad": 4})
        there.fill(10)
        assert there.run().code == 0
        assert there.values() == [f"R-{n:04}" for n in range(900, 880, -2)]

    @pytest.mark.parametrize("strategy, kind", [
        ("uuid", bson.Binary), pytest.param("objectid", bson.ObjectId, marks=pytest.mark.full)])
    def test_of_other_types(self, place, strategy, kind):
        there = place(strategy=strategy)
        there.fill()
        done = there.run()
        assert done.code == 0 and done.number("given") == DOCUMENTS, done
        values = there.values()
        assert len(set(values)) == DOCUMENTS and {type(value) for value in values} == {kind}

    def test_random_digits_need_a_unique_index(self, place):
        """Nothing else would notice that one is taken. There are 9,000: many are drawn
        twice, since the store does not look up what is free through a hidden index."""
        there = place(strategy="random-digits", digits=4, leading_zeros=False, max_fill=0.9)
        there.fill()
        refused = there.run()
        assert refused.code == 69 and refused.report == "", refused
        create_index(there.client, refused.errors)
        db, _, collection = there.ns.partition(".")
        (name,) = (name for name in there.client[db][collection].index_information()
                   if name != "_id_")
        there.client[db].command("collMod", collection, index={"name": name, "hidden": True})
        done = there.run()
        assert done.code == 0 and done.number("given") == DOCUMENTS, done
        assert done.number("duplicates renewed") > 50, done
        values = there.values()
        assert len(set(values)) == DOCUMENTS and {len(str(value)) for value in values} == {4}

    def test_of_a_counter_at_its_max(self, place):
        there = place(max=30)
        there.fill(40)
        done = there.run()
        assert done.code == 1 and done.number("given") == 30 and done.number("left") == 10, done
        assert "10: there are no values: all numbers up to max, 30, have been handed out" in done.report
        assert sorted(d["n"] for d in there.collection.find({"n": {"$exists": True}})) == list(
            range(1, 31))

    def test_of_a_counter_that_has_fallen_behind(self, place):
        """Its numbers are stored already: it is healed, and no number is stored twice."""
        there = place()
        there.collection.insert_many([{"n": bson.Int64(n)} for n in range(1, 501)])
        there.collection.create_index("n", unique=True, sparse=True)
        there.fill(500)
        set_counter(there.client, there.ns, 1)
        done = there.run()
        assert done.code == 0 and 0 < done.number("duplicates renewed") < 10, done
        values = there.values()
        assert len(set(values)) == 1000 and values[500:] == sorted(values[500:])


class TestDocuments:
    def test_that_have_something_in_the_way(self, place):
        """A dotted field: null, scalars and arrays on the path."""
        there = place(field="a.n")
        open_ones = [{"a": {}}, {}, {"a": {"x": 1}}]
        with_value = [{"a": {"n": 7}}, {"a": {"n": None}}, {"a": {"n": []}}, {"a": [{"n": 1}]}]
        blocked = [{"a": 5}, {"a": None}, {"a": []}, {"a": [{"x": 1}]}, {"a": "text"}]
        there.collection.insert_many(open_ones + with_value + blocked)
        dry = there.run("--dry-run")
        assert dry.code == 1 and dry.number("would get a value") == 3, dry
        assert dry.number("have one") == 4 and dry.number("cannot get one") == 5, dry
        done = there.run()
        assert done.code == 1 and done.number("given") == 3 and done.number("left") == 5, done
        assert "5: a part of the path a.n is not an object, such as {" in done.report
        after = list(there.collection.find({}, {"_id": 0}))
        assert [document["a"]["n"] for document in after[:3]] == [8, 9, 10]
        assert after[1] == {"a": {"n": 9}} and after[2] == {"a": {"x": 1, "n": 10}}
        assert after[3:] == [{k: v for k, v in document.items() if k != "_id"}
                             for document in with_value + blocked]
        shown = re.search(r'left: db\.getSiblingDB\("(.*?)"\)\.getCollection\("(.*?)"\)\.find\((.*)\)',
                          done.report)
        query = json.loads(re.sub(r"\$exists", '"$exists"', shown[3]))
        assert there.client[shown[1]][shown[2]].count_documents(query) == 5

    @pytest.mark.full
    def test_with_null(self, place):
        there = place(assign="missing-or-null")
        there.collection.insert_many([{"n": None}, {"n": [None]}, {"n": 3}, {}, {"n": "text"}])
        done = there.run()
        assert done.code == 0 and done.number("given") == 2, done
        assert there.values() == [4, [None], 3, 5, "text"]

    def test_with_zeros(self, place):
        there = place(assign="missing-or-zero")
        zeros = [None, 0, Int64(0), -0.0, Decimal128("0E3"), "", ObjectId("0" * 24),
                 Binary(bytes(16), 4), Binary(bytes(16), 3)]
        values = [3, [0], [None], "-", " ", "\n", "0", False, bytes(16), {}]
        there.collection.insert_many([*({"n": zero} for zero in zeros), {},
                                      *({"n": value} for value in values)])
        done = there.run()
        assert done.code == 0 and done.number("given") == len(zeros) + 1, done
        assert there.values() == [*range(4, 14), *values]

    def test_with_zeros_that_are_left(self, place):
        """The command that shows them finds each kind."""
        there = place(assign="missing-or-zero")
        zeros = [None, 0, "", ObjectId("0" * 24), Binary(bytes(16), 4), Binary(bytes(16), 3)]
        there.collection.insert_many([{"n": zero} for zero in [*zeros, 7]])
        there.client[DB].command("collMod", there.collection.name, validator={"paid": True})
        done = there.run()
        assert done.code == 1 and done.number("left") == len(zeros), done
        shown = re.search(r"left: .*\.find\((.*)\)", done.report)
        query = eval(shown[1].replace("$in", "'$in'"), {
            "null": None, "ObjectId": ObjectId, "UUID": lambda text: Binary.from_uuid(UUID(text)),
            "BinData": lambda subtype, text: Binary(base64.b64decode(text), subtype)})
        assert there.collection.count_documents(query) == len(zeros)

    def test_that_the_server_refuses_cost_no_number(self, place):
        """A validator that came later: every third document is left."""
        there = place()
        there.collection.insert_many([{"k": k, "paid": k % 3 != 1} for k in range(60)])
        there.client[DB].command("collMod", there.collection.name, validator={"paid": True})
        done = there.run()
        assert done.code == 1 and done.number("given") == 40 and done.number("left") == 20, done
        assert "20: the collection's validator refuses it (error 121), such as" in done.report
        found = [d["n"] for d in there.collection.find({"paid": True}, sort=[("_id", 1)])]
        assert found == list(range(1, 41))
        assert there.collection.count_documents({"n": {"$exists": True}}) == 40

    @pytest.mark.full
    def test_with_ids_of_every_type(self, place):
        there = place()
        ids = [1, 2.5, "text", None, {"a": 1}, {"$ref": "x", "$id": 1}, True, bson.Binary(b"x"),
               bson.ObjectId(), bson.Decimal128("7"), bson.Timestamp(1, 2), bson.MinKey(), {}]
        there.collection.insert_many([{"_id": each} for each in ids])
        done = there.run()
        assert done.code == 0 and done.number("given") == len(ids), done
        assert there.values() == list(range(1, len(ids) + 1))


class TestInterrupted:
    def test_kill_9_twice_while_an_application_inserts(self, place, start_proxy):
        there = place()
        there.fill()
        proxy = start_proxy(there.config)
        with Load([lambda: proxy.address], there.ns, sizes=(1, 3)) as load:
            for given in (300, 1100):
                running = there.start("--rate", "400")
                running.await_given(there.collection, "n", given, client=None)
                running.kill()
            done = there.run()
            load.await_documents(20)
        assert done.code == 0, done
        values = there.values()
        assert len(set(values)) == len(values) == DOCUMENTS + load.documents
        assert not updated_twice(there.client, there.ns)
        old = [d["n"] for d in there.collection.find({"client": None}, sort=[("_id", 1)])]
        assert old == sorted(old)

    def test_ctrl_c_leaves_no_gap(self, place):
        there = place()
        there.fill()
        running = there.start("--rate", "500")
        running.await_given(there.collection, "n", 1)
        done = running.stop()
        assert done.code == 1, done
        assert 0 < done.number("given") < DOCUMENTS
        assert done.number("given") + done.number("left") == DOCUMENTS
        assert "stopped by a signal" in done.report
        assert there.run().code == 0
        assert there.values() == list(range(1, DOCUMENTS + 1))

    @pytest.mark.full
    def test_two_at_the_same_time(self, place):
        there = place()
        there.fill()
        both = [there.start(), there.start("--sort", "k")]
        done = [each.end() for each in both]
        assert [each.code for each in done] == [0, 0], done
        assert sum(each.number("given") for each in done) == DOCUMENTS
        assert len(set(there.values())) == DOCUMENTS
        assert not updated_twice(there.client, there.ns)

    @pytest.mark.parametrize("fault", [
        pytest.param({"writeConcernError": {"code": 64, "errmsg": "no majority"}}, id="carried-out"),
        pytest.param({"closeConnection": True}, id="lost", marks=pytest.mark.full),
        pytest.param({"errorCode": 91}, id="stepping-down", marks=pytest.mark.full)])
    def test_updates_that_nobody_confirms(self, place, replica_set, fault):
        """They are repeated with the same values. The first update only asks for the privilege."""
        there = place()
        there.fill()
        with failing(replica_set, ["update"], {"skip": 1}, namespace=there.ns,
                     **fault) as await_failures:
            running = there.start()
            await_failures(3)
        done = running.end()
        assert done.code == 0 and done.number("given") == DOCUMENTS, done
        assert "waiting: the servers do not confirm an update" in done.errors
        assert there.values() == list(range(1, DOCUMENTS + 1))
        assert not updated_twice(there.client, there.ns)

    @pytest.mark.full
    def test_a_cursor_that_is_lost(self, place, replica_set):
        there = place()
        there.fill(3500)
        with failing(replica_set, ["getMore"], {"times": 2}, errorCode=43):
            done = there.run()
        assert done.code == 0, done
        assert there.values() == list(range(1, 3501))


class TestDryRun:
    def test_changes_nothing_and_says_what_would_happen(self, place):
        there = place(start=1001)
        there.fill(1998)
        there.collection.insert_many([{"n": 5}, {"n": 6}])
        there.collection.create_index("n", unique=True, sparse=True)
        oplog = there.client.local["oplog.rs"]
        mine = {"ns": re.compile(rf"^({DB}|idproxy)\.")}
        before = oplog.count_documents(mine)
        done = there.run("--dry-run")
        assert done.code == 0, done
        assert done.number("would get a value") == 1998 and done.number("have one") == 2
        assert "1,998  1001 to 2998\n" in done.report
        assert oplog.count_documents(mine) == before
        assert there.run().code == 0
        assert there.values()[:1998] == list(range(1001, 2999))

    @pytest.mark.full
    def test_shows_samples_of_other_strategies(self, place):
        there = place(strategy="uuid", version=7)
        there.fill(3)
        done = there.run("--dry-run")
        assert done.code == 0, done
        assert re.search(r'3  for example UUID\("[\da-f-]{36}"\) and UUID\("[\da-f-]{36}"\)\n',
                         done.report)
        assert there.collection.count_documents({"n": {"$exists": True}}) == 0

    @pytest.mark.full
    def test_warns_of_too_few_numbers(self, place):
        there = place(max=10)
        there.fill(30)
        there.collection.create_index("n")
        assert "1 to 10, the counter's max: too few for all (10 left)" in there.run("--dry-run").report


class TestPace:
    @pytest.mark.full
    def test_rate(self, place):
        """300 documents at 200 a second: the second batch waits until a second is over."""
        there = place()
        there.fill(300)
        begun = time.monotonic()
        assert there.run("--rate", "200").code == 0
        assert time.monotonic() - begun >= 1
        assert there.values() == list(range(1, 301))

    @pytest.mark.full
    def test_a_bar_on_a_terminal(self, place):
        there = place()
        there.fill()
        terminal, side = pty.openpty()
        running = there.start(errors=side)
        os.close(side)
        shown = b""
        try:
            while data := os.read(terminal, 65536):
                shown += data
        except OSError:
            pass  # the other side is closed
        os.close(terminal)
        done = running.end()
        assert done.code == 0, done
        assert re.search(rb"\r\[=+\]  100 %  2,000 of 2,000", shown), shown
        assert shown.endswith(b"\r\n")


class TestNotPossible:
    def run(self, *arguments: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([binary(), "backfill", *map(str, arguments)], capture_output=True,
                              text=True, timeout=60)

    @pytest.fixture
    def file(self, tmp_path: pathlib.Path) -> pathlib.Path:
        file = tmp_path / "config.yaml"
        address = f"127.0.0.1:{free_port()}"
        file.write_text(json.dumps({"upstream": {"uri": f"mongodb://{address}"}, "rules": [
            {"ns": "shop.*", "field": "number", "strategy": "counter"},
            {"ns": "shop.orders", "field": "u", "strategy": "uuid"}]}))
        return file

    @pytest.mark.parametrize("options, said", {
        ("--ns", "shop.orders"): "--field",
        ("--field", "n"): "--ns",
        ("--ns", "shop.orders", "--field", "number", "--rate", "0"): "--rate",
        ("--ns", "shop.orders", "--field", "number", "--nonsense"): "--nonsense",
        ("--ns", "shop", "--field", "number"): "--ns must be a database and a collection",
        ("--ns", "shop.orders", "--field", "number", "--sort", "-"): "--sort must be a field",
        ("--ns", "shop.orders", "--field", "x"): "no rule of .* fills x in shop.orders; its rules "
                                                 "fill number, u",
        ("--ns", "shop.orders", "--field", "u", "--period-from", "at"):
            "--period-from is for rules with `reset`, or with a date in the `template`, which the "
            "rule for u in shop.orders does not have",
    }.items(), ids=lambda each: each if isinstance(each, str) else " ".join(each))
    def test_usage(self, file, options, said):
        done = self.run("--config", file, *options)
        assert done.returncode == 64 and done.stdout == "", done
        assert re.match(rf"mongo-idproxy: .*{said}", done.stderr), done

    def test_a_file_that_cannot_be_read_or_is_wrong(self, tmp_path, file):
        at = ("--ns", "shop.orders", "--field", "u")
        assert self.run("--config", tmp_path / "nowhere", *at).returncode == 77
        file.write_text("rules: [{ns: shop.orders, feild: u, strategy: uuid}]")
        done = self.run("--config", file, *at)
        assert done.returncode == 78 and "did you mean 'field'" in done.stderr

    def test_no_server(self, file):
        done = self.run("--config", file, "--ns", "shop.orders", "--field", "u")
        assert done.returncode == 69, done
        assert "the id store (upstream.uri) does not answer: " in done.stderr

    def test_a_view(self, place):
        there = place()
        there.client[DB].command("create", there.collection.name, viewOn="other")
        done = there.run()
        assert done.code == 69 and "it is a view or a time-series collection" in done.errors, done

    def test_a_rule_that_is_not_ready(self, place):
        there = place(unique_index="require")
        there.fill(10)
        for options in ((), ("--dry-run",)):
            done = there.run(*options)
            assert done.code == 69 and done.report == "", done
            assert "the rule for n in " in done.errors and "is not ready: no unique" in done.errors
        create_index(there.client, done.errors)
        assert there.run().code == 0
        assert there.values() == list(range(1, 11))

    @pytest.mark.full
    def test_a_missing_privilege_with_the_command_that_helps(self, tmp_path, coll):
        """The one that is printed, and the one of docs/backfill.md, which grants less."""
        page = (ROOT / "docs" / "backfill.md").read_text()
        with Guarded() as mongod:
            mongod.add_user("idproxy", [{"role": "readWrite", "db": "idproxy"}], [
                {"resource": {"db": "", "collection": ""}, "actions": STORE_ACTIONS}])
            there = Place(mongod, tmp_path, coll)
            there.config["id_store"] = {"uri": mongod.uri_of("idproxy")}
            there.fill(10)
            refused = there.run()
            assert refused.code == 69 and refused.report == "", refused
            assert f"a backfill needs find and update on {there.ns}: " in refused.errors
            assert PASSWORD not in refused.errors

            role, privileges = re.search(
                r'db\.grantPrivilegesToRole\("(\w+)", (\[.*\])\)', page).groups()
            privileges = json.loads(re.sub(r"([{ ])(\w+):", r'\1"\2":', privileges))
            privileges[0]["resource"] = {"db": DB, "collection": coll}
            mongod.client.admin.command("grantPrivilegesToRole", role, privileges=privileges)
            assert there.run("--dry-run").code == 0
            mongod.client.admin.command("revokePrivilegesFromRole", role, privileges=privileges)

            db, user, role, of = map(json.loads, re.search(
                r"db\.getSiblingDB\((.*?)\)\.grantRolesToUser\((.*?), \[\{role: (.*?), db: (.*?)\}\]",
                refused.errors).groups())
            mongod.client[db].command("grantRolesToUser", user, roles=[{"role": role, "db": of}])
            done = there.run()
            assert done.code == 0 and done.number("given") == 10, done


class TestMissingIndex:
    """Said before the first value is given, with the command, in the words of --check-config --connect."""

    WARNING = "mongo-idproxy: no unique index keeps a value from being stored twice: "

    def test_is_said_at_the_start(self, place):
        there = place()
        there.fill(10)
        running = there.start("--rate", "1")
        assert running.process.stderr.readline().decode().startswith(self.WARNING)
        assert there.collection.count_documents({"n": {"$exists": True}}) <= 1
        running.kill()
        done = there.run()
        assert done.code == 0 and done.errors.startswith(self.WARNING), done
        create_index(there.client, done.errors)
        there.collection.insert_one({})
        assert self.WARNING not in there.run().errors

    def test_of_this_collection_where_a_rule_has_many(self, place):
        there = place()
        there.config["rules"][0]["ns"] = f"{DB}.*"
        there.client[DB].a_collection_before.insert_one({})
        there.fill(10)
        for options in (("--dry-run",), ()):
            done = there.run(*options)
            assert done.code == 0 and self.WARNING in done.errors, done
        create_index(there.client, done.errors)
        assert there.values() == list(range(1, 11))
        assert "n_idproxy" in there.collection.index_information()

    STRATEGIES = {"counter": {}, "uuid": {"encoding": "base32", "prefix": "user_"}, "ulid": {}, "gapless": {},
                  "random-digits": {"digits": 9}, "nanoid": {"size": 6}, "permuted": PERMUTED, "snowflake": {}}

    def test_a_dry_run_agrees_with_connect(self, replica_set, tmp_path, coll):
        """For each strategy and demand, without an index; with one they are alike."""
        def judge(strategy: str, index: bool) -> None:
            name = f"{coll}_{strategy}_{index}"
            (tmp_path / name).mkdir()
            self.judge(replica_set, tmp_path / name, name, strategy, index)
        at_once(*(functools.partial(judge, strategy, index)
                  for strategy in self.STRATEGIES for index in (False, True)
                  if not index or strategy in ("counter", "gapless", "random-digits")), timeout=300)

    def judge(self, replica_set: Mongod, directory: pathlib.Path, database: str, strategy: str, index: bool) -> None:
        config = configuration(replica_set, [
            rule(f"{database}.{demand}", unique_index=demand, **{"strategy": strategy, **self.STRATEGIES[strategy]})
            for demand in ("warn", "require", "create")])
        file = directory / "check.yaml"
        file.write_text(json.dumps({"admin": {"listen": None}, **config}))
        for each in config["rules"]:
            db, _, name = each["ns"].partition(".")
            replica_set.client[db][name].insert_many([{}, {}])
            if index:
                replica_set.client[db][name].create_index("n", unique=True, sparse=True)
        checked = subprocess.run([binary(), "--config", file, "--check-config", "--connect"],
                                 capture_output=True, text=True, timeout=60).stdout
        # Without what an old server cannot do (test_old_servers.py).
        table = re.sub(r"\n +with MongoDB .*", "", checked.split("\nRules\n")[1])
        for each in config["rules"]:
            row, note = re.search(rf"(?m)^ +\d  {each['ns']} .*((?:\n {{4,}}\S.*)?)$", table).group(0, 1)
            done = Backfill(directory, config, each["ns"], "n", "--dry-run").end()
            random = {"random-digits": "random digits", "nanoid": "nanoids"}.get(strategy)
            needs_more = random is not None and each["unique_index"] == "warn" and not index
            assert done.code == (69 if "NOT READY" in row or needs_more else 0), (row, done)
            if needs_more:
                assert f"a backfill of {random} needs a unique index: no unique" in done.errors
            else:
                assert (note.strip() in done.errors) and bool(note) == bool(done.errors), (row, done)
            assert ("would get a value" in done.report) == (done.code == 0), done


class TestDocumented:
    """The examples of docs/backfill.md and docs/operations.md, as they stand there."""

    def test_example(self, replica_set, tmp_path):
        page = (ROOT / "docs" / "backfill.md").read_text()
        rules, command, shown = re.search(
            r"(?s)```yaml\nrules:\n(.*?)```.*?```sh\n *(mongo-idproxy backfill.*?)```.*?\n```\n(.*?)```",
            page).groups()
        orders = replica_set.client.shop.orders
        orders.insert_many([{"created": k} for k in range(1998)])
        orders.insert_many([{"number": bson.Int64(n)} for n in range(989, 1001)])
        orders.insert_many([{"created": k} for k in range(2)])
        orders.create_index("number", unique=True, sparse=True)
        file = tmp_path / "config.yaml"
        file.write_text(f"upstream: {{uri: 'mongodb://{replica_set.address}'}}\nrules:\n{rules}")

        def run(command: str) -> subprocess.CompletedProcess[str]:
            words = [str(file) if word == "FILE" else word
                     for word in command.replace("\\\n", " ").split()]
            done = subprocess.run([binary(), *words[1:]], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done
            return done

        operations = (ROOT / "docs" / "operations.md").read_text()
        dry = run(re.search(r"(?m)^mongo-idproxy backfill .*$", operations)[0])
        assert "2,000  1001 to 3000\n" in dry.stdout
        printed = run(command).stdout
        assert re.sub(r"took .*", "took", printed) == re.sub(r"took .*", "took", shown)
        found = [d["created"] for d in orders.find({"created": {"$exists": True}}).sort("number")]
        assert found == sorted(found)


    def test_order_of_steps(self, replica_set, tmp_path, start_proxy):
        """Documents from before have the lower numbers, then come those through the proxy, and only then
        what was stored between the second step and the third. The second time there is nothing to do."""
        page = (ROOT / "docs" / "backfill.md").read_text()
        steps = re.search(r"(?ms)^1\. .*?(?=^The second step)", page)[0]
        index, second, third, fourth = re.split(r"(?m)^[2-4]\. ", steps)
        assert "Start the proxy" in third and "by the same command" in fourth
        client = replica_set.client
        for db in ("shop", STORE):
            client.drop_database(db)
        orders = client.shop.orders
        orders.insert_many([{"created": k, "old": True} for k in range(300)])
        config = configuration(replica_set, [
            {"ns": "shop.orders", "field": "number", "strategy": "counter", "start": 1001}])
        file = tmp_path / "config.yaml"
        file.write_text(json.dumps(config))
        (command,) = re.findall(r"(?m)^ *(mongo-idproxy backfill .*)$", second)

        def backfill() -> subprocess.CompletedProcess[str]:
            words = [str(file) if word == "FILE" else word for word in command.split()]
            return subprocess.run([binary(), *words[1:]], capture_output=True, text=True, timeout=60)

        create_index(client, index)
        for _ in range(2):
            done = backfill()
            assert done.returncode == 0 and not TestMissingIndex.WARNING in done.stderr, done
        assert "Next: " not in done.stdout
        between = orders.insert_one({"created": 1000}).inserted_id
        proxy = start_proxy(config)
        assert insert(proxy, "shop.orders", [{"new": True}] * 3)["n"] == 3
        done = backfill()
        assert "Next: start or reload the proxy" in done.stdout
        numbers = lambda **which: [each["number"] for each in orders.find(which).sort("number")]
        old, new = numbers(old=True), numbers(new=True)
        assert old == list(range(1001, 1301)) and new == [1301, 1302, 1303]
        assert [each["created"] for each in orders.find({"old": True}).sort("number")] == list(range(300))
        assert orders.find_one(between)["number"] > new[-1]
        assert orders.count_documents({"number": {"$exists": False}}) == 0


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_million_documents_under_load(tmp_path, coll, record):
    """Three members; killed five times, once with a new primary; an application inserts all the
    time."""
    documents = 1_000_000
    with ReplicaSet() as three:
        there = Place(three, tmp_path, coll)
        for first in range(0, documents, 50_000):
            there.collection.insert_many([{"k": k, "created": k * 7919 % documents}
                                          for k in range(first, first + 50_000)])
        there.collection.create_index("n", unique=True, sparse=True)
        begun = time.monotonic()
        most = 0
        with Proxy(there.config) as proxy, Load(
                [lambda: proxy.listener_of(three.primary.address)] * 2, there.ns) as load:
            for kill in range(1, 6):
                running = there.start("--sort", "created")
                running.await_given(there.collection, "n", kill * documents // 6, timeout=1200,
                                    client=None)
                most = max(most, memory(running.process.pid, "VmHWM"))
                if kill == 3:
                    three.step_up(three.secondaries[0])
                running.kill()
            done = there.start("--sort", "created").end(timeout=1200)
            load.await_documents(10)
            took = time.monotonic() - begun
        assert done.code == 0, done
        counted = there.collection.aggregate([
            {"$group": {"_id": "$n"}}, {"$count": "n"}], allowDiskUse=True).next()["n"]
        assert counted == documents + load.documents
        assert there.collection.count_documents({"n": {"$exists": False}}) == 0
        out_of_order = last = 0
        for document in there.collection.find({"client": None}, {"n": 1}).sort("created", 1):
            out_of_order += document["n"] < last
            last = document["n"]
        assert not out_of_order
        record("backfill of a million, killed five times: seconds", took)
        record("backfill of a million: documents per second", documents / took)
        record("backfill of a million: MiB at most", most / 2**20)
        record("documents inserted meanwhile", load.documents)
