"""OP_COMPRESSED: clients and servers agree on a compressor through the proxy, which looks into what it
has to, and writes in the compressor of the request. What a compressed message does is tested by
running other tests in each compressor: duplicates and the differential tests."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import bson
import pymongo
import pytest
from pymongo.errors import BulkWriteError

from support import wire
from support.fake_server import HELLO, Answer, FakeServer, reply_to
from support.mongod import Mongod
from support.process import LITTLE_QUARANTINE, eventually, memory
from support.proxy import Proxy, configuration, is_sanitized
from support.scrape import metric
from support.thief import Robbed, fresh, insert_message, robbing

# Those of test_duplicates.py, in each compressor.
from test_duplicates import RULES as OF_DUPLICATES
from test_duplicates import Place, check_cured, numbered, taken

RULES = [*OF_DUPLICATES, {"ns": "counted.*", "field": "number", "strategy": "counter"}]

PING = {"ping": 1, "$db": "admin"}
HTTP = {"admin": {"listen": "127.0.0.1:0"}}

compressors = pytest.mark.parametrize("compressor", wire.COMPRESSORS)


@pytest.fixture(scope="module")
def robbed(standalone: Mongod, replica_set: Mongod) -> Iterator[Robbed]:
    with robbing(replica_set, RULES, standalone) as running:
        yield running


@pytest.fixture(params=wire.COMPRESSORS)
def place(request: pytest.FixtureRequest, robbed: Robbed) -> Iterator[Place]:
    """As that of test_duplicates.py, but its clients compress."""
    yield Place(**{**vars(robbed), "compressor": request.param}, numbered=True)
    robbed.thief.forget()


@pytest.fixture(scope="module")
def own(replica_set: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(replica_set, RULES, **HTTP)) as running:
        yield running


def on_the_way(robbed: Robbed, ns: str) -> set[str | None]:
    """The compressors of the inserts that the server got, and of its replies."""
    return {m.compressor for m in [*robbed.thief.inserts(ns), *robbed.thief.replies(ns)]}


# What works.

class TestDuplicates:
    @pytest.mark.parametrize("form", ["sequence", "sequence_first", "body"])
    @pytest.mark.parametrize("ordered, keys", [
        (False, [[0, 1, 2, 3, 4], [1, 3], [3]]), (True, [[0, 1, 2, 3, 4], [1, 2, 3, 4], [3, 4], [3, 4]])])
    def test_are_sent_again(self, place: Place, coll, ordered, keys, form):
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {1: 1, 3: 2})
        reply = place.insert(ns, numbered(5), ordered=ordered, form=form)
        check_cured(place, ns, reply, keys, "made")
        taken(place, ns, 3)
        assert on_the_way(place, ns) == {place.compressor}

    def test_with_a_checksum(self, place: Place, coll):
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {1: 1})
        reply = place.insert(ns, numbered(3), ordered=False, flags=wire.CHECKSUM_PRESENT)
        check_cured(place, ns, reply, [[0, 1, 2], [1]], "made")

    def test_of_a_large_batch(self, place: Place, coll):
        """Larger than what is held without room, in pieces of the driver's size."""
        ns = fresh(place, "field", coll, "made")
        place.thief.steal(ns, "made", {k: 1 for k in range(0, 3000, 7)})
        text = random.Random(1).randbytes(500).hex()
        reply = place.insert(ns, numbered(3000, more=text), ordered=False)
        assert reply["n"] == 3000 and "writeErrors" not in reply
        assert len(place.stored(ns)) == 3000
        assert on_the_way(place, ns) == {place.compressor}


@compressors
class TestPyMongo:
    def test_writes_and_reads(self, own: Proxy, replica_set: Mongod, compressor, coll):
        """Both directions are compressed on both sides."""
        before = counted(replica_set, compressor)
        at_proxy = requests(own, compressor)
        text = "x" * 100
        with own.client(compressors=compressor) as client:
            here = client["counted"][coll]
            here.insert_many([{"k": k, "text": text} for k in range(3000)])
            here.insert_one({"k": 3000})
            here.update_one({"k": 3001}, {"$set": {"text": text}}, upsert=True)
            here.find_one_and_update({"k": 3002}, {"$set": {"a": 1}}, upsert=True)
            assert {d["number"] for d in here.find()} == set(range(1, 3004))
            client["plain"][coll].insert_many([{"k": k, "text": text} for k in range(3000)])
            assert client["plain"][coll].count_documents({}) == 3000
            many = list(client["plain"][coll].find(
                cursor_type=pymongo.CursorType.EXHAUST, batch_size=100))
            assert [d["k"] for d in many] == list(range(3000))
            assert client.admin.command("ping")["ok"] == 1
            with pytest.raises(BulkWriteError):
                client["plain"][coll].insert_many([many[0]])
        after = counted(replica_set, compressor)
        assert after[0] > before[0] and after[1] > before[1]
        assert requests(own, compressor) >= at_proxy + 10

    def test_transactions(self, own: Proxy, compressor, coll):
        with own.client(compressors=compressor) as client, client.start_session() as session:
            here = client["field"][coll]
            here.insert_one({"k": 0})
            with session.start_transaction():
                here.insert_many([{"k": 1}, {"k": 2}], session=session)
            with session.start_transaction():
                here.insert_one({"k": 3}, session=session)
                session.abort_transaction()
            assert [d["k"] for d in here.find().sort("k")] == [0, 1, 2]
            assert all("made" in d for d in here.find())

    def test_large_messages(self, own: Proxy, compressor, coll):
        """What the proxy makes of them is as large as the driver's, and what cannot be made smaller
        passes."""
        noise = random.Random(2)
        documents = [{"k": k, "text": noise.randbytes(5_000_000) if k % 2 else "x" * 5_000_000}
                     for k in range(10)]
        with own.client(compressors=compressor) as client:
            for db in ("counted", "plain"):
                client[db][coll].insert_many(documents)
                assert list(client[db][coll].find({}, {"number": 0}).sort("k")) == documents
                client[db][coll].drop()

    def test_commands_of_the_proxy(self, own: Proxy, compressor, coll):
        with wire.client(own.address, compressor) as client:
            status = client.call({"idproxy": "status", "$db": "admin"})
            assert status["ok"] == 1 and status["rules"]
            given = client.call({"idproxy": "next", "ns": f"counted.{coll}", "field": "number",
                                 "count": 3, "$db": "admin"})
            assert len(given["ids"]) == 3
            assert client.call({"idproxy": "zork", "$db": "admin"})["ok"] == 0

    def test_a_namespace_behind_the_first_bytes(self, own: Proxy, replica_set: Mongod, compressor,
                                                coll):
        """Where $db lies behind what is inflated to look, and where the body does."""
        large = [{"k": k, "text": random.Random(k).randbytes(3000).hex()} for k in range(20)]
        with wire.client(own.address, compressor) as client:
            for db, form in (("counted", "body"), ("counted", "sequence_first"), ("plain", "body"),
                             ("plain", "sequence_first")):
                assert client.call(insert_message(f"{db}.{coll}", large, form=form))["n"] == 20
        numbered = replica_set.client["counted"][coll].distinct("number")
        assert sorted(numbered) == list(range(1, 41))
        assert replica_set.client["plain"][coll].distinct("number") == []

    def test_unacknowledged(self, own: Proxy, replica_set: Mongod, compressor, coll):
        with own.client(compressors=compressor, w=0) as client:
            for k in range(50):
                client["counted"][coll].insert_one({"k": k, "text": "x" * 1000})
            here = replica_set.client["counted"][coll]
            eventually(lambda: here.count_documents({"number": {"$gt": 0}}) == 50)


def counted(server: Mongod, compressor: str) -> tuple[int, int]:
    """Bytes that the server has compressed, and decompressed."""
    of = server.client.admin.command("serverStatus")["network"]["compression"][compressor]
    return of["compressor"]["bytesIn"], of["decompressor"]["bytesIn"]


def requests(proxy: Proxy, compressor: str) -> float:
    return metric(proxy, f'idproxy_requests_compressed_total{{compressor="{compressor}"}}')


class TestPlain:
    def test_a_plain_message_of_a_client_that_has_agreed(self, place: Place, coll):
        """Its answer is plain, too."""
        ns = fresh(place, "field", coll, "made")
        with wire.client(place.proxy.address, place.compressor) as client:
            client.compressor = None
            assert client.call(insert_message(ns, numbered(2)))["n"] == 2
            client.compressor = place.compressor
            assert client.call(PING)["ok"] == 1
        assert on_the_way(place, ns) == {None}

    def test_off(self, replica_set: Mongod, coll):
        compressor = "zstd"
        config = configuration(replica_set, RULES, listen={
            "address": "127.0.0.1", "port": 0, "compression": "off"}, **HTTP)
        with Proxy(config) as proxy:
            with proxy.client(compressors=compressor) as client:
                client["counted"][coll].insert_one({"k": 1})
            assert requests(proxy, compressor) == 0
            with proxy.raw_client() as client:
                reply = client.call({"hello": 1, "compression": [compressor], "$db": "admin"})
                assert "compression" not in reply
                client.send(wire.deflated(wire.command(PING), compressor))
                assert client.closed_by_peer()
            assert proxy.wait_event("compressed_message")["level"] == "warning"


@compressors
class TestHello:
    """Monitors of Node.js compress it, and Go an application's isMaster, though they should not; mongod
    answers them."""

    @pytest.mark.parametrize("name", ["hello", "isMaster", "ismaster"])
    def test_names_the_proxy(self, own: Proxy, compressor, name):
        with wire.client(own.address, compressor) as client:
            assert client.call({name: 1, "$db": "admin"})["me"] == own.address


def test_a_stream_of_hellos(replica_set: Mongod):
    """Which ends when the proxy stops."""
    with Proxy(configuration(replica_set, RULES)) as proxy, wire.client(proxy.address, "zlib") as client:
        version = client.call({"hello": 1, "$db": "admin"})["topologyVersion"]
        request = wire.command({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 10,
                                "$db": "admin"}, flags=wire.EXHAUST_ALLOWED)
        client.send(request)
        (previous,) = struct.unpack_from("<i", request, 4)
        replies = [client.receive() for _ in range(5)]
        for each in replies:
            assert (each.body["me"], each.response_to) == (proxy.address, previous)
            assert each.flags & wire.MORE_TO_COME
            previous = each.request_id
        proxy.stop()
        while (last := client.receive().body)["ok"]:
            pass
        assert last["code"] == 91


# Bad input: A1 to A5 of what an attacker may try.

def agreed(proxy: Proxy, compressor: str) -> wire.WireClient:
    """What it sends from now on is compressed already."""
    client = proxy.raw_client()
    reply = client.call({"hello": 1, "compression": [compressor], "$db": "admin"})
    assert reply["compression"] == [compressor]
    return client


def check_refused(proxy: Proxy, compressor: str, message: bytes) -> None:
    """The connection ends without an answer, and others are served."""
    with agreed(proxy, compressor) as client:
        client.send(message)
        client.socket.settimeout(10)
        try:
            assert client.socket.recv(1) == b""
        except ConnectionResetError:
            pass
    with wire.client(proxy.address, compressor) as client:
        assert client.call(PING)["ok"] == 1


def with_size(message: bytes, size: int) -> bytes:
    return message[:20] + struct.pack("<i", size) + message[24:]


def large_insert(coll: str) -> bytes:
    return insert_message(f"counted.{coll}", [{"k": k, "text": "x" * 1000} for k in range(50)])


@compressors
class TestBadInput:
    @pytest.mark.parametrize("size", [0, -1, 46, 1 << 20, 2**31 - 1, -(2**31), 48_000_000 - 16, 48_000_000])
    def test_a1_a2_impossible_sizes_and_other_ones(self, own: Proxy, replica_set, compressor, coll, size):
        for plain in (wire.command({"ping": 1, "comment": "longer than that", "$db": "admin"}),
                      large_insert(coll)):
            check_refused(own, compressor, with_size(wire.deflated(plain, compressor), size))
        assert replica_set.client["counted"][coll].count_documents({}) == 0

    def test_a3_bombs(self, replica_set: Mongod, compressor, coll):
        """They wait for room by the size that they state, so memory is bounded whatever they do."""
        number, compress, _ = wire.COMPRESSORS[compressor]
        limit = 64 << 20
        config = configuration(replica_set, RULES, limits={"buffered_messages": "64MiB"}, **HTTP)
        with Proxy(config, environment=LITTLE_QUARANTINE) as proxy:
            head = wire.body({"insert": coll, "$db": "counted"})
            pad = 47_999_000
            content = bytes(4) + head + b"\1" + struct.pack("<i", pad + 14) + b"documents\0" + bytes(pad)
            bomb = wire.message(wire.OP_COMPRESSED, struct.pack(
                "<iiB", wire.OP_MSG, len(content), number) + compress(content))
            lying = [with_size(bomb, size) for size in (100, 5000, 100_000, 40_000_000)]
            other = with_size(wire.op_compressed(
                wire.command(PING), number, compress(bytes(200_000_000))), 47_000_000)
            before = memory(proxy.pid, "VmRSS")
            with ThreadPoolExecutor(12) as pool:
                list(pool.map(lambda each: explode(proxy, compressor, each),
                              [bomb] * 12 + lying * 3 + [other] * 3))
            assert memory(proxy.pid, "VmHWM") - before < 4 * limit + (limit if is_sanitized() else 0)
            eventually(lambda: metric(proxy, "idproxy_buffered_messages_bytes") == 0)
            with wire.client(proxy.address, compressor) as client:
                assert client.call(PING)["ok"] == 1
        assert replica_set.client["counted"][coll].count_documents({}) == 0

    def test_a4_bytes_behind_the_stream(self, own: Proxy, replica_set, compressor, coll):
        for plain in (wire.command(PING), insert_message(f"counted.{coll}", [{"k": 1}]),
                      large_insert(coll)):
            number, compress, _ = wire.COMPRESSORS[compressor]
            stream = compress(plain[16:])
            for more in (b"x", bytes(100), stream):
                check_refused(own, compressor, wire.op_compressed(plain, number, stream + more))
            for less in (stream[:-1], stream[:len(stream) // 2], b""):
                check_refused(own, compressor, wire.op_compressed(plain, number, less))
        assert replica_set.client["counted"][coll].count_documents({}) == 0

    def test_a5_one_inside_another(self, own: Proxy, compressor):
        inner = wire.deflated(wire.command(PING), compressor)
        check_refused(own, compressor, wire.deflated(inner, compressor))

    def test_a5_a_compressor_that_was_not_agreed_on(self, own: Proxy, compressor):
        for other in wire.COMPRESSORS:
            if other != compressor:
                check_refused(own, compressor, wire.deflated(wire.command(PING), other))
        for number in (0, 4, 127, 128, 255):
            check_refused(own, compressor, wire.op_compressed(wire.command(PING), number))

    def test_a5_legacy_messages(self, own: Proxy, compressor, coll):
        for plain in (wire.op_query("admin.$cmd", {"isMaster": 1}),
                      wire.message(wire.OP_INSERT, bytes(4) + f"counted.{coll}\0".encode() +
                                   bson.encode({"k": 1})),
                      wire.message(0, b"anything"), wire.message(4711, b"anything")):
            check_refused(own, compressor, wire.deflated(plain, compressor))

    @pytest.mark.parametrize("command", [
        {"createUser": "u", "pwd": "p", "roles": [], "$db": "plain"},
        {"updateUser": "u", "pwd": "p", "$db": "plain"}], ids=lambda c: next(iter(c)))
    def test_a5_what_must_not_be_compressed(self, own: Proxy, compressor, command):
        check_refused(own, compressor, wire.deflated(wire.command(command), compressor))
        behind = wire.op_msg(wire.sequence("x", [{"pad": "x" * 6000}]), wire.body(command))
        check_refused(own, compressor, wire.deflated(behind, compressor))

    def test_what_is_no_stream(self, own: Proxy, compressor):
        number, compress, _ = wire.COMPRESSORS[compressor]
        choose = random.Random(compressor)
        plain = wire.op_msg(wire.body(PING), wire.sequence("x", [{"pad": "x" * 10_000}]))
        stream = compress(plain[16:])
        for _ in range(30):
            broken = bytearray(stream)
            broken[choose.randrange(min(len(broken), 20))] ^= 1 << choose.randrange(8)
            with agreed(own, compressor) as client:
                client.send(wire.op_compressed(plain, number, bytes(broken)))
                try:
                    client.receive()  # what the server makes of it
                except wire.Closed:
                    pass
        for size in (8, 9, 10, 30):
            check_refused(own, compressor, wire.message(wire.OP_COMPRESSED, choose.randbytes(size)))

    def test_byte_by_byte(self, own: Proxy, compressor, coll):
        message = wire.deflated(large_insert(coll), compressor)
        with agreed(own, compressor) as client:
            for byte in message:
                client.send(bytes([byte]))
            assert wire.parse(wire.inflated(client.receive().raw)).body["n"] == 50


def explode(proxy: Proxy, compressor: str, bomb: bytes) -> None:
    """Whatever comes, the end of the connection or the server's error."""
    with agreed(proxy, compressor) as client:
        client.socket.settimeout(120)
        try:
            client.send(bomb)
            while client.socket.recv(65536):
                client.finish()
        except (ConnectionResetError, wire.Closed):
            pass


# A server that answers compressed requests as it should not.

def answer(change: Callable[[bytes], bytes] = lambda raw: wire.deflated(raw, "zlib")) -> Answer:
    """A right reply, changed."""
    return lambda request: change(reply_to(request, {"n": len(request.documents), "ok": 1.0}))


def cut(raw: bytes) -> bytes:
    whole = wire.deflated(raw, "zlib")
    return struct.pack("<i", len(whole) - 3) + whole[4:-3]


WRONG = {
    "cut": cut,
    "larger": lambda raw: with_size(wire.deflated(raw, "zlib"), len(raw)),
    "negative": lambda raw: with_size(wire.deflated(raw, "zlib"), -1),
    "not agreed on": lambda raw: wire.deflated(raw, "zstd"),
    "by nothing": lambda raw: wire.op_compressed(raw, 0),
    "twice": lambda raw: wire.deflated(wire.deflated(raw, "zlib"), "zlib"),
    "nothing": lambda raw: wire.message(wire.OP_COMPRESSED, bytes(9), response_to=struct.unpack_from("<i", raw, 8)[0]),
}


@pytest.fixture(scope="module")
def liar() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture(scope="module")
def before_liar(liar: FakeServer, standalone: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(liar, RULES, standalone)) as running:
        yield running


class TestLyingServer:
    @pytest.fixture
    def client(self, liar: FakeServer, before_liar: Proxy) -> Iterator[wire.WireClient]:
        liar.expect()
        liar.others = {"hello": lambda request: reply_to(
            request, {**HELLO, "compression": ["zlib"]})}
        with wire.client(before_liar.address, "zlib") as client:
            yield client

    def test_the_truth(self, liar: FakeServer, client: wire.WireClient, coll):
        liar.script = [answer()]
        assert client.call(insert_message(f"field.{coll}", [{"k": 1}]))["n"] == 1

    def test_a_plain_answer(self, liar: FakeServer, client: wire.WireClient, coll):
        """A server may do that."""
        liar.script = [answer(lambda raw: raw)]
        client.send(insert_message(f"field.{coll}", [{"k": 1}]))
        client.compressor = None
        assert client.receive().body["n"] == 1

    @pytest.mark.parametrize("how", WRONG)
    def test_closes(self, liar: FakeServer, before_liar: Proxy, client: wire.WireClient, coll, how):
        liar.script = [answer(WRONG[how])]
        client.send(insert_message(f"field.{coll}", [{"k": 1}]))
        assert client.closed_by_peer()

    def test_what_nobody_reads_passes(self, liar: FakeServer, client: wire.WireClient, coll):
        liar.script = [answer(WRONG["larger"])]
        client.send(insert_message(f"plain.{coll}", [{"k": 1}]))
        client.compressor = None
        with pytest.raises(AssertionError):
            wire.inflated(wire.WireClient.receive(client).raw)
