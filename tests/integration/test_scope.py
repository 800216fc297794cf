"""A sequence per tenant: the index that it needs, batches over many, restarts, several proxies."""

from __future__ import annotations

import collections
import pathlib
import re
import threading
from functools import partial
from typing import Any

import bson
import pymongo
import pytest

from support import wire
from support.admin import LISTEN, Admin
from support.counters import STORE, insert, stored
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.threads import Threads

ROOT = pathlib.Path(__file__).resolve().parents[2]
_SCOPED = {"strategy": "counter", "field": "n", "scope": ["tenant"], "block": {"size": 10}}

RULES = [
    {"ns": "made.*", **_SCOPED, "unique_index": "create"},
    {"ns": "required.*", **_SCOPED},
    {"ns": "null.*", **_SCOPED, "on_missing_scope": "null", "unique_index": "create"},
    {"ns": "deep.*", **_SCOPED, "scope": ["site.name", "customer.id"], "unique_index": "create"},
    {"ns": "few.*", **_SCOPED, "max_scopes": 2, "unique_index": "create"},
    {"ns": "reported.*", **_SCOPED, "report": True, "unique_index": "create"},
    {"ns": "joined.*", **_SCOPED, "output": "string", "template": "{field:tenant}{counter:04}",
     "unique_index": "create"},
    {"ns": "custom.*", **_SCOPED, "unique_index": "create", "store": {
        "layout": "custom", "collection": "scopes", "key_field": "name", "value_field": "seq",
        "value_is": "last"}},
]


@pytest.fixture(scope="module")
def server(replica_set: Mongod) -> Mongod:
    return replica_set


def insert_when_ready(proxy: Proxy, ns: str, documents: list[Any], **options: Any) -> dict[str, Any]:
    """The first insert into a collection can come before the proxy has made its index."""
    replies: list[dict[str, Any]] = []

    def done() -> bool:
        replies.append(insert(proxy, ns, documents, **options))
        return replies[-1].get("ok") == 1
    eventually(done)
    return replies[-1]


def by_tenant(server: Mongod, ns: str) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = collections.defaultdict(list)
    for document in stored(server.client, ns):
        found[document.get("tenant")].append(document.get("n"))
    return dict(found)


def of(*tenants: Any) -> list[dict[str, Any]]:
    return [{"tenant": tenant, "k": k} for k, tenant in enumerate(tenants)]


def counter_of(server: Mongod, ns: str, tenant: Any) -> Any:
    return server.client[STORE]["uniqueIdentifierCounter"].find_one(
        {"_id": {"c": f"{ns}.n", "s": {"tenant": tenant}}})


class TestSequences:
    def test_each_tenant_begins_with_one(self, server, proxy, coll):
        ns = f"made.{coll}"
        assert insert_when_ready(proxy, ns, of("a", "b", "a", "a"))["n"] == 4
        assert insert(proxy, ns, of("b", "c"))["n"] == 2
        assert by_tenant(server, ns) == {"a": [1, 2, 3], "b": [1, 2], "c": [1]}
        assert counter_of(server, ns, "a")["COUNT"] == 11
        index = server.client.made[coll].index_information()["tenant_n_idproxy"]
        assert index["unique"] and index["partialFilterExpression"] == {"n": {"$exists": True}}
        server.client.made[coll].insert_many(of("a", "a"))  # without a number, past the proxy

    def test_equal_integers_are_one(self, server, proxy, coll):
        ns = f"made.{coll}"
        ones = [1, bson.Int64(1), 1.0, bson.Decimal128("1"), bson.Decimal128("10E-1")]
        assert insert_when_ready(proxy, ns, of(*ones, "1", True))["n"] == 7
        assert [each["n"] for each in stored(server.client, ns)] == [1, 2, 3, 4, 5, 1, 1]
        assert counter_of(server, ns, 1)["_id"]["s"] == {"tenant": 1}

    def test_documents_that_belong_to_none(self, server, proxy, coll):
        ns = f"made.{coll}"
        documents = [{"tenant": "a"}, {}, {"tenant": None}, {"tenant": ["a"]}, {"tenant": 1.5},
                     {"tenant": "x" * 257}, {"tenant": {"a": 1}}, {"tenant": "a"}]
        reply = insert_when_ready(proxy, ns, documents, ordered=False)
        assert reply["n"] == 2 and by_tenant(server, ns) == {"a": [1, 2]}
        begin = "mongo-idproxy: no value for field 'n': field 'tenant' "
        missing = begin + "is missing: the rule's `scope` needs it"
        assert [(each["index"], each["code"], each["errmsg"]) for each in reply["writeErrors"]] == [
            (1, 2, missing), (2, 2, missing),
            (3, 2, begin + "is an array: it cannot be a scope"),
            (4, 2, begin + "is not an integer: it cannot be a scope"),
            (5, 2, begin + "is longer than 256 bytes: it cannot be a scope"),
            (6, 2, begin + "has an unsuitable type: it cannot be a scope")]
        reply = insert(proxy, ns, documents)
        assert reply["n"] == 1 and [each["index"] for each in reply["writeErrors"]] == [1]

    def test_a_sequence_of_those_without(self, server, proxy, coll):
        ns = f"null.{coll}"
        assert insert_when_ready(proxy, ns, [{}, {"tenant": None}, {"tenant": "a"}])["n"] == 3
        assert [each["n"] for each in stored(server.client, ns)] == [1, 2, 1]

    def test_an_empty_text_counts_as_missing(self, server, proxy, coll):
        """What a Go or Java program stores for a tenant that it never set. Where documents without
        one have a sequence, those have one of their own: the index could not guard both together."""
        reply = insert_when_ready(proxy, f"made.{coll}", of("a", "", "a"), ordered=False)
        assert reply["n"] == 2 and by_tenant(server, f"made.{coll}") == {"a": [1, 2]}
        (error,) = reply["writeErrors"]
        assert (error["index"], error["code"], error["errmsg"]) == (
            1, 2, "mongo-idproxy: no value for field 'n': field 'tenant' is empty: the rule's "
            "`scope` needs it")
        ns = f"null.{coll}"
        assert insert_when_ready(proxy, ns, of("", None, ""))["n"] == 3
        assert by_tenant(server, ns) == {"": [1, 2], None: [1]}

    def test_texts_that_begin_with_the_tenant(self, server, proxy, coll):
        """a1 and 2 looks like a and 12: the highest number is that of the tenant's own texts."""
        ns = f"joined.{coll}"
        server.client.joined[coll].insert_many([
            {"tenant": "a1", "n": "a10007"}, {"tenant": "a", "n": "a0003"},
            {"tenant": "a12", "n": "a120099"}])
        assert insert_when_ready(proxy, ns, of("a1", "a", "a12", "b2"))["n"] == 4
        assert insert(proxy, ns, of("a1", "b2"))["n"] == 2
        assert {tenant: texts[-2:] for tenant, texts in by_tenant(server, ns).items()} == {
            "a1": ["a10008", "a10009"], "a": ["a0003", "a0004"], "a12": ["a120099", "a120100"],
            "b2": ["b20001", "b20002"]}

    def test_dotted_fields(self, server, proxy, coll):
        ns = f"deep.{coll}"
        document = {"site": {"name": "x"}, "customer": {"id": 7}}
        other = {"site": {"name": "x"}, "customer": {"id": 8}}
        assert insert_when_ready(proxy, ns, [document, other, dict(document)])["n"] == 3
        assert [each["n"] for each in stored(server.client, ns)] == [1, 1, 2]
        key = {"c": f"{ns}.n", "s": {"customer.id": 7, "site.name": "x"}}
        assert server.client[STORE]["uniqueIdentifierCounter"].find_one({"_id": key})

    def test_a_layout_of_ones_own(self, server, proxy, coll):
        ns = f"custom.{coll}"
        assert insert_when_ready(proxy, ns, of("a", "b", "a"))["n"] == 3
        found = server.client[STORE]["scopes"].find_one(
            {"name": {"c": f"{ns}.n", "s": {"tenant": "a"}}})
        assert found["seq"] == 10 and by_tenant(server, ns) == {"a": [1, 2], "b": [1]}

    def test_the_reply_reports_them(self, server, proxy, coll):
        reply = insert_when_ready(proxy, f"reported.{coll}", of("a", "b", "a"))
        assert [(each["index"], each["value"]) for each in reply["idproxy"]["assigned"]] == [
            (0, 1), (1, 1), (2, 2)]

    def test_they_continue_behind_what_is_stored(self, server, proxy, coll):
        """As mongoose-sequence stored it, whose own counters of these the proxy cannot read."""
        ns = f"made.{coll}"
        server.client.made[coll].insert_many(
            [{"tenant": "a", "n": 41}, {"tenant": "b", "n": 7.0}, {"tenant": "c", "n": "x"}])
        assert insert_when_ready(proxy, ns, of("a", "b", "c"))["n"] == 3
        assert by_tenant(server, ns) == {"a": [41, 42], "b": [7.0, 8], "c": ["x", 1]}

    def test_many_new_tenants_in_one_insert(self, server, proxy, coll):
        """Their counters are made at the same time. If that takes too long, the error says so, and those that are
        there serve the next attempt."""
        ns = f"made.{coll}"
        insert_when_ready(proxy, ns, of("first"))
        tenants = [f"t{n}" for n in range(300)]
        replies: list[dict[str, Any]] = []

        def is_stored() -> bool:
            replies.append(insert(proxy, ns, of(*tenants), ordered=False))
            return replies[-1].get("n") == 300

        eventually(is_stored, 60)
        refused = [reply["errmsg"] for reply in replies[:-1]]
        why = "it needs numbers of many sequences, and only those of"
        assert all(why in each for each in refused), refused
        # A first number may be on its way back from one attempt while the next one draws: it comes next.
        assert insert(proxy, ns, of(*tenants), ordered=False)["n"] == 300
        found = {tenant: sorted(numbers) for tenant, numbers in by_tenant(server, ns).items()}
        assert found == {"first": [1], **{tenant: [1, 2] for tenant in tenants}}

    def test_the_least_recently_used_one_gives_back(self, server, proxy, coll):
        ns = f"few.{coll}"
        for tenant in ("a", "b", "c"):
            assert insert_when_ready(proxy, ns, of(tenant))["n"] == 1
        eventually(lambda: counter_of(server, ns, "a")["COUNT"] == 2)
        assert insert(proxy, ns, of("a", "b", "c", "d"))["n"] == 4
        assert by_tenant(server, ns) == {"a": [1, 2], "b": [1, 2], "c": [1, 2], "d": [1]}

    def test_upserts_and_values_beforehand(self, server, proxy, coll):
        ns = f"made.{coll}"
        assert insert_when_ready(proxy, ns, of("a"))["n"] == 1
        with proxy.client() as client:
            client.made[coll].update_one({"tenant": "a", "k": 8}, {"$set": {"x": 1}}, upsert=True)
            assert client.made[coll].find_one({"k": 8})["n"] == 2
            client.made[coll].update_one(
                {"tenant": {"$in": ["a"]}, "k": 9}, {"$set": {"x": 1}}, upsert=True)
            assert "n" not in client.made[coll].find_one({"k": 9})
            rule = client.admin.command("idproxy", "status")["rules"][0]
            assert rule["forwarded"]["depends_on_document"] >= 1
            assert all("made." in each["sequence"] for each in rule["numbers"])
            with pytest.raises(pymongo.errors.OperationFailure, match="takes tenant from it") as no:
                client.admin.command("idproxy", "next", ns=ns, field="n")
            assert no.value.code == 2


class TestIndex:
    def test_without_it_the_rule_is_not_ready(self, server, proxy, coll):
        ns = f"required.{coll}"
        server.client.required[coll].create_index("n", unique=True)
        replies: list[dict[str, Any]] = []

        def refused() -> bool:
            replies.append(insert(proxy, ns, of("a")))
            return replies[-1].get("code") == 96
        eventually(refused)
        reason = replies[-1]["errmsg"]
        assert "(n_1 does not do: its key must be the field and those of `scope`)" in reason
        command = re.search(r"make it with (db\..*)$", reason)[1]
        assert command == (
            f'db.getSiblingDB("required").getCollection("{coll}").createIndex({{"tenant": 1, '
            '"n": -1}, {unique: true, partialFilterExpression: '
            '{"n": {$exists: true}}, name: "tenant_n_idproxy"})')
        server.client.required[coll].drop_index("n_1")
        server.client.required[coll].create_index(
            [("tenant", 1), ("n", 1)], unique=True,
            partialFilterExpression={"n": {"$exists": True}})
        assert insert_when_ready(proxy, ns, of("a", "b"))["n"] == 2

    def test_the_check_says_so_before_the_start(self, server, start_proxy, coll):
        proxy = start_proxy(configuration(
            server, [{"ns": f"early.{coll}", **_SCOPED}], admin=LISTEN))
        lines = Admin(proxy).get("/readyz").text
        assert "not ready: no unique index guards the field" in lines
        server.client.early[coll].create_index([("n", 1), ("tenant", -1)], unique=True)
        eventually(lambda: ": ready" in Admin(proxy).get("/readyz").text)


class TestDuplicates:
    @pytest.mark.parametrize("ordered", [True, False])
    @pytest.mark.parametrize("txn", [True, False])
    def test_in_one_of_many(self, server, proxy, coll, ordered, txn):
        ns = f"made.{coll}"
        assert insert_when_ready(proxy, ns, of("a", "b"))["n"] == 2
        server.client.made[coll].insert_many([{"tenant": "b", "n": n} for n in (3, 4, 5, 6)])
        tenants = [tenant for _ in range(20) for tenant in ("a", "b", *range(10))]
        with proxy.client(retryWrites=txn) as client:
            done = client.made[coll].insert_many(of(*tenants), ordered=ordered)
        assert len(done.inserted_ids) == len(tenants)
        found = by_tenant(server, ns)
        assert sorted(found["a"]) == list(range(1, 22))
        assert len(set(found["b"])) == len(found["b"]) == 25
        for tenant in range(10):
            assert sorted(found[tenant]) == list(range(1, 21))

    def test_in_a_transaction(self, server, proxy, coll):
        ns = f"made.{coll}"
        assert insert_when_ready(proxy, ns, of("a", "b"))["n"] == 2
        server.client.made[coll].insert_many([{"tenant": "b", "n": n} for n in (2, 3)])
        with proxy.client() as client, client.start_session() as session:
            session.with_transaction(lambda each: client.made[coll].insert_many(
                of("a", "b"), session=each))
        found = by_tenant(server, ns)
        assert found["b"][:3] == [1, 2, 3] and found["b"][-1] > 3
        assert len(found["a"]) == 2 and found["a"][-1] > 1


def test_two_proxies_one_of_which_is_killed(server, coll, start_proxy):
    """Four clients, five tenants: no number twice, with nothing but the index's word for it."""
    rules = [{"ns": f"two.{coll}", **_SCOPED, "unique_index": "create"}]
    ns = f"two.{coll}"
    first = Proxy(configuration(server, rules))
    second = start_proxy(configuration(server, rules))
    assert insert_when_ready(first, ns, of("a"))["n"] == 1
    assert insert_when_ready(second, ns, of("a"))["n"] == 1
    answered: collections.Counter[Any] = collections.Counter(a=2)
    lock = threading.Lock()

    def run(proxy: Proxy) -> None:
        for _ in range(40):
            tenants = ["a", "b", 1, 2.0, "c"]
            try:
                reply = insert(proxy, ns, of(*tenants))
            except (OSError, wire.Closed):  # it was killed
                return
            with lock:
                answered.update(tenants[:reply["n"]])
    with Threads(*(partial(run, proxy) for proxy in (first, second, first, second))):
        eventually(lambda: answered["b"] > 20)
        first.kill()
    for tenant, found in by_tenant(server, ns).items():
        assert len(set(found)) == len(found) >= answered[tenant], tenant


def value_in(text: str) -> Any:
    """Of a key of a simple rule."""
    if text.startswith("["):
        return text.strip("[]").split(", ")
    return text.strip('"')


def test_the_pages_example(server, start_proxy):
    """Invoices per tenant and year, as docs/templates.md has it."""
    page = (ROOT / "docs" / "templates.md").read_text()
    text, _ = re.findall(r"(?ms)^```yaml\n  - (ns: shop\.invoices\n.*?)^```", page)
    rule = {key: value_in(value)
            for key, value in re.findall(r"(?m)^ *(\w+): (.*)$", text)}
    shown = re.findall(r"db\.invoices\.insertOne\((.*?)\) .*INV-\d{4}-(\d{6})", page)
    assert len(shown) == 3
    proxy = start_proxy(configuration(server, [rule]))
    for document, number in shown:
        fields = dict(re.findall(r'(\w+): "?(\w+)', document))
        assert insert_when_ready(proxy, "shop.invoices", [fields])["n"] == 1
        found = stored(server.client, "shop.invoices")[-1]["number"]
        assert re.fullmatch(rf"INV-\d{{4}}-{number}", found)
    keys = [each["_id"] for each in server.client[STORE]["uniqueIdentifierCounter"].find(
        {"_id.c": "shop.invoices.number"})]
    assert sorted(each["s"]["tenant"] for each in keys) == ["a", "b"]
    assert all(re.fullmatch(r"\d{4}", each["p"]) for each in keys)
