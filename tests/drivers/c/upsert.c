/* An upsert, by the key k of its documents: see ../program.py. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

/* An iterator in front of the step's keys. */
static bool init_keys(bson_iter_t* keys) {
  bson_iter_t at;
  return bson_iter_init_find(&at, &argument, "keys") && bson_iter_recurse(&at, keys);
}

/* {k: <the key that the iterator is at>} */
static bson_t* filter_of(const bson_iter_t* key) {
  return BCON_NEW("k", BCON_INT32(bson_iter_int32(key)));
}

/* Appends the reply's number `name` as matched. */
static void append_matched(const bson_t* reply, const char* name, bson_t* result) {
  bson_iter_t at;
  if (bson_iter_init_find(&at, reply, name)) {
    BSON_APPEND_INT64(result, "matched", bson_iter_as_int64(&at));
  }
}

/* Appends upserted: the _id by the position in the bulk write. */
static void append_upserted(const bson_t* reply, bson_t* result) {
  bson_iter_t at, entries, index, id;
  bson_t upserted;
  char position[16];
  BSON_APPEND_DOCUMENT_BEGIN(result, "upserted", &upserted);
  if (bson_iter_init_find(&at, reply, "upserted") && bson_iter_recurse(&at, &entries)) {
    while (bson_iter_next(&entries)) {
      if (bson_iter_recurse(&entries, &index) && bson_iter_find(&index, "index") &&
          bson_iter_recurse(&entries, &id) && bson_iter_find(&id, "_id")) {
        snprintf(position, sizeof position, "%d", (int)bson_iter_as_int64(&index));
        BSON_APPEND_VALUE(&upserted, position, bson_iter_value(&id));
      }
    }
  } else if (bson_iter_init_find(&at, reply, "upsertedId")) {
    BSON_APPEND_VALUE(&upserted, "0", bson_iter_value(&at));
  }
  bson_append_document_end(result, &upserted);
}

static bool bulk_write(mongoc_collection_t* collection, const bson_t* update, const bson_t* opts,
                       bson_t* result, bson_error_t* error) {
  bson_t* how = BCON_NEW("ordered", BCON_BOOL(truth("ordered")));
  mongoc_bulk_operation_t* bulk =
      mongoc_collection_create_bulk_operation_with_opts(collection, how);
  bson_iter_t keys;
  bool ok = init_keys(&keys);
  while (ok && bson_iter_next(&keys)) {
    bson_t* filter = filter_of(&keys);
    ok = mongoc_bulk_operation_update_one_with_opts(bulk, filter, update, opts, error);
    bson_destroy(filter);
  }
  bson_t reply;
  ok = mongoc_bulk_operation_execute(bulk, &reply, error) != 0 && ok;
  append_matched(&reply, "nMatched", result);
  append_upserted(&reply, result);
  bson_destroy(&reply);
  mongoc_bulk_operation_destroy(bulk);
  bson_destroy(how);
  return ok;
}

static bool find_and_update(mongoc_collection_t* collection, const bson_t* filter,
                            const bson_t* update, bson_t* result, bson_error_t* error) {
  mongoc_find_and_modify_opts_t* opts = mongoc_find_and_modify_opts_new();
  mongoc_find_and_modify_opts_set_update(opts, update);
  mongoc_find_and_modify_opts_set_flags(
      opts, MONGOC_FIND_AND_MODIFY_UPSERT | MONGOC_FIND_AND_MODIFY_RETURN_NEW);
  bson_t reply;
  bson_iter_t at;
  bool ok = mongoc_collection_find_and_modify_with_opts(collection, filter, opts, &reply, error);
  if (ok && bson_iter_init_find(&at, &reply, "value")) {
    BSON_APPEND_VALUE(result, "document", bson_iter_value(&at));
  }
  bson_destroy(&reply);
  mongoc_find_and_modify_opts_destroy(opts);
  return ok;
}

static bool replace(mongoc_collection_t* collection, const bson_t* filter, const bson_t* opts,
                    bson_t* reply, bson_error_t* error) {
  bson_iter_t at;
  uint32_t length = 0;
  const uint8_t* data = NULL;
  bson_t replacement;
  if (!bson_iter_init_find(&at, &argument, "replacement")) return false;
  bson_iter_document(&at, &length, &data);
  return bson_init_static(&replacement, data, length) &&
         mongoc_collection_replace_one(collection, filter, &replacement, opts, reply, error);
}

static bool write_one(mongoc_collection_t* collection, const bson_t* filter, const bson_t* update,
                      const bson_t* opts, bson_t* result, bson_error_t* error) {
  bson_t reply = BSON_INITIALIZER;
  bool ok = false;
  if (strcmp(text("op"), "updateOne") == 0) {
    ok = mongoc_collection_update_one(collection, filter, update, opts, &reply, error);
  } else if (strcmp(text("op"), "updateMany") == 0) {
    ok = mongoc_collection_update_many(collection, filter, update, opts, &reply, error);
  } else if (strcmp(text("op"), "replaceOne") == 0) {
    ok = replace(collection, filter, opts, &reply, error);
  }
  append_matched(&reply, "matchedCount", result);
  append_upserted(&reply, result);
  bson_destroy(&reply);
  return ok;
}

bool upsert(mongoc_collection_t* collection, bson_t* result, bson_error_t* error) {
  bson_iter_t keys;
  if (!init_keys(&keys) || !bson_iter_next(&keys)) return false;
  bson_t* filter = filter_of(&keys);
  bson_t* update = BCON_NEW("$inc", "{", "n", BCON_INT32(1), "}");
  bson_t* opts = BCON_NEW("upsert", BCON_BOOL(true));
  bool ok = false;
  if (strcmp(text("op"), "bulkWrite") == 0) {
    ok = bulk_write(collection, update, opts, result, error);
  } else if (strcmp(text("op"), "findOneAndUpdate") == 0) {
    ok = find_and_update(collection, filter, update, result, error);
  } else {
    ok = write_one(collection, filter, update, opts, result, error);
  }
  bson_destroy(opts);
  bson_destroy(update);
  bson_destroy(filter);
  return ok;
}
