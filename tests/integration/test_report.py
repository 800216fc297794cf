"""report: true: the reply to an insert says which values were given to which documents."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from support import elements as el
from support import wire
from support.elements import Element, document, elements, int32
from support.middleman import Cut
from support.thief import ALWAYS, Passed, Robbed, fresh, insert_message, session
from support.values import DEFAULTS, VARIANTS

_DIGITS = {"strategy": "random-digits"}
# For small spaces that tests fill.
_FILLED = {**_DIGITS, "max_fill": 0.99}
_REPORT = {"report": True}
_MODES = ["driver", "always", "missing-or-null"]
BY_NAME = {variant.name: variant for variant in VARIANTS + DEFAULTS}

# Databases name the rule, collections are fresh for each test.
RULES = [
    *({"ns": f"id-{v.name}.*", "field": "_id", **v.rule, **_REPORT} for v in BY_NAME.values()),
    {"ns": "field.*", "field": "made", **_DIGITS, **_REPORT},
    {"ns": "dotted.*", "field": "registration.number", **_DIGITS, **_REPORT},
    {"ns": "several.*", "field": "b", "strategy": "uuid", **_REPORT},
    {"ns": "several.*", "field": "hidden", **_DIGITS},
    {"ns": "several.*", "field": "_id", "strategy": "objectid", **_REPORT},
    {"ns": "several.*", "field": "a.x", "digits": 9, "output": "int32", **_DIGITS, **_REPORT},
    *({"ns": f"assign-{mode}.*", "field": "_id", "assign": mode, **_DIGITS, **_REPORT}
      for mode in _MODES),
    {"ns": "kept.*", "field": "_id", "assign": "driver", "keep_driver_id": "driver_id",
     **_DIGITS, **_REPORT},
    {"ns": "silent.*", "field": "made", **_DIGITS},
    {"ns": "explicit.*", "field": "made", "report": False, **_DIGITS},
    {"ns": "tiny.*", "field": "made", "digits": 1, **_FILLED, **_REPORT},
    {"ns": "surface.*", "field": "made", "in_transaction": "surface", **_DIGITS, **_REPORT},
]

@pytest.fixture(params=["standalone", "replica_set"])
def robbed(request: pytest.FixtureRequest) -> Iterator[Robbed]:
    """Each test that asks for it runs on both kinds of server."""
    found = request.getfixturevalue(f"robbed_{request.param}")
    yield found
    found.thief.forget()


@pytest.fixture
def replica(robbed_replica_set: Robbed) -> Iterator[Robbed]:
    yield robbed_replica_set
    robbed_replica_set.thief.forget()


def numbered(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"k": i, **more} for i in range(count)]


def part(raw: bytes, path: str) -> Element:
    """The element at this path of a document."""
    first, _, rest = path.partition(".")
    (found,) = [e for e in elements(raw) if e.name == first.encode()]
    return part(found.value, rest) if rest else found


def report(reply: wire.Message) -> list[tuple[int, str, Element]]:
    """Index, field and value of each entry; checks the form of the report."""
    *_, last = elements(reply.body_bytes)
    assert (last.type, last.name) == (0x03, b"idproxy"), "the last field of the reply"
    assert sum(e.name == b"idproxy" for e in elements(reply.body_bytes)) == 1
    (assigned,) = elements(last.value)
    assert (assigned.type, assigned.name) == (0x04, b"assigned")
    found = []
    for number, entry in enumerate(elements(assigned.value)):
        assert (entry.type, entry.name) == (0x03, str(number).encode())
        index, field, value = elements(entry.value)
        assert (index.type, index.name) == (0x10, b"index")
        assert (field.type, field.name, value.name) == (0x02, b"field", b"value")
        found.append((struct.unpack("<i", index.value)[0], field.value[4:-1].decode(), value))
    return found


def check(robbed: Robbed, ns: str, reply: wire.Message, keys: list[int], *paths: str) -> None:
    """The report names these documents, each with these fields, and exactly what is stored."""
    stored = {bson.decode(raw)["k"]: raw for raw in robbed.stored_raw(ns)}
    found = report(reply)
    assert [(index, path) for index, path, _ in found] == [(k, p) for k in keys for p in paths]
    for index, path, value in found:
        at = part(stored[index], path)
        assert (value.type, value.value) == (at.type, at.value)


def without_report(body: bytes) -> bytes:
    return document(*(e for e in elements(body) if e.name != b"idproxy"))


class TestForm:
    @pytest.mark.parametrize("name", BY_NAME)
    def test_every_strategy(self, robbed, coll, name, ordered):
        """The value has the type in which it is stored; nothing else of the reply changes."""
        ns = f"id-{name}.{coll}"
        reply = robbed.call(insert_message(ns, numbered(3), ordered=ordered))
        check(robbed, ns, reply, [0, 1, 2], "_id")
        for _, _, value in report(reply):
            BY_NAME[name].check(value)
        (answer,) = robbed.thief.replies(ns)
        assert without_report(reply.body_bytes) == answer.body_bytes

    @pytest.mark.parametrize("form", ["body", "sequence", "sequence_first"])
    @pytest.mark.parametrize("flags", [0, wire.CHECKSUM_PRESENT], ids=["", "checksum"])
    def test_every_form_of_message(self, robbed, coll, form, flags):
        ns = f"dotted.{coll}"
        reply = robbed.call(insert_message(ns, numbered(3), form=form, flags=flags))
        assert reply.flags == flags  # and receive() verifies the checksum
        check(robbed, ns, reply, [0, 1, 2], "registration.number")

    def test_several_fields(self, robbed, coll, ordered):
        """By index, then in the order of the rules in the file; one without report is silent."""
        ns = f"several.{coll}"
        reply = robbed.call(insert_message(ns, numbered(20), ordered=ordered))
        check(robbed, ns, reply, list(range(20)), "b", "_id", "a.x")
        assert all("hidden" in d for d in robbed.stored(ns))

    def test_only_what_was_assigned(self, robbed, coll):
        """Not what the client sent itself, in one field or another."""
        ns = f"several.{coll}"
        sent = [{"k": 0, "_id": 0}, {"k": 1, "b": "mine"},
                {"k": 2, "_id": 2, "b": 2, "a": {"x": 2}}, {"k": 3}]
        reply = robbed.call(insert_message(ns, sent))
        assert [(index, field) for index, field, _ in report(reply)] == [
            (0, "b"), (0, "a.x"), (1, "_id"), (1, "a.x"), (3, "b"), (3, "_id"), (3, "a.x")]

    @pytest.mark.parametrize("mode", _MODES)
    def test_what_was_replaced(self, robbed, coll, mode):
        ns = f"assign-{mode}.{coll}"
        sent = [{"k": 0, "_id": None if mode == "missing-or-null" else bson.ObjectId()},
                {"k": 1, "_id": "mine"}, {"k": 2}]
        reply = robbed.call(insert_message(ns, sent))
        check(robbed, ns, reply, [0, 1, 2] if mode == "always" else [0, 2], "_id")

    def test_pymongo(self, robbed, coll):
        """By command it is a field of the reply; insert_many does not mind it."""
        with robbed.proxy.client() as client:
            reply = client["kept"].command("insert", coll, documents=numbered(3))
            assert [e["index"] for e in reply["idproxy"]["assigned"]] == [0, 1, 2]
            result = client["kept"][coll].insert_many([{"k": 3}, {"k": 4}])
        stored = robbed.stored(f"kept.{coll}")
        assert [e["value"] for e in reply["idproxy"]["assigned"]] == [
            d["_id"] for d in stored[:3]]
        assert [d["driver_id"] for d in stored[3:]] == result.inserted_ids

    @pytest.mark.tsan
    def test_pipelined(self, robbed, coll):
        """Replies to inserts with and without report, each in its turn."""
        messages = [insert_message(f"{db}.{coll}", [{"k": i}], request_id=i)
                    for i, db in enumerate(["field", "silent", "field", "plain", "several"] * 4)]
        with wire.WireClient(robbed.proxy.address) as client:
            client.send(b"".join(messages))
            replies = [client.receive() for _ in messages]
        assert [r.response_to for r in replies] == list(range(20))
        assert [len(r.body.get("idproxy", {}).get("assigned", [])) for r in replies] == [
            1, 0, 1, 0, 3] * 4


class TestNone:
    """Replies without a report: they are mongod's own, to the last byte."""

    def untouched(self, robbed: Robbed, ns: str, message: bytes) -> dict[str, Any]:
        reply = robbed.call(message)
        assert reply.raw == robbed.thief.replies(ns)[-1].raw
        assert "idproxy" not in reply.body
        return reply.body

    @pytest.mark.parametrize("db", ["silent", "explicit", "plain"])
    def test_no_rule_wants_it(self, robbed, coll, db):
        ns = f"{db}.{coll}"
        assert self.untouched(robbed, ns, insert_message(ns, numbered(3)))["n"] == 3

    def test_nothing_was_assigned(self, robbed, coll):
        ns = f"field.{coll}"
        self.untouched(robbed, ns, insert_message(ns, numbered(3, made=1)))

    def test_the_proxy_refused_it(self, robbed, coll):
        ns = f"tiny.{coll}"
        reply = robbed.call(insert_message(ns, numbered(11))).body
        assert (reply["ok"], reply["code"]) == (0, 96) and "idproxy" not in reply

    def test_the_client_does_not_wait_for_a_reply(self, robbed, coll):
        ns = f"field.{coll}"
        with wire.WireClient(robbed.proxy.address) as client:
            client.send(insert_message(ns, numbered(3), more={"writeConcern": {"w": 0}},
                                       flags=wire.MORE_TO_COME))
            client.send(wire.command({"ping": 1, "$db": "admin"}, request_id=9))
            assert client.receive().response_to == 9
        assert len(robbed.stored(ns)) == 3


class TestErrors:
    """Of a batch with errors only what is stored is reported, under the client's index."""

    def test_of_the_server(self, robbed, coll, ordered):
        ns = fresh(robbed, "field", coll, "email")
        sent = numbered(6)
        sent[1]["email"] = sent[3]["email"] = 1
        sent[4]["_id"] = [1]
        reply = robbed.call(insert_message(ns, sent, ordered=ordered))
        assert [e["index"] for e in reply.body["writeErrors"]] == ([3] if ordered else [3, 4])
        check(robbed, ns, reply, [0, 1, 2] if ordered else [0, 1, 2, 5], "made")

    def test_of_a_document_that_cannot_have_a_value(self, robbed, coll, ordered):
        ns = f"dotted.{coll}"
        sent = numbered(4)
        sent[1]["registration"] = 5
        reply = robbed.call(insert_message(ns, sent, ordered=ordered))
        assert [e["code"] for e in reply.body["writeErrors"]] == [28]
        check(robbed, ns, reply, [0] if ordered else [0, 2, 3], "registration.number")

    def test_write_concern_error(self, replica, coll):
        """The documents are stored, on this server at least."""
        ns = f"field.{coll}"
        reply = replica.call(insert_message(ns, numbered(2), more={
            "writeConcern": {"w": 3, "wtimeout": 50}}))
        assert reply.body["writeConcernError"]["code"] in (64, 100)
        check(replica, ns, reply, [0, 1], "made")


class TestDuplicates:
    """What is reported of a document that collided is the value that was stored at last."""

    def test_cured(self, robbed, coll, ordered):
        ns = fresh(robbed, "field", coll, "made")
        robbed.thief.steal(ns, "made", {0: 1, 2: 3, 4: 1})
        reply = robbed.call(insert_message(ns, numbered(6), ordered=ordered))
        assert reply.body["n"] == 6
        check(robbed, ns, reply, [0, 1, 2, 3, 4, 5], "made")

    def test_given_up(self, robbed, coll, ordered):
        ns = fresh(robbed, "field", coll, "made")
        robbed.thief.steal(ns, "made", {0: 1, 2: ALWAYS, 4: 1})
        reply = robbed.call(insert_message(ns, numbered(6), ordered=ordered))
        assert [e["index"] for e in reply.body["writeErrors"]] == [2]
        check(robbed, ns, reply, [0, 1] if ordered else [0, 1, 3, 4, 5], "made")

    def test_several_fields(self, robbed, coll, ordered):
        ns = fresh(robbed, "several", coll, "b", "a.x", "hidden")
        robbed.thief.steal(ns, "b", {0: 1, 2: 1})
        robbed.thief.steal(ns, "a.x", {2: 2})
        robbed.thief.steal(ns, "hidden", {1: 1})
        robbed.thief.steal(ns, "_id", {1: 1})
        reply = robbed.call(insert_message(ns, numbered(3), ordered=ordered))
        assert reply.body["n"] == 3
        check(robbed, ns, reply, [0, 1, 2], "b", "_id", "a.x")

    def test_beside_the_fields_of_a_merged_reply(self, replica, coll, ordered):
        """Last, behind $clusterTime and operationTime."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1})
        documents = [{"_id": bson.ObjectId(), **document} for document in numbered(3)]
        reply = replica.call(insert_message(ns, documents, ordered=ordered, more=session())).body
        assert list(reply)[3:] == ["ok", "$clusterTime", "operationTime", "idproxy"]

    @pytest.mark.timeout(600)
    def test_a_message_that_its_ids_make_too_long(self, robbed, coll, ordered):
        ns = f"field.{coll}"
        sent = [document(int32("k", i), el.string("s", "x" * 999_970)) for i in range(48)]
        message = insert_message(ns, sent, ordered=ordered)
        assert wire.MAX_MESSAGE - 48 * 18 < len(message) <= wire.MAX_MESSAGE
        reply = robbed.call(message, timeout=300)
        assert len(robbed.thief.inserts(ns)) > 1
        check(robbed, ns, reply, list(range(48)), "made")
        robbed.collection(ns).drop()


@pytest.mark.needs("retried_stmt_ids")  # test_repeated_writes has what older servers' reports are
class TestReplays:
    """A retryable write seen before: its new values are nobody's."""

    def test_of_everything(self, replica, coll, ordered):
        ns = f"field.{coll}"
        message = insert_message(ns, numbered(3), ordered=ordered, more=session())
        check(replica, ns, replica.call(message), [0, 1, 2], "made")
        again = replica.call(message)
        assert again.body["retriedStmtIds"] == [0, 1, 2] and "idproxy" not in again.body
        assert again.raw == replica.thief.replies(ns)[-1].raw

    @pytest.mark.parametrize("more, executed", [
        ({}, [0, 2]), ({"stmtId": 5}, [5, 7]), ({"stmtIds": [9, 3, 4, 1]}, [9, 4])], ids=str)
    def test_of_a_part(self, replica, coll, ordered, more, executed):
        """Two statements were executed before: retriedStmtIds are numbers, not indexes."""
        ns = f"field.{coll}"
        mine = session()
        with wire.WireClient(replica.server.address) as direct:
            assert direct.call(insert_message(
                ns, [{"k": 0, "made": 1}, {"k": 2, "made": 2}],
                more={**mine, "stmtIds": executed}))["n"] == 2
        reply = replica.call(insert_message(
            ns, numbered(4), ordered=ordered, more={**mine, **more}))
        assert sorted(reply.body["retriedStmtIds"]) == sorted(executed)
        check(replica, ns, reply, [1, 3], "made")

    @pytest.mark.parametrize("direction, number", [
        ("to_client", 0), ("to_server", 1), ("to_client", 1), ("to_client", 2)])
    def test_after_a_lost_reply(self, replica, coll, direction, number, ordered):
        """F4: the second reply reports what it stored, and no value that is void."""
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {1: 1, 3: 2})
        message = insert_message(ns, numbered(5), ordered=ordered, more=session())
        done = threading.Event()

        def cut(passed: Passed) -> bytes:
            thief = replica.thief
            mine = thief.inserts(ns) if direction == "to_server" else thief.replies(ns)
            if not done.is_set() and len(mine) == number + 1 and mine[-1] is passed:
                done.set()
                raise Cut
            return passed.raw

        with replica.thief.hook(cut), wire.WireClient(replica.proxy.address) as client:
            client.send(message)
            assert client.closed_by_peer()
        before = [d["k"] for d in replica.stored(ns)]
        reply = replica.call(message)
        assert reply.body["n"] == 5 and len(replica.stored(ns)) == 5
        missing = [k for k in range(5) if k not in before]
        if missing:
            check(replica, ns, reply, missing, "made")
        else:
            assert "idproxy" not in reply.body


class TestTransactions:
    def start(self) -> dict[str, Any]:
        return {"autocommit": False, "startTransaction": True, **session()}

    def test_inside(self, replica, coll):
        """Reported when the statement is done; stored if the transaction is committed."""
        ns = fresh(replica, "field", coll, "made")
        mine = self.start()
        replies = [replica.call(insert_message(ns, numbered(2), more=mine))]
        del mine["startTransaction"]
        replies.append(replica.call(insert_message(ns, [{"k": 2}, {"k": 3}], more=mine)))
        commit = {"commitTransaction": 1, **mine, "$db": "admin"}
        assert replica.call(wire.command(commit)).body["ok"] == 1
        check(replica, ns, replies[0], [0, 1], "made")
        assert [(i, value.value) for i, _, value in report(replies[1])] == [
            (d["k"] - 2, struct.pack("<q", d["made"])) for d in replica.stored(ns)[2:]]

    @pytest.mark.parametrize("db", ["field", "surface"])
    def test_a_duplicate(self, replica, coll, db):
        """Nothing of an aborted transaction is stored."""
        ns = fresh(replica, db, coll, "made")
        replica.thief.steal(ns, "made", {1: 1})
        reply = replica.call(insert_message(ns, numbered(3), more=self.start())).body
        assert (reply["ok"] == 0) == (db == "field") and "idproxy" not in reply

    def test_with_transaction(self, replica, coll):
        ns = fresh(replica, "field", coll, "made")
        replica.thief.steal(ns, "made", {0: 2})

        def work(running: Any) -> dict[str, Any]:
            return client["field"].command(
                "insert", coll, documents=[RawBSONDocument(document(int32("k", 0)))],
                session=running)

        with replica.proxy.client() as client, client.start_session() as running:
            reply = running.with_transaction(work)
        (stored,) = replica.stored(ns)
        assert reply["idproxy"]["assigned"] == [
            {"index": 0, "field": "made", "value": stored["made"]}]
