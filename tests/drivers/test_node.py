"""The Node driver: forceServerObjectId leaves the _id to the proxy."""

import uuid

import pytest

from stored import COUNTS, RULES, check_fields, check_ids  # noqa: F401 (RULES are for the fixture `proxy`)


@pytest.fixture
def coll() -> str:
    return f"node-{uuid.uuid4().hex}"


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("count", COUNTS)
def test_insert_without_an_id(proxy, server, node, coll, count, ordered):
    result = node("insert.js", {"uri": proxy.uri, "db": "ids", "coll": coll, "count": count,
                                "ordered": ordered, "own": False})
    assert result == {"inserted": count}
    check_ids(server, coll, count)


@pytest.mark.parametrize("count", COUNTS)
def test_insert_with_the_drivers_id(proxy, server, node, coll, count):
    result = node("insert.js", {"uri": proxy.uri, "db": "fields", "coll": coll, "count": count,
                                "ordered": True, "own": True})
    assert result == {"inserted": count}
    check_fields(server, coll, count)


def test_ordinary_work(proxy, server, node):
    assert node("ordinary.js", {"uri": proxy.uri, "replicaSet": bool(server.replica_set)}) == {
        "done": True}
