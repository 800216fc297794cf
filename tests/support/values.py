"""What each strategy promises of the value that it puts into a document."""

from __future__ import annotations

import os
import re
import string
import struct
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .elements import Element

Check = Callable[[Element], None]

# Of permuted rules: proxies have the environment of the tests.
os.environ["IDPROXY_TEST_KEY"] = "2b7e151628aed2a6abf7158809cf4f3c"
PERMUTED = {"strategy": "permuted", "key": {"env": "IDPROXY_TEST_KEY"}, "tweak": "test"}

# How far a time inside an id may be from the clock of the test.
_CLOCK_TOLERANCE_SECONDS = 120


def _is_now(seconds: float) -> None:
    assert abs(seconds - time.time()) < _CLOCK_TOLERANCE_SECONDS, f"made at {seconds}"


def text(value: Element) -> str:
    assert value.type == 0x02, f"type {value.type:#x} instead of a string"
    (length,) = struct.unpack_from("<i", value.value)
    assert length == len(value.value) - 4
    return value.value[4:-1].decode("ascii")


def objectid(value: Element) -> None:
    assert value.type == 0x07, f"type {value.type:#x} instead of an ObjectId"
    _is_now(struct.unpack_from(">I", value.value)[0])


def objectid_string(value: Element) -> None:
    assert re.fullmatch("[0-9a-f]{24}", text(value)), text(value)
    _is_now(int(text(value)[:8], 16))


# Stored bytes of a UUID back to the order in which RFC 9562 has them.
_REPRESENTATIONS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "standard": (4, lambda b: b),
    "python-legacy": (3, lambda b: b),
    "java-legacy": (3, lambda b: b[7::-1] + b[:7:-1]),
    "csharp-legacy": (3, lambda b: uuid.UUID(bytes_le=b).bytes),
}


def to_uuid(value: Element, representation: str) -> uuid.UUID:
    if representation == "string":
        assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text(value)), text(value)
        return uuid.UUID(text(value))
    subtype, order = _REPRESENTATIONS[representation]
    assert value.type == 0x05, f"type {value.type:#x} instead of binary"
    assert struct.unpack_from("<iB", value.value) == (16, subtype)
    return uuid.UUID(bytes=order(value.value[5:]))


def uuid_of(version: int, representation: str) -> Check:
    def check(value: Element) -> None:
        made = to_uuid(value, representation)
        assert made.variant == uuid.RFC_4122 and made.version == version, str(made)
        if version == 7:
            _is_now((made.int >> 80) / 1000)
        if version == 1:
            _is_now((made.time - 0x01B21DD213814000) / 1e7)
            assert made.node >> 40 & 1, "a node without the multicast bit is a real address"
    return check


_HEX, _BASE32 = "0123456789abcdef", "0123456789abcdefghjkmnpqrstvwxyz"
ALPHABETS = {
    "digits": string.digits,
    "url64": string.digits + string.ascii_letters + "_-",
    "hex": _HEX,
    "base32": _BASE32,
    "base32upper": _BASE32.upper(),
    "base36": string.digits + string.ascii_lowercase,
    "base58": "".join(c for c in string.digits + string.ascii_uppercase + string.ascii_lowercase
                      if c not in "0OIl"),
    "base62": string.digits + string.ascii_uppercase + string.ascii_lowercase,
}


def decoded(written: str, encoding: str, prefix: str, bits: int) -> int:
    """The number in a text, which has as many digits as the largest number of so many bits."""
    alphabet = ALPHABETS[encoding]
    digits = written.removeprefix(prefix)
    assert len(prefix) + len(digits) == len(written), written
    number = 0
    for digit in digits:
        number = number * len(alphabet) + alphabet.index(digit)
    base = len(alphabet)
    assert number < 2**bits <= base ** len(digits) < base * 2**bits, written
    return number


def encoded_uuid(version: int, encoding: str, prefix: str) -> Check:
    def check(value: Element) -> None:
        number = decoded(text(value), encoding, prefix, 128)
        uuid_of(version, "standard")(Element(0x05, b"", struct.pack("<iB", 16, 4) + number.to_bytes(16, "big")))
    return check


def encoded_objectid(encoding: str, prefix: str) -> Check:
    return lambda value: _is_now(decoded(text(value), encoding, prefix, 96) >> 64)


def ulid(output: str, prefix: str = "") -> Check:
    def check(value: Element) -> None:
        if output == "string":
            number = decoded(text(value), "base32upper", prefix, 128)
        else:
            assert value.type == 0x05
            assert struct.unpack_from("<iB", value.value) == (16, {"uuid": 4, "binary": 0}[output])
            number = int.from_bytes(value.value[5:], "big")
        _is_now((number >> 80) / 1000)
    return check


def snowflake(output: str, prefix: str = "") -> Check:
    def check(value: Element) -> None:
        if output == "int64":
            assert value.type == 0x12
            (number,) = struct.unpack("<q", value.value)
        elif output == "string":
            number = int(text(value).removeprefix(prefix))
        else:
            number = decoded(text(value), output, prefix, 63)
        _is_now(((number >> 22) + 1704067200000) / 1000)
    return check


def nanoid(size: int, alphabet: str, prefix: str = "") -> Check:
    def check(value: Element) -> None:
        written = text(value)
        assert written.startswith(prefix) and len(written) == len(prefix) + size, written
        assert set(written[len(prefix):]) <= set(alphabet), written
    return check


def digits_of(digits: int, output: str, leading_zeros: bool) -> Check:
    low = 0 if leading_zeros else 10 ** (digits - 1)

    def check(value: Element) -> None:
        if output == "string":
            assert re.fullmatch(f"[0-9]{{{digits}}}", text(value)), text(value)
            number = int(text(value))
        else:
            kind, layout = {"int32": (0x10, "<i"), "int64": (0x12, "<q")}[output]
            assert value.type == kind, f"type {value.type:#x} instead of {output}"
            (number,) = struct.unpack(layout, value.value)
        assert low <= number < 10**digits, f"{number} does not have {digits} digits"
    return check


@dataclass(frozen=True)
class Variant:
    """A strategy with its parameters, and what its values must look like."""

    name: str
    rule: dict[str, Any]
    check: Check
    ascending: bool = False  # in the order of the documents, as bytes


VARIANTS = [
    Variant("objectid", {"strategy": "objectid"}, objectid),
    Variant("objectid-string", {"strategy": "objectid", "output": "string"}, objectid_string),
    *(Variant(f"uuid{version}-{representation}",
              {"strategy": "uuid", "version": version, "representation": representation},
              uuid_of(version, representation),
              ascending=version == 7 and representation in ("standard", "string", "python-legacy"))
      for version in (1, 4, 7)
      for representation in ("standard", "java-legacy", "csharp-legacy", "python-legacy",
                             "string")),
    *(Variant(f"uuid{version}-{encoding}",
              {"strategy": "uuid", "version": version, "encoding": encoding, "prefix": prefix},
              encoded_uuid(version, encoding, prefix), ascending=version == 7)
      for version, encoding, prefix in [
          (7, "hex", ""), (7, "base32", "user_"), (7, "base32upper", ""), (7, "base36", ""),
          (7, "base58", "Kunde "), (7, "base62", "~" * 64), (4, "base62", ""), (1, "base58", "")]),
    *(Variant(f"objectid-{encoding}",
              {"strategy": "objectid", "encoding": encoding, "prefix": prefix},
              encoded_objectid(encoding, prefix))
      for encoding, prefix in [("hex", ""), ("base32", "o_"), ("base36", ""), ("base62", "")]),
    *(Variant(f"ulid-{output}", {"strategy": "ulid", "output": output}, ulid(output), ascending=True)
      for output in ("string", "uuid", "binary")),
    Variant("ulid-prefix", {"strategy": "ulid", "prefix": "e-"}, ulid("string", "e-"), ascending=True),
    *(Variant(f"snowflake-{output}", {"strategy": "snowflake", **keys}, snowflake(output, keys.get("prefix", "")),
              ascending=output != "int64")
      for output, keys in [("int64", {}), ("string", {"output": "string", "prefix": "n"}),
                           ("base58", {"encoding": "base58", "prefix": "s_"}), ("hex", {"encoding": "hex"})]),
    *(Variant(f"nanoid{size}-{number}",
              {"strategy": "nanoid", "size": size, "alphabet": alphabet, "prefix": prefix},
              nanoid(size, ALPHABETS.get(alphabet, alphabet), prefix))
      for number, (size, alphabet, prefix) in enumerate([
          (8, "base36", ""), (64, "base62", "~" * 64), (12, "digits", "K-"),
          (20, "".join(map(chr, range(0x20, 0x7F))), ""), (40, "01", "")])),
    Variant("permuted-base58", {**PERMUTED, "alphabet": "base58", "length": 8}, nanoid(8, ALPHABETS["base58"])),
    Variant("permuted-full", {**PERMUTED, "digits": 9, "leading_zeros": False}, digits_of(9, "int64", False)),
    *(Variant(f"digits{digits}-{output}{'' if zeros else '-full'}",
              {"strategy": "random-digits", "digits": digits, "output": output,
               "leading_zeros": zeros},
              digits_of(digits, output, zeros))
      for digits, output, zeros in [
          (9, "int32", True), (9, "int32", False), (12, "int64", True), (12, "int64", False),
          (18, "int64", True), (18, "int64", False), (12, "string", True), (12, "string", False),
          (34, "string", True), (34, "string", False)]),
]
# One of each strategy, as far as they make something other than plain numbers.
DEFAULTS = [
    Variant("uuid", {"strategy": "uuid"}, uuid_of(7, "standard"), ascending=True),
    Variant("ulid", {"strategy": "ulid"}, ulid("string"), ascending=True),
    Variant("snowflake", {"strategy": "snowflake"}, snowflake("int64")),
    Variant("nanoid", {"strategy": "nanoid"}, nanoid(21, ALPHABETS["url64"])),
    Variant("random-digits", {"strategy": "random-digits"}, digits_of(12, "int64", True)),
    Variant("permuted", {**PERMUTED, "digits": 12}, digits_of(12, "int64", True)),
]
