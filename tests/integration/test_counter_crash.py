"""Proxies that are killed in the middle of their blocks: no number twice, and few are lost."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.audit import Audit
from support.counters import Load, counter, gaps, numbers
from support.full import FULL
from support.mongod import Mongod
from support.pair import Pair
from support.proxy import Proxy, configuration

BLOCK = 40


@pytest.mark.timeout(1800 if FULL else 600)
@pytest.mark.parametrize("kills", [20, pytest.param(100, marks=pytest.mark.full)])
def test_kill_9_mid_block(replica_set: Mongod, coll: str, kills: int, record,
                          request: pytest.FixtureRequest):
    """Two proxies, four clients, documents deleted now and then, and no index to help."""
    ns = f"crash.{coll}"
    pair = Pair(configuration(replica_set, [
        {"ns": ns, "field": "n", "strategy": "counter", "block": {"size": BLOCK}}]))
    request.addfinalizer(pair.kill)
    audit = Audit(replica_set.uri, "crash", [coll], "n")
    chance = random.Random(kills)
    clients = [lambda number=i: pair.address(number) for i in range(4)]
    with Load(clients, ns) as load:
        for number in range(kills):
            load.await_documents(chance.randrange(1, 3 * BLOCK))
            replica_set.client["crash"][coll].delete_many({"k": {"$mod": [7, 0]}})
            pair.kill_one(number)
        load.await_documents(10)
    pair.stop()
    audit.end()
    assert not audit.violations(), audit.violations()[:5]
    values = audit.values
    assert len(values) >= load.documents
    last = counter(replica_set.client, ns)["COUNT"] - 1
    lost = last - len(values)
    record(f"numbers lost per kill -9, blocks of {BLOCK}", lost / kills)
    assert min(values) == 1 and max(values) <= last
    assert 0 < lost <= kills * 2 * BLOCK


def test_the_next_process_goes_on(replica_set: Mongod, coll: str):
    """One proxy, killed and started again: a gap of no more than two blocks each time."""
    ns = f"crash.{coll}"
    config = configuration(replica_set, [
        {"ns": ns, "field": "n", "strategy": "counter", "block": {"size": BLOCK}}])
    for used in (1, BLOCK // 2 + 1, BLOCK, 3 * BLOCK):
        proxy = Proxy(config)
        before = numbers(replica_set.client, ns)
        with Load([lambda: proxy.address], ns, sizes=(1,)) as load:
            load.await_documents(used)
        proxy.kill()
        found = numbers(replica_set.client, ns)[len(before):]
        assert not gaps(found) and found == sorted(found)
        assert not before or 0 < found[0] - before[-1] <= 2 * BLOCK + 1


class TestTheAudit:
    """The one that says so: each violation is planted."""

    def audited(self, replica_set: Mongod, coll: str) -> tuple[Audit, Any]:
        names = [coll, f"{coll}-other"]
        audit = Audit(replica_set.uri, "audit", names, "n")
        return audit, [replica_set.client["audit"][name] for name in names]

    @pytest.mark.parametrize("plant", ["nothing", "twice", "deleted", "elsewhere", "told"])
    def test_it_sees(self, replica_set, coll, plant):
        audit, (one, other) = self.audited(replica_set, coll)
        one.insert_many([{"k": 1, "n": 10}, {"k": 2, "n": 11}])
        if plant == "deleted":
            one.delete_many({})
        if plant in ("twice", "deleted"):
            one.insert_one({"k": 3, "n": 10})
        if plant == "elsewhere":
            other.insert_one({"k": 3, "n": 10})
        if plant == "told":
            audit.told(10, 3)
        audit.end()
        assert audit.values == [10, 11]
        assert audit.violations() == ([] if plant == "nothing" else ["10 went to [1, 3]"])
