"""The unit at work: installed, started, reloaded, hung and stopped by a systemd of its own."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import re
import resource
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymongo
import pytest

from nested_systemd import NestedSystemd
from support.certificates import Authority
from support.mongod import Mongod
from support.process import eventually, free_port
from test_package import RELEASE, ROOT

CONFIG = "usr/local/etc/mongo-idproxy"
SOCKET = "run/mongo-idproxy/mongodb.sock"

# linux/ptrace.h, linux/wait.h
PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


@pytest.fixture(scope="module")
def systemd() -> Iterator[NestedSystemd]:
    running = NestedSystemd()
    try:
        subprocess.run(["cmake", "--install", RELEASE], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DESTDIR": str(running.root)})
        yield running
    finally:
        running.close()


class Service:
    """mongo-idproxy.service. Each test starts it with a configuration and a drop-in of its own."""

    def __init__(self, systemd: NestedSystemd, mongod: Mongod):
        self.systemd = systemd
        self.mongod = mongod
        self.port = free_port()
        self._configuration = systemd.root / CONFIG / "mongo-idproxy.yaml"
        self._changes = systemd.root / "etc/systemd/system/mongo-idproxy.service.d/changes.conf"
        self._changes.parent.mkdir(parents=True, exist_ok=True)

    def configure(self, listen: str = "", rules: str = "[]", more: str = "", admin: str = "") -> None:
        self._configuration.write_text(
            f"listen: {{{listen or f'port: {self.port}'}}}\n"
            f"upstream: {{uri: '{self.mongod.uri}'}}\n"
            f"admin: {{listen: {json.dumps(admin or None)}}}\nthreads: 2\n{more}\nrules: {rules}\n")

    def change(self, *lines: str) -> None:
        """As systemctl edit does."""
        self._changes.write_text("\n".join(["[Service]", *lines, ""]))
        self.systemd.run("systemctl", "daemon-reload")

    def start(self, *changes: str, **configuration: str) -> None:
        self.configure(**configuration)
        self.change(*changes)
        self.systemd.run("systemctl", "start", "mongo-idproxy")

    def stop(self) -> None:
        self.systemd.run("systemctl", "stop", "mongo-idproxy")

    def show(self, name: str) -> str:
        return self.systemd.run("systemctl", "show", f"--property={name}", "--value",
                                "mongo-idproxy").strip()

    def log(self, *options: str) -> str:
        return self.systemd.run("journalctl", "--unit=mongo-idproxy", "--output=cat", "--no-pager",
                                *options)

    @property
    def process(self) -> pathlib.Path:
        """Of its main process, below /proc as it is there."""
        return self.systemd.root / "proc" / self.show("MainPID")

    def client(self, **options: Any) -> pymongo.MongoClient:
        return pymongo.MongoClient(f"mongodb://127.0.0.1:{self.port}/", **{
            "directConnection": True, "serverSelectionTimeoutMS": 10_000, **options})

    def operations(self) -> list[dict[str, Any]]:
        """What the server is doing now."""
        return self.mongod.client.admin.command("currentOp")["inprog"]

    def connects(self, user: str) -> bool:
        """Whether this user may connect to the Unix socket."""
        program = ("import socket; "
                   f"socket.socket(socket.AF_UNIX).connect('/{SOCKET}')")
        done = self.systemd.attempt("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups",
                                    "/usr/bin/python3", "-c", program)
        assert done.returncode == 0 or "Permission denied" in done.stderr, done.stderr
        return done.returncode == 0


@pytest.fixture
def service(systemd: NestedSystemd, standalone: Mongod) -> Iterator[Service]:
    running = Service(systemd, standalone)
    yield running
    running.systemd.attempt("systemctl", "stop", "mongo-idproxy")
    running.systemd.attempt("systemctl", "reset-failed", "mongo-idproxy")


def rule(collection: str, digits: int) -> str:
    return f"[{{ns: shop.{collection}, field: n, strategy: random-digits, digits: {digits}}}]"


def digits_of_next(service: Service, collection: str) -> int:
    """How long the number is that an insert gets now; 0 if none."""
    with service.client() as client:
        client.shop[collection].insert_one({"_id": 1})
        found = client.shop[collection].find_one_and_delete({"_id": 1})
    return len(str(found.get("n", "")))


def test_serves_and_stops(service, coll):
    service.start(rules=rule(coll, 9))
    assert service.show("ActiveState") == "active"
    assert service.show("StatusText")
    assert digits_of_next(service, coll) > 5
    service.stop()
    assert (service.show("Result"), service.show("ExecMainStatus")) == ("success", "0")
    assert '"stopped"' in service.log()


def test_has_no_rights(service):
    service.start()
    status = dict(line.split(":\t", 1) for line in
                  (service.process / "status").read_text().splitlines() if ":\t" in line)
    assert int(status["Uid"].split()[0]) >= 61184  # one of systemd's dynamic ones
    assert {int(status[each], 16) for each in status if each.startswith("Cap")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    limits = (service.process / "limits").read_text()
    assert re.search(r"(?m)^Max core file size +0 +0 ", limits)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # which a systemd here may not raise
    descriptors = str(min(most, int(service.show("LimitNOFILE"))))
    assert re.search(rf"(?m)^Max open files +{descriptors} +{descriptors} ", limits)


def test_a_unix_socket_for_a_group(service):
    for command in (["groupadd", "shop"], ["useradd", "--groups=shop", "ann"], ["useradd", "bob"]):
        service.systemd.run(*command)
    service.start("Group=shop", listen=f"address: 'unix:/{SOCKET}'")
    assert service.connects("ann") and not service.connects("bob")
    service.stop()
    assert not (service.systemd.root / SOCKET).exists()


def commands_of(page: str) -> list[str]:
    """Of its first block, without sudo and what is to be edited by hand."""
    block = re.search(r"(?s)```sh\n(.*?)```", (ROOT / "docs" / page).read_text())[1]
    lines = [line.split("#")[0].strip().removeprefix("sudo ") for line in block.splitlines()]
    return [line for line in lines if not line.startswith("sudoedit")]


def test_socket_activation(service, coll):
    """As docs/socket-activation.md describes it."""
    systemd, unit = service.systemd, service.systemd.root / "etc/systemd/system/mongo-idproxy.socket"
    service.start(rules=rule(coll, 9))
    copy, *commands = commands_of("socket-activation.md")
    systemd.run(*copy.replace("/usr/share/", "/usr/local/share/").split())  # from source
    unit.write_text(unit.read_text().replace("27117", str(service.port)))
    for command in commands:
        systemd.run(*command.split())
    assert service.show("TriggeredBy") == "mongo-idproxy.socket"
    with ThreadPoolExecutor() as pool:
        restart = pool.submit(systemd.run, "systemctl", "restart", "mongo-idproxy")
        connected = 0
        while not restart.done():
            socket.create_connection(("127.0.0.1", service.port), 30).close()
            connected += 1
        restart.result()
    assert connected and digits_of_next(service, coll) > 5
    service.stop()
    assert digits_of_next(service, coll) > 5  # it has been started again

    page = (ROOT / "docs/socket-activation.md").read_text()
    (stop, mended) = re.findall(r"`sudo (systemctl (?:stop|start) [^`]+)`", page)
    service.configure(rules="{}")
    systemd.attempt("systemctl", "restart", "mongo-idproxy")
    with contextlib.suppress(OSError):
        while True:  # until systemd has tried often enough
            socket.create_connection(("127.0.0.1", service.port), 30).close()
    service.configure(rules=rule(coll, 9))
    systemd.run(*mended.split())
    assert digits_of_next(service, coll) > 5

    systemd.run(*stop.split())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", service.port), 30)
    systemd.run("systemctl", "disable", "mongo-idproxy.socket")
    unit.unlink()
    systemd.run("systemctl", "daemon-reload")


def test_secrets_by_credentials(service, coll, tmp_path):
    """Which only root may read."""
    authority = Authority(tmp_path, "authority")
    hidden = (ROOT / "docs/permuted.md").read_text()
    (key,) = re.findall(rf"(?m)^LoadCredential=([\w.]+):/etc/mongo-idproxy/\1$", hidden)
    (hiding,) = re.findall(r'(?m)^    (key: \{file: "\$\{CREDENTIALS_DIRECTORY\}/.*)$', hidden)
    secrets = {"store-uri": service.mongod.uri, key: "2b7e151628aed2a6abf7158809cf4f3c",
               "server.pem": authority.issue("CN=proxy").file.read_text()}
    for name, text in secrets.items():
        file = service.systemd.root / CONFIG / name
        file.touch(mode=0o600)
        file.write_text(text)
    directory = "${CREDENTIALS_DIRECTORY}"
    service.start(
        *(f"LoadCredential={name}:/{CONFIG}/{name}" for name in secrets),
        listen=f"port: {service.port}, "
               f"tls: {{mode: require, certificate_key_file: '{directory}/server.pem'}}",
        more=f"id_store: {{uri_file: '{directory}/store-uri'}}",
        rules=f"[{{ns: shop.{coll}, field: n, strategy: permuted, unique_index: create, {hiding}}}]")
    context = ssl.create_default_context(cafile=str(authority.file))
    with socket.create_connection(("127.0.0.1", service.port), 10) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as connection:
        assert connection.version() == "TLSv1.3"
    assert not re.search(r'"level":"(error|warning)"', service.log().rpartition('"ready"')[2])


# What systemctl edit and sudoedit start. $SAID: the directory with what is to be written into each file.
EDITOR = """#!/bin/sh
for last; do :; done
case $last in *.yaml|*/store-uri) cat "$SAID/${last##*/}" ;; *) cat "$SAID/unit" ;; esac >/tmp/edited
cat /tmp/edited >"$last"
"""


def type_commands(service: Service, commands: list[str], **said: str) -> None:
    """As an administrator does, who writes that into the files."""
    said_here = service.systemd.root / "root/said"
    said_here.mkdir(exist_ok=True)
    for name, text in said.items():
        (said_here / name.replace("_", "-").replace("-yaml", ".yaml")).write_text(text)
    editor = service.systemd.root / "root/editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    for command in commands:
        typed = re.sub("^sudo(edit)? ", lambda found: "/root/editor " if found[1] else "", command)
        service.systemd.run("env", "EDITOR=/root/editor", "SAID=/root/said", "TERM=dumb",
                            "script", "--quiet", "--return", "--command", typed, "/dev/null")


def findings_of(service: Service) -> dict[str, dict[str, Any]]:
    done = service.systemd.attempt("env", *credentials_of(service), "/usr/local/bin/mongo-idproxy", "doctor", "--json",
                                   "--config", f"/{CONFIG}/mongo-idproxy.yaml")
    return {each["id"]: each for each in json.loads(done.stdout)["findings"]}


def credentials_of(service: Service) -> list[str]:
    return ["CREDENTIALS_DIRECTORY=/run/credentials/mongo-idproxy.service"]


def test_a_password_leaves_the_configuration(service, coll):
    """By the commands of doctor: the unit's user could not read a file that is closed to all others."""
    admin = service.mongod.client.admin
    admin.command("createUser", coll, pwd="under-lock", roles=["root"])
    uri = f"mongodb://{coll}:under-lock@{service.mongod.address}/"
    counter = f"[{{ns: shop.{coll}, field: n, strategy: counter}}]"
    drop_in = service.systemd.root / "etc/systemd/system/mongo-idproxy.service.d/override.conf"
    try:
        service.start(rules=counter, more=f"id_store: {{uri: '{uri}'}}")
        found = findings_of(service)["password-in-file"]
        (line,) = re.findall(r"LoadCredential=\S+", found["text"])
        (written,) = re.findall(r"id_store: \{uri_file: \"[^\"]*\"\}", found["text"])
        yaml = service.systemd.root / CONFIG / "mongo-idproxy.yaml"
        whole = yaml.read_text()
        type_commands(service, [each["command"] for each in found["commands"]], store_uri=uri,
                      unit=f"[Service]\n{line}\n",
                      mongo_idproxy_yaml=whole.replace(f"id_store: {{uri: '{uri}'}}", written))
        assert "under-lock" not in yaml.read_text() and yaml.stat().st_mode & 0o004
        assert (service.systemd.root / CONFIG / "store-uri").stat().st_mode & 0o077 == 0
        assert service.show("ActiveState") == "active"
        service.systemd.run("systemctl", "reload", "mongo-idproxy")
        with service.client() as client:
            client.shop[coll].insert_one({"_id": 1})
            assert client.shop[coll].find_one({"_id": 1})["n"] == 1
        assert findings_of(service).keys().isdisjoint({"password-in-file", "secret-file-open"})
    finally:
        admin.command("dropUser", coll)
        drop_in.unlink(missing_ok=True)


def test_a_secret_that_is_open(service, coll):
    """The same, of a file that the unit's user could not read either once it is closed."""
    drop_in = service.systemd.root / "etc/systemd/system/mongo-idproxy.service.d/override.conf"
    secret = service.systemd.root / CONFIG / "open-uri"
    secret.write_text(service.mongod.uri)
    secret.chmod(0o644)
    try:
        service.configure(more=f"id_store: {{uri_file: /{CONFIG}/open-uri}}")
        service.change()
        found = findings_of(service)["secret-file-open"]
        yaml = (service.systemd.root / CONFIG / "mongo-idproxy.yaml").read_text()
        type_commands(service, [each["command"] for each in found["commands"]],
                      unit=f"[Service]\nLoadCredential=open-uri:/{CONFIG}/open-uri\n",
                      mongo_idproxy_yaml=yaml.replace(f"/{CONFIG}/open-uri", '"${CREDENTIALS_DIRECTORY}/open-uri"'))
        assert secret.stat().st_mode & 0o007 == 0 and service.show("ActiveState") == "active"
        assert "secret-file-open" not in findings_of(service)
    finally:
        secret.unlink()
        drop_in.unlink(missing_ok=True)


def test_reload(service, coll):
    service.start(rules=rule(coll, 2))
    process = service.show("MainPID")
    service.configure(rules=rule(coll, 18))
    service.systemd.run("systemctl", "reload", "mongo-idproxy")
    eventually(lambda: digits_of_next(service, coll) > 10, 10, "the new rule is at work")
    service.configure(rules="[{ns: shop.orders}]")
    service.systemd.attempt("systemctl", "reload", "mongo-idproxy")
    eventually(lambda: "reload_failed" in service.log(), 10, "the error is said")
    assert digits_of_next(service, coll) > 10
    eventually(lambda: service.show("ActiveState") == "active", 10, "it is not reloading for ever")
    assert service.show("MainPID") == process


def test_root_reloads_and_examines_it(service, coll):
    """With variables that only the service has: root's commands take nothing from a running process (A25)."""
    admin = f"127.0.0.1:{free_port()}"
    folder = service.systemd.root / CONFIG
    for name in ("store-uri", "environment"):
        (folder / name).write_text(f"{service.mongod.uri}\n" if name == "store-uri" else "DIGITS=9\n")
        (folder / name).chmod(0o600)

    def configured(rules: str) -> dict[str, str]:
        return {"rules": rules, "more": 'id_store: {uri_file: "${CREDENTIALS_DIRECTORY}/store-uri"}'}

    service.start(f"LoadCredential=store-uri:/{CONFIG}/store-uri", f"EnvironmentFile=/{CONFIG}/environment",
                  **configured(rule(coll, 2)), admin=admin)
    service.configure(**configured(f"\n- ns: shop.{coll}\n  field: n\n  strategy: random-digits\n"
                                   "  digits: ${DIGITS}"), admin=admin)
    config = f"/{CONFIG}/mongo-idproxy.yaml"
    command = ["/usr/local/bin/mongo-idproxy"]
    assert "digits" in service.systemd.run(*command, "reload", "--config", config)

    def examine(*how: str) -> str:
        return service.systemd.attempt(*how, *command, "doctor", "--config", config).stdout

    said = examine()
    assert "variable-undefined" in said and re.search("ok +proxy", said), said
    ways = re.findall(r"(?m)^sudo (.*) mongo-idproxy doctor$", (ROOT / "docs/doctor.md").read_text())
    credentials, environment = (way.replace("/etc/mongo-idproxy", f"/{CONFIG}").split() for way in ways)
    assert f"sudo {' '.join(credentials)} mongo-idproxy doctor" in said
    whole = examine(*environment, f"--setenv={credentials[1]}")
    assert "variable-undefined" not in whole
    assert re.search("ok +user", whole) and re.search("ok +proxy", whole), whole
    assert "'DIGITS'" in examine(*credentials)
    stranger = service.systemd.attempt("setpriv", "--reuid=65534", "--clear-groups", *command, "reload",
                                       "--admin", admin)
    assert stranger.returncode == 77 and "another user" in stranger.stderr


def test_the_journal_filters_by_level(service):
    """Also lines that are not the log's: here, a mistake at the start."""
    (options,) = re.findall(r"(?m)^sudo journalctl -u mongo-idproxy (-p warning [^#]*)",
                            (ROOT / "docs/log-events.md").read_text())
    service.start()
    service.configure(rules="[{ns: shop.orders}]")
    service.systemd.run("systemctl", "reload", "mongo-idproxy")
    eventually(lambda: '"reload_failed"' in service.log(*options.split()), 10, "the error is said")
    service.stop()
    service.systemd.attempt("systemctl", "start", "mongo-idproxy")
    eventually(lambda: re.search(r"(?m)^\S+: error: ", service.log(*options.split())), 10)
    assert '"level":"info"' in service.log()
    assert '"level":"info"' not in service.log(*options.split())
    assert not re.search("(?m)^<", service.log())


def test_a_drain_longer_than_systemd_waits_for_by_itself(service):
    """What is under way is brought to its end."""
    service.start("TimeoutStopSec=3")
    # It ends its session before it ends, and nobody is there any more.
    with service.client(serverSelectionTimeoutMS=1000) as client, ThreadPoolExecutor() as pool:
        asleep = pool.submit(client.admin.command, "sleep", 1, millis=6000, lock="none")
        eventually(lambda: any("sleep" in each["command"] for each in service.operations()), 5)
        began = time.monotonic()
        service.stop()
        assert 3 < time.monotonic() - began < 30
        assert asleep.result()["ok"] == 1
    assert (service.show("Result"), service.show("ExecMainStatus")) == ("success", "0")


def test_a_bad_configuration_is_not_tried_again(service):
    service.configure(rules="{}")
    service.change()
    service.systemd.attempt("systemctl", "start", "mongo-idproxy")
    assert (service.show("ActiveState"), service.show("ExecMainStatus")) == ("failed", "78")


def test_a_port_in_use_is_tried_again(service):
    with socket.create_server(("127.0.0.1", service.port)):
        service.configure()
        service.change("RestartSec=50ms")
        service.systemd.attempt("systemctl", "start", "mongo-idproxy")
        # More often than systemd's default allows.
        eventually(lambda: int(service.show("NRestarts")) > 6, 20, "it is started again")
    eventually(lambda: service.show("ActiveState") == "active", 20, "the port is free")


class Held:
    """A thread that stands still, as if it were stuck in an endless loop, while its process goes on.
    It is let go by being killed."""

    def __init__(self, thread: int):
        self._thread = thread
        self._ptrace(PTRACE_SEIZE)
        self._ptrace(PTRACE_INTERRUPT)

    def _ptrace(self, request: int) -> None:
        if _libc.ptrace(request, self._thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace request {request:#x}")

    def close(self) -> None:
        """As long as its end has not been looked at, it does not go away."""
        def is_gone() -> bool:
            try:
                _, status = os.waitpid(self._thread, os.WNOHANG | WALL)
            except ChildProcessError:
                return True
            return os.WIFSIGNALED(status) or os.WIFEXITED(status)
        eventually(is_gone, 20, "the thread has ended")


def test_the_watchdog(service, coll):
    """A hung thread of clients is noticed, and the service started again."""
    service.start("WatchdogSec=6", rules=rule(coll, 9))
    before = service.show("MainPID")
    with pytest.raises(TimeoutError):
        eventually(lambda: service.show("NRestarts") != "0", 10)
    held = Held(service.systemd.pid_here(int(before)))
    eventually(lambda: "Watchdog timeout" in service.log(), 40, "systemd notices")
    held.close()
    eventually(lambda: service.show("NRestarts") == "1", 20, "it is started again")
    eventually(lambda: service.show("ActiveState") == "active", 20, "it serves again")
    assert service.show("MainPID") != before
    assert digits_of_next(service, coll) > 5
