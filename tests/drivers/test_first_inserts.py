"""The first inserts of every driver into collections of a wildcard rule: they wait for the check of the collection, its
unique index and its first number, instead of failing."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator

import pytest

from program import Program
from support.full import FULL
from support.mongod import Mongod
from support.proxy import Proxy, configuration

# The first test of a driver may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(900)

TENANTS = 1000 if FULL else 60
# New collections, then those that are there, one after the other and all at once, each with a proxy that has
# just started.
PHASES = {"new": 8, "after a restart": 8, "at once, after a restart": TENANTS}
STRATEGIES = {"create": {"strategy": "counter", "unique_index": "create"},
              "gapless": {"strategy": "gapless", "unique_index": "create"}}
# The proxy waits for 2 s in all. While a loaded machine keeps the server from its work for a second, it is not
# the proxy that is tested.
STALL_MS = 500
ATTEMPTS = 3


@pytest.fixture
def mongod() -> Iterator[Mongod]:
    """One for each test: its databases are too many to be dropped."""
    with Mongod("rs0") as mongod:
        yield mongod


def stalled(log: str) -> bool:
    took = re.findall(r'"command":{"(?!sleep").*"durationMillis":(\d+)', log)
    return any(int(each) > STALL_MS for each in took)


def first_inserts(driver: Program, proxy: Proxy, names: list[str], tasks: int) -> list[str]:
    """The errors."""
    uri = f"{proxy.uri}&maxPoolSize={tasks}&maxConnecting=16"
    with driver.steps(watched=False, uri=uri, db="admin") as steps:
        done = steps("firsts", timeout=300, coll="orders", dbs=names, tasks=tasks,
                     sleep=100 + 3 * tasks)
    milliseconds = sorted(done["milliseconds"])
    print(f"{tasks} at a time: {len(done['errors'])} errors of {len(milliseconds)},",
          f"p50 {statistics.median(milliseconds):.0f} ms,",
          f"p99 {milliseconds[-1 - len(milliseconds) // 100]:.0f} ms")
    return done["errors"]


@pytest.mark.parametrize("driver, strategy", [
    ("pymongo", "create"), ("pymongo", "gapless"), ("node", "gapless"), ("go", "create")], indirect=["driver"])
def test_no_first_insert_fails(mongod: Mongod, start_proxy: Callable[..., Proxy], driver: Program,
                               strategy: str) -> None:
    rule = {"ns": "tenant_*.orders", "field": "number", **STRATEGIES[strategy]}
    for attempt in range(ATTEMPTS):
        names = [f"tenant_{attempt}_{n}" for n in range(TENANTS)]
        begun = len(mongod.log())
        errors = []
        for phase, tasks in PHASES.items():
            print(phase, end=", ")
            proxy = start_proxy(configuration(mongod, [rule]))
            errors += first_inserts(driver, proxy, names, tasks)
            proxy.stop()
        if not (errors and stalled(mongod.log()[begun:])):
            break
    assert errors == []
    for name in names:
        numbers = [each["number"] for each in mongod.client[name].orders.find()]
        assert sorted(numbers) == [*range(1, len(PHASES) + 1)], name
