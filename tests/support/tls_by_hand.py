"""A client's TLS of which a test decides what is sent when."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

from .process import Closing


class ByHand(Closing):
    """In place of a socket. Its records can be sent in pieces, and its close_notify does not wait for that
    of its peer. piece: of all that is sent and received, so much at a time."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, piece: int = 65536):
        self.plain, self._piece = plain, piece
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._engine = context.wrap_bio(self._in, self._out, server_hostname="127.0.0.1")
        self._until_done(self._engine.do_handshake)

    @staticmethod
    def to(address: str, context: ssl.SSLContext, piece: int = 65536) -> ByHand:
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), 10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ByHand(plain, context, piece)

    def records(self, message: bytes) -> bytes:
        """That carry it; they are not sent."""
        self._engine.write(message)
        return self._out.read()

    def sendall(self, data: bytes) -> None:
        self._engine.write(data)
        self._flush()

    def recv(self, most: int = 65536) -> bytes:
        try:
            return self._until_done(lambda: self._engine.read(most))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def close_notify(self) -> None:
        try:
            self._engine.unwrap()
        except ssl.SSLWantReadError:
            pass
        self._flush()

    def settimeout(self, seconds: float) -> None:
        self.plain.settimeout(seconds)

    def shutdown(self, how: int) -> None:
        self.plain.shutdown(how)

    def close(self) -> None:
        self.plain.close()

    def _until_done(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                result = step()
                self._flush()
                return result
            except ssl.SSLWantReadError:
                self._flush()
                data = self.plain.recv(self._piece)
                self._in.write(data) if data else self._in.write_eof()

    def _flush(self) -> None:
        data = self._out.read()
        for at in range(0, len(data), self._piece):
            self.plain.sendall(data[at:at + self._piece])


def client_hello(context: ssl.SSLContext) -> bytes:
    """What a client of this context says first."""
    outgoing = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()
