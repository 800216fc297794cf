"""scripts/sbom, asked about the program. It needs no server."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.parse
from typing import Any

import jsonschema
import pytest

from support.proxy import binary

SBOM = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "sbom"

_LICENCES = {"type": "array", "items": {
    "type": "object", "required": ["license"], "additionalProperties": False,
    "properties": {"license": {"type": "object", "minProperties": 1, "additionalProperties": False,
                               "properties": {"id": {"const": "Apache-2.0"}, "name": {"type": "string"}}}}}}
_COMPONENT = {
    "type": "object", "required": ["type", "name", "version", "bom-ref"], "additionalProperties": False,
    "properties": {
        "type": {"enum": ["application", "library"]}, "licenses": _LICENCES,
        **{key: {"type": "string", "minLength": 1} for key in ("bom-ref", "name", "version", "purl")},
        "hashes": {"type": "array", "items": {
            "type": "object", "required": ["alg", "content"],
            "properties": {"alg": {"const": "SHA-256"}, "content": {"pattern": "^[a-f0-9]{64}$"}}}},
        "properties": {"type": "array", "items": {
            "type": "object", "additionalProperties": False,
            "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}}}}
# Of http://cyclonedx.org/schema/bom-1.5.schema.json what the document uses.
SCHEMA = {
    "type": "object", "required": ["bomFormat", "specVersion"], "additionalProperties": False,
    "properties": {
        "$schema": {"const": "http://cyclonedx.org/schema/bom-1.5.schema.json"},
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.5"},
        "serialNumber": {"pattern": "^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        "version": {"type": "integer", "minimum": 1},
        "metadata": {"type": "object", "additionalProperties": False, "properties": {
            "timestamp": {"pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}, "component": _COMPONENT}},
        "components": {"type": "array", "uniqueItems": True, "items": _COMPONENT},
        "dependencies": {"type": "array", "items": {
            "type": "object", "required": ["ref"], "additionalProperties": False,
            "properties": {"ref": {"type": "string"},
                           "dependsOn": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}}}}}}


def run(*arguments: str | pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SBOM, *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    done = run(binary())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_a_cyclonedx_document(document):
    jsonschema.validate(document, SCHEMA)
    refs = [each["bom-ref"] for each in [document["metadata"]["component"], *document["components"]]]
    assert len(refs) == len(set(refs))
    (dependencies,) = document["dependencies"]
    assert [dependencies["ref"], *dependencies["dependsOn"]] == refs


def test_it_is_of_this_program(document):
    component = document["metadata"]["component"]
    said = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"mongo-idproxy {component['version']} ")
    assert component["hashes"][0]["content"] == hashlib.sha256(pathlib.Path(binary()).read_bytes()).hexdigest()


def test_it_has_every_library_with_its_version(document):
    """By the lists of files that dpkg keeps, in which a library can stand without /usr."""
    owners = {file: path.name.removesuffix(".list").partition(":")[0]
              for path in pathlib.Path("/var/lib/dpkg/info").glob("*lib*.list")
              for file in path.read_text(errors="replace").splitlines() if ".so" in file}
    versions = {each["name"]: each["version"] for each in document["components"]}
    said = subprocess.run(["ldd", binary()], capture_output=True, text=True, check=True).stdout
    libraries = [os.path.realpath(library) for library in re.findall(r"=> (/\S+)", said)]
    assert len(libraries) > 10
    for library in libraries:
        owner = owners.get(library) or owners[library.removeprefix("/usr")]
        assert versions[owner] == subprocess.run(
            ["dpkg-query", "--show", "--showformat", "${Version}", owner],
            capture_output=True, text=True, check=True).stdout, library
    assert "libboost1.81-dev" in versions  # which has headers alone


def test_scanners_can_find_the_packages(document):
    for each in document["components"]:
        package, about = each["purl"].split("?")
        kind, vendor, rest = package.removeprefix("pkg:").split("/")
        assert (kind, vendor) == ("deb", "debian")
        name, _, version = rest.partition("@")
        assert (urllib.parse.unquote(name), urllib.parse.unquote(version)) == (each["name"], each["version"])
        assert set(urllib.parse.parse_qs(about)) - {"upstream"} == {"arch", "distro"}


def test_with_a_date_it_is_the_same_each_time(tmp_path):
    files = [tmp_path / name for name in ("one.json", "two.json")]
    for file in files:
        assert run("--output", file, binary(), SOURCE_DATE_EPOCH="1700000000").returncode == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert '"2023-11-14T22:13:20Z"' in files[0].read_text()


def test_another_program_is_refused():
    done = run(shutil.which("true"))
    assert done.returncode == 1 and "is no mongo-idproxy" in done.stderr
