"""What is run of each driver's tests, and how its results are read."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Protocol

from . import fetch
from .outcomes import Outcome, Outcomes, Status
from .running import Command

HERE = pathlib.Path(__file__).resolve().parent


# As Go and libmongoc call them.
_STATUSES: dict[str, Status] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def _seed(uri: str) -> str:
    """host:port of the first server."""
    return uri.removeprefix("mongodb://").split(",")[0]


class Suite(Protocol):
    version: str

    def __init__(self) -> None:
        """Fetches and builds what is not there yet."""

    def commands(self, uri: str, results: pathlib.Path, only: list[str]) -> list[Command]:
        """only: names of tests; with * at the end, all that begin so."""

    def outcomes(self, results: pathlib.Path) -> Outcomes:
        """What these have left in the directory."""


class PyMongo:
    # Modules that want other servers than a replica set, or libraries that are not here; that are
    # not about servers; and those whose tests are in others too.
    _LEFT_OUT = """auth auth_oidc auth_spec binary client_metadata common dns encryption grid_file
        gridfs gridfs_bucket kms_connect kms_connect_prose load_balancer mockupdb ocsp_support
        on_demand_csfle sfp srv_polling ssl subinterpreters typing unified_format""".split()
    # Tests that sleep for twenty seconds each.
    _SLEEP = "nonoverload_retries or for_non_overload or test_03_drivers_return_the_correct_error"

    def __init__(self) -> None:
        self.version = fetch.pymongo_version()
        self._directory = fetch.pymongo()

    def commands(self, uri: str, results: pathlib.Path, only: list[str]) -> list[Command]:
        host, _, port = _seed(uri).rpartition(":")
        left_out = [f"--ignore=test/test_{each}.py" for each in self._LEFT_OUT]
        # The asynchronous half is the same tests again.
        return [Command(
            [sys.executable, "-m", "pytest", "-c", HERE / "pymongo.ini",
             f"--rootdir={self._directory}", "-p", "suites.pymongo_plugin",
             f"--junitxml={results}/pymongo.xml", *left_out, "--ignore=test/asynchronous",
             "-k", f"not ({self._SLEEP})", "test"],
            self._directory, results / "pymongo.log", 1500,
            {"PYTHONPATH": f"{self._directory}:{HERE.parent}", "DB_IP": host, "DB_PORT": port,
             "IDPROXY_SUITE_ONLY": "\n".join(only or ["*"])})]

    def outcomes(self, results: pathlib.Path) -> Outcomes:
        found: Outcomes = {}
        if not (results / "pymongo.xml").exists():
            return found  # it was killed
        for case in ET.parse(results / "pymongo.xml").iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            bad = case.find("failure")
            if bad is None:
                bad = case.find("error")
            skipped = case.find("skipped")
            if bad is not None:
                found[name] = Outcome("failed", bad.get("message", ""))
            elif found.get(name, Outcome("passed")).status != "failed":  # failed and not torn down
                found[name] = (Outcome("passed") if skipped is None else
                               Outcome("skipped", skipped.get("message", "")))
        return found


class Go:
    _PACKAGES = ["internal/integration/unified", "internal/integration",
                 "x/mongo/driver/integration"]
    # They need other servers, or libraries that are not here, are about wrong test files, measure
    # the machine, or sleep for half a minute each.
    _LEFT_OUT = [
        "TestUnifiedSpec/client-side-encryption", "TestUnifiedSpec/load-balancers",
        "TestUnifiedSpec/unified-test-format/tests/valid-fail", "ClientSideEncryption", "CSE",
        "TestSearchIndex", "TestInitialDNSSeedlist", "TestLoadBalance",
        "TestClientStress", "TestCommandLoggingAndMonitoringProse/3",
        "TestErrorPropagationAfterEncounteringMultipleErrors/Case_[345]",
        "TestRetryableReadsProse/(set_the_maximum|do_not_apply)"]

    def __init__(self) -> None:
        self.version = fetch.go_version()
        self._directory = fetch.go(self._PACKAGES)

    def commands(self, uri: str, results: pathlib.Path, only: list[str]) -> list[Command]:
        return [Command(
            [self._program(package), "-test.v=test2json", "-test.parallel=1",
             f"-test.run={self._pattern(package, only)}", f"-test.skip={'|'.join(self._LEFT_OUT)}"],
            self._directory / "source" / package,
            results / f"{self._program(package).name}.log", 900, {"MONGODB_URI": uri})
            for package in self._PACKAGES if not only or self._pattern(package, only)]

    def _program(self, package: str) -> pathlib.Path:
        return self._directory / "bin" / package.replace("/", "-")

    def _pattern(self, package: str, only: list[str]) -> str:
        """For -test.run, which takes a pattern for each level of a name."""
        mine = [each.removeprefix(f"{package}:") for each in only if each.startswith(f"{package}:")]
        return "|".join(
            "/".join(f"^{re.escape(level)}$" for level in each.split("/")).removesuffix(r"\*$")
            for each in mine)

    def outcomes(self, results: pathlib.Path) -> Outcomes:
        found: Outcomes = {}
        for package in self._PACKAGES:
            log = results / f"{self._program(package).name}.log"
            if log.exists():
                found |= self._outcomes_of(package, log)
        return found

    @staticmethod
    def _outcomes_of(package: str, log: pathlib.Path) -> Outcomes:
        with open(log, "rb") as file:
            events = subprocess.run(["go", "tool", "test2json"], stdin=file, check=True,
                                    capture_output=True, text=True).stdout
        ended: dict[str, Status] = {}
        output: dict[str, str] = {}
        for event in map(json.loads, events.splitlines()):
            name = event.get("Test")
            if not name:
                continue
            # One that was run and does not end was cut off by a panic, or by our limit.
            if event["Action"] == "run":
                ended[name] = "failed"
            elif event["Action"] == "output":
                output[name] = output.get(name, "") + event["Output"]
            elif event["Action"] in _STATUSES:
                ended[name] = _STATUSES[event["Action"]]
        groups = {name.rpartition("/")[0] for name in ended}
        groups |= {"/".join(name.split("/")[:i]) for name in groups
                   for i in range(1, name.count("/") + 1)}
        return {f"{package}:{name}": Outcome(status, output.get(name, "")[-2000:])
                for name, status in ended.items() if name not in groups}


class Libmongoc:
    # Tests that want a server, by how their names begin. Those with a mock server are left out
    # everywhere.
    _BEGINNINGS = """Aggregate BulkOperation Client ClientPool Cluster Collection Cursor Database
        MongoDB ReadPrefs Samples Session Stepdown Topology BatchKind WriteConcern change_stream
        change_streams collection-management command_monitoring counters crud find_and_modify gridfs
        gridfs_old long_namespace read_write_concern/operation retryable_reads retryable_writes
        server_discovery_and_monitoring/existing server_discovery_and_monitoring/integration
        server_discovery_and_monitoring/monitoring server_discovery_and_monitoring/prose
        server_discovery_and_monitoring/topology server_stream sessions streamable transactions
        unified versioned_api with_transaction""".split()

    def __init__(self) -> None:
        self.version = fetch.libmongoc_version()
        self._directory = fetch.libmongoc()

    def commands(self, uri: str, results: pathlib.Path, only: list[str]) -> list[Command]:
        patterns = only or [f"/{each}/*" for each in self._BEGINNINGS]
        by_group: dict[str, list[str]] = {}
        for each in patterns:
            by_group.setdefault(each.split("/")[1], []).append(each)
        # A process for each group, so that one that hangs takes only its own group with it.
        return [Command(
            [self._directory / "test-libmongoc",
             *(word for each in each_of for word in ("-l", each))],
            self._directory / "source", results / f"libmongoc-{group}.log", 240,
            {"MONGOC_TEST_URI": uri, "IDPROXY_SUITE_SEED": _seed(uri),
             "MONGOC_TEST_SKIP_MOCK": "on", "MONGOC_TEST_OFFLINE": "on",
             "MONGOC_ENABLE_MAJORITY_READ_CONCERN": "on",
             "MONGOC_DISABLE_SHM": "1"})  # children that fail would leave their counters behind
            for group, each_of in by_group.items()]

    def outcomes(self, results: pathlib.Path) -> Outcomes:
        found: Outcomes = {}
        for file in results.glob("libmongoc-*.log"):
            # Line by line: what a test has written comes before its result, and of a group that was
            # killed the end is missing.
            written = ""
            for line in file.read_text(errors="replace").splitlines(keepends=True):
                if result := re.search(r'"status": "(\w+)", "test_file": "([^"]+)"', line):
                    found[result[2]] = Outcome(_STATUSES[result[1]], written[-2000:])
                    written = ""
                else:
                    written += line
        return found


SUITES: dict[str, type[Suite]] = {"pymongo": PyMongo, "go": Go, "libmongoc": Libmongoc}
