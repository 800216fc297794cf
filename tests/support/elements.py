"""BSON as bytes: documents taken apart into elements and put together from them.

PyMongo's encoder only makes well-formed documents and its decoder forgets repeated keys and
deprecated types; the tests need both.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from .servers import has

# Value sizes of the types that have a fixed one (BSON specification 1.1).
_FIXED = {0x01: 8, 0x06: 0, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0, 0x10: 4, 0x11: 8, 0x12: 8,
          0x13: 16, 0x7F: 0, 0xFF: 0}


class Element(NamedTuple):
    """One element of a document; raw is type byte, name with NUL, and value."""

    type: int
    name: bytes
    value: bytes

    @property
    def raw(self) -> bytes:
        return bytes([self.type]) + self.name + b"\0" + self.value


def _value_size(kind: int, data: bytes, at: int) -> int:
    if kind in _FIXED:
        return _FIXED[kind]
    if kind == 0x0B:  # regex: two C strings
        end = data.index(b"\0", data.index(b"\0", at) + 1) + 1
        return end - at
    (length,) = struct.unpack_from("<i", data, at)
    if kind in (0x02, 0x0D, 0x0E):
        return 4 + length
    if kind in (0x03, 0x04, 0x0F):
        return length
    if kind == 0x05:
        return 5 + length
    if kind == 0x0C:
        return 4 + length + 12
    raise ValueError(f"unknown BSON type {kind:#x}")


def elements(document: bytes) -> list[Element]:
    """The elements of a well-formed document, in order."""
    (length,) = struct.unpack_from("<i", document)
    if length != len(document) or document[-1] != 0:
        raise ValueError("not one whole document")
    found, at = [], 4
    while at < length - 1:
        end_of_name = document.index(b"\0", at + 1)
        start = end_of_name + 1
        size = _value_size(document[at], document, start)
        found.append(Element(document[at], document[at + 1:end_of_name],
                             document[start:start + size]))
        at = start + size
    return found


def document(*parts: bytes | Element) -> bytes:
    """A document of these elements, with the right length around them."""
    body = b"".join(p.raw if isinstance(p, Element) else p for p in parts)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def element(kind: int, name: str | bytes, value: bytes = b"") -> Element:
    return Element(kind, name.encode() if isinstance(name, str) else name, value)


def string(name: str | bytes, text: str | bytes, kind: int = 0x02) -> Element:
    raw = text.encode() if isinstance(text, str) else text
    return element(kind, name, struct.pack("<i", len(raw) + 1) + raw + b"\0")


def int32(name: str | bytes, value: int) -> Element:
    return element(0x10, name, struct.pack("<i", value))


def int64(name: str | bytes, value: int) -> Element:
    return element(0x12, name, struct.pack("<q", value))


def double(name: str | bytes, value: float) -> Element:
    return element(0x01, name, struct.pack("<d", value))


def boolean(name: str | bytes, value: bool) -> Element:
    return element(0x08, name, bytes([value]))


def null(name: str | bytes) -> Element:
    return element(0x0A, name)


def embedded(name: str | bytes, *parts: bytes | Element) -> Element:
    return element(0x03, name, document(*parts))


def array(name: str | bytes, documents: list[bytes]) -> Element:
    """An array of documents, with keys "0", "1" and so on."""
    return element(0x04, name, document(
        *(element(0x03, str(i), d) for i, d in enumerate(documents))))


def every_type() -> list[Element]:
    """One element of every BSON type that a server stores as it came, and odd but legal names."""
    return [
        double("double", 1.5), double("nan", float("nan")), string("string", "gr\u00fc\u00df"),
        string("nul", b"a\0b"), string("not_utf8", b"\xff\xfe"),
        embedded("embedded", int32("a", 1), embedded("b", null("c"))), embedded("empty"),
        array("array", [document(int32("x", 1)), document()]),
        element(0x05, "binary", struct.pack("<iB", 3, 0) + b"abc"),
        element(0x05, "old_binary", struct.pack("<iBi", 7, 2, 3) + b"abc"),
        element(0x05, "own_binary", struct.pack("<iB", 0, 0x80)),
        element(0x06, "undefined"), element(0x07, "oid", bytes(range(12))),
        boolean("true", True), boolean("false", False),
        element(0x09, "date", struct.pack("<q", -1)), null("null"),
        element(0x0B, "regex", b"^a.*\0imx\0"),
        element(0x0C, "dbpointer", struct.pack("<i", 4) + b"a.b\0" + bytes(12)),
        string("code", "f()", 0x0D), string("symbol", "s", 0x0E),
        element(0x0F, "scoped_code",
                struct.pack("<i", 4 + 4 + 2 + len(document(int32("x", 1)))) +
                struct.pack("<i", 2) + b"f\0" + document(int32("x", 1))),
        int32("int32", -1), element(0x11, "timestamp", struct.pack("<II", 7, 9)),
        int64("int64", -(2**63)), element(0x13, "decimal", bytes(15) + b"\x30"),
        element(0xFF, "min"), element(0x7F, "max"),
        int32("", 1), int32("dot.ted", 1),
        int32("$dollar" if has("dollar_fields") else "dollar$", 1), int32("twice", 1),
        int32("twice", 2), int32("_ID", 1), string(b"\xc3\xa4", "x"),
    ]
