"""Servers that are no members of a set need no setting: one listener each, and no reply is changed.

There is no mongos here: a fake server says what one says of itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pymongo
import pytest

from support import wire
from support.fake_server import HELLO, FakeServer, Request, reply_to
from support.hello import messages, node
from support.middleman import Middleman
from support.mongod import Mongod
from support.process import eventually, free_ports
from support.proxy import Proxy
from support.replica_set import Member, ReplicaSet

REQUESTS = {
    "hello": wire.command({"hello": 1, "helloOk": True, "$db": "admin"}, request_id=1),
    "isMaster": wire.command({"isMaster": 1, "$db": "admin"}, request_id=2),
    "checksum": wire.command({"hello": 1, "$db": "admin"}, flags=wire.CHECKSUM_PRESENT,
                             request_id=3),
    "op_query": wire.op_query("admin.$cmd", {"isMaster": 1, "helloOk": True}, request_id=4),
    "wrapped": wire.op_query("admin.$cmd", {"$query": {"ismaster": 1}}, request_id=5),
}


def untouched(proxy: Proxy, relays: list[Middleman]) -> None:
    """What each listener answers is what its server has said."""
    assert len(proxy.listeners) == len(relays)
    for (address, server), relay in zip(proxy.listeners, relays):
        assert server == relay.address
        with wire.WireClient(address) as client:
            received = []
            for request in REQUESTS.values():
                client.send(request)
                received.append(client.receive().raw)
            sent = b"".join(REQUESTS.values())

            def own() -> list[bytes]:
                found = [messages(bytes(c.passed["to_client"])) for c in relay.connections
                         if bytes(c.passed["to_server"]) == sent]
                return found[-1] if found and len(found[-1]) == len(received) else []
            assert received == eventually(own, 10, "the relay's notes")


@pytest.fixture
def start(standalone: Mongod, start_proxy: Callable[..., Proxy]) -> Callable[..., Proxy]:
    def start_one(hosts: list[str], listen: dict[str, Any] = {}, options: str = "") -> Proxy:
        return start_proxy({
            "listen": {"address": "127.0.0.1", "port": 0, **listen},
            "upstream": {"uri": f"mongodb://{','.join(hosts)}/{options}"}, "rules": [],
            "id_store": {"uri": f"mongodb://{standalone.address}"}})
    return start_one


class TestStandalones:
    @pytest.fixture
    def another(self) -> Iterator[Mongod]:
        with Mongod() as running:
            yield running

    def test_a_list(self, standalone, another, start):
        ports = free_ports(2)
        with Middleman(standalone.address) as first, Middleman(another.address) as second:
            proxy = start([first.address, second.address], {"port": ports[0]})
            untouched(proxy, [first, second])
            assert [address for address, _ in proxy.listeners] == [
                f"127.0.0.1:{port}" for port in ports]
            for mongod, (address, _) in zip((standalone, another), proxy.listeners):
                with pymongo.MongoClient(f"mongodb://{address}") as client:
                    client["single"]["c"].replace_one({"_id": 1}, {"_id": 1}, upsert=True)
                    assert mongod.client["single"]["c"].find_one({"_id": 1})
                mongod.client.drop_database("single")
        for event in ("member_joined", "server_identified", "replica_set_bypass"):
            assert not proxy.find_events(event)

    def test_beside_a_set(self, standalone, replica_set, start):
        """Two deployments behind one proxy: each client is told of its own."""
        proxy = start([standalone.address, replica_set.address])
        single, member = (address for address, _ in proxy.listeners)
        with wire.WireClient(single) as client:
            assert "hosts" not in client.call({"hello": 1, "$db": "admin"})
        with wire.WireClient(member) as client:
            assert client.call({"hello": 1, "$db": "admin"})["hosts"] == [member]
        with pymongo.MongoClient(f"mongodb://{member}/?replicaSet=rs0") as client:
            client.admin.command("ping")
        with pymongo.MongoClient(f"mongodb://{single}") as client:
            client.admin.command("ping")


def test_two_sets(replica_set, start):
    """Behind one proxy: the listeners of one are not told to clients of the other."""
    with ReplicaSet("second", [{"priority": 5}, {}]) as other:
        proxy = start([replica_set.address, other.members[0].address])
        first, second = (address for address, _ in proxy.listeners)
        third = proxy.listener_of(other.members[1].address)
        for address, name, hosts in [(first, "rs0", [first]), (second, "second", [second, third]),
                                     (third, "second", [second, third])]:
            def told() -> list[str]:
                with wire.WireClient(address) as client:
                    says = client.call({"hello": 1, "$db": "admin"})
                    assert says["setName"] == name
                    return says["hosts"]
            eventually(lambda: told() == hosts, 10, f"{address} tells of {hosts}")


def test_a_set_of_one(replica_set, start):
    """Nothing special in either connection string."""
    proxy = start([replica_set.address])
    with pymongo.MongoClient(f"mongodb://{proxy.address}/?replicaSet=rs0") as client:
        with client.start_session() as session, session.start_transaction():
            client["single"]["set"].insert_one({"k": 1}, session=session)
        assert client.nodes == {node(proxy.address)}
    replica_set.client.drop_database("single")


def test_a_standalone_that_becomes_a_set(start):
    """Restarted with --replSet, and initiated: from then on it is mapped."""
    with Member(None, free_ports(1)[0]) as mongod:
        proxy = start([mongod.address])
        with wire.WireClient(proxy.address) as client:
            assert "setName" not in client.call({"hello": 1, "$db": "admin"})
        mongod.kill()
        mongod.replica_set = "late"
        mongod.restart()
        mongod.client.admin.command("replSetInitiate", {
            "_id": "late", "members": [{"_id": 0, "host": mongod.address}]})

        def told() -> list[str] | None:
            try:
                with wire.WireClient(proxy.address) as client:
                    return client.call({"hello": 1, "$db": "admin"}).get("hosts")
            except wire.Closed:
                return None
        assert eventually(told, 20) == [proxy.address]
        with proxy.set_client("late") as client:
            client["single"]["late"].insert_one({"_id": 1})


class TestMongos:
    """As mongos 6.0 answers (Server Discovery And Monitoring): msg is all that tells it apart."""

    SAYS = {**HELLO, "msg": "isdbgrid", "topologyVersion": {
        "processId": bson.ObjectId("6b02a4fe37a124fdf0143214"), "counter": bson.Int64(0)},
        "localTime": bson.Int64(0), "connectionId": 5}

    def test_a_list(self, start):
        """Drivers spread their work over the listeners, as they do over the servers."""
        ports = free_ports(2)
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(FakeServer()) for _ in range(2)]
            for server in servers:
                def says(request: Request) -> bytes:
                    return reply_to(request, self.SAYS)
                server.others = {"hello": says, "isMaster": says, "ismaster": says}
            relays = [stack.enter_context(Middleman(server.address)) for server in servers]
            proxy = start([relay.address for relay in relays], {"port": ports[0]})
            self.untouched(proxy, relays)
            addresses = [f"127.0.0.1:{port}" for port in ports]
            with pymongo.MongoClient(f"mongodb://{','.join(addresses)}",
                                     serverMonitoringMode="poll") as client:
                eventually(lambda: client.nodes == {("127.0.0.1", port) for port in ports}, 20)
                assert client.topology_description.topology_type_name == "Sharded"
                assert client.admin.command("ping")["ok"] == 1
            assert not proxy.find_events("member_joined")

    @staticmethod
    def untouched(proxy: Proxy, relays: list[Middleman]) -> None:
        for (address, _), relay in zip(proxy.listeners, relays):
            request = wire.command({"hello": 1, "comment": "mine", "$db": "admin"})
            with wire.WireClient(address) as client:
                client.send(request)
                received = client.receive().raw
                own = eventually(lambda: [
                    c.passed["to_client"] for c in relay.connections
                    if bytes(c.passed["to_server"]) == request and c.passed["to_client"]], 10)
                assert received == bytes(own[-1])
