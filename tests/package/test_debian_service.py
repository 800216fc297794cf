"""The Debian package where systemd runs: what it starts, restarts and stops."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from debian_package import CONFIGURATION, ROOT
from nested_systemd import NestedSystemd
from support.mongod import mongod_path
from support.process import eventually, start
from test_package import RELEASE

pytestmark = pytest.mark.timeout(1800)

INSERT = """
import pymongo
client = pymongo.MongoClient("mongodb://127.0.0.1:27117/", directConnection=True)
client.shop.orders.insert_one({"_id": 1})
print(client.shop.orders.find_one({"_id": 1}).get("number"))
client.shop.orders.drop()
"""


@pytest.fixture
def host(clean_root) -> Iterator[NestedSystemd]:
    running = NestedSystemd(clean_root)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def mongod(host, tmp_path) -> Iterator[None]:
    """Where the configuration of the package expects it."""
    process = start(host.in_its_network(
        mongod_path(), "--dbpath", str(tmp_path), "--port", "27017", "--bind_ip", "127.0.0.1",
        "--nounixsocket", "--logpath", str(tmp_path / "mongod.log"), "--wiredTigerCacheSizeGB", "0.25"))
    log = tmp_path / "mongod.log"
    try:
        eventually(lambda: log.exists() and "Waiting for connections" in log.read_text(), 60, "mongod listens")
        yield
    finally:
        process.kill()
        process.wait()


def documented(section: str, block: int = 0) -> str:
    """The commands of a section of docs/installation.md, for root."""
    page = (ROOT / "docs/installation.md").read_text()
    text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?s)```sh\n(.*?)```", text)[block].replace("sudo ", "")


def do(host: NestedSystemd, commands: str) -> str:
    """Keeps the configuration, if it is asked."""
    return host.run("bash", "-ec", f"yes N | {{\n{commands}}}")


def apt(host: NestedSystemd, action: str, package: str | pathlib.Path) -> None:
    if isinstance(package, pathlib.Path):
        shutil.copy(package, host.root / "root")
        package = f"/root/{package.name}"
    host.run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-o",
             "Dpkg::Options::=--force-confold", action, package)


def state(host: NestedSystemd) -> tuple[str, str]:
    return tuple(host.attempt("systemctl", question, "mongo-idproxy").stdout.strip()
                 for question in ("is-enabled", "is-active"))


def number_of_insert(host: NestedSystemd) -> str:
    """Through the proxy."""
    return subprocess.run(host.in_its_network(sys.executable, "-c", INSERT), check=True, timeout=60,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


def test_serves_from_installation_to_removal(host, mongod, package, tmp_path):
    output = host.root / "build/package"
    output.mkdir(parents=True)
    shutil.copy(package.program, output)
    install = documented("The package")
    assert install.startswith("scripts/package ")
    do(host, install.partition("\n")[2])
    assert state(host) == ("enabled", "active")
    host.run("mongo-idproxy", "wait")
    assert "127.0.0.1:27017" in do(host, documented("Start"))
    assert number_of_insert(host) == "None"

    configuration = host.root / CONFIGURATION
    configuration.write_text(configuration.read_text().replace(
        "\nrules: []\n", "\nrules: [{ns: shop.orders, field: number, strategy: counter}]\n"))
    assert "shop.orders" in host.run("mongo-idproxy", "reload")
    host.run("mongo-idproxy", "wait")
    assert number_of_insert(host) == "1"

    pid = host.run("systemctl", "show", "--property=MainPID", "mongo-idproxy")
    shutil.copy(package.newer(tmp_path), host.root / "mongo-idproxy_2.0.0_amd64.deb")
    do(host, documented("Upgrade"))
    assert state(host) == ("enabled", "active")
    assert host.run("systemctl", "show", "--property=MainPID", "mongo-idproxy") != pid
    host.run("mongo-idproxy", "wait")
    assert int(number_of_insert(host)) > 1  # by the rule, which is in the changed configuration

    apt(host, "remove", "mongo-idproxy")
    assert not host.attempt("pidof", "mongo-idproxy").stdout
    apt(host, "purge", "mongo-idproxy")
    assert state(host) == ("", "inactive")


def test_takes_over_from_an_installation_from_source(host, package):
    subprocess.run(["cmake", "--install", RELEASE], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "DESTDIR": str(host.root)})
    (host.root / "build/release").mkdir(parents=True)
    shutil.copy(RELEASE / "install_manifest.txt", host.root / "build/release")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "enable", "--now", "mongo-idproxy")
    configuration = host.root / "usr/local" / CONFIGURATION
    own = configuration.read_text().replace("level: info ", "level: debug ")
    configuration.write_text(own)

    do(host, documented("From source", block=1))
    assert not host.attempt("which", "mongo-idproxy").stdout
    apt(host, "install", package.program)
    assert state(host) == ("enabled", "active")
    assert (host.root / CONFIGURATION).read_text() == own
    assert "/usr/local" not in host.run("systemctl", "show", "--property=FragmentPath,ExecStart", "mongo-idproxy")


def test_a_masked_service_is_not_started(host, package):
    """docs/installation.md: to configure it before its first start."""
    host.run("systemctl", "mask", "mongo-idproxy")
    apt(host, "install", package.program)
    assert state(host) == ("masked", "inactive")
    host.run("systemctl", "unmask", "mongo-idproxy")
    host.run("systemctl", "enable", "--now", "mongo-idproxy")
    assert state(host) == ("enabled", "active")


def test_a_bad_configuration_does_not_stop_an_upgrade(host, package, tmp_path):
    """Only the service fails, and says why."""
    apt(host, "install", package.program)
    (host.root / CONFIGURATION).write_text("rules: {}\n")
    apt(host, "install", package.newer(tmp_path))
    assert state(host) == ("enabled", "failed")
    assert "rules: must be a list" in host.run("journalctl", "--unit=mongo-idproxy", "--output=cat", "--no-pager")


# ssh and scp, to a host that has no sudo.
SSH = """#!/bin/bash
shift
if [[ $1 == sudo ]]; then shift; fi
exec $ENTER "$@"
"""
SCP = """#!/bin/bash
to=${@: -1}
cp "${@:2:$#-2}" "$HOST_ROOT${to#*:}"
"""


def install_plainly(host: NestedSystemd, directory: pathlib.Path, package: pathlib.Path, configuration: str
                    ) -> subprocess.CompletedProcess[str]:
    """By examples/plain, with a secret, on two hosts that are one."""
    programs = directory / "programs"
    programs.mkdir(exist_ok=True)
    for name, text in (("ssh", SSH), ("scp", SCP)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (directory / "new.yaml").write_text(configuration)
    (directory / "secret").write_text("mongodb://127.0.0.1:27017/")
    done = subprocess.run(
        [ROOT / "examples/plain/install", package, directory / "new.yaml", directory / "secret", "--",
         "app1", "app2"],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "ENTER": shlex.join(host.entering()),
             "HOST_ROOT": str(host.root)})
    assert not [*(host.root / "tmp").glob("tmp.*")], "no secret stays behind"
    assert "=== app1\n" in done.stdout and ("=== app2\n" in done.stdout) == (done.returncode == 0)
    return done


def test_the_plain_installation(host, mongod, package, tmp_path):
    rules = ("id_store: {uri_file: '${CREDENTIALS_DIRECTORY}/store-uri'}\n"
             "rules: [{ns: shop.orders, field: number, strategy: counter}]\n")
    done = install_plainly(host, tmp_path, package.program, rules)
    assert done.returncode == 0, done.stdout + done.stderr
    assert state(host) == ("enabled", "active")
    assert number_of_insert(host) == "1"
    assert host.run("stat", "--format=%a %U", "/etc/mongo-idproxy/store-uri") == "600 root\n"

    def running() -> tuple[str, str]:
        return (host.run("systemctl", "show", "--property=MainPID", "mongo-idproxy"),
                host.run("dpkg-query", "--show", "mongo-idproxy"))

    before = running()
    newer = package.newer(tmp_path)  # with another default configuration, of which dpkg asks
    done = install_plainly(host, tmp_path, newer, "rulez: []\n")
    assert done.returncode == 78 and "rulez" in done.stdout, done.stdout + done.stderr
    assert running() == before and host.run("cat", f"/{CONFIGURATION}") == rules

    done = install_plainly(host, tmp_path, newer, f"# the second\n{rules}")
    assert done.returncode == 0, done.stdout + done.stderr
    (pid, version), (old_pid, old_version) = running(), before
    assert pid != old_pid and version == old_version.replace("\n", "+1\n")
    assert host.run("cat", f"/{CONFIGURATION}") == f"# the second\n{rules}"
    assert int(number_of_insert(host)) > 1
