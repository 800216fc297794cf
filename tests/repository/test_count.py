"""scripts/count counts files, lines, functions, classes and mutexes. It needs no server."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

COUNT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "count"

HEADER = """\
#pragma once

/// Two lines
/// of comment.
class Pool final : public Base<int(char)> {
 public:
  explicit Pool(int size = {}) : Base{1}, size_(size) {}
  Pool(const Pool&) = delete;
  bool operator==(const Pool& other) const { return size_ == other.size_; }
  int size() const;

 private:
  struct alignas(64) Slot {
    std::atomic<int> users{0};
  };
  enum class State { open, closed };

  mutable std::mutex mutex_;  // a trailing comment
  std::mutex& other_;
  std::function<int(Slot)> on_free_{[](Slot) { return 1; }};
  int size_;
};
"""

SOURCE = """\
#include "pool.hpp"
/* Of two lines,

   without the empty one */
namespace {
constexpr int kMost = 1'000;
const auto kNone = [](int) { return '{'; };
template <typename T = int>
auto twice(T value) -> T {
  struct tm now {};
  if (value > 0) { return 2 * value; }
  return 0;
}
}  // namespace

int Pool::size() const { return "} // no comment {"[0]; }
const char* text = R"x(
int f() {
// no comment
)x";
"""


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for name, text in {
        "include/idproxy/net/pool.hpp": HEADER, "src/net/pool.cpp": SOURCE, "src/net/pool_use.cpp": "",
        "src/main.cpp": "int main() {}\n", "tests/unit/net/pool_test.cpp": "TEST(Pool, Is) {}\n// 1\n",
        "src/README.md": "# int f() {}\n", "src/net/tls/end.cpp": "int end;\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def count(*words: str | pathlib.Path) -> dict[str, list[str]]:
    done = subprocess.run([sys.executable, COUNT, *words], timeout=60, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    return {row.split()[0]: row.split()[1:] for row in done.stdout.splitlines()}


EXPECTED = {
    # files, components, lines, code, comments, cpp %, functions, classes, mutexes
    "net": ["3", "2", "42", "33", "4", "11.1", "4", "2", "1"],
    "net/tls": ["1", "1", "1", "1", "0", "0.0", "0", "0", "0"],
    "main.cpp": ["1", "1", "1", "1", "0", "0.0", "1", "0", "0"],
    "program": ["5", "4", "44", "35", "4", "10.0", "5", "2", "1"],
    "tests": ["1", "1", "2", "1", "1", "50.0", "1", "0", "0"],
    "all": ["6", "5", "46", "36", "5", "13.6", "6", "2", "1"],
}


def test_of_a_tree(tree: pathlib.Path):
    rows = count("--root", tree)
    rows.pop("folder")
    assert rows == EXPECTED


def test_of_a_commit(tree: pathlib.Path):
    for words in (["init", "--quiet"], ["add", "."],
                  ["-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "A tree"]):
        subprocess.run(["git", *words], cwd=tree, check=True, timeout=60)
    (tree / "src" / "net" / "pool.cpp").unlink()
    assert count("--root", tree)["net"] != EXPECTED["net"]
    assert count("--root", tree, "--commit", "HEAD")["net"] == EXPECTED["net"]


def test_a_commit_that_does_not_exist(tree: pathlib.Path):
    done = subprocess.run([sys.executable, COUNT, "--root", tree, "--commit", "none"], timeout=60,
                          text=True, stderr=subprocess.PIPE)
    assert done.returncode == 1 and "there is no commit none" in done.stderr
