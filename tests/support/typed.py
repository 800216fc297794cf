"""Commands that the proxy tells people to type in mongosh, carried out as typed."""

from __future__ import annotations

import json
import re
from typing import Any

import pymongo

_CREATE_INDEX = re.compile(
    r'db\.getSiblingDB\((".*?")\)\.getCollection\((".*?")\)\.createIndex\(((?:.|\n)*?\})\)')


def create_index_in(text: str) -> str:
    """The command in an error or a line of the log."""
    found = _CREATE_INDEX.search(text)
    assert found, text
    return found[0]


def create_index(client: pymongo.MongoClient, text: str) -> str:
    """Runs the command in the text; the index's name."""
    found = _CREATE_INDEX.search(text)
    assert found, text
    db, collection = json.loads(found[1]), json.loads(found[2])
    # As JavaScript has them, keys need no quotes.
    quoted = re.sub(r"([{,]\s*)(\$?\w+):", r'\1"\2":', found[3])
    key, options = json.loads(f"[{quoted}]")
    arguments: dict[str, Any] = dict(options)
    return client[db][collection].create_index(list(key.items()), **arguments)
