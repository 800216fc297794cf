"""Errors that name the cause: a set of another name, a refused login, a server that is down, a view."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pymongo.errors import OperationFailure, WriteError

from support.admin import LISTEN, Admin
from support.counters import insert
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import binary
from support.secrets import PASSWORD

SOON = 40


@pytest.fixture(scope="module")
def another_rs0() -> Iterator[Mongod]:
    """A set of the same name that is not the same set."""
    with Mongod("rs0") as mongod:
        yield mongod


def counter(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "n", "strategy": "counter", **more}


def check(directory: pathlib.Path, config: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = directory / "config.yaml"
    file.write_text(json.dumps({"admin": {"listen": None}, **config}))
    file.chmod(0o600)
    return subprocess.run([binary(), "--config", file, "--check-config", "--connect"],
                          capture_output=True, text=True, timeout=60)


def page(admin: Admin) -> str:
    return admin.get("/readyz").text


# --- Names of sets ---

class TestAWrongReplicaSet:
    def test_in_upstream_uri_is_an_error_of_the_check(self, replica_set, tmp_path, coll):
        config = {"upstream": {"uri": f"mongodb://{replica_set.address}/?replicaSet=other"},
                  "rules": [counter(f"{coll}.a")]}
        done = check(tmp_path, config)
        fault = (f"{replica_set.address} is a member of the replica set rs0, but upstream.uri has "
                 "replicaSet=other: write replicaSet=rs0")
        assert done.returncode == 69 and "error: set-name-differs: upstream.uri\n" in done.stdout
        told = fault.replace(" is", ": it is", 1)
        assert f"  server {told}, in line 1 of {tmp_path}" in done.stdout
        assert "does not answer" not in done.stdout, done.stdout
        assert f"error: store-down: id_store\n  the id store (upstream.uri) is not found: {fault}\n" in done.stdout
        remedy = fault.rpartition(" write ")[2]
        config["upstream"]["uri"] = config["upstream"]["uri"].replace("replicaSet=other", remedy)
        done = check(tmp_path, config)
        assert done.returncode == 0, done.stdout

    def test_while_serving(self, replica_set, start_proxy, coll):
        proxy = start_proxy({
            "upstream": {"uri": f"mongodb://{replica_set.address}/?replicaSet=other"},
            "rules": [counter(f"{coll}.a")], "admin": LISTEN})
        admin = Admin(proxy)
        fault = ("is a member of the replica set rs0, but upstream.uri has replicaSet=other: "
                 "write replicaSet=rs0")
        eventually(lambda: f"\nerror: server {replica_set.address}: it {fault}\n" in page(admin), SOON)
        store = f"the id store is not found: {replica_set.address} {fault}"
        eventually(lambda: f"not ready: {store}\n" in page(admin), SOON)
        assert f"\nerror: {store}\n" in page(admin)
        assert "does not answer" not in page(admin)
        reply = insert(proxy, f"{coll}.a", 1)
        assert reply["code"] == 6 and replica_set.address not in reply["errmsg"]
        assert "the id store's servers belong to another replica set" in reply["errmsg"]
        assert fault in proxy.wait_event("store_down", SOON)["reason"]

    def test_of_the_id_store(self, replica_set, tmp_path, start_proxy, coll):
        config = {"upstream": {"uri": f"mongodb://{replica_set.address}"},
                  "id_store": {"uri": f"mongodb://{replica_set.address}/?replicaSet=other"},
                  "rules": [counter(f"{coll}.a")], "admin": LISTEN}
        fault = (f"is not found: {replica_set.address} is a member of the replica set rs0, but "
                 "id_store.uri has replicaSet=other: write replicaSet=rs0")
        done = check(tmp_path, {**config, "admin": {"listen": None}})
        assert done.returncode == 69
        assert f"  the id store (id_store.uri) {fault}\n" in done.stdout
        admin = Admin(start_proxy(config))
        eventually(lambda: f"error: the id store {fault}\n" in page(admin), SOON)


def test_a_mechanism_that_this_host_cannot_use(standalone, tmp_path, coll):
    """The SASL library is begun by the first login that wants it."""
    done = check(tmp_path, {
        "upstream": {"uri": f"mongodb://{standalone.address}"},
        "id_store": {"uri": f"mongodb://app@{standalone.address}/?authMechanism=GSSAPI&authSource=$external"},
        "rules": [counter(f"{coll}.a")]})
    assert done.returncode == 69
    assert re.search(r"SASL Failure: .*GSSAPI\. Available mechanisms: .*\bEXTERNAL\b|GSSAPI Error", done.stdout), done.stdout


class TestAnotherIdStore:
    def config(self, upstream: Mongod, store: Mongod, coll: str) -> dict[str, Any]:
        return {"upstream": {"uri": f"mongodb://{upstream.address}"},
                "id_store": {"uri": f"mongodb://{store.address}"}, "rules": [counter(f"{coll}.a")]}

    def test_in_another_set_of_the_same_name(self, replica_set, another_rs0, tmp_path, coll):
        done = check(tmp_path, self.config(replica_set, another_rs0, coll))
        assert done.returncode == 69
        assert (f"  {another_rs0.address}, of id_store.uri, is a member of the replica set rs0 "
                f"({another_rs0.address}), and {replica_set.address}, of upstream.uri, is a member "
                f"of the replica set rs0 ({replica_set.address}): the proxies must coordinate in "
                "the servers that have the documents. Name those in id_store.uri, or remove it\n"
                ) in done.stdout
        assert "1 of 1" not in done.stdout, "the rule itself is ready"

    def test_in_no_set(self, replica_set, standalone, tmp_path, coll):
        for upstream, store in ((replica_set, standalone), (standalone, replica_set)):
            done = check(tmp_path, self.config(upstream, store, coll))
            assert done.returncode == 69
            assert "the proxies must coordinate in the servers" in done.stdout

    def test_in_the_same_one_is_right(self, replica_set, standalone, tmp_path, coll):
        for server in (replica_set, standalone):
            done = check(tmp_path, self.config(server, server, coll))
            assert done.returncode == 0, done.stdout


# --- Logins ---

def rules_of_each_kind(db: str) -> list[dict[str, Any]]:
    return [counter(f"{db}.counter"),
            counter(f"{db}.scope", scope=["tenant"], unique_index="create"),
            counter(f"{db}.index", unique_index="require"),
            {"ns": f"{db}.ranges", "field": "n", "strategy": "counter-ranges",
             "ranges": {"count": 3, "width": 1000}},
            {"ns": f"{db}.gapless", "field": "n", "strategy": "gapless", "unique_index": "create"},
            {"ns": f"{db}.tenants", "field": "n", "strategy": "gapless", "scope": ["tenant"],
             "unique_index": "create"},
            {"ns": f"{db}.digits", "field": "n", "strategy": "random-digits", "digits": 9,
             "unique_index": "require"},
            {"ns": f"{db}.uuid", "field": "n", "strategy": "uuid", "unique_index": "create"},
            {"ns": f"{db}.reserved", "field": "n", "strategy": "random-digits", "digits": 9,
             "reserve": {"collection": "n"}}]


def test_a_refused_login_is_never_said_to_be_silence(guarded, start_proxy, tmp_path, coll):
    """On any page, in any event, in any error, for any rule."""
    rules = rules_of_each_kind(coll)
    uri = guarded.uri_of("root").replace(PASSWORD, "wrong-password")
    config = {"upstream": {"uri": f"mongodb://{guarded.address}"}, "id_store": {"uri": uri},
              "rules": rules, "admin": LISTEN}
    proxy = start_proxy(config)
    admin = Admin(proxy)
    login = "refuses the proxy's login"

    def refused() -> list[str]:
        lines = admin.rules()
        return lines if all(login in line for line in lines) else []
    eventually(refused, SOON, "every rule says so")
    with proxy.client(username="root", password=PASSWORD, authSource="admin") as client:
        def is_told(rule: dict[str, Any]) -> None:
            db, _, name = rule["ns"].partition(".")
            errors: list[str] = []

            def said() -> bool:
                with pytest.raises(OperationFailure) as raised:
                    client[db][name].insert_one({"tenant": "a"})
                errors.append(raised.value.details["errmsg"])
                return login in errors[-1]
            try:
                eventually(said, SOON)
            except TimeoutError:
                raise AssertionError(f"{rule['ns']}: {errors[-1]}") from None
        with ThreadPoolExecutor(len(rules)) as threads:  # each waits two seconds
            list(threads.map(is_told, rules))
        status = client.admin.command("idproxy", "status")
    for text in (page(admin), str(status), proxy.log()):
        assert "does not answer" not in text, text
    assert "wrong-password" not in proxy.log()
    done = check(tmp_path, {**config, "rules": rules[:2], "admin": {"listen": None}})
    assert done.returncode == 69 and "does not answer" not in done.stdout, done.stdout
    assert "check user root and its password in id_store.uri" in done.stdout
    assert "wrong-password" not in done.stdout + done.stderr


# --- Servers that are down ---

class TestAServerThatIsDown:
    def test_the_reason(self, standalone, start_proxy):
        address = f"127.0.0.1:{free_port()}"
        proxy = start_proxy({"upstream": {"uri": f"mongodb://{address}"}, "rules": [],
                             "id_store": {"uri": f"mongodb://{standalone.address}"},
                             "admin": LISTEN})
        admin = Admin(proxy)
        eventually(lambda: f"\nerror: server {address} cannot be reached: Connection refused\n"
                   in page(admin), SOON)

    def test_the_reason_with_tls(self, standalone, start_proxy, certificates):
        uri = f"mongodb://{standalone.address}/?tls=true&tlsCAFile={certificates.authority.file}"
        proxy = start_proxy({"upstream": {"uri": uri}, "rules": [], "admin": LISTEN,
                             "id_store": {"uri": f"mongodb://{standalone.address}"}})
        admin = Admin(proxy)
        eventually(lambda: re.search(r"cannot be reached: TLS: the server (speaks no TLS|closed the "
                                     r"connection at the first bytes)", page(admin)),
                   SOON, page(admin))


# --- Views ---

class TestAView:
    def test_is_said_to_be_one(self, replica_set, start_proxy, tmp_path, coll):
        db = replica_set.client[coll]
        db.create_collection("seen", viewOn="base")
        rules = [counter(f"{coll}.seen"),
                 counter(f"{coll}.seen", field="m", unique_index="require"),
                 {"ns": f"{coll}.seen", "field": "g", "strategy": "gapless",
                  "unique_index": "create"}]
        config = {"upstream": {"uri": f"mongodb://{replica_set.address}"}, "rules": rules}
        proxy = start_proxy({**config, "admin": LISTEN})
        is_view = "a view or a time-series collection: no rule applies to it"
        admin = Admin(proxy)
        eventually(lambda: page(admin).count(is_view) == 3, SOON)
        with proxy.client() as client:
            with pytest.raises(OperationFailure) as raised:
                client.admin.command("idproxy", "next", ns=f"{coll}.seen", field="n")
            assert "no rule" in raised.value.details["errmsg"]
            with pytest.raises(WriteError) as raised:
                client[coll].seen.insert_one({})
            assert raised.value.code == 166, "the server's own"
        done = check(tmp_path, config)
        assert done.returncode == 69 and done.stdout.count(is_view) == 3, done.stdout
        without_times = re.sub(r'"time":"[^"]*"', "", proxy.log())
        assert "166" not in without_times + done.stdout + page(admin)

    def test_that_the_store_may_not_list(self, guarded, start_proxy, coll):
        """Then only the server's error 166 says so."""
        guarded.client[coll].create_collection("seen", viewOn="base")
        actions = ["find", "insert", "update", "createCollection", "createIndex", "listIndexes"]
        guarded.add_user(f"{coll}-blind", [], [
            {"resource": {"db": "", "collection": ""}, "actions": actions}])
        proxy = start_proxy({
            "upstream": {"uri": f"mongodb://{guarded.address}"},
            "id_store": {"uri": guarded.uri_of(f"{coll}-blind")},
            "rules": [counter(f"{coll}.seen")], "admin": LISTEN})
        admin = Admin(proxy)
        eventually(lambda: "no rule applies to it" in page(admin), SOON)
