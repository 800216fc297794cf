"""Before the first insert: which rules are ready, what stands in the way of the others, and what to type.

By /readyz, the status and the log of a proxy that serves, and by --check-config --connect, which serves
nobody.
"""

from __future__ import annotations

import json
import pathlib
import re
import socket
import subprocess
from typing import Any

import bson
import pymongo
import pytest
from pymongo.errors import WriteError

from support.admin import LISTEN, Admin
from support.counters import STORE, insert, set_counter
from support.guarded import Guarded
from support.process import eventually, free_port
from support.proxy import binary, configuration
from support.secrets import PASSWORD
from support.secured import STORE_ACTIONS
from support.typed import create_index

SOON = 40


def counter_of(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "n", "strategy": "counter", **more}


def await_reason(admin: Admin, rule: int = 0) -> str:
    """Why the rule is not ready, once its counter has been checked."""
    def reason() -> str:
        line = admin.rules()[rule]
        return "" if line == "ready" or "not been checked yet" in line else line
    return eventually(reason, SOON)


def add_user(guarded: Guarded, name: str, roles: list[Any]) -> None:
    resource = {"db": "", "collection": ""}
    guarded.add_user(name, roles, [{"resource": resource, "actions": STORE_ACTIONS}])


def grant(client: pymongo.MongoClient, command: str) -> None:
    """Runs a printed command."""
    found = re.fullmatch(r"db\.getSiblingDB\((.*?)\)\.grantRolesToUser\((.*?), "
                         r"\[\{role: (.*?), db: (.*?)\}\]\)", command)
    assert found, command
    db, user, role, of = map(json.loads, found.groups())
    client[db].command("grantRolesToUser", user, roles=[{"role": role, "db": of}])


class TestBeforeTheFirstInsert:
    def test_ready_rules_are_said_to_be_so(self, standalone, start_proxy, coll):
        set_counter(standalone.client, f"{coll}.old", 1001)
        rules = [counter_of(f"{coll}.old"), counter_of(f"{coll}.new", start=7, max=16, block={"size": 100}),
                 {"ns": f"{coll}.*", "field": "u", "strategy": "uuid"},
                 {"ns": f"{coll}.codes", "field": "c", "strategy": "random-digits", "digits": 3}]
        proxy = start_proxy(configuration(standalone, rules, admin=LISTEN))
        admin = Admin(proxy)
        assert admin.rules() == ["ready"] * 4
        ready = proxy.wait_event("ready")
        assert ready["rules_ready"].startswith(f"0 ({coll}.old, n), 1 ({coll}.new, n), 2 ")
        assert ready["rules_not_ready"] == ""
        metrics = admin.metrics()
        assert metrics("idproxy_rule_next_number", rule="0") == 1001
        assert metrics("idproxy_rule_next_number", rule="1") == 7
        assert metrics("idproxy_rule_numbers_left", rule="1") == 10
        assert metrics("idproxy_rule_numbers_held", rule="1") == 0
        assert metrics("idproxy_rule_fill_ratio", rule="3") == 0
        with proxy.client() as client:
            old, new, _, codes = client.admin.command("idproxy", "status")["rules"]
            of_counter = {"sequence": None, "held": 0, "reads_collection": False}
            assert old["numbers"] == [{"ns": f"{coll}.old", "next": 1001, "left": 2**63 - 1 - 1000, **of_counter}]
            assert new["numbers"] == [{"ns": f"{coll}.new", "next": 7, "left": 10, **of_counter}]
            assert codes["numbers"] == [{"ns": f"{coll}.codes", "sequence": None, "documents": 0, "fill": 0.0,
                                         "max_fill": 0.9}]
        stored = standalone.client[STORE].uniqueIdentifierCounter
        assert stored.find_one({"_id": f"{coll}.new.n"}) is None, "looking made the counter"

        assert insert(proxy, f"{coll}.new", 4)["n"] == 4
        metrics = admin.metrics()
        assert metrics("idproxy_rule_next_number", rule="1") == 11
        assert metrics("idproxy_rule_numbers_left", rule="1") == 6
        assert metrics("idproxy_rule_numbers_held", rule="1") == 6
        assert metrics("idproxy_store_numbers_held") == 6

    def test_a_login_that_fails(self, guarded, start_proxy, coll):
        uri = guarded.uri_of("root").replace(PASSWORD, "wrong-password")
        rules = [counter_of(f"{coll}.orders"), {"ns": f"{coll}.*", "field": "u", "strategy": "uuid"}]
        proxy = start_proxy(configuration(
            guarded, rules, admin=LISTEN, id_store={"uri": uri}))
        admin = Admin(proxy)
        first = await_reason(admin)
        assert re.fullmatch("not ready: .*Authentication failed.*user root and its password in "
                            "id_store.uri.*", first), first
        assert admin.rules()[1] == "ready", "it needs no store"
        page = admin.get("/readyz").text
        assert "the id store refuses the proxy's login: Authentication failed. (check user root" in page
        assert "does not answer" not in page
        event = proxy.wait_event("not_ready", SOON, ns=f"{coll}.orders")
        assert "Authentication failed" in event["reason"] and event["field"] == "n"
        with proxy.client(username="root", password=PASSWORD, authSource="admin") as client:
            (reason,) = client.admin.command("idproxy", "status")["rules"][0]["not_ready"]
            assert reason["code"] == 6 and "Authentication failed" in reason["reason"]

    def test_a_missing_privilege_with_the_command_that_helps(self, guarded, start_proxy, coll):
        add_user(guarded, f"{coll}-reader", [])
        proxy = start_proxy(configuration(guarded, [counter_of(f"{coll}.orders")], admin=LISTEN,
                                          id_store={"uri": guarded.uri_of(f"{coll}-reader")}))
        admin = Admin(proxy)
        line = await_reason(admin)
        lacks = "not ready: the id store's user needs readWrite on idproxy: "
        assert line.startswith(lacks), line
        assert proxy.wait_event("not_ready", SOON)["reason"] == line.removeprefix("not ready: ")
        grant(guarded.client, line.removeprefix(lacks))
        proxy.wait_event("ready_again", SOON, ns=f"{coll}.orders")
        assert admin.rules() == ["ready"]
        with proxy.client(username="root", password=PASSWORD, authSource="admin") as client:
            client[coll].orders.insert_one({})
        assert guarded.client[coll].orders.find_one()["n"] == 1
        assert len(proxy.find_events("not_ready")) == len(proxy.find_events("ready_again")) == 1

    @pytest.mark.parametrize("key", ["upstream.uri", "id_store.uri"])
    def test_no_user_at_all(self, guarded, start_proxy, coll, key):
        store = {"uri": f"mongodb://{guarded.address}"} if key == "id_store.uri" else {}
        config: dict[str, Any] = {"upstream": {"uri": f"mongodb://{guarded.address}"},
                                  "rules": [counter_of(f"{coll}.orders")], "admin": LISTEN}
        proxy = start_proxy({**config, **({"id_store": store} if store else {})})
        line = await_reason(Admin(proxy))
        assert line == (f"not ready: the id store needs readWrite on idproxy, and {key} names no "
                        "user: name one in id_store.uri_file or id_store.uri")
        assert "id store's user" not in proxy.log(), "there is none"


# --- Without serving ---

def check(directory: pathlib.Path, config: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = directory / "config.yaml"
    file.write_text(json.dumps({"admin": {"listen": None}, **config}))
    file.chmod(0o600)
    return subprocess.run([binary(), "--config", file, "--check-config", "--connect"],
                          capture_output=True, text=True, timeout=60)


def rows_of(output: str) -> list[list[str]]:
    """Of the table of rules; columns are two blanks apart, notes rows of their own. Without what an
    old server cannot do (test_old_servers.py)."""
    table = output.split("\nRules\n")[1].split("\n\n")[0]
    return [re.split(" {2,}", line.strip()) for line in table.splitlines()
            if not line.strip().startswith("with MongoDB ")]


def traces(client: pymongo.MongoClient, since: bson.Timestamp) -> list[dict[str, Any]]:
    """What a replica set was told to write after that, but for its own sessions."""
    return list(client.local["oplog.rs"].find(
        {"ts": {"$gt": since}, "op": {"$ne": "n"}, "ns": {"$not": re.compile(r"^config\.|^admin\.system\.keys")}}))


def latest(client: pymongo.MongoClient) -> bson.Timestamp:
    """When it was last told to write anything."""
    return next(client.local["oplog.rs"].find({}, {"ts": 1}).sort("$natural", -1).limit(1))["ts"]


def closed(*names: str, **more: Any) -> dict[str, Any]:
    return {"additionalProperties": False, "properties": dict.fromkeys(names, {}), **more}


# The rule's field, the collection's validator and other options, and whether mongod refuses the field.
SCHEMAS: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("n", {"$jsonSchema": closed("_id", "x")}, {}, True),
    ("n", {"$jsonSchema": {"allOf": [{}, closed("_id")]}}, {}, True),
    ("n", {"$jsonSchema": closed("_id", "n")}, {}, False),
    ("n", {"$jsonSchema": closed("_id", "x")}, {"validationAction": "warn"}, False),
    ("n", {"$jsonSchema": closed("_id", patternProperties={"^n": {}})}, {}, False),
    ("n", {"$jsonSchema": {"required": ["x"], "properties": {"x": {}}}}, {}, False),
    ("a.n", {"$jsonSchema": {"properties": {"a": closed("x")}}}, {}, True),
    ("n", {"$and": [{"x": {"$exists": False}}, {"$jsonSchema": closed("_id")}]}, {}, True),
    ("n", {"$and": [{"x": {"$exists": False}}, {"$jsonSchema": closed("_id")}]}, {"validationLevel": "off"}, False),
]


class TestConnect:
    def test_all_is_ready_and_nothing_is_used_up(self, replica_set, start_proxy, tmp_path, coll):
        set_counter(replica_set.client, f"{coll}.old", 1001)
        rules = [counter_of(f"{coll}.old"),
                 counter_of(f"{coll}.new", start=5, output="string", format={"prefix": "R-"}),
                 {"ns": f"{coll}.e", "field": "u", "strategy": "uuid", "version": 7},
                 {"ns": f"{coll}.e", "field": "o", "strategy": "objectid"},
                 {"ns": f"{coll}.e", "field": "d", "strategy": "random-digits", "digits": 9,
                  "leading_zeros": False, "unique_index": "create"},
                 counter_of(f"{coll}.*")]
        version = replica_set.client.server_info()["version"]
        before = latest(replica_set.client)
        with socket.create_server(("127.0.0.1", 0)) as taken:  # it listens nowhere
            config = {**configuration(replica_set, rules),
                      "listen": {"address": "127.0.0.1", "port": taken.getsockname()[1]}}
            for _ in range(2):
                done = check(tmp_path, config)
                assert done.returncode == 0, done.stdout + done.stderr
        assert traces(replica_set.client, before) == []
        assert f"  {replica_set.address}  primary  MongoDB {version}\n" in done.stdout
        rows = rows_of(done.stdout)
        assert rows[0] == ["0", f"{coll}.old", "n", "counter", "ready", "next number: 1001"]
        assert rows[1][-2:] == ["ready", 'next number: "R-5"']
        for row, sample in zip(rows[2:5], [r'UUID\("[\da-f-]{36}"\)', r'ObjectId\("[\da-f]{24}"\)',
                                           r"[1-9]\d{8}"], strict=True):
            assert row[-2] == "ready" and re.fullmatch(f"for example: {sample}", row[-1]), row
        assert rows[5] == ["the proxy makes the unique index when it starts"]
        assert rows[6][-1] == "checked with the first insert into each collection"
        proxy = start_proxy(configuration(replica_set, rules[:2]))
        assert insert(proxy, f"{coll}.old", 1)["n"] == insert(proxy, f"{coll}.new", 1)["n"] == 1
        assert replica_set.client[coll].old.find_one()["n"] == 1001
        assert replica_set.client[coll].new.find_one()["n"] == "R-5"

    def test_a_collection_that_would_have_to_be_read_is_not(self, replica_set, tmp_path, coll):
        replica_set.client[coll].orders.insert_one({"other": 1})
        before = latest(replica_set.client)
        done = check(tmp_path, configuration(
            replica_set, [counter_of(f"{coll}.orders", scan="off")]))
        assert done.returncode == 69
        assert "`scan` is off" in done.stdout and "createIndex" in done.stdout
        config = configuration(replica_set, [counter_of(f"{coll}.orders"),
                                             counter_of(f"{coll}.orders", field="m", scan="90s")])
        done = check(tmp_path, config)
        assert done.returncode == 0, done.stdout + done.stderr
        assert traces(replica_set.client, before) == []
        rows = rows_of(done.stdout)
        for row, limit in zip(rows[::2], ("60s", "90s"), strict=True):
            assert row[-2:] == ["ready", "the first insert would read the whole collection "
                                         f"(scan: {limit})"]
        for (note,) in rows[1::2]:
            assert note.startswith("no unique index keeps a value from being stored twice: ")
            create_index(replica_set.client, note)
        rows = rows_of(check(tmp_path, config).stdout)
        assert [row[-2:] for row in rows] == [["ready", "next number: 1"]] * 2

    def test_a_server_that_reads_no_collection_as_a_whole(self, replica_set, start_proxy, tmp_path, coll):
        replica_set.client[coll].orders.insert_one({"n": bson.Int64(7)})
        config = configuration(replica_set, [counter_of(f"{coll}.orders")])
        replica_set.client.admin.command({"setParameter": 1, "notablescan": True})
        try:
            done = check(tmp_path, config)
            assert done.returncode == 69
            (note,) = rows_of(done.stdout)[1]
            assert "set to read no collection as a whole (notablescan): " in note, note
            proxy = start_proxy(config)
            refused = insert(proxy, f"{coll}.orders", 1)
            assert refused["code"] == 96 and note in refused["errmsg"], refused
            create_index(replica_set.client, note)
            assert check(tmp_path, config).returncode == 0
            eventually(lambda: insert(proxy, f"{coll}.orders", 1).get("n") == 1, 20)
        finally:
            replica_set.client.admin.command({"setParameter": 1, "notablescan": False})

    def test_collections_whose_schema_is_closed(self, replica_set, tmp_path, coll):
        db = replica_set.client[coll]
        rules, refused = [], {}
        for number, (field, validator, options, by_mongod) in enumerate(SCHEMAS):
            db.create_collection(f"orders{number}", validator=validator, **options)
            db[f"orders{number}"].create_index(field, unique=True)
            rules.append(counter_of(f"{coll}.orders{number}", field=field))
            if by_mongod:
                refused[number] = field
        done = check(tmp_path, configuration(replica_set, rules))
        assert done.returncode == 69
        notes: dict[int, list[str]] = {}
        for row in rows_of(done.stdout):
            if len(row) > 1:  # else it is a note of the rule above
                number = int(row[0])
                notes[number] = []
                assert (row[-1] == "NOT READY") == (number in refused), done.stdout
            else:
                notes[number] += row
        for number, field in refused.items():
            (note,) = notes.pop(number)
            assert f"permits no field {field} (" in note and "inserts get error 121" in note and "collMod" in note
            with pytest.raises(WriteError) as raised:
                db[f"orders{number}"].insert_one({"a": {"n": 1}} if "." in field else {field: 1})
            assert raised.value.code == 121
        assert not any(notes.values()) and len(notes) == len(rules) - len(refused)
        done = check(tmp_path, configuration(replica_set, [
            each for number, each in enumerate(rules) if number not in refused]))
        assert done.returncode == 0, done.stdout

    def test_a_rule_that_is_not_ready(self, standalone, tmp_path, coll):
        rules = [{"ns": f"{coll}.orders", "field": "u", "strategy": "uuid",
                  "unique_index": "require"}, counter_of(f"{coll}.bills", max=5)]
        set_counter(standalone.client, f"{coll}.bills", 6)
        done = check(tmp_path, configuration(standalone, rules))
        assert done.returncode == 69
        rows = rows_of(done.stdout)
        assert rows[0] == ["0", f"{coll}.orders", "u", "uuid", "NOT READY"]
        assert "createIndex" in rows[1][0]
        assert rows[2][-1] == "NOT READY" and rows[3] == [
            "all numbers up to max, 5, have been handed out"]
        assert done.stdout.endswith("\n2 of 2 rules are not ready\n")
        db, name, keys = re.search(
            r'getSiblingDB\((".*?")\)\.getCollection\((".*?")\)\.createIndex\((\{.*?\}),',
            rows[1][0]).groups()
        standalone.client[json.loads(db)][json.loads(name)].create_index(
            list(json.loads(keys).items()), unique=True, sparse=True)
        assert rows_of(check(tmp_path, configuration(standalone, rules[:1])).stdout)[0][4] == "ready"

    def test_no_server(self, tmp_path, coll):
        address = f"127.0.0.1:{free_port()}"
        done = check(tmp_path, {"upstream": {"uri": f"mongodb://{address}"},
                                "rules": [counter_of(f"{coll}.orders")]})
        assert done.returncode == 69
        assert f"  {address}  does not answer\n" in done.stdout
        assert "the id store does not answer" in done.stdout
        assert "1 of 1 rule is not ready" in done.stdout

    def test_mistakes_in_the_file_come_first(self, tmp_path):
        done = check(tmp_path, {"rules": [{"ns": "a.b", "feild": "x", "strategy": "uuid"}]})
        assert done.returncode == 78
        assert "did you mean 'field'" in done.stdout and "Servers" not in done.stdout
