"""The collection of reservations: when a rule is ready, what it says if not, and who may do what.

What inserts make of it is in test_reserve.py, what the store does in tests/store.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from typing import Any

import bson
import pymongo
import pytest

from support.admin import Admin
from support.guarded import Guarded
from support.process import eventually
from support.proxy import binary, configuration
from support.secured import STORE_ACTIONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTEN = {"listen": "127.0.0.1:0"}
SOON = 20


def rule(db: str, layout: str = "id", **more: Any) -> dict[str, Any]:
    return {"ns": f"{db}.orders", "field": "number", "strategy": "counter",
            "reserve": {"collection": "taken", "layout": layout}, **more}


def connected_check(tmp_path: pathlib.Path, config: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config))
    return subprocess.run([binary(), "--config", file, "--check-config", "--connect"],
                          capture_output=True, text=True, timeout=60, check=False)


def reason(admin: Admin) -> str:
    """Of the only rule, as /readyz has it; empty: it is ready."""
    line = next(line for line in admin.get("/readyz").text.splitlines() if "orders" in line)
    found = re.search(r"not ready: (.*)", line)
    return found[1] if found else ""


class TestReadiness:
    @pytest.mark.parametrize("layout", ["id", "field"])
    def test_indexes_are_made_but_not_by_a_check(self, standalone, start_proxy, coll, tmp_path, layout):
        config = configuration(standalone, [rule(coll, layout)], admin=LISTEN)
        done = connected_check(tmp_path, config)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(rf"{coll}\.orders +number +counter +ready +next number: 1", done.stdout)
        taken = standalone.client[coll].taken
        assert taken.index_information() == {}
        standalone.client[coll].orders.create_index("number")  # not unique
        proxy = start_proxy(config)
        assert proxy.wait_event("ready")["rules_not_ready"] == ""
        indexes = {tuple(index["key"]): index.get("unique", False)
                   for index in taken.index_information().values()}
        expected = {(("_id", 1),): False, (("at", 1),): False}
        if layout == "field":
            expected[(("number", 1),)] = True
        assert indexes == expected
        assert not proxy.find_events("no_unique_index")

    def test_a_view(self, standalone, start_proxy, coll, tmp_path):
        standalone.client[coll].create_collection("taken", viewOn="other")
        config = configuration(standalone, [rule(coll)], admin=LISTEN)
        done = connected_check(tmp_path, config)
        assert done.returncode == 69
        why = f"the collection of reservations, {coll}.taken, is a view."
        assert "NOT READY" in done.stdout and why in done.stdout
        proxy = start_proxy(config)
        admin = Admin(proxy)
        assert reason(admin).startswith(why)
        event = proxy.wait_event("not_ready", SOON, ns=f"{coll}.orders")
        assert event["reason"].startswith(why) and event["field"] == "number"
        with proxy.client() as client:
            (told,) = client.admin.command("idproxy", "status")["rules"][0]["not_ready"]
            assert told["code"] == 96 and told["reason"].startswith(why)
        standalone.client[coll].taken.drop()
        eventually(lambda: reason(admin) == "", SOON)
        proxy.wait_event("ready_again", SOON, ns=f"{coll}.orders")

    def test_equal_reservations_are_in_the_way_of_the_index(self, standalone, start_proxy, coll):
        """The printed command makes it, once they are not."""
        taken = standalone.client[coll].taken
        taken.insert_many([{"number": 1}, {"number": 1}])
        admin = Admin(start_proxy(configuration(standalone, [rule(coll, "field")], admin=LISTEN)))
        found = eventually(lambda: re.search(
            r"\(several reservations have the same value\); make it with "
            r"db\.getSiblingDB\(\"(.*?)\"\)\.getCollection\(\"(.*?)\"\)"
            r"\.createIndex\(\{\"(.*?)\": -1\}, \{unique: true, partialFilterExpression: "
            r"\{\"number\": \{\$exists: true\}\}, name: \"number_idproxy\"\}\)$", reason(admin)), SOON)
        taken.delete_many({})
        standalone.client[found[1]][found[2]].create_index(found[3], unique=True)
        eventually(lambda: reason(admin) == "", SOON)


class TestPrivileges:
    def start(self, guarded: Guarded, start_proxy, user: str, db: str) -> Admin:
        return Admin(start_proxy(configuration(
            guarded, [rule(db, "field")], admin=LISTEN, id_store={"uri": guarded.uri_of(user)})))

    def test_those_that_are_documented_are_enough(self, guarded, start_proxy, coll):
        def on(collection: str, actions: list[str]) -> dict[str, Any]:
            return {"resource": {"db": coll, "collection": collection}, "actions": actions}
        guarded.add_user(coll, [{"role": "readWrite", "db": "idproxy"}], [
            on("", STORE_ACTIONS),
            on("taken", ["find", "insert", "update", "remove", "listIndexes", "createIndex"])])
        admin = self.start(guarded, start_proxy, coll, coll)
        eventually(lambda: reason(admin) == "", SOON)
        assert "number_1" in guarded.client[coll].taken.index_information()

    @pytest.mark.parametrize("lacks", ["insert", "update", "remove"])
    def test_a_missing_one_is_named_with_a_command(self, guarded, start_proxy, coll, lacks):
        """Which makes the rule ready."""
        user = f"{coll}-{lacks}"
        actions = {"find", "insert", "update", "remove", "createIndex"} - {lacks}
        guarded.add_user(user, [{"role": "readWrite", "db": "idproxy"}], [
            {"resource": {"db": coll, "collection": ""}, "actions": STORE_ACTIONS},
            {"resource": {"db": coll, "collection": "taken"}, "actions": sorted(actions)}])
        admin = self.start(guarded, start_proxy, user, coll)
        found = eventually(lambda: re.search(
            r"the id store's user needs readWrite on (\S+): "
            r"db\.getSiblingDB\((.*?)\)\.grantRolesToUser\((.*?), "
            r"\[\{role: (.*?), db: (.*?)\}\]\)$", reason(admin)), SOON)
        assert found[1] == coll
        db, name, role, of = map(json.loads, found.groups()[1:])
        guarded.client[db].command("grantRolesToUser", name, roles=[{"role": role, "db": of}])
        eventually(lambda: reason(admin) == "", SOON)


def test_metrics_begin_at_zero(standalone, start_proxy, coll):
    metrics = Admin(start_proxy(configuration(standalone, [rule(coll)], admin=LISTEN))).metrics()
    for what in ("made_total", "taken_total", "released_total", "swept_total", "waiting"):
        assert metrics(f"idproxy_store_reservations_{what}") == 0


def test_a_backfill_is_refused(standalone, coll, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(configuration(standalone, [rule(coll)])))
    done = subprocess.run([binary(), "backfill", "--config", file, "--ns", f"{coll}.orders",
                           "--field", "number"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 64
    assert "has a `reserve`, and a backfill reserves nothing" in done.stderr


def documented_pipeline() -> list[dict[str, Any]]:
    """Of docs/reserve.md, which reserves what is stored."""
    text = (ROOT / "docs" / "reserve.md").read_text()
    found = re.search(r"db\.orders\.aggregate\((\[.*?\])\)\n", text, re.DOTALL)
    assert found
    stages: list[dict[str, Any]] = json.loads(re.sub(r"([{,]\s*)([$\w]+):", r'\1"\2":', found[1]))
    return stages


def test_the_documented_way_to_reserve_what_is_stored(standalone, coll):
    db = standalone.client[coll]
    db.orders.insert_many([{"_id": i, "number": bson.Int64(i + 100)} for i in range(5)] + [{"_id": 9}])
    db.orders.aggregate(documented_pipeline())
    stored = list(db.orders__number.find(sort=[("_id", 1)]))
    assert [(each["_id"], each["parent_id"]) for each in stored] == [(i + 100, i) for i in range(5)]
    assert all("at" in each for each in stored)
    db.orders.insert_one({"_id": 10, "number": 104})
    with pytest.raises(pymongo.errors.OperationFailure):
        db.orders.aggregate(documented_pipeline())
