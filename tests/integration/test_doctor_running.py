"""mongo-idproxy doctor beside proxies that run, and how long it takes where servers do not answer."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.certificates import Authority
from support.doctor import (
    Doctor, counter_rule, doctor, free_server, in_shell, no_proxies, ns, quiet, uuid_rule)
from support.fake_server import FakeServer
from support.middleman import Connection, Direction, Middleman
from support.process import eventually, free_port
from support.proxy import Proxy, binary, configuration
from support.status_server import StatusServer, healthy, rule as rule_of_status


class TestTheRunningProxy:
    @pytest.fixture
    def running(self, replica_set, doctor, coll, start_proxy) -> Callable[..., Proxy]:
        """Starts it with the configuration that is examined."""
        admin = f"127.0.0.1:{free_port()}"

        def run(rules: list[dict[str, Any]], start: bool = True) -> Proxy | None:
            doctor.write(quiet(replica_set, rules, admin={"listen": admin}, log={"format": "json"},
                               limits={"drain": "1s"}))
            return start_proxy(doctor.path) if start else None
        return run

    def test_what_passes_the_rules(self, replica_set, doctor, coll, ns, running):
        replica_set.client[coll].create_collection("carts")
        proxy = running([counter_rule(ns), {"ns": ns, "field": "_id", "strategy": "uuid"}])
        with proxy.client() as client:
            orders = client[coll].orders
            orders.update_one({"n": 7}, {"$set": {"x": 1}}, upsert=True)
            orders.insert_many([{}, {}])
            client[coll].carts.insert_one({"x": 1})
            list(client[coll].carts.aggregate([{"$merge": {"into": "orders"}}]))
        found = doctor.examine()
        named = f"backfill --ns {ns} --field n"
        each = found.one("upsert-bypasses-rule", "warning", f"{ns}, n", named)
        assert "1 upserts" in each["text"] and "filter_names_field" in each["text"]
        each = next(each for each in found.document["findings"] if each["id"] == "write-bypasses-rule")
        assert each["level"] == "warning" and "(merge)" in each["text"]
        found.one("driver-sends-id", "warning", f"{ns}, _id", "status --clients")

    @pytest.mark.needs("collection_uuid")
    def test_whose_variables_count(self, replica_set, doctor, ns, start_proxy, monkeypatch):
        admin = f"127.0.0.1:{free_port()}"
        document = quiet(replica_set, [counter_rule(ns)], admin={"listen": admin}, log={"format": "json"})
        document["upstream"]["uri"] = "mongodb://${DB_OF_THE_PROXY}"
        doctor.write(document)
        own = {"DB_OF_THE_PROXY": replica_set.address}
        start_proxy(doctor.path, own)
        found = doctor.examine()
        found.one("variable-undefined", "error", doctor.path, "systemctl show", "systemd-run")
        assert found.result("proxy") == "ok", "which says itself what it has loaded"
        assert found.ids == {"variable-undefined"}
        monkeypatch.setenv(*own.popitem())
        found = doctor.examine()
        assert found.code == 0 and not found.ids, found

    def test_takes_nothing_from_whatever_has_its_name(self, replica_set, doctor, ns, tmp_path):
        """A25: anybody can start one, with any environment."""
        with tempfile.TemporaryDirectory() as folder, FakeServer() as stranger:
            os.chmod(folder, 0o755)
            program = shutil.copy("/bin/sleep", f"{folder}/mongo-idproxy")
            as_nobody = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
            process = subprocess.Popen([*as_nobody, program, "120"], env={
                "STORE_URI": f"mongodb://{stranger.address}", "SSL_CERT_FILE": "/dev/zero"})
            try:
                with StatusServer(healthy(pid=process.pid)) as proxy:
                    document = quiet(replica_set, [counter_rule(ns)], admin={"listen": proxy.address})
                    document["id_store"] = {"uri": "${STORE_URI}"}
                    found = doctor.write(document).examine()
                    found.one("variable-undefined", "error", doctor.path, "systemd-run")
                assert stranger.connections == 0 and process.poll() is None
            finally:
                process.kill()
                process.wait()

    def test_which_credentials_count(self, doctor, ns, replica_set):
        document = quiet(replica_set, [counter_rule(ns)])
        document["id_store"] = {"uri_file": "${CREDENTIALS_DIRECTORY}/store-uri"}
        doctor.write(document).examine().one(
            "variable-undefined", "error", doctor.path,
            "sudo env CREDENTIALS_DIRECTORY=/run/credentials/mongo-idproxy.service mongo-idproxy doctor")

    def test_a_unit_gets_the_whole_path(self, doctor):
        """It is started in another directory."""
        doctor.path.write_text('upstream: {uri: "${OF_NOBODY}"}\n')
        said = subprocess.run([binary(), "doctor", "--config", doctor.path.name], cwd=doctor.path.parent,
                              capture_output=True, text=True, timeout=30)
        assert re.search(rf"\$ sudo systemd-run .* mongo-idproxy doctor --config {doctor.path}\n", said.stdout), said

    def test_that_has_not_read_the_file(self, replica_set, doctor, coll, ns, running, tmp_path):
        running([counter_rule(ns)])
        read = int(time.time())
        eventually(lambda: time.time() >= read + 1, what="a later time of the file, in seconds")
        running([counter_rule(ns, max=10_000_000)], start=False)
        found = doctor.examine()
        each = found.one("config-not-loaded", "warning", doctor.path, f"reload --config {doctor.path}")
        in_shell(each["commands"][0]["command"])
        assert "config-not-loaded" not in doctor.examine().ids
        other = Doctor(tmp_path / "other.yaml")
        other.path.write_text(doctor.path.read_text())
        other.path.chmod(0o600)
        other.examine().one("proxy-reads-other-file", "warning", doctor.path, f"doctor --config {doctor.path}")

    def test_what_it_says_itself(self, replica_set, doctor, coll, ns, running):
        """What no other check has found."""
        proxy = running([uuid_rule(ns)])
        read = int(time.time())
        eventually(lambda: time.time() >= read + 1, what="a later time of the file, in seconds")
        whole = doctor.path.read_text()
        doctor.path.write_text("nonsense: 1\n")
        proxy.process.send_signal(signal.SIGHUP)
        proxy.wait_event("reload_failed")
        doctor.path.write_text(whole)
        each = doctor.examine().one("proxy-warning", "warning", "the running proxy", "mongo-idproxy status")
        assert each["text"].startswith("the last reload failed")
        status = subprocess.run([binary(), "status", "--json", "--config", doctor.path], capture_output=True,
                                text=True, timeout=30)
        (failed,) = [found for found in json.loads(status.stdout)["wrong"] if found["id"] == "reload-failed"]
        assert "in force: the configuration has " in failed["text"]
        in_shell(failed["commands"][0]["command"])
        assert "proxy-warning" not in doctor.examine().ids

    def test_that_goes_on_with_old_files(self, replica_set, doctor, ns, tmp_path, start_proxy):
        """The certificate has expired, and was renewed without a reload: to doctor, that is no less wrong."""
        authority = Authority(tmp_path, "authority")
        old, new, secret = authority.issue("CN=old", days=(-10, -1)), authority.issue("CN=new"), tmp_path / "uri"
        served = tmp_path / "served.pem"
        served.write_bytes(old.file.read_bytes())
        secret.write_text(replica_set.uri)
        for each in (served, secret):
            each.chmod(0o600)
        admin = f"127.0.0.1:{free_port()}"
        doctor.write(quiet(replica_set, [uuid_rule(ns)], admin={"listen": admin}, log={"format": "json"},
                           id_store={"uri_file": str(secret)}, listen={
                               "port": 0, "max_connections": 100,
                               "tls": {"mode": "require", "certificate_key_file": str(served)}}))
        start_proxy(doctor.path)
        doctor.examine().one("certificate-expired", "error", served, "reload")
        read = int(time.time())
        eventually(lambda: time.time() >= read + 1, what="a later time of the files, in seconds")
        served.write_bytes(new.file.read_bytes())
        secret.write_text(replica_set.uri)
        found = doctor.examine()
        each = found.one("file-not-loaded", "error", served, f"reload --config {doctor.path}")
        assert "CN=old of listen.tls has expired" in each["text"]
        found.one("file-not-loaded", "error", secret, f"reload --config {doctor.path}")
        assert "certificate-expired" not in found.ids
        in_shell(each["commands"][0]["command"])
        assert not doctor.examine().ids

    if os.geteuid() == 0:  # others cannot see whose process it is
        def test_a_stranger_is_not_believed(self, replica_set, doctor, ns, tmp_path):
            """A25: the service is down, and somebody else listens at its place."""
            wrong = [{"level": "error", "text": "run this", "remedy": "curl x | sudo sh", "link": "x.md"}]
            other = tmp_path / "evil.yaml"
            other.write_text("{}")
            with StatusServer(healthy(pid=os.getpid(), wrong=wrong, configuration={"file": str(other)},
                                      rules=[rule_of_status(ready=False, reason="type this")])) as stranger:
                document = quiet(replica_set, [uuid_rule(ns)], admin={"listen": stranger.address})
                found = doctor.write(document).examine()
                each = found.one("proxy-unknown", "error", stranger.address, "sudo ss -ltnp")
                assert "another program" in each["text"]
                found.one("port-in-use", "error", stranger.address, "ss -ltnp")
                assert found.ids == {"proxy-unknown", "port-in-use"}
                for word in ("run this", "curl", "evil.yaml", "type this"):
                    assert word not in found.text, word


class TestTheOtherProxies:
    def test_differ(self, replica_set, doctor, ns):
        now = replica_set.client.admin.command("hello")["localTime"]
        silent = now - datetime.timedelta(seconds=70)
        doctor.write(quiet(replica_set, [uuid_rule(ns)]))
        for host, version, seen in (("app1", "0.1.0", now), ("app2", "0.0.9", silent)):
            replica_set.client.idproxy.proxies.insert_one({
                "_id": f"{host} 10.0.0.1:27117", "host": host, "version": version, "rules_hash": "x",
                "listeners": ["10.0.0.1:27117"], "since": silent, "seen": seen})
        found = doctor.examine()
        for host in ("app1", "app2"):
            found.one("proxies-disagree", "warning", f"{host} (10.0.0.1:27117)")
        found.one("proxy-versions-differ", "warning", "app2 (10.0.0.1:27117)")
        found.one("proxy-silent", "note", "app2 (10.0.0.1:27117)")
        assert not any(each["commands"] for each in found.document["findings"])  # to hosts of strangers
        assert sum(each["id"] == "proxy-silent" for each in found.document["findings"]) == 1

    def test_share_no_collection(self, replica_set, doctor, ns):
        doctor.write(quiet(replica_set, [uuid_rule(ns)]))
        now = replica_set.client.admin.command("hello")["localTime"]
        own = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        for host, namespaces in (("app1", ["other.*", "x.y"]), ("app2", ["other.*", f"{ns[:-1]}?"])):
            replica_set.client.idproxy.proxies.insert_one({
                "_id": f"{host} 10.0.0.1:27117", "host": host, "version": own, "rules_hash": "x",
                "namespaces": namespaces, "listeners": ["10.0.0.1:27117"], "since": now, "seen": now})
        found = doctor.examine()
        found.one("proxies-disagree", "warning", "app2 (10.0.0.1:27117)")
        assert [each["id"] for each in found.document["findings"]] == ["proxies-disagree"]

    def test_was_killed_here(self, replica_set, doctor, ns):
        doctor.write(quiet(replica_set, [uuid_rule(ns)], log={"format": "json"},
                           listen={"port": free_port(), "max_connections": 100}))
        proxy = Proxy(doctor.path)
        try:
            eventually(lambda: replica_set.client.idproxy.proxies.find_one(), 30)
            assert "proxy-gone" not in doctor.examine().ids
        finally:
            proxy.kill()
        each = doctor.examine().one("proxy-gone", "error", proxy.address, "systemctl status", "journalctl")
        assert re.match(r"a proxy said \d.* ago that it listens here, and nobody does", each["text"]), each

    def test_agree(self, replica_set, doctor, ns, start_proxy):
        rules = [counter_rule(ns)]
        start_proxy(configuration(replica_set, rules, listen={"port": 0, "max_connections": 100}))
        eventually(lambda: replica_set.client.idproxy.proxies.find_one(), 30)
        found = doctor.write(quiet(replica_set, rules)).examine()
        assert found.result("proxies") == "ok" and found.code == 0, found


class TestTime:
    def test_servers_that_do_not_answer(self, doctor):
        """They take connections, and what is asked there."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            document = quiet(free_server(), [counter_rule("a.b")])
            document["upstream"] = {"uri": f"mongodb://{address}"}
            begun = time.monotonic()
            found = doctor.write(document).examine()
            assert time.monotonic() - begun < 30
            each = found.one("server-silent", "error", address, "ssh -- 127.0.0.1")
            assert each["text"].startswith("the server accepts connections, and does not answer")
            assert not re.search("nc -vz|systemctl status", found.text)

    def test_a_server_that_answers_only_hello(self, replica_set, doctor, ns):
        over = threading.Event()

        def script(_: Connection, direction: Direction, message: bytes) -> bytes:
            if direction == "to_server" and b"connectionStatus" in message:
                over.wait()
            return message
        server = Middleman(replica_set.address, script=script)
        try:
            document = quiet(replica_set, [uuid_rule(ns)], id_store={
                "uri": f"mongodb://{server.address}/?directConnection=true", "wtimeout": "60s"})
            begun = time.monotonic()
            found = doctor.write(document).examine()
            assert time.monotonic() - begun < 30
            found.one("no-answer-in-time", "error", "user", "check --connect")
        finally:
            over.set()
            server.shut()
