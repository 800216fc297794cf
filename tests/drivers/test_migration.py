"""docs/migration.md, step by step: its rules, commands and code as they stand there, with the old application and the
new one at the same time."""

from __future__ import annotations

import json
import os
import pathlib
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bson import Int64
from pymongo.collection import Collection

from recipes import Page, written
from stored import run
from support.mongod import Mongod
from support.proxy import Proxy, binary

# The first test may have to fetch the plugin.
pytestmark = pytest.mark.timeout(600)

PAGE = Page("migration.md")
STEPS, OWN, PLUGIN, SQL = "Steps", "A counters collection of your own", "mongoose-sequence", "AUTO_INCREMENT of SQL"
BEFORE, BESIDE = 20, 60


def page_of(section: str, language: str) -> list[str]:
    """Its snippets, also those that are indented in a list, without the indent."""
    found = re.findall(rf"(?ms)^( *)```{language}\n(.*?)^ *```$", PAGE.section(section))
    return [re.sub(rf"(?m)^{indent}", "", text) for indent, text in found]


class Migration:
    """The steps of the page."""

    def __init__(self, server: Mongod, rules: str, directory: pathlib.Path):
        self._server = server
        self._config = written(server, rules, directory)

    def typed(self, command: str) -> subprocess.CompletedProcess[str]:
        assert command.startswith("mongo-idproxy ")
        return subprocess.run(f"{binary()}{command.removeprefix('mongo-idproxy')} --config {self._config}", shell=True,
                              capture_output=True, text=True, timeout=60)

    def verified(self) -> str:
        done = self.typed(page_of(STEPS, "sh")[0].strip())
        assert done.returncode == 0 and done.stdout.endswith("verified: nothing is wrong\n"), done
        return done.stdout

    def started(self, mongosh: Callable[[str, str], str] | None = None) -> Proxy:
        """Up to step 4, whose last command shows what the returned proxy's counter is like. mongosh takes
        seconds; without it, the index is made as the page's command makes it."""
        self.verified()
        if mongosh:
            mongosh(self._server.uri, page_of(STEPS, "js")[0])
        else:
            self._server.client.shop.orders.create_index("number", unique=True, sparse=True)
        check, counters = page_of(STEPS, "sh")[1].splitlines()
        checked = self.typed(check)
        assert checked.returncode == 0, checked
        self.listed = self.typed(counters).stdout
        return Proxy(self._config)


@pytest.fixture
def migrate(replica_set, tmp_path):
    return lambda rules: Migration(replica_set, rules, tmp_path)


@pytest.fixture
def orders(replica_set: Mongod) -> Iterator[Collection]:
    """shop.orders, past the proxy: no number twice in the end."""
    replica_set.client.drop_database("shop")
    replica_set.client.drop_database("idproxy")
    yield replica_set.client.shop.orders
    numbers = [each["number"] for each in replica_set.client.shop.orders.find()]
    assert numbers and len(numbers) == len({*numbers})


@pytest.fixture
def javascript(node_binary, tmp_path) -> Callable[..., None]:
    """Runs a program whose arguments are a URI and a count."""
    def start(modules: pathlib.Path, source: str, uri: str, count: int) -> None:
        path = tmp_path / f"{abs(hash(source))}.js"
        path.write_text(f"'use strict';\nconst [, , uri, count] = process.argv;\n{source}\n"
                        "main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });")
        run([node_binary, path, uri, str(count)], env={**os.environ, "NODE_PATH": str(modules)})
    return start


def beside(*applications: Callable[[], None]) -> None:
    with ThreadPoolExecutor(len(applications)) as pool:
        for done in [pool.submit(each) for each in applications]:
            done.result()


def numbers_of(orders: Collection, app: str) -> list[int]:
    return sorted(each["number"] for each in orders.find({"app": app}))


def test_a_counter_of_its_own(migrate, orders, replica_set, mongosh, javascript, node_modules):
    def application(name: str, which: int) -> Callable[[str, int], None]:
        source = "const {MongoClient} = require('mongodb');\n" + page_of(OWN, "js")[which] + f"""
            async function main() {{
              const db = (await new MongoClient(uri).connect()).db('shop');
              for (let i = 0; i < count; i++) await insertOrder(db, {{app: '{name}'}});
            }}"""
        return lambda uri, count: javascript(node_modules, source, uri, count)

    old, new = application("old", 0), application("new", 1)
    old(replica_set.uri, BEFORE)
    migration = migrate(page_of(OWN, "yaml")[0])
    with migration.started(mongosh) as proxy:
        (index,) = [each for each in orders.list_indexes() if each["name"] != "_id_"]
        assert (index["key"], index["unique"], index["sparse"]) == ({"number": 1}, True, True)
        assert re.search(rf"(?m)^ +orders .*\b{BEFORE + 1}\b", migration.listed), migration.listed
        beside(lambda: old(replica_set.uri, BESIDE), lambda: old(proxy.uri, BESIDE), lambda: new(proxy.uri, BESIDE))
        new(proxy.uri, BEFORE)
    assert orders.count_documents({"number": {"$type": "int"}}) == 2 * BEFORE + 3 * BESIDE
    migration.verified()
    old(replica_set.uri, BEFORE)  # the way back
    migration.verified()


def test_numbers_of_32_bits(migrate, orders):
    """int64 behind int32 is the same sequence."""
    orders.insert_many([{"number": n} for n in range(1, BEFORE + 1)])
    orders.database.counters.insert_one({"_id": "orders", "seq": BEFORE})
    migration = migrate(page_of(OWN, "yaml")[0].replace("output: int32 ", "output: int64 "))
    with migration.started() as proxy, proxy.client() as client:
        client.shop.orders.insert_many([{} for _ in range(BEFORE)])
    assert orders.count_documents({"number": {"$type": "long"}}) == BEFORE
    report = migration.verified()
    assert f"1 to {2 * BEFORE}, {2 * BEFORE} numbers, 0 missing" in report
    assert f"equal numbers of other types than the rule writes: int {BEFORE}\n" in report
    assert orders.find_one({"number": Int64(1)}) == orders.find_one({"number": 1})


def test_mongoose_sequence(migrate, orders, replica_set, javascript, sequence_modules):
    def application(name: str, plugin: str) -> Callable[[str, int], None]:
        source = f"""
            const mongoose = require('mongoose');
            const AutoIncrement = require('mongoose-sequence')(mongoose);
            const orderSchema = new mongoose.Schema({{app: String, number: Number}});
            {plugin}
            const Order = mongoose.model('Order', orderSchema);
            async function main() {{
              await mongoose.connect(uri, {{dbName: 'shop'}});
              for (let i = 0; i < count; i++) await Order.create({{app: '{name}'}});
            }}"""
        return lambda uri, count: javascript(sequence_modules, source, uri, count)

    old, new = application("old", page_of(PLUGIN, "js")[0]), application("new", "")
    old(replica_set.uri, BEFORE)
    migration = migrate(page_of(PLUGIN, "yaml")[0])
    with migration.started() as proxy:
        assert re.search(rf"\b{BEFORE + 1}\b", migration.listed), migration.listed
        beside(lambda: old(replica_set.uri, BESIDE), lambda: old(proxy.uri, BESIDE), lambda: new(proxy.uri, BESIDE))
    assert len(numbers_of(orders, "new")) == BESIDE
    migration.verified()


def insert_rows(path: pathlib.Path, count: int) -> None:
    """The old application: with SQLite, whose AUTOINCREMENT is MySQL's AUTO_INCREMENT."""
    sql = sqlite3.connect(path, timeout=60)
    for _ in range(count):
        with sql:
            sql.execute("INSERT INTO orders (item) VALUES ('cup')")
    sql.close()


@pytest.fixture
def sql(tmp_path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "old.db", timeout=60)
    opened.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, item TEXT)")
    opened.commit()
    yield opened
    opened.close()


def test_auto_increment(migrate, orders, sql, tmp_path):
    names: dict[str, Any] = {}
    exec("".join(page_of(SQL, "python")), names)
    insert_rows(tmp_path / "old.db", BEFORE)
    migration = migrate(page_of(SQL, "yaml")[0])
    orders.database.create_collection("orders")
    with migration.started() as proxy, proxy.client() as client:
        through = client.shop.orders
        behind = names["copy"](sql, through)
        assert behind == BEFORE
        beside(lambda: insert_rows(tmp_path / "old.db", BESIDE),
               lambda: [through.insert_one({"item": "pot"}) for _ in range(BESIDE)] and None)
        names["copy"](sql, through, behind)
        names["copy"](sql, through)
        assert names["missing"](sql, orders) == []
        insert_rows(tmp_path / "old.db", 1)
        assert names["missing"](sql, orders) == [BEFORE + BESIDE + 1]
        names["copy"](sql, orders)
    assert [each["number"] for each in orders.find({"item": "cup"}).sort("number")] == [*range(1, BEFORE + BESIDE + 2)]
    assert [each["number"] for each in orders.find({"item": "pot"}).sort("number")] == [
        *range(100_000, 100_000 + BESIDE)]
    migration.verified()


def test_auto_increment_without_a_jump(migrate, orders, sql, tmp_path):
    names: dict[str, Any] = {}
    exec("".join(page_of(SQL, "python")), names)
    insert_rows(tmp_path / "old.db", BEFORE)
    rules = re.sub(r"(?m)^ +start: .*\n", "", page_of(SQL, "yaml")[0])
    names["copy"](sql, orders)
    with migrate(rules).started() as proxy, proxy.client() as client:
        client.shop.orders.insert_one({})
    assert orders.count_documents({"number": BEFORE + 1}) == 1


def test_every_snippet_is_run():
    assert PAGE.languages() == {"yaml": 3, "js": 3, "python": 2}
    assert [len(page_of(STEPS, language)) for language in ("sh", "js")] == [2, 1]
