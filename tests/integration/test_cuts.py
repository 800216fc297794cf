"""A small exchange, cut at every byte: both peers are closed at once and nothing is left.

The exchange (hello, an insert with a rule, a find) runs client - relay - proxy - relay - mongod.
Each run cuts it somewhere else: at the relay on either side of the proxy, in either direction,
after each byte, with FIN or with RST. The normal run takes each byte once, FIN and RST in turn;
the full run takes each byte both ways.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest

from support import wire
from support.full import FULL
from support.middleman import CutAt, Direction, Middleman
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration

RULES = [
    {"ns": "cuts.c", "field": "_id", "strategy": "uuid"},
    # Nine of its ten values are taken: nearly every insert is sent again, some nine times.
    {"ns": "cuts.full", "field": "n", "strategy": "random-digits", "digits": 1,
     "max_fill": 0.99, "retry": {"attempts": 100}},
]

# Both peers must be closed this long after the cut. Nothing else closes them before 10 s.
LIMIT_SECONDS = 5.0


@dataclass
class Chain:
    server: Mongod
    upstream: Middleman
    proxy: Proxy
    downstream: Middleman
    descriptors: int  # of the proxy when no client is connected
    runs: int = 0

    def exchange(self) -> int:
        """Runs the exchange as far as it goes; returns how many replies came."""
        self.runs += 1
        replies = 0
        try:
            with wire.WireClient(self.downstream.address, timeout=20) as client:
                for command in (
                        {"hello": 1, "$db": "admin"},
                        {"insert": "c", "documents": [{"run": self.runs}], "$db": "cuts"},
                        {"find": "c", "filter": {"run": self.runs}, "$db": "cuts"}):
                    assert client.call(command)["ok"] == 1
                    replies += 1
        except (wire.Closed, ConnectionError):  # also while it is being opened
            pass
        return replies


    def retried_insert(self) -> bool:
        """Inserts one document that most likely collides; whether an answer came."""
        self.runs += 1
        try:
            with wire.WireClient(self.downstream.address, timeout=20) as client:
                reply = client.call({
                    "insert": "full", "documents": [{"run": self.runs}], "$db": "cuts"})
                assert reply["n"] == 1 and "writeErrors" not in reply, reply
                return True
        except (wire.Closed, ConnectionError):
            return False


@pytest.fixture(scope="module")
def chain(standalone: Mongod, replica_set: Mongod) -> Iterator[Chain]:
    """Its store is asked about the collections, and has none of them: nobody finds the full one full,
    however often it is counted meanwhile."""
    standalone.client["cuts"]["c"].drop()
    standalone.client["cuts"]["c"].create_index("run")
    standalone.client["cuts"]["full"].drop()
    standalone.client["cuts"]["full"].create_index("n", unique=True)
    standalone.client["cuts"]["full"].insert_many([{"n": n} for n in range(9)])
    with Middleman(standalone.address) as upstream:
        with Proxy(configuration(upstream, RULES, replica_set)) as proxy:
            with Middleman(proxy.address) as downstream:
                chain = Chain(
                    standalone, upstream, proxy, downstream, proxy.descriptors_at_rest())
                assert chain.exchange() == 3
                eventually(lambda: upstream.last().over)
                proxy.await_descriptors(chain.descriptors)
                yield chain


def message_ends(data: bytes) -> list[int]:
    """Where each whole message in data ends."""
    ends, at = [], 0
    while at + 16 <= len(data):
        at += struct.unpack_from("<i", data, at)[0]
        if at <= len(data):
            ends.append(at)
    return ends


def run_of_insert(message: bytes) -> int:
    """The field `run` of the one document that this insert carries."""
    at = message.index(b"\x10run\0") + 5
    return struct.unpack_from("<i", message, at)[0]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("direction", [pytest.param("to_server", marks=pytest.mark.tsan), "to_client"])
@pytest.mark.parametrize("side", ["downstream", "upstream"])
def test_every_byte(chain: Chain, side: Literal["downstream", "upstream"], direction: Direction, long_run):
    relay = getattr(chain, side)
    first_connection = len(chain.upstream.connections)
    assert chain.exchange() == 3
    eventually(lambda: relay.last().over)
    chain.proxy.await_descriptors(chain.descriptors)
    # The proxy's own commands may have come before or after.
    ours = max(chain.upstream.connections[first_connection:],
               key=lambda each: len(each.passed["to_server"]))
    whole = bytes((ours if side == "upstream" else relay.last()).passed[direction])
    ends = message_ends(bytes(ours.passed["to_server"]))
    first_run = chain.runs

    for after in range(len(whole) + 1):
        for how in ["fin", "rst"] if FULL else [["fin", "rst"][after % 2]]:
            cut = CutAt(direction, after, how)
            connection = relay.cut_one(cut, chain.exchange)
            eventually(lambda: connection.cut_at is not None, what=str(cut))

            chain.proxy.await_descriptors(chain.descriptors)
            eventually(lambda: relay.last().over and chain.downstream.last().over,
                       LIMIT_SECONDS, f"both peers are closed after {cut}")
            assert chain.downstream.last().client_closed_at - connection.cut_at < LIMIT_SECONDS
            assert chain.proxy.alive()

    # A connection that nobody cuts still works, and when it is over, so are all before it.
    assert chain.exchange() == 3
    eventually(lambda: all(c.over for c in chain.upstream.connections))
    inserted = []
    for connection in chain.upstream.connections[first_connection:]:
        reached = bytes(connection.passed["to_server"])
        if b"buildInfo" in reached or b"getParameter" in reached:
            continue  # the proxy's own
        assert message_ends(reached) == ends[:len(message_ends(reached))]
        if len(reached) >= ends[1]:
            inserted.append(run_of_insert(reached[ends[0]:ends[1]]))
    stored = chain.server.client["cuts"]["c"].find({"run": {"$gte": first_run}}).sort("run")
    assert [d["run"] for d in stored] == sorted(inserted), "stored if, and only if, it arrived whole"
    long_run("cuts", server=chain.server.client.server_info()["version"], faults={"cut": 2 * (len(whole) + 1)})


@pytest.mark.timeout(600)
@pytest.mark.parametrize("direction", ["to_server", "to_client"])
@pytest.mark.parametrize("side", ["downstream", "upstream"])
def test_every_byte_of_a_retried_insert(chain: Chain, side: Literal["downstream", "upstream"],
                                        direction: Direction, long_run):
    """Whatever part of the retries is cut, the document is stored once if it was acknowledged, and
    at most once if not; nobody goes on for a client that has gone."""
    relay = getattr(chain, side)
    full = chain.server.client["cuts"]["full"]

    def at_rest() -> None:
        """The server may work on for a connection that is cut."""
        eventually(lambda: not chain.server.client.admin.command(
            {"currentOp": True, "ns": "cuts.full"})["inprog"])

    def cleared() -> None:
        eventually(lambda: chain.upstream.last().over and chain.downstream.last().over)
        full.delete_many({"run": {"$exists": True}})

    longest = 0
    for _ in range(5):
        assert chain.retried_insert()
        longest = max(longest, len(relay.last().passed[direction]))
        cleared()
    cuts = 0
    most, step = longest, 1
    if not FULL:
        # Until within the second re-send, and of what is long every third byte.
        most = min(longest, 450)
        step = 3 if most > 150 else 1
    for after in range(0, most + 1, step):
        cut = CutAt(direction, after, ["fin", "rst"][after % 2])
        relay.next_cut = cut
        answered = chain.retried_insert()
        # A run with few collisions may be over before the cut.
        chain.proxy.await_descriptors(chain.descriptors)
        eventually(lambda: relay.last().over and chain.downstream.last().over,
                   LIMIT_SECONDS, f"both peers are closed after {cut}")
        at_rest()
        cuts += relay.last().cut_at is not None
        stored = full.count_documents({"run": chain.runs})
        assert stored == 1 if answered else stored <= 1, str(cut)
        assert full.count_documents({}) == 9 + stored
        cleared()
        assert chain.proxy.alive()
    assert cuts > 40
    long_run("cuts", server=chain.server.client.server_info()["version"], faults={"cut of a retried insert": cuts})
