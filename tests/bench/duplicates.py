"""Measures inserts of which one document in a hundred draws a number that is taken: through mongo-idproxy,
which draws again by itself, and straight to the same mongod from a client that sends the same second insert
itself. Both in turn, in one run.

Usage: duplicates.py [--quick], with tests/ in PYTHONPATH; scripts/bench duplicates sees to it. Prints lines
for report.py. Timing never fails a run: only a document that is lost, stored twice or without its own number
does, and a program that ends.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bson import Int64

from support.mongod import Mongod
from support.process import processor_time
from support.proxy import Proxy, binary, configuration

PROGRAM = pathlib.Path(binary()).with_name("bench_duplicates")
BATCH, NUMBERS, TAKEN = 100, 10_000_000, 100_000
RULES = [{"ns": "bench.proxied", "field": "number", "strategy": "random-digits", "digits": 7}]
ROUTES = {"direct": "direct", "proxied": "idproxy"}  # collection -> column
LIMIT = {"must": 0.95, "aim": 1.0, "better": "higher"}


@dataclass(frozen=True)
class Effort:
    """Slices are short and take turns, so that what else happens on the machine and inside mongod
    meets both routes. Collections are made anew before their numbers fill up by what is inserted."""

    collections: int  # of each route, one after the other
    slices: int  # of each route into one collection
    slice_ms: int


FULL, QUICK = Effort(20, 6, 80), Effort(3, 4, 50)


@dataclass
class Result:
    """What one route did in all its slices."""

    per_second: list[float] = field(default_factory=list)  # documents, by slice
    seconds: float = 0
    used: Counter[str] = field(default_factory=Counter)


class Bench:
    def __init__(self, mongod: Mongod, proxy: Proxy, effort: Effort):
        self._mongod, self._proxy, self._effort = mongod, proxy, effort
        self._db = mongod.client.bench
        self.stored = 0

    def measure(self, order: str) -> dict[str, Result]:
        results = {route: Result() for route in ROUTES}
        ports = [server.address.rpartition(":")[2] for server in (self._mongod, self._proxy)]
        command = [PROGRAM, *ports, order, str(NUMBERS), str(self._effort.slice_ms)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
            for number in range(self._effort.collections):
                self._round(load, number, results)
            load.communicate()
        return results

    def _round(self, load: subprocess.Popen[str], number: int, results: dict[str, Result]) -> None:
        """Neither route always comes first: what was made later is measured to be slower."""
        routes = [*ROUTES] if number % 2 == 0 else [*reversed(ROUTES)]
        stored: Counter[str] = Counter()
        for route in routes:
            # Nothing but the taken numbers; $out leaves the indexes as they are.
            self._db.taken.aggregate([{"$out": route}])
            stored[route] += self._slice(load, route)[0]  # warm-up
        for _ in range(self._effort.slices):
            for route in routes:
                before = self._used(load)
                documents, seconds = self._slice(load, route)
                result = results[route]
                result.per_second.append(documents / seconds)
                result.seconds += seconds
                result.used += self._used(load) - before
                stored[route] += documents
            routes.reverse()
        for route in routes:
            self._verify(route, stored[route])
        self.stored += stored.total()

    @staticmethod
    def _slice(load: subprocess.Popen[str], route: str) -> tuple[int, float]:
        """Documents stored, and seconds."""
        assert load.stdin and load.stdout
        print(route, file=load.stdin, flush=True)
        line = load.stdout.readline()
        if not line:
            raise SystemExit("bench_duplicates has ended")
        documents, seconds = line.split()
        return int(documents), float(seconds)

    def _used(self, load: subprocess.Popen[str]) -> Counter[str]:
        """What mongod has counted since it started, and seconds of processors."""
        status = self._mongod.client.admin.command("serverStatus")
        return Counter({
            "commands": status["metrics"]["commands"]["insert"]["total"],
            "tried": status["opcounters"]["insert"], "inserted": status["metrics"]["document"]["inserted"],
            "client": processor_time(load.pid), "proxy": processor_time(self._proxy.pid),
            "mongod": processor_time(self._mongod.process.pid)})

    def _verify(self, route: str, stored: int) -> None:
        """Ours have keys from 0 on, which repeat in no round: as many of them as were answered for
        means that each is there once. All numbers being there, as int64, and different says the rest."""
        found = self._db[route].count_documents({"_id": {"$gte": 0}})
        (different,) = self._db[route].aggregate([
            {"$match": {"number": {"$type": "long"}}}, {"$group": {"_id": "$number"}}, {"$count": "n"}])
        numbers = different["n"] - TAKEN
        if (found, numbers) != (stored, stored):
            raise SystemExit(f"{stored} documents were answered for, {found} are stored, with {numbers} "
                             "different numbers")


def row(order: str, results: dict[str, Result]) -> dict[str, Any]:
    return {"section": "1 % duplicates, documents a second", "work": f"inserts of 100, {order}", "unit": "1/s",
            "columns": {ROUTES[route]: result.per_second for route, result in results.items()},
            "of": "idproxy", "beside": "direct", **LIMIT}


def note(order: str, route: str, result: Result) -> str:
    used = result.used
    refused = 100 * (used["tried"] - used["inserted"]) / used["tried"]
    processors = ", ".join(f"{name} {100 * used[name] / result.seconds:.0f} %"
                           for name in ("client", "proxy", "mongod"))
    return (f"  {order:<10} {route:<10} {used['commands'] * BATCH / used['inserted']:.2f} inserts per batch, "
            f"{refused:.2f} % refused; {processors}")


def fill(mongod: Mongod) -> None:
    db = mongod.client.bench
    for route in ROUTES:
        db[route].create_index("number", unique=True)
    db.taken.insert_many([{"_id": -1 - i, "number": Int64(i * (NUMBERS // TAKEN))} for i in range(TAKEN)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench duplicates")
    parser.add_argument("--quick", action="store_true", help="shows that it works, in ten seconds")
    effort = QUICK if parser.parse_args().quick else FULL
    cores = sorted(os.sched_getaffinity(0))[:2]
    # As quick as it gets: no checkpoints that would fall into one measurement and not into the other.
    os.sched_setaffinity(0, cores[-1:])  # children have it, too
    with Mongod(options=["--syncdelay", "0"]) as mongod:
        fill(mongod)
        os.sched_setaffinity(0, cores[:1])
        # Connections are silent until it is their turn.
        with Proxy(configuration(mongod, RULES, threads=1, limits={"first_byte": "5m"})) as proxy:
            version = mongod.client.server_info()["version"]
            print(f"1 % duplicates: batches of {BATCH} documents, {TAKEN} of {NUMBERS} numbers taken\n"
                  f"standalone mongod {version} on core {cores[-1]}, client and proxy on core {cores[0]}; "
                  f"{effort.collections * effort.slices} slices of each in turn, {effort.slice_ms} ms",
                  file=sys.stderr)
            bench = Bench(mongod, proxy, effort)
            for order in ("unordered", "ordered"):
                results = bench.measure(order)
                print(json.dumps(row(order, results)), flush=True)
                for route, result in results.items():
                    print(note(order, route, result), file=sys.stderr)
            print(json.dumps({"note": f"With 1 % duplicates, {bench.stored} documents were inserted; each is "
                                      "stored once, with a number of its own."}))


if __name__ == "__main__":
    main()
