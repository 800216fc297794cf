"""The command bulkWrite of MongoDB 8.0: its inserts and upserts get values as those of other commands do.

The proxy stands before a server of 8.0 as far as this command goes (support/bulk_write_server.py), and
that before a thief and a real mongod. Every document has its key k, the index of its op.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import bson
import pymongo
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import ClientBulkWriteException, PyMongoError

from support import elements as el
from support import wire
from support.bulk_write_server import (
    FORMS, MAX_OBJECT, BulkWrite, BulkWriteServer, bulk_write, message)
from support.chaos import Chain, quiet
from support.elements import elements
from support.full import FULL
from support.increments import Increments
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.thief import Robbed, Thief, fresh, session
from support.upserts import is_generated
from support.values import DEFAULTS, Variant

pytestmark = pytest.mark.needs("retried_stmt_ids", "collection_uuid")

_DIGITS = {"strategy": "random-digits", "digits": 12, "leading_zeros": False}

# Databases name the rule, collections are fresh for each test.
RULES = [
    {"ns": "id.*", "field": "_id", **_DIGITS},
    {"ns": "made.*", "field": "made", **_DIGITS},
    {"ns": "two.*", "field": "a", **_DIGITS},
    {"ns": "two.*", "field": "b", **_DIGITS},
    {"ns": "dotted.*", "field": "reg.number", **_DIGITS},
    {"ns": "reported.*", "field": "made", "report": True, **_DIGITS},
    {"ns": "tx.*", "field": "made", "retry": {"attempts": 100}, **_DIGITS},
    {"ns": "counted.*", "field": "made", "strategy": "counter"},
    {"ns": "behind.*", "field": "made", "strategy": "counter", "heal": {"mode": "off"}},
    {"ns": "seq.*", "field": "made", "strategy": "gapless", "unique_index": "create"},
    {"ns": "when.*", "field": "made", "strategy": "counter", "when": {"status": "published"}},
    {"ns": "strictly.*", "field": "made", "strategy": "gapless", "unique_index": "create",
     "when": {"status": "published"}},
    *({"ns": f"made-{v.name}.*", "field": "made", **v.rule} for v in DEFAULTS),
]
COUNTS = ["nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"]
TRANSIENT = "TransientTransactionError"


@dataclass
class Place(Robbed):
    """numbered: the ops are retryable statements."""

    front: BulkWriteServer = field(kw_only=True)
    numbered: bool = False

    def write(self, ops: list[Any], *namespaces: str, form: str = "sequences",
              **more: Any) -> dict[str, Any]:
        """The body of the reply."""
        own = session() if self.numbered else {}
        return self.call(message(bulk_write(ops, *namespaces, **own, **more), form)).body

    def sends(self, ns: str) -> list[BulkWrite]:
        """The commands with this namespace that reached the server, in order."""
        return [each for each in self.front.received if ns in each.namespaces]


def place_of(mongod: Mongod, store: Mongod) -> Iterator[Place]:
    with (Thief(mongod) as thief, BulkWriteServer(mongod, thief) as front,
          Proxy(configuration(front, RULES, store)) as proxy):
        yield Place(mongod, thief, proxy, front=front)


@pytest.fixture(scope="module")
def bulk_standalone(standalone: Mongod) -> Iterator[Place]:
    yield from place_of(standalone, standalone)


@pytest.fixture(scope="module")
def bulk_replica_set(replica_set: Mongod) -> Iterator[Place]:
    yield from place_of(replica_set, replica_set)


@pytest.fixture(params=["standalone", "replica_set", "txnNumber"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each test that asks for it runs on both kinds of server, on the set also with txnNumber."""
    server = "standalone" if request.param == "standalone" else "replica_set"
    found = request.getfixturevalue(f"bulk_{server}")
    yield Place(**{**vars(found), "numbered": request.param == "txnNumber"})
    calm(found)


@pytest.fixture
def replica(bulk_replica_set: Place) -> Iterator[Place]:
    yield bulk_replica_set
    calm(bulk_replica_set)


def calm(place: Place) -> None:
    place.thief.forget()
    place.front.received.clear()
    place.front.batch_size = 100_000
    place.front.faults.clear()


@pytest.fixture
def client(replica: Place) -> Iterator[pymongo.MongoClient]:
    """It learns the members from the proxy."""
    with replica.proxy.set_client("rs0") as connected:
        yield connected


def inserts(count: int, ns: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [{"insert": ns, "document": {"_id": k, "k": k, **more}} for k in range(count)]


def results(reply: dict[str, Any]) -> list[tuple[int, int]]:
    """Index and code of each; 0 if it went well."""
    return [(each["idx"], each.get("code", 0)) for each in reply["cursor"]["firstBatch"]]


def counts(reply: dict[str, Any]) -> dict[str, int]:
    """Those that are not 0."""
    return {name: reply[name] for name in COUNTS if reply[name]}


def keys(bulk: BulkWrite) -> list[Any]:
    return [op["document"]["k"] for op in bulk.ops]


class TestValues:
    @pytest.mark.parametrize("form", FORMS)
    def test_several_collections(self, place, coll, form, ordered):
        """Ops of several rules and of none, in turn, whose namespaces stand in any order."""
        namespaces = [f"{db}.{coll}" for db in ("plain", "two", "id", "dotted")]
        ops = [{"insert": k % 4, "document": {"k": k, "text": "x"}} for k in range(12)]
        reply = place.write(ops, *namespaces, form=form, ordered=ordered)
        assert counts(reply) == {"nInserted": 12}
        assert results(reply) == [(k, 0) for k in range(12)]
        plain, two, id, dotted = map(place.stored, namespaces)
        assert [d["k"] for d in plain + two + id + dotted] == [
            k + first for first in range(4) for k in (0, 4, 8)]
        assert all(set(d) == {"_id", "k", "text"} for d in plain + id)
        assert all(is_generated(d["_id"]) for d in id)
        assert all(is_generated(d["a"]) and is_generated(d["b"]) for d in two)
        assert all(is_generated(d["reg"]["number"]) for d in dotted)

    @pytest.mark.parametrize("variant", DEFAULTS, ids=lambda each: each.name)
    def test_every_strategy(self, place, coll, variant: Variant, ordered):
        """In inserts, upserts and replacements."""
        ns = f"made-{variant.name}.{coll}"
        ops = [{"insert": 0, "document": {"k": k}} for k in range(9)]
        ops += [{"update": 0, "filter": {"k": k}, "updateMods": change, "upsert": True,
                 "multi": k == 9 and not place.numbered} for k, change in ((9, {"$set": {"x": 1}}), (10, {"$set": {"x": 1}}), (11, {"k": 11}))]
        assert counts(place.write(ops, ns, ordered=ordered)) == {"nInserted": 9, "nUpserted": 3}
        found = [{e.name: e for e in elements(raw)}[b"made"] for raw in place.stored_raw(ns)]
        assert len({each.value for each in found}) == len(found) == 12
        for each in found:
            variant.check(each)

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("db", ["when", "strictly"])
    def test_conditions(self, place, coll, db, form, ordered):
        """Only inserts and upserts of documents that certainly fulfil them get a number."""
        ns, published = f"{db}.{coll}", {"status": "published"}
        ops = [{"insert": 0, "document": {"k": 0, **published}}, {"insert": 0, "document": {"k": 1}},
               {"insert": 1, "document": {"k": 9}}, {"insert": 0, "document": {"k": 2, **published}},
               *({"update": 0, "filter": {"k": k, **where}, "updateMods": {"$set": change}, "upsert": True}
                 for k, where, change in ((3, published, {"x": 1}), (4, {}, published),
                                          (5, {}, {"status": "draft"}), (1, {}, published)))]
        eventually(lambda: place.write(ops[:1], ns, form=form)["ok"], 20)
        place.collection(ns).delete_many({})
        reply = place.write(ops, ns, f"plain.{coll}", form=form, ordered=ordered)
        assert counts(reply) == {"nInserted": 4, "nMatched": 1, "nModified": 1, "nUpserted": 3}, reply
        found = {each["k"]: each.get("made") for each in place.stored(ns)}
        first = found[0]
        assert found == {0: first, 1: None, 2: first + 1, 3: first + 2, 4: first + 3, 5: None}
        for k, where, change in ((6, {}, [{"$set": published}]), (7, published, {"$set": {"status": "draft"}})):
            reply = place.write([{"update": 0, "filter": {"k": k, **where}, "updateMods": change, "upsert": True}],
                                ns, form=form)
            if db == "when":
                assert counts(reply) == {"nUpserted": 1} and "made" not in place.stored(ns)[-1]
            else:
                assert reply["code"] == 96 and "depends_on_document" in reply["errmsg"]

    def test_what_the_client_sends_is_kept(self, place, coll):
        reply = place.write([{"insert": 0, "document": {"_id": 1, "k": 0}},
                             {"insert": 1, "document": {"_id": 2, "made": None, "k": 1}}],
                            f"id.{coll}", f"made.{coll}")
        assert counts(reply) == {"nInserted": 2}
        assert place.stored(f"id.{coll}") == [{"_id": 1, "k": 0}]
        assert place.stored(f"made.{coll}") == [{"_id": 2, "made": None, "k": 1}]

    @pytest.mark.parametrize("form", FORMS)
    def test_a_command_that_needs_nothing_keeps_its_bytes(self, place, coll, form):
        ops = [{"insert": 0, "document": {"_id": 1}}, {"delete": 1, "filter": {}},
               {"update": 1, "filter": {}, "updateMods": {"$set": {"x": 1}}}]
        sent = message(bulk_write(ops, f"id.{coll}", f"made.{coll}"), form)
        place.call(sent)
        assert [each.request.raw for each in place.sends(f"id.{coll}")] == [sent]

    def test_everything_else_arrives_as_it_was(self, place, coll):
        """Fields of the command, other ops and other fields of the documents."""
        raw = el.document(el.int32("k", 0), *el.every_type())
        ops = [el.document(el.int64("insert", 1), el.element(0x03, "document", raw)),
               bson.encode({"delete": 0.0, "filter": {"x": 1}, "collation": {"locale": "de"}}),
               bson.encode({"update": 0, "filter": {"$expr": {"$eq": ["$x", "$$y"]}},
                            "updateMods": [{"$set": {"z": "$$y"}}], "multi": not place.numbered}),
               bson.encode({"insert": 0, "document": {"_id": 7}})]
        body = bulk_write(
            list(map(RawBSONDocument, ops)), f"plain.{coll}", f"made.{coll}", let={"y": 1},
            comment={"why": [1]}, bypassDocumentValidation=False, ordered=False, maxTimeMS=60_000,
            writeConcern={"w": "majority"}, **(session() if place.numbered else {}))
        reply = place.call(message(body, flags=wire.CHECKSUM_PRESENT))
        assert counts(reply.body) == {"nInserted": 2} and reply.flags & wire.CHECKSUM_PRESENT
        (bulk,) = place.sends(f"made.{coll}")
        first, *others = [bytes(op.raw) for op in bulk.ops]
        assert others == ops[1:]
        document = elements(elements(first)[1].value)
        assert [e for e in document if e.name != b"made"] == elements(raw) != document
        assert elements(bulk.request.body) == elements(bson.encode(
            {k: v for k, v in body.items() if k not in ("ops", "nsInfo")}))

    @pytest.mark.parametrize("index, code", [
        (bson.Int64(0), 0), (0.0, 0), (0.9, 0), (-0.5, 0), (bson.Decimal128("0"), 96), (math.nan, 96)])
    def test_an_index_of_any_type(self, replica, coll, index, code):
        """It gets the op its value, or is refused."""
        reply = replica.write([{"insert": index, "document": {}}], f"made.{coll}")
        assert (reply["ok"], reply.get("code", 0)) == (not code, code)
        assert [is_generated(d["made"]) for d in replica.stored(f"made.{coll}")] == [True] * (not code)

    def test_equal_numbers_of_statements_are_refused(self, replica, coll):
        """A mongod may end of them."""
        reply = replica.write(inserts(2), f"made.{coll}", **session(), stmtIds=[5, 5])
        assert (reply["ok"], reply["code"]) == (0, 72) and not replica.sends(f"made.{coll}")

    def test_a_scalar_on_the_way(self, place, coll, ordered):
        """It is the op's own error, and comes in mongod's order."""
        ops = inserts(4)
        ops[2]["document"]["reg"] = 7
        reply = place.write(ops, f"dotted.{coll}", ordered=ordered)
        expected = [(0, 0), (1, 0), (2, 28)] + ([] if ordered else [(3, 0)])
        assert results(reply) == expected and reply["nErrors"] == 1
        assert [d["k"] for d in place.stored(f"dotted.{coll}")] == [k for k, c in expected if not c]

    def test_unacknowledged(self, place, coll):
        """Nothing is answered, and nothing is sent again."""
        ns = fresh(place, "made", coll, "made")
        place.thief.steal(ns, "made", {1: 1})
        with wire.WireClient(place.proxy.address) as client:
            client.send(message(bulk_write(inserts(3), ns, writeConcern={"w": 0}, ordered=False),
                                flags=wire.MORE_TO_COME))
            assert client.call({"ping": 1, "$db": "admin"})["ok"] == 1
        assert [(d["k"], is_generated(d["made"])) for d in place.stored(ns)] == [(0, True), (2, True)]
        assert len(place.sends(ns)) == 1

    def test_a_store_that_is_down(self, replica, start_proxy: Callable[..., Proxy], coll):
        """Nothing of a command is carried out that needs a value which cannot be had."""
        down = {"uri": "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300"}
        proxy = start_proxy(configuration(replica.front, RULES, id_store=down))
        with proxy.raw_client(timeout=30) as client:
            ops = [{"insert": 1, "document": {"k": 0}}, {"insert": 0, "document": {"k": 1}}]
            reply = client.call(message(bulk_write(ops, f"counted.{coll}", f"plain.{coll}")))
            assert (reply["ok"], reply["code"]) == (0, 6)
            reply = client.call(message(bulk_write(ops[:1], f"counted.{coll}", f"plain.{coll}")))
            assert counts(reply) == {"nInserted": 1}
        assert len(replica.stored(f"plain.{coll}")) == 1 and not replica.stored(f"counted.{coll}")


class TestDuplicates:
    @pytest.mark.parametrize("errors_only", [False, True])
    @pytest.mark.parametrize("db, field", [("id", "_id"), ("made", "made")])
    def test_are_cured(self, place, coll, db, field, ordered, errors_only):
        """Only the documents that collided are sent again, or those from the first one on."""
        ns = fresh(place, db, coll, *(["made"] if db == "made" else []))
        place.thief.steal(ns, field, {1: 2, 3: 1})
        ops = [{"insert": 0, "document": {"k": k}} for k in range(5)]
        reply = place.write(ops, ns, ordered=ordered, errorsOnly=errors_only)
        assert counts(reply) == {"nInserted": 5}
        assert results(reply) == ([] if errors_only else [(k, 0) for k in range(5)])
        assert [d["k"] for d in place.stored(ns)] == [0, 1, 2, 3, 4]
        sends = place.sends(ns)
        again = [[1, 2, 3, 4], [1, 2, 3, 4], [3, 4]] if ordered else [[1, 3], [1]]
        assert list(map(keys, sends)) == [[0, 1, 2, 3, 4], *again]
        assert len({each.connection for each in sends}) == 1
        if place.numbered:
            assert [[s.statement(i) for i in range(len(s.ops))] for s in sends] == list(
                map(keys, sends))
            assert len({(bytes(s.body["lsid"].raw), s.body["txnNumber"]) for s in sends}) == 1

    def test_numbers_of_the_clients_own(self, replica, coll, ordered):
        ns = fresh(replica, "made", coll, "made")
        replica.thief.steal(ns, "made", {1: 1})
        reply = replica.write(inserts(3), ns, ordered=ordered, **session(), stmtIds=[9, 4, 7])
        assert counts(reply) == {"nInserted": 3}
        _, second = replica.sends(ns)
        assert [second.statement(i) for i in range(len(second.ops))] == ([4, 7] if ordered else [4])

    def test_in_several_collections(self, place, coll, ordered):
        """With other ops between them, none of which is carried out twice."""
        one, two = fresh(place, "made", coll + "a", "made"), fresh(place, "two", coll + "b", "a", "b")
        plain = f"plain.{coll}"
        place.collection(plain).insert_one({"_id": "sum", "n": 0})
        place.thief.steal(one, "made", 1)
        place.thief.steal(two, "b", {3: 1})
        add = {"update": 2, "filter": {"_id": "sum"}, "updateMods": {"$inc": {"n": 1}}}
        ops = [add, {"insert": 0, "document": {"k": 1}}, add, {"insert": 1, "document": {"k": 3}},
               {"delete": 2, "filter": {"_id": "no"}}, add, {"insert": 0, "document": {"k": 6}}]
        reply = place.write(ops, one, two, plain, ordered=ordered)
        assert counts(reply) == {"nInserted": 3, "nMatched": 3, "nModified": 3}
        assert [(i, each["n"], each.get("nModified"))
                for i, each in enumerate(reply["cursor"]["firstBatch"])] == [
            (0, 1, 1), (1, 1, None), (2, 1, 1), (3, 1, None), (4, 0, None), (5, 1, 1), (6, 1, None)]
        assert results(reply) == [(i, 0) for i in range(7)]
        assert place.collection(plain).find_one()["n"] == 3
        assert [d["k"] for d in place.stored(one)] == [1, 6] and len(place.stored(two)) == 1

    @pytest.mark.parametrize("errors_only", [False, True])
    def test_the_applications_own_pass(self, place, coll, ordered, errors_only):
        """At their place, as mongod has written them, while others are cured."""
        ns = fresh(place, "made", coll, "made")
        place.thief.steal(ns, "made", {0: 1, 3: 1})
        ops = inserts(5)
        ops[2]["document"]["_id"] = 1
        reply = place.write(ops, ns, ordered=ordered, errorsOnly=errors_only)
        expected = [(0, 0), (1, 0), (2, 11000)] + ([] if ordered else [(3, 0), (4, 0)])
        assert results(reply) == [each for each in expected if each[1] or not errors_only]
        assert counts(reply) == {"nErrors": 1, "nInserted": 2 if ordered else 4}
        (error,) = (e for e in reply["cursor"]["firstBatch"] if not e["ok"])
        assert (error["keyPattern"], error["keyValue"], error["n"]) == ({"_id": 1}, {"_id": 1}, 0)
        assert [d["k"] for d in place.stored(ns)] == ([0, 1] if ordered else [0, 1, 3, 4])

    @pytest.mark.parametrize("batch_size", [1, 3, 7])
    def test_in_later_batches_of_the_results(self, place, coll, ordered, batch_size):
        """A client sees them all, of ops that were sent again too, in whatever batches."""
        ns = fresh(place, "made", coll, "made")
        place.thief.steal(ns, "made", {2: 1, 5: 2, 8: 1})
        place.front.batch_size = batch_size
        own = session() if place.numbered else {}
        with wire.WireClient(place.proxy.address, 30) as client:
            reply = client.call(message(bulk_write(inserts(10), ns, ordered=ordered, **own)))
            found, cursor = results(reply), reply["cursor"]["id"]
            while cursor:
                more = client.call({"getMore": cursor, "collection": "$cmd.bulkWrite",
                                    **({"lsid": own["lsid"]} if own else {}), "$db": "admin"})
                found += [(e["idx"], e.get("code", 0)) for e in more["cursor"]["nextBatch"]]
                cursor = more["cursor"]["id"]
        assert counts(reply) == {"nInserted": 10} and found == [(k, 0) for k in range(10)]
        assert [(d["k"], is_generated(d["made"])) for d in place.stored(ns)] == [
            (k, True) for k in range(10)]

    def test_write_concern_errors_stay(self, replica, coll):
        ns = fresh(replica, "made", coll, "made")
        replica.thief.steal(ns, "made", {1: 1})
        reply = replica.write(inserts(3), ns, writeConcern={"w": 2, "wtimeout": 1})
        assert counts(reply) == {"nInserted": 3} and reply["writeConcernError"]["code"] == 100

    def test_the_report_names_the_op(self, place, coll, ordered):
        ns = fresh(place, "reported", coll, "made")
        place.thief.steal(ns, "made", {3: 1})
        ops = [{"delete": 1, "filter": {"_id": 0}}, *inserts(4)[1:],
               {"update": 0, "filter": {"k": 4}, "updateMods": {"$set": {"x": 1}}, "upsert": True}]
        reply = place.write(ops, ns, f"plain.{coll}", ordered=ordered)
        found = {d["k"]: d["made"] for d in place.stored(ns)}
        assert sorted(found) == [1, 2, 3, 4]
        assert reply["idproxy"]["assigned"] == [
            {"index": k, "field": "made", "value": found[k]} for k in (1, 2, 3, 4)]

    @pytest.mark.parametrize("errors_only", [False, True])
    def test_a_report_is_true(self, replica, coll, errors_only):
        """Also of statements that were executed before, with other values."""
        ns, own = f"reported.{coll}", session()
        first, second = (replica.write(inserts(3), ns, **own, errorsOnly=errors_only)
                         for _ in range(2))
        assert counts(first) == counts(second) == {"nInserted": 3}
        found = {d["k"]: d["made"] for d in replica.stored(ns)}
        assert first["idproxy"]["assigned"] == [
            {"index": k, "field": "made", "value": found[k]} for k in range(3)]
        for each in second.get("idproxy", {}).get("assigned", []):
            assert found[each["index"]] == each["value"]


class TestUpserts:
    def test_get_values(self, place, coll):
        ns, multi = f"two.{coll}", not place.numbered
        def upsert(k: int, updates: Any = {"$inc": {"n": 1}}, **more: Any) -> dict[str, Any]:
            return {"update": 0, "filter": {"k": k}, "updateMods": updates, "upsert": True, **more}
        place.collection(ns).insert_one({"k": 3})
        ops = [upsert(0), upsert(1, [{"$set": {"n": 1}}]), upsert(2, multi=multi), upsert(3),
               upsert(0), {**upsert(4), "upsert": False}]
        reply = place.write(ops, ns)
        assert counts(reply) == {"nUpserted": 3, "nMatched": 2, "nModified": 2}
        found = {d["k"]: d for d in place.stored(ns)}
        assert [(k, d["n"], is_generated(d.get("a")), is_generated(d.get("b")))
                for k, d in found.items()] == [
            (0, 2, True, True), (1, 1, True, True), (2, 1, True, True), (3, 1, False, False)]
        assert {e["idx"]: e["upserted"]["_id"] for e in reply["cursor"]["firstBatch"]
                if "upserted" in e} == {k: found[k]["_id"] for k in (0, 1, 2)}

    def test_duplicates_are_cured(self, place, coll, ordered):
        """A counter that is behind."""
        ns = fresh(place, "behind", coll, "made")
        place.collection(ns).insert_many([{"made": n, "stolen": True} for n in range(1, 20, 2)])
        place.server.client.idproxy.uniqueIdentifierCounter.insert_one(
            {"_id": f"{ns}.made", "COUNT": 1})
        ops = [{"update": 0, "filter": {"k": k}, "updateMods": {"$inc": {"n": 1}}, "upsert": True}
               for k in (0, 1, 2, 0)] + [{"insert": 0, "document": {"k": 4}}]
        reply = place.write(ops, ns, ordered=ordered)
        assert results(reply) == [(i, 0) for i in range(5)]
        assert counts(reply)["nUpserted"] == 3 and counts(reply)["nInserted"] == 1
        stored = place.stored(ns)
        assert [(d["k"], d.get("n")) for d in stored] == [(0, 2), (1, 1), (2, 1), (4, None)]
        assert all(d["made"] % 2 == 0 for d in stored)

    def test_unsafe_ones_are_forwarded_and_counted(self, place, coll):
        ops = [{"update": 0, "filter": {"made": k}, "updateMods": {"$set": {"k": k}}, "upsert": True}
               for k in range(3)]
        with place.proxy.client() as client:
            def forwarded() -> int:
                rule = client.admin.command({"idproxy": "status"})["rules"][1]
                return rule["forwarded"].get("filter_names_field", 0)
            before = forwarded()
            assert counts(place.write(ops, f"made.{coll}")) == {"nUpserted": 3}
            assert forwarded() == before + 3
        assert [d["made"] for d in place.stored(f"made.{coll}")] == [0, 1, 2]


class TestLimits:
    def test_a_message_that_outgrows_them(self, replica, coll, ordered):
        """It is as large as may be, and becomes larger."""
        ns = fresh(replica, "made", coll, "made")
        replica.thief.steal(ns, "made", {2: 1})
        ops = [{"insert": 0, "document": {"_id": k, "k": k, "pad": bytes(15_990_000)}}
               for k in range(3)]
        ops.append({"insert": 0, "document": {"_id": 3, "k": 3, "pad": b""}})
        body = bulk_write(ops, ns, ordered=ordered, **session())
        ops[3]["document"]["pad"] = bytes(wire.MAX_MESSAGE - len(message(body)))
        sent = message(body)
        assert len(sent) == wire.MAX_MESSAGE
        reply = replica.call(sent).body
        assert counts(reply) == {"nInserted": 4} and results(reply) == [(k, 0) for k in range(4)]
        assert [(d["k"], is_generated(d["made"])) for d in replica.stored(ns)] == [
            (k, True) for k in range(4)]

    def test_arrays_that_outgrow_them(self, replica, coll):
        size = len(bson.encode(bulk_write(inserts(100, pad=b""), f"made.{coll}")))
        body = bulk_write(inserts(100, pad=bytes((MAX_OBJECT - size) // 100)), f"made.{coll}")
        assert MAX_OBJECT - 100 < len(bson.encode(body)) <= MAX_OBJECT
        reply = replica.call(message(body, "body")).body
        assert counts(reply) == {"nInserted": 100} and results(reply) == [(k, 0) for k in range(100)]
        assert all(is_generated(d["made"]) for d in replica.stored(f"made.{coll}"))

    @pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.full)])
    def test_many(self, replica, coll, ordered, count):
        ns = fresh(replica, "made", coll, "made")
        replica.thief.steal(ns, "made", {count // 2: 1, count - 1: 1})
        replica.front.batch_size = count // 3
        with replica.proxy.client() as client:
            result = client.bulk_write([InsertOne({"k": k}, ns) for k in range(count)],
                                       ordered=ordered, verbose_results=True)
        assert result.inserted_count == count and len(result.insert_results) == count
        assert [d["k"] for d in replica.stored(ns)] == list(range(count))


class TestGapless:
    """Numbers of stored documents are consecutive."""

    @staticmethod
    def begin(place: Place, coll: str) -> str:
        """The namespace of a collection in which u is unique, and the first number is stored."""
        place.collection(f"seq.{coll}").create_index("u", unique=True, sparse=True)
        place.collection(f"seq.{coll}").insert_one({"u": "taken"})
        first = [{"insert": 0, "document": {"k": -1}}]
        eventually(lambda: place.write(first, f"seq.{coll}")["ok"], 20)
        return f"seq.{coll}"

    @staticmethod
    def check(place: Place, ns: str, keys: list[int]) -> None:
        """These documents have the numbers from 1 on."""
        found = place.collection(ns).find({"made": {"$exists": True}}).sort("made")
        assert [(d["made"], d["k"]) for d in found] == [*enumerate(keys, 1)]

    @pytest.mark.parametrize("failing", [{0}, {2}, {4}, {0, 1, 3}, {0, 1, 2, 3, 4}], ids=str)
    def test_failing_ops_leave_no_gap(self, place, coll, ordered, failing):
        ns = self.begin(place, coll)
        ops = inserts(5)
        for k in failing:
            ops[k]["document"]["u"] = "taken"
        ops.insert(3, {"delete": 0, "filter": {"_id": "no"}})
        reply = place.write(ops, ns, ordered=ordered, errorsOnly=True)
        first = min(failing)
        assert [code for _, code in results(reply)] == [11000] * (1 if ordered else len(failing))
        stored = [k for k in range(5) if k not in failing and (not ordered or k < first)]
        assert place.write([{"insert": 0, "document": {"k": 9}}], ns)["nInserted"] == 1
        self.check(place, ns, [-1, *stored, 9])

    @pytest.mark.parametrize("hidden", [False, True])
    @pytest.mark.parametrize("errors_only", [False, True])
    def test_the_same_once_more(self, replica, coll, ordered, errors_only, hidden):
        """As a driver repeats it that got no answer."""
        ns, own = self.begin(replica, coll), session()
        replica.front.hides_retried = hidden
        ops = [{"insert": 0, "document": {"k": k}} for k in range(3)]
        for _ in range(2):
            reply = replica.write(ops, ns, ordered=ordered, errorsOnly=errors_only, **own)
            assert counts(reply) == {"nInserted": 3}
        assert replica.write([{"insert": 0, "document": {"k": 9}}], ns)["nInserted"] == 1
        self.check(replica, ns, [-1, 0, 1, 2, 9])

    def test_a_collection_that_was_dropped(self, place, coll):
        """Past the proxy: the next one gets its index before it gets a number."""
        ns = self.begin(place, coll)
        place.collection(ns).drop()
        assert counts(place.write(inserts(3), ns)) == {"nInserted": 3}
        assert "made" in str(place.collection(ns).index_information())
        assert len({d["made"] for d in place.stored(ns)}) == 3


@contextmanager
def transaction(place: Place) -> Iterator[Callable[..., dict[str, Any]]]:
    """write() in one, which is begun and left open."""
    own = {**session(), "autocommit": False}
    with wire.WireClient(place.proxy.address, 30) as client:
        def write(ops: list[Any], *namespaces: str, **more: Any) -> dict[str, Any]:
            return client.call(message(bulk_write(ops, *namespaces, **own, **more)))
        yield write


class TestTransactions:
    def test_a_duplicate_of_ours_is_an_error_of_the_transaction(self, replica, coll, ordered):
        ns = fresh(replica, "tx", coll, "made")
        replica.thief.steal(ns, "made", {1: 1})
        with transaction(replica) as write:
            reply = write(inserts(3), ns, startTransaction=True, ordered=ordered)
        assert reply["ok"] == 0 and reply["errorLabels"] == [TRANSIENT]
        assert "cursor" not in reply and len(replica.sends(ns)) == 1

    def test_a_driver_runs_it_again(self, replica, client, coll):
        ns = fresh(replica, "tx", coll, "made")
        replica.thief.steal(ns, "made", {0: 2})
        plain, results = f"plain.{coll}", []

        def callback(session: Any) -> None:
            try:
                results.append(client.bulk_write(
                    [InsertOne({"k": 0}, ns), InsertOne({"k": 1}, ns), InsertOne({}, plain)],
                    session=session))
            except ClientBulkWriteException as failed:  # in which PyMongo hides the label
                raise failed.error from None
            client.bulk_write([InsertOne({"k": 2}, ns)], session=session)

        with client.start_session() as running:
            running.with_transaction(callback)
        assert [each.inserted_count for each in results] == [3]
        assert [d["k"] for d in replica.stored(ns)] == [0, 1, 2]
        assert len(replica.stored(plain)) == 1 and len(replica.sends(ns)) == 4


class TestReplacements:
    """keep: replacements, the default."""

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("db", ["made", "counted", "two", "dotted", "seq"])
    def test_keep_what_is_stored(self, place, coll, form, db, ordered):
        ns = f"{db}.{coll}"
        for k in range(2):
            reply = place.write([replacement({"k": k}, {"k": k})], ns, form=form, ordered=ordered)
            assert counts(reply) == {"nUpserted": 1}
        first = place.stored(ns)
        assert [generated(d) for d in first] == [True, True]
        reply = place.write([replacement({"k": 1}, {"k": 1, "x": 1})], ns, form=form, ordered=ordered)
        assert counts(reply) == {"nMatched": 1, "nModified": 1}
        assert results(reply) == [(0, 0)]
        reply = place.write(
            [replacement({"k": 0}, {"k": 0, "x": 2}), replacement({"k": 2}, {"k": 2, "x": 2}),
             {"insert": 0, "document": {"_id": 9, "k": 3, "x": 2}},
             replacement({"k": 1}, {"k": 1, "x": 2}, upsert=False)],
            ns, form=form, ordered=ordered)
        assert counts(reply) == {"nInserted": 1, "nMatched": 2, "nModified": 2, "nUpserted": 1}
        stored = place.stored(ns)
        assert [(d["k"], d["x"], generated(d)) for d in stored] == [(k, 2, True) for k in range(4)]
        assert [{**d, "x": 2} for d in first] == stored[:2]


def replacement(filter: dict[str, Any], document: dict[str, Any], upsert: bool = True) -> dict[str, Any]:
    return {"update": 0, "filter": filter, "updateMods": document, "upsert": upsert}


def generated(document: dict[str, Any]) -> bool:
    """All fields of its rule have a value."""
    fields = [document.get(name) for name in ("made", "a", "b") if name in document]
    fields += [document["reg"]["number"]] if "reg" in document else []
    return bool(fields) and all(isinstance(each, int) for each in fields)


class TestDriver:
    """PyMongo, with no setting of its own."""

    @pytest.mark.parametrize("verbose", [False, True])
    def test_bulk_write(self, replica, client, coll, ordered, verbose):
        one, two = fresh(replica, "made", coll + "a", "made"), f"two.{coll}b"
        replica.thief.steal(one, "made", {1: 1})
        result = client.bulk_write(
            [*(InsertOne({"_id": k, "k": k}, ns) for k, ns in enumerate([one, one, two])),
             UpdateOne({"k": 3}, {"$set": {"x": 1}}, upsert=True, namespace=one),
             DeleteOne({"k": 0}, namespace=one)], ordered=ordered, verbose_results=verbose)
        assert (result.inserted_count, result.upserted_count, result.deleted_count) == (3, 1, 1)
        if verbose:
            assert [result.insert_results[i].inserted_id for i in range(3)] == [0, 1, 2]
        assert [(d["k"], is_generated(d["made"])) for d in replica.stored(one)] == [
            (1, True), (3, True)]
        assert is_generated(replica.stored(two)[0]["a"])

    @pytest.mark.parametrize("fault", ["lose request", "lose reply"])
    @pytest.mark.parametrize("verbose", [False, True])
    def test_a_lost_connection(self, replica, client, coll, ordered, fault, verbose):
        """The driver sends it again, with other values: nothing is stored twice, whatever collided."""
        ns = fresh(replica, "made", coll, "made")
        replica.thief.steal(ns, "made", {1: 1, 2: 1})
        client.admin.command("ping")
        replica.front.faults = [fault]
        result = client.bulk_write(
            [*(InsertOne({"k": k}, ns) for k in range(4)),
             UpdateOne({"k": 4}, {"$inc": {"n": 1}}, upsert=True, namespace=ns)],
            ordered=ordered, verbose_results=verbose)
        assert (result.inserted_count, result.upserted_count) == (4, 1)
        stored = replica.stored(ns)
        assert [d["k"] for d in stored] == [0, 1, 2, 3, 4] and stored[4]["n"] == 1
        assert all(is_generated(d["made"]) for d in stored)

    def test_a_connection_lost_before_the_second_send(self, replica, client, coll, ordered):
        """Half of it is stored by then."""
        ns = fresh(replica, "made", coll, "made")
        replica.thief.steal(ns, "made", {1: 1})
        client.admin.command("ping")
        replica.front.faults = [None, "lose request"]
        result = client.bulk_write([InsertOne({"k": k}, ns) for k in range(4)], ordered=ordered)
        assert result.inserted_count == 4
        assert [d["k"] for d in replica.stored(ns)] == [0, 1, 2, 3]


# Connections that break at random: as test_upsert_chaos.py.

TAKEN = range(0, 10_000, 2)  # half of the values are in use from the start
CHAOS = [{"ns": "chaos.*", "field": "made", "strategy": "random-digits", "digits": 4,
          "max_fill": 0.99, "retry": {"attempts": 100, "deadline": "60s"}}]
BULKS = 1_000 if FULL else 80  # more would fill the space
DROPPED = 0.12
SIDES = {"downstream": ["downstream"], "upstream": ["upstream"], "both": ["downstream", "upstream"]}


class Writer:
    """Inserts, and upserts that add 1 to n of the document with a key that has come before, perhaps."""

    def __init__(self, number: int):
        self.told = Increments()
        self._choose = random.Random(number)
        self._new = itertools.count(10_000)
        self._options = {"ordered": number % 2 == 0, "verbose_results": number // 2 == 0}

    def write(self, client: pymongo.MongoClient, ns: str) -> None:
        for _ in range(BULKS):
            keys = [next(self._new) if self._choose.random() < 0.5 else self._choose.randrange(BULKS)
                    for _ in range(5)]
            ops = [InsertOne({"k": k, "n": 1}, ns) if k >= 10_000 else
                   UpdateOne({"k": k}, {"$inc": {"n": 1}}, upsert=True, namespace=ns) for k in keys]
            try:
                result = client.bulk_write(ops, **self._options)
            except ClientBulkWriteException as failed:
                assert isinstance(failed.error, PyMongoError) and not failed.write_errors, failed
                self.told.unknown.update(keys)
                continue
            assert result.inserted_count + result.upserted_count + result.matched_count == 5
            self.told.acknowledged.update(keys)


@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("side", [
    pytest.param("downstream", marks=pytest.mark.full), pytest.param("upstream", marks=pytest.mark.full), "both"])
def test_drops_at_random(replica_set: Mongod, coll: str, side: str,
                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pymongo.common, "MIN_HEARTBEAT_INTERVAL", 0.02)
    writers = [Writer(number) for number in range(4)]
    collections = [replica_set.client.chaos[f"{coll}_{number}"] for number in range(4)]
    for collection in collections:
        collection.create_index("made", unique=True)
        collection.insert_many([{"made": bson.Int64(i)} for i in TAKEN])
    with (BulkWriteServer(replica_set, batch_size=3) as front,
          Chain(front, CHAOS, dict.fromkeys(SIDES[side], DROPPED), side) as chain):
        def work(writer: Writer, collection: Any) -> None:
            with pymongo.MongoClient(chain.uri, serverMonitoringMode="poll",
                                     serverSelectionTimeoutMS=60_000) as client:
                writer.write(client, collection.full_name)

        with ThreadPoolExecutor(len(writers)) as pool:
            list(pool.map(work, writers, collections))
    eventually(lambda: quiet(replica_set, "chaos"), 60, "no write is still at work")
    for writer, collection in zip(writers, collections):
        found = list(collection.find({"n": {"$exists": True}}))
        for each in found:  # by one of them
            writer.told.inserted(each["k"], {"_id": each["_id"]})
        assert not writer.told.violations(found, "made", lambda value: value not in TAKEN)
        assert writer.told.acknowledged.total() > BULKS
    # What was to be tested did happen.
    assert sum(writer.told.unknown.total() for writer in writers) > 5
    assert all(sum(getattr(chain, each).dropped.values()) > BULKS / 4 for each in SIDES[side])
    assert chain.stopped["duplicates_cured"] > BULKS
