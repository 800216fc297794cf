"""A thread that the system refuses: nothing ends for it, it is said, and all goes on once there are
threads again."""

from __future__ import annotations

import contextlib
import os
import time

import pytest

from support import wire
from support.admin import LISTEN, Admin
from support.backfill import failing
from support.mongod import Mongod
from support.own_user import of_own_user, permit_threads, refuse_threads
from support.process import eventually
from support.proxy import ProxyFailure, configuration

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

STRATEGIES = {"counter": "counter", "gapless": "gapless", "ranges": "counter-ranges"}
RULES = [{"ns": f"threads.{each}*", "field": "n", "unique_index": "create", "strategy": strategy}
         for each, strategy in STRATEGIES.items()]


def insert_of(collection: str) -> dict:
    return {"insert": collection, "documents": [{"_id": os.urandom(8)}], "$db": "threads"}


def insert(client: wire.WireClient, collection: str) -> dict:
    return client.call(insert_of(collection))


@pytest.mark.parametrize("collection", ["counter", "gapless", "counter-ranges"])
def test_a_store_without_more_threads(replica_set: Mongod, collection: str):
    """What it does for the first insert takes turns with the rest: wildcards make nothing before."""
    by_name = replica_set.address.replace("127.0.0.1", "localhost")  # so that it is looked up
    config = configuration(replica_set, RULES, admin=LISTEN)
    config["id_store"] = {"uri": config["upstream"]["uri"]}
    config["upstream"] = {"uri": f"mongodb://{by_name}"}
    with of_own_user(config) as proxy, wire.WireClient(proxy.address) as client:
        proxy.await_server()
        admin = Admin(proxy)
        eventually(lambda: "id store: answers" in admin.get("/readyz").text, 20)
        refuse_threads(proxy)
        eventually(lambda: insert(client, collection).get("n") == 1, 20)
        with wire.WireClient(proxy.address) as another:  # whose server is looked up
            assert another.call({"ping": 1, "$db": "admin"})["ok"] == 1
        assert client.call({"ping": 1, "$db": "admin"})["ok"] == 1

        permit_threads(proxy)
        eventually(lambda: insert(client, collection).get("n") == 1, 20)
        eventually(lambda: "gives no values" not in admin.get("/readyz").text, 20)
        eventually(lambda: "id store: answers" in admin.get("/readyz").text, 20)


@pytest.mark.parametrize("threads", [4, 6, 7, 8])
def test_a_start_with_too_few(replica_set: Mongod, threads: int):
    """Which one is refused depends on their number: io threads, those of the store, those in which
    libmongoc asks servers."""
    literal = {"ns": "threads.literal", "field": "n", "strategy": "counter", "unique_index": "create"}
    config = configuration(replica_set, [literal], admin=LISTEN, threads=3)
    with of_own_user(config, threads, await_ready=False) as proxy:
        proxy.wait_event("thread_refused")
        admin = Admin(proxy)
        assert admin.get("/livez").status == 200
        eventually(lambda: "the id store cannot start a thread" in admin.get("/readyz").text, 20)
        assert "rule 0 (threads.literal, n, counter): ready" not in admin.get("/readyz").text
        permit_threads(proxy)
        proxy.wait_event("ready")
        address = proxy.wait_event("listening")["address"]
        eventually(lambda: "rule 0 (threads.literal, n, counter): ready" in
                   admin.get("/readyz").text, 20)
        with wire.WireClient(address) as client:
            assert insert(client, "literal").get("n") == 1


def test_not_even_the_first(replica_set: Mongod):
    """It ends, and says why: whoever has started it tries again."""
    without_leaks = {"ASAN_OPTIONS": "detect_leaks=0"}  # whose search takes a thread
    with (pytest.raises(ProxyFailure, match="(?s)status 69;.*cannot start a thread"),
          of_own_user(configuration(replica_set, []), 1, await_ready=False,
                      environment=without_leaks) as proxy):
        proxy.process.wait(20)
