// Inserts documents with the Node driver; prints what the driver reports.
// Argument: {uri, db, coll, count, ordered, own}; own: let the driver make its _id, as by default.
'use strict';
const {MongoClient} = require('mongodb');

async function main({uri, db, coll, count, ordered, own}) {
  const client = new MongoClient(uri);
  try {
    const collection = client.db(db).collection(coll);
    const documents = Array.from({length: count}, (_, k) => ({k, text: `text ${k}`}));
    const options = own ? {ordered} : {ordered, forceServerObjectId: true};
    const result = count === 1 ? await collection.insertOne(documents[0], options)
                               : await collection.insertMany(documents, options);
    const inserted = count === 1 ? (result.acknowledged ? 1 : 0) : result.insertedCount;
    console.log(JSON.stringify({inserted}));
  } finally {
    await client.close();
  }
}

main(JSON.parse(process.argv[2])).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
