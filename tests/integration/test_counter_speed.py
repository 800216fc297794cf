"""A counter beside a strategy that asks nobody, end to end: the store costs next to nothing."""

from __future__ import annotations

import select
import socket
import statistics
import struct
import time

import pytest

from support import wire
from support.elements import document, int32, string
from support.mongod import Mongod
from support.proxy import configuration

ROUNDS, SLICE_SECONDS = 7, 0.4
# Short slices in turn, so that what else happens on the machine meets both.
TURNS = ["uuid", "counter", "counter", "uuid"] * 2


def per_second(address: str, db: str, batch: int, connections: int) -> float:
    """Documents a second of so many clients, each of which always has one insert under way."""
    message = wire.op_msg(
        wire.body({"insert": "c", "$db": db}),
        wire.sequence("documents", [document(int32("k", i), string("text", "x" * 150))
                                    for i in range(batch)]))
    host, _, port = address.rpartition(":")
    poll, sockets = select.epoll(), {}
    for _ in range(connections):
        each = socket.create_connection((host, int(port)))
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[each.fileno()] = each
        poll.register(each, select.EPOLLIN)
        each.sendall(message)
    started, stored = time.monotonic(), 0
    while (elapsed := time.monotonic() - started) < SLICE_SECONDS:
        for number, _ in poll.poll(1):
            reply = sockets[number].recv(65536)
            assert struct.unpack_from("<i", reply) == (len(reply),)
            assert b"writeErrors" not in reply and b"errmsg" not in reply, reply
            stored += batch
            sockets[number].sendall(message)
    for each in sockets.values():
        each.recv(65536)
        each.close()
    return stored / elapsed


@pytest.mark.full
@pytest.mark.parametrize("batch, block", [(1, 100), (10, 1000), (100, 10_000)])
def test_within_15_percent_of_uuid(replica_set: Mongod, start_proxy, record, batch, block):
    """By the median of seven rounds, in turn."""
    proxy = start_proxy(configuration(replica_set, [
        {"ns": "speed-uuid.c", "field": "n", "strategy": "uuid"},
        {"ns": "speed-counter.c", "field": "n", "strategy": "counter", "block": {"size": block}}]))
    ratios = []
    for _ in range(ROUNDS):
        figures = {"uuid": 0.0, "counter": 0.0}
        for strategy in TURNS:
            figures[strategy] += per_second(proxy.address, f"speed-{strategy}", batch, 8)
        ratios.append(figures["counter"] / figures["uuid"])
        for strategy in figures:
            replica_set.client[f"speed-{strategy}"]["c"].delete_many({})
    record(f"counter / uuid, batches of {batch}", statistics.median(ratios))
    for strategy in ("uuid", "counter"):
        replica_set.client.drop_database(f"speed-{strategy}")
    assert statistics.median(ratios) >= 0.85, ratios
