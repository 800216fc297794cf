// Does one task with the Node driver; prints what came of it as JSON.
//
//   node driver.js '{"task": "insert" | "ordinary" | "batches" | "transactions", "uri": ..., ...}'
'use strict';
const {MongoClient, MongoNetworkError, MongoServerSelectionError} = require('mongodb');
const ordinary = require('./ordinary.js');

function newDocuments(from, count) {
  return Array.from({length: count}, (_, i) => ({k: from + i, text: `text ${from + i}`}));
}

// Resolves to how many the server took. own: the driver makes an _id, as by default.
async function insertAll(collection, documents, {own, ...options}) {
  if (!own) options.forceServerObjectId = true;
  return documents.length === 1
      ? Number((await collection.insertOne(documents[0], options)).acknowledged)
      : (await collection.insertMany(documents, options)).insertedCount;
}

function failure(error) {
  if (error.code === 11000) return 'duplicate';
  // insertMany puts whatever goes wrong into a MongoBulkWriteError, lost connections too.
  const cause = error.errorResponse ?? error;
  const network = cause instanceof MongoNetworkError || cause instanceof MongoServerSelectionError;
  return network ? 'unknown' : String(error);
}

async function insert(collection, {count, own, ordered}) {
  return {inserted: await insertAll(collection, newDocuments(0, count), {own, ordered})};
}

// Inserts count batches of size documents, from batch first on, ordered and unordered in turn.
async function batches(collection, {first, count, size, own}) {
  const outcomes = [];
  for (let i = 0; i < count; i++) {
    try {
      const options = {own, ordered: i % 2 === 0};
      const n = await insertAll(collection, newDocuments((first + i) * size, size), options);
      outcomes.push(n === size ? 'ok' : `${n} of ${size}`);
    } catch (error) {
      outcomes.push(failure(error));
    }
  }
  return {outcomes};
}

// Runs count transactions; each inserts one document, a line in the log and size documents more,
// and adds to the sum. calls counts how often the callback was run.
async function transactions(collection, {count, size, own}, client, db) {
  const outcomes = [];
  let calls = 0;
  for (let i = 0; i < count; i++) {
    const documents = newDocuments(i * (size + 1), size + 1);
    try {
      await client.withSession((session) => session.withTransaction(async () => {
        calls++;
        await insertAll(collection, documents.slice(0, 1), {own, session});
        await db.collection('log').insertOne({_id: i}, {session});
        await insertAll(collection, documents.slice(1), {own, session});
        await db.collection('sums').updateOne({_id: 'sum'}, {$inc: {n: documents.length}},
                                              {session});
      }));
      outcomes.push('ok');
    } catch (error) {
      outcomes.push(failure(error));
    }
  }
  return {calls, outcomes};
}

async function main(argument) {
  const {task, uri, db: name, coll} = argument;
  const client = new MongoClient(uri);
  try {
    const db = client.db(name);
    const result = await {insert, batches, transactions, ordinary}[task](
        coll && db.collection(coll), argument, client, db);
    console.log(JSON.stringify(result));
  } finally {
    await client.close();
  }
}

// By exit(): a selection of a server that was lost may leave its timer of 30 s behind.
main(JSON.parse(process.argv[2])).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
