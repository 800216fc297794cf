"""A server for thousands of connections, in a process of its own.

It answers each command with {ok: 1}, hello properly, an insert with the number of its documents,
and {find: "large"} with LARGE_REPLY bytes, of which it holds none.
"""

from __future__ import annotations

import asyncio
import pathlib
import struct
import subprocess
import sys

import bson

from .fake_server import HELLO, Request, reply_to
from .process import Closing, start

LARGE_REPLY = 16_000_000
_ZEROS = bytes(1 << 16)


class CrowdServer(Closing):
    """Serves from construction until close()."""

    def __init__(self) -> None:
        self._process = start(
            [sys.executable, "-m", __name__], stdout=subprocess.PIPE,
            cwd=pathlib.Path(__file__).resolve().parents[1])
        assert self._process.stdout
        self.address = self._process.stdout.readline().decode().strip()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


# The process.

class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._received = bytearray()
        self._zeros = 0  # still to be sent
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 16:
            (length,) = struct.unpack_from("<i", self._received)
            if len(self._received) < length:
                return
            request = Request.read(bytes(self._received[:length]))
            del self._received[:length]
            self._answer(request)

    def _answer(self, request: Request) -> None:
        if request.command == "find" and request.options["find"] == "large":
            return self._answer_at_length(request)
        body = {"ok": 1.0}
        if request.command == "insert":
            body["n"] = len(request.documents)
        self._transport.write(reply_to(
            request, HELLO if request.command in ("hello", "isMaster") else body))

    def _answer_at_length(self, request: Request) -> None:
        pad = bson.encode({"ok": 1.0, "pad": b""})
        # The length of the message, of the document, and of its last element, which is binary.
        reply = bytearray(reply_to(request, pad))
        for at, size in ((0, len(reply)), (21, len(pad)), (len(reply) - 6, 0)):
            struct.pack_into("<i", reply, at, size + LARGE_REPLY)
        self._zeros = LARGE_REPLY + 1  # the end of the document
        self._transport.write(bytes(reply[:-1]))
        self._go_on()

    def _go_on(self) -> None:
        while self._zeros > 0 and not self._paused:
            part = min(self._zeros, len(_ZEROS))
            self._zeros -= part
            self._transport.write(_ZEROS[:part])

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._go_on()


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=4096)
    print("127.0.0.1:%d" % server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
