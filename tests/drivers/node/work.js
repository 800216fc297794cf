// What several of the tasks do.
'use strict';
const {MongoNetworkError, MongoServerSelectionError} = require('mongodb');

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

// Inserts one document into the collection of this name in each of dbs, so many of them at a time.
async function firsts(client, {coll, dbs, tasks, sleep}) {
  const each = (work) => Promise.all(Array.from({length: tasks}, work));
  await each(() => client.db('admin').command({sleep: 1, millis: sleep, lock: 'none'}));
  const errors = [], milliseconds = [], left = dbs.values();
  await each(async () => {
    for (const name of left) {
      const since = performance.now();
      try {
        await client.db(name).collection(coll).insertOne({k: 1});
      } catch (error) {
        errors.push(String(error));
      }
      milliseconds.push(performance.now() - since);
    }
  });
  return {errors, milliseconds};
}

module.exports = {failure, firsts, insertAll, newDocuments, transactions};
