"""The commands that ask a running proxy, against a server that says what the test wants; and what all commands
have in common."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator

import pytest

from support.middleman import Middleman
from support.process import eventually, free_port, start
from support.proxy import Proxy, binary, configuration
from support.status_server import NOW, StatusServer, client, healthy, later, rule, server

COMMANDS = ["status", "wait", "reload", "check", "config", "doctor", "backfill", "verify", "counters",
            "ids", "completion"]

WRONG = [{"level": "error", "text": "shop.orders gives no values", "remedy": "make an index", "link": None}]


def run(*arguments: str | pathlib.Path, timeout: float = 30, **environment: str
        ) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "TZ": "UTC", **environment})


def run_on_terminal(*arguments: str, seconds: float = 0, **environment: str) -> tuple[int, str]:
    """Exit code and output. seconds: after as long it gets a SIGINT."""
    above, below = pty.openpty()
    process = start([binary(), *arguments], stdout=below, stderr=below,
                    env={**os.environ, "TERM": "xterm", **environment})
    os.close(below)
    output = bytearray()

    def read() -> None:
        while True:
            try:
                output.extend(data := os.read(above, 65536))
            except OSError:
                return
            if not data:
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    if seconds:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
    code = process.wait(20)
    reader.join(5)
    os.close(above)
    return code, output.decode()


@pytest.fixture
def config(tmp_path):
    def write(admin: str | None, more: str = "") -> pathlib.Path:
        path = tmp_path / "config.yaml"
        path.write_text(f"admin: {{listen: {json.dumps(admin)}}}\nlisten: {{port: 0}}\n{more}rules: []\n")
        path.chmod(0o600)
        return path
    return write


@pytest.fixture
def proxy_like() -> Iterator[StatusServer]:
    with StatusServer(healthy()) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def watched_all_along() -> Iterator[subprocess.Popen[bytes]]:
    """One line a second, from the first test of the file on."""
    with StatusServer(healthy()) as server:
        process = start([binary(), "status", "--watch", "--admin", server.address],
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        yield process
        process.kill()
        process.wait()
        process.stdout.close()


def reloads_at(admin: str) -> dict[str, int]:
    """How many have ended, and how."""
    document = json.loads(run("status", "--json", "--admin", admin).stdout)
    reloads: dict[str, int] = document["configuration"]["reloads"]
    return {how: reloads[how] for how in ("succeeded", "failed")}


class RunningProxy:
    """A real one, with a counter, and its configuration."""

    def __init__(self, mongod, start_proxy, folder: pathlib.Path, uri: str = "",
                 environment: dict[str, str] = {}, **rule_keys: object):
        self.admin = f"127.0.0.1:{free_port()}"
        self.path = folder / "config.yaml"
        self._mongod, self._uri = mongod, uri
        self.write(**rule_keys)
        self.proxy: Proxy = start_proxy(self.path, environment)

    def write(self, listen: dict[str, object] = {}, limits: dict[str, str] = {}, **rule_keys: object) -> None:
        rules = [{"ns": "shop.orders", "field": "number", "strategy": "counter", **rule_keys}]
        document = configuration(self._mongod, rules, admin={"listen": self.admin}, listen={"port": 0, **listen},
                                 log={"format": "json"}, limits={"drain": "1s", **limits})
        if self._uri:
            document["upstream"]["uri"] = self._uri
        self.path.write_text(json.dumps(document, indent=1))
        self.path.chmod(0o600)

    def reload(self) -> subprocess.CompletedProcess[str]:
        return run("reload", "--config", self.path)

    def reloads(self) -> dict[str, int]:
        return reloads_at(self.admin)


class TestHelp:
    @pytest.mark.parametrize("command", ["", *COMMANDS])
    def test_is_narrow_and_has_examples(self, command):
        result = run(*command.split(), "--help")
        assert result.returncode == 0 and not result.stderr
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert "\n\n\n" not in result.stdout
        examples = result.stdout.partition("Examples:")[2].partition("\n\n")[0]
        assert len(re.findall(r"(?m)mongo-idproxy (?!bash)", examples)) >= 2, result.stdout
        if command:
            usage, _, rest = result.stdout.partition("\n\n")
            options = re.findall(r"(?m)^  (?:-\w,)?(--?\w[\w-]*)", rest)
            assert f"Usage: mongo-idproxy {command}" in usage and "--help" in options
            assert all(each in usage for each in options if each != "--help"), usage
            assert re.search(r"\nExit codes: .*64 command\s+line; .*70\s+internal\s+error", rest, re.DOTALL)

    def test_names_the_commands_but_the_hidden_one(self):
        names = re.findall(r"(?m)^  (\w+)  ", run("--help").stdout.partition("Subcommands:")[2])
        assert names == COMMANDS[:-1]

    @pytest.mark.parametrize("arguments, text", [
        ("statsu", "unknown command statsu, did you mean 'status'?"),
        ("nonsense", "unknown command nonsense; see --help"),
        ("--confg x", "unknown option --confg, did you mean '--config'?"),
        ("status --wach", "unknown option --wach, did you mean '--watch'?"),
        ("status --aap=x", "unknown option --aap, did you mean '--app'?"),
        ("wait --watch", "unknown option --watch; see --help"),
        ("status more", "unexpected argument more; see --help"),
        ("completion fsh", "must be one of bash, zsh, fish, is 'fsh', did you mean"),
        ("completion", "bash, zsh or fish is required"),
        ("status --app shop", "--app requires --clients"),
        ("status --admin here", "--admin: must be HOST:PORT"),
        ("status --admin ::1:27216", "--admin: must be HOST:PORT"),
        ("wait --max 3", "--max: must be a duration such as 30s or 2m"),
        ("wait --max -3s", "--max: must be a duration such as 30s or 2m"),
        ("--check-config status", "--check-config excludes a command"),
        ("status wait", "wait"),
    ])
    def test_mistakes_are_named(self, arguments, text):
        result = run(*arguments.split())
        assert result.returncode == 64 and not result.stdout
        assert result.stderr.startswith("mongo-idproxy: ") and text in result.stderr


class TestTheConfiguration:
    @pytest.mark.parametrize("command", ["", "status", "wait", "reload", "check",
                                         "backfill --ns a.b --field c"])
    def test_without_a_name_is_looked_for(self, command):
        for path in ("/etc", "/usr/local/etc", "/usr/etc"):
            if pathlib.Path(path, "mongo-idproxy/mongo-idproxy.yaml").exists():
                pytest.skip("it is installed here")
        result = run(*command.split())
        assert result.returncode == 77
        assert "/etc/mongo-idproxy/mongo-idproxy.yaml" in result.stderr and "--config" in result.stderr

    @pytest.mark.parametrize("command", ["status", "wait", "reload"])
    def test_must_say_where_the_proxy_answers(self, command, config):
        result = run(command, "--config", config(None))
        assert result.returncode == 78
        assert 'admin: {listen: "127.0.0.1:27216"}' in result.stderr
        result = run(command, "--config", config("127.0.0.1:0"))
        assert result.returncode == 78 and "--admin HOST:PORT" in result.stderr
        result = run(command, "--config", config("nonsense"))
        assert result.returncode == 78 and "config.yaml:1:9: error: admin.listen" in result.stderr

    @pytest.mark.parametrize("command", ["status", "wait", "reload"])
    def test_that_cannot_be_read(self, command, tmp_path):
        assert run(command, "--config", tmp_path / "none.yaml").returncode == 77
        (tmp_path / "bad.yaml").write_text("{")
        assert run(command, "--config", tmp_path / "bad.yaml").returncode == 78

    def test_may_have_faults_elsewhere(self, config, proxy_like):
        """As for a user who may not read the certificates, or does not have the service's variables."""
        path = config(proxy_like.address, "id_store: {uri_file: '${CREDENTIALS_DIRECTORY}/uri'}\n")
        assert run("check", "--config", path).returncode == 78
        result = run("status", "--config", path)
        assert result.returncode == 0 and not result.stderr

    @pytest.mark.parametrize("admin, says", [
        ("admin: {listen: '127.0.0.1:1', hosts: ['a:1']}", "admin.hosts: must be a list"),
        ("admin: {listen: '127.0.0.1:1', lists: 1}", "admin: unknown key 'lists'"),
        ("admin: 127.0.0.1:1", "admin: must be a mapping")])
    def test_must_have_no_faults_there(self, tmp_path, admin, says):
        path = tmp_path / "config.yaml"
        path.write_text(f"{admin}\nlisten: {{port: no}}\nrules: []\n")
        result = run("status", "--config", path)
        assert result.returncode == 78
        assert says in result.stderr and "listen.port" in result.stderr, "all that is wrong"

    def test_of_all_addresses_means_loopback(self, config, proxy_like):
        result = run("status", "--config", config(f"0.0.0.0:{proxy_like.port}"))
        assert result.returncode == 0, result.stderr

    def test_check_is_check_config(self, config):
        path = config("127.0.0.1:1")
        assert run("check", "--config", path).stdout == run("--check-config", "--config", path).stdout
        assert run("--config", path, "check").returncode == 0


class TestStatus:
    def test_summary(self, config, proxy_like):
        result = run("status", "--config", config(proxy_like.address))
        assert result.returncode == 0 and not result.stderr
        assert result.stdout.startswith("mongo-idproxy 0.2.0, ready, up 2 h 10 min, pid 4711\n")
        for text in ("Nothing is wrong", "127.0.0.1:27017  PRIMARY", "shop.orders  number", "10,000"):
            assert text in result.stdout
        assert "\x1b" not in result.stdout
        assert proxy_like.asked == ["/status.json"]

    @pytest.mark.parametrize("level, code", [("error", 1), ("warning", 0)])
    def test_exit_code_of_what_is_wrong(self, proxy_like, level, code):
        proxy_like.answer = healthy(wrong=[{**WRONG[0], "level": level}])
        for option in ([], ["--json"], ["--rules"]):
            result = run("status", "--admin", proxy_like.address, *option)
            assert result.returncode == code
        assert "make an index" in run("status", "--admin", proxy_like.address).stdout

    def test_tables(self, proxy_like):
        asked = ["status", "--admin", proxy_like.address]
        assert run(*asked, "--servers").stdout.startswith("Servers\n  SERVER ")
        assert run(*asked, "--rules").stdout.startswith("Rules\n  NS ")
        assert run(*asked, "--clients").stdout.startswith("Clients\n  ID ")
        every = run(*asked, "--clients", "--rules", "--servers").stdout
        assert re.findall(r"(?m)^[A-Z]\w+$", every) == ["Servers", "Rules", "Clients"]

    def test_clients_of_an_application(self, proxy_like):
        proxy_like.answer = healthy(clients={"total": 3, "list": [
            client(application="a b&c", address="1.1.1.1:1"), client(address="2.2.2.2:2")]})
        result = run("status", "--admin", proxy_like.address, "--clients", "--app", "a b&c")
        assert proxy_like.asked == ["/status.json?clients=app:a%20b%26c"]
        assert "1.1.1.1:1" in result.stdout and "2.2.2.2:2" not in result.stdout

    def test_json_is_what_the_proxy_sent(self, proxy_like):
        proxy_like.answer = '{"phase":   "ready", "unknown": [1e3]}'
        result = run("status", "--json", "--admin", proxy_like.address)
        assert json.loads(result.stdout) == json.loads(proxy_like.answer)
        assert result.stdout.count("\n") == 1

    def test_a_proxy_that_does_not_answer(self, config):
        port = free_port()
        result = run("status", "--config", config(f"127.0.0.1:{port}"))
        assert result.returncode == 69 and not result.stdout
        assert f"127.0.0.1:{port}: connect: Connection refused" in result.stderr
        assert "systemctl status mongo-idproxy" in result.stderr

    @pytest.mark.parametrize("status, answer, text", [
        (404, "", "no mongo-idproxy, or an older one (HTTP 404)"),
        (421, "", "add it to admin.hosts"), (200, "<html>", "no mongo-idproxy"),
        (200, "{}", "no mongo-idproxy"), (200, "[1]", "no mongo-idproxy"),
        (200, "[" * 100_000, "no mongo-idproxy"), (200, " " * (9 << 20), "larger than 8MiB"),
    ], ids=range(7))
    def test_a_stranger_at_its_place(self, status, answer, text):
        with StatusServer(answer, status) as stranger:
            result = run("status", "--admin", stranger.address)
        assert result.returncode == 69 and text in result.stderr

    @pytest.mark.parametrize("seconds, raws", [
        (5, (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{")),
        (0, (b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
             b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000)),
    ], ids=["silent", "nonsense"])
    def test_a_server_that_is_none(self, seconds, raws):
        """Side by side, as they wait."""
        def check(raw: bytes) -> None:
            with StatusServer(raw=raw) as stranger:
                begun = time.monotonic()
                result = run("status", "--admin", stranger.address)
            assert result.returncode == 69
            assert seconds <= time.monotonic() - begun < seconds + 3
            assert ("no answer within 5s" in result.stderr) == (seconds > 0)
        with concurrent.futures.ThreadPoolExecutor(len(raws)) as threads:
            list(threads.map(check, raws))

    def test_texts_of_strangers_are_no_commands_for_the_terminal(self, proxy_like):
        evil = "\x1b[31m\x07\u202e\n"
        proxy_like.answer = healthy(
            version=evil, wrong=[{"level": evil, "text": evil, "remedy": evil, "link": evil}],
            servers=[server(fault=evil, state=evil)], rules=[rule(ns=evil, reason=evil)],
            clients={"total": 1, "list": [client(application=evil, user=evil)]})
        for option in ([], ["--clients", "--servers", "--rules"]):
            output = run("status", "--admin", proxy_like.address, *option).stdout
            assert not set("\x1b\x07\u202e") & set(output)


class TestColours:
    @pytest.mark.parametrize("environment, coloured", [
        ({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
        ids=str)
    def test_are_for_terminals_that_want_them(self, proxy_like, environment, coloured):
        code, output = run_on_terminal("status", "--admin", proxy_like.address, **environment)
        assert code == 0 and "PRIMARY" in output
        assert ("\x1b[32m" in output) == coloured
        assert ("\x1b" in output) == coloured


class TestWatch:
    def test_a_line_a_second(self, proxy_like):
        process = start([binary(), "status", "--watch", "--admin", proxy_like.address],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TZ": "UTC"})
        lines = [process.stdout.readline().decode() for _ in range(4)]
        assert lines[0].split() == ["time", "clients", "req/s", "values/s", "dup/s", "p50", "p99", "in",
                                    "flight", "waiting"]
        shown = time.strftime("%H:%M:%S", time.gmtime(NOW))
        assert all(line.split() == [shown, "1", "1,234", "3.5", "0", "0.4", "ms", "2", "ms", "1", "1"]
                   for line in lines[1:]), lines
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=10)
        assert process.returncode == 0 and not errors

    def test_headers_come_again(self, watched_all_along):
        """Every 20 lines."""
        lines = [watched_all_along.stdout.readline() for _ in range(22)]
        watched_all_along.send_signal(signal.SIGTERM)
        watched_all_along.communicate(timeout=10)
        assert watched_all_along.returncode == 0
        assert [b"req/s" in line for line in lines] == [True] + [False] * 20 + [True]

    def test_ends_when_nobody_reads(self, proxy_like):
        process = start([binary(), "status", "--watch", "--admin", proxy_like.address],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(10) == 0
        assert not process.stderr.read()

    def test_outlives_a_restart(self, proxy_like):
        process = start([binary(), "status", "--watch", "--admin", proxy_like.address],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline(), process.stdout.readline()
        proxy_like.close()
        said = process.stderr.readline().decode()
        assert f"no answer from the proxy at {proxy_like.address}" in said
        with StatusServer(healthy(), port=proxy_like.port) as restarted:
            eventually(lambda: restarted.asked)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        assert process.returncode == 0

    def test_needs_an_answer_first(self):
        assert run("status", "--watch", "--admin", f"127.0.0.1:{free_port()}").returncode == 69

    def test_a_terminal_is_redrawn(self, proxy_like):
        code, output = run_on_terminal("status", "--watch", "--admin", proxy_like.address, seconds=1.7)
        assert code == 0
        screens = output.split("\x1b[H")[1:]
        assert len(screens) >= 2
        for screen in screens:
            assert "mongo-idproxy 0.2.0" in screen and screen.count("\n") < 24

    def test_tables_and_documents(self, proxy_like):
        for option, begin in (("--clients", "Clients\n"), ("--json", "{")):
            process = start([binary(), "status", "--watch", option, "--admin", proxy_like.address],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            eventually(lambda: len(proxy_like.asked) >= 2)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=10)
            assert process.returncode == 0 and output.decode().startswith(begin)
            proxy_like.asked.clear()


class TestWait:
    def test_ready(self, proxy_like):
        result = run("wait", "--admin", proxy_like.address)
        assert result.returncode == 0 and not result.stderr
        assert result.stdout == f"the proxy at {proxy_like.address} is ready\n"

    def test_becomes_ready(self):
        starting = healthy(phase="starting")
        with StatusServer(later(starting, healthy(), 1.5)) as proxy:
            result = run("wait", "--max", "20s", "--admin", proxy.address)
        assert result.returncode == 0
        assert result.stderr == "waiting: the proxy is starting\n"  # once

    def test_begins_to_answer(self):
        port = free_port()
        process = start([binary(), "wait", "--admin", f"127.0.0.1:{port}"],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = process.stderr.readline().decode()
        assert said == f"waiting: no answer at 127.0.0.1:{port}: connect: Connection refused\n"
        with StatusServer(healthy(), port=port):
            assert process.wait(10) == 0
        process.communicate()

    def test_rules_that_name_their_collection(self, proxy_like):
        proxy_like.answer = healthy(rules=[rule(ns="shop.*", ready=False), rule()])
        assert run("wait", "--admin", proxy_like.address).returncode == 0
        reason = "rule 0 (shop.orders, number) is not ready: no index"
        proxy_like.answer = healthy(rules=[rule(ready=False)], wrong=[
            {"id": "rule-not-ready", "subject": "shop.orders, number", "text": reason}])
        result = run("wait", "--max", "1s", "--admin", proxy_like.address)
        assert result.returncode == 69 and not result.stdout
        assert result.stderr == f"waiting: {reason}\nmongo-idproxy: not ready after 1s: {reason}\n"

    def test_a_server_that_does_not_answer_takes_no_longer(self):
        with StatusServer(raw=b"") as stranger:
            begun = time.monotonic()
            result = run("wait", "--max", "1s", "--admin", stranger.address)
        assert result.returncode == 69 and time.monotonic() - begun < 4

    def test_not_at_all(self):
        result = run("wait", "--max", "0s", "--admin", f"127.0.0.1:{free_port()}")
        assert result.returncode == 69 and "waiting" not in result.stderr


class TestReload:
    @pytest.fixture
    def running(self, standalone, start_proxy, tmp_path) -> RunningProxy:
        return RunningProxy(standalone, start_proxy, tmp_path)

    def test_says_what_has_changed(self, running):
        result = running.reload()
        assert result.returncode == 0 and result.stdout == "reloaded: nothing has changed\n", result
        running.write(start=1000, strategy="counter")
        result = running.reload()
        assert result.returncode == 0 and not result.stderr
        assert re.match(r"reloaded: .*changed shop\.orders\.number \(start", result.stdout)
        assert running.reloads() == {"succeeded": 2, "failed": 0}

    def test_a_file_with_errors_is_not_reloaded(self, running):
        running.write(strategy="nonsense")
        result = running.reload()
        assert result.returncode == 78 and not result.stdout
        assert re.search(r"config\.yaml:\d+:\d+: error: rules\[0\]\.strategy", result.stderr)
        assert "the proxy keeps its configuration" in result.stderr
        assert running.reloads() == {"succeeded": 0, "failed": 1}

    def test_a_slow_proxy(self, running):
        """It waits until the proxy has read the file."""
        running.proxy.process.send_signal(signal.SIGSTOP)
        resumed = threading.Timer(1, running.proxy.process.send_signal, [signal.SIGCONT])
        resumed.start()
        assert running.reload().returncode == 0
        resumed.join()

    def test_one_that_the_proxy_refuses(self, running):
        """Though the file has no error."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            running.write(listen={"members": {"127.0.0.1:1": taken.getsockname()[1]}})
            result = running.reload()
        assert result.returncode == 78 and "the proxy keeps its configuration: listen.members" in result.stderr

    def test_one_that_never_comes(self, standalone, start_proxy, tmp_path, coll):
        """Of a proxy that ends, which reads nothing more."""
        running = RunningProxy(standalone, start_proxy, tmp_path, limits={"drain": "15s"})
        standalone.client[coll].c.insert_one({})
        with running.proxy.client(retryReads=False) as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
            slow = pool.submit(client[coll].c.find_one, {"$where": "sleep(20000) || true"})
            eventually(lambda: json.loads(run("status", "--json", "--admin", running.admin).stdout)["limits"]
                       ["in_flight"]["current"], 10)
            running.proxy.process.send_signal(signal.SIGTERM)
            running.proxy.wait_event("draining")
            result = running.reload()
            assert slow.exception()
        assert result.returncode == 69 and "has not reloaded within 10 s" in result.stderr

    def test_of_one_that_is_started_again_meanwhile(self, standalone, start_proxy, tmp_path, coll):
        """Which has read the file, and made no reload: nothing is said of one."""
        running = RunningProxy(standalone, Proxy, tmp_path, limits={"drain": "15s"})
        assert running.reload().returncode == 0
        standalone.client[coll].c.insert_one({})
        with running.proxy.client(retryReads=False) as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(client[coll].c.find_one, {"$where": "sleep(20000) || true"})
            eventually(lambda: json.loads(run("status", "--json", "--admin", running.admin).stdout)["limits"]
                       ["in_flight"]["current"], 10)
            running.proxy.process.send_signal(signal.SIGTERM)
            running.proxy.wait_event("draining")
            command = start([binary(), "reload", "--config", str(running.path)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
            wait = pathlib.Path(f"/proc/{command.pid}/wchan")
            eventually(lambda: "nanosleep" in wait.read_text(), 9, "that it waits for the reload")
            running.proxy.kill()
            start_proxy(running.path)
            output, errors = command.communicate(timeout=30)
        assert command.returncode == 69 and not output and "has been started again" in errors, (output, errors)

    def test_several_at_once(self, running):
        """Each prints what one has done that began after its signal."""
        running.write(start=1000)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: running.reload(), range(4)))
        assert all(result.returncode == 0 and result.stdout.startswith("reloaded: ") for result in results)
        last = json.loads(run("status", "--json", "--admin", running.admin).stdout)["configuration"]["last_reload"]
        assert last["number"] == running.reloads()["succeeded"]
        assert last["findings"] == []

    def test_variables_are_those_of_the_proxy(self, standalone, start_proxy, tmp_path):
        running = RunningProxy(standalone, start_proxy, tmp_path, uri="${IDPROXY_TEST_URI}",
                               environment={"IDPROXY_TEST_URI": f"mongodb://{standalone.address}"})
        assert run("check", "--config", running.path).returncode == 78
        assert running.reload().returncode == 0

    def test_another_file(self, running, tmp_path):
        other = tmp_path / "other.yaml"
        other.write_text(running.path.read_text())
        result = run("reload", "--config", other)
        assert result.returncode == 64 and f"--config {running.path}" in result.stderr
        result = run("reload", "--admin", running.admin)
        assert result.returncode == 0, result.stderr

    def test_another_file_than_that_of_a_relative_path(self, running, start_proxy, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        other = tmp_path / "elsewhere"
        other.mkdir()
        (other / "config.yaml").write_text(running.path.read_text())
        running.proxy.stop()
        start_proxy(pathlib.Path("config.yaml"))
        monkeypatch.chdir(other)
        result = run("reload", "--config", "config.yaml")
        assert result.returncode == 64 and f"--config {running.path}" in result.stderr, result
        monkeypatch.chdir(tmp_path)
        assert run("reload", "--config", "config.yaml").returncode == 0
        assert running.reloads() == {"succeeded": 1, "failed": 0}

    def test_of_one_of_two(self, running, standalone, start_proxy, tmp_path):
        folder = tmp_path / "second"
        folder.mkdir()
        second = RunningProxy(standalone, start_proxy, folder)
        assert second.reload().returncode == 0
        assert (running.reloads()["succeeded"], second.reloads()["succeeded"]) == (0, 1)

    def test_of_a_program_that_has_been_replaced(self, standalone, start_proxy, tmp_path, monkeypatch):
        """By an upgrade: what runs is the file that was deleted."""
        program = tmp_path / "bin" / "mongo-idproxy"
        program.parent.mkdir()
        shutil.copy(binary(), program)
        monkeypatch.setenv("IDPROXY_BINARY", str(program))
        running = RunningProxy(standalone, start_proxy, tmp_path)
        os.replace(shutil.copy(program, tmp_path / "newer"), program)
        assert running.reload().returncode == 0

    def test_another_program(self, running, tmp_path, monkeypatch):
        """A copy that somebody has made does not speak for the service."""
        monkeypatch.setenv("IDPROXY_BINARY", str(shutil.copy(binary(), tmp_path / "mongo-idproxy")))
        result = running.reload()
        assert result.returncode == 69 and "another program" in result.stderr
        assert running.reloads() == {"succeeded": 0, "failed": 0}

    def test_through_a_tunnel(self, running):
        """As with --admin of another host, or of a container: whoever listens there is no proxy."""
        with Middleman(running.admin) as tunnel:
            result = run("reload", "--admin", tunnel.address)
        assert result.returncode == 69 and "does not listen there on this host" in result.stderr
        assert running.reloads() == {"succeeded": 0, "failed": 0}

    def test_a_command_that_waits_gets_no_signal(self, config, proxy_like):
        """A25: SIGHUP ended it."""
        waiting = subprocess.Popen([binary(), "wait", "--max", "60s", "--admin", f"127.0.0.1:{free_port()}"],
                                   stderr=subprocess.PIPE, text=True)
        try:
            assert waiting.stderr and waiting.stderr.readline().startswith("waiting: ")
            proxy_like.answer = healthy(pid=waiting.pid)
            result = run("reload", "--config", config(proxy_like.address))
            assert result.returncode == 69 and "does not listen there" in result.stderr
            waiting.send_signal(signal.SIGHUP)  # as pkill -HUP mongo-idproxy does
            waiting.send_signal(signal.SIGHUP)
            assert waiting.poll() is None
            waiting.terminate()
            assert waiting.wait(30) == -signal.SIGTERM
        finally:
            waiting.kill()
            waiting.wait()

    def test_a_check_that_waits_gets_none(self, tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            path = tmp_path / "config.yaml"
            path.write_text("upstream: {uri: 'mongodb://127.0.0.1:%d/?serverSelectionTimeoutMS=3000'}\n"
                            "rules: [{ns: a.b, field: n, strategy: counter}]\n" % silent.getsockname()[1])
            path.chmod(0o600)
            checking = start([binary(), "--check-config", "--connect", "--config", str(path)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            state = pathlib.Path(f"/proc/{checking.pid}/status")
            eventually(lambda: int(re.search(r"SigCgt:\s*(\w+)", state.read_text())[1], 16) & 1, 20)
            checking.send_signal(signal.SIGHUP)
            assert checking.wait(60) == 69

    def test_the_end_of_a_terminal_ends_a_command(self):
        process, terminal = pty.fork()
        if process == 0:
            os.execv(binary(), [binary(), "wait", "--max", "60s", "--admin", f"127.0.0.1:{free_port()}"])
        assert os.read(terminal, 1000).startswith(b"waiting: ")
        os.close(terminal)
        _, status = os.waitpid(process, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGHUP

    if os.geteuid() == 0:  # nobody else can become another user
        def test_of_another_user(self, running):
            with tempfile.TemporaryDirectory() as folder:
                program = shutil.copy(binary(), folder)
                os.chmod(folder, 0o755)
                result = subprocess.run(
                    ["setpriv", "--reuid", "65534", "--clear-groups", program, "reload", "--admin", running.admin],
                    capture_output=True, text=True, timeout=30)
            assert result.returncode == 77, result.stderr
            assert "be root, or if it is the proxy, type this as its user" in result.stderr

        def test_of_a_stranger_in_its_place(self, standalone, monkeypatch):
            """The service is down, and another user has this program listen where it did."""
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o755)
                monkeypatch.setenv("IDPROXY_BINARY", str(shutil.copy(binary(), folder)))
                admin, path = f"127.0.0.1:{free_port()}", pathlib.Path(folder) / "config.yaml"
                path.write_text(json.dumps(configuration(
                    standalone, [], admin={"listen": admin}, listen={"port": 0}, log={"format": "json"})))
                with Proxy(path, within=["setpriv", "--reuid", "65534", "--clear-groups"]):
                    result = run("reload", "--admin", admin)
                    assert result.returncode == 77 and "neither this user's nor the service's" in result.stderr
                    assert reloads_at(admin) == {"succeeded": 0, "failed": 0}

    def test_a_process_that_is_not_here(self, config, proxy_like):
        """As of a proxy in a container: no other process gets the signal."""
        path = config(proxy_like.address)
        for pid in (os.getpid(), 1, 0, -1, 1e300, None):
            proxy_like.answer = healthy(pid=pid)
            result = run("reload", "--config", path)
            # Where root has no CAP_SYS_PTRACE, it cannot be told of process 1.
            assert result.returncode in ((69, 77) if pid == 1 else (69,)), result.stderr
            assert "in a container, type mongo-idproxy reload there" in result.stderr
            assert "systemctl" not in result.stderr, "it has no unit"

    def test_a_proxy_that_does_not_answer(self, config):
        result = run("reload", "--config", config(f"127.0.0.1:{free_port()}"))
        assert result.returncode == 69 and "--admin" in result.stderr


class TestARealProxy:
    """What it sends is what the commands read."""

    def test_status(self, standalone, start_proxy, tmp_path):
        running = RunningProxy(standalone, start_proxy, tmp_path)
        with running.proxy.client(appname="shop") as client:
            client.shop.orders.insert_many([{"x": i} for i in range(7)])
            summary = run("status", "--config", running.path)
            clients = run("status", "--clients", "--app", "shop", "--admin", running.admin)
            none = run("status", "--clients", "--app", "other", "--admin", running.admin)
        assert summary.returncode == 0, summary
        assert f"pid {running.proxy.pid}\n{running.path}, read " in summary.stdout
        assert re.search(rf"\n  {re.escape(standalone.address)} +STANDALONE ", summary.stdout)
        assert re.search(r"\n  shop\.orders +number +counter +ready +7 ", summary.stdout)
        assert re.search(r"\n  +\d+ +127\.0\.0\.1:\d+ +shop +- +PyMongo", clients.stdout)
        assert re.match(r"Applications\n  APPLICATION +CLIENTS .*\n  shop +\d+ .*\n\nClients of shop\n", clients.stdout)
        assert none.stdout == "Clients of other\n  none\n"

    def test_json(self, standalone, start_proxy, tmp_path):
        running = RunningProxy(standalone, start_proxy, tmp_path)
        document = json.loads(run("status", "--json", "--admin", running.admin).stdout)
        assert set(healthy()) - {"proxies"} <= set(document)
        assert set(server()) <= set(document["servers"][0])
        assert set(rule()) <= set(document["rules"][0])

    def test_watch(self, standalone, start_proxy, tmp_path):
        running = RunningProxy(standalone, start_proxy, tmp_path)
        process = start([binary(), "status", "--watch", "--admin", running.admin], stdout=subprocess.PIPE)
        with running.proxy.client() as client:
            process.stdout.readline()
            for _ in range(5):
                client.shop.orders.insert_many([{"x": i} for i in range(100)])
                rate = process.stdout.readline().split()[3]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        assert process.returncode == 0 and float(rate) > 10

    def test_wait_for_an_index(self, standalone, start_proxy, tmp_path, coll):
        running = RunningProxy(standalone, start_proxy, tmp_path, ns=f"shop.{coll}", unique_index="require")
        collection = standalone.client.shop[coll]
        collection.insert_one({"number": 1})
        result = run("wait", "--max", "2s", "--admin", running.admin)
        assert result.returncode == 69
        assert f"rule 0 (shop.{coll}, number) is not ready: " in result.stderr
        assert run("status", "--admin", running.admin).returncode == 1
        collection.create_index("number", unique=True, sparse=True)
        assert run("wait", "--max", "20s", "--admin", running.admin).returncode == 0
        assert run("status", "--admin", running.admin).returncode == 0


class TestCompletion:
    def completed(self, *words: str) -> list[str]:
        """By bash, of the last of these words."""
        line = " ".join(f"'{word}'" for word in (binary(), *words[1:]))
        script = (f"source <({binary()} completion bash); COMP_WORDS=({line}); "
                  f"COMP_CWORD={len(words) - 1}; compopt() {{ :; }}; _mongo_idproxy; "
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and not done.stderr
        return done.stdout.split()

    def test_in_bash(self, tmp_path):
        (tmp_path / "some.yaml").touch()
        assert self.completed("mongo-idproxy", "st") == ["status"]
        assert self.completed("mongo-idproxy", "--check") == ["--check-config"]
        assert set(COMMANDS[:-1]) <= set(self.completed("mongo-idproxy", ""))
        assert self.completed("mongo-idproxy", "status", "--w") == ["--watch"]
        assert self.completed("mongo-idproxy", "wait", "--w") == []
        assert self.completed("mongo-idproxy", "wait", "--max", "") == []
        assert "--config" in self.completed("mongo-idproxy", "config", "--json", "--")
        assert "--config" in self.completed("mongo-idproxy", "--check-config", "--connect", "--")
        assert self.completed("mongo-idproxy", "check", "--config", f"{tmp_path}/so") == [
            f"{tmp_path}/some.yaml"]

    def offered(self, *words: str) -> dict[str, str]:
        """What the program tells the shells, with its descriptions."""
        return dict(line.split("\t") for line in run("__complete", *words).stdout.splitlines())

    def test_has_every_option(self):
        for command in COMMANDS[:-1]:
            offered = self.offered(command, "-")
            for option in re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", run(command, "--help").stdout):
                assert offered[option], option
        assert self.offered("")["status"].startswith("Show servers")
        assert "completion" not in self.offered("")

    @pytest.mark.parametrize("shell", ["zsh", "fish"])
    def test_in_other_shells(self, shell: str, tmp_path: pathlib.Path):
        script = tmp_path / "script"
        script.write_text(run("completion", shell).stdout)
        (tmp_path / "some.yaml").touch()
        program = tmp_path / "mongo-idproxy"
        program.symlink_to(binary())

        def completed(line: str) -> str:
            if shell == "fish":
                program = f"source {script}; complete -C '{line}'"
            else:
                words = line.removesuffix(" ") + (' ""' if line.endswith(" ") else "")
                program = ("compdef() { :; }; _files() { print a file }; "
                           "_describe() { print -l -- ${(P)2} }; "
                           f"words=({words}); CURRENT=$#words; source {script}")
            done = subprocess.run([shell, "-c", program], capture_output=True, text=True, timeout=20, cwd=tmp_path,
                                  env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
            assert done.returncode == 0 and not done.stderr, done
            return done.stdout.replace("\t", ":")

        assert completed("mongo-idproxy stat") == "status:Show servers, rules, clients and what is wrong\n"
        assert completed("mongo-idproxy status --wa") == "--watch:Go on, each second, until SIGINT\n"
        assert {line.partition(":")[0] for line in completed("mongo-idproxy ").splitlines()} >= {"check", "--config"}
        assert not completed("mongo-idproxy wait --max ").strip()
        assert ("some.yaml" if shell == "fish" else "a file") in completed("mongo-idproxy check --config so")
