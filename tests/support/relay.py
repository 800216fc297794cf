"""A TCP relay that counts bytes exactly and can cut a connection after any one of them."""

from __future__ import annotations

import select
import selectors
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from .process import eventually

Direction = Literal["to_server", "to_client"]


@dataclass
class Cut:
    """After this many bytes in this direction both ends are closed, with FIN or with RST.

    FIN is a half close: the relay goes on reading, so that it sees the peers close in turn.
    """

    direction: Direction
    after: int
    how: Literal["fin", "rst"]


@dataclass(eq=False)
class RelayedConnection:
    """What happened to one connection; bytes are those passed on, not those received."""

    client: socket.socket
    server: socket.socket
    cut: Cut | None
    passed: dict[Direction, bytearray] = field(
        default_factory=lambda: {"to_server": bytearray(), "to_client": bytearray()})
    cut_at: float | None = None
    client_closed_at: float | None = None
    server_closed_at: float | None = None

    @property
    def over(self) -> bool:
        """Both peers have closed (or the relay has reset them)."""
        return self.client_closed_at is not None and self.server_closed_at is not None


class Relay:
    """Listens on a port of 127.0.0.1, by default a free one, and relays to `target`, in a thread of its own.

    The cut in `next_cut` is for the next connection alone. Thread-safety: the attributes of a
    connection are written by the relay's thread only; a test reads them.
    """

    def __init__(self, target: str, port: int = 0):
        host, _, target_port = target.rpartition(":")
        self._target = (host, int(target_port))
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self.next_cut: Cut | None = None
        self.connections: list[RelayedConnection] = []
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def last(self, timeout: float = 5.0) -> RelayedConnection:
        """The connection accepted last; waits for the first one."""
        eventually(lambda: self.connections, timeout, "a connection to the relay")
        return self.connections[-1]

    def cut_one(self, cut: Cut, exchange: Callable[[], object]) -> RelayedConnection:
        """Cuts the one connection that the exchange opens, and returns it. The exchange is run
        again if there was another one: a hello of the proxy's own, which the cut may have hit."""
        while True:
            before = len(self.connections)
            self.next_cut = cut
            exchange()
            if len(self.connections) == before + 1:
                return self.connections[before]

    def close(self) -> None:
        self._wake.send(b"x")
        self._thread.join(10)
        for connection in self.connections:
            connection.client.close()
            connection.server.close()
        for each in (self._listener, self._wake, self._woken, self._selector):
            each.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The relay's thread.

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    connection, direction = key.data
                    if not connection.over:  # reset just now, for what the other end sent
                        self._move(connection, direction)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        cut, self.next_cut = self.next_cut, None
        try:
            server = socket.create_connection(self._target, 5)
        except OSError:
            client.close()
            return
        connection = RelayedConnection(client, server, cut)
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.settimeout(5)
        self.connections.append(connection)
        self._selector.register(client, selectors.EVENT_READ, (connection, "to_server"))
        self._selector.register(server, selectors.EVENT_READ, (connection, "to_client"))
        if cut and cut.after == 0:
            self._cut(connection)

    def _move(self, connection: RelayedConnection, direction: Direction) -> None:
        source, sink = connection.client, connection.server
        if direction == "to_client":
            source, sink = sink, source
        limit = 262144
        cut = connection.cut
        if cut and cut.direction == direction and connection.cut_at is None:
            limit = cut.after - len(connection.passed[direction])
        try:
            data = source.recv(limit)
        except OSError:
            data = b""
        if not data:
            self._closed(connection, direction)
            return
        if connection.cut_at is not None:
            return  # thrown away: the way on is cut
        try:
            sink.sendall(data)
        except OSError:
            return  # the sink's own event says so
        connection.passed[direction] += data
        if cut and cut.direction == direction and len(connection.passed[direction]) >= cut.after:
            self._cut(connection)

    def _closed(self, connection: RelayedConnection, direction: Direction) -> None:
        """One peer closed: remember when, and pass the end on."""
        now = time.monotonic()
        source, sink = connection.client, connection.server
        if direction == "to_server":
            connection.client_closed_at = now
        else:
            connection.server_closed_at = now
            source, sink = sink, source
        self._selector.unregister(source)
        if connection.cut_at is None:
            _half_close(sink)
        if connection.over:
            connection.client.close()
            connection.server.close()

    def _cut(self, connection: RelayedConnection) -> None:
        assert connection.cut
        connection.cut_at = time.monotonic()
        if connection.cut.how == "fin":
            _half_close(connection.client)
            _half_close(connection.server)
            return
        for each in (connection.client, connection.server):
            try:
                self._selector.unregister(each)
            except KeyError:
                pass
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.close()
        connection.client_closed_at = connection.server_closed_at = connection.cut_at


class Tap:
    """Ends TLS and begins it anew towards `target`, and keeps what passes in between.

    accept: as a server, connect: as a client. One thread per connection, which alone writes
    `connections`' `passed`.
    """

    def __init__(self, target: str, accept: ssl.SSLContext, connect: ssl.SSLContext):
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._accept_tls, self._connect_tls = accept, connect
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self.connections: list[RelayedConnection] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in [self._listener] + [c.client for c in self.connections]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is over already
        self._listener.close()

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The tap's threads.

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with self._accept_tls.wrap_socket(client, server_side=True) as near, \
                    self._connect_tls.wrap_socket(
                        socket.create_connection(self._target, 5),
                        server_hostname=self._target[0]) as far:
                connection = RelayedConnection(near, far, None)
                self.connections.append(connection)
                while self._move(connection):
                    pass
        except OSError:
            pass

    def _move(self, connection: RelayedConnection) -> bool:
        """What has come, in whatever direction; False at the end. Reading never blocks: what has
        come may be no more than TLS's own."""
        near, far = connection.client, connection.server
        ways: dict[socket.socket, tuple[socket.socket, Direction]] = {
            near: (far, "to_server"), far: (near, "to_client")}
        for source in [s for s in ways if s.pending()] or select.select([*ways], [], [])[0]:
            sink, direction = ways[source]
            source.setblocking(False)
            try:
                data = source.recv(262144)
            except ssl.SSLWantReadError:
                continue
            finally:
                source.setblocking(True)
            if not data:
                return False
            connection.passed[direction] += data
            sink.sendall(data)
        return True


def _half_close(sink: socket.socket) -> None:
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
