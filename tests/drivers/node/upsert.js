// An upsert, by the key k of its documents: see ../program.py.
'use strict';

const update = {$inc: {n: 1}};
const upsert = true;

function bulkWrite(collection, keys, ordered) {
  const each = keys.map((k) => ({updateOne: {filter: {k}, update, upsert}}));
  return collection.bulkWrite(each, {ordered});
}

module.exports = async (collection, {op, keys, ordered, replacement}) => {
  if (op === 'bulkWrite') {
    const {matchedCount, upsertedIds} = await bulkWrite(collection, keys, ordered);
    return {matched: matchedCount, upserted: upsertedIds};
  }
  const filter = {k: keys[0]};
  if (op === 'findOneAndUpdate') {
    const options = {upsert, returnDocument: 'after'};
    return {document: await collection.findOneAndUpdate(filter, update, options)};
  }
  // updateOne, updateMany, replaceOne
  const {matchedCount, upsertedCount, upsertedId} =
      await collection[op](filter, replacement ?? update, {upsert});
  return {matched: matchedCount, upserted: upsertedCount ? {0: upsertedId} : {}};
};
