"""What counters must survive (restores, losses, duplicates, replays, their end), of a sequence per scope,
in both forms of its document, and with reservations in place of a unique index. Counters without these:
test_counter.py, test_counter_heal.py."""

from __future__ import annotations

import itertools
import json
import os
import signal
from typing import Any

import bson
import pytest
from pymongo import ReturnDocument

from support.counters import STORE, Load, insert, stored
from support.middleman import Middleman
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.thief import session

SCHEMES = ["scope", "mongoose-sequence", "reserve"]
BLOCK = 10


class Place:
    """A collection whose documents all have tenant "a", and the counter that numbers them."""

    _names = (f"c{i}" for i in itertools.count())

    def __init__(self, server: Mongod, scheme: str, **more: Any):
        self.name = next(self._names)
        self.ns, self.scheme, self._server = f"rows.{self.name}", scheme, server
        self.collection = server.client.rows[self.name]
        self.collection.create_index("u", unique=True, sparse=True)
        # As in a sharded collection, where the index cannot be unique.
        fields = ["n"] if scheme == "reserve" else ["tenant", "n"]
        self.collection.create_index([(each, 1) for each in fields], unique=scheme != "reserve")
        self.config = configuration(server, [self._rule(**more)])

    def _rule(self, **more: Any) -> dict[str, Any]:
        special = {"scope": {"scope": ["tenant"]},
                   "mongoose-sequence": {"scope": ["tenant"],
                                         "store": {"layout": "mongoose-sequence"}},
                   "reserve": {"reserve": {"collection": f"{self.name}__n"}}}[self.scheme]
        return {"ns": self.ns, "field": "n", "strategy": "counter", "block": BLOCK, **special,
                **more}

    def insert(self, proxy: Proxy, documents: int | list[dict[str, Any]],
               **options: Any) -> dict[str, Any]:
        if isinstance(documents, int):
            documents = [{"k": k} for k in range(documents)]
        return insert(proxy, self.ns, [{**each, "tenant": "a"} for each in documents], **options)

    def numbers(self) -> list[int]:
        """Of all documents, none twice."""
        found = [each["n"] for each in stored(self._server.client, self.ns)]
        assert len(set(found)) == len(found)
        if self.scheme == "reserve":
            reserved = {each["_id"] for each in self._server.client.rows[f"{self.name}__n"].find()}
            assert reserved >= set(found), "a document without its reservation"
        return found

    def store(self, *numbers: int) -> None:
        """As another program does that knows the scheme, but does not ask the counter."""
        for n in map(bson.Int64, numbers):
            document = {"_id": bson.ObjectId(), "tenant": "a", "n": n}
            if self.scheme == "reserve":
                self._server.client.rows[f"{self.name}__n"].insert_one(
                    {"_id": n, "parent_id": document["_id"], "at": bson.ObjectId().generation_time})
            self.collection.insert_one(document)

    # The counter.

    def _counter(self) -> tuple[Any, dict[str, Any], str]:
        key = f"{self.ns}.n"
        if self.scheme == "mongoose-sequence":
            return self._server.client[STORE].counters, {
                "id": key, "reference_value": {"tenant": "a"}}, "seq"
        name = {"c": key, "s": {"tenant": "a"}} if self.scheme == "scope" else key
        return self._server.client[STORE].uniqueIdentifierCounter, {"_id": name}, "COUNT"

    def next(self) -> int:
        collection, identity, value = self._counter()
        return collection.find_one(identity)[value] + (value == "seq")

    def set_next(self, number: int | float) -> None:
        collection, identity, value = self._counter()
        changed = collection.find_one_and_update(
            identity, {"$set": {value: number - (value == "seq")}},
            return_document=ReturnDocument.AFTER)
        assert changed

    def delete_counter(self) -> None:
        collection, identity, _ = self._counter()
        assert collection.delete_one(identity).deleted_count == 1


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


def begun(place: Place, proxy: Proxy, count: int = 1) -> None:
    """So many documents are stored, and the collection is known."""
    eventually(lambda: place.insert(proxy, count)["ok"])
    assert place.numbers() == list(range(1, count + 1))


def test_a_clean_stop_leaves_no_gap(replica_set, scheme):
    place = Place(replica_set, scheme)
    for _ in range(3):
        with Proxy(place.config) as proxy:
            eventually(lambda: place.insert(proxy, 3)["ok"])
            assert place.insert(proxy, 1)["n"] == 1
    assert place.numbers() == list(range(1, 13)) and place.next() == 13


def test_an_older_copy_of_the_counter_is_restored(replica_set, start_proxy, scheme):
    """No client notices."""
    place = Place(replica_set, scheme)
    proxies = [start_proxy(place.config) for _ in range(2)]
    begun(place, proxies[0], 3 * BLOCK)
    place.set_next(5)
    for _ in range(10):
        for proxy in proxies:
            reply = place.insert(proxy, 3)
            assert reply["n"] == 3 and "writeErrors" not in reply, reply
    assert len(place.numbers()) == 3 * BLOCK + 60
    assert place.next() > max(place.numbers())


def test_the_counter_is_deleted_under_load(replica_set, start_proxy, scheme):
    place = Place(replica_set, scheme)
    proxies = [start_proxy(place.config) for _ in range(2)]
    begun(place, proxies[0])
    with Load([lambda p=p: p.address for p in proxies], place.ns, fields={"tenant": "a"}) as load:
        for _ in range(2):
            load.await_documents(3 * BLOCK)
            place.delete_counter()
        load.await_documents(3 * BLOCK)
    assert len(place.numbers()) == load.documents + 1


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_a_foreign_duplicate_is_the_clients_own(replica_set, start_proxy, scheme, ordered):
    place = Place(replica_set, scheme)
    proxy = start_proxy(place.config)
    begun(place, proxy)
    place.collection.insert_one({"u": "taken", "n": "none"})
    reply = place.insert(proxy, [{"k": 0}, {"u": "taken"}, {"k": 2}], ordered=ordered)
    (error,) = reply["writeErrors"]
    assert (error["index"], error["code"], error["keyPattern"]) == (1, 11000, {"u": 1})
    assert reply["n"] == (1 if ordered else 2)
    place.collection.delete_one({"u": "taken"})
    eventually(lambda: place.insert(proxy, 1)["n"] == 1)
    assert len(place.numbers()) == reply["n"] + 2


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("more", [False, True], ids=["plain", "txnNumber"])
def test_three_of_a_thousand_collide(replica_set, start_proxy, scheme, ordered, more):
    place = Place(replica_set, scheme)
    proxy = start_proxy(place.config)
    begun(place, proxy)
    place.store(2, 501, 1001)
    reply = place.insert(proxy, 1000, ordered=ordered, more=session() if more else {})
    assert (reply["ok"], reply["n"]) == (1, 1000) and "writeErrors" not in reply, reply
    assert len(place.numbers()) == 1004


def test_a_driver_sends_a_batch_again(replica_set, start_proxy, scheme):
    place = Place(replica_set, scheme)
    proxy = start_proxy(place.config)
    begun(place, proxy)
    again = session()
    documents = [{"_id": bson.ObjectId(), "k": k} for k in range(5)]
    for _ in range(3):
        assert place.insert(proxy, documents, more=again)["n"] == 5
    assert len(place.numbers()) == 6
    assert place.insert(proxy, 1)["n"] == 1
    assert len(place.numbers()) == 7


def test_its_end(replica_set, start_proxy, scheme):
    """Of a batch that is too long nothing is stored."""
    place = Place(replica_set, scheme, max=5, block=1)
    proxy = start_proxy(place.config)
    begun(place, proxy, 3)
    reply = place.insert(proxy, 3)
    assert reply["code"] == 96 and "errorLabels" not in reply
    assert place.numbers() == [1, 2, 3]
    assert place.insert(proxy, 2)["n"] == 2
    assert place.insert(proxy, 1)["code"] == 96
    assert place.numbers() == [1, 2, 3, 4, 5]


def test_a_number_near_the_end_of_int64_does_not_move_it(replica_set, start_proxy, scheme):
    place = Place(replica_set, scheme)
    proxy = start_proxy(place.config)
    begun(place, proxy, 2 * BLOCK)
    place.store(2**63 - 2)
    place.set_next(5)
    for _ in range(10):
        assert place.insert(proxy, 3)["n"] == 3
    # Without a unique index it keeps off the numbers that other proxies may hold: 128 blocks.
    skipped = 12_800_000 if scheme == "reserve" else 0
    assert sorted(place.numbers())[-2] < skipped + 1000 and place.next() < skipped + 10_000


def test_a_double_at_two_to_the_53_is_refused(replica_set, start_proxy, scheme):
    place = Place(replica_set, scheme, block=1)
    proxy = start_proxy(place.config)
    begun(place, proxy)
    place.set_next(2.0**53 + 2)
    for _ in range(2):
        reply = place.insert(proxy, 1)
        assert reply["code"] == 96 and "not an integer" in reply["errmsg"], reply
    assert place.numbers() == [1]


def test_the_store_cannot_be_reached(replica_set, start_proxy, scheme):
    """Numbers in memory are given out; then there is an error that drivers repeat. A reservation cannot be
    made from memory."""
    place = Place(replica_set, scheme)
    with Middleman(replica_set.address) as gate:
        # Only the store goes through the gate.
        place.config["id_store"] = {"uri": f"{gate.uri}&serverSelectionTimeoutMS=300"}
        proxy = start_proxy(place.config)
        begun(place, proxy)
        gate.shut()
        held = 0 if scheme == "reserve" else 5
        if held:
            assert place.insert(proxy, held)["n"] == held
        reply = place.insert(proxy, 3 * BLOCK, more=session())
        assert reply["code"] == 6 and "RetryableWriteError" in reply["errorLabels"], reply
        gate.open()
        eventually(lambda: place.insert(proxy, 3 * BLOCK).get("n"), 30)
    assert len(place.numbers()) == 1 + held + 3 * BLOCK


def test_a_reload_keeps_the_block_of_an_unchanged_rule(replica_set, tmp_path, scheme):
    place = Place(replica_set, scheme)
    file = tmp_path / "config.yaml"

    def write(more: list[dict[str, Any]]) -> None:
        file.write_text(json.dumps({
            **place.config, "rules": [*place.config["rules"], *more], "admin": {"listen": None},
            "listen": {"port": 0}, "log": {"format": "json"}}))

    write([])
    with Proxy(file) as proxy:
        begun(place, proxy)
        for round_, more in enumerate(([], [{"ns": "other.*", "field": "n", "strategy": "uuid"}])):
            write(more)
            os.kill(proxy.pid, signal.SIGHUP)
            eventually(lambda: len(proxy.find_events("reloaded")) > round_, 20)
            assert place.insert(proxy, 2)["n"] == 2
        assert place.numbers() == [1, 2, 3, 4, 5] and place.next() == BLOCK + 1
