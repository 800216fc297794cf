"""Ids in inserts: every strategy, form of message and way of assigning, checked in the database.

What is stored is read over a connection that does not pass the proxy, as raw bytes.
"""

from __future__ import annotations

import itertools
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import bson
import pymongo
import pytest
from bson.codec_options import CodecOptions
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo.write_concern import WriteConcern

from support import elements as el
from support import wire
from support.elements import Element, document, elements, int32
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy
from support.servers import check_retried
from support.thief import insert_message
from support.values import (DEFAULTS, VARIANTS, Variant, digits_of, objectid, to_uuid, uuid_of)

BY_NAME = {variant.name: variant for variant in VARIANTS + DEFAULTS}

_MODES = ["missing", "missing-or-null", "driver", "always"]

# Databases name the rule, collections are fresh for each test.
RULES = [
    *({"ns": f"id-{v.name}.*", "field": "_id", **v.rule} for v in VARIANTS + DEFAULTS),
    *({"ns": f"field-{v.name}.*", "field": "made", **v.rule} for v in VARIANTS + DEFAULTS),
    {"ns": "dotted.*", "field": "registration.number", "strategy": "random-digits"},
    {"ns": "several.*", "field": "_id", "strategy": "uuid"},
    {"ns": "several.*", "field": "account", "strategy": "random-digits", "digits": 9,
     "output": "int32"},
    {"ns": "several.*", "field": "ref.a", "strategy": "objectid"},
    {"ns": "several.*", "field": "ref.b", "strategy": "uuid", "version": 4},
    *({"ns": f"assign-{mode}.*", "field": field, "strategy": "uuid", "assign": mode}
      for mode in _MODES for field in ("_id", "made")),
    {"ns": "kept.*", "field": "_id", "strategy": "random-digits", "assign": "driver",
     "keep_driver_id": "driver_id"},
    {"ns": "kept-always.*", "field": "_id", "strategy": "uuid", "assign": "always",
     "keep_driver_id": "driver_id"},
    {"ns": "window.*", "field": "_id", "strategy": "uuid", "assign": "driver",
     "driver_window": "24h"},
    {"ns": "tiny.*", "field": "made", "strategy": "random-digits", "digits": 1,
     "output": "int32", "max_fill": 0.99},
    {"ns": "first.wins", "field": "made", "strategy": "objectid"},
    {"ns": "first.*", "field": "made", "strategy": "uuid"},
    {"ns": "glob.a?c*", "field": "made", "strategy": "objectid"},
]

_collections = (f"c{i}" for i in itertools.count())


@pytest.fixture
def coll() -> str:
    return next(_collections)


@pytest.fixture
def through(proxy: Proxy):
    with wire.WireClient(proxy.address) as client:
        yield client


def stored(server: Mongod, db: str, coll: str, sort: str | None = "k") -> list[bytes]:
    """The documents as raw bytes, in the order of their field k."""
    raw = CodecOptions(document_class=RawBSONDocument)
    cursor = server.client[db].get_collection(coll, codec_options=raw).find()
    return [bytes(d.raw) for d in (cursor.sort(sort, 1) if sort else cursor)]


def numbered(count: int, rich: bool = False) -> list[bytes]:
    """Documents {k: 0, ...}, {k: 1, ...}; rich ones hold every BSON type."""
    more = el.every_type() if rich else [el.string("text", "some text to fill the document")]
    return [document(int32("k", i), *more) for i in range(count)]


def insert(coll: str, db: str, documents: list[bytes], form: str = "sequence",
           ordered: bool = True, **options) -> bytes:
    return insert_message(f"{db}.{coll}", documents, ordered, form, **options)


def check_ids(server: Mongod, db: str, coll: str, sent: list[bytes], variant: Variant) -> None:
    """Each document stored once, with a value of its own in front and else as it was sent."""
    found = stored(server, db, coll)
    assert len(found) == len(sent)
    values = []
    for before, after in zip(sent, found):
        (first,) = elements(document(after[4:-1].removesuffix(before[4:-1])))
        assert first.name == b"_id"
        variant.check(first)
        values.append(first.value)
    assert len(set(values)) == len(values)
    if variant.ascending:
        assert values == sorted(values) and found == stored(server, db, coll, sort="_id")


def check_fields(server: Mongod, db: str, coll: str, sent: list[bytes], variant: Variant) -> None:
    """As check_ids, for a field `made` at the end, behind the _id that the server put in front."""
    found = stored(server, db, coll)
    assert len(found) == len(sent)
    values = []
    for before, after in zip(sent, found):
        # Behind the server's ObjectId stands what was sent, and then one element more.
        assert (after[4:9], after[21:21 + len(before) - 5]) == (b"\x07_id\0", before[4:-1])
        (last,) = elements(document(after[21 + len(before) - 5:-1]))
        assert last.name == b"made"
        variant.check(last)
        values.append(last.value)
    assert len(set(values)) == len(values)


FORMS = ["body", "sequence", "sequence_first"]


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BY_NAME)
class TestStrategies:
    @pytest.mark.parametrize("count", [1, 100])
    def test_id(self, proxy, server, through, coll, name, form, ordered, count):
        sent = numbered(count, rich=True)
        reply = through.call(insert(coll, f"id-{name}", sent, form, ordered))
        assert (reply["ok"], reply["n"]) == (1, count) and "writeErrors" not in reply
        check_ids(server, f"id-{name}", coll, sent, BY_NAME[name])

    def test_field(self, proxy, server, through, coll, name, form, ordered):
        sent = numbered(100, rich=True)
        reply = through.call(insert(coll, f"field-{name}", sent, form, ordered))
        assert (reply["ok"], reply["n"]) == (1, 100) and "writeErrors" not in reply
        check_fields(server, f"field-{name}", coll, sent, BY_NAME[name])


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["objectid", "uuid7-standard", "digits12-int64"])
def test_ten_thousand_documents(proxy, server, through, coll, name, form, ordered):
    sent = numbered(10_000)
    reply = through.call(insert(coll, f"id-{name}", sent, form, ordered))
    assert (reply["ok"], reply["n"]) == (1, 10_000)
    check_ids(server, f"id-{name}", coll, sent, BY_NAME[name])


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("count", [1, 100, 10_000])
class TestPyMongo:
    """The ways in which PyMongo sends documents without an _id of its own."""

    def test_raw_documents(self, proxy, server, coll, count, ordered):
        sent = numbered(count)
        with proxy.client() as client:
            client["id-uuid"][coll].insert_many(
                [RawBSONDocument(d) for d in sent], ordered=ordered)
        check_ids(server, "id-uuid", coll, sent, BY_NAME["uuid"])

    def test_command(self, proxy, server, coll, count, ordered):
        with proxy.client() as client:
            reply = client["id-uuid"].command(
                "insert", coll, documents=[{"k": i} for i in range(count)], ordered=ordered)
        assert reply["n"] == count
        check_ids(server, "id-uuid", coll, [document(int32("k", i)) for i in range(count)],
                  BY_NAME["uuid"])

    def test_everyday_documents_keep_the_drivers_id(self, proxy, server, coll, count, ordered):
        sent = [{"k": i} for i in range(count)]
        with proxy.client() as client:
            result = client["field-random-digits"][coll].insert_many(sent, ordered=ordered)
        found = list(server.client["field-random-digits"][coll].find().sort("k"))
        assert [d["_id"] for d in found] == result.inserted_ids == [d["_id"] for d in sent]
        assert all(list(d) == ["_id", "k", "made"] for d in found)
        assert len({d["made"] for d in found}) == count


class TestFields:
    def test_dotted_path_makes_the_sub_document(self, server, through, coll):
        sent = numbered(3, rich=True)
        assert through.call(insert(coll, "dotted", sent))["n"] == 3
        for before, after in zip(sent, stored(server, "dotted", coll)):
            _, *others, last = elements(after)
            assert b"".join(e.raw for e in others) == before[4:-1]
            assert (last.type, last.name) == (0x03, b"registration")
            (number,) = elements(last.value)
            assert number.name == b"number"
            digits_of(12, "int64", True)(number)

    def test_several_fields_of_one_document(self, server, through, coll):
        sent = numbered(100, rich=True)
        assert through.call(insert(coll, "several", sent))["n"] == 100
        values: dict[str, set[bytes]] = {"_id": set(), "account": set(), "a": set(), "b": set()}
        for before, after in zip(sent, stored(server, "several", coll)):
            made_id, *others, account, ref = elements(after)
            assert b"".join(e.raw for e in others) == before[4:-1]
            assert (made_id.name, account.name, ref.name) == (b"_id", b"account", b"ref")
            a, b = elements(ref.value)
            assert (a.name, b.name) == (b"a", b"b")
            uuid_of(7, "standard")(made_id)
            digits_of(9, "int32", True)(account)
            objectid(a)
            uuid_of(4, "standard")(b)
            for key, value in zip(values, (made_id, account, a, b)):
                values[key].add(value.value)
        assert {len(v) for v in values.values()} == {100}

    def test_the_first_matching_rule_wins(self, server, through):
        for coll, kind in (("wins", 0x07), ("other", 0x05)):
            assert through.call(insert(coll, "first", [document(int32("k", 1))]))["n"] == 1
            assert elements(stored(server, "first", coll)[0])[-1].type == kind

    @pytest.mark.parametrize("coll, matches", [
        ("abc", True), ("abc.d", True), ("a.c", True), ("ac", False), ("xabc", False)])
    def test_glob(self, server, through, coll, matches):
        assert through.call(insert(coll, "glob", [document(int32("k", 1))]))["n"] == 1
        assert ("made" in server.client["glob"][coll].find_one()) == matches


def oid(seconds_ago: float) -> bytes:
    return struct.pack(">I", int(time.time() - seconds_ago)) + bytes.fromhex("aabbccddee000001")


class TestAssign:
    """What of the sent values is replaced; what is, is replaced where it stands."""

    # The value, and the modes that replace it.
    VALUES = {
        "null": (el.null("made"), {"missing-or-null", "driver", "always"}),
        "zero": (int32("made", 0), {"always"}),
        "string": (el.string("made", "mine"), {"always"}),
        "embedded": (el.embedded("made", *el.every_type()), {"always"}),
        "oid_as_string": (el.string("made", bytes(12).hex()), {"always"}),
    }
    # ObjectIds made this many seconds ago.
    AGES = {
        "new_oid": (1, {"driver", "always"}),
        "oid_of_4_minutes_ago": (240, {"driver", "always"}),
        "oid_of_6_minutes_ago": (360, {"always"}),
        "oid_of_tomorrow": (-86400, {"always"}),
    }

    def value(self, name: str) -> tuple[Element, set[str]]:
        if name in self.AGES:
            age, replacing = self.AGES[name]
            return el.element(0x07, "made", oid(age)), replacing
        return self.VALUES[name]

    @pytest.mark.parametrize("form", ["body", "sequence"])
    @pytest.mark.parametrize("value", [*VALUES, *AGES])
    @pytest.mark.parametrize("mode", _MODES)
    def test_field(self, server, through, coll, mode, value, form):
        sent, replacing = self.value(value)
        before, after = el.every_type(), [int32("k", 1), el.string("last", "one")]
        through.call(insert(coll, f"assign-{mode}",
                            [document(int32("_id", 1), *before, sent, *after)], form))
        _, *others = elements(stored(server, f"assign-{mode}", coll)[0])
        made = others.pop(len(before))
        assert others == before + after
        if mode in replacing:
            assert made.name == b"made"
            uuid_of(7, "standard")(made)
        else:
            assert made == sent

    @pytest.mark.parametrize("place", ["first", "last"])
    @pytest.mark.parametrize("value", [*VALUES, *AGES])
    @pytest.mark.parametrize("mode", _MODES)
    def test_id(self, server, through, coll, mode, value, place):
        (kind, _, content), replacing = self.value(value)
        if kind == 0x03:
            content = document(int32("a", 1))
        sent = el.element(kind, "_id", content)
        rest = [*el.every_type(), int32("k", 1), int32("made", 1)]
        if mode == "always":
            rest.pop()  # made is replaced in that mode as well
        parts = [sent, *rest] if place == "first" else [*rest, sent]
        reply = through.call(insert(coll, f"assign-{mode}", [document(*parts)]))
        assert reply["n"] == 1, reply
        first, *others = elements(stored(server, f"assign-{mode}", coll)[0])
        assert others[:len(rest)] == rest
        if mode in replacing:
            uuid_of(7, "standard")(first)
        else:
            assert first == sent

    @pytest.mark.parametrize("mode", _MODES)
    def test_missing(self, server, through, coll, mode):
        sent = numbered(100, rich=True)
        assert through.call(insert(coll, f"assign-{mode}", sent))["n"] == 100
        for before, after in zip(sent, stored(server, f"assign-{mode}", coll)):
            first, *others, last = elements(after)
            assert (first.name, last.name) == (b"_id", b"made")
            uuid_of(7, "standard")(first)
            uuid_of(7, "standard")(last)
            assert b"".join(e.raw for e in others) == before[4:-1]

    def test_documents_of_one_batch_are_judged_one_by_one(self, server, through, coll):
        sent = [document(int32("k", 0)), document(int32("_id", 7), int32("k", 1)),
                document(int32("k", 2), el.string("_id", "x")), document(int32("k", 3))]
        assert through.call(insert(coll, "id-uuid", sent))["n"] == 4
        ids = [elements(d)[0] for d in stored(server, "id-uuid", coll)]
        assert [e.type for e in ids] == [0x05, 0x10, 0x02, 0x05]
        assert ids[1:3] == [int32("_id", 7), el.string("_id", "x")]

    def test_a_request_in_which_nothing_is_assigned_is_stored_as_sent(
            self, server, through, coll):
        sent = [document(int32("_id", i), *el.every_type()) for i in range(100)]
        for form in ("body", "sequence"):
            name = f"{coll}-{form}"
            assert through.call(insert(name, "id-uuid", sent, form))["n"] == 100
            assert stored(server, "id-uuid", name, sort="_id") == sent

    @pytest.mark.parametrize("db", ["kept", "kept-always"])
    def test_the_drivers_id_is_kept_beside(self, proxy, server, coll, db):
        with proxy.client() as client:
            result = client[db][coll].insert_many([{"k": i} for i in range(100)])
        found = list(server.client[db][coll].find().sort("k"))
        assert [d["driver_id"] for d in found] == result.inserted_ids
        assert all(list(d) == ["_id", "k", "driver_id"] for d in found)
        assert not set(result.inserted_ids) & {d["_id"] for d in found if db == "kept-always"}
        assert all(isinstance(d["_id"], int if db == "kept" else bytes | bson.Binary)
                   for d in found)
        assert len({d["_id"] for d in found}) == 100

    def test_only_a_driver_id_is_kept_beside(self, server, through, coll):
        sent = [document(int32("_id", 5), int32("k", 0)), document(int32("k", 1))]
        assert through.call(insert(coll, "kept", sent))["n"] == 2
        names = [[e.name for e in elements(d)] for d in stored(server, "kept", coll)]
        assert names == [[b"_id", b"k"], [b"_id", b"k"]]

    def test_driver_window(self, server, through, coll):
        ages = {"new": 60, "old": 23 * 3600, "too_old": 25 * 3600}
        sent = [document(el.element(0x07, "_id", oid(age)), int32("k", i))
                for i, age in enumerate(ages.values())]
        assert through.call(insert(coll, "window", sent))["n"] == 3
        assert [elements(d)[0].type for d in stored(server, "window", coll)] == [5, 5, 7]


class TestPathNotViable:
    """A scalar or an array where a dotted path leads is that document's own error."""

    BAD = {
        "scalar": int32("registration", 5), "null": el.null("registration"),
        "string": el.string("registration", "x"),
        "array": el.array("registration", [document(int32("number", 1))]),
        "empty_array": el.array("registration", []),
    }

    @pytest.mark.parametrize("form", ["body", "sequence"])
    @pytest.mark.parametrize("bad", BAD)
    def test_unordered(self, server, through, coll, bad, form):
        sent = numbered(5)
        sent[0] = document(int32("k", 0), self.BAD[bad])
        sent[3] = document(int32("k", 3), self.BAD[bad])
        reply = through.call(insert(coll, "dotted", sent, form, ordered=False))
        assert (reply["ok"], reply["n"]) == (1, 3)
        assert [(e["index"], e["code"]) for e in reply["writeErrors"]] == [(0, 28), (3, 28)]
        found = list(server.client["dotted"][coll].find().sort("k"))
        assert [d["k"] for d in found] == [1, 2, 4]
        assert all("number" in d["registration"] for d in found)

    def test_beside_the_servers_own_errors(self, server, through, coll):
        """Documents 1 and 3 are duplicates of 0 and 2: the client's own keys."""
        keys = [1, 1, 2, 2, 3, 4]
        sent = [document(int32("_id", key), int32("k", i)) for i, key in enumerate(keys)]
        sent[4] = document(int32("_id", 3), int32("k", 4), self.BAD["scalar"])
        reply = through.call(insert(coll, "dotted", sent, ordered=False))
        assert reply["n"] == 3
        assert [(e["index"], e["code"]) for e in reply["writeErrors"]] == [
            (1, 11000), (3, 11000), (4, 28)]
        assert sorted(d["_id"] for d in server.client["dotted"][coll].find()) == [1, 2, 4]

    def test_pymongo_sees_an_ordinary_write_error(self, proxy, coll):
        with proxy.client() as client:
            with pytest.raises(pymongo.errors.BulkWriteError) as failure:
                client["dotted"][coll].insert_many(
                    [{"k": 0}, {"k": 1, "registration": 1}, {"k": 2}])
        (error,) = failure.value.details["writeErrors"]
        assert (error["index"], error["code"]) == (1, 28)
        assert failure.value.details["nInserted"] == 1


class TestExhausted:
    """Ten values in all: nothing is sent unless all are there."""

    def test_as_many_as_there_are(self, server, through, coll):
        assert through.call(insert(coll, "tiny", numbered(10)))["n"] == 10
        assert sorted(d["made"] for d in server.client["tiny"][coll].find()) == list(range(10))

    @pytest.mark.parametrize("form", ["body", "sequence"])
    @pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
    def test_one_more(self, server, through, coll, ordered, form):
        reply = through.call(insert(coll, "tiny", numbered(11), form, ordered))
        assert (reply["ok"], reply["code"], reply["codeName"]) == (0, 96, "OperationFailed")
        for word in (f"tiny.{coll}", "made", "random-digits"):
            assert word in reply["errmsg"]
        assert not reply.get("errorLabels")
        assert server.client["tiny"][coll].find_one() is None
        assert through.call({"ping": 1, "$db": "admin"})["ok"] == 1


class TestUnacknowledged:
    def test_pymongo(self, proxy, server, coll):
        sent = numbered(100)
        with proxy.client() as client:
            target = client["id-uuid"].get_collection(coll, write_concern=WriteConcern(w=0))
            target.insert_many([RawBSONDocument(d) for d in sent])
            eventually(lambda: server.client["id-uuid"][coll].count_documents({}) == 100)
        check_ids(server, "id-uuid", coll, sent, BY_NAME["uuid"])

    def test_more_to_come_gets_no_reply(self, server, through, coll):
        sent = numbered(3)
        through.send(insert(coll, "id-uuid", sent, more={"writeConcern": {"w": 0}},
                            flags=wire.MORE_TO_COME))
        ping = wire.command({"ping": 1, "$db": "admin"}, request_id=77)
        through.send(ping)
        assert through.receive().response_to == 77
        check_ids(server, "id-uuid", coll, sent, BY_NAME["uuid"])

    def test_without_the_flag_there_is_a_reply(self, server, through, coll):
        sent = numbered(3)
        reply = through.call(insert(coll, "id-uuid", sent, more={"writeConcern": {"w": 0}}))
        assert (reply.get("n", 0), reply["ok"]) == (0, 1)  # 4.4 has no n
        check_ids(server, "id-uuid", coll, sent, BY_NAME["uuid"])

    def test_without_an_id_it_is_dropped(self, server, through, coll):
        through.send(insert(coll, "tiny", numbered(11), more={"writeConcern": {"w": 0}},
                            flags=wire.MORE_TO_COME))
        through.send(wire.command({"ping": 1, "$db": "admin"}, request_id=78))
        assert through.receive().response_to == 78
        assert server.client["tiny"][coll].find_one() is None


class TestSessions:
    """What only a replica set has."""

    def test_transaction(self, replica_proxy, replica_set, coll):
        sent = numbered(5)

        def work(session):
            client["id-uuid"][coll].insert_many([RawBSONDocument(d) for d in sent],
                                                session=session)
            client["field-uuid"][coll].insert_one({"k": 1}, session=session)
            assert replica_set.client["id-uuid"][coll].find_one() is None

        with replica_proxy.client() as client, client.start_session() as session:
            session.with_transaction(work)
        check_ids(replica_set, "id-uuid", coll, sent, BY_NAME["uuid"])
        assert "made" in replica_set.client["field-uuid"][coll].find_one()

    def test_aborted_transaction(self, replica_proxy, replica_set, coll):
        replica_set.client["id-uuid"].create_collection(coll)
        with replica_proxy.client() as client, client.start_session() as session:
            session.start_transaction()
            client["id-uuid"][coll].insert_one(RawBSONDocument(numbered(1)[0]), session=session)
            session.abort_transaction()
        assert replica_set.client["id-uuid"][coll].find_one() is None

    def test_a_replayed_retryable_write_stores_nothing_again(
            self, replica_proxy, replica_set, coll):
        session = {"lsid": {"id": bson.Binary(ObjectId().binary + b"abcd", 4)},
                   "txnNumber": bson.Int64(1)}
        message = insert(coll, "id-uuid", numbered(3), more=session)
        with wire.WireClient(replica_proxy.address) as client:
            assert client.call(message)["n"] == 3
            before = stored(replica_set, "id-uuid", coll)
            again = client.call(message)
        assert again["n"] == 3
        check_retried(again, range(3))
        assert stored(replica_set, "id-uuid", coll) == before

    def test_pymongo_retries_after_an_error_of_the_server(
            self, replica_proxy, replica_set, coll):
        """The server says NotWritablePrimary once; the driver sends the insert again."""
        replica_set.client.admin.command(
            "configureFailPoint", "failCommand", mode={"times": 1},
            data={"failCommands": ["insert"], "errorCode": 10107,
                  "errorLabels": ["RetryableWriteError"], "namespace": f"id-uuid.{coll}"})
        sent = numbered(10)
        with replica_proxy.client() as client:
            client["id-uuid"][coll].insert_many([RawBSONDocument(d) for d in sent])
        check_ids(replica_set, "id-uuid", coll, sent, BY_NAME["uuid"])


class TestMessages:
    """The same insert in unusual clothes."""

    @pytest.mark.parametrize("form", FORMS)
    def test_checksum_is_renewed(self, server, through, coll, form):
        sent = numbered(10)
        through.send(insert(coll, "id-uuid", sent, form, flags=wire.CHECKSUM_PRESENT))
        reply = through.receive()  # which verifies the checksum of the reply
        assert reply.body["n"] == 10 and reply.flags & wire.CHECKSUM_PRESENT
        check_ids(server, "id-uuid", coll, sent, BY_NAME["uuid"])

    def test_the_reply_is_the_servers(self, server, through, coll):
        """Field for field as on a direct connection, n, ok, opTime and all."""
        with wire.WireClient(server.address) as direct:
            expected = direct.call(insert(coll, "id-uuid", numbered(3)))
        assert list(through.call(insert(coll, "id-uuid", numbered(3)))) == list(expected)

    @pytest.mark.tsan
    def test_pipelined(self, server, through, coll):
        """Everything sent at once; the answers come in order, each for its request."""
        pings = [wire.command({"ping": 1, "$db": "admin"}, request_id=i) for i in (1, 5)]
        find = wire.command({"find": coll, "$db": "id-uuid"}, request_id=2)
        through.send(pings[0] + find + insert(coll, "id-uuid", numbered(3), request_id=3) +
                     wire.command({"find": coll, "$db": "id-uuid"}, request_id=4) + pings[1])
        replies = [through.receive() for _ in range(5)]
        assert [r.response_to for r in replies] == [1, 2, 3, 4, 5]
        assert replies[1].body["cursor"]["firstBatch"] == []
        assert len(replies[3].body["cursor"]["firstBatch"]) == 3

    @pytest.mark.tsan
    def test_many_pipelined_inserts_of_all_sizes(self, server, through, coll):
        sizes = [1, 100, 2, 50, 1000, 3, 1] * 5
        messages, sent = [], []
        for count in sizes:
            batch = [document(int32("k", len(sent) + i), el.string("s", "x" * (i % 300)))
                     for i in range(count)]
            form = FORMS[len(messages) % 3]
            messages.append(insert(coll, "id-uuid", batch, form))
            messages.append(wire.command({"ping": 1, "$db": "admin"}))
            sent += batch
        with ThreadPoolExecutor(1) as sender:
            sending = sender.submit(through.send, b"".join(messages))
            replies = [through.receive().body.get("n") for _ in messages]
            sending.result()
        assert replies[::2] == sizes
        check_ids(server, "id-uuid", coll, sent, BY_NAME["uuid"])

    @pytest.mark.parametrize("form", FORMS)
    def test_byte_by_byte(self, server, through, coll, form):
        sent = numbered(3, rich=True)
        for byte in insert(coll, "id-uuid", sent, form):
            through.send(bytes([byte]))
        assert through.receive().body["n"] == 3
        check_ids(server, "id-uuid", coll, sent, BY_NAME["uuid"])


class TestUntouched:
    @pytest.mark.parametrize("form", FORMS)
    def test_a_namespace_without_a_rule(self, server, through, coll, form):
        sent = [document(int32("_id", i), *el.every_type()) for i in range(10)]
        assert through.call(insert(coll, "no-rules", sent, form))["n"] == 10
        assert stored(server, "no-rules", coll, sort="_id") == sent

    @pytest.mark.parametrize("db, name", [
        ("admin", "c"), ("config", "c"), ("local", "c"), ("shop", "system.js")])
    def test_what_belongs_to_the_server(self, server, start_proxy, coll, db, name):
        proxy = start_proxy({"upstream": {"uri": f"mongodb://{server.address}"}, "rules": [
            {"ns": "*", "field": "made", "strategy": "objectid"}]})
        name = name if name.startswith("system.") else coll
        key = f"{coll}-key"
        with wire.WireClient(proxy.address) as client:
            assert client.call(insert(name, db, [document(el.string("_id", key))]))["n"] == 1
            assert client.call(insert(coll, "any", [document(el.string("_id", key))]))["n"] == 1
        assert server.client[db][name].find_one({"_id": key}) == {"_id": key}
        assert "made" in server.client["any"][coll].find_one()

    def test_updates_are_relayed(self, proxy, server, coll):
        server.client["field-uuid"][coll].insert_one({"k": 1})
        with proxy.client() as client:
            client["field-uuid"][coll].update_one({"k": 1}, {"$set": {"x": 1}})
            client["field-uuid"][coll].replace_one({"k": 1}, {"k": 1, "y": 1})
        assert all("made" not in d for d in server.client["field-uuid"][coll].find())


class TestSizes:
    LIMIT = 16 * 1024 * 1024

    def sized(self, size: int) -> bytes:
        empty = document(int32("k", 0), el.string("s", ""))
        return document(int32("k", 0), el.string("s", "x" * (size - len(empty))))

    def test_the_largest_document_that_has_room_for_its_id(self, server, through, coll):
        sent = self.sized(self.LIMIT - 17)
        assert through.call(insert(coll, "id-objectid", [sent]))["n"] == 1
        check_ids(server, "id-objectid", coll, [sent], BY_NAME["objectid"])

    @pytest.mark.parametrize("size", [LIMIT - 16, LIMIT, LIMIT + 1])
    def test_larger_ones_are_the_servers_to_refuse(self, server, through, coll, size):
        reply = through.call(insert(coll, "id-objectid", [self.sized(size)]))
        (error,) = reply["writeErrors"]
        assert (reply["n"], error["index"], error["code"]) == (0, 0, 2)
        assert server.client["id-objectid"][coll].find_one() is None

    def test_several_large_documents_in_one_message(self, server, through, coll):
        sent = [document(int32("k", i), el.string("s", chr(97 + i) * 10_000_000))
                for i in range(4)]
        assert through.call(insert(coll, "id-uuid", sent))["n"] == 4
        check_ids(server, "id-uuid", coll, sent, BY_NAME["uuid"])


@pytest.mark.tsan
def test_many_clients_at_once(proxy, server, coll):
    """Sixteen clients, each with connections of its own; every value is distinct."""
    sent = [[document(int32("k", c * 1000 + i)) for i in range(1000)] for c in range(16)]

    def client(batch: list[bytes]) -> None:
        with wire.WireClient(proxy.address) as connection:
            for at in range(0, 1000, 50):
                form = FORMS[at // 50 % 3]
                assert connection.call(insert(coll, "id-uuid", batch[at:at + 50], form))["n"] == 50

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(client, sent))
    found = stored(server, "id-uuid", coll)
    assert len(found) == 16_000
    ids = {to_uuid(elements(d)[0], "standard") for d in found}
    assert len(ids) == 16_000
