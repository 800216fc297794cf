"""Type=notify: what systemd is told, and that it is told nothing more when a thread is stuck."""

from __future__ import annotations

import json
import pathlib
import signal
import statistics
import time
from collections.abc import Iterator

import pytest

from support import wire
from support.admin import LISTEN, Admin
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.systemd import ServiceManager, frozen
from support.thief import Thief, holding

PING = {"ping": 1, "$db": "admin"}
RULES = [{"ns": "shop.*", "field": "number", "strategy": "counter"}]


@pytest.fixture
def manager() -> Iterator[ServiceManager]:
    with ServiceManager() as running:
        yield running


@pytest.fixture
def thief(standalone: Mongod) -> Iterator[Thief]:
    with Thief(standalone) as between:
        yield between


def test_the_life_of_a_service(standalone, thief, manager, tmp_path):
    file = tmp_path / "config.yaml"
    config = {"listen": {"port": 0}, "admin": {"listen": None}, "log": {"format": "json"},
              "upstream": {"uri": thief.uri}, "id_store": {"uri": standalone.uri}, "rules": RULES,
              "limits": {"drain": "30s"}}
    file.write_text(json.dumps(config))
    proxy = Proxy(file, manager.environment)
    manager.wait("READY", "1")
    serving = f"serving {proxy.address} -> {thief.address}; "
    manager.wait("STATUS", serving + "0 clients", 30)
    with wire.WireClient(proxy.address, 30) as client:
        client.call(PING)
        manager.wait("STATUS", serving + "1 client", 30)

        proxy.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(manager.values("READY")) == 2, 10)
        (reloading,) = [m for m in manager.messages() if m.get("RELOADING") == "1"]
        told = int(reloading["MONOTONIC_USEC"]) / 1e6
        assert abs(told - time.clock_gettime(time.CLOCK_MONOTONIC)) < 20
        file.write_text("nonsense")
        proxy.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(manager.values("READY")) == 3, 10)
        manager.wait("STATUS", serving + "1 client; the last reload failed", 30)

        with holding(thief, "ping") as ping:
            client.send(wire.command(PING))
            ping.await_held()
            proxy.process.send_signal(signal.SIGTERM)
            manager.wait("STOPPING", "1")
            manager.wait("STATUS", "draining; 1 client", 30)
            manager.wait("EXTEND_TIMEOUT_USEC", "", 30)
            ping.release()
            assert client.receive().body["ok"] == 1
    proxy.stop()
    order = [key for message in manager.messages() for key in message
             if key in ("READY", "RELOADING", "STOPPING")]
    assert order == ["READY", "RELOADING", "READY", "RELOADING", "READY", "STOPPING"]


def test_without_systemd_nobody_is_told(standalone, start_proxy):
    proxy = start_proxy(configuration(standalone, RULES))
    assert proxy.alive()


def test_the_watchdog_is_fed_in_time(standalone, manager, start_proxy):
    start_proxy(configuration(standalone, RULES),
                {**manager.environment, "WATCHDOG_USEC": "900000"})
    fed = eventually(lambda: len(found := manager.times("WATCHDOG")) >= 10 and found, 30)
    assert statistics.median(later - earlier for earlier, later in zip(fed, fed[1:])) < 0.6


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_stuck_thread(standalone, manager, start_proxy, which):
    """Its clients are not served, so systemd is to restart the proxy; others are, meanwhile."""
    proxy = start_proxy(configuration(standalone, RULES, admin=LISTEN, threads=2),
                        {**manager.environment, "WATCHDOG_USEC": "900000"})
    admin = Admin(proxy)
    index = ("first", "second").index(which)
    threads = eventually(lambda: len(found := io_threads(proxy)) == 2 and found)
    manager.wait("WATCHDOG", "1")
    with frozen(threads[index]):
        time.sleep(0.5)
        fed = len(manager.times("WATCHDOG"))
        proxy.wait_event("io_thread_stuck", 15, thread=index)
        dead = eventually(lambda: (page := admin.get("/livez")).status == 503 and page, 15)
        assert dead.text.startswith(f"thread {index}: no answer for 1")
        assert admin.get("/readyz").status == 200 and admin.get("/metrics").status == 200
        assert len(manager.times("WATCHDOG")) <= fed + 1
        if which == "first":  # without it no drain ends: systemd is given no reason to wait
            proxy.process.send_signal(signal.SIGTERM)
            manager.wait("STATUS", "draining")
            time.sleep(1)
            assert not manager.values("EXTEND_TIMEOUT_USEC")
    if which == "second":
        proxy.wait_event("io_thread_answers")
        assert admin.get("/livez").status == 200
        eventually(lambda: len(manager.times("WATCHDOG")) > fed + 1, 20)


def io_threads(proxy: Proxy) -> list[int]:
    """The threads that wait for sockets, but for those that serve none; the main thread is first."""
    found = []
    for task in pathlib.Path(f"/proc/{proxy.pid}/task").iterdir():
        try:
            waits = "ep" in (task / "wchan").read_text()  # do_epoll_wait, or ep_poll
            if waits and (task / "comm").read_text().strip() not in ("control", "pulse", "files"):
                found.append(int(task.name))
        except OSError:
            pass  # ended meanwhile
    return sorted(found)
