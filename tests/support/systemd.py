"""What a service tells systemd, and a thread that stands still."""

from __future__ import annotations

import ctypes
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .listening import Datagrams
from .process import eventually

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p]
_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
_PTRACE_DETACH = 17
_WALL = 0x40000000


class ServiceManager(Datagrams):
    """In systemd's place: the socket that NOTIFY_SOCKET names, and what comes there."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="idproxy-notify-")
        path = f"{self._directory.name}/socket"
        receiving = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiving.bind(path)
        self.environment = {"NOTIFY_SOCKET": path}
        self._messages: list[tuple[float, dict[str, str]]] = []
        super().__init__(receiving)

    def _came(self, data: bytes, _: object) -> None:
        pairs = (line.partition("=") for line in data.decode().splitlines())
        self._messages.append((time.monotonic(), {key: value for key, _, value in pairs}))

    def messages(self) -> list[dict[str, str]]:
        return [message for _, message in self._messages]

    def values(self, key: str) -> list[str]:
        return [message[key] for message in self.messages() if key in message]

    def times(self, key: str) -> list[float]:
        """When messages with this key came (time.monotonic())."""
        return [at for at, message in self._messages if key in message]

    def wait(self, key: str, value: str, timeout: float = 10.0) -> None:
        """value: how one of them begins."""
        eventually(lambda: any(each.startswith(value) for each in self.values(key)), timeout,
                   f"{key}={value} among {self.values(key)}")

    def close(self) -> None:
        super().close()
        self._directory.cleanup()


@contextmanager
def frozen(thread_id: int) -> Iterator[None]:
    """This thread of a child process stands still, while its others go on. By one thread."""
    def ptrace(request: int) -> None:
        if _libc.ptrace(request, thread_id, None, None) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    ptrace(_PTRACE_SEIZE)
    ptrace(_PTRACE_INTERRUPT)
    os.waitpid(thread_id, _WALL)
    try:
        yield
    finally:
        ptrace(_PTRACE_DETACH)
