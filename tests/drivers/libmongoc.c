/* Inserts documents {k: i, text: "text i"} with libmongoc; prints how many the server took.
 *
 *   libmongoc URI DB COLL COUNT true|false command|insert_many
 *
 * command sends them without an _id, as a write command does; insert_many puts its own in front.
 */
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bson_t* new_document(int k) {
  char text[32];
  snprintf(text, sizeof text, "text %d", k);
  bson_t* document = bson_new();
  BSON_APPEND_INT32(document, "k", k);
  BSON_APPEND_UTF8(document, "text", text);
  return document;
}

static int64_t number(const bson_t* reply, const char* name) {
  bson_iter_t at;
  return bson_iter_init_find(&at, reply, name) ? bson_iter_as_int64(&at) : -1;
}

static bool by_command(mongoc_client_t* client, const char* db, const char* coll, int count,
                       bool ordered, bson_t* reply, bson_error_t* error) {
  bson_t command = BSON_INITIALIZER, documents;
  BSON_APPEND_UTF8(&command, "insert", coll);
  BSON_APPEND_BOOL(&command, "ordered", ordered);
  BSON_APPEND_ARRAY_BEGIN(&command, "documents", &documents);
  for (int i = 0; i < count; ++i) {
    char buffer[16];
    const char* key;
    size_t length = bson_uint32_to_string((uint32_t)i, &key, buffer, sizeof buffer);
    bson_t* document = new_document(i);
    bson_append_document(&documents, key, (int)length, document);
    bson_destroy(document);
  }
  bson_append_array_end(&command, &documents);
  bool ok = mongoc_client_write_command_with_opts(client, db, &command, NULL, reply, error);
  bson_destroy(&command);
  return ok;
}

static bool by_insert_many(mongoc_client_t* client, const char* db, const char* coll, int count,
                           bool ordered, bson_t* reply, bson_error_t* error) {
  bson_t options = BSON_INITIALIZER;
  BSON_APPEND_BOOL(&options, "ordered", ordered);
  const bson_t** documents = calloc((size_t)count, sizeof *documents);
  for (int i = 0; i < count; ++i) documents[i] = new_document(i);
  mongoc_collection_t* collection = mongoc_client_get_collection(client, db, coll);
  bool ok =
      mongoc_collection_insert_many(collection, documents, (size_t)count, &options, reply, error);
  mongoc_collection_destroy(collection);
  for (int i = 0; i < count; ++i) bson_destroy((bson_t*)documents[i]);
  free(documents);
  bson_destroy(&options);
  return ok;
}

int main(int argc, char** argv) {
  if (argc != 7) return 64;
  int count = atoi(argv[4]);
  bool ordered = strcmp(argv[5], "true") == 0;
  bool command = strcmp(argv[6], "command") == 0;
  bson_error_t error;
  bson_t reply;
  mongoc_init();
  mongoc_client_t* client = mongoc_client_new(argv[1]);
  if (!client) return 1;
  bool ok = (command ? by_command : by_insert_many)(client, argv[2], argv[3], count, ordered,
                                                    &reply, &error);
  if (ok) {
    printf("%lld\n", (long long)number(&reply, command ? "n" : "insertedCount"));
  } else {
    fprintf(stderr, "%s\n", error.message);
  }
  bson_destroy(&reply);
  mongoc_client_destroy(client);
  mongoc_cleanup();
  return ok ? 0 : 1;
}
