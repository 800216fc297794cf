"""reserve while primaries step down and die: no value is stored twice, though no index keeps it from
that, each document has its reservation, and the sweeper takes none of them."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from typing import Any

import pymongo
import pytest
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from support.counters import Load, insert
from support.process import eventually
from support.proxy import Proxy, configuration
from support.replica_set import ReplicaSet
from support.threads import Threads

AN_AGE = datetime.timedelta(hours=25)


class Orders:
    """The documents and the reservations, as a majority of the members has them."""

    def __init__(self, three: ReplicaSet, layout: str):
        db = three.client.get_database("shop", read_concern=ReadConcern("majority"))
        self._name = "_id" if layout == "id" else "n"
        self.orders, self._reservations = db.orders, db.orders__n

    def documents(self) -> dict[int, Any]:
        """Their ids by their numbers, none of which is there twice."""
        found = list(self.orders.find({"n": {"$exists": True}}))
        by_number = {each["n"]: each["_id"] for each in found}
        assert len(by_number) == len(found), "a number is stored twice"
        return by_number

    def reserved(self) -> dict[int, Any]:
        return {each[self._name]: each["parent_id"] for each in self._reservations.find()}

    def orphans(self) -> int:
        documents, reserved = self.documents(), self.reserved()
        assert documents.items() <= reserved.items(), "a document without its reservation"
        return len(reserved) - len(documents)

    def age(self) -> None:
        """So that the sweeper looks at all reservations."""
        self._reservations.update_many(
            {}, [{"$set": {"at": {"$subtract": ["$at", AN_AGE // datetime.timedelta(milliseconds=1)]}}}])


class Driver(Threads):
    """Inserts batches with a driver, which repeats what a failover has interrupted."""

    def __init__(self, client: pymongo.MongoClient, keys: itertools.count[int], size: int):
        self._client, self._keys, self._size = client, keys, size
        self.acknowledged: list[int] = []
        super().__init__(self._insert)

    def _insert(self) -> None:
        with self._client:
            while not self.over.is_set():
                batch: list[dict[str, Any]] = [{"k": next(self._keys)} for _ in range(self._size)]
                try:
                    self._client.shop.orders.insert_many(batch, ordered=self._size % 2 == 0)
                    self.acknowledged.extend(each["k"] for each in batch)
                except PyMongoError:
                    continue


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("layout", ["id", "field"])
def test_primaries_come_and_go(start_proxy: Callable[..., Proxy], layout: str, record):
    rule = {"ns": "shop.orders", "field": "n", "strategy": "counter", "block": 10,
            "reserve": {"collection": "orders__n", "layout": layout}}
    with ReplicaSet() as three:
        there = Orders(three, layout)
        config = configuration(three, [rule])
        config["upstream"]["uri"] = three.uri
        proxies = [start_proxy(config) for _ in range(2)]
        keys = itertools.count(10**6)
        drivers = [Driver(proxy.set_client(three.name), keys, size)
                   for proxy, size in zip(proxies, (3, 6))]
        load = Load([lambda p=p: p.listener_of(three.primary.address) for p in proxies],
                    "shop.orders")
        load.excused = lambda reply: reply.get("code") == 6
        with drivers[0], drivers[1], load:
            for disturb in (three.step_down, lambda: three.step_up(three.secondaries[0]),
                            three.step_down, lambda: three.primary.kill(),
                            lambda: three.step_up(three.secondaries[0]), lambda: None):
                before = [len(each.acknowledged) for each in drivers]
                load.await_documents(60, 120)
                eventually(lambda: all(len(each.acknowledged) > so_far + 30
                                       for each, so_far in zip(drivers, before)), 120)
                disturb()
        for proxy in proxies:
            proxy.stop()
        three.heal()
        left = there.orphans()
        record("orphans that failovers left", left)
        stored = {each["k"] for each in there.orders.find({"n": {"$exists": True}})}
        assert stored >= {k for each in drivers for k in each.acknowledged}
        assert stored >= {k for _, batch in load.acknowledged for k in batch}
        documents = there.documents()
        there.age()
        sweeping = start_proxy(config)
        eventually(lambda: not there.orphans(), 60, "the orphans are swept")
        assert there.documents() == documents and there.reserved() == documents
        sweeping.address = sweeping.listener_of(three.primary.address)
        assert insert(sweeping, "shop.orders", 20)["n"] == 20
        assert len(there.documents()) == len(documents) + 20
        assert not there.orphans()
