"""Who ever had which value: not what is stored in the end, but all that was ever stored."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import bson
import pymongo
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

_END = "the end of the audit"


class Audit:
    """Follows the inserts into some collections of one database from construction until end().

    Each document has a key k of its own; `field` is what the proxy fills. A value that was given to
    two keys at any time is a violation, whether or not it was deleted in between, and also if the
    two stand in different collections. With `scope`, the name of another field, each value of that
    field has values of its own. Thread-safety: told() from any thread; the rest of the methods by
    the one who made it.
    """

    def __init__(self, uri: str, db: str, collections: Iterable[str], field: str,
                 scope: str | None = None):
        self._client: pymongo.MongoClient = pymongo.MongoClient(uri)
        self._db = self._client.get_database(
            db, write_concern=WriteConcern("majority"), read_concern=ReadConcern("majority"))
        self._field = field
        self._scope = scope
        self._names = list(collections)
        self._lock = threading.Lock()
        self._keys: dict[bytes, set[Any]] = defaultdict(set)  # by value, encoded
        self._failure: BaseException | None = None
        stream = self._watch(None)
        self._thread = threading.Thread(target=self._follow, args=(stream,), daemon=True)
        self._thread.start()

    def _watch(self, token: Any) -> Any:
        """All changes from now on, or those after this one."""
        return self._db.watch(
            [{"$match": {"operationType": "insert", "ns.coll": {"$in": self._names}}}],
            max_await_time_ms=200, resume_after=token)

    def _follow(self, stream: Any) -> None:
        try:
            token = stream.resume_token
            for left in reversed(range(20)):
                # PyMongo resumes a stream once; an election may take longer.
                try:
                    with stream or self._watch(token) as stream:
                        try:
                            return self._read(stream)
                        finally:
                            token = stream.resume_token
                except PyMongoError:
                    if not token or not left:
                        raise
                    stream = None
                    time.sleep(0.5)
        except BaseException as failure:
            self._failure = failure

    def _read(self, stream: Any) -> None:
        for change in stream:
            document = change["fullDocument"]
            if document.get("k") == _END:
                return
            if self._field in document:
                value = document[self._field]
                scoped = [document[self._scope], value] if self._scope else value
                self.told(scoped, document["k"])

    def told(self, value: Any, key: Any) -> None:
        """This value was given to this key, as somebody else knows."""
        with self._lock:
            self._keys[bson.encode({"": value})].add(key)

    def end(self) -> None:
        """Returns when all inserts until now have been seen."""
        self._db[self._names[0]].insert_one({"k": _END, self._field: _END})
        self._thread.join(60)
        assert not self._thread.is_alive(), "the change stream does not reach its end"
        self._client.close()
        if self._failure:
            raise self._failure

    @property
    def values(self) -> list[Any]:
        """Every value that was ever given to somebody, ascending; with a scope [its value, the
        value] each."""
        with self._lock:
            return sorted(bson.decode(each)[""] for each in self._keys)

    def violations(self) -> list[str]:
        with self._lock:
            return [f"{bson.decode(value)['']} went to {sorted(keys)}"
                    for value, keys in self._keys.items() if len(keys) > 1]
