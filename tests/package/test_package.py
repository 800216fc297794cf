"""What cmake --install puts where, and the systemd unit among it."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build" / "release"

# `systemd-analyze security --offline` rates from 0 (locked up) to 10.
HIGHEST_EXPOSURE = 1.5


def run(*arguments: str | pathlib.Path, environment: dict[str, str] = {}) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> pathlib.Path:
    """The installed files, staged as a packager does it: nothing outside DESTDIR is written."""
    staging = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", RELEASE, environment={"DESTDIR": str(staging)})
    cache = (RELEASE / "CMakeCache.txt").read_text()
    (configured,) = re.findall(r"(?m)^CMAKE_INSTALL_PREFIX:PATH=/(.*)$", cache)
    return staging / configured


@pytest.fixture
def unit(prefix, tmp_path) -> pathlib.Path:
    """The unit with its program where it is installed here, so that systemd finds it."""
    installed = prefix / "lib" / "systemd" / "system" / "mongo-idproxy.service"
    text, count = re.subn(r"(?m)^ExecStart=\S*/mongo-idproxy ",
                          f"ExecStart={prefix}/bin/mongo-idproxy ", installed.read_text())
    assert count == 1
    adapted = tmp_path / "mongo-idproxy.service"
    adapted.write_text(text)
    return adapted


def test_files(prefix):
    found = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
    for expected in (
            "bin/mongo-idproxy", "etc/mongo-idproxy/mongo-idproxy.yaml",
            "lib/systemd/system/mongo-idproxy.service"):
        assert expected in found
    assert {pathlib.Path(name).name for name in found} >= {"README.md", "LICENSE"}


def test_the_program_runs(prefix):
    assert "mongo-idproxy" in run(prefix / "bin" / "mongo-idproxy", "--version")


def test_the_configuration_is_good(prefix):
    run(prefix / "bin" / "mongo-idproxy", "--check-config", "--config",
        prefix / "etc" / "mongo-idproxy" / "mongo-idproxy.yaml")


def test_the_unit_names_what_is_installed():
    """As installed under the prefix that the build was made for."""
    text = (RELEASE / "mongo-idproxy.service").read_text()
    (command,) = re.findall(r"(?m)^ExecStart=(.*)$", text)
    program, option, configuration = command.split()
    assert (pathlib.Path(program).name, option) == ("mongo-idproxy", "--config")
    assert configuration.endswith("/mongo-idproxy/mongo-idproxy.yaml")
    assert "@" not in command


def test_the_unit_is_valid(unit):
    assert not run("systemd-analyze", "verify", "--man=no", unit).strip()


def test_the_unit_is_hardened(unit):
    output = run("systemd-analyze", "security", "--offline=yes", "--no-pager", unit)
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", output)
    print(f"exposure {exposure}")
    assert float(exposure) <= HIGHEST_EXPOSURE
