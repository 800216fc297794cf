"""What takes time does not stop those who ask whether the process lives, nor systemd's watchdog, nor a stop."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import signal
import threading
from collections.abc import Iterator

import pytest

from support.admin import LISTEN, Admin
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.systemd import ServiceManager, frozen

WALL = 0x40000000  # __WALL of waitpid(2): threads, too

RULE = {"ns": "alive.orders", "field": "number", "strategy": "counter"}


@pytest.fixture
def manager() -> Iterator[ServiceManager]:
    with ServiceManager() as running:
        yield running


def thread_of(proxy: Proxy, name: str) -> int:
    (found,) = [int(task.name) for task in pathlib.Path(f"/proc/{proxy.pid}/task").iterdir()
                if (task / "comm").read_text() == f"{name}\n"]
    return found


def under_way(admin: Admin) -> bool:
    return json.loads(admin.get("/status.json").text)["configuration"]["reloads"]["under_way"]


def test_a_reload_that_waits_for_a_frozen_store(start_proxy, tmp_path):
    """It waits two seconds for what the new rules need."""
    with Mongod("rs0") as mongod:
        file = tmp_path / "config.yaml"

        def write(**more: object) -> None:
            file.write_text(json.dumps({**configuration(mongod, [{**RULE, **more}], admin=LISTEN),
                                        "listen": {"port": 0}, "log": {"format": "json"}}))

        write()
        proxy = start_proxy(file)
        admin = Admin(proxy)
        mongod.process.send_signal(signal.SIGSTOP)
        try:
            write(start=1000)
            proxy.process.send_signal(signal.SIGHUP)
            eventually(lambda: under_way(admin))
            assert admin.get("/livez").status == 200 and admin.get("/readyz").status == 200
            assert admin.get("/metrics").status == 200
            proxy.process.send_signal(signal.SIGHUP)  # another one follows
            assert under_way(admin) and not proxy.find_events("reloaded")
        finally:
            mongod.process.send_signal(signal.SIGCONT)
        eventually(lambda: len(proxy.find_events("reloaded")) == 2, 20)
        eventually(lambda: not under_way(admin))


def test_files_that_cannot_be_read(standalone: Mongod, manager: ServiceManager, tmp_path):
    """As on a mount whose server is gone: whoever reads them stands still."""
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({**configuration(standalone, [RULE], admin=LISTEN), "listen": {"port": 0},
                                "log": {"format": "json"}, "reload": "watch"}))
    proxy = Proxy(file, {**manager.environment, "WATCHDOG_USEC": "900000"})
    admin = Admin(proxy)
    thread = thread_of(proxy, "files")
    with contextlib.suppress(ProcessLookupError), frozen(thread):  # it may have ended by the end of this
        fed = len(manager.times("WATCHDOG"))
        proxy.process.send_signal(signal.SIGHUP)
        manager.wait("RELOADING", "1")
        eventually(lambda: len(manager.times("WATCHDOG")) > fed + 5, 20)
        assert admin.get("/livez").status == 200 and admin.get("/readyz").text.startswith("ready\n")
        with proxy.client() as client:
            client.alive.orders.insert_one({})
        proxy.process.send_signal(signal.SIGTERM)
        proxy.wait_event("reload_hangs", 20)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(thread, WALL)  # as long as nobody asks for it, the process does not end
    assert proxy.process.wait(20) == 0
    proxy.kill()


def test_a_page_that_takes_long(standalone: Mongod, manager: ServiceManager, start_proxy):
    """The thread that makes the pages stands still, and as many wait for them as may."""
    proxy = start_proxy(configuration(standalone, [RULE], admin=LISTEN),
                        {**manager.environment, "WATCHDOG_USEC": "900000"})
    admin = Admin(proxy)
    pages: list[int] = []

    def read() -> None:
        with contextlib.suppress(http.client.RemoteDisconnected):  # more of them than may wait
            pages.append(admin.get("/?clients=app:x").status)

    def one_more() -> int:
        connection = http.client.HTTPConnection(admin.address, timeout=1)
        try:
            connection.request("GET", "/status.json")
            return connection.getresponse().status
        except TimeoutError:
            taken.append(1)  # in place of a reader that came later
            return 0
        finally:
            connection.close()

    taken: list[int] = []
    readers = [threading.Thread(target=read) for _ in range(64)]
    with frozen(thread_of(proxy, "control")):
        for each in readers:
            each.start()
        eventually(lambda: one_more() == 503, 20)
        fed = len(manager.times("WATCHDOG"))
        for _ in range(20):
            assert admin.get("/livez").status == 200
        eventually(lambda: len(manager.times("WATCHDOG")) > fed + 2, 20)
        assert 200 not in pages
    for each in readers:
        each.join()
    assert pages.count(200) >= 64 - len(taken)
