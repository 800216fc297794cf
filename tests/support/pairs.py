"""Of a product of parameters, as much as shows how any two of them meet."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

Row = tuple[str, ...]


def covering(rows: Sequence[Row]) -> set[Row]:
    """Some of the rows: any two values that stand in one row, at their places, do so in these too."""
    def pairs(row: Row) -> set[Any]:
        return set(itertools.combinations(enumerate(row), 2))

    missing = set().union(*map(pairs, rows))
    # What a row adds only becomes less, so that an entry is at worst too good.
    heap = [(-len(pairs(row)), row) for row in rows]
    heapq.heapify(heap)
    chosen = set()
    while missing:
        _, row = heapq.heappop(heap)
        adds = len(pairs(row) & missing)
        if heap and -heap[0][0] > adds:
            heapq.heappush(heap, (-adds, row))
        else:
            missing -= pairs(row)
            chosen.add(row)
    return chosen


def _values(item: pytest.Item) -> Row:
    """Of its parameters; what may not be hashable is told apart by its text."""
    params = params_of(item)
    return tuple(repr(params[name]) for name in params if name != "secured")


def params_of(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


def beyond_pairs(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Of tests with three parameters or more: those that a covering() of each does not need."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if len(_values(item)) >= 3:
            # A secured set is no further dimension: there are as many tests of it.
            name = item.nodeid.partition("[")[0] + params_of(item).get("secured", "")
            tests.setdefault(name, []).append(item)
    left_out = []
    for group in tests.values():
        rows = {item: _values(item) for item in group}
        chosen = covering(list(rows.values()))
        left_out += [item for item in group if rows[item] not in chosen]
    return left_out
