"""What the mongod of this run can do: a test that needs more says so by `needs`."""

from __future__ import annotations

import functools
import re
import subprocess

from .mongod import mongod_path

# Since which version.
FEATURES = {
    "retried_stmt_ids": (6, 0),
    "collection_uuid": (6, 0),
    "clustered": (5, 3),
    "time_series": (5, 0),
}


@functools.cache
def version() -> tuple[int, ...]:
    output = subprocess.run(
        [mongod_path(), "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"db version v(\d+)\.(\d+)\.(\d+)", output)
    assert found, output
    return tuple(map(int, found.groups()))


def has(feature: str) -> bool:
    return version() >= FEATURES[feature]


def lacks(features: tuple[str, ...]) -> bool:
    return not all(map(has, features))
