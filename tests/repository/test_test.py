"""scripts/test one: what it builds and runs for a file, in a tree of its own, where what it calls are stand-ins
that write down how they were called. And what a run says at its end."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAND_IN = '#!/bin/sh\necho "${0##*/} $*" >>"$SAID"\n'
UNIT = """TEST(Draw, SucceedsOnce) {
TEST_F(DrawTest, FailsTwice) {
TEST_P(Forms, SucceedsWithEach) {
"""


class Tree:
    def __init__(self, root: pathlib.Path):
        self.root = root
        self.said = root / "said"
        for name in ("scripts/test", "scripts/common.sh"):
            self.write(name, (ROOT / name).read_text())
        self.write("scripts/setup", STAND_IN)
        self.write("scripts/venv", f"#!/bin/sh\necho {root}/programs/python\n")
        self.write("scripts/mongod", "#!/bin/sh\necho /a/mongod\n")
        self.write("programs/cmake", STAND_IN)
        self.write("programs/python", STAND_IN + 'echo "with $MONGOD $IDPROXY_BINARY $GTEST_FILTER" >>"$SAID"\n')
        self.write("build/dev/bin/unit_ids", STAND_IN)
        self.write("build/test/kept", "of the last whole run")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def one(self, *arguments: str, folder: str = ".") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "scripts/test", "one", *arguments], cwd=self.root / folder, capture_output=True,
            text=True, timeout=60,
            env={**os.environ, "PATH": f"{self.root}/programs:{os.environ['PATH']}", "SAID": str(self.said)})

    def says(self, *arguments: str, folder: str = ".") -> str:
        """What the stand-ins wrote."""
        done = self.one(*arguments, folder=folder)
        assert done.returncode == 0, done.stderr
        assert (self.root / "build/test/kept").exists()
        return self.said.read_text()


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Tree:
    tree = Tree(tmp_path)
    tree.write("tests/unit/ids/draw_test.cpp", UNIT)
    tree.write("tests/store/draw_test.cpp", UNIT)
    for folder in ("integration", "repository", "drivers", "package"):
        tree.write(f"tests/{folder}/test_this.py", "")
    return tree


def test_of_a_unit_only_its_tests_run(tree: Tree):
    said = tree.says("tests/unit/ids/draw_test.cpp")
    assert "setup build sanitizers\n" in said
    assert said.count("--target") == 1 and "--preset dev -j 2 --target unit_ids\n" in said
    names = ("Draw.SucceedsOnce", "DrawTest.FailsTwice", "Forms.SucceedsWithEach")
    assert said.endswith("unit_ids --gtest_filter=" + "".join(f"{name}:*/{name}/*:" for name in names) + "\n")


def test_of_a_unit_those_with_a_text_in_their_names(tree: Tree):
    said = tree.says("draw_test.cpp", "-k", "t.Fails", folder="tests/unit/ids")
    assert said.endswith("unit_ids --gtest_filter=DrawTest.FailsTwice:*/DrawTest.FailsTwice/*:\n")


def test_of_the_store_with_a_server(tree: Tree):
    said = tree.says("tests/store/draw_test.cpp", "-k", "Once")
    assert "--target mongo-idproxy store_test\n" in said and "tests/integration/test_store.py\n" in said
    assert said.endswith("Draw.SucceedsOnce:*/Draw.SucceedsOnce/*:\n")


@pytest.mark.parametrize("folder, preset, installed", [
    ("integration", "dev", "build sanitizers test"), ("repository", "dev", "build sanitizers test"),
    ("drivers", "release", "drivers"), ("package", "release", "build test package package_tests image"),
])
def test_of_the_program(tree: Tree, folder: str, preset: str, installed: str):
    said = tree.says(f"tests/{folder}/test_this.py::TestThis", "-k", "this and not that")
    assert f"setup {installed}\n" in said
    assert f"--preset {preset} -j 2 --target mongo-idproxy\n" in said
    assert f" --numprocesses 0 tests/{folder}/test_this.py::TestThis -k this and not that\n" in said
    assert said.endswith(f"with /a/mongod {tree.root}/build/{preset}/bin/mongo-idproxy \n")


@pytest.mark.parametrize("arguments, reason", [
    ((), "usage"), (("tests/integration/test_that.py",), "there is no file tests/integration/test_that.py"),
    (("scripts/common.sh",), "nothing in scripts/common.sh that can be run alone"),
    (("tests/unit/ids/draw_test.cpp", "-k", "Never"), "no test of tests/unit/ids/draw_test.cpp has 'Never'"),
])
def test_what_cannot_be_run(tree: Tree, arguments: tuple[str, ...], reason: str):
    done = tree.one(*arguments)
    assert done.returncode == 1 and reason in done.stderr
    assert not tree.said.exists()


def test_what_fails_is_a_failure(tree: Tree):
    tree.write("build/dev/bin/unit_ids", "#!/bin/sh\nexit 3\n")
    assert tree.one("tests/unit/ids/draw_test.cpp").returncode == 3
    shutil.copy("/bin/false", tree.root / "programs/cmake")
    assert tree.one("tests/unit/ids/draw_test.cpp").returncode == 1


# ---- scripts/test_totals.py, by which it ends

def totals(folder: pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, ROOT / "scripts/test_totals.py", folder / "results", folder / "seconds"],
                          cwd=ROOT, env={**os.environ, "CI": "", **environment}, capture_output=True, text=True,
                          timeout=60)


def suite(*cases: str) -> str:
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"


@pytest.fixture
def results(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "results"
    (folder / "unit.gtest").mkdir(parents=True)
    (folder / "unit.part").write_text("7 passed\n")
    (folder / "unit.gtest/unit_ids.xml").write_text(suite(
        '<testcase name="A" classname="Draw" time="0.25" file="/elsewhere/tests/unit/ids/uuid_test.cpp"/>'))
    # ctest knows the program only, whose own file has its tests.
    (folder / "unit.ctest.xml").write_text(suite('<testcase name="unit.ids" classname="unit.ids" time="4"/>'))
    (folder / "lint.checks").write_text("passed format 3.0\n")
    (folder / "integration.pytest.xml").write_text(suite(
        '<testcase classname="integration.test_insert" name="test_a" time="1.5"/>',
        '<testcase classname="integration.test_insert.TestB" name="test_b" time="2"/>',
        '<testcase classname="integration.test_tls" name="test_c" time="1"><skipped message="why"/></testcase>'))
    return folder


def test_seconds_are_kept_by_file(results: pathlib.Path):
    """A file that did not run this time keeps those of the last time, while it exists."""
    kept = results.parent / "seconds"
    kept.write_text("".join(f"{part}\t90.0\t5\ttests/{file}\n" for part, file in (
        ("drivers", "drivers/test_php.py"), ("integration", "integration/test_insert.py"),
        ("integration", "integration/test_gone.py"))))
    done = totals(results.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\nskipped: integration: integration.test_tls.test_c why\n4 passed, 0 failed, 1 skipped\n")
    table = done.stdout.split("the files that take longest")[1].split("\n\n")[0].splitlines()[1:]
    assert [line.split() for line in table] == [
        ["3.5", "2", "integration:", "tests/integration/test_insert.py"],
        ["1.0", "1", "integration:", "tests/integration/test_tls.py"],
        ["0.2", "1", "unit:", "tests/unit/ids/uuid_test.cpp"]]
    assert kept.read_text() == (
        "drivers\t90.0\t5\ttests/drivers/test_php.py\nintegration\t3.5\t2\ttests/integration/test_insert.py\n"
        "integration\t1.0\t1\ttests/integration/test_tls.py\nunit\t0.2\t1\ttests/unit/ids/uuid_test.cpp\n")


def test_what_was_skipped_or_has_failed_without_a_test(results: pathlib.Path):
    assert totals(results.parent, CI="true").returncode == 1
    (results / "unit.part").write_text("7 failed\n")
    done = totals(results.parent)
    assert done.returncode == 1 and done.stdout.endswith("4 passed, 1 failed, 1 skipped\n")


def test_pieces_are_added_up(results: pathlib.Path):
    whole = results.parent / "pieces/results"
    for number in (1, 2):
        shutil.copytree(results, whole / str(number))
    (whole / "2/unit.part").write_text("3 failed\n")
    done = totals(whole.parent)
    assert done.returncode == 1 and done.stdout.endswith("8 passed, 1 failed, 2 skipped\n")
    assert ["unit", "10", "2", "failed"] in [line.split() for line in done.stdout.splitlines()]


# ---- scripts/test full --piece

@pytest.mark.parametrize("piece", ["", "0/2", "3/2", "2", "a/b"])
def test_what_is_no_piece(tree: Tree, piece: str):
    done = subprocess.run([tree.root / "scripts/test", "full", "--piece", piece], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1 and "--piece needs which one of how many: 2/6" in done.stderr


def test_each_file_belongs_to_one_piece():
    """And each of the longest to another one."""
    def files(piece: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-c", "tests/pytest.ini", "--collect-only", "tests/repository",
             "tests/package"], cwd=ROOT, capture_output=True, text=True, timeout=120,
            env={**os.environ, "IDPROXY_PIECE": piece})
        return sorted({line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line})

    pieces = [files(f"{number}/3") for number in (1, 2, 3)]
    assert sorted(sum(pieces, [])) == files("1/1")
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
