"""Writes that a driver repeats, on servers that say what they had executed before and on those that do
not (before 6.0): what is reported is stored, and sequences without gaps have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bson
import pytest

from support import wire
from support.mongod import Mongod
from support.proxy import Proxy, configuration
from support.servers import has
from support.thief import insert_message, session

pytestmark = pytest.mark.smoke

RULES = [
    {"ns": "reported.*", "field": "number", "strategy": "counter", "start": 1000, "report": True},
    {"ns": "made.*", "field": "_id", "strategy": "counter", "assign": "always", "report": True},
    {"ns": "gapless.*", "field": "number", "strategy": "gapless", "start": 1, "upserts": "assign",
     "unique_index": "create"},
    {"ns": "sequence.*", "field": "_id", "strategy": "gapless", "start": 1, "assign": "always"},
]


@pytest.fixture(scope="module")
def running(replica_set: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(replica_set, RULES)) as proxy:
        yield proxy


@pytest.fixture
def client(running: Proxy) -> Iterator[wire.WireClient]:
    """Says hello, as each driver does on each connection."""
    with wire.WireClient(running.address, 30) as connected:
        connected.call(wire.command({"hello": 1, "$db": "admin"}))
        yield connected


def numbered(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"_id": f"d{i}"} for i in range(start, start + count)]


def insert(client: wire.WireClient, ns: str, documents: list[Any], more: dict[str, Any],
           ordered: bool = True) -> dict[str, Any]:
    """Again, as drivers do, if the proxy has not had its numbers in time, as from a slow server."""
    for _ in range(10):
        reply = client.call(insert_message(ns, documents, ordered, more=more))
        if "NoWritesPerformed" not in reply.get("errorLabels", []):
            break
    return reply


def stored(mongod: Mongod, ns: str) -> dict[Any, Any]:
    """What is in the field, by `_id`."""
    db, _, name = ns.partition(".")
    return {each["_id"]: each.get("number") for each in mongod.client[db][name].find()}


def check_report(reply: dict[str, Any], documents: list[Any], found: dict[Any, Any]) -> int:
    """Each value that is reported is stored, in the document with that index. Returns how many."""
    assigned = reply.get("idproxy", {}).get("assigned", [])
    for each in assigned:
        assert found[documents[each["index"]]["_id"]] == each["value"]
    return len(assigned)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_report_is_true(replica_set: Mongod, client: wire.WireClient, coll: str,
                          ordered: bool) -> None:
    ns, documents, same = f"reported.{coll}", numbered(5), session()
    first = insert(client, ns, documents, same, ordered)
    found = stored(replica_set, ns)
    assert (first["n"], check_report(first, documents, found)) == (5, 5)
    second = insert(client, ns, documents, same, ordered)
    assert stored(replica_set, ns) == found and second["n"] == 5
    check_report(second, documents, found)


def test_a_report_of_what_was_half_done(replica_set: Mongod, client: wire.WireClient,
                                        coll: str) -> None:
    """An earlier attempt, through another proxy perhaps, has stored two of five documents."""
    ns, documents, same = f"reported.{coll}", numbered(5), session()
    client.call(insert_message(ns, numbered(1, 10)))
    earlier = [{**each, "number": 7 + i} for i, each in enumerate(documents[:2])]
    with wire.WireClient(replica_set.address, 30) as direct:
        assert direct.call(insert_message(ns, earlier, more=same))["n"] == 2
    reply = insert(client, ns, documents, same)
    found = stored(replica_set, ns)
    assert reply["n"] == 5 and len(found) == 6
    assert check_report(reply, documents, found) >= 3
    assert (found["d0"], found["d1"]) == (7, 8)


def test_a_report_of_ids(replica_set: Mongod, client: wire.WireClient, coll: str) -> None:
    """Those that the second attempt was given are not stored."""
    ns, same = f"made.{coll}", session()
    first = insert(client, ns, [{}, {}], same)
    found = set(stored(replica_set, ns))
    assert {each["value"] for each in first["idproxy"]["assigned"]} == found
    second = insert(client, ns, [{}, {}], same)
    assert set(stored(replica_set, ns)) == found
    assert {each["value"] for each in second.get("idproxy", {}).get("assigned", [])} <= found


def test_a_report_of_an_upsert(replica_set: Mongod, client: wire.WireClient, coll: str) -> None:
    ns, same = f"reported.{coll}", session()
    update = wire.command({"update": coll, "updates": [
        {"q": {"_id": "d0"}, "u": {"$set": {"a": 1}}, "upsert": True}], **same, "$db": "reported"})
    for _ in range(2):
        reply = client.call(update)
        check_report(reply, numbered(1), stored(replica_set, ns))
    assert len(stored(replica_set, ns)) == 1


def gaps(mongod: Mongod, ns: str) -> list[int]:
    """The numbers that are missing, or there twice."""
    numbers = sorted(number for number in stored(mongod, ns).values() if number is not None)
    return sorted(set(range(1, len(numbers) + 1)) ^ set(numbers))


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_repetition_leaves_no_gap(replica_set: Mongod, client: wire.WireClient, coll: str,
                                    ordered: bool, count: int) -> None:
    ns, same = f"gapless.{coll}", session()
    for _ in range(3):
        assert insert(client, ns, numbered(count), same, ordered)["n"] == count
    assert insert(client, ns, numbered(3, 100), session())["n"] == 3
    assert gaps(replica_set, ns) == [] and len(stored(replica_set, ns)) == count + 3


@pytest.mark.parametrize("done", [[0], [0, 1, 2], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize("ordered", [True, False])
def test_the_rest_of_what_was_half_done_leaves_no_gap(
        replica_set: Mongod, client: wire.WireClient, coll: str, ordered: bool,
        done: list[int]) -> None:
    ns, documents, same = f"gapless.{coll}", numbered(5), session()
    insert(client, ns, numbered(2, 10), session())
    earlier = [{**documents[i], "number": 3 + i} for i in done]
    with wire.WireClient(replica_set.address, 30) as direct:
        assert direct.call(insert_message(ns, earlier, more=same))["n"] == len(done)
    assert insert(client, ns, documents, same, ordered)["n"] == 5
    assert insert(client, ns, numbered(1, 20), session())["n"] == 1
    assert gaps(replica_set, ns) == [] and len(stored(replica_set, ns)) == 8


def test_a_repeated_upsert_leaves_no_gap(replica_set: Mongod, client: wire.WireClient,
                                         coll: str) -> None:
    ns, same = f"gapless.{coll}", session()
    update = wire.command({"update": coll, "updates": [
        {"q": {"_id": f"u{i}"}, "u": {"$set": {"a": 1}}, "upsert": True} for i in range(3)],
        **same, "$db": "gapless"})
    for _ in range(2):
        assert client.call(update)["n"] == 3
    assert insert(client, ns, numbered(3), session())["n"] == 3
    assert gaps(replica_set, ns) == [] and len(stored(replica_set, ns)) == 6


def test_documents_without_an_id_leave_no_gap(replica_set: Mongod, client: wire.WireClient,
                                              coll: str) -> None:
    """No driver sends them: there is nothing by which an old server could be asked."""
    ns, same = f"gapless.{coll}", session()
    for _ in range(2):
        insert(client, ns, [{"k": i} for i in range(3)], same)
    insert(client, ns, numbered(1), session())
    assert gaps(replica_set, ns) == [] and len(stored(replica_set, ns)) == 4


def test_ids_that_replace_the_clients_leave_no_gap(
        replica_set: Mongod, client: wire.WireClient, coll: str) -> None:
    """By the `_id`s that the client sends, nothing is found."""
    ns, same = f"sequence.{coll}", session()
    for _ in range(3):
        assert insert(client, ns, numbered(3), same)["n"] == 3
    assert insert(client, ns, numbered(2, 100), session())["n"] == 2
    assert set(stored(replica_set, ns)) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("rule", ["made", "sequence"])
def test_generated_ids_do_not_tell_what_was_left_out(
        replica_set: Mongod, client: wire.WireClient, coll: str, rule: str) -> None:
    """An earlier attempt has stored its document under another one: each is sent by itself."""
    ns, same = f"{rule}.{coll}", session()
    insert(client, ns, numbered(1), session())
    with wire.WireClient(replica_set.address, 30) as direct:
        direct.call(insert_message(ns, [{"_id": 500}], more={**same, "stmtIds": [4]}))
    reply = insert(client, ns, numbered(5), same, ordered=False)
    assert (reply["ok"], reply["n"]) == (1, 5) and len(stored(replica_set, ns)) == 6


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no_ids"])
@pytest.mark.parametrize("done, bad", [([1], 0), ([2], 0), ([0, 2], 1), ([1, 3], 2), ([4], 1), ([0], 4)], ids=str)
def test_errors_are_those_of_their_documents(replica_set: Mongod, client: wire.WireClient, coll: str,
                                             done: list[int], bad: int, ids: bool) -> None:
    """MongoDB 4.4 counts positions without the pending documents in front of executed ones."""
    ns, same = f"reported.{coll}", session()
    documents = [{"k": i, **({"_id": f"d{i}"} if ids else {}), **({"u": 1} if i == bad else {})}
                 for i in range(5)]
    collection = replica_set.client.reported[coll]
    collection.create_index("u", unique=True, sparse=True)
    collection.insert_one({"_id": "there", "u": 1})
    insert(client, ns, numbered(1, 100), session())
    with wire.WireClient(replica_set.address, 30) as direct:
        numbers = {**same, "stmtIds": done}
        assert direct.call(insert_message(
            ns, [{**documents[i], "number": 7 + i} for i in done], more=numbers))["n"] == len(done)
    reply = insert(client, ns, documents, same, ordered=False)
    assert (reply["n"], [e["index"] for e in reply["writeErrors"]]) == (4, [bad])
    assert sorted(d["k"] for d in collection.find({"k": {"$exists": True}})) == [
        k for k in range(5) if k != bad]
    if ids:
        found = stored(replica_set, ns)
        assert check_report(reply, documents, found) in (4 - len(done), 4)


def test_a_document_of_another_with_the_same_id(replica_set: Mongod, client: wire.WireClient,
                                                coll: str) -> None:
    """It is not what an earlier attempt has stored."""
    ns, documents, same = f"reported.{coll}", numbered(4), session()
    insert(client, ns, numbered(1, 100), session())
    with wire.WireClient(replica_set.address, 30) as direct:
        direct.call(insert_message(ns, [{"_id": "d1", "number": 8}], more=session()))
        direct.call(insert_message(ns, [{"_id": "d3", "number": 7}], more={**same, "stmtIds": [3]}))
    reply = insert(client, ns, documents, same, ordered=False)
    assert (reply["n"], [e["index"] for e in reply["writeErrors"]]) == (3, [1])
    assert len(stored(replica_set, ns)) == 5


def test_next(running: Proxy, coll: str) -> None:
    with running.client() as client:
        reply = client.admin.command({"idproxy": "next", "ns": f"reported.{coll}",
                                      "field": "number", "count": 2})
    assert len(reply["ids"]) == 2


def test_a_document_that_cannot_take_its_value(replica_set: Mongod, client: wire.WireClient,
                                               coll: str) -> None:
    """The others are stored, and the client gets the error that the server would give."""
    ns = f"dotted.{coll}"
    with Proxy(configuration(replica_set, [
            {"ns": "dotted.*", "field": "a.b", "strategy": "counter"}])) as proxy:
        with wire.WireClient(proxy.address, 30) as connected:
            documents = [{"_id": 0}, {"_id": 1, "a": 5}, {"_id": 2}]
            reply = connected.call(insert_message(ns, documents, ordered=False))
    assert reply["n"] == 2
    assert [(each["index"], each["code"]) for each in reply["writeErrors"]] == [(1, 28)]
    assert isinstance(bson.encode(reply), bytes)


@pytest.mark.parametrize("rule", ["reported", "plain"])
@pytest.mark.parametrize("done", [[4], [0, 4], [1, 2], [0, 1, 2, 3, 4]], ids=str)
def test_nothing_is_left_out(replica_set: Mongod, coll: str, rule: str, done: list[int]) -> None:
    """MongoDB 4.4 leaves out what is pending of a repeated unordered insert whose last statement it
    had executed before."""
    ns, documents, same = f"{rule}.{coll}", numbered(5), session()
    rules = [*RULES[:1], {"ns": "plain.*", "field": "number", "strategy": "counter"}]
    with Proxy(configuration(replica_set, rules)) as proxy, \
            wire.WireClient(proxy.address, 30) as client:
        client.call(wire.command({"hello": 1, "$db": "admin"}))
        earlier = [{**documents[i], "number": 7 + i} for i in done]
        with wire.WireClient(replica_set.address, 30) as direct:
            numbers = {**same, "stmtIds": done}
            assert direct.call(insert_message(ns, earlier, more=numbers))["n"] == len(done)
        reply = insert(client, ns, documents, same, ordered=False)
        found = stored(replica_set, ns)
        assert (reply["ok"], reply["n"], "writeErrors" in reply) == (1, 5, False)
        assert len(found) == 5 and len(set(found.values())) == 5
        check_report(reply, documents, found)
        if not has("keeps_writes") and done in ([4], [0, 4]):
            proxy.wait_event("server_loses_writes")
        else:
            assert not proxy.find_events("server_loses_writes")


def test_what_cannot_be_looked_up_is_stored_too(replica_set: Mongod, client: wire.WireClient,
                                                coll: str) -> None:
    """Without `_id`s, which each driver sends, an old server cannot be asked what is missing."""
    ns, documents, same = f"reported.{coll}", [{"k": i} for i in range(5)], session()
    client.call(insert_message(ns, numbered(1)))
    with wire.WireClient(replica_set.address, 30) as direct:
        direct.call(insert_message(ns, documents[4:], more={**same, "stmtIds": [4]}))
    reply = insert(client, ns, documents, same, ordered=False)
    assert (reply["ok"], reply["n"]) == (1, 5)
    found = replica_set.client.reported[coll].find({"k": {"$exists": True}})
    assert sorted(each["k"] for each in found) == list(range(5))


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no_ids"])
def test_beside_an_invalid_document(replica_set: Mongod, client: wire.WireClient, coll: str, ids: bool) -> None:
    """MongoDB 4.4 gives it no number: those behind it are executed under others than they seem to be."""
    ns, same = f"reported.{coll}", session()
    collection = replica_set.client.reported[coll]
    collection.create_index("number", unique=True, sparse=True, hidden=True)
    insert(client, ns, numbered(1, 100), session())
    (highest,) = (each["number"] for each in collection.find())
    collection.insert_many([{"number": highest + 4, "there": 1}])  # of the last but one, once
    documents: list[Any] = [{"k": i, **({"_id": f"d{i}"} if ids else {})} for i in range(5)]
    documents[1]["_id"] = [1]
    for _ in range(3):
        reply = insert(client, ns, documents, same, ordered=False)
        assert (reply["n"], [e["index"] for e in reply["writeErrors"]]) == (4, [1]), reply
        assert sorted(d["k"] for d in collection.find({"k": {"$exists": True}})) == [0, 2, 3, 4]
