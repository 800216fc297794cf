"""A server that does not know everything: a middleman in front of one that does.

It refuses what a test tells it to, with the errors of servers that are not MongoDB's, and notes what
it was asked, so that a test need not have a list of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

from .fake_server import Request, reply_to
from .middleman import Connection, Direction, Middleman

# What the driver sends by itself, and fields that belong to the protocol.
_OF_THE_DRIVER = {"", "hello", "isMaster", "ismaster", "ping", "endSessions", "saslStart",
                  "saslContinue", "killCursors"}
_PROTOCOL = {"$db", "lsid", "txnNumber", "$clusterTime", "$readPreference", "autocommit"}
_ANY_DATE = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
_STATEMENTS = {"updates", "deletes", "indexes"}


@dataclass(frozen=True, order=True)
class Part:
    """Of a command: a field, "updates.upsert" of a statement, or "$type" at any depth; "" is all."""

    command: str
    name: str

    def __str__(self) -> str:
        return f"{self.command}.{self.name}" if self.name else self.command


def parts_of(body: dict[str, Any]) -> set[Part]:
    command = next(iter(body))
    names = {"", *(name for name in list(body)[1:] if name not in _PROTOCOL)}
    for name in _STATEMENTS & names:
        names |= {f"{name}.{key}" for statement in body[name] for key in statement}
    names |= set(_operators({name: body[name] for name in names if name in body}))
    return {Part(command, name) for name in names}


def _operators(value: Any):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.startswith("$"):
                yield key
            yield from _operators(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _operators(inner)


@dataclass(frozen=True)
class Refusal:
    """kept: what of its text may be in the proxy's log, as no document's value can be in it."""

    part: Part
    code: int
    code_name: str
    text: str
    kept: str


def refusals(part: Part) -> list[Refusal]:
    """As servers say that they do not know this: FerretDB 1.24.2, mongod, and others."""
    if not part.name:
        text = f"no such command: '{part.command}'"
        return [Refusal(part, 59, "CommandNotFound", text, text)]
    last = part.name.rpartition(".")[2]
    ferret = f'support for field "{last}" is not implemented yet'
    unknown = f"BSON field '{part.command}.{last}' is an unknown field."
    return [Refusal(part, 238, "NotImplemented", ferret, ferret),
            Refusal(part, 40415, "Location40415", unknown, unknown),
            Refusal(part, 9, "FailedToParse", f"unknown option '{last}'", "unknown option"),
            Refusal(part, 2, "BadValue", f"this server has no '{last}'", "this server has no")]


class RefusingServer(Middleman):
    """`refusal` may be set at any time."""

    def __init__(self, target: str):
        self.refusal: Refusal | None = None
        self.asked: set[Part] = set()
        self.refused = 0
        super().__init__(target, script=self._pass)

    def _pass(self, connection: Connection, direction: Direction, raw: bytes) -> bytes:
        answer = self._answer(Request.read(raw)) if direction == "to_server" else None
        if not answer:
            return raw
        connection.client.sendall(answer)
        return b""

    def _answer(self, request: Request) -> bytes | None:
        if request.command in _OF_THE_DRIVER:
            return None
        parts = parts_of(bson.decode(request.body, _ANY_DATE))
        self.asked |= parts
        refusal = self.refusal
        if not refusal or refusal.part not in parts:
            return None
        self.refused += 1
        return reply_to(request, {"ok": 0.0, "errmsg": refusal.text, "code": refusal.code,
                                  "codeName": refusal.code_name})
