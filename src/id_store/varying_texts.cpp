#include "id_store/varying_texts.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;

// Stands for a text that is no number.
constexpr std::int64_t kNone = INT64_MIN;

Document stage(std::string_view name, const Document& what) {
  return Document().add(name, what);
}

/// {$regexFind: {input: "$field", regex: pattern}}. An array that holds a matching text is matched,
/// too; $regexFind would fail with it.
Document find_in_text(const std::string& field, const std::string& pattern) {
  const std::string path = "$" + field;
  const Document is_one = Document().add(
      "$eq", Array().push(Document().add("$type", path)).push(std::string_view("string")));
  const Document text =
      Document().add("$cond", Array().push(is_one).push(path).push(std::string_view("")));
  return stage("$regexFind", Document().add("input", text).add("regex", pattern));
}

/// The first group of what has been found, as a number.
Document number_found() {
  const Document digits =
      Document().add("$arrayElemAt", Array().push(std::string_view("$f.captures")).push(0));
  return stage(
      "$convert",
      Document().add("input", digits).add("to", "long").add("onError", kNone).add("onNull", kNone));
}

}  // namespace

Document numbers_in_varying_texts(const FieldPlace& place, const Numbers& numbers,
                                  std::size_t count, std::chrono::milliseconds limit) {
  const ids::NumberFormat& format = place.field->format;
  const Document texts = Document().add("$gte", format.prefix).add("$regex", format.pattern);
  const Document found = find_in_text(place.field->field, format.pattern);
  const bool up = numbers.upwards();
  Document bracket;
  bracket.add(up ? "$lte" : "$gte", numbers.max()).add("$gt", kNone);
  Document command;
  command.add("aggregate", place.ns.collection)
      .add("pipeline", Array()
                           .push(stage("$match", filter_in(place, texts)))
                           .push(stage("$project", Document().add("_id", 0).add("f", found)))
                           .push(stage("$project", Document().add("n", number_found())))
                           .push(stage("$match", Document().add("n", bracket)))
                           .push(stage("$sort", Document().add("n", up ? -1 : 1)))
                           .push(Document().add("$limit", static_cast<std::int64_t>(count))))
      .add("cursor", Document())
      .add("maxTimeMS", std::int64_t{limit.count()});
  if (!place.hint.empty()) command.add("hint", place.hint);
  return command;
}

}  // namespace idproxy::id_store
