"""The status page in a browser: what it shows in each state, in light and dark, on a phone, without
JavaScript; that axe finds nothing, the policy forbids nothing, and nobody else is asked."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest

from conftest import HERE, installed, need
from support import wire
from support.admin import LISTEN, Admin
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, configuration

pytestmark = pytest.mark.timeout(600)

LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 24, 28)"
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def server() -> Iterator[Mongod]:
    with Mongod() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(server) -> Iterator[Proxy]:
    """With a rule that gives no values, one whose numbers run out, and a server that is down."""
    rules = [{"ns": "shop.orders", "field": "number", "strategy": "counter"},
             {"ns": "shop.ends", "field": "n", "strategy": "counter", "max": 1000},
             {"ns": "shop.bare", "field": "n", "strategy": "gapless"},
             {"ns": f"x.{EVIL}", "field": EVIL, "strategy": "uuid"}]
    server.client.shop.bare.insert_one({"n": 1})
    config = configuration(server, rules, store=server, admin=LISTEN)
    config["upstream"]["uri"] = f"mongodb://{server.address},127.0.0.1:{free_port()}"
    config["limits"] = {"drain": "60s"}  # while one looks at the page
    with Proxy(config) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def client(proxy) -> Iterator[pymongo.MongoClient]:
    with pymongo.MongoClient(f"mongodb://{proxy.listeners[0][0]}", directConnection=True,
                             appname=EVIL) as client:
        client.shop.orders.insert_many([{} for _ in range(7)])
        client.shop.ends.insert_many([{} for _ in range(995)])
        yield client


@pytest.fixture(scope="module")
def show(proxy, tmp_path_factory, node_binary) -> Callable[..., dict[str, Any]]:
    """Opens the page, as page.js does, and says what is there."""
    modules = installed(HERE / "node" / "page" / "package.json")
    need("chromium")
    url = f"http://{Admin(proxy).address}"
    shots = pathlib.Path(os.environ.get("IDPROXY_SHOTS") or tmp_path_factory.mktemp("shots"))

    def open_page(name: str, **options: Any) -> dict[str, Any]:
        options = {"width": 1280, "scheme": "light", "script": True,
                   "shot": str(shots / f"{name}.png"), **options}
        done = subprocess.run(
            [node_binary, HERE / "node" / "page" / "page.js", url, json.dumps(options)],
            capture_output=True, text=True, timeout=120,
            env={**os.environ, "NODE_PATH": str(modules)})
        assert done.returncode == 0, done.stderr
        page = json.loads(done.stdout)
        assert page["errors"] == [] and page["violations"] == []
        assert page["hosts"] == [url.removeprefix("http://")]
        assert page["width"] <= options["width"], "it scrolls sideways"
        return page

    return open_page


def test_busy_and_with_all_that_can_be_wrong(show, proxy, client):
    proxy.wait_event("numbers_run_out", timeout=30)
    page = show("busy")
    for heading in ("What is wrong now", "Servers", "Rules", "Clients", "Limits"):
        assert heading in page["headings"]
    assert page["tables"] >= 5 and page["charts"] == 8
    for text in ("cannot be reached", "no unique index guards the field", "left up to max",
                 "not ready", "STANDALONE", "down", EVIL, "PyMongo"):
        assert text in page["text"], text
    assert page["background"] == LIGHT


@pytest.mark.parametrize("options", [
    {"scheme": "dark"}, {"width": 390}, {"script": False}], ids=["dark", "phone", "without-script"])
def test_it_looks_as_it_should(show, client, request, options):
    page = show(request.node.callspec.id, **options)
    assert page["background"] == (DARK if options.get("scheme") == "dark" else LIGHT)
    assert "shop.orders" in page["text"] and page["charts"] == 8


def test_it_follows_the_proxy(show, client):
    """Without being loaded again: the text comes after the page was opened."""
    timer = threading.Timer(4, client.shop.orders.insert_many, ([{} for _ in range(4321)],))
    timer.start()
    assert "4,328" in show("follows", **{"await": "4,328"})["text"]
    timer.join()


@contextlib.contextmanager
def held_up(server: Mongod) -> Iterator[None]:
    """Finds in shop.orders get no answer; everything else does."""
    def fail_point(mode: str) -> None:
        server.client.admin.command("configureFailPoint", "waitInFindBeforeMakingBatch",
                                    mode=mode, data={"nss": "shop.orders"})

    fail_point("alwaysOn")
    try:
        yield
    finally:
        fail_point("off")


def test_while_it_stops(show, proxy, client, server):
    """With a server that does not answer. The last of this module, since the proxy ends with it."""
    def finds() -> list[dict[str, Any]]:
        return list(server.client.admin.aggregate([
            {"$currentOp": {}}, {"$match": {"command.find": "orders"}}]))

    client.close()  # while there is a proxy that it can tell: else it looks for one
    with held_up(server), proxy.raw_client() as last:
        last.send(wire.command({"find": "orders", "$db": "shop"}))
        eventually(finds, 30)
        proxy.wait_event("server_slow", timeout=60)
        proxy.process.send_signal(signal.SIGTERM)
        proxy.wait_event("draining", timeout=30)
        page = show("draining")
        for text in ("the proxy is stopping: it accepts no new clients", "has not answered a request for",
                     "slow: STANDALONE"):
            assert text in page["text"], text
    assert proxy.process.wait(60) == 0
