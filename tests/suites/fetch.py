"""The drivers' sources and what is built of them, in the cache."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

from support.cache import cached

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _run(arguments: list[str | os.PathLike], **options) -> str:
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          **options)
    if done.returncode:
        sys.exit(f"{arguments[0]} failed:\n{(done.stdout + done.stderr).strip()[-4000:]}")
    return done.stdout


def _version(path: str, pattern: str) -> str:
    found = re.search(pattern, (ROOT / path).read_text(), re.MULTILINE)
    assert found, f"no {pattern} in {path}"
    return found[1]


def pymongo_version() -> str:
    return _version("tests/support/requirements.txt", r"^pymongo==(\S+)")


def pymongo() -> pathlib.Path:
    """A directory with the package `test` of PyMongo's sdist, and not the driver's own packages:
    those come, with their compiled parts, from the environment that this runs in."""
    version = pymongo_version()

    def fill(directory: pathlib.Path) -> None:
        _run([sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps",
              "--no-binary", ":all:", "--dest", directory, f"pymongo=={version}"])
        _run(["tar", "-xzf", f"pymongo-{version}.tar.gz", "--strip-components=1",
              f"pymongo-{version}/test"], cwd=directory)

    return cached("suite-pymongo", fill, version)


# Where the specifications' repository has what is in these directories of PyMongo's tests.
_SPECIFICATIONS = {
    "causal-consistency/tests": "causal_consistency",
    "change-streams/tests": "change_streams",
    "client-backpressure/tests": "client-backpressure",
    "client-side-operations-timeout/tests": "csot",
    "collection-management/tests": "collection_management",
    "command-logging-and-monitoring/tests/logging": "command_logging",
    "command-logging-and-monitoring/tests/monitoring": "command_monitoring",
    "connection-monitoring-and-pooling/tests/logging": "connection_logging",
    "crud/tests": "crud",
    "gridfs/tests": "gridfs",
    "index-management/tests": "index_management",
    "mongodb-handshake/tests": "handshake",
    "read-write-concern/tests": "read_write_concern",
    "retryable-reads/tests": "retryable_reads",
    "retryable-writes/tests": "retryable_writes",
    "run-command/tests": "run_command",
    "server-discovery-and-monitoring/tests": "discovery_and_monitoring",
    "server-selection/tests/logging": "server_selection_logging",
    "sessions/tests": "sessions",
    "transactions-convenient-api/tests": "transactions-convenient-api",
    "transactions/tests": "transactions",
    "unified-test-format/tests": "unified-test-format",
    "versioned-api/tests": "versioned-api",
}


def go_version() -> str:
    return _version("tests/drivers/go/go.mod", r"go\.mongodb\.org/mongo-driver/v2 v(\S+)")


def go(packages: list[str]) -> pathlib.Path:
    """A directory with the module in `source` and the test programs of its packages in `bin`."""
    specifications = pymongo()

    def fill(directory: pathlib.Path) -> None:
        environment = {**os.environ, "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local",
                       "GOWORK": "off", "GOMODCACHE": str(directory / "modules"),
                       "GOCACHE": str(directory / "compiled")}
        # Here, so that what comes is checked against go.sum.
        module = "go.mongodb.org/mongo-driver/v2"
        _run(["go", "mod", "download", module], cwd=ROOT / "tests/drivers/go", env=environment)
        source = directory / "source"
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(directory / "modules" / f"{module}@v{go_version()}", source)
        for there, here in _SPECIFICATIONS.items():
            link = source / "testdata/specifications/source" / there
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(specifications / "test" / here)
        for package in packages:
            program = directory / "bin" / package.replace("/", "-")
            _run(["go", "test", "-vet=off", "-p", "1", "-c", "-o", program, f"./{package}"],
                 cwd=source, env=environment)
        shutil.rmtree(directory / "compiled")

    return cached("suite-go", fill, go_version(), pymongo_version(), *packages)


def libmongoc_version() -> str:
    """Of Debian's package."""
    return _run(["dpkg-query", "-W", "-f", "${Version}", "libmongoc-1.0-0"])


# Its tests of transactions expect servers at MongoDB's own ports, whatever $MONGOC_TEST_URI says.
_LIBMONGOC_SEED = r'"localhost:2701[78]"', 'getenv ("IDPROXY_SUITE_SEED")'


def libmongoc() -> pathlib.Path:
    """A directory with the unpacked source package in `source` and with `test-libmongoc`."""
    version = libmongoc_version()

    def fill(directory: pathlib.Path) -> None:
        # apt-get with state of its own: that of the system need not know any source packages.
        apt = directory / "apt"
        for each in ("state/lists/partial", "cache/archives/partial"):
            (apt / each).mkdir(parents=True, exist_ok=True)
        binaries = _run(["apt-get", "indextargets", "--format",
                         "deb-src $(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages"])
        sources = sorted({*binaries.splitlines()})
        (apt / "sources.list").write_text("\n".join(sources) + "\n")
        apt_get = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={apt}/sources.list",
                   "-o", "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State={apt}/state",
                   "-o", f"Dir::Cache={apt}/cache", "-o", "APT::Sandbox::User=root"]
        _run([*apt_get, "update"], cwd=apt)
        _run([*apt_get, "source", "--download-only", f"mongo-c-driver={version}"], cwd=apt)
        (description,) = apt.glob("*.dsc")
        source, build = directory / "source", directory / "build"
        shutil.rmtree(source, ignore_errors=True)
        _run(["dpkg-source", "--extract", description, source])
        tests = source / "src/libmongoc/tests/test-mongoc-transactions.c"
        seed, ours = _LIBMONGOC_SEED
        tests.write_text(re.sub(seed, ours, tests.read_text()))
        options = ["BUILD_VERSION=" + version.split("-")[0], "CMAKE_BUILD_TYPE=Debug",
                   "CMAKE_C_FLAGS=-O1", "ENABLE_TESTS=ON", "ENABLE_EXAMPLES=OFF", "ENABLE_SASL=OFF",
                   "ENABLE_SSL=OPENSSL", "ENABLE_SNAPPY=OFF", "ENABLE_ZSTD=OFF",
                   "ENABLE_ZLIB=OFF", "ENABLE_CLIENT_SIDE_ENCRYPTION=OFF"]
        _run(["cmake", "-G", "Ninja", "-S", source, "-B", build, *(f"-D{o}" for o in options)])
        _run(["cmake", "--build", build, "-j", os.environ.get("IDPROXY_JOBS", "2"),
              "--target", "test-libmongoc"])
        (build / "src/libmongoc/test-libmongoc").rename(directory / "test-libmongoc")
        shutil.rmtree(build)
        shutil.rmtree(apt)

    return cached("suite-libmongoc", fill, version, *_LIBMONGOC_SEED)
