"""The code of the pages with recipes, as it stands there, with the drivers, Mongoose and Spring Data.

What is around it here uses it as an application would, and checks what is stored past the proxy.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from pymongo.collection import Collection

from recipes import Page, started_with
from stored import run
from support.backfill import Backfill
from support.mongod import Mongod
from support.proxy import Proxy, configuration

# The first test of a driver may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(600)

HERE = pathlib.Path(__file__).resolve().parent
PAGE, C_PAGE, JAVA_PAGE = Page("recipes.md"), Page("recipes-c.md"), Page("recipes-java.md")
TOOLS, INVOICES = Page("recipes-tools.md"), Page("recipes-invoices.md")
DRAFTS = Page("recipes-drafts.md")


def snippet(section: str, language: str, which: int = 0) -> str:
    return PAGE.snippets(section, language)[which]


AFTER = "The number after an insert"
BEFORE = "The number before an insert"
DUPLICATES = "Duplicates of such values"
MONGOOSE = "With Mongoose"
INTEGERS = "Integers as `_id`"
CREATE = "Find or create"


@pytest.fixture(scope="module")
def proxy(replica_set: Mongod, mongosh, tmp_path_factory) -> Iterator[Proxy]:
    """With the rules of the page and its index."""
    with started_with(replica_set, snippet("Recipes", "yaml"),
                      tmp_path_factory.mktemp("recipes")) as running:
        mongosh(running.uri, snippet("Recipes", "js"))
        assert "number_idproxy" in replica_set.client.shop.orders.index_information()
        yield running


@pytest.fixture
def stored(replica_set: Mongod) -> Iterator[Collection]:
    """shop.orders, past the proxy; empty at first."""
    shop = replica_set.client.shop
    for name in ["orders", "customers", "invoices"]:
        shop[name].delete_many({})
    yield shop.orders
    numbers = [order["number"] for order in shop.orders.find()]
    assert len(numbers) == len(set(numbers)) and all(n > 1000 for n in numbers)


# --- PyMongo ---

@pytest.fixture
def python(proxy: Proxy) -> Iterator[dict[str, Any]]:
    """What the page's Python has before its first line."""
    with proxy.client() as client:
        yield {"pymongo": pymongo, "client": client, "orders": client.shop.orders}


def test_pymongo_after(python, stored):
    exec(snippet(AFTER, "python"), python)
    orders, insert = python["orders"], python["insert"]
    numbers = [insert(orders, {"item": "cup"})]
    with python["client"].start_session() as session:
        session.with_transaction(
            lambda session: numbers.append(insert(orders, {"item": "pot"}, session)))
    assert [order["number"] for order in stored.find().sort("_id")] == numbers


def test_pymongo_before(python, stored):
    client, orders = python["client"], python["orders"]
    exec(snippet(BEFORE, "python"), python)
    next_ids = python["next_ids"]
    numbers = next_ids(client, "shop.orders", "number", 3)
    orders.insert_many([{"number": number} for number in numbers])

    def work(session: Any) -> None:
        (number,) = next_ids(client, "shop.orders", "number")
        orders.insert_one({"number": number}, session=session)
        numbers.append(number)
    with client.start_session() as session:
        session.with_transaction(work)
    assert [order["number"] for order in stored.find().sort("_id")] == numbers
    assert numbers == list(range(numbers[0], numbers[0] + 4))


def test_pymongo_duplicates(python, stored):
    client, orders = python["client"], python["orders"]
    exec(snippet(BEFORE, "python") + snippet(DUPLICATES, "python"), python)
    (number,) = python["next_ids"](client, "shop.orders", "number")
    stored.insert_many([{"number": number + 1}, {"number": number + 2, "cart": 1}])
    stored.create_index("cart", unique=True, sparse=True, name="cart")
    try:
        python["insert_numbered"](orders, {"item": "cup"})
        assert stored.find_one({"item": "cup"})["number"] == number + 3
        with pytest.raises(pymongo.errors.DuplicateKeyError) as refused:
            python["insert_numbered"](orders, {"cart": 1})
        assert refused.value.details["keyPattern"] == {"cart": 1}
    finally:
        stored.drop_index("cart")


def test_pymongo_integers(python, stored):
    exec(snippet(BEFORE, "python") + snippet(INTEGERS, "python"), python)
    shop = stored.database
    customer, invoice = python["customer"], python["invoice"]
    assert shop.customers.find_one() == {"_id": customer, "name": "Ann"}
    assert shop.invoices.find_one() == {"_id": invoice, "customer": customer}


def test_pymongo_find_or_create(python, stored):
    exec(snippet(CREATE, "python"), python)
    orders, order_of = python["orders"], python["order_of"]
    created = order_of(orders, 1)
    assert created == order_of(orders, 1) == stored.find_one()
    assert created["item"] == "cup" and created["number"] > 1000

    def work(session: Any) -> None:
        orders.insert_one({"cart": 2}, session=session)
        for cart in (2, 3):
            assert order_of(orders, cart, session)["number"] > 1000
    with python["client"].start_session() as session:
        session.with_transaction(work)
    assert stored.count_documents({}) == 3


# --- Node.js and Mongoose ---

@pytest.fixture
def javascript(node_binary, node_modules, proxy: Proxy, tmp_path) -> Callable[[str, str], Any]:
    """Runs an async function's body behind the top level of a program; returns what it returns."""
    def start(top: str, body: str) -> Any:
        path = tmp_path / "program.js"
        path.write_text(f"""'use strict';
const assert = require('assert');
const uri = {json.dumps(proxy.uri)};
{top}
async function main() {{
{body}
}}
main().then((result) => {{ console.log(JSON.stringify(result)); process.exit(0); }},
            (error) => {{ console.error(error); process.exit(1); }});
""")
        return json.loads(run([node_binary, path],
                              env={**os.environ, "NODE_PATH": str(node_modules)}))
    return start


NODE = "const {MongoClient} = require('mongodb');\n"
CONNECT = """
const client = await new MongoClient(uri).connect();
const orders = client.db('shop').collection('orders');
"""


def test_node_after(javascript, stored):
    numbers = javascript(NODE + snippet(AFTER, "js"), CONNECT + """
        const numbers = [await insert(orders, {item: 'cup'})];
        await client.withSession((session) => session.withTransaction(async () => {
          numbers.push(await insert(orders, {item: 'pot'}, session));
        }));
        return numbers;""")
    assert [order["number"] for order in stored.find().sort("_id")] == numbers


def test_node_before(javascript, stored):
    numbers = javascript(NODE + snippet(BEFORE, "js", 1), CONNECT + """
        const numbers = await nextIds(client, 'shop.orders', 'number', 3);
        await orders.insertMany(numbers.map((number) => ({number})));
        await client.withSession((session) => session.withTransaction(async () => {
          const [number] = await nextIds(client, 'shop.orders', 'number');
          await orders.insertOne({number}, {session});
          numbers.push(number);
        }));
        return numbers;""")
    assert [order["number"] for order in stored.find().sort("number")] == numbers
    assert numbers == list(range(numbers[0], numbers[0] + 4))


def test_node_duplicates(javascript, stored):
    first = javascript(NODE + snippet(BEFORE, "js", 1) + snippet(DUPLICATES, "js"), CONNECT + """
        const [number] = await nextIds(client, 'shop.orders', 'number');
        await orders.insertMany([{_id: 1, number: number + 1}, {number: number + 2}]);
        await insertNumbered(client, orders, {item: 'cup'});
        await assert.rejects(insertNumbered(client, orders, {_id: 1}),
                             (error) => error.code === 11000 && '_id' in error.keyPattern);
        return number;""")
    assert stored.find_one({"item": "cup"})["number"] == first + 3


def test_node_find_or_create(javascript, stored):
    number = javascript(NODE + snippet(CREATE, "js"), CONNECT + """
        const {number} = await orderOf(orders, 1);
        assert.equal((await orderOf(orders, 1)).number, number);
        await client.withSession((session) => session.withTransaction(async () => {
          const created = await orderOf(orders, 2, session);
          assert.deepEqual(await orderOf(orders, 2, session), created);
        }));
        return number;""")
    assert [order["number"] for order in stored.find({"cart": 1})] == [number]
    assert stored.count_documents({}) == 2


@pytest.fixture
def mongoose(javascript, stored) -> Callable[[str, str], Any]:
    def start(schemas: str, body: str) -> Any:
        return javascript("const mongoose = require('mongoose');\n" + schemas,
                          "await mongoose.connect(uri, {dbName: 'shop'});\n" + body)
    return start


def test_mongoose_after(mongoose, stored):
    top = """const orderSchema = new mongoose.Schema({item: String, number: Number});
""" + snippet(AFTER, "js", 1) + "const Order = mongoose.model('Order', orderSchema);"
    numbers = mongoose(top, """
        await Order.init();
        const numbers = [(await Order.create({item: 'cup'})).number];
        await mongoose.connection.transaction(async (session) => {
          const order = await new Order({item: 'pot'}).save({session});
          assert.deepEqual(order.modifiedPaths(), []);
          numbers.push(order.number);
        });
        return numbers;""")
    assert [order["number"] for order in stored.find().sort("_id")] == numbers


NUMBERED = snippet(MONGOOSE, "js", 0)
ORDERS = snippet(MONGOOSE, "js", 1)


def test_mongoose_before(mongoose, stored):
    top = NUMBERED + ORDERS + "const Order = mongoose.model('Order', orderSchema);"
    numbers = mongoose(top, """
        await Order.init();
        const known = [];
        const note = (...orders) => known.push(...orders.map((each) => each.number));
        note(await Order.create({item: 'created'}));
        const saved = new Order({item: 'saved'});
        await saved.save();
        note(saved);
        note(...await Order.insertMany([{item: 'a'}, new Order({item: 'b'}), {item: 'c', number: 5000}]));
        note(...await Order.insertMany({item: 'one'}));
        const unvalidated = new Order({item: 'unvalidated'});
        await unvalidated.save({validateBeforeSave: false});
        note(unvalidated);
        const together = [new Order({item: 'x'}), new Order({item: 'y'})];
        await Order.bulkSave(together);
        note(...together);
        let runs = 0;
        await mongoose.connection.transaction(async (session) => {
          if (runs++ === 0) {
            await Order.create([{item: 'first run'}], {session});
            const again = new mongoose.mongo.MongoServerError({message: 'again'});
            again.addErrorLabel('TransientTransactionError');
            throw again;
          }
          note(...await Order.create([{item: 'in transaction'}], {session}));
          note(...await Order.insertMany([{item: 'd'}, {item: 'e'}], {session}));
        });
        assert.equal(runs, 2);
        // What is there already keeps its number.
        saved.item = 'changed';
        await saved.save();
        assert.equal((await Order.findOne({number: saved.number})).item, 'changed');
        return known;""")
    assert sorted(order["number"] for order in stored.find()) == sorted(numbers)
    assert len(numbers) == 12 and 5000 in numbers
    assert stored.count_documents({"item": "first run"}) == 0
    assert all(isinstance(number, int) for number in numbers)


def test_mongoose_duplicates(mongoose, stored):
    """A document that was refused can be saved once it has another number."""
    top = NUMBERED + ORDERS + "const Order = mongoose.model('Order', orderSchema);"
    number = mongoose(top, """
        const {number} = await Order.create({item: 'first'});
        await Order.collection.insertOne({number: number + 1});
        const order = new Order({item: 'cup'});
        await assert.rejects(order.save(), (error) => error.code === 11000);
        assert.equal(order.number, number + 1);
        order.number = null;
        await order.save();
        assert.equal(order.number, number + 2);
        return number;""")
    assert stored.find_one({"item": "cup"})["number"] == number + 2


def test_mongoose_integers(mongoose, stored):
    invoice = mongoose(NUMBERED + snippet(INTEGERS, "js"), """
        const invoice = await invoiceFor('Ann');
        assert.equal(invoice.customer.name, 'Ann');
        const again = await Invoice.findById(invoice._id);
        await again.save();
        mongoose.set('transactionAsyncLocalStorage', true);
        await mongoose.connection.transaction(async () => {
          assert.equal((await invoiceFor('Bob')).customer.name, 'Bob');
        });
        return {_id: invoice._id, customer: invoice.customer._id};""")
    shop = stored.database
    found = list(shop.invoices.find({}, {"__v": 0}).sort("_id"))
    assert found[0] == invoice and all(isinstance(each["_id"], int) for each in found)
    assert list(shop.customers.find({}, {"__v": 0}).sort("_id")) == [
        {"_id": each["customer"], "name": name} for each, name in zip(found, ["Ann", "Bob"])]


def test_mongoose_find_or_create(mongoose, stored):
    top = snippet(CREATE, "js") + """
        const orderSchema = new mongoose.Schema({cart: Number, item: String, number: Number});
        const Order = mongoose.model('Order', orderSchema);"""
    number = mongoose(top, """
        const {number} = await orderOf(Order, 1);
        assert.equal((await orderOf(Order, 1)).number, number);
        await mongoose.connection.transaction(async (session) => {
          const created = await orderOf(Order, 2, session);
          assert.equal((await orderOf(Order, 2, session)).number, created.number);
        });
        return number;""")
    assert [order["number"] for order in stored.find({"cart": 1})] == [number]
    assert stored.count_documents({}) == 2


# --- Go ---

GO = """package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

%s

func main() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Args[1]))
	check(err)
	orders := client.Database("shop").Collection("orders")
	after, err := insert(ctx, orders, "after")
	check(err)
	before, err := nextIDs(ctx, client, "shop.orders", "number", 2)
	check(err)
	session, err := client.StartSession()
	check(err)
	var inside []int64
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		number, err := insert(ctx, orders, "after, inside")
		check(err)
		created, err := orderOf(ctx, orders, 2)
		check(err)
		if created["number"] != number+1 {
			panic("not the next number")
		}
		inside, err = nextIDs(ctx, client, "shop.orders", "number", 1)
		check(err)
		return orders.InsertOne(ctx, bson.D{{"item", "inside"}, {"number", inside[0]}})
	})
	check(err)
	_, err = orders.InsertOne(ctx, bson.D{{"_id", 1}, {"number", inside[0] + 1}})
	check(err)
	check(insertNumbered(ctx, orders, bson.D{{"item", "numbered"}}))
	if err := insertNumbered(ctx, orders, bson.D{{"_id", 1}}); !mongo.IsDuplicateKeyError(err) {
		panic(fmt.Sprint("no duplicate: ", err))
	}
	created, err := orderOf(ctx, orders, 1)
	check(err)
	found, err := orderOf(ctx, orders, 1)
	check(err)
	if created["number"] != found["number"] {
		panic("two documents")
	}
	check(json.NewEncoder(os.Stdout).Encode([]any{after, before, inside, created["number"]}))
}
"""


@pytest.fixture
def go_program(build_go, tmp_path) -> pathlib.Path:
    for name in ["go.mod", "go.sum"]:
        shutil.copy(HERE / "go" / name, tmp_path)
    functions = [snippet(section, "go") for section in (AFTER, BEFORE, DUPLICATES, CREATE)]
    (tmp_path / "main.go").write_text(GO % "\n".join(functions))
    return build_go(tmp_path)


def test_go(go_program, proxy, stored):
    after, before, inside, created = json.loads(run([go_program, proxy.uri]))
    assert [*before, *inside] == [after + 1, after + 2, after + 5]
    numbers = {(order.get("item"), order.get("cart")): order["number"] for order in stored.find()}
    assert numbers == {("after", None): after, ("after, inside", None): after + 3, ("cup", 2): after + 4,
                       ("inside", None): inside[0], (None, None): after + 6,
                       ("numbered", None): after + 7, ("cup", 1): created}


# --- libmongoc ---

C = r"""#include <inttypes.h>
#include <mongoc/mongoc.h>
#include <stdio.h>

%s

int main(int argc, char **argv) {
  (void)argc;
  mongoc_init();
  mongoc_client_t *client = mongoc_client_new(argv[1]);
  mongoc_collection_t *orders = mongoc_client_get_collection(client, "shop", "orders");
  mongoc_client_session_t *session = mongoc_client_start_session(client, NULL, NULL);
  bson_t outside = BSON_INITIALIZER, inside = BSON_INITIALIZER, opts = BSON_INITIALIZER;
  int64_t numbers[9] = {insert_order(orders, &outside, NULL)};
  numbers[1] = next_id(client, "shop.orders", "number");
  numbers[2] = number_of(orders, 1, NULL);
  numbers[3] = number_of(orders, 1, NULL);
  mongoc_client_session_append(session, &opts, NULL);
  mongoc_client_session_start_transaction(session, NULL, NULL);
  numbers[4] = insert_order(orders, &inside, &opts);
  numbers[5] = next_id(client, "shop.orders", "number");
  numbers[6] = number_of(orders, 2, &opts);
  numbers[7] = mongoc_client_session_commit_transaction(session, NULL, NULL);
  numbers[8] = next_id(client, "shop.orders", "none");
  for (int i = 0; i < 9; ++i) printf("%%s%%" PRId64, i ? ", " : "[", numbers[i]);
  puts("]");
  mongoc_client_session_destroy(session);
  bson_destroy(&opts);
  bson_destroy(&inside);
  bson_destroy(&outside);
  mongoc_collection_destroy(orders);
  mongoc_client_destroy(client);
  mongoc_cleanup();
  return 0;
}
"""


def test_libmongoc(build_c, proxy, stored, tmp_path):
    source = tmp_path / "main.c"
    functions = [C_PAGE.snippets(section, "c")[0] for section in (AFTER, BEFORE, CREATE)]
    source.write_text(C % "\n".join(functions))
    first, *more = json.loads(run([build_c(source), proxy.uri]))
    assert more[0] == first + 1
    created = more[1]
    # A number that was drawn for the order of cart 1 was not needed.
    assert more == [first + 1, created, created, created + 1, created + 2, created + 3, 1, 0]
    assert [order["number"] for order in stored.find().sort("number")] == [
        first, created, created + 1, created + 3]


# --- Java and Spring Data ---

DRIVER_RECIPES = """package recipes;

import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Updates.set;
import static com.mongodb.client.model.Updates.setOnInsert;

import com.mongodb.MongoWriteException;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.ReturnDocument;
import java.util.List;
import org.bson.Document;

class DriverRecipes {
%s
}
"""
SPRING_RECIPES = """package recipes;

import static org.springframework.data.mongodb.core.query.Criteria.where;
import static org.springframework.data.mongodb.core.query.Query.query;
import static recipes.DriverRecipes.nextIds;

import com.mongodb.client.MongoClient;
import org.springframework.data.annotation.Id;
import org.springframework.data.mongodb.core.FindAndModifyOptions;
import org.springframework.data.mongodb.core.MongoOperations;
import org.springframework.data.mongodb.core.mapping.Document;
import org.springframework.data.mongodb.core.mapping.DocumentReference;
import org.springframework.data.mongodb.core.mapping.event.BeforeConvertCallback;
import org.springframework.data.mongodb.core.query.Update;
import org.springframework.stereotype.Component;

class SpringRecipes {
%s
}

%s
"""


@pytest.fixture(scope="module")
def java_program(build_java, tmp_path_factory) -> Callable[..., dict[str, Any]]:
    """Runs one of the programs of spring/ with the page's code; returns what it prints."""
    page = {section: JAVA_PAGE.snippets(section, "java")
            for section in (AFTER, BEFORE, DUPLICATES, INTEGERS, CREATE)}
    insert, order, insert_with_spring = page[AFTER]
    next_ids, numbers = page[BEFORE]
    order_of, order_of_with_spring = page[CREATE]
    sources = {
        "DriverRecipes": DRIVER_RECIPES % "\n".join(
            [insert, next_ids, *page[DUPLICATES], order_of, *DRAFTS.snippets("Java", "java")]),
        "SpringRecipes": SPRING_RECIPES % (
            "\n".join([insert_with_spring, order_of_with_spring]),
            "\n".join([order, numbers, *page[INTEGERS]]))}
    directory = tmp_path_factory.mktemp("java")
    for name, source in sources.items():
        (directory / f"{name}.java").write_text(source)
    command = build_java("spring", *sorted((HERE / "spring").glob("*.java")),
                         *sorted(directory.glob("*.java")))
    return lambda name, uri: json.loads(run([*command, f"recipes.{name}", uri]))


def test_java(java_program, proxy, stored):
    told = java_program("DriverProgram", proxy.uri)
    after = told["after"]
    assert [*told["before"], *told["inside"]] == [after + 1, after + 2, after + 3, after + 4]
    assert told["refused"] == 11000
    numbers = [(order.get("item"), order["number"]) for order in stored.find().sort("number")]
    assert numbers == [("after", after), ("before", after + 1), ("before", after + 2),
                       ("inside", after + 3), ("after, inside", after + 4), (None, after + 5),
                       ("numbered", after + 6), ("cup", told["created"])]


def test_spring_data(java_program, proxy, stored):
    """Entities know the numbers that are stored; references lead to what they name."""
    told = java_program("SpringProgram", proxy.uri)
    numbers = {order["item"] + (" in a transaction" if order.get("cart") == 2 else ""): order["number"]
               for order in stored.find()}
    assert told == numbers and len(numbers) == stored.count_documents({}) == 10
    shop = stored.database
    names = {customer["_id"]: customer["name"] for customer in shop.customers.find()}
    assert [names[invoice["customer"]] for invoice in shop.invoices.find().sort("_id")] == ["Ann", "Bob"]
    assert all(isinstance(each["_id"], int) for each in [*shop.customers.find(), *shop.invoices.find()])


# --- mongosh ---

def test_mongosh(mongosh, proxy, stored):
    printed = mongosh(proxy.uri, "print(EJSON.stringify(" + snippet(BEFORE, "js") + "))")
    ids = json.loads(printed)["ids"]
    assert len(ids) == 3 and ids == list(range(ids[0], ids[0] + 3))


# --- docs/drivers.md on assign: driver ---

@pytest.fixture
def replacing(start_proxy, replica_set: Mongod) -> Proxy:
    replica_set.client.drop_database("replaced")
    return start_proxy(configuration(replica_set, [
        {"ns": "replaced.*", "field": "_id", "strategy": "counter", "assign": "driver"}]))


def test_pymongo_with_assign_driver(replacing, replica_set):
    with replacing.client() as client:
        orders = client.replaced.orders
        document = {"item": "cup"}
        inserted = orders.insert_one(document).inserted_id
        assert document["_id"] == inserted
        assert orders.find_one(inserted) is None
        client.replaced.invoices.insert_one({"_id": 1, "order": inserted})
        joined = client.replaced.invoices.aggregate([{"$lookup": {
            "from": "orders", "localField": "order", "foreignField": "_id", "as": "orders"}}])
        assert joined.next()["orders"] == [], "the reference dangles"
        assert orders.update_one({"_id": inserted}, {"$set": {"paid": True}}).matched_count == 0
        orders.replace_one({"_id": inserted}, document, upsert=True)
    assert replica_set.client.replaced.orders.count_documents({"item": "cup"}) == 2


def test_keep_driver_id(replica_set, tmp_path):
    page = (HERE.parents[1] / "docs" / "drivers.md").read_text()
    section = page.split("### Drivers that cannot be changed\n")[1].split("\n## ")[0]
    (rule,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", section)
    (code,) = re.findall(r"(?ms)^```python\n(.*?)^```$", section)
    with started_with(replica_set, "rules:\n" + rule, tmp_path) as proxy, proxy.client() as client:
        names = {"orders": client.shop.orders}
        exec(code, names)
    assert names["order"]["driver_id"] == names["inserted"] != names["order"]["_id"]
    replica_set.client.shop.orders.delete_many({})


def test_mongoose_with_assign_driver(replacing, replica_set, node_binary, node_modules, tmp_path):
    path = tmp_path / "program.js"
    path.write_text("""
        const assert = require('assert');
        const mongoose = require('mongoose');
        (async () => {
          await mongoose.connect(process.argv[2], {dbName: 'replaced'});
          const Order = mongoose.model('Order', new mongoose.Schema({item: String}));
          const order = await Order.create({item: 'cup'});
          assert.equal(await Order.findById(order._id), null);
          order.item = 'pot';
          await assert.rejects(order.save(), {name: 'DocumentNotFoundError'});
          const Numbered = mongoose.model('Numbered', new mongoose.Schema({_id: Number}));
          await assert.rejects(Numbered.create({}), /document must have an _id before saving/);
          process.exit(0);
        })().catch((error) => { console.error(error); process.exit(1); });""")
    run([node_binary, path, replacing.uri], env={**os.environ, "NODE_PATH": str(node_modules)})
    (stored,) = replica_set.client.replaced.orders.find()
    assert isinstance(stored["_id"], int) and stored["item"] == "cup"


# --- docs/recipes-tools.md ---

def rule_of_orders() -> dict[str, Any]:
    """The page's."""
    return {"ns": "shop.orders", "field": "number", "strategy": "counter", "start": 1001}


def test_mongoose_saves_twice(mongoose, stored):
    """A document that does not know its number keeps it, unless the schema has a default."""
    numbers = mongoose("""
        const Order = mongoose.model('Order', new mongoose.Schema({item: String, number: Number}));
        const Defaulted = mongoose.model('Defaulted', new mongoose.Schema(
            {item: String, number: {type: Number, default: null}}), 'orders');""", """
        const order = await Order.create({item: 'cup'});
        assert.equal(order.number, undefined);
        const {number} = await Order.findById(order._id);
        order.item = 'pot';
        await order.save();
        const defaulted = await Defaulted.create({item: 'none'});
        return [number, (await Order.findById(defaulted._id)).number];""")
    assert stored.find_one({"item": "pot"})["number"] == numbers[0] > 1000 and numbers[1] is None
    stored.delete_one({"item": "none"})


@pytest.fixture
def typeorm(node_binary, typeorm_modules, proxy: Proxy, tmp_path) -> Callable[[str, str], Any]:
    """Runs an async function's body behind these entities; returns what it returns."""
    def start(entities: str, source: str, body: str, uri: str = proxy.uri) -> Any:
        program = tmp_path / "program.ts"
        program.write_text(f"""
import assert from 'assert';
import {{Column, DataSource, Entity, MongoRepository, ObjectIdColumn}} from 'typeorm';
import {{ObjectId}} from 'mongodb';
const url = {json.dumps(uri.replace("/?", "/shop?"))};
{entities}
{source}
async function main() {{
  await source.initialize();
  {body}
}}
main().then((result) => {{ console.log(JSON.stringify(result)); process.exit(0); }},
            (error) => {{ console.error(error); process.exit(1); }});
""")
        return json.loads(run([node_binary, HERE / "node" / "typeorm" / "run.js", program],
                              env={**os.environ, "NODE_PATH": str(typeorm_modules)}))
    return start


def test_typeorm(typeorm, stored):
    """Saved twice, by the function and without it, made by `new` and by the repository."""
    entity, source = TOOLS.snippets("TypeORM", "ts")
    numbers = typeorm(entity, source, """
        const orders = source.getMongoRepository(Order);
        const plain = Object.assign(new Order(), {item: 'plain'});
        const known = orders.create({item: 'known'});
        await orders.save(plain);
        await save(orders, known);
        for (const each of [plain, known]) {
          each.item += ' again';
          await orders.save(each);
        }
        assert.equal(plain.number, undefined);
        const loaded = await orders.findOneByOrFail({_id: plain._id});
        loaded.item += ' and again';
        await orders.save(loaded);
        return [loaded.number, known.number];""")
    found = {each["item"]: each["number"] for each in stored.find()}
    assert found == {"plain again and again": numbers[0], "known again": numbers[1]}


def test_typeorm_without_the_recipe(typeorm, stored):
    """What the page warns of: a nullable column, and no ignoreUndefined."""
    entity, source = TOOLS.snippets("TypeORM", "ts")
    told = typeorm(entity.replace("@Column() number", "@Column({nullable: true}) number"),
                   source.replace(", ignoreUndefined: true", ""), """
        const orders = source.getMongoRepository(Order);
        const order = await save(orders, Object.assign(new Order(), {item: 'undefined'}));
        await orders.deleteMany({});
        await source.destroy();
        return order.number;""")
    assert told is None
    told = typeorm(entity.replace("@Column() number", "@Column({nullable: true}) number"), source, """
        const orders = source.getMongoRepository(Order);
        const order = orders.create({item: 'cup'});
        await orders.save(order);
        const first = (await orders.findOneByOrFail({_id: order._id})).number;
        await orders.save(Object.assign(order, {item: 'pot'}));
        return [first, (await orders.findOneByOrFail({_id: order._id})).number];""")
    assert told[0] > 1000 and told[1] is None
    stored.delete_many({})


def test_typeorm_with_a_nullable_column(typeorm, stored, start_proxy, replica_set):
    entity, source = TOOLS.snippets("TypeORM", "ts")
    proxy = start_proxy(configuration(replica_set, [{**rule_of_orders(), "assign": "missing-or-null"}]))
    number = typeorm(entity.replace("@Column() number", "@Column({nullable: true}) number"),
                     source.replace(", ignoreUndefined: true", ""), """
        const orders = source.getMongoRepository(Order);
        const order = await save(orders, Object.assign(new Order(), {item: 'cup'}));
        await orders.save(Object.assign(order, {item: 'pot'}));
        return order.number;""", proxy.uri)
    assert number > 1000 and stored.find_one({"item": "pot"})["number"] == number


def test_mongoimport(proxy, stored):
    """By the commands that it sends: it is in no package registry. A cell that is empty is "", unless
    --ignoreBlanks leaves it out."""
    with proxy.client() as client:
        orders = client.shop.orders
        imported = lambda *each: orders.bulk_write([*each], ordered=False)
        imported(*(pymongo.InsertOne({"_id": k}) for k in (1, 2)))
        before = {each["_id"]: each["number"] for each in stored.find()}
        with pytest.raises(pymongo.errors.BulkWriteError):
            imported(pymongo.InsertOne({"_id": 1}))
        imported(*(pymongo.UpdateOne({"_id": k}, {"$set": {"_id": k, "item": "merged"}}, upsert=True)
                   for k in (1, 2, 3)))
        after = {each["_id"]: each["number"] for each in stored.find()}
        assert before == {k: after[k] for k in (1, 2)} and after[3] > max(before.values())
        imported(*(pymongo.ReplaceOne({"_id": k}, {"_id": k, "item": "upserted"}, upsert=True)
                   for k in (3, 4)))
        upserted = {each["_id"]: each["number"] for each in stored.find({"item": "upserted"})}
        assert upserted[3] == after[3] and upserted[4] not in after.values()
        imported(pymongo.InsertOne({"_id": 5, "number": ""}))
        assert stored.find_one(5)["number"] == ""
    stored.delete_many({"_id": {"$gt": 2}})


def test_mongoimport_with_keep_off(start_proxy, replica_set, stored):
    with start_proxy(configuration(replica_set, [{**rule_of_orders(), "keep": "off"}])).client() as client:
        client.shop.orders.insert_one({"_id": 6})
        client.shop.orders.bulk_write([pymongo.ReplaceOne({"_id": 6}, {"_id": 6}, upsert=True)])
    assert stored.find_one(6) == {"_id": 6}
    stored.delete_one({"_id": 6})


def test_merge_and_out(proxy, stored, replica_set, tmp_path):
    """The numbers that remain, and the backfill that gives those that are missing."""
    with proxy.client() as client:
        shop = client.shop
        shop.source.drop()
        shop.source.insert_many([{"_id": k, "item": "merged"} for k in (1, 2)])
        shop.orders.insert_one({"_id": 1})
        number = stored.find_one(1)["number"]
        shop.source.aggregate([{"$merge": {"into": "orders"}}])
        assert [each.get("number") for each in stored.find().sort("_id")] == [number, None]
        done = Backfill(tmp_path, configuration(replica_set, [rule_of_orders()]), "shop.orders", "number").end()
        assert done.code == 0 and done.number("given") == 1, done
        assert stored.find_one(1)["number"] == number
        shop.source.aggregate([{"$merge": {"into": "orders", "whenMatched": "replace"}}])
        assert stored.count_documents({"number": {"$exists": True}}) == 0
        stored.update_many({}, [{"$set": {"number": {"$add": [5000, "$_id"]}}}])
        shop.source.aggregate([{"$out": "orders"}])
        assert stored.count_documents({"number": {"$exists": True}}) == 0
    stored.delete_many({})


# --- docs/recipes-invoices.md ---

YEAR, GAPS = "A fiscal year", "Are there gaps?"


@pytest.fixture
def invoices(replica_set: Mongod) -> Iterator[Collection]:
    """shop.invoices, past the proxy; neither it nor its floors are there at first."""
    def drop() -> None:
        replica_set.client.shop.invoices.drop()
        replica_set.client.idproxy.gaplessFloors.delete_many({})
    drop()
    yield replica_set.client.shop.invoices
    drop()


def listed(mongosh: Callable[[str, str], str], server: Mongod, script: str) -> list[dict[str, Any]]:
    """What a snippet that ends in a cursor shows."""
    text = mongosh(server.uri, f"print(EJSON.stringify({script.strip()}.toArray()))")
    return json.loads(text)


def test_fiscal_years(replica_set, invoices, mongosh, node_binary, tmp_path):
    day = datetime.datetime
    names: dict[str, Any] = {}
    exec(INVOICES.snippets(YEAR, "python")[0], names)
    days = {day(2025, 6, 30): 2025, day(2025, 7, 1): 2026, day(2026, 6, 30): 2026, day(2026, 7, 1): 2027}
    assert [names["fiscal_year"](each) for each in days] == list(days.values())
    assert names["fiscal_year"](day(2026, 3, 1), 1) == 2026
    script = INVOICES.snippets(YEAR, "js")[0] + "console.log(JSON.stringify(process.argv.slice(2).map(" \
        "(each) => fiscalYear(new Date(each)))));"
    (tmp_path / "year.js").write_text(script)
    told = run([node_binary, tmp_path / "year.js", *(each.strftime("%Y-%m-%d") for each in days)])
    assert json.loads(told) == list(days.values())

    with started_with(replica_set, INVOICES.snippets(YEAR, "yaml")[0], tmp_path) as proxy, \
            proxy.client() as client:
        through = client.shop.invoices
        numbers = [names["invoice"](through, each, 1) for each in (*days, day(2025, 6, 1), day(2025, 12, 1))]
    assert numbers == ["2025-00001", "2026-00001", "2026-00002", "2027-00001", "2025-00002", "2026-00003"]
    gaps = INVOICES.snippets(GAPS, "js")[1]
    assert listed(mongosh, replica_set, gaps) == []
    invoices.delete_many({"number": {"$in": ["2025-00001", "2026-00002"]}})
    assert sorted(listed(mongosh, replica_set, gaps), key=lambda each: each["fiscalYear"]) == [
        {"fiscalYear": 2025, "from": 1, "to": 1}, {"fiscalYear": 2026, "from": 2, "to": 2}]


def test_gaps(replica_set, invoices, mongosh, tmp_path):
    """With the rule that docs/strategies.md has."""
    rules = re.search(r"(?s)## gapless\n.*?```yaml\n(.*?)```", Page("strategies.md").text)[1]
    with started_with(replica_set, rules, tmp_path) as proxy, proxy.client() as client:
        client.shop.invoices.insert_many([{} for _ in range(20)])
    gaps, floor = INVOICES.snippets(GAPS, "js")[0::2]
    assert listed(mongosh, replica_set, gaps) == []
    for number in (1000, 1005, 1006, 1007, 1012, 1019):
        assert invoices.delete_one({"number": number}).deleted_count == 1
    assert listed(mongosh, replica_set, gaps) == [
        {"from": 1000, "to": 1000}, {"from": 1005, "to": 1007}, {"from": 1012, "to": 1012}]
    assert [each["floor"] for each in listed(mongosh, replica_set, floor)] == [1019]
    assert invoices.find_one(sort=[("number", -1)])["number"] == 1018


DRAFT = "Publishing a draft"


@pytest.fixture
def issued(replica_set, tmp_path) -> Iterator[Proxy]:
    """With the page's rule for invoices of a year."""
    with started_with(replica_set, INVOICES.snippets(YEAR, "yaml")[0], tmp_path) as proxy:
        yield proxy
    replica_set.client.shop.drafts.drop()


def test_drafts_of_python(issued, invoices):
    names: dict[str, Any] = {"pymongo": pymongo}
    exec(INVOICES.snippets(DRAFT, "python")[0], names)
    with issued.client() as client:
        shop, year = client.shop, {"fiscalYear": 2026}
        shop.drafts.insert_many([{"_id": k, "total": k} for k in range(3)])
        shop.invoices.insert_one({"_id": 0, "total": 0, **year})  # and then it was interrupted
        assert [names["issue"](shop, k, year) for k in (0, 1, 1, 2)] == [f"2026-0000{n}" for n in (1, 2, 2, 3)]
        assert shop.drafts.count_documents({}) == 0 and invoices.count_documents({}) == 3


def test_drafts_of_javascript(issued, invoices, node_binary, node_modules, tmp_path):
    (tmp_path / "drafts.js").write_text(NODE + INVOICES.snippets(DRAFT, "js")[0] + """
        (async () => {
          const client = await new MongoClient(process.argv[2]).connect();
          const shop = client.db('shop');
          await shop.collection('drafts').insertMany([{_id: 0, total: 0}, {_id: 1, total: 1}]);
          await shop.collection('invoices').insertOne({_id: 0, total: 0, fiscalYear: 2026});
          const told = [];
          for (const id of [0, 1, 1]) told.push(await issue(shop, id, {fiscalYear: 2026}));
          console.log(JSON.stringify(told));
          process.exit(0);
        })().catch((error) => { console.error(error); process.exit(1); });""")
    told = json.loads(run([node_binary, tmp_path / "drafts.js", issued.uri],
                          env={**os.environ, "NODE_PATH": str(node_modules)}))
    assert told == ["2026-00001", "2026-00002", "2026-00002"]
    assert invoices.count_documents({}) == 2


# --- docs/recipes-drafts.md ---

@pytest.fixture
def drafts(replica_set, tmp_path) -> Iterator[tuple[Proxy, Collection]]:
    """A proxy with the page's rule, and shop.articles past it: three drafts, and one that was
    inserted as published."""
    articles = replica_set.client.shop.articles
    articles.drop()  # its numbers go on
    with started_with(replica_set, DRAFTS.snippets("The rule", "yaml")[0], tmp_path) as proxy:
        with proxy.client() as client:
            client.shop.articles.insert_many([
                *({"_id": k, "status": "draft"} for k in (1, 2, 3)), {"_id": 0, "status": "published"}])
        numbers = [each.get("number") for each in articles.find().sort("_id")]
        assert numbers[0] >= 1 and numbers[1:] == [None, None, None]
        yield proxy, articles


def check_published(articles: Collection, told: list[int]) -> None:
    """`told`: of the documents 2, 1 and 2 again."""
    first = articles.find_one(0)["number"]
    assert told == [first + 1, first + 2, first + 1]
    assert {each["_id"]: (each["status"], each.get("number")) for each in articles.find()} == {
        0: ("published", first), 1: ("published", first + 2), 2: ("published", first + 1), 3: ("draft", None)}


def test_publishing_of_python(drafts):
    proxy, articles = drafts
    names: dict[str, Any] = {}
    exec(DRAFTS.snippets("PyMongo", "python")[0], names)
    with proxy.client() as client:
        check_published(articles, [names["publish"](client, k) for k in (2, 1, 2)])


def test_publishing_of_mongosh(drafts, mongosh):
    proxy, articles = drafts
    command = DRAFTS.snippets("The command", "js")[0].replace("_id: 7", "_id: 2")
    printed = mongosh(proxy.uri, f"print(EJSON.stringify({command.strip()}))")
    assert json.loads(printed)["value"] == articles.find_one(2)["number"] == articles.find_one(0)["number"] + 1


@pytest.mark.parametrize("heading", ["Node.js", "Mongoose"])
def test_publishing_of_javascript(drafts, node_binary, node_modules, tmp_path, heading):
    proxy, articles = drafts
    mongoose = heading == "Mongoose"
    top = "const mongoose = require('mongoose');" if mongoose else NODE
    connect = """await mongoose.connect(process.argv[2], {dbName: 'shop'});
          const first = mongoose.model('Article', new mongoose.Schema(
            {_id: Number, status: String, number: Number}), 'articles');""" if mongoose else \
        "const first = await new MongoClient(process.argv[2]).connect();"
    (tmp_path / "publish.js").write_text(top + DRAFTS.snippets(heading, "js")[0] + """
        (async () => {
          %s
          const told = [];
          for (const id of [2, 1, 2]) told.push(await publish(first, id));
          console.log(JSON.stringify(told));
          process.exit(0);
        })().catch((error) => { console.error(error); process.exit(1); });""" % connect)
    check_published(articles, json.loads(run([node_binary, tmp_path / "publish.js", proxy.uri],
                                             env={**os.environ, "NODE_PATH": str(node_modules)})))


def test_publishing_of_go(drafts, build_go, tmp_path):
    proxy, articles = drafts
    directory = tmp_path / "go"
    directory.mkdir()
    for name in ["go.mod", "go.sum"]:
        shutil.copy(HERE / "go" / name, directory)
    (directory / "main.go").write_text("""package main

import (
	"context"
	"encoding/json"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

%s

func main() {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Args[1]))
	var told []int64
	for _, id := range []int{2, 1, 2} {
		var number int64
		if err == nil {
			number, err = publish(context.Background(), client, id)
		}
		told = append(told, number)
	}
	if err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		panic(err)
	}
}
""" % DRAFTS.snippets("Go", "go")[0])
    check_published(articles, json.loads(run([build_go(directory), proxy.uri])))


def test_publishing_of_java(drafts, java_program):
    proxy, articles = drafts
    check_published(articles, java_program("PublishProgram", proxy.uri)["told"])


def test_every_snippet_is_run():
    """Those that no test above takes are answers."""
    assert PAGE.languages() == {"yaml": 1, "js": 10, "python": 5, "go": 4, "": 1}
    assert C_PAGE.languages() == {"c": 3}
    assert JAVA_PAGE.languages() == {"java": 9}
    assert TOOLS.languages() == {"ts": 2}
    assert INVOICES.languages() == {"yaml": 1, "python": 2, "js": 5}
    assert DRAFTS.languages() == {"yaml": 1, "python": 1, "js": 3, "go": 1, "java": 1}
