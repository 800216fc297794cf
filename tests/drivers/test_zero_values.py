"""What the structs of Go and the classes of Java send for a field that was never set, as
docs/drivers.md has it."""

import uuid

import pytest

from bson import Int64, ObjectId

RULES = [
    {"ns": "zeros.*", "field": "_id", "strategy": "counter", "assign": "missing-or-zero"},
    {"ns": "*.*", "field": "number", "strategy": "counter", "start": 1000,
     "assign": "missing-or-zero"},
]

# The first test of a driver may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(600)


def insert(driver, proxy, coll, db: str, **more: bool) -> None:
    assert driver("zeros", uri=proxy.uri, db=db, coll=coll, count=3, **more) == {"inserted": 3}


@pytest.fixture
def coll() -> str:
    return f"zeros-{uuid.uuid4().hex}"


def test_of_go(proxy, server, go, coll):
    server.client.zeros[coll].create_index("number", unique=True)
    insert(go, proxy, coll, "zeros", own=False)
    assert list(server.client.zeros[coll].find().sort("_id")) == [
        {"_id": Int64(1 + k), "number": Int64(1000 + k), "code": ""} for k in range(3)]
    insert(go, proxy, coll, "zeros", own=True)
    sparse = list(server.client.zeros[coll].find({"code": {"$exists": False}}).sort("number"))
    assert [d["number"] for d in sparse] == [1003, 1004, 1005]
    assert all(list(d) == ["_id", "number"] and isinstance(d["_id"], ObjectId) for d in sparse), \
        "the driver makes the _id, which is no zero"


def test_of_java(proxy, server, java, coll):
    server.client.fields[coll].create_index("number", unique=True)
    for own in (False, True):
        insert(java, proxy, coll, "fields", own=own)
    found = list(server.client.fields[coll].find().sort("number"))
    assert [d["number"] for d in found] == [*range(1000, 1006)]
    assert all({*d} == {"_id", "number"} for d in found), "null is not sent"


def test_of_the_ids_of_java(proxy, server, java, coll):
    insert(java, proxy, coll, "zeros", own=False, keyed=True)
    assert [d["_id"] for d in server.client.zeros[coll].find().sort("_id")] == [1, 2, 3]
    server.client.zeros[coll].delete_many({})
    insert(java, proxy, coll, "zeros", own=True, keyed=True)
    assert all(isinstance(d["_id"], ObjectId) for d in server.client.zeros[coll].find())
