"""What a wildcard leaves alone: what `except` and rules with `strategy: none` take out, and collections that stop working
with what a rule adds. What each pattern matches: tests/unit/config/exceptions_test.cpp."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import bson
import gridfs
import pymongo
import pytest
from pymongo import InsertOne, UpdateOne
from pymongo.errors import OperationFailure

from support import scrape
from support.admin import LISTEN
from support.bulk_write_server import BulkWriteServer
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, binary, configuration

RULES = [
    {"ns": "taken.all", "strategy": "none"},
    {"ns": "taken.log*", "field": "number", "strategy": "none"},
    {"ns": "taken.*", "except": ["*.audit", "taken.tmp?"], "field": "number", "strategy": "counter"},
    {"ns": "taken.*", "field": "code", "strategy": "uuid"},
    {"ns": "only.*", "except": ["only.orders"], "strategy": "none"},
    {"ns": "only.*", "field": "number", "strategy": "counter"},
    {"ns": "named.__keyVault", "field": "number", "strategy": "counter"},
    {"ns": "named.fs.files", "field": "_id", "strategy": "uuid", "assign": "always"},
    {"ns": "*", "except": ["taken.*", "only.*"], "field": "number", "strategy": "counter"},
    {"ns": "*", "except": ["taken.*", "only.*"], "field": "_id", "strategy": "counter", "assign": "always"},
]

FILLED: dict[str, set[str]] = {
    "taken.orders": {"number", "code"}, "taken.audit": {"code"}, "taken.sub.audit": {"code"}, "taken.tmp1": {"code"},
    "taken.tmp11": {"number", "code"}, "taken.logs": {"code"}, "taken.all": set(), "only.orders": {"number"}, "only.others": set()}

WRITES: dict[str, Callable[[Any], object]] = {
    "insert": lambda coll: coll.insert_one({"k": 1}),
    "insert_many": lambda coll: coll.insert_many([{"k": 1}, {"k": 2}]),
    "update": lambda coll: coll.update_one({"k": 1}, {"$set": {"x": 1}}, upsert=True),
    "find_and_modify": lambda coll: coll.find_one_and_update({"k": 1}, {"$set": {"x": 1}}, upsert=True),
    "bulk_write": lambda coll: coll.bulk_write([InsertOne({"k": 1}), UpdateOne({"k": 2}, {"$set": {"x": 1}}, upsert=True)]),
}


@pytest.fixture(scope="module")
def client(replica_proxy: Proxy) -> Iterator[pymongo.MongoClient]:
    with replica_proxy.client() as connected:
        yield connected


def fields(server: Mongod, db: str, coll: str) -> set[str]:
    """Those of every document, without what the tests write."""
    found, = {frozenset(document) - {"_id", "k", "x"} for document in server.client[db][coll].find()}
    return set(found)


@pytest.mark.parametrize("write", WRITES)
def test_what_keys_take_out(replica_set: Mongod, client: pymongo.MongoClient, write: str) -> None:
    """Beside the wildcard, other rules fill the fields that they have."""
    for ns, expected in FILLED.items():
        db, _, coll = ns.partition(".")
        replica_set.client[db][coll].delete_many({})
        WRITES[write](client[db][coll])
        assert fields(replica_set, db, coll) == expected, ns


@pytest.mark.needs("retried_stmt_ids", "collection_uuid")
def test_several_collections_in_one_command(replica_set: Mongod, start_proxy: Callable[..., Proxy]) -> None:
    """A bulkWrite of MongoDB 8.0."""
    with BulkWriteServer(replica_set) as front, start_proxy(configuration(front, RULES, replica_set)).client() as client:
        for ns in FILLED:
            db, _, coll = ns.partition(".")
            replica_set.client[db][coll].delete_many({})
        client.bulk_write([InsertOne({"k": 1}, ns) for ns in FILLED] +
                          [UpdateOne({"k": 2}, {"$set": {"x": 1}}, upsert=True, namespace=ns) for ns in FILLED])
        for ns, expected in FILLED.items():
            assert fields(replica_set, *ns.split(".", 1)) == expected, ns


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("coll", ["__keyVault", "enxcol_.people.esc", "enxcol_.people.ecoc"])
def test_collections_of_encryption(replica_set: Mongod, client: pymongo.MongoClient, coll: str, write: str) -> None:
    replica_set.client.encryption[coll].delete_many({})
    WRITES[write](client.encryption[coll])
    assert not fields(replica_set, "encryption", coll)
    assert all(isinstance(each["_id"], bson.ObjectId) for each in replica_set.client.encryption[coll].find())


def test_a_rule_that_names_them_applies(replica_set: Mongod, client: pymongo.MongoClient) -> None:
    client.named["__keyVault"].insert_one({})
    assert replica_set.client.named["__keyVault"].find_one()["number"] == 1
    client.named["fs.files"].insert_one({})
    assert isinstance(replica_set.client.named["fs.files"].find_one()["_id"], bson.Binary)


def test_gridfs(replica_set: Mongod, client: pymongo.MongoClient) -> None:
    """Its chunks refer to the _id that the driver made for the file. Nothing refers to the chunks' own."""
    for bucket in (gridfs.GridFSBucket(client.photos), gridfs.GridFSBucket(client.photos, bucket_name="large.ones")):
        key = bucket.upload_from_stream("a.bin", b"x" * 600_000)
        assert bucket.open_download_stream(key).read() == b"x" * 600_000
        assert bucket.open_download_stream_by_name("a.bin").read() == b"x" * 600_000
        bucket.delete(key)
    files = gridfs.GridFS(client.photos)
    key = files.put(b"abc")
    assert files.get(key).read() == b"abc"
    assert replica_set.client.photos.fs.files.find_one()["_id"] == key
    assert isinstance(replica_set.client.photos.fs.chunks.find_one()["_id"], int)
    # Collections whose names have no bucket are of no GridFS.
    client.photos.files.insert_one({})
    assert isinstance(replica_set.client.photos.files.find_one()["_id"], int)


def test_no_number_is_handed_out_for_them(client: pymongo.MongoClient) -> None:
    command = {"idproxy": "next", "ns": "taken.audit", "field": "number"}
    with pytest.raises(OperationFailure, match="no rule"):
        client.admin.command(command)
    assert client.admin.command(command | {"ns": "taken.orders"})["ids"]


def test_figures_have_the_place_in_the_file(replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    rules = [{"ns": f"{coll}.a", "strategy": "none"}, {"ns": f"{coll}.*", "field": "number", "strategy": "counter"}]
    proxy = start_proxy(configuration(replica_set, rules, admin=LISTEN))
    with proxy.client() as client:
        client[coll].b.insert_one({})
    row, = json.loads(scrape.get(proxy, "/status.json")[1])["rules"]
    assert (row["rule"], row["ns"], row["values"]) == (1, f"{coll}.*", 1)
    labels = f'rule="1",ns="{coll}.*",field="number",strategy="counter"'
    assert scrape.metric(proxy, f"idproxy_rule_values_assigned_total{{{labels}}}") == 1


def test_a_reload_takes_out_and_puts_back(replica_set: Mongod, start_proxy: Callable[..., Proxy], tmp_path: pathlib.Path,
                                          coll: str) -> None:
    """Counters keep their numbers."""
    rule = {"ns": f"{coll}.*", "field": "number", "strategy": "counter"}
    file = tmp_path / "config.yaml"

    def write(*rules: dict[str, Any]) -> None:
        file.with_suffix(".new").write_text(json.dumps(
            configuration(replica_set, list(rules), listen={"port": 0}, log={"format": "json"})))
        file.with_suffix(".new").replace(file)

    write(rule)
    proxy = start_proxy(file)

    def number(of: str) -> Any:
        done = client[coll][of].insert_one({})
        return replica_set.client[coll][of].find_one(done.inserted_id).get("number")

    with proxy.client() as client:
        assert [number("audit"), number("orders")] == [1, 1]
        for n, (rules, audit) in enumerate([([rule | {"except": [f"{coll}.audit"]}], None), ([rule], 2),
                                            ([{"ns": "*.audit", "strategy": "none"}, rule], None), ([rule], 3)]):
            write(*rules)
            proxy.process.send_signal(signal.SIGHUP)
            eventually(lambda: len(proxy.find_events("reloaded")) == n + 1)
            assert number("audit") == audit
            assert number("orders") == n + 2


def test_shared_counters_do_not_look_into_them(replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    """Numbers there are none of the counter's."""
    for name, number in (("orders", 10), ("audit", 1000), ("__keyVault", 2000)):
        replica_set.client[coll][name].insert_one({"number": number})
    rule = {"ns": f"{coll}.*", "except": [f"{coll}.audit"], "field": "number", "strategy": "counter", "name": f"{coll}-all"}
    proxy = start_proxy(configuration(replica_set, [rule]))
    with proxy.client() as client:
        client[coll].orders.insert_one({"k": 1})
    assert replica_set.client[coll].orders.find_one({"k": 1})["number"] == 11


def test_no_index_is_made_there(replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    """Nor is one demanded, by a rule that makes them in all collections that exist."""
    for name in ("orders", "audit", "__keyVault"):
        replica_set.client[coll][name].insert_one({})
    rule = {"ns": f"{coll}.*", "except": [f"{coll}.audit"], "field": "number", "strategy": "counter", "unique_index": "create"}
    proxy = start_proxy(configuration(replica_set, [rule]))
    with proxy.client() as client:
        for name in ("orders", "audit", "__keyVault"):
            client[coll][name].insert_one({})
    made = [name for name in ("orders", "audit", "__keyVault") if len(replica_set.client[coll][name].index_information()) > 1]
    assert made == ["orders"]


def test_indexes_there_are_not_dropped(replica_set: Mongod, start_proxy: Callable[..., Proxy], coll: str) -> None:
    """Not for one of the application either, as where the rule applies."""
    own = {"unique": True, "partialFilterExpression": {"number": {"$exists": True}}}
    for name in ("orders", "audit"):
        replica_set.client[coll][name].create_index("number", name="number_idproxy", **own)
    rule = {"ns": f"{coll}.*", "except": [f"{coll}.audit"], "field": "number", "strategy": "counter", "unique_index": "create"}
    proxy = start_proxy(configuration(replica_set, [rule]))
    with proxy.client() as client:
        client[coll].orders.insert_one({})
        client[coll].orders.create_index("number", name="mine", **own)
        with pytest.raises(OperationFailure) as refused:
            client[coll].audit.create_index("number", name="mine", **own)
        assert refused.value.code == 85
    assert "number_idproxy" in replica_set.client[coll].audit.index_information()


def command(file: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary(), *words, "--config", str(file)], capture_output=True, text=True, timeout=120)


def test_commands_know_it(replica_set: Mongod, tmp_path: pathlib.Path, coll: str) -> None:
    """They refuse what no rule fills, and list no counter of it."""
    replica_set.client.idproxy.uniqueIdentifierCounter.insert_many(
        [{"_id": f"{coll}.{name}.number", "COUNT": bson.Int64(5)} for name in ("orders", "audit", "logs")])
    file = tmp_path / "config.yaml"
    rules = [{"ns": "*.logs", "strategy": "none"},
             {"ns": f"{coll}.*", "except": [f"{coll}.audit"], "field": "number", "strategy": "counter"}]
    file.write_text(json.dumps(configuration(replica_set, rules)))
    for words in (["backfill"], ["verify"], ["ids"]):
        for name in ("audit", "logs"):
            done = command(file, *words, "--ns", f"{coll}.{name}", "--field", "number")
            assert done.returncode != 0 and "no rule of" in done.stderr, done.stderr
    assert command(file, "verify", "--ns", f"{coll}.orders", "--field", "number").returncode in (0, 1)
    listed = command(file, "counters", "list").stdout
    assert f"{coll}.orders.number" in listed and "audit" not in listed and "logs" not in listed


def test_check_notes_it(replica_set: Mongod, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config.yaml"
    rules = [{"ns": "shop.audit", "strategy": "none"},
             {"ns": "shop.*", "except": ["shop.logs"], "field": "_id", "strategy": "uuid", "assign": "always",
              "keep_driver_id": "old"}]
    file.write_text(json.dumps(configuration(replica_set, rules)))
    done = command(file, "check", "--connect")
    note, = re.findall(r"note: (.*)", done.stdout)
    for each in ("shop.logs", "rules[0]", "shop.audit", "*.__keyVault", "*.enxcol_.*", "*.*.files", "unless a rule names it"):
        assert each in note
    assert re.search(r"(?m)^ *1 +shop\.\*", done.stdout), done.stdout
    levels = [each["level"] for each in json.loads(command(file, "check", "--json").stdout)["findings"]]
    assert sorted(levels) == ["note", "warning"]
    # Nothing is wrong, so that nothing else says it.
    assert "note:" not in command(file, "counters", "list").stderr
