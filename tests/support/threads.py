"""Threads of a test: what is done at once, and what goes on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self


class Threads:
    """Each piece of work in a thread of its own, from the beginning of a with statement to its end, where
    `over` is set. What one of them raises is a failure of the test, and none may last `timeout` longer. (Work that
    looks at `over` needs the object before the statement begins.)

    Thread-safety: the work may use `over` and failed().
    """

    def __init__(self, *work: Callable[[], object], timeout: float = 60):
        self.over = threading.Event()
        self.failures: list[Any] = []
        self._timeout = timeout
        self._threads = [threading.Thread(target=self._run, args=[each], daemon=True) for each in work]

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as failure:
            self.failed(failure)

    def failed(self, failure: Any) -> None:
        self.failures.append(failure)

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.over.set()
        for each in self._threads:
            each.join(self._timeout)
        if kind is None:
            assert not any(each.is_alive() for each in self._threads), "a thread hangs"
            assert not self.failures, self.failures[:3]


def at_once(*work: Callable[[], object], timeout: float = 60) -> None:
    """Returns when all of it is done."""
    with Threads(*work, timeout=timeout):
        pass
