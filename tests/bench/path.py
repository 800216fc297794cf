"""What one insert enters in the program, by the counters of a build with --coverage. See scripts/path.

Usage: path.py [--strategy NAME] TREE, with tests/ in PYTHONPATH, for the binary in TREE/build/coverage.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
from collections import Counter
from typing import NamedTuple

from support.mongod import Mongod
from support.thief import robbing

INSERTS = 300
# Threads count without locks, so a few calls get lost.
ENTERED = 0.9 * INSERTS


class Function(NamedTuple):
    component: str  # module/name
    name: str
    line: int


def calls(tree: pathlib.Path) -> Counter[Function]:
    """How often each function of the program has run, by the files that it has left."""
    build = tree / "build" / "coverage"
    found: Counter[Function] = Counter()
    out = subprocess.run(["gcov", "--json-format", "--stdout", *build.rglob("*.gcda")], cwd=build,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    for line in out.stdout.splitlines():
        for file in json.loads(line)["files"]:
            path = (build / file["file"]).resolve()
            if any(path.is_relative_to(tree / part) for part in ("src", "include")):
                for function in file["functions"]:
                    found[Function(f"{path.parent.name}/{path.stem}", function["name"],
                                   function["start_line"])] += function["execution_count"]
    return found


def measured(tree: pathlib.Path, mongod: Mongod, name: str, strategy: str, inserts: int,
             duplicates: bool = False) -> Counter[Function]:
    """The calls in a proxy that serves some inserts, and then these."""
    for file in (tree / "build" / "coverage").rglob("*.gcda"):
        file.unlink()
    mongod.client.path[name].create_index("n", unique=True)
    with robbing(mongod, [{"ns": f"path.{name}", "field": "n", "strategy": strategy}]) as robbed:
        with robbed.proxy.client() as client:
            for number in range(50):
                client.path[name].insert_one({"k": number})
            if duplicates:
                robbed.thief.steal(f"path.{name}", "n")
            for number in range(inserts):
                client.path[name].insert_one({"k": 50 + number})
    return calls(tree)


def entered(calls: Counter[Function]) -> set[str]:
    return {function.component for function, count in calls.items() if count >= ENTERED}


def show(title: str, components: set[str]) -> None:
    print(f"{title}: {len(components)}")
    modules = sorted({each.partition("/")[0] for each in components})
    for module in modules:
        names = sorted(each.partition("/")[2] for each in components if each.startswith(module + "/"))
        print(f"  {module:<14}{len(names):>3}  {' '.join(names)}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/path")
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("--strategy", default="counter")
    options = parser.parse_args()
    tree = options.tree.resolve()
    with Mongod("rs0") as mongod:
        before = measured(tree, mongod, "before", options.strategy, 0)
        insert = measured(tree, mongod, "insert", options.strategy, INSERTS) - before
        retried = measured(tree, mongod, "retried", options.strategy, INSERTS, duplicates=True) - before
    show("an insert enters", entered(insert))
    show("and more when it is retried", entered(retried) - entered(insert))


if __name__ == "__main__":
    main()
