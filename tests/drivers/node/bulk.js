// A bulkWrite of the client: see ../program.py.
'use strict';
const {newDocuments} = require('./work.js');

function models({namespaces, count}) {
  const found = newDocuments(0, count).map((document, i) => (
      {name: 'insertOne', namespace: namespaces[i % namespaces.length], document}));
  const update = {$set: {text: `text ${count}`}};
  return [...found, {name: 'updateOne', namespace: namespaces[0], filter: {k: count}, update,
                     upsert: true}];
}

module.exports = async (client, step) => {
  const {ordered, verbose: verboseResults, transaction} = step;
  let calls = 0;
  const run = async (session) => {
    calls++;
    try {
      return await client.bulkWrite(models(step), {ordered, verboseResults, session});
    } catch (error) {
      throw error.cause ?? error;  // the driver hides the labels from withTransaction
    }
  };
  const {insertedCount, upsertedCount, insertResults, updateResults} = transaction
      ? await client.withSession((session) => session.withTransaction(run)) : await run();
  return {inserted: insertedCount, upserted: upsertedCount,
          results: (insertResults?.size ?? 0) + (updateResults?.size ?? 0), calls};
};
