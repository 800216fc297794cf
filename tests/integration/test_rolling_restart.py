"""Two proxies started anew, one after the other, while applications write and read through them:
with retryable writes and reads, applications notice nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pymongo
import pytest

from support.failover import Table, Writer, Writers
from support.full import FULL
from support.process import free_ports
from support.proxy import Proxy, configuration
from support.replica_set import ReplicaSet

ROUNDS = 5 if FULL else 3

RULES = [
    {"ns": "rolling.digits", "field": "account", "strategy": "random-digits", "digits": 4,
     "retry": {"attempts": 20}},
    {"ns": "rolling.counter", "field": "_id", "strategy": "counter"},
    {"ns": "rolling.uuid", "field": "_id", "strategy": "uuid", "version": 7},
]


@pytest.fixture(scope="module")
def three() -> Iterator[ReplicaSet]:
    with ReplicaSet() as running:
        yield running


class Restartable:
    """A proxy that comes back on the ports it had, as a sidecar does."""

    def __init__(self, three: ReplicaSet):
        port = free_ports(len(three.members))[0]
        self._config = configuration(three, RULES, limits={"drain": "20s"},
                                     listen={"address": "127.0.0.1", "port": port})
        self.stopped: list[Proxy] = []
        self.proxy = Proxy(self._config)

    def restart(self) -> None:
        self.proxy.stop()
        self.stopped.append(self.proxy)
        self.proxy = Proxy(self._config)


def test_applications_notice_nothing(three: ReplicaSet):
    digits = Table("rolling.digits", "account", operations=("insert_one", "ordered", "unordered"))
    digits.prepare(three.client, taken=range(0, 10_000, 2))
    tables = [digits, Table("rolling.counter", "_id"), Table("rolling.uuid", "_id")]
    for table in tables[1:]:
        table.prepare(three.client)
    with ExitStack() as stack:
        proxies = [Restartable(three) for _ in range(2)]
        for each in proxies:
            stack.callback(lambda each=each: each.proxy.stop())
        writers = []
        for number, each in enumerate(proxies):
            for table in tables:
                client = stack.enter_context(pymongo.MongoClient(
                    each.proxy.set_uri(three.name), w="majority", heartbeatFrequencyMS=1000,
                    serverSelectionTimeoutMS=60_000))
                writers.append(Writer(f"proxy {number}", client, table))
        with Writers(writers) as going:
            going.await_progress()
            for _ in range(ROUNDS):
                for each in proxies:
                    each.restart()
                    going.await_progress()
        # A driver repeats once: where a monitor hears late of a proxy that leaves, the repetition
        # goes to another of its listeners.
        assert going.errors.total() <= (0 if FULL else 2), going.errors
        assert sum(going.done.values()) > 100
        forced = [p.find_events("drain_forced") for each in proxies for p in each.stopped]
        assert not any(forced)
    for table in tables:
        assert table.violations(three.client) == []
