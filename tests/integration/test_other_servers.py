"""Servers that are not MongoDB's: one that refuses some option of some command of the id store.

What the store can do without, it does without. Of anything else, the rules that need it are not ready
and say so, in the server's words, and inserts get error 96, which no driver repeats. What there is to
refuse is not listed here: it is what the proxy is seen to ask.
"""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.admin import LISTEN, Admin
from support.counters import insert, set_counter, stored
from support.full import FULL
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy
from support.refusing import Part, Refusal, RefusingServer, parts_of, refusals

_dbs = (f"other{i}" for i in itertools.count())
SHARDS = 4

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


class Other:
    """A proxy whose id store is behind the server that refuses, and its rules in a database of
    their own, whose collections have numbers already."""

    def __init__(self, mongod: Mongod, server: RefusingServer, start: Callable[..., Proxy]):
        self.db = next(_dbs)
        self.mongod, self.server = mongod, server
        self.rules = rules_of(self.db)
        for name, value in {"counter": 5, "healed": 5, "text": "2001-0005", "read": 5,
                            "gapless": 5}.items():
            mongod.client[self.db][name].insert_one({"n": value})
        for name in ("healed", "text"):
            mongod.client[self.db][name].create_index("n", unique=True)
        set_counter(mongod.client, f"{self.db}.healed", 2)
        self.proxy = start({
            "upstream": {"uri": f"mongodb://{mongod.address}/?directConnection=true"},
            "id_store": {"uri": f"mongodb://{server.address}/?directConnection=true"},
            "rules": self.rules, "admin": LISTEN})
        self.admin = Admin(self.proxy)

    def line(self, rule: int) -> str:
        lines = [line for line in self.admin.get("/readyz").text.splitlines()
                 if line.startswith(f"rule {rule} ")]
        return lines[0].partition("): ")[2]

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


@pytest.fixture(scope="module")
def server(replica_set: Mongod) -> Iterator[RefusingServer]:
    with RefusingServer(replica_set.address) as running:
        yield running


@pytest.fixture
def other(replica_set: Mongod, server: RefusingServer) -> Iterator[Callable[[], Other]]:
    with contextlib.ExitStack() as stack:
        def start(config: dict[str, Any]) -> Proxy:
            proxy = Proxy(config)
            stack.callback(proxy.stop)
            return proxy
        yield lambda: Other(replica_set, server, start)
    server.refusal = None


def is_tried(part: Part) -> bool:
    """Operators, and each of the ways to say no, only in a long run."""
    return FULL or not part.name.startswith("$")


def seen(server: RefusingServer, other: Callable[[], Other]) -> list[Part]:
    """All that the store asks for when nothing is refused."""
    server.refusal = None
    every = other()
    for _ in range(2):  # a block, and the next one
        assert all(every.give_values(range(len(every.rules))))
    every.proxy.stop()  # gives numbers back
    return sorted(server.asked)


def test_nothing_is_asked_that_is_not_needed(server, other):
    """So that the next option that nobody needs is noticed here."""
    parts = seen(server, other)
    assert {part.name for part in parts} & NEEDLESS == set()
    commands = {part.command for part in parts}
    assert {"findAndModify", "find", "insert", "update", "delete", "aggregate", "listIndexes",
            "listCollections", "createIndexes", "count"} <= commands, "all kinds are tried"
    later = {"batchSize"}  # of looks every few seconds
    assert {part.name for part in parts} >= DISPENSABLE - later, "or it is gone"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_each_option_is_refused_in_turn(server, other, shard):
    parts = [part for part in seen(server, other) if is_tried(part)]
    failures = []
    for part in parts:
        number = zlib.crc32(str(part).encode())  # the same whatever else was seen
        if number % SHARDS != shard:
            continue
        ways = refusals(part)
        for refusal in ways if FULL else [ways[number // SHARDS % len(ways)]]:
            try:
                refuse(server, other, refusal)
            except AssertionError as failure:
                failures.append((str(part), refusal.code, str(failure).split("\n")[0]))
    assert not failures, "\n".join(map(str, failures))


def refuse(server: RefusingServer, other: Callable[[], Other], refusal: Refusal) -> None:
    server.refusal, server.refused = refusal, 0
    its = other()
    refused = its.check(refusal)
    if server.refused == 0:  # of a look that comes now and then
        assert refused == []
    if refusal.part.name in DISPENSABLE:
        assert refused == [], "there are values without it"
    server.refusal = None
    assert all(its.give_values(refused)), "once the server takes it"
    its.proxy.stop()


def test_the_commands_of_ferretdb(server, other):
    """As it was found: its findAndModify knows no `fields`, so the store does not ask for any."""
    server.refusal, server.refused = refusals(Part("findAndModify", "fields"))[0], 0
    its = other()
    assert its.check(server.refusal) == [] and server.refused == 0
    assert all(its.line(rule).startswith("ready") for rule in range(len(its.rules)))


def test_parts_are_found_in_commands():
    found = parts_of({"update": "c", "updates": [{"q": {"a": {"$in": []}}, "u": {}, "upsert": True}],
                      "$db": "d", "lsid": {}})
    assert {str(part) for part in found} == {
        "update", "update.updates", "update.updates.q", "update.updates.u", "update.updates.upsert",
        "update.$in"}
