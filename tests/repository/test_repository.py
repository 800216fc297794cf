"""What contributors and their tools read: the workflows, the forms, CONTRIBUTING.md, the change log, and what
docs/compatibility.md promises to keep. scripts/lint workflows checks what GitHub makes of .github."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from support.proxy import binary

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def read(path: pathlib.Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


def parts() -> list[str]:
    """Of scripts/test."""
    (said,) = re.findall(r"(?m)^all=\((.*)\)$", (ROOT / "scripts/test").read_text())
    return said.split()


def commands_of(page: str) -> list[str]:
    """The lines of its shell blocks, without comments."""
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```", (ROOT / page).read_text())
    lines = [re.sub(r" +# .*", "", line) for block in blocks for line in block.splitlines()]
    assert lines, page
    return lines


# ---- the workflows

def steps() -> list[dict[str, Any]]:
    jobs = [job for path in WORKFLOWS for job in read(path)["jobs"].values()]
    return [step for job in jobs for step in job.get("steps", [])]


def test_ci_runs_every_part():
    assert read(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["part"] == parts()


def test_workflows_run_what_there_is():
    """Scripts with options that these name."""
    runs = "\n".join(step["run"] for step in steps() if "run" in step)
    scripts = re.findall(r"\bscripts/(\S+)(?: (--\w+))?", runs)
    assert {"test", "release"} <= {name for name, _ in scripts}
    for name, option in scripts:
        assert os.access(ROOT / "scripts" / name, os.X_OK), name
        assert option in (ROOT / "scripts" / name).read_text(), (name, option)


def test_an_action_has_one_version_everywhere():
    used = re.findall(r"uses: (actions/[\w-]+)\S*@([0-9a-f]{40})  # (v[\d.]+)",
                      "".join(path.read_text() for path in WORKFLOWS))
    assert len(used) == sum("uses" in step for step in steps())
    assert len(set(used)) == len({name for name, *_ in used})


# ---- the forms: what GitHub demands of them, by its "Syntax for GitHub's form schema"

_ELEMENT = {
    "type": "object", "required": ["type", "attributes"], "additionalProperties": False,
    "properties": {
        "type": {"enum": ["markdown", "textarea", "input", "dropdown", "checkboxes"]},
        "id": {"pattern": "^[A-Za-z0-9_-]+$"},
        "attributes": {"type": "object"},
        "validations": {"type": "object", "additionalProperties": False,
                        "properties": {"required": {"type": "boolean"}}}},
    "if": {"properties": {"type": {"const": "markdown"}}},
    "then": {"not": {"required": ["id"]},
             "properties": {"attributes": {"required": ["value"], "additionalProperties": False,
                                           "properties": {"value": {"type": "string"}}}}},
    "else": {"required": ["id"],
             "properties": {"attributes": {"required": ["label"], "additionalProperties": False,
                                           "properties": {key: {"type": "string", "minLength": 1} for key in (
                                               "label", "description", "placeholder", "value", "render")}}}}}
_FORM = {
    "type": "object", "required": ["name", "description", "body"], "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 4}, "description": {"type": "string", "minLength": 4},
        "labels": {"type": "array", "items": {"type": "string"}},
        "body": {"type": "array", "minItems": 1, "items": _ELEMENT}}}


@pytest.mark.parametrize("path", [path for path in FORMS if path.name != "config.yml"],
                         ids=lambda path: path.stem)
def test_a_form(path):
    form = read(path)
    jsonschema.validate(form, _FORM)
    fields = [element for element in form["body"] if element["type"] != "markdown"]
    for of in ([field["id"] for field in fields], [field["attributes"]["label"] for field in fields]):
        assert len(of) == len(set(of))
    (doctor,) = [field for field in fields if field["id"] == "doctor"]
    (command,) = re.findall(r"`sudo (mongo-idproxy doctor [^`]*)`", doctor["attributes"]["description"])
    done = subprocess.run([binary(), *shlex.split(command)[1:], "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--json" in done.stdout
    assert doctor["attributes"]["render"] == "json"


def test_a_bug_needs_doctor_and_version():
    required = {element.get("id") for element in read(ROOT / ".github/ISSUE_TEMPLATE/bug.yml")["body"]
                if element.get("validations", {}).get("required")}
    assert {"doctor", "version", "configuration"} <= required


# ---- CONTRIBUTING.md and README.md

def test_the_commands_for_contributors_are_there():
    for line in commands_of("CONTRIBUTING.md"):
        for name in re.findall(r"\bscripts/(\w+)", line):
            assert os.access(ROOT / "scripts" / name, os.X_OK), line
        if found := re.match(r"scripts/test (\w+)", line):
            assert found[1] in [*parts(), "quick", "one"], line
        for path in re.findall(r"\btests/\S+", line):
            assert (ROOT / path).exists(), line


def test_the_presets_and_parts_for_contributors_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    known = {each["name"] for each in presets["configurePresets"] if not each.get("hidden")}
    tables = re.findall(r"(?m)(?:^\|.*\n)+", text)
    named = {heading: re.findall(r"(?m)^\| `(\w+)` \|", table)
             for table in tables for heading in re.findall(r"\A\| (\w+) ", table)}
    assert set(named["Preset"]) <= known and len(named["Preset"]) > 3
    assert sorted(named["Part"]) == sorted(parts())
    assert set(re.findall(r"--preset (\w+)", text)) <= known


def test_the_files_for_contributors_are_there():
    paths = re.findall(r"`((?:src|include|tests|docs|config)/[\w./]+)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(paths) > 10
    for path in paths:
        assert (ROOT / path.replace("NAME.cpp", "objectid.cpp").replace("NAME_", "objectid_")).exists(), path


def test_each_finding_is_made_in_one_file():
    table = (ROOT / "include/idproxy/base/finding.hpp").read_text()
    makers: dict[str, set[str]] = {kind: set() for kind in re.findall(r"FindingKind (k\w+)\{", table)}
    for path in sorted((ROOT / "src").rglob("*.?pp")):
        # All but comparisons.
        for kind in re.findall(r"(?<!== )(?<!!= )\bfinding::(k\w+)\b(?!\.(?:id|level|event))(?! [=!]=)", path.read_text()):
            makers[kind].add(path.relative_to(ROOT).as_posix())
    assert {kind: files for kind, files in makers.items() if len(files) != 1} == {}


def test_the_examples_of_diffs_are_as_the_files():
    """Each added line is in the file that is named above it."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    headings = re.findall(r"(?m)^## (Add .*)$", text)
    assert {"Add a finding", "Add a figure", "Add a key", "Add a command"} < set(headings)
    for heading in headings[1:]:  # a strategy has a walk
        diff = text.split(f"## {heading}\n")[1].split("```diff\n")[1].split("```")[0]
        file = ""
        for line in diff.splitlines():
            if line.startswith((" ", "+++")):
                file = (ROOT / re.search(r"(?:src|include|tests|docs|config)/[\w./-]+\w", line)[0]).read_text()
            else:
                assert line[1:].strip() in file, line


def test_security_names_tests_that_are_there():
    """Each sentence about what is in scope has at least one, and each `Test…` or `test_…` is in a file beside it."""
    scope = (ROOT / "SECURITY.md").read_text().split("## In scope")[1].split("\n## ")[0]
    for sentence in scope.split("\n- ")[1:]:
        named = re.findall(r"`(\w+(?:\.py)?|tests/\w+)`", sentence)
        files = [ROOT / "tests/integration" / name for name in named if name.endswith(".py")]
        assert files and all(file.exists() for file in files), sentence
        texts = "".join(file.read_text() for file in files)
        for name in named:
            if re.match("(Test[A-Z]|test_)", name) and not name.endswith(".py"):
                assert re.search(rf"(class|def) {name}\b", texts), name


def test_the_readme_runs_it_and_its_tests():
    """test_quickstart.py and test_documented.py run what is first and second; the third is what .ci/run calls."""
    first, _, third = commands_of("README.md")[:3]
    assert (first, third) == ("scripts/quickstart", "scripts/test")
    assert re.findall(r"&& exec (.*)", (ROOT / ".ci/run").read_text()) == [third]


# ---- CHANGELOG.md

def test_the_change_log_is_one():
    """As Keep a Changelog 1.1.0 wants it."""
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"(?m)^## (.*)$", text)
    assert releases[0] == "[Unreleased]"
    found = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)", each) for each in releases[1:]]
    assert all(found), releases
    versions = [(*map(int, each.groups()[:3]), each[4]) for each in found]
    assert versions == sorted(versions, reverse=True)
    for section in re.split(r"(?m)^## ", text)[1:]:
        kinds = re.findall(r"(?m)^### (.*)$", section)
        order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
        assert kinds == [kind for kind in order if kind in kinds], kinds
        for kind in re.split(r"(?m)^### ", section)[1:]:
            assert re.search("(?m)^- ", kind), f"{kind.splitlines()[0]} is empty"


# ---- docs/compatibility.md

def test_every_collection_of_the_store_is_named():
    sources = [*(ROOT / "src/id_store").glob("*.?pp"), *(ROOT / "include/idproxy/id_store").glob("*.hpp")]
    names = set(itertools.chain.from_iterable(
        re.findall(r'constexpr const char\* k(?:Collection|Proxies|Marks|Floors) = "(\w+)";', path.read_text())
        for path in sources))
    assert len(names) == 4
    default = re.search(r'kLayouts\{\{\s*\{"(\w+)"', (ROOT / "src/ids/counter.cpp").read_text())[1]
    page = (ROOT / "docs/compatibility.md").read_text()
    rows = re.findall(r"(?m)^\|.*\|$", page.split("## What is stored\n")[1].split("\n## ")[0])
    named = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in rows)))
    assert named == names | {default}
