"""reserve: no document is stored without a reservation of its value, and what is left of failed ones
is swept.

Every test ends with the same look: each document's value is reserved for it, and nothing else is
reserved but orphans that the test knows of.
"""

from __future__ import annotations

import collections
import datetime
import itertools
import json
import pathlib
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import bson
import pytest
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError

from support import wire
from support.chaos import StepRelay
from support.counters import insert, is_int64
from support.full import FULL
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.thief import insert_message, session
from support.threads import at_once

LAYOUTS = ["id", "field"]
PLACES = 27
"""Rules with reservations name their collection, so each test takes the next one of these."""


def rule(ns: str, layout: str = "id", **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "n", "strategy": "counter",
            "reserve": {"collection": f"{ns.partition('.')[2]}__n", "layout": layout}, **more}


RULES = [
    *(rule(f"res.{layout}{i}", layout) for layout in LAYOUTS for i in range(PLACES)),
    rule("res.report", report=True),
    rule("res.nested", field="order.number"),
]
_places = {layout: itertools.count() for layout in LAYOUTS}


class Place:
    """A collection with rules, and its reservations. Its documents have no unique index on n."""

    def __init__(self, server: Mongod, ns: str, layout: str = "id", field: str = "n"):
        self.ns, self.layout, self._field = ns, layout, field
        db, _, name = ns.partition(".")
        self.collection = server.client[db][name]
        self.reservations = server.client[db][f"{name}__n"]
        self.collection.drop()
        server.client[db].create_collection(name, validator={"v": {"$ne": "bad"}})
        self.collection.create_index("u", unique=True, sparse=True)
        self.collection.insert_one({"u": "taken"})

    def _value(self, document: dict[str, Any]) -> Any:
        for name in self._field.split("."):
            document = document[name]
        return document

    def stored(self) -> dict[Any, Any]:
        """The documents' ids by their values, none of which is there twice."""
        top = self._field.split(".")[0]
        found = list(self.collection.find({top: {"$exists": True}}))
        by_value = {self._value(d): d["_id"] for d in found}
        assert len(by_value) == len(found), "a value is stored twice"
        return by_value

    def reserved(self) -> dict[Any, Any]:
        """What the values are reserved for."""
        name = "_id" if self.layout == "id" else self._field.split(".")[-1]
        found = list(self.reservations.find())
        assert all(set(d) == {"_id", name, "parent_id", "at"} for d in found), found[:3]
        assert all(isinstance(d["at"], datetime.datetime) for d in found)
        return {d[name]: d["parent_id"] for d in found}

    def orphans(self) -> dict[Any, Any]:
        stored, reserved = self.stored(), self.reserved()
        assert stored.items() <= reserved.items(), "a document without its reservation"
        return {value: parent for value, parent in reserved.items() if value not in stored}

    def agree(self) -> int:
        """Waits until nothing is reserved without a document; how many documents there are."""
        eventually(lambda: not self.orphans(), 20, "reservations without documents are deleted")
        return len(self.stored())

    def age(self) -> None:
        """All reservations become so old that the sweeper looks at them."""
        self.reservations.update_many({}, [
            {"$set": {"at": {"$subtract": ["$at", 1000 * 3600 * 25]}}}])


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def place(server: Mongod, proxy: Proxy, layout: str) -> Place:
    return begun(server, proxy, layout)


def begun(server: Mongod, proxy: Proxy, layout: str = "id") -> Place:
    place = Place(server, f"res.{layout}{next(_places[layout])}", layout)
    eventually(lambda: ready(proxy, place.ns), 20)
    return place


def ready(proxy: Proxy, ns: str) -> bool:
    with proxy.client() as client:
        rules = client.admin.command("idproxy", "status")["rules"]
    return next(each["ready"] for each in rules if each["ns"] == ns)


FOREIGN = {"u": "taken"}
INVALID = {"v": "bad"}


class TestInserts:
    def test_are_reserved(self, server, proxy, place):
        assert insert(proxy, place.ns, 5)["n"] == 5
        assert sorted(place.stored()) == [1, 2, 3, 4, 5]
        assert all(is_int64(value) for value in place.reserved())
        assert all(isinstance(each, bson.ObjectId) for each in place.stored().values())
        assert next(iter(place.collection.find_one({"n": 1}))) == "_id"
        assert place.agree() == 5

    def test_with_their_own_values(self, server, proxy, place):
        documents = [{"k": 0}, {"_id": "mine", "n": 70}, {"k": 2, "n": "A-1"}]
        assert insert(proxy, place.ns, documents)["n"] == 3
        assert place.stored()[70] == "mine"
        with proxy.client() as client:
            collection = client["res"][place.collection.name]
            with pytest.raises(DuplicateKeyError) as failure:
                collection.insert_one({"n": 70.0})
            details = failure.value.details
            assert details["keyPattern"] == {"n": 1} and details["keyValue"] == {"n": 70.0}
            assert f"reserved in res.{place.reservations.name}" in details["errmsg"]
            with pytest.raises(BulkWriteError) as many:
                collection.insert_many(
                    [{"k": 3}, {"n": "A-1"}, {"k": 4}, {"n": 90}, {"n": 90}], ordered=False)
            assert [e["index"] for e in many.value.details["writeErrors"]] == [1, 4]
        assert sorted(place.stored(), key=str) == [1, 2, 3, 70, 90, "A-1"]
        assert place.agree() == 6

    def test_what_cannot_be_reserved(self, server, proxy):
        place = begun(server, proxy)
        reply = insert(proxy, place.ns, [{"k": 0}, {"n": [1, 2]}, {"k": 2}], ordered=False)
        assert reply["n"] == 2 and [e["index"] for e in reply["writeErrors"]] == [1]
        assert "the value of 'n' cannot be reserved" in reply["writeErrors"][0]["errmsg"]
        assert place.agree() == 2
        code = bson.Code("f", {})
        for document in ({"n": code}, {"n": {"x": code}}, {"_id": {"x": code}, "n": 70}, {"_id": {"x": code}}):
            reply = insert(proxy, place.ns, [document])
            assert reply["n"] == 0 and [e["code"] for e in reply["writeErrors"]] == [96], reply
            assert "code with scope" in reply["writeErrors"][0]["errmsg"]
        assert place.agree() == 2

    def test_unacknowledged(self, server, proxy):
        place = begun(server, proxy)
        with proxy.client(w=0) as client:
            collection = client["res"][place.collection.name]
            collection.insert_one({"k": 0})
            collection.insert_many([{"k": 1}, {"k": 2}])
            collection.insert_many([{"k": 3}, {"k": 4}], ordered=False)
        eventually(lambda: place.agree() == 5, 20)

    @pytest.mark.parametrize("fault", [FOREIGN, INVALID], ids=["foreign", "invalid"])
    def test_that_fail(self, server, proxy, place, ordered, fault):
        documents = [{"k": k, **(fault if k == 2 else {})} for k in range(5)]
        reply = insert(proxy, place.ns, documents, ordered=ordered)
        stored = 2 if ordered else 4
        assert reply["n"] == stored and [e["index"] for e in reply["writeErrors"]] == [2]
        assert place.agree() == stored
        assert insert(proxy, place.ns, 1)["n"] == 1
        assert place.agree() == stored + 1

    def test_beside_a_writer_who_follows_the_recipe(self, server, proxy, place):
        for value in (1, 2, 4):
            by_hand(place, value)
        assert insert(proxy, place.ns, 3)["n"] == 3
        assert place.agree() == 6

    def test_of_nested_fields(self, server, proxy):
        nested = Place(server, "res.nested", field="order.number")
        eventually(lambda: insert(proxy, nested.ns, [{"order": {"x": 1}}, {"k": 1}])["n"] == 2, 20)
        assert nested.agree() == 2

    def test_report(self, server, proxy):
        place = Place(server, "res.report")
        eventually(lambda: insert(proxy, place.ns, 1)["n"] == 1, 20)
        reply = insert(proxy, place.ns, [{"k": 0}, {"k": 1, "n": 1}, {"k": 2}], ordered=False)
        assert reply["n"] == 2
        assert [(e["index"], e["value"]) for e in reply["idproxy"]["assigned"]] == [(0, 2), (2, 3)]

    def test_without_acknowledgement(self, server, proxy, place):
        by_hand(place, 1)
        with wire.WireClient(proxy.address, 30) as client:
            client.send(insert_message(place.ns, [{"k": 0}, {"k": 1}], flags=wire.MORE_TO_COME))
            assert client.call(wire.command({"ping": 1, "$db": "admin"}))["ok"]
        eventually(lambda: len(place.stored()) == 3)
        assert place.agree() == 3

    def test_cost_one_more_round_trip_per_batch(self, replica_set, start_proxy, coll):
        place = Place(replica_set, f"{coll}.a")
        proxy = start_proxy(configuration(replica_set, [rule(place.ns)]))
        eventually(lambda: insert(proxy, place.ns, 1)["ok"], 20)
        replica_set.client[coll].command("profile", 2)
        for _ in range(3):
            assert insert(proxy, place.ns, 1000)["n"] == 1000
        replica_set.client[coll].command("profile", 0)
        # Only these fields: others can have dates beyond Python's.
        commands = collections.Counter(
            (d["op"], d["ns"]) for d in replica_set.client[coll]["system.profile"].find(
                {"ns": {"$in": [place.ns, place.ns + "__n"]}}, {"op": 1, "ns": 1}))
        # The profiler has an entry for each batch that mongod makes of a command, 500 documents.
        inserts = [commands.pop(("insert", ns)) for ns in (place.ns, place.ns + "__n")]
        assert inserts[0] == inserts[1] >= 3
        # Nothing else is done for each batch. The sweeper's first pass can fall into this time.
        assert all(times < 3 for times in commands.values()), commands

    @pytest.mark.parametrize("size", [pytest.param(100_000, marks=pytest.mark.full), 25_000])
    def test_of_many(self, replica_set, start_proxy, coll, size):
        place = Place(replica_set, f"{coll}.a")
        proxy = start_proxy(configuration(replica_set, [rule(place.ns)]))
        eventually(lambda: insert(proxy, place.ns, 1)["ok"], 20)
        assert insert(proxy, place.ns, size, ordered=False)["n"] == size
        assert place.agree() == size + 1


def by_hand(place: Place, value: Any) -> None:
    """What the recipe says: the reservation first, then the document."""
    document_id = bson.ObjectId()
    reservation = {"parent_id": document_id, "at": datetime.datetime.now(datetime.UTC)}
    place.reservations.insert_one({"_id": value, **reservation} if place.layout == "id" else
                                  {"n": value, **reservation})
    place.collection.insert_one({"_id": document_id, "n": value, "k": "by hand"})


class TestRetries:
    @pytest.mark.needs("retried_stmt_ids")  # without them, the sweeper deletes what is left over
    def test_a_driver_that_sends_a_batch_again(self, replica_set, start_proxy, coll):
        place = Place(replica_set, f"{coll}.a")
        proxy = start_proxy(configuration(replica_set, [rule(place.ns)]))
        eventually(lambda: insert(proxy, place.ns, 1)["ok"], 20)
        more = session()
        documents = [{"_id": "a"}, {"_id": "b", "n": 70}, {"_id": "c"}]
        for _ in range(3):
            reply = insert(proxy, place.ns, documents, more=more)
            assert reply["n"] == 3, reply
            assert place.agree() == 4
        assert place.stored()[70] == "b"

    def test_after_failed_attempts(self, server, proxy, place):
        assert insert(proxy, place.ns, [{"_id": "a", "n": 70, **INVALID}])["n"] == 0
        eventually(lambda: not place.reserved())
        assert insert(proxy, place.ns, [{"_id": "a", "n": 70}])["n"] == 1
        assert insert(proxy, place.ns, [{"_id": "a", "n": 70}])["writeErrors"][0]["code"] == 11000
        assert place.agree() == 1


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_transactions(replica_set, start_proxy, coll, end):
    place = Place(replica_set, f"{coll}.a")
    proxy = start_proxy(configuration(replica_set, [rule(place.ns)]))
    with proxy.client() as client, client.start_session() as running:
        eventually(lambda: ready(proxy, place.ns), 20)
        running.start_transaction()
        client[coll]["a"].insert_many([{"k": 0}, {"k": 1}], session=running)
        assert len(place.reserved()) == 2, "outside of the transaction"
        running.commit_transaction() if end == "commit" else running.abort_transaction()
        assert len(place.orphans()) == (0 if end == "commit" else 2)
    sweep(place, proxy, start_proxy, replica_set)
    assert place.agree() == (2 if end == "commit" else 0)


def sweep(place: Place, proxy: Proxy, start_proxy: Callable[..., Proxy], server: Mongod) -> None:
    """Lets a proxy sweep at its start, when all reservations are old. Those of documents stay."""
    proxy.stop()
    place.age()
    swept = start_proxy(configuration(server, [rule(place.ns, place.layout)]))
    eventually(lambda: not place.orphans(), 30, "the orphans are swept")
    eventually(lambda: insert(swept, place.ns, [{"k": "last"}])["ok"], 20)
    place.collection.delete_one({"k": "last"})
    place.reservations.delete_many({"at": {"$gt": datetime.datetime.now(datetime.UTC) -
                                           datetime.timedelta(hours=1)}})


class TestSweeper:
    def test_takes_orphans_alone(self, replica_set, start_proxy, coll, layout):
        place = Place(replica_set, f"{coll}.a", layout)
        config = configuration(replica_set, [rule(place.ns, layout)])
        proxy = start_proxy(config)
        eventually(lambda: insert(proxy, place.ns, 3)["ok"], 20)
        proxy.stop()
        # One whose document is gone, one whose document has another number now, two that stay.
        gone, other, *_ = place.collection.find({"n": {"$exists": True}}).sort("n")
        place.collection.delete_one({"_id": gone["_id"]})
        by_hand(place, 50)
        place.collection.update_one({"_id": other["_id"]}, {"$set": {"n": bson.Int64(60)}})
        name = "_id" if layout == "id" else "n"
        for value, kept in ((60, other["_id"]), (80, bson.ObjectId())):
            place.reservations.insert_one(
                {name: value, "parent_id": kept, "at": datetime.datetime.now(datetime.UTC)})
        place.age()
        # Not yet: nobody knows what becomes of its document.
        young = {name: 90, "parent_id": "x", "at": datetime.datetime.now(datetime.UTC)}
        place.reservations.insert_one(young)
        proxy = start_proxy(config)
        eventually(lambda: set(place.orphans()) == {90}, 30)
        assert sorted(place.reserved()) == [3, 50, 60, 90]
        assert proxy.wait_event("reservations_swept")["count"] == 3


def test_lost_connections(replica_set, start_proxy, coll):
    """After an outcome that nobody knows, the reservation stays until the sweeper has looked."""
    wanted = 50 if FULL else 6
    place = Place(replica_set, f"{coll}.a")
    acknowledged: set[int] = set()
    unknown = itertools.count()
    keys = itertools.count()
    done = threading.Event()
    with StepRelay(replica_set.address, 0.25, coll) as relay:
        proxy = start_proxy(configuration(relay, [rule(place.ns)], replica_set))
        eventually(lambda: ready(proxy, place.ns), 20)

        def writer(number: int) -> None:
            with proxy.client(retryWrites=number % 2 == 0) as client:
                while not done.is_set():
                    batch = [{"k": next(keys)} for _ in range(1 + number)]
                    try:
                        client[coll]["a"].insert_many(batch, ordered=False)
                        acknowledged.update(d["k"] for d in batch)
                    except PyMongoError:
                        if next(unknown) >= wanted:
                            done.set()

        at_once(*(partial(writer, i) for i in range(3)), timeout=300)
        assert done.is_set() and sum(relay.dropped.values()) >= wanted
        eventually(relay.at_rest, 30)
        stored = {d["k"]: d["_id"] for d in place.collection.find({"k": {"$exists": True}})}
        assert acknowledged <= set(stored)
        assert place.orphans(), "some documents never arrived"
        sweep(place, proxy, start_proxy, replica_set)
    assert place.agree() == len(stored)


def test_two_proxies_and_a_writer_by_hand(replica_set, start_proxy, coll, record):
    place = Place(replica_set, f"{coll}.a")
    # Some of the numbers are taken, so that each batch meets them.
    place.reservations.insert_many(
        {"_id": bson.Int64(value), "parent_id": "somebody's",
         "at": datetime.datetime.now(datetime.UTC)} for value in range(1001, 4000, 2))
    small = {"strategy": "random-digits", "digits": 4}
    proxies = [start_proxy(configuration(replica_set, [rule(place.ns, **small)])) for _ in range(2)]
    for each in proxies:
        eventually(lambda each=each: insert(each, place.ns, 1)["ok"], 20)
    failures: list[Any] = []
    by_hand_stored = itertools.count()

    def writer(number: int) -> None:
        for _ in range(20):
            reply = insert(proxies[number % 2], place.ns, 10, ordered=False)
            if reply.get("n") != 10:
                failures.append(reply)

    def hand() -> None:
        for value in range(2000, 2200):
            try:
                by_hand(place, value)
                next(by_hand_stored)
            except DuplicateKeyError:
                pass

    at_once(hand, *(partial(writer, i) for i in range(6)), timeout=120)
    assert not failures, failures[:3]
    assert set(place.orphans().values()) == {"somebody's"}
    assert len(place.stored()) == 2 + 6 * 200 + next(by_hand_stored)


class TestReadiness:
    def test_a_view_takes_no_reservations(self, replica_set, start_proxy, coll):
        place = Place(replica_set, f"{coll}.a")
        replica_set.client[coll].create_collection("a__n", viewOn="b", pipeline=[])
        proxy = start_proxy(configuration(replica_set, [rule(place.ns)]))
        reply = insert(proxy, place.ns, 1)
        assert reply["code"] == 96 and f"{coll}.a__n" in reply["errmsg"], reply
        assert not ready(proxy, place.ns)
        place.reservations.drop()
        eventually(lambda: insert(proxy, place.ns, 1)["ok"], 20)
        assert place.agree() == 1

    def test_layout_field_has_a_unique_index(self, server, proxy):
        place = begun(server, proxy, "field")
        unique = [i["key"] for i in place.reservations.index_information().values()
                  if i.get("unique")]
        assert unique == [[("n", 1)]]


class TestThePage:
    """The examples of docs/reserve.md."""

    PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "reserve.md").read_text()

    def test_is_right(self, replica_set, start_proxy):
        (text,) = re.findall(r"(?s)```yaml\n(.*?)```", self.PAGE)
        (placed,) = re.findall(r"(?s)\n```js\nuse shop\n(.*?)```", self.PAGE)
        found = re.fullmatch(r"(?s)db\.orders\.aggregate\((.*)\)\n", placed)
        assert found is not None
        pipeline = json.loads(re.sub(r"([$\w]+):", r'"\1":', found[1]))
        shop = replica_set.client["shop"]
        place = Place(replica_set, "shop.orders", field="number")
        shop["orders__number"].drop()
        place.reservations = shop["orders__number"]
        place.collection.insert_many({"number": bson.Int64(number)} for number in (39, 40))
        place.collection.aggregate(pipeline)
        assert len(place.stored()) == 2 and not place.orphans()
        place.collection.insert_one({"number": 40})
        with pytest.raises(OperationFailure):
            place.collection.aggregate(pipeline)
        place.collection.delete_one({"number": {"$type": "int"}})
        rules = dict(re.findall(r"(?m)^[ -]*(ns|field|strategy): (\S+)$", text))
        (reserve,) = re.findall(r"reserve: (\{.*\})", text)
        rules["reserve"] = json.loads(re.sub(r"(\w+)", r'"\1"', reserve))
        proxy = start_proxy(configuration(replica_set, [rules]))
        eventually(lambda: insert(proxy, place.ns, [{"customer": 7}] * 3)["ok"], 20)
        assert sorted(place.stored()) == [39, 40, 41, 42, 43]
        assert place.agree() == 5


def test_upserts_get_none(server, proxy):
    place = begun(server, proxy)
    with proxy.client() as client:
        client["res"][place.collection.name].update_one({"k": 1}, {"$set": {"x": 1}}, upsert=True)
        rules = client.admin.command("idproxy", "status")["rules"]
    its = next(each for each in rules if each["ns"] == place.ns)
    assert its["forwarded"] == {"reserved": 1}
    assert "n" not in place.collection.find_one({"k": 1})


def test_values_before_an_insert(server, proxy):
    """Each value is reserved for a document, so there is none without one."""
    place = begun(server, proxy)
    with proxy.client() as client:
        with pytest.raises(OperationFailure, match="the rule reserves each value for one") as failure:
            client.admin.command("idproxy", "next", ns=place.ns, field="n")
        assert failure.value.code == 2
        with pytest.raises(OperationFailure, match="no rule fills this field"):
            client.admin.command("idproxy", "next", ns=place.ns, field="_id")
    assert insert(proxy, place.ns, 1)["n"] == 1
    assert list(place.stored()) == [1], "none was used up"
    assert place.agree() == 1
