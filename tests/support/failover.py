"""Drivers that write while primaries step down and die.

Table    a collection that is written to, and the book of what was told of each document
Writers  threads with a driver each way, for as long as the context lasts
Told     what proxies said that they assigned
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import bson
import pymongo
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError
from pymongo.monitoring import CommandListener
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from . import elements as el
from .chaos import Ledger
from .elements import Element
from .replica_set import Member, ReplicaSet
from .secrets import CANARY
from .threads import Threads

Collection = pymongo.collection.Collection


# What is written.

def _insert_one(collection: Collection, documents: list[Any]) -> None:
    collection.insert_one(documents[0])


def _ordered(collection: Collection, documents: list[Any]) -> None:
    collection.insert_many(documents)


def _unordered(collection: Collection, documents: list[Any]) -> None:
    collection.insert_many(documents, ordered=False)


def _transaction(collection: Collection, documents: list[Any]) -> None:
    def both(session: pymongo.client_session.ClientSession) -> None:
        collection.insert_one(documents[0], session=session)
        collection.insert_many(documents[1:], session=session)

    with collection.database.client.start_session() as session:
        session.with_transaction(both, write_concern=WriteConcern("majority"))


STEPPING_DOWN = {"ConfigurationError", *(
    f"{error} {code}"
    for error in ("NotPrimaryError", "WriteConcernError", "WriteError", "BulkWriteError")
    for code in (189, 10107, 11602))}
"""What PyMongo 4.20 lets its application see of step-downs without a proxy too.

Its one repetition meets the primary that is still stepping down: 23 times in 100 step-downs and
23,000 operations. And a connection that is made to a server which has just been elected, and does
not take writes yet, is one without sessions for as long as it lives: no transactions there, and no
retryable writes; seen 24 times in 30 step-downs, with the old primary's connections reset before.
"""

LOST_TOO = STEPPING_DOWN | {"AutoReconnect"}
"""The same where connections are lost at that moment: the repetition falls to such a connection.
Without a proxy seen 10 times in 80 step-downs, with the old primary's connections reset before."""

NO_KEYS = "OperationFailure 211"
"""KeyNotFound, of members with a key file: one that has just come back cannot check the signature of
the $clusterTime that drivers tell it, until it has read the set's keys. Seen on a busy machine."""

OPERATIONS: dict[str, tuple[Callable[[Collection, list[Any]], None], int]] = {
    "insert_one": (_insert_one, 1), "ordered": (_ordered, 5), "unordered": (_unordered, 8),
    "transaction": (_transaction, 3), "bulk": (_unordered, 200)}
"""What a driver is asked to do, and with how many documents."""

FEW = ("insert_one", "ordered", "unordered", "transaction")


@dataclass
class Table:
    """A collection that any number of writers fill.

    assigned: the field that the proxy fills, or the writers themselves if there is none (own).
    driver_id: the driver makes an _id, as it does when nobody keeps it from that.
    """

    ns: str
    assigned: str
    shape: Callable[[Element], None] | None = None
    operations: tuple[str, ...] = FEW
    own: bool = False
    driver_id: bool = False
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.db, _, self.name = self.ns.partition(".")
        self.ledger = Ledger(self.assigned, self.shape)

    def prepare(self, client: pymongo.MongoClient, taken: Iterable[int] = ()) -> None:
        """Makes its indexes, and stores documents with the values that are taken from the start.
        The id store does not look up what is free through a hidden index: values are to collide.
        The one with u: -1 is there for others to collide with."""
        collection = client[self.db][self.name]
        collection.create_index("k")
        collection.create_index("u", unique=True, sparse=True)
        collection.insert_one({"u": -1, "k": "taken"})
        if self.assigned != "_id":
            collection.create_index(self.assigned, unique=True, sparse=True, hidden=True)
            documents = [{self.assigned: bson.Int64(i)} for i in taken]
            if documents:
                collection.insert_many(documents, ordered=False)

    def document(self, k: int, text: str, refused: bool) -> Any:
        """One to be sent, after it was written down. refused: by a unique index of the
        application's own."""
        kept = self.kept(k, text, refused)
        self.ledger.add(k, el.document(*kept))
        if self.driver_id:
            return bson.decode(el.document(*kept))
        if self.own:
            value = el.int64(self.assigned, k)
            kept = [value, *kept] if self.assigned == "_id" else [*kept, value]
        return RawBSONDocument(el.document(*kept))  # so that PyMongo adds no _id

    def kept(self, k: int, text: str, refused: bool) -> list[bytes | Element]:
        """What is sent of it, and must be stored as it is."""
        return [el.int32("k", k), el.string("text", text), el.int32("u" if refused else "v", -1)]

    def stored(self, client: pymongo.MongoClient) -> list[bytes]:
        """The writers' documents, from the primary with majority."""
        collection = client[self.db].get_collection(
            self.name, read_concern=ReadConcern("majority"),
            codec_options=CodecOptions(document_class=RawBSONDocument))
        return [bytes(d.raw) for d in collection.find({"k": {"$type": "int"}})]

    def violations(self, client: pymongo.MongoClient) -> list[str]:
        return [f"{self.ns}: {each}" for each in self.ledger.violations(self.stored(client))]


class Told(CommandListener):
    """What replies to inserts said that was assigned (`report: true`).

    Thread-safety: drivers call from any thread; a test reads when they are done.
    """

    def __init__(self) -> None:
        self._sent: dict[int, tuple[str, list[Any]]] = {}
        self._lock = threading.Lock()
        self.values: dict[tuple[str, int], list[Any]] = defaultdict(list)  # by collection and k

    def started(self, event: Any) -> None:
        if event.command_name == "insert":
            ns = f"{event.database_name}.{event.command['insert']}"
            keys = [d["k"] for d in event.command["documents"]]
            with self._lock:
                self._sent[event.request_id] = ns, keys

    def succeeded(self, event: Any) -> None:
        if event.command_name == "insert":
            with self._lock:
                ns, keys = self._sent.pop(event.request_id)
                for each in event.reply.get("idproxy", {}).get("assigned", []):
                    self.values[ns, keys[each["index"]]].append(each["value"])

    def failed(self, event: Any) -> None:
        with self._lock:
            self._sent.pop(event.request_id, None)

    def violations(self, table: Table, client: pymongo.MongoClient) -> list[str]:
        """Documents with another value than the one that was told of them, if one was."""
        found = []
        for raw in table.stored(client):
            document = bson.decode(raw)
            told = self.values.get((table.ns, document["k"]), [])
            if told and document[table.assigned] not in told:
                found.append(f"{table.ns}, k={document['k']}: told {told}, "
                             f"stored {document[table.assigned]}")
        return found


# Who writes it.

@dataclass
class Writer:
    """One thread's place. way: how its client reaches the servers, for what is counted."""

    way: str
    client: pymongo.MongoClient
    table: Table


class Writers(Threads):
    """Threads that insert for as long as the context lasts, and read back what was acknowledged.

    Each puts down in its table's ledger what the driver said of each document. Errors other than
    the duplicates that were planted are counted by way, operation and error; they end nothing.
    Thread-safety: errors, done and failures are read once the context is over.
    """

    KEYS = 10_000_000  # for each writer
    PAUSE = 0.02  # seconds, for the servers' sake: what is tested is not how much they can bear

    def __init__(self, writers: list[Writer], seed: str = ""):
        self.errors: Counter[tuple[str, str, str]] = Counter()
        self.done: Counter[tuple[str, str]] = Counter()  # by way and operation
        self._writers = writers
        self._changed = threading.Condition()
        self._round = 0
        self._since: Counter[int] = Counter()  # operations begun and done in this round, by writer
        super().__init__(*(partial(self._work, n, each, random.Random(f"{seed}/{n}"))
                           for n, each in enumerate(writers)), timeout=120)

    def await_progress(self, operations: int = 2, timeout: float = 90) -> None:
        """Until each writer has begun and done so many operations from now on."""
        with self._changed:
            self._round += 1
            self._since.clear()
            going = self._changed.wait_for(
                lambda: self.failures or all(self._since[n] >= operations
                                             for n in range(len(self._writers))), timeout)
            stuck = [f"{w.way} {w.table.ns}" for n, w in enumerate(self._writers)
                     if self._since[n] < operations]
        assert not self.failures, self.failures[:3]
        assert going, f"no progress of {stuck}; errors so far: {self.errors}"

    def errors_of(self, way: str) -> Counter[tuple[str, str]]:
        """By operation and error."""
        return Counter({key[1:]: count for key, count in self.errors.items() if key[0] == way})

    def failed(self, failure: BaseException | str) -> None:
        with self._changed:
            super().failed(failure)
            self._changed.notify_all()

    # The writers' threads.

    def _work(self, number: int, writer: Writer, chance: random.Random) -> None:
        first = number * self.KEYS
        while not self.over.is_set():
            for operation in writer.table.operations:
                with self._changed:
                    began = self._round
                first += self._write(writer, operation, first, chance)
                with self._changed:
                    self._since[number] += began == self._round
                    self._changed.notify_all()
                if self.over.wait(self.PAUSE):
                    return
            self._read_back(writer, chance.randrange(number * self.KEYS, first))

    def _write(self, writer: Writer, operation: str, first: int, chance: random.Random) -> int:
        """How many keys it used."""
        insert, count = OPERATIONS[operation]
        keys = range(first, first + count)
        # One of eight has a document that the server refuses.
        refused = chance.randrange(count * 8)
        documents = [writer.table.document(k, CANARY + "x" * chance.randrange(30), i == refused)
                     for i, k in enumerate(keys)]
        collection = writer.client[writer.table.db][writer.table.name]
        ledger = writer.table.ledger
        try:
            insert(collection, documents)
            outcomes = dict.fromkeys(keys, "ok")
        except PyMongoError as error:
            outcomes = _refused(error, operation, keys)
            if not outcomes:
                self._error(writer, operation, error)
                return count
        for k, outcome in outcomes.items():
            ledger.sent[k].outcome = outcome
        with self._changed:
            self.done[writer.way, operation] += 1
        return count

    def _read_back(self, writer: Writer, k: int) -> None:
        if writer.table.ledger.sent[k].outcome != "ok":
            return
        collection = writer.client[writer.table.db][writer.table.name]
        try:
            if collection.find_one({"k": k}) is None:
                self.failed(f"{writer.way} {writer.table.ns}, k={k}: ok, but not there")
            behind = collection.with_options(read_preference=ReadPreference.SECONDARY_PREFERRED)
            behind.find_one({"k": k})
            with self._changed:
                self.done[writer.way, "find"] += 1
        except PyMongoError as error:
            self._error(writer, "find", error)

    def _error(self, writer: Writer, operation: str, error: PyMongoError) -> None:
        with self._changed:
            self.errors[writer.way, operation, _kind(error)] += 1


def _planted(error: dict[str, Any]) -> bool:
    return error.get("code") == 11000 and error.get("keyPattern") == {"u": 1}


def _refused(error: PyMongoError, operation: str, keys: range) -> dict[int, str]:
    """What became of each document, if the error is just the duplicate that was planted."""
    if not isinstance(error, (BulkWriteError, DuplicateKeyError)):
        return {}
    details = error.details or {}
    errors = details.get("writeErrors", [details])
    if details.get("writeConcernErrors") or not all(_planted(e) for e in errors):
        return {}
    if operation in ("insert_one", "transaction"):
        return dict.fromkeys(keys, "refused")
    (index,) = (e["index"] for e in errors)
    stored = index if operation == "ordered" else len(keys) - 1
    assert details["nInserted"] == stored, details
    return {k: "refused" if i == index or operation == "ordered" and i > index else "ok"
            for i, k in enumerate(keys)}


def _kind(error: PyMongoError) -> str:
    """Its class and code; of an insert_many, those of all that was not planted. An application knows
    PyMongo's public classes only."""
    name = next(c.__name__ for c in type(error).__mro__ if not c.__name__.startswith("_"))
    if isinstance(error, BulkWriteError):
        parts = [e for kind in ("writeErrors", "writeConcernErrors")
                 for e in error.details.get(kind, [])]
        return " ".join([name, *sorted({str(e["code"]) for e in parts if not _planted(e)})])
    code = (getattr(error, "details", None) or {}).get("code")
    return name if code is None else f"{name} {code}"


# What happens to the servers.

def hand_over(three: ReplicaSet, chance: random.Random) -> None:
    """Another one takes its place."""
    three.step_up(chance.choice(three.secondaries))


def kill(three: ReplicaSet) -> Member:
    """As kill -9 does to the primary, which is returned."""
    primary = three.primary
    # A checkpoint: what came since the last one is done again before it is back.
    primary.client.admin.command("fsync")
    primary.kill()
    return primary
