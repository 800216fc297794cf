"""gapless with scope, template and reset: consecutive numbers in each tenant and year, whatever fails.

Every test ends with the same look: the numbers of each sequence are 1, 2, … without a gap and without
a duplicate.
"""

from __future__ import annotations

import collections
import datetime
import itertools
import json
import pathlib
import random
import re
import subprocess
import threading
import time
import zoneinfo
from functools import partial
from typing import Any

import bson
import pytest
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError

from support.counters import STORE, insert
from support.full import FULL
from support.killed import insert_until_killed
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, binary, configuration
from support.threads import Threads, at_once

ROOT = pathlib.Path(__file__).resolve().parents[2]
_SCOPED = {"strategy": "gapless", "field": "n", "scope": ["tenant"], "unique_index": "create"}
_INVOICE = {**_SCOPED, "output": "string", "template": "INV-{yyyy}-{counter:06}", "reset": "yearly"}
RULES = [
    {"ns": "inv.*", **_INVOICE},
    {"ns": "number.*", **_SCOPED, "report": True},
    {"ns": "few.*", **_SCOPED, "max_scopes": 2},
    {"ns": "required.*", **_SCOPED, "unique_index": "require"},
    {"ns": "check.*", **_INVOICE, "template": "{yyyy}-{counter:04}-{check}", "check": "luhn",
     "on_missing_scope": "null"},
    {"ns": "wide.*", **_SCOPED, "output": "string", "template": "{field:tenant}/{counter:01}",
     "start": 8},
    {"ns": "narrow.*", **_SCOPED, "output": "string", "template": "{field:tenant}/{counter:01}",
     "start": 8, "on_width": "error"},
    {"ns": "joined.*", **_SCOPED, "output": "string", "template": "{field:tenant}{counter:01}",
     "start": 8},
    {"ns": "id.*", **_INVOICE, "field": "_id", "template": "{field:tenant}-{yyyy}-{counter:03}",
     "assign": "driver"},
    {"ns": "zone.*", "strategy": "gapless", "field": "n", "output": "string",
     "unique_index": "create", "template": "{yyyy}-{MM}-{dd}/{counter}", "reset": "daily",
     "timezone": "Pacific/Kiritimati"},
    {"ns": "two.*", **_SCOPED},
    {"ns": "two.*", "field": "all", "strategy": "gapless", "unique_index": "create"},
]

YEAR = datetime.datetime.now(datetime.timezone.utc).year
INVALID = {"v": "bad"}


@pytest.fixture(scope="module")
def server(replica_set: Mongod) -> Mongod:
    return replica_set


def of(*tenants: Any) -> list[dict[str, Any]]:
    return [{"tenant": tenant, "k": k} for k, tenant in enumerate(tenants)]


class Shared:
    """A collection that many tests share, each with tenants of its own: a new collection has to wait
    for its index."""

    def __init__(self, server: Mongod, proxy: Proxy, db: str, test: str):
        self.ns = f"{db}.shared"
        self.collection = server.client[db]["shared"]
        self._server, self._proxy, self._test = server, proxy, test
        if "shared" not in server.client[db].list_collection_names():
            begin(server, proxy, self.ns)

    def tenant(self, name: str) -> str:
        return self._test + name

    def of(self, *names: str) -> list[dict[str, Any]]:
        return of(*(self.tenant(name) for name in names))

    def insert(self, documents: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        return insert(self._proxy, self.ns, documents, **options)

    def by_tenant(self) -> dict[str, list[Any]]:
        found = by_tenant(self._server, self.ns)
        return {tenant.removeprefix(self._test): keys for tenant, keys in found.items()
                if isinstance(tenant, str) and tenant.startswith(self._test)}

    def counts(self) -> dict[str, int]:
        return {tenant: len(keys) for tenant, keys in self.by_tenant().items()}


@pytest.fixture
def inv(server: Mongod, proxy: Proxy, coll: str) -> Shared:
    return Shared(server, proxy, "inv", coll + "-")


@pytest.fixture
def number(server: Mongod, proxy: Proxy, coll: str) -> Shared:
    return Shared(server, proxy, "number", coll + "-")


def prepare(server: Mongod, ns: str) -> None:
    """A collection that refuses {v: "bad"}, in which each u occurs once."""
    db, _, name = ns.partition(".")
    collection = server.client[db].create_collection(name, validator={"v": {"$ne": "bad"}})
    collection.create_index("u", unique=True, sparse=True)
    collection.insert_one({"u": "taken"})


def begin(server: Mongod, proxy: Proxy, ns: str) -> str:
    """Prepares it, and waits until the proxy is ready for it."""
    prepare(server, ns)
    return await_first(proxy, ns)


def await_first(proxy: Proxy, ns: str) -> str:
    eventually(lambda: insert(proxy, ns, [{"tenant": "a", "k": "first"}]).get("ok") == 1, 20)
    return ns


def number_in(value: Any) -> int:
    return int(re.search(r"(\d+)$", value)[1]) if isinstance(value, str) else int(value)


def by_tenant(server: Mongod, ns: str, field: str = "n") -> dict[Any, list[Any]]:
    """The keys of each tenant's documents, by their numbers, which must be consecutive."""
    db, _, name = ns.partition(".")
    found: dict[Any, list[Any]] = collections.defaultdict(list)
    for each in server.client[db][name].find({field: {"$exists": True}}):
        found[each.get("tenant")].append((number_in(each[field]), each.get("k")))
    for tenant, numbered in found.items():
        numbered.sort(key=lambda each: each[0])
        values = [number for number, _ in numbered]
        assert values == list(range(1, len(values) + 1)), (tenant, values)
    return {tenant: [k for _, k in numbered] for tenant, numbered in found.items()}


def counts(server: Mongod, ns: str) -> dict[Any, int]:
    return {tenant: len(found) for tenant, found in by_tenant(server, ns).items()}


class TestSequences:
    def test_one_for_each_tenant_and_year(self, server, proxy, coll):
        ns = begin(server, proxy, f"inv.{coll}")
        assert insert(proxy, ns, of("a", "b", "a", "c", "b"))["n"] == 5
        assert counts(server, ns) == {"a": 3, "b": 2, "c": 1}
        values = {each["n"] for each in server.client.inv[coll].find({"tenant": "a", "k": {"$ne": 9}})}
        assert values == {f"INV-{YEAR}-{n:06}" for n in (1, 2, 3)}
        floors = server.client[STORE]["gaplessFloors"]
        key = {"c": f"{ns}.n", "s": {"tenant": "a"}, "p": str(YEAR)}
        eventually(lambda: floors.find_one({"_id": key, "floor": 3}))
        index = server.client.inv[coll].index_information()["tenant_n_idproxy"]
        assert index["unique"] and index["partialFilterExpression"] == {"n": {"$exists": True}}

    def test_equal_integers_are_one(self, number):
        ones = [1, bson.Int64(1), 1.0, bson.Decimal128("1"), bson.Decimal128("10E-1")]
        documents = [{**each, "one": True} for each in of(*ones, "1", True)]
        assert number.insert(documents)["n"] == 7
        found = [each["n"] for each in number.collection.find({"one": True}).sort("k")]
        assert found == [1, 2, 3, 4, 5, 1, 1]
        number.collection.delete_many({"one": True})  # to Python, they are several

    def test_documents_that_belong_to_none(self, number, ordered):
        documents = [*number.of("a"), {}, {"tenant": ["a"]}, {"tenant": "x" * 257}, *number.of("a")]
        reply = number.insert(documents, ordered=ordered)
        told = [(each["index"], each["code"]) for each in reply["writeErrors"]]
        assert told == ([(1, 2)] if ordered else [(1, 2), (2, 2), (3, 2)])
        assert number.counts() == {"a": 1 if ordered else 2}

    def test_they_continue_behind_what_is_stored(self, inv):
        b = inv.tenant("b")
        inv.collection.insert_many(
            [{"tenant": b, "n": f"INV-{YEAR}-{n:06}"} for n in (1, 2, 3)] +
            [{"tenant": b, "n": f"INV-{YEAR - 1}-000999"},
             {"tenant": inv.tenant("d"), "n": f"INV-{YEAR}-000777"}])
        assert inv.insert(inv.of("b", "c"))["n"] == 2
        for tenant, text in ((b, f"INV-{YEAR}-000004"), (inv.tenant("c"), f"INV-{YEAR}-000001")):
            assert inv.collection.count_documents({"tenant": tenant, "n": text}) == 1
        inv.collection.delete_many({"tenant": {"$regex": f"^{inv.tenant('')}"}})

    def test_the_least_recently_used_one_is_forgotten(self, server, proxy, coll):
        ns = begin(server, proxy, f"few.{coll}")
        tenants = ["a", "b", "c", "d"]
        assert insert(proxy, ns, of(*tenants, *tenants))["n"] == 8, "more at once than are kept"

        def known() -> set[str]:
            with proxy.client() as client:
                rules = client.admin.command("idproxy", "status")["rules"]
            return {json.loads(each["sequence"])["s"]["tenant"] for rule in rules
                    if rule["ns"] == "few.*" for each in rule["numbers"] if each["ns"] == ns}
        eventually(lambda: known() == {"c", "d"})
        floors = server.client[STORE]["gaplessFloors"]
        kept = {each["_id"]["s"]["tenant"]: each["floor"]
                for each in floors.find({"_id.c": f"{ns}.n"})}
        assert kept["a"] == 3 and kept["b"] == 2, "the floor comes first"
        server.client.few[coll].delete_one({"tenant": "b", "n": 2})
        assert insert(proxy, ns, of("b"))["n"] == 1
        assert server.client.few[coll].find_one({"tenant": "b", "n": 3}), "2 was given out before"

    def test_beside_one_of_the_whole_collection(self, server, proxy, coll):
        ns = begin(server, proxy, f"two.{coll}")
        documents = of("a", "b", "a", "c", "b", "a")
        documents[2] |= INVALID
        assert insert(proxy, ns, documents, ordered=False)["n"] == 5
        assert counts(server, ns) == {"a": 3, "b": 2, "c": 1}
        found = sorted(each["all"] for each in server.client.two[coll].find({"all": {"$exists": True}}))
        assert found == list(range(1, 7))

    def test_upserts_and_values_beforehand(self, proxy, coll, number):
        with proxy.client() as client:
            (fields,) = number.of("a")
            client.number.shared.update_one(fields, {"$set": {"x": 1}}, upsert=True)
            assert client.number.shared.find_one(fields)["n"] == 1
            with pytest.raises(OperationFailure, match="depends_on_document"):
                client.number.shared.update_one(
                    {"tenant": {"$in": [fields["tenant"]]}, "k": "b"}, {"$set": {"x": 1}},
                    upsert=True)
            eventually(lambda: insert(proxy, f"zone.{coll}", 1).get("ok") == 1)
            client.zone[coll].update_one({"k": 9}, {"$set": {"x": 1}}, upsert=True)
            for ns in (number.ns, f"zone.{coll}"):
                with pytest.raises(OperationFailure, match="for documents that are being stored") as no:
                    client.admin.command("idproxy", "next", ns=ns, field="n")
                assert no.value.code == 96


class TestTemplates:
    def test_a_day_begins_at_midnight_of_the_time_zone(self, server, proxy, coll):
        eventually(lambda: insert(proxy, f"zone.{coll}", 2).get("ok") == 1)
        now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=14)
        assert sorted(each["n"] for each in server.client.zone[coll].find()) == [
            f"{now:%Y-%m-%d}/{n}" for n in (1, 2)]

    def test_as_id(self, server, proxy, coll):
        with proxy.client() as client:
            collection = client.id[coll]
            eventually(lambda: collection.insert_one({"tenant": "a"}))
            collection.insert_many([{"tenant": t} for t in "bab"])
        assert sorted(each["_id"] for each in server.client.id[coll].find()) == [
            f"{t}-{YEAR}-{n:03}" for t in "ab" for n in (1, 2)]

    def test_check_digits_and_a_sequence_of_documents_without_a_tenant(self, server, proxy, coll):
        ns = begin(server, proxy, f"check.{coll}")
        assert insert(proxy, ns, [*of("a", "b"), {}, {"tenant": None}])["n"] == 4
        for each in server.client.check[coll].find({"n": {"$exists": True}}):
            digits = [int(c) for c in each["n"] if c.isdigit()]
            doubled = [d * 2 - 9 * (d > 4) for d in digits[-2::-2]]
            assert (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0, each["n"]
        for tenant in ("a", None):
            assert server.client.check[coll].count_documents(
                {"tenant": tenant, "n": {"$regex": f"^{YEAR}-0002-"}}) == 1

    def test_beyond_the_width(self, server, start_proxy, coll):
        rules = [each for each in RULES if each["ns"] in ("wide.*", "narrow.*")]
        proxy = start_proxy(configuration(server, rules))
        ns = f"wide.{coll}"
        eventually(lambda: insert(proxy, ns, of("a", "b", "a")).get("ok") == 1)
        assert insert(proxy, ns, of("a", "a", "b"))["n"] == 3
        proxy.stop()
        server.client[STORE]["gaplessFloors"].delete_many({})
        proxy = start_proxy(configuration(server, rules))
        eventually(lambda: insert(proxy, ns, of("a", "b", "a")).get("ok") == 1)
        assert sorted(each["n"] for each in server.client.wide[coll].find()) == [
            "a/10", "a/11", "a/12", "a/13", "a/8", "a/9", "b/10", "b/8", "b/9"]
        ns = f"narrow.{coll}"
        eventually(lambda: insert(proxy, ns, of("a", "b", "a")).get("ok") == 1)
        assert insert(proxy, ns, of("b"))["n"] == 1
        reply = insert(proxy, ns, of("b"))
        assert reply["code"] == 96 and "up to 9 " in reply["errmsg"]

    def test_texts_that_begin_with_the_tenant(self, server, start_proxy, coll):
        """a1 and 8 looks like a and 18. What is stored tells the next number, of the tenant alone."""
        rules = [each for each in RULES if each["ns"] == "joined.*"]
        ns = f"joined.{coll}"
        for _ in range(3):
            proxy = start_proxy(configuration(server, rules))
            eventually(lambda: insert(proxy, ns, of("a", "a1", "a")).get("ok") == 1)
            assert insert(proxy, ns, of("a1", "a", "a"))["n"] == 3
            proxy.stop()
            server.client[STORE]["gaplessFloors"].delete_many({})
        texts: dict[str, list[str]] = {"a": [], "a1": []}
        for each in server.client.joined[coll].find():
            texts[each["tenant"]].append(each["n"])
        assert texts == {"a": [f"a{n}" for n in range(8, 20)],
                         "a1": [f"a1{n}" for n in range(8, 14)]}


class TestFailingDocuments:
    def test_numbers_of_one_tenant_are_taken(self, number, ordered):
        """By another program that inserts the highest number + 1 there."""
        assert number.insert(number.of("a", "b", "c"))["n"] == 3
        number.collection.insert_many(
            [{"tenant": number.tenant("b"), "n": bson.Int64(n)} for n in (2, 3)])
        tenants = ["a", "b", "c", "b", "a", "d"] * 5
        assert number.insert(number.of(*tenants), ordered=ordered)["n"] == 30
        assert number.counts() == {"a": 11, "b": 13, "c": 6, "d": 5}


class TestTransactions:
    def test_who_waits_for_it_does_not_hold_it_up(self, server, proxy, inv):
        """The batch waits in the server for the transaction's number of `a`, and has the turn of `b`,
        which the transaction needs next."""
        assert inv.insert(inv.of("a", "b"))["n"] == 2
        with proxy.client() as client, client.start_session() as running:
            collection = client.inv.shared
            running.start_transaction()
            collection.insert_one({"tenant": inv.tenant("a"), "k": "mine"}, session=running)
            with Threads(lambda: inv.insert(inv.of("a", "b"))):
                busy = {"active": True, "op": "insert", "ns": inv.ns}
                eventually(lambda: list(server.client.admin.aggregate(
                    [{"$currentOp": {}}, {"$match": busy}])), what="an insert that waits in the server")
                collection.insert_one({"tenant": inv.tenant("b"), "k": "mine"}, session=running)
                running.commit_transaction()
        # It would have failed after 2 s if it had waited for the batch.
        assert inv.by_tenant() == {"a": [0, "mine", 0], "b": [1, "mine", 1]}


class TestReadiness:
    def test_demands_the_compound_index(self, server, proxy, coll):
        ns = f"required.{coll}"
        server.client.required[coll].create_index("n", unique=True)
        reply = eventually(lambda: (found := insert(proxy, ns, of("a")))["code"] == 96 and found, 20)
        reason = reply["errmsg"]
        assert "(n_1 does not do: its key must be the field and those of `scope`)" in reason
        assert re.search(r"make it with (db\..*)$", reason)[1] == (
            f'db.getSiblingDB("required").getCollection("{coll}").createIndex({{"tenant": 1, '
            '"n": -1}, {unique: true, partialFilterExpression: '
            '{"n": {$exists: true}}, name: "tenant_n_idproxy"})')
        server.client.required[coll].drop_index("n_1")
        server.client.required[coll].create_index(
            [("tenant", 1), ("n", 1)], unique=True,
            partialFilterExpression={"n": {"$exists": True}})
        eventually(lambda: insert(proxy, ns, of("a", "b")).get("ok") == 1, 20)
        assert counts(server, ns) == {"a": 1, "b": 1}

    def test_before_the_first_insert(self, server, start_proxy, coll, tmp_path):
        db = server.client[coll]
        for name in ("scoped", "dated"):
            db[name].create_index([("tenant", 1), ("n", 1)] if name == "scoped" else "n",
                                  unique=True)
        db["dated"].insert_one({"n": f"{YEAR}-041"})
        rules = [{"ns": f"{coll}.scoped", **_INVOICE}, {
            "ns": f"{coll}.dated", "strategy": "gapless", "field": "n", "output": "string",
            "template": "{yyyy}-{counter:03}", "reset": "yearly"}]
        proxy = start_proxy(configuration(server, rules))
        assert proxy.wait_event("ready")["rules_not_ready"] == ""
        with proxy.client() as client:
            dated = client.admin.command("idproxy", "status")["rules"][1]
        assert json.loads(dated["numbers"][0]["sequence"]) == {
            "c": f"{coll}.dated.n", "p": str(YEAR)}
        assert dated["numbers"][0]["next"] == 42
        file = tmp_path / "check.yaml"
        file.write_text(json.dumps(configuration(server, rules)))
        checked = subprocess.run([binary(), "--check-config", "--connect", "--config", str(file)],
                                 capture_output=True, text=True, timeout=60)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "next number: depends on the document" in checked.stdout
        assert f'next number: "{YEAR}-042"' in checked.stdout or \
            f"next number: {YEAR}-042" in checked.stdout


class TestThePage:
    """The example of docs/templates.md#without-gaps."""

    def test_is_right(self, server, start_proxy):
        page = (ROOT / "docs" / "templates.md").read_text()
        section = page.split("\n## Without gaps\n")[1].split("\n## ")[0]
        (text,) = re.findall(r"(?s)```yaml\n  - (.*?)```", section)
        rule: dict[str, Any] = {key: value.strip('"') for key, value in
                                re.findall(r"(?m)^ *(\w+): (.*)$", text)}
        rule["scope"] = [rule["scope"].strip("[]")]
        proxy = start_proxy(configuration(server, [rule]))
        rows = re.findall(r"(?m)^\| `(\[.*?\])` \| (.*?) \|$", section)
        assert len(rows) == 2
        now = datetime.datetime.now(zoneinfo.ZoneInfo(rule["timezone"]))
        expected: dict[str, str] = {}
        for documents, stored in rows:
            eventually(lambda d=documents: insert(
                proxy, "shop.invoices", json.loads(d), ordered=False).get("ok") == 1)
            expected |= {k: n.replace("2026", str(now.year))
                         for k, n in re.findall(r"`(\w)` (INV-[0-9-]*)", stored)}
        found = {d["_id"]: d["number"] for d in server.client["shop"]["invoices"].find()}
        assert found == expected and len(found) == 5


_keys = itertools.count()


class TestManyWriters:
    def test_two_proxies_and_a_hand(self, server, start_proxy, coll, record):
        """Eight writers, batches over five tenants in random order, 5 % of the documents invalid, and
        a program that inserts the highest number + 1 of one tenant."""
        rules = [{"ns": f"inv.{coll}", **_INVOICE}]
        prepare(server, f"inv.{coll}")
        proxies = [start_proxy(configuration(server, rules)) for _ in range(2)]
        ns = await_first(proxies[0], f"inv.{coll}")
        eventually(lambda: insert(proxies[1], ns, of("a")).get("ok") == 1, 20)
        end = time.monotonic() + (20 if FULL else 2)
        stored: collections.Counter[Any] = collections.Counter(a=2)
        lock = threading.Lock()
        failures: list[Any] = []

        def writer(number: int) -> None:
            choose = random.Random(number)
            with proxies[number % 2].client() as client:
                while time.monotonic() < end:
                    tenants = choose.choices("abcde", k=choose.choice([1, 1, 3, 10]))
                    bad = {k for k in range(len(tenants)) if choose.random() < 0.05}
                    documents = [{**each, **(INVALID if each["k"] in bad else {})}
                                 for each in of(*tenants)]
                    try:
                        client.inv[coll].insert_many(documents, ordered=False)
                    except BulkWriteError as failure:
                        if {e["index"] for e in failure.details["writeErrors"]} != bad:
                            failures.append(failure.details)
                    except PyMongoError as failure:
                        failures.append(failure)
                        continue
                    with lock:
                        stored.update(t for k, t in enumerate(tenants) if k not in bad)

        def hand() -> None:
            collection = server.client.inv[coll]
            while time.monotonic() < end:
                last = max(number_in(d["n"]) for d in collection.find({"tenant": "b", "n": {
                    "$exists": True}}).sort("n", -1).limit(1)) if collection.count_documents(
                        {"tenant": "b"}) else 0
                try:
                    collection.insert_one({"tenant": "b", "n": f"INV-{YEAR}-{last + 1:06}"})
                    with lock:
                        stored["b"] += 1
                except DuplicateKeyError:
                    continue
                time.sleep(0.05)

        at_once(hand, *(partial(writer, i) for i in range(8)))
        assert not failures, failures[:3]
        assert counts(server, ns) == dict(stored)
        record("documents", sum(stored.values()))

    def test_a_proxy_is_killed(self, server, start_proxy, coll):
        rules = [{"ns": f"inv.{coll}", **_INVOICE}]
        prepare(server, f"inv.{coll}")
        kept = start_proxy(configuration(server, rules))
        ns = await_first(kept, f"inv.{coll}")
        acknowledged: set[int] = set()
        for _ in range(10 if FULL else 2):
            acknowledged.update(insert_until_killed(
                kept, Proxy(configuration(server, rules)), ns,
                lambda choose: {"k": next(_keys), "tenant": choose.choice("abc")}))
            found = [k for keys in by_tenant(server, ns).values() for k in keys]
            assert acknowledged <= set(found)
