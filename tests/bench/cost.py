"""What an insert through mongo-idproxy costs, for whoever decides on it: beside one that gets no number,
and beside the application's own counter, a findAndModify before the insert. All of it goes to the
same replica set of three members, with write concern majority, and takes turns.

Usage: cost.py [--quick], with tests/ in PYTHONPATH; scripts/bench cost sees to it. Timing never fails
a run: only a document that is lost or without a number of its own does.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

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
    {"ns": "cost.uuid", "strategy": "uuid"})]

# Collection, which is the way's name in the program -> its name for people, and the type of its _ids.
WAYS = {"direct": ("direct, without a number", "objectId"),
        "application": ("application's own counter", "long"),
        "counter": ("proxy, counter", "long"),
        "counter_10000": ("proxy, counter, block: 10000", "long"),
        "uuid": ("proxy, uuid", "binData")}


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


def run(servers: ReplicaSet, proxy: Proxy, rounds: int, slice_ms: int) -> list[Slice]:
    servers.client.cost.counters.insert_one({"_id": "orders", "last": bson.Int64(0)})
    uris = [f"{uri}&w=majority" for uri in (servers.uri, proxy.set_uri(servers.name))]
    done = subprocess.run([PROGRAM, *uris, str(rounds), str(slice_ms)], stdout=subprocess.PIPE,
                          text=True, check=True)
    return [Slice.of(line) for line in done.stdout.splitlines()]


def check(servers: ReplicaSet, slices: list[Slice]) -> str:
    """Every document is there, with an _id as it was to get: what _id holds is unique."""
    stored: dict[str, int] = defaultdict(int)
    for each in slices:
        stored[each.way] += each.stored
    for way, (name, kind) in WAYS.items():
        found = servers.client.cost[way].count_documents({"_id": {"$type": kind}})
        if found != stored[way]:
            raise SystemExit(f"{name}: {stored[way]} documents inserted, {found} stored as expected")
    return f"{sum(stored.values())} documents inserted, all stored, each with an _id of its own"


def table(slices: list[Slice]) -> Iterator[str]:
    """Medians of all rounds; what is a ratio is one in each round first."""
    cells: dict[tuple[int, int], dict[str, list[Slice]]] = defaultdict(lambda: defaultdict(list))
    for each in slices:
        if each.round > 0:
            cells[each.clients, each.documents][each.way].append(each)
    yield (f"{'clients':>7} {'documents':>9}  {'insert':<33} {'documents/s':>11} {'to direct':>10} "
           f"{'to own counter':>14} {'latency':>10}")
    for (clients, documents), ways in cells.items():
        for way, (name, _) in WAYS.items():
            def ratio(other: str) -> float:
                return statistics.median(mine.per_second / its.per_second
                                         for mine, its in zip(ways[way], ways[other]))
            per_second = statistics.median(each.per_second for each in ways[way])
            latency = statistics.median(each.latency_ms for each in ways[way])
            yield (f"{clients:>7} {documents:>9}  {name:<33} {per_second:>11.0f} "
                   f"{ratio('direct'):>10.2f} {ratio('application'):>14.2f} {latency:>7.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench cost")
    parser.add_argument("--quick", action="store_true", help="shows that it works; no figures")
    effort = (QUICK_ROUNDS, QUICK_SLICE_MS) if parser.parse_args().quick else (ROUNDS, SLICE_MS)
    with ReplicaSet() as servers, Proxy(configuration(servers, RULES, threads="auto")) as proxy:
        version = servers.client.server_info()["version"]
        print(f"three members of MongoDB {version}, mongo-idproxy and the clients (libmongoc) on "
              f"{os.cpu_count()} cores; write concern majority\n"
              f"{effort[0]} rounds in turn, {effort[1]} ms each; load average before: "
              f"{os.getloadavg()[0]:.2f}", flush=True)
        slices = run(servers, proxy, *effort)
        print(*table(slices), check(servers, slices), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
