"""{idproxy: "next"}: values that an application gets before it inserts, and who gets them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pymongo
import pytest
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.server_api import ServerApi

from support import wire
from support.elements import elements
from support.guarded import Guarded
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, configuration
from support.servers import has
from support.thief import Robbed
from support.values import DEFAULTS, Variant
from support.wire import WireClient

BAD_VALUE = 2
HOST_UNREACHABLE = 6
UNAUTHORIZED = 13
OPERATION_FAILED = 96
NOT_IN_TRANSACTIONS = 263
NOT_WRITABLE_PRIMARY = 10107

RULES = [{"ns": "*.numbered*", "field": "number", "strategy": "counter", "start": 1000},
         {"ns": "*.numbered*", "field": "code", "strategy": "random-digits", "digits": 6},
         {"ns": "*.numbered*", "field": "key", "strategy": "uuid", "version": 7},
         {"ns": "*.numbered*", "field": "label.text", "strategy": "counter", "output": "string",
          "format": {"prefix": "R-" + 200 * "x"}},
         {"ns": "*.numbered*", "field": "_id", "strategy": "objectid"},
         *({"ns": f"next.{v.name}-*", "field": "made", **v.rule} for v in DEFAULTS)]


def ask(client: pymongo.MongoClient, ns: str, field: str = "number",
        **more: Any) -> dict[str, Any]:
    return client.admin.command({"idproxy": "next", "ns": ns, "field": field, **more})


def next_of(client: pymongo.MongoClient, ns: str, field: str = "number",
            **more: Any) -> list[Any]:
    return ask(client, ns, field, **more)["ids"]


def message(ns: str, field: str = "number", **more: Any) -> dict[str, Any]:
    """The command for a WireClient."""
    return {"idproxy": "next", "ns": ns, "field": field, **more, "$db": "admin"}


def refusal(client: pymongo.MongoClient, ns: str, field: str = "number",
            **more: Any) -> OperationFailure:
    with pytest.raises(OperationFailure) as refused:
        ask(client, ns, field, **more)
    return refused.value


@pytest.fixture
def ns(coll: str) -> str:
    return f"shop.numbered-{coll}"


# --- Values ---

@pytest.mark.tsan
def test_values_of_each_strategy(proxy: Proxy, server: Mongod, ns: str) -> None:
    with proxy.client() as client:
        first = next_of(client, ns)
        assert first == [1000] and isinstance(first[0], int)
        assert next_of(client, ns, count=3) == [1001, 1002, 1003]
        codes = next_of(client, ns, "code", count=5000)
        assert len(set(codes)) == 5000 and all(0 <= code < 10**6 for code in codes)
        keys = [key.as_uuid() if isinstance(key, bson.Binary) else key
                for key in next_of(client, ns, "key", count=100)]
        assert len(set(keys)) == 100 and {uuid.UUID(str(key)).version for key in keys} == {7}
        assert keys == sorted(keys)
        labels = next_of(client, ns, "label.text", count=2)
        assert [label[202:] for label in labels] == ["1", "2"]
        (made,) = next_of(client, ns, "_id")
        assert isinstance(made, bson.ObjectId)
    db, _, name = ns.partition(".")
    assert name not in server.client[db].list_collection_names(), "asking stores nothing"


@pytest.mark.parametrize("variant", DEFAULTS, ids=lambda each: each.name)
def test_values_as_an_insert_gets_them(proxy: Proxy, coll: str, variant: Variant) -> None:
    with proxy.raw_client() as client:
        client.send(wire.command(message(f"next.{variant.name}-{coll}", "made", count=3)))
        ids, *_ = elements(client.receive().body_bytes)
        assert ids.name == b"ids"
        values = elements(ids.value)
        assert len({each.value for each in values}) == 3
        for each in values:
            variant.check(each)


def test_an_insert_goes_on_behind_them(proxy: Proxy, server: Mongod, ns: str) -> None:
    db, _, name = ns.partition(".")
    with proxy.client() as client:
        assert next_of(client, ns, count=2) == [1000, 1001]
        client[db][name].insert_one({"own": True})
        client[db][name].insert_one({"number": 1001})
        assert next_of(client, ns) == [1003]
    stored = server.client[db][name].find().sort("number")
    assert [document["number"] for document in stored] == [1001, 1002]


@pytest.mark.parametrize("count", [1, bson.Int64(1), 1.0])
def test_a_count_of_any_kind(proxy: Proxy, ns: str, count: Any) -> None:
    with proxy.client() as client:
        assert len(next_of(client, ns, "key", count=count)) == 1


def test_as_many_as_an_insert_may_have(proxy: Proxy, ns: str) -> None:
    with proxy.client() as client:
        assert next_of(client, ns, count=100_000) == list(range(1000, 101_000))
        assert refusal(client, ns, count=100_001).code == BAD_VALUE
        # Texts of 200 characters do not fit into one reply, and none of them is lost.
        too_long = refusal(client, ns, "label.text", count=100_000)
        assert (too_long.code, too_long.details["codeName"]) == (10334, "BSONObjectTooLarge")
        assert next_of(client, ns, "label.text", count=50_000)[0].endswith("x1")


@pytest.mark.tsan
def test_answers_in_turn(proxy: Proxy, ns: str) -> None:
    db, _, name = ns.partition(".")
    insert = {"insert": name, "documents": [{}], "$db": db}
    ping = {"ping": 1, "$db": "admin"}
    bodies = [ping, message(ns), insert, message(ns), message(ns, "none"), ping, message(ns),
              {**message(ns), "zork": 1}, ping]
    with WireClient(proxy.address) as client:
        client.send(b"".join(wire.command(body, request_id=i) for i, body in enumerate(bodies)))
        replies = [client.receive() for _ in bodies]
        assert [reply.response_to for reply in replies] == list(range(len(bodies)))
        assert [reply.body.get("ids") for reply in replies] == [
            None, [1000], None, [1002], None, None, [1003], None, None]


@pytest.mark.parametrize("flags", [0, wire.CHECKSUM_PRESENT, wire.EXHAUST_ALLOWED])
def test_flags(proxy: Proxy, ns: str, flags: int) -> None:
    with WireClient(proxy.address) as client:
        for field, is_answered in [("key", True), ("key", True), ("none", False)]:
            client.send(wire.command(message(ns, field), flags=flags))
            reply = client.receive()
            assert reply.flags == flags & wire.CHECKSUM_PRESENT
            assert ("ids" in reply.body) == is_answered


def test_says_nothing_to_who_wants_no_reply(proxy: Proxy, ns: str) -> None:
    with WireClient(proxy.address) as client:
        client.send(wire.command(message(ns), flags=wire.MORE_TO_COME))
        client.send(wire.command(message(ns), request_id=5))
        reply = client.receive()
        assert (reply.response_to, reply.body["ids"]) == (5, [1000])


def test_sections_of_other_kinds(proxy: Proxy, ns: str) -> None:
    with WireClient(proxy.address) as client:
        client.send(wire.op_msg(wire.sequence("x", [{}]), wire.body(message(ns))))
        assert client.receive().body["ids"] == [1000]


def test_is_counted(start_proxy: Callable[..., Proxy], server: Mongod, ns: str) -> None:
    proxy = start_proxy(configuration(server, RULES))
    with proxy.client() as client:
        next_of(client, ns, count=7)
        refusal(client, ns, "none")
        numbers, codes = client.admin.command("idproxy", "status")["rules"][:2]
        assert (numbers["handed_out"], numbers["values"]) == (7, 0)
        assert codes["handed_out"] == 0
    proxy.stop()
    assert proxy.wait_event("stopped")["values_handed_out"] == 7


# --- Errors ---

@pytest.mark.parametrize("body, code, name", [
    ({"ns": "shop.numbered"}, 40414, "Location40414"),
    ({"field": "number"}, 40414, "Location40414"),
    ({"ns": "shop.numbered", "field": "number", "zork": 1}, 40415, "Location40415"),
    ({"ns": 1, "field": "number"}, 14, "TypeMismatch"),
    ({"ns": "shop.numbered", "field": "number", "count": "1"}, 14, "TypeMismatch"),
    ({"ns": "shop.numbered", "field": "number", "count": True}, 14, "TypeMismatch"),
    ({"ns": "shop.numbered", "field": "number", "count": 1.5}, 9, "FailedToParse"),
    ({"ns": "shop.numbered", "field": "number", "count": 0}, BAD_VALUE, "BadValue"),
    ({"ns": "shop", "field": "number"}, 73, "InvalidNamespace"),
    ({"ns": "shop.numbered", "field": "number", "$db": "shop"}, UNAUTHORIZED, "Unauthorized"),
], ids=str)
def test_a_request_that_is_none(proxy: Proxy, body: dict[str, Any], code: int, name: str) -> None:
    with WireClient(proxy.address) as client:
        reply = client.call({"idproxy": "next", "$db": "admin", **body})
        assert (reply["ok"], reply["code"], reply["codeName"]) == (0, code, name)


def test_what_every_command_may_have(proxy: Proxy, ns: str) -> None:
    api = ServerApi("1", strict=True) if has("strict_api") else None
    with proxy.client(server_api=api) as client, \
            client.start_session() as session:
        reply = client.admin.command(
            {"idproxy": "next", "ns": ns, "field": "number", "comment": {"a": 1}},
            session=session, read_preference=pymongo.ReadPreference.PRIMARY_PREFERRED,
            maxTimeMS=5000)
        assert reply["ids"] == [1000]


def test_a_field_that_no_rule_fills(proxy: Proxy, ns: str) -> None:
    with proxy.client() as client:
        refused = refusal(client, ns, "numbr")
        assert refused.code == BAD_VALUE
        assert "number, code, key, label.text, _id" in str(refused)
        refused = refusal(client, "shop.others")
        assert refused.code == BAD_VALUE and "no rule applies to shop.others" in str(refused)


def test_views_and_time_series(
        start_proxy: Callable[..., Proxy], standalone: Mongod, coll: str) -> None:
    db = standalone.client.shop
    view, readings = f"numbered-view-{coll}", f"numbered-readings-{coll}"
    db.create_collection(view, viewOn="orders")
    names = [view]
    if has("time_series"):
        names.append(readings)
        db.create_collection(readings, timeseries={"timeField": "at"})
    rules = [{**RULES[0], "ns": f"shop.{name}"} for name in names]
    proxy = start_proxy(configuration(standalone, rules))
    with proxy.client() as client:
        def known() -> bool:
            return not any(each["ready"] for each in client.admin.command("idproxy", "status")["rules"])
        eventually(known, 40, "the proxy has looked at them")
        for name in names:
            refused = refusal(client, f"shop.{name}")
            assert refused.code == BAD_VALUE
            assert "a view or a time-series collection" in str(refused)


def test_system_collections(proxy: Proxy) -> None:
    with proxy.client() as client:
        assert refusal(client, "shop.system.numbered").code == 73


def test_a_rule_that_is_not_ready(
        start_proxy: Callable[..., Proxy], server: Mongod, ns: str) -> None:
    proxy = start_proxy(configuration(server, [{**RULES[0], "ns": ns, "unique_index": "require"}]))
    with proxy.client() as client:
        refused = refusal(client, ns)
        assert refused.code == OPERATION_FAILED
        assert "number" in str(refused) and "createIndex" in str(refused)


def test_a_counter_that_is_exhausted(
        start_proxy: Callable[..., Proxy], server: Mongod, ns: str) -> None:
    rule = {**RULES[0], "ns": ns, "max": 1002}
    proxy = start_proxy(configuration(server, [rule]))
    with proxy.client() as client:
        assert next_of(client, ns, count=3) == [1000, 1001, 1002]
        assert refusal(client, ns).code == OPERATION_FAILED


def test_a_store_that_is_down(
        start_proxy: Callable[..., Proxy], standalone: Mongod, ns: str) -> None:
    proxy = start_proxy(configuration(
        standalone, RULES, id_store={"uri": f"mongodb://127.0.0.1:{free_port()}"}))
    with proxy.client() as client:
        refused = refusal(client, ns)
        assert refused.code == HOST_UNREACHABLE
        assert "no value for field 'number'" in str(refused)
        assert len(next_of(client, ns, "key")) == 1, "made without the store"


# --- Transactions ---

def test_outside_of_transactions(
        replica_proxy: Proxy, replica_set: Mongod, ns: str) -> None:
    db, _, name = ns.partition(".")
    with replica_proxy.client() as client, client.start_session() as session:
        def work(session: Any) -> None:
            client[db][name].insert_one({"number": 1}, session=session)
            with pytest.raises(OperationFailure) as refused:
                client.admin.command({"idproxy": "next", "ns": ns, "field": "number"},
                                     session=session)
            assert refused.value.code == NOT_IN_TRANSACTIONS
            assert refused.value.details["codeName"] == "OperationNotSupportedInTransaction"
            (number,) = next_of(client, ns)
            client[db][name].insert_one({"number": number}, session=session)
            assert next_of(client, ns) == [number + 1]
            client[db][name].insert_one({"number": number + 2}, session=session)
        session.with_transaction(work)
    stored = replica_set.client[db][name].find().sort("number")
    assert [document["number"] for document in stored] == [1, 1000, 1002]


# --- Who gets them ---

@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with Guarded() as mongod:
        mongod.add_user("seller", [{"role": "readWrite", "db": "shop"}])
        mongod.add_user("inserter", [], [{"resource": {"db": "shop", "collection": "numbered"},
                                          "actions": ["insert"]}])
        mongod.add_user("reader", [{"role": "read", "db": "shop"}])
        mongod.add_user("admin", ["userAdminAnyDatabase", "clusterAdmin"])
        yield mongod


@pytest.fixture(scope="module")
def guarded_proxy(guarded: Guarded) -> Iterator[Proxy]:
    with Proxy(configuration(guarded, RULES, id_store={"uri": guarded.uri_of("root")})) as running:
        yield running


def client_of(proxy: Proxy, user: str, **options: Any) -> pymongo.MongoClient:
    return proxy.client(username=user, password="secret", authSource="admin", **options)


def test_is_for_those_who_may_insert(guarded: Guarded, guarded_proxy: Proxy) -> None:
    for user in ["seller", "inserter"]:
        with client_of(guarded_proxy, user) as client:
            assert len(next_of(client, "shop.numbered", count=2)) == 2
    for user, ns in [("reader", "shop.numbered"), ("admin", "shop.numbered"),
                     ("inserter", "shop.numbered2"), ("seller", "bank.numbered"),
                     ("reader", "shop.others"), ("seller", "bank.others")]:
        with client_of(guarded_proxy, user) as client:
            for _ in range(2):
                refused = refusal(client, ns)
                assert refused.code == UNAUTHORIZED and "who may insert" in str(refused)
                assert "rule" not in str(refused)
    assert guarded.client.shop.list_collection_names() == []


@pytest.mark.tsan
def test_tells_nobody_without_a_login(guarded_proxy: Proxy) -> None:
    with WireClient(guarded_proxy.address) as client:
        for _ in range(2):
            said = client.call(message("shop.numbered"))
            assert (said["code"], said["codeName"]) == (UNAUTHORIZED, "Unauthorized")
            assert "authentication" in said["errmsg"]


def test_a_right_is_remembered_until_a_logout(guarded: Guarded, guarded_proxy: Proxy) -> None:
    guarded.add_user("passing", [{"role": "readWrite", "db": "shop"}])
    # One connection.
    with client_of(guarded_proxy, "passing", maxPoolSize=1) as client:
        next_of(client, "shop.numbered")
        guarded.client.admin.command("revokeRolesFromUser", "passing", roles=[
            {"role": "readWrite", "db": "shop"}])
        next_of(client, "shop.numbered")
        assert refusal(client, "shop.numbered2").code == UNAUTHORIZED, "another collection"
        next_of(client, "shop.numbered", "key")
        client.admin.command("logout")
        assert refusal(client, "shop.numbered").code == UNAUTHORIZED
    with client_of(guarded_proxy, "passing") as client:
        assert refusal(client, "shop.numbered").code == UNAUTHORIZED, "another connection"


def test_the_server_is_asked_once(
        start_robbed: Callable[..., Robbed], replica_set: Mongod, ns: str) -> None:
    robbed = start_robbed(replica_set, RULES)
    db, _, name = ns.partition(".")
    with robbed.proxy.client(maxPoolSize=1) as client, client.start_session() as session:
        for _ in range(3):
            ask(client, ns, comment="mine")
        client.admin.command({"idproxy": "next", "ns": ns, "field": "number"}, session=session)
        client.admin.command("hello")
        next_of(client, ns)
    asked = [{**m.body, "documents": m.documents} for m in robbed.thief.inserts(ns)]
    question = {"insert": name, "documents": [{"_id": []}], "writeConcern": {"w": 1}}
    assert asked == [{**question, "comment": "mine", "$db": db}, {**question, "$db": db}]
    assert not any("idproxy" in (m.body or {}) for m in robbed.thief.messages
                   if m.direction == "to_server")


# --- Servers that do not take writes ---

def test_a_member_that_is_no_primary(
        replica_proxy: Proxy, replica_set: Mongod, ns: str) -> None:
    with WireClient(replica_proxy.address) as client:
        try:
            replica_set.client.admin.command(
                "replSetStepDown", 120, force=True, secondaryCatchUpPeriodSecs=0)
        except AutoReconnect:
            pass
        try:
            said = client.call(message(ns))
            assert (said["ok"], said["code"]) == (0, NOT_WRITABLE_PRIMARY)
            assert said["codeName"] == "NotWritablePrimary" and "topologyVersion" in said
        finally:
            replica_set.client.admin.command("replSetFreeze", 0)
    with replica_proxy.client() as client:
        def ask_primary() -> bool:
            try:
                return next_of(client, ns) == [1000]
            except (AutoReconnect, OperationFailure):
                return False
        eventually(ask_primary, 60, "there is a primary again")
