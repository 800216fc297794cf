"""snowflake: ids of time, machine number and sequence. No two are the same, whatever becomes of proxies and clocks.

An independent decoder reads what is stored.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import functools
import json
import pathlib
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from support.admin import Admin, Metrics
from support.backfill import failing
from support.doctor import Doctor, doctor, quiet
from support.full import FULL
from support.mongod import Mongod
from support.own_clock import OwnClock
from support.process import eventually, free_port
from support.proxy import Proxy, binary, configuration
from support.threads import Threads

TTL = 3
HELD = "are held by other proxies"


class Layout(NamedTuple):
    """Bits from the highest on; sequence and machine swap places where the machine number is last."""

    epoch: int
    unit: int = 1
    time: int = 41
    machine: int = 10
    sequence: int = 12
    machine_last: bool = False

    def decode(self, number: int) -> tuple[int, int, int]:
        """Milliseconds since 1970, machine number, sequence."""
        bits = f"{number:0{self.time + self.machine + self.sequence}b}"
        assert len(bits) == self.time + self.machine + self.sequence, number
        low = bits[self.time:]
        split = self.sequence if self.machine_last else self.machine
        first, second = int(low[:split] or "0", 2), int(low[split:] or "0", 2)
        machine, sequence = (second, first) if self.machine_last else (first, second)
        return int(bits[:self.time], 2) * self.unit + self.epoch, machine, sequence


LAYOUTS = {
    "default": Layout(1704067200000),
    "twitter": Layout(1288834974657),
    "discord": Layout(1420070400000),
    "sonyflake": Layout(1735689600000, 10, 39, 16, 8, True),
    "instagram": Layout(1314220021721, 1, 40, 13, 10),
    "js53": Layout(1704067200000, 1, 41, 4, 8),
}
OWN = Layout(1704067200000, 1, 41, 1, 12)


def rule(bits: int | None = None, field: str = "number", **keys: Any) -> dict[str, Any]:
    """With `bits` for the machine number, of a proxy that loses it soon. An id that was repeated is an error."""
    own = {} if bits is None else {"machine_bits": bits, "machine": {"ttl": f"{TTL}s", **keys.pop("machine", {})}}
    return {"ns": "snow.docs", "field": field, "strategy": "snowflake", "unique_index": "create",
            "retry": {"attempts": 0}, **own, **keys}


@pytest.fixture(scope="module")
def server() -> Iterator[Mongod]:
    with Mongod("rs0") as mongod:
        yield mongod


@pytest.fixture(autouse=True)
def empty(server: Mongod) -> None:
    server.client.idproxy.machines.drop()
    server.client.drop_database("snow")


@contextlib.contextmanager
def proxies(server: Mongod, *rules: dict[str, Any], **more: Any) -> Iterator[Proxy]:
    proxy = Proxy(configuration(server, list(rules)), **more)
    try:
        yield proxy
        proxy.stop()
    finally:
        proxy.kill()


def insert(proxy: Proxy, count: int = 1) -> None:
    proxy.client().snow.docs.insert_many([{"by": proxy.pid, "i": i} for i in range(count)])


def numbers(server: Mongod, field: str = "number", **query: Any) -> list[int]:
    found = [document[field] for document in server.client.snow.docs.find(query).sort("_id")]
    assert len(set(found)) == len(found)
    return found


def machines_of(server: Mongod, proxy: Proxy, layout: Layout = OWN) -> set[int]:
    return {layout.decode(each)[1] for each in numbers(server, by=proxy.pid)}


def why_not(proxy: Proxy) -> str:
    try:
        insert(proxy)
    except OperationFailure as error:
        assert error.code in (6, 96), error
        return f"{error.code} {error}"
    return ""


def test_every_layout(server: Mongod) -> None:
    rules = [rule(field=name, preset=name) for name in LAYOUTS]
    rules.append(rule(field="own", epoch="2025-06-01T00:00:00.250Z", unit="2ms", time_bits=40, machine_bits=6,
                      sequence_bits=9, sequence_start="random"))
    own = Layout(1748736000250, 2, 40, 6, 9)
    with proxies(server, *rules) as proxy:
        before = time.time() * 1000
        for _ in range(5):
            insert(proxy, 400)
        after = time.time() * 1000
    machines = set()
    for name, layout in {**LAYOUTS, "own": own}.items():
        stored = numbers(server, name)
        assert stored == sorted(stored) and len(stored) == 2000
        assert {type(each) for each in stored} <= {int, bson.Int64}
        for each in stored:
            at, machine, _ = layout.decode(each)
            machines.add(machine)
            assert before - layout.unit <= at <= after, (name, at, before, after)
    assert machines == {0}
    assert max(numbers(server, "js53")) < 2**53


def test_texts(server: Mongod) -> None:
    alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    rules = [rule(field="short", encoding="base62", prefix="o_"), rule(field="plain", output="string")]
    with proxies(server, *rules) as proxy:
        insert(proxy, 50)
    for document in server.client.snow.docs.find():
        assert len(document["short"]) == 2 + 11
        number = 0
        for digit in document["short"].removeprefix("o_"):
            number = number * 62 + alphabet.index(digit)
        decoded = [LAYOUTS["default"].decode(each) for each in (number, int(document["plain"]))]
        assert all(abs(at / 1000 - time.time()) < 60 and machine == 0 for at, machine, _ in decoded)


def test_two_proxies_have_two_numbers_and_a_clean_stop_frees_them(server: Mongod) -> None:
    with proxies(server, rule(1)) as one, proxies(server, rule(1)) as other:
        insert(one, 3)
        insert(other, 3)
        assert machines_of(server, one) | machines_of(server, other) == {0, 1}
        held = list(server.client.idproxy.machines.find())
        assert len({each["owner"] for each in held}) == 2
    last = numbers(server)
    for each in server.client.idproxy.machines.find():
        assert each["owner"] == "" and each["ts_ceiling"] <= time.time() * 1000
        used = [at for at, machine, _ in map(OWN.decode, last) if each["_id"] == f"default/{machine}"]
        assert each["ts_ceiling"] == max(used)
    with proxies(server, rule(1)) as again:
        insert(again)
        assert numbers(server)[-1] > 0


def test_more_proxies_than_numbers(server: Mongod) -> None:
    with proxies(server, rule(1)) as one, proxies(server, rule(1)), \
            proxies(server, rule(1), await_ready=False) as surplus:
        why = surplus.wait_event("machine_refused")["reason"]
        assert why == ("all 2 machine numbers of the lease 'default' are held by other proxies: one of them has to "
                       "stop, or all need more machine_bits")
        port = surplus.wait_event("listening")["address"]
        client = pymongo.MongoClient(f"mongodb://{port}/?directConnection=true")
        with pytest.raises(OperationFailure, match=HELD) as refused:
            client.snow.docs.insert_one({})
        assert refused.value.code == 6
        status = client.admin.command({"idproxy": "status"})
        assert HELD in status["rules"][0]["reason"] and status["rules"][0]["machine"] is None
        one.stop()
        eventually(lambda: "ok" in client.admin.command({"idproxy": "next", "ns": "snow.docs", "field": "number"})
                   if surplus.find_events("machine_claimed") else None, 10)
        client.snow.docs.insert_one({})
    assert len(numbers(server)) == 1


def test_a_paused_proxy_claims_another_number(server: Mongod) -> None:
    with proxies(server, rule(1)) as paused, proxies(server, rule(1)) as second:
        insert(paused, 20)
        assert machines_of(server, paused) == {0}
        paused.process.send_signal(signal.SIGSTOP)
        with proxies(server, rule(1), await_ready=False) as third:
            assert third.wait_event("machine_claimed", 20)["machine"] == 0
            third.wait_event("ready")
            third.address = third.find_events("listening")[0]["address"]
            insert(third, 20)
            second.stop()
            paused.process.send_signal(signal.SIGCONT)
            insert(paused, 20)
            insert(third, 20)
            assert machines_of(server, paused) == {0, 1}
            assert machines_of(server, third) == {0}
            assert paused.find_events("machine_claimed")[-1]["machine"] == 1
    assert len(numbers(server)) == 80


def test_killed_proxies_repeat_nothing(server: Mongod) -> None:
    """With one number: the next proxy waits until the lease has expired, and follows."""
    for _ in range(3):
        proxy = Proxy(configuration(server, [rule(0)]), await_ready=False)
        try:
            proxy.wait_event("machine_claimed", 20)
            proxy.address = proxy.find_events("listening")[0]["address"]
            insert(proxy, 30)
        finally:
            proxy.kill()
    stored = numbers(server)
    assert stored == sorted(stored) and len(stored) == 90


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_clock_that_is_set_by_an_hour(server: Mongod, tmp_path: pathlib.Path, step: int) -> None:
    clock = OwnClock(tmp_path)
    with proxies(server, rule(1), environment=clock.environment) as proxy:
        insert(proxy, 100)
        clock.set_ahead(step)
        insert(proxy, 3000)
        clock.set_ahead(0)
        for _ in range(5):
            insert(proxy, 3000)
        with proxies(server, rule(1)) as other:
            insert(other, 100)
            assert not machines_of(server, proxy) & machines_of(server, other)
    with proxies(server, rule(1)) as later:
        insert(later, 100)
    times = [OWN.decode(each)[0] for each in numbers(server)]
    assert len(times) == 100 + 6 * 3000 + 200
    ahead = max(times) - time.time() * 1000
    assert (ahead > 3_500_000) == (step > 0), ahead


def test_proxies_that_come_and_go(server: Mongod, tmp_path: pathlib.Path) -> None:
    """Killed, paused for longer than their lease lasts, stopped, with clocks that are set; more of them than there
    are numbers."""
    dice = random.Random(7)
    clocks = [OwnClock(tmp_path, f"clock{i}") for i in range(5)]
    config = configuration(server, [rule(2)])
    alive: list[Proxy] = []
    stored = 0
    try:
        end = time.monotonic() + (300 if FULL else 12)
        while time.monotonic() < end:
            while len(alive) < 5:
                alive.append(Proxy(config, await_ready=False, environment=dice.choice(clocks).environment))
                alive[-1].address = alive[-1].wait_event("listening")["address"]
            dice.choice(clocks).set_ahead(dice.choice([-3600, -60, 0, 1]))
            victim = dice.choice(alive)
            what = dice.choice(["kill", "pause", "stop"])
            if what == "pause":
                victim.process.send_signal(signal.SIGSTOP)
            else:
                alive.remove(victim)
                victim.kill() if what == "kill" else victim.stop()
            paused = time.monotonic() + TTL + 1
            while time.monotonic() < paused:
                for each in alive:
                    if each is not victim:
                        stored += not why_not(each)
            if what == "pause":
                victim.process.send_signal(signal.SIGCONT)
                stored += not why_not(victim)
    finally:
        for each in alive:
            each.kill()
    assert len(numbers(server)) == stored > 100


@pytest.mark.full
@pytest.mark.timeout(900)
def test_fifty_proxies_on_thirty_two_numbers(server: Mongod, tmp_path: pathlib.Path, record: Any) -> None:
    """Killed, paused for longer than their lease lasts, with clocks that are set by an hour: no id twice, and those
    that have no number say so."""
    dice = random.Random(50)
    config = configuration(server, [rule(5)])
    clocks = [OwnClock(tmp_path, f"clock{number}") for number in range(50)]
    alive: list[Proxy] = []
    stored: list[int] = []
    refusals: collections.Counter[str] = collections.Counter()
    done: collections.Counter[str] = collections.Counter()

    def start(number: int) -> Proxy:
        clocks[number].set_ahead(0)
        proxy = Proxy(config, clocks[number].environment, await_ready=False)
        proxy.address = proxy.wait_event("listening", 60)["address"]
        return proxy

    def work(over: threading.Event, chance: random.Random) -> None:
        while not over.is_set():
            proxy = chance.choice([*alive])
            try:
                with pymongo.MongoClient(f"mongodb://{proxy.address}", directConnection=True, socketTimeoutMS=5000,
                                         serverSelectionTimeoutMS=1000, retryWrites=False) as client:
                    size = chance.choice([1, 20, 200])
                    client.snow.docs.insert_many([{"by": proxy.pid} for _ in range(size)])
                    stored.append(size)
            except OperationFailure as error:
                assert error.code == 6, error
                refusals[re.sub("number [0-9]+", "number N", str(error))[:150]] += 1
            except PyMongoError:
                pass  # killed, or paused

    try:
        alive += [start(number) for number in range(50)]
        begun = time.monotonic()
        over = threading.Event()
        with Threads(*(functools.partial(work, over, random.Random(i)) for i in range(6)), timeout=120):
            try:
                for _ in range(60):
                    place = dice.randrange(50)
                    what = dice.choice(["kill", "pause", "clock"])
                    done[what] += 1
                    if what == "kill":
                        alive[place].kill()
                        alive[place] = start(place)
                    elif what == "clock":
                        clocks[place].set_ahead(dice.choice([3600, 0, -3600]))
                        time.sleep(0.5)
                    else:
                        alive[place].process.send_signal(signal.SIGSTOP)
                        time.sleep(TTL + 1)
                        alive[place].process.send_signal(signal.SIGCONT)
            finally:
                over.set()
        seconds = time.monotonic() - begun
        assert any(HELD in each for each in refusals), refusals
        for each in alive:
            eventually(lambda each=each: each.find_events("machine_claimed") or each.find_events("machine_refused"), 30)
    finally:
        for each in alive:
            each.kill()
    found = numbers(server)
    machines = {Layout(1704067200000, 1, 41, 5, 12).decode(each)[1] for each in found}
    assert len(found) >= sum(stored) and len(machines) > 16
    record("ids of fifty proxies on 32 machine numbers", len(found))
    record("their seconds", seconds)
    print(len(found), "ids, acknowledged", sum(stored), "in", seconds, "s;", done, len(machines), refusals)


def test_a_fixed_number_belongs_to_one_proxy(server: Mongod) -> None:
    fixed = rule(4, machine={"id": 9})
    with proxies(server, fixed) as one, proxies(server, fixed, await_ready=False) as other:
        insert(one)
        assert machines_of(server, one, Layout(1704067200000, 1, 41, 4, 12)) == {9}
        other.address = other.wait_event("listening")["address"]
        assert "96" in why_not(other) and "machine number 9 of the lease 'default' is held by another proxy" in \
            why_not(other)
        one.stop()
        other.wait_event("machine_claimed", 10)
        insert(other)
    with proxies(server, rule(4, machine={"id": 9, "lease": "none"})) as alone:
        insert(alone)
    assert len(numbers(server)) == 3


def make_machine(server: Mongod, number: int, ceiling: int) -> None:
    server.client.idproxy.machines.insert_one(
        {"_id": f"default/{number}", "owner": "", "expires": datetime.datetime(1970, 1, 1),
         "ts_ceiling": bson.Int64(ceiling)})


@pytest.mark.parametrize("fixed", [9, None])
def test_a_claim_whose_answer_is_lost_is_repeated(server: Mongod, fixed: int | None) -> None:
    make_machine(server, 9, 0)
    found = {"_id": "default/9", "owner": {"$ne": ""}}
    server.client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data={
        "failCommands": ["findAndModify"], "namespace": "idproxy.machines",
        "writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}})
    try:
        proxy = Proxy(configuration(server, [rule(4, machine={"id": fixed, "ttl": "60s"})]), await_ready=False)
        eventually(lambda: server.client.idproxy.machines.find_one(found))
    finally:
        server.client.admin.command("configureFailPoint", "failCommand", mode="off")
    try:
        assert proxy.wait_event("machine_claimed", 20)["machine"] == 9
        proxy.wait_event("ready")
        proxy.address = proxy.find_events("listening")[0]["address"]
        insert(proxy, 3)
        held = list(server.client.idproxy.machines.find())
        assert [each["_id"] for each in held] == ["default/9"]
        assert held[0]["floor"] == 0
        proxy.stop()
    finally:
        proxy.kill()


def test_a_fixed_number_whose_ids_are_ahead_passes(server: Mongod) -> None:
    make_machine(server, 9, int(time.time() * 1000) + 3_600_000)
    with proxies(server, rule(4, machine={"id": 9}), await_ready=False) as proxy:
        proxy.address = proxy.wait_event("listening")["address"]
        ahead = "more than a second ahead of this host's clock"
        why = eventually(lambda: next((each for each in [why_not(proxy)] if ahead in each), None))
        assert why.startswith("6 ")


def test_a_reload_that_fixes_the_number_passes(server: Mongod) -> None:
    proxy = Proxy(configuration(server, [rule(1)]))
    try:
        insert(proxy)
        assert proxy._own_config
        text = proxy._own_config.read_text()
        for changed, claims in ((text.replace('"ttl": "3s"', '"ttl": "60s", "id": 0'), 2),
                                (text.replace('"ttl": "3s"', '"ttl": "60s"'), 3)):
            assert changed != text
            proxy._own_config.write_text(changed)
            proxy.process.send_signal(signal.SIGHUP)
            errors = set()
            end = time.monotonic() + 10
            while len(proxy.find_events("machine_claimed")) < claims:
                assert time.monotonic() < end, errors
                errors.add(why_not(proxy)[:2])
            assert errors <= {"", "6 "}
            assert eventually(lambda: not why_not(proxy))
        proxy.stop()
    finally:
        proxy.kill()
    numbers(server)


def test_a_backfill_beside_a_number_that_nobody_leases(server: Mongod, tmp_path: pathlib.Path) -> None:
    def backfill(machine: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "config.yaml"
        file.write_text(json.dumps(configuration(server, [rule(4, machine=machine)])))
        return subprocess.run([binary(), "backfill", "--ns", "snow.docs", "--field", "number", "--config", file],
                              check=False, timeout=60, text=True, capture_output=True)
    with proxies(server, rule(4, machine={"lease": "none", "id": 5})) as proxy:
        insert(proxy)
        server.client.snow.docs.insert_many([{} for _ in range(50)])
        refused = backfill({"lease": "none", "id": 5})
        assert refused.returncode == 64
        assert "has `machine.lease: none`" in refused.stderr
        done = backfill({"lease": "backfill", "id": 6})
        assert done.returncode == 0, done.stderr
        insert(proxy)
    machines = [Layout(1704067200000, 1, 41, 4, 12).decode(each)[1] for each in numbers(server)]
    assert sorted(machines) == [5, 5] + [6] * 50


def test_checks_of_a_fixed_number_end(server: Mongod, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(configuration(server, [rule(4, machine={"id": 9})])))
    subprocess.run([binary(), "check", "--connect", "--config", file], check=True, timeout=60)
    assert not list(server.client.idproxy.machines.find())


def test_a_lost_lease_is_named(server: Mongod) -> None:
    with Mongod("rs1") as store:
        proxy = Proxy(configuration(server, [rule(1, unique_index="warn")], store))
        try:
            insert(proxy)
            store.kill()
            lost = "the lease on machine number 0 is lost, since it could not be renewed: the id store does not answer"
            assert eventually(lambda: lost in why_not(proxy), 60)
            assert "6 " in why_not(proxy)
            assert proxy.find_events("machine_not_renewed")
            assert proxy.wait_event("machine_refused", 30)["reason"].startswith(lost)
        finally:
            proxy.kill()


def test_a_reload_changes_the_ttl(server: Mongod) -> None:
    def expires_in() -> float:
        return server.client.idproxy.machines.find_one({"_id": "default/0"})["expires"].timestamp() - time.time()

    proxy = Proxy(configuration(server, [rule(1)]))
    try:
        insert(proxy)
        assert proxy._own_config
        text = proxy._own_config.read_text()
        proxy._own_config.write_text(text.replace('"3s"', '"60s"'))
        proxy.process.send_signal(signal.SIGHUP)
        eventually(lambda: expires_in() > 30, 10)
        insert(proxy)
        proxy.stop()
    finally:
        proxy.kill()
    assert len(numbers(server)) == 2


CHANGES = [
    ('"ttl": "3s"', '"lease": "eu"'), ('"ttl": "3s"', '"lease": "none", "id": 0'),
    ('"machine_bits": 1', '"machine_bits": 2'), ('"machine_bits": 1', '"machine_bits": 1, "unit": "2ms"'),
    ('"ns": "snow.docs"', '"ns": "snow.*", "epoch": "2025-01-01T00:00:00Z"')]


def test_reloads_that_could_repeat_ids_are_refused(server: Mongod) -> None:
    """Inserts under way go on with the old rule, and other proxies have it, too."""
    proxy = Proxy(configuration(server, [rule(1)]))
    try:
        insert(proxy)
        assert proxy._own_config
        text = proxy._own_config.read_text()
        for number, change in enumerate(CHANGES, 1):
            assert change[0] in text
            proxy._own_config.write_text(text.replace(*change))
            proxy.process.send_signal(signal.SIGHUP)
            reason = proxy.wait_event("reload_failed", failed=number)["reason"]
            assert reason.startswith("rule 0 (snow.") and reason.endswith(
                "change only while all proxies are stopped that fill the field "
                "(docs/snowflake.md#changing-lease-bits-unit-or-epoch)"), change
            insert(proxy)
        proxy._own_config.write_text(text)
        proxy.stop()
    finally:
        proxy.kill()
    assert len(numbers(server)) == 1 + len(CHANGES)


@pytest.mark.parametrize("last", [
    {"ns": "snow.*", "except": ["snow.docs"]}, {"ns": "snow.*"}], ids=["except", "narrow first"])
def test_a_reload_takes_two_leases_that_stand(server: Mongod, last: dict[str, Any]) -> None:
    """In the file that runs already, and with another rule beside them; but not in the other order."""
    proxy = Proxy(configuration(server, [rule(1, machine={"lease": "own"}), rule(1, **last)]))
    try:
        assert proxy._own_config
        file = json.loads(proxy._own_config.read_text())
        insert(proxy)

        def reload() -> None:
            proxy._own_config.write_text(json.dumps(file))
            proxy.process.send_signal(signal.SIGHUP)

        reload()
        assert eventually(lambda: len(proxy.find_events("reloaded")) == 1, 10)
        file["rules"].append({"ns": "other.docs", "field": "number", "strategy": "uuid"})
        reload()
        assert eventually(lambda: len(proxy.find_events("reloaded")) == 2, 10)
        if "except" not in last:
            file["rules"][:2] = file["rules"][1::-1]
            reload()
            proxy.wait_event("reload_failed")
        insert(proxy)
        proxy.stop()
    finally:
        proxy.kill()
    assert len(numbers(server)) == 2


@pytest.fixture
def examined(server: Mongod, doctor: Doctor) -> Callable[..., pathlib.Path]:
    """A configuration with an admin port, for doctor and a proxy."""
    server.client.snow.docs.create_index("number", unique=True, sparse=True)
    return lambda *rules: doctor.write(
        quiet(server, list(rules), admin={"listen": f"127.0.0.1:{free_port()}"}, log={"format": "json"})).path


def test_the_pages_show_the_number(server: Mongod, doctor: Doctor, examined) -> None:
    """It is not 0, which what is not filled in may look like."""
    with proxies(server, rule(1)) as holder:
        insert(holder)
        proxy = Proxy(examined(rule(1)))
        try:
            insert(proxy)
            pages = Admin(proxy)
            assert json.loads(pages.get("/status.json?rules=all").text)["rules"][0]["machine"] == 1
            assert Metrics(pages.get("/metrics").text)("idproxy_rule_machine_number", strategy="snowflake") == 1
            shown = subprocess.run([binary(), "status", "--rules", "--config", doctor.path], check=True,
                                   text=True, stdout=subprocess.PIPE, timeout=60).stdout
            assert re.search(r"MACHINE.*\n.*snow\.docs.* 1\b", shown), shown
            cells = re.sub(r"<[^>]*>", "|", pages.get("/").text)
            assert re.search(r"\|snowflake\|\|ready(\|\|[^|]*){9}\|\|1\|", cells), cells
            proxy.stop()
        finally:
            proxy.kill()


def test_commands(server: Mongod, tmp_path: pathlib.Path) -> None:
    """Decoded, reported, handed out, shown, checked."""
    config = configuration(server, [rule(report=True)])
    with proxies(server, *config["rules"]) as proxy:
        client = proxy.client()
        reply = client.snow.command({"insert": "docs", "documents": [{}]})
        value = reply["idproxy"]["assigned"][0]["value"]
        given = client.admin.command({"idproxy": "next", "ns": "snow.docs", "field": "number", "count": 2})
        assert given["ids"][0] > value
        status = client.admin.command({"idproxy": "status"})["rules"][0]
        assert status["machine"] == 0 and status["numbers"] == [
            {"ns": "snow.docs", "sequence": None, "lease": "default", "machine": 0}]
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config))

    def run(*words: str) -> str:
        return subprocess.run([binary(), *words, "--config", file], check=True, text=True, stdout=subprocess.PIPE,
                              timeout=60).stdout
    at, machine, sequence = LAYOUTS["default"].decode(value)
    decoded = json.loads(run("ids", "--ns", "snow.docs", "--field", "number", "--decode", str(value), "--json"))
    assert (decoded["machine"], decoded["sequence"]) == (str(machine), str(sequence))
    assert decoded["time"].startswith(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000)))
    before = list(server.client.idproxy.machines.find())
    run("check", "--connect")
    assert list(server.client.idproxy.machines.find()) == before
    server.client.snow.docs.insert_many([{} for _ in range(50)])
    run("backfill", "--ns", "snow.docs", "--field", "number")
    assert len(numbers(server)) == 51


def test_doctor_says_that_a_number_is_held(server: Mongod, doctor: Doctor, examined) -> None:
    its, said = rule(0), "all 1 machine numbers of the lease 'default' are held by other proxies"
    with proxies(server, its) as holder:
        insert(holder)
        surplus = Proxy(examined(its), await_ready=False)
        try:
            surplus.wait_event("machine_refused")
            found = doctor.examine().one("proxy-error", "error", "the running proxy", "mongo-idproxy status")
            assert f"rule 0 (snow.docs, number) is not ready: {said}" in found["text"]
        finally:
            surplus.kill()


def test_doctor_says_why_the_lease_is_lost(server: Mongod, doctor: Doctor, examined) -> None:
    proxy = Proxy(examined(rule(1)))
    try:
        insert(proxy)
        with failing(server, ["findAndModify"], "alwaysOn", namespace="idproxy.machines", errorCode=8000):
            assert "the lease on machine number 0 is lost" in eventually(lambda: why_not(proxy), 30)
            found = doctor.examine().one("rule-not-ready", "error", "snow.docs, number", "check --connect")
            assert "the id store answered with error 8000" in found["text"]
        eventually(lambda: not why_not(proxy), 30)
        proxy.stop()
    finally:
        proxy.kill()
