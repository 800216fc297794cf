"""The commands that a server counted."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from .mongod import Mongod

# What the proxy's own connections call themselves.
APP_NAME = "mongo-idproxy"


class Profiler:
    """Has mongod write down every command on one database while in use as a context."""

    def __init__(self, mongod: Mongod, db: str):
        self._db = mongod.client[db]

    def __enter__(self) -> Profiler:
        self._db.command("profile", 0)
        self._db.drop_collection("system.profile")
        self._db.create_collection("system.profile", capped=True, size=64 << 20)
        self._db.command("profile", 2)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._db.command("profile", 0)

    def commands(self) -> list[dict[str, Any]]:
        """Those of the proxy's own connections, in order."""
        return list(self._db["system.profile"].find({"appName": APP_NAME}).sort("ts"))
