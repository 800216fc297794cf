"""Everyday work of an application with PyMongo, all of it through the proxy."""

from __future__ import annotations

import hashlib
import random

import gridfs
import pymongo
import pytest
from pymongo import DeleteOne, InsertOne, UpdateOne

from support.process import eventually

# Rules on every field of every collection that the tests use: ordinary work must not mind.
RULES = [{"ns": "app.*", "field": "made", "strategy": "uuid"}]


@pytest.fixture
def client(proxy):
    with proxy.client(uuidRepresentation="standard") as connected:
        connected.drop_database("app")
        yield connected
        connected.drop_database("app")


@pytest.fixture
def replica_client(replica_proxy):
    with replica_proxy.client(uuidRepresentation="standard") as connected:
        connected.drop_database("app")
        yield connected


@pytest.mark.tsan
def test_create_read_update_delete(client):
    people = client.app.people
    assert people.insert_one({"_id": 1, "name": "ann", "age": 30}).inserted_id == 1
    people.insert_many([{"_id": i, "name": f"p{i}", "age": i} for i in range(2, 100)])
    assert people.count_documents({}) == 99
    assert people.find_one({"name": "ann"})["age"] == 30
    assert people.update_one({"_id": 1}, {"$inc": {"age": 1}}).modified_count == 1
    assert people.update_many({"age": {"$lt": 10}}, {"$set": {"young": True}}).modified_count == 8
    assert people.replace_one({"_id": 2}, {"name": "bob"}).modified_count == 1
    assert people.find_one_and_update({"_id": 1}, {"$set": {"x": 1}},
                                      return_document=True)["x"] == 1
    upserted = people.update_one({"_id": 1000}, {"$set": {"name": "new"}}, upsert=True)
    assert upserted.upserted_id == 1000
    assert people.distinct("young") == [True]
    assert people.find_one_and_delete({"_id": 1000})["name"] == "new"
    assert people.delete_many({"_id": {"$gt": 50}}).deleted_count == 49
    assert people.count_documents({}) == 50
    with pytest.raises(pymongo.errors.DuplicateKeyError):
        people.insert_one({"_id": 1})


def test_cursors(client):
    numbers = client.app.numbers
    numbers.insert_many([{"_id": i, "text": "x" * 500} for i in range(5000)])
    assert [d["_id"] for d in numbers.find(batch_size=7).limit(500)] == list(range(500))
    assert [d["_id"] for d in numbers.find().sort("_id", -1)] == list(range(4999, -1, -1))
    cursor = numbers.find(batch_size=2)
    next(cursor)
    cursor.close()
    assert sum(1 for _ in numbers.find_raw_batches(batch_size=1000)) >= 5


def test_aggregation(client):
    sales = client.app.sales
    sales.insert_many([{"shop": i % 3, "sum": i} for i in range(300)])
    totals = list(sales.aggregate([
        {"$group": {"_id": "$shop", "total": {"$sum": "$sum"}}}, {"$sort": {"_id": 1}}]))
    assert [t["total"] for t in totals] == [sum(range(s, 300, 3)) for s in range(3)]
    list(sales.aggregate([{"$match": {"shop": 1}}, {"$out": "sales_of_1"}]))
    assert client.app.sales_of_1.count_documents({}) == 100


def test_indexes_and_collections(client):
    books = client.app.books
    assert books.create_index([("title", 1)], unique=True) == "title_1"
    books.insert_one({"title": "a"})
    with pytest.raises(pymongo.errors.DuplicateKeyError) as failure:
        books.insert_one({"title": "a"})
    assert failure.value.details["keyPattern"] == {"title": 1}
    assert "title_1" in books.index_information()
    books.rename("novels")
    assert client.app.list_collection_names() == ["novels"]
    client.app.novels.drop_index("title_1")
    client.app.create_collection("capped", capped=True, size=4096, max=2)
    client.app.capped.insert_many([{"n": n} for n in range(5)])
    assert [d["n"] for d in client.app.capped.find()] == [3, 4]


def test_bulk_write(client):
    items = client.app.items
    result = items.bulk_write(
        [InsertOne({"_id": i}) for i in range(1000)] +
        [UpdateOne({"_id": i}, {"$set": {"seen": True}}) for i in range(0, 1000, 2)] +
        [DeleteOne({"_id": i}) for i in range(0, 1000, 5)], ordered=True)
    assert (result.inserted_count, result.modified_count, result.deleted_count) == (1000, 500, 200)
    assert items.count_documents({"seen": True}) == 400
    with pytest.raises(pymongo.errors.BulkWriteError) as failure:
        items.bulk_write([InsertOne({"_id": 1}), InsertOne({"_id": 5000}), InsertOne({"_id": 2})],
                         ordered=False)
    assert [e["index"] for e in failure.value.details["writeErrors"]] == [0, 2]
    assert items.find_one({"_id": 5000})


def test_gridfs_with_a_file_of_20_megabytes(client):
    content = random.Random(1).randbytes(20_000_000)
    bucket = gridfs.GridFSBucket(client.app)
    file = bucket.upload_from_stream("large", content)
    read = bucket.open_download_stream(file).read()
    assert hashlib.sha256(read).digest() == hashlib.sha256(content).digest()
    bucket.delete(file)
    assert client.app["fs.chunks"].count_documents({}) == 0


def test_errors_are_the_servers(client):
    with pytest.raises(pymongo.errors.OperationFailure) as failure:
        client.app.command("nonsense")
    assert failure.value.code == 59
    with pytest.raises(pymongo.errors.OperationFailure):
        client.app.people.find_one({"$nonsense": 1})
    client.app.create_collection("checked", validator={"n": {"$type": "int"}})
    with pytest.raises(pymongo.errors.WriteError) as refused:
        client.app.checked.insert_one({"n": "text"})
    assert refused.value.code == 121


class TestReplicaSet:
    def test_change_stream(self, replica_client):
        watched = replica_client.app.watched
        with watched.watch(full_document="updateLookup") as stream:
            watched.insert_one({"_id": 1, "n": 1})
            watched.update_one({"_id": 1}, {"$set": {"n": 2}})
            changes = [next(stream) for _ in range(2)]
            watched.delete_one({"_id": 1})
            changes.append(next(stream))
            token = stream.resume_token
        assert [c["operationType"] for c in changes] == ["insert", "update", "delete"]
        assert "made" in changes[0]["fullDocument"]
        assert changes[1]["fullDocument"]["n"] == 2
        watched.insert_one({"_id": 2})
        with watched.watch(resume_after=token) as stream:
            assert next(stream)["documentKey"] == {"_id": 2}

    def test_transaction(self, replica_client):
        accounts = replica_client.app.accounts
        accounts.insert_many([{"_id": "a", "sum": 10}, {"_id": "b", "sum": 0}])

        def move(session):
            accounts.update_one({"_id": "a"}, {"$inc": {"sum": -5}}, session=session)
            accounts.update_one({"_id": "b"}, {"$inc": {"sum": 5}}, session=session)
            replica_client.app.moves.insert_one({"sum": 5}, session=session)

        with replica_client.start_session() as session:
            session.with_transaction(move)
        assert [d["sum"] for d in accounts.find().sort("_id")] == [5, 5]
        assert "made" in replica_client.app.moves.find_one()

        with pytest.raises(ZeroDivisionError):
            with replica_client.start_session() as session, session.start_transaction():
                accounts.update_one({"_id": "a"}, {"$inc": {"sum": -5}}, session=session)
                1 / 0
        assert [d["sum"] for d in accounts.find().sort("_id")] == [5, 5]

    def test_tailable_cursor(self, replica_client):
        queue = replica_client.app.create_collection("queue", capped=True, size=100_000)
        queue.insert_one({"n": 0})
        cursor = queue.find(cursor_type=pymongo.CursorType.TAILABLE_AWAIT)
        assert next(cursor)["n"] == 0
        queue.insert_one({"n": 1})
        assert eventually(lambda: next(cursor, None))["n"] == 1

    def test_causal_consistency_and_read_concern(self, replica_client):
        notes = replica_client.app.get_collection(
            "notes", write_concern=pymongo.WriteConcern("majority"))
        with replica_client.start_session(causal_consistency=True) as session:
            notes.insert_one({"_id": 1}, session=session)
            assert notes.find_one({"_id": 1}, session=session)
            assert session.operation_time is not None
