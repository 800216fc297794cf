#include "app/backfill_sequence.hpp"

#include <boost/endian/conversion.hpp>
#include <chrono>
#include <optional>
#include <vector>

#include "idproxy/rewrite/document_fields.hpp"

namespace idproxy::app {
namespace {

using std::chrono::milliseconds;

// What nanoseconds in 64 bits can hold: the years 1678 to 2261.
constexpr milliseconds kFarthest = std::chrono::hours(24) * 365 * 291;

std::optional<std::chrono::nanoseconds> time_of(const ids::FieldValue& value) {
  if (value.is != ids::FieldValue::Is::there) return std::nullopt;
  if (value.element.type == bson::Type::object_id) {
    return std::chrono::seconds(boost::endian::load_big_u32(value.element.value.data()));
  }
  if (value.element.type != bson::Type::date) return std::nullopt;
  const milliseconds time(load_i64(value.element.value.data()));
  if (time > kFarthest || time < -kFarthest) return std::nullopt;
  return time;
}

}  // namespace

boost::system::result<std::shared_ptr<ids::Strategy>, std::string> sequence_of(
    ids::Sequences& sequences, const std::string& period_from, Bytes document) {
  std::vector<ids::FieldValue> values;
  for (const std::string& field : sequences.fields()) {
    values.push_back(rewrite::field_at(document, field).value_or(ids::FieldValue{}));
  }
  if (std::string why = sequences.refusal(values); !why.empty()) return why;
  if (period_from.empty()) return sequences.sequence(values);
  const auto dated = rewrite::field_at(document, period_from).value_or(ids::FieldValue{});
  if (const auto time = time_of(dated)) return sequences.sequence_at(values, *time);
  return "field '" + period_from + "' has no date, which --period-from needs";
}

}  // namespace idproxy::app
