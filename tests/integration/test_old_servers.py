"""What the proxy says of each server that it stands before: its release, and what rules cannot have with it."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from support.admin import LISTEN, Admin
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, binary, configuration
from support.servers import has, version

pytestmark = pytest.mark.smoke

RELEASE = ".".join(map(str, version()[:2]))
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
    event = proxy.wait_event("server_release", 20)
    assert (event["server"], event["release"]) == (replica_set.address, f"MongoDB {RELEASE}")
    page = Admin(proxy).get("/readyz").text
    assert f"-> {replica_set.address}: server up, MongoDB {RELEASE}, " in page
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
