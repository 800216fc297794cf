"""Primaries that step down, die, or go on without a majority: no number goes out twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.audit import Audit
from support.counters import STORE, Load, insert, key_of
from support.process import eventually
from support.proxy import Proxy, configuration
from support.replica_set import Member, ReplicaSet
from support.thief import session

UNAVAILABLE = 6


@pytest.fixture(scope="module")
def three() -> Iterator[ReplicaSet]:
    with ReplicaSet() as running:
        yield running


@pytest.fixture(autouse=True)
def whole_again(three: ReplicaSet) -> Iterator[None]:
    yield
    three.heal()


def rules(ns: str, size: int) -> list[dict[str, Any]]:
    return [{"ns": ns, "field": "n", "strategy": "counter", "report": True,
             "block": {"size": size}}]


def through(proxy: Proxy, member: Member) -> str:
    """Where clients of this member connect."""
    return next(address for address, server in proxy.listeners if server == member.address)


def at_primary(three: ReplicaSet, proxy: Proxy) -> Callable[[], str]:
    return lambda: through(proxy, three.primary)


def excused(reply: dict[str, Any]) -> bool:
    return reply.get("code") == UNAVAILABLE


def check(audit: Audit, load: Load) -> None:
    """No number went to two keys: neither in the database, nor in what clients were told, be it
    that a failover has undone their inserts."""
    audit.end()
    for (_, keys), reply in zip(load.acknowledged, load.replies):
        for entry in reply["idproxy"]["assigned"]:
            audit.told(entry["value"], keys[entry["index"]])
    assert not audit.violations(), audit.violations()[:5]


def test_step_down_under_load(three, start_proxy, coll):
    """Nobody hears of it but by the server's own errors: the block is asked for again."""
    ns = f"failover.{coll}"
    proxies = [start_proxy(configuration(three, rules(ns, 1))) for _ in range(2)]
    audit = Audit(three.uri, "failover", [coll], "n")
    with Load([at_primary(three, p) for p in proxies * 2], ns, excused=excused) as load:
        for _ in range(2):
            load.await_documents(60)
            three.step_up(three.secondaries[0])
        load.await_documents(60)
    check(audit, load)


@pytest.mark.smoke
def test_the_primary_dies_while_blocks_are_asked_for(three, start_proxy, coll):
    ns = f"failover.{coll}"
    proxies = [start_proxy(configuration(three, rules(ns, 2))) for _ in range(2)]
    audit = Audit(three.uri, "failover", [coll], "n")
    with Load([at_primary(three, p) for p in proxies * 2], ns, excused=excused,
              more={"writeConcern": {"w": 1}}) as load:
        load.await_documents(60)
        three.primary.kill()
        load.await_documents(60)
    check(audit, load)


def test_without_a_majority(three, start_proxy, coll):
    """Blocks that did not reach a majority are dropped, and the primary that is elected instead
    gives them out once."""
    ns = f"failover.{coll}"
    config = configuration(three, rules(ns, 5), id_store={"wtimeout": "500ms"})
    proxies = [start_proxy(config) for _ in range(2)]
    audit = Audit(three.uri, "failover", [coll], "n")
    with Load([at_primary(three, p) for p in proxies * 2], ns, excused=excused,
              more={"writeConcern": {"w": 1}}) as load:
        load.await_documents(60)
        old = three.primary
        others = [m for m in three.members if m is not old]
        before = old.client[STORE]["uniqueIdentifierCounter"].find_one(key_of(ns))["COUNT"]
        with three.replication_paused():
            for proxy in proxies:
                proxy.wait_event("block_dropped", timeout=30)
            after = old.client[STORE]["uniqueIdentifierCounter"].find_one(key_of(ns))["COUNT"]
            assert after > before, "the old primary has moved its counter on"
            old.kill()
            three.step_up(*others)
        load.await_documents(100)
    three.heal()
    check(audit, load)


def test_without_a_majority_no_number_is_given(three, start_proxy, coll):
    """The rest of the block, and then the error with its label, in time."""
    ns = f"failover.{coll}"
    proxy = start_proxy(configuration(three, rules(ns, 5)))
    proxy.address = through(proxy, three.primary)
    more = {"writeConcern": {"w": 1}}
    assert insert(proxy, ns, 1, more=more)["n"] == 1
    with three.replication_paused():
        given = 1
        while (reply := insert(proxy, ns, 1, more={**more, **session()}))["ok"]:
            given += 1
        assert reply["code"] == UNAVAILABLE and "RetryableWriteError" in reply["errorLabels"]
        started = time.monotonic()
        assert insert(proxy, ns, 1, more=more)["code"] == UNAVAILABLE
        assert time.monotonic() - started < 8
    eventually(lambda: insert(proxy, ns, 1)["ok"], 60, "service")
    found = [d["n"] for d in three.client["failover"][coll].find().sort("n")]
    assert found[:given] == list(range(1, given + 1)) and given <= 10
    assert len(set(found)) == given + 1
