"""Numbers that run out are announced: by the log, /readyz, the metrics and systemd's status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.admin import LISTEN, Admin
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.systemd import ServiceManager

COUNTER = {"strategy": "counter", "block": 1}
GAPLESS = {"strategy": "gapless", "unique_index": "create"}
WIDE = {"output": "string", "template": "A-{counter:03}"}
INT32 = {"output": "int32"}
LAST = 2**31 - 1

SOON = 30


@pytest.fixture
def manager() -> Iterator[ServiceManager]:
    with ServiceManager() as running:
        yield running


@pytest.mark.parametrize("described, highest, text", [
    ({**COUNTER, "start": 1, "max": 1000}, 992, "8 numbers are left up to max"),
    ({**COUNTER, **INT32, "start": LAST - 2000}, LAST - 7, "7 numbers are left up to max"),
    ({**COUNTER, **WIDE}, 995, "4 numbers are left in the template's width, and then values get longer"),
    ({**GAPLESS, **INT32}, LAST - 7, "7 numbers are left up to max"),
    ({**GAPLESS, **WIDE}, 995,
     "4 numbers are left in the template's width, and then values get longer"),
], ids=["counter", "int32", "width", "gapless int32", "gapless width"])
def test_is_announced(standalone: Mongod, start_proxy: Callable[..., Proxy],
                      manager: ServiceManager, coll: str,
                      described: dict[str, Any], highest: int, text: str) -> None:
    """The collection has a document with a high number: the next ones come close to the end."""
    orders = standalone.client[coll].orders
    orders.create_index("n", unique=True)
    orders.insert_one({"n": f"A-{highest - 1:03}" if "template" in described else highest - 1})
    proxy = start_proxy(configuration(
        standalone, [{"ns": f"{coll}.orders", "field": "n", **described}], admin=LISTEN),
        manager.environment)
    admin = Admin(proxy)
    with proxy.client() as client:
        client[coll].orders.insert_one({})

    def announced() -> bool:
        found = proxy.find_events("numbers_run_out")
        return any(f"): {text}" in each["message"] and each["ns"] == f"{coll}.orders" for each in found)

    eventually(announced, SOON, text)
    page = admin.get("/readyz")
    assert page.status == 200 and f"): {text}" in page.text
    assert admin.metrics()("idproxy_rule_numbers_run_out") == 1
    eventually(lambda: "numbers run out" in manager.values("STATUS")[-1], SOON)


def test_enough_is_no_news(standalone: Mongod, start_proxy: Callable[..., Proxy],
                           coll: str) -> None:
    proxy = start_proxy(configuration(
        standalone, [{"ns": f"{coll}.orders", "field": "n", **COUNTER, **WIDE}], admin=LISTEN))
    admin = Admin(proxy)
    with proxy.client() as client:
        client[coll].orders.insert_one({})
    eventually(lambda: admin.metrics()("idproxy_rule_next_number") == 2, SOON)
    assert admin.metrics()("idproxy_rule_numbers_run_out") == 0
    assert ": ready\n" in admin.get("/readyz").text
    assert not proxy.find_events("numbers_run_out")
