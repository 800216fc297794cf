"""A server that cannot be reached: what its clients are told."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import bson
import pymongo
import pytest

from support import wire
from support.fake_server import FakeServer
from support.mongod import Mongod
from support.proxy import Proxy
from support.wire import Message, WireClient

PING = {"ping": 1, "$db": "admin"}
INSERT = {"insert": "c", "documents": [{"k": 1}], "$db": "ruled"}
SESSION = {"lsid": {"id": bson.Binary(b"0123456789abcdef", 4)}, "txnNumber": bson.Int64(1)}
TRANSACTION = {**SESSION, "autocommit": False}
RULES = [{"ns": "ruled.*", "field": "number", "strategy": "uuid"}]


@pytest.fixture(scope="module")
def nobody() -> Iterator[str]:
    """An address at which nobody listens, and nobody else will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield "127.0.0.1:%d" % taken.getsockname()[1]


@pytest.fixture(scope="module")
def start(standalone: Mongod) -> Iterator[Callable[..., Proxy]]:
    with ExitStack() as stack:
        yield lambda uri, **more: stack.enter_context(Proxy(
            {"upstream": {"uri": uri}, "rules": RULES, "id_store": {"uri": standalone.uri}, **more}))


@pytest.fixture(scope="module")
def proxy(nobody: str, start: Callable[..., Proxy]) -> Proxy:
    return start(f"mongodb://{nobody}")


def answers(proxy: Proxy, requests: dict[str, list[bytes]]) -> dict[str, Message | None]:
    """The only answer that each client gets before the end, or None. All at once, since the proxy
    tries to reach the server once every two seconds. Each client sends its pieces."""
    with ExitStack() as stack:
        clients = {name: stack.enter_context(WireClient(proxy.address)) for name in requests}

        def send(name: str, piece: int) -> None:
            try:
                clients[name].send(requests[name][piece])
            except (wire.Closed, IndexError):
                pass

        def answer(client: WireClient) -> Message | None:
            try:
                received = client.receive()
            except wire.Closed:
                return None
            assert client.closed_by_peer()
            return received

        for piece in range(2):
            for name in requests:
                send(name, piece)
        return {name: answer(client) for name, client in clients.items()}


def test_the_first_request_is_answered(proxy, nobody):
    ping = wire.command(PING)
    found = answers(proxy, {
        "ping": [ping],
        "in_pieces": [ping[:20], ping[20:]],
        "two": [ping + ping],
        "insert": [wire.command(INSERT)],
        "retryable": [wire.command({**INSERT, **SESSION})],
        "transaction": [wire.command({**INSERT, **TRANSACTION, "startTransaction": True})],
        "commit": [wire.command({"commitTransaction": 1, "$db": "admin", **TRANSACTION})],
        "checksum": [wire.command(PING, flags=wire.CHECKSUM_PRESENT)],  # the reply's is checked
        "legacy": [wire.op_query("admin.$cmd", {"ping": 1})],
        **{f"one of many {k}": [ping] for k in range(40)},  # who wait for the attempt of another
    })
    for name, reply in found.items():
        assert reply is not None, name
        assert reply.op_code == (wire.OP_REPLY if name == "legacy" else wire.OP_MSG), name
        said = reply.body
        assert (said["ok"], said["code"], said["codeName"]) == (0, 6, "HostUnreachable"), name
        assert said["errmsg"] == f"mongo-idproxy: cannot reach {nobody}: Connection refused", name
        # As for a write that the proxy refuses.
        assert said["errorLabels"] == {
            "retryable": ["RetryableWriteError", "NoWritesPerformed"],
            "transaction": ["TransientTransactionError"],
        }.get(name, ["RetryableWriteError"]), name


def test_others_are_only_closed(proxy):
    large = wire.command({**PING, "comment": "x" * 65536})
    found = answers(proxy, {
        "silent": [],
        "hello": [wire.command({"hello": 1, "$db": "admin"})],
        "legacy hello": [wire.op_query("admin.$cmd", {"isMaster": 1, "helloOk": True})],
        "unacknowledged": [wire.command({**INSERT, "writeConcern": {"w": 0}},
                                        flags=wire.MORE_TO_COME)],
        "large": [large],
        "beginning of a large one": [large[:16]],
        "no command": [wire.message(wire.OP_MSG, b"")],
        "length of 15": [b"\x0f\0\0\0" + bytes(12)],
        "TLS": [b"\x16\3\1\2\0\1" + bytes(20)],
    })
    assert {name for name, reply in found.items() if reply} == set()


def test_a_request_that_does_not_end(nobody, start):
    """limits.message."""
    proxy = start(f"mongodb://{nobody}", limits={"message": "200ms"})
    assert answers(proxy, {"half": [wire.command(PING)[:20]]}) == {"half": None}


@pytest.mark.parametrize("uri", ["mongodb://nowhere.invalid", "mongodb://{fake}/?tls=true"],
                         ids=["name", "tls"])
def test_the_reason_is_that_of_the_log(start, uri):
    with FakeServer() as fake:
        fake.greeting = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        proxy = start(uri.format(fake=fake.address), log={"level": "debug", "format": "json"})
        (reply,) = answers(proxy, {"ping": [wire.command(PING)]}).values()
        logged = {f"mongo-idproxy: cannot reach {event['server']}: {event['reason']}"
                  for event in proxy.find_events("upstream_unreachable")}
        assert reply and reply.body["errmsg"] in logged


def test_a_driver_takes_it_for_a_lost_server(proxy):
    """Its first request is a hello, and the end of it no error of the server's: it goes on trying."""
    with pymongo.MongoClient(proxy.uri, serverSelectionTimeoutMS=300) as client:
        with pytest.raises(pymongo.errors.ServerSelectionTimeoutError):
            client.admin.command("ping")
