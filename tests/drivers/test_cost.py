"""scripts/bench cost does what it says. Its figures are looked at by nobody here."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

from support.proxy import binary

TESTS = pathlib.Path(__file__).resolve().parents[1]


def test_cost_has_a_row_for_each_way_and_every_number_is_unique() -> None:
    assert pathlib.Path(binary()).with_name("bench_cost").exists(), \
        "bench_cost is built beside the program, and must be"
    done = subprocess.run(
        [sys.executable, TESTS / "bench" / "cost.py", "--quick"], timeout=300, text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    *rows, note = [json.loads(line) for line in done.stdout.splitlines()]
    cells = ["inserts of 1, 1 client", "inserts of 1, 8 clients", "inserts of 100, 1 client",
             "inserts of 100, 8 clients"]
    assert [row["work"] for row in rows] == 3 * cells
    for row in rows:
        assert list(row["columns"]) == ["direct", "own counter", "counter", "block: 10000", "uuid"]
        assert all(figure > 0 for rounds in row["columns"].values() for figure in rounds)
        assert row["of"] in row["columns"] and row["beside"] in row["columns"]
    assert re.fullmatch(r"Into the replica set [1-9]\d+ documents were inserted; all are stored, each with an "
                        r"_id of its own\.", note["note"])
