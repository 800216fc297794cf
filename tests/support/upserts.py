"""What a rule does with upserts, taken out again: to compare with the same upserts without it."""

from __future__ import annotations

import datetime
from typing import Any

from bson.int64 import Int64
from bson.objectid import ObjectId

# Databases of one length, so that names in errors can be exchanged.
PROXIED, DIRECT = "proxied", "direct_"

FIELDS = {"id": "_id", "number": "number", "path": "reg.number"}
"""The kind of a collection, and the field that its rule assigns."""

_TIMES = ("$clusterTime", "operationTime", "electionId", "opTime")


def is_generated(value: Any) -> bool:
    """A value of a rule for random digits, twelve of them."""
    return isinstance(value, Int64) and 10**11 <= value < 10**12


def bare(value: Any) -> Any:
    """Without what differs from run to run: times, ids of the server, names of databases."""
    if isinstance(value, dict):
        return {k: bare(v) for k, v in value.items() if k not in _TIMES}
    if isinstance(value, list):
        return [bare(v) for v in value]
    if isinstance(value, ObjectId) or is_generated(value):
        return "an id"
    if isinstance(value, datetime.datetime):
        return "a time"
    return value.replace(PROXIED, DIRECT) if isinstance(value, str) else value


def without_quotes(value: Any) -> Any:
    """A reply whose error texts end where they quote the update, with the value in it."""
    if isinstance(value, list):
        return [without_quotes(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: each.partition("{")[0] if name == "errmsg" else without_quotes(each)
            for name, each in value.items()}


def at(document: dict[str, Any], path: str) -> Any:
    """The value at this path, or None."""
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document


def without_value(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """The document, which has a value, as it would be without the rule; its _id stays."""
    if kind == "number":
        return {k: v for k, v in document.items() if k != "number"}
    if kind == "path":
        rest = {k: v for k, v in document["reg"].items() if k != "number"}
        return {k: rest if k == "reg" else v for k, v in document.items() if k != "reg" or rest}
    return document
