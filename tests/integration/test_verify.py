"""mongo-idproxy verify: finds each kind of fault in what is stored, and none where there is none."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from bson import Decimal128, Int64

from support.backfill import failing
from support.counters import STORE, insert, set_counter
from support.guarded import Guarded
from support.mongod import Mongod
from support.process import LITTLE_QUARANTINE, eventually, memory, start
from support.proxy import binary, configuration
from support.secrets import PASSWORD
from support.threads import at_once

ROOT = pathlib.Path(__file__).resolve().parents[2]
DB = "verified"
KINDS = {"missing", "null", "duplicates", "wrong_type", "wrong_form", "wrong_check", "no_sequence",
         "gaps", "beyond_counter", "beyond_max"}


@dataclass
class Verified:
    """One that has ended."""

    code: int
    report: str
    errors: str

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.report)

    def counts(self) -> dict[str, int]:
        """Those that are not 0."""
        return {kind: self.document[kind]["count"] for kind in KINDS & set(self.document)
                if self.document[kind]["count"]}

    def examples(self, kind: str) -> list[dict[str, Any]]:
        return self.document[kind]["examples"]

    def __str__(self) -> str:
        return f"{self.code}\n{self.report}\n{self.errors}"


class Place:
    """A collection with a rule, and how to verify it."""

    def __init__(self, mongod: Any, directory: pathlib.Path, coll: str, **rule: Any):
        self.client = mongod.client
        self.ns = f"{DB}.{coll}"
        self.collection = mongod.client[DB][coll]
        self.field = rule.pop("field", "n")
        self.config = configuration(mongod, [{"ns": self.ns, "field": self.field, **rule}])
        self.file = directory / f"{coll}.yaml"
        self.write(self.config)

    def write(self, config: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({"admin": {"listen": None}, **config}))
        self.file.chmod(0o600)

    def start(self, *options: str) -> subprocess.Popen:
        return start([binary(), "verify", "--config", str(self.file), "--ns", self.ns, "--field",
                      self.field, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                     env={**os.environ, **LITTLE_QUARANTINE})

    def run(self, *options: str) -> Verified:
        process = self.start(*options)
        report, errors = process.communicate(timeout=300)
        return Verified(process.returncode, report.decode(), errors.decode())

    def json(self, *options: str) -> Verified:
        return self.run("--json", *options)

    def fill(self, values: Any, **more: Any) -> None:
        self.collection.insert_many([{"_id": i, "n": value, **more}
                                     for i, value in enumerate(values, 1)])


@pytest.fixture
def place(replica_set: Mongod, tmp_path: pathlib.Path, coll: str) -> Callable[..., Place]:
    def make(**rule: Any) -> Place:
        return Place(replica_set, tmp_path, coll, **rule)
    return make


def test_values_of_ones_own(place):
    """A template's texts, and vanity values among them: --allow takes them out, and nothing else."""
    own = place(strategy="counter", output="string", template="A-{counter:04}")
    set_counter(own.client, own.ns, 3)
    own.fill(["A-0001", "A-0002", "VIP-ADA", "VIP-BOB", "x"])
    assert own.json().counts() == {"wrong_form": 3}
    allowed = own.json("--allow", "VIP-[A-Z]+")
    assert allowed.code == 1 and allowed.counts() == {"wrong_form": 1}
    assert allowed.document["allow"] == "VIP-[A-Z]+" and allowed.document["allowed"] == 2
    done = own.run("--allow", "VIP-.*|x")
    assert done.code == 0 and re.search(r"\n  allowed +3  by VIP-\.\*\|x\n", done.report), done
    bad = own.run("--allow", "VIP-(")
    assert bad.code == 64 and "--allow must be a regular expression" in bad.errors and not bad.report


_SCOPED = {"scope": ["tenant"], "unique_index": "create"}
_YEARLY = {"output": "string", "template": "INV-{yyyy}-{counter:02}", "reset": "yearly"}
CLEAN = {
    "counter": {"strategy": "counter", "start": 1000},
    "down": {"strategy": "counter", "start": -1, "step": -3},
    "text": {"strategy": "counter", "output": "string", "format": {"prefix": "R"}},
    "checked": {"strategy": "counter", "output": "string", "template": "{check}/{counter}", "check": "mod97-10"},
    "int32": {"strategy": "counter", "output": "int32", "field": "a.b"},
    "scoped": {"strategy": "counter", **_SCOPED},
    "yearly": {"strategy": "counter", **_SCOPED, **_YEARLY},
    "yearly-id": {"strategy": "counter", "field": "_id", "assign": "driver", **_YEARLY},
    "repeating": {"strategy": "counter", "reset": "yearly", "scope": ["tenant"]},
    "layout": {"strategy": "counter", "store": {"layout": "counters-seq", "key": "verify"}},
    "mongoose": {"strategy": "counter", **_SCOPED,
                 "store": {"layout": "mongoose-sequence", "key": "verify_seq", "collection": "verify_plugin"}},
    "ranges": {"strategy": "counter-ranges", "store": {"collection": "verify_ranges"}},
    "gapless": {"strategy": "gapless", "unique_index": "create"},
    "gapless-scoped": {"strategy": "gapless", **_SCOPED},
    "gapless-yearly": {"strategy": "gapless", **_SCOPED, **_YEARLY, "check": "luhn"},
    "objectid": {"strategy": "objectid", "field": "_id"},
    "uuid": {"strategy": "uuid"},
    "uuid-text": {"strategy": "uuid", "version": 4, "representation": "string"},
    "legacy": {"strategy": "uuid", "representation": "python-legacy"},
    "digits": {"strategy": "random-digits", "digits": 9, "check": "damm"},
    "digits-text": {"strategy": "random-digits", "output": "string", "digits": 20, "check": "luhn"},
}


class TestNothing:
    def test_is_found_in_what_a_proxy_has_stored(self, replica_set, tmp_path, start_proxy, coll):
        places = {name: Place(replica_set, tmp_path, f"{coll}-{name}", **rule) for name, rule in CLEAN.items()}
        places["repeating"].collection.create_index([("tenant", 1), ("n", 1), ("year", 1)], unique=True)
        proxy = start_proxy(configuration(replica_set, [there.config["rules"][0] for there in places.values()]))

        def judge(name: str) -> None:
            there = places[name]
            eventually(lambda: insert(proxy, there.ns, [{"tenant": "a"}]).get("n") == 1, 30)
            for tenant in "ab":
                reply = insert(proxy, there.ns, [{"tenant": tenant, "k": k} for k in range(120)])
                assert reply["n"] == 120, reply
            done = there.json()
            assert done.code == 0 and not done.counts(), done
            document = done.document
            assert (document["complete"], document["findings"], document["documents"]) == (True, 0, 241), name
            scoped = "scope" in CLEAN[name]
            counts = there.config["rules"][0]["strategy"] in ("counter", "counter-ranges", "gapless")
            assert document["sequences"]["count"] == (
                0 if not counts or name == "repeating" else 2 if scoped else 1), name
            done = there.run()
            assert done.code == 0 and done.report.endswith("\nverified: nothing is wrong\n"), done

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(judge, CLEAN))

    def test_is_found_where_nothing_is(self, place):
        done = place(strategy="counter").json()
        assert done.code == 0 and done.document["documents"] == 0, done

    def test_is_said_of_an_index_that_was_not_looked_for(self, place, coll):
        """A rule with reservations needs none, unless it demands one."""
        told = {"warn": "not looked for: the rule reserves its values", "require": "createIndex",
                "create": "none yet"}
        for demanded, expected in told.items():
            there = place(strategy="counter", unique_index=demanded,
                          reserve={"collection": f"{coll}__n"})
            there.collection.insert_one({"n": Int64(1)})
            set_counter(there.client, there.ns, Int64(2))
            done = there.json()
            assert done.counts() == {} and expected in done.document["unique_index"], done
            assert f"\n  unique index: {done.document['unique_index']}\n" in there.run().report
            there.collection.create_index("n", unique=True)
            has_looked = demanded != "warn"
            assert (there.json().document["unique_index"] is True) == has_looked
            there.collection.drop()

    def test_is_changed(self, place):
        """Neither an index nor a counter is made."""
        there = place(strategy="counter", unique_index="create", heal={"at_start": True})
        there.fill([Int64(1), Int64(2)])
        set_counter(there.client, there.ns, Int64(2))
        before = there.client[STORE].uniqueIdentifierCounter.find_one({"_id": f"{there.ns}.n"})
        done = there.json()
        assert done.counts() == {"beyond_counter": 1}, done
        assert "none yet" in done.document["unique_index"], done
        assert [each["name"] for each in there.collection.list_indexes()] == ["_id_"]
        after = there.client[STORE].uniqueIdentifierCounter.find_one({"_id": f"{there.ns}.n"})
        assert before == after
        gone = place(strategy="counter")
        gone.client[STORE].uniqueIdentifierCounter.delete_one({"_id": f"{there.ns}.n"})
        assert gone.json().code == 0
        assert not gone.client[STORE].uniqueIdentifierCounter.find_one({"_id": f"{there.ns}.n"})


class TestFaults:
    def test_documents_without_a_value(self, place):
        there = place(strategy="counter")
        there.fill([Int64(1), None, Int64(2)])
        there.collection.insert_many([{"_id": f"without{i}"} for i in range(30)])
        done = there.json()
        assert done.code == 1 and done.counts() == {"missing": 30, "null": 1}, done
        assert done.examples("null") == [{"_id": 2}]
        examples = done.examples("missing")
        assert len(examples) == 20 and all(each["_id"].startswith("without") for each in examples)
        report = there.run().report
        assert re.search(r"(?m)^  without the field +30$", report), report
        assert report.endswith("\n31 findings\n")

    def test_a_gap_between_numbers_of_several_types(self, place):
        """As every migration from Node leaves them."""
        there = place(strategy="gapless")
        there.fill([*range(1, 6), Int64(6), Int64(7), Int64(8), 9, 10, 11.0, Int64(13)])
        there.collection.create_index("n", unique=True)
        done = there.json()
        assert done.counts() == {"gaps": 1}, done
        assert done.examples("gaps") == [{"value": "12", "numbers": 1}]
        assert done.document["number_types"] == {"int": 7, "double": 1} and done.document["types"] == {}
        assert "equal numbers of other types than the rule writes: double 1, int 7\n" in there.run().report

    @pytest.mark.parametrize("index", [False, True])
    def test_duplicates_and_types(self, place, index):
        there = place(strategy="counter")
        there.fill([Int64(1), Int64(2), 2, 2.0, Decimal128("2"), Int64(3), "3", [4], 4.5, {"a": 1}, True])
        if index:
            there.collection.create_index("n")
        done = there.json()
        assert done.code == 1 and done.counts() == {"duplicates": 1, "wrong_type": 5}, done
        assert done.examples("duplicates") == [{"value": "2", "documents": 4}]
        assert done.document["types"] == {"double": 1, "string": 1, "array": 1, "object": 1, "bool": 1}
        assert done.document["number_types"] == {"int": 1, "double": 1, "decimal": 1}
        assert done.document["order"] == ("n_1" if index else None)
        assert "createIndex" in done.document["unique_index"]

    def test_numbers_beyond_the_counter_and_beyond_max(self, place, start_proxy):
        there = place(strategy="counter", max=2000)
        there.collection.create_index("n", unique=True)
        proxy = start_proxy(there.config)
        assert insert(proxy, there.ns, 10)["n"] == 10
        proxy.stop()
        assert there.run().code == 0
        there.collection.insert_one({"n": Int64(500)})
        done = there.json()
        assert done.code == 1 and done.counts() == {"beyond_counter": 1}, done
        assert done.document["sequences"]["first"] == [
            {"first": 1, "last": 500, "numbers": 11, "missing": 489}]
        assert done.document["unique_index"] is True
        # The command that it advises.
        key, value = re.search(r'updateOne\((\{.*?\}), .*NumberLong\("(\d+)"\)',
                               done.document["beyond_counter"]["remedy"]).groups()
        assert json.loads(key) == {"_id": f"{there.ns}.n"} and value == "501"
        set_counter(there.client, there.ns, Int64(int(value)))
        assert there.run().code == 0
        there.collection.insert_one({"_id": "far", "n": Int64(2001)})
        done = there.json()
        assert done.counts() == {"beyond_counter": 1, "beyond_max": 1}, done
        assert done.examples("beyond_max") == [{"_id": "far", "value": "2001"}]

    def test_numbers_beyond_a_range(self, place, start_proxy, coll):
        there = place(strategy="counter-ranges", ranges={"count": 5, "width": 100}, active=1,
                      store={"db": DB, "collection": f"{coll}_ranges"})
        there.collection.create_index("n", unique=True)
        proxy = start_proxy(there.config)
        assert insert(proxy, there.ns, 10)["n"] == 10
        proxy.stop()
        clean = there.json()
        assert clean.code == 0 and not clean.document.get("note"), clean
        stored = {each["n"] for each in there.collection.find()}
        other = next(i for i in range(5) if not stored & set(range(100 * i, 100 * i + 100)))
        there.collection.insert_one({"n": Int64(100 * other + 42)})
        done = there.json()
        assert done.code == 1 and done.counts() == {"beyond_counter": 1}, done
        assert done.examples("beyond_counter") == [
            {"value": f"{100 * other + 42}, the next number of its range is {100 * other}"}]
        key, value = re.search(r'updateOne\((\{.*?\}), .*NumberLong\("(\d+)"\)',
                               done.document["beyond_counter"]["remedy"]).groups()
        assert json.loads(key) == {"_id": f"COUNTER DOCUMENT NUMBER {other}"}
        there.client[DB][f"{coll}_ranges"].update_one(json.loads(key), {"$set": {"COUNT": Int64(value)}})
        assert there.run().code == 0

    def test_gaps(self, place, start_proxy):
        there = place(strategy="gapless", unique_index="create")
        proxy = start_proxy(there.config)
        eventually(lambda: insert(proxy, there.ns, 50).get("n") == 50, 30)
        there.collection.delete_many({"n": {"$in": [1, 2, 7, 20, 21, 22]}})
        done = there.json()
        assert done.code == 1 and done.counts() == {"gaps": 3}, done
        assert done.examples("gaps") == [{"value": "1 to 2", "numbers": 2}, {"value": "7", "numbers": 1},
                                         {"value": "20 to 22", "numbers": 3}]
        report = there.run().report
        assert "    20 to 22, 3 numbers\n" in report and report.endswith("\n3 findings\n"), report

    @pytest.mark.parametrize("scoped", [False, True])
    def test_what_is_gone_at_the_end(self, place, start_proxy, scoped):
        """The floor tells."""
        there = place(strategy="gapless", **(_SCOPED if scoped else {"unique_index": "create"}))
        proxy = start_proxy(there.config)
        documents = [{"tenant": "a"}] * 30
        eventually(lambda: insert(proxy, there.ns, documents).get("n") == 30, 30)
        proxy.stop()
        there.collection.delete_many({"n": {"$gt": 27}})
        done = there.json()
        assert done.code == 1 and done.counts() == {"gaps": 1}, done
        example = done.examples("gaps")[0]
        assert (example["value"], example["numbers"]) == ("28 to 30", 3)

    @pytest.mark.parametrize("index", [False, True])
    def test_within_scopes_and_periods(self, place, index):
        there = place(strategy="gapless", scope=["tenant"], **_YEARLY)
        if index:
            there.collection.create_index([("tenant", 1), ("n", 1)])
        rows = [("a", "INV-2025-01"), ("a", "INV-2025-02"), ("a", "INV-2026-01"), ("a", "INV-2026-03"),
                ("b", "INV-2026-01"), ("b", "INV-2026-01"), ("b", "INV-26-02"), (1, "INV-2026-01"),
                (1.0, "INV-2026-02"), (1.5, "INV-2026-01")]
        there.collection.insert_many([{"tenant": tenant, "n": n} for tenant, n in rows])
        there.collection.insert_one({"n": "INV-2026-01"})
        done = there.json()
        assert done.counts() == {"gaps": 1, "duplicates": 1, "wrong_form": 1, "no_sequence": 2}, done
        assert done.examples("gaps") == [
            {"value": "2", "sequence": {"s": {"tenant": "a"}, "p": "2026"}, "numbers": 1}]
        assert done.examples("duplicates")[0]["sequence"] == {"s": {"tenant": "b"}}
        assert done.document["sequences"]["count"] == 4
        assert done.document["order"] == ("tenant_1_n_1" if index else None)
        done = there.json("--scope", '{"tenant": "a"}')
        assert done.counts() == {"gaps": 1} and done.document["documents"] == 4, done
        assert done.document["scope"] == {"tenant": "a"}
        done = there.run("--scope", '{"tenant": 1}')
        assert done.code == 0 and "with the field                     2" in done.report, done

    def test_texts_and_check_digits(self, place):
        there = place(strategy="counter", output="string", template="R{counter:03}-{check}", check="luhn")
        there.fill(["R001-8", "R002-6", "R003-5", "R4-2", "X005-9", "R006"])
        done = there.json()
        assert done.counts() == {"wrong_check": 1, "wrong_form": 3}, done
        assert done.examples("wrong_check") == [{"_id": 3, "value": '"R003-5"'}]

    def test_numbers_that_come_meanwhile_are_no_gap(self, place, start_proxy):
        """Beside a proxy that inserts all the time."""
        there = place(strategy="gapless", unique_index="create")
        proxy = start_proxy(there.config)
        eventually(lambda: insert(proxy, there.ns, 1000).get("n") == 1000, 30)
        for _ in range(3):
            process = there.start("--json")
            while process.poll() is None:
                assert insert(proxy, there.ns, 5)["n"] == 5
            report, errors = process.communicate(timeout=60)
            done = Verified(process.returncode, report.decode(), errors.decode())
            assert done.code == 0 and done.document["documents"] >= 1000, done


class TestRun:
    def test_the_memory_does_not_grow_with_the_documents(self, place):
        def peak(documents: int) -> int:
            there = place(strategy="counter", output="string")
            there.client[DB].one.drop()
            there.client[DB].one.insert_one({"text": "x" * 50})
            there.client[DB].one.aggregate([
                {"$set": {"n": {"$range": [1, documents + 1]}}}, {"$unwind": "$n"}, {"$unset": "_id"},
                {"$set": {"n": {"$toString": "$n"}}}, {"$out": there.collection.name}])
            there.collection.create_index("n", unique=True)
            process = there.start()
            most = 0
            while process.poll() is None:
                try:
                    most = max(most, memory(process.pid, "VmHWM"))
                except (OSError, StopIteration):
                    break
                time.sleep(0.01)
            report, errors = process.communicate(timeout=60)
            assert process.returncode == 0, report.decode() + errors.decode()
            assert f"{documents:,} numbers, 0 missing" in report.decode(), report.decode()
            return most

        few, many = peak(20_000), peak(200_000)
        assert many < few + 30 * 1024 * 1024, (few, many)

    def test_stops_with_a_report(self, place, replica_set):
        there = place(strategy="gapless")
        there.collection.insert_many([{"n": Int64(n)} for n in range(1, 40_000, 2)])
        with failing(replica_set, ["getMore"], {"times": 1}, blockConnection=True,
                     blockTimeMS=1000) as await_failed:
            process = there.start("--json")
            await_failed(1)
            process.send_signal(signal.SIGINT)
            report, errors = process.communicate(timeout=60)
        done = Verified(process.returncode, report.decode(), errors.decode())
        assert done.code == 1, done
        document = done.document
        assert (document["complete"], document["why"]) == (False, "stopped by a signal"), done
        assert not done.counts() and 5000 <= document["documents"] < 20_000, done

    def test_failures_of_reading_begin_it_again(self, place, replica_set):
        there = place(strategy="counter")
        there.fill([Int64(n) for n in range(1, 12_001)])
        with failing(replica_set, ["getMore"], {"times": 1}, errorCode=237):
            done = there.json()
        assert done.code == 0 and done.document["documents"] == 12_000, done

    @pytest.mark.parametrize("options, message", [
        (["--ns", ".orders"], "--ns must be a database and a collection"),
        (["--ns", "shop."], "--ns must be a database and a collection"),
        (["--ns", "shop.*"], "without wildcards"),
        (["--ns", f"{DB}.other"], "no rule of"),
        (["--scope", "{}"], "--scope is for rules with `scope`")])
    def test_wrong_command_lines(self, place, options, message):
        there = place(strategy="counter")
        line = [binary(), "verify", "--config", there.file, "--ns", there.ns, "--field", "n", *options]
        if "--ns" in options:
            line = [binary(), "verify", "--config", there.file, "--field", "n", *options]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
        assert done.returncode == 64 and message in done.stderr, done
        assert not done.stdout

    def test_wrong_scopes(self, place):
        there = place(strategy="counter", **_SCOPED)

        def judge(scope: str) -> None:
            done = there.run("--scope", scope)
            assert done.code == 64 and "--scope must be JSON" in done.errors, done

        at_once(*(functools.partial(judge, scope) for scope in (
            "tenant", "{}", '{"tenant": [1]}', '{"tenant": 1, "more": 2}', '{"tenant": {"$gt": ""}}')))

    def test_a_server_that_is_not_there(self, place):
        there = place(strategy="counter")
        there.write({**there.config, "upstream": {"uri": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500"}})
        done = there.run()
        assert done.code == 69 and not done.report, done

    def test_a_view(self, place):
        there = place(strategy="counter")
        there.client[DB].create_collection(there.collection.name, viewOn="other", pipeline=[])
        done = there.run()
        assert done.code == 69 and "it is a view" in done.errors, done

    def test_a_rule_with_wildcards(self, place):
        there = place(strategy="counter")
        there.write({**there.config, "rules": [{"ns": f"{DB}.*", "field": "n", "strategy": "counter"}]})
        there.fill([Int64(1), Int64(1)])
        set_counter(there.client, there.ns, Int64(2))
        assert there.json().counts() == {"duplicates": 1}

    def test_a_privilege_that_is_missing(self, guarded: Guarded, tmp_path, coll):
        there = Place(guarded, tmp_path, coll, strategy="counter")
        user = f"{coll}store"
        guarded.client.admin.command("createUser", user, pwd=PASSWORD, roles=[
            {"role": "readWrite", "db": STORE}])
        there.write({**there.config, "id_store": {"uri": guarded.uri_of(user)}})
        there.fill([Int64(1)])
        done = there.run()
        assert done.code == 69 and "needs find on" in done.errors, done


class TestPage:
    page = (ROOT / "docs" / "verify.md").read_text()

    def shop(self, mongod: Mongod, tmp_path: pathlib.Path) -> pathlib.Path:
        """With what the commands of the page are about."""
        file = tmp_path / "page.yaml"
        file.write_text(json.dumps({"admin": {"listen": None}, **configuration(mongod, [
            {"ns": "shop.invoices", "field": "number", "strategy": "gapless", "start": 1000},
            {"ns": "shop.orders", "field": "number", "strategy": "counter", "scope": ["tenant"]}])}))
        file.chmod(0o600)
        shop = mongod.client["shop"]
        shop.invoices.drop()
        shop.invoices.insert_many([{"number": Int64(n)} for n in range(1000, 3013)
                                   if n not in (1005, 1006)])
        shop.invoices.create_index("number", unique=True)
        shop.orders.drop()
        shop.orders.insert_one({"tenant": "a", "number": Int64(1)})
        return file

    def test_the_commands_work(self, replica_set, tmp_path):
        file = self.shop(replica_set, tmp_path)
        blocks = re.findall(r"(?s)```sh\n(.*?)```(?:\n```\n(.*?)```)?", self.page)
        lines = [line for block, _ in blocks for line in block.splitlines()]
        assert len(lines) == 4
        printed = []
        for line in lines:
            assert line.startswith("mongo-idproxy verify ")
            done = subprocess.run(line.replace("mongo-idproxy verify", f"{binary()} verify --config {file}"),
                                  shell=True, capture_output=True, text=True, timeout=60, cwd=tmp_path)
            printed.append(done)
        assert [done.returncode for done in printed] == [1, 0, 0, 0], printed
        assert json.loads((tmp_path / "orders.json").read_text())["documents"] == 1
        # Times differ.
        assert [re.sub("read from.*", "", blocks[0][1])] == [re.sub("read from.*", "", printed[0].stdout)]


def test_the_page_has_what_the_program_prints():
    """The keys of its JSON, and the labels of its report."""
    page = TestPage.page
    assert KINDS <= set(re.findall(r"`([a-z_]+)`", page))
    source = (ROOT / "src" / "app" / "jobs" / "verify_report.cpp").read_text()
    for label in re.findall(r'\{VerifyKind::\w+, "\w+", "([^"]+)"\}', source):
        assert label in page, label
