"""scripts/bench cost does what it says. Its figures are looked at by nobody here."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from support.proxy import binary

TESTS = pathlib.Path(__file__).resolve().parents[1]


def cost(*options: str) -> str:
    assert pathlib.Path(binary()).with_name("bench_cost").exists(), \
        "bench_cost is built beside the program, and must be"
    done = subprocess.run(
        [sys.executable, TESTS / "bench" / "cost.py", "--quick", *options], timeout=300, text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cost_has_a_row_for_each_way_and_every_number_is_unique() -> None:
    printed = cost()
    rows = re.findall(r"(?m)^ *(1|8) +(1|100)  (\S.*?) +\d+ +(\d+\.\d\d) +(\d+\.\d\d) +[\d.]+ ms$",
                      printed)
    names = ["direct, without a number", "application's own counter", "proxy, counter",
             "proxy, counter, block: 10000", "proxy, uuid"]
    assert [row[:3] for row in rows] == [(clients, documents, name) for clients in "18"
                                         for documents in ("1", "100") for name in names]
    for _, _, name, to_direct, to_own_counter in rows:
        assert name != names[0] or to_direct == "1.00"
        assert name != names[1] or to_own_counter == "1.00"
    assert re.search(r"(?m)^[1-9]\d+ documents inserted, all stored, each with an _id of its own$",
                     printed)


@pytest.mark.full
def test_cost_without_gaps() -> None:
    rows = re.findall(r"(?m)^ *(1|100) +(1|8)  (\S.*?) +\d+ +\d+\.\d\d +[\d.]+ ms$",
                      cost("--gapless"))
    names = ["direct, without a number", "proxy, gapless", "application: highest number + 1"]
    assert rows == [(documents, clients, name) for documents in ("1", "100") for clients in "18"
                    for name in names]
