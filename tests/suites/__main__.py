"""python -m suites: see scripts/driver-suites."""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from support.proxy import Proxy, configuration
from support.replica_set import ReplicaSet

from . import explained, running
from .outcomes import MISSING, Outcomes, bad, counts, differing
from .suites import SUITES, Suite

# Drivers have put an _id into every document by then, but for a few tests. So inserts are read
# and nothing in them is changed.
_RULES = {"all": [{"ns": "*.*", "field": "_id", "strategy": "objectid"}], "none": []}

# By these variables the suites are told which compressor their clients ask for.
_COMPRESSORS = ("COMPRESSORS", "MONGO_GO_DRIVER_COMPRESSOR", "MONGOC_TEST_COMPRESSORS")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/driver-suites", allow_abbrev=False)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="SUITE")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--again", type=int, default=3)
    parser.add_argument("--rules", choices=_RULES, default="all")
    parser.add_argument("--compressor", choices=["snappy", "zlib", "zstd"])
    parser.add_argument("--results", type=pathlib.Path, required=True)
    return parser.parse_args()


@contextmanager
def _way(replica_set: ReplicaSet, rules: str | None, log: pathlib.Path) -> Iterator[str]:
    """A connection string: the set's, or with rules one of a proxy before it."""
    if rules is None:
        yield replica_set.uri
        return
    with Proxy(configuration(replica_set, _RULES[rules], store=replica_set)) as proxy:
        try:
            listeners = ",".join(address for address, _ in proxy.listeners)
            yield f"mongodb://{listeners}/?replicaSet={replica_set.name}"
        finally:
            log.write_text(proxy.log())


class Comparison:
    """One suite, both ways."""

    def __init__(self, name: str, options: argparse.Namespace):
        self.name = name
        self.ways = {"directly": None,
                     "through proxy": None if options.control else options.rules}
        if options.control:
            self.ways["directly too"] = self.ways.pop("through proxy")
        self._results = options.results / name
        self._suite: Suite = SUITES[name]()
        self.went_round = 0

    def run(self, options: argparse.Namespace) -> bool:
        """True if there is no difference but those that are explained."""
        print(f"=== {self.name} {self._suite.version}", flush=True)
        first = {}
        for way in self.ways:
            with ReplicaSet() as replica_set:
                started = time.monotonic()
                first[way] = self._run(replica_set, way, "", options.only)
            found = counts(first[way])
            print(f"{way:15}" + "".join(f"{found[s]:6d} {s}" for s in
                                        ("passed", "failed", "skipped"))
                  + f"{time.monotonic() - started:8.0f} s", flush=True)
        different = differing(*first.values())
        again = self._again(different, options.again) if different and options.again else {}
        ok = all([self._report(name, first, again) for name in different])
        if self.went_round:
            print(f"clients of the proxy were seen at the members themselves, in {self.went_round} "
                  "looks")
        judgement = "none of the proxy's that is not explained" if ok else "NOT all explained"
        print(f"{len(different)} differences: {judgement}\n" if different else "no difference\n",
              flush=True)
        return ok

    def _run(self, replica_set: ReplicaSet, way: str, number: str, only: list[str]) -> Outcomes:
        results = self._results / (way.replace(" ", "-") + number)
        results.mkdir(parents=True, exist_ok=True)
        for old in results.iterdir():
            old.unlink()
        proxied = self.ways[way] is not None
        members = {m.port for m in replica_set.members} if proxied else set()
        with _way(replica_set, self.ways[way], results / "proxy.log") as uri:
            for command in self._suite.commands(uri, results, only):
                self.went_round += running.run(command, members)
        return self._suite.outcomes(results)

    def _again(self, names: list[str], times: int) -> dict[str, list[Outcomes]]:
        """Only these tests, in turns."""
        found: dict[str, list[Outcomes]] = {way: [] for way in self.ways}
        with ReplicaSet() as replica_set:
            for i in range(times):
                for way in self.ways:
                    found[way].append(self._run(replica_set, way, f"-{i + 1}", names))
        return found

    def _report(self, name: str, first: dict[str, Outcomes],
                again: dict[str, list[Outcomes]]) -> bool:
        """Prints a difference; True if it needs no explanation, or has one."""
        one, other = (outcomes.get(name, MISSING) for outcomes in first.values())
        print(f"{one.status} -> {other.status}: {name}")
        times = [f"{bad(runs, name)} of {len(runs)}" for runs in again.values()]
        if times:
            print(f"    again, not passed: {' -> '.join(times)}")
        if why := explained.reason(self.name, name):
            print(f"    explained: {why}")
            return True
        if again and bad(list(again.values())[1], name) <= bad(list(again.values())[0], name):
            print("    not steady, and no worse through the proxy")
            return True
        message = other.message if other.status != "passed" else one.message
        print("".join(f"    | {line}\n" for line in message.strip().splitlines()[-6:]), end="")
        return False


def main() -> None:
    options = _arguments()
    # Servers and their files go also when this is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.compressor:
        os.environ.update(dict.fromkeys(_COMPRESSORS, options.compressor))
    names = options.suites or list(SUITES)
    if not all([Comparison(name, options).run(options) for name in names]):
        sys.exit(1)


if __name__ == "__main__":
    main()
