"""The server that stands for MongoDB 8.0 in tests of bulkWrite (support/bulk_write_server.py): what an
unmodified driver makes of it, and what it answers to commands that no driver sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bson
import pymongo
import pytest
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import ClientBulkWriteException, NotPrimaryError

from support import wire
from support.bulk_write_server import BulkWriteServer, bulk_write
from support.mongod import Mongod
from support.thief import session

pytestmark = pytest.mark.needs("retried_stmt_ids", "collection_uuid")

_APART = {"retryWrites": False, "serverSelectionTimeoutMS": 20_000}


@pytest.fixture(scope="module")
def front(server: Mongod) -> Iterator[BulkWriteServer]:
    with BulkWriteServer(server, batch_size=3) as running:
        yield running


@pytest.fixture(scope="module")
def set_front(replica_set: Mongod) -> Iterator[BulkWriteServer]:
    with BulkWriteServer(replica_set) as running:
        yield running


@pytest.fixture
def client(front: BulkWriteServer) -> Iterator[pymongo.MongoClient]:
    with pymongo.MongoClient(front.uri, **_APART) as client:
        yield client


@pytest.fixture
def set_client(set_front: BulkWriteServer) -> Iterator[pymongo.MongoClient]:
    """It finds the primary by itself: it must not find the way around."""
    uri = f"mongodb://{set_front.address}/?replicaSet=rs0"
    with pymongo.MongoClient(
            uri, serverSelectionTimeoutMS=20_000, heartbeatFrequencyMS=500) as client:
        assert client.admin.command("hello")["me"] == set_front.address
        yield client


def test_a_driver_takes_it_for_8_0(client: pymongo.MongoClient) -> None:
    assert client.server_info()["versionArray"] == [8, 0, 0, 0]
    assert client.admin.command("hello")["maxWireVersion"] == 25


def test_every_op_in_several_collections(client: pymongo.MongoClient, coll: str) -> None:
    """With more results than a batch holds."""
    a, b = f"db.{coll}a", f"other.{coll}b"
    result = client.bulk_write([
        InsertOne({"_id": 1}, a), InsertOne({"_id": 1}, b), InsertOne({"_id": 2}, b),
        UpdateOne({"_id": 2}, {"$set": {"x": 1}}, namespace=b),
        UpdateOne({"_id": 3}, {"$set": {"x": 1}}, upsert=True, namespace=a),
        UpdateMany({}, [{"$set": {"y": "$$why"}}], namespace=b),
        ReplaceOne({"_id": 9}, {"z": 1}, upsert=True, namespace=a),
        DeleteOne({"_id": 1}, namespace=a), DeleteMany({}, namespace=b)],
        verbose_results=True, let={"why": 7})
    assert (result.inserted_count, result.matched_count, result.modified_count,
            result.upserted_count, result.deleted_count) == (3, 3, 3, 2, 3)
    assert [result.insert_results[i].inserted_id for i in range(3)] == [1, 1, 2]
    assert [result.update_results[i].upserted_id for i in (3, 4, 5, 6)] == [None, 3, None, 9]
    assert [result.delete_results[i].deleted_count for i in (7, 8)] == [1, 2]
    assert list(client["db"][coll + "a"].find()) == [{"_id": 3, "x": 1}, {"_id": 9, "z": 1}]


@pytest.mark.parametrize("verbose", [False, True])
def test_errors_of_ops(client: pymongo.MongoClient, coll: str, ordered: bool, verbose: bool) -> None:
    ns = f"db.{coll}"
    with pytest.raises(ClientBulkWriteException) as caught:
        client.bulk_write(
            [InsertOne({"_id": i}, ns) for i in (1, 1, 2, 2, 3)]
            + [UpdateOne({"_id": 4}, {"$unknown": 1}, namespace=ns), DeleteOne({"_id": 3}, namespace=ns)],
            ordered=ordered, verbose_results=verbose)
    errors = caught.value.write_errors
    result = caught.value.partial_result
    assert [(e["idx"], e["code"]) for e in errors] == (
        [(1, 11000)] if ordered else [(1, 11000), (3, 11000), (5, 9)])
    assert errors[0]["keyPattern"] == {"_id": 1} and errors[0]["keyValue"] == {"_id": 1}
    assert (result.inserted_count, result.deleted_count) == ((1, 0) if ordered else (3, 1))


# Retryable writes and transactions.


@pytest.mark.parametrize("fault", ["lose request", "lose reply"])
def test_a_driver_sends_again(set_front: BulkWriteServer, set_client: pymongo.MongoClient, coll: str,
                              fault: str) -> None:
    before = len(set_front.received)
    set_front.faults = [fault]
    ns = f"db.{coll}"
    result = set_client.bulk_write([
        InsertOne({"k": 1}, ns), InsertOne({"k": 2}, ns), DeleteOne({"k": 1}, namespace=ns),
        UpdateOne({"k": 2}, {"$inc": {"x": 1}}, namespace=ns)])
    assert (result.inserted_count, result.deleted_count, result.modified_count) == (2, 1, 1)
    assert [(d["k"], d["x"]) for d in set_client["db"][coll].find()] == [(2, 1)]
    assert len(set_front.received) == before + 2


def test_a_retryable_error(set_front: BulkWriteServer, set_client: pymongo.MongoClient,
                           coll: str) -> None:
    refusal = {"ok": 0.0, "code": 189, "codeName": "PrimarySteppedDown", "errmsg": "stepped down",
               "errorLabels": ["RetryableWriteError"]}
    set_front.faults = [refusal]
    assert set_client.bulk_write([InsertOne({}, f"db.{coll}")]).inserted_count == 1
    set_front.faults = [refusal] * 2
    with pytest.raises((ClientBulkWriteException, NotPrimaryError)):
        set_client.bulk_write([InsertOne({}, f"db.{coll}")])


def test_statements_that_were_executed(set_front: BulkWriteServer, coll: str) -> None:
    """They are told, even where there is no result to be told of."""
    retry = {**session(), "errorsOnly": True}
    with wire.WireClient(set_front.address) as client:
        def send(ids: list[Any], **more: Any) -> dict[str, Any]:
            return client.call(wire.command(bulk_write(
                [{"insert": 0, "document": {"_id": i}} for i in ids], f"db.{coll}",
                **retry, **more)))
        assert "retriedStmtIds" not in send([1, 2])
        again = send([9, 9, 3], stmtIds=[0, 1, 5])
        assert (again["nInserted"], again["retriedStmtIds"]) == (3, [0, 1])
        assert again["cursor"]["firstBatch"] == []
        assert send([4, 4], stmtId=5)["nInserted"] == 2
        failed = send([9, 3], stmtIds=[0, 7])
        assert (failed["retriedStmtIds"], failed["nErrors"]) == ([0], 1)


def test_a_transaction(set_client: pymongo.MongoClient, coll: str) -> None:
    collection = set_client["db"][coll]
    collection.insert_one({"_id": 0})
    ns = f"db.{coll}"
    with set_client.start_session() as session:
        with session.start_transaction():
            set_client.bulk_write([InsertOne({"_id": 1}, ns), DeleteOne({"_id": 0}, namespace=ns)],
                                  session=session)
            set_client.bulk_write([InsertOne({"_id": 2}, ns)], session=session)
            assert collection.count_documents({}) == 1
        assert [d["_id"] for d in collection.find()] == [1, 2]
        session.start_transaction()
        with pytest.raises(ClientBulkWriteException) as caught:
            set_client.bulk_write([InsertOne({"_id": i}, ns) for i in (3, 2, 4)],
                                  ordered=False, session=session)
        assert [(e["idx"], e["code"]) for e in caught.value.write_errors] == [(1, 11000)]
        assert not caught.value.has_error_label("TransientTransactionError")
        with pytest.raises(pymongo.errors.OperationFailure) as aborted:
            session.commit_transaction()
        assert aborted.value.code == 251


def test_a_conflict_in_a_transaction(set_client: pymongo.MongoClient, coll: str) -> None:
    """It is an error of the whole command."""
    set_client["db"][coll].insert_one({"_id": 0})
    ns = f"db.{coll}"
    with set_client.start_session() as one, set_client.start_session() as other:
        one.start_transaction()
        other.start_transaction()
        update = UpdateOne({"_id": 0}, {"$inc": {"x": 1}}, namespace=ns)
        set_client.bulk_write([update], session=one)
        with pytest.raises(ClientBulkWriteException) as caught:
            set_client.bulk_write([update], session=other)
        assert caught.value.error.code == 112
        assert caught.value.error.has_error_label("TransientTransactionError")


# Commands that drivers do not send.


INSERT = {"insert": 0, "document": {"_id": 1}}
UPDATE = {"update": 0, "filter": {}, "updateMods": {"$set": {"x": 1}}}
_OF = {"ops": [INSERT], "nsInfo": [{"ns": "db.refused"}]}


@pytest.mark.parametrize("changed, code", [
    ({"$db": "db"}, 13),
    ({"unknown": 1}, 40415),
    ({"ops": [{"insert": 0, "document": {}, "unknown": 1}]}, 40415),
    ({"ops": [{"document": {}, "insert": 0}]}, 40415),
    ({"ops": [{}]}, 40415),
    ({"ops": [{"insert": 0}]}, 40414),
    ({"ops": [{"update": 0, "filter": {}}]}, 40414),
    ({"ops": [{"insert": 0, "document": None}]}, 40414),
    ({"ops": None}, 40414),
    ({"nsInfo": None}, 40414),
    ({"nsInfo": [{}]}, 40414),
    ({"ops": [{**UPDATE, "multi": 1}]}, 14),
    ({"ops": [{**UPDATE, "updateMods": 1}]}, 9),
    ({"ops": [{"insert": "0", "document": {}}]}, 14),
    ({"ops": [{"insert": -1, "document": {}}]}, 2),
    ({"ops": [1]}, 14),
    ({"ops": INSERT}, 14),
    ({"ordered": 1}, 14),
    ({"nsInfo": [{"ns": 1}]}, 14),
    ({"nsInfo": [{"ns": "db.x", "unknown": 1}]}, 40415),
    ({"nsInfo": [{"ns": "db"}]}, 73),
    ({"ops": [INSERT, {"insert": 1, "document": {}}]}, 2),
    ({"nsInfo": []}, 2),
    ({"ops": []}, 16),
    ({"stmtIds": [1, 2]}, 16),
    ({"stmtIds": [1], "stmtId": 1}, 72),
    ({"stmtIds": ["1"]}, 14),
])
def test_a_command_is_refused(front: BulkWriteServer, standalone: Mongod, changed: dict[str, Any],
                              code: int) -> None:
    """Nothing of it is carried out."""
    with wire.WireClient(front.address) as client:
        reply = client.call(wire.command({**bulk_write([], ""), **_OF, **changed}))
    assert (reply["ok"], reply["code"]) == (0, code)
    assert standalone.client["db"]["refused"].count_documents({}) == 0


def test_cursors(front: BulkWriteServer, coll: str) -> None:
    own = session()["lsid"]
    body = bulk_write([{"insert": 0, "document": {"_id": i}} for i in range(8)], f"db.{coll}", lsid=own)
    more = {"collection": "$cmd.bulkWrite", "lsid": own, "$db": "admin"}
    with wire.WireClient(front.address) as client:
        cursor = client.call(wire.command(body))["cursor"]
        assert len(cursor["firstBatch"]) == 3
        stranger = {"getMore": cursor["id"], **more, "lsid": session()["lsid"]}
        assert client.call(wire.command(stranger))["code"] == 13
        second = client.call(wire.command({"getMore": cursor["id"], **more, "batchSize": 1}))
        assert [e["idx"] for e in second["cursor"]["nextBatch"]] == [3]
        third = client.call(wire.command({"getMore": cursor["id"], **more}))["cursor"]
        assert [e["idx"] for e in third["nextBatch"]] == [4, 5, 6] and third["id"] == cursor["id"]
        last = client.call(wire.command({"getMore": cursor["id"], **more}))["cursor"]
        assert [e["idx"] for e in last["nextBatch"]] == [7] and last["id"] == 0
        assert client.call(wire.command({"getMore": cursor["id"], **more}))["code"] == 43
        killed = client.call(wire.command({**body, "cursor": {"batchSize": 0}}))["cursor"]
        assert killed["firstBatch"] == [] and killed["id"]
        assert client.call(wire.command({
            "killCursors": "$cmd.bulkWrite", "cursors": [killed["id"], bson.Int64(1)],
            "$db": "admin"}))["cursorsKilled"] == [killed["id"]]


def test_failures_of_ops(front: BulkWriteServer, coll: str) -> None:
    front.failures_of_ops = [{"code": 8000, "errmsg": "as the test says"}]
    body = bulk_write([{"insert": 0, "document": {"_id": i}} for i in range(3)], f"db.{coll}",
                 ordered=False)
    with wire.WireClient(front.address) as client:
        reply = client.call(wire.command(body))
    assert reply["cursor"]["firstBatch"][0] == {
        "ok": 0.0, "idx": 0, "code": 8000, "errmsg": "as the test says", "n": 0}
    assert (reply["nErrors"], reply["nInserted"]) == (1, 2)
