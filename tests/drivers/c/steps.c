/* One step for each line of the standard input, all with one client: see ../program.py.
 *
 * The client is one of a pool, whose threads watch the servers as other drivers' do. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static mongoc_client_t* client;
static mongoc_database_t* db;
static mongoc_change_stream_t* stream;

/* The addresses of all servers that the driver has heard of, as names of fields. */
static bson_t ever = BSON_INITIALIZER;
static pthread_mutex_t ever_lock = PTHREAD_MUTEX_INITIALIZER;

static void opening(const mongoc_apm_server_opening_t* event) {
  const char* address = mongoc_apm_server_opening_get_host(event)->host_and_port;
  bson_iter_t at;
  pthread_mutex_lock(&ever_lock);
  if (!bson_iter_init_find(&at, &ever, address)) BSON_APPEND_BOOL(&ever, address, true);
  pthread_mutex_unlock(&ever_lock);
}

/* The name of an element of an array; valid until the next call. */
static const char* key(int index) {
  static char buffer[16];
  snprintf(buffer, sizeof buffer, "%d", index);
  return buffer;
}

static mongoc_collection_t* collection_of_step(void) {
  return mongoc_database_get_collection(db, text("coll"));
}

/* opts: of insert_many; may be NULL. */
static bool insert_new(mongoc_collection_t* collection, int from, int count, const bson_t* opts,
                       bson_t* reply, bson_error_t* error) {
  bson_t** documents = calloc((size_t)count, sizeof *documents);
  for (int i = 0; i < count; ++i) documents[i] = new_document(from + i);
  bool ok = mongoc_collection_insert_many(collection, (const bson_t**)documents, (size_t)count,
                                          opts, reply, error);
  for (int i = 0; i < count; ++i) bson_destroy(documents[i]);
  free(documents);
  return ok;
}

/* Puts the number that the reply has as `name` into the result as `as`; destroys the reply. */
static void take_number(bson_t* reply, const char* name, bson_t* result, const char* as) {
  bson_iter_t at;
  if (bson_iter_init_find(&at, reply, name)) {
    BSON_APPEND_INT64(result, as, bson_iter_as_int64(&at));
  }
  bson_destroy(reply);
}

static bool insert(bson_t* result, bson_error_t* error) {
  mongoc_collection_t* collection = collection_of_step();
  bson_t reply;
  bool ok = insert_new(collection, number("first"), number("count"), NULL, &reply, error);
  take_number(&reply, "insertedCount", result, "inserted");
  mongoc_collection_destroy(collection);
  return ok;
}

static bool find_once(mongoc_collection_t* collection, const mongoc_read_prefs_t* prefs, int* found,
                      bson_error_t* error) {
  bson_t* filter = BCON_NEW("k", "{", "$exists", BCON_BOOL(true), "}");
  bson_t* opts = BCON_NEW("comment", BCON_UTF8(text("comment")));
  mongoc_cursor_t* cursor = mongoc_collection_find_with_opts(collection, filter, opts, prefs);
  const bson_t* document = NULL;
  for (*found = 0; mongoc_cursor_next(cursor, &document); ++*found) {
  }
  bool ok = !mongoc_cursor_error(cursor, error);
  mongoc_cursor_destroy(cursor);
  bson_destroy(opts);
  bson_destroy(filter);
  return ok;
}

static bool find(bson_t* result, bson_error_t* error) {
  mongoc_collection_t* collection = collection_of_step();
  mongoc_read_prefs_t* prefs = mongoc_read_prefs_new(
      truth("secondaryPreferred") ? MONGOC_READ_SECONDARY_PREFERRED : MONGOC_READ_PRIMARY);
  bson_t counts;
  bool ok = true;
  BSON_APPEND_ARRAY_BEGIN(result, "found", &counts);
  for (int i = 0; ok && i < number("times"); ++i) {
    int found = 0;
    ok = find_once(collection, prefs, &found, error);
    BSON_APPEND_INT32(&counts, key(i), found);
  }
  bson_append_array_end(result, &counts);
  mongoc_read_prefs_destroy(prefs);
  mongoc_collection_destroy(collection);
  return ok;
}

static bool update(mongoc_collection_t* collection, const bson_t* one, const bson_t* increment,
                   bson_t* result, bson_error_t* error) {
  bson_t reply;
  bool ok = mongoc_collection_update_one(collection, one, increment, NULL, &reply, error);
  take_number(&reply, "modifiedCount", result, "modified");
  return ok;
}

static bool find_and_modify(mongoc_collection_t* collection, const bson_t* one,
                            const bson_t* increment, bson_t* result, bson_error_t* error) {
  mongoc_find_and_modify_opts_t* opts = mongoc_find_and_modify_opts_new();
  mongoc_find_and_modify_opts_set_update(opts, increment);
  mongoc_find_and_modify_opts_set_flags(opts, MONGOC_FIND_AND_MODIFY_RETURN_NEW);
  bson_t reply;
  bson_iter_t at, n;
  bool ok = mongoc_collection_find_and_modify_with_opts(collection, one, opts, &reply, error);
  if (ok && bson_iter_init(&at, &reply) && bson_iter_find_descendant(&at, "value.n", &n)) {
    BSON_APPEND_INT64(result, "n", bson_iter_as_int64(&n));
  }
  bson_destroy(&reply);
  mongoc_find_and_modify_opts_destroy(opts);
  return ok;
}

static bool insert_more(mongoc_collection_t* collection, const bson_t* more, bson_t* result,
                        bson_error_t* error) {
  const bson_t* two[] = {more, more};
  bson_t reply;
  bool ok = mongoc_collection_insert_many(collection, two, 2, NULL, &reply, error);
  take_number(&reply, "insertedCount", result, "inserted");
  return ok;
}

static bool delete_more(mongoc_collection_t* collection, const bson_t* more, bson_t* result,
                        bson_error_t* error) {
  bson_t reply;
  bool ok = mongoc_collection_delete_one(collection, more, NULL, &reply, error);
  take_number(&reply, "deletedCount", result, "deleted");
  return ok;
}

static bool find_document(mongoc_collection_t* collection, const bson_t* one, bson_t* result,
                          bson_error_t* error) {
  mongoc_cursor_t* cursor = mongoc_collection_find_with_opts(collection, one, NULL, NULL);
  const bson_t* document = NULL;
  if (mongoc_cursor_next(cursor, &document)) BSON_APPEND_DOCUMENT(result, "document", document);
  bool ok = !mongoc_cursor_error(cursor, error);
  mongoc_cursor_destroy(cursor);
  return ok;
}

/* A document's life with every write that is retryable. n is 2 if none was done twice. */
static bool life(bson_t* result, bson_error_t* error) {
  mongoc_collection_t* collection = collection_of_step();
  bson_t* document = new_document(number("k"));
  bson_t* one = BCON_NEW("k", BCON_INT32(number("k")));
  bson_t* more = BCON_NEW("more", BCON_INT32(number("k")));
  bson_t* increment = BCON_NEW("$inc", "{", "n", BCON_INT32(1), "}");
  bool ok = mongoc_collection_insert_one(collection, document, NULL, NULL, error) &&
            update(collection, one, increment, result, error) &&
            find_and_modify(collection, one, increment, result, error) &&
            insert_more(collection, more, result, error) &&
            delete_more(collection, more, result, error) &&
            find_document(collection, one, result, error);
  bson_destroy(increment);
  bson_destroy(more);
  bson_destroy(one);
  bson_destroy(document);
  mongoc_collection_destroy(collection);
  return ok;
}

static bool upsert_step(bson_t* result, bson_error_t* error) {
  mongoc_collection_t* collection = collection_of_step();
  bool ok = upsert(collection, result, error);
  mongoc_collection_destroy(collection);
  return ok;
}

/* One of the transactions, and how often its callback was run. */
struct transaction {
  int number, calls;
};

static bool cleared(bson_t* answer) {
  bson_destroy(answer);
  return true;
}

static bool in_session(mongoc_client_session_t* session, void* context, bson_t** reply,
                       bson_error_t* error) {
  struct transaction* transaction = context;
  int size = number("size") + 1, from = transaction->number * size;
  mongoc_collection_t* collection = collection_of_step();
  mongoc_collection_t* log = mongoc_database_get_collection(db, "log");
  mongoc_collection_t* sums = mongoc_database_get_collection(db, "sums");
  bson_t* line = BCON_NEW("_id", BCON_INT32(transaction->number));
  bson_t* sum = BCON_NEW("_id", BCON_UTF8("sum"));
  bson_t* add = BCON_NEW("$inc", "{", "n", BCON_INT32(size), "}");
  bson_t opts = BSON_INITIALIZER, answer;
  mongoc_client_session_append(session, &opts, error);
  ++transaction->calls;

  /* The answer of the one that fails has the labels by which the driver tells what to do. */
  bool ok = insert_new(collection, from, 1, &opts, &answer, error) && cleared(&answer) &&
            mongoc_collection_insert_one(log, line, &opts, &answer, error) && cleared(&answer) &&
            insert_new(collection, from + 1, size - 1, &opts, &answer, error) && cleared(&answer) &&
            mongoc_collection_update_one(sums, sum, add, &opts, &answer, error);
  *reply = bson_copy(&answer);

  bson_destroy(&answer);
  bson_destroy(&opts);
  bson_destroy(add);
  bson_destroy(sum);
  bson_destroy(line);
  mongoc_collection_destroy(sums);
  mongoc_collection_destroy(log);
  mongoc_collection_destroy(collection);
  return ok;
}

/* Runs count transactions; each inserts one document, a line in the log and size documents more,
 * and adds to the sum. calls counts how often the callback was run. */
static bool transactions(bson_t* result, bson_error_t* error) {
  mongoc_client_session_t* session = mongoc_client_start_session(client, NULL, error);
  if (!session) return false;
  struct transaction transaction = {0, 0};
  bson_t outcomes;
  BSON_APPEND_ARRAY_BEGIN(result, "outcomes", &outcomes);
  for (int i = 0; i < number("count"); ++i) {
    transaction.number = i;
    bool ok = mongoc_client_session_with_transaction(session, in_session, NULL, &transaction, NULL,
                                                     error);
    BSON_APPEND_UTF8(&outcomes, key(i), ok ? "ok" : error->message);
  }
  bson_append_array_end(result, &outcomes);
  BSON_APPEND_INT32(result, "calls", transaction.calls);
  mongoc_client_session_destroy(session);
  return true;
}

static bool watch(bson_t* result, bson_error_t* error) {
  (void)result;
  mongoc_collection_t* collection = collection_of_step();
  bson_t pipeline = BSON_INITIALIZER;
  stream = mongoc_collection_watch(collection, &pipeline, NULL);
  bson_destroy(&pipeline);
  mongoc_collection_destroy(collection);
  return !mongoc_change_stream_error_document(stream, error, NULL);
}

static bool events(bson_t* result, bson_error_t* error) {
  bson_t array;
  const bson_t* event = NULL;
  bson_iter_t at;
  int count = 0;
  bool ok = true;
  BSON_APPEND_ARRAY_BEGIN(result, "events", &array);
  while (ok && count < number("count")) {
    if (!mongoc_change_stream_next(stream, &event)) { /* none came for a while, or none will */
      ok = !mongoc_change_stream_error_document(stream, error, NULL);
    } else if (bson_iter_init_find(&at, event, "fullDocument")) {
      BSON_APPEND_VALUE(&array, key(count), bson_iter_value(&at));
      ++count;
    }
  }
  bson_append_array_end(result, &array);
  return ok;
}

static bool unwatch(bson_t* result, bson_error_t* error) {
  (void)result, (void)error;
  mongoc_change_stream_destroy(stream);
  stream = NULL;
  return true;
}

static bool topology(bson_t* result, bson_error_t* error) {
  (void)error;
  size_t count = 0;
  mongoc_server_description_t** known = mongoc_client_get_server_descriptions(client, &count);
  bson_t servers, addresses;
  BSON_APPEND_DOCUMENT_BEGIN(result, "servers", &servers);
  for (size_t i = 0; i < count; ++i) {
    BSON_APPEND_UTF8(&servers, mongoc_server_description_host(known[i])->host_and_port,
                     mongoc_server_description_type(known[i]));
  }
  bson_append_document_end(result, &servers);
  mongoc_server_descriptions_destroy_all(known, count);

  pthread_mutex_lock(&ever_lock);
  BSON_APPEND_ARRAY_BEGIN(result, "ever", &addresses);
  bson_iter_t at;
  bson_iter_init(&at, &ever);
  for (int i = 0; bson_iter_next(&at); ++i) {
    BSON_APPEND_UTF8(&addresses, key(i), bson_iter_key(&at));
  }
  bson_append_array_end(result, &addresses);
  pthread_mutex_unlock(&ever_lock);
  return true;
}

static const struct {
  const char* name;
  bool (*run)(bson_t* result, bson_error_t* error);
} kSteps[] = {{"insert", insert},   {"find", find},         {"life", life},
              {"watch", watch},     {"events", events},     {"transactions", transactions},
              {"unwatch", unwatch}, {"topology", topology}, {"upsert", upsert_step}};

static void step(void) {
  bson_t result = BSON_INITIALIZER;
  bson_error_t error = {.message = "no such step"};
  bool ok = false;
  for (size_t i = 0; i < sizeof kSteps / sizeof *kSteps; ++i) {
    if (strcmp(text("step"), kSteps[i].name) == 0) ok = kSteps[i].run(&result, &error);
  }
  if (!ok) {
    bson_t codes;
    BSON_APPEND_UTF8(&result, "error", error.message);
    BSON_APPEND_ARRAY_BEGIN(&result, "codes", &codes);
    if (error.domain != MONGOC_ERROR_STREAM && error.domain != MONGOC_ERROR_SERVER_SELECTION) {
      BSON_APPEND_INT32(&codes, "0", (int)error.code);
    }
    bson_append_array_end(&result, &codes);
  }
  char* json = bson_as_relaxed_extended_json(&result, NULL);
  puts(json);
  fflush(stdout);
  bson_free(json);
  bson_destroy(&result);
}

int steps(const mongoc_uri_t* uri) {
  mongoc_client_pool_t* pool = mongoc_client_pool_new(uri);
  mongoc_apm_callbacks_t* callbacks = mongoc_apm_callbacks_new();
  mongoc_apm_set_server_opening_cb(callbacks, opening);
  mongoc_client_pool_set_apm_callbacks(pool, callbacks, NULL);
  mongoc_apm_callbacks_destroy(callbacks);
  client = mongoc_client_pool_pop(pool);
  db = mongoc_client_get_database(client, text("db"));

  char* line = NULL;
  size_t capacity = 0;
  ssize_t length = 0;
  while ((length = getline(&line, &capacity, stdin)) > 0) {
    bson_error_t error;
    bson_destroy(&argument);
    if (!bson_init_from_json(&argument, line, length, &error)) return 64;
    step();
  }
  free(line);
  mongoc_database_destroy(db);
  mongoc_client_pool_push(pool, client);
  mongoc_client_pool_destroy(pool);
  bson_destroy(&ever);
  return 0;
}
