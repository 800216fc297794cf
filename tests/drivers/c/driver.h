/* What the tasks share. */
#pragma once

#include <mongoc/mongoc.h>

/* The task, or the step at hand, as JSON has it. */
extern bson_t argument;

/* A field of it. One that is missing is complained of, and is "", 0 or false. */
const char* text(const char* name);
int number(const char* name);
bool truth(const char* name);

/* {k: <k>, text: "text <k>"} */
bson_t* new_document(int k);

/* upsert.c: the step of this name. */
bool upsert(mongoc_collection_t* collection, bson_t* result, bson_error_t* error);

/* steps.c: one step for each line of the standard input; returns the program's status. */
int steps(const mongoc_uri_t* uri);
