"""{idproxy: "status"}: what the proxy says of itself and its rules, and to whom."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support import wire
from support.admin import LISTEN, Admin
from support.fake_server import FakeServer, reply_to
from support.guarded import Guarded
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, binary, configuration
from support.servers import has
from support.replica_set import ARBITER, ReplicaSet
from support.thief import Robbed, fresh
from support.wire import WireClient

HOST_UNREACHABLE = 6
UNAUTHORIZED = 13
OPERATION_FAILED = 96

STATUS = {"idproxy": "status", "$db": "admin"}
COUNTS = ["values", "resent", "cured", "given_up", "foreign", "transient", "surfaced", "unacknowledged", "handed_out"]
COUNTS_OF_STORE = ["round_trips", "blocks", "blocks_dropped", "numbers_allocated", "numbers_returned", "heals"]
# A rule that is not ready is looked at every 10 s.
SOON = 40


def rule(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "number", "strategy": "random-digits", **more}


def status(client: pymongo.MongoClient) -> dict[str, Any]:
    return client.admin.command("idproxy", "status")


def rules_of(client: pymongo.MongoClient) -> dict[str, dict[str, Any]]:
    """What the status says of each rule, by its namespace."""
    return {each["ns"]: each for each in status(client)["rules"]}


# --- What it says ---

def test_names_the_proxy_and_its_server(
        server: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    proxy = start_proxy(configuration(server, [rule(f"{coll}.*")]))
    with proxy.client() as client:
        client.admin.command("ping")
        said = status(client)
    version = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True)
    assert said["version"] == version.stdout.split()[1]
    assert (said["listener"], said["server"]) == (proxy.address, server.address)
    (only,) = said["servers"]
    assert only["clients"] >= 1
    member = (server.address, server.replica_set, "PRIMARY") if server.replica_set else (None, None, "STANDALONE")
    assert (only["me"], only["set"], only["state"]) == member
    assert (only["advertised"], only["server"], only["origin"]) == (proxy.address, server.address, "uri")
    (its,) = said["rules"]
    assert (its["ns"], its["field"], its["strategy"]) == (f"{coll}.*", "number", "random-digits")
    assert its["ready"] is True and its["not_ready"] == [] and its["forwarded"] == {}
    assert {its[count] for count in COUNTS} == {0}
    assert said["requests"]["connections"] >= 1
    assert {said["store"][count] for count in COUNTS_OF_STORE} == {0}
    times = ["$clusterTime", "operationTime"] if server.replica_set else []
    assert list(said)[-1 - len(times):] == ["ok", *times]


def test_says_what_status_json_says(server: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    """And more: which listener is asked, and the collections of rules."""
    proxy = start_proxy(configuration(server, [rule(f"{coll}.*")], admin=LISTEN))
    with proxy.client() as client:
        client[coll].orders.insert_one({})
        said = status(client)
        page = json.loads(Admin(proxy).get("/status.json").text)
    assert set(page) <= set(said)
    assert set(said) - set(page) - {"$clusterTime", "operationTime"} == {"listener", "server", "ok"}
    for part in ("servers", "rules", "store", "requests", "configuration"):
        of_page, its = (each[part][0] if isinstance(each[part], list) else each[part] for each in (page, said))
        assert set(its) - set(of_page) == ({"not_ready", "numbers"} if part == "rules" else set())
    assert [each["ns"] for each in said["rules"][0]["numbers"]] == [f"{coll}.orders"]


def test_without_anything_mapped(
        replica_set: Mongod, start_proxy: Callable[..., Proxy]) -> None:
    proxy = start_proxy({"upstream": {"uri": replica_set.uri}, "rules": []})
    with WireClient(proxy.address) as client:
        said = client.call(STATUS)
    assert (said["listener"], said["server"]) == (proxy.address, replica_set.address)
    assert [each["server"] for each in said["servers"]] == [replica_set.address]


def test_each_listener_stands_for_a_server_of_its_own(start_proxy: Callable[..., Proxy]) -> None:
    with ReplicaSet(members=({}, {}, ARBITER)) as three:
        # The first one alone is in the connection string.
        proxy = start_proxy(configuration(three.members[0], []))
        with proxy.client() as client:
            known = eventually(lambda: (found := status(client)["servers"])[2:] and found, SOON)
        listeners = {each["server"]: each["advertised"] for each in known}
        assert set(listeners) == {each.address for each in three.members}
        states = {each.address: "PRIMARY" if each is three.primary else "SECONDARY"
                  for each in three.members[:2]} | {three.members[2].address: "ARBITER"}
        for server, address in listeners.items():
            with WireClient(address) as client:
                client.call({"hello": 1, "$db": "admin"})
                said = client.call(STATUS)
                assert said["ok"] == 1, "a secondary and an arbiter are asked like a primary"
                assert (said["listener"], said["server"]) == (address, server)
                assert {each["server"]: each["advertised"] for each in said["servers"]} == listeners
                (own,) = [each for each in said["servers"] if each["advertised"] == address]
                assert own["clients"] >= 1
        assert {each["server"]: each["state"] for each in said["servers"]} == states
        assert {each["set"] for each in said["servers"]} == {three.name}
        assert {each["server"]: each["origin"] for each in said["servers"]} == {
            each.address: "member" if i else "uri" for i, each in enumerate(three.members)}


@pytest.mark.tsan
def test_rules_are_ready_or_it_says_why_not(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    db = standalone.client[coll]
    db.create_collection("view", viewOn="orders")
    if has("time_series"):
        db.create_collection("readings", timeseries={"timeField": "at"})
    else:
        db.create_collection("readings", viewOn="orders")
    db.guarded.create_index("number", unique=True)
    db.full.insert_many([{"number": i} for i in range(95)])
    proxy = start_proxy(configuration(standalone, [
        rule(f"{coll}.warned"), rule(f"{coll}.required", unique_index="require"),
        rule(f"{coll}.guarded", unique_index="require"), rule(f"{coll}.full", digits=2),
        rule(f"{coll}.view"), rule(f"{coll}.readings"), rule("*", unique_index="require")]))
    with proxy.client(retryWrites=False) as client:
        said = rules_of(client)
        ready = [ns for ns, each in said.items() if each["ready"]]
        assert ready == [f"{coll}.warned", f"{coll}.guarded", "*"]
        assert not any(said[ns]["not_ready"] for ns in ready)
        for name in ["view", "readings"]:
            assert said[f"{coll}.{name}"]["not_ready"] == [{
                "ns": f"{coll}.{name}", "code": None,
                "reason": "a view or a time-series collection: no rule applies to it"}]

        # What inserts get is what the status says.
        for name, expected in [("required", "createIndex"), ("full", "max_fill")]:
            with pytest.raises(OperationFailure) as refused:
                client[coll][name].insert_one({})
            (reason,) = rules_of(client)[f"{coll}.{name}"]["not_ready"]
            assert (reason["ns"], reason["code"]) == (f"{coll}.{name}", OPERATION_FAILED)
            assert expected in reason["reason"] and refused.value.code == OPERATION_FAILED
            assert name == "full" or reason["reason"] in str(refused.value)

        # Of a wildcard, what somebody has asked for.
        with pytest.raises(OperationFailure):
            client[coll].others.insert_one({})
        (reason,) = rules_of(client)["*"]["not_ready"]
        assert reason["ns"] == f"{coll}.others"
        assert reason["code"] in (HOST_UNREACHABLE, OPERATION_FAILED)

        db.required.create_index("number", unique=True)
        db.others.create_index("number", unique=True)
        eventually(lambda: rules_of(client)[f"{coll}.required"]["ready"], SOON)
        eventually(lambda: rules_of(client)["*"]["ready"], SOON)


def test_a_store_that_is_down_is_a_reason(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    proxy = start_proxy(configuration(
        standalone, [rule(f"{coll}.required", unique_index="require"), rule(f"{coll}.warned")],
        id_store={"uri": f"mongodb://127.0.0.1:{free_port()}"}))
    with proxy.client() as client:
        def reason() -> dict[str, Any]:
            (found,) = rules_of(client)[f"{coll}.required"]["not_ready"]
            return found
        eventually(lambda: "the id store does not answer" in reason()["reason"], SOON)
        assert reason()["code"] == HOST_UNREACHABLE
        assert rules_of(client)[f"{coll}.warned"]["ready"]


@pytest.mark.tsan
def test_counts_what_became_of_values(
        start_robbed: Callable[..., Robbed], server: Mongod, coll: str) -> None:
    robbed = start_robbed(server, [
        {"ns": f"{coll}.orders", "field": "_id", "strategy": "random-digits"},
        {"ns": f"{coll}.*", "field": "n", "strategy": "counter", "block": {"size": 10}},
        {"ns": f"{coll}.orders", "field": "email", "strategy": "uuid"}])
    ns = fresh(robbed, coll, "orders", "code")
    with robbed.proxy.client() as client:
        robbed.thief.steal(ns, times={1: 2})
        assert robbed.insert(ns, [{"k": i} for i in range(3)])["n"] == 3
        said = status(client)
    ids, numbers, texts = said["rules"]
    assert {name: ids[name] for name in COUNTS if ids[name]} == {"values": 3, "resent": 2, "cured": 1}
    assert numbers["values"] == texts["values"] == 3
    assert numbers["resent"] == texts["resent"] == 0
    assert said["requests"]["inserts"] == 1
    assert said["requests"]["documents_refused"] == said["requests"]["refused"] == 0
    assert said["store"]["blocks"] >= 1 and said["store"]["numbers_allocated"] >= 10
    assert said["store"]["round_trips"] >= said["store"]["blocks"]


# --- How it is asked ---

@pytest.mark.tsan
def test_answers_in_turn(proxy: Proxy) -> None:
    """Whoever wants no reply gets none, and a checksum gets one."""
    ping = {"ping": 1, "$db": "admin"}
    bodies = [ping, STATUS, STATUS, ping, {**STATUS, "idproxy": 1}, ping, STATUS]
    silent = wire.command(STATUS, flags=wire.MORE_TO_COME)
    for flags in (0, wire.CHECKSUM_PRESENT, wire.EXHAUST_ALLOWED):
        with WireClient(proxy.address) as client:
            client.send(silent.join(wire.command(body, request_id=i, flags=0 if body is ping else flags)
                                    for i, body in enumerate(bodies)))
            for i, body in enumerate(bodies):
                reply = client.receive()
                assert reply.response_to == i
                assert ("version" in reply.body) == (body is STATUS)
                assert reply.body["ok"] == (body.get("idproxy") != 1)
                assert reply.flags == (0 if body is ping else flags & wire.CHECKSUM_PRESENT)


def test_asks_the_server_for_hostinfo_and_nothing_else(
        start_robbed: Callable[..., Robbed], replica_set: Mongod) -> None:
    robbed = start_robbed(replica_set, [])
    with robbed.proxy.client() as client:
        assert status(client)["ok"] == 1
    asked = [m for m in robbed.thief.messages if m.body and "hostInfo" in m.body]
    assert [m.body for m in asked] == [{"hostInfo": 1, "$db": "admin"}]
    with WireClient(robbed.proxy.address) as client:
        assert client.call({**STATUS, "$db": "test"})["code"] == UNAUTHORIZED
    assert not any("idproxy" in (m.body or {}) for m in robbed.thief.messages
                   if m.direction == "to_server")


def test_a_server_that_cannot_be_understood_ends_the_connection(
        start_proxy: Callable[..., Proxy], standalone: Mongod) -> None:
    with FakeServer() as fake:
        proxy = start_proxy(configuration(fake, [], standalone))
        fake.others = {"hostInfo": lambda request: reply_to(request, {"no": "ok"})}
        with WireClient(proxy.address) as client:
            client.send(wire.command(STATUS))
            with pytest.raises(wire.Closed):
                client.receive()


def test_many_ask_at_once(proxy: Proxy) -> None:
    """One answer is made for all who wait, and none for those who have gone."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(WireClient(proxy.address, 30)) for _ in range(300)]
        for client in clients:
            client.send(wire.command(STATUS))
        for client in clients[:100]:
            client.close()
        assert all(client.receive().body["ok"] == 1 for client in clients[100:])
    with WireClient(proxy.address) as client:
        assert client.call(STATUS)["ok"] == 1


# --- Who may ask ---

@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with Guarded() as mongod:
        mongod.add_user("writer", [{"role": "readWrite", "db": "shop"}])
        mongod.add_user("admin", ["userAdminAnyDatabase", "readWriteAnyDatabase"])
        mongod.add_user("monitor", ["clusterMonitor"])
        mongod.add_user("looker", [], [{"resource": {"cluster": True}, "actions": ["hostInfo"]}])
        yield mongod


@pytest.fixture(scope="module")
def guarded_proxy(guarded: Guarded) -> Iterator[Proxy]:
    with Proxy(configuration(guarded, [rule("shop.*")],
                             id_store={"uri": guarded.uri_of("root")})) as running:
        yield running


@pytest.mark.tsan
def test_tells_nobody_without_a_login(guarded_proxy: Proxy) -> None:
    with WireClient(guarded_proxy.address) as client:
        for _ in range(2):
            said = client.call(STATUS)
            assert (said["ok"], said["code"], said["codeName"]) == (0, UNAUTHORIZED, "Unauthorized")
            assert "clusterMonitor" in said["errmsg"] and "authentication" in said["errmsg"]
            assert "version" not in said and "rules" not in said


def test_is_for_who_may_look_at_the_server(guarded_proxy: Proxy) -> None:
    def client_of(user: str) -> pymongo.MongoClient:
        return guarded_proxy.client(username=user, password="secret", authSource="admin")

    for user in ["writer", "admin"]:
        with client_of(user) as client:
            with pytest.raises(OperationFailure) as refused:
                status(client)
            assert refused.value.code == UNAUTHORIZED
            assert "hostInfo on the cluster" in str(refused.value)
            if user == "writer":
                client.shop.orders.insert_one({})
    for user in ["monitor", "looker", "root"]:
        with client_of(user) as client:
            (only,) = status(client)["rules"]
            assert only["values"] == 1


def test_a_login_is_of_its_connection(guarded_proxy: Proxy) -> None:
    """Whoever may ask opens the way for nobody else."""
    with guarded_proxy.client(
            username="monitor", password="secret", authSource="admin") as allowed, \
            WireClient(guarded_proxy.address) as client:
        assert status(allowed)["ok"] == 1
        assert client.call(STATUS)["code"] == UNAUTHORIZED
        assert status(allowed)["ok"] == 1
