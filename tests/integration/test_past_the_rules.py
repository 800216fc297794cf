"""Commands that store documents past the rules: they get no values, and the log and the metrics say so."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any

import pytest
from bson import ObjectId
from pymongo.errors import PyMongoError

from support import scrape
from support.admin import LISTEN
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration


def merge(shop: Any) -> None:
    list(shop.carts.aggregate([{"$merge": {"into": "orders"}}]))


def out(shop: Any) -> None:
    list(shop.carts.aggregate([{"$out": "orders"}]))


def apply_ops(shop: Any) -> None:
    shop.client.admin.command("applyOps", [
        {"op": "i", "ns": f"{shop.name}.orders", "o": {"_id": n}} for n in range(3)])


@pytest.mark.parametrize("write", [merge, out, apply_ops], ids=lambda each: each.__name__)
def test_are_counted_and_logged(replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str,
                                write: Callable[[Any], None]) -> None:
    rule = {"ns": f"{coll}.orders", "field": "number", "strategy": "counter"}
    proxy = start_proxy(configuration(replica_set, [rule], admin=LISTEN))
    with proxy.client() as client:
        client[coll].create_collection("orders")
        client[coll].carts.insert_many([{"x": n} for n in range(3)])
        for _ in range(2):
            write(client[coll])
            client[coll].orders.delete_many({})
        client[coll].orders.insert_one({})
        assert client[coll].orders.find_one()["number"] == 1
        # Other aggregations pass as ever.
        assert len(list(client[coll].carts.aggregate([{"$match": {}}]))) == 3
    event, = proxy.find_events("written_past_the_rules")
    assert (event["ns"], event["reason"], event["commands"]) == (
        f"{coll}.orders", write.__name__, 1)
    assert f"mongo-idproxy backfill --config FILE --ns {coll}.orders --field number" \
        in event["message"]
    assert counted(proxy, f"{coll}.orders", write.__name__) == 2


def test_the_command_that_is_logged_is_one_for_the_shell(replica_set: Mongod, start_proxy: Callable[..., Proxy],
                                                         coll: str) -> None:
    """A client chooses the name of a collection."""
    proxy = start_proxy(configuration(replica_set, [
        {"ns": f"{coll}.*", "field": "number", "strategy": "counter"}]))
    names = ["or ders", "it's; true", "a\u202eb"]
    with proxy.client() as client:
        client[coll].carts.insert_one({"x": 1})
        for name in names:
            list(client[coll].carts.aggregate([{"$merge": {"into": name}}]))
    blank, quote, unseen = (event["message"] for event in proxy.find_events("written_past_the_rules"))
    for name, message in zip(names, [blank, quote]):
        command = message.partition("; mongo-idproxy ")[2].partition(" gives values")[0]
        assert shlex.split(command) == [
            "backfill", "--config", "FILE", "--ns", f"{coll}.{name}", "--field", "number"]
    assert "backfill" not in unseen


def counted(proxy: Proxy, ns: str, reason: str) -> float:
    labels = f'rule="0",ns="{ns}",field="number",strategy="counter",reason="{reason}"'
    return scrape.metric(proxy, f"idproxy_rule_upserts_forwarded_total{{{labels}}}")


@pytest.mark.needs("time_series")
@pytest.mark.parametrize("options", [
    {"unique_index": "warn"},  # the collection is known before the first insert, or soon after
    {"unique_index": "create"},  # the first insert finds out
], ids=lambda each: each["unique_index"])
def test_inserts_into_time_series_collections_are_counted_and_logged(
        replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str,
        options: dict[str, str]) -> None:
    database = replica_set.client[coll]
    database.create_collection("readings", timeseries={"timeField": "at"})
    database.create_collection("view", viewOn="carts")
    now = replica_set.client.admin.command("hello")["localTime"]
    database.readings.insert_one({"at": now, "x": 0})
    bucket = database["system.buckets.readings"].find_one()
    rule = {"ns": f"{coll}.*", "field": "number", "strategy": "counter", **options}
    proxy = start_proxy(configuration(replica_set, [rule], admin=LISTEN))
    with proxy.client() as client:
        ours = client[coll]
        if options["unique_index"] == "warn":
            # The first use of the database makes the proxy look which collections are left alone.
            ours.carts.insert_one({})
            eventually(lambda: "number" not in stored(ours.readings, now), 20)
        before = counted(proxy, f"{coll}.*", "time_series")
        ours.readings.insert_many([{"at": now, "x": n} for n in range(3)])
        ours.readings.insert_one({"at": now, "x": 4})
        assert counted(proxy, f"{coll}.*", "time_series") == before + 2
        # A normal collection, a view, and a bucket as mongorestore inserts it.
        ours.carts.insert_one({})
        with pytest.raises(PyMongoError, match="is a view"):
            ours.view.insert_one({})
        ours["system.buckets.readings"].insert_one({**bucket, "_id": ObjectId()})
        assert counted(proxy, f"{coll}.*", "time_series") == before + 2
    event, = proxy.find_events("written_past_the_rules")
    assert (event["ns"], event["reason"], event["commands"]) == (
        f"{coll}.readings", "time_series", 1)
    assert "use an ordinary collection" in event["message"]
    assert "backfill" not in event["message"]
    assert all("number" not in each for each in database.readings.find({"x": {"$gte": 0}}))


def stored(readings: Any, now: Any) -> Any:
    """A document as it is after an insert through the proxy."""
    x = -time.monotonic_ns()
    readings.insert_one({"at": now, "x": x})
    return readings.find_one({"x": x})
