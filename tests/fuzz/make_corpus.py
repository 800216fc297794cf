"""Writes the seed inputs of the wire fuzz targets: one file per shape of message."""

import pathlib
import struct

ROOT = pathlib.Path(__file__).parent / "corpus"


def element(kind: int, key: str, value: bytes) -> bytes:
    return bytes([kind]) + key.encode() + b"\0" + value


def doc(*elements: bytes) -> bytes:
    content = b"".join(elements)
    return struct.pack("<i", len(content) + 5) + content + b"\0"


def text(key: str, value: str, kind: int = 2) -> bytes:
    return element(kind, key, struct.pack("<i", len(value) + 1) + value.encode() + b"\0")


def int32(key: str, value: int) -> bytes:
    return element(0x10, key, struct.pack("<i", value))


def array(key: str, *documents: bytes) -> bytes:
    return element(4, key, doc(*(element(3, str(i), d) for i, d in enumerate(documents))))


def sequence(name: str, *documents: bytes) -> bytes:
    content = name.encode() + b"\0" + b"".join(documents)
    return b"\1" + struct.pack("<i", len(content) + 4) + content


def message(op_code: int, rest: bytes) -> bytes:
    return struct.pack("<iiii", len(rest) + 16, 7, 0, op_code) + rest


def op_msg(*sections: bytes, flags: int = 0) -> bytes:
    return message(2013, struct.pack("<I", flags) + b"".join(sections))


def messages() -> dict[str, bytes]:
    fields = (text("insert", "orders"), text("$db", "shop"))
    nested = doc(int32("x", 1), element(3, "a", doc(element(3, "b", doc(int32("y", 2))))))
    blocked = doc(int32("a", 1))
    documents = sequence("documents", doc(), nested, blocked)
    compression = element(4, "compression", doc(text("0", "zlib")))
    errors = array("writeErrors", doc(int32("index", 0), int32("code", 53), text("errmsg", "e")))
    query = b"\0\0\0\0admin.$cmd\0\0\0\0\0\xff\xff\xff\xff"
    types = doc(
        element(1, "d", bytes(8)), text("s", "s"), element(5, "b", b"\1\0\0\0\4x"),
        element(7, "_id", bytes(12)), element(8, "t", b"\1"), element(0x0A, "n", b""),
        element(0x0B, "r", b"p\0i\0"), element(0x12, "l", bytes(8)), element(0xFF, "m", b""),
    )
    return {
        "insert_sequence": op_msg(b"\0" + doc(*fields), documents),
        "insert_sequence_first": op_msg(documents, b"\0" + doc(*fields)),
        "insert_array": op_msg(b"\0" + doc(fields[0], array("documents", nested, types), fields[1])),
        "insert_w0": op_msg(b"\0" + doc(*fields), documents, flags=2),
        "insert_symbol": op_msg(
            b"\0" + doc(text("insert", "orders", 0x0E), fields[1]), documents
        ),
        "hello": op_msg(b"\0" + doc(int32("hello", 1), compression, text("$db", "admin"))),
        "is_master": message(2004, query + doc(int32("isMaster", 1), compression)),
        "is_master_wrapped": message(
            2004, query + doc(element(3, "$query", doc(int32("isMaster", 1), compression)))
        ),
        "ping": op_msg(b"\0" + doc(int32("ping", 1), text("$db", "admin"))),
        "reply": op_msg(b"\0" + doc(int32("n", 0), errors, int32("ok", 1))),
        "hello_reply": op_msg(b"\0" + doc(text("setName", "rs0"), text("me", "db1:27017"))),
        "op_reply": message(1, bytes(16) + b"\1\0\0\0" + doc(text("setName", "rs0"))),
        "compressed": message(2012, bytes(9)),
        "unknown": message(4711, b"anything"),
    }


def main() -> None:
    all_messages = messages()
    for target in ("op_msg", "insert", "frame_reader"):
        folder = ROOT / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in all_messages.items():
            piece = b"\5" if target == "frame_reader" else b""
            (folder / name).write_bytes(piece + content)
    stream = b"".join(all_messages[n] for n in ("hello", "insert_array", "ping", "insert_sequence"))
    (ROOT / "frame_reader" / "stream").write_bytes(b"\x11" + stream)


if __name__ == "__main__":
    main()
