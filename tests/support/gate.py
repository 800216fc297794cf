"""A way to a server that can be shut and opened again."""

from __future__ import annotations

import socket
import threading


class Gate:
    """Listens on a port of 127.0.0.1 and relays to `target`; shut, it refuses connections.

    Open from construction on. Thread-safety: one thread shuts and opens.
    """

    def __init__(self, target: str):
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._port = 0
        self.open()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def uri(self) -> str:
        """For a driver that must not look for a way around."""
        return f"mongodb://{self.address}/?directConnection=true"

    def open(self) -> None:
        if self._listener:
            return
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=128)
        self._port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Lets nobody in. What is open stays."""
        listener, self._listener = self._listener, None
        if listener:
            _end(listener)
            listener.close()

    def shut(self) -> None:
        """The same, and closes what is open."""
        self.refuse()
        with self._lock:
            for each in self._open:
                _end(each)

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()

    # The gate's threads.

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(self._target, 5)
            except OSError:
                return
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                each.settimeout(None)
            with self._lock:
                self._open |= {client, server}
                shut = self._listener is not listener
            if shut:
                _end(client)
                _end(server)
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        back = threading.Thread(target=_move, args=(server, client), daemon=True)
        back.start()
        _move(client, server)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()


def _move(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass
    _end(source)
    _end(sink)


def _end(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
