"""What comes back of a write's numbers when it ends early: those that mongod never got, and those
of which it says that they are not stored. The next insert gets them, so that no gap is left; and no
number is stored twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pymongo
import pytest
from bson import Int64
from pymongo.errors import AutoReconnect, OperationFailure

from support import wire
from support.admin import LISTEN
from support.counters import insert, numbers
from support.guarded import Guarded
from support.middleman import Cut
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.scrape import metric
from support.secrets import PASSWORD
from support.thief import Passed, Thief

PART = 20_000
"""So many statements of an unordered write go in one command."""
COUNT = PART + 2

RULES: list[dict[str, Any]] = [
    {"ns": "ends.counter*", "field": "n", "strategy": "counter"},
    {"ns": "ends.ranges*", "field": "n", "strategy": "counter-ranges",
     "ranges": {"count": 1, "width": 1_000_000}},
    {"ns": "ends.scoped*", "field": "n", "strategy": "counter", "scope": ["tenant"],
     "unique_index": "create"},
    {"ns": "ends.upserted*", "field": "n", "strategy": "counter"},
    {"ns": "ends.both", "field": "n", "strategy": "counter"},
    {"ns": "ends.both", "field": "turn", "strategy": "gapless", "unique_index": "create"},
]


@pytest.fixture(scope="module")
def ends(replica_set: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(replica_set, RULES, admin=LISTEN)) as proxy:
        yield proxy


def failpoint(server: Mongod, mode: Any, **data: Any) -> int:
    """Returns how often it had been entered."""
    return server.client.admin.command(
        "configureFailPoint", "failCommand", mode=mode, **({"data": data} if data else {}))["count"]


def write(kind: str, name: str, count: int = 1, **options: Any) -> dict[str, Any]:
    """An unordered command with so many statements, each of which stores a document."""
    if kind == "upserted":
        return {"update": name, "ordered": False, **options, "updates": [
            {"q": {"_id": bson.ObjectId()}, "u": {"$set": {"x": 1}}, "upsert": True}
            for _ in range(count)]}
    return {"insert": name, "ordered": False, **options, "documents": [
        {"_id": bson.ObjectId(), "tenant": "a"} for _ in range(count)]}


@dataclasses.dataclass
class Target:
    """A collection in which one document has got the first number."""

    kind: str
    name: str
    client: pymongo.MongoClient
    server: Mongod
    proxy: Proxy

    def __post_init__(self) -> None:
        self.store()
        self.first = self.numbers()[0]

    def store(self, count: int = 1, **options: Any) -> None:
        reply = self.client["ends"].command(write(self.kind, self.name, count, **options))
        if errors := reply.get("writeErrors"):
            raise OperationFailure(errors[0]["errmsg"], errors[0]["code"])

    def numbers(self) -> list[int]:
        return sorted(each["n"] for each in self.server.client["ends"][self.name].find())

    def assigned(self) -> int:
        return int(metric(self.proxy, "idproxy_rule_values_assigned_total"))

    def expect_next(self, behind_first: int) -> None:
        before = self.numbers()
        self.store()
        after = self.numbers()
        assert len(set(after)) == len(after)
        assert (set(after) - set(before)) == {self.first + behind_first}


@dataclasses.dataclass
class Cause:
    """What mongod does with a part."""

    name: str
    does: dict[str, Any]
    stores_nothing: bool = False  # and says so


DENIED = Cause("not_authorized", {"errorCode": 13}, stores_nothing=True)
STEPPED_DOWN = Cause("not_primary", {"errorCode": 10107})
CLOSED = Cause("closed", {"closeConnection": True})
CAUSES = [
    DENIED, STEPPED_DOWN, CLOSED,
    Cause("time_is_over", {"errorCode": 50}),
    Cause("shuts_down", {"errorCode": 91}),
    Cause("interrupted", {"errorCode": 11600}),
]
# The others have the same way through the proxy as a counter, but for what this shows.
ROWS = [("counter", cause, part) for cause in CAUSES for part in (0, 1)] + [
    (kind, cause, part) for kind in ("ranges", "scoped", "upserted")
    for cause, part in ((DENIED, 1), (STEPPED_DOWN, 0), (CLOSED, 0))]


@pytest.mark.parametrize(
    "kind, cause, part", ROWS, ids=[f"{kind}-{cause.name}-{part}" for kind, cause, part in ROWS])
def test_a_part_fails(replica_set: Mongod, ends: Proxy, kind: str, cause: Cause, part: int):
    """The numbers of a part of which nobody knows whether it is stored are the only gap."""
    target = Target(kind, f"{kind}_{cause.name}_{part}", ends.client(), replica_set, ends)
    before = target.assigned()
    command = "update" if kind == "upserted" else "insert"
    failpoint(replica_set, {"skip": part} if part else {"times": 1}, failCommands=[command],
              namespace=f"ends.{target.name}", **cause.does)
    # A client of its own, which looks for another primary after it.
    with ends.client() as client, pytest.raises((OperationFailure, AutoReconnect)):
        client["ends"].command(write(kind, target.name, COUNT))
    failpoint(replica_set, "off")
    assert len(target.numbers()) == 1 + part * PART
    assert target.assigned() - before == (PART if part == 0 else COUNT)
    begin, end = (0, PART) if part == 0 else (PART, COUNT)
    target.expect_next(1 + (begin if cause.stores_nothing else end))


def test_the_answer_to_a_part_is_lost(standalone: Mongod):
    ns = "ends.counter_cut"

    def cut(message: Passed) -> bytes:
        if message.direction == "to_client" and message.response_to in [
                each.request_id for each in thief.inserts(ns)]:
            raise Cut
        return message.raw

    with Thief(standalone) as thief, Proxy(
            configuration(thief, RULES[:1], store=standalone)) as proxy:
        insert(proxy, ns, 1)
        with thief.hook(cut), pytest.raises(wire.Closed):
            insert(proxy, ns, COUNT, ordered=False)
        assert len(numbers(standalone.client, ns)) == 1 + PART
        insert(proxy, ns, 1)
    assert sorted(numbers(standalone.client, ns)) == list(range(1, PART + 3))


def test_only_a_question_was_sent(replica_set: Mongod, ends: Proxy):
    """Whether the insert was executed before: its answer takes longer than the client waits."""
    collection = replica_set.client["ends"]["both"]

    def insert_two(*keys: int, **options: Any) -> dict[str, Any]:
        body = {"insert": "both", "$db": "ends", "txnNumber": Int64(1), **options,
                "lsid": {"id": bson.Binary(bson.ObjectId().binary + b"four", 4)}}
        with wire.WireClient(ends.address) as client:
            client.send(wire.op_msg(wire.body(body), wire.sequence(
                "documents", [{"_id": key} for key in keys])))
            return client.receive().body

    assert insert_two(1, 2)["n"] == 2
    assigned = metric(ends, "idproxy_rule_values_assigned_total")
    failpoint(replica_set, {"times": 1}, failCommands=["insert", "update"], namespace="ends.both",
              blockConnection=True, blockTimeMS=1500)
    assert insert_two(3, 4, maxTimeMS=700)["code"] == 50
    failpoint(replica_set, "off")
    assert metric(ends, "idproxy_rule_values_assigned_total") == assigned
    assert insert_two(5, 6)["n"] == 2
    assert [(each["n"], each["turn"]) for each in collection.find().sort("_id")] == [
        (1, 1), (2, 2), (3, 3), (4, 4)]


# ---- what mongod says of one statement ---------------------------------------------------------

Spoil = Callable[[dict[str, Any]], None]


def array_as_id(command: dict[str, Any]) -> None:
    command["documents"][1]["_id"] = [1]


def immutable(command: dict[str, Any]) -> None:
    command["updates"][1] = {"q": {"_id": 1, "x": 1}, "u": {"$set": {"_id": 2}}, "upsert": True}


def conflicting(command: dict[str, Any]) -> None:
    command["updates"][1]["u"] = {"$set": {"x": 1}, "$inc": {"x": 1}}


def of_no_single_value(command: dict[str, Any]) -> None:
    command["updates"][1] = {"q": {"$and": [{"x": 1}, {"x": 2}]}, "u": {"$set": {"y": 1}},
                             "upsert": True}


@pytest.mark.parametrize("kind, spoil, codes", [
    ("counter", array_as_id, {2, 53}), ("upserted", immutable, {66}),
    ("upserted", conflicting, {40}), ("upserted", of_no_single_value, {54})])
def test_a_statement_is_refused(
        replica_set: Mongod, ends: Proxy, kind: str, spoil: Spoil, codes: set[int]):
    target = Target(kind, f"{kind}_{spoil.__name__}", ends.client(), replica_set, ends)
    command = write(kind, target.name, 3)
    spoil(command)
    reply = target.client["ends"].command(command)
    assert len(reply["writeErrors"]) == 1 and reply["writeErrors"][0]["code"] in codes
    target.expect_next(2)
    target.expect_next(4)


# ---- who may no longer insert --------------------------------------------------------------------

@pytest.fixture(scope="module")
def guarded_ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guarded, Proxy]]:
    key = tmp_path_factory.mktemp("ends") / "key"
    key.write_text("idproxy" * 10)
    key.chmod(0o600)
    with Guarded(key_file=key) as server:
        server.add_user("app", [{"role": "readWrite", "db": "ends"}])
        config = configuration(server, RULES[:4], id_store={"uri": server.uri_of("root")},
                               admin=LISTEN)
        with Proxy(config) as proxy:
            yield server, proxy


@pytest.mark.parametrize("kind", ["counter", "ranges", "scoped", "upserted"])
def test_the_clients_role_is_revoked(guarded_ends: tuple[Guarded, Proxy], kind: str):
    server, proxy = guarded_ends
    client = proxy.client(retryWrites=False, username="app", password=PASSWORD, authSource="admin")
    target = Target(kind, kind, client, server, proxy)
    server.client.admin.command("revokeRolesFromUser", "app",
                                roles=[{"role": "readWrite", "db": "ends"}])
    for _ in range(2):
        with pytest.raises(OperationFailure) as failure:
            target.store(5)
        assert failure.value.code == 13
    server.client.admin.command("grantRolesToUser", "app",
                                roles=[{"role": "readWrite", "db": "ends"}])
    target.expect_next(1)
    client.close()
