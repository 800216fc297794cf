"""Writers through two proxies while one of them is killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from . import wire
from .proxy import Proxy
from .thief import insert_message, session
from .threads import Threads

_BATCH = 5
_ENOUGH = 50


def insert_until_killed(kept: Proxy, killed: Proxy, ns: str,
                        document: Callable[[random.Random], dict[str, Any]]) -> list[Any]:
    """The `k` of the documents that were acknowledged.

    One writer uses `kept`, three use `killed`, until that is killed in the middle of it.
    """
    acknowledged: list[Any] = []
    lost: list[Proxy] = []
    enough, gone = threading.Event(), threading.Event()

    def write(proxy: Proxy, number: int) -> None:
        choose = random.Random(number)
        try:
            with wire.WireClient(proxy.address, 30) as client:
                while not (proxy is kept and gone.is_set()):
                    batch = [document(choose) for _ in range(_BATCH)]
                    reply = client.call(insert_message(ns, batch, more=session()))
                    if reply["ok"] and reply["n"] == _BATCH:
                        acknowledged.extend(each["k"] for each in batch)
                    if len(acknowledged) >= _ENOUGH:
                        enough.set()
        except (OSError, wire.Closed):
            lost.append(proxy)

    with Threads(*(partial(write, proxy, number)
                   for number, proxy in enumerate((kept, killed, killed, killed)))):
        made_progress = enough.wait(30)
        killed.kill()
        gone.set()
    assert made_progress and kept not in lost
    return acknowledged
