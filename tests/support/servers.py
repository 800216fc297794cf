"""What the mongod of this run can do: a test that needs more says so by `needs`."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterable
from typing import Any

from .mongod import mongod_path

# Since which version.
FEATURES = {
    "array_id_is_53": (5, 0),  # 2 before
    "keeps_writes": (5, 0),  # all documents of an unordered insert that is repeated
    "order_of_reply": (5, 0),  # errors come before opTime and ok
    "empty_operators": (5, 0),  # {$setOnInsert: {}}
    "large_padding": (5, 0),  # a sequence of 48 MB that ping does not know
    "checks_views": (5, 0),  # what is inserted into system.views
    "readmits": (5, 0),  # a member that was expelled and runs on, without ending
    "dollar_fields": (5, 0),  # names of fields that begin with $
    "equal_keys": (5, 0),  # several indexes with the same key
    "strict_api": (5, 0),
    "drops_beside_builds": (5, 2),  # an index, while another one is being built
    "only_op_msg": (5, 1),  # OP_INSERT and the like close the connection
    "retried_stmt_ids": (6, 0),
    "collection_uuid": (6, 0),
    "clustered": (5, 3),
    "time_series": (5, 0),
    "queryable_encryption": (6, 0),  # in its first form
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


def check_retried(reply: dict[str, Any], numbers: Iterable[int]) -> None:
    """The reply names the statements that an earlier attempt has executed, if this server does."""
    expected = sorted(numbers) if has("retried_stmt_ids") else []
    assert sorted(reply.get("retriedStmtIds", [])) == expected


def lacks(features: tuple[str, ...]) -> bool:
    return not all(map(has, features))
