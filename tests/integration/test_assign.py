"""{idproxy: "assign"}: a document that is stored gets the value that it lacks, once."""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import signal
import subprocess
import threading
import time
import uuid
from typing import Any

import bson
import pymongo
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from support.backfill import Backfill
from support.counters import STORE
from support.elements import elements
from support.full import FULL
from support.guarded import Guarded
from support.mongod import Mongod
from support.pair import Pair
from support.process import eventually
from support.proxy import Proxy, binary, configuration
from support.secrets import PASSWORD
from support.threads import Threads, at_once
from support.values import DEFAULTS, Variant

BAD_VALUE = 2
UNAUTHORIZED = 13
DOCUMENT_IS_MISSING = {"value": None, "modified": False, "found": False}

RULES = [
    {"ns": "pub.*", "field": "number", "strategy": "counter", "start": 100},
    {"ns": "pub.*", "field": "key", "strategy": "uuid", "assign": "missing-or-zero"},
    {"ns": "pub.*", "field": "meta.code", "strategy": "random-digits", "digits": 4},
    {"ns": "pub.*", "field": "_id", "strategy": "objectid", "assign": "driver"},
    {"ns": "tenants.*", "field": "n", "strategy": "counter", "scope": ["tenant"],
     "unique_index": "create"},
    {"ns": "texts.*", "field": "label", "strategy": "counter", "output": "string",
     "template": "{field:tenant}-{counter:04}", "unique_index": "create"},
    {"ns": "lessgaps.*", "field": "n", "strategy": "gapless"},
    {"ns": "made.*", "field": "n", "strategy": "counter", "unique_index": "create"},
    {"ns": "held.held", "field": "n", "strategy": "counter",
     "reserve": {"collection": "reserved"}},
    *({"ns": f"made-{v.name}.*", "field": "made", **v.rule} for v in DEFAULTS),
]


def assign(client: pymongo.MongoClient, ns: str, where: dict[str, Any], field: str = "number",
           session: Any = None, **more: Any) -> dict[str, Any]:
    """The answer, without what every answer has."""
    answer = client.admin.command(
        {"idproxy": "assign", "ns": ns, "field": field, "filter": where, **more}, session=session)
    assert answer["ok"] == 1
    return {key: value for key, value in answer.items()
            if key not in ("ok", "operationTime", "$clusterTime")}


def refusal(*args: Any, **more: Any) -> OperationFailure:
    with pytest.raises(OperationFailure) as refused:
        assign(*args, **more)
    return refused.value


def drafts(server: Mongod, ns: str, *documents: dict[str, Any]) -> pymongo.collection.Collection:
    """As the application has stored them without a proxy, or before there was a rule."""
    db, _, name = ns.partition(".")
    collection = server.client[db].get_collection(name, write_concern=WriteConcern("majority"))
    if documents:
        collection.insert_many(documents)
    return collection


@pytest.fixture
def ns(coll: str) -> str:
    return f"pub.{coll}"


@pytest.mark.parametrize("server", ["standalone", "replica_set"], indirect=True)
def test_one_that_lacks_it(server, proxy, ns):
    stored = drafts(server, ns, {"_id": 1, "a": [1, {"b": 2}]}, {"_id": 2, "meta": {"x": 1}})
    with proxy.client() as client:
        first = assign(client, ns, {"_id": 1})
        assert first == {"value": 100, "modified": True}
        assert isinstance(first["value"], int)
        assert assign(client, ns, {"_id": 1}) == {"value": 100, "modified": False, "found": True}
        key = assign(client, ns, {"_id": 2}, "key")["value"]
        code = assign(client, ns, {"_id": 2}, "meta.code")["value"]
        assert assign(client, ns, {"_id": 9}) == DOCUMENT_IS_MISSING
        client.pub[stored.name].insert_one({"_id": 3})
    assert stored.find_one({"_id": 1}) == {"_id": 1, "a": [1, {"b": 2}], "number": 100}
    assert stored.find_one({"_id": 2}) == {"_id": 2, "meta": {"x": 1, "code": code}, "key": key}
    # What nobody has used comes back, and is the next one.
    assert stored.find_one({"_id": 3})["number"] == 101


@pytest.mark.parametrize("variant", DEFAULTS, ids=lambda each: each.name)
def test_every_strategy(server, proxy, coll, variant: Variant):
    """As an insert gets it; the answer has what is stored."""
    ns = f"made-{variant.name}.{coll}"
    collection = drafts(server, ns, *({"_id": i} for i in range(3)))
    collection.create_index("made", unique=True, sparse=True)
    raw = CodecOptions(document_class=RawBSONDocument)
    with proxy.client() as client:
        answers = [client.admin.command(
            {"idproxy": "assign", "ns": ns, "field": "made", "filter": {"_id": i}}, codec_options=raw)
            for i in (0, 1, 2, 0)]
        getattr(client, f"made-{variant.name}")[coll].insert_one({"_id": 3})
    given = [elements(each.raw)[0] for each in answers]
    assert [each.name for each in given] == [b"value"] * 4 and given[3] == given[0]
    found = collection.with_options(raw).find().sort("_id")
    stored = [{e.name: e for e in elements(each.raw)}[b"made"] for each in found]
    assert [each.value for each in stored[:3]] == [each.value for each in given[:3]]
    assert len({each.value for each in stored}) == 4
    for each in stored:
        variant.check(each)


def test_a_value_that_is_there_stays(server, proxy, ns):
    zeros = [None, 0, 0.0, "", bson.ObjectId(24 * "0"), bson.Binary(bytes(16), 4)]
    values = [*zeros, 7, "x", [], [None], {}, False]
    stored = drafts(server, ns, *({"_id": i, "number": each, "key": each}
                                  for i, each in enumerate(values)))
    with proxy.client() as client:
        for i, value in enumerate(values):
            # `missing`: a null is a value.
            unchanged = {"value": value, "modified": False, "found": True}
            assert assign(client, ns, {"_id": i}) == unchanged
            if i < len(zeros):
                assert assign(client, ns, {"_id": i}, "key")["modified"]
            else:
                assert assign(client, ns, {"_id": i}, "key") == unchanged
    found = list(stored.find().sort("_id"))
    assert [each["number"] for each in found] == values
    assert len({uuid.UUID(bytes=bytes(each["key"])) for each in found[:len(zeros)]}) == len(zeros)
    assert [each["key"] for each in found[len(zeros):]] == values[len(zeros):]


def test_filters(server, proxy, ns):
    collection = drafts(server, ns, {"_id": 1, "sku": "a", "shop": 1}, {"_id": 2, "sku": "b"})
    with proxy.client() as client:
        refused = refusal(client, ns, {"sku": "a"})
        assert refused.code == BAD_VALUE and "name the _id" in str(refused)
        collection.create_index("sku", unique=True, partialFilterExpression={"shop": 1},
                                name="partial")
        collection.create_index([("sku", 1), ("kind", 1)], unique=True)
        collection.create_index("shop")
        collection.create_index("kind", unique=True, sparse=True, collation={"locale": "en"})
        for where in ({"sku": "a"}, {"shop": 1}, {"sku": "a", "shop": 1}, {"kind": "x"}):
            assert refusal(client, ns, where).code == BAD_VALUE
        assert assign(client, ns, {"sku": "a", "kind": "none"}) == DOCUMENT_IS_MISSING
        collection.drop_index("partial")
        collection.create_index("sku", unique=True)
        assert assign(client, ns, {"sku": "a"}) == {"value": 100, "modified": True}
        assert assign(client, ns, {"sku": "b", "shop": 1}) == DOCUMENT_IS_MISSING
        assert assign(client, f"{ns}-none", {"sku": "a"}) == DOCUMENT_IS_MISSING
        for where in ({}, {"_id": {"$gt": 0}}, {"_id": None}, {"$or": []}, {"sku": ["a"]}):
            assert refusal(client, ns, where).code == BAD_VALUE
    assert "number" not in collection.find_one({"_id": 2})


def test_what_it_cannot_give(server, proxy, coll):
    held = "held.held"
    drafts(server, held).delete_many({})
    drafts(server, held, {"_id": 1})
    drafts(server, f"none.{coll}", {"_id": 1})
    drafts(server, f"pub.{coll}", {"_id": 1})
    with proxy.client() as client:
        texts = [str(refusal(client, ns, {"_id": 1}, field)) for ns, field in (
            (held, "n"), (f"none.{coll}", "n"), (f"pub.{coll}", "_id"), (f"pub.{coll}", "other"))]
    for text, part in zip(texts, ("reserves", "applies to none", "_id of a stored", "number, key")):
        assert part in text
    assert server.client.held.held.find_one() == {"_id": 1}


def test_a_view_has_no_values(server, proxy, ns):
    collection = drafts(server, ns, {"_id": 1})
    server.client.pub.command("create", f"{collection.name}-view", viewOn=collection.name)
    with proxy.client() as client:
        refused = refusal(client, f"{ns}-view", {"_id": 1})
        assert "is a view: no rule applies to it" in str(refused)
    assert collection.find_one() == {"_id": 1}


def test_what_the_value_depends_on(server, proxy, coll):
    """Scope and template take their fields from the stored document."""
    stored = drafts(server, f"tenants.{coll}", *({"_id": i, "tenant": "ab"[i % 2]}
                                                 for i in range(4)), {"_id": 9})
    drafts(server, f"texts.{coll}", {"_id": 1, "tenant": "acme"}, {"_id": 2, "tenant": 7},
           {"_id": 3, "tenant": {"x": 1}})
    with proxy.client() as client:
        numbers = [assign(client, f"tenants.{coll}", {"_id": i}, "n")["value"] for i in range(4)]
        assert numbers == [1, 1, 2, 2]
        assert assign(client, f"tenants.{coll}", {"_id": 7}, "n") == DOCUMENT_IS_MISSING
        client.tenants[coll].insert_one({"tenant": "a"})
        assert assign(client, f"texts.{coll}", {"_id": 1}, "label")["value"] == "acme-0001"
        assert assign(client, f"texts.{coll}", {"_id": 2, "tenant": 7}, "label")["value"] == "7-0002"
        refused = refusal(client, f"texts.{coll}", {"_id": 3}, "label")
        assert refused.code == BAD_VALUE and "tenant" in str(refused)
    assert sorted(each["n"] for each in stored.find({"tenant": "a"})) == [1, 2, 3]


def test_a_taken_number_is_followed_by_the_next(server, proxy, ns):
    collection = drafts(server, ns, {"_id": 1}, {"_id": 2, "number": 100}, {"_id": 3, "number": 101})
    collection.create_index("number", unique=True, sparse=True)
    with proxy.client() as client:
        assert assign(client, ns, {"_id": 1})["value"] not in (100, 101)
    assert len(collection.distinct("number")) == 3


def test_with_an_index_of_the_proxys_own(server, proxy, coll):
    collection = drafts(server, f"made.{coll}", {"_id": 1})
    with proxy.client() as client:
        assert assign(client, f"made.{coll}", {"_id": 1}, "n")["modified"]
    assert any(index.get("unique") for index in collection.list_indexes())


class TestTransactions:
    def publish(self, client, session, name, k):
        """What a recipe does: its update and `assign`."""
        client.lessgaps[name].update_one({"_id": k}, {"$set": {"state": "published"}},
                                         session=session)
        return assign(client, f"lessgaps.{name}", {"_id": k}, "n", session)["value"]

    @pytest.fixture
    def collection(self, replica_set, coll):
        collection = drafts(replica_set, f"lessgaps.{coll}", *({"_id": i} for i in range(40)))
        collection.create_index("n", unique=True, sparse=True)
        return collection

    def test_an_abort_leaves_no_gap(self, replica_set, replica_proxy, collection):
        name = collection.name
        with replica_proxy.client() as client, client.start_session() as session:
            for k in range(10):
                with session.start_transaction():
                    value = self.publish(client, session, name, k)
                    if k % 3:
                        session.abort_transaction()
                    else:
                        assert value == k // 3 + 1
            # It may begin with `assign`, and read what it has written itself.
            with session.start_transaction(ReadConcern("snapshot")):
                assert assign(client, f"lessgaps.{name}", {"_id": 11}, "n", session)["value"] == 5
                again = assign(client, f"lessgaps.{name}", {"_id": 11}, "n", session)
                assert again == {"value": 5, "modified": False, "found": True}
                client.lessgaps[name].insert_one({"_id": "new", "n": 10**6}, session=session)
                new = assign(client, f"lessgaps.{name}", {"_id": "new"}, "n", session)
                assert new == {"value": 10**6, "modified": False, "found": True}
                client.lessgaps[name].delete_one({"_id": "new"}, session=session)
        assert sorted(collection.distinct("n")) == [1, 2, 3, 4, 5]
        assert {d["_id"] for d in collection.find({"state": "published"})} == {0, 3, 6, 9}

    @pytest.mark.parametrize("documents", ["the same", "different"])
    def test_eight_writers(self, replica_set, start_proxy, collection, record, documents):
        """Through two proxies, half of which abort: a number for each that is published."""
        proxies = [start_proxy(configuration(replica_set, RULES)) for _ in range(2)]
        name = collection.name
        given: list[tuple[int, int]] = []

        def write(i: int) -> None:
            rng = random.Random(i)
            with proxies[i % 2].client() as client, client.start_session() as session:
                own = range(40) if documents == "the same" else range(i, 40, 8)
                for k in rng.sample(own, len(own)):
                    try:
                        with session.start_transaction():
                            value = self.publish(client, session, name, k)
                            if rng.random() < 0.5:
                                session.abort_transaction()
                                continue
                        given.append((k, value))
                    except PyMongoError as error:
                        assert error.has_error_label("TransientTransactionError"), error
        at_once(*(lambda i=i: write(i) for i in range(8)))
        found = {d["_id"]: d["n"] for d in collection.find({"n": {"$exists": True}})}
        assert sorted(found.values()) == list(range(1, len(found) + 1))
        assert all(found[k] == value for k, value in given)
        assert {d["_id"] for d in collection.find({"state": "published"})} == set(found)
        record(f"documents that eight writers on {documents} have published", len(found))

    @pytest.mark.timeout(1800 if FULL else 180)
    def test_proxies_that_are_killed(self, replica_set, collection, request, record):
        """Between the update and `assign`, before the commit, or behind it: applications try again until they are
        told a number, and then no published document is without one, none has two, and none is missing."""
        lifetime = replica_set.client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=2)["was"]
        request.addfinalizer(lambda: replica_set.client.admin.command(
            "setParameter", 1, transactionLifetimeLimitSeconds=lifetime))
        pair = Pair(configuration(replica_set, RULES))
        request.addfinalizer(pair.kill)
        name, told = collection.name, {}
        if FULL:
            collection.insert_many([{"_id": i} for i in range(40, 400)])
        documents = collection.count_documents({})

        def write(i: int) -> None:
            for k in random.Random(i).sample(range(documents), documents):
                while k not in told:
                    with contextlib.suppress(PyMongoError), pymongo.MongoClient(
                            f"mongodb://{pair.address(i)}/?directConnection=true", serverSelectionTimeoutMS=2000
                            ) as client, client.start_session() as session:
                        with session.start_transaction():
                            value = self.publish(client, session, name, k)
                            time.sleep(random.random() / 50)
                        told[k] = value

        kills, dice = 0, random.Random(51)
        with Threads(*(lambda i=i: write(i) for i in range(4)), timeout=1000 if FULL else 120):
            while len(told) < documents:
                seen, end = len(told), time.monotonic() + dice.random() * 2
                while time.monotonic() < end and len(told) < min(seen + 4, documents):
                    time.sleep(0.005)
                time.sleep(dice.random() / 50)
                pair.kill_one(kills)
                kills += 1
        found = {d["_id"]: d["n"] for d in collection.find({"state": "published"})}
        assert found == told and sorted(told.values()) == list(range(1, documents + 1))
        record("proxies killed while documents were published", kills)
        assert kills > documents / 8


def test_writers_without_transactions(replica_set, start_proxy, coll):
    """Eight on the same forty documents, through two proxies: each has one number."""
    collection = drafts(replica_set, f"pub.{coll}", *({"_id": i} for i in range(40)))
    proxies = [start_proxy(configuration(replica_set, RULES)) for _ in range(2)]
    answers: list[tuple[int, dict[str, Any]]] = []

    def write(i: int) -> None:
        with proxies[i % 2].client() as client:
            for k in random.Random(i).sample(range(40), 40):
                answers.append((k, assign(client, f"pub.{coll}", {"_id": k})))
    at_once(*(lambda i=i: write(i) for i in range(8)))
    stored = {d["_id"]: d["number"] for d in collection.find()}
    assert len(set(stored.values())) == 40
    assert sum(answer["modified"] for _, answer in answers) == 40
    assert all(answer["value"] == stored[k] for k, answer in answers)


def test_a_proxy_that_is_killed(replica_set, coll):
    """Applications that ask again have a number for each document, and none has two."""
    collection = drafts(replica_set, f"lessgaps.{coll}", *({"_id": i} for i in range(36)))
    collection.create_index("n", unique=True, sparse=True)
    told: dict[int, int] = {}
    begun = threading.Event()

    def publish(client: pymongo.MongoClient) -> None:
        for k in range(36):
            if k not in told:
                told[k] = assign(client, f"lessgaps.{coll}", {"_id": k}, "n")["value"]
                if len(told) % 12 == 0:
                    begun.set()

    while len(told) < 36:
        begun.clear()
        proxy = Proxy(configuration(replica_set, RULES))

        def work(proxy: Proxy = proxy) -> None:
            with contextlib.suppress(PyMongoError), proxy.client() as client:
                publish(client)
            begun.set()
        with Threads(work):
            begun.wait(60)
            proxy.kill()
    assert {d["_id"]: d["n"] for d in collection.find()} == told
    assert sorted(told.values()) == list(range(1, 37))


@pytest.mark.parametrize("rights, may", [
    (["find"], False), (["find", "update"], False), (["find", "update", "insert"], True)])
def test_rights(guarded: Guarded, coll, start_proxy, rights, may):
    """Who may not insert there gets no number, and makes nothing through the proxy."""
    drafts(guarded, f"made.{coll}", {"_id": 1})
    user = f"user-{coll}"
    guarded.add_user(user, [], [
        {"resource": {"db": "made", "collection": coll}, "actions": rights}])
    proxy = start_proxy(configuration(guarded, RULES, id_store={"uri": guarded.uri_of("root")}))
    with pymongo.MongoClient(f"mongodb://{proxy.address}", username=user, password=PASSWORD,
                             directConnection=True) as client:
        if may:
            command = {"idproxy": "assign", "ns": f"made.{coll}", "field": "n", "filter": {"_id": 1}}
            eventually(lambda: client.admin.command(command, check=False).get("modified"), 20, "the index is made")
            refused = refusal(client, f"made.{coll}", {"sku": "a"}, "n")
            assert refused.code == UNAUTHORIZED and "only the collection's indexes" in str(refused)
            return
        assert refusal(client, f"made.{coll}", {"_id": 1}, "n").code == UNAUTHORIZED
    assert len(list(guarded.client.made[coll].list_indexes())) == 1
    assert not list(guarded.client[STORE].counters.find({"_id": {"$regex": coll}}))


# --- Rules with `when` ---

WHEN = [
    {"ns": "articles.*", "field": "number", "strategy": "counter",
     "when": {"status": "published", "kind": {"$in": [1, None]}, "meta.deleted": {"$exists": False}}},
    {"ns": "articles.*", "field": "key", "strategy": "uuid"},
    {"ns": "plain.*", "field": "n", "strategy": "counter", "upserts": "refuse",
     "when": {"status": "published"}},
    {"ns": "saved.*", "field": "n", "strategy": "counter", "keep": "always", "when": {"status": "published"}},
]
PUBLISHED = [{"status": "published"}, {"status": "published", "kind": 1}, {"status": "published", "kind": 1.0},
             {"status": "published", "kind": None, "meta": {"x": 1}}, {"status": "published", "meta": 5}]
DRAFTS = [{}, {"status": "draft"}, {"status": ["published"]}, {"status": "published", "kind": 2},
          {"status": "published", "kind": [1]}, {"status": "published", "meta": {"deleted": None}},
          {"status": "published", "meta": [{"x": 1}]}, {"status": {"published": 1}}]


@pytest.fixture(scope="module")
def when_proxy(replica_set: Mongod) -> Any:
    with Proxy(configuration(replica_set, WHEN)) as running:
        yield running


def inserts(client: pymongo.MongoClient, coll: str, documents: list[dict[str, Any]]) -> None:
    client.articles[coll].insert_many(documents)


def bulk(client: pymongo.MongoClient, coll: str, documents: list[dict[str, Any]]) -> None:
    client.articles[coll].bulk_write([pymongo.InsertOne(each) for each in documents], ordered=False)


@pytest.mark.parametrize("write", [inserts, bulk])
def test_only_documents_that_fulfil_the_conditions(replica_set, when_proxy, coll, write):
    documents = [{"_id": i, **each} for i, each in enumerate([*PUBLISHED, *DRAFTS, *PUBLISHED])]
    random.Random(1).shuffle(documents)
    with when_proxy.client() as client:
        write(client, coll, [*documents])
    stored = list(replica_set.client.articles[coll].find().sort("_id"))
    drafts_begin, drafts_end = len(PUBLISHED), len(PUBLISHED) + len(DRAFTS)
    numbers = [each.get("number") for each in stored]
    assert all(number is None for number in numbers[drafts_begin:drafts_end]), numbers
    assert sorted(numbers[:drafts_begin] + numbers[drafts_end:]) == list(range(1, 2 * drafts_begin + 1))
    assert all("key" in each for each in stored)


def test_an_index_of_the_applications_own_leaves_drafts_out(replica_set, when_proxy, coll):
    """As the page says: a plain one takes the second draft for a duplicate."""
    stored = replica_set.client.plain[coll]
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "recipes-drafts.md").read_text()
    assert "must be `sparse` or partial" in page and "the second one fails with error 11000" in page
    with when_proxy.client() as client:
        stored.create_index("n", unique=True, name="plain")
        client.plain[coll].insert_one({"_id": 1})
        with pytest.raises(DuplicateKeyError):
            client.plain[coll].insert_one({"_id": 2})
        stored.drop_index("plain")
        for i, options in enumerate(({"sparse": True}, {"partialFilterExpression": {"n": {"$exists": True}}})):
            stored.create_index("n", unique=True, name="own", **options)
            client.plain[coll].insert_many([{"_id": f"{i}a"}, {"_id": f"{i}b"}, {"_id": f"{i}c", "status": "published"}])
            stored.drop_index("own")
    assert [each.get("n") for each in stored.find({"status": "published"})] == [1, 2]


def test_a_reload_changes_the_conditions(replica_set, start_proxy, coll):
    rule = {"ns": f"plain.{coll}", "field": "n", "strategy": "counter", "when": {"status": "published"}}
    proxy = start_proxy(configuration(replica_set, [rule]))
    text = proxy._own_config.read_text()
    with proxy.client() as client:
        client.plain[coll].insert_many([{"_id": 0, "status": "published"}, {"_id": 1, "status": "sent"}])
    for i, (status, given) in enumerate((("sent", {"sent"}), (None, {"sent", "published", "draft"}), ("published", {"published"}))):
        when = {**rule, "when": status and {"status": status}}
        proxy._own_config.write_text(json.dumps({**json.loads(text), "rules": [when]}))
        proxy.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(proxy.find_events("reloaded")) == i + 1)
        with proxy.client() as client:
            client.plain[coll].insert_many([{"_id": f"{i}{each}", "status": each} for each in ("draft", "sent", "published")])
        found = replica_set.client.plain[coll].find({"_id": {"$regex": f"^{i}"}, "n": {"$exists": True}})
        assert {each["status"] for each in found} == given
    assert sorted(replica_set.client.plain[coll].distinct("n")) == list(range(1, 7))


def test_upserts_of_a_rule_with_conditions(replica_set, when_proxy, coll):
    """A literal decides; what only the server knows is refused."""
    published, draft = {"status": "published"}, {"status": "draft"}
    with when_proxy.client() as client:
        through = client.plain[coll]
        for i, (where, change) in enumerate((
                ({}, {"$set": published}), ({}, {"$setOnInsert": published}), (published, {"$set": {"x": 1}}),
                ({}, {"$set": draft}), (draft, {"$set": {"x": 1}}), ({}, {"$set": {"x": 1}}))):
            through.update_one({"k": i, **where}, change, upsert=True)
        for change in ([{"$set": published}], {"$set": {"x": 1}}):
            where = {"k": 9} if isinstance(change, list) else {"k": 9, "status": {"$gt": "o"}}
            with pytest.raises(OperationFailure, match="depends_on_document"):
                through.update_one(where, change, upsert=True)
        # Nothing gives a stored document a number but `assign`.
        through.update_many({}, {"$set": published})
        assert assign(client, f"plain.{coll}", {"_id": through.find_one({"k": 3})["_id"]}, "n")["value"] == 4
    stored = {each["k"]: each.get("n") for each in replica_set.client.plain[coll].find()}
    assert stored == {0: 1, 1: 2, 2: 3, 3: 4, 4: None, 5: None}


def test_saving_gives_no_draft_a_number_and_takes_none_away(replica_set, when_proxy, coll):
    """By replacements, alone and together, and by setting each field."""
    with when_proxy.client() as client:
        through = client.saved[coll]
        through.insert_many([{"_id": 1, "status": "draft"}, {"_id": 2, "status": "published"}])
        through.replace_one({"_id": 1}, {"status": "published"}, upsert=True)
        through.bulk_write([pymongo.ReplaceOne({"_id": i}, {"status": "published", "x": 1}, upsert=True)
                            for i in (1, 2)])
        for i in (2, 3):
            through.update_one({"_id": i}, {"$set": {"status": "draft", "n": None}}, upsert=True)
        assert list(replica_set.client.saved[coll].find().sort("_id")) == [
            {"_id": 1, "status": "published", "x": 1}, {"_id": 2, "status": "draft", "x": 1, "n": 1},
            {"_id": 3, "status": "draft"}]
        assert assign(client, f"saved.{coll}", {"_id": 3}, "n") == {"value": 2, "modified": True}


def test_backfill_and_verify_leave_drafts_alone(replica_set, coll, tmp_path):
    stored = replica_set.client.articles[coll]
    stored.insert_many([{"_id": i, **each} for i, each in enumerate([*PUBLISHED, *DRAFTS])])
    stored.create_index("number", unique=True, sparse=True)
    config = configuration(replica_set, [{**WHEN[0], "ns": f"articles.{coll}"}])
    done = Backfill(tmp_path, config, f"articles.{coll}", "number").end()
    assert done.code == 0 and done.number("given") == len(PUBLISHED) and done.number("left") == 0, done
    assert [each.get("number") for each in stored.find().sort("_id")] == [
        *range(1, len(PUBLISHED) + 1), *(None for _ in DRAFTS)]
    file = tmp_path / "verify.yaml"
    file.write_text(json.dumps(config))
    verified = subprocess.run(
        [binary(), "verify", "--config", file, "--ns", f"articles.{coll}", "--field", "number"],
        capture_output=True, text=True, timeout=60, check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    stored.delete_one({"_id": 0})
    stored.insert_one({"_id": "late", "status": "published"})
    verified = subprocess.run(
        [binary(), "verify", "--config", file, "--ns", f"articles.{coll}", "--field", "number"],
        capture_output=True, text=True, timeout=60, check=False)
    assert verified.returncode == 1 and "late" in verified.stdout, verified.stdout
