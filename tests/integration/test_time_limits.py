"""Commands look at all that there is, and end in time whatever is silent: servers, their members, the name
service."""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from support import names
from support.fake_server import HELLO, FakeServer, in_kind
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, binary, configuration

Done = subprocess.CompletedProcess[str]
SLACK = 2.0  # for a busy machine to start a program with sanitizers


def timed(*arguments: str | pathlib.Path, within: list[str] = []) -> tuple[Done, float]:
    begun = time.monotonic()
    done = subprocess.run([*within, binary(), *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return done, time.monotonic() - begun


@contextlib.contextmanager
def silent_name_service(folder: pathlib.Path) -> Iterator[list[str]]:
    """A command that runs another one where no question about a name is answered."""
    address = "127.%d.%d.%d" % tuple(random.randrange(1, 255) for _ in range(3))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        resolver = folder / "resolv.conf"
        resolver.write_text(2 * f"nameserver {address}\n")  # the resolver waits 5 s for each, twice
        yield names.mounted({pathlib.Path("/etc/resolv.conf"): resolver})


class Member(FakeServer):
    """The primary of a set, which calls itself by a name that this host may not know."""

    def __init__(self, name: str):
        super().__init__()
        its = {"setName": "rs0", "setVersion": 1, **HELLO, "secondary": False, "hosts": [name], "primary": name,
               "me": name}
        for command in ("hello", "isMaster", "ismaster"):
            self.others[command] = lambda request: in_kind(request, its)


needs_names = pytest.mark.skipif(not names.dns_permitted(), reason="needs port 53 and a mount namespace")


@needs_names
@pytest.mark.parametrize("command, most", [(["status"], 5), (["wait", "--max", "1s"], 1)])
def test_of_a_proxy_whose_name_nobody_tells(tmp_path: pathlib.Path, command: list[str], most: float):
    with silent_name_service(tmp_path) as within:
        done, seconds = timed(*command, "--admin", "proxy.example.test:27216", within=within)
    assert done.returncode == 69 and "proxy.example.test" in done.stderr, done.stderr
    assert seconds < most + SLACK


@needs_names
def test_servers_whose_names_nobody_tells(tmp_path: pathlib.Path):
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({
        "upstream": {"uri": "mongodb://a.example.test,b.example.test/?replicaSet=rs0"},
        "rules": [{"ns": "shop.orders", "field": "number", "strategy": "counter"}]}))
    with silent_name_service(tmp_path) as within:
        done, seconds = timed("counters", "list", "--config", file, within=within)
    assert done.returncode == 69 and not done.stdout
    assert "upstream.uri" in done.stderr and "a.example.test or b.example.test" in done.stderr, done.stderr
    assert seconds < 10 + SLACK


@pytest.mark.parametrize("silent", [False, pytest.param(True, marks=needs_names)], ids=["unknown", "silent"])
def test_members_that_cannot_be_resolved(tmp_path: pathlib.Path, silent: bool):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Member("nowhere.invalid:27017"))
        within = stack.enter_context(silent_name_service(tmp_path)) if silent else []
        file = tmp_path / "config.yaml"
        file.write_text(json.dumps({
            "upstream": {"uri": f"mongodb://{server.address}/?replicaSet=rs0"},
            "rules": [{"ns": "shop.orders", "field": "number", "strategy": "counter"}]}))
        done, seconds = timed("check", "--connect", "--config", file, within=within)
    assert done.returncode == 69, done
    assert seconds < 10 + SLACK
    assert "nowhere.invalid" in done.stdout and server.address in done.stdout, done.stdout


@needs_names
@pytest.mark.parametrize("command", ["check --connect", "doctor"])
def test_servers_that_no_record_names(tmp_path: pathlib.Path, command: str):
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({"upstream": {"uri": "mongodb+srv://set.example.test/"}}))
    with silent_name_service(tmp_path) as within:
        done, seconds = timed(*command.split(), "--config", file, within=within)
    assert done.returncode == (1 if command == "doctor" else 69)
    assert "cannot look up the servers of upstream.uri" in done.stdout, done
    assert seconds < 10 + SLACK


def test_a_session_that_a_server_does_not_end(standalone: Mongod, tmp_path: pathlib.Path):
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({
        "upstream": {"uri": f"mongodb://{standalone.address}"}, "id_store": {"wtimeout": "60s"},
        "rules": [{"ns": "shop.unended", "field": "number", "strategy": "counter"}]}))
    blocks = {"failCommands": ["endSessions"], "blockConnection": True, "blockTimeMS": 12_000}
    admin = standalone.client.admin
    admin.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": blocks})
    try:
        done, seconds = timed("check", "--connect", "--config", file)
    finally:
        admin.command({"configureFailPoint": "failCommand", "mode": "off"})
    assert done.returncode == 69 and "error: no-answer-in-time: rules" in done.stdout, done
    assert seconds < 10 + SLACK


def test_all_rules_are_looked_at(standalone: Mongod, tmp_path: pathlib.Path):
    """A hundred and ten wildcards that fail do not hide the rule that refuses the application's inserts."""
    rule = {"field": "number", "strategy": "counter", "unique_index": "require"}
    rules = [{"ns": f"many{i}.*", **rule} for i in range(110)] + [{"ns": "shop.orders", **rule}]
    admin = f"127.0.0.1:{free_port()}"
    with Proxy(configuration(standalone, rules, admin={"listen": admin})) as proxy, proxy.client() as client:
        for i in range(110):
            assert client[f"many{i}"].command({"insert": "c", "documents": [{}]}, check=False)["ok"] == 0

        def waited(*options: str) -> Done:
            """Once its last question came when there was time left for an answer."""
            return eventually(lambda: "no answer" not in (
                done := timed("wait", "--max", "1s", *options, "--admin", admin)[0]).stderr and done, 60)

        assert waited().returncode == 69 and "(shop.orders, number) is not ready" in waited().stderr
        as_json = waited("--json")
        said = json.loads(as_json.stdout)
        assert as_json.returncode == 69 and said["ready"] is False and "shop.orders" in said["reason"]
        assert said["admin"] == admin and said["waited"] > 0
        table, _ = timed("status", "--rules", "--admin", admin)
        assert all(f"{each['ns']} " in table.stdout for each in rules), table.stdout
        standalone.client.shop.orders.create_index("number", unique=True)
        ready, _ = timed("wait", "--max", "20s", "--json", "--admin", admin)
        assert ready.returncode == 0 and json.loads(ready.stdout)["ready"] is True


def test_reports_for_programs(standalone: Mongod, tmp_path: pathlib.Path):
    file, admin = tmp_path / "config.yaml", f"127.0.0.1:{free_port()}"
    rules = [{"ns": "reports.*", "field": "n", "strategy": "counter"},
             {"ns": "report.orders", "field": "n", "strategy": "counter", "unique_index": "require"}]

    def write(**more: object) -> None:
        file.write_text(json.dumps({**configuration(standalone, rules), "listen": {"port": 0},
                                    "admin": {"listen": admin}, "log": {"format": "json"}, **more}))
        file.chmod(0o600)

    write()
    checked, _ = timed("check", "--connect", "--json", "--config", file)
    said = json.loads(checked.stdout)
    assert checked.returncode == 69 and said["ok"] is True
    in_file = [each for each in said["findings"] if "line" in each]
    assert {each["level"] for each in in_file} == {"note"}  # of what a wildcard leaves alone
    found = {each["id"]: each for each in said["findings"] if "id" in each}
    assert set(found) == {"standalone-server", "rule-not-ready"}, found
    assert found["rule-not-ready"]["level"] == "error" and found["rule-not-ready"]["commands"]
    (server,) = said["servers"]
    assert (server["address"], server["state"]) == (standalone.address, "standalone")
    assert server["version"].startswith("MongoDB ")
    wildcard, literal = said["rules"]
    assert wildcard["ready"] and wildcard["checked_with_first_insert"]
    assert not literal["ready"] and "unique index" in literal["reason"]
    with Proxy(file):
        rules.pop()
        write()
        reloaded, _ = timed("reload", "--json", "--config", file)
        said = json.loads(reloaded.stdout)
        assert reloaded.returncode == 0 and said["reloaded"] and "removed report.orders.n" in said["changed"]
        write(colour="blue")
        refused, _ = timed("reload", "--json", "--config", file)
        said = json.loads(refused.stdout)
        assert refused.returncode == 78 and said["reloaded"] is False and "1 error" in said["reason"]
        assert any("colour" in each for each in said["findings"])
    faulty, _ = timed("check", "--json", "--config", file)
    said = json.loads(faulty.stdout)
    assert faulty.returncode == 78 and said["ok"] is False
    assert [each["level"] for each in said["findings"]] == ["error", "note"]
    assert "colour" in said["findings"][0]["text"]
