"""gapless while primaries step down and die: consecutive, and nothing that was acknowledged is lost.
Two proxies and a backfill take each other's numbers."""

from __future__ import annotations

import itertools
import pathlib
import threading
from typing import Any

import pymongo
import pytest
from pymongo.errors import PyMongoError

from support.backfill import Backfill, updated_twice
from support.process import eventually
from support.proxy import Proxy, configuration
from support.replica_set import ReplicaSet

_keys = itertools.count()


def write(client: pymongo.MongoClient, until: threading.Event, acknowledged: list[int],
          size: int) -> None:
    while not until.is_set():
        batch: list[dict[str, Any]] = [{"k": next(_keys)} for _ in range(size)]
        try:
            client["shop"]["orders"].insert_many(batch, ordered=size % 2 == 0)
        except PyMongoError:
            continue
        acknowledged.extend(d["k"] for d in batch)


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
            until = threading.Event()
            acknowledged: list[int] = []
            clients = [proxy.set_client(rs.name) for proxy in (first, second) for _ in range(2)]
            threads = [threading.Thread(target=write, args=(client, until, acknowledged, size))
                       for client, size in zip(clients, (1, 2, 5, 8))]
            for each in threads:
                each.start()
            backfill = Backfill(tmp_path, config, "shop.orders", "n", "--rate", "40")
            for disturb in (rs.step_down, rs.step_down, lambda: rs.primary.kill(), lambda: None):
                so_far = len(acknowledged)
                eventually(lambda: len(acknowledged) > so_far + 100, 60)
                disturb()
            until.set()
            for each in threads:
                each.join(60)
            for client in clients:
                client.close()
            done = backfill.end()
        assert done.code == 0 and done.number("given") == old, done
        assert not updated_twice(direct, "shop.orders")
        found = {d["k"]: d["n"] for d in orders.find({"n": {"$exists": True}})}
        assert sorted(found.values()) == list(range(1, len(found) + 1))
        assert set(acknowledged) <= set(found)
        direct.close()
