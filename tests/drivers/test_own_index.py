"""Mongoose makes its indexes when it starts (`init()`), before or after the proxy has made its own: it notices nothing."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from stored import run
from support.mongod import Mongod
from support.process import eventually
from support.proxy import configuration

# The first test may have to fetch Mongoose.
pytestmark = pytest.mark.timeout(600)

PROGRAM = """'use strict';
const mongoose = require('mongoose');
const [uri, dbName, path] = process.argv.slice(2);
const {index, ...type} = JSON.parse(path);
const schema = new mongoose.Schema({item: String, number: {type: Number, ...type}});
if (index) schema.index({number: 1}, index);
const Order = mongoose.model('Order', schema);
async function main() {
  await mongoose.connect(uri, {dbName});
  await Order.init();  // fails if an index cannot be made
  await Order.create({item: 'cup'});
  await Order.insertMany([{item: 'pot'}, {item: 'pan'}]);
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
"""

# Of the path, or `index`: by schema.index(); and whether it guards the values.
SCHEMAS: dict[str, tuple[dict[str, Any], bool]] = {
    "index": ({"index": {}}, False),
    "unique": ({"unique": True}, True),
    "unique_sparse": ({"unique": True, "sparse": True}, True),
    "partial": ({"index": {"unique": True, "partialFilterExpression": {"number": {"$exists": True}}}}, True),
    "by_type": ({"index": {"unique": True, "partialFilterExpression": {"number": {"$type": "long"}}}}, False),
}


@pytest.fixture
def start(node_binary, node_modules, tmp_path) -> Callable[..., None]:
    """The application, once."""
    program = tmp_path / "program.js"
    program.write_text(PROGRAM)

    def once(uri: str, db: str, schema: dict[str, Any]) -> None:
        run([node_binary, program, uri, db, json.dumps(schema)],
            env={**os.environ, "NODE_PATH": str(node_modules)})
    return once


@pytest.mark.parametrize("first", ["proxy", "application"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_mongoose(replica_set: Mongod, start_proxy, start, name: str, first: str) -> None:
    schema, guards = SCHEMAS[name]
    db = f"own-{uuid.uuid4().hex[:8]}"
    stored = replica_set.client[db].orders
    rules = [{"ns": f"{db}.orders", "field": "number", "strategy": "counter", "start": 1001,
              "unique_index": "create"}]
    if first == "proxy":
        stored.database.create_collection("orders")
    else:
        stored.create_index("number", **(schema.get("index", schema)))
    proxy = start_proxy(configuration(replica_set, rules))
    eventually(lambda: any(index.get("unique") for index in stored.index_information().values()), 20)
    for _ in range(2):
        start(proxy.uri, db, schema)
    eventually(lambda: "number_1" in stored.index_information()
               and guards != ("number_idproxy" in stored.index_information()), 20)
    assert sorted(each["number"] for each in stored.find()) == list(range(1001, 1007))
    replica_set.client.drop_database(db)
