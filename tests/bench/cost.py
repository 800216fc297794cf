"""What an insert through mongo-idproxy costs, for whoever decides on it: beside one that gets no number,
and beside the application's own counter, a findAndModify before the insert. All of it goes to the
same replica set of three members, with write concern majority, and takes turns.

Usage: cost.py [--quick] [--gapless], with tests/ in PYTHONPATH; scripts/bench cost sees to it. Prints
lines for report.py. Timing never fails a run: only a document that is lost or without a number of its
own does.
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
WAYS_WITHOUT_GAPS = {"direct": WAYS["direct"],
                     "highest_and_1": ("highest + 1", "long"),
                     "gapless": ("gapless", "long")}
NAMES = {way: name for way, (name, _) in WAYS.items()}

# What the throughput of a counter through the proxy must be beside others.
BESIDE_UUID = {"must": 0.95, "aim": 1.0, "better": "higher"}
BESIDE_OWN = {"must": 2.0, "aim": 2.5, "better": "higher"}  # for inserts of one document
BESIDE_ONE = {"must": 0.9, "aim": 1.0, "better": "higher"}  # gapless, beside one client directly


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


def run(servers: ReplicaSet, proxy: Proxy, rounds: int, slice_ms: int,
        gapless: bool) -> list[Slice]:
    servers.client.cost.counters.insert_one({"_id": "orders", "last": bson.Int64(0)})
    uris = [f"{uri}&w=majority" for uri in (servers.uri, proxy.set_uri(servers.name))]
    more = ["gapless"] if gapless else []
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


def rows(slices: list[Slice]) -> Iterator[dict[str, Any]]:
    cells: dict[tuple[int, int], dict[str, list[Slice]]] = defaultdict(lambda: defaultdict(list))
    for each in slices:
        if each.round > 0:
            cells[each.documents, each.clients][each.way].append(each)
    titles = {cell: f"inserts of {cell[0]}, {cell[1]} client{'s' if cell[1] > 1 else ''}"
              for cell in sorted(cells)}

    def row(section: str, unit: str, cell: tuple[int, int], attribute: str, beside: str,
            limit: dict[str, Any]) -> dict[str, Any]:
        columns = {NAMES[way]: [getattr(each, attribute) for each in of_way]
                   for way, of_way in cells[cell].items()}
        return {"section": section, "work": titles[cell], "unit": unit,
                "columns": {name: columns[name] for name in NAMES.values()},
                "of": NAMES["counter"], "beside": NAMES[beside], **limit}

    for cell in titles:
        yield row("Three members, counter beside uuid", "documents/s", cell, "per_second", "uuid",
                  BESIDE_UUID)
    for cell in titles:
        yield row("Three members, counter beside the application's own", "documents/s", cell,
                  "per_second", "application", BESIDE_OWN if cell[0] == 1 else {})
    for cell in titles:
        yield row("Three members, counter beside a direct insert without a number", "ms", cell,
                  "latency_ms", "direct", {})


def rows_without_gaps(slices: list[Slice]) -> Iterator[dict[str, Any]]:
    """Beside one client that inserts directly as many documents at once."""
    cells: dict[tuple[int, int, str], list[float]] = defaultdict(list)
    for each in slices:
        if each.round > 0:
            cells[each.documents, each.clients, each.way].append(each.per_second)
    for documents, clients in sorted({cell[:2] for cell in cells}):
        columns = {"one directly": cells[documents, 1, "direct"]}
        for way in ("highest_and_1", "gapless"):
            columns[WAYS_WITHOUT_GAPS[way][0]] = cells[documents, clients, way]
        yield {"section": "Three members, numbers without gaps", "unit": "documents/s",
               "work": f"inserts of {documents}, {clients} client{'s' if clients > 1 else ''}",
               "columns": columns, "of": "gapless", "beside": "one directly", **BESIDE_ONE}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench cost")
    parser.add_argument("--quick", action="store_true", help="shows that it works; no figures")
    parser.add_argument("--gapless", action="store_true", help="only numbers without gaps")
    options = parser.parse_args()
    effort = (QUICK_ROUNDS, QUICK_SLICE_MS) if options.quick else (ROUNDS, SLICE_MS)
    ways = WAYS_WITHOUT_GAPS if options.gapless else WAYS
    with ReplicaSet() as servers, Proxy(configuration(servers, RULES, threads="auto")) as proxy:
        version = servers.client.server_info()["version"]
        print(f"three members of MongoDB {version}, mongo-idproxy and the clients (libmongoc) on "
              f"{os.cpu_count()} cores; write concern majority\n"
              f"{effort[0]} rounds in turn, {effort[1]} ms each", file=sys.stderr)
        slices = run(servers, proxy, *effort, options.gapless)
        for row in rows_without_gaps(slices) if options.gapless else rows(slices):
            print(json.dumps(row))
        print(json.dumps({"note": check(servers, slices, ways)}))


if __name__ == "__main__":
    sys.exit(main())
