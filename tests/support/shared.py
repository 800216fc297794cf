"""Servers that one module after the other has to itself: each module finds one without data, as if it had just
begun."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from .mongod import Mongod
from .process import Closing, eventually


class Shared(Closing):
    """Servers run until close(), or until a module has left more behind than data and users."""

    def __init__(self) -> None:
        self._servers: dict[str, tuple[Mongod, dict[str, Any]]] = {}

    @contextlib.contextmanager
    def lent(self, kind: str, start: Callable[[], Mongod]) -> Iterator[Mongod]:
        """A server of this kind; `start` is called if there is none."""
        if kind not in self._servers:
            mongod = start()
            self._servers[kind] = mongod, _state(mongod)
        mongod, fresh = self._servers[kind]
        yield mongod
        if not _cleared(mongod, fresh):
            del self._servers[kind]
            mongod.close()

    def close(self) -> None:
        for mongod, _ in self._servers.values():
            mongod.close()


def _cleared(mongod: Mongod, fresh: dict[str, Any]) -> bool:
    """Nothing is left of what was done there, or the server is to go."""
    if mongod.process.poll() is not None:
        return False
    client = mongod.client
    try:
        with pymongo.timeout(30):
            eventually(lambda: client.admin.command("hello")["isWritablePrimary"], 20)
            for name, value in client.admin.command("getParameter", "*").items():
                if name.startswith("failpoint.") and value["mode"]:
                    client.admin.command("configureFailPoint", name.removeprefix("failpoint."), mode="off")
            client.admin.command("killAllSessions", [])  # an open transaction keeps a database from being dropped
            databases = {*client.list_database_names()} - {*fresh["databases"]}
            # At a set, each waits until the drop is in the journal.
            with ThreadPoolExecutor(32) as pool:
                list(pool.map(client.drop_database, databases))
            left = _state(mongod)
            for kind, drop in (("users", "dropUser"), ("roles", "dropRole")):
                for each in set(left[kind]) - set(fresh[kind]):
                    db, _, name = each.partition(".")
                    client[db].command(drop, name)
            return _state(mongod) == fresh
    except (PyMongoError, TimeoutError):
        return False


def _state(mongod: Mongod) -> dict[str, Any]:
    """What a test may have changed that others would notice."""
    admin = mongod.client.admin
    parameters = admin.command("getParameter", "*")
    return {
        "parameters": {name: value for name, value in parameters.items()
                       if not name.startswith(("failpoint.", "$clusterTime", "operationTime"))},
        "databases": sorted({"admin", "config", "local", *mongod.client.list_database_names()}),
        "users": sorted(each["_id"] for each in admin["system.users"].find()),
        "roles": sorted(each["_id"] for each in admin["system.roles"].find()),
        "members": admin.command("replSetGetConfig")["config"]["members"] if mongod.replica_set else [],
    }
