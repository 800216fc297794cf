"""Spaces of random numbers that fill up: the proxy looks up which are free instead of trying them.

Batches of 1,000 go into five digits of which 89 % are taken, where a blind draw would send each
document nine times on average.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.admin import LISTEN, Admin
from support.mongod import Mongod
from support.process import eventually
from support.profiler import Profiler
from support.proxy import Proxy, configuration
from test_inspection import rule

SPACE = 100_000
TAKEN = 89_000
BATCH = 1_000
NANOID = {"strategy": "nanoid", "digits": None, "size": 5, "alphabet": "qwertzuiop", "prefix": "c-"}
MOST_COMMANDS = 10

INDEXES: dict[str, dict[str, Any]] = {
    "sparse": {"sparse": True},
    "exists": {"partialFilterExpression": {"n": {"$exists": True}}},
    "type": {"partialFilterExpression": {"n": {"$type": ["int", "long", "string"]}}},
}


def as_number(number: int) -> Any:
    return number


def as_text(number: int) -> Any:
    return f"{number:05}"


def as_nanoid(number: int) -> Any:
    return "c-" + as_text(number).translate(str.maketrans("0123456789", NANOID["alphabet"]))


def fill(mongod: Mongod, db: str, make: Callable[[int], Any] = as_number, *, field: str = "n",
         index: str = "sparse", collection: str = "orders") -> None:
    """89 % of the numbers, in random order."""
    orders = mongod.client[db][collection]
    if field != "_id":
        orders.create_index(field, unique=True, **INDEXES[index])
    orders.insert_many([{field: make(number)} for number in random.sample(range(SPACE), TAKEN)])


def commands(mongod: Mongod, db: str) -> int:
    """All that the profiler has of the collection: the client's, and the proxy's own."""
    seen = list(mongod.client[db]["system.profile"].find({"ns": f"{db}.orders"}))
    print([(str(each["ts"]), each["op"], each.get("ninserted"), each.get("nreturned"))
           for each in seen])  # for the report of a failure
    return len(seen)


def count(mongod: Mongod, db: str) -> int:
    return mongod.client[db].orders.count_documents({})


def insert(proxy: Proxy, db: str, ordered: bool, documents: int = BATCH) -> None:
    with proxy.client() as client:
        stored = client[db].orders.insert_many([{} for _ in range(documents)], ordered=ordered)
        assert len(stored.inserted_ids) == documents


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_stores_a_batch_in_few_commands(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str, ordered: bool,
        known: bool) -> None:
    """Whether the proxy has counted the documents, or believes that the collection is empty."""
    if known:
        fill(standalone, coll)
    proxy = start_proxy(configuration(
        standalone, [rule(f"{coll}.orders", field="n", digits=5)], admin=LISTEN))
    admin = Admin(proxy)
    if known:
        eventually(lambda: admin.metrics()("idproxy_rule_documents") == TAKEN, 20)
    else:
        eventually(lambda: admin.metrics()("idproxy_rule_documents") == 0, 20)
        fill(standalone, coll)
    with Profiler(standalone, coll):
        insert(proxy, coll, ordered)
        sent = commands(standalone, coll)
    assert count(standalone, coll) == TAKEN + BATCH
    assert sent <= MOST_COMMANDS
    filled = admin.metrics()("idproxy_rule_fill_ratio")
    assert filled == pytest.approx((TAKEN + BATCH / 2) / SPACE, abs=0.05)


@pytest.mark.parametrize("more, make, index", [
    ({"output": "string"}, as_text, "sparse"), ({"output": "int32"}, as_number, "exists"),
    ({"output": "string"}, as_text, "type"), ({"field": "_id"}, as_number, ""), (NANOID, as_nanoid, "sparse")],
    ids=["string", "int32", "type", "_id", "nanoid"])
def test_looks_up_each_form_of_number(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str, more: dict[str, Any],
        make: Callable[[int], Any], index: str) -> None:
    """The collection matches a wildcard: the first batch finds out how full it is."""
    described = {"field": "n", "digits": 5, "assign": "always", **more}
    described = {key: value for key, value in described.items() if value is not None}
    fill(standalone, coll, make, field=described["field"], index=index)
    proxy = start_proxy(configuration(standalone, [rule(f"{coll}.*", **described)]))
    with Profiler(standalone, coll):
        insert(proxy, coll, ordered=True)
        sent = commands(standalone, coll)
    assert count(standalone, coll) == TAKEN + BATCH
    assert sent <= MOST_COMMANDS


def test_single_inserts_rarely_collide(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    fill(standalone, coll)
    proxy = start_proxy(configuration(
        standalone, [rule(f"{coll}.orders", field="n", digits=5)], admin=LISTEN))
    metrics = Admin(proxy).metrics
    eventually(lambda: metrics()("idproxy_rule_documents") == TAKEN, 20)
    with proxy.client() as client:
        for _ in range(500):
            client[coll].orders.insert_one({})
    assert count(standalone, coll) == TAKEN + 500
    assert metrics()("idproxy_rule_documents_resent_total") < 50


def test_several_clients_fill_the_last_numbers(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    """Three digits, nearly all of which are used in the end. Nobody gets an error before that."""
    standalone.client[coll].orders.create_index("n", unique=True)
    proxies = [start_proxy(configuration(standalone, [
        rule(f"{coll}.orders", field="n", digits=3, max_fill=0.99)])) for _ in range(2)]
    for ordered in (True, False):
        for proxy in proxies:
            for _ in range(12):
                insert(proxy, coll, ordered, documents=20)
    assert count(standalone, coll) == 960


def test_does_not_need_the_id_store(
        standalone: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    """A store that stops answering costs one wait of a second. Then draws are blind, as ever."""
    with Mongod() as store:
        for mongod in (standalone, store):
            orders = mongod.client[coll].orders
            orders.create_index("n", unique=True)
            orders.insert_many([{"n": number} for number in range(50)])
        proxy = start_proxy(configuration(
            standalone, [rule(f"{coll}.orders", field="n", digits=2)], admin=LISTEN, store=store))
        metrics = Admin(proxy).metrics
        eventually(lambda: metrics()("idproxy_rule_documents") == 50, 20)
        store.process.send_signal(signal.SIGSTOP)
        try:
            begin = time.monotonic()
            for _ in range(20):
                insert(proxy, coll, ordered=True, documents=1)
            assert time.monotonic() - begin < 10
        finally:
            store.process.send_signal(signal.SIGCONT)
    assert count(standalone, coll) == 70
