// One step for each line of the standard input, all with one client: see ../program.py.
'use strict';
const readline = require('node:readline');
const {BSON: {EJSON}} = require('mongodb');
const bulk = require('./bulk.js');
const upsert = require('./upsert.js');
const {firsts, insertAll, newDocuments, transactions} = require('./work.js');

async function insert(collection, {first, count}) {
  return {inserted: await insertAll(collection, newDocuments(first, count), {own: true})};
}

// Of each upsert that is done twice, the second one finds what the first one stored.
async function everyday(collection, {first}) {
  let k = first;
  const upsert = true;
  await collection.insertOne({k: k++, text: 'insertOne'});
  await collection.insertMany([{k: k++, text: 'insertMany'}, {k: k++, text: 'insertMany'}]);
  for (const update of ['updateOne', 'updateMany']) {
    const key = {k: k++};
    await collection[update](key, {$set: {text: update}}, {upsert});
    await collection[update](key, {$set: {text: update}}, {upsert});
  }
  await collection.findOneAndUpdate({k: k++}, {$set: {text: 'findOneAndUpdate'}},
                                    {upsert, returnDocument: 'after'});
  await collection.bulkWrite([
    {insertOne: {document: {k: k++, text: 'bulkWrite'}}},
    {updateOne: {filter: {k: k++}, update: {$set: {text: 'bulkWrite'}}, upsert}},
  ]);
  await collection.replaceOne({k}, {k, text: 'replaced'}, {upsert});
  return {stored: k + 1 - first};
}

async function find(collection, {times, secondaryPreferred, comment}) {
  const options = {comment, ...secondaryPreferred && {readPreference: 'secondaryPreferred'}};
  const found = [];
  for (let i = 0; i < times; i++) {
    found.push((await collection.find({k: {$exists: true}}, options).toArray()).length);
  }
  return {found};
}

// A document's life with every write that is retryable. n is 2 if none was done twice.
async function life(collection, {k}) {
  await collection.insertOne(newDocuments(k, 1)[0]);
  const {modifiedCount} = await collection.updateOne({k}, {$inc: {n: 1}});
  const {n} = await collection.findOneAndUpdate({k}, {$inc: {n: 1}}, {returnDocument: 'after'});
  const {insertedCount} = await collection.insertMany([{more: k}, {more: k}]);
  const {deletedCount} = await collection.deleteOne({more: k});
  const document = await collection.findOne({k});
  return {modified: modifiedCount, n, inserted: insertedCount, deleted: deletedCount, document};
}

module.exports = async (_, argument, client, db) => {
  const ever = new Set();  // the addresses of all servers that the driver has heard of
  let topology = null, stream = null;
  client.on('topologyDescriptionChanged', (event) => {
    topology = event.newDescription;
    for (const address of topology.servers.keys()) ever.add(address);
  });
  await client.connect();

  const steps = {
    insert, everyday, find, life, upsert,
    bulk: (_, step) => bulk(client, step),
    firsts: (_, step) => firsts(client, step),
    transactions: (collection, step) => transactions(collection, step, client, db),
    watch: async (collection) => {
      stream = collection.watch();
      await stream.tryNext();  // it is not open before somebody asks for an event
    },
    events: async (_, {count}) => {
      const events = [];
      while (events.length < count) events.push((await stream.next()).fullDocument);
      return {events};
    },
    unwatch: () => stream.close(),
    topology: () => ({
      servers: Object.fromEntries(
          Array.from(topology.servers.values(), ({address, type}) => [address, type])),
      ever: [...ever],
    }),
  };
  for await (const line of readline.createInterface({input: process.stdin})) {
    const step = JSON.parse(line);
    let result;
    try {
      result = await steps[step.step](step.coll && db.collection(step.coll), step) ?? {};
    } catch (error) {
      // The code of a lost connection's error is a name.
      const codes = [error.code].flat().filter(Number.isInteger);
      result = {error: error.stack, codes};
    }
    console.log(EJSON.stringify(result));
  }
  return {done: true};
};
