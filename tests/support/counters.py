"""Inserts through proxies that number them, and what the server holds afterwards."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import bson
import pymongo

from . import wire
from .proxy import Proxy
from .thief import insert_message
from .threads import Threads

STORE = "idproxy"
"""The database of the counters, unless a configuration names another one."""


def insert(proxy: Proxy, ns: str, documents: int | list[Any], **options: Any) -> dict[str, Any]:
    """Over a connection of its own; the body of the reply. A number stands for so many documents,
    each with its place as its key k."""
    if isinstance(documents, int):
        documents = [{"k": k} for k in range(documents)]
    with wire.WireClient(proxy.address, 30) as client:
        return client.call(insert_message(ns, documents, **options))


def stored(client: pymongo.MongoClient, ns: str) -> list[dict[str, Any]]:
    """The documents of a collection in the order in which they were stored."""
    db, _, name = ns.partition(".")
    return list(client[db][name].find().sort("$natural"))


def numbers(client: pymongo.MongoClient, ns: str, path: str = "n") -> list[Any]:
    """What stands at `path` of each of them."""
    found = stored(client, ns)
    for name in path.split("."):
        found = [document[name] for document in found]
    return found


def key_of(ns: str, path: str = "n") -> str:
    """The counter's, unless the rule names another one."""
    return f"{ns}.{path}"


def counter(client: pymongo.MongoClient, ns: str, path: str = "n",
            collection: str = "uniqueIdentifierCounter") -> dict[str, Any]:
    """The counter's document."""
    return client[STORE][collection].find_one({"_id": key_of(ns, path)})


def set_counter(client: pymongo.MongoClient, ns: str, count: Any, path: str = "n") -> None:
    """Writes it as a restore or a person with a shell would, whatever was there."""
    client[STORE]["uniqueIdentifierCounter"].replace_one(
        {"_id": key_of(ns, path)}, {"COUNT": count}, upsert=True)


def delete_counter(client: pymongo.MongoClient, ns: str, path: str = "n") -> None:
    client[STORE]["uniqueIdentifierCounter"].delete_one({"_id": key_of(ns, path)})


# The server steps down, or ends.
_NOT_PRIMARY = {91, 189, 10107, 11600, 11602, 13435}
_HOST_UNREACHABLE = 6


@dataclass
class Load(Threads):
    """Clients that insert for as long as the context lasts, each document with a key k of its own.

    where(): the address to insert at; asked again whenever a connection is lost, or the server is
    not the primary. Other replies that are not success are failures, unless `excused` says no, or
    they are the first `refusals` of a store that stood still for longer than a counter waits.
    """

    where: list[Callable[[], str]]  # for each client
    ns: str
    sizes: tuple[int, ...] = (1, 2, 3)
    more: dict[str, Any] = field(default_factory=dict)
    excused: Callable[[dict[str, Any]], bool] = lambda reply: False
    fields: dict[str, Any] = field(default_factory=dict)  # more, of every document
    refusals: int = 5
    acknowledged: list[tuple[int, list[int]]] = field(default_factory=list)
    replies: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._progress = threading.Condition()
        self._keys = itertools.count()
        self._unavailable = itertools.count(1)
        super().__init__(*(partial(self._work, where, n) for n, where in enumerate(self.where)))

    @property
    def documents(self) -> int:
        """How many have been acknowledged so far."""
        return sum(len(keys) for _, keys in self.acknowledged)

    def await_documents(self, count: int, timeout: float = 60) -> None:
        """Until so many more are acknowledged."""
        wanted = self.documents + count
        with self._progress:
            assert self._progress.wait_for(
                lambda: self.documents >= wanted or self.failures, timeout), "no progress"
        assert not self.failures, self.failures[:3]

    def _work(self, where: Callable[[], str], number: int) -> None:
        sizes = itertools.cycle(self.sizes)
        while not self.over.is_set():
            try:
                with wire.WireClient(where(), 30) as client:
                    while not self.over.is_set() and self._insert(client, next(sizes), number):
                        pass
            except (wire.Closed, ConnectionError):
                self.over.wait(0.01)

    def _insert(self, client: wire.WireClient, size: int, number: int) -> bool:
        """False if it is time for another connection."""
        keys = [next(self._keys) for _ in range(size)]
        reply = client.call(insert_message(
            self.ns, [{"k": k, "client": number, **self.fields} for k in keys],
            more=self.more))
        if reply["ok"] and not reply.get("writeErrors"):
            with self._progress:
                self.acknowledged.append((number, keys))
                self.replies.append(reply)
                self._progress.notify_all()
            return True
        codes = {e["code"] for e in reply.get("writeErrors", [reply])}
        if codes <= _NOT_PRIMARY:
            self.over.wait(0.01)
            return False
        if self.excused(reply):
            return True
        if codes != {_HOST_UNREACHABLE} or next(self._unavailable) > self.refusals:
            self.failed(reply)
        return True

    def failed(self, failure: Any) -> None:
        with self._progress:
            super().failed(failure)
            self._progress.notify_all()
        self.over.set()


def gaps(values: Iterable[int]) -> int:
    """How many numbers are missing between the least and the greatest."""
    found = set(values)
    return max(found) - min(found) + 1 - len(found)


def is_int64(value: Any) -> bool:
    """As PyMongo decodes one."""
    return isinstance(value, bson.Int64)
