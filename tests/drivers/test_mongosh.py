"""mongosh: runCommand sends documents as they are; its helpers make an _id as all drivers do."""

import pathlib
import re
import uuid

import pytest

from support.counters import insert, numbers
from support.proxy import configuration

from stored import COUNTS, RULES, check_fields, check_ids  # noqa: F401 (RULES are for the fixture `proxy`)

# The first test of a driver may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def coll() -> str:
    return f"mongosh-{uuid.uuid4().hex}"


DOCUMENTS = """
const documents = (count) =>
    Array.from({length: count}, (_, k) => ({k: NumberInt(k), text: `text ${k}`}));
"""


def test_run_command(proxy, server, mongosh, coll):
    printed = mongosh(proxy.uri, DOCUMENTS + f"""
        for (const count of {COUNTS}) {{
          for (const ordered of [true, false]) {{
            const reply = db.getSiblingDB('ids').runCommand({{
              insert: `{coll}-${{count}}-${{ordered}}`, documents: documents(count), ordered}});
            print(reply.ok, reply.n);
          }}
        }}""")
    assert printed.split() == [each for count in COUNTS for each in ["1", str(count)] * 2]
    for count in COUNTS:
        check_ids(server, f"{coll}-{count}-true", count)
        check_ids(server, f"{coll}-{count}-false", count)


def test_insert_many(proxy, server, mongosh, coll):
    printed = mongosh(proxy.uri, DOCUMENTS + f"""
        for (const count of {COUNTS}) {{
          const result = db.getSiblingDB('fields').getCollection(`{coll}-${{count}}`)
              .insertMany(documents(count));
          print(Object.keys(result.insertedIds).length);
        }}""")
    assert printed.split() == [str(count) for count in COUNTS]
    for count in COUNTS:
        check_fields(server, f"{coll}-{count}", count)


ORDINARY = """
const assert = require('assert');
const d = db.getSiblingDB('ordinary_mongosh');
d.dropDatabase();
d.people.insertMany(Array.from({length: 1000}, (_, i) => ({_id: i, age: i % 100})));
assert.equal(d.people.countDocuments({age: {$lt: 50}}), 500);
assert.equal(d.people.updateMany({age: 1}, {$set: {x: 1}}).modifiedCount, 10);
assert.equal(d.people.findOneAndUpdate({_id: 1}, {$inc: {age: 1}}, {returnNewDocument: true}).age,
             2);
assert.equal(d.people.deleteMany({age: {$gte: 90}}).deletedCount, 100);
assert.equal(d.people.find().sort({_id: 1}).batchSize(7).limit(100).toArray().length, 100);
assert.equal(d.people.aggregate([{$group: {_id: null, n: {$sum: 1}}}]).toArray()[0].n, 900);
assert.equal(d.people.createIndex({age: 1}), 'age_1');
let refused = null;
try { d.people.insertOne({_id: 1}); } catch (error) { refused = error; }
assert.equal(refused.code, 11000);
"""

REPLICA_SET = """
const stream = d.watched.watch();
d.watched.insertOne({_id: 1});
let event = null;
while ((event = stream.tryNext()) === null) {}
assert.equal(event.operationType, 'insert');
stream.close();
d.accounts.insertMany([{_id: 'a', sum: 10}, {_id: 'b', sum: 0}]);
const session = db.getMongo().startSession();
const accounts = session.getDatabase('ordinary_mongosh').accounts;
session.startTransaction();
accounts.updateOne({_id: 'a'}, {$inc: {sum: -5}});
accounts.updateOne({_id: 'b'}, {$inc: {sum: 5}});
session.commitTransaction();
assert.deepEqual(d.accounts.find().sort({_id: 1}).toArray().map((x) => x.sum), [5, 5]);
"""


def test_ordinary_work(proxy, server, mongosh):
    script = ORDINARY + (REPLICA_SET if server.replica_set else "") + "d.dropDatabase();\n"
    assert mongosh(proxy.uri, script + "print('done');").strip() == "done"


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "counters.md"


def commands_of(heading: str) -> str:
    """The first ones below this heading of docs/counters.md."""
    below = PAGE.read_text().split(f"## {heading}\n")[1]
    return re.search(r"(?ms)^```js\n(.*?)^```", below)[1]


def test_a_counter_is_set_while_the_proxy_runs(standalone, start_proxy, mongosh):
    """As docs/counters.md says, and as another program uses it."""
    ns = "shop.orders"
    proxy = start_proxy(configuration(
        standalone, [{"ns": ns, "field": "number", "strategy": "counter"}]))
    for _ in range(5):
        assert insert(proxy, ns, 1)["n"] == 1
    assert numbers(standalone.client, ns, "number") == [1, 2, 3, 4, 5]
    mongosh(standalone.uri, commands_of("Setting a counter"))
    for _ in range(20):  # a few are held
        assert insert(proxy, ns, 1)["n"] == 1
    assert 5000 in numbers(standalone.client, ns, "number")
    before = max(numbers(standalone.client, ns, "number"))
    own = mongosh(standalone.uri, "print(" + commands_of("Layouts").strip().rstrip(";") + ");")
    assert int(re.search(r"\d+", own)[0]) > before
