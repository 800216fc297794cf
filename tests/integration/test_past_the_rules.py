"""Commands by which the server stores documents itself: they get no values, and the log and the metrics say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support import scrape
from support.admin import LISTEN
from support.mongod import Mongod
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
    labels = f'rule="0",ns="{coll}.orders",field="number",strategy="counter",' \
        f'reason="{write.__name__}"'
    assert scrape.metric(proxy, f"idproxy_rule_upserts_forwarded_total{{{labels}}}") == 2
