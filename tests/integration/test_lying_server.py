"""A server whose replies are wrong: they pass untouched or the connection ends, never a guess.

The upstream is a fake server that answers the first send of an insert, or its re-send, with a lie. A reply that
cannot be closes both sides. One that is a reply, but does not add up, passes untouched in answer to the first send,
since nothing was done on its account yet, and closes both sides in answer to a re-send, since no reply could then be
made of the two. Nothing is sent again on the word of a liar.

One way to be wrong of each kind is here, for what follows from it on the sockets. That each of them is found, in
answer to any command of any write, is shown without sockets: tests/unit/rewrite (write_reply_test, duplicates_test,
exchange_ends_test, and the faults of ExchangeScript), tests/unit/net/reply_gate_test, tests/unit/wire/op_msg_test.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import bson
import pytest

from support import elements as el
from support import wire
from support.elements import document, int32
from support.fake_server import Answer, FakeServer, Last, Request, reply_of_sections, reply_to
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.thief import insert_message, session

_DIGITS = {"strategy": "random-digits", "digits": 12, "leading_zeros": False}
RULES = [
    {"ns": "number.*", "field": "number", **_DIGITS, "retry": {"attempts": 3, "deadline": "20s"}},
    {"ns": "slow.*", "field": "number", **_DIGITS, "retry": {"backoff": "200ms", "deadline": "20s"}},
    # Longer than a test waits.
    {"ns": "slower.*", "field": "number", **_DIGITS, "retry": {"backoff": "60s", "deadline": "300s"}},
]
DOCUMENTS = [document(int32("k", i)) for i in range(3)]
PING = {"ping": 1, "$db": "admin"}
CLIENTS_ID = 4711


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture(scope="module")
def proxy(server: FakeServer, standalone: Mongod) -> Iterator[Proxy]:
    """After all lies it holds no more than before."""
    with Proxy(configuration(server, RULES, standalone)) as running:
        descriptors = running.descriptors_at_rest()
        yield running
        running.await_descriptors(descriptors)


# What a server answers.

def success(request: Request) -> dict[str, Any]:
    return {"n": len(request.documents), "ok": 1.0}


def duplicates(*indexes: int, n: int | None = None, **options: Any) -> Answer:
    """Values of ours at these indexes are taken; n as they say, for an unordered insert."""
    def answer(request: Request) -> bytes:
        errors = [{"index": index, "code": 11000, "keyPattern": {"number": 1}, "keyValue": {"number": bson.Int64(7)},
                   "errmsg": "E11000 duplicate key error collection: number.c index: number_1 dup key: { number: 7 }"}
                  for index in indexes]
        stored = len(request.documents) - len(indexes) if n is None else n
        return reply_to(request, {"n": stored, "writeErrors": errors, "ok": 1.0}, **options)
    return answer


def stored_all(request: Request) -> bytes:
    return reply_to(request, success(request))


def says(body: dict[str, Any], **options: Any) -> Answer:
    return lambda request: reply_to(request, body, **options)


def closes(request: Request) -> bytes:
    return Last()


def compressed(request: Request) -> bytes:
    """A right reply inside OP_COMPRESSED, by the compressor that copies."""
    whole = wire.op_compressed(stored_all(request), 0)
    return whole[:8] + struct.pack("<i", request.request_id) + whole[12:]


def of_nobody(request: Request) -> bytes:
    return reply_to(request, success(request), response_to=request.request_id + 1)


def more_to_come(request: Request) -> bytes:
    return reply_to(request, success(request), flags=wire.MORE_TO_COME)


def cut(request: Request) -> bytes:
    """The body announces more than there is; the header's length is right."""
    return reply_to(request, bson.encode(success(request))[:-3])


RESEND = duplicates(1)
"""What comes before an answer to a re-send."""
NOT_PRIMARY = says({"ok": 0.0, "errmsg": "not primary", "code": 10107, "errorLabels": ["RetryableWriteError"]})
OF_SEVERAL = says({"ok": 0.0, "errmsg": "E11000", "code": 11000, "keyPattern": {"number": 1}})  # nobody knows of which

# Both sides are closed, and the client has got nothing.
CLOSED: dict[str, list[Answer]] = {
    "response_to_of_nobody": [RESEND, of_nobody],
    "op_code_unknown": [lambda r: wire.message(9999, bytes(32), 70_000, r.request_id)],
    "compressed": [RESEND, compressed],
    "more_to_come": [more_to_come],
    "more_to_come_of_a_duplicate": [duplicates(0, flags=wire.MORE_TO_COME)],
    "body_cut": [duplicates(0, 2), RESEND, cut],
    "checksum_wrong": [lambda r: reply_of_sections(
        r, wire.body(success(r)), flags=wire.CHECKSUM_PRESENT, checksum=1)],
    "length_huge": [RESEND, lambda r: struct.pack("<i", 2**31 - 1) + stored_all(r)[4:]],
    "connection_ended": [closes],
    "half_a_reply": [RESEND, lambda r: Last(stored_all(r)[:-10])],
    "half_a_duplicate": [lambda r: Last(duplicates(0)(r)[:-10])],
    "no_ok": [RESEND, says({"n": 1})],
    "n_too_small": [RESEND, says({"n": 0, "ok": 1.0})],
    "index_out_of_range": [RESEND, duplicates(3, n=0)],
    "a_second_reply_to_a_resend": [RESEND, lambda r: more_to_come(r) + stored_all(r)],
}

# The server's last reply, byte for byte but for responseTo, and the connection goes on.
UNTOUCHED: dict[str, list[Answer]] = {
    "no_ok": [says({"n": 3})],
    "n_too_large": [says({"n": 4, "ok": 1.0})],
    "index_out_of_range": [duplicates(3)],
    "descending": [duplicates(1, 0)],
    "not_primary": [NOT_PRIMARY],
    "not_primary_resend": [RESEND, NOT_PRIMARY],
    "of_several_resend": [duplicates(0, 2), OF_SEVERAL],
}

# An ordered insert ends at its one error, and n is the index of that.
for _name, _lie in {"ordered_several": duplicates(0, 1, n=0), "ordered_n_before": duplicates(1, n=0),
                    "ordered_n_behind": duplicates(1, n=2), "ordered_n_of_an_unordered_one": duplicates(0, n=2)}.items():
    CLOSED[_name], UNTOUCHED[_name] = [duplicates(1, n=1), _lie], [_lie]


def insert(db: str = "number", ordered: bool = False, **options: Any) -> bytes:
    return insert_message(f"{db}.c", DOCUMENTS, ordered, request_id=CLIENTS_ID, **options)


def check_closed(server: FakeServer, proxy: Proxy, message: bytes, inserts: int | None = None) -> None:
    with wire.WireClient(proxy.address, 60) as client:
        client.send(message)
        with pytest.raises(wire.Closed):
            reply = client.receive()
            pytest.fail(f"the client got {reply.body_bytes!r}")
        eventually(lambda: server.connected == 0, 30, "the server's side is closed too")
    if inserts is not None:
        assert len(server.inserts) == inserts
        assert len(server.inserters) == 1, "nothing is sent over another connection"


@pytest.mark.parametrize("more", [{}, session()], ids=["plain", "txn"])
@pytest.mark.parametrize("name", CLOSED)
def test_what_cannot_be_built_upon_closes(server: FakeServer, proxy: Proxy, name: str, more: dict[str, Any]):
    server.expect(*CLOSED[name])
    check_closed(server, proxy, insert(ordered=name.startswith("ordered"), more=more), len(CLOSED[name]))


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_nothing_was_built_upon_passes_untouched(server: FakeServer, proxy: Proxy, name: str):
    said: list[bytes] = []

    def noted(answer: Answer) -> Answer:
        return lambda request: said.append(answer(request)) or said[-1]

    server.expect(*map(noted, UNTOUCHED[name]))
    with wire.WireClient(proxy.address) as client:
        client.send(insert(ordered=name.startswith("ordered")))
        reply = client.receive()
        assert reply.response_to == CLIENTS_ID
        assert reply.raw[:8] + reply.raw[12:] == said[-1][:8] + said[-1][12:]
        assert client.call(PING)["ok"] == 1
    assert len(server.inserts) == len(UNTOUCHED[name])


@pytest.mark.parametrize("db", ["number", "unruled"])
@pytest.mark.parametrize("extra", [stored_all, lambda r: bytes(16)], ids=["the_same_again", "no_message"])
def test_a_second_reply_closes(server: FakeServer, proxy: Proxy, extra: Answer, db: str):
    """And no more than the first one has come before."""
    server.expect(lambda r: stored_all(r) + extra(r))
    came: list[dict[str, Any]] = []
    with wire.WireClient(proxy.address) as client:
        client.send(insert(db))
        with pytest.raises(wire.Closed):
            while len(came) < 2:
                came.append(client.receive().body)
        eventually(lambda: server.connected == 0, 30)
    assert came in ([], [{"n": 3, "ok": 1.0}])


def test_a_reply_during_backoff_closes(server: FakeServer, proxy: Proxy):
    """With a pause before the re-send there is no request that it could belong to."""
    server.expect(lambda r: RESEND(r) * 2)
    check_closed(server, proxy, insert("slow"), 1)


def test_a_reply_before_any_request_closes(server: FakeServer, proxy: Proxy):
    server.expect()
    server.greeting = reply_to(Request.read(wire.command(PING)), {"ok": 1.0})
    with wire.WireClient(proxy.address) as client:
        assert client.closed_by_peer()
        eventually(lambda: server.connected == 0, 30)
    server.expect()


def test_a_reply_to_what_wants_none_closes(server: FakeServer, proxy: Proxy):
    server.expect(stored_all)
    check_closed(server, proxy, insert(more={"writeConcern": {"w": 0}}, flags=wire.MORE_TO_COME))


def test_a_reply_to_half_a_request_closes(server: FakeServer, proxy: Proxy):
    """The server answers a large insert, and quite rightly, while it is still being sent. A query of the old kind
    may have any number of replies: that excuses no other reply."""
    server.expect()
    server.early = lambda request_id: reply_to(
        Request(struct.pack("<iiii", 16, request_id, 0, wire.OP_MSG)), {"n": 2, "ok": 1.0})
    large = [document(int32("k", i), el.string("s", "x" * 15_000_000)) for i in range(2)]
    server.others["x"] = lambda request: wire.message(
        wire.OP_REPLY, struct.pack("<IqII", 8, 0, 0, 1) + bson.encode({"ok": 1.0}), 80_000, request.request_id)
    with wire.WireClient(proxy.address) as client:
        client.send(wire.op_query("unruled.c", {"x": 1}, flags=1 << 6))
        assert client.receive().body["ok"] == 1
        with pytest.raises(wire.Closed):
            client.send(insert_message("number.c", large))
            client.receive()
    server.go_on.set()
    eventually(lambda: server.connected == 0, 10)
    assert not server.inserts, "the rest of it was not sent"


@pytest.mark.parametrize("db", ["number", "slow"])
def test_the_server_leaves_behind_the_duplicates(server: FakeServer, proxy: Proxy, db: str):
    """Then the client is closed at once, also in a pause, and nothing is sent again, here or elsewhere (A15)."""
    server.expect(lambda r: Last(duplicates(1, n=1)(r)))
    check_closed(server, proxy, insert(db, ordered=True, more=session()), 1)


def test_the_client_leaves_in_backoff(server: FakeServer, standalone: Mongod, start_proxy):
    """Then the server's connection is closed, and nothing is sent again. A close looks like half a one: the proxy
    waits for the answer, as long as for a message."""
    proxy = start_proxy(configuration(server, RULES, standalone, limits={"drain": "1s", "message": "1s"}))
    server.expect(RESEND)
    with wire.WireClient(proxy.address) as client:
        client.send(insert("slower"))
        eventually(lambda: len(server.inserts) == 1)
    eventually(lambda: server.connected == 0, 30)
    assert len(server.inserts) == 1


class TestOrdinaryCommands:
    """A reply is the client's only if it answers what the client has asked (A12)."""

    @pytest.mark.parametrize("wrong", [of_nobody, closes], ids=["of_nobody", "connection_ended"])
    def test_a_wrong_reply_closes(self, server: FakeServer, proxy: Proxy, wrong: Answer):
        server.expect()
        server.others["ping"] = wrong
        check_closed(server, proxy, wire.command(PING))

    def test_replies_in_another_order_close(self, server: FakeServer, proxy: Proxy):
        """The second request's reply comes first."""
        asked: list[Request] = []
        server.expect()
        server.others["ping"] = lambda request: asked.append(request) or b""
        server.others["x"] = lambda request: reply_to(request, {"ok": 1.0}) + reply_to(asked[0], {"ok": 1.0})
        check_closed(server, proxy, wire.command(PING, request_id=1) + wire.command({"x": 1, "$db": "admin"}))

    def test_a_stream_of_old_replies(self, server: FakeServer, proxy: Proxy):
        """OP_QUERY with the exhaust flag, which servers before 5.1 answered with many OP_REPLY."""
        def stream(request: Request) -> bytes:
            parts, answered = [], request.request_id
            for number in range(3):
                parts.append(wire.message(
                    wire.OP_REPLY, struct.pack("<IqII", 8, 5 if number < 2 else 0, number, 1) +
                    bson.encode({"part": number}), 80_000 + number, answered))
                answered = 80_000 + number
            return b"".join(parts)

        server.expect(of_nobody)
        server.others["x"] = stream
        with wire.WireClient(proxy.address) as client:
            client.send(wire.op_query("unruled.c", {"x": 1}, flags=1 << 6))
            assert [client.receive().body["part"] for _ in range(3)] == [0, 1, 2]
            assert client.call(PING)["ok"] == 1
            # What has values is looked at all the same.
            client.send(insert())
            with pytest.raises(wire.Closed):
                client.receive()
            eventually(lambda: server.connected == 0, 30)


LOGGED: dict[str, list[Answer]] = {
    "wrong_response_to": [of_nobody],
    "no_message": [cut],
    "more_to_come": [more_to_come],
    "resend_that_does_not_add_up": [RESEND, says({"n": 1})],
    "second_reply": [lambda r: stored_all(r) * 2],
}


def test_each_is_logged(server: FakeServer, standalone: Mongod):
    with Proxy(configuration(server, RULES, standalone)) as proxy:
        for number, (name, script) in enumerate(LOGGED.items(), 1):
            server.expect(*script)
            with wire.WireClient(proxy.address) as client:
                client.send(insert())
                assert client.closed_by_peer(), name
            events = eventually(lambda: len(found := proxy.find_events("bad_reply")) == number and found, what=name)
            assert events[-1]["level"] == "warning"
