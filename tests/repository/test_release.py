"""scripts/release, in a copy of this tree, with small stand-ins for scripts/package and scripts/image, which
have tests of their own. It needs no server."""

from __future__ import annotations

import datetime
import email.utils
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from ruamel.yaml import YAML

from support.proxy import binary

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEXT = "99.1.0"

PACKAGE = """#!/bin/sh
test "$1" = --output && test "$SOURCE_DATE_EPOCH" && mkdir -p build/deb/DEBIAN build/deb/usr/bin || exit 2
cp "$IDPROXY_BINARY" build/deb/usr/bin/mongo-idproxy
printf 'Package: mongo-idproxy\\nVersion: 99.1.0\\nArchitecture: all\\nMaintainer: a <a@example.org>\\nDescription: -\\n' \\
  >build/deb/DEBIAN/control
dpkg-deb --build -Znone build/deb "$2"/mongo-idproxy_99.1.0_all.deb
"""
IMAGE = '#!/bin/sh\necho image >"$2"/mongo-idproxy-99.1.0-image.tar\n'
DEBIAN = """mongo-idproxy (0.1.0) bookworm; urgency=medium

  * The first version.

 -- A Maintainer <maintainer@example.org>  Sat, 28 Nov 2026 00:00:00 +0000
"""


class Tree:
    """A repository of its own, of one commit."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        for folder in ("debian", "scripts"):
            (root / folder).mkdir()
        for folder in ("docs", "examples"):
            shutil.copytree(ROOT / folder, root / folder)
        for name in ("CMakeLists.txt", "CHANGELOG.md", ".gitignore", "scripts/release", "scripts/sbom"):
            shutil.copy2(ROOT / name, root / name)
        # As right after a release there is nothing new.
        self.write("CHANGELOG.md", self.text("CHANGELOG.md").replace(
            "## [Unreleased]\n", "## [Unreleased]\n\n### Fixed\n\n- What was wrong.\n", 1))
        changelog = ROOT / "debian/changelog"
        self.write("debian/changelog", changelog.read_text() if changelog.exists() else DEBIAN)
        for name, text in (("package", PACKAGE), ("image", IMAGE)):
            self.write(f"scripts/{name}", text)
            (root / "scripts" / name).chmod(0o755)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit()

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "The tree")

    def environment(self) -> dict[str, str]:
        names = ("GIT_AUTHOR", "GIT_COMMITTER")
        return {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
                "IDPROXY_BINARY": binary(), **{f"{name}_NAME": "Somebody" for name in names},
                **{f"{name}_EMAIL": "somebody@example.org" for name in names}}

    def shell(self, commands: str, **environment: str) -> None:
        """As a workflow's step."""
        subprocess.run(["sh", "-e", "-c", commands], cwd=self.root, check=True,
                       env={**self.environment(), **environment})

    def git(self, *command: str) -> str:
        return subprocess.run(["git", *command], cwd=self.root, capture_output=True, text=True, check=True,
                              env=self.environment()).stdout.strip()

    def release(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["scripts/release", *arguments], cwd=self.root, capture_output=True, text=True,
                              timeout=120, env=self.environment())

    def text(self, name: str) -> str:
        return (self.root / name).read_text()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)


@pytest.fixture
def tree(tmp_path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> tuple[Tree, str]:
    """A tree with a release, and what the script printed."""
    tree = Tree(tmp_path_factory.mktemp("released"))
    done = tree.release(NEXT)
    assert done.returncode == 0, done.stdout + done.stderr
    return tree, done.stdout


def test_the_version_is_set(released):
    tree, _ = released
    assert f"project(mongo-idproxy VERSION {NEXT} LANGUAGES" in tree.text("CMakeLists.txt")
    assert tree.git("status", "--porcelain") == ""


def test_docs_and_examples_name_its_image(released):
    tree, _ = released
    named = {path: set(re.findall(r"mongo-idproxy:(\d+\.\d+\.\d+)", path.read_text()))
             for folder in ("docs", "examples") for path in (tree.root / folder).rglob("*") if path.is_file()
             and path.suffix in (".md", ".yaml")}
    named = {str(path.relative_to(tree.root)): versions for path, versions in named.items() if versions}
    assert {"docs/containers.md", "examples/compose/compose.yaml", "examples/kubernetes/sidecar.yaml"} <= {*named}
    assert all(versions == {NEXT} for versions in named.values()), named


def test_unreleased_becomes_the_release(released):
    tree, _ = released
    today = datetime.datetime.now(datetime.UTC).date()
    headings = re.findall(r"(?m)^## .*", tree.text("CHANGELOG.md"))
    assert headings[:2] in [["## [Unreleased]", f"## [{NEXT}] - {day}"]
                            for day in (today, today - datetime.timedelta(days=1))]
    old = tree.git("show", "HEAD~1:CHANGELOG.md")
    assert headings[2:] == re.findall(r"(?m)^## .*", old)[1:]
    before = old.split("## [Unreleased]\n")[1]
    assert tree.text("CHANGELOG.md").strip().endswith(before)
    assert tree.release("--notes").stdout.strip() == before.split("\n## [")[0].strip()


def test_debian_has_an_entry(released):
    """As dpkg reads it."""
    tree, _ = released
    old = tree.git("show", "HEAD~1:debian/changelog")
    assert tree.text("debian/changelog").strip().endswith(old)
    of = {}
    for field in ("Source", "Version", "Distribution", "Maintainer", "Date", "Changes"):
        of[field] = subprocess.run(["dpkg-parsechangelog", "--show-field", field], cwd=tree.root, text=True,
                                   capture_output=True, check=True).stdout.strip()
    assert (of["Source"], of["Version"].split("-")[0]) == ("mongo-idproxy", NEXT)
    (distribution, maintainer) = re.match(r"(?s)\S+ \(\S+\) (\S+);.*? -- (.*?)  ", old).groups()
    assert (of["Distribution"], of["Maintainer"]) == (distribution, maintainer)
    assert email.utils.parsedate_to_datetime(of["Date"]) and "New release" in of["Changes"]


def test_there_is_a_commit_with_an_annotated_tag(released):
    tree, _ = released
    assert tree.git("log", "--format=%s", "HEAD~1..HEAD") == f"Release {NEXT}"
    assert tree.git("cat-file", "-t", f"v{NEXT}") == "tag"
    assert tree.git("rev-parse", f"v{NEXT}^{{commit}}") == tree.git("rev-parse", "HEAD")


def test_the_artifacts_are_complete(released):
    tree, _ = released
    output = tree.root / f"build/release-{NEXT}"
    assert {path.name for path in output.iterdir()} == {
        f"mongo-idproxy_{NEXT}_all.deb", f"mongo-idproxy-{NEXT}-image.tar", f"mongo-idproxy-{NEXT}.cdx.json",
        "SHA256SUMS"}
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=output, check=True)
    assert len((output / "SHA256SUMS").read_text().splitlines()) == 3


def test_it_says_what_to_type(released):
    """Which works: it publishes, here to a repository beside this one, and takes back."""
    tree, said = released
    (publish,) = re.findall(r"(?m)^  (git push .*)$", said)
    (take_back,) = re.findall(r"(?m)^  (git tag --delete .*)$", said)
    assert "Nothing has been pushed" in said
    origin = tree.root.parent / f"{tree.root.name}.git"
    tree.git("init", "--quiet", "--bare", "--initial-branch", "main", str(origin))
    tree.git("remote", "add", "origin", str(origin))
    subprocess.run(publish, shell=True, cwd=tree.root, check=True, env=tree.environment())
    assert f"refs/tags/v{NEXT}" in tree.git("ls-remote", "origin")
    before = tree.git("rev-parse", "HEAD~1")
    copy = tree.root.parent / f"{tree.root.name}.copy"
    tree.git("clone", "--quiet", str(origin), str(copy))
    subprocess.run(take_back, shell=True, cwd=copy, check=True, env=tree.environment())
    said = subprocess.run(["git", "log", "--format=%H %D", "-1"], cwd=copy, capture_output=True, text=True)
    assert said.stdout.startswith(before) and "tag:" not in said.stdout


def test_the_workflow_publishes_it(tree, tmp_path_factory):
    """By its own commands, up to the one that uploads."""
    for name, old, new in (("CMakeLists.txt", r"VERSION \d+\.\d+\.\d+ L", f"VERSION {NEXT} L"),
                           ("CHANGELOG.md", r"\[Unreleased\]", f"[{NEXT}] - 2026-01-01")):
        tree.write(name, re.sub(old, new, tree.text(name), count=1))
    tree.commit()
    tree.git("tag", f"v{NEXT}")
    jobs = YAML(typ="safe").load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    builds = [step["run"] for step in jobs["artifacts"]["steps"] if "scripts/release" in step.get("run", "")]
    (publishes,) = [step["run"] for step in jobs["publish"]["steps"] if "run" in step]
    for commands in builds:
        tree.shell(commands, GITHUB_REF_NAME=f"v{NEXT}")
    # What upload-artifact and download-artifact do.
    (tree.root / "artifacts").rename(tree.root / "release")
    programs = tmp_path_factory.mktemp("programs")
    (programs / "gh").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >said\n')
    (programs / "gh").chmod(0o755)
    tree.shell(publishes, GITHUB_REF_NAME=f"v{NEXT}", PATH=f"{programs}:{os.environ['PATH']}")
    assert tree.text("said").splitlines() == [
        "release", "create", f"v{NEXT}", "--verify-tag", "--title", f"mongo-idproxy {NEXT}", "--notes-file",
        "notes.md", "release/SHA256SUMS", f"release/mongo-idproxy-{NEXT}-image.tar",
        f"release/mongo-idproxy-{NEXT}.cdx.json", f"release/mongo-idproxy_{NEXT}_all.deb"]
    assert tree.text("notes.md").startswith("### Fixed\n\n- What was wrong.")


def test_a_dry_run_changes_nothing(tree):
    before = tree.git("rev-parse", "HEAD")
    done = tree.release("--dry-run", NEXT)
    assert done.returncode == 0, done.stderr
    for line in (f"+project(mongo-idproxy VERSION {NEXT}", f"+## [{NEXT}] - ", f"+mongo-idproxy ({NEXT}"):
        assert f"\n{line}" in done.stdout
    assert (tree.git("rev-parse", "HEAD"), tree.git("status", "--porcelain"), tree.git("tag")) == (before, "", "")
    assert not (tree.root / "build").exists()


def test_without_debian(tree):
    """As it was before there was a package."""
    shutil.rmtree(tree.root / "debian")
    tree.commit()
    assert "debian" not in tree.release("--dry-run", NEXT).stdout


@pytest.mark.parametrize("version, reason", [
    ("1.2", "must be X.Y.Z"), ("v1.2.3", "must be X.Y.Z"), ("1.02.3", "must be X.Y.Z"),
    ("0.0.1", "does not come after"),
])
def test_a_wrong_version_is_refused(tree, version, reason):
    done = tree.release(version)
    assert done.returncode == 1 and reason in done.stderr
    assert tree.git("tag") == ""


def test_a_tree_that_is_not_clean_is_refused(tree):
    tree.write("scripts/forgotten", "")
    done = tree.release(NEXT)
    assert done.returncode == 1 and "not clean" in done.stderr and "scripts/forgotten" in done.stderr


def test_a_tag_that_is_there_is_refused(tree):
    tree.git("tag", f"v{NEXT}")
    assert f"there is a tag v{NEXT}" in tree.release(NEXT).stderr


def test_no_branch_is_refused(tree):
    tree.git("checkout", "--quiet", "--detach")
    assert "on no branch" in tree.release(NEXT).stderr


def test_nothing_new_is_refused(tree):
    tree.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n### Added\n\n- All\n")
    tree.commit()
    assert "nothing below '## [Unreleased]'" in tree.release(NEXT).stderr


def test_artifacts_are_those_of_a_release(tree):
    """And of no other commit."""
    done = tree.release("--artifacts")
    assert done.returncode == 1 and "HEAD is no release" in done.stderr


def test_what_has_failed_can_be_done_again(tree):
    good = tree.text("scripts/image")
    tree.write("scripts/image", "#!/bin/sh\nexit 3\n")
    tree.commit()
    done = tree.release(NEXT)
    assert done.returncode == 1 and "scripts/release --artifacts" in done.stderr
    tree.write("scripts/image", good)
    assert "not clean" in tree.release("--artifacts").stderr
    tree.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    tree.git("tag", "--force", "--annotate", f"v{NEXT}", "--message", "again")
    done = tree.release("--artifacts")
    assert done.returncode == 0, done.stderr
    assert (tree.root / f"build/release-{NEXT}/SHA256SUMS").exists()


@pytest.mark.parametrize("arguments", [(), ("--artifacts", NEXT), ("--dry-run",), ("--dry-run", "--notes")])
def test_a_wrong_command_line(tree, arguments):
    assert tree.release(*arguments).returncode == 2
