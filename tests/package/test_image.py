"""The image that scripts/image builds: what is in it, and that it serves as docs/containers.md says."""

from __future__ import annotations

import json
import os
import pathlib
import re
import stat
import subprocess
import threading
import urllib.request
from collections.abc import Callable

import pymongo
import pytest

from support.image import Image
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "containers.md").read_text()
CONFIGURATION = pathlib.Path("/etc/mongo-idproxy/mongo-idproxy.yaml")
RULES = [{"ns": "image.orders", "field": "number", "strategy": "counter"},
         {"ns": "image.bills", "field": "number", "strategy": "counter",
          "template": "{yyyy}-{counter:04}", "output": "string", "reset": "yearly", "timezone": "Europe/Berlin"}]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Built now."""
    directory = tmp_path_factory.mktemp("image")
    built = subprocess.run([ROOT / "scripts/image", "--output", directory], check=True, stdout=subprocess.PIPE,
                           text=True)
    return Image(pathlib.Path(built.stdout.strip()), directory)


@pytest.fixture
def start(image: Image, tmp_path: pathlib.Path, replica_set: Mongod,
          start_proxy: Callable[..., Proxy]) -> Callable[..., Proxy]:
    """start(user, environment, **more of the configuration): the image's program."""
    def started(user: str, environment: dict[str, str] = {}, **more: object) -> Proxy:
        write(tmp_path, replica_set, **more)
        return start_proxy(CONFIGURATION, environment, within=image.within(tmp_path, user))
    return started


def write(directory: pathlib.Path, server: Mongod, **more: object) -> None:
    config = {"listen": {"address": "127.0.0.1", "port": 0}, "admin": {"listen": "0.0.0.0:0"},
              "upstream": {"uri": server.uri}, "rules": RULES, **more}
    (directory / "mongo-idproxy.yaml").write_text(json.dumps(config))
    directory.chmod(0o755)


def test_has_a_name_and_needs_no_root(image: Image):
    version = re.search(r"(?m)^project\(mongo-idproxy VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert image.archive.name == f"mongo-idproxy-{version}-image.tar"
    assert f"mongo-idproxy:{version}" in image.names.values()
    assert image.config["Labels"]["org.opencontainers.image.version"] == version
    user = image.config["User"].split(":")
    assert len(user) == 2 and all(int(each) > 0 for each in user)
    assert set(image.config["ExposedPorts"]) == {"27117/tcp", "27216/tcp"}


def test_has_one_program_and_its_libraries(image: Image):
    """No shell, nothing that becomes another user, and a licence for each package."""
    executable = {path for path, status in image.files.items()
                  if stat.S_ISREG(status.st_mode) and status.st_mode & 0o111}
    libraries = {path for path in executable if ".so" in path}
    assert executable - libraries == {"/usr/bin/mongo-idproxy"}
    assert not [path for path, status in image.files.items()
                if status.st_mode & (stat.S_ISUID | stat.S_ISGID) or status.st_uid or status.st_gid]
    loaded = set(re.findall(r"(?m)(/\S+) \(", output("ldd", image.root / "usr/bin/mongo-idproxy")))
    assert {pathlib.Path(path).name for path in libraries} == {pathlib.Path(path).name for path in loaded}
    licences = {path for path in image.files if path.endswith("/copyright")}
    assert {"/usr/share/doc/mongo-idproxy/copyright", "/usr/share/doc/libc6/copyright",
            "/usr/share/doc/libmongoc-1.0-0/copyright"} <= licences
    assert "/etc/ssl/certs/ca-certificates.crt" in image.files


def output(*command: str | pathlib.Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_is_as_large_as_the_page_says(image: Image):
    """In millions of bytes; a tenth more or less is no reason to change the page."""
    def size(*parts: str) -> float:
        return sum(status.st_size for path, status in image.files.items()
                   if stat.S_ISREG(status.st_mode) and any(part in path for part in parts)) / 1e6
    said = {name: float(figure) for name, figure in re.findall(r"(?m)^\| (.*?) \| ([\d.]+) MB \|$", PAGE)}
    measured = {
        "the program": size("/usr/bin/"),
        "ICU, which libmongoc needs to compare passwords": size("libicu"),
        "all other libraries": size(".so") - size("libicu"),
        "time zones, certificates, licences": size("/zoneinfo/", "/certs/", "/copyright"),
        "all": size("/"),
        "the archive, compressed": image.archive.stat().st_size / 1e6,
    }
    assert said == {name: pytest.approx(figure, rel=0.1, abs=0.5) for name, figure in measured.items()}


@pytest.mark.parametrize("user", ["", "12345:54321"], ids=["own", "any"])
def test_serves_with_a_root_that_nobody_writes(
        image: Image, start: Callable[..., Proxy], replica_set: Mongod, tmp_path: pathlib.Path, user: str):
    proxy = start(user, {"LEVEL": "debug"}, log={"level": "${LEVEL:-info}"})
    status = pathlib.Path(f"/proc/{proxy.process.pid}/status").read_text()
    expected = (user or image.config["User"]).split(":")
    for name, number in zip(("Uid", "Gid"), expected, strict=True):
        assert set(re.search(rf"(?m)^{name}:(.*)", status)[1].split()) == {number}
    assert re.search(r"(?m)^Groups:\s*$", status)
    with pymongo.MongoClient(f"mongodb://{proxy.address}", directConnection=True) as client:
        orders, bills = client.image.orders, client.image.bills
        for collection in (orders, bills):
            collection.drop()
            collection.insert_one({"user": user})
        assert orders.find_one({"user": user})["number"] > 0
        assert re.fullmatch(r"\d{4}-\d{4}", bills.find_one({"user": user})["number"])
    # As the kubelet asks.
    port = proxy.wait_event("admin_listening")["address"].rpartition(":")[2]
    for probe in ("/livez", "/readyz"):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{probe}", headers={"Host": f"10.0.0.5:{port}"})
        assert urllib.request.urlopen(request, timeout=10).status == 200
    proxy.process.terminate()
    assert proxy.process.wait(30) == 0
    # Nothing but the log, and all of it JSON.
    assert proxy.find_events("stopped") and all(json.loads(line)["event"] for line in proxy.lines)


def test_stops_once_what_is_under_way_is_answered(start: Callable[..., Proxy], replica_set: Mongod):
    proxy = start("")
    # It ends its session before it ends, and nobody is there any more.
    with pymongo.MongoClient(f"mongodb://{proxy.address}", directConnection=True,
                             serverSelectionTimeoutMS=1000) as client:
        collection = client.image.slow
        collection.drop()
        collection.insert_one({})
        cursor = collection.find({"$where": "sleep(2000) || true"})

        def is_running() -> bool:
            running = replica_set.client.admin.aggregate(
                [{"$currentOp": {}}, {"$match": {"ns": "image.slow", "active": True}}])
            return bool(list(running))
        found: list[dict] = []
        reader = threading.Thread(target=lambda: found.extend(cursor))
        reader.start()
        eventually(is_running, 10)
        proxy.process.terminate()
        reader.join(30)
        assert len(found) == 1
    assert proxy.process.wait(30) == 0


def test_a_changed_file_comes_into_force(
        image: Image, start: Callable[..., Proxy], replica_set: Mongod, tmp_path: pathlib.Path):
    """Though what is mounted is read-only from within."""
    proxy = start("", reload="watch")
    write(tmp_path, replica_set, reload="watch", rules=RULES[:1])
    assert proxy.wait_event("reloaded", timeout=30)["changed"] == "rules: removed image.bills.number"


def test_commands_run_in_it(image: Image, replica_set: Mongod, tmp_path: pathlib.Path):
    write(tmp_path, replica_set, upstream={"uri": "${UPSTREAM:-mongodb://localhost:1}"})
    assert "mongo-idproxy" in image.run(tmp_path, "--version").stdout
    checked = image.run(tmp_path, "check")
    assert checked.returncode == 0 and "ok, 2 rules" in checked.stdout, checked.stdout + checked.stderr
    connected = image.run(tmp_path, "check", "--connect", environment={"UPSTREAM": replica_set.uri})
    assert connected.returncode == 0, connected.stdout + connected.stderr


def test_reload_runs_in_it(
        image: Image, start: Callable[..., Proxy], replica_set: Mongod, tmp_path: pathlib.Path):
    proxy = start("")
    admin = proxy.wait_event("admin_listening")["address"].replace("0.0.0.0", "127.0.0.1")
    write(tmp_path, replica_set, rules=RULES[:1])
    reloaded = image.run(tmp_path, "reload", "--admin", admin)
    assert reloaded.returncode == 0, reloaded.stderr
    assert reloaded.stdout == "reloaded: rules: removed image.bills.number\n"


def test_names_of_hosts_are_looked_up(image: Image, replica_set: Mongod, tmp_path: pathlib.Path):
    """By the files that whatever runs containers mounts: here one of its own."""
    (image.root / "etc/hosts").write_text("127.0.0.1 db1.internal\n")
    port = replica_set.address.rpartition(":")[2]
    write(tmp_path, replica_set,
          upstream={"uri": f"mongodb://db1.internal:{port}/?directConnection=true"})
    checked = image.run(tmp_path, "check", "--connect")
    assert checked.returncode == 0, checked.stdout + checked.stderr


class TestSecrets:
    """As volumes of Kubernetes have them."""

    def check(self, image: Image, directory: pathlib.Path, server: Mongod, mode: int, group: int
              ) -> subprocess.CompletedProcess[str]:
        secret = directory / "store-uri"
        secret.write_text(server.uri)
        secret.chmod(mode)
        os.chown(secret, 0, group)
        write(directory, server, id_store={"uri_file": str(CONFIGURATION.parent / "store-uri")})
        return image.run(directory, "check", user="12345:65532")

    def test_of_a_group_of_the_user_are_taken(self, image: Image, replica_set: Mongod, tmp_path: pathlib.Path):
        """defaultMode: 0440 and fsGroup."""
        checked = self.check(image, tmp_path, replica_set, 0o440, 65532)
        assert checked.returncode == 0, checked.stdout + checked.stderr

    def test_that_everybody_can_read_are_refused(
            self, image: Image, replica_set: Mongod, tmp_path: pathlib.Path):
        checked = self.check(image, tmp_path, replica_set, 0o644, 0)
        assert checked.returncode == 78 and "defaultMode: 0440" in checked.stdout
