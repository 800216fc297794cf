"""The page of a proxy, /status.json, and what an operator sees there when something goes wrong."""

from __future__ import annotations

import contextlib
import html.parser
import json
import os
import pathlib
import re
import signal
from collections.abc import Iterator
from typing import Any

import bson
import pymongo
import pytest

from support.admin import LISTEN, Admin
from support.names import mounted, permitted
from support.process import eventually
from support.proxy import Proxy, binary, configuration
from support.replica_set import Member, ReplicaSet
from support.threads import Threads
from support.wire import WireClient

EVIL = "<b>job & 'co'</b>"
COUNTER = {"ns": "shop.orders", "field": "number", "strategy": "counter"}


class Parsed(html.parser.HTMLParser):
    """A page's texts and the addresses that it names; fails if its tags do not match."""

    _VOID = {"meta", "link", "polyline"}

    def __init__(self, text: str):
        super().__init__()
        self.texts: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            assert not name.startswith("on") and name != "style", "CSP forbids it"
        if tag not in self._VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def status(admin: Admin, query: str = "") -> dict[str, Any]:
    page = admin.get("/status.json" + query)
    assert page.status == 200 and page.headers["Content-Type"] == "application/json"
    return json.loads(page.text)


def wrong(admin: Admin) -> str:
    return "\n".join(each["text"] for each in status(admin)["wrong"])


def server(admin: Admin, member: Member) -> dict[str, Any]:
    return next(each for each in status(admin)["servers"] if each["server"] == member.address)


@pytest.fixture(scope="module")
def admin(standalone) -> Iterator[Admin]:
    with Proxy(configuration(standalone, [COUNTER], admin=LISTEN)) as proxy:
        with proxy.client(appname="shop") as client:
            client.shop.orders.drop()
            client.shop.orders.create_index("number", unique=True)  # else the rule is one that fails
            client.shop.orders.insert_many([{} for _ in range(5)])
            client.shop.orders.insert_one({"number": -7})  # which needs no value
            yield Admin(proxy)


class TestPage:
    def test_it_is_whole_and_asks_nobody_else(self, admin):
        page = admin.get("/")
        assert page.status == 200
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        parsed = Parsed(page.text)
        assert all(each.startswith(("/", "#")) and not each.startswith("//")
                   for each in parsed.addresses)
        assert len(set(parsed.ids)) == len(parsed.ids)
        for anchor in (each[1:] for each in parsed.addresses if each.startswith("#")):
            assert anchor in parsed.ids
        text = " ".join(parsed.texts)
        for name in ("shop.orders", "counter", "PyMongo", "STANDALONE"):
            assert name in text
        assert len(page.text) < 200_000

    def test_its_files(self, admin):
        for path, kind in (("/status.css", "text/css"), ("/status.js", "text/javascript"),
                           ("/favicon.ico", "image/svg+xml")):
            page = admin.get(path)
            assert page.status == 200 and page.headers["Content-Type"].startswith(kind)
            assert page.headers["X-Content-Type-Options"] == "nosniff"

    def test_a_debug_build_reads_them_from_the_tree(self, standalone, tmp_path, start_proxy):
        """So that who edits one only loads the page again. The tree of this process is a copy."""
        if not permitted():
            pytest.skip("mounting, in a process's own file systems, is not permitted")
        folder = re.search(rb"\0(/[^\0]+/src/app/views/page/)\0", pathlib.Path(binary()).read_bytes())
        assert folder, "not a debug build"
        proxy = start_proxy(configuration(standalone, [], admin=LISTEN),
                            within=mounted({pathlib.Path(folder[1].decode()): tmp_path}))
        admin = Admin(proxy)
        assert "table" in admin.get("/status.css").text, "without the file, what is built in"
        for text in ("main { color: red; }", "main { color: blue; }"):
            (tmp_path / "status.css").write_text(text)
            assert admin.get("/status.css").text == text

    def test_compressed_requests(self, standalone):
        with Proxy(configuration(standalone, [], admin={"listen": "127.0.0.1:0"})) as proxy:
            with proxy.client(compressors="zstd") as client:
                client.admin.command("ping")
            admin = Admin(proxy)
            compressed = status(admin)["clients"]["requests_compressed"]
            assert compressed["zstd"] > 0 and compressed["snappy"] == compressed["zlib"] == 0
            assert re.search(r"Compressed requests since the start: zstd [1-9]\d*<", admin.get("/").text)

    def test_clients_by_application(self, standalone, start_proxy):
        """Who holds a transaction comes first, then who sends; also those who have closed their connection."""
        proxy = start_proxy(configuration(standalone, [COUNTER], admin=LISTEN))
        admin = Admin(proxy)

        def sums() -> list[dict[str, Any]]:
            return status(admin)["clients"]["applications"]

        with WireClient(proxy.address) as silent, WireClient(proxy.address) as other, \
                WireClient(proxy.address) as hanging:
            for client, name in ((silent, "leak"), (other, "leak"), (hanging, EVIL)):
                client.call({"hello": 1, "client": {"application": {"name": name}}, "$db": "admin"})
            hanging.call({"insert": "orders", "documents": [{}], "lsid": {"id": bson.Binary(b"s" * 16, 4)},
                          "txnNumber": bson.Int64(1), "startTransaction": True, "autocommit": False, "$db": "shop"})
            with proxy.client(appname="import") as client:
                client.shop.orders.insert_many([{} for _ in range(500)])
                (row,) = [each for each in status(admin)["clients"]["list"] if each["documents"] == 500]
                assert row["documents_per_second"] > 0 and row["requests_per_second"] > 0
            by_name = {each["application"]: each for each in sums()}
            assert by_name["leak"]["connections"] == 2
            assert by_name[EVIL]["transactions"] == 1 and by_name[EVIL]["oldest_transaction"] > 0
            eventually(lambda: next(each for each in sums() if each["application"] == "import")["connections"] == 0)
            assert 0 < next(each for each in sums() if each["application"] == "import")["documents_per_second"] <= 50
            eventually(lambda: sums()[0]["application"] == EVIL, 20)  # once it is 5 s old
            page = Parsed(admin.get("/").text)
            assert f"application-{EVIL}" in page.ids and EVIL in page.texts

    def test_invented_applications(self, standalone, start_proxy):
        """No more than 100 are listed, and nothing is lost in the sum."""
        proxy = start_proxy(configuration(standalone, [], admin=LISTEN))
        admin = Admin(proxy)
        with contextlib.ExitStack() as open_ones:
            for i in range(130):
                client = open_ones.enter_context(WireClient(proxy.address))
                client.call({"hello": 1, "client": {"application": {"name": f"invented {i}"}}, "$db": "admin"})
            said = status(admin)["clients"]
            assert len(said["applications"]) == 100 and said["other_applications"]["applications"] == 30
            assert said["other_applications"]["connections"] == 30
            page = admin.get("/").text
            assert "and 30 more" in page and len(page) < 200_000

    def test_filters(self, admin):
        assert status(admin, "?clients=app:shop")["clients"]["matching"] > 0
        assert status(admin, "?clients=app:other")["clients"]["matching"] == 0
        assert status(admin, "?rules=failing")["rules"] == []
        assert "Only rules that fail or run out" in admin.get("/?rules=failing").text


class TestFigures:
    def test_the_client(self, admin):
        client = max(status(admin)["clients"]["list"], key=lambda each: each["values"])
        assert client["application"] == "shop"
        assert re.match(r"PyMongo \d+\.\d+", client["driver"])
        assert client["documents"] == 6
        assert client["values"] == 5 and client["requests"] > 0 and client["tls"] is False

    def test_mongod_knows_a_client_by_the_port(self, admin, standalone):
        ports = {each["port"] for each in status(admin)["clients"]["list"]}
        ops = standalone.client.admin.aggregate(
            [{"$currentOp": {"allUsers": True, "idleConnections": True}}])
        assert ports <= {int(op["client"].rpartition(":")[2]) for op in ops if "client" in op}

    def test_the_rule_and_the_server(self, admin):
        found = status(admin)
        [rule] = found["rules"]
        assert rule["values"] == 5 and rule["ready"] and rule["last_value"] <= found["now"]
        [server] = found["servers"]
        assert server["replies"] > 0 and server["p50"] < 5 and server["up"]
        assert found["limits"]["clients"]["most"] >= found["limits"]["clients"]["current"] > 0
        metrics = admin.metrics()
        assert metrics("idproxy_server_replies_total", server=server["server"]) > 0
        assert metrics("idproxy_server_state", state="STANDALONE") == 1

    def test_open_transactions(self, start_proxy, replica_set):
        """With and without rules; of a client that commits, one that aborts, one that goes away."""
        proxy = start_proxy(configuration(replica_set, [COUNTER], admin=LISTEN))
        admin = Admin(proxy)
        uri = f"mongodb://{proxy.address}/?directConnection=true"

        def opened() -> int:
            clients = status(admin)["clients"]
            ages = [each["oldest_transaction"] for each in clients["list"] if each["transactions"]]
            count = sum(each["transactions"] for each in clients["list"])
            assert clients["transactions"] == count == admin.metrics()("idproxy_transactions")
            assert clients["oldest_transaction"] == (pytest.approx(max(ages), abs=1) if ages else None)
            return count

        with pymongo.MongoClient(uri) as client:
            client.shop.orders.insert_one({})
            client.plain.things.insert_one({})
            with client.start_session() as a, client.start_session() as b:
                client.plain.things.find_one(session=a)
                client.plain.things.update_one({}, {"$inc": {"x": 1}}, session=a)
                assert opened() == 0
                a.start_transaction()
                client.plain.things.find_one(session=a)
                assert opened() == 1
                b.start_transaction()
                client.shop.orders.insert_many([{}, {}], session=b)
                client.shop.orders.insert_one({}, session=b)
                assert opened() == 2
                assert admin.metrics()("idproxy_oldest_transaction_seconds") > 0
                assert re.search(r">2, [\d.]+ m?s<", admin.get("/").text)
                a.commit_transaction()
                assert opened() == 1
                b.abort_transaction()
                assert opened() == 0
                a.start_transaction()
                client.shop.orders.insert_one({}, session=a)
                assert opened() == 1
        eventually(lambda: opened() == 0, 30)

    def test_transactions_that_nobody_needs(self, start_proxy, standalone):
        """Of a client that invents sessions, which the server refuses: so many are counted."""
        proxy = start_proxy(configuration(standalone, [], admin=LISTEN))
        admin = Admin(proxy)
        with proxy.raw_client() as client:
            for _ in range(100):
                client.call({"find": "things", "lsid": {"id": bson.Binary(os.urandom(16), 4)},
                             "txnNumber": bson.Int64(1), "startTransaction": True,
                             "autocommit": False, "$db": "plain"})
            clients = status(admin)["clients"]
            assert clients["transactions"] == clients["list"][0]["transactions"] == 16
        eventually(lambda: status(admin)["clients"]["transactions"] == 0)

    def test_requests_that_wait_for_a_rule(self, start_proxy, replica_set, coll):
        """For their turn: one insert waits in the server for a transaction, the next one for it."""
        replica_set.client[coll].turns.create_index("n", unique=True)
        rules = [COUNTER, {"ns": f"{coll}.turns", "field": "n", "strategy": "gapless"}]
        proxy = start_proxy(configuration(replica_set, rules, admin=LISTEN))
        admin = Admin(proxy)

        def waiting() -> list[tuple[int, float | None]]:
            return [(each["waiting"], each["oldest_waiting"]) for each in status(admin)["rules"]]

        assert waiting() == [(0, None), (0, None)]
        uri = f"mongodb://{proxy.address}/?directConnection=true"
        with pymongo.MongoClient(uri) as client, client.start_session() as session:
            turns = client[coll].turns
            session.start_transaction()
            turns.insert_one({}, session=session)
            with Threads(*[lambda: turns.insert_one({})] * 2):
                eventually(lambda: waiting()[1][0] == 1, 30)
                assert waiting()[1][1] > 0 and waiting()[0] == (0, None)
                metrics = admin.metrics()
                labels = {"ns": f"{coll}.turns"}
                assert metrics("idproxy_rule_requests_waiting", **labels) == 1
                assert metrics("idproxy_rule_oldest_waiting_seconds", **labels) > 0
                session.commit_transaction()
        assert waiting() == [(0, None), (0, None)]
        found = replica_set.client[coll].turns.find()
        assert sorted(each["n"] for each in found) == [1, 2, 3]

    def test_a_cursor_that_waits_for_data_is_not_slow(self, start_proxy, replica_set):
        proxy = start_proxy(configuration(replica_set, [], admin=LISTEN))
        admin = Admin(proxy)
        with proxy.client() as client, client.shop.watch(max_await_time_ms=60_000) as stream:
            with Threads(stream.try_next):
                eventually(lambda: any(each["requests"] > 1 for each in
                                       status(admin)["clients"]["list"]))
                assert all(each["oldest"] is None or each["oldest"] < 1 for each in
                           status(admin)["clients"]["list"])
                client.shop.other.insert_one({})  # ends the wait

    def test_a_reload(self, start_proxy, standalone, tmp_path):
        file = tmp_path / "proxy.yaml"
        more = {"admin": LISTEN, "listen": {"port": 0}, "log": {"format": "json"}}
        file.write_text(json.dumps(configuration(standalone, [COUNTER], **more)))
        proxy = start_proxy(file)
        admin = Admin(proxy)
        assert status(admin)["configuration"]["last_reload"] is None
        before = status(admin)["configuration"]["hash"]
        larger = COUNTER | {"block": {"size": 5}}
        file.write_text(json.dumps(configuration(standalone, [larger], **more)))
        proxy.process.send_signal(signal.SIGHUP)
        last = eventually(lambda: status(admin)["configuration"]["last_reload"])
        assert last["applied"] and "block.size" in last["text"]
        assert status(admin)["configuration"]["hash"] != before
        assert "reloaded" in [each["event"] for each in status(admin)["events"]]


@pytest.fixture(scope="module")
def trial() -> Iterator[ReplicaSet]:
    with ReplicaSet("trial") as members:
        yield members


@pytest.fixture
def watched(trial, start_proxy) -> Iterator[tuple[Proxy, Admin]]:
    """A proxy with an application that inserts all the time."""
    trial.heal()
    proxy = start_proxy(configuration(trial, [COUNTER], admin=LISTEN))
    uri = "mongodb://" + ",".join(address for address, _ in proxy.listeners)

    def work() -> None:
        with pymongo.MongoClient(uri, replicaSet=trial.name, appname="shop") as client:
            while not application.over.wait(0.05):
                with contextlib.suppress(pymongo.errors.PyMongoError):
                    client.shop.orders.insert_one({})

    application = Threads(work)
    with application:
        admin = Admin(proxy)
        eventually(lambda: status(admin)["rules"][0]["values"] > 0, 30)
        # It has looked at the servers, and knows which one is the primary.
        eventually(lambda: len(status(admin)["history"]["clients"]) > 2, 30)
        yield proxy, admin


class TestTrial:
    """What an operator would ask of it, on a set whose members fail."""

    def test_a_frozen_primary(self, trial, watched):
        proxy, admin = watched
        primary = trial.primary
        os.kill(primary.process.pid, signal.SIGSTOP)
        try:
            event = proxy.wait_event("server_slow", timeout=30)
            assert event["server"] == primary.address and event["oldest_seconds"] >= 2
            eventually(lambda: (server(admin, primary)["oldest"] or 0) >= 5, 30)
            assert f"server {primary.address} has not answered a request" in wrong(admin)
            assert admin.metrics()("idproxy_server_oldest_request_seconds",
                                   server=primary.address) >= 5
            assert "slow: " in admin.get("/").text
        finally:
            os.kill(primary.process.pid, signal.SIGCONT)
        proxy.wait_event("server_answers", timeout=30)
        eventually(lambda: "has not answered" not in wrong(admin), 30)

    def test_another_primary(self, trial, watched):
        proxy, admin = watched
        before, after = trial.primary, trial.secondaries[0]
        trial.step_up(after)
        event = proxy.wait_event("primary_changed", timeout=60)
        assert event["from"] == before.address and event["to"] == after.address
        assert server(admin, after)["state"] == "PRIMARY"

    def test_a_member_that_is_killed(self, trial, watched):
        proxy, admin = watched
        member = trial.secondaries[0]
        member.kill()
        down = eventually(lambda: (found := server(admin, member))["state"] == "down" and found, 60)
        assert down["up"] is False and down["last_failure"]["reason"]
        assert abs(down["since"] - status(admin)["now"]) < 60
        assert f"server {member.address} cannot be reached" in wrong(admin)
        assert proxy.wait_event("upstream_unreachable")["server"] == member.address
        assert admin.metrics()("idproxy_server_state", server=member.address, state="down") == 1
        member.restart()

    def test_a_counter_that_ends(self, trial, start_proxy):
        proxy = start_proxy(configuration(
            trial, [{"ns": "trial.ends", "field": "n", "strategy": "counter", "max": 1000}],
            admin=LISTEN))
        admin = Admin(proxy)
        uri = "mongodb://" + ",".join(address for address, _ in proxy.listeners)
        with pymongo.MongoClient(uri, replicaSet=trial.name) as client:
            client.trial.ends.insert_many([{} for _ in range(995)])
        event = proxy.wait_event("numbers_run_out", timeout=30)
        assert event["left"] <= 5
        assert "numbers are left up to max" in wrong(admin) or "number is left" in wrong(admin)
        [rule] = status(admin)["rules"]
        assert rule["left"] <= 5 and rule["warning"]
        assert status(admin, "?rules=failing")["rules"], "it runs out"

    def test_an_index_that_is_missing(self, trial, start_proxy):
        rule = {"ns": "trial.bare", "field": "n", "strategy": "gapless"}
        proxy = start_proxy(configuration(trial, [rule], admin=LISTEN))
        admin = Admin(proxy)
        trial.primary.client.trial.bare.drop()
        trial.primary.client.trial.bare.insert_one({"n": 1})
        found = eventually(lambda: [each for each in status(admin)["wrong"]
                                    if "no unique index" in each["text"]], 40)
        assert found[0]["level"] == "error" and "createIndex" in found[0]["text"]

    def test_a_privilege_that_is_cut(self, guarded, start_proxy, coll):
        """Before inserts fail, since the counter still has numbers in memory; and until it is granted
        again by the command that the page prints."""
        store = [{"role": "readWrite", "db": "idproxy"}]
        guarded.add_user(f"{coll}-cut", [*store, {"role": "read", "db": coll}])
        rule = {"ns": f"{coll}.orders", "field": "n", "strategy": "counter", "block": 100}
        proxy = start_proxy(configuration(guarded, [rule], admin=LISTEN,
                                          id_store={"uri": guarded.uri_of(f"{coll}-cut")}))
        admin = Admin(proxy)
        uri = guarded.uri_of("root").replace(guarded.address, proxy.address)
        with pymongo.MongoClient(uri) as client:
            orders = client[coll].orders
            orders.insert_one({})
            guarded.client.admin.command("revokeRolesFromUser", f"{coll}-cut", roles=store)
            orders.insert_many([{} for _ in range(90)])  # the next block is asked for
            found = eventually(lambda: [each for each in status(admin)["wrong"]
                                        if "needs readWrite on idproxy" in each["text"]], 30)
            assert found[0]["level"] == "error"
            assert "is not ready: no numbers but those in memory" in found[0]["text"]
            assert status(admin)["rules"][0]["ready"] is False
            event = proxy.wait_event("not_ready")
            assert event["ns"] == f"{coll}.orders" and "grantRolesToUser" in event["reason"]
            assert admin.metrics()("idproxy_rule_collections_not_ready") == 1
            orders.insert_one({})
            guarded.client.admin.command("grantRolesToUser", f"{coll}-cut", roles=store)
            eventually(lambda: status(admin)["rules"][0]["ready"], 30)
            orders.insert_many([{} for _ in range(300)])
