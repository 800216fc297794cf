"""gapless while primaries step down and die: consecutive, and nothing that was acknowledged is lost.
Two proxies and a backfill take each other's numbers."""

from __future__ import annotations

import itertools
import pathlib
from contextlib import ExitStack
from typing import Any

import pymongo
import pytest
from pymongo.errors import PyMongoError

from support.backfill import Backfill, updated_twice
from support.process import eventually
from support.profiler import Profiler
from support.proxy import Proxy, configuration
from support.replica_set import ReplicaSet
from support.threads import Threads

_keys = itertools.count()


class Writer(Threads):
    def __init__(self, client: pymongo.MongoClient, acknowledged: list[int], size: int):
        self._client, self._acknowledged, self._size = client, acknowledged, size
        super().__init__(self._write)

    def _write(self) -> None:
        with self._client:
            while not self.over.is_set():
                batch: list[dict[str, Any]] = [{"k": next(_keys)} for _ in range(self._size)]
                try:
                    self._client["shop"]["orders"].insert_many(batch, ordered=self._size % 2 == 0)
                except PyMongoError:
                    continue
                self._acknowledged.extend(d["k"] for d in batch)


@pytest.mark.full
def test_primaries_come_and_go(tmp_path: pathlib.Path):
    old = 1000
    with ReplicaSet() as rs:
        direct = pymongo.MongoClient(rs.uri)
        orders = direct["shop"].get_collection(
            "orders", read_concern=pymongo.read_concern.ReadConcern("majority"))
        orders.create_index("n", unique=True, sparse=True)
        orders.insert_many([{"k": next(_keys), "old": True} for _ in range(old)])
        config = configuration(rs, [{"ns": "shop.orders", "field": "n", "strategy": "gapless"}])
        config["upstream"]["uri"] = rs.uri
        with Proxy(config) as first, Proxy(config) as second:
            acknowledged: list[int] = []
            with ExitStack() as writers:
                for proxy, size in ((first, 1), (first, 2), (second, 5), (second, 8)):
                    writers.enter_context(Writer(proxy.set_client(rs.name), acknowledged, size))
                backfill = Backfill(tmp_path, config, "shop.orders", "n", "--rate", "40")
                for disturb in (rs.step_down, rs.step_down, lambda: rs.primary.kill(), lambda: None):
                    so_far = len(acknowledged)
                    eventually(lambda: len(acknowledged) > so_far + 100, 60)
                    disturb()
            done = backfill.end()
        assert done.code == 0 and done.number("given") == old, done
        assert not updated_twice(direct, "shop.orders")
        found = {d["k"]: d["n"] for d in orders.find({"n": {"$exists": True}})}
        assert sorted(found.values()) == list(range(1, len(found) + 1))
        assert set(acknowledged) <= set(found)
        direct.close()


def test_the_majority_that_is_asked_for_as_a_number():
    """Of three members, two are one, so that the proxy need not read what it has just stored; three are more."""
    with ReplicaSet() as rs:
        config = configuration(rs, [{"ns": "shop.orders", "field": "n", "strategy": "gapless"}])
        config["upstream"]["uri"] = rs.uri
        rs.primary.client.shop.orders.create_index("n", unique=True, sparse=True)
        with Proxy(config) as proxy, proxy.set_client(rs.name) as client, Profiler(rs.primary, "shop"):
            for members in (2, 3):
                orders = client.shop.get_collection("orders", write_concern=pymongo.WriteConcern(members))
                orders.insert_one({"members": members})
            sent = list(rs.primary.client.shop["system.profile"].find({"command.insert": "orders"}).sort("ts"))
        assert [each["command"]["writeConcern"]["w"] for each in sent] == ["majority", 3]
        assert [each["n"] for each in rs.primary.client.shop.orders.find().sort("members")] == [1, 2]
