"""Servers that are not MongoDB's: one that refuses some option of some command of the id store.

What the store can do without, it does without. Of anything else, the rules that need it are not ready
and say so, in the server's words, and inserts get error 96, which no driver repeats. What there is to
refuse is not listed here: it is what the proxy is seen to ask.
"""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.admin import LISTEN, Admin
from support.counters import insert, set_counter, stored
from support.full import FULL
from support.mongod import Mongod
from support.process import StoppedOrKilled, eventually
from support.proxy import Proxy
from support.refusing import Part, Refusal, RefusingServer, parts_of, refusals

_dbs = (f"other{i}" for i in itertools.count())
SHARDS, SIDE_BY_SIDE = 4, 4

# What only spares the server work. Without it, values are given all the same.
DISPENSABLE = {"projection", "limit", "hint", "maxTimeMS", "batchSize", "nameOnly",
               "includeBuildUUIDs"}
# What the store must not ask for, since it has no use for it.
NEEDLESS = {"fields", "new", "comment", "let", "j", "allowDiskUse", "noCursorTimeout", "singleBatch",
            "authorizedCollections", "bypassDocumentValidation"}


def rules_of(db: str) -> list[dict[str, Any]]:
    """One of each kind that has the store do something of its own."""
    counter = {"field": "n", "strategy": "counter", "block": {"size": 3}, "unique_index": "create"}
    return [
        {"ns": f"{db}.counter", **counter},
        {"ns": f"{db}.healed", **counter, "heal": {"at_start": True}},
        {"ns": f"{db}.scope", **counter, "scope": ["tenant"]},
        {"ns": f"{db}.text", **counter, "output": "string", "template": "{yyyy}-{counter:04}"},
        {"ns": f"{db}.read", **counter, "unique_index": "warn"},
        {"ns": f"{db}.ranges", "field": "n", "strategy": "counter-ranges", "unique_index": "create",
         "ranges": {"count": 3, "width": 1000}, "store": {"collection": f"{db}ranges"}},
        {"ns": f"{db}.gapless", "field": "n", "strategy": "gapless", "unique_index": "create"},
        {"ns": f"{db}.tenants", "field": "n", "strategy": "gapless", "scope": ["tenant"],
         "unique_index": "create"},
        {"ns": f"{db}.reserved", "field": "n", "strategy": "random-digits", "digits": 9,
         "reserve": {"collection": "reserved__n"}},
    ]


class Other(StoppedOrKilled):
    """A proxy whose id store is behind a server of its own that refuses this, and its rules in a database
    of their own, whose collections have numbers already."""

    def __init__(self, mongod: Mongod, refusal: Refusal | None = None):
        self.db = next(_dbs)
        self.mongod, self.server = mongod, RefusingServer(mongod.address)
        self.server.refusal = refusal
        self.rules = rules_of(self.db)
        for name, value in {"counter": 5, "healed": 5, "text": "2001-0005", "read": 5,
                            "gapless": 5}.items():
            mongod.client[self.db][name].insert_one({"n": value})
        for name in ("healed", "text"):
            mongod.client[self.db][name].create_index("n", unique=True)
        set_counter(mongod.client, f"{self.db}.healed", 2)
        self.proxy = Proxy({
            "upstream": {"uri": f"mongodb://{mongod.address}/?directConnection=true"},
            "id_store": {"uri": f"mongodb://{self.server.address}/?directConnection=true"},
            "rules": self.rules, "admin": LISTEN})
        self.admin = Admin(self.proxy)

    def stop(self) -> None:
        self.proxy.stop()
        self.server.close()

    def kill(self) -> None:
        self.proxy.kill()
        self.server.close()

    def line(self, rule: int) -> str:
        return self.admin.rules()[rule]

    def gives_values(self, rule: int, said: str | None = None) -> bool:
        """Waits until the rule's inserts are stored, or get the error that no driver repeats, with
        these words."""
        ns = self.rules[rule]["ns"]
        replies: list[dict[str, Any]] = []

        def settled() -> str:
            replies.append(insert(self.proxy, ns, [{"tenant": "a"}]))
            reply = replies[-1]
            if reply.get("n") == 1 and "writeErrors" not in reply:
                assert stored(self.mongod.client, ns)[-1]["n"] is not None
                return "values"
            return "none" if said and reply.get("code") == 96 and said in reply["errmsg"] else ""
        try:
            return eventually(settled, 50) == "values"
        except TimeoutError:
            raise AssertionError(f"{ns} ({said}): {replies[-1]}") from None

    def give_values(self, rules: Iterable[int], said: str | None = None) -> list[bool]:
        """The same of several, which wait side by side."""
        with ThreadPoolExecutor(len(self.rules)) as threads:
            return list(threads.map(lambda rule: self.gives_values(rule, said), rules))

    def check(self, refusal: Refusal) -> list[int]:
        """The rules that give no values, each with the server's text."""
        said = f"error {refusal.code} {refusal.code_name}: {refusal.kept}"
        rules = range(len(self.rules))
        refused = [rule for rule, gives in zip(rules, self.give_values(rules, said)) if not gives]
        for rule in refused:
            with contextlib.suppress(TimeoutError):
                eventually(lambda: said in self.line(rule), 20)
            line = self.line(rule)
            assert any(said in event.get("reason", "") for event in self.proxy.events), "in the log"
            assert line.startswith("not ready: ") and said in line, (self.rules[rule]["ns"], said, line)
        return refused


def is_tried(part: Part) -> bool:
    """Operators, and each of the ways to say no, only in a long run."""
    return FULL or not part.name.startswith("$")


@pytest.fixture(scope="module")
def parts(replica_set: Mongod) -> list[Part]:
    """All that the store asks for when nothing is refused."""
    with Other(replica_set) as every:
        for _ in range(2):  # a block, and the next one
            assert all(every.give_values(range(len(every.rules))))
    return sorted(every.server.asked)  # when it has given numbers back


def test_nothing_is_asked_that_is_not_needed(parts):
    """So that the next option that nobody needs is noticed here."""
    assert {part.name for part in parts} & NEEDLESS == set()
    commands = {part.command for part in parts}
    assert {"findAndModify", "find", "insert", "update", "delete", "aggregate", "listIndexes",
            "listCollections", "createIndexes", "count"} <= commands, "all kinds are tried"
    later = {"batchSize"}  # of looks every few seconds
    assert {part.name for part in parts} >= DISPENSABLE - later, "or it is gone"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_each_option_is_refused_in_turn(replica_set, parts, shard):
    """Some side by side, since they wait; each has a server of its own."""
    tried = []
    for part in filter(is_tried, parts):
        number = zlib.crc32(str(part).encode())  # the same whatever else was seen
        ways = refusals(part)
        if number % SHARDS == shard:
            tried += ways if FULL else [ways[number // SHARDS % len(ways)]]

    def failure(refusal: Refusal) -> str:
        try:
            refuse(replica_set, refusal)
        except AssertionError as failure:
            return f"{refusal.part} {refusal.code} {str(failure).splitlines()[0]}"
        return ""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        failures = list(filter(None, threads.map(failure, tried)))
    assert not failures, "\n".join(failures)


def refuse(mongod: Mongod, refusal: Refusal) -> None:
    with Other(mongod, refusal) as its:
        refused = its.check(refusal)
        if its.server.refused == 0:  # of a look that comes now and then
            assert refused == []
        if refusal.part.name in DISPENSABLE:
            assert refused == [], "there are values without it"
        its.server.refusal = None
        assert all(its.give_values(refused)), "once the server takes it"


def test_the_commands_of_ferretdb(replica_set):
    """As it was found: its findAndModify knows no `fields`, so the store does not ask for any."""
    refusal = refusals(Part("findAndModify", "fields"))[0]
    with Other(replica_set, refusal) as its:
        assert its.check(refusal) == [] and its.server.refused == 0
        assert all(its.line(rule).startswith("ready") for rule in range(len(its.rules)))


def test_parts_are_found_in_commands():
    found = parts_of({"update": "c", "updates": [{"q": {"a": {"$in": []}}, "u": {}, "upsert": True}],
                      "$db": "d", "lsid": {}})
    assert {str(part) for part in found} == {
        "update", "update.updates", "update.updates.q", "update.updates.u", "update.updates.upsert",
        "update.$in"}
