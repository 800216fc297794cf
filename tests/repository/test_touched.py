"""tests/touched.py knows tests for every source file, and none that there are not."""

from __future__ import annotations

import pathlib

import pytest

import touched

ROOT = pathlib.Path(__file__).resolve().parents[2]


def sources() -> list[str]:
    return [path.relative_to(ROOT / folder).as_posix() for folder in ("src", "include/idproxy")
            for path in (ROOT / folder).rglob("*.?pp")]


def test_every_source_file_has_tests_that_exist():
    for source in sources():
        tests = touched.tests_of_source(source)
        assert tests and all(test.exists() for test in tests), source


def test_names_in_the_tables_exist():
    for names in [*touched.MODULES.values(), *(names for _, names in touched.ALSO)]:
        for name in names.split():
            assert (ROOT / "tests" / "integration" / f"test_{name}.py").exists()


@pytest.mark.parametrize("word, test", [
    ("gapless", "test_gapless.py"), ("turn_stage", "test_gapless.py"), ("id_store/sequence", "test_gapless.py"),
    ("range", "test_counter_ranges.py"), ("reserv", "test_reserve.py"), ("reserv", "test_reserve_store.py"),
    ("guard", "test_guards.py"), ("upsert", "test_upserts.py"), ("hello", "test_hello.py"),
    ("counter", "test_counter.py"), ("scan", "test_existing_data.py"), ("run_out", "test_run_out.py"),
])
def test_a_feature_has_its_own(word: str, test: str):
    of_feature = [source for source in sources() if word in source]
    assert of_feature
    for source in of_feature:
        assert ROOT / "tests" / "integration" / test in touched.tests_of_source(source), source


def test_a_file_of_a_new_module_is_not_overlooked():
    with pytest.raises(LookupError, match="invoices/year.cpp"):
        touched.touched(["src/invoices/year.cpp"])


@pytest.mark.parametrize("path, test", [
    ("src/net/tls_engine.cpp", "test_tls.py"),
    ("include/idproxy/ids/counter_spec.hpp", "test_counter.py"),
    ("tests/integration/test_cuts.py", "test_cuts.py"),
    ("tests/support/failover.py", "test_failover.py"),
    ("scripts/count", "test_count.py"),
    ("scripts/test", "test_repository.py"),
    ("tests/repository/test_sbom.py", "test_sbom.py"),
    (".github/workflows/ci.yml", "test_repository.py"),
    ("CHANGELOG.md", "test_repository.py"),
    ("docs/operations.md", "test_documented.py"),
    ("config/mongo-idproxy.yaml", "test_documented.py"),
    ("dashboards/mongo-idproxy.json", "test_monitoring.py"),
    ("prometheus/alerts.yml", "test_monitoring.py"),
    ("docs/metrics.md", "test_monitoring.py"),
    ("src/app/views/metrics_table.cpp", "test_monitoring.py"),
])
def test_of_a_change(path: str, test: str):
    assert test in {found.name for found in touched.touched([path])}


def test_what_is_no_source_needs_none():
    assert touched.touched(["LICENSE", "tests/integration/gone.py"]) == set()
