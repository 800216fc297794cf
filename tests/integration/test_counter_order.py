"""What blocks of as many numbers as are used cost, lose and disorder: with one proxy and with three."""

from __future__ import annotations

import itertools
import time
from functools import partial
from typing import Any

import pytest

from support import wire
from support.admin import LISTEN, Admin
from support.counters import counter, numbers
from support.mongod import Mongod
from support.proxy import configuration
from support.thief import insert_message
from support.threads import at_once

SECONDS = 30

# Inserts a second through all proxies, and documents in each. None: as fast as they are answered.
LOADS: dict[str, tuple[float | None, int]] = {
    "1 a second": (1, 1), "100 a second": (100, 1), "batches of 100": (None, 100),
}


def run(address: str, ns: str, pause: float, batch: int) -> None:
    """Inserts at regular times, or one after the other."""
    due = time.monotonic()
    end = due + SECONDS
    with wire.WireClient(address, 60) as client:
        while time.monotonic() < end:
            reply = client.call(insert_message(ns, [{}] * batch))
            assert reply["n"] == batch, reply
            due += pause
            time.sleep(max(0.0, due - time.monotonic()))


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("load", LOADS)
def test_gaps_order_and_round_trips(replica_set: Mongod, start_proxy, coll, record, load, count):
    ns = f"order.{coll}"
    rules: list[dict[str, Any]] = [{"ns": ns, "field": "n", "strategy": "counter"}]
    proxies = [start_proxy(configuration(replica_set, rules, admin=LISTEN)) for _ in range(count)]
    rate, batch = LOADS[load]
    pause = count / rate if rate else 0.0
    at_once(*(partial(run, p.address, ns, pause, batch) for p in proxies), timeout=120)
    trips = sum(Admin(p).metrics()("idproxy_store_round_trip_seconds_count") for p in proxies)
    for proxy in proxies:
        proxy.stop()
    found = numbers(replica_set.client, ns)  # in the order in which they were stored
    assert len(set(found)) == len(found)
    highest = itertools.accumulate(found, max)
    behind = max(high - number for high, number in zip(highest, found))
    gaps = counter(replica_set.client, ns)["COUNT"] - 1 - len(found)
    name = f"auto, {load}, {count} proxies"
    record(f"{name}: documents a second", len(found) / SECONDS)
    record(f"{name}: round trips per document", trips / len(found))
    record(f"{name}: gaps per thousand documents", 1000 * gaps / len(found))
    record(f"{name}: most behind", behind)
    if count == 1:
        assert gaps == behind == 0
    if load != "1 a second":
        assert trips / len(found) < 0.1
    replica_set.client["order"].drop_collection(coll)
