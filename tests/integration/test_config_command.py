"""`mongo-idproxy config` shows each key that the configuration has in force, and its schema accepts and refuses
what the program does."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from typing import Any

import pytest
import ruamel.yaml

from support.proxy import binary
from support.schema import keys, of_rules, put, schema, sections, validator
from support.secured import Certificates

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "config" / "mongo-idproxy.yaml"
STRATEGIES = ["objectid", "uuid", "ulid", "snowflake", "counter", "permuted", "counter-ranges", "gapless",
              "random-digits", "nanoid"]


def run(*arguments: str | pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env={"PATH": "/usr/bin:/bin", **environment})


def written(folder: pathlib.Path, config: str | dict[str, Any]) -> pathlib.Path:
    path = folder / "config.yaml"
    path.write_text(config if isinstance(config, str) else json.dumps(config, indent=0, ensure_ascii=False))
    path.chmod(0o600)
    return path


def shown(path: pathlib.Path, **environment: str) -> dict[str, dict[str, Any]]:
    """Key -> what `config --json` says about it."""
    done = run("config", "--json", "--config", path, **environment)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["file"] == str(path)
    found = {each.pop("key"): each for each in document["keys"]}
    assert len(found) == len(document["keys"])
    return found


def read(text: str) -> Any:
    """As editors do: YAML 1.2, in which off and no are texts."""
    return ruamel.yaml.YAML(typ="safe", pure=True).load(text)


def refusals(document: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator().iter_errors(document)]


class TestWhereFrom:
    def test_defaults_are_those_of_the_shipped_file(self, tmp_path):
        values = shown(SHIPPED)
        assert {each["from"] for each in values.values()} == {"file"}
        defaults = shown(written(tmp_path, ""))
        assert {each["from"] for each in defaults.values()} == {"default"}
        assert list(defaults) == list(values)  # in this order, too
        for key, each in values.items():
            assert each["value"] == each["default"] == defaults[key]["value"], key
            assert SHIPPED.read_text().splitlines()[each["line"] - 1].split(":")[0].strip() == key.split(".")[-1]

    def test_a_line(self, tmp_path):
        values = shown(written(tmp_path, "listen:\n  port: 1234\nrules:\n- ns: a.b\n  field: c\n  strategy: uuid\n"))
        assert values["listen.port"] == {"value": 1234, "default": 27117, "from": "file", "line": 2}
        assert values["rules[0].field"] == {"value": "c", "from": "file", "line": 5}
        assert values["rules[0].version"] == {"value": 7, "default": 7, "from": "default"}

    def test_variables(self, tmp_path):
        path = written(tmp_path, "log: {level: '${LEVEL}'}\nlisten:\n  port: ${PORT}\nadmin: {hosts: [a, '${A}${B}']}")
        values = shown(path, LEVEL="debug", PORT="7000", A="x", B="y")
        assert values["log.level"] == {"value": "debug", "default": "info", "from": "variable", "line": 1,
                                       "source": "${LEVEL}"}
        assert values["listen.port"] | {"value": 7000, "source": "${PORT}"} == values["listen.port"]
        assert values["admin.hosts"] | {"value": ["a", "xy"], "source": "${A}, ${B}"} == values["admin.hosts"]

    def test_is_as_the_page_shows_it(self, tmp_path):
        """The line of `--json`; the table is that of TestTable."""
        page = (ROOT / "docs" / "command-line.md").read_text()
        done = run("config", "--json", "--config", written(tmp_path, "\n\n\nlog: {level: '${LEVEL}'}"), LEVEL="debug")
        (line,) = re.findall(r'(?m)^\{"key": "log.level".*$', page)
        assert json.loads(line) in json.loads(done.stdout)["keys"]

    @pytest.mark.parametrize("uri", ["mongodb://bob:hush@h1,h2/?replicaSet=r", "${URI}", "mongodb://bob:${PW}@h1,h2/",
                                     "mongodb://h1,h2/?tls=true&tlsCertificateKeyFilePassword=hush"])
    @pytest.mark.parametrize("options", [[], ["--json"]])
    def test_no_secret_is_shown(self, tmp_path, uri, options):
        path = written(tmp_path, f"upstream: {{uri: 'mongodb://h1,h2/?replicaSet=r'}}\nid_store: {{uri: '{uri}'}}")
        done = run("config", "--config", path, *options, URI="mongodb://bob:hush@h1,h2/", PW="hush")
        assert done.returncode == 0, done.stderr
        assert "hush" not in done.stdout and "bob" not in done.stdout and "h1,h2/" in done.stdout

    def test_a_secret_file(self, tmp_path):
        secret = tmp_path / "store-uri"
        secret.write_text("mongodb://bob:hush@h1/?replicaSet=r\n")
        secret.chmod(0o600)
        path = written(tmp_path, {"upstream": {"uri": "mongodb://h1/?replicaSet=r"},
                                  "id_store": {"uri_file": str(secret)}})
        values = shown(path)
        assert values["id_store.uri"] == {"value": "mongodb://***@h1/", "default": None, "from": "secret file",
                                          "source": str(secret)}
        assert values["id_store.uri_file"]["value"] == str(secret)
        assert "hush" not in run("config", "--config", path).stdout

    def test_names_and_defaults_that_follow_from_other_keys(self, tmp_path):
        path = written(tmp_path, """rules:
- {ns: shop.a, field: n, strategy: counter}
- {ns: "shop.*", field: m, strategy: counter, store: {layout: mongoose-sequence}, output: int32}
- {ns: shop.b, field: o, strategy: gapless}
- {ns: shop.c, field: p, strategy: counter, name: x, reserve: {collection: taken}, retry: {backoff: 1s}}
""")
        values = {key: each["value"] for key, each in shown(path).items()}
        for key, value in {"[0].name": "shop.a.n", "[0].store.key": "shop.a.n", "[0].retry.attempts": 8,
                           "[0].store.collection": "uniqueIdentifierCounter", "[0].store.db": "idproxy",
                           "[1].name": "<ns>.m", "[1].store.collection": "counters", "[1].max": 2**31 - 1,
                           "[2].retry.attempts": 100, "[2].unique_index": "require", "[2].upserts": "refuse",
                           "[3].store.key": "x", "[3].reserve.db": "shop", "[3].reserve.layout": "id",
                           "[3].retry.backoff_max": "1s"}.items():
            assert values["rules" + key] == value, key


class TestTable:
    def test_shows_what_differs(self, tmp_path):
        path = written(tmp_path, "listen: {port: 1234}\nrules: [{ns: a.b, field: c, strategy: uuid}]\n")
        lines = run("config", "--config", path).stdout.splitlines()
        assert lines[:4] == [str(path), "", "listen", "  KEY                       VALUE      DEFAULT  FROM"]
        assert "  port                      1234       27117    line 1" in lines
        assert "  address                   127.0.0.1           default" in lines
        assert "rules[0]" in lines

    def test_errors_go_elsewhere(self, tmp_path):
        done = run("config", "--config", written(tmp_path, "listen: {prot: 1}\n"))
        assert done.returncode == 78 and not done.stdout
        assert "config.yaml:1:10: error: listen: unknown key 'prot', did you mean 'port'?" in done.stderr
        assert run("config", "--config", tmp_path / "none").returncode == 77
        assert run("config", "--schema", "--json").returncode == 64


# ---- the schema and the reader

FOREIGN = {"net", "apiVersion", "scrape_configs", "rule_files"}  # of other programs


def examples() -> list[tuple[str, Any]]:
    """Each YAML example of the pages as a whole configuration: some are lists of rules, or keys of a rule, of which
    those that are there twice are alternatives."""
    found: list[tuple[str, Any]] = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in re.findall(r"(?ms)^```yaml\n(.*?)^```", page.read_text()):
            if block.startswith("    "):
                for key in re.split(r"(?m)^(?=    \w)", block)[1:]:
                    rule = {"ns": "shop.orders", "field": "number", "strategy": "counter", **read(key)}
                    found.append((page.name, {"rules": [rule]}))
                continue
            content = read(block)
            if isinstance(content, list):
                content = {"rules": content}
            if not FOREIGN & set(content):
                found.append((page.name, content))
    assert len(found) > 25
    return found


class TestAccepts:
    def test_the_shipped_file_and_its_examples(self):
        text = SHIPPED.read_text()
        assert refusals(read(text)) == []
        rules = text[text.index("# To use these examples"):].splitlines()[1:-1]
        text = text[:text.index("# To use these examples")] + "rules:\n" + \
            "\n".join(line.removeprefix("#") for line in rules)
        assert len(read(text)["rules"]) == 5
        assert refusals(read(text)) == []

    def test_every_example_of_the_pages(self):
        for page, config in examples():
            assert refusals(config) == [], page

    def test_whatever_the_program_accepts(self, tmp_path):
        """Of the files that the fuzzer begins with, and of what can be written in several ways."""
        texts = [path.read_text() for path in (ROOT / "tests/fuzz/corpus/config").glob("*.yaml")]
        texts += ["", "{}", "rules: null", "rules: [{ns: a.b, field: 5, strategy: counter, name: true}]",
                  "threads: 3", "listen:\n  port: ${PORT}\n  tls: {mode: '${OFF}'}", "log: {level: '${LEVEL}'}",
                  "limits: {drain: '${TIME}', message: 1m}",
                  "rules: [{ns: a.b, field: c, strategy: '${UUID}', version: 4}]",
                  "rules: [{ns: a.b, field: c, strategy: counter, block: {size: auto, prefetch: 3}, scan: off}]",
                  "rules: [{ns: a.b, field: c, strategy: counter, scope: [1, d], on_missing_scope: null}]",
                  "rules: [{ns: a.b, field: c, strategy: counter, scope: [d], on_missing_scope: 'null'}]",
                  "rules: [{ns: a.b, field: c, strategy: counter, reserve: null, keep_driver_id: null}]"]
        environment = {"PORT": "5", "OFF": "off", "LEVEL": "warning", "TIME": "3s", "UUID": "uuid"}
        accepted = 0
        for text in texts:
            path = written(tmp_path, text)
            if run("check", "--config", path, **environment).returncode == 0:
                accepted += 1
                assert refusals(read(text)) == [], text
        assert accepted >= 15


_UNKNOWN = "no-key-has-a-name-like-this"


def wrong_values(key: str, its: dict[str, Any]) -> dict[str, Any]:
    """Kind of a fault -> a value with it."""
    forms = its.get("anyOf", [its])
    wrong: dict[str, Any] = {"type": {} if any("array" in form.get("type", ()) for form in forms) else []}
    if not any("null" in form.get("type", ()) or None in form.get("enum", ()) for form in forms):
        wrong["null"] = None
    for form in forms:
        if "enum" in form:
            wrong["word"] = "nonsense"
        if "maximum" in form:
            wrong["above"] = form["maximum"] + 1
        if "minimum" in form:
            wrong["below"] = form["minimum"] - 1
        if form.get("type") in ("integer", "number"):
            wrong["quoted"] = "5"
        if "s|m|h" in form.get("pattern", "") or "MiB" in form.get("pattern", ""):
            wrong["unit"] = 5
            wrong["blank"] = "5 s"
    if any("minLength" in form for form in forms):
        wrong["empty"] = ""
    return wrong


def cases() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """What is in the file -> the schemas of the keys that can be wrong in it, and what must be in it for that."""
    found = {"": (keys(schema()), {})}
    for strategy, its in of_rules().items():
        every = keys(its)
        needs_custom = {key: every[key] for key in every
                        if re.fullmatch(r"store\.(key_field|value_field|value_is|filter)", key)}
        found[strategy] = {key: every[key] for key in every if key not in needs_custom}, {}
        if needs_custom:
            found[f"{strategy} custom"] = needs_custom, {"store": {"layout": "custom", "collection": "c"}}
    return found


class TestRefuses:
    @pytest.mark.parametrize("case", ["", *STRATEGIES, "counter custom"])
    def test_every_key_with_every_fault_that_the_program_refuses(self, tmp_path, case):
        """One file for each kind of fault, with all keys that can have it."""
        own, fixed = cases()[case]
        kinds: dict[str, dict[str, Any]] = {}
        for key, its in own.items():
            for kind, value in wrong_values(key, its).items():
                kinds.setdefault(kind, {})[key] = value
        assert len(kinds) >= 4
        for kind, values in kinds.items():
            mapping: dict[str, Any] = json.loads(json.dumps(fixed))
            if case:
                mapping |= {"ns": "shop.orders", "field": "number", "strategy": case.split()[0]}
            for key, value in values.items():
                if case and key == "strategy":
                    continue  # whose keys are then not known
                put(mapping, key, value)
                assert not validator(own[key]).is_valid(value), (kind, key)
            config = {"rules": [mapping]} if case else mapping
            output = run("check", "--config", written(tmp_path, config)).stdout
            for key in values:
                if case and key == "strategy":
                    continue
                path = f"rules[0].{key}" if case else key
                assert f"error: {path}: " in output, (kind, path, output)
            assert not validator().is_valid(config)

    @pytest.mark.parametrize("case", ["", *STRATEGIES, "none"])
    def test_unknown_keys_of_every_section(self, tmp_path, case):
        whole = of_rules()[case] if case else schema()
        mapping: dict[str, Any] = {_UNKNOWN: 1}
        for section in sections(whole):
            put(mapping, f"{section}.{_UNKNOWN}", 1)
        if case:
            mapping |= {"ns": "shop.orders", "field": "number", "strategy": case}
        config = {"rules": [mapping]} if case else mapping
        output = run("check", "--config", written(tmp_path, config)).stdout
        assert output.count(f"unknown key '{_UNKNOWN}'") == 1 + len(sections(whole))
        for section, its in {"": whole, **sections(whole)}.items():
            assert not validator(its).is_valid({_UNKNOWN: 1}), section
            assert its["additionalProperties"] is False

    def test_rules_without_what_they_need(self, tmp_path):
        for lacking in ("ns", "field", "strategy"):
            rule = {"ns": "shop.orders", "field": "number", "strategy": "counter"}
            del rule[lacking]
            assert f"rules[0].{lacking}: is missing" in \
                run("check", "--config", written(tmp_path, {"rules": [rule]})).stdout
            assert any(f"'{lacking}' is a required property" in each for each in refusals({"rules": [rule]}))
        rule = {"ns": "a.b", "field": "c", "strategy": "counter", "reserve": {"db": "x"}}
        assert "rules[0].reserve.collection: is missing" in \
            run("check", "--config", written(tmp_path, {"rules": [rule]})).stdout
        assert any("'collection' is a required property" in each for each in refusals({"rules": [rule]}))

    def test_a_strategy_that_there_is_not(self):
        assert any("nonsense" in each for each in refusals(
            {"rules": [{"ns": "a.b", "field": "c", "strategy": "nonsense"}]}))


# ---- each key of the schema is read

def another_value(its: dict[str, Any]) -> Any:
    """One that is not the default."""
    default = its.get("default")
    for form in its.get("anyOf", [its]):
        if words := [word for word in form.get("enum", []) if word not in (default, None)]:
            return words[-1]
        if form.get("type") == "integer":
            number = (default if isinstance(default, int) else 0) + 1
            return number if number <= form.get("maximum", number) else number - 2
        if form.get("type") == "number":
            return 0.05
        if form.get("type") == "boolean":
            return not default
        if "array" in form.get("type", ()):
            return ["a"]
        if "object" in form.get("type", ()):
            return {"a": 1}
        if "MiB" in form.get("pattern", ""):
            return "65MiB"
        if "pattern" in form:
            return "7s"
    return "x"


TEXT = {"output": "string"}
NEEDS: dict[str, dict[str, Any]] = {
    "except": {"ns": "shop.*.c"},
    "keep_driver_id": {"field": "_id", "assign": "driver"},
    "retry.backoff": {"retry.deadline": "1h"},
    "format.pad": TEXT, "format.prefix": TEXT, "format.suffix": TEXT, "check": TEXT,
    "template": TEXT, "on_width": {**TEXT, "template": "{counter:06}"},
    "timezone": {**TEXT, "template": "{yyyy}-{counter}", "reset": "yearly"},
    "reset.yearly": {**TEXT, "template": "{fy}-{counter}"},
    "reset": {**TEXT, "template": "{yyyy}{MM}{dd}-{counter}"},
    "reserve.db": {"reserve.collection": "taken"}, "reserve.layout": {"reserve.collection": "taken"},
    "reserve.orphan_after": {"reserve.collection": "taken"},
    "on_missing_scope": {"scope": ["a"]}, "max_scopes": {"scope": ["a"]},
    "length": {"alphabet": "base36"}, "max_fill": {"warn_fill": 0.01}, "prefix": {"encoding": "hex"},
    **{f"store.{key}": {"store.layout": "custom", "store.collection": "c", "store.key_field": "k",
                        "store.value_field": "v", "store.value_is": "next"}
       for key in ("layout", "key_field", "value_field", "value_is", "filter")},
}
# Where the first that comes to mind does not do.
VALUES: dict[str, Any] = {
    "timezone": "Europe/Berlin", "template": "A{counter}", "retry.backoff_max": "7s", "reserve.orphan_after": "11m",
    "on_store_down.wait": "7ms", "ranges.width": 1000, "unique_index": "create",
    "assign": "missing-or-null", "start": 2, "max": 1000, "store.value_is": "last", "reset": "daily",
    "reset.yearly": "04-01",
    "upserts": "forward", "except": ["*.fs.*"], "alphabet": "abc", "epoch": "2020-02-29T00:00:00.5Z", "time_bits": 40,
    "machine_bits": 9, "sequence_bits": 11, "unit": "2ms", "machine.lease": "eu",
}


def rules_with_each_key(key_file: pathlib.Path) -> list[tuple[str, Any, dict[str, Any]]]:
    """The key, its value, and a rule that has it."""
    rules: list[tuple[str, Any, dict[str, Any]]] = []
    for strategy, its in of_rules().items():
        for key, part in keys(its).items():
            if strategy == "gapless" and key.startswith("reserve."):
                continue  # gapless refuses it
            number = len(rules)
            rule: dict[str, Any] = {"ns": f"shop.c{number}", "field": "number", "strategy": strategy}
            if strategy == "gapless" and key != "template" and (NEEDS.get(key) == TEXT or key in ("output", "encoding")):
                put(rule, "format.pad", 9)
            if strategy == "permuted":
                more = {"key.env": "TEST_KEY"} if key != "key.file" else {"key.file": str(key_file)}
                more |= {"length": 14} if key == "alphabet" else {"tweak": "t"} if key == "except" else {}
                for other, needed in more.items():
                    put(rule, other, needed)
            if strategy == "counter-ranges":  # each has its own
                put(rule, "store.collection", f"ranges{number}")
            for other, needed in NEEDS.get(key, {}).items():
                if strategy in ("ulid", "nanoid") and other == "encoding":
                    continue
                if strategy in ("counter", "permuted") or not key.startswith("store."):
                    put(rule, other, f"{needed}{number}" if other in ("reserve.collection", "ns") else needed)
            value = rule.get(key, VALUES.get(key, another_value(part)))
            if key.startswith("key."):
                value = rule["key"][key[4:]]
            if strategy == "permuted" and key in ("name", "store.key"):
                value = f"other{number}"
            if key in ("output", "store.collection", "reserve.collection"):
                of_output = {"random-digits": "int32", "ulid": "uuid"}.get(strategy, "string")
                value = {"output": of_output}.get(key, f"other{number}")
            if strategy == "random-digits" and key == "output":
                put(rule, "digits", 9)
            put(rule, key, value)
            rules.append((key, value, rule))
    return rules


def line_of(path: pathlib.Path, line: int) -> str:
    return path.read_text().splitlines()[line - 1]


def test_each_key_of_a_rule_is_read(tmp_path):
    """With another value than the default, which `config` shows, at its line."""
    key_file = tmp_path / "key"
    key_file.write_text(32 * "0")
    key_file.chmod(0o600)
    wanted = rules_with_each_key(key_file)
    path = written(tmp_path, {"rules": [rule for _, _, rule in wanted]})
    values = shown(path, TEST_KEY=32 * "0")
    for i, (key, value, rule) in enumerate(wanted):
        assert refusals({"rules": [rule]}) == [], rule
        found = values[f"rules[{i}].{key}"]
        assert found["value"] == value and found["from"] == "file", (key, rule, found)
        assert key in ("ns", "field", "strategy") or found.get("default") != value, key
        assert f'"{key.split(".")[-1]}": ' in line_of(path, found["line"]), key


TOP = {"listen.address": "127.0.0.2", "listen.advertise": "proxy.example.org", "listen.members": {"h1:27017": 7001},
       "listen.tls.mode": "require", "upstream.uri": "mongodb://h1,h2/?replicaSet=r", "id_store.uri": "mongodb://h1/",
       "id_store.db": "ids", "id_store.write_concern": "majority", "admin.listen": "127.0.0.1:27300",
       "threads": 3, "rules": []}


@pytest.mark.parametrize("instead", ["id_store.uri", "id_store.uri_file"])
def test_each_key_of_the_file_is_read(tmp_path, instead):
    certificates = Certificates.make(tmp_path)
    secret = tmp_path / "uri"
    secret.write_text("mongodb://h1/")
    secret.chmod(0o600)
    config: dict[str, Any] = {}
    wanted = {key: TOP.get(key, another_value(its)) for key, its in keys(schema()).items()}
    wanted |= {"listen.tls.certificate_key_file": str(certificates.proxy.file), "id_store.uri_file": str(secret),
               "listen.tls.ca_file": str(certificates.authority.file),
               "listen.tls.crl_file": str(certificates.authority.revoked()),
               "listen.tls.client_certificate": "require"}
    del wanted[instead]
    for key, value in wanted.items():
        put(config, key, value)
    path = written(tmp_path, config)
    assert refusals(config) == []
    values = shown(path)
    for key, value in wanted.items():
        if key == "listen.members":
            key, value = "listen.members.h1:27017", 7001
        if key == "upstream.uri":
            value = "mongodb://h1,h2/"
        found = values[key]
        assert found["value"] == value and found["from"] == "file", (key, found)
        assert key in ("rules", "id_store.write_concern") or found.get("default") != value, key
        assert f'"{key[15:] if "members" in key else key.split(".")[-1]}": ' in line_of(path, found["line"]), key
