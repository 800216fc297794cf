/* Does tasks with libmongoc, one after the other; prints what came of each as a line of JSON.
 *
 *   driver '{"task": "insert" | "batches" | "steps", "uri": ..., "own": true | false, ...}' ...
 *
 * own: insert_many puts an _id of its own in front; else the documents go without one, in a write
 * command.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bson_t argument;

static bool find(const char* name, bson_iter_t* at) {
  bool found = bson_iter_init_find(at, &argument, name);
  if (!found) fprintf(stderr, "no argument %s\n", name);
  return found;
}

const char* text(const char* name) {
  bson_iter_t at;
  return find(name, &at) ? bson_iter_utf8(&at, NULL) : "";
}

int number(const char* name) {
  bson_iter_t at;
  return find(name, &at) ? (int)bson_iter_as_int64(&at) : 0;
}

bool truth(const char* name) {
  bson_iter_t at;
  return find(name, &at) && bson_iter_as_bool(&at);
}

bson_t* new_document(int k) {
  char line[32];
  snprintf(line, sizeof line, "text %d", k);
  bson_t* document = bson_new();
  BSON_APPEND_INT32(document, "k", k);
  BSON_APPEND_UTF8(document, "text", line);
  return document;
}

static bool by_command(mongoc_client_t* client, bson_t** documents, int count, bool ordered,
                       bson_t* reply, bson_error_t* error) {
  bson_t command = BSON_INITIALIZER, array;
  BSON_APPEND_UTF8(&command, "insert", text("coll"));
  BSON_APPEND_BOOL(&command, "ordered", ordered);
  BSON_APPEND_ARRAY_BEGIN(&command, "documents", &array);
  for (int i = 0; i < count; ++i) {
    char buffer[16];
    const char* key;
    size_t length = bson_uint32_to_string((uint32_t)i, &key, buffer, sizeof buffer);
    bson_append_document(&array, key, (int)length, documents[i]);
  }
  bson_append_array_end(&command, &array);
  bool ok = mongoc_client_write_command_with_opts(client, text("db"), &command, NULL, reply, error);
  bson_destroy(&command);
  return ok;
}

static bool by_insert_many(mongoc_client_t* client, bson_t** documents, int count, bool ordered,
                           bson_t* reply, bson_error_t* error) {
  bson_t options = BSON_INITIALIZER;
  BSON_APPEND_BOOL(&options, "ordered", ordered);
  mongoc_collection_t* collection = mongoc_client_get_collection(client, text("db"), text("coll"));
  bool ok = mongoc_collection_insert_many(collection, (const bson_t**)documents, (size_t)count,
                                          &options, reply, error);
  mongoc_collection_destroy(collection);
  bson_destroy(&options);
  return ok;
}

/* How many the server took; -1: an error. */
static int insert_all(mongoc_client_t* client, int from, int count, bool ordered,
                      bson_error_t* error) {
  bool own = truth("own");
  bson_t reply;
  bson_iter_t at;
  bson_t** documents = calloc((size_t)count, sizeof *documents);
  for (int i = 0; i < count; ++i) documents[i] = new_document(from + i);
  bool ok = (own ? by_insert_many : by_command)(client, documents, count, ordered, &reply, error);
  int inserted = -1;
  if (ok && bson_iter_init_find(&at, &reply, own ? "insertedCount" : "n")) {
    inserted = (int)bson_iter_as_int64(&at);
  }
  for (int i = 0; i < count; ++i) bson_destroy(documents[i]);
  free(documents);
  bson_destroy(&reply);
  return inserted;
}

static bool insert(mongoc_client_t* client, bson_t* result) {
  bson_error_t error = {0};
  int inserted = insert_all(client, 0, number("count"), truth("ordered"), &error);
  if (inserted < 0) fprintf(stderr, "%s\n", error.message);
  BSON_APPEND_INT32(result, "inserted", inserted);
  return inserted >= 0;
}

/* Inserts count batches of size documents, from batch first on, ordered and unordered in turn. */
static bool batches(mongoc_client_t* client, bson_t* result) {
  int first = number("first"), count = number("count"), size = number("size");
  bson_t outcomes;
  BSON_APPEND_ARRAY_BEGIN(result, "outcomes", &outcomes);
  for (int i = 0; i < count; ++i) {
    bson_error_t error = {0};
    int inserted = insert_all(client, (first + i) * size, size, i % 2 == 0, &error);
    const char* outcome = error.message;
    if (inserted == size) {
      outcome = "ok";
    } else if (error.code == 11000) {
      outcome = "duplicate";
    } else if (error.domain == MONGOC_ERROR_STREAM ||
               error.domain == MONGOC_ERROR_SERVER_SELECTION) {
      outcome = "unknown";
    }
    char key[16];
    snprintf(key, sizeof key, "%d", i);
    BSON_APPEND_UTF8(&outcomes, key, outcome);
  }
  bson_append_array_end(result, &outcomes);
  return true;
}

static int run(const mongoc_uri_t* uri) {
  mongoc_client_t* client = mongoc_client_new_from_uri(uri);
  if (!client) return 1;
  bson_t result = BSON_INITIALIZER;
  bool ok = (strcmp(text("task"), "batches") == 0 ? batches : insert)(client, &result);
  char* json = bson_as_relaxed_extended_json(&result, NULL);
  puts(json);
  bson_free(json);
  bson_destroy(&result);
  mongoc_client_destroy(client);
  return ok ? 0 : 1;
}

/* libmongoc's own takes the standard output for some. */
static void log_to_stderr(mongoc_log_level_t level, const char* domain, const char* message,
                          void* context) {
  (void)context;
  fprintf(stderr, "%s: %s: %s\n", mongoc_log_level_str(level), domain, message);
}

static int task(void) {
  mongoc_uri_t* uri = mongoc_uri_new(text("uri"));
  if (!uri) return 1;
  int status = 0;
  if (strcmp(text("task"), "steps") == 0) {
    status = steps(uri);
  } else {
    /* As all other drivers do: look for a server as long as serverSelectionTimeoutMS. */
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_SERVERSELECTIONTRYONCE, false);
    status = run(uri);
  }
  mongoc_uri_destroy(uri);
  return status;
}

int main(int argc, char** argv) {
  mongoc_log_set_handler(log_to_stderr, NULL);
  mongoc_init();
  int status = 0;
  for (int i = 1; i < argc && status == 0; ++i) {
    bson_error_t error;
    if (!bson_init_from_json(&argument, argv[i], -1, &error)) return 64;
    status = task();
    bson_destroy(&argument);
  }
  mongoc_cleanup();
  return status;
}
