"""What cmake --install puts where, and the systemd unit among it."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import zlib

import pytest

from support.schema import keys, of_rules, schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = pathlib.Path(
    os.environ.get("IDPROXY_BINARY", ROOT / "build/release/bin/mongo-idproxy")).parents[1]

# `systemd-analyze security --offline` rates from 0 (locked up) to 10.
HIGHEST_EXPOSURE = 1.5


def run(*arguments: str | pathlib.Path, environment: dict[str, str] = {}) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def install(staging: pathlib.Path) -> pathlib.Path:
    """As a packager does it: nothing outside `staging` is written. Returns the prefix in it."""
    run("cmake", "--install", RELEASE, environment={"DESTDIR": str(staging)})
    cache = (RELEASE / "CMakeCache.txt").read_text()
    (configured,) = re.findall(r"(?m)^CMAKE_INSTALL_PREFIX:PATH=/(.*)$", cache)
    return staging / configured


@pytest.fixture(scope="module")
def staging(tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("installed")


@pytest.fixture(scope="module")
def prefix(staging) -> pathlib.Path:
    return install(staging)


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


@pytest.fixture(scope="module")
def service() -> dict[str, list[str]]:
    """What the unit says, as installed under the prefix that the build was made for."""
    said: dict[str, list[str]] = {}
    for line in (RELEASE / "mongo-idproxy.service").read_text().splitlines():
        if found := re.fullmatch(r"(\w+)=(.*)", line):
            said.setdefault(found[1], []).append(found[2])
    return said


def default_of(key: str) -> str:
    """What the annotated configuration says."""
    (value,) = re.findall(rf"(?m)^ +{key}: (\w+)", (ROOT / "config/mongo-idproxy.yaml").read_text())
    return value


def test_files(prefix):
    """All of them, so that none is forgotten and none comes along by mistake."""
    documents = {f"share/doc/mongo-idproxy/{path.relative_to(ROOT)}" for directory in ("docs", "examples")
                 for path in (ROOT / directory).rglob("*") if path.is_file()}
    assert "share/doc/mongo-idproxy/docs/operations.md" in documents
    assert {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()} == {
        "bin/mongo-idproxy",
        "bin/.debug/mongo-idproxy.debug",
        "etc/mongo-idproxy/mongo-idproxy.yaml",
        "lib/systemd/system/mongo-idproxy.service",
        "share/bash-completion/completions/mongo-idproxy",
        "share/fish/vendor_completions.d/mongo-idproxy.fish",
        "share/zsh/site-functions/_mongo-idproxy",
        "share/man/man1/mongo-idproxy.1",
        "share/man/man5/mongo-idproxy.yaml.5",
        "share/doc/mongo-idproxy/CHANGELOG.md",
        "share/doc/mongo-idproxy/CONTRIBUTING.md",
        "share/doc/mongo-idproxy/LICENSE",
        "share/doc/mongo-idproxy/README.md",
        "share/doc/mongo-idproxy/SECURITY.md",
        "share/doc/mongo-idproxy/config/mongo-idproxy.yaml",
        "share/mongo-idproxy/dashboards/mongo-idproxy.json",
        "share/mongo-idproxy/mongo-idproxy.schema.json",
        "share/mongo-idproxy/prometheus/alerts.yml",
        *documents,
    }


def test_links(prefix):
    """What an installed document links to is installed too; src/ and include/ are for developers."""
    documents = prefix / "share" / "doc" / "mongo-idproxy"
    for document in documents.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            if not link.startswith(("src/", "include/")):
                assert (document.parent / link).is_file(), f"{document.name}: {link}"


def test_pages_of_alerts(prefix):
    """They are named as they are installed."""
    alerts = (prefix / "share/mongo-idproxy/prometheus/alerts.yml").read_text()
    pages = re.findall(r"(?m)^ +page: ([^#\n]+)", alerts)
    assert pages
    for page in pages:
        assert (prefix / "share/doc/mongo-idproxy" / page).is_file(), page


def test_an_upgrade_keeps_the_configuration(tmp_path):
    configuration = install(tmp_path) / "etc" / "mongo-idproxy" / "mongo-idproxy.yaml"
    configuration.write_text("rules: []\n")
    install(tmp_path)
    assert configuration.read_text() == "rules: []\n"


def test_the_program_runs(prefix):
    assert "mongo-idproxy" in run(prefix / "bin" / "mongo-idproxy", "--version")


def test_shells_complete_its_arguments(prefix):
    for name in ("bash-completion/completions/mongo-idproxy", "zsh/site-functions/_mongo-idproxy",
                 "fish/vendor_completions.d/mongo-idproxy.fish"):
        assert " __complete " in (prefix / "share" / name).read_text()
    offered = run(prefix / "bin" / "mongo-idproxy", "__complete", "--check")
    assert offered.split("\t")[0] == "--check-config"


def test_editors_have_a_schema(prefix):
    schema = (prefix / "share/mongo-idproxy/mongo-idproxy.schema.json").read_text()
    assert schema == run(prefix / "bin" / "mongo-idproxy", "config", "--schema")


PAGES = ("man1/mongo-idproxy.1", "man5/mongo-idproxy.yaml.5")


def shown(page: pathlib.Path) -> str:
    """As a reader sees it, without bold and underlined letters."""
    return re.sub(".\b", "", run("mandoc", "-T", "utf8", "-O", "width=200", page))


@pytest.mark.parametrize("page", PAGES)
def test_manual_pages_are_correct(prefix, page):
    """To mandoc, which is stricter than groff."""
    done = subprocess.run(["mandoc", "-T", "lint", prefix / "share/man" / page], capture_output=True,
                          text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_manual_page_has_all_that_help_says(prefix):
    """Each line, or each half of one that has two columns; the page breaks lines elsewhere."""
    program = prefix / "bin" / "mongo-idproxy"
    page = shown(prefix / "share/man" / PAGES[0])
    words = " ".join(page.split())
    # EXIT STATUS has the table of docs/troubleshooting.md in place of one line.
    own = re.sub(r"(?s)Exit codes:.*\nSignals:", "", run(program, "--help"))
    commands = re.findall(r"(?m)^  ([a-z]+)  ", own.partition("Subcommands:")[2].partition("\n\n")[0])
    assert re.findall(r"(?m)^   ([a-z]+)$", page) == commands and "status" in commands
    for said in [own, *(run(program, command, "--help") for command in commands)]:
        said = re.sub(r"(?s)^mongo-idproxy:|Positionals:.*?\n\n|(?m:^(?:Options|Subcommands|Usage|Examples):)|`", "", said)
        for line in re.sub(r"(-\w),--", r"\1, --", said).splitlines():
            for text in re.split(" {2,}", line.strip()):
                assert text in words, line
    assert re.findall(r"(?m)^([A-Z][A-Z ]+)$", page) == [
        "NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "SIGNALS", "EXIT STATUS", "ENVIRONMENT",
        "FILES", "EXAMPLES", "SEE ALSO"]


def test_a_manual_page_has_every_key(prefix):
    page = shown(prefix / "share/man" / PAGES[1])
    at_its_margin = set(re.findall(r"(?m)^ {7}([a-z_.]+)(?= |$)", page))
    every = set(keys(schema())) | {key for rule in of_rules().values() for key in keys(rule)}
    assert every <= at_its_margin


def sections(program: pathlib.Path) -> set[str]:
    return set(re.findall(r"(?m)^ +\[ *\d+\] (\S+)", run("readelf", "--section-headers", "--wide",
                                                          program)))


def test_the_program_has_its_symbols_beside_it(prefix, tmp_path):
    """Where gdb looks for them, with the name and the checksum by which it knows them."""
    program, symbols = prefix / "bin/mongo-idproxy", prefix / "bin/.debug/mongo-idproxy.debug"
    assert program.stat().st_size < (RELEASE / "bin/mongo-idproxy").stat().st_size / 2
    assert sections(program).isdisjoint({".symtab", ".debug_info", ".debug_line"})
    assert {".symtab", ".debug_info", ".debug_line"} < sections(symbols)
    link = tmp_path / "link"
    run("objcopy", f"--dump-section=.gnu_debuglink={link}", program, tmp_path / "copy")
    name, _, rest = link.read_bytes().partition(b"\0")
    assert name.decode() == symbols.name
    assert int.from_bytes(rest[-4:], "little") == zlib.crc32(symbols.read_bytes())


def test_the_program_is_installed_without_objcopy(tmp_path):
    """With its symbols."""
    program = tmp_path / "mongo-idproxy"
    program.write_bytes((RELEASE / "bin/mongo-idproxy").read_bytes())
    for objcopy in ("CMAKE_OBJCOPY-NOTFOUND", "/bin/false"):
        run("cmake", f"-Dobjcopy={objcopy}", f"-Dprogram={program}", "-P",
            ROOT / "scripts" / "split_symbols.cmake")
        assert ".symtab" in sections(program) and not [*tmp_path.glob(".debug/*")]


def test_the_configuration_is_good(prefix):
    run(prefix / "bin" / "mongo-idproxy", "--check-config", "--config",
        prefix / "etc" / "mongo-idproxy" / "mongo-idproxy.yaml")


def test_the_unit_names_what_is_installed(service, prefix, staging):
    (command,) = service["ExecStart"]
    program, option, configuration = command.split()
    (document,) = [each.removeprefix("file:") for each in service["Documentation"]]
    assert option == "--config"
    for path in (program, configuration, document):
        assert (staging / path.lstrip("/")).is_file(), path


def test_the_unit_has_no_name_left_to_be_replaced():
    assert not re.findall(r"@\w+@", (RELEASE / "mongo-idproxy.service").read_text())


@pytest.mark.parametrize("key, value", {
    "Type": "notify", "NotifyAccess": "main", "WatchdogSec": "30", "DynamicUser": "yes",
    "ExecReload": "/bin/sh -c 'kill -HUP $MAINPID'", "LimitCORE": "0", "Restart": "on-failure",
    "RestartPreventExitStatus": "64 77 78", "StartLimitIntervalSec": "0",
}.items())
def test_the_unit_says(service, key, value):
    assert service[key] == [value]


def test_the_unit_has_time_to_drain(service):
    (seconds,) = service["TimeoutStopSec"]
    drain = int(default_of("drain").removesuffix("s"))
    assert drain + 2 < int(seconds) <= drain + 10


def test_the_unit_has_descriptors_for_all_clients(service):
    (descriptors,) = service["LimitNOFILE"]
    assert int(descriptors) == 2 * int(default_of("max_connections")) + 512


def test_the_unit_is_valid(unit):
    assert not run("systemd-analyze", "verify", "--man=no", unit).strip()


def test_the_unit_is_hardened(unit):
    output = run("systemd-analyze", "security", "--offline=yes", "--no-pager", unit)
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", output)
    print(f"exposure {exposure}")
    assert float(exposure) <= HIGHEST_EXPOSURE
