"""A25: servers that lie about themselves end nothing, whichever command asks them.

What no server may say is refused before libmongoc reads it, by one function for all its connections: each
command asks a server for each lie at once. What may be said, but is odd, is said by one server at a time.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import bson
import pytest

from support.fake_server import HELLO, FakeServer, Request, in_kind
from support.process import eventually, free_port
from support.proxy import Proxy, binary

SET = "liars"
NO_MEMBERS = ["x:0", "", "x:", "x", ":27017", "x:99999", "x:-1", "[::1", "[::1]", "::1:27017", "a b:1",
              "x:1\0", "\x1b[31m:1", "$(id):1", "/tmp/x.sock:1", "h" * 256 + ":1"]

IMPOSSIBLE: dict[str, dict[str, Any]] = {
    **{f"hosts_{number}": {"hosts": [name]} for number, name in enumerate(NO_MEMBERS)},
    "second_host": {"hosts": ["127.0.0.1:9", "x:0"]},
    "passives": {"passives": ["x:0"]},
    "arbiters": {"arbiters": ["x:0"]},
    "me": {"me": "x:0"},
    "me_number": {"me": 1},
    "primary": {"primary": "x:0"},
    "hosts_text": {"hosts": "x:1"},
    "hosts_document": {"hosts": {"0": "x:1"}},
    "hosts_of_numbers": {"hosts": [1, 2]},
    "hosts_of_null": {"hosts": [None]},
    "hosts_in_hosts": {"hosts": [["x:1"]]},
    "ten_thousand": {"hosts": [f"127.0.0.1:{10_000 + i}" for i in range(10_000)]},
    "set_number": {"setName": 1},
    "set_empty": {"setName": ""},
    "wire_huge": {"maxWireVersion": 2**31 - 1},
    "wire_negative": {"maxWireVersion": -1},
    "wire_text": {"maxWireVersion": "17"},
    "compression": {"compression": [1]},
    "login_number": {"speculativeAuthenticate": 1},
    "login_text": {"speculativeAuthenticate": "x"},
    "login_null": {"speculativeAuthenticate": None},
    "login_list": {"speculativeAuthenticate": [{}]},
}
ODD: dict[str, dict[str, Any]] = {
    "set": {"setName": "x';$(id)\x1b[31m"},
    "nobody": {"hosts": []},
    "letters": {"hosts": ["bücher.example:9", "日本:9"], "me": "bücher.example:9"},
    "others": {"hosts": ["127.0.0.1:9"], "primary": "127.0.0.1:9", "me": "127.0.0.1:9"},
    "sizes": {"maxBsonObjectSize": -1, "maxMessageSizeBytes": 0, "maxWriteBatchSize": -1},
    "times": {"topologyVersion": {}, "$clusterTime": {"clusterTime": 1}, "lastWrite": 1},
    "new": {"minWireVersion": 900, "maxWireVersion": 999},
    "login": {"saslSupportedMechs": [1, None], "speculativeAuthenticate": {"payload": b"r=x,s=,i=0", "done": 1}},
}
# A part of a login is in each hello to a user's connection, and in its reply.
USERS = {"nobody": "", "user": "u:p@"}
BUILDS: dict[str, dict[str, Any]] = {
    "nothing": {}, "number": {"version": 6}, "empty": {"version": ""}, "words": {"version": "six.zero"},
    "huge": {"version": "9" * 40 + ".0"}, "escapes": {"version": "6.0.5\x1b[31m;$(id)"},
}


class Liar(FakeServer):
    """A primary of a set of one, with these fields in its hello and its buildInfo once `lies` is set."""

    def __init__(self, hello: dict[str, Any], build: dict[str, Any] | None = None, lies: bool = True):
        super().__init__()
        self.lies, self.told = lies, 0
        self._hello = hello
        self._build = {"version": "6.0.5"} if build is None else build
        for name in ("hello", "isMaster", "ismaster"):
            self.others[name] = self._say_hello
        self.others["buildInfo"] = lambda request: in_kind(request, {**self._build, "ok": 1.0})
        self.others["getParameter"] = lambda request: in_kind(
            request, {"featureCompatibilityVersion": {"version": "5.0"}, "ok": 1.0})

    def _say_hello(self, request: Request) -> bytes:
        truth = {"hosts": [self.address], "setName": SET, "setVersion": 1, **HELLO, "secondary": False,
                 "primary": self.address, "me": self.address,
                 "electionId": bson.ObjectId("7fffffff0000000000000001")}
        if self.lies:
            self.told += 1
        return in_kind(request, {**truth, **(self._hello if self.lies else {})})


def written(folder: pathlib.Path, servers: list[Liar], user: str = "nobody") -> pathlib.Path:
    """A configuration for this one of USERS, who is the id store's."""
    path = folder / "config.yaml"
    hosts = ",".join(each.address for each in servers)
    path.write_text(json.dumps({
        "listen": {"address": "127.0.0.1", "port": 0},
        "admin": {"listen": f"127.0.0.1:{free_port()}"}, "log": {"format": "json"}, "threads": 2,
        "limits": {"drain": "1s"},
        "upstream": {"uri": f"mongodb://{USERS[user]}{hosts}/"},
        "rules": [{"ns": "shop.orders", "field": "number", "strategy": "counter"},
                  {"ns": "shop.bills", "field": "number", "strategy": "gapless"}]}))
    path.chmod(0o600)
    return path


COMMANDS = ["check --connect", "doctor", "doctor --json", "counters list", "counters get shop.orders.number",
            "counters sync shop.orders.number", "ids --ns shop.orders --field number",
            "backfill --ns shop.orders --field number --dry-run", "verify --ns shop.orders --field number"]


def run_all(config: pathlib.Path, commands: list[str] = COMMANDS) -> dict[str, tuple[int, str]]:
    """Code and output of each, of all at once. Who waits for a server that can be used is told to stop."""
    started = {each: subprocess.Popen([binary(), *each.split(), "--config", str(config)], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for each in commands}
    until = time.monotonic() + 60
    outcomes = {}
    for each, process in started.items():
        try:
            patience = 5 if each.startswith(("backfill", "verify")) else until - time.monotonic()
            output, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.terminate()
            output, _ = process.communicate(timeout=60)
        outcomes[each] = process.returncode, output
    return outcomes


def assert_none_is_ended(outcomes: dict[str, tuple[int, str]]) -> None:
    for command, (code, output) in outcomes.items():
        assert code >= 0, f"{command} was ended by signal {-code}:\n{output}"
        assert code != 70, f"{command} has an internal error:\n{output}"
        assert "Sanitizer" not in output and "runtime error" not in output, (command, output)


@pytest.fixture
def liars() -> Iterator[list[Liar]]:
    with ExitStack() as all_of_them:
        yield [all_of_them.enter_context(Liar(lie)) for lie in IMPOSSIBLE.values()]


@pytest.mark.parametrize("user", USERS)
def test_no_command_is_ended_by_what_cannot_be(user, liars, tmp_path):
    outcomes = run_all(written(tmp_path, liars, user))
    assert all(each.told > 0 for each in liars)
    assert_none_is_ended(outcomes)
    for command in ("check --connect", "doctor"):
        code, output = outcomes[command]
        assert code in (1, 69), output
        assert "hosts must be a list of HOST:PORT" in output, output


@pytest.mark.parametrize("user", USERS)
def test_the_proxy_starts_with_them(user, liars, tmp_path):
    with Proxy(written(tmp_path, liars, user), await_ready=False) as proxy:
        proxy.wait_event("ready", timeout=30)
        eventually(lambda: all(each.told > 3 for each in liars), 60, "that all are asked several times")
        assert proxy.process.poll() is None
        proxy.stop()


def test_the_proxy_outlives_those_who_begin_to_lie(tmp_path):
    for lie in ("hosts_0", "hosts_1", "hosts_of_numbers", "ten_thousand"):
        with Liar(IMPOSSIBLE[lie], lies=False) as server, Proxy(written(tmp_path, [server])) as proxy:
            server.lies = True
            eventually(lambda: server.told > 5, 60, "that it is asked several times")
            assert proxy.process.poll() is None
            status = subprocess.run([binary(), "status", "--config", str(tmp_path / "config.yaml")],
                                    capture_output=True, text=True, timeout=30)
            assert status.returncode in (0, 1), status
            proxy.stop()


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd(name, tmp_path):
    with Liar(ODD[name]) as server:
        assert_none_is_ended(run_all(written(tmp_path, [server], "user"), COMMANDS[:4]))


@pytest.mark.parametrize("name", BUILDS)
def test_a_version_that_is_none(name, tmp_path):
    with Liar({}, BUILDS[name]) as server:
        outcomes = run_all(written(tmp_path, [server]), ["check --connect", "doctor", "doctor --json"])
        assert_none_is_ended(outcomes)
        for _, output in outcomes.values():
            assert "six.zero" not in output and "\x1b" not in output and "$(id)" not in output
        assert "fcv-behind" not in outcomes["doctor --json"][1]
