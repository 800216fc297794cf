"""libmongoc: insert functions always make an _id; a write command leaves it to the proxy."""

import uuid

import pytest

from stored import COUNTS, RULES, check_fields, check_ids, run  # noqa: F401 (RULES are for the fixture `proxy`)


@pytest.fixture
def coll() -> str:
    return f"libmongoc-{uuid.uuid4().hex}"


@pytest.mark.parametrize("ordered", ["true", "false"])
@pytest.mark.parametrize("count", COUNTS)
def test_write_command(proxy, server, libmongoc, coll, count, ordered):
    printed = run([libmongoc, proxy.uri, "ids", coll, str(count), ordered, "command"])
    assert printed.split() == [str(count)]
    check_ids(server, coll, count)


@pytest.mark.parametrize("ordered", ["true", "false"])
@pytest.mark.parametrize("count", COUNTS)
def test_insert_many(proxy, server, libmongoc, coll, count, ordered):
    printed = run([libmongoc, proxy.uri, "fields", coll, str(count), ordered, "insert_many"])
    assert printed.split() == [str(count)]
    check_fields(server, coll, count)
