"""What the drivers are told to insert, under which rules, and what must be stored of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from support.elements import elements
from support.mongod import Mongod
from support.values import digits_of, uuid_of

# The rules of the proxy in every test module here.
RULES = [
    {"ns": "ids.*", "field": "_id", "strategy": "uuid"},
    {"ns": "fields.*", "field": "made", "strategy": "random-digits"},
]

COUNTS = [1, 100, 10_000]


def run(arguments: list[str | os.PathLike], **options) -> str:
    """The standard output of a program that must succeed."""
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          **{"timeout": 400, **options})
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def check_ids(server: Mongod, coll: str, count: int) -> None:
    """Documents {k: i, text: "text i"} in ids.<coll>, each with a UUID version 7 in front."""
    check = uuid_of(7, "standard")
    values = set()
    found = list(_raw(server, "ids", coll))
    for i, raw in enumerate(found):
        made, k, text = elements(raw)
        assert (made.name, k.name, text.name) == (b"_id", b"k", b"text")
        check(made)
        values.add(made.value)
        assert text.value[4:-1] == b"text %d" % i
    assert len(found) == len(values) == count


def check_fields(server: Mongod, coll: str, count: int) -> None:
    """Documents {_id: <the driver's>, k: i, text: "text i"} in fields.<coll> with `made` last."""
    check = digits_of(12, "int64", True)
    values = set()
    found = list(_raw(server, "fields", coll))
    for i, raw in enumerate(found):
        own, k, text, made = elements(raw)
        assert [e.name for e in (own, k, text, made)] == [b"_id", b"k", b"text", b"made"]
        assert own.type == 0x07
        check(made)
        values.add(made.value)
        assert text.value[4:-1] == b"text %d" % i
    assert len(found) == len(values) == count


def _raw(server: Mongod, db: str, coll: str) -> Iterator[bytes]:
    options = CodecOptions(document_class=RawBSONDocument)
    for document in server.client[db].get_collection(coll, codec_options=options).find().sort("k"):
        yield bytes(document.raw)
