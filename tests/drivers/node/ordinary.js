// Ordinary work with the Node driver through the proxy; fails loudly where something is amiss.
'use strict';
const assert = require('node:assert/strict');
const {GridFSBucket} = require('mongodb');

async function crud(db) {
  const people = db.collection('people');
  await people.insertMany(Array.from({length: 1000}, (_, i) => ({_id: i, age: i % 100})));
  assert.equal(await people.countDocuments({age: {$lt: 50}}), 500);
  assert.equal((await people.updateMany({age: 1}, {$set: {x: 1}})).modifiedCount, 10);
  assert.equal((await people.findOneAndUpdate({_id: 1}, {$inc: {age: 1}},
                                              {returnDocument: 'after'})).age, 2);
  assert.equal((await people.updateOne({_id: 5000}, {$set: {y: 1}}, {upsert: true})).upsertedId,
               5000);
  assert.equal((await people.deleteMany({age: {$gte: 90}})).deletedCount, 100);
  const ids = [];
  for await (const document of people.find().sort({_id: 1}).batchSize(7).limit(100)) {
    ids.push(document._id);
  }
  assert.equal(ids.length, 100);
  await assert.rejects(people.insertOne({_id: 1}), {code: 11000});
}

async function gridfs(db) {
  const content = Buffer.alloc(20_000_000, 'some bytes ');
  const bucket = new GridFSBucket(db);
  await new Promise((resolve, reject) => {
    bucket.openUploadStream('large').on('finish', resolve).on('error', reject).end(content);
  });
  const chunks = [];
  for await (const chunk of bucket.openDownloadStreamByName('large')) chunks.push(chunk);
  assert.ok(Buffer.concat(chunks).equals(content));
}

async function changeStream(db) {
  const watched = db.collection('watched');
  const stream = watched.watch();
  const first = stream.next();
  // The stream is open once its first event is awaited; insert until it has seen one.
  let seen = false;
  first.then(() => { seen = true; });
  for (let n = 0; !seen; n++) {
    await watched.insertOne({n});
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.equal((await first).operationType, 'insert');
  await stream.close();
}

async function transaction(client, db) {
  const accounts = db.collection('accounts');
  await accounts.insertMany([{_id: 'a', sum: 10}, {_id: 'b', sum: 0}]);
  await client.withSession((session) => session.withTransaction(async () => {
    await accounts.updateOne({_id: 'a'}, {$inc: {sum: -5}}, {session});
    await accounts.updateOne({_id: 'b'}, {$inc: {sum: 5}}, {session});
  }));
  assert.deepEqual((await accounts.find().sort({_id: 1}).toArray()).map((d) => d.sum), [5, 5]);
}

module.exports = async (_, {replicaSet}, client) => {
  const db = client.db('ordinary_node');
  await db.dropDatabase();
  await crud(db);
  await gridfs(db);
  if (replicaSet) {
    await changeStream(db);
    await transaction(client, db);
  }
  await db.dropDatabase();
  return {done: true};
};
