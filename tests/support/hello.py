"""What servers say of themselves, and what a client of the proxy should see of it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from . import wire
from .elements import Element, document, element, elements, string

LISTS = (b"hosts", b"passives", b"arbiters")
NAMES = (b"primary", b"me")


def node(address: str) -> tuple[str, int]:
    """"host:port" or "[v6]:port" as PyMongo has it."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def messages(data: bytes) -> list[bytes]:
    """The whole messages that these bytes begin with."""
    found, at = [], 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<i", data, at)
        if at + length > len(data):
            break
        found.append(data[at:at + length])
        at += length
    return found


def mapped(reply: bytes, listeners: Mapping[str, str]) -> bytes:
    """The server's reply (OP_MSG or OP_REPLY) with members replaced by their listeners: those that
    have none are left out. All other bytes are the server's."""
    return changed(reply, lambda each: _mapped_element(each, listeners))


def changed(reply: bytes, change: Callable[[Element], Element | None]) -> bytes:
    """The server's reply (OP_MSG or OP_REPLY) with each element of its body as change makes it."""
    (op_code,) = struct.unpack_from("<i", reply, 12)
    start, end, flags = 36, len(reply), 0
    if op_code == wire.OP_MSG:
        start = 21
        (flags,) = struct.unpack_from("<I", reply, 16)
        if flags & wire.CHECKSUM_PRESENT:
            end -= 4
    body = document(*filter(None, map(change, elements(reply[start:end]))))
    length = start + len(body) + len(reply) - end
    whole = struct.pack("<i", length) + reply[4:start] + body
    if end < len(reply):
        whole += struct.pack("<I", wire.crc32c(whole))
    return whole


def _mapped_element(each: Element, listeners: Mapping[str, str]) -> Element | None:
    if each.name in NAMES:
        listener = listeners.get(_text(each))
        return string(each.name, listener) if listener else None
    if each.name in LISTS:
        found = [listeners[_text(e)] for e in elements(each.value) if _text(e) in listeners]
        return element(0x04, each.name, document(
            *(string(str(i), listener) for i, listener in enumerate(found))))
    return each


def _text(each: Element) -> str:
    return each.value[4:-1].decode()
