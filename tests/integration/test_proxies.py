"""Proxies of one id store know each other: the collection `proxies`, the page and /status.json."""

from __future__ import annotations

import datetime
import json
import signal
import socket
import subprocess
from typing import Any

import bson
import pymongo
import pytest

from support.admin import LISTEN, Admin
from support.guarded import Guarded
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, binary, configuration
from support.secrets import PASSWORD

RULE = {"ns": "shop.orders", "field": "number", "strategy": "uuid"}
OTHER_RULE = RULE | {"field": "code"}
HOST = socket.gethostname()


def config(server: Mongod, rules: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return configuration(server, rules, admin=LISTEN, **more)


def written(server: Mongod) -> pymongo.collection.Collection:
    return server.client.idproxy.proxies


def key_of(proxy: Proxy) -> str:
    return f"{HOST} {proxy.address}"


def await_introduced(proxy: Proxy, server: Mongod) -> dict[str, Any]:
    return eventually(lambda: written(server).find_one({"_id": key_of(proxy)}), 30)


def status(proxy: Proxy) -> dict[str, Any]:
    return json.loads(Admin(proxy).get("/status.json").text)


def look_again(proxy: Proxy) -> None:
    """A reload has it look at once, not within half a minute."""
    proxy.process.send_signal(signal.SIGHUP)


def known(proxy: Proxy) -> dict[str, dict[str, Any]]:
    """By the first listener."""
    return {each["listeners"][0]: each for each in status(proxy)["proxies"]}


@pytest.fixture(autouse=True)
def nobody(standalone) -> None:
    written(standalone).drop()


class TestTogether:
    def test_two_see_each_other(self, standalone, start_proxy):
        first = start_proxy(config(standalone, [RULE]))
        await_introduced(first, standalone)
        second = start_proxy(config(standalone, [OTHER_RULE]))
        await_introduced(second, standalone)
        for proxy, other in ((first, second), (second, first)):
            look_again(proxy)
            both = eventually(lambda: (found := known(proxy)).keys() >=
                              {first.address, second.address} and found, 30)
            assert both[proxy.address]["self"] and not both[other.address]["self"]
            assert both[proxy.address]["host"] == both[other.address]["host"] == HOST
            assert both[proxy.address]["version"] == status(proxy)["version"]
            assert both[proxy.address]["rules_hash"] == status(proxy)["configuration"]["hash"]
            assert both[other.address]["rules_hash"] != both[proxy.address]["rules_hash"]
            assert both[other.address]["since"] <= both[other.address]["seen"]
            assert other.address in Admin(proxy).get("/").text
            assert status(proxy)["wrong"] == [], "for a moment they may differ"

    def test_a_reload_tells_the_new_rules(self, standalone, start_proxy, tmp_path):
        file = tmp_path / "proxy.yaml"
        more = {"listen": {"port": 0}, "log": {"format": "json"}}
        file.write_text(json.dumps(config(standalone, [RULE], **more)))
        proxy = start_proxy(file)
        before = await_introduced(proxy, standalone)
        file.write_text(json.dumps(config(standalone, [OTHER_RULE], **more)))
        proxy.process.send_signal(signal.SIGHUP)
        after = eventually(lambda: written(standalone).find_one(
            {"_id": key_of(proxy), "rules_hash": {"$ne": before["rules_hash"]}}), 30)
        assert after["rules_hash"] == status(proxy)["configuration"]["hash"]
        assert abs(after["since"] - before["since"]) < datetime.timedelta(seconds=2)

    def test_one_that_stops_is_gone_at_once(self, standalone, start_proxy):
        stays, stops = (start_proxy(config(standalone, [RULE])) for _ in range(2))
        for proxy in (stays, stops):
            await_introduced(proxy, standalone)
        stops.stop()
        assert written(standalone).find_one({"_id": key_of(stops)}) is None
        assert written(standalone).find_one({"_id": key_of(stays)})
        look_again(stays)
        eventually(lambda: list(known(stays)) == [stays.address], 30)

    def test_a_restart_takes_the_same_place(self, standalone):
        listen = {"listen": {"port": free_port()}}
        killed = Proxy(config(standalone, [RULE], **listen))
        before = await_introduced(killed, standalone)
        killed.kill()
        assert written(standalone).find_one({"_id": before["_id"]}), "nobody could delete it"
        with Proxy(config(standalone, [RULE], **listen)):
            after = eventually(lambda: written(standalone).find_one(
                {"_id": before["_id"], "process": {"$ne": before["process"]}}), 30)
            assert after["since"] > before["since"]
            assert written(standalone).count_documents({}) == 1
            # Another process has the address now, and is not to be forgotten with this one.
            written(standalone).update_one(
                {"_id": before["_id"]}, {"$set": {"process": bson.ObjectId()}})
        assert written(standalone).find_one({"_id": before["_id"]})


class TestCollection:
    def test_the_server_deletes_what_is_old(self, standalone, start_proxy):
        found = await_introduced(start_proxy(config(standalone, [RULE])), standalone)
        assert set(found) == {"_id", "process", "host", "version", "listeners", "rules_hash",
                              "namespaces", "since", "seen"}
        assert found["namespaces"] == [RULE["ns"]]
        assert isinstance(found["since"], datetime.datetime)
        now = standalone.client.admin.command("hello")["localTime"]
        assert abs(now - found["seen"]) < datetime.timedelta(seconds=30)
        index = written(standalone).index_information()["seen_1"]
        assert index["key"] == [("seen", 1)] and index["expireAfterSeconds"] == 120

    def test_without_its_index_the_proxy_does(self, standalone, start_proxy):
        written(standalone).create_index("seen", name="seen_1", expireAfterSeconds=10_000)
        now = standalone.client.admin.command("hello")["localTime"]
        written(standalone).insert_many([
            {"_id": "old", "seen": now - datetime.timedelta(seconds=150)}, {"_id": "other"},
            {"_id": "new", "seen": now}])
        await_introduced(start_proxy(config(standalone, [RULE])), standalone)
        eventually(lambda: written(standalone).find_one({"_id": "old"}) is None, 30)
        assert written(standalone).find_one({"_id": "new"})
        assert written(standalone).find_one({"_id": "other"}), "the server would leave it, too"

    def test_documents_of_others_do_no_harm(self, standalone, start_proxy):
        now = standalone.client.admin.command("hello")["localTime"]
        good = {"host": "<script>x</script>", "version": "9", "listeners": ["a", 7], "since": now,
                "rules_hash": "x" * 10_000, "seen": now}
        written(standalone).insert_many([
            {}, {"_id": 1, **good}, {"_id": "good", **good}, {"_id": "a", **good, "host": ["x"]},
            {"_id": "b", **good, "seen": [now]}, {"_id": "c", **good, "since": "today"},
            {"_id": "d", **good, "seen": now + datetime.timedelta(days=365)},
            {"_id": "e", "host": "x" * 1_000_000}])
        proxy = start_proxy(config(standalone, [RULE]))
        found = eventually(lambda: len(all := known(proxy)) > 1 and all, 30)
        assert set(found) == {"a", proxy.address}
        assert found["a"]["listeners"] == ["a"] and len(found["a"]["rules_hash"]) == 255
        page = Admin(proxy).get("/").text
        assert "<script>x" not in page and "&lt;script&gt;x" in page

    def test_no_more_than_two_hundred_are_read(self, standalone, start_proxy):
        now = standalone.client.admin.command("hello")["localTime"]
        written(standalone).insert_many([
            {"host": f"app{i}", "version": "9", "listeners": [f"l{i}"], "since": now, "seen": now,
             "rules_hash": "x", "_id": f"app{i}"} for i in range(500)])
        proxy = start_proxy(config(standalone, [RULE]))
        eventually(lambda: len(status(proxy)["proxies"]) == 200, 30)

    def test_no_rule_touches_it(self, standalone, start_proxy, tmp_path):
        file = tmp_path / "proxy.yaml"
        file.write_text(json.dumps(config(standalone, [RULE | {"ns": "idproxy.proxies"}])))
        checked = subprocess.run([binary(), "--config", file, "--check-config"],
                                 capture_output=True, text=True, check=False)
        assert checked.returncode == 78 and "id_store.db" in checked.stdout
        proxy = start_proxy(config(standalone, [RULE | {"ns": "*.*"}]))
        with proxy.client() as client:
            client.idproxy.proxies.insert_one({"_id": "mine"})
            client.shop.orders.insert_one({"_id": "mine"})
            assert "number" in client.shop.orders.find_one_and_delete({"_id": "mine"})
        assert written(standalone).find_one({"_id": "mine"}) == {"_id": "mine"}
        found = await_introduced(proxy, standalone)
        assert "number" not in found


class TestUnknown:
    """What it does where it may not, or need not."""

    def test_without_rules_nothing_connects(self, standalone, start_proxy):
        proxy = start_proxy(config(standalone, [], id_store={"db": "unused"}))
        look_again(proxy)
        proxy.wait_event("reloaded")
        assert status(proxy)["proxies"] == []
        assert 'id="proxies"' not in Admin(proxy).get("/").text
        # The proxy's own connections, but for those of other tests, which have ended.
        eventually(lambda: not self.of_stores(standalone), 30)
        proxy.stop()
        assert "unused" not in standalone.client.list_database_names()

    @staticmethod
    def of_stores(server: Mongod) -> list[Any]:
        ops = server.client.admin.aggregate(
            [{"$currentOp": {"allUsers": True, "idleConnections": True}}])
        return [op for op in ops if op.get("appName") == "mongo-idproxy"]

    @pytest.fixture
    def secured(self) -> Any:
        with Guarded() as mongod:
            yield mongod

    def test_read_write_on_the_database_is_enough(self, secured, start_proxy):
        secured.add_user("store", [{"role": "readWrite", "db": "idproxy"}])
        proxy = start_proxy(self.config_of(secured))
        eventually(lambda: proxy.address in known(proxy), 30)
        assert "expireAfterSeconds" in written(secured).index_information()["seen_1"]
        proxy.stop()
        assert written(secured).count_documents({}) == 0

    def test_without_privileges_it_says_nothing(self, secured, start_proxy):
        secured.add_user("store", [{"role": "read", "db": "idproxy"}])
        proxy = start_proxy(self.config_of(secured) | {"log": {"level": "debug", "format": "json"}})
        event = proxy.wait_event("proxies_unknown", timeout=30)
        assert event["level"] == "debug" and "not authorized" in event["reason"]
        assert status(proxy)["proxies"] == []
        assert not [each for each in status(proxy)["wrong"] if "proxies" in each["text"]]
        proxy.stop()
        assert not proxy.find_events("store_hangs")

    @staticmethod
    def config_of(secured: Guarded) -> dict[str, Any]:
        uri = f"mongodb://store:{PASSWORD}@{secured.address}/?authSource=admin"
        return config(secured, [RULE], id_store={"uri": uri})

    def test_a_store_that_is_down_changes_nothing(self, start_proxy):
        with Mongod() as mongod:
            proxy = start_proxy(config(mongod, [RULE]))
            await_introduced(proxy, mongod)
            mongod.kill()
            look_again(proxy)
            proxy.wait_event("reloaded", timeout=30)
            proxy.stop()
            assert not proxy.find_events("store_hangs")
