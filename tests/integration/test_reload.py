"""SIGHUP: a changed configuration comes into force as a whole or not at all, and nobody is dropped.

Certificates: test_tls.py. What systemd is told: test_systemd.py.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import bson
import pymongo
import pytest

from support import wire
from support.admin import LISTEN, Admin
from support.counters import counter, gaps
from support.full import FULL
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, is_sanitized
from support.secured import Certificates
from support.thief import insert_message
from support.threads import Threads

HOST_UNREACHABLE = 6


class Reloading:
    """A proxy and its file. Each reload is waited for until the figures count it."""

    def __init__(self, start: Callable[..., Proxy], file: pathlib.Path, server: Mongod,
                 rules: list[dict[str, Any]], **more: Any):
        self.file = file
        self.server = server
        self._more = more
        self.write(rules)
        self.proxy = start(self.file)
        self.admin = Admin(self.proxy)

    def text(self, rules: list[dict[str, Any]], **more: Any) -> str:
        config = {"listen": {"address": "127.0.0.1", "port": 0}, "admin": LISTEN,
                  "log": {"level": "info", "format": "json"}, "threads": 2,
                  "upstream": {"uri": f"mongodb://{self.server.address}"}, "rules": rules,
                  **self._more, **more}
        return json.dumps(config, indent=1)

    def write(self, rules: list[dict[str, Any]] | str, **more: Any) -> None:
        """A text is the file as it is. Whoever reads it meanwhile reads all of the one before."""
        beside = self.file.with_suffix(".new")
        beside.write_text(rules if isinstance(rules, str) else self.text(rules, **more))
        beside.replace(self.file)

    def counts(self) -> tuple[int, int]:
        """Reloads that have come into force, and that have not."""
        metrics = self.admin.metrics()
        return (int(metrics("idproxy_config_reloads_total", result="success")),
                int(metrics("idproxy_config_reloads_total", result="failure")))

    def hup(self) -> None:
        self.proxy.process.send_signal(signal.SIGHUP)

    def reload(self, rules: list[dict[str, Any]] | str, **more: Any) -> None:
        """This comes into force."""
        assert self._outcome(rules, **more) == (1, 0), self.proxy.log()[-4000:]

    def refuse_quietly(self, rules: list[dict[str, Any]] | str, **more: Any) -> None:
        """This does not."""
        assert self._outcome(rules, **more) == (0, 1), "it should have been refused"

    def refuse(self, rules: list[dict[str, Any]] | str, **more: Any) -> str:
        """This does not; the reason, as the log has it."""
        before = len(self.proxy.find_events("reload_failed"))
        self.refuse_quietly(rules, **more)
        return eventually(lambda: self.proxy.find_events("reload_failed")[before:])[-1]["reason"]

    def _outcome(self, rules: list[dict[str, Any]] | str, **more: Any) -> tuple[int, int]:
        self.write(rules, **more)
        before = self.counts()
        self.hup()
        after = eventually(
            lambda: counts if sum(counts := self.counts()) > sum(before) else None, 20)
        return after[0] - before[0], after[1] - before[1]


@pytest.fixture
def start(start_proxy: Callable[..., Proxy], replica_set: Mongod,
          tmp_path: pathlib.Path) -> Callable[..., Reloading]:
    """start(rules, **more of the configuration)"""
    files = (tmp_path / f"proxy{i}.yaml" for i in itertools.count())

    def made(rules: list[dict[str, Any]], **more: Any) -> Reloading:
        return Reloading(start_proxy, next(files), replica_set, rules, **more)
    return made


@pytest.fixture
def client(start: Callable[..., Reloading]) -> Iterator[Callable[[Reloading], wire.WireClient]]:
    """A connection that stays as it is."""
    made: list[wire.WireClient] = []

    def connect(reloading: Reloading) -> wire.WireClient:
        made.append(wire.WireClient(reloading.proxy.address, 30))
        return made[-1]
    yield connect
    for each in made:
        each.close()


def numbered(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "n", "strategy": "counter", **more}


def insert(client: wire.WireClient, ns: str) -> dict[str, Any]:
    """Inserts one document; what is stored of it, or the reply that is an error."""
    key = bson.ObjectId()
    reply = client.call(insert_message(ns, [{"_id": key}]))
    if not reply["ok"] or reply.get("writeErrors"):
        return reply
    db, _, name = ns.partition(".")
    found = client.call(wire.command({"find": name, "filter": {"_id": key}, "$db": db}))
    return found["cursor"]["firstBatch"][0]


def number(client: wire.WireClient, ns: str) -> Any:
    """Inserts one document; its n."""
    found = insert(client, ns)
    assert "n" in found, found
    return found["n"]


# --- What is refused leaves everything as it was ---

@dataclass(frozen=True)
class Faulty:
    """A configuration with rules for a namespace that is broken."""

    name: str
    text: Callable[[Reloading, str], str]
    finding: str


_NO_CERTIFICATE = {"address": "127.0.0.1", "port": 0, "tls": {
    "mode": "require", "certificate_key_file": "/nowhere/proxy.pem"}}

FAULTY = [
    Faulty("yaml", lambda its, ns: its.text([numbered(ns)])[:-20], "error: "),
    Faulty("bad_rule", lambda its, ns: its.text([numbered(ns, step=0)]),
           "rules[0].step: must not be 0"),
    Faulty("no_certificate", lambda its, ns: its.text([], listen=_NO_CERTIFICATE),
           "/nowhere/proxy.pem"),
]


@pytest.mark.tsan
@pytest.mark.parametrize("faulty", FAULTY, ids=lambda faulty: faulty.name)
def test_a_faulty_file_changes_nothing(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient], coll: str,
        faulty: Faulty) -> None:
    ns = f"{coll}.a"
    reloading = start([numbered(ns)])
    open_one = client(reloading)
    assert number(open_one, ns) == 1
    assert "the configuration has " in reloading.refuse(faulty.text(reloading, ns))
    errors = [event["message"] for event in reloading.proxy.find_events("config_error")]
    assert any(faulty.finding in error for error in errors), errors
    assert all(error.startswith(f"{reloading.file}:") for error in errors)
    assert number(open_one, ns) == 2
    assert number(client(reloading), ns) == 3
    reloading.reload([numbered(ns)])
    assert number(open_one, ns) == 4


def test_all_errors_are_named(start: Callable[..., Reloading], coll: str) -> None:
    reloading = start([numbered(f"{coll}.a")])
    rules = [numbered(f"{coll}.a", step=0), numbered(f"{coll}.b", heal={"mode": "never"})]
    assert "has 3 errors" in reloading.refuse(rules, threads="many")
    errors = "\n".join(e["message"] for e in reloading.proxy.find_events("config_error"))
    for key in ("rules[0].step", "rules[1].heal.mode", "threads"):
        assert key in errors


def test_a_file_that_is_gone_changes_nothing(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    ns = f"{coll}.a"
    reloading = start([numbered(ns)])
    reloading.file.unlink()
    before = reloading.counts()
    reloading.hup()
    eventually(lambda: reloading.counts() == (before[0], before[1] + 1), 20)
    assert reloading.proxy.wait_event("reload_failed")["reason"] == (
        f"cannot read {reloading.file}: No such file or directory")
    assert number(client(reloading), ns) == 1


def test_a_pin_on_a_port_in_use_changes_nothing(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    ns = f"{coll}.a"
    reloading = start([numbered(ns)])
    with closing(socket.create_server(("127.0.0.1", 0))) as busy:
        port = busy.getsockname()[1]
        listen = {"address": "127.0.0.1", "port": 0, "members": {"db9.example:27017": port}}
        reason = reloading.refuse([], listen=listen)
        assert "listen.members" in reason and str(port) in reason and "in use" in reason
    assert number(client(reloading), ns) == 1
    reloading.reload([], listen=listen)
    assert reloading.proxy.wait_event("reloaded")["changed"] == (
        f"rules: removed {ns}.n, listen.members")


# --- Rules ---

@pytest.mark.tsan
def test_rules_come_change_and_go_on_a_connection_that_stays(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        replica_set: Mongod, coll: str) -> None:
    ns = f"{coll}.a"
    replica_set.client[coll].a.create_index("n", unique=True, sparse=True)
    reloading = start([])
    stays = client(reloading)
    assert "n" not in insert(stays, ns)
    reloading.reload([numbered(ns, start=7)])
    assert number(stays, ns) == 7
    assert number(stays, ns) == 8
    reloading.reload([{"ns": f"{coll}.*", "field": "n", "strategy": "uuid"}])
    assert isinstance(number(stays, ns), (bson.Binary, bytes)), "a uuid now"
    reloading.reload([])
    assert "n" not in insert(stays, ns)
    reloading.reload([numbered(ns)])
    assert number(stays, ns) == 9, "the numbers go on"
    assert reloading.proxy.find_events("reloaded")[-1]["rules"] == 1


def test_what_has_changed_is_said(start: Callable[..., Reloading], coll: str) -> None:
    reloading = start([numbered(f"{coll}.a")])
    reloading.reload([numbered(f"{coll}.a")])
    assert reloading.proxy.wait_event("reloaded")["changed"] == ""
    reloading.reload([numbered(f"{coll}.a"), numbered(f"{coll}.b")])
    reloaded = reloading.proxy.find_events("reloaded")[-1]
    assert reloaded["changed"] == f"rules: added {coll}.b.n" and reloaded["rules"] == 2
    reloading.reload([numbered(f"{coll}.b", start=5, max=900, store={"key": "PRIVATE"}), *(
        numbered(f"{coll}.c{i}") for i in range(30))])
    changed = reloading.proxy.find_events("reloaded")[-1]["changed"]
    assert changed == (
        f"rules: changed {coll}.b.n (max, start, store.key); added "
        + ", ".join(f"{coll}.c{i}.n" for i in range(20)) + f" and 10 more; removed {coll}.a.n")
    assert "PRIVATE" not in reloading.proxy.log()
    assert reloading.counts() == (3, 0)
    at = reloading.admin.metrics()("idproxy_config_last_success_timestamp_seconds")
    assert abs(time.time() - at) < 60


def test_a_demand_for_certificates_has_changed(
        start: Callable[..., Reloading], certificates: Certificates) -> None:
    """The certificates are the same ones."""
    files = certificates.listen(ca_file=str(certificates.authority.file))
    reloading = start([], listen=files)
    for demand in ("require", "none"):
        files["tls"]["client_certificate"] = demand
        reloading.reload([], listen=files)
        assert reloading.proxy.find_events("reloaded")[-1]["changed"] == (
            "certificates of listen.tls")
        reloading.reload([], listen=files)
        assert reloading.proxy.find_events("reloaded")[-1]["changed"] == ""


def test_warnings_are_said_again(start: Callable[..., Reloading], coll: str) -> None:
    reloading = start([])
    reloading.reload([numbered(f"{coll}.a", heal={"mode": "off", "at_start": True})])
    eventually(lambda: any("heal.at_start: has no effect" in each["message"]
                           for each in reloading.proxy.find_events("config_warning")))


def test_an_unchanged_counter_keeps_its_block(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        replica_set: Mongod, coll: str) -> None:
    literal, wild = f"{coll}.a", f"{coll}.b"
    rules = [numbered(literal, block=100), numbered(f"{coll}.b*", block=100),
             {"ns": literal, "field": "x", "strategy": "random-digits"}]
    reloading = start(rules)
    stays = client(reloading)
    for ns in (literal, wild):
        assert number(stays, ns) == 1
    blocks = reloading.admin.metrics()("idproxy_store_blocks_total")
    for i in range(5):
        reloading.reload([*rules, {"ns": f"{coll}.z{i}", "field": "_id", "strategy": "uuid"}])
        for ns in (literal, wild):
            assert number(stays, ns) == i + 2
    assert reloading.admin.metrics()("idproxy_store_blocks_total") == blocks
    for ns in (literal, wild):
        assert counter(replica_set.client, ns)["COUNT"] == 101


def test_a_changed_counter_goes_on_without_a_gap(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        replica_set: Mongod, coll: str) -> None:
    ns = f"{coll}.a"
    reloading = start([numbered(ns, block={"size": 10})])
    stays = client(reloading)
    numbers = [number(stays, ns) for _ in range(3)]
    for block in ({"size": 500}, "auto", 1):
        reloading.reload([numbered(ns, block=block, retry={"attempts": 3})])
        numbers += [number(stays, ns) for _ in range(20)]
    reloading.reload([numbered(ns, output="string", format={"prefix": "N-"})])
    assert number(stays, ns) == f"N-{len(numbers) + 1}"
    assert numbers == list(range(1, len(numbers) + 1))


def test_other_handling_of_the_same_values(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    """They go on in their order, and so do the rule's counts."""
    ns = f"{coll}.a"
    rule = {"ns": ns, "field": "n", "strategy": "uuid"}
    reloading = start([rule])
    stays = client(reloading)
    values = [number(stays, ns)]
    for more in ({"retry": {"attempts": 3}}, {"report": True}, {"assign": "missing-or-null"}):
        reloading.reload([{**rule, **more}])
        values.append(number(stays, ns))
    assert values == sorted(values)
    metrics = reloading.admin.metrics()
    assert metrics("idproxy_rule_values_assigned_total", ns=ns) == len(values)


def test_another_step_begins_anew(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    ns = f"{coll}.a"
    reloading = start([numbered(ns)])
    stays = client(reloading)
    assert [number(stays, ns) for _ in range(3)] == [1, 2, 3]
    reloading.reload([numbered(ns, step=10)])
    # Numbers that were on their way to the old counter may be lost.
    first, second, third = (number(stays, ns) for _ in range(3))
    assert first > 3 and (second, third) == (first + 10, first + 20)


def test_a_higher_max_ends_the_exhaustion(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    ns = f"{coll}.a"
    reloading = start([numbered(ns, max=2)])
    stays = client(reloading)
    assert [number(stays, ns) for _ in range(2)] == [1, 2]
    assert insert(stays, ns)["code"] == 96
    reloading.reload([numbered(ns, max=9)])
    assert number(stays, ns) == 3


def test_more_digits_end_the_exhaustion(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        replica_set: Mongod, coll: str) -> None:
    ns = f"{coll}.a"
    replica_set.client[coll].a.create_index("n", unique=True)
    replica_set.client[coll].a.insert_many({"n": i} for i in range(10))
    rule = {"ns": ns, "field": "n", "strategy": "random-digits", "digits": 1}
    reloading = start([rule])
    stays = client(reloading)
    eventually(lambda: insert(stays, ns).get("code") == 96, 20)
    reloading.reload([{**rule, "digits": 9}])
    assert number(stays, ns) >= 0


def test_a_rule_that_is_new_is_checked_before_it_comes_into_force(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        replica_set: Mongod, coll: str) -> None:
    """And those that stay are as ready as before, also where only wildcards name the collection."""
    collections = [f"c{i}" for i in range(20)]
    for name in collections:
        replica_set.client[coll][name].create_index("n", unique=True)
        replica_set.client[coll][name].create_index("x", unique=True, sparse=True)
    wild = numbered(f"{coll}.c*", unique_index="require")
    reloading = start([wild])
    stays = client(reloading)
    for name in collections:
        eventually(lambda name=name: insert(stays, f"{coll}.{name}").get("n"), 20)
    reloading.reload([{"ns": f"{coll}.c*", "field": "x", "strategy": "random-digits",
                       "unique_index": "require"}, wild])
    for name in collections:
        found = insert(stays, f"{coll}.{name}")
        assert found.get("n") and "x" in found, found
    reloading.reload([{**wild, "ns": f"{coll}.c1"}, {**wild, "ns": "*"}])
    for name in collections:
        found = insert(stays, f"{coll}.{name}")
        assert found.get("n") and "x" not in found, found


# --- The log, and what takes a restart ---

def test_the_level_of_the_log(start: Callable[..., Reloading], coll: str) -> None:
    reloading = start([])
    log = {"format": "json"}
    reloading.reload([], log={**log, "level": "warning"})
    assert reloading.proxy.wait_event("reloaded")["changed"] == "log.level"
    reloading.reload([numbered(f"{coll}.a")], log={**log, "level": "warning"})
    reloading.reload([], log={**log, "level": "info"})
    eventually(lambda: len(reloading.proxy.find_events("reloaded")) == 2)
    changed = [event["changed"] for event in reloading.proxy.find_events("reloaded")]
    assert changed == ["log.level", f"rules: removed {coll}.a.n, log.level"]


def test_what_takes_a_restart_is_named_and_the_rest_applied(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    reloading = start([])
    stays = client(reloading)
    more = {"listen": {"address": "127.0.0.1", "port": 0, "max_connections": 5},
            "limits": {"message": "20s"}, "threads": 1}
    reloading.reload([numbered(f"{coll}.a")], **more)
    needed = reloading.proxy.wait_event("restart_needed")
    assert needed["keys"] == "listen.max_connections, limits.message, threads"
    assert needed["level"] == "warning"
    assert number(stays, f"{coll}.a") == 1
    reloading.reload([numbered(f"{coll}.a")])
    assert len(reloading.proxy.find_events("restart_needed")) == 1


def test_another_upstream_stays_out_of_reach(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    reloading = start([])
    stays = client(reloading)
    reloading.reload([numbered(f"{coll}.a")], upstream={"uri": "mongodb://127.0.0.1:1/?tls=true"},
                     id_store={"uri": "mongodb://127.0.0.1:2"})
    assert reloading.proxy.wait_event("restart_needed")["keys"] == "upstream.uri, id_store.uri"
    assert number(stays, f"{coll}.a") == 1
    assert number(client(reloading), f"{coll}.a") == 2


def test_with_another_store_the_rules_stay(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    """Counters that are new would lie in another database than those that are not."""
    reloading = start([numbered(f"{coll}.a")])
    stays = client(reloading)
    reloading.reload([numbered(f"{coll}.b")], id_store={"db": f"{coll}_ids"})
    assert reloading.proxy.wait_event("restart_needed")["keys"] == "id_store.db, rules"
    assert number(stays, f"{coll}.a") == 1
    assert "n" not in insert(stays, f"{coll}.b")


# --- Signals ---

@pytest.mark.tsan
def test_signals_in_quick_succession(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    ns = f"{coll}.a"
    reloading = start([])
    stays = client(reloading)
    for i in range(20):
        reloading.write([numbered(ns, name=f"{coll}{i}", start=i * 1000),
                         numbered(f"{coll}.b{i}")])
        reloading.hup()
        reloading.hup()
    eventually(lambda: f'ns="{coll}.b19"' in reloading.admin.metrics().text, 20)
    assert number(stays, ns) == 19_000
    assert reloading.counts()[1] == 0, "no half-written file was read"


def test_a_signal_before_it_is_ready_is_heeded_then(
        start_proxy: Callable[..., Proxy], replica_set: Mongod, tmp_path: pathlib.Path,
        coll: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        store = f"mongodb://127.0.0.1:{silent.getsockname()[1]}"
        file = tmp_path / "proxy.yaml"
        config = {"listen": {"address": "127.0.0.1", "port": 0}, "admin": {"listen": None},
                  "log": {"format": "json"},
                  "upstream": {"uri": f"mongodb://{replica_set.address}"},
                  "id_store": {"uri": store}, "rules": [numbered(f"{coll}.a")]}
        file.write_text(json.dumps(config))
        proxy = start_proxy(file, await_ready=False)
        proxy.wait_event("listening")
        file.write_text(json.dumps({**config, "rules": []}))
        proxy.process.send_signal(signal.SIGHUP)
        assert proxy.wait_event("reloaded")["rules"] == 0
        events = [event["event"] for event in proxy.events]
        assert events.index("ready") < events.index("reloaded")


def test_while_the_store_is_down(
        start: Callable[..., Reloading], client: Callable[[Reloading], wire.WireClient],
        coll: str) -> None:
    reloading = start([numbered(f"{coll}.a")],
                      id_store={"uri": f"mongodb://127.0.0.1:{free_port()}"})
    stays = client(reloading)
    assert insert(stays, f"{coll}.a")["code"] == HOST_UNREACHABLE
    begun = time.monotonic()
    reloading.reload([numbered(f"{coll}.a"), numbered(f"{coll}.b", unique_index="require"),
                      {"ns": f"{coll}.c", "field": "n", "strategy": "uuid"}])
    assert time.monotonic() - begun < 15
    assert insert(stays, f"{coll}.b")["code"] == HOST_UNREACHABLE
    assert "n" in insert(stays, f"{coll}.c")


# --- Under load ---

class Writer(Threads):
    """One client, one connection, one document after the other."""

    def __init__(self, proxy: Proxy, ns: str, number: int):
        self.number = number
        self.sent = 0
        self.refused = 0
        self.connections: set[Any] = set()
        db, _, name = ns.partition(".")
        self._client = proxy.client(maxPoolSize=1, retryWrites=False, retryReads=False)
        self._collection = self._client[db][name]
        super().__init__(self._work)

    def _work(self) -> None:
        with self._client, self._client.start_session() as session:
            while not self.over.is_set():
                documents = [{"w": self.number, "i": self.sent + i} for i in range(3)]
                try:
                    self._collection.insert_many(documents, session=session)
                except pymongo.errors.OperationFailure as error:
                    # As specified where the store stands still for 2 s; nothing is stored.
                    self.refused += 1
                    if error.code != HOST_UNREACHABLE or self.refused > 5:
                        raise
                    continue
                self.sent += len(documents)
                ours = self._client.admin.command("hello", session=session)["connectionId"]
                self.connections.add(ours)


def resident_bytes(pid: int) -> int:
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def variants(db: str) -> Iterator[list[dict[str, Any]]]:
    """Rules for db.load, all of which number it alike."""
    ids = {"ns": f"{db}.load", "field": "u", "strategy": "uuid"}
    for i in itertools.count():
        digits = {"ns": [f"{db}.load", f"{db}.*", "*"][i % 3], "field": "r",
                  "strategy": "random-digits", "unique_index": ["require", "warn"][i % 2],
                  "digits": 12 + i % 4}
        ranged = {"ns": f"{db}.load", "field": "g", "strategy": "counter-ranges", "pick": "random", "active": 1,
                  "unique_index": "require", "block": {"size": [5, 6][i % 2]}, "ranges": {"count": 200, "width": 1000},
                  "store": {"collection": f"{db}_ranges"}}
        yield [
            numbered([f"{db}.l*", f"{db}.load", "*.load"][i % 3], unique_index="require",
                     block={"size": [10, 50, 1][i % 3]}, start=1 + i % 2),
            ids, digits, ranged, numbered(f"{db}.other{i}", unique_index="require")]


def broken_texts(reloading: Reloading, db: str) -> Iterator[str]:
    for i in itertools.count():
        yield [reloading.text([numbered(f"{db}.load")])[:-10],
               reloading.text([numbered(f"{db}.load", blocks={"size": 1})]),
               reloading.text([], listen={"tls": {"mode": "require"}})][i % 3]


RELOADS = 1000 if FULL else 60
# For buffers that grow once.
WARM_UP = 30
# The id store's, which come and go.
STORE_CONNECTIONS = 8


@pytest.mark.tsan
@pytest.mark.timeout(900)
def test_reloads_under_load(
        start: Callable[..., Reloading], replica_set: Mongod, coll: str,
        record: Callable[[str, float], None]) -> None:
    ns = f"{coll}.load"
    for field in ("n", "u", "r", "g"):
        replica_set.client[coll].load.create_index(field, unique=True)
    rules = variants(coll)
    reloading = start(next(rules))
    faulty = broken_texts(reloading, coll)
    with wire.WireClient(reloading.proxy.address, 30) as first:
        eventually(lambda: "n" in insert(first, ns), 20, "the collection has been looked at")
    writers = [Writer(reloading.proxy, ns, i) for i in range(4)]
    with ExitStack() as running:
        for each in writers:
            running.enter_context(each)
        eventually(lambda: all(each.sent for each in writers), 30)
        pid = reloading.proxy.pid
        begun = (0, 0)
        for i in range(RELOADS + WARM_UP):
            if i == WARM_UP:
                begun = (resident_bytes(pid), reloading.proxy.descriptors())
            if i % 3 == 2:
                reloading.refuse_quietly(next(faulty))
            else:
                reloading.reload(next(rules))
            assert not any(each.failures for each in writers), [each.failures for each in writers]
        ended = (resident_bytes(pid), reloading.proxy.descriptors())
    assert all(len(each.connections) == 1 for each in writers), "somebody was dropped"
    assert ended[1] < begun[1] + STORE_CONNECTIONS, "descriptors are left"
    record("resident bytes more", ended[0] - begun[0])
    if not is_sanitized():
        assert ended[0] - begun[0] < 4 << 20
    successes, failures = reloading.counts()
    assert failures == (RELOADS + WARM_UP) // 3
    assert successes + failures == RELOADS + WARM_UP

    found = list(
        replica_set.client[coll].load.find({"w": {"$exists": True}}).sort([("w", 1), ("i", 1)]))
    assert len(found) == sum(each.sent for each in writers)
    record("documents", len(found))
    for field in ("n", "u", "r", "g"):
        assert len({str(each[field]) for each in found}) == len(found), f"{field} twice"
    for _, own in itertools.groupby(found, key=lambda each: each["w"]):
        made = [bytes(each["u"]) for each in own]
        assert made == sorted(made), "uuid version 7 is not in the order of its connection"
    assert gaps(each["n"] for each in found) == 0 and min(each["n"] for each in found) == 2
    reloading.proxy.stop()
    assert counter(replica_set.client, ns)["COUNT"] == max(each["n"] for each in found) + 1


# --- Without a signal ---

class Watched:
    """A directory that a symbolic link leads to, as Kubernetes renews a volume: all of its files at once."""

    def __init__(self, directory: pathlib.Path):
        self._directory = directory
        self._versions = itertools.count()
        self.link = directory / "volume"

    def put(self, **files: str) -> None:
        version = self._directory / f"version{next(self._versions)}"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_text(content)
            (version / name).chmod(0o440)
        beside = self._directory / "next"
        beside.symlink_to(version.name)
        beside.replace(self.link)


class TestWatch:
    """reload: watch."""

    @pytest.fixture
    def namespace(self, coll: str) -> str:
        return f"{coll}.a"

    @pytest.fixture
    def volume(self, tmp_path: pathlib.Path) -> Watched:
        return Watched(tmp_path)

    @pytest.fixture
    def start(self, start_proxy: Callable[..., Proxy], replica_set: Mongod, volume: Watched,
              certificates: Certificates) -> Callable[..., Proxy]:
        """start(rules, **more of the configuration); write() has the same parameters."""
        self._more = {"upstream": {"uri": f"mongodb://{replica_set.address}"},
                      "admin": LISTEN, "listen": {"address": "127.0.0.1", "port": 0},
                      "log": {"format": "json"}, "reload": "watch"}

        def made(rules: list[dict[str, Any]], **more: Any) -> Proxy:
            volume.put(config=self.text(rules, **more), **self.files)
            return start_proxy(volume.link / "config")
        self.files: dict[str, str] = {}
        return made

    def text(self, rules: list[dict[str, Any]], **more: Any) -> str:
        return json.dumps({**self._more, "rules": rules, **more})

    def test_a_changed_file_comes_into_force(
            self, start: Callable[..., Proxy], volume: Watched, namespace: str) -> None:
        proxy = start([])
        volume.put(config=self.text([numbered(namespace)]))
        assert namespace in proxy.wait_event("reloaded")["changed"]
        with closing(wire.WireClient(proxy.address, 30)) as client:
            assert number(client, namespace) == 1

    def test_a_mistake_is_said_once(
            self, start: Callable[..., Proxy], volume: Watched, namespace: str) -> None:
        """As after a signal; looking again finds the same mistake, and says nothing."""
        proxy = start([])
        volume.put(config=self.text([numbered(namespace, block=0)]))
        failed = proxy.wait_event("reload_failed")
        assert failed["failed"] == 1 and proxy.find_events("config_error")
        # Several looks later.
        looks = time.monotonic() + 3
        while time.monotonic() < looks:
            time.sleep(0.5)
            assert len(proxy.find_events("reload_failed")) == 1
            assert len(proxy.find_events("config_error")) == 1
        volume.put(config="rules: [")
        proxy.wait_event("reload_failed", failed=2)
        volume.put(config=self.text([numbered(namespace)]))
        assert namespace in proxy.wait_event("reloaded")["changed"]

    def test_certificates_and_the_stores_string_are_watched(
            self, start: Callable[..., Proxy], volume: Watched, replica_set: Mongod,
            certificates: Certificates) -> None:
        store = f"mongodb://{replica_set.address}"
        self.files = {"server": certificates.servers.file.read_text(), "store": store}
        config = {"listen": {"address": "127.0.0.1", "port": 0, "tls": {
                      "mode": "require", "certificate_key_file": str(volume.link / "server")}},
                  "id_store": {"uri_file": str(volume.link / "store")}}
        proxy = start([], **config)
        text = self.text([], **config)
        volume.put(config=text, server=certificates.proxy.file.read_text(), store=store)
        assert "certificates of listen.tls" in proxy.wait_event("reloaded")["changed"]
        volume.put(config=text, server=certificates.proxy.file.read_text(), store=store + "/?appName=x")
        assert proxy.wait_event("restart_needed")["keys"] == "id_store.uri_file"
        volume.put(config=text, server="", store=store)
        assert proxy.wait_event("reload_failed")["failed"] == 1

    def test_by_default_only_a_signal_counts(
            self, start: Callable[..., Proxy], volume: Watched, namespace: str) -> None:
        """A reload switches it on and off."""
        proxy = start([], reload="signal")
        volume.put(config=self.text([numbered(namespace)], reload="signal"))
        time.sleep(5)
        assert not proxy.find_events("reloaded")
        proxy.process.send_signal(signal.SIGHUP)
        assert namespace in proxy.wait_event("reloaded")["changed"]
        volume.put(config=self.text([]))
        proxy.process.send_signal(signal.SIGHUP)
        proxy.wait_event("reloaded", changed=f"rules: removed {namespace}.n, reload")
        volume.put(config=self.text([], reload="signal"))
        proxy.wait_event("reloaded", changed="reload")
