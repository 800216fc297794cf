"""Before the first insert: which rules are ready, what stands in the way of the others, and what to type.

By /readyz, the status and the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.admin import LISTEN, Admin
from support.counters import STORE, insert, set_counter
from support.guarded import Guarded
from support.process import eventually, free_port
from support.proxy import configuration
from support.secrets import PASSWORD
from support.secured import STORE_ACTIONS

SOON = 40


def counter_of(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "n", "strategy": "counter", **more}


def await_reason(admin: Admin, rule: int = 0) -> str:
    """Why the rule is not ready, once its counter has been checked."""
    def reason() -> str:
        line = lines_of_rules(admin)[rule]
        return "" if line == "ready" or "not been checked yet" in line else line
    return eventually(reason, SOON)


def lines_of_rules(admin: Admin) -> list[str]:
    """What /readyz says of each rule."""
    return [line.split("): ", 1)[1] for line in admin.get("/readyz").text.splitlines()
            if line.startswith("rule ")]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with Guarded() as mongod:
        yield mongod


def add_user(guarded: Guarded, name: str, roles: list[Any]) -> None:
    resource = {"db": "", "collection": ""}
    guarded.add_user(name, roles, [{"resource": resource, "actions": STORE_ACTIONS}])


class TestBeforeTheFirstInsert:
    def test_ready_rules_are_said_to_be_so(self, standalone, start_proxy, coll):
        set_counter(standalone.client, f"{coll}.old", 1001)
        rules = [counter_of(f"{coll}.old"), counter_of(f"{coll}.new", start=7, max=16, block={"size": 100}),
                 {"ns": f"{coll}.*", "field": "u", "strategy": "uuid"},
                 {"ns": f"{coll}.codes", "field": "c", "strategy": "random-digits", "digits": 3}]
        proxy = start_proxy(configuration(standalone, rules, admin=LISTEN))
        admin = Admin(proxy)
        assert lines_of_rules(admin) == ["ready"] * 4
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
            assert old["numbers"] == [{"ns": f"{coll}.old", "next": 1001, "held": 0,
                                       "left": 2**63 - 1 - 1000}]
            assert new["numbers"] == [{"ns": f"{coll}.new", "next": 7, "held": 0, "left": 10}]
            assert codes["numbers"] == [{"ns": f"{coll}.codes", "documents": 0, "fill": 0.0,
                                         "maxFill": 0.9}]
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
        assert lines_of_rules(admin)[1] == "ready", "it needs no store"
        assert "id store: does not answer: " in admin.get("/readyz").text
        event = proxy.wait_event("not_ready", SOON, ns=f"{coll}.orders")
        assert "Authentication failed" in event["reason"] and event["field"] == "n"
        with proxy.client(username="root", password=PASSWORD, authSource="admin") as client:
            (reason,) = client.admin.command("idproxy", "status")["rules"][0]["notReady"]
            assert reason["code"] == 6 and "Authentication failed" in reason["errmsg"]

    def test_a_server_that_is_down(self, standalone, start_proxy, coll):
        uri = f"mongodb://127.0.0.1:{free_port()}"
        proxy = start_proxy(configuration(
            standalone, [counter_of(f"{coll}.orders")], admin=LISTEN, id_store={"uri": uri}))
        admin = Admin(proxy)
        line = await_reason(admin)
        assert line.startswith("not ready: the id store does not answer: ")
        assert uri.removeprefix("mongodb://") in line
        assert proxy.wait_event("not_ready", SOON)["ns"] == f"{coll}.orders"

    def test_a_missing_privilege_with_the_command_that_helps(self, guarded, start_proxy, coll):
        add_user(guarded, f"{coll}-reader", [])
        proxy = start_proxy(configuration(guarded, [counter_of(f"{coll}.orders")], admin=LISTEN,
                                          id_store={"uri": guarded.uri_of(f"{coll}-reader")}))
        admin = Admin(proxy)
        line = await_reason(admin)
        command = re.fullmatch(
            r"not ready: the id store's user needs readWrite on idproxy: db\.getSiblingDB\((.*?)\)"
            r"\.grantRolesToUser\((.*?), \[\{role: (.*?), db: (.*?)\}\]\)", line)
        assert command, line
        assert proxy.wait_event("not_ready", SOON)["reason"] == line.removeprefix("not ready: ")
        db, user, role, of = map(json.loads, command.groups())
        guarded.client[db].command("grantRolesToUser", user, roles=[{"role": role, "db": of}])
        proxy.wait_event("ready_again", SOON, ns=f"{coll}.orders")
        assert lines_of_rules(admin) == ["ready"]
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
