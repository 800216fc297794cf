"""Faults at random, and the book in which each document's fate is written.

StepRelay   a middleman that closes connections at the boundaries of messages
Chain       a proxy between two of them
Ledger      what was sent and how it was answered, and whether the server holds just that
CrashNode   a mongod that is killed and comes back with its data
"""

from __future__ import annotations

import hashlib
import random
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import pymongo

from .elements import Element, document, elements
from .fake_server import Request
from .middleman import Connection, Cut, Direction, Middleman
from .mongod import Mongod
from .process import StoppedOrKilled, eventually
from .proxy import Proxy, Server, configuration

Fate = Literal["pass", "drop_before", "drop_after"]


class Dropping:
    """Decides over the steps of one connection: the same ones for the same seed.

    A step is one message in one direction, be it a write or the reply to one: before the first
    write of a connection there is nothing that could be lost.
    """

    def __init__(self, share: float, seed: str):
        self._share = share
        self._random = random.Random(seed)

    def fate(self) -> Fate:
        if self._random.random() >= self._share:
            return "pass"
        return "drop_before" if self._random.random() < 0.5 else "drop_after"


WRITES = frozenset({"insert", "update", "findAndModify", "bulkWrite"})


def write_in(message: bytes) -> Request | None:
    """A write that is whole and well-formed as far as a relay has to look."""
    try:
        request = Request.read(message)
        return request if request.command in WRITES else None
    except (struct.error, ValueError, IndexError):
        return None


class StepRelay(Middleman):
    """Drops a share of the steps of writes: closes both ends, before or after the message was passed on.

    `before` is called with each write before it is passed on, or dropped. `steps` and `dropped` count, and
    are read once the connections are over.
    """

    def __init__(self, target: str, share: float = 0, seed: str = "",
                 before: Callable[[Request], None] = lambda write: None):
        self._share, self._seed, self._before = share, seed, before
        self.steps = 0
        self.dropped: Counter[tuple[Direction, Fate]] = Counter()
        self._counting = threading.Lock()
        # Of each connection: what becomes of its steps, and the ids of writes that were sent.
        self._dropping: dict[int, Dropping] = {}
        self._writes: defaultdict[int, set[int]] = defaultdict(set)
        super().__init__(target, script=self._pass)

    def _pass(self, connection: Connection, direction: Direction, message: bytes) -> bytes:
        if not self._is_step(connection.number, direction, message):
            return message
        with self._counting:
            dropping = self._dropping.setdefault(
                connection.number, Dropping(self._share, f"{self._seed}/{connection.number + 1}"))
            fate = dropping.fate()
            self.steps += 1
            self.dropped[direction, fate] += fate != "pass"
        if fate != "pass":
            raise Cut(b"" if fate == "drop_before" else message)
        return message

    def _is_step(self, connection: int, direction: Direction, message: bytes) -> bool:
        if direction == "to_client":
            return struct.unpack_from("<i", message, 8)[0] in self._writes[connection]
        if write := write_in(message):
            self._writes[connection].add(write.request_id)
            self._before(write)
        return write is not None


class Chain(StoppedOrKilled):
    """A proxy between two relays, which drop shares of the steps of writes. In use until stop().

    downstream is the relay in front of the proxy, upstream the one behind it; dropped: their
    shares. stopped: what the proxy logged at its end. The id store is an empty server of its own,
    which cannot look up what is free: values are to collide.
    """

    def __init__(self, server: Server, rules: list[dict[str, Any]], dropped: dict[str, float],
                 seed: str):
        self.upstream = StepRelay(server.address, dropped.get("upstream", 0), seed + "/up")
        self._store = Mongod()
        self.proxy = Proxy(configuration(self.upstream, rules, self._store))
        self.downstream = StepRelay(
            self.proxy.address, dropped.get("downstream", 0), seed + "/down")
        self.uri = f"mongodb://{self.downstream.address}/?directConnection=true&retryWrites=true"
        self.stopped: dict[str, Any] = {}

    def stop(self) -> None:
        """Insists that no connection is left once the clients are gone."""
        eventually(self.downstream.at_rest, 60, "the clients are gone")
        self.downstream.close()
        eventually(self.upstream.at_rest, 60, "the proxy has closed behind them")
        self.proxy.stop()
        self.stopped = self.proxy.wait_event("stopped")
        self.upstream.close()
        self._store.close()

    def kill(self) -> None:
        self.proxy.kill()
        self.downstream.close()
        self.upstream.close()
        self._store.close()


def quiet(server: Mongod, *databases: str) -> bool:
    """No write into these is still at work, of a client that is gone perhaps."""
    running = server.client.admin.command(
        "aggregate", 1, cursor={}, pipeline=[{"$currentOp": {}}, {"$match": {
            "active": True, "op": {"$in": ["insert", "update", "command"]},
            "ns": {"$regex": rf"^({'|'.join(databases)})\."}}}])
    return not running["cursor"]["firstBatch"]


Outcome = Literal["ok", "refused", "unknown"]


@dataclass
class Sent:
    """One document that was handed to a driver. unknown until something else is said."""

    document: bytes
    digest: str
    outcome: Outcome = "unknown"


@dataclass
class Ledger:
    """One test writer's documents, by their key k, an int32 of each document.

    assigned: the field that the proxy fills. shape: raises AssertionError for a value that the
    rule cannot have made. scope: a field of which each value has values of its own.
    """

    assigned: str
    shape: Callable[[Element], None] | None = None
    sent: dict[int, Sent] = field(default_factory=dict)
    scope: str | None = None

    def add(self, k: int, raw: bytes) -> None:
        self.sent[k] = Sent(raw, digest(raw))

    def outcomes(self) -> Counter[Outcome]:
        return Counter(s.outcome for s in self.sent.values())

    def violations(self, stored: Iterable[bytes]) -> list[str]:
        """What is wrong with the server's documents; empty if all is as it was acknowledged."""
        found: Counter[int] = Counter()
        ids: dict[bytes, int] = {}
        wrong: list[str] = []
        for raw in stored:
            k, value, rest = self._taken_apart(raw)
            if k not in self.sent:
                wrong.append(f"k={k}: nobody sent it")
                continue
            found[k] += 1
            if digest(rest) != self.sent[k].digest:
                wrong.append(f"k={k}: not what was sent")
            if value is None:
                wrong.append(f"k={k}: without a value")
                continue
            whole = value.raw + self._scope_of(rest)
            if whole in ids:
                wrong.append(f"k={k}: has the value of k={ids[whole]}")
            ids.setdefault(whole, k)
            try:
                if self.shape:
                    self.shape(value)
            except AssertionError as failure:
                wrong.append(f"k={k}: of the wrong shape: {failure}")
        for k, sent in self.sent.items():
            if found[k] > 1:
                wrong.append(f"k={k}: {sent.outcome}, stored {found[k]} times")
            elif sent.outcome == "ok" and not found[k]:
                wrong.append(f"k={k}: ok, missing")
            elif sent.outcome == "refused" and found[k]:
                wrong.append(f"k={k}: refused, stored")
        return wrong

    def _scope_of(self, raw: bytes) -> bytes:
        if not self.scope:
            return b""
        return next(e.raw for e in elements(raw) if e.name == self.scope.encode())

    def _taken_apart(self, raw: bytes) -> tuple[int | None, Element | None, bytes]:
        """Key, assigned value, and the document without it and without the server's own _id."""
        parts = elements(raw)
        value = next((e for e in parts if e.name == self.assigned.encode()), None)
        kept = [e for e in parts if e.name not in (b"_id", self.assigned.encode())]
        k = next((struct.unpack("<i", e.value)[0] for e in kept if e.name == b"k"), None)
        return k, value, document(*kept)


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


class CrashNode(Mongod):
    """A one-member replica set that survives kill(): restart() brings it back with its data."""

    def restart(self) -> None:
        """On the same port; returns once it takes writes."""
        (self._directory / "mongod.log").unlink(missing_ok=True)
        self._start(self.port)
        self.client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=60_000)
        eventually(self._is_writable, 60, "mongod is writable again")
