"""Listening sockets that belong to whoever starts the proxy, as those of systemd's socket units do: they
outlive it, and clients that connect meanwhile wait in their queue."""

from __future__ import annotations

import pathlib
import re
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pymongo
import pytest
from pymongo.errors import PyMongoError

from support.activated import activated, listening
from support.full import FULL
from support.process import eventually, free_port, free_ports
from support.proxy import Proxy, configuration, uri_host
from support.replica_set import ReplicaSet
from support.threads import Threads

RESTARTS = 1000 if FULL else 5
RULES = [{"ns": "activated.*", "field": "number", "strategy": "counter"}]


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def config(standalone, port) -> dict:
    standalone.client.drop_database("activated")
    standalone.client.activated.documents.create_index("number", unique=True, sparse=True)
    return configuration(standalone, RULES, listen={"address": "127.0.0.1", "port": port}, limits={"drain": "20s"})


class Load(Threads):
    """Clients that repeat nothing, each with new connections for every insert, and one that only connects."""

    def __init__(self, port: int, threads: int = 3):
        self._port = port
        self._lock = threading.Lock()
        self.connects: Counter[str] = Counter()
        self.inserts: Counter[str] = Counter()
        self.stored: set[int] = set()
        super().__init__(self._connect, *(partial(self._insert, 1_000_000 * i) for i in range(threads)), timeout=120)

    def _connect(self) -> None:
        while not self.over.wait(0.002):
            try:
                with socket.create_connection(("127.0.0.1", self._port), timeout=60):
                    self.connects["connected"] += 1
            except ConnectionRefusedError:
                self.connects["refused"] += 1
            except ConnectionResetError:  # it was in the queue of a socket that was closed
                self.connects["reset"] += 1

    def _insert(self, k: int) -> None:
        while not self.over.is_set():
            k += 1
            outcome = "stored"
            try:
                with pymongo.MongoClient("127.0.0.1", self._port, directConnection=True, retryWrites=False,
                                         retryReads=False, serverSelectionTimeoutMS=60_000) as client:
                    client.activated.documents.insert_one({"k": k})
            except PyMongoError as error:
                outcome = re.sub(r"[\d.]+:\d+|, full error.*|\(configured.*", "", str(error))[:80]
            with self._lock:
                self.inserts[outcome] += 1
                if outcome == "stored":
                    self.stored.add(k)

    def await_progress(self) -> None:
        before = self.inserts["stored"]
        eventually(lambda: self.inserts["stored"] >= before + 5, 60, "inserts go on")


@contextmanager
def restarting(start: Callable[[], Proxy], port: int, times: int) -> Iterator[Load]:
    proxy = start()
    try:
        with Load(port) as load:
            load.await_progress()
            for _ in range(times):
                proxy.stop()
                proxy = start()
                load.await_progress()
            yield load
    finally:
        proxy.stop()


@pytest.mark.timeout(3600 if FULL else 300)
def test_restarts_refuse_nobody(standalone, config, port, record, long_run):
    with listening(("127.0.0.1", port)) as passed:
        with restarting(lambda: activated(config, [passed]), port, RESTARTS) as load:
            pass
    for what, count in [*load.connects.items(), *load.inserts.items()]:
        record(f"{RESTARTS} restarts: {what}", count)
    assert load.connects["connected"] and not load.connects["refused"]
    assert not [each for each in load.inserts if "refused" in each], load.inserts
    found = list(standalone.client.activated.documents.find())
    ks = [d["k"] for d in found]
    assert len({*ks}) == len(ks) and load.stored <= {*ks}
    assert len({d["number"] for d in found}) == len(found)
    long_run("restarts", server=standalone.client.server_info()["version"], faults={"restart": RESTARTS},
             documents=len(found))


def test_without_it_they_do(config, port):
    """What the test above would see."""
    with restarting(lambda: Proxy(config), port, 5) as load:
        pass
    assert load.connects["refused"]


def test_who_connects_before_the_start_is_served(config, port):
    with listening(("127.0.0.1", port)) as passed:
        with socket.create_connection(("127.0.0.1", port), timeout=30):
            with activated(config, [passed]) as proxy:
                assert proxy.listeners == [(f"127.0.0.1:{port}", config["upstream"]["uri"][len("mongodb://"):])]
                assert proxy.client().activated.command("ping")["ok"] == 1


# Notes how many threads there are when it is called.
UNSETENV = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int unsetenv(const char* name) {
  int (*next)(const char*) = (int (*)(const char*))dlsym(RTLD_NEXT, "unsetenv");
  int threads = 0;
  DIR* tasks = opendir("/proc/self/task");
  for (struct dirent* each; (each = readdir(tasks));) threads += each->d_name[0] != '.';
  closedir(tasks);
  FILE* out = fopen(getenv("UNSETENV_FILE"), "a");
  fprintf(out, "%s %d\n", name, threads);
  fclose(out);
  return next(name);
}
"""


def test_the_environment_changes_before_other_threads_read_it(config, port, tmp_path, monkeypatch):
    """POSIX: while one is changed, no other thread may ask for a variable."""
    source, library, noted = (tmp_path / f"unsetenv.{end}" for end in ("c", "so", "txt"))
    source.write_text(UNSETENV)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("UNSETENV_FILE", str(noted))
    with listening(("127.0.0.1", port)) as made, activated(config, [made]):
        monkeypatch.undo()
    lines = [line.split() for line in noted.read_text().splitlines()]
    assert [threads for name, threads in lines if name.startswith("LISTEN_")] == ["1"] * 3


def test_a_unix_socket_stays(standalone, tmp_path):
    path = tmp_path / "mongodb.sock"
    config = configuration(standalone, RULES, listen={"address": f"unix:{path}"})
    with listening(str(path)) as passed:
        for _ in range(2):
            with activated(config, [passed], ["mongo-idproxy.socket"]) as proxy:
                assert pymongo.MongoClient(f"mongodb://{uri_host(proxy.address)}").activated.command("ping")["ok"] == 1
            assert path.is_socket()
        # Of its own, it removes the file.
    with Proxy(config):
        pass
    assert not path.exists()


@pytest.fixture(scope="module")
def three() -> Iterator[ReplicaSet]:
    with ReplicaSet() as running:
        yield running


@pytest.mark.parametrize("named", [False, True])
def test_a_replica_set(three, named):
    """In any order; what systemd does not have, the proxy opens itself."""
    ports = free_ports(3)
    config = configuration(three, RULES, listen={"address": "127.0.0.1", "port": ports[0]})
    servers = [member.address for member in three.members]
    sockets = [listening(("127.0.0.1", port)) for port in (ports[2], ports[0])]
    names = [servers[i].replace(":", "_") for i in (2, 0)] if named else []
    try:
        with activated(config, sockets, names) as proxy:
            assert proxy.listeners == [(f"127.0.0.1:{port}", server) for port, server in zip(ports, servers)]
            with proxy.set_client(three.name) as client:
                client.activated.documents.insert_one({})
                eventually(lambda: len(client.nodes) == 3, 20)
    finally:
        for each in sockets:
            each.close()


def fault_of(config: dict, sockets: Sequence[socket.socket], names: Sequence[str] = ()) -> str:
    """Why a proxy does not start with these."""
    proxy = activated(config, sockets, names, await_ready=False)
    message = proxy.wait_event("cannot_listen")["message"]
    assert proxy.process.wait(30) == 69
    for each in sockets:
        each.close()
    return message


class TestFaults:
    """Each says what to write."""

    def test_another_address(self, config, port):
        other = free_port()
        assert fault_of(config, [listening(("127.0.0.1", other))], ["mongo-idproxy.socket"]) == (
            "listen: the socket mongo-idproxy.socket of the socket unit is at 127.0.0.1:"
            f"{other}, but by listen.address, listen.port and listen.members the listeners are at 127.0.0.1:{port}: "
            "make ListenStream= one of these")

    def test_all_addresses(self, config, port):
        assert f"is at 0.0.0.0:{port}, but by " in fault_of(config, [listening(("0.0.0.0", port))])

    def test_the_name_of_another_server(self, config, port):
        server = config["upstream"]["uri"][len("mongodb://"):]
        assert fault_of(config, [listening(("127.0.0.1", port))], ["db1_27017"]) == (
            f"listen: the socket db1_27017 of the socket unit is at 127.0.0.1:{port}, the address of the listener "
            f"for {server}: write FileDescriptorName={server.replace(':', '_')}, or none")

    def test_twice(self, config, port):
        one = listening(("127.0.0.1", port))
        assert fault_of(config, [one, one.dup()]).endswith(f"is the second one at 127.0.0.1:{port}")

    def test_datagrams(self, config, port):
        assert "takes no connections: make it with ListenStream= and Accept=no" in fault_of(
            config, [listening(("127.0.0.1", port), socket.SOCK_DGRAM)])

    def test_no_socket(self, config, tmp_path):
        with (tmp_path / "file").open("w") as file:
            assert "takes no connections" in fault_of(config, [file])  # type: ignore[list-item]

    def test_names_that_do_not_match(self, config, port):
        message = fault_of(config, [listening(("127.0.0.1", port))], ["a", "b"])
        assert message == "$LISTEN_FDS and $LISTEN_FDNAMES: Invalid argument"


def test_those_of_another_process_are_left_alone(config):
    """LISTEN_PID says whose they are: a child must not take what its parent has inherited."""
    with Proxy(config, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}) as proxy:
        assert proxy.client().activated.command("ping")["ok"] == 1


def test_the_example_fits_the_default_configuration():
    root = pathlib.Path(__file__).resolve().parents[2]
    lines = (root / "examples" / "systemd" / "mongo-idproxy.socket").read_text().splitlines()
    assert "ListenStream=127.0.0.1:27117" in lines
