"""One step for each line of the standard input, all with one client of PyMongo: see ../program.py.

    python driver.py '{"task": "steps", "uri": ..., "db": ...}'
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymongo
from bson import json_util
from pymongo import monitoring
from pymongo.errors import ClientBulkWriteException, DuplicateKeyError, PyMongoError

Step = dict[str, Any]


class Addresses(monitoring.TopologyListener):
    """Of all servers that the driver has heard of."""

    def __init__(self) -> None:
        self.ever: set[str] = set()

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        self.ever |= {text(each) for each in event.new_description.server_descriptions()}

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None:
        pass

    def closed(self, event: monitoring.TopologyClosedEvent) -> None:
        pass


def text(address: tuple[str, int | None]) -> str:
    return f"{address[0]}:{address[1]}"


def new_documents(first: int, count: int) -> list[dict[str, Any]]:
    return [{"k": k, "text": f"text {k}"} for k in range(first, first + count)]


class Steps:
    def __init__(self, uri: str, db: str):
        self._addresses = Addresses()
        self._client: pymongo.MongoClient = pymongo.MongoClient(
            uri, event_listeners=[self._addresses])
        self._db = self._client[db]

    def insert(self, step: Step) -> Step:
        documents = new_documents(step["first"], step["count"])
        return {"inserted": len(self._db[step["coll"]].insert_many(documents).inserted_ids)}

    def everyday(self, step: Step) -> Step:
        """Of each upsert that is done twice, the second one finds what the first one stored."""
        collection = self._db[step["coll"]]
        k = itertools.count(step["first"])
        collection.insert_one({"k": next(k), "text": "insert_one"})
        collection.insert_many([{"k": next(k), "text": "insert_many"} for _ in range(2)])
        for update in (collection.update_one, collection.update_many):
            key = {"k": next(k)}
            for _ in range(2):
                update(key, {"$set": {"text": update.__name__}}, upsert=True)
        collection.find_one_and_update(
            {"k": next(k)}, {"$set": {"text": "find_one_and_update"}}, upsert=True,
            return_document=pymongo.ReturnDocument.AFTER)
        collection.bulk_write([
            pymongo.InsertOne({"k": next(k), "text": "bulk_write"}),
            pymongo.UpdateOne({"k": next(k)}, {"$set": {"text": "bulk_write"}}, upsert=True)])
        replaced = next(k)
        collection.replace_one({"k": replaced}, {"k": replaced, "text": "replaced"}, upsert=True)
        return {"stored": next(k) - step["first"]}

    def find(self, step: Step) -> Step:
        collection = self._db[step["coll"]]
        if step["secondaryPreferred"]:
            collection = collection.with_options(
                read_preference=pymongo.ReadPreference.SECONDARY_PREFERRED)
        return {"found": [len(list(collection.find({"k": {"$exists": True}},
                                                   comment=step["comment"])))
                          for _ in range(step["times"])]}

    def life(self, step: Step) -> Step:
        """A document's life with every write that is retryable. n is 2 if none was done twice."""
        collection, key = self._db[step["coll"]], {"k": step["k"]}
        collection.insert_one(new_documents(step["k"], 1)[0])
        updated = collection.update_one(key, {"$inc": {"n": 1}})
        after = collection.find_one_and_update(
            key, {"$inc": {"n": 1}}, return_document=pymongo.ReturnDocument.AFTER)
        more = collection.insert_many([{"more": step["k"]} for _ in range(2)])
        deleted = collection.delete_one({"more": step["k"]})
        return {"modified": updated.modified_count, "n": after["n"],
                "inserted": len(more.inserted_ids), "deleted": deleted.deleted_count,
                "document": collection.find_one(key)}

    def upsert(self, step: Step) -> Step:
        collection, update = self._db[step["coll"]], {"$inc": {"n": 1}}
        filters = [{"k": k} for k in step["keys"]]
        if step["op"] == "findOneAndUpdate":
            return {"document": collection.find_one_and_update(
                filters[0], update, upsert=True, return_document=pymongo.ReturnDocument.AFTER)}
        if step["op"] == "bulkWrite":
            done = collection.bulk_write(
                [pymongo.UpdateOne(each, update, upsert=True) for each in filters],
                ordered=step["ordered"])
            return {"matched": done.matched_count,
                    "upserted": {str(i): each for i, each in done.upserted_ids.items()}}
        method = {"updateOne": collection.update_one, "updateMany": collection.update_many,
                  "replaceOne": collection.replace_one}[step["op"]]
        one = method(filters[0], step.get("replacement", update), upsert=True)
        inserted = one.upserted_id is not None
        return {"matched": one.matched_count, "upserted": {"0": one.upserted_id} if inserted else {}}

    def bulk(self, step: Step) -> Step:
        calls, namespaces, count = 0, step["namespaces"], step["count"]

        def run(session: pymongo.client_session.ClientSession | None = None) -> Any:
            nonlocal calls
            calls += 1
            models = [pymongo.InsertOne(document, namespaces[i % len(namespaces)])
                      for i, document in enumerate(new_documents(0, count))]
            upsert = pymongo.UpdateOne({"k": count}, {"$set": {"text": f"text {count}"}}, upsert=True,
                                       namespace=namespaces[0])
            try:
                return self._client.bulk_write([*models, upsert], ordered=step["ordered"],
                                               verbose_results=step["verbose"], session=session)
            except ClientBulkWriteException as failed:  # hides the labels from with_transaction
                raise failed.error or failed from None

        if step["transaction"]:
            with self._client.start_session() as session:
                done = session.with_transaction(run)
        else:
            done = run()
        results = len(done.insert_results) + len(done.update_results) if step["verbose"] else 0
        return {"inserted": done.inserted_count, "upserted": done.upserted_count,
                "results": results, "calls": calls}

    def transactions(self, step: Step) -> Step:
        """Runs count transactions; each inserts one document, a line in the log and size documents
        more, and adds to the sum. calls counts how often the callback was run."""
        calls, outcomes = 0, []
        size = step["size"] + 1

        def callback(session: pymongo.client_session.ClientSession) -> None:
            nonlocal calls
            calls += 1
            documents = new_documents(i * size, size)
            self._db[step["coll"]].insert_one(documents[0], session=session)
            self._db.log.insert_one({"_id": i}, session=session)
            self._db[step["coll"]].insert_many(documents[1:], session=session)
            self._db.sums.update_one({"_id": "sum"}, {"$inc": {"n": size}}, session=session)

        for i in range(step["count"]):
            try:
                with self._client.start_session() as session:
                    session.with_transaction(callback)
                outcomes.append("ok")
            except DuplicateKeyError:
                outcomes.append("duplicate")
        return {"calls": calls, "outcomes": outcomes}

    def watch(self, step: Step) -> None:
        self._stream = self._db[step["coll"]].watch()

    def events(self, step: Step) -> Step:
        return {"events": [self._stream.next()["fullDocument"] for _ in range(step["count"])]}

    def unwatch(self, step: Step) -> None:
        self._stream.close()

    def firsts(self, step: Step) -> Step:
        errors: list[str] = []

        def insert(name: str) -> float:
            since = time.monotonic()
            try:
                self._client[name][step["coll"]].insert_one({"k": 1})
            except PyMongoError as error:
                errors.append(str(error))
            return 1000 * (time.monotonic() - since)

        def sleep(_: int) -> None:
            self._client.admin.command("sleep", 1, millis=step["sleep"], lock="none")

        with ThreadPoolExecutor(step["tasks"]) as pool:
            list(pool.map(sleep, range(step["tasks"])))
            return {"milliseconds": list(pool.map(insert, step["dbs"])), "errors": errors}

    def topology(self, step: Step) -> Step:
        servers = self._client.topology_description.server_descriptions()
        return {"servers": {text(address): server.server_type_name
                            for address, server in servers.items()},
                "ever": sorted(self._addresses.ever)}


def codes(error: Exception) -> list[int]:
    details = getattr(error, "details", None) or {}
    each = [details, *details.get("writeErrors", []), *details.get("writeConcernErrors", [])]
    return [e["code"] for e in each if "code" in e]


def main() -> None:
    argument = json.loads(sys.argv[1])
    steps = Steps(argument["uri"], argument["db"])
    for line in sys.stdin:
        step = json.loads(line)
        try:
            result = getattr(steps, step["step"])(step) or {}
        except Exception as error:
            result = {"error": traceback.format_exc(), "codes": codes(error)}
        print(json_util.dumps(result), flush=True)


main()
