"""The examples, and docs/containers.md, as far as they can be run without Docker and Kubernetes: the files are
read as those read them, their configurations and commands by the program, and their probes by a proxy."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import urllib.request
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pymongo
import pytest
from ruamel.yaml import YAML

from support.mongod import Mongod
from support.process import free_port
from support.proxy import Proxy, binary

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "containers.md"
VERSION = re.search(r"(?m)^project\(mongo-idproxy VERSION (\S+)",
                    (ROOT / "CMakeLists.txt").read_text())[1]
IMAGE = f"mongo-idproxy:{VERSION}"
# For the store's numbers that are given back, and the log.
AFTER_DRAIN = 5


def read(text: str) -> list[Any]:
    """As Kubernetes and Compose read it: 0440 is octal."""
    return [YAML(typ="safe").load(f"%YAML 1.1\n---\n{document}") for document in text.split("\n---\n")]


def run(*command: str | pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


def check(config: pathlib.Path, *warned: str, **environment: str) -> None:
    """warned: the keys of which it warns."""
    result = run(binary(), "check", "--config", config, **environment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.findall(r"warning: ([\w.]+): ", result.stdout) == [*warned], result.stdout


def seconds(duration: str) -> int:
    return int(re.fullmatch(r"(\d+)s", duration)[1])


def drain_of(config: str) -> int:
    (loaded,) = read(config)
    return seconds(loaded["limits"]["drain"])


def insert(proxy: Proxy) -> int:
    """An order through the proxy; its number."""
    with closing(pymongo.MongoClient(f"mongodb://{proxy.address}", directConnection=True)) as client:
        key = client.shop.orders.insert_one({}).inserted_id
        return client.shop.orders.find_one({"_id": key})["number"]


class TestKubernetes:
    TEXT = (EXAMPLES / "kubernetes" / "sidecar.yaml").read_text()
    OBJECTS = {each["kind"]: each for each in read(TEXT)}
    CONFIG = OBJECTS["ConfigMap"]["data"]["mongo-idproxy.yaml"]
    SECRETS = OBJECTS["Secret"]["stringData"]
    POD = OBJECTS["Deployment"]["spec"]["template"]["spec"]
    (SIDECAR,) = POD["initContainers"]

    def written(self, directory: pathlib.Path, config: str, **secrets: str) -> pathlib.Path:
        """The configuration as in the container, with the Secret's files elsewhere."""
        where = next(mount["mountPath"] for mount in self.SIDECAR["volumeMounts"]
                     if mount["name"] == "secrets")
        assert where in config
        for name, content in secrets.items():
            (directory / name).write_text(content)
            (directory / name).chmod(self.volume("secrets")["secret"]["defaultMode"])
        file = directory / "mongo-idproxy.yaml"
        file.write_text(config.replace(where, str(directory)))
        return file

    def volume(self, name: str) -> dict[str, Any]:
        (found,) = [each for each in self.POD["volumes"] if each["name"] == name]
        return found

    def test_the_parts_belong_together(self):
        sidecar, pod = self.SIDECAR, self.POD
        assert sidecar["restartPolicy"] == "Always" and sidecar["image"] == IMAGE
        mounts = {mount["name"]: mount for mount in sidecar["volumeMounts"]}
        assert set(mounts) == {each["name"] for each in pod["volumes"]}
        assert not [mount for mount in mounts.values() if "subPath" in mount]
        assert mounts["configuration"]["mountPath"] == "/etc/mongo-idproxy"
        assert self.volume("configuration")["configMap"]["name"] == self.OBJECTS["ConfigMap"]["metadata"]["name"]
        secret = self.volume("secrets")["secret"]
        assert secret["secretName"] == self.OBJECTS["Secret"]["metadata"]["name"]
        # For the group that fsGroup gives it, and not for all.
        assert secret["defaultMode"] == 0o440 and pod["securityContext"]["fsGroup"] > 0
        selector = self.OBJECTS["Deployment"]["spec"]["selector"]["matchLabels"]
        assert selector == self.OBJECTS["Deployment"]["spec"]["template"]["metadata"]["labels"]

    def test_there_is_time_to_drain(self):
        assert self.POD["terminationGracePeriodSeconds"] > drain_of(self.CONFIG) + AFTER_DRAIN

    def test_the_configuration_has_no_faults(self, tmp_path: pathlib.Path):
        check(self.written(tmp_path, self.CONFIG, **self.SECRETS), "admin.listen")
        assert all(name in self.CONFIG for name in self.SECRETS)

    def test_its_probes_and_its_connection_string_work(
            self, tmp_path: pathlib.Path, replica_set: Mongod, start_proxy: Callable[..., Proxy]):
        ports = {each["name"]: each["containerPort"] for each in self.SIDECAR["ports"]}
        (app,) = self.POD["containers"]
        (uri,) = [each["value"] for each in app["env"] if each["name"] == "MONGODB_URI"]
        config = self.CONFIG
        for port in (ports["admin"], re.search(r"mongodb://127\.0\.0\.1:(\d+)/", uri)[1]):
            config, count = re.subn(rf"\b{port}\b", str(free_port()), config)
            assert count == 1
        proxy = start_proxy(self.written(tmp_path, config, **{"store-uri": replica_set.uri}),
                            {"UPSTREAM": replica_set.uri})
        assert insert(proxy) > 0
        address = proxy.find_events("admin_listening")[0]["address"]
        for name in ("startupProbe", "livenessProbe"):
            probe = self.SIDECAR[name]["httpGet"]
            assert probe["port"] == "admin"
            # The kubelet names the pod's address.
            request = urllib.request.Request(
                f"http://127.0.0.1:{address.rpartition(':')[2]}{probe['path']}",
                headers={"Host": f"10.1.2.3:{ports['admin']}"})
            assert urllib.request.urlopen(request, timeout=10).status == 200
        (probe,) = re.findall(r"exec: \{command: \[([^]]+)\]\}", PAGE.read_text())
        program, *arguments = probe.split(", ")
        assert program == "/usr/bin/mongo-idproxy"
        waited = run(binary(), *arguments, "--admin", address.replace("0.0.0.0", "127.0.0.1"))
        assert waited.returncode == 0, waited.stderr


class TestCompose:
    FILE = EXAMPLES / "compose" / "compose.yaml"
    SERVICES = read(FILE.read_text())[0]["services"]
    SERVICE = SERVICES["mongo-idproxy"]
    CONFIG = EXAMPLES / "compose" / "mongo-idproxy.yaml"

    def test_the_parts_belong_together(self):
        service = self.SERVICE
        assert service["image"] == IMAGE and service["read_only"] is True
        assert seconds(service["stop_grace_period"]) >= drain_of(self.CONFIG.read_text()) + AFTER_DRAIN
        file, target, mode = service["volumes"][0].split(":")
        assert (self.FILE.parent / file) == self.CONFIG and mode == "ro"
        assert target == "/etc/mongo-idproxy/mongo-idproxy.yaml"
        assert set(service["depends_on"]) < set(self.SERVICES)
        (config,) = read(self.CONFIG.read_text())
        assert service["ports"] == [f"127.0.0.1:{config['listen']['port']}:{config['listen']['port']}"]
        assert config["listen"]["advertise"] == "${ADVERTISE:-mongo-idproxy}"

    def test_the_configuration_has_no_faults(self):
        check(self.CONFIG, **self.SERVICE["environment"])

    def test_it_serves_and_is_healthy(
            self, tmp_path: pathlib.Path, replica_set: Mongod, start_proxy: Callable[..., Proxy]):
        admin = f"127.0.0.1:{free_port()}"
        config = tmp_path / "mongo-idproxy.yaml"
        config.write_text(self.CONFIG.read_text().replace("27117", str(free_port()))
                          + f'admin: {{listen: "{admin}"}}\n')
        proxy = start_proxy(config, {"UPSTREAM": replica_set.uri, "ADVERTISE": "127.0.0.1"})
        assert insert(proxy) > 0
        kind, program, *arguments = self.SERVICE["healthcheck"]["test"]
        assert kind == "CMD" and program == "/usr/bin/mongo-idproxy"
        waited = run(binary(), *arguments, "--config", config)
        assert waited.returncode == 0, waited.stderr


class TestPlain:
    """What it does on a host: test_debian_service.py."""

    def test_says_how_it_is_called(self):
        result = run(EXAMPLES / "plain" / "install")
        assert result.returncode == 64 and "install PACKAGE CONFIGURATION" in result.stderr


class TestThePage:
    TEXT = PAGE.read_text()

    def test_its_configurations_have_no_faults(self, tmp_path: pathlib.Path):
        blocks = re.findall(r"(?ms)^```yaml\n(.*?)^```", self.TEXT)
        assert blocks
        for block in blocks:
            file = tmp_path / "page.yaml"
            file.write_text(block + "rules: [{ns: a.b, field: c, strategy: uuid}]\n")
            check(file)

    def test_its_commands_are_those_of_the_program(self, tmp_path: pathlib.Path):
        """What follows the image's name is for the program."""
        file = tmp_path / "mongo-idproxy.yaml"
        file.write_text("rules: [{ns: a.b, field: c, strategy: uuid}]\n")
        lines = re.findall(r"(?m)^docker run (.*)$", self.TEXT.replace("\\\n", ""))
        assert lines
        for line in lines:
            words = shlex.split(line)
            arguments = words[words.index(IMAGE) + 1:]
            # Without any it serves.
            result = run(binary(), *(arguments or ["check"]), "--config", file)
            assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
        for line in re.findall(r"`docker exec CONTAINER mongo-idproxy (\w+)`", self.TEXT):
            assert run(binary(), line, "--help").returncode == 0

    def test_names_the_version(self):
        assert set(re.findall(r"mongo-idproxy:(\d+\.\d+\.\d+)", self.TEXT)) == {VERSION}

    @pytest.mark.parametrize("key", ["BASE", "PROGRAM"])
    def test_names_the_arguments_of_the_build(self, key: str):
        assert f"ARG {key}" in (ROOT / "Containerfile").read_text() and f"--build-arg {key}=" in \
            self.TEXT.replace("--build-arg\n", "--build-arg ")
