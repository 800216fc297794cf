"""The Debian package: what is in it, and what it leaves in a clean root directory."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from debian_package import CONFIGURATION, ROOT, Package, make_root
from test_package import RELEASE, run

pytestmark = pytest.mark.timeout(1800)  # it is built here, perhaps without any help of ccache

# What packages change that are installed, beside their files.
BOOKKEEPING = ("var/lib/dpkg/", "var/lib/apt/", "var/log/", "var/cache/apt/", "var/cache/debconf/", "var/cache/ldconfig/")


class Root:
    """A copy of a clean root directory, with the package beside it."""

    def __init__(self, clean: pathlib.Path, directory: pathlib.Path):
        self.path = directory / "root"
        subprocess.run(["cp", "--archive", "--reflink=auto", clean, self.path], check=True)

    def apt(self, action: str, *packages: str | pathlib.Path) -> None:
        """As docs/installation.md says where nobody answers."""
        names = []
        for package in packages:
            if isinstance(package, pathlib.Path):
                shutil.copy(package, self.path / "root")
                package = f"/root/{package.name}"
            names.append(package)
        done = subprocess.run(
            ["chroot", self.path, "apt-get", "-y", "-o", "Dpkg::Options::=--force-confold", action, *names],
            env={"PATH": os.environ["PATH"], "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True,
            text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        for path in (self.path / "root").glob("*.deb"):
            path.unlink()

    def files(self) -> set[str]:
        every = {str(path.relative_to(self.path)) for path in self.path.rglob("*")}
        return {path for path in every if not path.startswith(BOOKKEEPING)}

    @property
    def configuration(self) -> pathlib.Path:
        return self.path / CONFIGURATION


@pytest.fixture
def root(clean_root, tmp_path) -> Root:
    return Root(clean_root, tmp_path)


@pytest.fixture(scope="module")
def extracted(package, tmp_path_factory) -> pathlib.Path:
    """The files of both packages."""
    directory = tmp_path_factory.mktemp("extracted")
    for each in (package.program, package.symbols):
        run("dpkg-deb", "--extract", each, directory)
    return directory


def test_versions_are_the_same(package):
    (version,) = re.findall(r"(?m)^project\(mongo-idproxy VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert package.field("Version") == version
    assert run("dpkg-parsechangelog", "--file", ROOT / "debian/changelog", "--show-field", "Version").strip() == version


def test_two_versions_are_refused(tmp_path):
    for name in ("scripts", "debian"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "CMakeLists.txt").write_text("project(mongo-idproxy VERSION 99.0.0 LANGUAGES CXX\n")
    done = subprocess.run([tmp_path / "scripts/package"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and not (tmp_path / "build").exists()
    assert re.search(r"debian/changelog begins with version \S+, CMakeLists.txt has 99.0.0", done.stderr)


def test_lintian_has_no_objection(package):
    """Errors and warnings fail it."""
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", package.changes],
                          capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_has_what_an_installation_has(extracted, tmp_path):
    """Where Debian wants it, and what Debian wants beside it."""
    run("cmake", "--install", RELEASE, "--prefix", "/usr", environment={"DESTDIR": str(tmp_path)})
    expected = {re.sub(r"^(?:usr/local|usr)/", "", str(path.relative_to(tmp_path)))
                for path in tmp_path.rglob("*") if path.is_file()}
    expected -= {"bin/.debug/mongo-idproxy.debug"}
    expected |= {"share/doc/mongo-idproxy/changelog.gz", "share/doc/mongo-idproxy/copyright"}
    moved = {"/vendor-completions/": "/site-functions/", ".1.gz": ".1", ".5.gz": ".5"}
    found = set()
    for path in extracted.rglob("*"):
        name = str(path.relative_to(extracted)).removeprefix("usr/")
        if not path.is_dir() and not name.startswith("lib/debug/") and "dbgsym" not in name:
            for there, here in moved.items():
                name = name.replace(there, here)
            found.add(name)
    assert found == expected


def test_its_symbols_belong_to_it(extracted):
    (build,) = re.findall(r"Build ID: (\w+)", run("readelf", "--notes", extracted / "usr/bin/mongo-idproxy"))
    symbols = extracted / f"usr/lib/debug/.build-id/{build[:2]}/{build[2:]}.debug"
    assert ".debug_line" in run("readelf", "--section-headers", "--wide", symbols)


def test_checks_what_servers_say(extracted):
    """What is shipped has its own functions in place of libmongoc's; test_lying_hello.py has the lies."""
    symbols = run("readelf", "--dyn-syms", "--wide", extracted / "usr/bin/mongo-idproxy")
    for name in ("mongoc_server_description_handle_hello",
                 "_mongoc_topology_scanner_parse_speculative_authentication"):
        assert re.search(rf"GLOBAL DEFAULT +\d+ {name}$", symbols, re.MULTILINE)


def test_names_its_own_paths(extracted):
    unit = (extracted / "lib/systemd/system/mongo-idproxy.service").read_text()
    for name in ("ExecStart=/usr/bin/mongo-idproxy --config /etc/mongo-idproxy/mongo-idproxy.yaml\n",
                 "Documentation=file:/usr/share/doc/mongo-idproxy/docs/operations.md\n"):
        assert name in unit
    assert "/usr/local" not in unit
    page = run("mandoc", "-T", "ascii", extracted / "usr/share/man/man1/mongo-idproxy.1.gz")
    assert "usr/local" not in page


def test_knows_its_commit(extracted):
    head = run("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD").strip()
    assert f"(commit {head})" in run(extracted / "usr/bin/mongo-idproxy", "--version")


def test_from_installation_to_purge(package, root, tmp_path):
    before = root.files()
    newer = package.newer(tmp_path)

    root.apt("install", package.program)
    shipped = root.configuration.read_text()
    assert shipped == (ROOT / "config/mongo-idproxy.yaml").read_text()
    run("chroot", root.path, "mongo-idproxy", "check")
    wanted = root.path / "etc/systemd/system/multi-user.target.wants/mongo-idproxy.service"
    assert wanted.is_symlink()

    own = shipped.replace("level: info ", "level: debug ")
    assert own != shipped
    root.configuration.write_text(own)
    root.apt("install", newer)
    assert root.configuration.read_text() == own
    assert root.configuration.with_suffix(".yaml.dpkg-dist").read_text().endswith("# of the next version\n")

    root.apt("remove", "mongo-idproxy")
    assert root.configuration.read_text() == own
    assert not (root.path / "usr/bin/mongo-idproxy").exists()
    root.apt("install", package.program)
    assert root.configuration.read_text() == own

    root.apt("purge", "mongo-idproxy")
    assert root.files() == before

    root.apt("install", package.program)
    assert root.configuration.read_text() == shipped and wanted.is_symlink()
    root.apt("install", newer)
    assert root.configuration.read_text().endswith("# of the next version\n")
    assert not root.configuration.with_suffix(".yaml.dpkg-dist").exists()


def test_its_own_test_passes(package, root, tmp_path):
    """The one that Debian's machines run: debian/tests, which need nothing else of the tree."""
    shutil.copytree(ROOT / "debian", tmp_path / "tree/debian")
    (tmp_path / "tree/debian/files").touch()  # as if it had been built there
    done = subprocess.run(
        ["autopkgtest", package.program, tmp_path / "tree", "--", "chroot", root.path],
        capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"(?m)^smoke +PASS$", done.stdout + done.stderr)


@pytest.mark.full  # it compiles everything
def test_is_built_the_same_way_everywhere(package, tmp_path):
    """In another directory, without ccache."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "CCACHE_DISABLE": "1"}
    subprocess.run([ROOT / "scripts/package", "--output", tmp_path / "again"], check=True, env=environment)
    again = Package(tmp_path / "again")
    for one, other in ((package.program, again.program), (package.symbols, again.symbols)):
        assert one.read_bytes() == other.read_bytes(), one.name


# A mount namespace of its own, so that nothing stays mounted.
IN_A_MACHINE = """mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" &&
exec chroot "$1" /root/mongo-idproxy/scripts/quickstart --once"""


@pytest.mark.full  # it installs a compiler, and compiles everything
def test_the_quick_start_on_a_bare_machine(tmp_path):
    """It installs all that it needs: here on a Debian that has no more than apt and a clone."""
    root = make_root(tmp_path / "root", "--variant=minbase", "--include=ca-certificates")
    run("git", "clone", "--quiet", ROOT, root / "root/mongo-idproxy")
    # How this machine reaches the network.
    for name in ("resolv.conf", "hosts", "pip.conf", "ssl/certs/ca-certificates.crt"):
        if (pathlib.Path("/etc") / name).exists():
            shutil.copy(pathlib.Path("/etc") / name, root / "etc" / name)
    shutil.copytree("/etc/apt/apt.conf.d", root / "etc/apt/apt.conf.d", dirs_exist_ok=True)
    network = {name: value for name, value in os.environ.items()
               if name.lower().endswith("_proxy") or name.startswith("PIP_")}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", IN_A_MACHINE, "sh", root], capture_output=True, text=True, check=False,
        env={**network, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "number: 1004" in done.stdout
