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


@pytest.mark.parametrize("driver", DRIVERS, indirect=True)
def test_inserts(proxy, server, driver, coll):
    tasks = [{"task": "insert", "uri": proxy.uri, "db": "fields" if own else "ids",
              "coll": f"{coll}-{count}-{ordered}", "count": count, "ordered": ordered, "own": own}
             for own, ordered in [(False, True), (False, False), (True, True)] for count in COUNTS]
    assert driver.each(tasks) == [{"inserted": task["count"]} for task in tasks]
    for task in tasks:
        check = check_fields if task["own"] else check_ids
        check(server, task["coll"], task["count"])


@pytest.mark.parametrize("driver", ["node", "go", "java"], indirect=True)
def test_ordinary_work(proxy, server, driver):
    assert driver("ordinary", uri=proxy.uri, replicaSet=bool(server.replica_set)) == {"done": True}
