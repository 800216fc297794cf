"""Everything at once, for as long as one likes: all strategies, all ways to write, drivers of several
languages, three proxies before three members, and faults drawn by a seed. `scripts/soak` runs it.

What drivers were told of each document is held against what the servers have in the end, and a change
stream against all that was ever stored.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest

from faults import Faults, Sidecar, connections
from load import (DRAFTS_RULE, FIRST, FORBIDDEN_RULE, KEPT_RULE, RAW, UPSERTS_RULE, Audit, Foreign, Inserters, Publisher,
                  Saver, Stranger, Upserter, Worker, drafts_violations, gaps_in, held, kept_violations,
                  upserts_violations)
from planted import PLANTED, check_planted
from program import available
from support.failover import Told, Writer
from support.process import eventually, memory
from support.replica_set import ReplicaSet
from support.secured import Certificates, SecuredSet
from support.threads import Threads
from tables import DB, KEY, SoakTable, tables, taken

MINUTES = float(os.environ.get("IDPROXY_SOAK_MINUTES", "0.4"))
SEED = os.environ.get("IDPROXY_SOAK_SEED", "1")
PLACE = os.environ.get("IDPROXY_SOAK_DIRECTORY", "")

# Who makes an _id itself: a driver that cannot leave it out of a retryable write.
OWN = {"node": False, "go": True, "java": False, "libmongoc": True}
PROXIES = 3
COMPRESSORS = [None, "zlib", "snappy", "zstd"]

pytestmark = pytest.mark.timeout(MINUTES * 60 + 900)


def test_the_judge_sees_what_is_planted() -> None:
    check_planted()


class Soak:
    """The servers, the proxies, and who writes."""

    def __init__(self, stack: contextlib.ExitStack, directory: pathlib.Path, certificates: Certificates,
                 drivers: dict[str, Any]):
        self.chance = random.Random(SEED)
        self.secured = self.chance.random() < 0.5
        self.clocks = self.chance.random() < 0.5
        self.directory, self._stack, self._certificates = directory, stack, certificates
        self.three = stack.enter_context(SecuredSet(certificates) if self.secured else ReplicaSet())
        self.tables = tables()
        self.foreign = [Foreign(name, driver, self._uri_of(number), OWN[name])
                        for number, (name, driver) in enumerate(drivers.items())]
        self.rules = [table.rule for table in self.tables] + [each.rule() for each in self.foreign] + [
            DRAFTS_RULE, KEPT_RULE, UPSERTS_RULE, FORBIDDEN_RULE]
        self._prepare()
        self._start_proxies(certificates)
        self.clients = stack.enter_context(contextlib.ExitStack())  # closed before those it speaks to
        self.told = Told()
        self.writers: list[Writer] = []
        self.workers: list[Worker] = [*self.foreign]
        self.strangers: list[Stranger] = []
        for number, each in enumerate(self.sidecars):
            self._write_through(number, each)
        fields = {table.name: (table.assigned, table.ledger.scope) for table in self.tables}
        fields |= {"drafts": ("n", None), "kept": ("n", None), "upserts": ("number", None)}
        fields |= {each.table: ("n", None) for each in self.foreign}
        self.audit = Audit(self.three.uri, fields)

    def _prepare(self) -> None:
        for table in self.tables:
            table.prepare(self.three.client, taken(table))
        db = self.three.client[DB]
        for name, fields in {"drafts": ["k", "n"], "kept": ["n"], "upserts": ["k", "number"],
                             **{each.table: ["n"] for each in self.foreign}}.items():
            for field in fields:
                db[name].create_index(field, unique=True, sparse=True)
        if self.secured:
            admin = self.three.client.admin
            admin.command("createUser", "stranger", pwd="stranger", roles=[])
            # For reservations.
            admin.command("grantRolesToUser", "idproxy", roles=[{"role": "readWrite", "db": DB}])

    def _start_proxies(self, certificates: Certificates) -> None:
        config: dict[str, Any] = {"upstream": {"uri": self.three.access.without("user", "password").uri(
            self.three.address)}, "rules": self.rules}
        access = {}
        if self.secured:
            config["id_store"] = {"uri": self.three.store_access.uri(self.three.address)}
            config["listen"] = certificates.listen()
            access = {"access": certificates.application}
        key = {KEY: "7f036d6f04fc6a94" * 4}
        self.sidecars = [
            self._stack.enter_context(Sidecar(self.directory, number, len(self.three.members), config, key, **access))
            for number in range(PROXIES)]

    def _uri_of(self, number: int) -> Any:
        return lambda: self.sidecars[number % PROXIES].proxy.set_uri(self.three.name)

    def _client(self, each: Sidecar, **more: Any) -> pymongo.MongoClient:
        compressor = self.chance.choice(COMPRESSORS)
        options = {"compressors": compressor} if compressor else {}
        return self.clients.enter_context(each.proxy.set_client(self.three.name, **{
            "w": "majority", "serverSelectionTimeoutMS": 60_000, "socketTimeoutMS": 30_000, **options, **more}))

    def _write_through(self, number: int, each: Sidecar) -> None:
        client = self._client(each, event_listeners=[self.told])
        self.writers += [Writer(f"proxy {number}", client, table) for table in self.tables]
        client = self._client(each)
        first = (number + 1) * FIRST
        self.workers += [Publisher(client, first, random.Random(f"{SEED}/drafts/{number}")),
                         Saver(client, f"saver{number}", random.Random(f"{SEED}/kept/{number}")),
                         Upserter(client, first, random.Random(f"{SEED}/upserts/{number}"))]
        if self.secured:
            self.strangers.append(Stranger(self._client(each, username="stranger", password="stranger")))

    def violations(self) -> Iterator[str]:
        """All that is wrong once nobody writes any more."""
        direct = self.three.client
        for table in self.tables:
            if table.goes_away:
                continue
            yield from table.violations(direct)
            yield from self.told.violations(table, direct)
            if table.has_no_gaps:
                yield from gaps_in(each[table.assigned] for each in held(direct, table.name).find(
                    {table.assigned: {"$exists": True}}))
        for each in self.foreign:
            options = held(direct, each.table).with_options(codec_options=RAW)
            yield from (f"{each.table}: {wrong}" for wrong in each.ledger.violations(
                bytes(one.raw) for one in options.find()))
        of = {kind: [each for each in self.workers if isinstance(each, kind)] for kind in (Publisher, Saver, Upserter)}
        for name, judge, kind in [("drafts", drafts_violations, Publisher), ("kept", kept_violations, Saver),
                                  ("upserts", upserts_violations, Upserter)]:
            yield from (f"{name}: {wrong}" for wrong in judge(of[kind], held(direct, name).find()))
        yield from self._reservations(direct)
        yield from self.audit.violations
        if self.secured and "forbidden" in direct[DB].list_collection_names():
            yield "a stranger has had a collection made"
        if any(each.done for each in self.strangers):
            yield "a stranger has inserted"
        if direct["idproxy"]["uniqueIdentifierCounter"].find_one({"_id": {"$regex": "forbidden"}}) and self.secured:
            yield "a stranger has had a counter made"

    def _reservations(self, direct: pymongo.MongoClient) -> Iterator[str]:
        reserved = {each["_id"]: each["parent_id"] for each in held(direct, "reserved__n").find()}
        for each in held(direct, "reserved").find({"n": {"$exists": True}}):
            if reserved.get(each["n"]) != each["_id"]:
                yield f"reserved: {each['n']} is not reserved for {each['_id']}"

    # Faults of the data.

    def set_a_counter_back(self) -> str:
        """By hand, as after a restore of the id store alone."""
        store = self.three.client["idproxy"].get_collection("uniqueIdentifierCounter")
        found = store.find_one_and_update({"_id": f"{DB}.edited.n", "COUNT": {"$gt": 600}}, {"$inc": {"COUNT": -500}})
        return f"from {found['COUNT']}" if found else "not yet"

    def drop_a_collection(self) -> str:
        self.three.client[DB].dropped.drop()
        return ""

    def rename_a_collection(self) -> str:
        """And back."""
        self.three.client[DB].dropped.rename("renamed")
        self.three.client[DB].renamed.rename("dropped", dropTarget=True)
        return ""

    def renew_certificates(self) -> str:
        issued = self._certificates.authority.issue("CN=proxy,OU=proxies,O=idproxy")
        used = self._certificates.proxy.file
        beside = used.with_suffix(".new")
        shutil.copy(issued.file, beside)
        beside.rename(used)
        for each in self.sidecars:
            if each.proxy.alive():
                each.proxy.process.send_signal(signal.SIGHUP)
        return ""

    def faults_of_data(self) -> dict[str, Any]:
        more = {"counter set back": self.set_a_counter_back, "collection dropped": self.drop_a_collection,
                "collection renamed": self.rename_a_collection}
        return more | ({"certificates renewed": self.renew_certificates} if self.secured else {})

    def documents(self) -> int:
        direct = self.three.client
        return sum(direct[DB][name].estimated_document_count() for name in direct[DB].list_collection_names())


def slope(samples: list[tuple[float, int]]) -> tuple[float, float]:
    """Of the samples' last two thirds, by the hour, and its standard error."""
    late = samples[len(samples) // 3:]
    if len(late) < 10:
        return 0.0, 0.0
    times, values = zip(*late)
    line = statistics.linear_regression(times, values)
    rest = sum((v - line.slope * t - line.intercept) ** 2 for t, v in late) / (len(late) - 2)
    spread = sum((t - statistics.fmean(times)) ** 2 for t in times)
    return line.slope * 3600, (rest / spread) ** 0.5 * 3600


class Run:
    """Faults for as long as is wanted, while everybody writes."""

    ROUND = 50  # faults, after which everybody must get on

    def __init__(self, soak: Soak):
        self._soak = soak
        self._began = time.monotonic()
        self.faults = Faults(SEED, soak.three, soak.sidecars, soak.directory / "trace.jsonl", soak.rules,
                             soak.faults_of_data(), soak.clocks)
        self.inserters = Inserters(soak.writers, SEED)
        self.resident: list[tuple[float, int]] = []  # bytes of the proxy that is never started anew

    def run(self) -> None:
        soak, over = self._soak, threading.Event()
        others = Threads(*(lambda each=each: each.work(over) for each in [*soak.workers, *soak.strangers]),
                         timeout=400)
        with others, self.inserters:
            try:
                self.inserters.await_progress()
                while self.seconds() < MINUTES * 60:
                    self._fault()
                    assert not others.failures, others.failures[:3]
                self._all_get_on()
            finally:
                self.minutes = round(self.seconds() / 60, 1)
                self.faults.end()
                over.set()

    def _fault(self) -> None:
        self.faults.draw()
        pid = self._soak.sidecars[0].proxy.pid
        self.resident.append((self.seconds(), memory(pid, "VmRSS")))
        time.sleep(self.faults.pause())
        if self.faults.count.total() % self.ROUND == self.ROUND - 1:
            self._all_get_on()

    def _all_get_on(self) -> None:
        self.faults.end()
        self.inserters.await_progress(timeout=180)

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def result(self, wrong: list[str]) -> dict[str, Any]:
        """An object of docs/reliability.json, and what else was measured."""
        soak = self._soak
        growth, error = slope(self.resident)
        told = sum((table.ledger.outcomes() for table in soak.tables), Counter())
        return {
            "kind": "soak", "commit": os.environ.get("IDPROXY_SOAK_COMMIT", ""), "date": time.strftime("%Y-%m-%d"),
            "server": soak.three.client.server_info()["version"], "seed": SEED,
            "minutes": self.minutes, "faults": dict(self.faults.count), "documents": soak.documents(),
            "findings": len(wrong), "planted": [*PLANTED], "secured": soak.secured, "clocks": soak.clocks,
            "told": dict(told), "errors": self.inserters.errors.total(),
            "resident": {"bytes an hour": round(growth), "standard error": round(error)},
            "steps": {f"{place} {each.name}": [each.done, dict(each.errors)]
                      for place, each in enumerate(soak.workers)}}


def test_soak(request: pytest.FixtureRequest, tmp_path: pathlib.Path, certificates: Certificates) -> None:
    directory = pathlib.Path(PLACE) if PLACE else tmp_path
    drivers = available(request, OWN) if MINUTES >= 1 else {}
    with contextlib.ExitStack() as stack:
        soak = Soak(stack, directory, certificates, drivers)
        run = Run(soak)
        run.run()
        soak.audit.end()
        wrong = list(soak.violations())
        soak.clients.close()
        wrong += left_behind(soak)
        (directory / "result.json").write_text(json.dumps(run.result(wrong), indent=1) + "\n")
        (directory / "wrong.txt").write_text("\n".join(wrong))
        for each in soak.sidecars:
            each.stop()
        assert not wrong, wrong[:20]
        assert sum(table.ledger.outcomes()["ok"] for table in soak.tables) > 1000


def left_behind(soak: Soak) -> list[str]:
    """What is still there once all clients are gone."""
    wrong = []
    for each in soak.sidecars:
        own = {int(address.rpartition(":")[2]) for address, _ in each.proxy.listeners}
        try:
            eventually(lambda own=own: not any(local in own for _, local, _ in connections()), 60)
        except TimeoutError:
            wrong.append(f"proxy {each.number} has connections of clients that are gone")
        wrong += each.proxy.complaints()
    status = soak.three.primary.client.admin.command("serverStatus")
    if status["transactions"]["currentOpen"]:
        wrong.append("a transaction is open")
    idle = soak.three.primary.client.admin.aggregate([
        {"$currentOp": {"idleCursors": True, "allUsers": True}}, {"$match": {"type": "idleCursor"}}])
    wrong += [f"a cursor is open: {each}" for each in idle]
    return wrong
