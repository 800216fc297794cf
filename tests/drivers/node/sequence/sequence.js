// An application with the plugin mongoose-sequence: save() gets a number from the plugin, insertMany(),
// which passes by the plugin's hooks, from the proxy.
//
//   node sequence.js '{"uri": ..., "db": ..., "steps": ["save" | "insertMany", ...], "documents": [...]}'
//
// Each step stores all documents, one after the other or at once. Prints the numbers that the plugin
// gave, in the order of the steps: {saved: [number, …]}.
'use strict';
const mongoose = require('mongoose');
const AutoIncrement = require('mongoose-sequence')(mongoose);

const inhabitants = new mongoose.Schema({
  country: String, address: {city: String}, floor: Number, house: mongoose.Schema.Types.UUID,
  number: Number,
});
inhabitants.plugin(AutoIncrement, {
  id: 'inhabitant_seq', inc_field: 'number',
  reference_fields: ['house', 'country', 'address.city', 'floor'],
});
const orders = new mongoose.Schema({item: String, order: Number});
orders.plugin(AutoIncrement, {inc_field: 'order', start_seq: 100, inc_amount: 10});

const Inhabitant = mongoose.model('Inhabitant', inhabitants);
const Order = mongoose.model('Order', orders);

async function main({uri, db, steps, documents}) {
  await mongoose.connect(uri, {dbName: db});
  const [Model, field] = 'item' in documents[0] ? [Order, 'order'] : [Inhabitant, 'number'];
  await Model.init();
  const saved = [];
  for (const step of steps) {
    if (step === 'insertMany') {
      await Model.insertMany(documents);
      continue;
    }
    for (const each of documents) saved.push((await new Model(each).save())[field]);
  }
  return {saved};
}

main(JSON.parse(process.argv[2])).then((result) => {
  console.log(JSON.stringify(result));
  process.exit(0);
}, (error) => {
  console.error(error);
  process.exit(1);
});
