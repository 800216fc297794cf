"""Duplicates as other servers report them: without keyPattern, and the index's name, if there is one,
at the end of the text. The upstream is a fake server; the store, which knows the collection's
indexes, is a real one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support import wire
from support.fake_server import Answer, FakeServer, Request, reply_to
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.thief import insert_message

_DIGITS = {"strategy": "random-digits", "digits": 12, "leading_zeros": False}
RULES = [
    {"ns": "number.*", "field": "number", **_DIGITS},
    {"ns": "id.*", "field": "_id", **_DIGITS},
]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture(scope="module")
def proxy(server: FakeServer, standalone: Mongod) -> Iterator[Proxy]:
    with Proxy(configuration(server, RULES, standalone)) as running:
        yield running


def says(errmsg: str) -> Answer:
    error = {"index": 0, "code": 11000, "errmsg": errmsg}
    return lambda request: reply_to(request, {"n": 0, "writeErrors": [error], "ok": 1.0})


def inserts(server: FakeServer, proxy: Proxy, ns: str, errmsg: str,
            document: dict[str, Any]) -> list[Request]:
    """What the server gets of an insert whose first attempt it refuses with this text."""
    server.expect(says(errmsg))
    with wire.WireClient(proxy.address) as client:
        reply = client.call(insert_message(ns, [document]))
        assert reply["n"] == len(server.inserts) - 1
        assert ("writeErrors" in reply) == (len(server.inserts) == 1)
        if "writeErrors" in reply:
            assert reply["writeErrors"][0]["errmsg"] == errmsg
    return server.inserts


# Amazon DocumentDB; MongoDB 4.0; Microsoft's DocumentDB and what is built on it.
NAMED = ["E11000 duplicate key error collection: {ns} index: {index}",
         'E11000 duplicate key error collection: {ns} index: {index} dup key: {{ : "x" }}',
         "Duplicate key violation on the requested collection: Index '{index}'"]


@pytest.mark.parametrize("text", NAMED)
@pytest.mark.parametrize("db, index, again", [
    ("number", "number_1", True), ("number", "mail_1", False), ("number", "_id_", False),
    ("id", "_id_", True), ("id", "number_1", False)])
def test_with_the_name_of_the_index(server, proxy, coll, text, db, index, again):
    ns = f"{db}.{coll}"
    document = {"x": 1} if db == "id" else {"_id": 1}
    sent = inserts(server, proxy, ns, text.format(ns=ns, index=index), document)
    assert len(sent) == (2 if again else 1)
    field = "_id" if db == "id" else "number"
    assert len({request.value(0, field).value for request in sent}) == len(sent)


# FerretDB 1.24.
UNNAMED = ["E11000 duplicate key error collection: {ns}",
           "Duplicate key violation on the requested collection."]


@pytest.mark.parametrize("text", UNNAMED)
@pytest.mark.parametrize("indexes, document, again", [
    (["number"], {"x": 1}, True),
    (["number"], {"_id": 1}, False),  # the client's _id can be meant
    (["number", "mail"], {"x": 1}, False),
    (["mail"], {"x": 1}, False),
    ([], {"x": 1}, False)])
def test_without_it(server, proxy, standalone, coll, text, indexes, document, again):
    """Only where the collection's indexes leave one that can be meant."""
    ns = f"number.{coll}"
    standalone.client.number.create_collection(coll)
    for field in indexes:
        standalone.client.number[coll].create_index(field, unique=True, sparse=True)
    # The proxy has to look at the collection first, and does so when it is asked about it.
    if again:
        eventually(lambda: len(inserts(server, proxy, ns, text.format(ns=ns), document)) == 2, 20)
    server.expect()
    for _ in range(3):
        sent = inserts(server, proxy, ns, text.format(ns=ns), document)
        assert len(sent) == (2 if again else 1)


@pytest.mark.parametrize("text", UNNAMED)
def test_without_it_of_an_id_from_the_first_insert_on(server, standalone, start_proxy, coll, text):
    """The proxy looks at the collections of such rules when it starts."""
    standalone.client.literal[coll].create_index("mail")
    rule = {"ns": f"literal.{coll}", "field": "_id", **_DIGITS}
    proxy = start_proxy(configuration(server, [rule], standalone))
    ns = f"literal.{coll}"
    assert len(inserts(server, proxy, ns, text.format(ns=ns), {"x": 1})) == 2


@pytest.mark.parametrize("text", UNNAMED)
def test_without_it_of_an_id(server, proxy, standalone, coll, text):
    """The collection's only unique index is that on _id."""
    ns = f"id.{coll}"
    standalone.client.id[coll].create_index("mail")
    tried = lambda: len(inserts(server, proxy, ns, text.format(ns=ns), {"x": 1}))  # noqa: E731
    eventually(lambda: tried() == 2, 20, "the proxy has looked at the indexes")
    standalone.client.id[coll + "more"].create_index("mail", unique=True)
    for _ in range(3):
        sent = inserts(server, proxy, ns + "more", text.format(ns=ns + "more"), {"x": 1})
        assert len(sent) == 1
