"""A server whose replies to hello are wrong: no member's own address ever reaches a client.

The upstream is a fake primary of a set of two, which tells the truth until a client asks for a lie.
A reply that cannot be closes the connection. One that can is mapped; what has no listener is left
out of it.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pytest

from support import elements as el
from support import wire
from support.elements import document, elements
from support.fake_server import (HELLO, Answer, FakeServer, Last, Request, reply_of_sections,
                                 reply_to)
from support.hello import LISTS, mapped
from support.mongod import Mongod
from support.process import eventually, free_ports
from support.proxy import Proxy, configuration
from support.threads import at_once

# A member that nobody reaches; it has a listener all the same.
SECOND = "127.0.0.1:9"
# What only lies name; no beginning of an address that a test has: free ports begin with 2 to 6.
SECRET = "127.0.0.1:7"
SET = "liars"
LIE = "tell a lie"


def truth(server: FakeServer, **changes: Any) -> dict[str, Any]:
    """What the fake server says of itself; changes replace fields, or remove them with None."""
    says = {
        "topologyVersion": {"processId": bson.ObjectId("6b02a4fe37a124fdf0143214"),
                            "counter": bson.Int64(6)},
        "hosts": [server.address, SECOND], "setName": SET, "setVersion": 3,
        **HELLO, "secondary": False, "primary": server.address, "me": server.address,
        "electionId": bson.ObjectId("7fffffff0000000000000001"), **changes}
    return {name: value for name, value in says.items() if value is not None}


def old_reply(request: Request, body: dict[str, Any] | bytes, response_to: int | None = None,
              documents: int = 1, flags: int = 8) -> bytes:
    """OP_REPLY."""
    payload = struct.pack("<IqII", flags, 0, 0, documents) + wire.encode(body) * documents
    return wire.message(wire.OP_REPLY, payload, 71_000,
                        request.request_id if response_to is None else response_to)


def plain(request: Request, body: dict[str, Any] | bytes) -> bytes:
    (op_code,) = struct.unpack_from("<i", request.raw, 12)
    return old_reply(request, body) if op_code == wire.OP_QUERY else reply_to(request, body)


class Liar:
    """The fake server, its proxy, and what both do when asked for a lie."""

    def __init__(self, server: FakeServer, proxy: Proxy, second: str):
        self.server, self.proxy, self.second = server, proxy, second
        self.lie: Answer = lambda request: b""
        self.said: list[bytes] = []
        for name in ("hello", "isMaster", "ismaster"):
            server.others[name] = self._answer

    def _answer(self, request: Request) -> bytes:
        if LIE.encode() not in request.raw:
            return plain(request, truth(self.server))
        answer = self.lie(request)
        self.said.append(bytes(answer))
        return answer

    @property
    def listeners(self) -> dict[str, str]:
        return {self.server.address: self.proxy.address, SECOND: self.second}

    def hello(self, lie: Answer, message: bytes | None = None) -> list[bytes]:
        """What a client receives that asks for this lie, until it is closed or nothing more
        comes."""
        self.lie, self.said = lie, []
        received: list[bytes] = []
        with wire.WireClient(self.proxy.address) as client:
            client.send(message or ask())
            try:
                received.append(client.receive().raw)
                # What follows it, if it is no last word, is the reply to a ping.
                client.send(wire.command({"ping": 1, "$db": "admin"}, request_id=77))
                while True:
                    reply = client.receive()
                    if reply.response_to == 77:
                        break
                    received.append(reply.raw)
            except wire.Closed:
                self.closed = True
            else:
                self.closed = False
        for raw in received:
            self.names_nobody(raw)
        return received

    def names_nobody(self, raw: bytes) -> None:
        for name in (SECRET, SECOND, self.server.address):
            assert name.encode() not in raw, raw

    def tells_the_truth(self) -> None:
        """Whatever it said before: it counts again at the next word."""
        def is_mapped() -> bool:
            with wire.WireClient(self.proxy.address) as client:
                client.send(wire.command({"hello": 1, "$db": "admin"}))
                try:
                    reply = client.receive()
                except wire.Closed:
                    return False
                self.names_nobody(reply.raw)
                return reply.body["hosts"] == list(self.listeners.values())
        eventually(is_mapped, 10, "the truth is mapped")


def ask(name: str = "hello", **options: Any) -> bytes:
    return wire.command({name: 1, "comment": LIE, "$db": "admin"}, request_id=4711, **options)


def ask_old(name: str = "isMaster") -> bytes:
    return wire.op_query("admin.$cmd", {name: 1, "comment": LIE}, request_id=4711)


@pytest.fixture(scope="module")
def liar(standalone: Mongod) -> Iterator[Liar]:
    with FakeServer() as server:
        # It tells the truth from the first question on.
        server.others = {name: lambda r: plain(r, truth(server))
                         for name in ("hello", "isMaster", "ismaster")}
        ports = free_ports(2)  # the second's is pinned: it comes and goes, as is said
        listen = {"address": "127.0.0.1", "port": ports[0], "members": {SECOND: ports[1]}}
        with Proxy(configuration(server, [], standalone, listen=listen)) as proxy:
            found = Liar(server, proxy, f"127.0.0.1:{ports[1]}")
            proxy.wait_event("member_joined", server=SECOND)
            yield found
            # Names of members reach the log, and break no line of it.
            assert len(proxy.events) == len(proxy.lines)


def says(**changes: Any) -> Callable[[FakeServer], dict[str, Any]]:
    return lambda server: truth(server, **changes)


def with_element(changed: el.Element, *more: el.Element) -> Callable[[FakeServer], bytes]:
    """The truth with this element in place of one of its name, and more at the end."""
    def body(server: FakeServer) -> bytes:
        parts = elements(bson.encode(truth(server)))
        replaced = [changed if p.name == changed.name else p for p in parts]
        if changed not in replaced:
            replaced.append(changed)
        return document(*replaced, *more)
    return body


def test_the_truth(liar: Liar):
    for message in (ask(), ask("isMaster"), ask(flags=wire.CHECKSUM_PRESENT), ask_old()):
        received = liar.hello(lambda r: plain(r, truth(liar.server)), message)
        assert received == [mapped(said, liar.listeners) for said in liar.said]
        assert len(received) == 1 and not liar.closed


# Bodies that no server says: the connection is closed, and nothing is passed on.
IMPOSSIBLE: dict[str, Callable[[FakeServer], dict[str, Any] | bytes]] = {
    "hosts_text": says(hosts=SECRET),
    "hosts_null": with_element(el.null("hosts")),
    "hosts_mixed": says(hosts=["{self}", 5, SECRET]),
    "hosts_of_symbols": with_element(el.element(0x04, "hosts", document(
        el.string("0", SECRET, kind=0x0E)))),
    "passives_text": says(passives=SECRET),
    "arbiters_document": says(arbiters={"a": SECRET}),
    "primary_array": says(primary=[SECRET]),
    "me_binary": says(me=SECRET.encode()),
    "hosts_with_a_wrong_length": with_element(el.element(
        0x04, "hosts", struct.pack("<i", 4000) + el.string("0", SECRET).raw + b"\0")),
    "a_name_without_nul": with_element(el.element(
        0x02, "me", struct.pack("<i", len(SECRET)) + SECRET.encode())),
}


@pytest.mark.parametrize("form", ["op_msg", "op_query"])
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_fields_of_a_wrong_type(liar: Liar, name: str, form: str):
    message = ask() if form == "op_msg" else ask_old()
    assert liar.hello(lambda r: plain(r, IMPOSSIBLE[name](liar.server)), message) == []
    assert liar.closed
    liar.tells_the_truth()


# Replies that are none, or none to what was asked.
NO_REPLY: dict[str, Callable[[Liar], Answer]] = {
    "more_to_come": lambda liar: lambda r: reply_to(
        r, truth(liar.server), flags=wire.MORE_TO_COME),
    "of_nobody": lambda liar: lambda r: reply_to(r, truth(liar.server), response_to=5),
    "checksum_wrong": lambda liar: lambda r: reply_of_sections(
        r, wire.body(truth(liar.server)), flags=wire.CHECKSUM_PRESENT, checksum=1),
    "two_bodies": lambda liar: lambda r: reply_of_sections(
        r, *[wire.body(truth(liar.server))] * 2),
    "compressed": lambda liar: lambda r: (
        lambda whole: whole[:8] + struct.pack("<i", r.request_id) + whole[12:])(
            wire.op_compressed(reply_to(r, truth(liar.server)), 0,
                               reply_to(r, truth(liar.server))[16:])),
    "an_unknown_op_code": lambda liar: lambda r: wire.message(
        2099, bson.encode(truth(liar.server)), 1, r.request_id),
    "two_documents": lambda liar: lambda r: old_reply(r, truth(liar.server), documents=2),
    "nothing": lambda liar: lambda r: Last(),
}


@pytest.mark.parametrize("name", NO_REPLY)
def test_what_is_no_reply(liar: Liar, name: str):
    assert liar.hello(NO_REPLY[name](liar)) == []
    assert liar.closed
    liar.tells_the_truth()


def test_an_answer_to_a_question_that_wanted_none(liar: Liar):
    """moreToCome in the request."""
    with wire.WireClient(liar.proxy.address) as client:
        liar.lie = lambda r: reply_to(r, truth(liar.server))
        client.send(ask(flags=wire.MORE_TO_COME))
        with pytest.raises(wire.Closed):
            client.receive()


def test_a_stream_that_breaks_its_chain(liar: Liar):
    def stream(request: Request) -> bytes:
        first = reply_to(request, truth(liar.server), flags=wire.MORE_TO_COME)
        return first + reply_to(request, truth(liar.server), flags=wire.MORE_TO_COME)

    liar.lie = stream
    with wire.WireClient(liar.proxy.address) as client:
        client.send(ask(flags=wire.EXHAUST_ALLOWED))
        liar.names_nobody(client.receive().raw)
        with pytest.raises(wire.Closed):
            client.receive()


def test_a_stream_whose_last_reply_lies(liar: Liar):
    """Each of a stream is read as the first."""
    def stream(request: Request) -> bytes:
        first = reply_to(request, truth(liar.server), flags=wire.MORE_TO_COME)
        (first_id,) = struct.unpack_from("<i", first, 4)
        return first + reply_to(request, truth(liar.server, hosts=[5, SECRET]),
                                flags=wire.MORE_TO_COME, response_to=first_id)

    liar.lie = stream
    with wire.WireClient(liar.proxy.address) as client:
        client.send(ask(flags=wire.EXHAUST_ALLOWED))
        liar.names_nobody(client.receive().raw)
        with pytest.raises(wire.Closed):
            client.receive()
    liar.tells_the_truth()


def test_repeated_fields(liar: Liar):
    """Drivers read the last one, or the first: none of them names anybody."""
    for name in ("hosts", "passives", "me", "primary"):
        value = bson.encode({name: [SECRET] if name in ("hosts", "passives") else SECRET})
        (twice,) = elements(value)
        received = liar.hello(lambda r: reply_to(
            r, document(*elements(bson.encode(truth(liar.server))), twice, twice)))
        assert liar.closed or len(received) == 1
        liar.tells_the_truth()


# Names that are no host:port, with which nothing is to be reached or written.
ODD_NAMES = [
    "", ":", ":1", "h:", "h", "h:0", "h:65536", "h:-1", "h:port", "h:1x", "h: 1", "h:+1",
    "line\nbreak:1", "tab\t:1", "esc\x1b[2J:1", "nul\0:1", "del\x7f:1",
    "/tmp/mongodb.sock", "unix:/tmp/x:1", "h/../x:1", "user@h:1", "h1:1,h2:1", "a b:1",
    "x" * 300 + ":1", "[::1]", "[::1:1", "::1", "mongodb://h:1",
]


def test_names_that_are_none(liar: Liar):
    """They are left out."""
    for field in ("hosts", "passives", "arbiters"):
        received = liar.hello(lambda r: reply_to(r, truth(
            liar.server, **{field: [liar.server.address, *ODD_NAMES, SECOND]})))
        if not liar.closed:
            (raw,) = received
            assert wire.parse(raw).body[field] == list(liar.listeners.values())
        liar.tells_the_truth()
    joined = {e["server"] for e in liar.proxy.find_events("member_joined")}
    assert not joined & {*ODD_NAMES, *map(str.lower, ODD_NAMES)}


@pytest.mark.parametrize("form", ["op_msg", "checksum", "op_query"])
def test_a_reply_cut_at_every_byte(liar: Liar, form: str):
    """The client gets all of it, or nothing."""
    flags = wire.CHECKSUM_PRESENT if form == "checksum" else 0
    message = ask_old() if form == "op_query" else ask(flags=flags)

    def whole(request: Request) -> bytes:
        if form == "op_query":
            return old_reply(request, truth(liar.server))
        return reply_of_sections(request, wire.body(truth(liar.server)), flags=flags)

    length = len(whole(Request.read(message)))
    for at in range(length):
        liar.lie = lambda r: Last(whole(r)[:at])
        with wire.WireClient(liar.proxy.address) as client:
            client.send(message)
            with pytest.raises(wire.Closed):
                client.receive()
            assert not client._pending
    liar.tells_the_truth()


# Too much of everything.

@pytest.mark.parametrize(("field", "count"), [
    *((name.decode(), 10_000) for name in LISTS), ("hosts", 51), ("hosts", 3_000),
    ("hosts", 200_000)])
def test_a_list_without_end(standalone: Mongod, field: str, count: int):
    """No more members than a set can have, and none of them by its own name."""
    names = [f"127.1.{i // 60_000}.1:{1 + i % 60_000}" for i in range(count)]
    with FakeServer() as server:
        says = truth(server, **{field: [server.address, *names]})
        for name in ("hello", "isMaster", "ismaster"):
            server.others[name] = lambda r: plain(r, says)
        with Proxy(configuration(server, [], standalone)) as proxy:
            for message in (ask(), ask_old()):
                with wire.WireClient(proxy.address, timeout=30) as client:
                    client.send(message)
                    try:
                        reply = client.receive()
                    except wire.Closed:
                        continue
                    assert b"127.1." not in reply.raw
                    told = reply.body.get(field, [])
                    assert len(told) <= 51 and all(t.startswith("127.0.0.1:") for t in told)
                    assert reply.body["me"] == proxy.address
            assert len(proxy.find_events("member_joined")) <= 50
            assert len(proxy.find_events("member_left_out")) <= 200
            assert proxy.descriptors() < 200
            with wire.WireClient(proxy.address) as client:
                client.send(wire.command({"ping": 1, "$db": "admin"}))
                assert client.receive().body["ok"] == 1


@pytest.mark.tsan
def test_a_list_that_never_stays_the_same(liar: Liar):
    """Listeners open and close all the time; whoever is there is served all the same."""
    changes = itertools.cycle([[], ["127.0.0.1:11"], ["127.0.0.1:12", "127.0.0.1:13"], [SECRET]])

    def another(request: Request) -> bytes:
        hosts = [liar.server.address, SECOND, *next(changes)]
        return plain(request, truth(liar.server, hosts=hosts))

    def work() -> None:
        for _ in range(50):
            with wire.WireClient(liar.proxy.address) as client:
                client.send(ask())
                replies.append(client.receive().raw)

    replies: list[bytes] = []
    liar.lie = another
    at_once(*[work] * 4)
    assert len(replies) == 200
    for raw in replies:
        liar.names_nobody(raw)
        assert not any(b"127.0.0.1:%d\0" % port in raw for port in (11, 12, 13))
    for _ in range(8):  # more than there are threads
        liar.tells_the_truth()


@pytest.mark.parametrize("size", [60_000, 70_000, 1_000_000, 16_000_000])
def test_a_large_reply(liar: Liar, size: int):
    """Mapped or refused, but never passed on as it is."""
    received = liar.hello(lambda r: reply_to(r, truth(liar.server, tags={"t": "x" * size})))
    assert liar.closed or received == [mapped(said, liar.listeners) for said in liar.said]
    assert size > 64_000 or received
    liar.tells_the_truth()
