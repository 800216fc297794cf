"""Runs store_test, the C++ tests of src/id_store, against real servers."""

from __future__ import annotations

import os
import pathlib
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.mongod import Mongod
from support.proxy import binary

STORE_TEST = pathlib.Path(binary()).with_name("store_test")
SHARDS = 4


def run_shard(number: int) -> subprocess.CompletedProcess[str]:
    """With a server of its own: some tests have the server fail."""
    with Mongod("rs0") as server:
        shard = {"IDPROXY_STORE_URI": f"mongodb://{server.address}",
                 "GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(number)}
        return subprocess.run(
            [STORE_TEST, "--gtest_brief=1"], env=os.environ | shard,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)


@pytest.mark.tsan
def test_store() -> None:
    """Side by side, since most of them wait."""
    assert STORE_TEST.exists(), "store_test is built beside the program, and must be"
    with ThreadPoolExecutor(SHARDS) as threads:
        for done in threads.map(run_shard, range(SHARDS)):
            assert done.returncode == 0, done.stdout[-8000:]
