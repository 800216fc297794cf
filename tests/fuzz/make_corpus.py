"""Writes the seed inputs of the wire fuzz targets: one file per shape of message."""

import pathlib
import struct
import zlib

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


def double(key: str, value: float) -> bytes:
    return element(1, key, struct.pack("<d", value))


def int64(key: str, value: int) -> bytes:
    return element(0x12, key, struct.pack("<q", value))


def timestamp(key: str, value: int) -> bytes:
    return element(0x11, key, struct.pack("<Q", value))


def duplicate(index: int, *keys: str) -> bytes:
    about = "collection: shop.orders index: _id_ dup key"
    errmsg = text("errmsg", "E11000 duplicate key error " + about)
    pattern = [element(3, "keyPattern", doc(*(int32(key, 1) for key in keys)))] if keys else []
    return doc(int32("index", index), int32("code", 11000), errmsg, *pattern)


def numbers(key: str, *values: int) -> bytes:
    return element(4, key, doc(*(int32(str(i), v) for i, v in enumerate(values))))


def reply(n: int, *errors: bytes, more: bytes = b"") -> bytes:
    """In mongod's order of fields."""
    op_time = element(3, "opTime", doc(timestamp("ts", n + 5), int64("t", 1)))
    failed = array("writeErrors", *errors) if errors else b""
    signature = element(3, "signature", doc(element(5, "hash", b"\1\0\0\0\0h"), int64("keyId", n)))
    cluster = element(3, "$clusterTime", doc(timestamp("clusterTime", n + 6), signature))
    return op_msg(b"\0" + doc(int32("n", n), element(7, "electionId", bytes(12)), op_time, failed,
                              more, double("ok", 1), cluster, timestamp("operationTime", n + 5)))


def failure(code: int, errmsg: str, *labels: str) -> bytes:
    named = [element(4, "errorLabels", doc(*(text(str(i), n) for i, n in enumerate(labels))))]
    return op_msg(b"\0" + doc(double("ok", 0), text("errmsg", errmsg), int32("code", code),
                              *(named if labels else [])))


def pieces(*contents: bytes) -> bytes:
    """Of fuzz_exchange: an event byte and the length before each message."""
    return b"".join(b"\3" + struct.pack("<I", len(c))[:3] + c for c in contents)


def exchanges() -> dict[str, bytes]:
    unordered = element(8, "ordered", b"\0")
    txn = int64("txnNumber", 5)
    transaction = txn + element(8, "autocommit", b"\0")

    def insert(options: bytes = b"", collection: str = "orders") -> bytes:
        fields = doc(text("insert", collection), options, text("$db", "shop"))
        documents = (doc(int32("x", i)) for i in range(4))
        return op_msg(b"\0" + fields, sequence("documents", *documents))

    blocked = op_msg(b"\0" + doc(text("insert", "orders"), txn, text("$db", "shop"), array(
        "documents", doc(int32("x", 0)), doc(int32("a", 1), int32("x", 1)), doc(int32("x", 2)))))
    label = element(4, "errorLabels", doc(text("0", "RetryableWriteError")))
    concern = element(3, "writeConcernError", doc(int32("code", 64), text("errmsg", "late")))
    invalid = doc(int32("index", 0), int32("code", 121), text("errmsg", "invalid"))
    return {
        "lucky": pieces(insert(), reply(4)),
        "plain": pieces(insert(unordered, "plain"), reply(3, duplicate(2, "_id")), reply(1)),
        "unordered": pieces(insert(unordered + txn),
                            reply(2, duplicate(1, "_id"), duplicate(3, "a")),
                            reply(1, duplicate(0, "a.b")), reply(1)),
        "ordered": pieces(insert(txn), reply(1, duplicate(1, "_id")), reply(2, duplicate(2, "a.b")),
                          reply(1, more=numbers("retriedStmtIds", 3))),
        "given_up": pieces(insert(unordered), reply(3, duplicate(0, "_id")),
                           *[reply(0, duplicate(0, "_id"))] * 4),
        "foreign": pieces(insert(unordered), reply(1, invalid, duplicate(1, "mail"),
                                                   duplicate(2, "_id")), reply(1, more=concern)),
        "by_index_name": pieces(insert(), reply(0, duplicate(0)), reply(4)),
        "client_numbers": pieces(insert(txn + numbers("stmtIds", 9, -1, 5, 7)),
                                 reply(2, duplicate(2, "_id")), reply(2)),
        "first_number": pieces(insert(txn + int32("stmtId", 40)), reply(2, duplicate(2, "_id")),
                               reply(2)),
        "time": pieces(insert(int32("maxTimeMS", 8)), *[reply(0, duplicate(0, "_id"))] * 3),
        "transaction": pieces(insert(transaction), reply(1, duplicate(1, "_id"))),
        "surface": pieces(insert(transaction, "out"), reply(1, duplicate(1, "code"))),
        "exhausted": pieces(insert(unordered, "out"), *[reply(0, *(
            duplicate(i, "code") for i in range(4)))] * 12),
        "top_level": pieces(insert(), failure(10107, "not primary", "RetryableWriteError")),
        "numbers_rejected": pieces(insert(unordered + txn), reply(3, duplicate(1, "_id")),
                                   failure(40415, "BSON field 'insert.stmtIds' is unknown")),
        "more_to_come": pieces(insert(), op_msg(b"\0" + doc(int32("n", 1), array(
            "writeErrors", duplicate(1, "_id")), double("ok", 1)), flags=2)),
        "w0": pieces(insert(unordered + element(3, "writeConcern", doc(int32("w", 0)))), reply(0)),
        "refused": pieces(blocked, reply(0, duplicate(0, "_id")), reply(1, doc(
            int32("index", 1), int32("code", 53), text("errmsg", "array")))),
        "labels": pieces(insert(txn), reply(0, duplicate(0, "_id"), more=label),
                         reply(4, more=label)),
    }


def merges() -> dict[str, bytes]:
    """Of fuzz_reply_merge: replies to batches of a few documents."""
    retried = numbers("retriedStmtIds", 0, 2)
    label = element(4, "errorLabels", doc(text("0", "A"), text("1", "B")))
    concern = element(3, "writeConcernError", doc(int32("code", 64)))
    bare = op_msg(b"\0" + doc(double("ok", 1)))
    in_transaction = op_msg(b"\0" + doc(int32("n", 0), timestamp("opTime", 0),
                                        array("writeErrors", duplicate(0)), double("ok", 1)))

    def bulk(*results: bytes, n: int, errors: int = 0, more: bytes = b"") -> bytes:
        cursor = doc(int64("id", 0), array("firstBatch", *results), text("ns", "admin.$cmd.bulkWrite"))
        counts = (int32(name, n) for name in ("nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"))
        return op_msg(b"\0" + doc(element(3, "cursor", cursor), int32("nErrors", errors), *counts, more,
                                  double("ok", 1)))

    def stored(index: int) -> bytes:
        return doc(double("ok", 1), int32("idx", index), int32("n", 1))

    def taken(index: int) -> bytes:
        return doc(double("ok", 0), int32("idx", index), int32("code", 11000), text("errmsg", "E11000"))

    bulks = pieces(bulk(stored(0), taken(1), n=1, errors=1, more=retried), bulk(stored(1), n=1))
    return {
        "bulk": b"\x0b" + bulks[1:],
        "bulk_errors_only": b"\x1b" + bulks[1:],
        "a_cursor_of_no_bulk_write": pieces(
            reply(1, more=element(3, "cursor", doc(array("firstBatch", stored(4711), doc()))))),
        "one": pieces(reply(3)),
        "cured": pieces(reply(2, duplicate(1, "_id")), reply(1)),
        "late_first": pieces(reply(3, more=retried + label), reply(0, duplicate(0), duplicate(2))),
        "concern": pieces(reply(3, more=concern + label), reply(1, more=concern + retried)),
        "bare": pieces(reply(1), bare, reply(3)),
        "transaction": pieces(in_transaction),
    }


def hellos() -> dict[str, bytes]:
    """Replies of servers to hello."""
    def names(key: str, *values: str) -> bytes:
        return element(4, key, doc(*(text(str(i), value) for i, value in enumerate(values))))

    def flag(key: str) -> bytes:
        return element(8, key, b"\1")

    ok = double("ok", 1)
    topology = element(3, "topologyVersion", doc(element(7, "processId", bytes(12))))
    hosts = names("hosts", "DB1:1", "db2:1", "db3:1")
    member = (hosts, text("setName", "rs0"), int32("setVersion", 2))
    primary = doc(topology, *member, flag("isWritablePrimary"), text("primary", "db1:1"),
                  text("me", "db1:1"), element(7, "electionId", bytes(12)), ok)
    secondary = doc(*member, names("passives", "db4:1"), names("arbiters", "db5:1"),
                    flag("secondary"), text("primary", "db9:1"), text("me", "db2:1"), ok)
    op_reply = bytes(16) + b"\1\0\0\0"
    return {
        "primary": op_msg(b"\0" + primary),
        "secondary": op_msg(b"\0" + secondary),
        "stream": op_msg(b"\0" + primary, flags=2),
        "op_reply": message(1, op_reply + primary),
        "arbiter": op_msg(b"\0" + doc(*member, flag("arbiterOnly"), ok)),
        "ghost": op_msg(b"\0" + doc(flag("isreplicaset"), ok)),
        "mongos": op_msg(b"\0" + doc(text("msg", "isdbgrid"), ok)),
        "standalone": op_msg(b"\0" + doc(flag("ismaster"), ok)),
        "error": op_msg(b"\0" + failure(91, "shutting down")),
        "not_names": op_msg(b"\0" + doc(int32("me", 1), text("hosts", "db1:1"), ok)),
    }


def logins() -> dict[str, bytes]:
    """What logs in by a client certificate, and by a password."""
    mechanism = text("mechanism", "MONGODB-X509")
    by_certificate = (int32("authenticate", 1), mechanism)
    payload = element(5, "payload", b"\2\0\0\0\0n,")
    scram = (int32("saslStart", 1), text("mechanism", "SCRAM-SHA-256"), payload)
    speculative = element(3, "speculativeAuthenticate", doc(*by_certificate))
    password = element(3, "speculativeAuthenticate", doc(*scram))
    unterminated = element(2, "x", b"\3\0\0\0abc")
    external = text("$db", "$external")
    query = b"\0\0\0\0$external.$cmd\0\0\0\0\0\xff\xff\xff\xff"
    hello, is_master = int32("hello", 1), int32("isMaster", 1)
    return {
        "authenticate": op_msg(b"\0" + doc(*by_certificate, external)),
        "authenticate_last": op_msg(sequence("x", doc()), b"\0" + doc(*by_certificate, external)),
        "authenticate_silent": op_msg(b"\0" + doc(*by_certificate, external), flags=2),
        "sasl_start": op_msg(b"\0" + doc(*scram, external)),
        "sasl_start_x509": op_msg(b"\0" + doc(int32("saslStart", 1), mechanism, payload)),
        "sasl_start_x509_within": op_msg(b"\0" + doc(
            int32("saslStart", 1), text("mechanism", "SCRAM\0MONGODB-X509\0"), payload)),
        "two_mechanisms": op_msg(b"\0" + doc(*scram, mechanism)),
        "legacy": message(2004, query + doc(*by_certificate)),
        "legacy_wrapped": message(2004, query + doc(element(3, "$query", doc(*by_certificate)))),
        "legacy_array": message(2004, query + doc(element(4, "query", doc(*by_certificate)))),
        "hello": op_msg(b"\0" + doc(hello, speculative, text("$db", "admin"))),
        "hello_scram": op_msg(b"\0" + doc(hello, password, text("$db", "admin"))),
        "hello_both": op_msg(b"\0" + doc(hello, password, speculative)),
        "hello_broken": op_msg(b"\0" + doc(hello, unterminated, speculative)),
        "is_master": message(2004, query + doc(is_master, speculative)),
        "is_master_wrapped": message(
            2004, query + doc(element(3, "$query", doc(is_master, speculative)))),
        "kind_2": op_msg(b"\2" + doc(), b"\0" + doc(*by_certificate, external)),
        "insert": messages()["insert_sequence"],
    }


def nexts() -> dict[str, bytes]:
    """{uint16 length, request, reply}"""
    admin, field = text("$db", "admin"), text("field", "number")
    asks = (text("idproxy", "next"), text("ns", "shop.orders"))
    denied = doc(element(1, "ok", bytes(8)), text("errmsg", "no"), int32("code", 13))
    one = element(1, "ok", struct.pack("<d", 1))

    def refusing(code: int) -> bytes:
        errors = array("writeErrors", doc(int32("index", 0), int32("code", code), text("errmsg", "e")))
        return doc(int32("n", 0), errors, one)

    def exchange(request: bytes, reply: bytes, flags: int = 0) -> bytes:
        asked = op_msg(b"\0" + request, flags=flags)
        return struct.pack("<H", len(asked)) + asked + op_msg(b"\0" + reply)

    plain = doc(*asks, field, admin)

    def assign(where: bytes, *replies: bytes) -> bytes:
        asked = op_msg(b"\0" + doc(text("idproxy", "assign"), text("ns", "shop.orders"), field,
                                   element(3, "filter", where), admin))
        return struct.pack("<H", len(asked)) + asked + b"".join(op_msg(b"\0" + each) for each in replies)

    def cursor(*documents: bytes) -> bytes:
        return doc(element(3, "cursor", doc(array("firstBatch", *documents))), one)

    by_id, by_sku = doc(int32("_id", 1)), doc(text("sku", "x"))
    last = element(3, "lastErrorObject", doc(int32("n", 1), element(8, "updatedExisting", b"\1")))
    none = element(3, "lastErrorObject", doc(int32("n", 0), element(8, "updatedExisting", b"\0")))
    given = doc(last, element(3, "value", doc(element(18, "number", bytes(8)))), one)
    nothing = doc(none, element(10, "value", b""), one)
    index = doc(element(3, "key", doc(int32("sku", 1))), text("name", "i"), element(8, "unique", b"\1"))
    return {
        "assign": assign(by_id, given),
        "assign_nothing": assign(by_id, nothing, cursor()),
        "assign_there": assign(by_id, nothing, cursor(doc(int32("number", 7)))),
        "assign_by_index": assign(by_sku, cursor(index), given),
        "assign_denied": assign(by_sku, denied),
        "may": exchange(plain, refusing(53)),
        "may_many": exchange(doc(*asks, field, int32("count", 300), admin), refusing(53)),
        "may_by_shard_key": exchange(plain, refusing(61)),
        "other_write_error": exchange(plain, refusing(166)),
        "denied": exchange(plain, denied),
        "stored": exchange(plain, doc(int32("n", 1), one)),
        "no_rule": exchange(doc(*asks, text("field", "none"), admin), refusing(53)),
        "generic": exchange(doc(*asks, field, int32("maxTimeMS", 5), text("apiVersion", "1"),
                                text("comment", "c"), element(3, "lsid", doc()), admin), refusing(53)),
        "exhaust": exchange(plain, refusing(53), flags=1 << 16),
    }


def upserts() -> dict[str, bytes]:
    """Updates and findAndModifies of clients, and choices for the model of the server."""
    def embedded(key: str, *fields: bytes) -> bytes:
        return element(3, key, doc(*fields))

    upsert = element(8, "upsert", b"\1")
    query, set_x = embedded("q", int32("k", 1)), embedded("$set", int32("x", 1))
    on_insert = embedded("$setOnInsert", int32("y", 1))

    def statement(update: bytes, *more: bytes) -> bytes:
        return doc(query, update, upsert, *more)

    all_forms = [
        statement(embedded("u", set_x)), statement(embedded("u", on_insert, set_x)),
        statement(embedded("u", int32("x", 1))), statement(embedded("u")),
        statement(array("u", doc(set_x), doc(set_x))), statement(element(4, "u", doc())),
        statement(embedded("u", set_x), element(8, "multi", b"\1")),
        doc(embedded("q", element(4, "$or", doc(embedded("0", int32("number", 1))))),
            embedded("u", set_x), upsert),
    ]
    db = text("$db", "shop")
    update, raw = text("update", "orders"), text("update", "raw")
    modify = (embedded("query", int32("k", 1)), embedded("update", set_x), upsert, db)
    any_message = {
        "sequence": op_msg(b"\0" + doc(update, db), sequence("updates", *all_forms)),
        "sequence_first": op_msg(sequence("updates", *all_forms), b"\0" + doc(raw, db)),
        "array": op_msg(b"\0" + doc(raw, array("updates", *all_forms), db)),
        "modify": op_msg(b"\0" + doc(text("findAndModify", "orders"), *modify)),
        "modify_raw": op_msg(b"\0" + doc(text("findandmodify", "raw"), *modify)),
    }
    choices = {
        f"model_{options}_{seed}": bytes([options, *((seed * 37 + i * 11) % 251 for i in range(60))])
        for options in (0, 1, 2, 3, 4, 5, 8, 9) for seed in (1, 2)}
    return {**{name: b"\1" + content for name, content in any_message.items()},
            **{name: b"\0" + content for name, content in choices.items()}}


def bulk_writes() -> dict[str, bytes]:
    """bulkWrites of clients, and choices for the model of the server."""
    def embedded(key: str, *fields: bytes) -> bytes:
        return element(3, key, doc(*fields))

    update = (embedded("filter", int32("k", 1)),
              embedded("updateMods", embedded("$set", int32("x", 1))), element(8, "upsert", b"\1"))
    ops = [
        *(doc(int32("insert", ns), embedded("document", int32("k", ns))) for ns in range(4)),
        doc(int32("insert", 3), embedded("document", int32("a", 1))),
        doc(int32("insert", 1), embedded("document", int32("number", 0))),
        *(doc(int32("update", ns), *update) for ns in range(4)),
        doc(int32("delete", 1), embedded("filter")),
    ]
    ns_info = [doc(text("ns", ns)) for ns in ("plain.notes", "shop.orders", "crm.people", "raw.a")]
    fields = (int32("bulkWrite", 1), text("$db", "admin"), element(8, "errorsOnly", b"\1"))
    any_message = {
        "sequences": op_msg(b"\0" + doc(*fields), sequence("ops", *ops), sequence("nsInfo", *ns_info)),
        "turned": op_msg(sequence("nsInfo", *ns_info), b"\0" + doc(*fields), sequence("ops", *ops)),
        "arrays": op_msg(b"\0" + doc(*fields, array("nsInfo", *ns_info), array("ops", *ops))),
    }
    choices = {
        f"model_{options}_{seed}": bytes([options, *((seed * 37 + i * 11) % 251 for i in range(80))])
        for options in range(0, 48, 5) for seed in (1, 2)}
    return {**{name: b"\1" + content for name, content in any_message.items()},
            **{name: b"\0" + content for name, content in choices.items()}}


def compressed() -> dict[str, bytes]:
    """What each compressor makes of small and of large contents, and blocks of snappy by hand."""
    # Of scripts/venv.
    import snappy
    from backports import zstd

    compress = [snappy.compress, zlib.compress, zstd.compress]
    names = ["snappy", "zlib", "zstd"]
    noise = bytes(i * i * 31 % 251 for i in range(5000))
    contents = {"ping": messages()["ping"][16:], "insert": messages()["insert_array"][16:],
                "zeros": bytes(60_000), "text": b"abcabcd" * 1500, "noise": noise}
    found = {
        f"{name}_{what}": bytes([at]) + struct.pack("<HH", len(content) - 1, 30) +
        compress[at](content)
        for at, name in enumerate(names) for what, content in contents.items()}
    for name in names:
        found[f"{name}_larger"] = found[f"{name}_text"][:1] + b"\xff\xff" + found[f"{name}_text"][3:]
        found[f"{name}_behind"] = found[f"{name}_text"] + b"x"
    blocks = {"copies": "08 08616263 0503", "four": "08 08616263 1303000000",
              "long_literal": "03 fc02000000 616263"}
    return {**found, **{f"snappy_{name}": b"\0\7\0\4\0" + bytes.fromhex(block)
                        for name, block in blocks.items()}}


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
    for target, inputs in (
            ("exchange", exchanges()), ("hello", hellos()), ("login", logins()),
            ("compressed", compressed()), ("next", nexts()), ("reply_merge", merges()), ("upsert", upserts()),
            ("bulk_write", bulk_writes())):
        folder = ROOT / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in inputs.items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
