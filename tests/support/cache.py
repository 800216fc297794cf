"""What is downloaded or built once, and outlasts a run of the tests."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
from collections.abc import Callable

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache",
                     "mongo-idproxy")


def cached(name: str, fill: Callable[[pathlib.Path], None], *parts: str | bytes) -> pathlib.Path:
    """A directory of the cache that fill fills once for these parts. Safe to call concurrently."""
    key = hashlib.sha256(b"\0".join(p.encode() if isinstance(p, str) else p for p in parts))
    directory = CACHE / f"{name}-{key.hexdigest()[:12]}"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "ready").exists():
            fill(directory)
            (directory / "ready").touch()
    return directory
