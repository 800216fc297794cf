"""Where root may not do what a systemd of its own takes, as in most containers, the tests that need
one are not there at all, rather than skipped, nor those that need root where nobody is: test_package.py has
what can be said without."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

from debian_package import DEPENDENCIES, ROOT, Package, codename, make_root
from nested_systemd import why_impossible
from support.cache import cached

_REASON = why_impossible()
collect_ignore = ["test_service.py", "test_debian_service.py", "test_image.py"] if _REASON else []
if os.geteuid() != 0:
    collect_ignore.append("test_debian.py")  # chroot


def pytest_report_header() -> str:
    return f"systemd of its own: {_REASON or 'yes'}"


@pytest.fixture(scope="session")
def package(tmp_path_factory) -> Package:
    """Built now, by scripts/package."""
    directory = tmp_path_factory.mktemp("package")
    subprocess.run([ROOT / "scripts/package", "--output", directory], check=True, stdout=subprocess.DEVNULL)
    return Package(directory)


@pytest.fixture(scope="session")
def clean_root(package) -> pathlib.Path:
    """A Debian as small as it can be that has systemd, what autopkgtest wants, and what the package depends
    on. Not to be changed: it is made once, and then again when the dependencies change."""
    packages = ",".join(["systemd", "apt-utils", *package.depends_on()])

    def fill(directory: pathlib.Path) -> None:
        shutil.rmtree(directory / "root", ignore_errors=True)
        make_root(directory / "root", "--variant=apt", f"--include={packages}")

    return cached("debian", fill, codename(), packages, *map(package.field, DEPENDENCIES)) / "root"
