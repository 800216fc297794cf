"""tests/touched.py knows tests for every source file, and none that there are not."""

from __future__ import annotations

import pathlib

import pytest

import touched

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_source_file_has_tests():
    for folder in ("src", "include/idproxy"):
        for path in (ROOT / folder).rglob("*.?pp"):
            for test in touched.tests_of_source(path.relative_to(ROOT / folder).as_posix()):
                assert test.exists(), path


def test_a_file_of_a_new_module_is_not_overlooked():
    with pytest.raises(LookupError, match="invoices/year.cpp"):
        touched.touched(["src/invoices/year.cpp"])


@pytest.mark.parametrize("path, test", [
    ("src/net/tls_engine.cpp", "test_tls.py"),
    ("include/idproxy/ids/counter_spec.hpp", "test_counter.py"),
    ("tests/integration/test_cuts.py", "test_cuts.py"),
    ("tests/support/failover.py", "test_failover.py"),
    ("docs/operations.md", "test_documented.py"),
    ("config/mongo-idproxy.yaml", "test_documented.py"),
])
def test_of_a_change(path: str, test: str):
    assert ROOT / "tests" / "integration" / test in touched.touched([path])


def test_what_is_no_source_needs_none():
    assert touched.touched(["LICENSE", "tests/integration/gone.py"]) == set()
