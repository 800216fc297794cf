"""Runs store_test, the C++ tests of src/id_store, against a real server."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from support.mongod import Mongod
from support.proxy import binary

STORE_TEST = pathlib.Path(binary()).with_name("store_test")


@pytest.mark.tsan
def test_store(replica_set: Mongod) -> None:
    assert STORE_TEST.exists(), "store_test is built beside the program, and must be"
    uri = f"mongodb://{replica_set.address}"
    done = subprocess.run(
        [STORE_TEST, "--gtest_brief=1"], env=os.environ | {"IDPROXY_STORE_URI": uri},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-8000:]
