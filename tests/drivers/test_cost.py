"""scripts/bench cost and duplicates do what they say. Their figures are looked at by nobody here."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from support.proxy import binary

TESTS = pathlib.Path(__file__).resolve().parents[1]
CELLS = ["inserts of 1, 1 client", "inserts of 1, 8 clients", "inserts of 100, 1 client",
         "inserts of 100, 8 clients"]
STORED = (r"Into the replica set [1-9]\d+ documents were inserted; all are stored, each with an "
          r"_id of its own\.")


def rows_of(name: str, columns: list[str], note: str, *options: str) -> list[str]:
    """Names of all rows, which must have these columns; note: what the program says at the end."""
    assert pathlib.Path(binary()).with_name(f"bench_{name}").exists(), \
        f"bench_{name} is built beside the program, and must be"
    done = subprocess.run(
        [sys.executable, TESTS / "bench" / f"{name}.py", "--quick", *options], timeout=300, text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    *rows, last = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        assert list(row["columns"]) == columns
        assert all(figure > 0 for rounds in row["columns"].values() for figure in rounds)
        assert row["of"] in columns and row["beside"] in columns
    assert re.fullmatch(note, last["note"])
    return [row["work"] for row in rows]


def test_cost_has_a_row_for_each_way_and_every_number_is_unique() -> None:
    assert rows_of("cost", ["direct", "own counter", "counter", "block: 10000", "uuid"],
                   STORED) == 3 * CELLS


@pytest.mark.full
def test_cost_without_gaps() -> None:
    assert rows_of("cost", ["one directly", "direct", "highest number + 1", "gapless"], STORED,
                   "--gapless") == CELLS


@pytest.mark.full
def test_duplicates() -> None:
    assert rows_of("duplicates", ["direct", "idproxy"],
                   r"With 1 % duplicates, [1-9]\d+ documents were inserted; each is stored once, with a "
                   r"number of its own\.") == ["inserts of 100, unordered", "inserts of 100, ordered"]
