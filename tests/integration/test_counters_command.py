"""mongo-idproxy counters and mongo-idproxy ids, beside proxies that use the same counters."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from typing import Any

import bson
import bson.json_util
import pytest

from support.counters import STORE, insert, key_of, numbers, set_counter, stored
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import binary, configuration
from support.threads import Threads

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Commands:
    """Of one configuration."""

    def __init__(self, folder: pathlib.Path, mongod: Mongod, rules: list[dict[str, Any]], **more: Any):
        self.path = folder / "config.yaml"
        self.path.write_text(json.dumps(configuration(mongod, rules, admin={"listen": None}, **more)))
        self.path.chmod(0o600)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([binary(), *map(str, arguments), "--config", str(self.path)],
                              capture_output=True, text=True, timeout=60)

    def counters(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return self.run("counters", *arguments)

    def json(self, *arguments: object) -> dict[str, Any]:
        done = self.counters(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def listed(self) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.json("list")["counters"]}


@pytest.fixture
def commands(tmp_path, replica_set):
    return lambda rules, **more: Commands(tmp_path, replica_set, rules, **more)


def counter_rule(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "n", "strategy": "counter", **more}


def refused(done: subprocess.CompletedProcess[str], *words: object) -> None:
    assert done.returncode == 1 and not done.stdout, done
    assert all(str(word) in done.stderr for word in words), done.stderr


class TestList:
    LAYOUTS = [("unique-count", "uniqueIdentifierCounter", "COUNT", "next"),
               ("counters-next", "counters", "next", "last"), ("counters-seq", "counters", "seq", "last"),
               ("ids-index", "ids", "index", "next"), ("mongoose-sequence", "plugin", "seq", "last")]

    def test_all_layouts(self, replica_set, start_proxy, coll, commands):
        rules = [counter_rule(f"{coll}.c{i}", block=1, max=100, store={
            "db": coll, "layout": layout, "collection": collection})
                 for i, (layout, collection, *_) in enumerate(self.LAYOUTS)]
        rules.append(counter_rule(f"{coll}.c9", block=1, max=100, store={
            "db": coll, "layout": "custom", "collection": "own", "key_field": "model", "key": "Order",
            "value_field": "count", "value_is": "last", "filter": {"groupingField": ""}}))
        for rule in rules:
            replica_set.client[coll][rule["ns"].partition(".")[2]].create_index("n", unique=True)
        proxy = start_proxy(configuration(replica_set, rules))
        for rule in rules:
            assert insert(proxy, rule["ns"], 3)["n"] == 3
        found = commands(rules).listed()
        layouts = [*self.LAYOUTS, ("custom", "own", "count", "last")]
        for rule, (_, collection, field, means) in zip(rules, layouts, strict=True):
            name = "Order" if collection == "own" else key_of(rule["ns"])
            each = found[name]
            assert each["collection"] == f"{coll}.{collection}" and each["exists"]
            assert each["rules"] == [f"{rule['ns']}, n"]
            assert (each["value_field"], each["value_is"]) == (field, means)
            assert each["value"] == (4 if means == "next" else 3)
            assert (each["next"], each["largest"], each["ahead"], each["behind"]) == (4, 3, 0, 0)
            assert (each["left"], each["max"], each["full"]) == (97, 100, False)
        assert len(found) == len(rules)

    def test_names_distances_and_full_ones_in_a_table(self, replica_set, coll, commands):
        client = replica_set.client
        rules = [counter_rule(f"{coll}.{name}", max=10)
                 for name in ("ahead", "behind", "full", "none", "unknown", "text")]
        for name, count in {"ahead": 8, "behind": 3, "full": 11, "unknown": 2, "text": "x"}.items():
            set_counter(client, f"{coll}.{name}", count)
        for name in ("ahead", "behind", "full"):
            client[coll][name].create_index("n")
            client[coll][name].insert_many([{"n": n} for n in range(1, 6)])
        client[coll]["unknown"].insert_one({"n": 1})
        done = commands(rules).counters("list")
        assert done.returncode == 0 and not done.stderr
        head, *lines = done.stdout.splitlines()
        assert re.split(r"\s{2,}", head.strip()) == ["NAME", "RULE", "NEXT", "STORED", "LARGEST IN DATA",
                                                     "DISTANCE", "LEFT"]
        cells = {re.split(r"\s{2,}", line.strip())[0]: re.split(r"\s{2,}", line.strip())[1:]
                 for line in lines}
        assert cells == {
            key_of(f"{coll}.{name}"): [f"{coll}.{name}, n", *expected] for name, expected in {
                "ahead": ["8", "COUNT: 8 (next)", "5", "2 ahead", "3"],
                "behind": ["3", "COUNT: 3 (next)", "5", "3 behind", "8"],
                "full": ["-", "COUNT: 11 (next)", "5", "5 ahead", "full"],
                "none": ["-", "no document yet", "none", "-", "-"],
                "unknown": ["2", "COUNT: 2 (next)", "-", "-", "9"],
                "text": ["-", "COUNT: no integer", "none", "-", "-"]}.items()}

    def test_wildcards_scopes_and_shared_counters(self, replica_set, start_proxy, coll, commands):
        client = replica_set.client
        rules = [
            counter_rule(f"{coll}.bill?"),
            {**counter_rule(f"{coll}.scoped", scope=["t"], unique_index="create", template="{yyyy}-{counter:04}",
                            output="string", reset="yearly"), "field": "m"},
            counter_rule(f"{coll}.a", name=f"{coll}.both"), counter_rule(f"{coll}.b", name=f"{coll}.both")]
        for name in ("bill1", "bill2", "a", "b"):
            client[coll][name].create_index("n", unique=True)
        proxy = start_proxy(configuration(replica_set, rules))
        for name in ("bill1", "bill2", "a", "b"):
            assert insert(proxy, f"{coll}.{name}", 2)["n"] == 2
        eventually(lambda: insert(proxy, f"{coll}.scoped", [{"t": "x"}, {"t": "x"}, {"t": 7}])["ok"] == 1)
        set_counter(client, f"{coll}.other", 5)  # of no rule
        year = stored(client, f"{coll}.scoped")[0]["m"][:4]
        found = commands(rules).listed()
        scopes = {name: each for name, each in found.items() if name.startswith("{")}
        assert set(found) - set(scopes) == {key_of(f"{coll}.bill1"), key_of(f"{coll}.bill2"), f"{coll}.both"}
        assert found[key_of(f"{coll}.bill2")]["rules"] == [f"{coll}.bill?, n"]
        assert found[key_of(f"{coll}.bill2")]["largest"] == 2
        both = found[f"{coll}.both"]
        assert both["rules"] == [f"{coll}.a, n", f"{coll}.b, n"] and both["largest"] < both["next"]
        by_key = {json.dumps(json.loads(name)["s"]): (json.loads(name)["p"], each)
                  for name, each in scopes.items()}
        assert {key: (period, each["next"], each["largest"]) for key, (period, each) in by_key.items()} == {
            '{"t": "x"}': (year, 3, 2), '{"t": 7}': (year, 2, 1)}

    def test_periods_of_another_time_zone(self, replica_set, coll, commands):
        rule = counter_rule(f"{coll}.x", scope=["t"], unique_index="require", reset="daily", output="string",
                            timezone="Pacific/Kiritimati", template="{yyyy}{MM}{dd}-{counter:03}")
        key = {"c": key_of(f"{coll}.x"), "s": {"t": "a"}, "p": "2026-01-05"}
        counters = replica_set.client[STORE]["uniqueIdentifierCounter"]
        counters.insert_many([{"_id": key, "COUNT": bson.Int64(4)}, {"_id": {**key, "c": "other"}, "COUNT": 1}])
        collection = replica_set.client[coll].x
        collection.create_index(["t", "n"], unique=True)
        collection.insert_many([{"t": "a", "n": f"20260105-00{n}"} for n in (1, 6)]
                               + [{"t": "a", "n": "20260106-009"}, {"t": "b", "n": "20260105-008"}])
        ((name, found),) = commands([rule]).listed().items()
        assert json.loads(name) == key and (found["next"], found["largest"], found["behind"]) == (4, 6, 3)
        assert commands([rule]).json("sync", name)["next"] == 7
        assert counters.find_one({"_id": key})["COUNT"] == 7

    def test_sequences_without_gaps(self, replica_set, start_proxy, coll, commands):
        """By scope and period: from the floor, and from what is stored where that is further."""
        client = replica_set.client
        rules = [{"ns": f"{coll}.bill?", "field": "n", "strategy": "gapless", "unique_index": "create"},
                 {"ns": f"{coll}.scoped", "field": "m", "strategy": "gapless", "scope": ["t"], "reset": "yearly",
                  "unique_index": "create", "output": "string", "template": "{yyyy}-{counter:04}"},
                 {"ns": f"{coll}.bare", "field": "n", "strategy": "gapless", "start": 100, "floor": False},
                 {"ns": f"{coll}.unguarded", "field": "n", "strategy": "gapless", "unique_index": "require"}]
        client[coll].bare.create_index("n", unique=True)
        client[coll].bare.insert_one({"n": bson.Int64(104)})
        client[coll].unguarded.insert_one({"n": bson.Int64(1)})
        with start_proxy(configuration(replica_set, rules)) as proxy:
            for ns, documents in ((f"{coll}.bill1", [{}, {}]), (f"{coll}.bill2", [{}, {}, {}]),
                                  (f"{coll}.scoped", [{"t": "x"}, {"t": "x"}]), (f"{coll}.scoped", [{"t": 7}])):
                eventually(lambda ns=ns, documents=documents: insert(proxy, ns, documents).get("n") == len(documents))
            floors = client[STORE]["gaplessFloors"]
            eventually(lambda: floors.find_one({"_id": f"{coll}.bill2.n", "floor": 3}))
            eventually(lambda: floors.count_documents({"_id.c": f"{coll}.scoped.m"}) == 2)
        client[coll].bill2.delete_one({"n": 3})
        client[coll].bill1.insert_one({"n": bson.Int64(3)})  # past the floor
        year = stored(client, f"{coll}.scoped")[0]["m"][:4]
        command = commands(rules)
        found = command.listed()
        assert all(each["gapless"] and each["collection"] == f"{STORE}.gaplessFloors" for each in found.values())

        def figures(name: str) -> tuple[Any, ...]:
            each = found.pop(name)
            return each["value"], each["next"], each["largest"], each["ahead"], each["full"]

        assert figures(f"{coll}.bill1.n") == (2, 4, 3, 0, False)
        assert figures(f"{coll}.bill2.n") == (3, 4, 2, 1, False)
        assert figures(f"{coll}.bare.n") == (None, 105, 104, 0, False)
        assert figures(f"{coll}.unguarded.n") == (None, None, None, None, False)
        by_scope = {str(json.loads(name)["s"]["t"]): (json.loads(name)["p"], each["next"], each["rules"])
                    for name, each in found.items()}
        assert by_scope == {"x": (year, 3, [f"{coll}.scoped, m"]), "7": (year, 2, [f"{coll}.scoped, m"])}
        assert re.search(rf"{coll}\.bill2\.n +{coll}\.bill\?, n +4 +floor: 3 \(last given out\) +2 +1 ahead",
                         command.counters("list").stdout)
        for change in (("set", f"{coll}.bill1.n", 9), ("sync", f"{coll}.bill1.n")):
            refused(command.counters(*change), "a sequence without gaps", "cannot be set")
        assert "next        105\n" in command.counters("get", f"{coll}.bare.n").stdout

    def test_sequences_of_the_plugin(self, replica_set, coll, commands):
        """Whose texts may be UUIDs in the documents."""
        rule = counter_rule(f"{coll}.x", scope=["a", "b"], unique_index="require",
                            store={"db": coll, "layout": "mongoose-sequence", "key": "seq"})
        counters = replica_set.client[coll].counters
        places = [{"a": 1.0, "b": "x"}, {"a": 2, "b": "00112233-4455-6677-8899-aabbccddeeff"}]
        counters.insert_many([{"id": "seq", "reference_value": place, "seq": 4} for place in places])
        counters.insert_one({"id": "seq", "reference_value": None, "seq": 1})
        replica_set.client[coll].x.create_index(["a", "b", "n"], unique=True)
        replica_set.client[coll].x.insert_one({"a": 1, "b": "x", "n": 3})
        first, second = commands([rule]).listed().values()
        assert (first["next"], first["largest"]) == (5, 3) and "unknown" not in first
        assert second["largest"] is None and "UUID" in second["unknown"]
        assert commands([rule]).json("set", first["name"], 10)["value"] == 9
        assert [each["seq"] for each in counters.find()] == [9, 4, 1]

    def test_two_with_one_key_in_one_collection(self, replica_set, coll, commands):
        """As mongoose-auto-increment has them."""
        rules = [{**counter_rule(f"{coll}.x", store={
            "db": coll, "layout": "custom", "collection": "own", "key_field": "model", "key": "Order",
            "value_field": "count", "value_is": "last", "filter": {"field": field}}), "field": field}
            for field in ("n", "m")]
        replica_set.client[coll].own.insert_many([{"model": "Order", "field": field, "count": count}
                                                  for field, count in (("n", 1), ("m", 5))])
        command = commands(rules)
        names = [f"{coll}.own Order ({coll}.x, {field})" for field in ("n", "m")]
        assert {name: each["next"] for name, each in command.listed().items()} == dict(
            zip(names, (2, 6), strict=True))
        refused(command.counters("get", "Order"), "several", *names)
        refused(command.counters("get", f"{coll}.own Order"), "several")
        assert command.json("set", names[1], 10)["was"] == 6
        assert [each["count"] for each in replica_set.client[coll].own.find()] == [1, 9]

    def test_ranges(self, replica_set, start_proxy, coll, commands):
        rules = [{**counter_rule(f"{coll}.r"), "strategy": "counter-ranges",
                  "ranges": {"count": 3, "width": 10}, "active": 1, "block": 1,
                  "store": {"db": coll, "collection": "ranges"}}]
        replica_set.client[coll].r.create_index("n", unique=True)
        proxy = start_proxy(configuration(replica_set, rules))
        assert insert(proxy, f"{coll}.r", 1)["n"] == 1
        (used,) = numbers(replica_set.client, f"{coll}.r")
        found = commands(rules).listed()
        assert len(found) == 3
        begun = found[f"COUNTER DOCUMENT NUMBER {used // 10}"]
        assert (begun["next"], begun["largest"], begun["left"]) == (used + 1, used, 9)
        first = used // 10 * 10
        command = commands(rules)
        refused(command.counters("set", begun["name"], used), "is not beyond", used)
        refused(command.counters("set", begun["name"], first - 1, "--force"), "first number of", first)
        refused(command.counters("set", begun["name"], first + 10, "--force"), "max", first + 9)
        assert command.json("set", begun["name"], first + 5)["next"] == first + 5
        document = replica_set.client[coll].ranges.find_one({"_id": begun["name"]})
        assert (document["COUNT"], document["MAX_VALUE"]) == (first + 5, first + 9)
        assert isinstance(document["COUNT"], bson.Int64)

        def is_there() -> bool:
            assert insert(proxy, f"{coll}.r", 1)["n"] == 1
            return numbers(replica_set.client, f"{coll}.r")[-1] >= first + 5 or \
                len(numbers(replica_set.client, f"{coll}.r")) > 8
        eventually(is_there, 25)
        found = sorted(numbers(replica_set.client, f"{coll}.r"))
        assert found[-1] == first + 5 and len(set(found)) == len(found) <= 5, found
        assert not proxy.find_events("counter_backwards") and not proxy.find_events("counter_healed")

    def test_one_look_for_many_ranges(self, replica_set, coll, commands):
        rules = [{**counter_rule(f"{coll}.r*"), "strategy": "counter-ranges", "create": False,
                  "ranges": {"count": 300, "width": 10}, "store": {"db": coll, "collection": "ranges"}}]
        replica_set.client[coll].ranges.insert_many(
            [{"_id": f"COUNTER DOCUMENT NUMBER {i}", "COUNT": bson.Int64(10 * i), "MAX_VALUE": bson.Int64(10 * i + 9)}
             for i in range(300)])
        replica_set.client[coll].r1.create_index("n", unique=True, sparse=True)
        replica_set.client[coll].r1.insert_many([{"n": bson.Int64(3)}, {"n": bson.Int64(21)}])

        def asked() -> int:
            commands_of = replica_set.client.admin.command("serverStatus")["metrics"]["commands"]
            return commands_of["find"]["total"] + commands_of["listIndexes"]["total"]

        before = asked()
        listed = commands(rules).json("list")["counters"]
        assert asked() - before < 100
        assert [each["largest"] for each in listed] == [3, None, 21] + 297 * [None]

    def test_sync_of_ranges(self, replica_set, coll, commands):
        rules = [{**counter_rule(f"{coll}.r"), "strategy": "counter-ranges", "create": False,
                  "ranges": {"count": 3, "width": 10}, "store": {"db": coll, "collection": "ranges"}}]
        names = [f"COUNTER DOCUMENT NUMBER {i}" for i in range(3)]
        replica_set.client[coll].ranges.insert_many(
            [{"_id": name, "COUNT": bson.Int64(10 * i), "MAX_VALUE": bson.Int64(10 * i + 9)}
             for i, name in enumerate(names)])
        data = replica_set.client[coll].r
        data.insert_many([{"n": bson.Int64(n)} for n in (3, 14, 29)])
        command = commands(rules)
        refused(command.counters("sync", names[0]), "not known")
        data.create_index("n", unique=True)
        assert [each["behind"] for each in command.listed().values()] == [4, 5, 10]
        assert command.json("sync", names[0])["next"] == 4
        assert command.json("sync", names[1]) | {"was": 10, "next": 15, "left": 5} == command.json("get", names[1]) | \
            {"was": 10}
        refused(command.counters("sync", names[2]), "no number is left")
        assert [each["COUNT"] for each in replica_set.client[coll].ranges.find().sort("_id")] == [4, 15, 20]

    def test_one_without_an_answer(self, tmp_path, coll):
        port = free_port()

        class Nobody:
            address = f"127.0.0.1:{port}"
        done = Commands(tmp_path, Nobody(), [counter_rule(f"{coll}.x")]).counters("list")
        assert done.returncode == 69 and "does not answer" in done.stderr and not done.stdout


class TestGet:
    def test_one(self, replica_set, coll, commands):
        ns = f"{coll}.x"
        set_counter(replica_set.client, ns, 1100)
        command = commands([counter_rule(ns)])
        done = command.counters("get", key_of(ns))
        assert done.returncode == 0 and not done.stderr
        lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
        assert lines["name"] == key_of(ns) and lines["rule"] == f"{ns}, n"
        assert lines["COUNT"] == "1100, the next number" and lines["next"] == "1100"
        assert lines["largest"] == "none" and lines["left"] == "no max"
        assert command.json("get", key_of(ns))["next"] == 1100

    def test_says_why_the_largest_number_is_not_known(self, replica_set, coll, commands):
        ns = f"{coll}.x"
        set_counter(replica_set.client, ns, 3)
        replica_set.client[coll].x.insert_one({"n": 1})
        command = commands([counter_rule(ns)])
        assert "without an index" in command.counters("get", key_of(ns)).stdout
        assert "without an index" in command.json("get", key_of(ns))["unknown"]

    def test_none(self, coll, commands):
        command = commands([counter_rule(f"{coll}.x")])
        refused(command.counters("get", "nobody"), "no counter nobody")
        refused(command.counters("get", key_of(f"{coll}.x")), "yet")

    def test_a_name_of_two_collections(self, replica_set, coll, commands):
        rules = [counter_rule(f"{coll}.{layout[0]}", store={"db": coll, "layout": layout, "key": "same"})
                 for layout in ("unique-count", "ids-index")]
        replica_set.client[coll].uniqueIdentifierCounter.insert_one({"_id": "same", "COUNT": 5})
        replica_set.client[coll].ids.insert_one({"_id": "same", "index": 7})
        command = commands(rules)
        assert set(command.listed()) == {f"{coll}.uniqueIdentifierCounter same", f"{coll}.ids same"}
        refused(command.counters("get", "same"), "several", f"'{coll}.ids same'")
        assert command.json("get", f"{coll}.ids same")["next"] == 7
        assert command.json("set", f"{coll}.ids same", 9)["was"] == 7
        assert replica_set.client[coll].ids.find_one()["index"] == 9
        assert replica_set.client[coll].uniqueIdentifierCounter.find_one()["COUNT"] == 5


class TestSet:
    @pytest.fixture
    def ns(self, replica_set, coll) -> str:
        """Numbers 1 to 10 are stored, and the counter stands at 11."""
        ns = f"{coll}.x"
        set_counter(replica_set.client, ns, 11)
        replica_set.client[coll].x.create_index("n", unique=True)
        replica_set.client[coll].x.insert_many([{"n": n} for n in range(1, 11)])
        return ns

    def count(self, mongod: Mongod, ns: str) -> Any:
        return mongod.client[STORE]["uniqueIdentifierCounter"].find_one({"_id": key_of(ns)})["COUNT"]

    def test_forward(self, replica_set, ns, commands):
        done = commands([counter_rule(ns)]).counters("set", key_of(ns), 5000)
        assert done.returncode == 0
        assert done.stdout == f"{key_of(ns)}: the next number is 5000 (it was 11)\n"
        assert "within about 20 seconds" in done.stderr and "warning" not in done.stderr
        count = self.count(replica_set, ns)
        assert count == 5000 and isinstance(count, bson.Int64)

    def test_the_last_number_given_out(self, replica_set, coll, commands):
        replica_set.client[coll].counters.insert_one({"_id": "k", "seq": 4.0})
        rule = counter_rule(f"{coll}.x", step=5, store={"db": coll, "layout": "counters-seq", "key": "k"})
        assert commands([rule]).json("set", "k", 100)["next"] == 100
        assert replica_set.client[coll].counters.find_one()["seq"] == 95

    def test_not_below_the_data(self, replica_set, ns, commands):
        command = commands([counter_rule(ns)])
        refused(command.counters("set", key_of(ns), 10), "10 is not beyond", "10 (n in", "--force")
        refused(command.counters("set", key_of(ns), 3), "3 is not beyond", "stored, 10")
        assert self.count(replica_set, ns) == 11

    def test_below_the_data_by_force(self, replica_set, ns, commands):
        done = commands([counter_rule(ns)]).counters("set", key_of(ns), 3, "--force")
        assert done.returncode == 0 and "the next number is 3 (it was 11)" in done.stdout
        assert "numbers from 3 to 10 will be given out a second time; the unique index" in done.stderr
        assert "running proxy" in done.stderr and self.count(replica_set, ns) == 3

    def test_without_an_index_only_forward(self, replica_set, ns, commands):
        replica_set.client[ns.partition(".")[0]].x.drop_indexes()
        command = commands([counter_rule(ns)])
        refused(command.counters("set", key_of(ns), 5), "not known", "--force")
        assert command.json("set", key_of(ns), 20)["next"] == 20
        done = command.counters("set", key_of(ns), 5, "--force")
        assert done.returncode == 0 and "stored twice unless a unique index" in done.stderr

    def test_within_what_the_rule_gives(self, ns, commands):
        refused(commands([counter_rule(ns, max=99)]).counters("set", key_of(ns), 100, "--force"), "max", 99)
        refused(commands([counter_rule(ns, output="int32")]).counters("set", key_of(ns), 1 << 31), "max")

    def test_a_value_that_is_no_integer(self, replica_set, ns, commands):
        set_counter(replica_set.client, ns, "eleven")
        refused(commands([counter_rule(ns)]).counters("set", key_of(ns), 11), "may have 11", "--force")
        assert commands([counter_rule(ns)]).json("set", key_of(ns), 11, "--force")["was"] is None
        assert self.count(replica_set, ns) == 11

    def test_while_others_count(self, replica_set, ns, commands):
        """It sets what it has seen: no number that another one got comes again."""
        collection = replica_set.client[STORE]["uniqueIdentifierCounter"]

        def count() -> None:
            while not others.over.wait(0.002):
                collection.update_one({"_id": key_of(ns)}, {"$inc": {"COUNT": bson.Int64(1)}})

        others = Threads(count)
        with others:
            found = commands([counter_rule(ns)]).json("set", key_of(ns), 1_000_000)
        assert 11 <= found["was"] < 1_000_000 <= self.count(replica_set, ns) < 1_010_000

    @pytest.mark.parametrize("block", ["auto", 1])
    def test_a_running_proxy_follows(self, replica_set, start_proxy, coll, commands, block):
        ns = f"{coll}.x"
        replica_set.client[coll].x.create_index("n", unique=True)
        rules = [counter_rule(ns, block=block)]
        proxy = start_proxy(configuration(replica_set, rules))
        for _ in range(3):
            assert insert(proxy, ns, 40)["n"] == 40
        assert commands(rules).json("set", key_of(ns), 500_000)["next"] == 500_000

        def is_there() -> bool:
            assert insert(proxy, ns, 1)["n"] == 1
            return numbers(replica_set.client, ns)[-1] >= 500_000
        eventually(is_there, 25)
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found) and found == sorted(found)
        assert min(n for n in found if n > 1000) == 500_000
        assert not proxy.find_events("counter_backwards") and not proxy.find_events("counter_healed")

    def test_a_running_proxy_undoes_a_step_back(self, replica_set, start_proxy, coll, commands):
        """As docs/counters.md says, and as the warning does."""
        ns = f"{coll}.x"
        replica_set.client[coll].x.create_index("n", unique=True)
        rules = [counter_rule(ns)]
        proxy = start_proxy(configuration(replica_set, rules))
        assert insert(proxy, ns, 10)["n"] == 10
        done = commands(rules).counters("set", key_of(ns), 2, "--force")
        assert done.returncode == 0 and "goes back" in done.stderr
        eventually(lambda: proxy.find_events("counter_healed"), 25)
        assert insert(proxy, ns, 3)["n"] == 3
        found = numbers(replica_set.client, ns)
        assert len(set(found)) == len(found) and min(found[-3:]) >= 11


class TestSync:
    def test_behind_the_data(self, replica_set, coll, commands):
        ns = f"{coll}.x"
        set_counter(replica_set.client, ns, 5)
        replica_set.client[coll].x.create_index("n", unique=True)
        replica_set.client[coll].x.insert_many([{"n": n} for n in (1, 2, 700)])
        command = commands([counter_rule(ns)])
        assert command.listed()[key_of(ns)]["behind"] == 696
        done = command.counters("sync", key_of(ns))
        assert done.returncode == 0
        assert done.stdout == (f"{key_of(ns)}: the next number is 701, past the largest number that is stored "
                               "(it was 5)\n")
        again = command.counters("sync", key_of(ns))
        assert again.stdout == f"{key_of(ns)}: the next number is 701, as before\n" and not again.stderr

    def test_the_running_proxy_goes_on_behind_it(self, replica_set, start_proxy, coll, commands):
        ns = f"{coll}.x"
        replica_set.client[coll].x.create_index("n", unique=True)
        rules = [counter_rule(ns, block=1)]
        proxy = start_proxy(configuration(replica_set, rules))
        assert insert(proxy, ns, 1)["n"] == 1
        replica_set.client[coll].x.insert_one({"n": 900})
        assert commands(rules).json("sync", key_of(ns))["was"] == 2
        assert insert(proxy, ns, 1)["n"] == 1
        assert numbers(replica_set.client, ns) == [1, 900, 901]

    def test_downwards(self, replica_set, coll, commands):
        ns = f"{coll}.x"
        set_counter(replica_set.client, ns, -3)
        replica_set.client[coll].x.create_index("n")
        replica_set.client[coll].x.insert_many([{"n": n} for n in (-1, -2, -9)])
        command = commands([counter_rule(ns, start=-1, step=-2, max=-1000)])
        assert command.json("sync", key_of(ns))["next"] == -11
        assert command.json("set", key_of(ns), -101)["next"] == -101
        refused(command.counters("set", key_of(ns), -7), "-7 is not beyond", -9)

    def test_not_where_it_would_go_wrong(self, replica_set, coll, commands):
        ns = f"{coll}.x"
        command = commands([counter_rule(ns, heal={"max_jump": 1000})])
        set_counter(replica_set.client, ns, 5)
        replica_set.client[coll].x.insert_one({"n": 2000})
        refused(command.counters("sync", key_of(ns)), "without an index")
        replica_set.client[coll].x.create_index("n")
        refused(command.counters("sync", key_of(ns)), "heal.max_jump", 2000)
        refused(commands([counter_rule(ns, max=2000)]).counters("sync", key_of(ns)), "no number is left", 2000)
        set_counter(replica_set.client, ns, "x")
        refused(command.counters("sync", key_of(ns)), "no integer")

    def test_that_has_reached_its_max(self, replica_set, coll, commands):
        ns = f"{coll}.x"
        replica_set.client[coll].x.create_index("n")
        command = commands([counter_rule(ns, max=2000)])
        set_counter(replica_set.client, ns, 2001)
        for more in ((), ("--json",)):
            refused(command.counters("sync", key_of(ns), *more), "no number is left up to its max, 2000")

    def test_behind_the_last_number_of_all(self, replica_set, coll, commands):
        last = (1 << 63) - 1
        replica_set.client[coll].counters.insert_one({"_id": "k", "seq": bson.Int64(last)})
        rule = counter_rule(f"{coll}.x", store={"db": coll, "layout": "counters-seq", "key": "k"})
        for more in ((), ("--json",)):
            refused(commands([rule]).counters("sync", "k", *more), f"k: no number is left behind {last}")


class TestIds:
    def ids(self, command: Commands, ns: str, field: str = "n", *more: object) -> tuple[list[str], str]:
        done = command.run("ids", "--ns", ns, "--field", field, *more)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), done.stderr

    @pytest.mark.parametrize("keys, pattern", [
        ({"strategy": "uuid"}, r'UUID\("[0-9a-f-]{36}"\)'),
        ({"strategy": "random-digits", "digits": 9, "leading_zeros": False}, r"\d{9}"),
    ], ids=str)
    def test_samples_need_no_server(self, tmp_path, keys, pattern):
        class Nobody:
            address = f"127.0.0.1:{free_port()}"
        command = Commands(tmp_path, Nobody(), [{"ns": "shop.*", "field": "n", **keys}])
        lines, errors = self.ids(command, "shop.x")
        assert len(set(lines)) == 5 and all(re.fullmatch(pattern, line) for line in lines), lines
        assert "samples" in errors

    def test_a_counter_gives_none(self, replica_set, coll, commands):
        ns = f"{coll}.x"
        set_counter(replica_set.client, ns, 41)
        command = commands([counter_rule(f"{coll}.*", step=10)])
        assert self.ids(command, ns)[0] == self.ids(command, ns)[0] == ["41", "51", "61", "71", "81"]
        lines, errors = self.ids(command, ns, "n", "-n", 2)
        assert lines == ["41", "51"] and "others may get them" in errors
        assert replica_set.client[STORE]["uniqueIdentifierCounter"].find_one({"_id": key_of(ns)})["COUNT"] == 41

    def test_a_counter_that_does_not_exist_yet(self, replica_set, coll, commands):
        replica_set.client[coll].x.create_index("n", unique=True)
        replica_set.client[coll].x.insert_one({"n": 7})
        lines, _ = self.ids(commands([counter_rule(f"{coll}.x")]), f"{coll}.x", "n", "-n", 1)
        assert lines == ["8"]
        key = {"_id": key_of(f"{coll}.x")}
        assert replica_set.client[STORE]["uniqueIdentifierCounter"].count_documents(key) == 0

    def test_as_many_as_are_left(self, replica_set, coll, commands):
        set_counter(replica_set.client, f"{coll}.x", 9)
        assert self.ids(commands([counter_rule(f"{coll}.x", max=10)]), f"{coll}.x")[0] == ["9", "10"]

    def test_gapless(self, replica_set, coll, commands):
        replica_set.client[coll].x.create_index("n", unique=True)
        replica_set.client[coll].x.insert_one({"n": 3})
        command = commands([{**counter_rule(f"{coll}.x"), "strategy": "gapless"}])
        assert self.ids(command, f"{coll}.x", "n", "-n", 2)[0] == ["4", "5"]

    def test_templates_and_scopes(self, replica_set, coll, commands):
        rules = [counter_rule(f"{coll}.x", output="string", template="INV-{counter:04}"),
                 {**counter_rule(f"{coll}.x", output="string", template="{field:a.branch}-{counter:04}",
                                 scope=["tenant"], unique_index="require"), "field": "m"}]
        command = commands(rules)
        assert self.ids(command, f"{coll}.x", "n", "-n", 1)[0] == ['"INV-0001"']
        lines, errors = self.ids(command, f"{coll}.x", "m", "-n", 2)
        assert lines == ['"branch-0001"', '"branch-0002"']
        assert 'tenant: "tenant", a.branch: "branch"' in errors

    def test_ranges(self, replica_set, coll, commands):
        rules = [{**counter_rule(f"{coll}.r"), "strategy": "counter-ranges",
                  "ranges": {"count": 3, "width": 10}, "store": {"db": coll, "collection": "ranges"}}]
        lines, _ = self.ids(commands(rules), f"{coll}.r", "n", "-n", 2)
        assert int(lines[1]) == int(lines[0]) + 1
        assert "ranges" not in replica_set.client[coll].list_collection_names()

    def test_json(self, commands, coll):
        rules = [{"ns": f"{coll}.x", "field": "n", "strategy": "uuid"}]
        (line,), _ = self.ids(commands(rules), f"{coll}.x", "n", "-n", 2, "--json")
        found = json.loads(line)
        assert (found["ns"], found["field"], found["strategy"]) == (f"{coll}.x", "n", "uuid")
        assert len(found["values"]) == 2 and bson.json_util.loads(line)["values"][0].as_uuid().version == 7

    def test_mistakes(self, replica_set, commands, coll):
        command = commands([counter_rule(f"{coll}.x", max=5)])
        for arguments, text in [(["--ns", "x", "--field", "n"], "--ns must be a database and a collection"),
                                (["--ns", f"{coll}.x", "--field", "m"], "its rules fill n"),
                                (["--ns", f"{coll}.x"], "--field FIELD is required"),
                                (["--ns", f"{coll}.x", "--field", "n", "-n", 0], "-n")]:
            done = command.run("ids", *arguments)
            assert done.returncode == 64 and text in done.stderr, done.stderr
        set_counter(replica_set.client, f"{coll}.x", 6)
        done = command.run("ids", "--ns", f"{coll}.x", "--field", "n")
        assert done.returncode == 69 and "handed out" in done.stderr


class TestCommandLine:
    @pytest.mark.parametrize("arguments, text", [
        ("counters", "list, get, set or sync is required"), ("counters lst", "list, get, set or sync"),
        ("counters get", "NAME is required"), ("counters set x", "VALUE is required"),
        ("counters set x y", "VALUE"), ("counters list x", "x"), ("counters sync x 5", "5"),
        ("counters sync x --force", "--force"),
    ])
    def test_mistakes(self, arguments, text):
        done = subprocess.run([binary(), *arguments.split()], capture_output=True, text=True, timeout=30)
        assert done.returncode == 64 and text in done.stderr, done.stderr

    def test_what_the_pages_print(self, replica_set, start_proxy, commands):
        """Each command of the pages, in their order, for a rule as they have it."""
        replica_set.client.drop_database("shop")
        replica_set.client[STORE]["uniqueIdentifierCounter"].delete_many({})
        rules = [{"ns": "shop.orders", "field": "number", "strategy": "counter", "start": 1000},
                 {"ns": "shop.orders", "field": "code", "strategy": "random-digits", "digits": 6}]
        replica_set.client.shop.orders.create_index("number", unique=True)
        proxy = start_proxy(configuration(replica_set, rules))
        assert insert(proxy, "shop.orders", 100)["n"] == 100
        command = commands(rules)
        seen = 0
        for page in ("counters.md", "command-line.md"):
            text = (PAGES / page).read_text()
            for line in re.findall(r"(?m)^mongo-idproxy ((?:counters|ids) .*)$", text):
                done = command.run(*line.split())
                assert done.returncode == 0, (line, done.stderr)
                seen += 1
        assert seen >= 5
