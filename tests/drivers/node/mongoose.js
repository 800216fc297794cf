// One step for each line of the standard input, with Mongoose: see ../program.py. Knows the steps
// "insert" and "everyday", and "identities" of its own.
//
//   node mongoose.js '{"task": "steps", "uri": ..., "db": ...}'
'use strict';
const readline = require('node:readline');
const mongoose = require('mongoose');
const {newDocuments} = require('./work.js');

const schema = new mongoose.Schema({k: Number, text: String, orderNo: Number});

function model(coll) {
  return mongoose.models[coll] ?? mongoose.model(coll, schema, coll);
}

// How an application inserts documents: one document of four goes each way.
const ways = [
  (Order, documents) => Order.create(documents),
  (Order, documents) => Promise.all(documents.map((each) => new Order(each).save())),
  (Order, documents) => Order.insertMany(documents),
  (Order, documents) => Order.bulkSave(documents.map((each) => new Order(each))),
];

async function insert({coll, first, count}) {
  const documents = newDocuments(first, count);
  for (const [i, way] of ways.entries()) {
    const some = documents.filter((_, k) => k % ways.length === i);
    if (some.length) await way(model(coll), some);
  }
  return {inserted: count};
}

// Of each upsert that is done twice, the second one finds what the first one stored.
async function everyday({coll, first}) {
  const Order = model(coll);
  const upsert = true;
  let k = first + (await insert({coll, first, count: 8})).inserted;
  for (const update of ['updateOne', 'updateMany']) {
    const key = {k: k++};
    await Order[update](key, {text: update}, {upsert});
    await Order[update](key, {text: update}, {upsert});
  }
  await Order.findOneAndUpdate({k: k++}, {text: 'findOneAndUpdate'},
                               {upsert, returnDocument: 'after'});
  await Order.bulkWrite([
    {insertOne: {document: {k: k++, text: 'bulkWrite'}}},
    {updateOne: {filter: {k: k++}, update: {text: 'bulkWrite'}, upsert}},
  ]);
  await Order.replaceOne({k}, {k, text: 'replaced'}, {upsert});
  return {stored: k + 1 - first};
}

// Goes by the _id that Mongoose made, as if it knew nothing of the proxy.
async function identities({coll, first}) {
  const Order = model(coll);
  const created = await Order.create({k: first, text: 'created'});
  const found = await Order.findById(created._id);
  for (const each of [created, found]) {
    each.text += ' and saved again';
    await each.save();
  }
  const Invoice = mongoose.model(`${coll}_invoice`, new mongoose.Schema(
      {order: {type: mongoose.Schema.Types.ObjectId, ref: coll}}));
  const [{_id}] = await Invoice.insertMany([{order: created._id}]);
  const {order} = await Invoice.findById(_id).populate('order');
  return {text: order.text, found: found.orderNo, referred: order.orderNo};
}

const steps = {insert, everyday, identities};

async function main({uri, db}) {
  await mongoose.connect(uri, {dbName: db});
  for await (const line of readline.createInterface({input: process.stdin})) {
    const step = JSON.parse(line);
    let result;
    try {
      result = await steps[step.step](step);
    } catch (error) {
      result = {error: error.stack, codes: [error.code ?? []].flat()};
    }
    console.log(JSON.stringify(result));
  }
}

main(JSON.parse(process.argv[2])).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
