"""A running mongo-idproxy."""

from __future__ import annotations

import json
import os
import pathlib
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

import pymongo

from .access import OPEN, Access
from .process import StoppedOrKilled, eventually, processor_time, start
from .secrets import passwords_in, secrets_in
from .wire import WireClient

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# $IDPROXY_COMPRESSORS: what the tests' PyMongo clients offer, to run any of the tests compressed.
COMPRESSED = {"compressors": each for each in [os.environ.get("IDPROXY_COMPRESSORS")] if each}

# What AddressSanitizer, LeakSanitizer, ThreadSanitizer and UBSan write when they found something.
_SANITIZER = re.compile(r"(ERROR|WARNING): \w+Sanitizer|runtime error:")

_SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}


def binary() -> str:
    """$IDPROXY_BINARY, or the one built with sanitizers."""
    default = _ROOT / "build" / "dev" / "bin" / "mongo-idproxy"
    return os.environ.get("IDPROXY_BINARY", str(default))


def is_sanitized() -> bool:
    """The binary has AddressSanitizer or ThreadSanitizer, which take memory of their own."""
    content = pathlib.Path(binary()).read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


class Server(Protocol):
    """What a client can connect to: a mongod, or a relay in front of one.

    access: what it asks of clients, if that is anything. store_access: how the proxy gets in for
    its own purposes, if not as anybody.
    """

    address: str


def configuration(upstream: Server, rules: list[dict[str, Any]], store: Server | None = None,
                  **more: Any) -> dict[str, Any]:
    """For a Proxy. store: the mongod that keeps the counters and is asked about collections, if
    `upstream` is none: the proxy's own connections are to stay out of relays and scripts."""
    access = _of_everybody(upstream)
    config = {"upstream": {"uri": access.uri(upstream.address)}, "rules": rules, **more}
    server = store or upstream
    own = getattr(server, "store_access", _of_everybody(server))
    if store or own != access:
        config["id_store"] = {"uri": own.uri(server.address), **more.get("id_store", {})}
    return config


def _of_everybody(server: Server) -> Access:
    return getattr(server, "access", OPEN).without("user", "password")


def uri_host(address: str) -> str:
    """An address of a listener as a connection string has it."""
    return address.removeprefix("unix:").replace("/", "%2F")


class ProxyFailure(AssertionError):
    """The proxy did not start, did not stop, or a sanitizer reported something."""


class Proxy(StoppedOrKilled):
    """Serves from construction until stop(). Sees to it that the proxy behaves as a process, and
    that its log is fit to be shown to anybody.

    config: the configuration as a dict (JSON is YAML); without `listen` any free port is taken,
    without `log` the log is JSON at level info, without `threads` there are two, so that what
    threads share is shared. within: a command that runs the one that is given to it, as a process
    of its own pid (OwnNames.command). await_ready: false for one that cannot be ready at first;
    it has no address then. access: how its clients get in, through it to the servers.
    """

    def __init__(self, config: dict[str, Any] | pathlib.Path, environment: dict[str, str] = {},
                 ready_timeout: float = 30.0, within: Sequence[str] = (),
                 await_ready: bool = True, access: Access = OPEN, pass_fds: Sequence[int] = ()):
        self.access = access
        self.lines: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._log_ended = False
        self._to_store: set[str] = set()
        self._own_config: pathlib.Path | None = None
        self._store_port = 0
        self._passwords = {access.password} - {""}
        if isinstance(config, dict):
            self._passwords |= passwords_in(json.dumps(config))
            store = config.get("id_store", {}).get("uri", "")
            if found := re.fullmatch(r"mongodb://[^/]*:(\d+)(/.*)?", store):
                self._store_port = int(found[1])
            config = self._write(config)
        try:
            self.process = start(
                [*within, binary(), "--config", str(config)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=pass_fds,
                env={**_SANITIZER_OPTIONS, **os.environ, **environment})
        except OSError:
            self._remove_config()
            raise
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if not await_ready:
            return
        try:
            self.wait_event("ready", timeout=ready_timeout)
        except TimeoutError:
            self.kill()
            raise ProxyFailure(f"the proxy is not ready; its log:\n{self.log()}") from None
        self.listeners = [
            (event["address"], event.get("server")) for event in self.find_events("listening")]
        self.address = self.listeners[0][0]  # host:port, or unix:/path

    def await_server(self) -> None:
        """Until the server has said who it is, and whether it wants logins: until then the proxy
        asks it on a client's connection whether the client may insert."""
        self.wait_event("server_release")

    def _write(self, config: dict[str, Any]) -> pathlib.Path:
        config = {"listen": {"address": "127.0.0.1", "port": 0}, "admin": {"listen": None},
                  "log": {"level": "info", "format": "json"}, "threads": 2,
                  # Many a test leaves something unanswered.
                  "limits": {"drain": "1s"}, **config}
        descriptor, name = tempfile.mkstemp(prefix="idproxy-", suffix=".yaml")
        with os.fdopen(descriptor, "w") as file:
            json.dump(config, file, indent=1)
        self._own_config = pathlib.Path(name)
        return self._own_config

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def uri(self) -> str:
        return self.access.uri(self.address, "directConnection=true")

    def client(self, **options: Any) -> pymongo.MongoClient:
        """A PyMongo client whose connections go through this proxy."""
        return pymongo.MongoClient(
            self.uri, **{"serverSelectionTimeoutMS": 20_000, **COMPRESSED, **options})

    def raw_client(self, address: str = "", timeout: float = 10.0) -> WireClient:
        """A connection to this listener, or to the first one, with TLS if its clients have that."""
        return WireClient(address or self.address, timeout, tls=self.access.tls)

    def set_uri(self, name: str) -> str:
        """All that an application needs for a replica set: the first listener and the name."""
        return self.access.uri(uri_host(self.address), f"replicaSet={name}")

    def set_client(self, name: str, **options: Any) -> pymongo.MongoClient:
        """A PyMongo client that learns the members from the proxy."""
        return pymongo.MongoClient(self.set_uri(name), **{
            "serverSelectionTimeoutMS": 20_000, "heartbeatFrequencyMS": 500, **COMPRESSED, **options})

    def listener_of(self, server: str) -> str:
        """The address that stands for this server ("host:port", as the proxy reaches it): the
        latest one, waited for."""
        def found() -> str:
            events = [e for event in ("listening", "member_joined")
                      for e in self.find_events(event) if e.get("server") == server]
            return events[-1]["address"] if events else ""
        return eventually(found, 10, f"a listener for {server}")

    # The log.

    def _read_log(self) -> None:
        assert self.process.stderr
        pipe, rest, ended = self.process.stderr.fileno(), b"", False
        readable = select.poll()  # select() takes no descriptor above 1023
        readable.register(pipe, select.POLLIN)
        while not ended:
            readable.poll()
            # Read under the lock: with an empty pipe, all that was in it is in lines and events.
            with self._changed:
                data = os.read(pipe, 65536)
                ended = not data
                *whole, rest = (rest + data).split(b"\n")
                for raw in whole + ([rest] if ended and rest else []):
                    self._add_line(raw.decode(errors="replace"))
                self._log_ended = ended
                self._changed.notify_all()

    def _add_line(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        self.lines.append(line)
        if isinstance(event, dict):
            self.events.append(event)

    def _await_reader(self) -> None:
        """Under the lock: returns when what the proxy has written so far is read, or, if it never
        rests, after a while."""
        assert self.process.stderr
        unread = select.poll()
        unread.register(self.process.stderr.fileno(), select.POLLIN)
        self._changed.wait_for(lambda: self._log_ended or not unread.poll(0), 10)

    def log(self) -> str:
        with self._changed:
            self._await_reader()
            return "\n".join(self.lines)

    def find_events(self, event: str) -> list[dict[str, Any]]:
        """The log lines with this event that the proxy has written so far."""
        with self._changed:
            self._await_reader()
            return [e for e in self.events if e.get("event") == event]

    def wait_event(self, event: str, timeout: float = 10.0, **fields: Any) -> dict[str, Any]:
        """The first log line with this event and these fields, which may have come before the
        call."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                for found in self.events:
                    if found.get("event") == event and fields.items() <= found.items():
                        return found
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise TimeoutError(f"no event {event!r} {fields or ''} in the log")
                self._changed.wait(min(left, 0.2))

    # The process.

    def descriptors(self) -> int:
        """How many file descriptors it holds, but for connections to a store that is not its
        clients' server: those come and go when they like."""
        return len(self._descriptors())

    def _sockets(self) -> int:
        return sum(each.startswith("socket:") for each in self._descriptors())

    def _descriptors(self) -> list[str]:
        found = self._open()
        self._to_store = self._sockets_to_store()
        return [each for each in found if each not in self._to_store]

    def _open(self) -> list[str]:
        found = []
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                found.append(os.readlink(f"/proc/{self.pid}/fd/{name}"))
            except FileNotFoundError:
                pass  # closed meanwhile
        return found

    def _sockets_to_store(self) -> set[str]:
        if not self._store_port:
            return set()
        lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
        sockets = [line.split() for line in lines]
        return {f"socket:[{fields[9]}]" for fields in sockets
                if int(fields[2].rpartition(":")[2], 16) == self._store_port}

    def descriptors_at_rest(self) -> int:
        """How many it holds without clients, once each of its threads has served one.

        Call it while no client is connected: a thread makes its epoll and timer descriptors for
        the first one.
        """
        sockets = self._sockets()
        for _ in range(4):
            with self.raw_client() as client:
                client.call({"ping": 1, "$db": "admin"})
        eventually(lambda: self._sockets() <= sockets, 5, "the proxy is at rest")
        return self.descriptors()

    def await_descriptors(self, count: int, timeout: float = 30.0) -> None:
        """Waits until no more than count descriptors are open."""
        def few() -> bool:
            # First with what is known of the store's: the list of all sockets of this host is long.
            known = [each for each in self._open() if each not in self._to_store]
            return len(known) <= count or self.descriptors() <= count
        eventually(few, timeout, f"the proxy holds no more than {count} descriptors")

    def processor_seconds(self) -> float:
        """How much time of processors it has used so far, in steps of a hundredth."""
        return processor_time(self.pid)

    def alive(self) -> bool:
        return self.process.poll() is None

    def complaints(self) -> list[str]:
        """What a sanitizer reported."""
        return [line for line in self.log().splitlines() if _SANITIZER.search(line)]

    def stop(self, number: int = signal.SIGTERM, timeout: float = 60.0) -> None:
        """Ends the proxy and insists on a clean end: status 0 and no sanitizer report."""
        try:
            if self.process.poll() is None:
                self.process.send_signal(number)
            try:
                status = self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise ProxyFailure(
                    f"the proxy does not stop; the end of its log:\n{self.log()[-8000:]}") from None
            self._reader.join(10)
            if status != 0 or self.complaints():
                raise ProxyFailure(
                    f"the proxy ended with status {status}; the end of its log:\n"
                    f"{self.log()[-16000:]}")
            if leaked := secrets_in(self.lines, self._passwords):
                raise ProxyFailure(f"secrets in the log: {leaked[:5]}")
        finally:
            self._remove_config()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(10)
        self._remove_config()

    def _remove_config(self) -> None:
        if self._own_config:
            self._own_config.unlink(missing_ok=True)
