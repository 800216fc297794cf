"""Documents saved again and again through two proxies, while proxies are killed, primaries step down
and connections end: no number is lost, none is stored twice, none moves to another document."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pymongo
import pytest
from pymongo import ReplaceOne
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError

from support.full import FULL
from support.process import eventually, free_ports
from support.proxy import Proxy, configuration
from support.replica_set import ReplicaSet

RULES = [
    {"ns": "saved.counted", "field": "number", "strategy": "counter", "block": 5},
    {"ns": "saved.gapless", "field": "number", "strategy": "gapless", "unique_index": "create"},
    {"ns": "saved.dotted", "field": "a.number", "strategy": "counter"},
]
KEYS = 12  # of each writer, and of all
SHARED = [f"shared{i}" for i in range(KEYS)]
ROUNDS = 3 if FULL else 2
SOON = 60


@pytest.fixture(scope="module")
def three() -> Iterator[ReplicaSet]:
    with ReplicaSet() as running:
        yield running


class Killable:
    """A proxy that is killed and comes back on the ports it had."""

    def __init__(self, three: ReplicaSet):
        port = free_ports(len(three.members))[0]
        self._config = configuration(three, RULES, listen={"address": "127.0.0.1", "port": port})
        self.proxy = Proxy(self._config)

    def kill(self) -> None:
        self.proxy.kill()
        self.proxy = Proxy(self._config)


class Saver:
    """Saves documents of its own, and some that others save, too. `last`: of its own, by key, the
    change that was acknowledged and the last one that was sent."""

    def __init__(self, collection: Any, name: str):
        self._collection, self._name = collection, name
        self._source = random.Random(name)
        self.last: dict[str, list[int]] = {}
        self.done = 0

    def run(self, over: threading.Event) -> None:
        i = 0
        while not over.is_set():
            i += 1
            own = [f"{self._name}.{key}" for key in self._source.sample(range(KEYS), 3)]
            saved = own + self._source.sample(SHARED, 1)
            for key in own:
                self.last.setdefault(key, [0, 0])[1] = i
            try:
                [self._one, self._found, self._several][i % 3](saved, i)
            except (BulkWriteError, OperationFailure) as error:
                # Two inserted a shared one.
                assert "E11000" not in str(error) or "_id_" in str(error), error
                continue
            except PyMongoError:
                continue
            for key in own:
                self.last[key][0] = i
            self.done += 1

    def _document(self, i: int) -> dict[str, Any]:
        return {"by": self._name, "i": i, "a": {"x": i}}

    def _one(self, keys: list[str], i: int) -> None:
        for key in keys:
            self._collection.replace_one({"_id": key}, self._document(i), upsert=True)

    def _found(self, keys: list[str], i: int) -> None:
        for key in keys:
            self._collection.find_one_and_replace({"_id": key}, self._document(i), upsert=True)

    def _several(self, keys: list[str], i: int) -> None:
        self._collection.bulk_write(
            [ReplaceOne({"_id": key}, self._document(i), upsert=True) for key in keys],
            ordered=i % 2 == 0)

    def violations(self) -> list[str]:
        stored = {each["_id"]: each for each in self._collection.find()}
        return [f"{key}: {stored.get(key)}, acknowledged {least}, sent {most}"
                for key, (least, most) in self.last.items()
                if least and not (key in stored and least <= stored[key]["i"] <= most)]


def number_in(document: dict[str, Any]) -> int | None:
    return document.get("number", document["a"].get("number"))


def test_no_number_is_lost_or_twice(three: ReplicaSet) -> None:
    database = three.client.saved
    for field, name in [("number", "counted"), ("a.number", "dotted")]:
        database[name].create_index(field, unique=True, sparse=True)
    with ExitStack() as stack:
        changes = stack.enter_context(database.watch(full_document="updateLookup"))
        proxies = [Killable(three) for _ in range(2)]
        for each in proxies:
            stack.callback(lambda each=each: each.proxy.stop())
        savers = []
        for number, each in enumerate(proxies):
            client = stack.enter_context(pymongo.MongoClient(
                each.proxy.set_uri(three.name), w="majority", serverSelectionTimeoutMS=SOON * 1000))
            savers += [Saver(client.saved[name], f"{name}{number}{nth}")
                       for name in ("counted", "gapless", "dotted") for nth in range(2)]
        over = threading.Event()
        threads = [threading.Thread(target=each.run, args=(over,)) for each in savers]
        for thread in threads:
            thread.start()

        def progress() -> None:
            before = [each.done for each in savers]
            eventually(lambda: all(each.done > done + 3
                                   for each, done in zip(savers, before, strict=True)), SOON)

        try:
            for _ in range(ROUNDS):
                progress()
                proxies[0].kill()
                progress()
                three.step_down()
                progress()
                proxies[1].kill()
            progress()
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert [violation for each in savers for violation in each.violations()] == []
        numbers = {name: [number_in(each) for each in database[name].find()]
                   for name in ("counted", "gapless", "dotted")}
        assert sorted(numbers["gapless"]) == list(range(1, len(numbers["gapless"]) + 1))
        for each in numbers.values():
            assert None not in each and len(set(each)) == len(each) >= 5 * KEYS
        check_changes(changes, sum(map(len, numbers.values())))
    check_members(three)


def check_changes(changes: Any, documents: int) -> None:
    """Each document has had its number from its first change on; updates name neither it nor _id."""
    numbers: dict[tuple[str, str], int] = {}
    while (change := changes.try_next()) is not None:
        if "documentKey" not in change:
            continue
        key = change["ns"]["coll"], change["documentKey"]["_id"]
        if change["operationType"] == "insert":
            assert key not in numbers
            numbers[key] = number_in(change["fullDocument"])
        said = change.get("updateDescription", {"updatedFields": {}, "removedFields": []})
        assert not {"_id", "number", "a", "a.number"} & set(said["removedFields"]), change
        assert not {"_id", "number", "a.number"} & set(said["updatedFields"]), change
        if change["operationType"] == "replace":
            assert number_in(change["fullDocument"]) == numbers[key], change
    assert len(numbers) == documents


def check_members(three: ReplicaSet) -> None:
    """All have the same documents."""
    three.await_health()

    def hashes() -> set[str]:
        found = set()
        for member in three.members:
            found.add(member.client.saved.command("dbHash")["md5"])
        return found

    eventually(lambda: len(hashes()) == 1, SOON)
