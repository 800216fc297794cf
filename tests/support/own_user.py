"""A proxy as a user of its own, to whom the system refuses threads for a while."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from .proxy import Proxy

_USER = 54_000 + os.getpid() % 1000
"""Nobody has it, so that it has no other threads; not even tests that run side by side."""

_AS_USER = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]


@contextlib.contextmanager
def of_own_user(config: dict[str, Any], threads: int = 0, **options: Any) -> Iterator[Proxy]:
    """threads: the most that its process may have at its start; 0: any number. Only root can become
    somebody else."""
    limit = ["prlimit", f"--nproc={threads}:"] if threads else []
    with tempfile.NamedTemporaryFile("w", prefix="idproxy-", suffix=".yaml") as file:
        json.dump({"listen": {"port": 0}, "log": {"format": "json"}, "threads": 2,
                   "limits": {"drain": "1s"}, **config}, file)
        file.flush()
        os.chmod(file.name, 0o644)
        within = [*_AS_USER, "--pdeathsig", "KILL", "--", *limit]
        with Proxy(pathlib.Path(file.name), within=within, **options) as proxy:
            yield proxy


def refuse_threads(proxy: Proxy) -> None:
    """From now on the system has no more threads for it."""
    _limit(proxy, "1")


def permit_threads(proxy: Proxy) -> None:
    _limit(proxy, "1000")


def _limit(proxy: Proxy, most: str) -> None:
    """As the user itself: in a container root may not."""
    subprocess.run([*_AS_USER, "--", "prlimit", f"--pid={proxy.pid}", f"--nproc={most}:"],
                   check=True)
