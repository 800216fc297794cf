"""What operators see of a proxy: pages by HTTP, its log, its file descriptors, its signals."""

from __future__ import annotations

import fcntl
import http.client
import itertools
import json
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pymongo
import pytest

from support import wire
from support.admin import LISTEN, Admin
from support.middleman import Middleman
from support.mongod import Mongod
from support.process import eventually, free_port, start
from support.proxy import Proxy, binary, configuration
from support.thief import Thief, holding
from support.threads import Threads, at_once

PING = {"ping": 1, "$db": "admin"}
COUNTER = {"ns": "shop.*", "field": "number", "strategy": "counter"}
DIGITS = {"ns": "bank.*", "field": "account", "strategy": "random-digits", "digits": 12}


@pytest.fixture(scope="module")
def admin(standalone: Mongod) -> Iterator[Admin]:
    with Proxy(configuration(standalone, [COUNTER, DIGITS], admin=LISTEN)) as proxy:
        yield Admin(proxy)


class TestPages:
    @pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
    def test_page(self, admin, path):
        page = admin.get(path)
        assert page.status == 200 and page.text.endswith("\n")
        assert page.headers["Content-Type"].startswith("text/plain;")
        assert page.headers["Cache-Control"] == "no-store"
        assert page.headers["Content-Security-Policy"].startswith("default-src 'none';")
        head = admin.get(path, "HEAD")
        assert head.status == 200 and not head.text
        assert admin.get(path, "POST").status == 405

    def test_elsewhere(self, admin):
        assert admin.get("/status").status == 404

    def test_no_endpoint_without_admin_listen(self, standalone, start_proxy):
        proxy = start_proxy(configuration(standalone, [], admin={"listen": None}))
        assert not proxy.find_events("admin_listening")


class TestReadiness:
    def test_rules_and_listeners_line_by_line(self, standalone, start_proxy, coll):
        rules = [{"ns": f"{coll}.*", "field": "n", "strategy": "random-digits",
                  "unique_index": "require"}, COUNTER]
        proxy = start_proxy(configuration(standalone, rules, admin=LISTEN))
        admin = Admin(proxy)
        assert admin.get("/readyz").text.splitlines()[2] == (
            f"rule 0 ({coll}.*, n, random-digits): ready")
        with proxy.client() as client, pytest.raises(pymongo.errors.PyMongoError):
            client[coll].hidden.insert_one({})
        line = f"rule 0 ({coll}.*, n, random-digits): gives no values in 1 collection;"
        ready = eventually(lambda: (page := admin.get("/readyz")).text.count(line) and page, 40)
        assert ready.status == 200, "another proxy would be no better off"
        assert ready.text.splitlines()[0] == "ready"
        assert f"listener {proxy.address} -> {standalone.address}: server up, " in ready.text
        assert admin.metrics()("idproxy_rule_collections_not_ready", rule="0") == 1

    def test_not_before_the_first_look(self, start_proxy):
        """It takes a second where the server is silent."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            began = time.monotonic()
            proxy = Proxy({"upstream": {"uri": "mongodb://127.0.0.1:%d" % silent.getsockname()[1]},
                           "rules": [COUNTER], "admin": LISTEN}, await_ready=False)
            admin = Admin(proxy)
            page = admin.get("/readyz")
            starting = (page.status, page.text.splitlines()[0]) == (503, "starting")
            assert starting or time.monotonic() - began > 1, page.text
            assert admin.get("/livez").status == 200
            assert admin.get("/metrics").status == 200
            proxy.wait_event("ready")
            assert admin.get("/readyz").status == 200
            proxy.stop()

    def test_not_while_draining_and_served_till_the_end(self, standalone):
        with Thief(standalone) as server, holding(server, "ping") as ping:
            proxy = Proxy(configuration(
                server, [COUNTER], standalone, admin=LISTEN, limits={"drain": "30s"}))
            admin = Admin(proxy)
            with wire.WireClient(proxy.address, 30) as client:
                client.send(wire.command(PING))
                ping.await_held()
                proxy.process.send_signal(signal.SIGTERM)
                page = eventually(lambda: (page := admin.get("/readyz")).status == 503 and page, 5)
                assert page.text.startswith("draining\n")
                assert admin.get("/livez").status == 200
                assert admin.metrics()("idproxy_draining") == 1
                assert admin.metrics()("idproxy_connections") == 1
                ping.release()
                assert client.receive().body["ok"] == 1
            proxy.stop()
            with pytest.raises(OSError):
                admin.get("/livez")

    def test_old_connections_do_not_hide_that_there_are_no_new_ones(self, standalone, start_proxy):
        """As with a certificate that has expired, or a server that is full."""
        with Middleman(standalone.address) as gate:
            proxy = start_proxy(configuration(gate, [], standalone, admin=LISTEN))
            admin = Admin(proxy)
            with wire.WireClient(proxy.address) as old:
                old.call(PING)
                assert admin.metrics()("idproxy_listener_up") == 1
                gate.refuse()
                with wire.WireClient(proxy.address) as new:
                    assert new.call(PING)["code"] == 6
                for _ in range(3):
                    assert old.call(PING)["ok"] == 1
                    assert admin.metrics()("idproxy_listener_up") == 0
                gate.open()
                # It looks by itself: nobody else connects.
                proxy.wait_event("upstream_back", 30, server=gate.address)
                assert admin.metrics()("idproxy_listener_up") == 1


class TestMetrics:
    def test_what_was_done(self, replica_set, start_proxy, coll):
        rules = [{"ns": f"{coll}.o*", "field": "number", "strategy": "counter"},
                 {"ns": f"{coll}.*", "field": "_id", "strategy": "uuid", "assign": "always"}]
        proxy = start_proxy(configuration(replica_set, rules, admin=LISTEN))
        admin = Admin(proxy)
        before = admin.metrics()
        with proxy.client() as client:
            for _ in range(30):
                client[coll].orders.insert_one({})
            client[coll].orders.insert_many([{} for _ in range(50)])
            client[coll].bills.insert_one({"text": "x" * 100_000})
            for _ in range(7):
                client[coll].orders.find_one({})
            during = admin.metrics()
            status = client.admin.command("idproxy", "status")
        assert before.sum("idproxy_requests_total") == before("idproxy_connections") == 0
        first, second = status["rules"]
        assert during("idproxy_rule_values_assigned_total", rule="0") == 80 == first["values"]
        assert during("idproxy_rule_values_assigned_total", rule="1") == 81 == second["values"]
        assert during("idproxy_rule_values_assigned_total", ns=f"{coll}.o*", field="number",
                      strategy="counter") == 80
        # A driver repeats what a slow store has refused.
        assert 32 <= during("idproxy_requests_total", kind="insert") <= 33
        assert during("idproxy_requests_total", kind="relayed") == 7
        assert during("idproxy_requests_total", kind="hello") >= 2
        assert 32 <= during("idproxy_insert_added_seconds_count") <= 33
        assert 0 < during("idproxy_insert_added_seconds_sum") < 60
        assert during("idproxy_connections") == during("idproxy_connections_accepted_total") >= 2
        assert during("idproxy_listener_connections", listener=proxy.address) == during(
            "idproxy_connections")
        received = during("idproxy_bytes_total", peer="client", direction="received")
        assert 100_000 < received < during("idproxy_bytes_total", peer="server", direction="sent")
        assert during("idproxy_store_round_trip_seconds_count") > 0
        assert during("idproxy_store_numbers_allocated_total") >= 80
        assert during("idproxy_store_numbers_held") == (
            during("idproxy_store_numbers_allocated_total") - 80)
        eventually(lambda: admin.metrics()("idproxy_connections") == 0, 20)
        assert before("process_start_time_seconds") == during("process_start_time_seconds")

    def test_no_name_that_only_clients_know(self, standalone, start_proxy):
        rules = [{"ns": "*.*", "field": "number", "strategy": "counter"}]
        proxy = start_proxy(configuration(standalone, rules, admin=LISTEN))
        admin = Admin(proxy)
        with proxy.client(appname="hiddenapp") as client:
            for i in range(20):
                client[f"hidden{i}"][f"veiled{i}"].insert_one({"hiddenfield": 1})
        pages = "".join(admin.get(path).text for path in ("/metrics", "/readyz", "/livez"))
        assert 'ns="*.*"' in pages
        for name in ("hidden", "veiled"):
            assert name not in pages

    def test_reloads(self, standalone, tmp_path, start_proxy):
        file = tmp_path / "config.yaml"
        config = {"listen": {"port": 0}, "admin": LISTEN, "log": {"format": "json"}, "rules": [],
                  "upstream": {"uri": standalone.uri}}
        file.write_text(json.dumps(config))
        proxy = start_proxy(file)
        admin = Admin(proxy)

        def results() -> list[float]:
            metrics = admin.metrics()
            return [metrics("idproxy_config_reloads_total", result="success"),
                    metrics("idproxy_config_reloads_total", result="failure"),
                    metrics("idproxy_config_last_reload_successful")]

        assert results() == [0, 0, 1]
        file.write_text(json.dumps({**config, "rules": [COUNTER]}))
        proxy.process.send_signal(signal.SIGHUP)
        eventually(lambda: results() == [1, 0, 1], 10)
        assert admin.metrics()("idproxy_rule_values_assigned_total", ns="shop.*") == 0
        file.write_text("nonsense")
        proxy.process.send_signal(signal.SIGHUP)
        eventually(lambda: results() == [1, 1, 0], 10)
        assert admin.metrics()("idproxy_rule_values_assigned_total", ns="shop.*") == 0

    @pytest.mark.tsan
    def test_scrapes_under_load(self, replica_set, start_proxy, coll):
        """Fifty a second, and a scraper that never reads: every insert is answered, every number
        is stored once."""
        rules = [{"ns": f"{coll}.*", "field": "number", "strategy": "counter"}]
        proxy = start_proxy(configuration(replica_set, rules, admin=LISTEN))
        admin = Admin(proxy)
        scrapes: list[str] = []
        inserted: list[int] = []

        def scrape() -> None:
            connection = http.client.HTTPConnection(admin.address, timeout=20)
            while not scraper.over.wait(0.02):
                connection.request("GET", ("/metrics", "/readyz", "/livez")[len(scrapes) % 3])
                scrapes.append(connection.getresponse().read().decode())
            connection.close()

        def insert() -> None:
            with proxy.client() as client:
                for i in itertools.count():
                    if i >= 100 and len(scrapes) > 10:
                        break
                    client[coll].orders.insert_many([{"i": i} for _ in range(5)])
                    inserted.append(5)

        deaf = socket.create_connection(admin.address.split(":"))
        deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        scraper = Threads(scrape)
        with scraper:
            at_once(*[insert] * 4)
        deaf.close()
        numbers = sorted(d["number"] for d in replica_set.client[coll].orders.find())
        assert len(numbers) == len(set(numbers)) == sum(inserted)
        assert all(scrapes)
        assert admin.metrics()("idproxy_rule_values_assigned_total") == sum(inserted)


class TestLog:
    """Whoever reads the log can stop nobody."""

    def start(self, standalone: Mongod, tmp_path: Any, within: Sequence[str] = (),
              **options: Any) -> subprocess.Popen[bytes]:
        self.port, self.admin_port = free_port(), free_port()
        file = tmp_path / "config.yaml"
        file.write_text(json.dumps({
            "listen": {"port": self.port}, "admin": {"listen": f"127.0.0.1:{self.admin_port}"},
            "upstream": {"uri": standalone.uri}, "rules": [COUNTER]}))
        return start([*within, binary(), "--config", str(file)], stdout=subprocess.DEVNULL,
                     **options)

    def metric(self, name: str) -> float:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=10)
        connection.request("GET", "/metrics")
        (line,) = [line for line in connection.getresponse().read().decode().splitlines()
                   if line.startswith(name + " ")]
        connection.close()
        return float(line.split()[1])

    def serves(self) -> bool:
        try:
            with wire.WireClient(f"127.0.0.1:{self.port}") as client:
                return client.call(PING)["ok"] == 1
        except (OSError, wire.Closed):
            return False

    def end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        assert process.wait(20) == 0

    def test_a_reader_that_does_not_read(self, standalone, tmp_path):
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            while True:
                os.write(writing, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writing, True)
        process = self.start(standalone, tmp_path, stderr=writing)
        try:
            eventually(self.serves, 20)
            assert not fcntl.fcntl(writing, fcntl.F_GETFL) & os.O_NONBLOCK, "it is not ours alone"
            self.end(process)
        finally:
            process.kill()
            os.close(writing)
        with os.fdopen(reading, "rb") as rest:
            assert not rest.read().strip(b"x")

    def test_a_reader_that_comes_back(self, standalone, tmp_path):
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writing, b"x" * 4095 + b"\n")
        process = self.start(standalone, tmp_path, stderr=writing)
        os.close(writing)
        try:
            eventually(self.serves, 20)
            with os.fdopen(reading, "rb") as log:
                assert log.readline().strip(b"x") == b"\n"
                events = [json.loads(line)["event"] for line in itertools.islice(log, 3)]
                assert {"admin_listening", "listening"} <= set(events)
                process.terminate()
                assert "stopped" in {json.loads(line)["event"] for line in log}
            assert process.wait(20) == 0
        finally:
            process.kill()

    def test_a_reader_that_has_gone(self, standalone, tmp_path):
        reading, writing = os.pipe()
        os.close(reading)
        process = self.start(standalone, tmp_path, stderr=writing)
        os.close(writing)
        try:
            eventually(self.serves, 20)
            assert self.metric("idproxy_log_lines_dropped_total") >= 3
            self.end(process)
        finally:
            process.kill()

    def test_closed(self, standalone, tmp_path):
        """Else the first socket would be standard error, and a server would be sent the log."""
        process = self.start(standalone, tmp_path, within=["sh", "-c", 'exec "$0" "$@" 2>&-'])
        try:
            eventually(self.serves, 20)
            assert os.readlink(f"/proc/{process.pid}/fd/2") == "/dev/null"
            self.end(process)
        finally:
            process.kill()


class TestDescriptors:
    def test_a_soft_limit_is_raised(self, standalone, start_proxy):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        proxy = start_proxy(configuration(
            standalone, [], listen={"port": 0, "max_connections": 200}),
            within=["prlimit", f"--nofile=64:{hard}"])
        assert not proxy.find_events("max_connections_lowered")
        assert resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE)[0] > 400


def test_a_store_that_does_not_answer(standalone, start_proxy):
    """Whoever asks it: there is no counter here."""
    rule = {"ns": "store.*", "field": "n", "strategy": "random-digits", "unique_index": "require"}
    proxy = start_proxy({**configuration(standalone, [rule], admin=LISTEN),
                         "id_store": {"uri": f"mongodb://127.0.0.1:{free_port()}"}})
    proxy.wait_event("inspection_failing", 30)
    admin = Admin(proxy)
    assert admin.metrics()("idproxy_store_up") == 0
    assert "the id store does not answer: No suitable servers" in admin.get("/readyz").text


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_second_ends_at_once(self, standalone, number):
        with Thief(standalone) as server, holding(server, "ping") as ping:
            proxy = Proxy(configuration(server, [], standalone, admin=LISTEN, limits={"drain": "60s"}))
            with wire.WireClient(proxy.address) as client:
                client.send(wire.command(PING))
                ping.await_held()
                proxy.process.send_signal(number)
                proxy.wait_event("draining")
                # It is still there after a round trip of its control thread, which gets the signals.
                assert Admin(proxy).get("/readyz").status == 503
                assert proxy.alive()
                proxy.stop(number, timeout=30)
            assert proxy.wait_event("stopped")["connections_cut_off"] == 1

    def test_a_hangup_does_not_end_it(self, standalone, start_proxy):
        proxy = start_proxy(configuration(standalone, []))
        for _ in range(20):
            proxy.process.send_signal(signal.SIGHUP)
        proxy.wait_event("reloaded")
        with proxy.client() as client:
            assert client.admin.command("ping")["ok"] == 1

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_at_any_moment_of_the_start(self, standalone, number):
        """From the first line of the log on."""
        for delay in (0.0, 0.005, 0.02, 0.1):
            proxy = Proxy(configuration(standalone, [COUNTER], admin=LISTEN), await_ready=False)
            eventually(lambda: proxy.lines, 20)
            time.sleep(delay)
            proxy.process.send_signal(number)
            if number == signal.SIGHUP:
                proxy.wait_event("reloaded", 20)
            proxy.stop()
            # What was being opened when the signal came may have its line after it.
            assert proxy.find_events("stopped")
