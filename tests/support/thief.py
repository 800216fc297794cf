"""A middleman between the proxy and mongod that takes ids away, so that documents collide on demand.

Before an insert passes, the thief stores documents of its own with the values that the proxy has
just generated: the real mongod then answers with a real E11000, as often as the test wants it for
each document, and never by chance. It also keeps every message that passed, both ways.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import bson
import pymongo
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError

from . import elements as el
from . import wire
from .elements import Element, elements
from .fake_server import Request
from .middleman import Connection, Direction, Middleman
from .mongod import Mongod
from .proxy import Proxy, configuration

_LENIENT = CodecOptions(unicode_decode_error_handler="replace")

ALWAYS = 1 << 30
"""How often a document collides that is never to be stored."""


@dataclass(eq=False)
class Passed:
    """One message that came by, inflated if it was compressed; taken apart when asked."""

    raw: bytes
    direction: Direction
    connection: int  # which one, counted from 0
    at: float  # time.monotonic()
    compressor: str | None = None

    def __post_init__(self) -> None:
        self.compressor = wire.compressor_of(self.raw)
        self.raw = wire.inflated(self.raw)
        _, self.request_id, self.response_to, self.op_code = struct.unpack_from("<iiii", self.raw)

    @cached_property
    def flags(self) -> int:
        return struct.unpack_from("<I", self.raw, 16)[0]

    @cached_property
    def _request(self) -> Request:
        if self.op_code == wire.OP_MSG and self.flags & wire.CHECKSUM_PRESENT:
            assert wire.crc32c(self.raw[:-4]) == struct.unpack("<I", self.raw[-4:])[0]
        return Request.read(self.raw)

    @property
    def body_bytes(self) -> bytes:
        return self._request.body

    @cached_property
    def head(self) -> list[Element]:
        """The elements of the body, but for the documents of an insert."""
        found = elements(self.body_bytes) if self.body_bytes else []
        return [e for e in found if e.name != b"documents"]

    @cached_property
    def body(self) -> dict[str, Any]:
        """The body, but for the documents of an insert."""
        return bson.decode(el.document(*self.head), _LENIENT)

    @cached_property
    def raw_documents(self) -> list[bytes]:
        """The documents of an insert, wherever they stand."""
        return self._request.documents

    @cached_property
    def documents(self) -> list[dict[str, Any]]:
        return [bson.decode(d, _LENIENT) for d in self.raw_documents]

    @cached_property
    def command(self) -> str:
        """The name of the command; of a reply it is just its first field."""
        return self.head[0].name.decode() if self.op_code == wire.OP_MSG and self.head else ""

    @cached_property
    def ns(self) -> str:
        """Of an insert, else empty."""
        if self.direction != "to_server" or self.command != "insert":
            return ""
        return f"{self.body['$db']}.{self.body['insert']}"

    def element(self, name: str) -> Element | None:
        """The element of this name in the body."""
        return next((e for e in self.head if e.name == name.encode()), None)


Times = int | Mapping[Any, int] | Callable[[dict[str, Any]], int]


@dataclass(eq=False)
class Theft:
    """What is stolen from one collection: the values of one field."""

    field: str
    times: Callable[[dict[str, Any]], int]
    copy: tuple[str, ...]
    values: dict[Any, list[bytes]] = field(default_factory=dict)  # by the document's key, in order

    def loot(self, document: dict[str, Any], key: Any) -> dict[str, Any] | None:
        """What the thief has to store so that this document collides; None if it need not."""
        value = _get(document, self.field)
        if value is None:
            return None
        taken = self.values.setdefault(key, [])
        encoded = bson.encode({"": value})
        if encoded in taken or len(taken) >= self.times(document):
            return None
        taken.append(encoded)
        stolen: dict[str, Any] = {"stolen": True}
        for path in (*self.copy, self.field):
            _put(stolen, path, _get(document, path))
        return stolen


def _get(document: dict[str, Any], path: str) -> Any:
    """The value at this path, or None."""
    for name in path.split("."):
        document = document.get(name, {})
    return document if document != {} else None


def _put(document: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        document = document.setdefault(name, {})
    document[last] = value


Hook = Callable[[Passed], bytes]


class Thief(Middleman):
    """Thread-safety: tests call from theirs; messages come and hooks run in the connections' threads."""

    def __init__(self, mongod: Mongod):
        self._client: pymongo.MongoClient = pymongo.MongoClient(mongod.uri, retryWrites=False)
        self.messages: list[Passed] = []
        self._thefts: dict[str, list[Theft]] = {}
        self._hook: Hook | None = None
        self._stealing = threading.Lock()
        super().__init__(f"127.0.0.1:{mongod.port}", script=self._pass)

    def steal(self, ns: str, field: str = "_id", times: Times = 1,
              copy: tuple[str, ...] = ()) -> Theft:
        """From now on documents inserted into `ns` collide by their `field`.

        times: how often, for each document: a number, a function of the document, or a mapping
        from its key, the field k, where those not named do not collide. copy: paths whose values
        go into the stolen document as well, as compound and partial indexes need it.
        """
        def of(document: dict[str, Any]) -> int:
            if isinstance(times, int):
                return times
            return times(document) if callable(times) else times.get(document.get("k"), 0)
        theft = Theft(field, of, copy)
        self._thefts.setdefault(ns, []).append(theft)
        return theft

    @contextmanager
    def hook(self, hook: Hook) -> Iterator[None]:
        """Meanwhile hook is asked what to pass on in place of each message, after the theft.

        It returns the bytes (of the message, as a rule), and may do what a script may.
        """
        self._hook = hook
        try:
            yield
        finally:
            self._hook = None

    def inserts(self, ns: str) -> list[Passed]:
        """The inserts into `ns` that reached the server, in order."""
        return [m for m in list(self.messages) if m.ns == ns]

    def replies(self, ns: str) -> list[Passed]:
        """The server's replies to them, in order."""
        asked = {(m.connection, m.request_id) for m in self.inserts(ns)}
        return [m for m in list(self.messages)
                if m.direction == "to_client" and (m.connection, m.response_to) in asked]

    def forget(self) -> None:
        """Frees the messages kept so far and ends all thefts."""
        self.messages.clear()
        self._thefts.clear()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._client.close()

    def _pass(self, connection: Connection, direction: Direction, raw: bytes) -> bytes:
        message = Passed(raw, direction, connection.number, time.monotonic())
        if thefts := self._thefts.get(message.ns):
            with self._stealing:
                self._rob(message, thefts)
        self.messages.append(message)
        return self._hook(message) if self._hook else raw

    def _rob(self, message: Passed, thefts: list[Theft]) -> None:
        db, _, name = message.ns.partition(".")
        collection = self._client[db][name]
        for theft in thefts:
            loot = [theft.loot(d, d.get("k")) for d in message.documents]
            documents = [d for d in loot if d]
            if not documents:
                continue
            try:
                collection.insert_many(documents, ordered=False, bypass_document_validation=True)
            except BulkWriteError as failure:
                # Somebody has that very value already, then the document collides anyway.
                for error in failure.details["writeErrors"]:
                    value = _get(documents[error["index"]], theft.field)
                    if not collection.count_documents({theft.field: value}, limit=1):
                        raise


class Hold:
    """A hook that holds the first message of which `which` says so until release()."""

    def __init__(self, which: Callable[[Passed], bool]):
        self._which = which
        self._held, self._released = threading.Event(), threading.Event()

    def __call__(self, message: Passed) -> bytes:
        if not self._held.is_set() and self._which(message):
            self._held.set()
            assert self._released.wait(60), "nobody releases the message"
        return message.raw

    def await_held(self) -> None:
        assert self._held.wait(20), "the message to be held does not come"

    def release(self) -> None:
        self._released.set()


@contextmanager
def holding(thief: Thief, command: str) -> Iterator[Hold]:
    """The next command of this name gets to the server when it is released, and at the end."""
    hold = Hold(lambda message: message.direction == "to_server" and message.command == command)
    with thief.hook(hold):
        try:
            yield hold
        finally:
            hold.release()


# Inserts through a proxy behind which a thief sits.


def session(number: int = 1) -> dict[str, Any]:
    """The fields of a retryable write in a session of its own."""
    return {"lsid": {"id": bson.Binary(os.urandom(16), 4)}, "txnNumber": bson.Int64(number)}


def insert_message(ns: str, documents: list[Any], ordered: bool = True, form: str = "sequence",
                   more: Mapping[str, Any] | list[Element] = {}, **options: Any) -> bytes:
    """form: sequence, sequence_first or body, where the documents stand; more: further fields."""
    db, _, name = ns.partition(".")
    extra = more if isinstance(more, list) else elements(bson.encode(more))
    head = [el.string("insert", name), el.boolean("ordered", ordered), *extra,
            el.string("$db", db)]
    raw = [wire.encode(d) for d in documents]
    if form == "body":
        head.insert(1, el.array("documents", raw))
        return wire.command(el.document(*head), **options)
    sections = [wire.body(el.document(*head)), wire.sequence("documents", raw)]
    if form == "sequence_first":
        sections.reverse()
    return wire.op_msg(*sections, **options)


@dataclass
class Robbed:
    """A proxy, the server behind it, and the thief between them. compressor: in which its clients
    send their messages, if it is any."""

    server: Mongod
    thief: Thief
    proxy: Proxy
    compressor: str | None = None

    def call(self, message: bytes, timeout: float = 30.0) -> wire.Message:
        """Sends a message over a connection of its own; the one reply, answering that message."""
        with wire.client(self.proxy.address, self.compressor, timeout) as client:
            client.send(message)
            reply = client.receive()
            assert reply.response_to == struct.unpack_from("<i", message, 4)[0]
            client.send(wire.command({"ping": 1, "$db": "admin"}, request_id=-7))
            assert client.receive().response_to == -7, "one reply, and the connection in step"
            return reply

    def insert(self, ns: str, documents: list[Any], **options: Any) -> dict[str, Any]:
        """The body of the reply."""
        return self.call(insert_message(ns, documents, **options)).body

    def collection(self, ns: str, **options: Any) -> Any:
        """Past proxy and thief."""
        db, _, name = ns.partition(".")
        return self.server.client[db].get_collection(name, **options)

    def stored(self, ns: str) -> list[dict[str, Any]]:
        """The documents of the test, by their keys; not those of the thief."""
        return list(self.collection(ns).find({"stolen": {"$exists": False}}).sort("k"))

    def stored_raw(self, ns: str) -> list[bytes]:
        options = CodecOptions(document_class=RawBSONDocument)
        found = self.collection(ns, codec_options=options).find({"stolen": {"$exists": False}})
        return [bytes(d.raw) for d in found.sort("k")]

    def sent_keys(self, ns: str) -> list[list[Any]]:
        """The keys of the documents in each insert that reached the server."""
        return [[d.get("k") for d in m.documents] for m in self.thief.inserts(ns)]

    def stopped(self) -> dict[str, Any]:
        """Ends the proxy; its last event, with the counters."""
        self.proxy.stop()
        return self.proxy.wait_event("stopped")


@contextmanager
def robbing(mongod: Mongod, rules: list[dict[str, Any]],
            store: Mongod | None = None) -> Iterator[Robbed]:
    """A proxy of these rules, the thief and mongod. store: who is asked about the collections in
    place of mongod."""
    with Thief(mongod) as thief, Proxy(configuration(thief, rules, store or mongod)) as proxy:
        proxy.await_server()
        yield Robbed(mongod, thief, proxy)


def fresh(robbed: Robbed, db: str, coll: str, *unique: str) -> str:
    """The name of a collection with a unique index on each of these fields, for each document
    that has the field."""
    ns = f"{db}.{coll}"
    for name in unique:
        robbed.collection(ns).create_index(
            name, unique=True, partialFilterExpression={name: {"$exists": True}})
    return ns


@contextmanager
def slow_replies(thief: Thief, server: Mongod, concerns: Callable[[Passed], bool],
                 seconds: float) -> Iterator[None]:
    """Each reply to what it concerns takes this long; mongod itself does not mind the time."""
    asked: set[int] = set()

    def hook(message: Passed) -> bytes:
        if concerns(message):
            asked.add(message.request_id)
        elif message.direction == "to_client" and message.response_to in asked:
            time.sleep(seconds)
        return message.raw

    def never_time_out(mode: str) -> None:
        server.client.admin.command("configureFailPoint", "maxTimeNeverTimeOut", mode=mode)

    never_time_out("alwaysOn")
    try:
        with thief.hook(hook):
            yield
    finally:
        never_time_out("off")
