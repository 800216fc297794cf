"""Duplicates inside transactions: nothing can be sent again there, so the driver is told to.

mongod aborts a transaction on the first duplicate. If that was ours, the proxy turns mongod's reply
into an error with the label TransientTransactionError, on which a driver's withTransaction runs the
callback again. A transaction sees the database as it was at its first statement, so the thief can
make that one collide; for later ones half of a small space is taken beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bson
import pymongo
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError, OperationFailure

from support import wire
from support.elements import elements
from support.thief import ALWAYS, Robbed, fresh, insert_message, session
from support.values import DEFAULTS, Variant

_DIGITS = {"strategy": "random-digits"}
# Aborts in a row are bounded for each rule, and these rules serve many tests.
_UNBOUNDED = {**_DIGITS, "retry": {"attempts": 100}}

# Databases name the rule, collections are fresh for each test.
RULES = [
    {"ns": "tx.*", "field": "_id", **_UNBOUNDED},
    {"ns": "tx-field.*", "field": "made", **_UNBOUNDED},
    {"ns": "tx-two.*", "field": "a", **_UNBOUNDED},
    {"ns": "tx-two.*", "field": "b", **_UNBOUNDED},
    {"ns": "tx-few.*", "field": "made", "digits": 2, "max_fill": 0.99, **_UNBOUNDED},
    {"ns": "tx-surface.*", "field": "made", "in_transaction": "surface", **_DIGITS},
    *({"ns": f"tx-{v.name}.*", "field": "made", **v.rule} for v in DEFAULTS),
    {"ns": "tx-none.*", "field": "made", "retry": {"attempts": 0}, **_DIGITS},
]

TRANSIENT = "TransientTransactionError"

@pytest.fixture
def client(robbed: Robbed) -> Iterator[pymongo.MongoClient]:
    with robbed.proxy.client() as connected:
        yield connected


def raw(**fields: Any) -> RawBSONDocument:
    """A document to which the driver adds no _id."""
    return RawBSONDocument(bson.encode(fields))


class Callback:
    """What with_transaction runs: `statements` get the session; it counts how often."""

    def __init__(self, *statements: Any):
        self.calls = 0
        self._statements = statements

    def __call__(self, session: ClientSession) -> str:
        self.calls += 1
        for statement in self._statements:
            statement(session)
        return "done"


def in_transaction(client: pymongo.MongoClient, *statements: Any) -> Callback:
    callback = Callback(*statements)
    with client.start_session() as running:
        assert running.with_transaction(callback) == "done"
    return callback


class TestWithTransaction:
    """PyMongo's with_transaction runs the callback again, with fresh values."""

    @pytest.mark.parametrize("times", [1, 3])
    @pytest.mark.parametrize("db, field", [("tx", "_id"), ("tx-field", "made")])
    def test_insert_one(self, robbed, client, coll, db, field, times):
        ns = fresh(robbed, db, coll, *(["made"] if db == "tx-field" else []))
        theft = robbed.thief.steal(ns, field, times)
        target = client[db][coll]
        callback = in_transaction(client, lambda s: target.insert_one(raw(k=0), session=s))
        assert callback.calls == times + 1
        (stored,) = robbed.stored(ns)
        assert stored["k"] == 0 and bson.encode({"": stored[field]}) not in theft.values[0]
        assert robbed.sent_keys(ns) == [[0]] * (times + 1), "nothing is sent again by the proxy"
        numbers = [m.body["txnNumber"] for m in robbed.thief.inserts(ns)]
        assert len(set(numbers)) == times + 1

    @pytest.mark.smoke
    @pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
    def test_insert_many(self, robbed, client, coll, ordered):
        """mongod stops at the first duplicate, whatever ordered says."""
        ns = fresh(robbed, "tx-field", coll, "made")
        robbed.thief.steal(ns, "made", {1: 2, 3: 1})
        target = client["tx-field"][coll]
        results = []
        callback = in_transaction(client, lambda s: results.append(target.insert_many(
            [{"_id": i, "k": i} for i in range(5)], ordered=ordered, session=s)))
        assert callback.calls == 3 and len(results) == 1
        assert results[0].inserted_ids == [0, 1, 2, 3, 4]
        assert [d["k"] for d in robbed.stored(ns)] == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("variant", DEFAULTS, ids=lambda each: each.name)
    def test_every_strategy(self, robbed, client, coll, variant: Variant):
        """In inserts and upserts."""
        ns = fresh(robbed, f"tx-{variant.name}", coll, "made")
        robbed.thief.steal(ns, "made", 1)
        target = client[f"tx-{variant.name}"][coll]
        callback = in_transaction(
            client, lambda s: target.insert_many([{"k": 0}, {"k": 1}], session=s),
            lambda s: target.update_one({"k": 2}, {"$set": {"x": 1}}, upsert=True, session=s))
        assert callback.calls == 2
        found = [{e.name: e for e in elements(each)}[b"made"] for each in robbed.stored_raw(ns)]
        assert len({each.value for each in found}) == 3
        for each in found:
            variant.check(each)

    def test_what_the_callback_did_besides_is_done_once(self, robbed, client, coll):
        ns = fresh(robbed, "tx-field", coll, "made")
        plain = f"plain.{coll}"
        robbed.collection(plain).insert_one({"_id": "sum", "n": 0})
        robbed.thief.steal(ns, "made", 2)
        callback = in_transaction(
            client, lambda s: client["tx-field"][coll].insert_one({"k": 0}, session=s),
            lambda s: client["plain"][coll].update_one(
                {"_id": "sum"}, {"$inc": {"n": 1}}, session=s),
            lambda s: client["plain"][coll].insert_one({"_id": "other"}, session=s))
        assert callback.calls == 3
        assert [d["k"] for d in robbed.stored(ns)] == [0]
        assert list(robbed.collection(plain).find().sort("_id")) == [
            {"_id": "other"}, {"_id": "sum", "n": 1}]

    @pytest.mark.parametrize("statements", [1, 2, 3])
    def test_later_statements(self, robbed, client, coll, statements):
        """Half of all numbers are taken; statements at each place collide."""
        ns = fresh(robbed, "tx-few", coll, "made")
        robbed.collection(ns).insert_many(
            [{"made": bson.Int64(v), "stolen": True} for v in range(50)])
        robbed.thief.steal(ns, "made", {0: 1, 4: 1, 8: 1})
        target = client["tx-few"][coll]
        calls = 0
        for at in range(0, 12, statements):
            calls += in_transaction(client, *(
                lambda s, k=at + i: target.insert_one({"k": k}, session=s)
                for i in range(statements))).calls
        assert [d["k"] for d in robbed.stored(ns)] == list(range(12))
        assert calls > 12 // statements, "nothing collided"

    def test_both_of_two_fields(self, robbed, client, coll):
        ns = fresh(robbed, "tx-two", coll, "a", "b")
        robbed.thief.steal(ns, "a", {0: 1})
        robbed.thief.steal(ns, "b", {0: 2})
        target = client["tx-two"][coll]
        callback = in_transaction(client, lambda s: target.insert_one({"k": 0}, session=s))
        assert callback.calls == 3 and len(robbed.stored(ns)) == 1

    def test_by_hand(self, robbed, client, coll):
        """An application without with_transaction finds the label on the error."""
        ns = fresh(robbed, "tx-field", coll, "made")
        robbed.thief.steal(ns, "made", 1)
        target = client["tx-field"][coll]
        with client.start_session() as running:
            with pytest.raises(OperationFailure) as failure, running.start_transaction():
                target.insert_one({"k": 0}, session=running)
            assert failure.value.has_error_label(TRANSIENT)
            assert failure.value.code == 112
            with running.start_transaction():
                target.insert_one({"k": 0}, session=running)
        assert len(robbed.stored(ns)) == 1


class TestUntouched:
    """What the application must see, or could not mend by running again."""

    def test_surface(self, robbed, client, coll):
        ns = fresh(robbed, "tx-surface", coll, "made")
        robbed.thief.steal(ns, "made", 1)
        target = client["tx-surface"][coll]
        callback = Callback(lambda s: target.insert_one({"k": 0}, session=s))
        with client.start_session() as running, pytest.raises(DuplicateKeyError) as failure:
            running.with_transaction(callback)
        assert callback.calls == 1 and failure.value.details["keyPattern"] == {"made": 1}
        assert not robbed.stored(ns)

    @pytest.mark.parametrize("db", ["tx-field", "tx-surface"])
    def test_foreign(self, robbed, client, coll, db):
        """It would fail again and again, for the two minutes that the driver keeps trying."""
        ns = fresh(robbed, db, coll, "made", "email")
        robbed.collection(ns).insert_one({"email": 1, "stolen": True})
        target = client[db][coll]
        callback = Callback(lambda s: target.insert_one({"k": 0, "email": 1}, session=s))
        with client.start_session() as running, pytest.raises(DuplicateKeyError) as failure:
            running.with_transaction(callback)
        assert callback.calls == 1 and failure.value.details["keyPattern"] == {"email": 1}

    @pytest.mark.parametrize("case", ["surface", "foreign", "own", "none"])
    def test_every_byte(self, robbed, coll, case):
        db = {"surface": "tx-surface", "none": "tx-none"}.get(case, "tx-field")
        ns = fresh(robbed, db, coll, "made", "email")
        robbed.collection(ns).insert_one({"email": 1, "stolen": True})
        robbed.collection(ns).insert_one({"made": 1, "stolen": True})
        robbed.thief.steal(ns, "made", {1: 1} if case in ("surface", "none") else 0)
        document = {"k": 1} | {"foreign": {"email": 1}, "own": {"made": 1}}.get(case, {})
        reply = robbed.call(insert_message(ns, [{"k": 0}, document, {"k": 2}], more=start()))
        assert [(e["index"], e["code"]) for e in reply.body["writeErrors"]] == [(1, 11000)]
        (answer,) = robbed.thief.replies(ns)
        assert reply.raw == answer.raw

    def test_a_write_conflict_of_the_server(self, robbed, client, coll):
        """The value was taken after the transaction began: mongod itself says 112."""
        ns = fresh(robbed, "tx-field", coll, "made")
        robbed.thief.steal(ns, "made", {1: 1})
        target = client["tx-field"][coll]
        callback = in_transaction(
            client, lambda s: target.find_one({"k": 0}, session=s),
            lambda s: target.insert_one({"k": 1}, session=s))
        assert callback.calls == 2
        reply = robbed.thief.replies(ns)[0].body
        assert (reply["ok"], reply["code"]) == (0, 112)
        assert [d["k"] for d in robbed.stored(ns)] == [1]


def start() -> dict[str, Any]:
    """The fields of the first statement of a transaction in a session of its own."""
    return {"autocommit": False, "startTransaction": True, **session()}


def go_on(first: dict[str, Any]) -> dict[str, Any]:
    """The fields of a later statement of that transaction."""
    return {name: value for name, value in first.items() if name != "startTransaction"}


class TestReply:
    """The relabelled reply, field by field."""

    def relabelled(self, robbed: Robbed, ns: str, reply: wire.Message) -> dict[str, Any]:
        """What mongod wrote last, once the reply has been compared with it."""
        answer = robbed.thief.replies(ns)[-1]
        assert [e["code"] for e in answer.body["writeErrors"]] == [11000]
        assert reply.flags == answer.flags
        body = reply.body
        assert (body["ok"], body["code"], body["codeName"]) == (0.0, 112, "WriteConflict")
        assert isinstance(body["ok"], float)
        assert body["errorLabels"] == [TRANSIENT]
        assert body["errmsg"] == (
            f"mongo-idproxy: the value generated for field 'made' of {ns} is taken; "
            "run the transaction again")
        before = [e for e in answer.head if e.name in (b"electionId", b"opTime")]
        after = [e for e in answer.head if e.name in (b"$clusterTime", b"operationTime")]
        mine = elements(reply.body_bytes)
        own = [b"ok", b"errmsg", b"code", b"codeName", b"errorLabels"]
        assert [e.name for e in mine] == [
            *(e.name for e in before), *own, *(e.name for e in after)]
        assert [e for e in mine if e.name not in own] == before + after
        assert len(after) == 2
        return answer.body

    @pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
    @pytest.mark.parametrize("flags", [0, wire.CHECKSUM_PRESENT], ids=["", "checksum"])
    @pytest.mark.parametrize("form", ["sequence", "body"])
    def test_first_statement(self, robbed, coll, form, flags, ordered):
        ns = fresh(robbed, "tx-field", coll, "made")
        robbed.thief.steal(ns, "made", {1: 1, 2: 1})
        documents = [{"k": i} for i in range(4)]
        reply = robbed.call(insert_message(
            ns, documents, ordered=ordered, form=form, flags=flags, more=start()))
        assert self.relabelled(robbed, ns, reply)["n"] == 1
        assert not robbed.stored(ns)

    def test_later_statement(self, robbed, coll):
        ns = fresh(robbed, "tx-none", coll, "made")
        few = fresh(robbed, "tx-few", coll, "made")
        robbed.collection(few).insert_many(
            [{"made": bson.Int64(v), "stolen": True} for v in range(100)])
        first = start()
        assert robbed.insert(ns, [{"k": 0}], more=first)["n"] == 1
        reply = robbed.call(insert_message(few, [{"k": 1}], more=go_on(first)))
        self.relabelled(robbed, few, reply)

    @pytest.mark.parametrize("name", ["insert", "find", "commitTransaction", "abortTransaction"])
    def test_what_follows_is_mongods_answer(self, robbed, coll, name):
        """251 with the label, for commit and abort as well."""
        ns = fresh(robbed, "tx-field", coll, "made")
        robbed.thief.steal(ns, "made", {0: 1})
        first = start()
        assert robbed.insert(ns, [{"k": 0}], more=first)["code"] == 112
        if name == "insert":
            reply = robbed.insert(ns, [{"k": 1}], more=go_on(first))
        else:
            value, db = (coll, "tx-field") if name == "find" else (1, "admin")
            reply = robbed.call(wire.command({name: value, **go_on(first), "$db": db})).body
        assert (reply["ok"], reply["code"], reply["codeName"]) == (0, 251, "NoSuchTransaction")
        assert reply["errorLabels"] == [TRANSIENT]
        assert not robbed.stored(ns)

    def test_the_session_goes_on(self, robbed, coll):
        """The next transaction, and after it a retryable write that collides and is cured."""
        ns = fresh(robbed, "tx-field", coll, "made")
        robbed.thief.steal(ns, "made", {0: 1, 9: 1})
        first = start()
        assert robbed.insert(ns, [{"k": 0}], more=first)["code"] == 112
        second = first | {"txnNumber": bson.Int64(2)}
        assert robbed.insert(ns, [{"k": 0}], more=second)["n"] == 1
        commit = {"commitTransaction": 1, **go_on(second), "$db": "admin"}
        assert robbed.call(wire.command(commit)).body["ok"] == 1
        reply = robbed.insert(ns, [{"k": 9}], more={
            "lsid": first["lsid"], "txnNumber": bson.Int64(3)})
        assert reply["n"] == 1 and len(robbed.thief.inserts(ns)) == 4
        assert [d["k"] for d in robbed.stored(ns)] == [0, 9]


class TestBound:
    """A space that is full must not keep drivers busy for two minutes each."""

    def rules(self, attempts: int) -> list[dict[str, Any]]:
        return [{"ns": "bound.*", "field": "made", "retry": {"attempts": attempts}, **_DIGITS}]

    def codes(self, robbed: Robbed, ns: str, count: int) -> list[int]:
        """Of so many transactions, one after the other: 0, 112, or 11000 as mongod wrote it."""
        found = []
        for _ in range(count):
            reply = robbed.insert(ns, [{"k": 0}], more=start())
            errors = reply.get("writeErrors", [{"code": 0}])
            found.append(errors[0]["code"] if reply["ok"] else reply["code"])
        return found

    def test_attempts_in_a_row(self, start_robbed, replica_set, coll):
        robbed = start_robbed(replica_set, self.rules(3))
        ns = fresh(robbed, "bound", coll, "made")
        robbed.thief.steal(ns, "made", ALWAYS)
        callback = Callback(lambda s: client["bound"][coll].insert_one({"k": 0}, session=s))
        with robbed.proxy.client() as client, client.start_session() as running:
            with pytest.raises(DuplicateKeyError):
                running.with_transaction(callback)
        assert callback.calls == 4
        assert self.codes(robbed, ns, 2) == [11000, 11000], "the row is not over"

    def test_collections_of_one_rule_share_its_row(self, start_robbed, replica_set, coll):
        robbed = start_robbed(replica_set, self.rules(2))
        both = [fresh(robbed, "bound", f"{coll}-{i}", "made") for i in range(2)]
        for each in both:
            robbed.thief.steal(each, "made", ALWAYS)
        assert [self.codes(robbed, ns, 1) for ns in both] == [[112], [112]]
        assert [self.codes(robbed, ns, 1) for ns in both] == [[11000], [11000]]
