"""What the proxy says of each server that it stands before: its release, and what rules cannot have with it."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from support.admin import LISTEN, Admin
from support.fake_server import FakeServer, Last, reply_to
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, binary, configuration
from support.servers import has

pytestmark = pytest.mark.smoke

# Of which rules, by their place in the configuration.
LIMITS = {} if has("collection_uuid") else {
    "a collection that is dropped": [0, 2],
    "updates and findAndModify that a driver may repeat": [1],
}


def rules(coll: str) -> list[dict[str, object]]:
    return [{"ns": f"{coll}.orders", "field": "number", "strategy": "counter"},
            {"ns": f"{coll}.reported", "field": "id", "strategy": "uuid", "report": True},
            {"ns": f"{coll}.*", "field": "code", "strategy": "random-digits", "digits": 9,
             "unique_index": "create"}]


def check_notes(rows: list[str]) -> None:
    """Below the line of each rule."""
    for limit, concerned in LIMITS.items():
        for index in range(3):
            assert (limit in rows[index]) is (index in concerned), (limit, rows)
    if not LIMITS:
        assert not any("with MongoDB" in row for row in rows)


def test_readyz_and_the_log(replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    proxy = start_proxy(configuration(replica_set, rules(coll), admin=LISTEN))
    with proxy.client() as client:
        client[coll].orders.insert_one({})
    release = f"MongoDB {replica_set.client.server_info()['version']}"
    event = proxy.wait_event("server_release", 20)
    assert (event["server"], event["release"]) == (replica_set.address, release)
    admin = Admin(proxy)
    page = admin.get("/readyz").text
    assert f"-> {replica_set.address}: server up, {release}, " in page
    assert json.loads(admin.get("/status.json").text)["servers"][0]["release"] == release
    assert release in admin.get("/").text
    check_notes(page.split("\nrule ")[1:])
    logged = eventually(lambda: len(found := proxy.find_events("server_limit")) == len(LIMITS) and (found or [{}]), 20)
    for event in logged[:len(LIMITS)]:
        (concerned,) = [which for limit, which in LIMITS.items() if event["limit"].startswith(limit)]
        assert [part.split(" ")[0] for part in event["rules"].replace("), ", ")|").split("|")] == [
            str(each) for each in concerned]


def test_check_config(replica_set: Mongod, tmp_path: pathlib.Path, coll: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({"admin": {"listen": None}, **configuration(replica_set, rules(coll))}))
    done = subprocess.run([binary(), "--config", str(path), "--check-config", "--connect"],
                          capture_output=True, text=True, timeout=60)
    exact = replica_set.client.server_info()["version"]
    assert f"  {replica_set.address}  primary  MongoDB {exact}\n" in done.stdout
    table = done.stdout.split("\nRules\n")[1]
    check_notes([table.split(f"  {n}  ")[1].split(f"  {n + 1}  ")[0] for n in range(3)])


def test_one_that_does_not_say_its_version(start_proxy: Callable[..., Proxy]) -> None:
    """Then its hello tells what it can; once it says more, the proxy knows it after a restart of the server."""
    with FakeServer() as server:
        server.others["buildInfo"] = lambda request: reply_to(
            request, {"ok": 0.0, "errmsg": "no", "code": 13, "codeName": "Unauthorized"})
        proxy = start_proxy({"listen": {"address": "127.0.0.1", "port": 0}, "rules": [],
                             "upstream": {"uri": f"mongodb://{server.address}"}})
        assert proxy.wait_event("server_release", 20)["release"] == "MongoDB 6.0"
        with proxy.client() as client:
            server.others["buildInfo"] = lambda request: reply_to(request, {"version": "6.0.27", "ok": 1.0})
            client.admin.command("ping")
            server.others["x"] = lambda request: Last(reply_to(request, {"ok": 1.0}))
            client.admin.command("x")
            later = eventually(lambda: (proxy.find_events("server_release")[1:] or None), 30)
        assert [each["release"] for each in later] == ["MongoDB 6.0.27"]
