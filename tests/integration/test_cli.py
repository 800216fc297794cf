"""The command line: what is printed, and the status the program ends with.

What may be wrong in a file, and what is said of it, needs no process: tests/unit/config."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any

import pymongo
import pytest

from support.certificates import Authority
from support.names import DnsServer, OwnNames, dns_permitted
from support.process import eventually, free_port, has_ipv6, start
from support.proxy import Proxy, binary

ROOT = pathlib.Path(__file__).resolve().parents[2]

GOOD = """\
admin: {listen: null}
listen: {address: 127.0.0.1, port: 0}
upstream: {uri: "mongodb://127.0.0.1:27017"}
rules:
  - ns: shop.orders
    field: _id
    assign: missing
    strategy: uuid
"""



def run(*arguments: str | pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True,
                          timeout=30, env={**os.environ, **environment})


def next_event(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The next line of its log."""
    line = process.stderr.readline()
    assert line, "the log has ended"
    return json.loads(line)


@pytest.fixture
def config(tmp_path):
    def write(text: str) -> pathlib.Path:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        path.chmod(0o600)
        return path
    return write


def test_help():
    result = run("--help")
    assert result.returncode == 0 and not result.stderr
    assert "Usage: mongo-idproxy [--config FILE] [--check-config [--connect]]\n" in result.stdout
    assert "\n\n\n" not in result.stdout
    for option in ("--config", "--check-config", "--connect", "-V,--version", "--help"):
        assert option in result.stdout
    for number in ("SIGTERM", "SIGINT", "SIGHUP"):
        assert number in result.stdout


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option):
    result = run(option)
    assert result.returncode == 0 and not result.stderr
    name, compiler, libraries = result.stdout.splitlines()
    assert re.fullmatch(r"mongo-idproxy \d+\.\d+\.\d+ \(commit ([0-9a-f]{12}|unknown)\)", name)
    assert re.fullmatch(r"compiled by (Clang|GCC) [\d.]+", compiler)
    for library in (
            "Boost", "OpenSSL", "libmongoc", "zlib", "zstd", "snappy", "spdlog", "yaml-cpp"):
        assert re.search(rf"\b{library} \d+\.", libraries)


def test_the_commit_of_a_version(tmp_path):
    """A build outside git has none, and one without a new commit compiles nothing."""
    def git(*command: str) -> str:
        return subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x", *command], check=True,
                              cwd=tmp_path, capture_output=True, text=True).stdout.strip()

    header = tmp_path / "header.hpp"

    def write() -> str:
        subprocess.run(["cmake", "-D", f"source={tmp_path}", "-D", f"header={header}",
                        "-P", ROOT / "scripts" / "write_commit.cmake"], check=True)
        return header.read_text()

    assert write() == '#define IDPROXY_COMMIT "unknown"\n'
    git("init", "--quiet")
    assert "unknown" in write()
    git("commit", "--quiet", "--allow-empty", "--message", "one")
    assert write() == f'#define IDPROXY_COMMIT "{git("rev-parse", "HEAD")[:12]}"\n'
    os.utime(header, (1, 1))
    write()
    assert header.stat().st_mtime == 1


@pytest.mark.parametrize("arguments, named", [
    (["--config"], "--config"), (["extra"], "extra"),
    (["--bogus", "--check-config"], "--bogus"), (["--config", "a", "--connect"], "--check-config"),
    (["--connect"], ""), (["--config", "a", "--config", "b"], "")], ids=str)
def test_usage(arguments, named):
    result = run(*arguments)
    assert result.returncode == 64
    assert result.stderr.startswith("mongo-idproxy: ") and named in result.stderr


class TestCheckConfig:
    def test_good(self, config):
        result = run("--config", config(GOOD), "--check-config")
        assert result.returncode == 0, result.stderr

    @pytest.mark.parametrize("name", ["mongo-idproxy.yaml", "quickstart.yaml"])
    def test_the_files_of_this_project(self, name):
        result = run("--check-config", "--config", ROOT / "config" / name,
                     QUICKSTART_MONGOD_URI="mongodb://127.0.0.1:27017")
        assert result.returncode == 0, result.stderr

    def test_all_errors_at_once_with_their_places(self, config):
        path = config("""\
listen: {address: 127.0.0.1, prot: 27117}
upstream: {uri: "mongodb://127.0.0.1:27017", connect_timeout: 5}
rules:
  - ns: shop.orders
    field: _id
    strategy: uuid
    version: 2
  - ns: shop.orders
    feild: _id
    strategy: uuid
  - ns: shop.carts
    field: _id
    strategy: random-digit
""")
        result = run("--check-config", "--config", path)
        output = result.stdout + result.stderr
        assert result.returncode == 78
        for line in (1, 2, 7, 9, 13):
            assert re.search(rf"config\.yaml:{line}:\d+: ", output), f"line {line} in\n{output}"
        for suggestion in ("port", "field", "random-digits"):
            assert suggestion in output
        assert "config.yaml:1:30: " in output

    @pytest.mark.parametrize("text", ["{", GOOD.replace("port: 0", "port: 65536")], ids=["yaml", "value"])
    def test_bad(self, config, text):
        path = config(text)
        for arguments in (["--check-config"], []):
            result = run("--config", path, *arguments)
            assert result.returncode == 78, result.stdout + result.stderr
            assert "config.yaml" in result.stdout + result.stderr

    def test_an_environment_variable(self, config):
        path = config(GOOD.replace("mongodb://127.0.0.1:27017", "${IDPROXY_TEST_URI}"))
        good = run("--check-config", "--config", path,
                   IDPROXY_TEST_URI="mongodb://127.0.0.1:27017")
        assert good.returncode == 0, good.stderr
        assert run("--check-config", "--config", path,
                   IDPROXY_TEST_URI="http://x").returncode == 78


class TestAPasswordInTheFile:
    URI = "mongodb://proxy:under-lock@127.0.0.1:27017"
    BARE = "mongodb://127.0.0.1:27017/?appName=x"

    @pytest.mark.parametrize("keys, uri, mode", [
        (["upstream"], URI, 0o644), (["id_store"], f"{BARE}&tlsCertificateKeyFilePassword=under-lock", 0o644),
        (["upstream", "id_store"], f"{BARE}&PROXYPASSWORD=under-lock", 0o644), (["upstream"], URI, 0o640)],
        ids=["user", "key_file", "proxy", "for_some"])
    def test_is_for_those_who_may_read_it(self, config, keys, uri, mode):
        path = config("".join(f'{key}: {{uri: "{uri}"}}\n' for key in keys) + "rules: []\n")
        path.chmod(mode)
        result = run("--config", path, "--check-config")
        assert result.returncode == 0 and "under-lock" not in result.stdout
        named = re.findall(r"(\w+)\.uri: contains a password", result.stdout)
        assert named == (keys if mode == 0o644 else [])

    @pytest.mark.parametrize("uri, warned", [
        ("${URI}", False), ("mongodb://proxy:${WORD}@${HOST}", False),
        ("mongodb://${HOST}/?tlsCertificateKeyFilePassword=${WORD}", False),
        ("mongodb://proxy:under-lock@${HOST}", True),
        ("mongodb://${HOST}/?tlsCertificateKeyFilePassword=under-lock", True),
        ("mongodb://proxy:${WORD:-under-lock}@${HOST}", True),
        ("mongodb://${NOBODY:-proxy}:${WORD:-}@${HOST:-127.0.0.1}", False)])
    def test_may_be_a_variable(self, config, uri, warned):
        path = config(f'upstream: {{uri: "{uri}"}}\nrules: []\n')
        path.chmod(0o644)
        result = run("--config", path, "--check-config", URI=self.URI, WORD="under-lock",
                     HOST="127.0.0.1:27017")
        assert result.returncode == 0 and "under-lock" not in result.stdout
        assert ("contains a password" in result.stdout) == warned

    def test_advice_is_safe_under_systemd(self, config):
        """With chmod alone the unit's user could not read the file any more: status 77."""
        path = config(f'upstream: {{uri: "{self.URI}"}}\nrules: []\n')
        path.chmod(0o644)
        result = run("--config", path, "--check-config")
        advice = result.stdout.partition("contains a password")[2]
        assert advice.index("LoadCredential=") < advice.index("(chmod o-rwx")


class TestTls:
    """--check-config reads the certificates, and shows no secrets."""

    @pytest.fixture
    def authority(self, tmp_path) -> Authority:
        return Authority(tmp_path, "Test CA")

    def test_good(self, config, authority):
        own = authority.issue("CN=proxy,O=Proxies")
        locked = authority.issue("CN=upstream,O=Proxies", password="p@ss")
        result = self.check(
            config, f"mode: require, certificate_key_file: {own.file}, ca_file: {authority.file}, "
                    "client_certificate: require",
            f"tlsCAFile={authority.file}&tlsCertificateKeyFile={locked.file}&"
            "tlsCertificateKeyFilePassword=p%40ss")
        assert result.returncode == 0 and "warning" not in result.stdout, result.stdout

    def test_bad_files(self, config, authority, tmp_path):
        """All in one go."""
        locked = authority.issue("CN=proxy", password="right-secret")
        (tmp_path / "text.pem").write_text("secret")
        result = self.check(
            config, f"mode: require,\n certificate_key_file: {locked.file},\n"
                    f" ca_file: {tmp_path}/nowhere.pem,\n client_certificate: optional",
            f"tlsCertificateKeyFile={locked.file}&tlsCertificateKeyFilePassword=wrong-secret",
            f"tlsCAFile={tmp_path}/text.pem")
        assert result.returncode == 78
        for place in ("3:2: error: listen.tls.ca_file", "5:12: error: upstream.uri",
                      "6:12: error: id_store.uri"):
            assert f"config.yaml:{place}: " in result.stdout, result.stdout
        assert "secret" not in result.stdout

    def check(self, config, listen: str, upstream: str = "tls=false", store: str = "tls=true",
              **environment: str) -> subprocess.CompletedProcess[str]:
        """Of listen.tls, of the options of upstream's string and of the store's."""
        path = config(f"listen: {{port: 0, tls: {{{listen}}}}}\n"
                      f"upstream: {{uri: 'mongodb://127.0.0.1/?{upstream}'}}\n"
                      f"id_store: {{uri: 'mongodb://store:secret@127.0.0.1/?{store}'}}\n"
                      "rules: [{ns: a.b, field: c, strategy: uuid}]\n")
        return run("--check-config", "--config", path, **environment)


class TestFiles:
    def test_missing(self, tmp_path):
        result = run("--config", tmp_path / "none.yaml")
        assert result.returncode == 77
        assert "none.yaml" in result.stderr

    def test_a_directory(self, tmp_path):
        assert run("--config", tmp_path).returncode == 77

    if os.geteuid() != 0:  # root may read everything
        def test_not_permitted(self, config):
            path = config(GOOD)
            path.chmod(0)
            assert run("--config", path).returncode == 77


def test_nothing_is_left_in_shared_memory(config):
    """By libmongoc, which has figures of its own there, from before main() begins."""
    environment = {key: value for key, value in os.environ.items() if key != "MONGOC_DISABLE_SHM"}
    process = subprocess.Popen([binary(), "--config", config(GOOD)], stderr=subprocess.PIPE,
                               env=environment, text=True)
    try:
        assert any(json.loads(line)["event"] == "ready" for line in process.stderr)
        assert not pathlib.Path(f"/dev/shm/mongoc-{process.pid}").exists()
    finally:
        process.kill()
        process.communicate()


def test_every_line_is_the_logs_own(config):
    """libmongoc has a message when it gets no memory to share, and writes it before main() begins."""
    path = config(GOOD.replace("address: 127.0.0.1", "address: 192.0.2.1"))

    def leave_a_file() -> None:
        pathlib.Path(f"/dev/shm/mongoc-{os.getpid()}").touch()

    environment = {key: value for key, value in os.environ.items() if key != "MONGOC_DISABLE_SHM"}
    process = subprocess.Popen([binary(), "--config", path], stderr=subprocess.PIPE,
                               env=environment, preexec_fn=leave_a_file)
    try:
        log = process.communicate(timeout=30)[1]
    finally:
        pathlib.Path(f"/dev/shm/mongoc-{process.pid}").unlink()
    assert process.returncode == 69
    assert "cannot_listen" in [json.loads(line)["event"] for line in log.splitlines()]


class TestListening:
    def test_a_folder_that_is_called_as_an_error_is(self, config):
        result = run("--config", config(GOOD.replace("127.0.0.1, ", "'unix:/Permission denied/a.sock', ")))
        assert result.returncode == 69, result.stderr
        assert "Permission denied/a.sock" in result.stderr

    def test_not_permitted(self):
        as_nobody = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--"] if os.geteuid() == 0 else []
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(GOOD.replace("127.0.0.1, ", "'unix:/a.sock', "))
            file.flush()
            os.chmod(file.name, 0o644)
            done = subprocess.run(
                [*as_nobody, binary(), "--config", file.name], stderr=subprocess.PIPE, text=True, timeout=30)
        assert done.returncode == 77, done.stderr

    def test_a_busy_port(self, config):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = run("--config", config(GOOD.replace("port: 0", f"port: {port}")))
        assert result.returncode == 69
        assert str(port) in result.stderr

    def test_a_busy_port_for_admin(self, config):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = run("--config", config(GOOD.replace("null", f"'127.0.0.1:{port}'")))
        assert result.returncode == 69
        assert f"127.0.0.1:{port}" in result.stderr

    def test_an_address_of_another_machine(self, config):
        result = run("--config", config(GOOD.replace("address: 127.0.0.1", "address: 192.0.2.1")))
        assert result.returncode == 69

    def test_a_port_for_each_server_of_the_uri(self, start_proxy):
        ports = [free_port(), free_port()]
        proxy = start_proxy({"upstream": {
            "uri": "mongodb://" + ",".join(f"127.0.0.1:{p}" for p in ports)}, "rules": []})
        assert [server for _, server in proxy.listeners] == [f"127.0.0.1:{p}" for p in ports]
        assert len({address for address, _ in proxy.listeners}) == 2

    def test_ipv6(self, standalone, start_proxy):
        if not has_ipv6():
            return
        proxy = start_proxy({"listen": {"address": "::1", "port": 0},
                             "upstream": {"uri": f"mongodb://{standalone.address}"}, "rules": []})
        with socket.create_connection(("::1", int(proxy.address.rpartition(":")[2])), 5):
            pass

    def test_unix_socket(self, standalone, start_proxy, tmp_path):
        path = tmp_path / "proxy.sock"
        start_proxy({"listen": {"address": f"unix:{path}"},
                     "upstream": {"uri": f"mongodb://{standalone.address}"}, "rules": []})
        uri = f"mongodb://{str(path).replace('/', '%2F')}/?directConnection=true"
        with pymongo.MongoClient(uri) as client:
            assert client.admin.command("ping")["ok"] == 1

    def test_a_pinned_port(self, start_proxy):
        ports = [free_port(), free_port()]
        pinned = free_port()
        proxy = start_proxy({
            "listen": {"port": 0, "members": {f"127.0.0.1:{ports[1]}": pinned}},
            "upstream": {"uri": "mongodb://" + ",".join(f"127.0.0.1:{p}" for p in ports)},
            "rules": []})
        assert (f"127.0.0.1:{pinned}", f"127.0.0.1:{ports[1]}") in proxy.listeners


@pytest.fixture
def dns():
    if not dns_permitted():
        pytest.skip("no name server of one's own is permitted")
    with DnsServer() as server:
        yield server


SRV = "_mongodb._tcp.db.example.test."


class TestSrv:
    """upstream.uri is mongodb+srv."""

    RULES = [{"ns": "srv.*", "field": "n", "strategy": "counter"}]

    def config_of(self, **listen) -> dict:
        return {"listen": {"port": 0, "max_connections": 100, **listen}, "admin": {"listen": None},
                "rules": self.RULES, "log": {"format": "json"},
                "upstream": {"uri": "mongodb+srv://db.example.test/?tls=false"}}

    @pytest.fixture
    def names(self, dns):
        with OwnNames(dns.address) as names:
            names.set({"a.example.test": "127.0.0.1", "b.example.test": "127.0.0.1"})
            yield names

    def test_servers_and_options(self, dns, names, replica_set, start_proxy, coll):
        """In the order of their names; the id store finds them, too, and the set by its name."""
        dns.records = [f"{SRV} 0 SRV 0 0 {replica_set.port} b.example.test.",
                       f"{SRV} 0 SRV 0 0 {replica_set.port} a.example.test.",
                       'db.example.test. 0 TXT "replicaSet=rs0&authSource=admin"']
        proxy = start_proxy(self.config_of(), within=names.command)
        assert [server for _, server in proxy.listeners] == [
            f"a.example.test:{replica_set.port}", f"b.example.test:{replica_set.port}"]
        with proxy.client() as client:
            client.srv[coll].insert_one({})
            assert client.srv[coll].find_one()["n"] == 1

    def test_another_set(self, dns, names, replica_set, start_proxy, coll):
        """The record's name of the set is the id store's, too: it does not take this one."""
        dns.records = [f"{SRV} 0 SRV 0 0 {replica_set.port} a.example.test.",
                       'db.example.test. 0 TXT "replicaSet=other"']
        proxy = start_proxy(self.config_of(), within=names.command)
        with proxy.client() as client, pytest.raises(pymongo.errors.PyMongoError) as error:
            client.srv[coll].insert_one({})
        assert error.value.code == 6

    def test_a_name_that_comes_later(self, dns, names, config, replica_set):
        process = self._start(config, names)
        try:
            failed = next_event(process)
            assert failed["event"] == "srv_lookup_failed" and "db.example.test" in failed["reason"]
            eventually(lambda: len(dns.asked) >= 4, 20, "it asks again")
            dns.records = [f"{SRV} 0 SRV 0 0 {replica_set.port} a.example.test."]
            # The same reason is not logged with every try.
            assert next_event(process)["event"] == "listening"
        finally:
            process.terminate()
            process.communicate(timeout=20)
        assert process.returncode == 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_stopped_while_it_looks(self, dns, names, config, number):
        dns.broken = True
        process = self._start(config, names)
        assert next_event(process)["event"] == "srv_lookup_failed"
        started = time.monotonic()
        process.send_signal(number)
        output = process.communicate(timeout=20)[1]
        assert process.returncode == 0 and time.monotonic() - started < 15
        assert "stopped" in {json.loads(line)["event"] for line in output.splitlines()
                             if line.startswith(b"{")}

    def test_servers_that_cannot_be_listened_for(self, dns, names, config):
        dns.records = [f"{SRV} 0 SRV 0 0 1 {host}.example.test." for host in "ab"]
        process = self._start(config, names, port=65535)
        output = process.communicate(timeout=20)[1].decode()
        assert process.returncode == 78
        assert "config_error" in output and "listen.port" in output

    def test_servers_of_another_domain(self, dns, names, config):
        dns.records = [f"{SRV} 0 SRV 0 0 1 db.example.invalid."]
        process = self._start(config, names)
        failed = next_event(process)
        process.terminate()
        process.communicate(timeout=20)
        assert failed["event"] == "srv_lookup_failed" and "db.example.invalid" in failed["reason"]

    def _start(self, config, names, **listen) -> subprocess.Popen:
        path = config(json.dumps(self.config_of(**listen)))
        return start([*names.command, binary(), "--config", str(path)], stderr=subprocess.PIPE)


class TestLog:
    def test_json_lines(self, standalone):
        proxy = Proxy({"upstream": {"uri": f"mongodb://{standalone.address}"}, "rules": []})
        proxy.stop()
        assert proxy.events and len(proxy.events) == len(proxy.lines)
        for event in proxy.events:
            assert {"time", "level", "event"} <= set(event)
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", event["time"]), event
        assert proxy.find_events("stopped")

    def cannot_listen(self, config, **options: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            path = config(GOOD.replace("port: 0", f"port: {taken.getsockname()[1]}"))
            done = subprocess.run([binary(), "--config", path], timeout=30, **options)
        assert done.returncode == 69

    def test_only_in_the_journal_lines_begin_with_their_priority(self, config, tmp_path):
        for name, prefix in (("journal", "<3>"), ("another", "")):
            with open(tmp_path / name, "w+") as log:
                there = os.stat(tmp_path / "journal")
                self.cannot_listen(config, stderr=log, env={
                    **os.environ, "JOURNAL_STREAM": f"{there.st_dev}:{there.st_ino}"})
                log.seek(0)
                line = rf'{prefix}{{"time":"[^"]+","level":"error","event":"cannot_listen",'
                assert re.search("(?m)^" + line, log.read())

    def test_colored_text_on_a_terminal(self, config):
        terminal, side = pty.openpty()
        self.cannot_listen(config, stderr=side)
        os.close(side)
        with open(terminal, "rb", buffering=0) as shown:
            assert re.search(rb"(?m)^\d{4}-\d\d-\d\d [\d:]{8}\.\d{3} "
                             rb"\x1b\[31m\x1b\[1merror  \x1b\[m cannot_listen  \S",
                             shown.read(65536))
