#include "idproxy/rewrite/reply_merge.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "rewrite/own_message.hpp"

namespace idproxy::rewrite {
namespace {

constexpr std::size_t kMostLabels = 16;  // servers have about ten

/// The index in an entry of writeErrors or upserted; nothing unless it is an int32 after `last` and
/// below `statements`.
std::optional<std::int32_t> index_after(std::int64_t last, const bson::Element& entry,
                                        std::size_t statements) {
  if (entry.type != bson::Type::document) return std::nullopt;
  const auto index = bson::find(entry.value, "index", bson::Type::int32);
  if (!index) return std::nullopt;
  const std::int32_t at = load_i32(index->value.data());
  if (at <= last || at >= static_cast<std::int64_t>(statements)) return std::nullopt;
  return at;
}

/// The indexes in an `upserted` array; nothing if it is malformed.
std::optional<std::vector<std::int32_t>> read_upserted(Bytes array, std::size_t statements) {
  std::vector<std::int32_t> indexes;
  if (array.empty()) return indexes;
  bson::Elements entries(array);
  while (const auto entry = entries.next()) {
    const auto at = index_after(indexes.empty() ? -1 : indexes.back(), *entry, statements);
    if (!at || !bson::find(entry->value, "_id")) return std::nullopt;
    indexes.push_back(*at);
  }
  if (entries.malformed()) return std::nullopt;
  return indexes;
}

}  // namespace

std::optional<std::size_t> count_of(const bson::Element& array, bson::Type type) {
  if (array.type != bson::Type::array) return std::nullopt;
  std::size_t count = 0;
  bson::Elements elements(array.value);
  while (const auto element = elements.next()) {
    if (element->type != type) return std::nullopt;
    ++count;
  }
  if (elements.malformed()) return std::nullopt;
  return count;
}

bool WriteReply::take(const bson::Element& field, FieldsOnce& once) {
  const auto number = field.as_integer();
  if (!once(field.key) || !number) return false;
  if (field.key == "code") {
    code = *number;
    return true;
  }
  ok = *number == 1;
  return ok || *number == 0;
}

std::optional<WriteReply> WriteReply::read(Bytes body, std::size_t statements) {
  FieldsOnce once;
  WriteReply reply;
  Bytes write_errors;
  Bytes upserted;
  bson::Elements fields(body);
  while (const auto field = fields.next()) {
    if (field->key == "n") {
      reply.n = field->as_integer();
      if (!once(field->key) || !reply.n) return {};
    } else if (field->key == "ok" || field->key == "code") {
      if (!reply.take(*field, once)) return {};
    } else if (field->key == "writeErrors") {
      if (!once(field->key) || field->type != bson::Type::array) return {};
      write_errors = field->value;
    } else if (field->key == "nModified") {
      reply.modified = field->as_integer();
      if (!once(field->key) || !reply.modified) return {};
    } else if (field->key == "upserted") {
      if (!once(field->key) || field->type != bson::Type::array) return {};
      upserted = field->value;
    } else if (field->key == "retriedStmtIds") {
      const auto count = count_of(*field, bson::Type::int32);
      if (!once(field->key) || !count) return {};
      reply.retried = *count;
    } else if (field->key == "errorLabels") {
      const auto count = count_of(*field, bson::Type::string);
      if (!once(field->key) || !count || *count > kMostLabels) return {};
    }
  }
  if (fields.malformed() || !once.has("ok")) return {};
  if (!reply.ok) return reply;
  auto errors = read_write_errors(write_errors, statements);
  auto inserted = read_upserted(upserted, statements);
  if (!errors || !inserted) return {};
  reply.errors = std::move(*errors);
  reply.upserted = std::move(*inserted);
  return reply;
}

std::optional<std::vector<WriteError>> read_write_errors(Bytes array, std::size_t statements) {
  std::vector<WriteError> errors;
  if (array.empty()) return errors;
  std::int64_t last = -1;
  bson::Elements entries(array);
  while (const auto entry = entries.next()) {
    const auto at = index_after(last, *entry, statements);
    const auto code = at ? bson::find_integer(entry->value, "code") : std::nullopt;
    if (!code) return {};
    last = *at;
    errors.push_back({*at, *code, entry->value});
  }
  if (entries.malformed()) return {};
  return errors;
}

namespace {

using Time = std::pair<std::int64_t, std::uint64_t>;

// A reply has at most 16 MiB + 16 KiB. If the merged reply would be larger, errors lose their
// texts, and the report of assigned values is cut short.
constexpr auto kMostBytes = static_cast<std::size_t>(bson::kMaxInternalDocument);
constexpr std::size_t kOtherFields = std::size_t{8} * 1024;
constexpr std::size_t kBareError = 64;  // {index, code, errmsg: ""} and the entry's key
constexpr std::size_t kMostPerStatement =
    16;  // one element of retriedStmtIds, or the key of another array

std::uint64_t timestamp(const std::optional<bson::Element>& element) {
  if (!element || element->type != bson::Type::timestamp) return 0;
  return static_cast<std::uint64_t>(load_i64(element->value.data()));
}

/// opTime is {ts: Timestamp, t: <term>}, or a bare Timestamp if a transaction's first statement
/// fails (observed, 6.0.5).
Time op_time(const bson::Element& field) {
  if (field.type != bson::Type::document) return {-1, timestamp(field)};
  return {bson::find_integer(field.value, "t").value_or(-1),
          timestamp(bson::find(field.value, "ts"))};
}

Time cluster_time(const bson::Element& field) {
  if (field.type != bson::Type::document) return {0, 0};
  return {0, timestamp(bson::find(field.value, "clusterTime"))};
}

std::size_t most_bytes(const Assigned& assigned) {
  return kBareError + assigned.field.size() + assigned.value.size();
}

bool is_bulk(ReplyForm form) {
  return form == ReplyForm::all_results || form == ReplyForm::errors_only;
}

/// True for the numbers of a reply that are added up, except `n`.
bool is_sum(std::string_view field, ReplyForm form) {
  static constexpr auto kOfBulkWrite =
      std::to_array<std::string_view>({"nInserted", "nMatched", "nUpserted", "nDeleted"});
  return field == "nModified" ||
         (is_bulk(form) && std::ranges::find(kOfBulkWrite, field) != kOfBulkWrite.end());
}

/// Appends `idproxy: {assigned: [{index, field, value}, …]}` to the body of a reply, unless there
/// is nothing to report. Cuts the array short, and adds `truncated: true`, where the reply would
/// become too large.
void append_report(std::span<const Assigned> assigned, Buffer& out) {
  if (assigned.empty()) return;
  constexpr std::size_t kMost = kMostBytes - kOtherFields;
  bson::append_inside(out, bson::Type::document, "idproxy", [&] {
    std::size_t i = 0;
    bson::append_inside(out, bson::Type::array, "assigned", [&] {
      for (; i < assigned.size() && out.size() + most_bytes(assigned[i]) < kMost; ++i) {
        bson::append_inside(out, bson::Type::document, std::to_string(i), [&] {
          bson::append_int32(out, "index", assigned[i].statement);
          bson::append_string(out, "field", assigned[i].field);
          bson::append_head(out, assigned[i].type, "value");
          out.append(assigned[i].value);
        });
      }
    });
    if (i == assigned.size()) return;
    bson::append_bool(out, "truncated", true);
  });
}

template <class Each>
void for_each(const bson::Element& array, Each each) {
  if (array.type != bson::Type::array) return;
  for (const bson::Element& element : bson::Elements(array.value)) each(element);
}

}  // namespace

void ReplyMerge::Latest::see(const bson::Element& field, Time its_time) {
  if (!element.empty() && its_time < time) return;
  time = its_time;
  element.clear();
  bson::append_copy(element, field);
}

void ReplyMerge::add(const wire::OpMsgView& message, const WriteReply& reply,
                     std::span<const std::int32_t> statements) {
  last_.clear();
  last_.append(message.message());
  if (reply.n) n_ = n_.value_or(0) + *reply.n;
  for (const std::int32_t each : reply.upserted) {
    inserted_.insert(statements[static_cast<std::size_t>(each)]);
  }
  is_retried_ = form_ == ReplyForm::only && reply.retried > 0;
  if (form_ == ReplyForm::only) return;
  add_errors(reply.errors, statements);
  // Beside ok: 1, labels belong to the writeConcernError, so they are dropped without one.
  if (!bson::find(message.body(), "writeConcernError")) labels_.clear();
  for (const bson::Element& field : bson::Elements(message.body())) add_field(field, statements);
}

void ReplyMerge::add_errors(std::span<const WriteError> errors,
                            std::span<const std::int32_t> statements) {
  std::map<std::int32_t, Buffer> earlier;
  for (const std::int32_t statement : statements) {
    if (errors_.empty()) break;
    earlier.insert(errors_.extract(statement));
  }
  for (const WriteError& error : errors) {
    const std::int32_t statement = statements[static_cast<std::size_t>(error.index)];
    // It answers the proxy's question, and is nothing for drivers.
    const bool is_moved = error.code == ErrorCode::collection_uuid_mismatch;
    if (is_moved && errors_.insert(earlier.extract(statement)).inserted) continue;
    Buffer entry;
    entry.append(error.document);
    errors_.emplace(statement, std::move(entry));
  }
}

void ReplyMerge::add_field(const bson::Element& field, std::span<const std::int32_t> statements) {
  if (field.key == "opTime") {
    op_time_.see(field, op_time(field));
  } else if (field.key == "operationTime") {
    operation_time_.see(field, {0, timestamp(field)});
  } else if (field.key == "$clusterTime") {
    cluster_time_.see(field, cluster_time(field));
  } else if (field.key == "retriedStmtIds") {
    for_each(field, [&](const bson::Element& number) {
      const auto statement = static_cast<std::int32_t>(number.as_integer().value_or(0));
      if (retried_.insert(statement).second) retried_in_order_.push_back(statement);
    });
  } else if (is_sum(field.key, form_)) {
    const auto sum = sums_.try_emplace(std::string(field.key), 0).first;
    sum->second += field.as_integer().value_or(0);
  } else if (field.key == "cursor" && is_bulk(form_)) {
    add_results(field, statements);
  } else if (field.key == "upserted" && !is_bulk(form_)) {
    for_each(field, [&](const bson::Element& entry) {
      const auto index = bson::find_integer(entry.value, "index");
      Buffer copy;
      copy.append(entry.value);
      upserted_bytes_ += copy.size() + kMostPerStatement;
      upserted_.emplace(statements[static_cast<std::size_t>(*index)], std::move(copy));
    });
  } else if (field.key == "errorLabels") {
    for_each(field, [&](const bson::Element& label) {
      if (label.type != bson::Type::string) return;
      const std::string text(label.text());
      if (std::ranges::find(labels_, text) == labels_.end()) labels_.push_back(text);
    });
  }
}

/// Notes the successes in the cursor of a bulkWrite: add_errors() has the others.
void ReplyMerge::add_results(const bson::Element& cursor,
                             std::span<const std::int32_t> statements) {
  const auto batch = bson::find(cursor.value, "firstBatch");
  if (!batch || form_ == ReplyForm::errors_only) return;
  for_each(*batch, [&](const bson::Element& result) {
    if (bson::find_integer(result.value, "ok") != 1) return;
    const auto index = bson::find_integer(result.value, "idx");
    const std::int32_t statement = statements[static_cast<std::size_t>(*index)];
    Buffer copy;
    copy.append(result.value);
    successes_.insert_or_assign(statement, std::move(copy));
  });
}

/// True if some statement has changed something.
bool ReplyMerge::has_written() const {
  return n_.value_or(0) > 0 ||
         std::ranges::any_of(sums_, [](const auto& sum) { return sum.second > 0; });
}

/// Writes the merged reply in the order of the last reply's fields. Fields that the last reply
/// lacks are put where mongod puts them: writeErrors and retriedStmtIds before upserted, and that
/// before nModified, all of them before writeConcernError and ok, errorLabels after ok.
class ReplyMerge::Writer {
 public:
  Writer(const ReplyMerge& merge, std::span<const RefusedDocument> refused, Buffer& out)
      : merge_(merge),
        refused_(refused),
        out_(out),
        room_(kMostBytes - std::min(kMostBytes, kOtherFields + kBareError * merge.errors_.size() +
                                                    kMostPerStatement * merge.retried_.size() +
                                                    merge.upserted_bytes_)) {}

  void field(const bson::Element& field) {
    if (field.key == "n") {
      bson::append_int32(out_, "n", static_cast<std::int32_t>(merge_.n_.value_or(0)));
    } else if (field.key == "opTime") {
      time(merge_.op_time_, op_time_done_);
    } else if (field.key == "operationTime") {
      time(merge_.operation_time_, operation_time_done_);
    } else if (field.key == "$clusterTime") {
      time(merge_.cluster_time_, cluster_time_done_);
    } else if (is_sum(field.key, merge_.form_)) {
      if (!is_bulk_) upserted();
      const auto sum = merge_.sums_.find(field.key)->second;
      bson::append_int32(out_, field.key, static_cast<std::int32_t>(sum));
    } else if (field.key == "nErrors" && is_bulk_) {
      bson::append_int32(out_, field.key, static_cast<std::int32_t>(merge_.errors_.size()));
    } else if (field.key == "cursor" && is_bulk_) {
      cursor(field.value);
    } else if (field.key == "upserted") {
      upserted();
    } else if (field.key == "writeErrors" || field.key == "retriedStmtIds") {
      errors();
    } else if (field.key == "errorLabels") {
      labels();
    } else {
      if (field.key == "writeConcernError" || field.key == "ok") upserted();
      bson::append_copy(out_, field);
      if (field.key == "ok") labels();
    }
  }

  /// Writes the times that the last reply lacks.
  void other_times() {
    time(merge_.op_time_, op_time_done_);
    time(merge_.cluster_time_, cluster_time_done_);
    time(merge_.operation_time_, operation_time_done_);
  }

 private:
  void time(const Latest& latest, bool& done) {
    if (!std::exchange(done, true)) out_.append(latest.element.view());
  }

  void upserted() {
    errors();
    if (std::exchange(upserted_done_, true) || merge_.upserted_.empty()) return;
    std::size_t i = 0;
    bson::append_inside(out_, bson::Type::array, "upserted", [&] {
      for (const auto& [index, entry] : merge_.upserted_) {
        bson::append_inside(out_, bson::Type::document, std::to_string(i++), [&] {
          bson::append_int32(out_, "index", index);
          append_without(entry.view(), kOfError);
        });
      }
    });
  }

  using Names = std::span<const std::string_view>;
  static constexpr auto kOfError = std::to_array<std::string_view>({"index"});
  static constexpr auto kOfResult = std::to_array<std::string_view>({"idx", "ok"});

  void append_without(Bytes entry, Names names) {
    for (const bson::Element& field : bson::Elements(entry)) {
      if (std::ranges::find(names, field.key) == names.end()) bson::append_copy(out_, field);
    }
  }

  void errors() {
    if (std::exchange(errors_done_, true)) return;
    if (!merge_.errors_.empty() && !is_bulk_) write_errors();
    if (merge_.retried_in_order_.empty()) return;
    bson::append_inside(out_, bson::Type::array, "retriedStmtIds", [&] {
      for (std::size_t i = 0; i < merge_.retried_in_order_.size(); ++i) {
        bson::append_int32(out_, std::to_string(i), merge_.retried_in_order_[i]);
      }
    });
  }

  void write_errors() {
    std::size_t i = 0;
    bson::append_inside(out_, bson::Type::array, "writeErrors", [&] {
      for (const auto& [index, entry] : merge_.errors_) {
        bson::append_inside(out_, bson::Type::document, std::to_string(i++), [&] {
          bson::append_int32(out_, "index", index);
          error(index, entry.view(), kOfError);
        });
      }
    });
  }

  /// The results of a bulkWrite, all in the first batch.
  void cursor(Bytes last) {
    std::vector<std::pair<std::int32_t, Bytes>> results;
    results.reserve(merge_.successes_.size() + merge_.errors_.size());
    for (const auto& [index, entry] : merge_.successes_) results.emplace_back(index, entry.view());
    for (const auto& [index, entry] : merge_.errors_) results.emplace_back(index, entry.view());
    std::ranges::sort(results, {}, [](const auto& result) { return result.first; });
    bson::append_inside(out_, bson::Type::document, "cursor", [&] {
      bson::append_int64(out_, "id", 0);
      bson::append_inside(out_, bson::Type::array, "firstBatch", [&] {
        for (std::size_t i = 0; i < results.size(); ++i) {
          bson::append_inside(out_, bson::Type::document, std::to_string(i),
                              [&] { result(results[i].first, results[i].second); });
        }
      });
      if (const auto ns = bson::find(last, "ns")) bson::append_copy(out_, *ns);
    });
  }

  void result(std::int32_t index, Bytes entry) {
    const auto ok = bson::find(entry, "ok");
    bson::append_copy(out_, *ok);
    bson::append_int32(out_, "idx", index);
    if (ok->as_integer() != 1) {
      error(index, entry, kOfResult);
    } else {
      append_without(entry, kOfResult);
    }
  }

  /// Writes an error, except for these fields, which stand in front of it.
  void error(std::int32_t index, Bytes entry, Names before) {
    const auto code = bson::find(entry, "code");
    const auto refusal = std::ranges::lower_bound(refused_, index, {}, &RefusedDocument::index);
    if (refusal != refused_.end() && refusal->index == index &&
        refuses_id(code->as_integer().value_or(0))) {
      bson::append_int32(out_, "code", static_cast<std::int32_t>(refusal->code));
      const bool fits = takes(refusal->message.size() + refusal->details.size());
      bson::append_string(out_, "errmsg", fits ? refusal->message : "");
      if (fits) out_.append(as_bytes(refusal->details));
      return;
    }
    if (!takes(entry.size())) {
      bson::append_copy(out_, *code);
      return bson::append_string(out_, "errmsg", "");
    }
    append_without(entry, before);
  }

  /// True if there is room for a text; takes the room.
  bool takes(std::size_t size) {
    if (size > room_) return false;
    room_ -= size;
    return true;
  }

  void labels() {
    if (std::exchange(labels_done_, true)) return;
    std::vector<std::string> labels = merge_.labels_;
    // It may be true of one command, but not of all.
    if (merge_.has_written()) std::erase(labels, kNoWritesPerformed);
    if (labels.empty()) return;
    bson::append_inside(out_, bson::Type::array, "errorLabels", [&] {
      for (std::size_t i = 0; i < labels.size(); ++i) {
        bson::append_string(out_, std::to_string(i), labels[i]);
      }
    });
  }

  const ReplyMerge& merge_;
  const bool is_bulk_ = is_bulk(merge_.form_);
  std::span<const RefusedDocument> refused_;
  Buffer& out_;
  std::size_t room_;  // bytes left for texts
  bool upserted_done_ = false;
  bool errors_done_ = false;
  bool labels_done_ = false;
  bool op_time_done_ = false;
  bool operation_time_done_ = false;
  bool cluster_time_done_ = false;
};

void ReplyMerge::append(std::int32_t response_to, std::span<const RefusedDocument> refused,
                        std::span<const Assigned> assigned, Buffer& out) const {
  const auto last = wire::OpMsgView::parse(last_.view());
  const bool checksum = last->has(wire::flag::kChecksumPresent);
  append_op_msg(out, last->header().request_id, response_to, checksum, [&] {
    Writer writer(*this, refused, out);
    for (const bson::Element& field : bson::Elements(last->body())) {
      form_ == ReplyForm::only ? bson::append_copy(out, field) : writer.field(field);
    }
    writer.other_times();
    append_report(assigned, out);
  });
}

bool says_not_permitted(const WriteReply& reply) {
  return (!reply.ok && reply.code == ErrorCode::unauthorized) ||
         std::ranges::any_of(reply.errors, [](const WriteError& error) {
           return error.code == ErrorCode::unauthorized;
         });
}

bool stores_nothing(std::int64_t code) {
  return is(code, CodeTrait::stores_nothing);
}

bool denies(Bytes error) {
  const auto code = bson::find_integer(error, "code");
  if (code == ErrorCode::duplicate_key) return bson::find(error, "keyPattern").has_value();
  return code && is(*code, CodeTrait::denies);
}

}  // namespace idproxy::rewrite
