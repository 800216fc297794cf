// One step for each line of the standard input, with Mongoose 8 and 9 and TypeORM, each from the directory
// of packages that the environment names: see ../test_odms.py.
//
//   node odms.js '{"task": "steps", "uri": ...}'
'use strict';
const readline = require('node:readline');

function mongooseOf(name, modules, uri) {
  const mongoose = require(`${modules}/mongoose`);
  const coll = `orders_${name.replace(' ', '')}`;
  const schema = new mongoose.Schema({way: String, item: String, number: {type: Number, unique: true, sparse: true}},
                                     {autoIndex: false});
  const models = {};
  const made = {};
  const model = (db) => models[db] ??=
      mongoose.createConnection(uri, {dbName: db}).model('Order', schema, coll);
  const order = (Order, way) => new Order({way: `${name} ${way}`, item: 'cup'});
  return {
    init: async (db) => {
      await model(db).ensureIndexes();
    },
    first: async (db) => {
      const Order = model(db);
      const saved = order(Order, 'save');
      const replaced = order(Order, 'replaceOne');
      const both = [order(Order, 'bulkSave 0'), order(Order, 'bulkSave 1')];
      const several = await Order.insertMany(
          [0, 1].map((k) => ({way: `${name} insertMany ${k}`, item: 'cup'})));
      await saved.save();
      await Order.bulkSave(both);
      await Order.replaceOne({_id: replaced._id}, replaced.toObject(), {upsert: true});
      made[db] = {saved: [saved, ...several], both, replaced};
    },
    second: async (db) => {
      const {saved, both, replaced} = made[db];
      for (const each of [...saved, ...both, replaced]) each.item = 'pot';
      for (const each of saved) await each.save();
      await model(db).bulkSave(both);
      await model(db).findOneAndReplace({_id: replaced._id}, replaced.toObject());
    },
  };
}

function typeormOf(modules, uri) {
  const {Column, DataSource, Entity, Index, ObjectIdColumn} = require(`${modules}/typeorm`);
  class Order {}
  // What decorators do.
  ObjectIdColumn()(Order.prototype, '_id');
  Column({type: String})(Order.prototype, 'way');
  Column({type: String})(Order.prototype, 'item');
  Column({type: Number, nullable: true})(Order.prototype, 'number');
  Index('order_number', ['number'], {unique: true, sparse: true, background: true})(Order);
  Entity('orders_typeorm')(Order);
  const sources = {};
  const made = {};
  const source = async (db, synchronize = false) => sources[db] ??= await new DataSource(
      {type: 'mongodb', url: uri.replace('/?', `/${db}?`), entities: [Order], synchronize}).initialize();
  return {
    init: async (db) => {
      await source(db, true);
    },
    first: async (db) => {
      const repository = (await source(db)).getMongoRepository(Order);
      made[db] = [repository.create({way: 'typeorm save', item: 'cup'}),
                  ...[0, 1].map((k) => repository.create({way: `typeorm several ${k}`, item: 'cup'}))];
      await repository.save(made[db][0]);
      await repository.save(made[db].slice(1));
    },
    second: async (db) => {
      const repository = (await source(db)).getMongoRepository(Order);
      for (const each of made[db]) each.item = 'pot';
      await repository.save(made[db]);
    },
  };
}

async function main({uri}) {
  const {MONGOOSE_8, MONGOOSE_9, TYPEORM} = process.env;
  const odms = {
    'mongoose 8': mongooseOf('mongoose 8', MONGOOSE_8, uri),
    'mongoose 9': mongooseOf('mongoose 9', MONGOOSE_9, uri),
    typeorm: typeormOf(TYPEORM, uri),
  };
  for await (const line of readline.createInterface({input: process.stdin})) {
    const {step, db} = JSON.parse(line);
    let result = {};
    for (const [name, odm] of Object.entries(odms)) {
      try {
        await odm[step](db);
      } catch (error) {
        result = {error: `${name}: ${error.stack}`, codes: [error.code ?? []].flat()};
      }
    }
    console.log(JSON.stringify(result));
  }
}

main(JSON.parse(process.argv[2])).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
