"""A server that answers inserts as a test tells it to: lies, bytes that are no message, silence.

Everything that a driver or the proxy asks on the way there (hello, ping and the like) it answers
properly, so that a client is served until its first insert.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import bson

from . import wire
from .elements import Element, document, elements
from .listening import Listening, shut
from .process import eventually


def read_message(connection: socket.socket) -> bytes | None:
    """The next whole message, or nothing if the peer has ended the connection."""
    data = bytearray()
    wanted = 16
    while len(data) < wanted:
        try:
            part = connection.recv(min(wanted - len(data), 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        data += part
        if wanted == 16 and len(data) == 16:
            (wanted,) = struct.unpack_from("<i", data)
    return bytes(data)


@dataclass(frozen=True)
class Request:
    """A request as a server reads it, inflated if it was compressed. Only well-formed OP_MSG and
    OP_QUERY."""

    raw: bytes
    body: bytes = b""
    sequences: dict[bytes, list[bytes]] = field(default_factory=dict)

    @staticmethod
    def read(raw: bytes) -> Request:
        raw = wire.inflated(raw)
        (op_code,) = struct.unpack_from("<i", raw, 12)
        if op_code == wire.OP_QUERY:
            return Request(raw, raw[raw.index(b"\0", 20) + 9:])
        if op_code != wire.OP_MSG:
            return Request(raw)
        body, sequences, at = b"", {}, 20
        (flags,) = struct.unpack_from("<I", raw, 16)
        end = len(raw) - (4 if flags & wire.CHECKSUM_PRESENT else 0)
        while at < end:
            kind = raw[at]
            (size,) = struct.unpack_from("<i", raw, at + 1)
            section = raw[at + 1:at + 1 + size]
            at += 1 + size
            if kind == 0:
                body = section
            else:
                name, _, documents = section[4:].partition(b"\0")
                sequences[name] = list(_documents(documents))
        return Request(raw, body, sequences)

    @property
    def request_id(self) -> int:
        return struct.unpack_from("<i", self.raw, 4)[0]

    @property
    def command(self) -> str:
        return elements(self.body)[0].name.decode() if self.body else ""

    @property
    def options(self) -> dict[str, Any]:
        """The body but for `documents`."""
        return bson.decode(document(
            *(e for e in elements(self.body) if e.name != b"documents")))

    @property
    def documents(self) -> list[bytes]:
        """The documents of an insert, wherever they stand."""
        if b"documents" in self.sequences:
            return self.sequences[b"documents"]
        array = next((e for e in elements(self.body) if e.name == b"documents"), None)
        return [e.value for e in elements(array.value)] if array else []

    def value(self, index: int, path: str) -> Element:
        """The element at this dotted path of the document at index."""
        raw = self.documents[index]
        for name in path.split("."):
            found = next(e for e in elements(raw) if e.name == name.encode())
            raw = found.value
        return found


def _documents(data: bytes):
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<i", data, at)
        yield data[at:at + size]
        at += size


class Last(bytes):
    """An answer behind which the server ends the connection."""


_REFUSED = bson.encode({"_id": []})

# What a script does with one insert: the bytes to send.
Answer = Callable[[Request], bytes]

_own_ids = itertools.count(70_000)


def reply_to(request: Request, body: dict[str, Any] | bytes, flags: int = 0,
             response_to: int | None = None) -> bytes:
    """An ordinary reply: one section of kind 0."""
    return reply_of_sections(request, wire.body(body), flags=flags, response_to=response_to)


def reply_of_sections(request: Request, *sections: bytes, flags: int = 0,
                      response_to: int | None = None, checksum: int | None = None) -> bytes:
    """A reply of any sections. With CHECKSUM_PRESENT in flags a checksum: right, or `checksum`."""
    answered = request.request_id if response_to is None else response_to
    whole = wire.op_msg(*sections, flags=flags & ~wire.CHECKSUM_PRESENT,
                        request_id=next(_own_ids))
    whole = whole[:8] + struct.pack("<i", answered) + whole[12:]
    if not flags & wire.CHECKSUM_PRESENT:
        return whole
    whole = struct.pack("<i", len(whole) + 4) + whole[4:16] + struct.pack("<I", flags) + whole[20:]
    return whole + struct.pack("<I", wire.crc32c(whole) if checksum is None else checksum)


def in_kind(request: Request, body: dict[str, Any] | bytes) -> bytes:
    """As OP_REPLY to who asked by OP_QUERY."""
    (op_code,) = struct.unpack_from("<i", request.raw, 12)
    if op_code != wire.OP_QUERY:
        return reply_to(request, body)
    payload = struct.pack("<IqII", 8, 0, 0, 1) + wire.encode(body)
    return wire.message(wire.OP_REPLY, payload, next(_own_ids), request.request_id)


HELLO = {"isWritablePrimary": True, "ismaster": True, "maxBsonObjectSize": 16_777_216,
         "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
         "logicalSessionTimeoutMinutes": 30, "minWireVersion": 0, "maxWireVersion": 17,
         "readOnly": False, "ok": 1.0}


LARGE = 1_000_000


class FakeServer(Listening):
    """Listens from construction until close(), without a port on a free one.

    `script` holds one Answer per insert that is to come, in the order in which they come; inserts
    beyond it are answered as if all of their documents had been stored. `early` makes the answer to
    a request of more than LARGE bytes from its id when no more than its header was read; the rest
    is not read before `go_on` is set. `others` has the answers to further commands by name.
    tls: what a server with TLS has. Thread-safety: one client at a time is assumed; attributes are
    set while none is connected.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0,
                 tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        if tls:
            tls.sni_callback = lambda _, name, __: self.server_names.append(name)
        self.server_names: list[str | None] = []  # that clients called for
        self.failures: list[str] = []  # of TLS
        self.script: Sequence[Answer] = ()
        self.others: dict[str, Answer] = {}
        self.early: Callable[[int], bytes] | None = None
        self.go_on = threading.Event()
        self.greeting: bytes = b""  # sent to whoever connects, before anything was asked
        self.inserts: list[Request] = []
        self.inserters: set[threading.Thread] = set()  # one for each connection with an insert
        self.connections = 0  # accepted since the last expect()
        self.connected = 0
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        super().__init__(host, port)

    def expect(self, *script: Answer) -> None:
        """Forgets what was, and follows this script from now on."""
        eventually(lambda: self.connected == 0, 10, "the connections of the test before are over")
        self.script, self.inserts, self.connections = script, [], 0
        self.inserters = set()
        self.others, self.early, self.greeting = {}, None, b""
        self.go_on.clear()

    def _accepted(self, client: socket.socket, _: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self.connected += 1
            self._sockets.add(client)
        threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls:
                connection = self._wrapped(connection, self._tls)
                connection.do_handshake()
            if self.greeting:
                connection.sendall(self.greeting)
            while self._answer(connection):
                pass
        except ssl.SSLError as error:
            self.failures.append(error.reason or str(error))
        except OSError:
            pass
        finally:
            connection.close()
            with self._lock:
                self._sockets.discard(connection)
                self.connected -= 1

    def _wrapped(self, connection: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
        wrapped = tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._sockets.discard(connection)
            self._sockets.add(wrapped)
        return wrapped

    def _answer(self, connection: socket.socket) -> bool:
        """Reads one request and answers it; False at the end of the connection."""
        if self.early is not None:
            header = connection.recv(16, socket.MSG_WAITALL | socket.MSG_PEEK)
            if len(header) == 16 and struct.unpack_from("<i", header)[0] > LARGE:
                connection.sendall(self.early(struct.unpack_from("<i", header, 4)[0]))
                self.early = None
                self.go_on.wait(20)
        raw = read_message(connection)
        if raw is None:
            return False
        request = Request.read(raw)
        answer = self._answer_to(request)
        connection.sendall(answer)
        return not isinstance(answer, Last)

    def _answer_to(self, request: Request) -> bytes:
        if request.command in self.others:
            return self.others[request.command](request)
        if (request.command == "insert" and request.documents == [_REFUSED]
                and b"writeConcern" in request.body):
            # Whether the client may insert: asked where the proxy does not know yet whether there are logins.
            return reply_to(request, {"n": 0, "writeErrors": [
                {"index": 0, "code": 53, "errmsg": "The '_id' value cannot be of type array"}], "ok": 1.0})
        if request.command == "insert":
            self.inserts.append(request)
            self.inserters.add(threading.current_thread())
            at = len(self.inserts) - 1
            if at < len(self.script):
                return self.script[at](request)
            return reply_to(request, {"n": len(request.documents), "ok": 1.0})
        return in_kind(request, HELLO if request.command in ("hello", "isMaster", "ismaster") else {"ok": 1.0})

    def close(self) -> None:
        super().close()
        with self._lock:
            for each in self._sockets:
                shut(each)
