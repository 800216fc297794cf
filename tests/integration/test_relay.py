"""What is not rewritten passes as it is; connections live and die in pairs."""

from __future__ import annotations

import signal
import threading
import time
from functools import partial

import bson
import pymongo
import pytest
from pymongo import monitoring

from support import elements as el
from support import wire
from support.elements import document, int32
from support.fake_server import FakeServer, Last, Request, reply_to
from support.middleman import Middleman
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, configuration
from support.servers import has
from support.threads import Threads

RULES = [{"ns": "ruled.*", "field": "_id", "strategy": "uuid"}]

PING = {"ping": 1, "$db": "admin"}


@pytest.fixture(scope="module")
def elsewhere(server: Mongod, standalone: Mongod, replica_set: Mongod) -> Mongod:
    """Where the proxy's own connections go: tests count those of its clients."""
    return replica_set if server is standalone else standalone


@pytest.fixture(scope="module")
def proxy(server: Mongod, elsewhere: Mongod):
    with Proxy(configuration(server, RULES, elsewhere)) as running:
        yield running


@pytest.fixture
def through(proxy: Proxy):
    with wire.WireClient(proxy.address) as client:
        yield client


def padded_to(size: int, command: dict, identifier: str) -> bytes:
    """A message of exactly this size: the command and a sequence of large documents."""
    head = wire.body(command)
    documents: list[bytes] = []
    left = size - 16 - 4 - len(head) - (1 + 4 + len(identifier) + 1)
    overhead = len(document(int32("k", 0), el.string("s", "")))
    while left:
        each = min(left, 16_000_000)
        if 0 < left - each < overhead:
            each -= overhead
        documents.append(document(int32("k", len(documents)),
                                  el.string("s", "x" * (each - overhead))))
        left -= each
    message = wire.op_msg(head, wire.sequence(identifier, documents))
    assert len(message) == size
    return message


def pings(proxy: Proxy) -> bool:
    """A new client is served."""
    with wire.WireClient(proxy.address) as client:
        try:
            return client.call(PING)["ok"] == 1
        except wire.Closed:
            return False


class TestSizes:
    def test_the_largest_message_passes(self, server, through):
        """ping ignores a sequence that it does not know, or, before 5.0, reports one so large."""
        message = padded_to(wire.MAX_MESSAGE, PING, "padding")
        with wire.WireClient(server.address) as direct:
            expected = direct.call(message)
        assert expected["ok"] == 1 or not has("large_padding")
        reply = through.call(message)
        assert (reply["ok"], reply.get("code")) == (expected["ok"], expected.get("code"))
        assert through.call(PING)["ok"] == 1

    def test_the_largest_insert_passes(self, server, through):
        server.client["plain"].drop_collection("large")
        command = {"insert": "large", "$db": "plain"}
        assert through.call(padded_to(wire.MAX_MESSAGE, command, "documents"))["n"] == 3
        assert server.client["plain"]["large"].count_documents({}) == 3
        server.client["plain"].drop_collection("large")

    def test_a_ruled_insert_that_outgrows_the_limit_is_never_stored_without_its_id(
            self, server, proxy):
        server.client["ruled"].drop_collection("large")
        command = {"insert": "large", "$db": "ruled"}
        with wire.WireClient(proxy.address) as client:
            client.send(padded_to(wire.MAX_MESSAGE, command, "documents"))
            try:
                client.receive()
            except wire.Closed:
                pass
        for found in server.client["ruled"]["large"].find({}, {"s": 0}):
            assert isinstance(found["_id"], bytes | bson.Binary), found
        server.client["ruled"].drop_collection("large")

    @pytest.mark.parametrize("length", [
        wire.MAX_MESSAGE + 1, 2**31 - 1, 15, 0, -1, -(2**31)])
    def test_an_impossible_length_closes(self, proxy, through, length):
        through.send(wire.message(wire.OP_MSG, b"", length=length))
        assert through.closed_by_peer()
        assert pings(proxy)

    def test_a_large_reply_passes(self, server, proxy):
        collection = server.client["plain"]["replies"]
        collection.drop()
        collection.insert_many([{"_id": i, "s": chr(97 + i) * 5_000_000} for i in range(6)])
        with proxy.client() as client:
            assert list(client["plain"]["replies"].find().sort("_id")) == \
                list(collection.find().sort("_id"))
        collection.drop()

    def test_a_slow_reader_gets_everything(self, server, proxy):
        """Many large replies are asked for before the first one is read."""
        collection = server.client["plain"]["slow"]
        collection.drop()
        collection.insert_one({"_id": 1, "s": "x" * 4_000_000})
        with wire.WireClient(proxy.address, timeout=60) as client:
            for i in range(20):
                client.send(wire.command({"find": "slow", "$db": "plain"}, request_id=i))
            for i in range(20):
                reply = client.receive()
                assert reply.response_to == i and len(reply.raw) > 4_000_000
        collection.drop()


class TestStreams:
    def test_exhaust_cursor(self, server, proxy):
        collection = server.client["plain"]["exhaust"]
        collection.drop()
        collection.insert_many([{"_id": i} for i in range(10_000)])
        with proxy.client() as client:
            cursor = client["plain"]["exhaust"].find(
                cursor_type=pymongo.CursorType.EXHAUST, batch_size=100)
            assert [d["_id"] for d in cursor] == list(range(10_000))

    def test_exhaust_get_more_by_hand(self, server, through):
        collection = server.client["plain"]["exhaust_raw"]
        collection.drop()
        collection.insert_many([{"_id": i} for i in range(10)])
        cursor = through.call(
            {"find": "exhaust_raw", "batchSize": 2, "$db": "plain"})["cursor"]
        through.send(wire.command(
            {"getMore": cursor["id"], "collection": "exhaust_raw", "batchSize": 2,
             "$db": "plain"}, flags=wire.EXHAUST_ALLOWED, request_id=700))
        ids, previous = [d["_id"] for d in cursor["firstBatch"]], 700
        while True:
            reply = through.receive()
            assert reply.response_to == previous
            previous = reply.request_id
            ids += [d["_id"] for d in reply.body["cursor"]["nextBatch"]]
            if not reply.flags & wire.MORE_TO_COME:
                break
        assert ids == list(range(10))
        assert through.call(PING)["ok"] == 1

    @pytest.mark.tsan
    def test_streaming_hello_by_hand(self, through):
        first = through.call({"hello": 1, "$db": "admin"})
        through.send(wire.command(
            {"hello": 1, "topologyVersion": first["topologyVersion"],
             "maxAwaitTimeMS": bson.Int64(100), "$db": "admin"},
            flags=wire.EXHAUST_ALLOWED, request_id=900))
        previous = 900
        for _ in range(5):
            reply = through.receive()
            assert reply.flags & wire.MORE_TO_COME and reply.response_to == previous
            assert reply.body["isWritablePrimary"]
            previous = reply.request_id

    def test_pymongo_monitors_by_streaming(self, proxy):
        seen: list[bool] = []

        class Listener(monitoring.ServerHeartbeatListener):
            def started(self, event): ...

            def succeeded(self, event):
                seen.append(event.awaited)

            def failed(self, event):
                seen.append(False)

        with proxy.client(heartbeatFrequencyMS=500, event_listeners=[Listener()],
                          serverMonitoringMode="stream") as client:
            client.admin.command("ping")
            eventually(lambda: seen.count(True) >= 3, 15, "three awaited heartbeats")

    def test_more_to_come_of_a_command_without_rule(self, server, through):
        server.client["plain"].drop_collection("silent")
        through.send(wire.command(
            {"insert": "silent", "documents": [{"_id": 1}], "writeConcern": {"w": 0},
             "$db": "plain"}, flags=wire.MORE_TO_COME))
        through.send(wire.command(PING, request_id=5))
        assert through.receive().response_to == 5
        assert server.client["plain"]["silent"].count_documents({}) == 1


class TestOtherOpcodes:
    @pytest.mark.parametrize("name", ["isMaster", "ismaster", "hello"])
    def test_hello_in_op_query(self, through, name):
        through.send(wire.op_query("admin.$cmd", {name: 1, "helloOk": True}, request_id=11))
        reply = through.receive()
        assert (reply.op_code, reply.response_to, reply.flags) == (wire.OP_REPLY, 11, 8)
        assert reply.body["ok"] == 1 and reply.body.get("helloOk", True) is True  # 4.4.2 has none
        assert through.call(PING)["ok"] == 1

    def test_another_command_in_op_query(self, server, through):
        query = wire.op_query("admin.$cmd", {"ping": 1})
        with wire.WireClient(server.address) as direct:
            assert through.call(query).get("errmsg") == direct.call(query).get("errmsg")

    @pytest.mark.parametrize("command", ["insert", "update", "findAndModify"])
    @pytest.mark.parametrize("wrapped", [False, True])
    def test_writes_in_op_query_do_not_pass_a_rule(self, server, through, coll, command, wrapped):
        """Servers before 5.1 take them; the proxy answers as later ones do."""
        write = {command: coll, **{
            "insert": {"documents": [{"k": 1}]},
            "update": {"updates": [{"q": {"k": 1}, "u": {"$set": {"a": 1}}, "upsert": True}]},
            "findAndModify": {"query": {"k": 1}, "update": {"$set": {"a": 1}}, "upsert": True},
        }[command]}
        through.send(wire.op_query("ruled.$cmd", {"$query": write} if wrapped else write))
        reply = through.receive().body
        assert (reply["ok"], reply["code"]) == (0, 352)
        assert f"Unsupported OP_QUERY command: {command}" in reply["errmsg"]
        assert server.client["ruled"][coll].count_documents({}) == 0
        if not has("only_op_msg"):
            through.send(wire.op_query("plain.$cmd", {"$query": write} if wrapped else write))
            assert through.receive().body["ok"] == 1
            assert server.client["plain"][coll].count_documents({}) == 1

    @pytest.mark.parametrize("op_code", [wire.OP_INSERT, wire.OP_UPDATE])
    def test_legacy_writes_do_not_pass_a_rule(self, server, proxy, through, coll, op_code):
        def write(db: str) -> bytes:
            name = f"{db}.{coll}".encode() + b"\0"
            document = wire.encode({"_id": 1})
            upsert = (1).to_bytes(4, "little") + document + wire.encode({"$set": {"a": 1}})
            return wire.message(op_code, bytes(4) + name + (
                document if op_code == wire.OP_INSERT else upsert))
        if not has("only_op_msg"):
            through.send(write("plain"))
            assert through.call(PING)["ok"] == 1
            assert server.client["plain"][coll].count_documents({}) == 1
        through.send(write("ruled"))
        assert through.closed_by_peer()
        assert server.client["ruled"][coll].count_documents({}) == 0
        assert pings(proxy)

    def test_op_get_more(self, server, through):
        message = wire.message(
            wire.OP_GET_MORE, bytes(4) + b"plain.c\0" + bytes(4) + bytes([1]) * 8)
        with wire.WireClient(server.address) as direct:
            for client in (through, direct):
                client.send(message)
            one, other = through.receive(), direct.receive()
            assert one.raw[16:] == other.raw[16:] and (
                b"$err" in other.raw or not has("only_op_msg"))

    @pytest.mark.parametrize("op_code", [1, 2001, 2002, 2006, 2007, 2010, 2014, 9999, -1])
    def test_what_the_server_closes_on_is_closed(self, server, proxy, through, op_code):
        """Servers before 5.1 do not close on all of them."""
        message = wire.message(op_code, bytes(32))
        with wire.WireClient(server.address) as direct:
            direct.send(message)
            closes = direct.closed_by_peer(30 if has("only_op_msg") else 1)
        assert closes or not has("only_op_msg")
        if closes:
            through.send(message)
            assert through.closed_by_peer()
        assert pings(proxy)


class TestCompression:
    """Nobody gets past the rules by compressing."""

    OFFERED = ["zstd", "zlib", "snappy"]

    @pytest.mark.parametrize("command", [
        {"hello": 1, "compression": OFFERED},
        {"hello": 1, "compression": OFFERED, "helloOk": True, "client": {
            "driver": {"name": "x", "version": "1"}, "os": {"type": "Linux"}}},
        {"isMaster": 1, "helloOk": True, "compression": OFFERED},
        {"ismaster": 1, "compression": ["zlib"]},
        {"hello": 1, "compression": []},
    ], ids=str)
    @pytest.mark.parametrize("form", ["op_msg", "checksum", "op_query"])
    def test_hello(self, server, proxy, command, form):
        if form == "op_query":
            message = wire.op_query("admin.$cmd", command)
        else:
            message = wire.command({**command, "$db": "admin"}, flags=(
                wire.CHECKSUM_PRESENT if form == "checksum" else 0))
        with wire.WireClient(proxy.address) as client, wire.WireClient(server.address) as direct:
            reply, expected = client.call(message), direct.call(message)
        assert reply["ok"] == 1
        assert list(reply) == list(expected)
        assert reply.get("compression") == expected.get("compression")

    @pytest.mark.parametrize("compressor", [0, 1, 2, 3, 4, 255])
    def test_one_that_was_not_agreed_on_closes(self, proxy, through, compressor):
        through.send(wire.op_compressed(wire.command(PING), compressor))
        assert through.closed_by_peer()
        assert pings(proxy)


class TestUpstream:
    """The proxy listens whether or not the server is up."""

    def test_the_server_comes_after_the_proxy(self, start_proxy):
        port = free_port()
        proxy = start_proxy({
            "upstream": {"uri": f"mongodb://127.0.0.1:{port}"}, "rules": RULES})
        with wire.WireClient(proxy.address) as client:
            assert client.closed_by_peer(), "no server: the client is to be told"
        with Mongod(port=port) as mongod:
            with proxy.client() as client:
                client["ruled"].command("insert", "late", documents=[{"k": 1}])
            assert isinstance(mongod.client["ruled"]["late"].find_one()["_id"], bytes)

    def test_the_server_dies(self, standalone, start_proxy):
        with Mongod() as mongod:
            proxy = start_proxy(configuration(mongod, RULES, standalone))
            start = proxy.descriptors_at_rest()
            idle, busy = (wire.WireClient(proxy.address) for _ in range(2))
            for client in (idle, busy):
                assert client.call(PING)["ok"] == 1
            busy.send(wire.command({"hello": 1, "$db": "admin"}))
            busy.receive()
            mongod.kill()
            died = time.monotonic()
            for client in (idle, busy):
                assert client.closed_by_peer(timeout=5)
                client.close()
            assert time.monotonic() - died < 5
            proxy.await_descriptors(start)

    def test_what_it_said_before_it_broke_off_arrives(self, standalone, start_proxy):
        """The proxy has the reply, and a request that it cannot pass on any more."""
        with FakeServer() as server:
            proxy = start_proxy(configuration(server, RULES, standalone))
            eventually(lambda: server.connections and not server.connected,
                       what="the proxy's own hello is over")
            server.expect()
            with wire.WireClient(proxy.address) as client:

                def answer(request: Request) -> Last:
                    proxy.process.send_signal(signal.SIGSTOP)
                    client.send(wire.command(PING))
                    # With a request unread behind it, closing is a reset.
                    return Last(reply_to(request, {"ok": 1.0, "said": "last"}))

                server.others["first"] = answer
                client.send(wire.command({"first": 1, "$db": "admin"}) + wire.command(PING))
                eventually(lambda: server.connections and not server.connected)
                proxy.process.send_signal(signal.SIGCONT)
                assert client.receive().body["said"] == "last"
                assert client.closed_by_peer()

    def test_the_server_comes_back(self, start_proxy):
        port = free_port()
        with Mongod(port=port) as mongod:
            proxy = start_proxy(configuration(mongod, RULES))
            client = proxy.client(serverSelectionTimeoutMS=2000)
            client.admin.command("ping")
        with Mongod(port=port):
            assert eventually(lambda: _reaches(client), 20)
            client.close()


def _reaches(client: pymongo.MongoClient) -> bool:
    try:
        return client.admin.command("ping")["ok"] == 1
    except pymongo.errors.PyMongoError:
        return False


class TestEnds:
    """One client connection is one connection to the server, with the same fate."""

    @pytest.mark.tsan
    @pytest.mark.parametrize("server, how", [("standalone", "close"), ("standalone", "reset"), (
        "replica_set", "half_close")], indirect=["server"])
    def test_a_client_that_leaves_frees_the_server(self, server, elsewhere, start_proxy, how):
        with Middleman(server.address) as relay:
            proxy = start_proxy(configuration(relay, RULES, elsewhere))
            descriptors, served = proxy.descriptors_at_rest(), len(relay.connections)
            connections = server.connections()
            clients = [wire.WireClient(proxy.address) for _ in range(20)]
            for client in clients:
                assert client.call(PING)["ok"] == 1
            # The proxy's own hello may have come, too.
            assert len(relay.connections) in (served + 20, served + 21)
            for client in clients:
                if how == "close":
                    client.close()
                elif how == "reset":
                    client.reset()
                else:
                    client.finish()
            eventually(lambda: all(c.over for c in relay.connections), 20, "upstream is closed")
            eventually(lambda: server.connections() <= connections, 20,
                       "the server is rid of them")
            assert how != "half_close" or all(client.closed_by_peer() for client in clients)
            proxy.await_descriptors(descriptors)
            for client in clients:
                client.close()
            proxy.stop()

    def test_several_thousand_connections_come_and_go(self, server, proxy):
        connections, descriptors = server.connections(), proxy.descriptors_at_rest()
        for _ in range(10):
            clients = [wire.WireClient(proxy.address) for _ in range(100)]
            for client in clients:
                client.send(wire.command(PING))
            for client in clients:
                assert client.receive().body["ok"] == 1
                client.close()
        eventually(lambda: server.connections() <= connections, 10)
        proxy.await_descriptors(descriptors)


class TestLimits:
    def test_max_connections(self, standalone, start_proxy):
        config = configuration(standalone, RULES)
        config["listen"] = {"address": "127.0.0.1", "port": 0, "max_connections": 2}
        proxy = start_proxy(config)
        first, second = (wire.WireClient(proxy.address) for _ in range(2))
        for client in (first, second):
            assert client.call(PING)["ok"] == 1
        with wire.WireClient(proxy.address) as third:
            assert third.closed_by_peer()
        first.close()
        eventually(lambda: pings(proxy), 5, "the freed place is given away")
        assert second.call(PING)["ok"] == 1
        second.close()


class TestStop:
    @pytest.mark.tsan
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_ends_it_with_status_0(self, standalone, number):
        proxy = Proxy(configuration(standalone, RULES))
        with wire.WireClient(proxy.address) as client:
            assert client.call(PING)["ok"] == 1
            proxy.stop(number)
            assert client.closed_by_peer()
        assert proxy.find_events("stopped")

    def test_under_load(self, standalone):
        proxy = Proxy(configuration(standalone, RULES))
        standalone.client["ruled"].drop_collection("load")
        going, acknowledged, lock = threading.Event(), [], threading.Lock()

        def work(number: int, client: wire.WireClient) -> None:
            with client:
                for i in range(100_000):
                    key = number * 100_000 + i
                    try:
                        reply = client.call({"insert": "load", "documents": [{"k": key}],
                                             "$db": "ruled"})
                    except (wire.Closed, OSError):
                        return
                    if reply["ok"] == 1:
                        with lock:
                            acknowledged.append(key)
                    going.set()

        with Threads(*(partial(work, i, wire.WireClient(proxy.address)) for i in range(8)), timeout=10):
            assert going.wait(10)
            proxy.stop()
        found = [d["k"] for d in standalone.client["ruled"]["load"].find()]
        assert len(found) == len(set(found))
        assert set(acknowledged) <= set(found)
        for each in standalone.client["ruled"]["load"].find():
            assert isinstance(each["_id"], bytes)


class TestReplicaSetBypass:
    """Where no member is mapped, a driver without directConnection=true goes round the proxy."""

    def test_it_is_warned_of_once(self, replica_set, start_proxy):
        config = configuration(replica_set, RULES)
        config["upstream"]["uri"] += "/?directConnection=true"
        proxy = start_proxy(config)
        warning = proxy.wait_event("replica_set_bypass")  # before any client has come
        assert warning["level"] == "warning"
        assert (warning["me"], warning["set"]) == (replica_set.address, "rs0")
        assert "directConnection=true" in warning["message"]
        for _ in range(3):
            with pymongo.MongoClient(f"mongodb://{proxy.address}", directConnection=True) as client:
                client.admin.command("ping")
        proxy.stop()
        assert proxy.find_events("replica_set_bypass") == [warning]

    def test_a_standalone_gives_no_reason_for_it(self, standalone, start_proxy):
        proxy = start_proxy(configuration(standalone, RULES))
        with pymongo.MongoClient(f"mongodb://{proxy.address}") as client:
            client.admin.command("ping")
        # Its own hello has been answered: it is known what the server is.
        with proxy.client() as client:
            states = lambda: [each["state"] for each in client.admin.command(
                {"idproxy": "status"})["servers"]]
            eventually(lambda: states() == ["STANDALONE"])
        proxy.stop()
        assert not proxy.find_events("replica_set_bypass")


@pytest.mark.tsan
def test_the_bytes_are_the_clients_own(standalone, start_proxy):
    """What has no rule reaches the server bit by bit as it was sent, and replies the client."""
    with Middleman(standalone.address) as relay:
        proxy = start_proxy(configuration(relay, RULES, standalone))
        sent = [
            wire.command({"hello": 1, "$db": "admin"}),
            wire.command({"insert": "bytes", "documents": [{"_id": i} for i in range(100)],
                          "$db": "plain"}, flags=wire.CHECKSUM_PRESENT),
            wire.command({"insert": "bytes", "documents": [{"_id": -1}], "$db": "ruled"}),
            wire.op_query("admin.$cmd", {"isMaster": 1}),
            wire.command({"find": "bytes", "$db": "plain"}, flags=1 << 20),
        ]
        with wire.WireClient(proxy.address) as client:
            received = []
            for message in sent:
                client.send(message)
                received.append(client.receive().raw)
        # The proxy's own hello may have come, too.
        connection = max(relay.connections, key=lambda each: len(each.passed["to_server"]))
        # The relay notes what it has passed on just after the receiver has got it.
        eventually(lambda: len(connection.passed["to_client"]) >= len(b"".join(received)))
        assert bytes(connection.passed["to_server"]) == b"".join(sent)
        assert bytes(connection.passed["to_client"]) == b"".join(received)
        proxy.stop()
    for db in ("plain", "ruled"):
        standalone.client[db].drop_collection("bytes")
