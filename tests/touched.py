"""Prints the integration tests of what changed since a commit, one file a line: for scripts/test quick.

Usage: touched.py COMMIT. Changes are those of the work tree, files that git does not know yet among
them. A test that changed is always one of them, and so are those that use a module of tests/support
which changed. For a source file AREAS says which tests show most about it in a minute or two; all run in scripts/test.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_TESTS = _ROOT / "tests" / "integration"

# The first pattern that a path of src or include/idproxy, without that, matches -> test_*.py.
AREAS: list[tuple[str, str]] = [
    (r"base/|bson/|wire/", "bad_input insert relay"),
    (r"ids/(counter|block_cache|refill|grant|number|store)", "counter counter_layouts"),
    (r"ids/(random_digits|fill|uniform)", "insert inspection"),
    (r"ids/", "insert"),
    (r"rewrite/(hello|members|topology)", "hello hello_lies topology"),
    (r"rewrite/login", "authentication"),
    (r"rewrite/status", "status"),
    (r"rewrite/(next|insert_rights)", "next"),
    (r"rewrite/(reply|duplicate_key|write_reply|outcomes)", "lying_server report transactions"),
    (r"rewrite/", "bad_input insert parts transactions"),
    (r"net/(tls|stream|openssl)", "tls wrong_tls"),
    (r"net/(connector|unreachable)", "unreachable names"),
    (r"net/(upstreams|probe|lookups|own_address|backoff)", "names topology single_servers"),
    (r"net/", "relay ordinary parts transactions"),
    (r"id_store/(inspector|advice|questions|watch|namespaces)", "inspection status"),
    (r"id_store/", "store counter counter_layouts"),
    (r"observability/", "admin documented"),
    (r"config/", "cli reload documented"),
    (r"app/(backfill|progress|sample)", "backfill readiness"),
    (r"app/|main\.cpp", "cli admin reload status"),
    (r"CMakeLists\.txt|README\.md", "ordinary"),
]


def changed_since(commit: str) -> set[str]:
    def lines(*command: str) -> set[str]:
        done = subprocess.run(["git", *command], cwd=_ROOT, check=True, text=True,
                              stdout=subprocess.PIPE)
        return set(done.stdout.splitlines())
    return lines("diff", "--name-only", commit) | lines(
        "ls-files", "--others", "--exclude-standard")


def tests_of_source(path: str) -> list[pathlib.Path]:
    for pattern, names in AREAS:
        if re.match(pattern, path):
            return [_TESTS / f"test_{name}.py" for name in names.split()]
    raise LookupError(f"tests/touched.py names no tests for {path}")


def _users(support: str) -> set[pathlib.Path]:
    """The tests that import a module of tests/support; a few of them if most do."""
    importing = re.compile(rf"from support(\.{support} import| import .*\b{support}\b)")
    users = {path for path in _TESTS.glob("test_*.py") if importing.search(path.read_text())}
    return users if len(users) <= 4 else {_TESTS / "test_ordinary.py", _TESTS / "test_insert.py"}


def touched(paths: Iterable[str]) -> set[pathlib.Path]:
    tests: set[pathlib.Path] = set()
    for path in paths:
        if found := re.match(r"(?:src|include/idproxy)/(.*)", path):
            tests.update(tests_of_source(found[1]))
        elif found := re.fullmatch(r"tests/support/(\w+)\.py", path):
            tests |= _users(found[1])
        elif re.fullmatch(r"tests/integration/test_\w+\.py", path):
            tests.add(_ROOT / path)
        elif path.endswith(".md") or path.startswith("config/"):
            tests.add(_TESTS / "test_documented.py")
        if re.match(r"tests/bench/.*\.py|scripts/bench|docs/performance|.*README\.md", path):
            tests.add(_TESTS / "test_bench_report.py")
    return {path for path in tests if path.exists()}


def main() -> None:
    for path in sorted(touched(changed_since(sys.argv[1]))):
        print(path.relative_to(_ROOT))


if __name__ == "__main__":
    main()
