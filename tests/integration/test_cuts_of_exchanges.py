"""Exchanges of every kind, cut at every byte: what was acknowledged is stored, nothing is stored twice or without
its values, both peers are closed and nothing is left.

As in test_cuts.py, but any exchange. A normal run cuts each at some bytes; the full run at each, with FIN and RST.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal
from uuid import UUID

import bson
import pytest
from bson import Binary

from support import wire
from support.full import FULL
from support.long_runs import LongRun
from support.middleman import CutAt, Direction, Middleman
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration

DB = "exchanges"
NUMBER = {"field": "number", "strategy": "counter", "unique_index": "create"}
RULES = [
    {"ns": f"{DB}.counted", **NUMBER},
    {"ns": f"{DB}.two", "field": "_id", "strategy": "uuid"},
    {"ns": f"{DB}.two", **NUMBER},
    {"ns": f"{DB}.scoped", **NUMBER, "scope": ["tenant"]},
    {"ns": f"{DB}.gapless", **NUMBER, "strategy": "gapless"},
    {"ns": f"{DB}.reserved", **NUMBER, "strategy": "random-digits", "digits": 9, "reserve": {"collection": "__n"}},
    {"ns": f"{DB}.kept", **NUMBER},
    {"ns": f"{DB}.drafts", **NUMBER, "unique_index": "require"},
]
# Nothing else closes the peers before 10 s.
LIMIT_SECONDS = 5.0
SEVERAL = 3
HOST_UNREACHABLE = 6

Bytes = bytes | dict[str, Any]


def session(run: int) -> dict[str, Any]:
    """Of a client of its own."""
    return {"lsid": {"id": Binary.from_uuid(UUID(int=run))}, "txnNumber": bson.Int64(1)}


def in_transaction(run: int, **more: Any) -> dict[str, Any]:
    return {**session(run), "autocommit": False, **more}


def documents(run: int, count: int = SEVERAL, **more: Any) -> list[dict[str, Any]]:
    return [{"run": run, "place": place, **more} for place in range(count)]


def insert(name: str, run: int, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"insert": name, "documents": documents(run, count, **({"tenant": "a"} if name == "scoped" else {})),
            "$db": DB, **more}


def in_sequence(name: str, run: int, flags: int = 0, **more: Any) -> bytes:
    return wire.op_msg(wire.body({"insert": name, "$db": DB, **more}), wire.sequence("documents", documents(run)),
                       flags=flags)


def update(name: str, run: int, change: dict[str, Any], upsert: bool = True) -> dict[str, Any]:
    return {"update": name, "updates": [{"q": {"run": run}, "u": change, "upsert": upsert}], "$db": DB}


@dataclass(frozen=True)
class Exchange:
    """messages: of one run, one after the other; each but those without one gets a reply. stored: how many
    documents it leaves. before: what is there before it, stored past the proxy, and counts as stored."""

    name: str
    collection: str
    messages: Callable[[int], list[Bytes]]
    stored: int = 1
    before: Callable[[int], list[dict[str, Any]]] = lambda run: []
    compressor: str | None = None


EXCHANGES = [
    Exchange("ordered", "counted", lambda run: [in_sequence("counted", run)], SEVERAL),
    Exchange("unordered", "counted", lambda run: [in_sequence("counted", run, ordered=False)], SEVERAL),
    Exchange("checksum", "counted", lambda run: [in_sequence("counted", run, wire.CHECKSUM_PRESENT)], SEVERAL),
    Exchange("two_rules", "two", lambda run: [insert("two", run)]),
    Exchange("scope", "scoped", lambda run: [insert("scoped", run)]),
    Exchange("gapless", "gapless", lambda run: [insert("gapless", run)]),
    Exchange("reserved", "reserved", lambda run: [insert("reserved", run)]),
    Exchange("repeated", "counted", lambda run: 2 * [insert("counted", run, **session(run))]),
    Exchange("transaction", "counted", lambda run: [
        insert("counted", run, SEVERAL, **in_transaction(run, startTransaction=True)),
        {"commitTransaction": 1, **in_transaction(run), "$db": "admin"}], SEVERAL),
    Exchange("upsert", "counted", lambda run: [update("counted", run, {"$set": {"x": 1}})]),
    Exchange("replacement", "counted", lambda run: [update("counted", run, {"run": run})]),
    Exchange("find_and_modify", "counted", lambda run: [
        {"findAndModify": "counted", "query": {"run": run}, "update": {"$set": {"x": 1}}, "upsert": True, "$db": DB}]),
    Exchange("kept", "kept", lambda run: [update("kept", run, {"run": run, "x": 1}, upsert=False)],
             before=lambda run: [{"run": run, "number": run}]),
    Exchange("assigned", "drafts", lambda run: [
        {"idproxy": "assign", "ns": f"{DB}.drafts", "field": "number", "filter": {"_id": run}, "$db": "admin"}],
             before=lambda run: [{"_id": run, "run": run}]),
    Exchange("unacknowledged", "counted", lambda run: [
        wire.op_msg(wire.body({**insert("counted", run), "writeConcern": {"w": 0}}), flags=wire.MORE_TO_COME),
        {"find": "counted", "filter": {"run": run}, "$db": DB}]),
    *(Exchange(compressor, "two", lambda run: [insert("two", run, SEVERAL)], SEVERAL, compressor=compressor)
      for compressor in wire.COMPRESSORS),
    Exchange("relayed", "counted", lambda run: [
        {"hello": 1, "$db": "admin"}, {"find": "plain", "batchSize": 2, "$db": DB}, {"ping": 1, "$db": "admin"}], 0),
]


class Chain:
    """client - middleman - proxy - middleman - server"""

    def __init__(self, server: Mongod, upstream: Middleman, proxy: Proxy, downstream: Middleman):
        self.server, self.upstream, self.proxy, self.downstream = server, upstream, proxy, downstream
        self.descriptors = proxy.descriptors_at_rest()
        self.runs = 0
        self.answered: dict[int, bool] = {}

    def run(self, exchange: Exchange) -> int:
        """Its number. self.answered says whether all replies came."""
        self.runs += 1
        if before := exchange.before(self.runs):
            self.server.client[DB][exchange.collection].insert_many(before)
        self.answered[self.runs] = False
        try:
            with wire.client(self.downstream.address, exchange.compressor, 20) as client:
                for each in exchange.messages(self.runs):
                    data = wire.command(each) if isinstance(each, dict) else each
                    client.send(data)
                    if not wire.parse(data).flags & wire.MORE_TO_COME:
                        reply = client.receive().body
                        if reply.get("code") == HOST_UNREACHABLE:  # there is no server, says the proxy
                            return self.runs
                        assert reply["ok"] == 1 and "writeErrors" not in reply, reply
            self.answered[self.runs] = True
        except (wire.Closed, ConnectionError):
            pass
        return self.runs

    def at_rest(self) -> None:
        eventually(lambda: self.upstream.at_rest() and self.downstream.at_rest(), LIMIT_SECONDS, "all is closed")
        self.proxy.await_descriptors(self.descriptors)


@pytest.fixture(scope="module")
def chain(replica_set: Mongod) -> Iterator[Chain]:
    replica_set.client.drop_database(DB)
    replica_set.client[DB].plain.insert_many([{"n": n} for n in range(5)])
    for name in ("kept", "drafts"):
        replica_set.client[DB][name].create_index("number", unique=True, sparse=True)
    with Middleman(replica_set.address) as upstream, \
            Proxy(configuration(upstream, RULES, replica_set)) as proxy, Middleman(proxy.address) as downstream:
        yield Chain(replica_set, upstream, proxy, downstream)


def violations(chain: Chain, exchange: Exchange, runs: range) -> list[str]:
    """What must not be, in the end: found by the runs' numbers."""
    stored: dict[int, list[dict[str, Any]]] = {run: [] for run in runs}
    for document in chain.server.client[DB][exchange.collection].find({"run": {"$in": [*runs]}}):
        stored[document["run"]].append(document)
    wrong = []
    for run, found in stored.items():
        may_lack = exchange.name == "assigned" and not chain.answered[run]
        wrong += [f"run {run} has {each}" for each in found if "number" not in each and not may_lack]
        if exchange.name == "kept":
            wrong += [f"run {run} has {each}" for each in found if each["number"] != run]
        right = [exchange.stored]
        if not chain.answered[run]:
            right = [exchange.stored] if exchange.before(run) else [*range(exchange.stored + 1)]
        if len(found) not in right:
            wrong.append(f"run {run}, {chain.answered[run]=}, left {len(found)} documents")
    return wrong


@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each.name)
def test_every_byte(chain: Chain, exchange: Exchange, long_run: LongRun):
    first = chain.run(exchange)
    assert chain.answered[first]
    sides: list[tuple[Literal["downstream", "upstream"], Direction]] = [
        (side, direction) for side in ("downstream", "upstream") for direction in ("to_server", "to_client")]
    cuts = 0
    for side, direction in sides:
        relay: Middleman = getattr(chain, side)
        longest = 0
        for _ in range(3):  # values have several lengths
            chain.at_rest()
            before = len(relay.connections)
            assert chain.answered[chain.run(exchange)]
            # Those of the proxy's own are shorter.
            longest = max(longest, *(len(each.passed[direction]) for each in relay.connections[before:]))
        for after, how in product(range(0, longest + 1, 1 if FULL else longest // 5), ("fin", "rst")):
            chain.at_rest()
            connection = relay.cut_one(CutAt(direction, after, how), lambda: chain.run(exchange))
            cuts += connection.cut_at is not None
        chain.at_rest()
    assert cuts > 20
    assert chain.answered[chain.run(exchange)], "a connection that nobody cuts still works"
    eventually(lambda: not chain.server.client.admin.command({"currentOp": True, "ns": f"{DB}.{exchange.collection}"})[
        "inprog"], what="the server has done what had arrived")
    if exchange.stored:
        assert not violations(chain, exchange, range(first, chain.runs + 1))
    long_run("cuts", server=chain.server.client.server_info()["version"], faults={exchange.name: cuts})


@pytest.mark.parametrize("answered, numbers, right", [
    (True, [1], True), (True, [], False), (True, [1, 2], False), (True, [None], False), (False, [], True),
    (False, [1, 2], False), (False, [None], False)])
def test_the_judge_sees_it(chain: Chain, answered: bool, numbers: list[int | None], right: bool):
    """numbers: of the documents that a run left which should leave one."""
    chain.runs += 1
    chain.answered[chain.runs] = answered
    for number in numbers:
        chain.server.client[DB].judged.insert_one(
            {"run": chain.runs, **({"number": number} if number is not None else {})})
    judged = Exchange("judged", "judged", lambda run: [])
    assert (not violations(chain, judged, range(chain.runs, chain.runs + 1))) == right


def test_the_judge_sees_a_number_that_moved(chain: Chain):
    (kept,) = (each for each in EXCHANGES if each.name == "kept")
    run = chain.run(kept)
    assert not violations(chain, kept, range(run, run + 1))
    chain.server.client[DB].kept.update_one({"run": run}, {"$set": {"number": -1}})
    assert violations(chain, kept, range(run, run + 1))
