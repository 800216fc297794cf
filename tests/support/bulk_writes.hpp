#pragma once

#include <string>
#include <vector>

#include "support/replies.hpp"
#include "support/upserts.hpp"

/// Building blocks for the command bulkWrite, and for its replies.
namespace idproxy::test {

inline std::string insert_op(std::int32_t ns, std::string_view document) {
  return doc(int_field("insert", ns) + element(bson::Type::document, "document", document));
}
/// An upsert that sets x, with values (elements) or without.
inline std::string upsert_op(std::int32_t ns, std::int32_t k, std::string_view values = {}) {
  const std::string on_insert = values.empty() ? "" : doc_field("$setOnInsert", values);
  return doc(int_field("update", ns) + doc_field("filter", int_field("k", k)) +
             doc_field("updateMods", doc_field("$set", int_field("x", 1)) + on_insert) +
             bool_field("upsert", true));
}
inline std::string delete_op(std::int32_t ns, std::int32_t k) {
  return doc(int_field("delete", ns) + doc_field("filter", int_field("k", k)));
}
/// An entry of nsInfo. `more`: elements behind its name.
inline std::string ns_entry(std::string_view ns, std::string_view more = {}) {
  return doc(joined({string_field("ns", ns), more}));
}

/// Where a client puts its ops and its nsInfo. Driver: in sequences, the ops first.
enum class BulkForm { sequences, turned_sequences, arrays, turned_arrays, ops_array, ns_array };
inline constexpr BulkForm kBulkForms[] = {BulkForm::sequences, BulkForm::turned_sequences,
                                          BulkForm::arrays,    BulkForm::turned_arrays,
                                          BulkForm::ops_array, BulkForm::ns_array};

/// A client's bulkWrite. `options`: more fields of the body.
inline std::string bulk(BulkForm form, const std::string& options,
                        const std::vector<std::string>& ops,
                        const std::vector<std::string>& ns_info, std::uint32_t flags = 0) {
  const std::string ops_array = array_field("ops", ops);
  const std::string ns_array = array_field("nsInfo", ns_info);
  const std::string ops_sequence = sequence("ops", ops);
  const std::string ns_sequence = sequence("nsInfo", ns_info);
  std::string in_body;
  std::string behind;
  switch (form) {
    case BulkForm::sequences:
      behind = ops_sequence + ns_sequence;
      break;
    case BulkForm::turned_sequences:
      behind = ns_sequence + ops_sequence;
      break;
    case BulkForm::arrays:
      in_body = ops_array + ns_array;
      break;
    case BulkForm::turned_arrays:
      in_body = ns_array + ops_array;
      break;
    case BulkForm::ops_array:
      in_body = ops_array;
      behind = ns_sequence;
      break;
    case BulkForm::ns_array:
      in_body = ns_array;
      behind = ops_sequence;
      break;
  }
  return op_msg(
      body(doc(int_field("bulkWrite", 1) + in_body + options + string_field("$db", "admin"))) +
          behind,
      flags);
}
/// A bulkWrite as the proxy sends it. `behind`: fields that it puts behind the client's.
inline std::string bulk_sent(const std::string& options, const std::vector<std::string>& ops,
                             const std::vector<std::string>& ns_info,
                             const std::string& behind = "", std::uint32_t flags = 0) {
  return op_msg(
      body(doc(int_field("bulkWrite", 1) + options + string_field("$db", "admin") + behind)) +
          sequence("nsInfo", ns_info) + sequence("ops", ops),
      flags);
}

// Replies, with fields in mongod's order.

/// A result of an op that went well.
inline std::string well(std::int32_t idx, std::string_view more = {}) {
  return doc(joined({double_field("ok", 1), int_field("idx", idx), int_field("n", 1), more}));
}
/// Of an upsert that inserted a document, or found one.
inline std::string upserted_result(std::int32_t idx, std::int64_t id) {
  return well(idx, int_field("nModified", 0) + doc_field("upserted", long_field("_id", id)));
}
inline std::string found_result(std::int32_t idx) {
  return well(idx, int_field("nModified", 1));
}
inline std::string failed(std::int32_t idx, std::int32_t code, std::string_view more = {}) {
  return doc(joined({double_field("ok", 0), int_field("idx", idx), int_field("code", code), more}));
}
inline std::string taken(std::int32_t idx, const std::vector<std::string>& keys,
                         std::string_view ns = "shop.orders") {
  return failed(idx, 11000, duplicate_fields(keys, ns));
}

/// {cursor: {id, <batch>: [results…], ns}}
inline std::string results_cursor(std::int64_t id, std::string_view batch,
                                  const std::vector<std::string>& results) {
  return doc_field("cursor", long_field("id", id) + array_field(batch, results) +
                                 string_field("ns", "admin.$cmd.bulkWrite"));
}
struct BulkCounts {
  std::int32_t errors = 0;
  std::int32_t inserted = 0;
  std::int32_t upserted = 0;
  std::int32_t modified = 0;
  std::int32_t deleted = 0;
};
/// `cursor`: not 0 if some results are left for getMore.
inline std::string bulk_reply(const BulkCounts& counts, const std::vector<std::string>& results,
                              std::int64_t cursor = 0) {
  return results_cursor(cursor, "firstBatch", results) + int_field("nErrors", counts.errors) +
         int_field("nInserted", counts.inserted) + int_field("nMatched", counts.modified) +
         int_field("nModified", counts.modified) + int_field("nUpserted", counts.upserted) +
         int_field("nDeleted", counts.deleted) + ok();
}
/// The reply to a getMore.
inline std::string more_results(std::int64_t cursor, const std::vector<std::string>& results) {
  return results_cursor(cursor, "nextBatch", results) + ok();
}

}  // namespace idproxy::test
