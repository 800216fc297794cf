"""A server whose replies are wrong: they pass untouched or the connection ends, never a guess.

The upstream is a fake server that answers the first send of an insert, or its re-send, with a lie.
A reply that cannot be closes both sides. One that is a reply, but does not add up, passes untouched
in answer to the first send, since nothing was done on its account yet, and closes both sides in
answer to a re-send, since no reply could then be made of the two. Nothing is sent again on the
word of a liar.
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


def says_element(element: el.Element) -> Answer:
    """A success with this element, in place of one of that name or before `ok`."""
    def answer(request: Request) -> bytes:
        parts = elements(bson.encode(success(request)))
        parts = [p for p in parts if p.name != element.name]
        at = next((i for i, p in enumerate(parts) if p.name == b"ok"), len(parts))
        parts.insert(at, element)
        return reply_to(request, document(*parts))
    return answer


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
                eventually(lambda: server.open == 0, 30, "the server's side is closed too")
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


def run_stages(table: dict[str, Answer], first: Callable[[int], Outcome],
               resend: Callable[[int], Outcome]) -> dict[str, Case]:
    """Each lie in answer to the first send, and to a re-send: of one document, or of an ordered
    insert's tail of two, or with stmtIds."""
    cases: dict[str, Case] = {}
    for name, lie in table.items():
        cases[f"{name}-first"] = Case([lie], first(1))
        cases[f"{name}-first-txn"] = Case([lie], first(1), more=session())
        cases[f"{name}-resend"] = Case([honest(1), lie], resend(2))
        cases[f"{name}-resend-txn"] = Case([honest(1), lie], resend(2), more=session())
        cases[f"{name}-second-resend"] = Case([honest(0, 2), honest(1), lie], resend(3))
        cases[f"{name}-resend-ordered"] = Case(
            [honest(1, ordered=True), lie], resend(2), ordered=True)
    return cases


# Replies that cannot be.

IMPOSSIBLE: dict[str, Answer] = {
    "response_to_0": lambda r: reply_to(r, success(r), response_to=0),
    "response_to_of_nobody": lambda r: reply_to(r, success(r), response_to=r.request_id + 1),
    "response_to_of_a_duplicate": lambda r: honest(0, response_to=r.request_id ^ 1)(r),
    "op_reply": lambda r: wire.message(
        wire.OP_REPLY, struct.pack("<IqII", 8, 0, 0, 1) + bson.encode(success(r)), 70_000,
        r.request_id),
    "op_query": lambda r: wire.message(
        wire.OP_QUERY, bytes(4) + b"admin.$cmd\0" + bytes(8) + bson.encode(success(r)), 70_000,
        r.request_id),
    "op_compressed": compressed,
    "op_code_unknown": message(9999, bytes(32)),
    "op_code_0": message(0, bytes(32)),
    "more_to_come": lambda r: reply_to(r, success(r), flags=wire.MORE_TO_COME),
    "more_to_come_of_a_duplicate": honest(0, flags=wire.MORE_TO_COME),
    "flag_2": flagged(1 << 2),
    "flag_15": flagged(1 << 15),
    "header_alone": message(wire.OP_MSG),
    **{f"payload_of_{size}": message(wire.OP_MSG, bytes(size)) for size in (1, 4, 5, 9)},
    "body_longer_than_the_message": raw_body(resized(1)),
    "body_much_longer": raw_body(resized(2**30)),
    "body_length_negative": raw_body(resized(-(2**31))),
    "body_shorter_than_the_message": raw_body(lambda raw: raw + b"\0"),
    "body_without_end": raw_body(lambda raw: raw[:-1] + b"\1"),
    "body_cut": raw_body(lambda raw: raw[:-3]),
    "body_with_unknown_type": raw_body(broken(el.element(0x20, "x", bytes(8)))),
    "body_with_endless_string": raw_body(broken(el.element(0x02, "x", struct.pack("<i", 2**30)))),
    "body_with_negative_string": raw_body(broken(
        el.element(0x02, "x", struct.pack("<i", -1) + b"a\0"))),
    "body_with_cut_document": raw_body(broken(
        el.element(0x03, "x", struct.pack("<i", 50) + b"\0"))),
    "body_with_endless_errors": raw_body(broken(
        el.element(0x04, "writeErrors", struct.pack("<i", 500) + b"\0"))),
    "no_section": lambda r: reply_of_sections(r),
    "sequence_alone": lambda r: reply_of_sections(r, wire.sequence("x", [success(r)])),
    "two_bodies": lambda r: reply_of_sections(r, wire.body(success(r)), wire.body(success(r))),
    "body_and_sequence": lambda r: reply_of_sections(
        r, wire.body(success(r)), wire.sequence("writeErrors", [duplicate(0)])),
    "sequence_and_body": lambda r: reply_of_sections(
        r, wire.sequence("writeErrors", [duplicate(0)]), wire.body(success(r))),
    "section_of_kind_2": lambda r: reply_of_sections(r, b"\2" + bson.encode(success(r))),
    "bytes_after_the_body": lambda r: reply_of_sections(r, wire.body(success(r)), b"\0\0\0"),
    "checksum_wrong": lambda r: reply_of_sections(
        r, wire.body(success(r)), flags=wire.CHECKSUM_PRESENT, checksum=1),
    "checksum_wrong_of_a_duplicate": lambda r: reply_of_sections(
        r, wire.body(failure(r, duplicate(0))), flags=wire.CHECKSUM_PRESENT, checksum=1),
    "checksum_missing": flagged(wire.CHECKSUM_PRESENT),
    **{f"length_{length}": announcing(length)
       for length in (0, 15, -1, -(2**31), wire.MAX_MESSAGE + 1, 2**31 - 1)},
    "connection_ended": closes,
    "half_a_reply": lambda r: Last(stored_all(r)[:-10]),
    "half_a_header": lambda r: Last(stored_all(r)[:7]),
    "half_a_duplicate": lambda r: Last(honest(0)(r)[:-10]),
}
IMPOSSIBLE_CASES = run_stages(IMPOSSIBLE, Closed, Closed)


@pytest.mark.parametrize("name", IMPOSSIBLE_CASES)
def test_what_is_no_reply_closes(server: FakeServer, proxy: Proxy, name: str):
    IMPOSSIBLE_CASES[name].run(server, proxy)


# Replies that do not add up.

INCONSISTENT: dict[str, Answer] = {
    "no_ok": says(ok=None),
    **{f"ok_{name}": says_element(value) for name, value in {
        "string": el.string("ok", "1"), "null": el.null("ok"), "document": el.embedded("ok"),
        "array": el.element(0x04, "ok", document())}.items()},
    "empty": lambda r: reply_to(r, {}),
    "no_n": says(n=None),
    "n_negative": says(n=-1),
    "n_min": says(n=-(2**31)),
    "n_too_large": lambda r: says(n=len(r.documents) + 1)(r),
    "n_max": says(n=2**31 - 1),
    "n_too_small": lambda r: says(n=len(r.documents) - 1)(r),
    "n_string": says(n="1"),
    "n_document": says(n={}),
    "n_does_not_fit_the_errors": lambda r: errs(duplicate(0), n=len(r.documents))(r),
    **{f"errors_{name}": says_element(value) for name, value in {
        "string": el.string("writeErrors", "x"), "int": int32("writeErrors", 1),
        "null": el.null("writeErrors")}.items()},
    "errors_document": lambda r: reply_to(
        r, {**failure(r, duplicate(0)), "writeErrors": {"0": duplicate(0)}}),
    "entry_int": errs(5), "entry_string": errs("x"), "entry_null": says(writeErrors=[None]),
    "entry_array": errs([duplicate(0)]),
    "index_missing": errs(duplicate(0, index=None)),
    "index_negative": errs(duplicate(-1)),
    "index_min": errs(duplicate(-(2**31))),
    "index_out_of_range": lambda r: errs(duplicate(len(r.documents)))(r),
    "index_max": errs(duplicate(2**31 - 1)),
    "index_int64": errs(duplicate(bson.Int64(0))),
    "index_double": errs(duplicate(0.0)),
    "index_beyond_32_bits": errs(duplicate(bson.Int64(2**32))),
    "index_string": errs(duplicate(0, index="0")),
    "index_half": errs(duplicate(0, index=0.5)),
    "code_missing": errs(duplicate(0, code=None)),
    "code_string": errs(duplicate(0, code="11000")),
    "code_nearly": errs(duplicate(0, code=11000.5)),
    # Lengths inside the array are looked at when the array is.
    "entry_cut": raw_body(broken(el.element(0x04, "writeErrors", document(
        el.element(0x03, "0", struct.pack("<i", 100) + b"\0"))))),
    "error_with_a_code_string": lambda r: reply_to(r, {"ok": 0.0, "code": "11000"}),
    "ok_2": says(ok=2.0), "ok_half": says(ok=0.5), "ok_nan": says(ok=float("nan")),
    "ok_twice": lambda r: reply_to(r, document(
        *elements(bson.encode(success(r))), el.double("ok", 1.0))),
    "n_twice": lambda r: reply_to(r, document(
        *elements(bson.encode(success(r))), int32("n", len(r.documents)))),
    "errors_twice": lambda r: reply_to(r, document(
        *elements(bson.encode(failure(r, duplicate(0)))), el.element(
            0x04, "writeErrors", document()))),
    "retried_document": says(retriedStmtIds={}),
    "retried_string": says(retriedStmtIds="x"),
    "index_repeated": lambda r: errs(duplicate(0), duplicate(0), n=len(r.documents) - 1)(r),
    "foreign_index_out_of_range": lambda r: errs(
        duplicate(len(r.documents), field="other"))(r),
}
INCONSISTENT_CASES = run_stages(INCONSISTENT, Untouched, Closed)

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

def errmsg(index: str, tail: str = " dup key: { x: 1 }") -> str:
    return f"E11000 duplicate key error collection: number.c {index}{tail}"


def named(name: str, tail: str = " dup key: { x: 1 }") -> dict[str, Any]:
    """No details, only an index name in the text."""
    return {"keyPattern": None, "keyValue": None, "errmsg": errmsg(f"index: {name}", tail)}


OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("number", {}),
    "descending": ("number", {"keyPattern": {"number": -1}}),
    "compound": ("number", {"keyPattern": {"tenant": 1, "number": 1}}),
    "key_value_of_another_document": ("number", {"keyValue": {"number": 5}}),
    "key_value_of_another_field": ("number", {"keyValue": {"other": 5}}),
    "no_key_value": ("number", {"keyValue": None}),
    "key_value_string": ("number", {"keyValue": "x"}),
    "key_value_hex": ("number", {"keyValue": {"number": "292b2d0107"}, "hexEncoded": [True],
                                 "collation": {"locale": "en"}}),
    "errmsg_names_another_index": ("number", {"errmsg": errmsg("index: other_1")}),
    "no_errmsg": ("number", {"errmsg": None}),
    "code_name_inside": ("number", {"codeName": "DuplicateKey"}),
    "name": ("number", named("number_1")),
    "name_descending": ("number", named("number_-1")),
    "name_compound": ("number", named("number_1_tenant_1")),
    "name_collated": ("number", named("number_1", " collation: { locale: \"en\" } dup key: { }")),
    # An index on number_of_shoes: the name does not tell, so the rule's own is taken for it.
    "name_of_a_longer_field": ("number", named("number_of_shoes_1")),
    "id": ("id", {"keyPattern": {"_id": 1}}),
    "id_name": ("id", named("_id_")),
    "dotted": ("dotted", {"keyPattern": {"registration.number": 1}}),
    "dotted_above": ("dotted", {"keyPattern": {"registration": 1}}),
    "dotted_name": ("dotted", named("registration.number_1")),
}
FOREIGN: dict[str, tuple[str, dict[str, Any]]] = {
    "other_field": ("number", {"keyPattern": {"other": 1}}),
    "below": ("number", {"keyPattern": {"number.part": 1}}),
    "longer_field": ("number", {"keyPattern": {"number_of_shoes": 1}}),
    "shorter_field": ("number", {"keyPattern": {"num": 1}}),
    "other_case": ("number", {"keyPattern": {"Number": 1}}),
    "empty_pattern": ("number", {"keyPattern": {}}),
    "id_of_another_rule": ("number", {"keyPattern": {"_id": 1}}),
    "pattern_string": ("number", {"keyPattern": "number"}),
    "pattern_array": ("number", {"keyPattern": ["number"]}),
    "pattern_int": ("number", {"keyPattern": 1}),
    "pattern_array_of_documents": ("number", {"keyPattern": [{"number": 1}]}),
    "only_key_value": ("number", {"keyPattern": None, "errmsg": errmsg("index: i_number")}),
    "name_of_its_own": ("number", named("i_number")),
    "name_without_direction": ("number", named("number")),
    "name_of_a_shorter_field": ("number", named("num_1")),
    "name_of_another_field": ("number", named("numbers_1")),
    "name_of_a_compound_index": ("number", named("tenant_1_number_1")),
    "name_of_id": ("number", named("_id_")),
    "name_empty": ("number", named("")),
    "no_name": ("number", {"keyPattern": None, "keyValue": None, "errmsg": errmsg("")}),
    "nothing": ("number", {"keyPattern": None, "keyValue": None, "errmsg": None}),
    "errmsg_int": ("number", {"keyPattern": None, "keyValue": None, "errmsg": 5}),
    "errmsg_cut": ("number", {"keyPattern": None, "keyValue": None,
                              "errmsg": "E11000 duplicate key error collection: c index: "}),
    "id_below": ("id", {"keyPattern": {"_id.a": 1}}),
    "id_name_of_another": ("id", named("id_1")),
    "dotted_below": ("dotted", {"keyPattern": {"registration.number.a": 1}}),
    "dotted_beside": ("dotted", {"keyPattern": {"registration.numbers": 1}}),
    "dotted_shorter": ("dotted", {"keyPattern": {"reg": 1}}),
    "dotted_name_above": ("dotted", named("registration_1")),
    "code_11001": ("number", {"code": 11001}),
    "code_12582": ("number", {"code": 12582}),
    "code_0": ("number", {"code": 0}),
    "name_in_another_collection": ("number", {**named("number_1"), "errmsg": errmsg(
        "index: number_1").replace("number.c", "number.d")}),
    "words_in_a_collection_name": ("number", {**named("x"), "errmsg": errmsg(
        "index: number_1 dup key index: other_1").replace("number.c", "number.c index: ")}),
}


def about(db: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The changes, with a text that names this database."""
    if isinstance(text := changes.get("errmsg"), str):
        changes = {**changes, "errmsg": text.replace(" number.", f" {db}.")}
    return changes


@pytest.mark.parametrize("more", [{}, session()], ids=["plain", "txn"])
@pytest.mark.parametrize("name", OURS)
def test_a_duplicate_of_ours_is_sent_again(server: FakeServer, proxy: Proxy, name: str, more):
    db, changes = OURS[name]
    answer = errs(duplicate(1, **about(db, changes)))
    Case([answer, stored_all], all_stored(2), db=db, more=more).run(server, proxy)
    assert server.inserts[1].options.get("stmtIds") == ([1] if more else None)


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_duplicate_passes_untouched(server: FakeServer, proxy: Proxy, name: str,
                                              ordered: bool):
    db, changes = FOREIGN[name]
    answer = errs(duplicate(1, **about(db, changes)), n=1 if ordered else None)
    Case([answer], Untouched(1), ordered, db).run(server, proxy)


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_a_duplicate_of_a_value_that_the_client_sent(server: FakeServer, proxy: Proxy,
                                                     ordered: bool):
    """It is not ours, whatever the other documents got."""
    sent = [document(int32("k", 0)), document(int32("k", 1), el.int64("number", 5)),
            document(int32("k", 2))]
    Case([errs(duplicate(1), n=1 if ordered else None)], Untouched(1), ordered,
         documents=sent).run(server, proxy)


def test_invalid_utf8_in_errmsg(server: FakeServer, proxy: Proxy):
    """mongod cuts long keys in the middle of a character; the entry's bytes are what is passed."""
    text = errmsg("index: number_1", " dup key: { number: \"").encode() + b"\xc3..."
    entry = document(int32("index", 1), int32("code", 11000), el.string("errmsg", text))

    def cut(request: Request) -> bytes:
        return reply_to(request, document(
            int32("n", 2), el.element(0x04, "writeErrors", document(
                el.element(0x03, "0", entry))), el.double("ok", 1.0)))
    Case([cut, stored_all], all_stored(2)).run(server, proxy)
    foreign = text.replace(b"number_1", b"others_1")

    def passed(request: Request) -> bytes:
        return cut(request).replace(text, foreign)
    Case([passed], Untouched(1)).run(server, proxy)


@pytest.mark.parametrize("code", [bson.Int64(11000), 11000.0], ids=["int64", "double"])
def test_another_type_of_code(server: FakeServer, proxy: Proxy, code: Any):
    """Drivers take numbers of any type, and there is only one way to read these."""
    Case([errs(duplicate(1, code=code)), stored_all], all_stored(2)).run(server, proxy)


@pytest.mark.parametrize("field, value", [
    ("ok", 1), ("ok", bson.Int64(1)), ("n", bson.Int64(1)), ("n", 1.0)],
    ids=["ok_int32", "ok_int64", "n_int64", "n_double"])
def test_another_type_of_number(server: FakeServer, proxy: Proxy, field: str, value: Any):
    Case([honest(1), says(**{field: value})], Merged(2, {
        "n": 3, **_FRONT, "ok": value if field == "ok" else 1.0, **_BACK})).run(server, proxy)


# Errors of the whole command.

def top_level(code: int, **more: Any) -> Answer:
    return lambda request: reply_to(request, {
        **_FRONT, "ok": 0.0, "errmsg": errmsg("index: number_1"), "code": code,
        "codeName": "X", **more, **_BACK})


TOP_LEVEL: dict[str, Answer] = {
    "not_primary": top_level(10107, errorLabels=["RetryableWriteError"]),
    "without_code": lambda r: reply_to(r, {"ok": 0.0}),
    "without_code_but_text": lambda r: reply_to(r, {"ok": 0.0, "errmsg": "no"}),
    "with_write_errors": lambda r: reply_to(
        r, {"ok": 0.0, "code": 8000, "errmsg": "no", "n": 0, "writeErrors": [duplicate(0)]}),
    "ok_int": lambda r: reply_to(r, {"ok": 0, "code": 13, "errmsg": "no"}),
    "duplicate_of_nobody": top_level(11000, keyPattern={"other": 1}),
    "errmsg_int": lambda r: reply_to(r, {"ok": 0.0, "code": 11000, "errmsg": 1}),
}
TOP_LEVEL_CASES = run_stages(TOP_LEVEL, Untouched, Untouched)
TOP_LEVEL_CASES["duplicate_of_several-first"] = Case(
    [top_level(11000, keyPattern={"number": 1})], Untouched(1))
TOP_LEVEL_CASES["duplicate_of_several-resend"] = Case(
    [honest(0, 2), top_level(11000, keyPattern={"number": 1})], Untouched(2))


@pytest.mark.parametrize("name", TOP_LEVEL_CASES)
def test_an_error_of_the_whole_command_is_passed_on(server: FakeServer, proxy: Proxy, name: str):
    TOP_LEVEL_CASES[name].run(server, proxy)


@pytest.mark.parametrize("more", [{}, session()], ids=["plain", "txn"])
def test_a_duplicate_as_error_of_a_command_with_one_document(server: FakeServer, proxy: Proxy,
                                                             more):
    """There is no doubt which document is meant."""
    Case([top_level(11000, keyPattern={"number": 1}), stored_all], all_stored(2, 1),
         documents=DOCUMENTS[:1], more=more).run(server, proxy)


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_a_server_that_does_not_know_stmt_ids(server: FakeServer, proxy: Proxy, ordered: bool):
    """The duplicates that it found before are the reply."""
    first = failure(Request(b"", sequences={b"documents": DOCUMENTS}), duplicate(1),
                    n=1 if ordered else None)
    Case([honest(1, ordered=ordered), lambda r: reply_to(r, {
        "ok": 0.0, "errmsg": "BSON field 'insert.stmtIds' is an unknown field.", "code": 40415,
        "codeName": "Location40415"})], Merged(2, first), ordered, more=session()).run(
            server, proxy)


# More replies than requests.

EXTRA: dict[str, Callable[[Request], bytes]] = {
    "the_same_again": stored_all,
    "of_nobody": lambda r: reply_to(r, {"ok": 1.0}, response_to=0),
    "a_duplicate": honest(0),
    "more_to_come": lambda r: reply_to(r, {"ok": 1.0}, flags=wire.MORE_TO_COME),
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
        eventually(lambda: server.open == 0, 30)


@pytest.mark.parametrize("name", EXTRA)
def test_a_second_reply_to_a_resend_closes(server: FakeServer, proxy: Proxy, name: str):
    server.expect(honest(1), lambda r: stored_all(r) + EXTRA[name](r))
    with wire.WireClient(proxy.address) as client:
        client.send(insert_message("number.c", DOCUMENTS, ordered=False))
        at_most(client, [{"n": 3, **_FRONT, "ok": 1.0, **_BACK}])
        eventually(lambda: server.open == 0, 30)
    assert len(server.inserts) == 2


@pytest.mark.parametrize("name", EXTRA)
def test_a_reply_during_backoff_closes(server: FakeServer, proxy: Proxy, name: str):
    """With a pause before the re-send there is no request that it could belong to."""
    Case([lambda r: honest(1)(r) + EXTRA[name](r)], Closed(1), db="slow").run(server, proxy)


def test_a_reply_before_any_request_closes(server: FakeServer, proxy: Proxy):
    server.expect()
    server.greeting = reply_to(Request.read(wire.command(PING)), {"ok": 1.0})
    with wire.WireClient(proxy.address) as client:
        assert client.closed_by_peer()
        eventually(lambda: server.open == 0, 30)
    server.expect()


def test_a_reply_to_what_wants_none_closes(server: FakeServer, proxy: Proxy):
    server.expect(stored_all)
    with wire.WireClient(proxy.address) as client:
        client.send(insert_message("number.c", DOCUMENTS, more={"writeConcern": {"w": 0}},
                                   flags=wire.MORE_TO_COME))
        with pytest.raises(wire.Closed):
            client.receive()
        eventually(lambda: server.open == 0, 30)


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
    eventually(lambda: server.open == 0, 10)
    assert not server.inserts, "the rest of it was not sent"


@pytest.mark.parametrize("more", [{}, session()], ids=["plain", "txn"])
@pytest.mark.parametrize("db", ["number", "slow"])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
class TestTheServerLeaves:
    """Then the client is closed, and nothing is sent again, here or elsewhere (A15)."""

    def test_on_the_resend(self, server: FakeServer, proxy: Proxy, ordered: bool, db: str, more):
        Case([honest(1, ordered=ordered), closes], Closed(2), ordered, db, more=more).run(
            server, proxy)

    def test_behind_the_duplicates(self, server: FakeServer, proxy: Proxy, ordered: bool, db: str,
                                   more):
        """At once: a re-send that went out in vain reaches nobody."""
        Case([lambda r: Last(honest(1, ordered=ordered)(r))], Closed(1), ordered, db,
             more=more).run(server, proxy)


class TestTheClientLeaves:
    """Then the server's connection is closed, and nothing is sent again."""

    @pytest.mark.parametrize("how", ["close", "reset"])
    @pytest.mark.parametrize("when", ["in_backoff", "after_the_resend"])
    def test_it(self, server: FakeServer, standalone: Mongod, start_proxy, when: str, how: str):
        """A close looks like half a one: the proxy waits for the answer, as long as for a message."""
        proxy = start_proxy(configuration(server, RULES, standalone, limits={"drain": "1s", "message": "2s"}))
        never: Answer = lambda request: b""
        server.expect(honest(1), never)
        client = wire.WireClient(proxy.address)
        db = "slower" if when == "in_backoff" else "number"
        client.send(insert_message(f"{db}.c", DOCUMENTS, ordered=False))
        inserts = 1 if when == "in_backoff" else 2
        eventually(lambda: len(server.inserts) == inserts)
        getattr(client, how)()
        eventually(lambda: server.open == 0, 30)
        assert len(server.inserts) == inserts


# Checksums of replies.

def with_checksum(answer_body: Callable[[Request], dict[str, Any]]) -> Answer:
    return lambda request: reply_of_sections(
        request, wire.body(answer_body(request)), flags=wire.CHECKSUM_PRESENT)


class TestChecksums:
    def test_untouched(self, server: FakeServer, proxy: Proxy):
        Case([with_checksum(success)], Untouched(1)).run(server, proxy)

    def test_merged(self, server: FakeServer, proxy: Proxy):
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
            client.send(insert_message("number.c", DOCUMENTS, ordered=False,
                                       flags=wire.CHECKSUM_PRESENT))
            reply = client.receive()  # which verifies the checksum
        assert (reply.flags, reply.body["n"]) == (wire.CHECKSUM_PRESENT, 3)
        assert len(asked) == 2

    def test_of_which_one_is_wrong(self, server: FakeServer, proxy: Proxy):
        Case([with_checksum(lambda r: failure(r, duplicate(1))), IMPOSSIBLE["checksum_wrong"]],
             Closed(2)).run(server, proxy)


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

    @pytest.mark.parametrize("part", [1, 2])
    @pytest.mark.parametrize("name", [
        "response_to_0", "more_to_come", "connection_ended", "half_a_reply", "no_ok", "no_n",
        "n_too_small", "n_too_large", "index_out_of_range", "entry_int"])
    def test_a_lie(self, server: FakeServer, proxy: Proxy, name: str, part: int):
        lie = {**IMPOSSIBLE, **INCONSISTENT}[name]
        Case([stored_all] * (part - 1) + [lie], Closed(part), documents=MANY).run(server, proxy)

    @pytest.mark.parametrize("part", [1, 2])
    @pytest.mark.parametrize("more", [{}, session()], ids=["plain", "txn"])
    def test_an_error_of_the_whole_command(self, server: FakeServer, proxy: Proxy, part: int, more):
        Case([stored_all] * (part - 1) + [TOP_LEVEL["not_primary"]], Untouched(part),
             documents=MANY, more=more).run(server, proxy)

    def test_an_unacknowledged_one_that_wants_a_reply(self, server: FakeServer, proxy: Proxy):
        """mongod answers {w: 0} without moreToCome with n: 0, whatever became of it."""
        def nothing(request: Request) -> bytes:
            return reply_to(request, {"n": 0, "ok": 1.0})
        Case([nothing, nothing], Merged(2, {"n": 0, "ok": 1.0}), documents=MANY,
             more={"writeConcern": {"w": 0}}).run(server, proxy)

    def test_a_server_that_does_not_know_stmt_ids(self, server: FakeServer, proxy: Proxy):
        """Nothing is stored yet: all of it goes as it was sent, and the reply is passed on."""
        said: list[bytes] = []

        def rejects(request: Request) -> bytes:
            assert "stmtIds" in request.options
            return reply_to(request, {"ok": 0.0, "code": 40415, "errmsg":
                                      "BSON field 'insert.stmtIds' is an unknown field."})

        def last(request: Request) -> bytes:
            said.append(reply_to(request, failure(request, duplicate(3))))
            return said[0]

        server.expect(rejects, last)
        with wire.WireClient(proxy.address) as client:
            client.send(insert_message("number.c", MANY, ordered=False, more=session(),
                                       request_id=CLIENTS_ID))
            Untouched(2).of_client(client, said)
        _, whole = server.inserts
        assert len(whole.documents) == len(MANY) and "stmtIds" not in whole.options


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
        "of_0": lambda r: reply_to(r, {"ok": 1.0}, response_to=0),
        "length_15": announcing(15), "length_huge": announcing(2**31 - 1),
        "header_alone_of_another": lambda r: wire.message(wire.OP_MSG, b"", 1, 2),
        "connection_ended": closes,
    }

    @pytest.mark.parametrize("name", WRONG)
    def test_a_wrong_reply_closes(self, server: FakeServer, proxy: Proxy, name: str):
        server.expect()
        server.others["ping"] = self.WRONG[name]
        with wire.WireClient(proxy.address) as client:
            client.send(wire.command(PING, request_id=CLIENTS_ID))
            with pytest.raises(wire.Closed):
                client.receive()
            eventually(lambda: server.open == 0, 30)

    def test_a_second_reply_closes(self, server: FakeServer, proxy: Proxy):
        server.expect()
        server.others["ping"] = lambda r: reply_to(r, {"ok": 1.0}) * 2
        with wire.WireClient(proxy.address) as client:
            client.send(wire.command(PING))
            at_most(client, [{"ok": 1.0}])
            eventually(lambda: server.open == 0, 30)

    @pytest.mark.parametrize("second", ["ping", "insert"])
    def test_replies_in_another_order_close(self, server: FakeServer, proxy: Proxy, second: str):
        """The second request's reply comes first."""
        asked: list[Request] = []

        def late(request: Request) -> bytes:
            asked.append(request)
            return b"" if len(asked) == 1 else both(request)

        def both(request: Request) -> bytes:
            answer = stored_all(request) if second == "insert" else reply_to(request, {"ok": 1.0})
            return answer + reply_to(asked[0], {"ok": 1.0})

        server.expect(both)
        server.others["ping"] = late
        with wire.WireClient(proxy.address) as client:
            client.send(wire.command(PING, request_id=1) + (
                wire.command(PING, request_id=2) if second == "ping" else
                insert_message("number.c", DOCUMENTS, request_id=2)))
            with pytest.raises(wire.Closed):
                client.receive()
            eventually(lambda: server.open == 0, 30)

    @pytest.mark.parametrize("last", ["right", "of_the_request", "of_nobody"])
    def test_a_stream_goes_on_in_its_chain(self, server: FakeServer, proxy: Proxy, last: str):
        """Each reply of an exhaust stream answers the one before it."""
        def stream(request: Request) -> bytes:
            first = reply_to(request, {"part": 1, "ok": 1.0}, flags=wire.MORE_TO_COME)
            (first_id,) = struct.unpack_from("<i", first, 4)
            answered = {"right": first_id, "of_the_request": request.request_id,
                        "of_nobody": first_id + 1000}[last]
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

        server.expect(IMPOSSIBLE["response_to_of_nobody"])
        server.others["x"] = stream
        with wire.WireClient(proxy.address) as client:
            client.send(wire.op_query("unruled.c", {"x": 1}, flags=1 << 6))
            assert [client.receive().body["part"] for _ in range(3)] == [0, 1, 2]
            assert client.call(PING)["ok"] == 1
            # What has values is looked at all the same.
            client.send(insert_message("number.c", DOCUMENTS, request_id=CLIENTS_ID))
            with pytest.raises(wire.Closed):
                client.receive()
            eventually(lambda: server.open == 0, 30)


class TestStreamsOfARealServer:
    """What a check of replies must let pass."""

    @pytest.fixture
    def through(self, standalone: Mongod) -> Iterator[wire.WireClient]:
        with (Proxy(configuration(standalone, RULES)) as proxy,
              wire.WireClient(proxy.address) as client):
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
    "wrong_response_to": [IMPOSSIBLE["response_to_0"]],
    "no_message": [IMPOSSIBLE["body_cut"]],
    "more_to_come": [IMPOSSIBLE["more_to_come"]],
    "resend_that_does_not_add_up": [honest(1), INCONSISTENT["no_ok"]],
    "second_reply": [lambda r: stored_all(r) + stored_all(r)],
}


@pytest.mark.parametrize("name", LOGGED)
def test_it_is_logged(server: FakeServer, standalone: Mongod, name: str):
    server.expect(*LOGGED[name])
    with (Proxy(configuration(server, RULES, standalone)) as proxy,
          wire.WireClient(proxy.address) as client):
        client.send(insert_message("number.c", DOCUMENTS, ordered=False))
        assert client.closed_by_peer()
        assert proxy.wait_event("bad_reply")["level"] == "warning"
