"""What an insert through mongo-idproxy costs, for whoever decides on it: beside one that gets no number,
and beside the application's own counter, a findAndModify before the insert. All of it goes to the
same replica set of three members, with write concern majority, and takes turns.

Usage: cost.py [--quick] [--gapless], with tests/ in PYTHONPATH; scripts/bench cost sees to it. Prints
lines for report.py. Timing never fails a run: only a document that is lost or without a number of its own does.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import bson

from support.proxy import Proxy, binary, configuration
from support.replica_set import ReplicaSet

PROGRAM = pathlib.Path(binary()).with_name("bench_cost")
ROUNDS, SLICE_MS = 12, 240
QUICK_ROUNDS, QUICK_SLICE_MS = 1, 20

# The numbers are _ids, of which each way has just one index to keep.
RULES = [{"field": "_id", "assign": "driver", **rule} for rule in (
    {"ns": "cost.counter", "strategy": "counter"},
    {"ns": "cost.counter_10000", "strategy": "counter", "block": {"size": 10_000}},
    {"ns": "cost.uuid", "strategy": "uuid"},
    {"ns": "cost.gapless", "strategy": "gapless"})]

# Collection, which is the way's name in the program -> its name for people, and the type of its _ids.
WAYS = {"direct": ("direct", "objectId"),
        "application": ("own counter", "long"),
        "counter": ("counter", "long"),
        "counter_10000": ("block: 10000", "long"),
        "uuid": ("uuid", "binData")}
WAYS_WITHOUT_GAPS = {"direct": ("direct", "objectId"),
                     "highest_and_1": ("highest number + 1", "long"),
                     "gapless": ("gapless", "long")}

# What the throughput of a counter through the proxy must be beside others.
BESIDE_UUID = {"must": 0.95, "aim": 1.0, "better": "higher"}
BESIDE_OWN = {"must": 2.0, "aim": 2.5, "better": "higher"}  # for inserts of one document
BESIDE_ONE = {"must": 0.9, "aim": 1.0, "better": "higher"}  # of eight clients, likewise


@dataclass
class Slice:
    """A line that the program prints."""

    round: int
    way: str
    clients: int
    documents: int
    stored: int
    per_second: float
    latency_ms: float

    @staticmethod
    def of(line: str) -> Slice:
        number, way, clients, documents, stored, seconds, latency_us = line.split("\t")
        return Slice(int(number), way, int(clients), int(documents), int(stored),
                     int(stored) / float(seconds), float(latency_us) / 1000)


def run(servers: ReplicaSet, proxy: Proxy, rounds: int, slice_ms: int, *more: str) -> list[Slice]:
    servers.client.cost.counters.insert_one({"_id": "orders", "last": bson.Int64(0)})
    uris = [f"{uri}&w=majority" for uri in (servers.uri, proxy.set_uri(servers.name))]
    done = subprocess.run([PROGRAM, *uris, str(rounds), str(slice_ms), *more],
                          stdout=subprocess.PIPE, text=True, check=True)
    return [Slice.of(line) for line in done.stdout.splitlines()]


def check(servers: ReplicaSet, slices: list[Slice], ways: dict[str, tuple[str, str]]) -> str:
    """Every document is there, with an _id as it was to get: what _id holds is unique."""
    stored: dict[str, int] = defaultdict(int)
    for each in slices:
        stored[each.way] += each.stored
    for way, (name, kind) in ways.items():
        found = servers.client.cost[way].count_documents({"_id": {"$type": kind}})
        if found != stored[way]:
            raise SystemExit(f"{name}: {stored[way]} documents inserted, {found} stored as expected")
        if way in ("highest_and_1", "gapless"):
            last = servers.client.cost[way].find_one(sort=[("_id", -1)])["_id"]
            if last != found:
                raise SystemExit(f"{name}: the last of {found} numbers is {last}")
    return (f"Into the replica set {sum(stored.values())} documents were inserted; all are stored, each with "
            "an _id of its own.")


# Documents of an insert and clients -> way -> its slices, by round.
Cells = dict[tuple[int, int], dict[str, list[Slice]]]


def cells_of(slices: list[Slice]) -> Cells:
    cells: Cells = defaultdict(lambda: defaultdict(list))
    for each in sorted(slices, key=lambda each: (each.documents, each.clients)):
        if each.round > 0:
            cells[each.documents, each.clients][each.way].append(each)
    return cells


def title(documents: int, clients: int) -> str:
    return f"inserts of {documents}, {clients} client{'s' if clients > 1 else ''}"


def rows(slices: list[Slice]) -> Iterator[dict[str, Any]]:
    cells = cells_of(slices)

    def section(name: str, unit: str, attribute: str, beside: str,
                limits: dict[tuple[int, int], dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for cell, ways in cells.items():
            columns = {name: [getattr(each, attribute) for each in ways[way]]
                       for way, (name, _) in WAYS.items()}
            yield {"section": f"Three members, {name}", "work": title(*cell), "unit": unit,
                   "columns": columns, "of": "counter", "beside": beside, **limits.get(cell, {})}

    yield from section("counter beside uuid", "documents/s", "per_second", "uuid",
                       dict.fromkeys(cells, BESIDE_UUID))
    yield from section("counter beside the application's own", "documents/s", "per_second", "own counter",
                       {cell: BESIDE_OWN for cell in cells if cell[0] == 1})
    yield from section("counter beside a direct insert without a number", "ms", "latency_ms", "direct", {})


def rows_without_gaps(slices: list[Slice]) -> Iterator[dict[str, Any]]:
    """Beside one client that inserts directly as many documents at once."""
    cells = cells_of(slices)
    for (documents, clients), ways in cells.items():
        columns = {"one directly": cells[documents, 1]["direct"],
                   **{name: ways[way] for way, (name, _) in WAYS_WITHOUT_GAPS.items()}}
        yield {"section": "Three members, without gaps", "work": title(documents, clients),
               "unit": "documents/s", "of": "gapless", "beside": "one directly",
               "columns": {name: [each.per_second for each in its] for name, its in columns.items()},
               **(BESIDE_ONE if (documents, clients) == (1, 8) else {})}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench cost")
    parser.add_argument("--quick", action="store_true", help="shows that it works; no figures")
    parser.add_argument("--gapless", action="store_true", help="only numbers without gaps")
    options = parser.parse_args()
    effort = (QUICK_ROUNDS, QUICK_SLICE_MS) if options.quick else (ROUNDS, SLICE_MS)
    with ReplicaSet() as servers, Proxy(configuration(servers, RULES, threads="auto")) as proxy:
        version = servers.client.server_info()["version"]
        print(f"three members of MongoDB {version}, mongo-idproxy and the clients (libmongoc) on "
              f"{os.cpu_count()} cores; write concern majority\n"
              f"{effort[0]} rounds in turn, {effort[1]} ms each", file=sys.stderr)
        slices = run(servers, proxy, *effort, *(["gapless"] if options.gapless else []))
        for row in rows_without_gaps(slices) if options.gapless else rows(slices):
            print(json.dumps(row))
        ways = WAYS_WITHOUT_GAPS if options.gapless else WAYS
        print(json.dumps({"note": check(servers, slices, ways)}))


if __name__ == "__main__":
    sys.exit(main())
