"""Replies to hello name our listeners, and are the server's own byte for byte in all else.

A set with members of every kind is behind the proxy, each behind a relay that keeps what it has
sent. The connection string names the relays, so that none of the members is found by its name: only
by what it says of itself.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from support import wire
from support.access import OPEN
from support.hello import mapped, messages, node
from support.middleman import Connection, CutAt, Middleman
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.replica_set import ARBITER, HIDDEN, PASSIVE, Member, ReplicaSet
from support.secured import Certificates, SecuredSet

# That all drivers learn of the set where TLS and logins are, drivers/test_secured_set.py shows each time.
SECURED = pytest.mark.secured(full=True)
PING = {"ping": 1, "$db": "admin"}
USER = {"username": "app", "password": "secret"}


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("auth") / "key"
    path.write_text("idproxy" * 10)
    os.chmod(path, 0o600)
    return path


def create_user(client: pymongo.MongoClient) -> None:
    client.admin.command("createUser", USER["username"], pwd=USER["password"], roles=["root"])


@dataclass
class Behind:
    """A replica set behind relays behind the proxy."""

    members: ReplicaSet
    relays: list[Middleman]
    proxy: Proxy

    @property
    def listeners(self) -> dict[str, str]:
        """Member -> listener."""
        return {m.address: address
                for m, (address, _) in zip(self.members.members, self.proxy.listeners)}

    def index(self, member: Member) -> int:
        return self.members.members.index(member)

    def relayed(self, index: int, first: bytes) -> Connection:
        """The connection to this member that began with these bytes."""
        def found() -> Connection | None:
            return next((c for c in self.relays[index].connections
                         if c.passed["to_server"].startswith(first)), None)
        return eventually(found, 10, "the connection to the server")

    def ask(self, index: int, *sent: bytes, replies: int | None = None) -> tuple[
            list[bytes], list[bytes]]:
        """Sends these messages on one connection. What the client received, and what the server
        had sent."""
        with self.proxy.raw_client(self.proxy.listeners[index][0]) as client:
            received = []
            for message in sent:
                client.send(message)
                received.append(client.receive().raw)
            connection = self.relayed(index, sent[0])
            own = eventually(lambda: self._of(connection, len(received)), 10, "the relay's notes")
        return received, own

    @staticmethod
    def _of(connection: Connection, count: int) -> list[bytes] | None:
        """It notes what it has passed on just after the receiver has got it."""
        found = messages(bytes(connection.passed["to_client"]))
        return found if len(found) >= count else None


# The first one is the primary whenever it can be.
EVERY = [{"priority": 5}, {}, PASSIVE, HIDDEN, ARBITER]


@pytest.fixture(scope="module")
def behind(key_file: pathlib.Path, standalone: Mongod,
           secured: Certificates | None) -> Iterator[Behind]:
    with contextlib.ExitStack() as stack:
        if secured:
            members = stack.enter_context(SecuredSet(secured, "every", EVERY))
            access, store = secured.access, members.store_access.uri(members.address)
            # They end TLS, so that bytes can be compared.
            tls, more = (secured.server_context(), access.tls), {"listen": secured.listen()}
        else:
            members = stack.enter_context(ReplicaSet(
                "every", EVERY, options=["--keyFile", str(key_file), "--transitionToAuth"]))
            create_user(members.client)
            access, store, tls, more = OPEN, f"mongodb://{standalone.address}", None, {}
        relays = [stack.enter_context(Middleman(m.address, tls=tls)) for m in members.members]
        proxy = stack.enter_context(Proxy({
            "upstream": {"uri": access.uri(",".join(r.address for r in relays))},
            "id_store": {"uri": store}, "rules": [], **more}, access=access))
        yield Behind(members, relays, proxy)


PRIMARY, SECONDARY, PASSIVE_ONE, HIDDEN_ONE, ARBITER_ONE = range(5)
KINDS = ["primary", "secondary", "passive", "hidden", "arbiter"]


def in_op_query(name: str, more: dict[str, object]) -> bytes:
    return wire.op_query("admin.$cmd", {name: 1, **more})


NEGATIVE = itertools.count(-1000)  # ends before 0

# Form -> the request for a command of this name.
FORMS = {
    "op_msg": lambda name: wire.command({name: 1, "$db": "admin"}),
    "checksum": lambda name: wire.command({name: 1, "$db": "admin"}, flags=wire.CHECKSUM_PRESENT),
    "another_db": lambda name: wire.command({name: 1, "$db": "shop"}),
    "value_true": lambda name: wire.command({name: True, "$db": "admin"}),
    "hello_ok": lambda name: wire.command({name: 1, "helloOk": True, "$db": "admin"}),
    "negative_request_id": lambda name: wire.command(
        {name: 1, "$db": "admin"}, request_id=next(NEGATIVE)),
    "first_of_a_driver": lambda name: wire.command({
        name: 1, "helloOk": True, "client": {
            "driver": {"name": "test", "version": "1"}, "os": {"type": "Linux"}},
        "saslSupportedMechs": "admin.app", "$db": "admin"}),
    "op_query": lambda name: in_op_query(name, {"helloOk": True}),
    "secondary_ok": lambda name: wire.op_query("admin.$cmd", {name: 1}, flags=1 << 2),
    "wrapped": lambda name: wire.op_query("admin.$cmd", {
        "$query": {name: 1, "helloOk": True}, "$readPreference": {"mode": "secondaryPreferred"}}),
}


@SECURED
@pytest.mark.parametrize("name", [pytest.param("hello", marks=pytest.mark.tsan), "isMaster", "ismaster"])
@pytest.mark.parametrize("form", FORMS)
def test_a_reply_is_the_servers_own_but_for_its_members(behind: Behind, form: str, name: str):
    for index, member in enumerate(behind.members.members):
        (received,), (own,) = behind.ask(index, FORMS[form](name))
        assert received == mapped(own, behind.listeners)
        reply = wire.parse(received)  # which verifies the checksum
        assert reply.body["ok"] == 1 and reply.body["setName"] == "every"
        assert reply.body["me"] == behind.proxy.listeners[index][0]
        assert not any(m.address.encode() in received for m in behind.members.members)
        assert member.address.encode() in own
        checksum = reply.op_code == wire.OP_MSG and reply.flags & wire.CHECKSUM_PRESENT
        # With TLS mongod sends none.
        assert bool(checksum) == (form == "checksum" and not behind.proxy.access.tls)


@SECURED
def test_what_each_kind_of_member_says(behind: Behind):
    """As a client knows them: a hidden member is in no list."""
    addresses = [address for address, _ in behind.proxy.listeners]
    for index in range(len(KINDS)):
        with behind.proxy.raw_client(addresses[index]) as client:
            says = client.call({"hello": 1, "$db": "admin"})
        assert says["hosts"] == [addresses[PRIMARY], addresses[SECONDARY]]
        assert says["passives"] == [addresses[PASSIVE_ONE]]
        assert says["arbiters"] == [addresses[ARBITER_ONE]]
        assert says["primary"] == addresses[PRIMARY]
        assert says.get("hidden", False) == (index == HIDDEN_ONE)
        assert says.get("passive", False) == (index in (PASSIVE_ONE, HIDDEN_ONE))
        assert says.get("arbiterOnly", False) == (index == ARBITER_ONE)


def test_the_first_reply_of_all_is_mapped(behind: Behind, standalone: Mongod):
    """A client that is there before any server was heard of waits for them."""
    uri = "mongodb://" + ",".join(r.address for r in behind.relays)
    for _ in range(5):
        with Proxy({"upstream": {"uri": uri}, "rules": [],
                    "id_store": {"uri": f"mongodb://{standalone.address}"}}) as proxy:
            with wire.WireClient(proxy.listeners[SECONDARY][0]) as client:
                says = client.call({"hello": 1, "$db": "admin"})
            addresses = [address for address, _ in proxy.listeners]
            assert says["me"] == addresses[SECONDARY]
            assert says["hosts"] == [addresses[PRIMARY], addresses[SECONDARY]]
            assert says["passives"] == [addresses[PASSIVE_ONE]]
            assert says["arbiters"] == [addresses[ARBITER_ONE]]
            assert says["primary"] == addresses[PRIMARY]


class TestTheProcessLog:
    def test_servers_are_told_apart_by_what_they_say(self, behind: Behind):
        for member, relay in zip(behind.members.members, behind.relays):
            event = behind.proxy.wait_event("server_identified", server=relay.address)
            assert (event["me"], event["set"]) == (member.address, "every")

    def test_there_is_nothing_to_warn_of(self, behind: Behind):
        events = {e["event"] for e in behind.proxy.events if e["level"] != "info"}
        # Of there being no rules; and on a machine with few descriptors.
        assert events - {"max_connections_lowered"} == {"config_warning"}
        for event in ("member_joined", "member_left", "replica_set_bypass"):
            assert not behind.proxy.find_events(event)


# Streams.

def stream_of(version: dict, name: str = "hello", wait: int = 50, **options: int) -> bytes:
    return wire.command(
        {name: 1, "topologyVersion": version, "maxAwaitTimeMS": bson.Int64(wait), "$db": "admin"},
        flags=wire.EXHAUST_ALLOWED | options.pop("flags", 0), **options)


class Stream:
    """A client that was sent hello once and gets replies without end."""

    def __init__(self, behind: Behind, index: int, wait: int = 50, flags: int = 0,
                 name: str = "hello"):
        self.behind, self.index = behind, index
        self.client = behind.proxy.raw_client(behind.proxy.listeners[index][0], 30)
        first = wire.command({"hello": 1, "$db": "admin"})
        self.client.send(first)
        self.received = [self.client.receive()]
        request = stream_of(self.received[0].body["topologyVersion"], name, wait, flags=flags)
        self.client.send(request)
        (self.request_id,) = struct.unpack_from("<i", request, 4)
        self.connection = behind.relayed(index, first)

    def next(self) -> dict:
        self.received.append(self.client.receive())
        return self.received[-1].body

    def check(self) -> None:
        """All that was received is what the server has sent, each in answer to the one before."""
        own = messages(bytes(self.connection.passed["to_client"]))
        received = [m.raw for m in self.received]
        eventually(lambda: len(messages(bytes(self.connection.passed["to_client"]))) >=
                   len(received))
        own = messages(bytes(self.connection.passed["to_client"]))[:len(received)]
        assert received == [mapped(each, self.behind.listeners) for each in own]
        previous = self.request_id
        for each in self.received[1:]:
            assert each.response_to == previous and each.flags & wire.MORE_TO_COME
            previous = each.request_id

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


@contextlib.contextmanager
def another_primary(behind: Behind) -> Iterator[None]:
    """SECONDARY for as long as the context lasts, though PRIMARY has the greater priority; then
    PRIMARY again."""
    former, other = (behind.members.members[index] for index in (PRIMARY, SECONDARY))

    def waits() -> bool:
        try:
            former.client.admin.command("replSetFreeze", 60)
            return True
        except pymongo.errors.PyMongoError:
            return False  # it has not stepped down yet

    behind.members.step_up(other)
    try:
        eventually(waits, 20, "it does not want to be the primary again")
        yield
    finally:
        with contextlib.suppress(pymongo.errors.PyMongoError):  # it is
            former.client.admin.command("replSetFreeze", 0)
        behind.members.step_up(former)


class TestStreams:
    @pytest.mark.tsan
    @SECURED
    @pytest.mark.parametrize("flags", [0, wire.CHECKSUM_PRESENT], ids=["plain", "checksum"])
    @pytest.mark.parametrize("name", ["hello", "isMaster"])
    def test_each_reply_is_mapped(self, behind: Behind, name: str, flags: int):
        for index in range(len(KINDS)):
            with Stream(behind, index, wait=10, flags=flags, name=name) as stream:
                for _ in range(5):
                    assert stream.next()["me"] == behind.proxy.listeners[index][0]
                stream.check()

    @SECURED
    def test_a_step_down_in_mid_stream(self, behind: Behind):
        """The servers tell at once. No reply names a member, before, meanwhile and afterwards."""
        addresses = [address for address, _ in behind.proxy.listeners]
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(Stream(behind, index, wait=500))
                       for index in range(len(KINDS))]
            with another_primary(behind):
                for stream in streams:
                    while stream.next().get("primary") != addresses[SECONDARY]:
                        pass
            for stream in streams:
                while stream.next().get("primary") != addresses[PRIMARY]:
                    pass
                stream.check()
            # The old primary said that it is none any more.
            assert any("primary" not in m.body or m.body["primary"] != addresses[PRIMARY]
                       for m in streams[PRIMARY].received)
        behind.members.await_health()

    @pytest.mark.parametrize("how", ["fin", "rst"])
    def test_a_server_that_leaves_ends_it_at_the_client(self, behind: Behind, how: str):
        """In the middle of a reply, of which the client sees nothing."""
        (_,), (own,) = behind.ask(PRIMARY, wire.command({"hello": 1, "$db": "admin"}))
        while True:
            behind.relays[PRIMARY].next_cut = CutAt("to_client", len(own) * 5 // 2, how)
            with Stream(behind, PRIMARY, wait=10) as stream:
                if stream.connection.cut is None:  # a hello of the proxy's own took it
                    continue
                with pytest.raises(wire.Closed):
                    while True:
                        stream.next()
                stream.check()
                assert len(stream.received) == 2
                eventually(lambda: stream.connection.over, 10, "both ends are closed")
                return

    @SECURED
    def test_pymongo_monitors_by_streaming(self, behind: Behind):
        """Its view of the set is made of our listeners alone, and follows a step-down."""
        addresses = [node(address) for address, _ in behind.proxy.listeners]
        with behind.proxy.set_client("every", serverMonitoringMode="stream",
                                     heartbeatFrequencyMS=60_000) as client:
            eventually(lambda: client.primary == addresses[PRIMARY], 20, "the primary is known")
            eventually(lambda: client.arbiters == {addresses[ARBITER_ONE]}, 20, "so is the arbiter")
            visible = {addresses[i] for i in range(len(KINDS)) if i != HIDDEN_ONE}
            eventually(lambda: client.nodes == visible, 20, "all are known")
            with another_primary(behind):
                eventually(lambda: client.primary == addresses[SECONDARY], 20, "the new primary")
            eventually(lambda: client.primary == addresses[PRIMARY], 20, "the old primary")
            assert client.nodes <= visible
        behind.members.await_health()


# What is not to be changed.

OTHERS = {
    "replSetGetStatus": {"replSetGetStatus": 1, "$db": "admin"},
    "replSetGetConfig": {"replSetGetConfig": 1, "$db": "admin"},
    "serverStatus": {"serverStatus": 1, "repl": 1, "$db": "admin"},
    "getCmdLineOpts": {"getCmdLineOpts": 1, "$db": "admin"},
    "connPoolStats": {"connPoolStats": 1, "$db": "admin"},
    "whatsmyuri": {"whatsmyuri": 1, "$db": "admin"},
    "getLog": {"getLog": "global", "$db": "admin"},
    "replSetTest": {"replSetFreeze": 0, "$db": "admin"},
    "Hello": {"Hello": 1, "$db": "admin"},
    "wrong_hello": {"hello": 1, "maxAwaitTimeMS": 5, "$db": "admin"},
    "wrong_version": {"hello": 1, "topologyVersion": 5, "$db": "admin"},
}


class TestOtherReplies:
    @pytest.mark.parametrize("name", OTHERS)
    def test_a_command_that_names_members(self, behind: Behind, name: str):
        for index in (PRIMARY, SECONDARY):
            for flags in (0, wire.CHECKSUM_PRESENT, wire.EXHAUST_ALLOWED):
                received, own = behind.ask(index, wire.command(OTHERS[name], flags=flags))
                assert received == own

    def test_a_document_that_looks_like_one(self, behind: Behind):
        """In a collection called hello, with the fields of a reply."""
        member = behind.members.members[PRIMARY]
        with behind.proxy.client() as client:
            client["shop"]["hello"].insert_one({
                "_id": 1, "hello": 1, "setName": "every", "me": member.address,
                "hosts": [member.address], "primary": member.address})
        received, own = behind.ask(
            PRIMARY, wire.command({"find": "hello", "$db": "shop"}),
            wire.command({"find": "hello", "filter": {"hello": 1}, "$db": "shop"}),
            wire.command({"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {},
                          "$db": "admin"}))
        assert received == own
        assert member.address.encode() in received[0]

    def test_an_insert_of_hellos(self, behind: Behind):
        received, own = behind.ask(PRIMARY, wire.op_msg(
            wire.sequence("documents", [{"_id": i, "hello": 1} for i in range(3)]),
            wire.body({"insert": "hellos", "$db": "shop"})))
        assert received == own

    def test_direct_connection(self, behind: Behind, standalone: Mongod):
        """directConnection=true in upstream.uri: nothing is mapped, and no member joins."""
        uri = f"mongodb://{behind.relays[SECONDARY].address}/?directConnection=true"
        with Proxy({"upstream": {"uri": uri}, "rules": [],
                    "id_store": {"uri": f"mongodb://{standalone.address}"}}) as proxy:
            alone = Behind(behind.members, [behind.relays[SECONDARY]], proxy)
            for form in FORMS.values():
                received, own = alone.ask(0, form("hello"))
                assert received == own
            with wire.WireClient(proxy.address) as client:
                says = client.call({"hello": 1, "$db": "admin"})
                assert says["me"] == behind.members.members[SECONDARY].address
                client.send(stream_of(says["topologyVersion"], wait=10))
                for _ in range(3):
                    assert client.receive().body["hosts"] == says["hosts"]
            assert proxy.wait_event("replica_set_bypass")["level"] == "warning"
            assert len(proxy.find_events("listening")) == 1
            assert not proxy.find_events("member_joined")


class TestAmongOtherMessages:
    @SECURED
    def test_pipelined(self, behind: Behind):
        """All sent at once. Each reply is the answer to its own request."""
        sent = [wire.command(PING, request_id=1), wire.command({"hello": 1, "$db": "admin"},
                                                               request_id=2),
                wire.command({"replSetGetConfig": 1, "$db": "admin"}, request_id=3),
                wire.op_query("admin.$cmd", {"isMaster": 1}, request_id=4),
                wire.command({"hello": 1, "$db": "admin"}, request_id=4),
                wire.command(PING, request_id=5)]
        with behind.proxy.raw_client(behind.proxy.listeners[SECONDARY][0]) as client:
            client.send(b"".join(sent))
            received = [client.receive() for _ in sent]
            own = messages(bytes(behind.relayed(
                SECONDARY, b"".join(sent)).passed["to_client"]))[:len(sent)]
        assert [m.response_to for m in received] == [1, 2, 3, 4, 4, 5]
        for number, (mine, server) in enumerate(zip(received, own)):
            hello = number in (1, 3, 4)
            assert mine.raw == (mapped(server, behind.listeners) if hello else server)

    @SECURED
    def test_one_that_wants_no_reply(self, behind: Behind):
        """moreToCome: the next reply is that of the next request."""
        with behind.proxy.raw_client() as client:
            client.send(
                wire.command({"hello": 1, "$db": "admin"}, flags=wire.MORE_TO_COME, request_id=1) +
                wire.command(PING, request_id=2) +
                wire.command({"hello": 1, "$db": "admin"}, request_id=3))
            assert client.receive().response_to == 2
            reply = client.receive()
            assert (reply.response_to, reply.body["me"]) == (3, behind.proxy.address)

    def test_byte_by_byte(self, behind: Behind):
        with behind.proxy.raw_client() as client:
            for byte in wire.command({"hello": 1, "$db": "admin"}):
                client.send(bytes([byte]))
            assert client.receive().body["me"] == behind.proxy.address

    def test_compression_is_cut_to_what_the_proxy_has(self, behind: Behind):
        request = wire.command(
            {"hello": 1, "compression": ["lz4", "zlib", "noop", "snappy"], "$db": "admin"},
            request_id=4712)
        with behind.proxy.raw_client() as client:
            client.send(request)
            reply = client.receive()
        assert reply.body["compression"] == ["zlib", "snappy"] and reply.response_to == 4712
        assert reply.body["me"] == behind.proxy.address


# Logging in.

class TestLogin:
    @SECURED
    def test_by_a_driver_through_each_listener(self, behind: Behind):
        """PyMongo begins it inside of hello."""
        for index in (PRIMARY, SECONDARY, PASSIVE_ONE, HIDDEN_ONE):
            for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
                address = behind.proxy.listeners[index][0]
                uri = behind.proxy.access.uri(address, "directConnection=true")
                with pymongo.MongoClient(uri, authMechanism=mechanism, **USER) as client:
                    status = client.admin.command("connectionStatus")
                    assert status["authInfo"]["authenticatedUsers"][0]["user"] == "app"

    @SECURED
    def test_with_the_set(self, behind: Behind):
        with behind.proxy.set_client("every", **USER) as client:
            for preference in (pymongo.ReadPreference.PRIMARY, pymongo.ReadPreference.SECONDARY):
                status = client.get_database("admin", read_preference=preference).command(
                    "connectionStatus")
                assert status["authInfo"]["authenticatedUsers"][0]["user"] == "app"

    @SECURED
    @pytest.mark.parametrize("user", ["app", "nobody"])
    def test_inside_of_hello_by_hand(self, behind: Behind, user: str):
        start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "db": "admin",
                 "payload": b"n,,n=" + user.encode() + b",r=abcdefghijklmnopqrstuvwx",
                 "options": {"skipEmptyExchange": True}}
        (received,), (own,) = behind.ask(SECONDARY, wire.command({
            "hello": 1, "helloOk": True, "speculativeAuthenticate": start,
            "saslSupportedMechs": f"admin.{user}", "$db": "admin"}))
        assert received == mapped(own, behind.listeners)
        reply = wire.parse(received).body
        assert ("speculativeAuthenticate" in reply) == (user == "app")
        assert ("saslSupportedMechs" in reply) == (user == "app")

    def test_a_server_that_insists_on_it(self, key_file: pathlib.Path, standalone: Mongod):
        """The proxy needs no user of its own to learn who is there."""
        with (Mongod("strict", options=["--keyFile", str(key_file)]) as mongod,
              Proxy(configuration(mongod, [], standalone)) as proxy):
            create_user(mongod.client)
            with proxy.set_client("strict", **USER) as client:
                client["shop"]["orders"].insert_one({"_id": 1})
                assert client.nodes == {node(proxy.address)} == {client.primary}
            with (proxy.set_client("strict", username="app", password="wrong") as client,
                  pytest.raises(OperationFailure) as failure):
                client["shop"]["orders"].insert_one({"_id": 2})
            assert failure.value.code == 18
