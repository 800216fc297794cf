"""A server whose replies are wrong: they pass untouched or the connection ends, never a guess.

The upstream is a fake server that answers the first send of an insert, or its re-send, with a lie.
A reply that cannot be closes both sides. One that is a reply, but does not add up, passes untouched
in answer to the first send, since nothing was done on its account yet, and closes both sides in
answer to a re-send, since no reply could then be made of the two. Nothing is sent again on the
word of a liar.

One way to be wrong of each kind is here, for what follows from it on the sockets. That each of them is found,
in answer to any command of any write, is shown without sockets: tests/unit/rewrite (write_reply_test,
duplicates_test, and the faults of ExchangeScript), tests/unit/net/reply_gate_test, tests/unit/wire/op_msg_test.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import bson
import pytest

from support import elements as el
from support import wire
from support.elements import document, elements, int32
from support.fake_server import Answer, FakeServer, Last, Request, reply_of_sections, reply_to
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.thief import insert_message, session

_DIGITS = {"strategy": "random-digits", "digits": 12, "leading_zeros": False}
_RETRY = {"attempts": 3, "deadline": "20s"}
RULES = [
    {"ns": "number.*", "field": "number", **_DIGITS, "retry": _RETRY},
    {"ns": "slow.*", "field": "number", **_DIGITS, "retry": {**_RETRY, "backoff": "200ms"}},
    # Longer than a test waits.
    {"ns": "slower.*", "field": "number", **_DIGITS,
     "retry": {"backoff": "60s", "deadline": "300s"}},
    {"ns": "id.*", "field": "_id", **_DIGITS, "retry": _RETRY},
    {"ns": "dotted.*", "field": "registration.number", **_DIGITS, "retry": _RETRY},
]

PING = {"ping": 1, "$db": "admin"}
CLIENTS_ID = 4711

# What a member of a replica set says besides, in mongod's order around the fields of a test.
_FRONT = {"electionId": bson.ObjectId("7fffffff0000000000000001"),
          "opTime": {"ts": bson.Timestamp(1795288406, 8), "t": bson.Int64(1)}}
_BACK = {"$clusterTime": {"clusterTime": bson.Timestamp(1795288406, 9), "signature": {
             "hash": bytes(20), "keyId": bson.Int64(0)}},
         "operationTime": bson.Timestamp(1795288406, 8)}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture(scope="module")
def proxy(server: FakeServer, standalone: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(server, RULES, standalone)) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def all_rest(proxy: Proxy) -> Iterator[None]:
    """After all lies the proxy holds no more than before."""
    descriptors = proxy.descriptors_at_rest()
    yield
    proxy.await_descriptors(descriptors)


# What a server answers.

def success(request: Request) -> dict[str, Any]:
    return {"n": len(request.documents), **_FRONT, "ok": 1.0, **_BACK}


def failure(request: Request, *entries: Any, n: int | None = None) -> dict[str, Any]:
    """With these write errors; n as they say, for an unordered insert."""
    n = len(request.documents) - len(entries) if n is None else n
    return {"n": n, **_FRONT, "writeErrors": list(entries), "ok": 1.0, **_BACK}


def duplicate(at: Any, field: str = "number", **changes: Any) -> dict[str, Any]:
    """An entry of writeErrors; changes replace its fields, or remove them with None."""
    entry = {
        "index": at, "code": 11000,
        "errmsg": f"E11000 duplicate key error collection: number.c index: {field}_1 dup key: "
                  f"{{ {field}: 123456789012 }}",
        "keyPattern": {field: 1}, "keyValue": {field: bson.Int64(123456789012)}, **changes}
    return {name: value for name, value in entry.items() if value is not None}


def honest(*indexes: int, ordered: bool = False, **options: Any) -> Answer:
    """Duplicates of ours at these indexes, and the rest stored."""
    return lambda request: reply_to(request, failure(
        request, *map(duplicate, indexes), n=indexes[0] if ordered else None), **options)


def stored_all(request: Request) -> bytes:
    return reply_to(request, success(request))


def says(**changes: Any) -> Answer:
    """A success with these fields changed, or removed with None."""
    def answer(request: Request) -> bytes:
        body = {**success(request), **changes}
        return reply_to(request, {k: v for k, v in body.items() if v is not None})
    return answer


def errs(*entries: Any, n: int | None = None) -> Answer:
    return lambda request: reply_to(request, failure(request, *entries, n=n))


def closes(request: Request) -> bytes:
    return Last()


def message(op_code: int, payload: bytes = b"") -> Answer:
    return lambda request: wire.message(op_code, payload, 70_000, request.request_id)


def announcing(length: int) -> Answer:
    """A right reply with another length in its header."""
    return lambda request: struct.pack("<i", length) + stored_all(request)[4:]


def flagged(flags: int) -> Answer:
    """A right reply with these flag bits, and nothing that they would ask for."""
    def answer(request: Request) -> bytes:
        right = stored_all(request)
        return right[:16] + struct.pack("<I", flags) + right[20:]
    return answer


def compressed(request: Request) -> bytes:
    """A right reply inside OP_COMPRESSED, by the compressor that copies."""
    whole = wire.op_compressed(stored_all(request), 0)
    return whole[:8] + struct.pack("<i", request.request_id) + whole[12:]


def raw_body(change: Callable[[bytes], bytes]) -> Answer:
    """A success whose body is changed as bytes, with the header's length as it then is."""
    return lambda request: reply_to(request, change(bson.encode(success(request))))


def resized(by: int) -> Callable[[bytes], bytes]:
    return lambda raw: struct.pack("<i", len(raw) + by) + raw[4:]


def broken(element: el.Element) -> Callable[[bytes], bytes]:
    """The document with this element, as wrong as it is, at its end."""
    return lambda raw: document(*elements(raw), element)


# What follows from it.

class Outcome:
    """How the client and the server fare; inserts is how many the server must have got."""

    def __init__(self, inserts: int):
        self.inserts = inserts

    def of_client(self, client: wire.WireClient, said: list[bytes]) -> None:
        raise NotImplementedError


class Closed(Outcome):
    """Both sides are closed, and the client has got nothing."""

    def of_client(self, client: wire.WireClient, said: list[bytes]) -> None:
        with pytest.raises(wire.Closed):
            reply = client.receive()
            pytest.fail(f"the client got {reply.body_bytes!r}")


class Untouched(Outcome):
    """The server's last reply, byte for byte but for responseTo, and the connection goes on."""

    def of_client(self, client: wire.WireClient, said: list[bytes]) -> None:
        reply = client.receive()
        assert reply.response_to == CLIENTS_ID
        assert reply.raw[:8] + reply.raw[12:] == said[-1][:8] + said[-1][12:]
        assert client.call(PING)["ok"] == 1


class Merged(Outcome):
    """One reply with this body, fields in this order."""

    def __init__(self, inserts: int, body: dict[str, Any]):
        super().__init__(inserts)
        self.body = body

    def of_client(self, client: wire.WireClient, said: list[bytes]) -> None:
        reply = client.receive()
        assert (reply.response_to, reply.flags) == (CLIENTS_ID, 0)
        assert reply.body == self.body and list(reply.body) == list(self.body)
        assert client.call(PING)["ok"] == 1


def all_stored(inserts: int, count: int = 3) -> Merged:
    return Merged(inserts, {"n": count, **_FRONT, "ok": 1.0, **_BACK})


@dataclass
class Case:
    """An insert of three documents, how the server answers it and its re-sends, and the outcome."""

    script: list[Answer]
    outcome: Outcome
    ordered: bool = False
    db: str = "number"
    documents: list[bytes] | None = None
    more: dict[str, Any] | None = None

    def run(self, server: FakeServer, proxy: Proxy) -> None:
        said: list[bytes] = []

        def noting(answer: Answer) -> Answer:
            def noted(request: Request) -> bytes:
                said.append(answer(request))
                return said[-1]
            return noted

        server.expect(*map(noting, self.script))
        sent = DOCUMENTS if self.documents is None else self.documents
        with wire.WireClient(proxy.address, 60) as client:
            client.send(insert_message(f"{self.db}.c", sent, self.ordered, more=self.more or {},
                                       request_id=CLIENTS_ID))
            self.outcome.of_client(client, said)
            if isinstance(self.outcome, Closed):
                eventually(lambda: server.connected == 0, 30, "the server's side is closed too")
        assert len(server.inserts) == self.outcome.inserts
        assert len(server.inserters) == 1, "nothing is sent over another connection"
        self.check_resends(server.inserts)

    def check_resends(self, inserts: list[Request]) -> None:
        """Each is the failed documents with values of their own, and else what was sent."""
        field = {"number": "number", "slow": "number", "id": "_id",
                 "dotted": "registration.number"}[self.db]
        seen: set[bytes] = set()
        for number, request in enumerate(inserts):
            numbered = {"stmtIds"} if number and "txnNumber" in (self.more or {}) else set()
            assert set(request.options) == set(inserts[0].options) | numbered
            values = {request.value(i, field).raw for i in range(len(request.documents))
                      if number == 0 or not self.ordered or i == 0}
            assert not values & seen, "a value that collided is not sent again"
            seen |= values


DOCUMENTS = [document(int32("k", i)) for i in range(3)]

RESEND = [honest(1)]
"""What comes before an answer to a re-send."""


# Replies that cannot be.

CHECKSUM_WRONG: Answer = lambda r: reply_of_sections(
    r, wire.body(success(r)), flags=wire.CHECKSUM_PRESENT, checksum=1)
OF_NOBODY: Answer = lambda r: reply_to(r, success(r), response_to=r.request_id + 1)
MORE_TO_COME: Answer = lambda r: reply_to(r, success(r), flags=wire.MORE_TO_COME)
CUT: Answer = raw_body(lambda raw: raw[:-3])

IMPOSSIBLE: dict[str, list[Answer]] = {
    "response_to_0": [lambda r: reply_to(r, success(r), response_to=0)],
    "response_to_of_nobody": [*RESEND, OF_NOBODY],
    "response_to_of_a_duplicate": [lambda r: honest(0, response_to=r.request_id ^ 1)(r)],
    "op_reply": [*RESEND, lambda r: wire.message(
        wire.OP_REPLY, struct.pack("<IqII", 8, 0, 0, 1) + bson.encode(success(r)), 70_000,
        r.request_id)],
    "op_code_unknown": [message(9999, bytes(32))],
    "compressed": [compressed],
    "compressed_resend": [*RESEND, compressed],
    "more_to_come": [*RESEND, MORE_TO_COME],
    "more_to_come_of_a_duplicate": [honest(0, flags=wire.MORE_TO_COME)],
    "flag_2": [flagged(1 << 2)],
    "header_alone": [*RESEND, message(wire.OP_MSG)],
    "body_longer_than_the_message": [raw_body(resized(1))],
    "body_cut": [honest(0, 2), *RESEND, CUT],
    "body_with_unknown_type": [raw_body(broken(el.element(0x20, "x", bytes(8))))],
    "two_bodies": [*RESEND, lambda r: reply_of_sections(r, wire.body(success(r)), wire.body(success(r)))],
    "body_and_sequence": [lambda r: reply_of_sections(
        r, wire.body(success(r)), wire.sequence("writeErrors", [duplicate(0)]))],
    "checksum_wrong": [CHECKSUM_WRONG],
    "length_15": [announcing(15)],
    "length_huge": [*RESEND, announcing(2**31 - 1)],
    "connection_ended": [closes],
    "half_a_reply": [*RESEND, lambda r: Last(stored_all(r)[:-10])],
    "half_a_header": [lambda r: Last(stored_all(r)[:7])],
    "half_a_duplicate": [lambda r: Last(honest(0)(r)[:-10])],
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_is_no_reply_closes(server: FakeServer, proxy: Proxy, name: str):
    script = IMPOSSIBLE[name]
    Case(script, Closed(len(script))).run(server, proxy)


# Replies that do not add up.

INCONSISTENT: dict[str, Answer] = {
    "no_ok": says(ok=None),
    "n_too_large": lambda r: says(n=len(r.documents) + 1)(r),
    "n_too_small": lambda r: says(n=len(r.documents) - 1)(r),
    "n_does_not_fit_the_errors": lambda r: errs(duplicate(0), n=len(r.documents))(r),
    "entry_int": errs(5),
    "index_out_of_range": lambda r: errs(duplicate(len(r.documents)))(r),
    "foreign_index_out_of_range": lambda r: errs(duplicate(len(r.documents), field="other"))(r),
}
INCONSISTENT_CASES = {
    **{f"{name}-first": Case([lie], Untouched(1)) for name, lie in INCONSISTENT.items()},
    **{f"{name}-resend": Case([*RESEND, lie], Closed(2), more=session()) for name, lie in INCONSISTENT.items()}}

ORDERED_TAIL = [document(int32("k", i)) for i in range(4)]

# Beyond one document: the first send has three of them, an ordered re-send here three of four.
for _name, _ordered, _lie in [
        ("descending", False, errs(duplicate(1), duplicate(0))),
        ("several_in_order", True, errs(duplicate(0), duplicate(1), n=0)),
        ("several_in_order_last_repeats", True, errs(duplicate(1), duplicate(1), n=1)),
        ("n_before_the_error", True, errs(duplicate(1), n=0)),
        ("n_behind_the_error", True, errs(duplicate(1), n=2)),
        ("n_of_an_unordered_one", True, errs(duplicate(0), n=2))]:
    INCONSISTENT_CASES[f"{_name}-first"] = Case([_lie], Untouched(1), ordered=_ordered)
    INCONSISTENT_CASES[f"{_name}-resend"] = Case(
        [honest(1, ordered=True) if _ordered else honest(0, 1, 2), _lie], Closed(2),
        ordered=_ordered, documents=ORDERED_TAIL)


@pytest.mark.parametrize("name", INCONSISTENT_CASES)
def test_what_does_not_add_up_is_not_built_upon(server: FakeServer, proxy: Proxy, name: str):
    INCONSISTENT_CASES[name].run(server, proxy)


# Whose duplicate, when the server is brief or lies about it.

def errmsg(index: str, collection: str = "number.c") -> str:
    return f"E11000 duplicate key error collection: {collection} {index} dup key: {{ x: 1 }}"


def named(name: str, collection: str = "number.c") -> dict[str, Any]:
    """No details, only an index name in the text."""
    return {"keyPattern": None, "keyValue": None, "errmsg": errmsg(f"index: {name}", collection)}


# The database, and what its error says.
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "pattern_and_another_text": ("number", {"keyPattern": {"tenant": 1, "number": -1}, "keyValue": {"other": 5},
                                            "errmsg": errmsg("index: other_1")}),
    "name": ("number", named("number_1")),
    "id_name": ("id", named("_id_", "id.c")),
    "dotted_above": ("dotted", {"keyPattern": {"registration": 1}}),
}
FOREIGN: dict[str, tuple[str, dict[str, Any]]] = {
    "other_field": ("number", {"keyPattern": {"other": 1}}),
    "name_of_another_field": ("number", named("numbers_1")),
    "nothing": ("number", {"keyPattern": None, "keyValue": None, "errmsg": None}),
    "dotted_below": ("dotted", {"keyPattern": {"registration.number.a": 1}}),
    "code_11001": ("number", {"code": 11001}),  # which old servers had for some duplicates
    "name_in_another_collection": ("number", named("number_1", "number.d")),
}


@pytest.mark.parametrize("more", [{}, session()], ids=["plain", "txn"])
@pytest.mark.parametrize("name", OURS)
def test_a_duplicate_of_ours_is_sent_again(server: FakeServer, proxy: Proxy, name: str, more):
    db, changes = OURS[name]
    Case([errs(duplicate(1, **changes)), stored_all], all_stored(2), db=db, more=more).run(server, proxy)
    assert server.inserts[1].options.get("stmtIds") == ([1] if more else None)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_duplicate_passes_untouched(server: FakeServer, proxy: Proxy, name: str):
    db, changes = FOREIGN[name]
    Case([errs(duplicate(1, **changes))], Untouched(1), db=db).run(server, proxy)


@pytest.mark.parametrize("code", [bson.Int64(11000), 11000.0], ids=["int64", "double"])
def test_another_type_of_code(server: FakeServer, proxy: Proxy, code: Any):
    """Drivers take numbers of any type, and there is only one way to read these."""
    Case([errs(duplicate(1, code=code)), stored_all], all_stored(2)).run(server, proxy)


# Errors of the whole command.

def top_level(code: int, **more: Any) -> Answer:
    return lambda request: reply_to(request, {
        **_FRONT, "ok": 0.0, "errmsg": errmsg("index: number_1"), "code": code,
        "codeName": "X", **more, **_BACK})


NOT_PRIMARY = top_level(10107, errorLabels=["RetryableWriteError"])
OF_SEVERAL = top_level(11000, keyPattern={"number": 1})  # nobody knows of which


@pytest.mark.parametrize("more", [{}, session()], ids=["plain", "txn"])
@pytest.mark.parametrize("script", [[NOT_PRIMARY], [*RESEND, NOT_PRIMARY], [OF_SEVERAL], [honest(0, 2), OF_SEVERAL]],
                         ids=["first", "resend", "of_several", "of_several_resend"])
def test_an_error_of_the_whole_command_is_passed_on(server: FakeServer, proxy: Proxy, script, more):
    Case(script, Untouched(len(script)), more=more).run(server, proxy)


# More replies than requests.

EXTRA: dict[str, Answer] = {
    "the_same_again": stored_all,
    "of_nobody": lambda r: reply_to(r, {"ok": 1.0}, response_to=0),
    "no_message": lambda r: bytes(16),
}


def at_most(client: wire.WireClient, expected: list[dict[str, Any]]) -> None:
    """The connection ends, and no more than these replies came before."""
    came: list[dict[str, Any]] = []
    with pytest.raises(wire.Closed):
        while len(came) <= len(expected):
            came.append(client.receive().body)
    assert came == expected[:len(came)]


@pytest.mark.parametrize("db", ["number", "unruled"])
@pytest.mark.parametrize("name", EXTRA)
def test_a_second_reply_closes(server: FakeServer, proxy: Proxy, name: str, db: str):
    server.expect(lambda r: stored_all(r) + EXTRA[name](r))
    with wire.WireClient(proxy.address) as client:
        client.send(insert_message(f"{db}.c", [document(int32("_id", 1), int32("k", 1))]))
        at_most(client, [{"n": 1, **_FRONT, "ok": 1.0, **_BACK}])
        eventually(lambda: server.connected == 0, 30)


def test_a_second_reply_to_a_resend_closes(server: FakeServer, proxy: Proxy):
    server.expect(*RESEND, lambda r: stored_all(r) * 2)
    with wire.WireClient(proxy.address) as client:
        client.send(insert_message("number.c", DOCUMENTS, ordered=False))
        at_most(client, [{"n": 3, **_FRONT, "ok": 1.0, **_BACK}])
        eventually(lambda: server.connected == 0, 30)
    assert len(server.inserts) == 2


def test_a_reply_during_backoff_closes(server: FakeServer, proxy: Proxy):
    """With a pause before the re-send there is no request that it could belong to."""
    Case([lambda r: honest(1)(r) * 2], Closed(1), db="slow").run(server, proxy)


def test_a_reply_before_any_request_closes(server: FakeServer, proxy: Proxy):
    server.expect()
    server.greeting = reply_to(Request.read(wire.command(PING)), {"ok": 1.0})
    with wire.WireClient(proxy.address) as client:
        assert client.closed_by_peer()
        eventually(lambda: server.connected == 0, 30)
    server.expect()


def test_a_reply_to_what_wants_none_closes(server: FakeServer, proxy: Proxy):
    server.expect(stored_all)
    with wire.WireClient(proxy.address) as client:
        client.send(insert_message("number.c", DOCUMENTS, more={"writeConcern": {"w": 0}},
                                   flags=wire.MORE_TO_COME))
        with pytest.raises(wire.Closed):
            client.receive()
        eventually(lambda: server.connected == 0, 30)


@pytest.mark.parametrize("old_stream", [False, True], ids=["", "after_an_old_stream"])
def test_a_reply_to_half_a_request_closes(server: FakeServer, proxy: Proxy, old_stream: bool):
    """The server answers a large insert, and quite rightly, while it is still being sent.

    A query of the old kind may have any number of replies: that excuses no other reply.
    """
    server.expect()
    server.early = lambda request_id: reply_to(
        Request(struct.pack("<iiii", 16, request_id, 0, wire.OP_MSG)), {"n": 2, "ok": 1.0})
    large = [document(int32("k", i), el.string("s", "x" * 15_000_000)) for i in range(2)]
    server.others["x"] = lambda request: wire.message(
        wire.OP_REPLY, struct.pack("<IqII", 8, 0, 0, 1) + bson.encode({"ok": 1.0}), 80_000,
        request.request_id)
    with wire.WireClient(proxy.address) as client:
        if old_stream:
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
    Case([lambda r: Last(honest(1, ordered=True)(r))], Closed(1), True, db, more=session()).run(server, proxy)


def test_the_client_leaves_in_backoff(server: FakeServer, standalone: Mongod, start_proxy):
    """Then the server's connection is closed, and nothing is sent again. A close looks like half a one: the proxy
    waits for the answer, as long as for a message."""
    proxy = start_proxy(configuration(server, RULES, standalone, limits={"drain": "1s", "message": "1s"}))
    server.expect(*RESEND)
    with wire.WireClient(proxy.address) as client:
        client.send(insert_message("slower.c", DOCUMENTS, ordered=False))
        eventually(lambda: len(server.inserts) == 1)
    eventually(lambda: server.connected == 0, 30)
    assert len(server.inserts) == 1


# Checksums of replies.

def with_checksum(answer_body: Callable[[Request], dict[str, Any]]) -> Answer:
    return lambda request: reply_of_sections(
        request, wire.body(answer_body(request)), flags=wire.CHECKSUM_PRESENT)


def test_checksums_of_a_merged_reply(server: FakeServer, proxy: Proxy):
    """Each message of the exchange has the right one."""
    asked: list[bytes] = []

    def checked(answer: Answer) -> Answer:
        def after_a_look(request: Request) -> bytes:
            (flags,) = struct.unpack_from("<I", request.raw, 16)
            assert flags == wire.CHECKSUM_PRESENT
            assert request.raw[-4:] == struct.pack("<I", wire.crc32c(request.raw[:-4]))
            asked.append(request.raw)
            return answer(request)
        return after_a_look

    server.expect(checked(with_checksum(lambda r: failure(r, duplicate(1)))),
                  checked(with_checksum(success)))
    with wire.WireClient(proxy.address) as client:
        client.send(insert_message("number.c", DOCUMENTS, ordered=False, flags=wire.CHECKSUM_PRESENT))
        reply = client.receive()  # which verifies the checksum
    assert (reply.flags, reply.body["n"]) == (wire.CHECKSUM_PRESENT, 3)
    assert len(asked) == 2


# Batches that go in two commands.

MANY = [document(int32("k", i)) for i in range(20_001)]


class TestParts:
    """An unordered batch of more than 20,000 documents. Once its first part is stored, no reply to
    the second may pass for one to all of it."""

    @pytest.mark.parametrize("more", [{}, session()], ids=["plain", "txn"])
    def test_an_honest_server(self, server: FakeServer, proxy: Proxy, more):
        Case([honest(5, 7), stored_all, honest(0), stored_all], all_stored(4, len(MANY)),
             documents=MANY, more=more).run(server, proxy)
        assert [len(r.documents) for r in server.inserts] == [20_000, 2, 1, 1]
        assert [r.options.get("stmtIds") for r in server.inserts[1:]] == (
            [[5, 7], [20_000], [20_000]] if more else [None] * 3)

    @pytest.mark.parametrize("script", [
        [closes], [INCONSISTENT["n_too_small"]], [stored_all, OF_NOBODY], [stored_all, INCONSISTENT["n_too_small"]]],
        ids=["ends", "does_not_add_up", "second_of_nobody", "second_does_not_add_up"])
    def test_a_lie(self, server: FakeServer, proxy: Proxy, script):
        Case(script, Closed(len(script)), documents=MANY).run(server, proxy)

    def test_an_error_of_the_whole_command(self, server: FakeServer, proxy: Proxy):
        Case([stored_all, NOT_PRIMARY], Untouched(2), documents=MANY, more=session()).run(server, proxy)

    def test_an_unacknowledged_one_that_wants_a_reply(self, server: FakeServer, proxy: Proxy):
        """mongod answers {w: 0} without moreToCome with n: 0, whatever became of it."""
        def nothing(request: Request) -> bytes:
            return reply_to(request, {"n": 0, "ok": 1.0})
        Case([nothing, nothing], Merged(2, {"n": 0, "ok": 1.0}), documents=MANY,
             more={"writeConcern": {"w": 0}}).run(server, proxy)


# Commands that are only relayed.

class TestOrdinaryCommands:
    """A reply is the client's only if it answers what the client has asked (A12)."""

    def test_the_answers_of_an_honest_server(self, server: FakeServer, proxy: Proxy):
        server.expect()
        with wire.WireClient(proxy.address) as client:
            for number in (5, 3, 3, -1):
                client.send(wire.command(PING, request_id=number))
            assert [client.receive().response_to for _ in range(4)] == [5, 3, 3, -1]

    WRONG: dict[str, Answer] = {
        "of_nobody": lambda r: reply_to(r, {"ok": 1.0}, response_to=r.request_id + 1),
        "length_15": announcing(15), "connection_ended": closes,
    }

    @pytest.mark.parametrize("name", WRONG)
    def test_a_wrong_reply_closes(self, server: FakeServer, proxy: Proxy, name: str):
        server.expect()
        server.others["ping"] = self.WRONG[name]
        with wire.WireClient(proxy.address) as client:
            client.send(wire.command(PING, request_id=CLIENTS_ID))
            with pytest.raises(wire.Closed):
                client.receive()
            eventually(lambda: server.connected == 0, 30)

    def test_replies_in_another_order_close(self, server: FakeServer, proxy: Proxy):
        """The second request's reply comes first."""
        asked: list[Request] = []

        def late(request: Request) -> bytes:
            asked.append(request)
            return b""

        server.expect(lambda r: stored_all(r) + reply_to(asked[0], {"ok": 1.0}))
        server.others["ping"] = late
        with wire.WireClient(proxy.address) as client:
            client.send(wire.command(PING, request_id=1) +
                        insert_message("number.c", DOCUMENTS, request_id=2))
            with pytest.raises(wire.Closed):
                client.receive()
            eventually(lambda: server.connected == 0, 30)

    @pytest.mark.parametrize("last", ["right", "of_the_request"])
    def test_a_stream_goes_on_in_its_chain(self, server: FakeServer, proxy: Proxy, last: str):
        """Each reply of an exhaust stream answers the one before it."""
        def stream(request: Request) -> bytes:
            first = reply_to(request, {"part": 1, "ok": 1.0}, flags=wire.MORE_TO_COME)
            (first_id,) = struct.unpack_from("<i", first, 4)
            answered = first_id if last == "right" else request.request_id
            return first + reply_to(request, {"part": 2, "ok": 1.0}, response_to=answered)

        server.expect()
        server.others["getMore"] = stream
        with wire.WireClient(proxy.address) as client:
            client.send(wire.command(
                {"getMore": bson.Int64(1), "collection": "c", "$db": "unruled"},
                flags=wire.EXHAUST_ALLOWED))
            if last == "right":
                assert [client.receive().body["part"] for _ in range(2)] == [1, 2]
                assert client.call(PING)["ok"] == 1
            else:
                at_most(client, [{"part": 1, "ok": 1.0}])

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

        server.expect(OF_NOBODY)
        server.others["x"] = stream
        with wire.WireClient(proxy.address) as client:
            client.send(wire.op_query("unruled.c", {"x": 1}, flags=1 << 6))
            assert [client.receive().body["part"] for _ in range(3)] == [0, 1, 2]
            assert client.call(PING)["ok"] == 1
            # What has values is looked at all the same.
            client.send(insert_message("number.c", DOCUMENTS, request_id=CLIENTS_ID))
            with pytest.raises(wire.Closed):
                client.receive()
            eventually(lambda: server.connected == 0, 30)


@pytest.fixture(scope="module")
def real(standalone: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(standalone, RULES)) as running:
        yield running


class TestStreamsOfARealServer:
    """What a check of replies must let pass."""

    @pytest.fixture
    def through(self, real: Proxy) -> Iterator[wire.WireClient]:
        with real.raw_client() as client:
            yield client

    def test_hello(self, through: wire.WireClient):
        version = through.call({"hello": 1, "$db": "admin"})["topologyVersion"]
        through.send(wire.command(
            {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": bson.Int64(20),
             "$db": "admin"}, flags=wire.EXHAUST_ALLOWED, request_id=1))
        previous = 1
        for _ in range(10):
            reply = through.receive()
            assert reply.response_to == previous and reply.flags & wire.MORE_TO_COME
            previous = reply.request_id

    def test_get_more_and_then_an_insert(self, through: wire.WireClient, standalone: Mongod):
        standalone.client["number"]["stream"].drop()
        inserted = through.call(insert_message("number.stream", [{"k": i} for i in range(10)]))
        assert inserted["n"] == 10
        cursor = through.call({"find": "stream", "batchSize": 2, "$db": "number"})["cursor"]["id"]
        through.send(
            wire.command({"getMore": cursor, "collection": "stream", "batchSize": 2,
                          "$db": "number"}, flags=wire.EXHAUST_ALLOWED, request_id=1) +
            insert_message("number.stream", [{"k": 10}], request_id=2))
        previous, parts = 1, []
        while True:
            reply = through.receive()
            assert reply.response_to == previous
            parts.append(len(reply.body["cursor"]["nextBatch"]))
            previous = reply.request_id
            if not reply.flags & wire.MORE_TO_COME:
                break
        assert sum(parts) >= 8
        reply = through.receive()
        assert (reply.response_to, reply.body["n"]) == (2, 1)

    def test_unacknowledged_inserts_between_others(self, through: wire.WireClient,
                                                   standalone: Mongod):
        standalone.client["number"]["silent"].drop()
        for number in range(20):
            through.send(insert_message(
                "number.silent", [{"k": number}], more={"writeConcern": {"w": 0}},
                flags=wire.MORE_TO_COME) + wire.command(PING, request_id=number))
        assert [through.receive().response_to for _ in range(20)] == list(range(20))
        assert standalone.client["number"]["silent"].count_documents({}) == 20


LOGGED: dict[str, list[Answer]] = {
    "wrong_response_to": [OF_NOBODY],
    "no_message": [CUT],
    "more_to_come": [MORE_TO_COME],
    "resend_that_does_not_add_up": [*RESEND, INCONSISTENT["no_ok"]],
    "second_reply": [lambda r: stored_all(r) * 2],
}


def test_each_is_logged(server: FakeServer, standalone: Mongod):
    with Proxy(configuration(server, RULES, standalone)) as proxy:
        for number, (name, script) in enumerate(LOGGED.items(), 1):
            server.expect(*script)
            with wire.WireClient(proxy.address) as client:
                client.send(insert_message("number.c", DOCUMENTS, ordered=False))
                assert client.closed_by_peer(), name
            events = eventually(lambda: len(found := proxy.find_events("bad_reply")) == number and found, what=name)
            assert events[-1]["level"] == "warning"
