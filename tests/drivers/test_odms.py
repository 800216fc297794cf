"""What ODMs and tools send when they save a document a second time, whose number they do not know: real
ones, whose applications are as they would be without the proxy.

Their programs know three steps, for one database each: `init` makes their indexes, as they do at their start, `first`
stores new documents, and `second` changes the same objects in memory and stores them again. Each document has its `way`, by
which it is stored, and an `item`, which is "cup" and then "pot". Collections begin with "orders".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from pymongo.database import Database

from program import Program
from support.mongod import Mongod
from support.proxy import Proxy, configuration

# The first test of an ODM may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(1800)

DBS = ["nulls"]
RULES = [{"ns": f"{db}.orders*", "field": "number", "strategy": "counter"} for db in DBS]

WAYS: dict[str, list[str]] = {
    "python_odms": ["beanie insert", "beanie save", "beanie replace", "beanie without nulls", "django save",
                    "django bulk_create 0", "django bulk_create 1", "mongoengine save"],
    "node_odms": [*(f"mongoose {version} {way}" for version in (8, 9) for way in (
        "save", "insertMany 0", "insertMany 1", "bulkSave 0", "bulkSave 1", "replaceOne")),
        "typeorm save", "typeorm several 0", "typeorm several 1"],
    "java_odms": ["spring save", "spring save with an id", "spring saveAll 0", "spring saveAll 1", "spring @Version",
                  "morphia save", "morphia save 0", "morphia save 1", "morphia @Version"],
}

# Those that send null for a number that they do not know, as docs/drivers.md says of zero values.
NULLS = ("beanie insert", "beanie save", "beanie replace", "django")


@dataclass
class Odms:
    """Those of one language. They start once."""

    ways: list[str]
    do: Callable[..., Any]

    def stored(self, db: Database) -> dict[str, dict[str, Any]]:
        """Way -> document, with its collection's name."""
        return {each["way"]: {**each, "coll": coll} for coll in collections(db)
                for each in db[coll].find({"way": {"$in": [*self.ways]}})}


def collections(db: Database) -> list[str]:
    return db.list_collection_names(filter={"name": {"$regex": "^orders"}})


@pytest.fixture(scope="module")
def proxy(replica_set: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(replica_set, RULES)) as running:
        yield running


@pytest.fixture(scope="module", params=WAYS)
def odms(request: pytest.FixtureRequest, proxy: Proxy) -> Iterator[Odms]:
    with ExitStack() as stack:
        program: Program = request.getfixturevalue(request.param)
        do = stack.enter_context(program.steps(watched=False, uri=proxy.uri, dbs=DBS))
        yield Odms(WAYS[request.param], do)


def test_what_they_send(odms, replica_set):
    """At first, for a number that they do not know."""
    odms.do("first", db="nulls")
    found = odms.stored(replica_set.client["nulls"])
    assert {way for way, each in found.items() if each.get("number", 0) is None} == {
        way for way in odms.ways if way.startswith(NULLS)}
