"""All schemes at once through two proxies that are killed: no value twice, no gap where none may be."""

from __future__ import annotations

import contextlib
import pathlib
import random
from typing import Any

import pytest

from support.audit import Audit
from support.counters import STORE, Load
from support.full import FULL
from support.mongod import Mongod
from support.pair import Pair
from support.proxy import configuration

BLOCK = 20
RANGES, WIDTH, ACTIVE = 20, 100_000, 4



def rules_of(db: str, key: pathlib.Path) -> dict[str, dict[str, Any]]:
    """By collection."""
    # A value that were repeated would be an error that the client gets.
    unrepeated = {
        "permuted": {"strategy": "permuted", "key": {"file": str(key)}, "block": {"size": BLOCK}},
        "snowflake": {"strategy": "snowflake"},
        "ulid": {"strategy": "ulid"},
        "nanoid": {"strategy": "nanoid"},
        "typeid": {"strategy": "uuid", "version": 7, "encoding": "base32", "prefix": "user_"},
    }
    return {
        **{name: {**rule, "retry": {"attempts": 0}} for name, rule in unrepeated.items()},
        "counter": {"strategy": "counter", "block": {"size": BLOCK}},
        "ranges": {"strategy": "counter-ranges", "block": BLOCK, "active": ACTIVE,
                   "ranges": {"count": RANGES, "width": WIDTH}, "store": {"collection": db}},
        "gapless": {"strategy": "gapless"},
        "reserve": {"strategy": "counter", "block": {"size": BLOCK},
                    "reserve": {"collection": "reserve__n"}},
        # Each client is a tenant.
        "scope": {"strategy": "counter", "scope": ["client"], "block": {"size": BLOCK}},
        "digits": {"strategy": "random-digits", "digits": 12},
    }


def taken(replica_set: Mongod, db: str, scheme: str) -> int:
    """How many numbers have left the counters of a scheme."""
    store = replica_set.client[STORE]
    if scheme == "ranges":
        found = store[db].find({"_id": {"$regex": "^COUNTER DOCUMENT NUMBER"}})
        return sum(each["COUNT"] - int(each["_id"].split()[-1]) * WIDTH for each in found)
    name = f"{db}.{scheme}.n"
    found = store["uniqueIdentifierCounter"].find({"$or": [{"_id": name}, {"_id.c": name}]})
    return sum(each["COUNT"] - 1 for each in found)


@pytest.mark.timeout(3600 if FULL else 600)
@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.full)])
def test_kill_9(replica_set: Mongod, kills: int, record, request: pytest.FixtureRequest, tmp_path: pathlib.Path):
    db = f"every{kills}"
    key = tmp_path / "key"
    key.write_text("2B7E151628AED2A6ABF7158809CF4F3C")
    key.chmod(0o600)
    rules = rules_of(db, key)
    for scheme in rules:
        if scheme == "reserve":
            continue  # as in a sharded collection, where the index cannot be unique
        fields = ["client", "n"] if scheme == "scope" else ["n"]
        replica_set.client[db][scheme].create_index([(each, 1) for each in fields], unique=True)
    pair = Pair(configuration(replica_set, [
        {"ns": f"{db}.{scheme}", "field": "n", **rule} for scheme, rule in rules.items()]))
    request.addfinalizer(pair.kill)
    audits = {scheme: Audit(replica_set.uri, db, [scheme], "n",
                            "client" if scheme == "scope" else None) for scheme in rules}
    chance = random.Random(kills)
    loads = {scheme: Load([lambda i=i: pair.address(i) for i in range(2)], f"{db}.{scheme}", refusals=max(5, kills))
             for scheme in rules}
    with contextlib.ExitStack() as running:
        for load in loads.values():
            running.enter_context(load)
        for number in range(kills):
            for load in loads.values():
                load.await_documents(chance.randrange(1, 2 * BLOCK))
            pair.kill_one(number)
        for load in loads.values():
            load.await_documents(10)
    pair.stop()
    for scheme, audit in audits.items():
        audit.end()
        assert not audit.violations(), (scheme, audit.violations()[:5])
        assert len(audit.values) >= loads[scheme].documents > kills
        record(f"values of {scheme} in {kills} kills", len(audit.values))
    stored = audits["gapless"].values  # nothing has been deleted
    assert stored == list(range(1, len(stored) + 1))
    reserved = {each["_id"]: each["parent_id"] for each in replica_set.client[db].reserve__n.find()}
    documents = {each["n"]: each["_id"] for each in replica_set.client[db].reserve.find(
        {"client": {"$exists": True}})}
    assert documents.items() <= reserved.items(), "each document's number is reserved for it"
    for scheme, at_once in (("counter", 1), ("permuted", 1), ("ranges", ACTIVE), ("scope", 1),
                            ("reserve", 1)):
        lost = taken(replica_set, db, scheme) - len(audits[scheme].values)
        record(f"numbers of {scheme} lost per kill -9, blocks of {BLOCK}", lost / kills)
        assert 0 <= lost <= kills * 2 * BLOCK * at_once, scheme
