"""Whoever stands between a client and a server, and does to what passes what a test tells it.

It notes bytes exactly and can cut a connection after any one of them, let nobody in, fall silent as when
a cable is pulled, and reset what is open. A script sees each message: it may hold it, pass on another one,
answer in the server's place, or cut.
"""

from __future__ import annotations

import ctypes
import fcntl
import selectors
import socket
import ssl
import struct
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from .fake_server import read_message
from .listening import Listening, shut
from .process import eventually

Direction = Literal["to_server", "to_client"]
Ends = tuple[socket.socket, socket.socket]


@dataclass
class CutAt:
    """After this many bytes in this direction both ends are closed, with FIN or with RST.

    FIN is a half close: the middleman goes on reading, so that it sees the peers close in turn.
    """

    direction: Direction
    after: int
    how: Literal["fin", "rst"]


class Cut(Exception):
    """Raised by a script: both ends are closed, after these bytes were passed on."""

    def __init__(self, passed: bytes = b""):
        self.passed = passed


@dataclass(eq=False)
class Connection:
    """What happened to one connection.

    passed: bytes that were passed on, not those received; a script's are not kept.
    """

    number: int  # counted from 0
    client: socket.socket
    server: socket.socket
    cut: CutAt | None = None
    passed: dict[Direction, bytearray] = field(
        default_factory=lambda: {"to_server": bytearray(), "to_client": bytearray()})
    cut_at: float | None = None
    client_closed_at: float | None = None
    server_closed_at: float | None = None
    is_reset = False

    @property
    def over(self) -> bool:
        """Both peers have closed (or the middleman has reset them)."""
        return self.client_closed_at is not None and self.server_closed_at is not None

    def ends(self, direction: Direction = "to_server") -> Ends:
        """Source and sink."""
        both = self.client, self.server
        return both if direction == "to_server" else both[::-1]

    def end(self) -> None:
        """Closes both ends, whatever passes there."""
        for each in self.ends():
            shut(each)

    def reset(self) -> None:
        """The same with RST, as soon as its threads have heard of it."""
        self.is_reset = True
        for each in self.ends():
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            shut(each, socket.SHUT_RD)

    def closed(self, direction: Direction) -> None:
        """Its source has closed."""
        if direction == "to_server":
            self.client_closed_at = time.monotonic()
        else:
            self.server_closed_at = time.monotonic()


Script = Callable[[Connection, Direction, bytes], bytes]


class Middleman(Listening):
    """Listens on a port of 127.0.0.1, by default a free one, and passes on to `target` what comes.

    script: what to pass on in place of a message. It may block, to hold the message and what comes behind
    it in this direction, may raise Cut, and may send an answer to the client itself. tls: it ends TLS
    towards clients with the first one, and begins it anew with the second. next_cut: for the next
    connection alone.

    Thread-safety: one thread calls; scripts run in the connections' threads, which alone write the
    attributes of their connection.
    """

    def __init__(self, target: str, port: int = 0, *, script: Script | None = None,
                 tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None):
        host, _, target_port = target.rpartition(":")
        self._target = (host, int(target_port))
        self._script, self._tls = script, tls
        self._lock = threading.Lock()
        self._open: set[Connection] = set()
        self._pulled = False
        self.next_cut: CutAt | None = None
        self.connections: list[Connection] = []
        self.failures: list[BaseException] = []  # of scripts
        super().__init__(port=port)

    @property
    def uri(self) -> str:
        """For a driver that must not look for a way around."""
        return f"mongodb://{self.address}/?directConnection=true"

    def shut(self) -> None:
        """The same, and closes what is open."""
        self.refuse()
        with self._lock:
            for each in self._open:
                each.end()

    def pull(self) -> None:
        """From now on everything is lost on the way, silently, and nobody can connect."""
        with self._lock:
            self._pulled = True
            for each in self._sockets():
                deafen(each)

    def mend(self) -> None:
        """What was sent meanwhile arrives when it is sent again, by TCP."""
        with self._lock:
            self._pulled = False
            for each in self._sockets():
                each.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def reset(self) -> None:
        """Both ends of each connection get a RST; the next ones are passed on."""
        with self._lock:
            for each in self._open:
                each.reset()

    def cut_one(self, cut: CutAt, exchange: Callable[[], object]) -> Connection:
        """Cuts the one connection that the exchange opens, and returns it. The exchange is run
        again if there was another one: a hello of the proxy's own, which the cut may have hit."""
        while True:
            before = len(self.connections)
            self.next_cut = cut
            exchange()
            if len(self.connections) == before + 1:
                return self.connections[before]

    def last(self, timeout: float = 5.0) -> Connection:
        """The connection accepted last; waits for the first one."""
        eventually(lambda: self.connections, timeout, "a connection to the middleman")
        return self.connections[-1]

    def at_rest(self) -> bool:
        """No connection is open."""
        with self._lock:
            return not self._open

    def is_quiet(self) -> bool:
        """All that has been sent on is acknowledged. What is not would be sent again and again when
        the cable is pulled, and be heard: only what comes here is lost."""
        with self._lock:
            return all(struct.unpack("i", fcntl.ioctl(each, termios.TIOCOUTQ, bytes(4))) == (0,)
                       for connection in self._open for each in connection.ends())

    def close(self) -> None:
        self.shut()
        if self.failures:
            raise BaseExceptionGroup("the script failed", self.failures)

    def _sockets(self) -> list[socket.socket]:
        return [*([self._listener] if self._listener else []),
                *(each for connection in self._open for each in connection.ends())]

    # The middleman's threads.

    def _accepted(self, client: socket.socket, listener: socket.socket) -> None:
        cut, self.next_cut = self.next_cut, None
        try:
            server = socket.create_connection(self._target, 5)
        except OSError:
            client.close()
            return
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.settimeout(None)
        connection = Connection(len(self.connections), client, server, cut)
        self.connections.append(connection)
        with self._lock:
            self._open.add(connection)
            if self._pulled:
                deafen(client)
                deafen(server)
            if self._listener is not listener:
                connection.end()
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            if self._tls:
                accept, connect = self._tls
                connection.client = accept.wrap_socket(connection.client, server_side=True)
                connection.server = connect.wrap_socket(
                    connection.server, server_hostname=self._target[0])
            if self._script:
                back = threading.Thread(target=self._pass_messages, daemon=True,
                                        args=(self._script, connection, "to_client"))
                back.start()
                self._pass_messages(self._script, connection, "to_server")
                back.join()
            else:
                _pass_bytes(connection)
        except OSError:
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
                for each in connection.ends():
                    each.close()

    def _pass_messages(self, script: Script, connection: Connection, direction: Direction) -> None:
        source, sink = connection.ends(direction)
        try:
            while raw := read_message(source):
                try:
                    sink.sendall(script(connection, direction, raw))
                except Cut as cut:
                    sink.sendall(cut.passed)
                    raise
            if not connection.is_reset:
                sink.shutdown(socket.SHUT_WR)
        except (Cut, OSError):
            connection.end()
        except BaseException as failure:
            self.failures.append(failure)
            connection.end()
        finally:
            connection.closed(direction)


def _pass_bytes(connection: Connection) -> None:
    """In one thread, since two of them must not use an end with TLS at once."""
    with selectors.PollSelector() as selector:
        selector.register(connection.client, selectors.EVENT_READ, "to_server")
        selector.register(connection.server, selectors.EVENT_READ, "to_client")
        if connection.cut and connection.cut.after == 0:
            _cut(connection)
        while not connection.over:
            # What TLS has read already, no selector sees.
            keys = [key for key in selector.get_map().values()
                    if isinstance(key.fileobj, ssl.SSLSocket) and key.fileobj.pending()]
            for key in keys or [key for key, _ in selector.select()]:
                if not connection.over and not _pass_some(connection, key.data):
                    selector.unregister(key.fileobj)


def _pass_some(connection: Connection, direction: Direction) -> bool:
    """False at the end of this direction."""
    source, sink = connection.ends(direction)
    limit, cut = 1 << 18, connection.cut
    is_cut_here = cut and cut.direction == direction and connection.cut_at is None
    if cut and is_cut_here:
        limit = cut.after - len(connection.passed[direction])
    source.setblocking(False)
    try:
        data = source.recv(limit)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True  # it was TLS's own
    except OSError:
        data = b""
    finally:
        source.setblocking(True)
    if not data:
        connection.closed(direction)
        if isinstance(sink, ssl.SSLSocket):  # which has no half close
            connection.end()
        elif connection.cut_at is None and not connection.is_reset:
            shut(sink, socket.SHUT_WR)
        return False
    if connection.cut_at is not None:
        return True  # thrown away: the way on is cut
    try:
        sink.sendall(data)
    except OSError:
        return True  # the sink's own event says so
    connection.passed[direction] += data
    if cut and is_cut_here and len(connection.passed[direction]) >= cut.after:
        _cut(connection)
    return True


def _cut(connection: Connection) -> None:
    assert connection.cut
    connection.cut_at = time.monotonic()
    if connection.cut.how == "fin":
        for each in connection.ends():
            shut(each, socket.SHUT_WR)
        return
    connection.reset()
    for each in connection.ends():
        each.close()
    connection.client_closed_at = connection.server_closed_at = connection.cut_at


_SO_ATTACH_FILTER, _SO_DETACH_FILTER, _SO_MEMINFO = 26, 27, 55


def deafen(each: socket.socket) -> None:
    """What arrives for this socket is lost before TCP sees it: nothing is acknowledged, and of a
    listening one no connection begins. Needs no privilege."""
    nothing = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # return 0 bytes
    each.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER,
                    struct.pack("HL", 1, ctypes.addressof(nothing)))


def lost_packets(each: socket.socket) -> int:
    """How many a deaf socket did not hear."""
    return struct.unpack("9I", each.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36))[8]
