"""Two proxies, as on two hosts, of which one is killed at a time."""

from __future__ import annotations

import threading
from typing import Any

from .proxy import Proxy


class Pair:
    """Two proxies with the same configuration, one of which is killed and started again at a time.

    Thread-safety: kill_one() from the test's thread; address() from those of the clients.
    """

    def __init__(self, config: dict[str, Any]):
        self._config = config
        self._proxies = [Proxy(config) for _ in range(2)]
        self._lock = threading.Lock()

    def address(self, number: int) -> str:
        with self._lock:
            return self._proxies[number % 2].address

    def kill_one(self, number: int) -> None:
        """As kill -9 does; another one takes its place at once."""
        self._proxies[number % 2].kill()
        started = Proxy(self._config)
        with self._lock:
            self._proxies[number % 2] = started

    def stop(self) -> None:
        for each in self._proxies:
            each.stop()

    def kill(self) -> None:
        for each in self._proxies:
            each.kill()
