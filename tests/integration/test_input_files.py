"""A25: files that never end, or never begin, keep nobody waiting: only regular ones of a sensible size are read."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from support.proxy import binary, configuration

PLACES = {"pipe": "is not a regular file", "link_to_pipe": "is not a regular file",
          "folder": "is not a regular file", "zero": "is not a regular file",
          "terminal": "is not a regular file", "descriptor": "is not a regular file",
          "huge": "is larger than", "missing": "No such file or directory"}

COMMANDS = ["", "--check-config", "check", "check --connect", "config", "doctor", "doctor --json",
            "status", "wait", "reload", "counters list", "ids --ns a.b --field c", "backfill --ns a.b --field c",
            "verify --ns a.b --field c"]


@pytest.fixture
def place(tmp_path):
    def make(name: str) -> str:
        path = tmp_path / name
        if name == "pipe":
            os.mkfifo(path, 0o600)
        elif name == "link_to_pipe":
            path.symlink_to(make("pipe"))
        elif name == "folder":
            path.mkdir()
        elif name == "huge":
            with path.open("wb") as file:
                file.truncate(2**20 + 1)
            path.chmod(0o600)
        return {"zero": "/dev/zero", "terminal": "/dev/tty", "descriptor": "/dev/stdin"}.get(name, str(path))
    return make


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    read, write = os.pipe()  # of which nothing comes
    try:
        return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=30, stdin=read)
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("name, fault", PLACES.items(), ids=PLACES)
def test_the_configuration(place, name, fault):
    path = place(name)
    for command in COMMANDS if name in ("pipe", "zero") else ["check"]:
        result = run(*command.split(), "--config", path)
        assert result.returncode == 77 and not result.stdout, (command, result)
        assert f"cannot read {path}: {fault}" in result.stderr, (command, result)


KEYS: dict[str, Any] = {
    "listen.tls.certificate_key_file": lambda path: {
        "listen": {"port": 0, "tls": {"mode": "require", "certificate_key_file": path}}},
    "listen.tls.ca_file": lambda path: {"listen": {"port": 0, "tls": {
        "mode": "require", "client_certificate": "require", "ca_file": path}}},
    "listen.tls.crl_file": lambda path: {"listen": {"port": 0, "tls": {"mode": "require", "crl_file": path}}},
    "uri_file": lambda path: {"id_store": {"uri_file": path}},
    **{option: lambda path, option=option: {"upstream": {"uri": f"mongodb://127.0.0.1:1/?tls=true&{option}={path}"}}
       for option in ("tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile")},
    **{f"store {option}": lambda path, option=option: {
        "id_store": {"uri": f"mongodb://127.0.0.1:1/?tls=true&{option}={path}"}}
       for option in ("tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile")},
}


@pytest.mark.parametrize("key", KEYS)
def test_files_that_it_names(key, place, tmp_path):
    for name, fault in PLACES.items():
        config = tmp_path / "config.yaml"
        config.write_text(json.dumps({"rules": [], **KEYS[key](place(name) if name != "pipe" else place("link_to_pipe"))}))
        config.chmod(0o600)
        result = run("check", "--config", str(config))
        assert result.returncode == 78 and fault in result.stdout, (name, result)
        for each in tmp_path.iterdir():
            each.rmdir() if each.is_dir() else each.unlink()


def test_a_reload(standalone, start_proxy, tmp_path):
    """The proxy goes on with what it has."""
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(configuration(standalone, [], listen={"port": 0}, log={"format": "json"})))
    path.chmod(0o600)
    proxy = start_proxy(path)
    path.unlink()
    os.mkfifo(path)
    proxy.process.send_signal(1)
    assert "is not a regular file" in proxy.wait_event("reload_failed")["reason"]
    with proxy.client() as client:
        assert client.admin.command("ping")["ok"] == 1
