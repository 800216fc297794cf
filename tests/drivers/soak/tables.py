"""What a soak writes: collections, the rules that fill them, and the book of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymongo

from support import elements as el
from support.elements import Element
from support.failover import OPERATIONS, Table
from support.values import ALPHABETS, decoded, digits_of, nanoid, text, to_uuid

DB = "soak"
KEY = "SOAK_KEY"  # the environment variable with permuted's key
TENANTS = 5
DIGITS = 6

# Patient enough for a space of which half is taken, and for a machine that is busy.
RETRY = {"attempts": 100, "deadline": "60s"}
BLOCK = {"block": {"size": 50}}

ONE_BY_ONE = ("insert_one", "ordered", "unordered")
EVERY = (*ONE_BY_ONE, "transaction")
BULK = (*EVERY, "bulk")


@dataclass
class SoakTable(Table):
    """A table with its rule.

    unique: it has a unique index on the field; without one, values are unique only by making.
    has_no_gaps: its values are 1, 2, … whatever happens. forgets: documents are deleted, and no value may
    come back. goes_away: the collection is dropped, and only the change stream knows what was stored. scoped:
    each tenant has values of its own.
    """

    rule: dict[str, Any] = None  # type: ignore[assignment]
    unique: bool = True
    has_no_gaps: bool = False
    forgets: bool = False
    goes_away: bool = False
    scoped: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scoped:
            self.ledger.scope = "tenant"

    def prepare(self, client: pymongo.MongoClient, taken: Any = ()) -> None:
        """An index that the proxies do not see is there for random values only: they are to collide."""
        super().prepare(client, taken)
        if self.assigned == "_id" or taken:
            return
        client[self.db][self.name].drop_index(f"{self.assigned}_1")
        if self.unique:
            fields = ["tenant", self.assigned] if self.scoped else [self.assigned]
            client[self.db][self.name].create_index([(each, 1) for each in fields], unique=True, sparse=True)

    def kept(self, k: int, written: str, refused: bool) -> list[bytes | Element]:
        more = [el.int32("tenant", k % TENANTS)] if self.scoped else []
        return [*super().kept(k, written, refused), *more]


def typeid(value: Element) -> None:
    decoded(text(value), "base32", "user_", 128)


def uuid7(value: Element) -> None:
    assert to_uuid(value, "standard").version == 7


def ulid(value: Element) -> None:
    decoded(text(value), "base32upper", "", 128)


def hex_objectid(value: Element) -> None:
    assert re.fullmatch("[0-9a-f]{24}", text(value)), text(value)


def invoice(value: Element) -> None:
    assert re.fullmatch("INV-[0-9]{6,}", text(value)), text(value)


def int64(value: Element) -> None:
    assert value.type == 0x12, f"type {value.type:#x} instead of int64"


def tables() -> list[SoakTable]:
    """One for each way of making values."""
    def table(name: str, field: str, rule: dict[str, Any], shape: Callable[[Element], None] = int64,
              operations: tuple[str, ...] = EVERY, **more: Any) -> SoakTable:
        whole = {"ns": f"{DB}.{name}", "field": field, "report": True, **rule}
        return SoakTable(f"{DB}.{name}", field, shape, operations, rule=whole, **more)

    return [
        table("uuid", "_id", {"strategy": "uuid"}, uuid7, BULK, forgets=True),
        table("objectid", "_id", {"strategy": "objectid", "output": "string"}, hex_objectid),
        table("typeid", "n", {"strategy": "uuid", "encoding": "base32", "prefix": "user_"}, typeid, unique=False),
        table("ulid", "_id", {"strategy": "ulid"}, ulid, BULK, forgets=True),
        table("nanoid", "n", {"strategy": "nanoid", "size": 12, "alphabet": "base36"},
              nanoid(12, ALPHABETS["base36"])),
        table("snowflake", "n", {"strategy": "snowflake", "machine": {"ttl": "6s"}}, int64, BULK,
              unique=False, forgets=True),
        # A collision ends a transaction, so there are none here.
        table("digits", "n", {"strategy": "random-digits", "digits": DIGITS, "max_fill": 0.99, "retry": RETRY},
              digits_of(DIGITS, "int64", True), ONE_BY_ONE),
        table("counter", "n", {"strategy": "counter", **BLOCK}, operations=BULK, forgets=True),
        table("made", "n", {"strategy": "counter", **BLOCK}, operations=BULK, unique=False, forgets=True),
        table("ids", "_id", {"strategy": "counter", "assign": "driver", "driver_window": "3h", **BLOCK}, driver_id=True, forgets=True),
        table("edited", "n", {"strategy": "counter", **BLOCK}),
        table("dropped", "n", {"strategy": "counter", **BLOCK}, operations=ONE_BY_ONE, unique=False, goes_away=True),
        table("ranges", "n", {"strategy": "counter-ranges", "block": 50, "ranges": {"count": 20, "width": 10**9}},
              forgets=True),
        table("gapless", "n", {"strategy": "gapless"}, has_no_gaps=True),
        table("permuted", "n", {"strategy": "permuted", "digits": 9, "key": {"env": KEY}, **BLOCK},
              digits_of(9, "int64", True), BULK, forgets=True),
        table("tenants", "n", {"strategy": "counter", "scope": ["tenant"], **BLOCK}, scoped=True, forgets=True),
        table("invoices", "n", {"strategy": "counter", "output": "string", "template": "INV-{counter:06}", **BLOCK},
              invoice),
        table("reserved", "n", {"strategy": "counter", "reserve": {"collection": "reserved__n"}, **BLOCK}),
    ]


def taken(table: SoakTable) -> range:
    """Numbers that are in use from the start."""
    return range(0, 10**DIGITS, 20) if table.name == "digits" else range(0)


assert {*BULK} == {*OPERATIONS}
