"""Who writes during a soak, and what each was told."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import bson
import pymongo
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import ReturnDocument
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from program import Program
from support import elements as el
from support.chaos import Ledger
from support.failover import Writers
from support.increments import Increments

from tables import DB, SoakTable

MAJORITY = WriteConcern("majority")
RAW = CodecOptions(document_class=RawBSONDocument)
FIRST = 10_000_000  # of the keys of the workers behind a proxy, times its number and 1


class Inserters(Writers):
    """Insert into tables for as long as the context lasts, and delete some of what they inserted.

    Nobody reads back what may be deleted.
    """

    FORGOTTEN = 3  # k modulo 7

    def _read_back(self, writer: Any, k: int) -> None:
        if writer.table.goes_away:
            return None
        if not writer.table.forgets or k % 7 != self.FORGOTTEN:
            return super()._read_back(writer, k)
        sent = writer.table.ledger.sent[k]
        if sent.outcome != "ok":
            return None
        sent.outcome = "unknown"
        try:
            writer.client[writer.table.db][writer.table.name].delete_one({"k": k})
            sent.outcome = "refused"  # it must not be there
            with self._changed:
                self.done[writer.way, "delete"] += 1
        except PyMongoError as error:
            self._error(writer, "delete", error)
        return None


class Worker:
    """Repeats step() until over. What an application would see as an error is counted, and ends nothing."""

    def __init__(self, name: str):
        self.name = name
        self.done = 0
        self.errors: Counter[str] = Counter()

    def work(self, over: threading.Event, pause: float = 0.02) -> None:
        while not over.wait(pause):
            try:
                self.step()
                self.done += 1
            except PyMongoError as error:
                self.errors[type(error).__name__] += 1

    def step(self) -> None:
        raise NotImplementedError

    def violations(self, direct: pymongo.MongoClient) -> list[str]:
        """What is wrong with what is stored, as a majority has it."""
        raise NotImplementedError


def held(direct: pymongo.MongoClient, name: str) -> pymongo.collection.Collection:
    return direct[DB].get_collection(name, read_concern=ReadConcern("majority"))


DRAFTS_RULE = {"ns": f"{DB}.drafts", "field": "n", "strategy": "gapless", "when": {"status": "published"}}


class Abort(Exception):
    pass


class Publisher(Worker):
    """Writes drafts, and publishes them in transactions, of which some are aborted."""

    def __init__(self, client: pymongo.MongoClient, first: int, chance: random.Random):
        super().__init__("drafts")
        self._client, self._k, self._chance = client, first, chance
        self.status: dict[int, str] = {}  # of what is certain: draft, published
        self.tried: set[int] = set()      # everything that was sent

    def step(self) -> None:
        articles = self._client[DB].drafts
        self._k += 1
        k = self._k
        self.tried.add(k)
        if self._chance.random() < 0.2:
            articles.insert_one({"k": k, "status": "published"})
            self.status[k] = "published"
            return
        articles.insert_one({"k": k, "status": "draft"})
        self.status[k] = "draft"
        if self._chance.random() < 0.2:
            return
        aborts = self._chance.random() < 0.25

        def publish(session: pymongo.client_session.ClientSession) -> None:
            articles.update_one({"k": k}, {"$set": {"status": "published"}}, session=session)
            self._client.admin.command({"idproxy": "assign", "ns": f"{DB}.drafts", "field": "n",
                                        "filter": {"k": k}}, session=session)
            if aborts:
                raise Abort

        del self.status[k]
        try:
            with self._client.start_session() as session:
                session.with_transaction(publish, write_concern=MAJORITY)
            self.status[k] = "published"
        except Abort:
            self.status[k] = "draft"


def drafts_violations(publishers: Iterable[Publisher], stored: Iterable[dict[str, Any]]) -> list[str]:
    """Who is published has a number, who is a draft has none, and the numbers have no gap."""
    certain = {k: status for each in publishers for k, status in each.status.items()}
    tried = set().union(*(each.tried for each in publishers))
    wrong, found, values = [], set(), []
    for each in stored:
        k, status = each["k"], each["status"]
        if k in found or k not in tried:
            wrong.append(f"k={k}: stored twice, or nobody's")
        found.add(k)
        if certain.get(k, status) != status:
            wrong.append(f"k={k}: {status} in place of {certain[k]}")
        if (status == "published") != ("n" in each):
            wrong.append(f"k={k}: {status}, n={each.get('n')}")
        if "n" in each:
            values.append(each["n"])
    wrong += [f"k={k}: {status}, missing" for k, status in certain.items() if k not in found]
    return wrong + gaps_in(values)


def gaps_in(values: Iterable[int]) -> list[str]:
    """The first hole, and the first value that is there twice."""
    for place, value in enumerate(sorted(values), 1):
        if value != place:
            return [f"{value} stands where {place} should"]
    return []


KEPT_RULE = {"ns": f"{DB}.kept", "field": "n", "strategy": "counter", "block": {"size": 20}}


class Saver(Worker):
    """Saves some documents again and again, whole, as ODMs do, without the number."""

    KEYS = 40

    def __init__(self, client: pymongo.MongoClient, name: str, chance: random.Random):
        super().__init__("kept")
        self._kept = client[DB].get_collection("kept", read_concern=ReadConcern("majority"))
        self._name, self._chance = name, chance
        self._sent = 0
        self.acknowledged: dict[str, int] = {}
        self.unknown: dict[str, set[int]] = defaultdict(set)
        self.number: dict[str, int] = {}

    def step(self) -> None:
        key = f"{self._name}/{self._chance.randrange(self.KEYS)}"
        self._sent += 1
        self.unknown[key].add(self._sent)
        self._kept.replace_one({"_id": key}, {"seq": self._sent, "text": "x" * 20}, upsert=True)
        self.unknown[key].discard(self._sent)
        self.acknowledged[key] = self._sent
        if key not in self.number:
            # By a write of its own: whoever reads from a primary that was replaced reads what was.
            read = self._kept.find_one_and_update({"_id": key}, {"$set": {"read": True}})
            self.number[key] = read["n"]


def kept_violations(savers: Iterable[Saver], stored: Iterable[dict[str, Any]]) -> list[str]:
    """Each document is as it was saved last, or as nobody knows, with the number that it had at first."""
    unknown = {key: some for each in savers for key, some in each.unknown.items()}
    acknowledged = {key: seq for each in savers for key, seq in each.acknowledged.items()}
    number = {key: n for each in savers for key, n in each.number.items()}
    wrong, owner = [], {}
    found = {each["_id"]: each for each in stored}
    for key, each in found.items():
        n = each.get("n")
        if n is None:
            wrong.append(f"{key}: without a number")
        elif owner.setdefault(n, key) != key:
            wrong.append(f"{key}: has the number of {owner[n]}")
        if number.get(key, n) != n:
            wrong.append(f"{key}: {n} in place of {number[key]}")
        if each["seq"] not in {acknowledged.get(key), *unknown.get(key, ())}:
            wrong.append(f"{key}: change {each['seq']} in place of {acknowledged.get(key)}")
    return wrong + [f"{key}: acknowledged, missing" for key in acknowledged if key not in found]


UPSERTS_RULE = {"ns": f"{DB}.upserts", "field": "number", "strategy": "counter", "block": {"size": 20}}


class Upserter(Worker):
    """Adds 1 to documents that may not be there yet, by update and by findAndModify."""

    def __init__(self, client: pymongo.MongoClient, first: int, chance: random.Random):
        super().__init__("upserts")
        self._collection = client[DB].upserts
        self._first, self._chance = first, chance
        self._steps = 0
        self.book = Increments()

    def step(self) -> None:
        self._steps += 1
        k = self._first + self._chance.randrange(self._steps // 4 + 5)
        self.book.unknown[k] += 1
        if self._chance.random() < 0.5:
            result = self._collection.update_one({"k": k}, {"$inc": {"n": 1}}, upsert=True)
            if result.upserted_id is not None:
                self.book.inserted(k, {})
        else:
            after = self._collection.find_one_and_update(
                {"k": k}, {"$inc": {"n": 1}}, upsert=True, return_document=ReturnDocument.AFTER)
            self.book.reported[k].append({"n": after["n"], "number": after["number"]})
        self.book.unknown[k] -= 1
        self.book.acknowledged[k] += 1


def upserts_violations(upserters: Iterable[Upserter], stored: Iterable[dict[str, Any]]) -> list[str]:
    documents = list(stored)
    wrong: list[str] = []
    claimed = set()
    for each in upserters:
        own = [one for one in documents if one["k"] // FIRST == each._first // FIRST]
        claimed.update(one["k"] for one in own)
        wrong += each.book.violations(own, "number", lambda n: isinstance(n, int))
    numbers = Counter(each.get("number") for each in documents)
    return wrong + [f"{n} is stored {count} times" for n, count in numbers.items() if count > 1]



class Foreign(Worker):
    """A driver of another language, whose program inserts batches and says what it heard of each."""

    BATCHES, SIZE = 40, 25

    def __init__(self, name: str, driver: Program, uri: Callable[[], str], own: bool):
        super().__init__(name)
        self._driver, self._uri, self._own = driver, uri, own
        self._first = 0
        self.table = f"of_{name}"
        self.ledger = Ledger("n")

    def rule(self) -> dict[str, Any]:
        return {"ns": f"{DB}.{self.table}", "field": "n", "strategy": "counter", "block": {"size": 50}}

    def step(self) -> None:
        first, count = self._first, self.BATCHES
        self._first += count
        for k in range(first * self.SIZE, (first + count) * self.SIZE):
            self.ledger.add(k, el.document(el.int32("k", k), el.string("text", f"text {k}")))
        outcomes = self._driver("batches", uri=self._uri(), db=DB, coll=self.table, first=first, count=count,
                                size=self.SIZE, own=self._own)["outcomes"]
        for k in range(first * self.SIZE, (first + count) * self.SIZE):
            self.ledger.sent[k].outcome = outcomes[k // self.SIZE - first]


class Stranger(Worker):
    """May read and write nothing, and tries to insert where a rule gives values."""

    def __init__(self, client: pymongo.MongoClient):
        super().__init__("stranger")
        self._collection = client[DB].forbidden

    def step(self) -> None:
        self._collection.insert_many([{"k": i} for i in range(3)])


FORBIDDEN_RULE = {"ns": f"{DB}.forbidden", "field": "n", "strategy": "counter", "unique_index": "create"}


class Audit:
    """Follows everything that is ever stored in the database, until end(): who ever had which value.

    Thread-safety: the rest of the methods are for the one who made it.
    """

    END = "the end of the audit"

    def __init__(self, uri: str, fields: dict[str, tuple[str, str | None]]):
        """fields: of each collection, the field with the value and that of its scope."""
        self._client: pymongo.MongoClient = pymongo.MongoClient(uri)
        self._db = self._client.get_database(DB, write_concern=MAJORITY, read_concern=ReadConcern("majority"))
        self._fields = fields
        self.keys: dict[str, dict[bytes, Any]] = defaultdict(dict)  # by collection and value, encoded
        self.violations: list[str] = []
        self._failure: BaseException | None = None
        self._db.create_collection("audit")
        self._stream = self._watch(None)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _watch(self, token: Any) -> Any:
        return self._db.watch([{"$match": {"operationType": {"$in": ["insert", "replace", "update"]}}}],
                              full_document="default", max_await_time_ms=500, resume_after=token)

    def _follow(self) -> None:
        token, stream = self._stream.resume_token, self._stream
        patience = time.monotonic() + 90
        while True:
            try:
                with stream:
                    for change in stream:
                        token, patience = stream.resume_token, time.monotonic() + 90
                        if not self._note(change):
                            return
            except PyMongoError as error:
                if time.monotonic() > patience:
                    self._failure = error
                    return
            time.sleep(0.5)
            try:
                stream = self._watch(token)
            except PyMongoError:
                pass  # the old one raises again

    def _note(self, change: dict[str, Any]) -> bool:
        name = change["ns"]["coll"]
        if name == "audit":
            return False
        if name not in self._fields:
            return True
        field, scope = self._fields[name]
        document = change.get("fullDocument") or change["updateDescription"]["updatedFields"]
        if field in document:
            key = document.get("k", change["documentKey"]["_id"]) if field == "_id" else change["documentKey"]["_id"]
            self.saw(name, [document.get(scope) if scope else None, document[field]], key)
        return True

    def saw(self, name: str, value: list[Any], key: Any) -> None:
        """This value was stored with this key: the document's `_id`, or its `k` if the value is that."""
        had = self.keys[name].setdefault(bson.encode({"": value}), key)
        if had != key:
            self.violations.append(f"{name}: {value[1]} went to {had} and to {key}")

    def end(self) -> None:
        """Returns when everything until now has been seen."""
        self._db.audit.insert_one({"over": True})
        self._thread.join(300)
        assert not self._thread.is_alive(), "the change stream does not reach its end"
        self._client.close()
        if self._failure:
            raise self._failure
