"""Inserts of every driver: without an _id where it can leave it out, else with one of its own."""

import uuid

import pytest

from stored import COUNTS, RULES, check_fields, check_ids  # noqa: F401 (RULES are for the fixture `proxy`)

# The first test of a driver may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(600)

DRIVERS = ["node", "go", "java", "libmongoc"]


@pytest.fixture
def coll() -> str:
    return f"insert-{uuid.uuid4().hex}"


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("driver", DRIVERS, indirect=True)
def test_insert_without_an_id(proxy, server, driver, coll, count, ordered):
    assert driver("insert", uri=proxy.uri, db="ids", coll=coll, count=count, ordered=ordered,
                  own=False) == {"inserted": count}
    check_ids(server, coll, count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("driver", DRIVERS, indirect=True)
def test_insert_with_the_drivers_id(proxy, server, driver, coll, count):
    assert driver("insert", uri=proxy.uri, db="fields", coll=coll, count=count, ordered=True,
                  own=True) == {"inserted": count}
    check_fields(server, coll, count)


@pytest.mark.parametrize("driver", ["node", "go", "java"], indirect=True)
def test_ordinary_work(proxy, server, driver):
    assert driver("ordinary", uri=proxy.uri, replicaSet=bool(server.replica_set)) == {"done": True}
