// Does tasks with the Node driver, one after the other; prints what came of each as a line of JSON.
//
//   node driver.js '{"task": "insert" | "ordinary" | "batches" | "transactions" | "steps",
//                    "uri": ..., ...}' ...
'use strict';
const {MongoClient} = require('mongodb');
const ordinary = require('./ordinary.js');
const steps = require('./steps.js');
const {failure, insertAll, newDocuments, transactions} = require('./work.js');

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

async function run(argument) {
  const {task, uri, db: name, coll} = argument;
  const client = new MongoClient(uri);
  try {
    const db = client.db(name);
    const result = await {insert, batches, transactions, ordinary, steps}[task](
        coll && db.collection(coll), argument, client, db);
    console.log(JSON.stringify(result));
  } finally {
    await client.close();
  }
}

async function main(tasks) {
  for (const task of tasks) await run(JSON.parse(task));
}

// By exit(): a selection of a server that was lost may leave its timer of 30 s behind.
main(process.argv.slice(2)).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
