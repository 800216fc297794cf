"""A change of primary is seen within five seconds, though no client sends a hello, and though the old one cannot
say that it is none any more."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support import wire
from support.admin import LISTEN, Admin
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.replica_set import Member, ReplicaSet

WITHIN = 5.0
SLACK = 1.5  # for a busy machine


@pytest.fixture(scope="module")
def servers() -> Iterator[ReplicaSet]:
    with ReplicaSet() as running:
        yield running


def states(admin: Admin) -> dict[str, str]:
    return {each["server"]: each["state"] for each in json.loads(admin.get("/status.json").text)["servers"]}


def silent(proxy: Proxy) -> wire.WireClient:
    client = wire.WireClient(proxy.address, 30)
    client.call({"ping": 1, "$db": "admin"})
    return client


def ready(servers: ReplicaSet, start_proxy) -> tuple[Proxy, Admin]:
    proxy = start_proxy(configuration(servers, [], admin=LISTEN))
    admin = Admin(proxy)
    eventually(lambda: sorted(states(admin).values()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 20)
    return proxy, admin


def seen(admin: Admin, proxy: Proxy, old: Member, new: Member) -> None:
    """Within the time, from when the new one says so itself."""
    begun = time.monotonic()
    eventually(lambda: [server for server, state in states(admin).items() if state == "PRIMARY"] == [new.address],
               20, f"{new.address} is the only primary")
    proxy.wait_event("primary_changed", **{"from": old.address, "to": new.address})
    assert time.monotonic() - begun < WITHIN + SLACK


def test_of_a_step_down(servers: ReplicaSet, start_proxy):
    proxy, admin = ready(servers, start_proxy)
    old = servers.primary
    with silent(proxy):
        new = servers.secondaries[0]
        servers.step_up(new)
        seen(admin, proxy, old, new)


def test_while_the_old_one_is_frozen(servers: ReplicaSet, start_proxy):
    servers.await_health()
    proxy, admin = ready(servers, start_proxy)
    old, others = servers.primary, servers.secondaries
    with silent(proxy) as waiting:
        old.process.send_signal(signal.SIGSTOP)
        try:
            waiting.send(wire.command({"ping": 1, "$db": "admin"}))
            new = eventually(lambda: next((each for each in others if each.hello()["isWritablePrimary"]), None), 40)
            seen(admin, proxy, old, new)
            listener = proxy.listener_of(old.address)

            def said() -> bool:
                """All of them agree."""
                down = admin.metrics()("idproxy_listener_up", listener=listener) == 0
                status = json.loads(admin.get("/status.json").text)
                wrong = any(old.address in each["text"] for each in status["wrong"])
                line = next(each for each in admin.get("/readyz").text.splitlines() if f"-> {old.address}" in each)
                return down and wrong and ": server up" not in line

            eventually(said, WITHIN + SLACK)
        finally:
            old.process.send_signal(signal.SIGCONT)


def test_a_frozen_server_whose_clients_are_idle(servers: ReplicaSet, start_proxy):
    servers.await_health()
    proxy, admin = ready(servers, start_proxy)
    frozen = servers.secondaries[0]
    with silent(proxy):
        frozen.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        try:
            proxy.wait_event("server_slow", server=frozen.address)
            said = time.monotonic() - begun
            text = f"server {frozen.address} has not answered hello for "
            assert text in admin.get("/status.json").text
            assert f"error: {text}" in admin.get("/readyz").text
            assert admin.metrics()("idproxy_listener_up", listener=proxy.listener_of(frozen.address)) == 0
            assert said < WITHIN + SLACK
            proxy.wait_event("upstream_unreachable", server=frozen.address, timeout=20)
            eventually(lambda: "cannot be reached" in admin.get("/status.json").text)
            assert len(proxy.find_events("server_slow")) == 1 and not proxy.find_events("server_answers")
        finally:
            frozen.process.send_signal(signal.SIGCONT)
        proxy.wait_event("server_answers", server=frozen.address)


def test_before_the_set_is_initiated(start_proxy):
    with Member("rs3") as member:
        proxy = start_proxy({"upstream": {"uri": f"mongodb://{member.address}/?replicaSet=rs3"},
                             "rules": [{"ns": "shop.orders", "field": "n", "strategy": "counter"}],
                             "admin": LISTEN})
        admin = Admin(proxy)

        def wrong() -> list[dict]:
            return json.loads(admin.get("/status.json").text)["wrong"]

        eventually(lambda: any("rs.initiate()" in each["remedy"] for each in wrong()), 20)
        assert not any("replicaSet" in each["text"] + each["remedy"] for each in wrong())
        assert "rs.initiate()" in admin.get("/readyz").text


def test_what_was_the_most_stays(standalone: Mongod, start_proxy):
    proxy = start_proxy(configuration(standalone, [], admin=LISTEN))
    admin = Admin(proxy)

    def status() -> dict[str, Any]:
        document: dict[str, Any] = json.loads(admin.get("/status.json").text)
        return document

    def clients() -> dict[str, int]:
        gauge: dict[str, int] = status()["limits"]["clients"]
        return gauge

    connected = [silent(proxy) for _ in range(15)]
    assert clients()["most"] == 15
    for each in connected:
        each.close()
    eventually(lambda: clients()["current"] == 0)

    seconds: set[int] = set()  # in each of which a sample is taken

    def stays() -> bool:
        seconds.add(int(status()["now"]))
        assert clients()["most"] == 15 and clients()["most_lately"] == 15
        return len(seconds) >= 3

    eventually(stays)


def test_a_rule_s_rate_is_that_of_the_last_seconds(standalone: Mongod, start_proxy):
    rule = {"ns": "rate.orders", "field": "n", "strategy": "uuid"}
    proxy = start_proxy(configuration(standalone, [rule], admin=LISTEN))
    admin = Admin(proxy)

    def rate() -> float:
        return json.loads(admin.get("/status.json").text)["rules"][0]["values_per_second"]

    eventually(lambda: json.loads(admin.get("/status.json").text)["history"]["clients"], 10, "a first sample")
    with proxy.client() as client:
        client.rate.orders.insert_many([{} for _ in range(500)])
        eventually(lambda: rate() > 10, 4, "the rate shows what has just been given")
    eventually(lambda: rate() == 0, 10, "and what is not given any more")
