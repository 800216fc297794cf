"""The schema that the program prints, and the keys in it."""

from __future__ import annotations

import functools
import json
import subprocess
from typing import Any

import jsonschema

from .proxy import binary

Schema = dict[str, Any]


@functools.cache
def schema() -> Schema:
    done = subprocess.run([binary(), "config", "--schema"], capture_output=True, text=True, timeout=60, check=True)
    assert not done.stderr
    whole = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(whole)
    return whole


def validator(part: Schema | None = None) -> jsonschema.Draft202012Validator:
    """part: of the schema; by default all of it."""
    whole = schema()
    return jsonschema.Draft202012Validator(whole if part is None else {**part, "$defs": whole["$defs"]})


def of_rules() -> dict[str, Schema]:
    """Strategy -> schema of its rules."""
    return {branch["if"]["properties"]["strategy"]["const"]: branch["then"]
            for branch in schema()["$defs"]["rule"]["allOf"]}


def section_in(part: Schema) -> Schema | None:
    """The mapping with keys of its own that the value may be."""
    return next((form for form in [part, *part.get("anyOf", [])] if "properties" in form), None)


def keys(part: Schema, before: str = "") -> dict[str, Schema]:
    """Dotted name -> schema, of all keys below that are no section, without those of earlier releases."""
    found: dict[str, Schema] = {}
    for key, its in part["properties"].items():
        if its.get("deprecated"):
            continue
        section = section_in(its)
        found.update(keys(section, f"{before}{key}.") if section else {before + key: its})
    return found


def sections(part: Schema, before: str = "") -> dict[str, Schema]:
    """Dotted name -> schema, of all sections below."""
    found: dict[str, Schema] = {}
    for key, its in part["properties"].items():
        if section := section_in(its):
            found |= {before + key: section, **sections(section, f"{before}{key}.")}
    return found


def put(mapping: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key. What is on its way and no mapping is replaced by one."""
    first, _, rest = key.partition(".")
    if not rest:
        mapping[key] = value
        return
    if not isinstance(mapping.get(first), dict):
        mapping[first] = {}
    put(mapping[first], rest, value)
