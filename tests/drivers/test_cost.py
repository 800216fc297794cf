"""scripts/bench cost does what it says. Its figures are looked at by nobody here."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from support.proxy import binary

TESTS = pathlib.Path(__file__).resolve().parents[1]


def cost(*options: str) -> list[dict[str, Any]]:
    assert pathlib.Path(binary()).with_name("bench_cost").exists(), \
        "bench_cost is built beside the program, and must be"
    done = subprocess.run(
        [sys.executable, TESTS / "bench" / "cost.py", "--quick", *options], timeout=300, text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


CELLS = ["inserts of 1, 1 client", "inserts of 1, 8 clients", "inserts of 100, 1 client",
         "inserts of 100, 8 clients"]


def check(rows: list[dict[str, Any]], columns: list[str]) -> None:
    for row in rows:
        assert list(row["columns"]) == columns
        assert all(figure > 0 for rounds in row["columns"].values() for figure in rounds)
        assert row["of"] in row["columns"] and row["beside"] in row["columns"]


def test_cost_has_a_row_for_each_way_and_every_number_is_unique() -> None:
    *rows, note = cost()
    assert [row["work"] for row in rows] == 3 * CELLS
    check(rows, ["direct", "own counter", "counter", "block: 10000", "uuid"])
    assert re.fullmatch(r"Into the replica set [1-9]\d+ documents were inserted; all are stored, each with an "
                        r"_id of its own\.", note["note"])


@pytest.mark.full
def test_cost_without_gaps() -> None:
    *rows, _ = cost("--gapless")
    assert [row["work"] for row in rows] == CELLS
    check(rows, ["one directly", "highest + 1", "gapless"])
