"""Ports at which a test answers: who comes there, in a thread, from construction until close()."""

from __future__ import annotations

import socket
import threading

from .process import Closing


class Listening(Closing):
    """Lets clients in at `address`, at a free port if none is named, while it is open."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0):
        self._host, self._port = host, port
        self._listener: socket.socket | None = None
        self.open()

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def open(self) -> None:
        """Lets clients in, as from construction on."""
        if self._listener:
            return
        self._listener = socket.create_server((self._host, self._port), backlog=512)
        self._port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Lets nobody in. What is open stays."""
        listener, self._listener = self._listener, None
        if listener:
            shut(listener)
            listener.close()

    def close(self) -> None:
        self.refuse()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted(client, listener)

    def _accepted(self, client: socket.socket, listener: socket.socket) -> None:
        """In the thread that all come to, one after the other; `listener` may be closed already."""
        raise NotImplementedError


class Datagrams(Closing):
    """Has each datagram that comes to this socket."""

    def __init__(self, receiving: socket.socket):
        self._socket = receiving
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            data, sender = self._socket.recvfrom(4096)
            if not data:
                return
            self._came(data, sender)

    def _came(self, data: bytes, sender: object) -> None:
        raise NotImplementedError

    def close(self) -> None:
        shut(self._socket)
        self._thread.join(10)
        self._socket.close()


def shut(each: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    try:
        each.shutdown(how)
    except OSError:
        pass
