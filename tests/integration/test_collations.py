"""Stored texts are found under any collation, of the collection or of the index.

A collection's default collation holds for each command that names none, and by it texts have another
order than that of their bytes: what is read by bytes then does not find them, and numbers come twice.
"""

from __future__ import annotations

import datetime
import itertools
import json
import pathlib
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from stdnum import luhn

from support.backfill import Backfill
from support.counters import insert, numbers
from support.mongod import Mongod
from support.process import eventually
from support.profiler import Profiler
from support.proxy import Proxy, binary, configuration
from support.typed import create_index

SIMPLE = {"locale": "simple"}
ANY_CASE = {"locale": "en", "strength": 2}
GERMAN = {"locale": "de"}
NUMERIC = {"locale": "en", "numericOrdering": True}
NO_SIGNS = {"locale": "en", "alternate": "shifted"}  # A-1 is A1

YEAR = datetime.datetime.now(datetime.timezone.utc).year
STORED = 3
NEW = 2

TEXT = {"output": "string", "format": {"prefix": "A-", "pad": 6}}


def text(number: int) -> str:
    return f"A-{number:06}"


def yearly(number: int) -> str:
    return f"INV-{YEAR}-{number:05}"


def checked(number: int) -> str:
    return f"{number:04}-{luhn.calc_check_digit(f'{number:04}')}"


# By the database: the rule, and the text of a number.
STRATEGIES: dict[str, tuple[dict[str, Any], Any]] = {
    "number": ({"strategy": "counter"}, int),
    "text": ({"strategy": "counter", **TEXT}, text),
    "yearly": ({"strategy": "counter", "output": "string", "reset": "yearly",
                "template": "INV-{yyyy}-{counter:05}"}, yearly),
    "dated": ({"strategy": "counter", "output": "string", "template": "{yyyy}/{counter:06}"},
              lambda number: f"{YEAR}/{number:06}"),
    "checked": ({"strategy": "counter", "output": "string", "check": "luhn",
                 "template": "{counter:04}-{check}"}, checked),
    "scoped": ({"strategy": "counter", "scope": ["tenant"], **TEXT}, text),
    "tenants": ({"strategy": "counter", "scope": ["tenant"]}, int),
    "gapless": ({"strategy": "gapless", **TEXT}, text),
    "invoice": ({"strategy": "gapless", "scope": ["tenant"], "output": "string", "reset": "yearly",
                 "template": "INV-{yyyy}-{counter:05}"}, yearly),
}

COLLECTIONS = {"plain": None, "any_case": ANY_CASE, "german": GERMAN, "numeric": NUMERIC,
               "no_signs": NO_SIGNS}
# "as_collection" names no collation. In each collection the application has one of these.
INDEXES = {"none": None, "simple": SIMPLE, "as_collection": {}, "own": {"locale": "fr", "strength": 1}}

ROWS = list(itertools.product(COLLECTIONS, INDEXES))


def name_of(collection: str, index: str, has_texts: bool) -> str:
    return f"{collection}_{index}_{'stored' if has_texts else 'empty'}"


def make(server: Mongod, ns: str, scope: list[str], collation: Any, index: Any,
         values: list[Any]) -> None:
    db, _, name = ns.partition(".")
    options = {"collation": collation} if collation else {}
    made = server.client[db].create_collection(name, **options)
    if index is not None:
        made.create_index([*((each, 1) for each in scope), ("n", 1)], unique=True,
                          partialFilterExpression={"n": {"$exists": True}},
                          **({"collation": index} if index else {}))
    if values:
        made.insert_many([{"n": value, "tenant": "a"} for value in values])


RULES = [{"ns": f"{db}.*", "field": "n", **rule} for db, (rule, _) in STRATEGIES.items()] + [
    {"ns": "short.*", "field": "n", "strategy": "counter", "output": "string",
     "format": {"prefix": "A-", "pad": 2}},
    {"ns": "lettered.*", "field": "n", "strategy": "counter", "output": "string",
     "template": "R{yyyy}/{counter:06}"}]


def fill(proxy: Proxy, ns: str, count: int, tenant: str = "a") -> list[Any]:
    """Stores documents one by one, each of them again as long as there is no number yet (a collection
    without an index is being read, or the machine is busy). The replies with other errors."""
    def reply() -> dict[str, Any] | None:
        got = insert(proxy, ns, [{"tenant": tenant, "new": True}])
        return None if got.get("code") == 6 else got

    replies = [eventually(reply, 30, ns) for _ in range(count)]
    return [got for got in replies if got.get("n") != 1]


class TestTheTable:
    """Each strategy, by the collection's collation and that of the index."""

    @pytest.mark.parametrize("collection, index", ROWS)
    def test_goes_on_behind_what_is_stored(self, replica_set, replica_proxy, collection, index):
        def one(cell: tuple[str, bool]) -> None:
            strategy, has_texts = cell
            rule, written = STRATEGIES[strategy]
            ns = f"{strategy}.{name_of(collection, index, has_texts)}"
            values = [written(n) for n in range(1, STORED + 1)] if has_texts else []
            make(replica_set, ns, rule.get("scope", []), COLLECTIONS[collection], INDEXES[index],
                 values)
            errors = fill(replica_proxy, ns, NEW)
            assert not errors, (ns, errors)
            assert numbers(replica_set.client, ns) == [
                written(n) for n in range(1, len(values) + NEW + 1)], ns

        # These refuse each insert without an index.
        cells = [(strategy, has_texts) for strategy, (rule, _) in STRATEGIES.items()
                 for has_texts in (False, True)
                 if index != "none" or not (rule["strategy"] == "gapless" or "scope" in rule)]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(one, cells))

    def test_ranges(self, replica_set, start_proxy, coll):
        """Their documents are made at the start, behind what is stored then."""
        rules = []
        for (collection, index), has_texts in itertools.product(ROWS, (False, True)):
            if index == "none" and has_texts:
                continue  # are refused
            ns = f"{coll}.{name_of(collection, index, has_texts)}"
            values = [text(n) for n in range(1, STORED + 1)] if has_texts else []
            make(replica_set, ns, [], COLLECTIONS[collection], INDEXES[index], values)
            rules.append({"ns": ns, "field": "n", "strategy": "counter-ranges", **TEXT,
                          "ranges": {"count": 2, "width": 1000}, "store": {"collection": ns}})
        proxy = start_proxy(configuration(replica_set, rules))
        for rule in rules:
            assert not fill(proxy, rule["ns"], NEW), rule["ns"]
            found = numbers(replica_set.client, rule["ns"])
            stored = STORED * ("stored" in rule["ns"])
            assert len(set(found)) == stored + NEW, found
            lower = {n for n in found if n < text(1000)}
            assert not stored or text(STORED + 1) in lower or len(lower) == STORED, found


class TestManyTexts:
    """With 2,000 stored texts no attempt would come behind them by chance."""

    MANY = 2000

    @pytest.mark.parametrize("collation, index", [
        (ANY_CASE, {}), (None, ANY_CASE), (NUMERIC, {}), (None, NO_SIGNS)])
    def test_a_counter_is_healed(self, replica_set, replica_proxy, coll, collation, index):
        ns = f"text.{coll}"
        make(replica_set, ns, [], collation, index, [])
        assert not fill(replica_proxy, ns, 1)
        db, _, name = ns.partition(".")
        replica_set.client[db][name].insert_many(
            [{"n": text(n)} for n in range(2, self.MANY + 1)])
        assert not fill(replica_proxy, ns, 40)
        assert len(set(numbers(replica_set.client, ns))) == self.MANY + 40

    def test_scopes_that_the_index_calls_equal_share_its_numbers(self, replica_set, replica_proxy, coll):
        for db, written in (("tenants", int), ("scoped", text)):
            ns = f"{db}.{coll}"
            make(replica_set, ns, ["tenant"], ANY_CASE, {},
                 [written(n) for n in range(1, self.MANY + 1)])
            assert not fill(replica_proxy, ns, 3, "A")
            assert numbers(replica_set.client, ns)[self.MANY:] == [
                written(n) for n in range(self.MANY + 1, self.MANY + 4)]

    def test_texts_that_only_the_index_calls_equal(self, replica_set, replica_proxy, coll):
        stored = [f"a-{n:06}" for n in range(1, self.MANY + 1)]
        for db in ("text", "gapless"):
            make(replica_set, f"{db}.{coll}", [], ANY_CASE, {}, stored)
            assert not fill(replica_proxy, f"{db}.{coll}", 3)
            assert numbers(replica_set.client, f"{db}.{coll}")[self.MANY:] == [
                text(n) for n in range(self.MANY + 1, self.MANY + 4)]

    @pytest.mark.parametrize("db", ["text", "gapless"])
    def test_texts_without_their_zeros(self, replica_set, replica_proxy, coll, db):
        make(replica_set, f"{db}.{coll}", [], NUMERIC, {},
             [f"A-{n}" for n in range(1, self.MANY + 1)])
        assert not fill(replica_proxy, f"{db}.{coll}", 3)
        assert numbers(replica_set.client, f"{db}.{coll}")[self.MANY:] == [
            text(n) for n in range(self.MANY + 1, self.MANY + 4)]

    @pytest.mark.parametrize("db", ["text", "gapless"])
    def test_the_index_that_forbids_most_counts(self, replica_set, replica_proxy, coll, db):
        make(replica_set, f"{db}.{coll}", [], None, ANY_CASE,
             [f"a-{n:06}" for n in range(1, self.MANY + 1)])
        replica_set.client[db][coll].create_index("n", name="by_bytes")
        assert not fill(replica_proxy, f"{db}.{coll}", 3)
        assert len(set(numbers(replica_set.client, f"{db}.{coll}"))) == self.MANY + 3

    @pytest.mark.parametrize("db, stored", [
        ("short", [f"a-{n:02}" for n in range(1, 500)]),
        ("lettered", [f"r{YEAR}/{n:06}" for n in range(1, 500)])])
    def test_texts_whose_order_is_not_that_of_their_numbers(self, replica_set, replica_proxy, coll,
                                                            db, stored):
        make(replica_set, f"{db}.{coll}", [], ANY_CASE, {}, stored)
        assert not fill(replica_proxy, f"{db}.{coll}", 3)
        assert len(set(numbers(replica_set.client, f"{db}.{coll}"))) == len(stored) + 3

    @pytest.mark.parametrize("db", ["text", "gapless"])
    @pytest.mark.parametrize("collation", [ANY_CASE, GERMAN, NUMERIC, NO_SIGNS])
    def test_other_texts_with_the_digits_of_a_number(self, replica_set, replica_proxy, coll, db,
                                                     collation):
        """Such as those of amended invoices: what the index does not call equal is no number."""
        others = [*(f"A-{n:06}b" for n in range(900, 1000)), "A-000950/1", "B-000970"]
        make(replica_set, f"{db}.{coll}", [], collation, {},
             [*(text(n) for n in range(1, STORED + 1)), *others])
        assert not fill(replica_proxy, f"{db}.{coll}", NEW)
        found = sorted(set(numbers(replica_set.client, f"{db}.{coll}")) - set(others))
        assert found == [text(n) for n in range(1, STORED + NEW + 1)]

    @pytest.mark.parametrize("locale", ["ar", "da", "hu", "ja", "th", "zh@collation=stroke"])
    def test_digits_have_their_order_in_every_locale(self, replica_set, replica_proxy, coll, locale):
        ns = f"gapless.{coll}"
        make(replica_set, ns, [], None, {"locale": locale},
             [text(n) for n in (*range(1, 12), 99, 100, 899, 900, 98_765, 100_000)])
        assert not fill(replica_proxy, ns, 1)
        assert numbers(replica_set.client, ns)[-1] == text(100_001)


class Commands:
    def __init__(self, folder: pathlib.Path, config: dict[str, Any]):
        self.path = folder / "config.yaml"
        self.path.write_text(json.dumps({**config, "admin": {"listen": None}}))
        self.path.chmod(0o600)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([binary(), *map(str, arguments), "--config", str(self.path)],
                              capture_output=True, text=True, timeout=60)


class TestCommands:
    RULE = {"field": "n", "strategy": "counter", **TEXT}

    @pytest.fixture
    def config(self, replica_set, coll):
        return configuration(replica_set, [{"ns": f"{coll}.few", **self.RULE}])

    def test_backfill_goes_on(self, replica_set, coll, config, tmp_path):
        make(replica_set, f"{coll}.few", [], ANY_CASE, None, [text(1), text(2)])
        replica_set.client[coll].few.insert_many([{"old": 1}, {"old": 2}])
        done = Backfill(tmp_path, config, f"{coll}.few", "n").end()
        assert done.code == 0, done
        assert sorted(numbers(replica_set.client, f"{coll}.few")) == [text(n) for n in (1, 2, 3, 4)]

    def test_sync_finds_the_largest_number(self, replica_set, coll, config, tmp_path):
        make(replica_set, f"{coll}.few", [], ANY_CASE, {}, [text(n) for n in range(1, 8)])
        commands = Commands(tmp_path, config)
        replica_set.client.idproxy.uniqueIdentifierCounter.insert_one(
            {"_id": f"{coll}.few.n", "COUNT": 3})
        done = commands.run("counters", "sync", f"{coll}.few.n")
        assert done.returncode == 0 and "the next number is 8" in done.stdout, done

    @pytest.mark.parametrize("unique", [False, True])
    def test_the_index_that_is_advised_can_be_made(self, replica_set, coll, config, tmp_path,
                                                   start_proxy, unique):
        few = replica_set.client[coll].create_collection("few", collation=ANY_CASE)
        few.create_index("n")
        few.insert_many([{"n": "a"}, {"n": "A"}])  # are no duplicates to a rule
        if unique:
            config["rules"][0]["unique_index"] = "create"
            start_proxy(config)
            made = eventually(lambda: [index for index in few.list_indexes() if index.get("unique")])
            assert "collation" not in made[0]
            return
        said = Commands(tmp_path, config).run("check", "--connect")
        text = said.stdout + said.stderr
        assert 'collation: {locale: "simple"}' in text
        create_index(replica_set.client, text)

    def test_verify_tells_tenants_apart(self, replica_set, coll, tmp_path):
        rule = {"ns": f"{coll}.few", "field": "n", "strategy": "gapless", "scope": ["tenant"],
                **TEXT, "unique_index": "warn"}
        few = replica_set.client[coll].create_collection("few", collation=ANY_CASE)
        few.insert_many([*({"tenant": "a", "n": text(n)} for n in (1, 2, 4)),
                         *({"tenant": "A", "n": text(n)} for n in (1, 2, 3))])
        done = Commands(tmp_path, configuration(replica_set, [rule])).run(
            "verify", "--ns", f"{coll}.few", "--field", "n")
        assert done.returncode == 1 and "3" in done.stdout, done

    def test_verify_of_one_tenant_counts_no_document_of_another(self, replica_set, coll, tmp_path):
        rule = {"ns": f"{coll}.few", "field": "n", "strategy": "counter", "scope": ["tenant"],
                "unique_index": "create"}
        few = replica_set.client[coll].create_collection("few", collation=ANY_CASE)
        few.insert_many([{"_id": "of A", "tenant": "A"}, {"_id": "null", "tenant": "A", "n": None}])
        commands = Commands(tmp_path, configuration(replica_set, [rule]))

        def missing(tenant: str) -> dict[str, Any]:
            done = commands.run("verify", "--json", "--ns", f"{coll}.few", "--field", "n", "--scope",
                                json.dumps({"tenant": tenant}))
            return json.loads(done.stdout)["missing"]

        assert missing("a") == {"count": 0, "examples": []}
        assert missing("A") == {"count": 1, "examples": [{"_id": "of A"}]}


class TestLooksByIndex:
    """The proxy's own index has no collation: no query for texts uses it by that of the collection."""

    SPACE = 10_000
    TAKEN = 8900
    RULE = {"field": "n", "strategy": "random-digits", "digits": 4, "output": "string"}

    def test_free_values_and_fill(self, replica_set, coll, start_proxy):
        few = replica_set.client[coll].create_collection("few", collation=ANY_CASE)
        few.create_index([("n", -1)], unique=True, collation=SIMPLE,
                         partialFilterExpression={"n": {"$exists": True}})
        few.insert_many([{"n": f"{n:04}"} for n in random.sample(range(self.SPACE), self.TAKEN)])
        with Profiler(replica_set, coll) as profiler:
            proxy = start_proxy(configuration(replica_set, [{"ns": f"{coll}.few", **self.RULE}]))
            assert insert(proxy, f"{coll}.few", 20)["n"] == 20
            seen = [each for each in profiler.commands() if each["ns"] == f"{coll}.few"]
        looks = [each for each in seen if "hint" in each["command"]]
        counts = [each for each in seen if "count" in each["command"]]
        assert looks and counts, seen
        for each in looks:
            values = len(each["command"]["filter"]["n"]["$in"])
            assert each["keysExamined"] <= 2 * values + 1 < self.TAKEN / 4, each
        for each in counts:
            assert each["docsExamined"] == 0, each


class TestTheStore:
    def test_has_a_collation_of_its_own(self, replica_set, coll, start_proxy):
        """Ranges are found by the texts of their keys."""
        store = f"{coll}_store"
        for name in ("ranges", "marks", "uniqueIdentifierCounter", "sequences"):
            replica_set.client[store].create_collection(name, collation=NO_SIGNS)
        rules = [
            {"ns": f"{coll}.ranges", "field": "n", "strategy": "counter-ranges",
             "ranges": {"count": 4, "width": 100}, "store": {"collection": "ranges"}},
            {"ns": f"{coll}.one", "field": "n", "strategy": "counter"},
            {"ns": f"{coll}.scoped", "field": "n", "strategy": "counter", "scope": ["tenant"],
             "unique_index": "create"}]
        config = configuration(replica_set, rules, id_store={"db": store})
        for _ in range(2):  # what the first one made, the second one finds
            proxy = start_proxy(config)
            for name in ("ranges", "one", "scoped"):
                assert not fill(proxy, f"{coll}.{name}", 2)
        assert replica_set.client[store].ranges.count_documents({}) == 4
        for name in ("ranges", "one", "scoped"):
            found = numbers(replica_set.client, f"{coll}.{name}")
            assert len(set(found)) == 4, (name, found)
