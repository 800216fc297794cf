"""The wire protocol by hand: messages built from their parts, sent as they are, and read back.

Nothing here checks what it builds: wrong lengths, sections and flags are what it is for.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import bson
import snappy
from backports import zstd
from bson.codec_options import CodecOptions

from .process import Closing

OP_REPLY = 1
OP_UPDATE = 2001
OP_INSERT = 2002
OP_QUERY = 2004
OP_GET_MORE = 2005
OP_COMPRESSED = 2012
OP_MSG = 2013

CHECKSUM_PRESENT = 1 << 0
MORE_TO_COME = 1 << 1
EXHAUST_ALLOWED = 1 << 16

MAX_MESSAGE = 48_000_000

_request_ids = itertools.count(1000)
_LENIENT = CodecOptions(unicode_decode_error_handler="replace")


def encode(document: dict[str, Any] | bytes) -> bytes:
    return document if isinstance(document, bytes) else bson.encode(document)


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C as OP_MSG's checksum wants it (crc32c(b"123456789") is 0xE3069283)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def body(document: dict[str, Any] | bytes) -> bytes:
    """A section of kind 0."""
    return b"\0" + encode(document)


def sequence(identifier: str | bytes, documents: list[Any], size: int | None = None) -> bytes:
    """A section of kind 1; size is set to something else than the truth on demand."""
    name = identifier.encode() if isinstance(identifier, str) else identifier
    content = name + b"\0" + b"".join(encode(d) for d in documents)
    return b"\1" + struct.pack("<i", len(content) + 4 if size is None else size) + content


def message(op_code: int, payload: bytes, request_id: int | None = None, response_to: int = 0,
            length: int | None = None) -> bytes:
    """A header around payload; length is set to something else than the truth on demand."""
    request_id = next(_request_ids) if request_id is None else request_id
    length = 16 + len(payload) if length is None else length
    return struct.pack("<iiii", length, request_id, response_to, op_code) + payload


def op_msg(*sections: bytes, flags: int = 0, request_id: int | None = None,
           checksum: int | None = None) -> bytes:
    """With CHECKSUM_PRESENT in flags the checksum is put at the end: the right one, or `checksum`."""
    payload = struct.pack("<I", flags & 0xFFFFFFFF) + b"".join(sections)
    if not flags & CHECKSUM_PRESENT:
        return message(OP_MSG, payload, request_id)
    whole = message(OP_MSG, payload, request_id, length=16 + len(payload) + 4)
    return whole + struct.pack("<I", crc32c(whole) if checksum is None else checksum)


def command(document: dict[str, Any] | bytes, **options: Any) -> bytes:
    return op_msg(body(document), **options)


def op_query(namespace: str, query: dict[str, Any] | bytes, flags: int = 0,
             request_id: int | None = None) -> bytes:
    payload = (struct.pack("<I", flags) + namespace.encode() + b"\0" +
               struct.pack("<ii", 0, -1) + encode(query))
    return message(OP_QUERY, payload, request_id)


def op_compressed(original: bytes, compressor: int, compressed: bytes | None = None) -> bytes:
    """`original` (a whole message) inside OP_COMPRESSED; compressor 0 copies it as it is."""
    _, request_id, response_to, op_code = struct.unpack_from("<iiii", original)
    content = original[16:] if compressed is None else compressed
    return message(OP_COMPRESSED, struct.pack("<iiB", op_code, len(original) - 16, compressor) +
                   content, request_id, response_to)


# Compressors by their ids: what they make of bytes, and the bytes again.
COMPRESSORS: dict[str, tuple[int, Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "snappy": (1, snappy.compress, snappy.decompress),
    "zlib": (2, zlib.compress, zlib.decompress),
    "zstd": (3, zstd.compress, zstd.decompress),
}


def deflated(original: bytes, compressor: str) -> bytes:
    """`original` (a whole message) inside OP_COMPRESSED, as drivers send it."""
    number, compress, _ = COMPRESSORS[compressor]
    return op_compressed(original, number, compress(original[16:]))


def compressor_of(raw: bytes) -> str | None:
    """The compressor of a message; None if it is plain."""
    if struct.unpack_from("<i", raw, 12)[0] != OP_COMPRESSED:
        return None
    return next(name for name, (number, *_) in COMPRESSORS.items() if number == raw[24])


def inflated(raw: bytes) -> bytes:
    """The message as it was before it was compressed, if it is."""
    compressor = compressor_of(raw)
    if compressor is None:
        return raw
    _, request_id, response_to, _, op_code, size = struct.unpack_from("<6i", raw)
    content = COMPRESSORS[compressor][2](raw[25:])
    assert len(content) == size, f"{len(content)} bytes, not {size}"
    return message(op_code, content, request_id, response_to)


class Closed(Exception):
    """The peer closed or reset the connection where a message was expected."""


@dataclass
class Message:
    """One message as received."""

    raw: bytes
    request_id: int
    response_to: int
    op_code: int
    flags: int = 0
    body_bytes: bytes = b""

    @property
    def body(self) -> dict[str, Any]:
        """The reply: the one body of an OP_MSG, or the one document of an OP_REPLY."""
        return bson.decode(self.body_bytes, _LENIENT)


def parse(raw: bytes) -> Message:
    """A well-formed OP_MSG with one body, or OP_REPLY; verifies a checksum that is there."""
    _, request_id, response_to, op_code = struct.unpack_from("<iiii", raw)
    parsed = Message(raw, request_id, response_to, op_code)
    if op_code == OP_REPLY:
        (parsed.flags,) = struct.unpack_from("<I", raw, 16)
        parsed.body_bytes = raw[36:]
    elif op_code == OP_MSG:
        (parsed.flags,) = struct.unpack_from("<I", raw, 16)
        end = len(raw)
        if parsed.flags & CHECKSUM_PRESENT:
            end -= 4
            assert crc32c(raw[:end]) == struct.unpack_from("<I", raw, end)[0], "wrong checksum"
        assert raw[20] == 0, "a reply is one section of kind 0"
        parsed.body_bytes = raw[21:end]
    return parsed


class Reply(dict[str, Any]):
    """The body of one. Who looks for a field that it lacks is shown what there is instead."""

    def __missing__(self, key: str) -> Any:
        raise KeyError(f"no {key} in {dict(self)}")


class WireClient(Closing):
    """A connection that sends bytes as they are and reads messages; with TLS, if it is given what
    to trust. What is wrong with TLS it raises as ssl.SSLError."""

    def __init__(self, address: str, timeout: float = 10.0, tls: ssl.SSLContext | None = None):
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                self.socket = tls.wrap_socket(self.socket, server_hostname=host.strip("[]"))
        self._pending = bytearray()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def _read(self, count: int) -> bytes:
        while len(self._pending) < count:
            try:
                data = self.socket.recv(max(count - len(self._pending), 65536))
            except ConnectionResetError:
                data = b""
            if not data:
                raise Closed
            self._pending += data
        taken = bytes(self._pending[:count])
        del self._pending[:count]
        return taken

    def receive(self) -> Message:
        """The next message. Raises Closed, or TimeoutError."""
        header = self._read(16)
        (length,) = struct.unpack_from("<i", header)
        assert 16 <= length <= MAX_MESSAGE + 16384, f"a message of {length} bytes"
        return parse(header + self._read(length - 16))

    def call(self, data: bytes | dict[str, Any]) -> dict[str, Any]:
        """Sends a message, or a command, and returns the body of the next reply."""
        self.send(command(data) if isinstance(data, dict) else data)
        return Reply(self.receive().body)

    def closed_by_peer(self, timeout: float = 5.0) -> bool:
        """True once the peer has closed or reset; what came before that is thrown away."""
        self.socket.settimeout(timeout)
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    def finish(self) -> None:
        """Half a close: nothing more will be sent."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            raise Closed from None

    def reset(self) -> None:
        """Closes with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


class CompressingClient(WireClient):
    """Agrees on a compressor and sends every message in it; received ones, which must be in it as
    well, it inflates."""

    def __init__(self, address: str, compressor: str, timeout: float = 10.0,
                 tls: ssl.SSLContext | None = None):
        super().__init__(address, timeout, tls)
        self.compressor: str | None = None
        agreed = self.call({"hello": 1, "compression": [compressor], "$db": "admin"})
        assert agreed["compression"] == [compressor], agreed
        self.compressor = compressor

    def send(self, data: bytes) -> None:
        super().send(deflated(data, self.compressor) if self.compressor else data)

    def receive(self) -> Message:
        received = super().receive()
        assert compressor_of(received.raw) == self.compressor
        return parse(inflated(received.raw))


def client(address: str, compressor: str | None = None, timeout: float = 10.0,
           tls: ssl.SSLContext | None = None) -> WireClient:
    """compressor: in which it sends its messages, if it is any."""
    if compressor is None:
        return WireClient(address, timeout, tls)
    return CompressingClient(address, compressor, timeout, tls)


class Reconnecting:
    """A connection that is made anew when the peer has closed it. compressor: in which it sends its
    messages, if it is any."""

    def __init__(self, address: str, timeout: float, compressor: str | None = None):
        self._address = address
        self._timeout = timeout
        self._compressor = compressor
        self._client: WireClient | None = None

    def call(self, data: bytes) -> Message | None:
        """The reply; None if the connection was closed instead."""
        if self._client is None:
            self._client = client(self._address, self._compressor, self._timeout)
        try:
            self._client.send(data)
            return self._client.receive()
        except Closed:
            self.close()
            return None

    def close(self) -> None:
        if self._client:
            self._client.close()
        self._client = None
