"""A throw-away mongod."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from .access import OPEN, Access
from .process import Closing, eventually, free_port, start

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def mongod_path() -> str:
    """$MONGOD, or what scripts/mongod finds or downloads."""
    if "MONGOD" in os.environ:
        return os.environ["MONGOD"]
    found = subprocess.run(
        [_ROOT / "scripts" / "mongod"], check=True, stdout=subprocess.PIPE, text=True)
    return found.stdout.strip()


class Mongod(Closing):
    """Runs from construction until close(); `replica_set` names a set of one member.

    host: where it listens, and what its address names; IPv6 without brackets. options: further
    ones of its command line. access: what they ask of who connects.
    """

    def __init__(self, replica_set: str | None = None, port: int | None = None,
                 host: str = "127.0.0.1", options: Sequence[str] = (), access: Access = OPEN):
        self.replica_set = replica_set
        self.host = host
        self.options = list(options)
        self.access = access
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="idproxy-mongod-"))
        try:
            self._start(port)
            self.client: pymongo.MongoClient = pymongo.MongoClient(
                self.uri, serverSelectionTimeoutMS=60_000)
            self._await_writable()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def uri(self) -> str:
        """For a direct connection, past every proxy."""
        return self.access.uri(self.address, "directConnection=true")

    def _start(self, port: int | None) -> None:
        path = mongod_path()
        for attempt in range(5):
            self.port = port or free_port(self.host)
            args = [
                path, "--dbpath", str(self._directory), "--port", str(self.port),
                "--bind_ip", self.host, "--nounixsocket",
                "--logpath", str(self._directory / "mongod.log"),
                "--wiredTigerCacheSizeGB", "0.25",
                # The journal grows as it is written: its files would come with 300 MB.
                "--wiredTigerEngineConfigString", "log=(prealloc=false)",
                "--setParameter", "enableTestCommands=1",
                "--setParameter", "diagnosticDataCollectionEnabled=false",
            ]
            if self.replica_set:
                args += ["--replSet", self.replica_set, "--oplogSize", "256"]
            if ":" in self.host:
                args += ["--ipv6"]
            args += self.options
            self.process = start(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if self._listens():
                return
        raise RuntimeError(f"mongod does not start; the end of its log:\n{self.log()[-4000:]}")

    def _listens(self) -> bool:
        """False if it ended instead, as it does when another process took the port."""
        def up_or_dead() -> bool:
            return self.process.poll() is not None or "Waiting for connections" in self.log()
        eventually(up_or_dead, 60, "mongod listens")
        return self.process.poll() is None

    def _await_writable(self) -> None:
        if self.replica_set:
            self.client.admin.command("replSetInitiate", {
                "_id": self.replica_set, "members": [{"_id": 0, "host": self.address}]})
        eventually(self._is_writable, 60, "mongod is writable")
        if self.replica_set and self.client.server_info()["versionArray"] < [5]:  # then the default
            with contextlib.suppress(OperationFailure):  # for lack of a user
                self.client.admin.command(
                    "setDefaultRWConcern", defaultWriteConcern={"w": "majority"})

    def _is_writable(self) -> bool:
        try:
            return self.client.admin.command("hello")["isWritablePrimary"]
        except PyMongoError:
            return False

    def log(self) -> str:
        path = self._directory / "mongod.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def connections(self) -> int:
        """Open connections to this mongod, as it counts them."""
        return self.client.admin.command("serverStatus")["connections"]["current"]

    def kill(self) -> None:
        """As a crash: the process is gone on return, its data stays until close()."""
        if client := getattr(self, "client", None):
            client.close()
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if getattr(self, "process", None):
            self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
