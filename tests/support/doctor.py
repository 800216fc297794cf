"""mongo-idproxy doctor, and what its commands do when they are typed."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from .mongod import Mongod
from .process import free_port
from .proxy import binary, configuration

ROOT = pathlib.Path(__file__).resolve().parents[2]

LEVELS: dict[str, str] = {
    name: level.lower() for name, level in re.findall(
        r'FindingKind k\w+\{\s*"([\w-]+)",\s+k(\w+)[,}]',
        (ROOT / "include/idproxy/base/finding.hpp").read_text())}
"""Of all that it can find."""


WITHOUT_COMMANDS = {"proxies-disagree", "proxy-versions-differ", "proxy-silent"}
"""About other hosts, which anybody may have named."""


@dataclass
class Examination:
    code: int
    text: str
    document: dict[str, Any]

    @property
    def ids(self) -> set[str]:
        return {each["id"] for each in self.document["findings"]}

    def result(self, check: str) -> str:
        return next(each["result"] for each in self.document["checks"] if each["check"] == check)

    def one(self, name: str, level: str, subject: object, *words: object) -> dict[str, Any]:
        """The finding, with these words in its commands."""
        found = [each for each in self.document["findings"]
                 if each["id"] == name and each["subject"] == str(subject)]
        assert len(found) == 1, (name, subject, self.document["findings"])
        each = found[0]
        assert each["level"] == level == LEVELS[name]
        assert self.code == 1 or level == "note"
        assert each["link"] == f"troubleshooting.md#{name}"
        assert each["text"] and not each["text"].endswith(".")
        commands = [command["command"] for command in each["commands"]]
        assert commands or name in WITHOUT_COMMANDS
        assert all(any(str(word) in command for command in commands) for word in words), each
        return each


class Doctor:
    """Examines one configuration file."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def write(self, document: dict[str, Any], mode: int = 0o600) -> Doctor:
        self.path.write_text(json.dumps(document, indent=1))
        self.path.chmod(mode)
        return self

    def start(self, *arguments: str, within: list[str] = []) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*within, binary(), "doctor", "--config", str(self.path), *arguments],
                              capture_output=True, text=True, timeout=60)

    def examine(self, within: list[str] = []) -> Examination:
        done = self.start("--json", within=within)
        assert done.stdout and not done.stderr, done
        document = json.loads(done.stdout)
        assert done.returncode == (1 if document["errors"] + document["warnings"] else 0)
        return Examination(done.returncode, done.stdout, document)


def line_of(path: pathlib.Path, word: str) -> int:
    return next(i for i, text in enumerate(path.read_text().splitlines(), 1) if word in text)


def in_shell(command: str) -> None:
    """Types it: as who the test is, and with the program that is tested."""
    folder = pathlib.Path(binary()).parent
    done = subprocess.run(["sh", "-c", command.removeprefix("sudo ")], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    assert done.returncode == 0, (command, done)


def quiet(server: Any, rules: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A configuration that gives no cause for a finding."""
    return configuration(server, rules, **{
        "admin": {"listen": None}, "listen": {"port": 0, "max_connections": 100}, **more})


def uuid_rule(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "code", "strategy": "uuid", "version": 4, **more}


def counter_rule(ns: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "field": "n", "strategy": "counter", **more}


class Free:
    """Where no server is."""

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"


def free_server() -> Free:
    return Free()


@pytest.fixture
def doctor(tmp_path: pathlib.Path) -> Doctor:
    return Doctor(tmp_path / "config.yaml")


@pytest.fixture
def ns(replica_set: Mongod, coll: str) -> str:
    """A collection with a unique index, which has the rules code and n."""
    for field in ("code", "n"):
        replica_set.client[coll].orders.create_index(field, unique=True, sparse=True)
    return f"{coll}.orders"


@pytest.fixture(autouse=True)
def no_proxies(request: pytest.FixtureRequest) -> None:
    """Those of earlier tests."""
    if "replica_set" in request.fixturenames:
        request.getfixturevalue("replica_set").client.idproxy.proxies.drop()
