"""What an insert through mongo-idproxy costs, for whoever decides on it: beside one that gets no number,
and beside the application's own counter, a findAndModify before the insert. All of it goes to the
same replica set of three members, with write concern majority, and takes turns.

Usage: cost.py [--quick] [--gapless], with tests/ in PYTHONPATH; scripts/bench cost sees to it. Timing
never fails a run: only a document that is lost or without a number of its own does.
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
    {"ns": "cost.uuid", "strategy": "uuid"},
    {"ns": "cost.gapless", "strategy": "gapless"})]

# Collection, which is the way's name in the program -> its name for people, and the type of its _ids.
WAYS = {"direct": ("direct, without a number", "objectId"),
        "application": ("application's own counter", "long"),
        "counter": ("proxy, counter", "long"),
        "counter_10000": ("proxy, counter, block: 10000", "long"),
        "uuid": ("proxy, uuid", "binData")}
WAYS_WITHOUT_GAPS = {"direct": WAYS["direct"],
                     "highest_and_1": ("application: highest number + 1", "long"),
                     "gapless": ("proxy, gapless", "long")}


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


def table_without_gaps(slices: list[Slice]) -> Iterator[str]:
    """Medians of all rounds, beside one client that inserts directly as many documents at once."""
    cells: dict[tuple[int, int, str], list[Slice]] = defaultdict(list)
    for each in slices:
        if each.round > 0:
            cells[each.documents, each.clients, each.way].append(each)
    yield (f"{'documents':>9} {'clients':>7}  {'insert':<33} {'documents/s':>11} "
           f"{'to one directly':>15} {'latency':>10}")
    for (documents, clients, way), some in sorted(cells.items()):
        one = cells[documents, 1, "direct"]
        ratio = statistics.median(mine.per_second / its.per_second for mine, its in zip(some, one))
        per_second = statistics.median(each.per_second for each in some)
        latency = statistics.median(each.latency_ms for each in some)
        yield (f"{documents:>9} {clients:>7}  {WAYS_WITHOUT_GAPS[way][0]:<33} {per_second:>11.0f} "
               f"{ratio:>15.2f} {latency:>7.2f} ms")


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
              f"{effort[0]} rounds in turn, {effort[1]} ms each; load average before: "
              f"{os.getloadavg()[0]:.2f}", flush=True)
        slices = run(servers, proxy, *effort, options.gapless)
        lines = table_without_gaps(slices) if options.gapless else table(slices)
        print(*lines, check(servers, slices, ways), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
