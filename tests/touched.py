"""Prints the tests of what changed since a commit, one file a line: for scripts/test quick.

Usage: touched.py COMMIT. Changes are those of the work tree, files that git does not know yet among
them. A test that changed is always one of them, and so are those that use a module of tests/support
which changed. A source file leads to the tests of its module (MODULES), to those with a word of its name
in theirs, as ids/gapless_queue.cpp to test_gapless_scope.py, and to those that ALSO names. What is no part
of the program leads to tests/repository. All run in scripts/test, which leaves out what is marked full.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_TESTS = _ROOT / "tests" / "integration"
_OF_TOOLS = _ROOT / "tests" / "repository"

# Module -> test_*.py. Those of "" are for files that are in no module: main.cpp, CMakeLists.txt.
MODULES = {
    "": "cli command_line ordinary",
    "base": "bad_input insert relay",
    "bson": "bad_input insert relay",
    "wire": "bad_input insert relay",
    "ids": "insert",
    "rewrite": "bad_input insert parts transactions",
    "log": "documented",
    "threads": "documented",
    "metrics": "admin documented",
    "admin": "admin",
    "id_store": "store counter counter_layouts",
    "net": "relay ordinary parts transactions",
    "config": "cli reload documented",
    "app": "cli admin reload status",
    "app/state": "admin reload status",
    "app/views": "admin command_line status",
    "app/serve": "cli admin reload status",
    "app/jobs": "cli readiness",
    "app/doctor": "cli doctor",
    "app/commands": "cli command_line reload",
}

# What names do not tell: how a word in a path below src or include/idproxy begins -> test_*.py.
ALSO = [
    (r"turn|sequence", "gapless gapless_scope scope"),
    (r"ids/(block|refill|held|number|grant|wait)", "counter counter_layouts"),
    (r"ids/(random|fill|free)", "full_space inspection"),
    (r"ids/(check|number_format|sequences|scope)", "template"),
    (r"scan|healing|id_store/(outliers|field|number)", "counter_heal existing_data"),
    (r"id_store/(mongo|outcome|library|reply)", "other_servers counter_store_down"),
    (r"hello|release", "old_servers"),
    (r"hello|members", "hello topology"),
    (r"index|catalog", "guards inspection"),
    (r"id_store/(inspector|watch|namespaces)|advice", "inspection status"),
    (r"login", "authentication"),
    (r"compression|inflation|snappy|_gate|pair_messages", "compression"),
    (r"stored_counters|counter_text|commands/(counters|ids)", "counters_command"),
    (r"rights", "next"),
    (r"update|modify|forward", "upserts upsert_values"),
    (r"reply|replies|outcomes|duplicate", "lying_server report"),
    (r"rewrite/batch|draw_stage|retries|given_values", "duplicates"),
    (r"earlier_attempts", "repeated_writes"),
    (r"stream|openssl", "tls"),
    (r"connector|upstream|probe|lookups|address|sockets|backoff|seed|endpoints", "names single_servers"),
    (r"connection_string|config_file", "names single_servers"),
    (r"upstream|probe|directory", "topology"),
    (r"connector", "unreachable"),
    (r"net/ending", "drain unreachable"),
    (r"budget|buffer|queue|deadlines", "limits"),
    (r"metrics", "monitoring"),
    (r"jobs/(.*check|progress|value_text)|state/health", "readiness backfill"),
    (r"app/json|state/status|base/json", "command_line"),
    (r"base/(finding|parameters|scalars|words)", "cli reload documented"),
]

# Words that files of any kind have.
_COMMON = {"server", "set", "store", "text", "value", "out"}


def changed_since(commit: str) -> set[str]:
    def lines(*command: str) -> set[str]:
        done = subprocess.run(["git", *command], cwd=_ROOT, check=True, text=True,
                              stdout=subprocess.PIPE)
        return set(done.stdout.splitlines())
    return lines("diff", "--name-only", commit) | lines(
        "ls-files", "--others", "--exclude-standard")


def _words(name: str) -> set[str]:
    """The words of a file's name as far as they tell anything, without their endings, so that
    "reservations" and "reserve" are the same."""
    return {re.sub("(ations?|ions?|ors?|es?|s)$", "", word) for word in name.split("_")
            if word.removesuffix("s") not in _COMMON}


def tests_of_source(path: str) -> set[pathlib.Path]:
    module, _, file = path.rpartition("/")
    if module not in MODULES:
        raise LookupError(f"tests/touched.py names no tests for {path}")
    names = MODULES[module].split()
    for pattern, others in ALSO:
        if re.search(rf"(\b|_)({pattern})", path):
            names += others.split()
    words = _words(file.partition(".")[0])
    return {_TESTS / f"test_{name}.py" for name in names} | {
        test for test in _TESTS.glob("test_*.py") if words & _words(test.stem.removeprefix("test_"))}


def _users(support: str) -> set[pathlib.Path]:
    """The tests that import a module of tests/support; a few of them if most do."""
    importing = re.compile(rf"from support(\.{support} import| import .*\b{support}\b)")
    users = {path for path in _TESTS.glob("test_*.py") if importing.search(path.read_text())}
    few = {_TESTS / "test_ordinary.py", _TESTS / "test_insert.py"} & users
    return users if len(users) <= 4 else few or set(sorted(users)[:4])


def touched(paths: Iterable[str]) -> set[pathlib.Path]:
    tests: set[pathlib.Path] = set()
    for path in paths:
        if found := re.match(r"(?:src|include/idproxy)/(.*)", path):
            tests.update(tests_of_source(found[1]))
        elif found := re.fullmatch(r"tests/support/(\w+)\.py", path):
            tests |= _users(found[1])
        elif re.fullmatch(r"tests/(integration|repository)/test_\w+\.py", path):
            tests.add(_ROOT / path)
        elif found := re.fullmatch(r"scripts/(\w+)", path):
            tests.add(_OF_TOOLS / f"test_{found[1]}.py")
        elif path.endswith(".md") or path.startswith("config/"):
            tests.add(_TESTS / "test_documented.py")
        if re.match(r"\.github/|[A-Z]+\.md|scripts/(test|lint)$|docs/compatibility", path):
            tests.add(_OF_TOOLS / "test_repository.py")
        if re.match(r"dashboards/|prometheus/|docs/", path):
            tests.add(_TESTS / "test_monitoring.py")
        if re.match(r"tests/bench/.*\.py|scripts/bench|docs/performance|.*README\.md", path):
            tests.add(_OF_TOOLS / "test_bench_report.py")
    return {path for path in tests if path.exists()}


def main() -> None:
    for path in sorted(touched(changed_since(sys.argv[1]))):
        print(path.relative_to(_ROOT))


if __name__ == "__main__":
    main()
