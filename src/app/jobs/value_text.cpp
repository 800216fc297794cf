#include "app/jobs/value_text.hpp"

#include <algorithm>
#include <boost/algorithm/hex.hpp>
#include <chrono>
#include <iterator>
#include <variant>

#include "app/system_clock.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/ids/rule_source.hpp"

namespace idproxy::app::jobs {
namespace {

constexpr std::uint8_t kUuid = 4;  // the subtype of binary

std::string hex(Bytes bytes) {
  std::string text;
  boost::algorithm::hex_lower(bytes.begin(), bytes.end(), std::back_inserter(text));
  return text;
}

/// int32 size, uint8 subtype, and the bytes.
std::string binary_text(Bytes value) {
  const std::uint8_t subtype = value[4];
  std::string digits = hex(value.subspan(5));
  if (subtype != kUuid)
    return "HexData(" + std::to_string(subtype) + ", " + in_quotes(digits) + ")";
  for (const std::size_t at : {20U, 16U, 12U, 8U}) digits.insert(at, "-");
  return "UUID(" + in_quotes(digits) + ")";
}

/// Returns the numbers of a rule's counter in a collection; null if the next one is not known.
const ids::CounterNumbers* known_numbers(const std::vector<ids::RuleNumbers>& numbers,
                                         std::size_t rule_index, std::string_view ns) {
  for (const ids::RuleNumbers& each : numbers) {
    const auto* counter = std::get_if<ids::CounterNumbers>(&each.numbers);
    if (counter == nullptr || each.rule_index != rule_index || each.ns != ns) continue;
    return counter->next ? counter : nullptr;
  }
  return nullptr;
}

/// "60s"
std::string seconds_of(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + "s" : std::to_string(count) + "ms";
}

std::string sample_text(std::int64_t number, const ids::NumberFormat& format) {
  ids::Values values;
  ids::append_number(number, format, values);
  return value_text(values.type(), values[0]);
}

using About = ids::RuleSource::About;

bool counts(const About& about) {
  return about.counter || about.gapless;
}

/// How the values of a rule whose documents do not decide are written now.
ids::NumberFormat format_now(const About& about) {
  const Clock& clock = process_sources().clock;
  const ids::Sequences sequences(about.sequences, {}, about.field.format, clock, {});
  return sequences.choose({}, clock.wall()).format;
}

/// The numbers of the next `count` documents.
std::string numbers_text(const ids::CounterNumbers& known, const About& about,
                         std::uint64_t count) {
  const ids::NumberFormat format = format_now(about);
  const std::int64_t step = about.gapless ? 1 : about.counter->step;
  const std::int64_t max = about.gapless ? about.gapless->max : about.counter->max;
  const std::int64_t first = *known.next;
  const bool suffices = !known.left || count <= *known.left;
  const ids::Int128 last = ids::Steps(step).end({first, count}) - static_cast<ids::Int128>(step);
  std::string text = sample_text(first, format) + " to " +
                     sample_text(suffices ? static_cast<std::int64_t>(last) : max, format);
  if (suffices) return text;
  return text + ", the " + (about.gapless ? "sequence" : "counter") + "'s max: too few for all (" +
         std::to_string(*known.left) + " left)";
}

std::string range_text(const ids::CounterNumbers& known, const ids::NumberFormat& format) {
  return "for example: " + sample_text(*known.next, format) + ", from one of " +
         std::to_string(known.ranges->all) + " ranges";
}

/// The text where the next number is not known.
std::string unknown_text(const rewrite::Rule& rule, const char* otherwise) {
  const About& about = rule.strategy->about();
  if (about.gapless || has_wildcards(rule.ns)) return otherwise;
  return "the first insert would read the whole collection (scan: " +
         seconds_of(about.counter->scan) + ")";
}

}  // namespace

std::string value_text(bson::Type type, Bytes value) {
  switch (type) {
    case bson::Type::int32:
      return std::to_string(load_i32(value.data()));
    case bson::Type::int64:
      return std::to_string(load_i64(value.data()));
    case bson::Type::string:
      return in_quotes(as_text(value.subspan(4, value.size() - 5)));
    case bson::Type::object_id:
      return "ObjectId(" + in_quotes(hex(value)) + ")";
    case bson::Type::binary:
      return binary_text(value);
    default:
      return "HexData(0, " + in_quotes(hex(value)) + ")";
  }
}

std::string sample_of(const rewrite::Rule& rule, std::size_t rule_index,
                      const std::vector<ids::RuleNumbers>& numbers) {
  const About& about = rule.strategy->about();
  if (!counts(about)) {
    ids::Values values;
    rule.strategy->append_samples(1, values);
    return "for example: " + value_text(values.type(), values[0]);
  }
  if (about.sequences.by_document()) return "next number: depends on the document";
  const auto* known = known_numbers(numbers, rule_index, rule.ns);
  if (known == nullptr) return unknown_text(rule, "");
  if (known->ranges) return range_text(*known, about.field.format);
  return "next number: " + sample_text(*known->next, format_now(about));
}

std::string samples_of(const rewrite::Rule& rule, std::size_t rule_index, std::string_view ns,
                       const std::vector<ids::RuleNumbers>& numbers, std::uint64_t count) {
  const About& about = rule.strategy->about();
  if (!counts(about)) {
    ids::Values values;
    rule.strategy->append_samples(2, values);
    return "for example " + value_text(values.type(), values[0]) + " and " +
           value_text(values.type(), values[1]);
  }
  if (about.sequences.by_document() || about.sequences.reset != ids::Reset::none) {
    return "depend on the document";
  }
  const auto* known = known_numbers(numbers, rule_index, ns);
  if (known == nullptr) return unknown_text(rule, "known with the first one");
  return known->ranges ? range_text(*known, about.field.format)
                       : numbers_text(*known, about, count);
}

std::string append_next(const rewrite::Rule& rule, std::size_t rule_index, std::string_view ns,
                        const std::vector<ids::RuleNumbers>& numbers, std::size_t count,
                        ids::Values& out) {
  const About& about = rule.strategy->about();
  const auto* known = known_numbers(numbers, rule_index, ns);
  if (known == nullptr) return unknown_text(rule, "the next number is not known");
  const std::int64_t step = about.gapless ? 1 : about.counter->step;
  const std::uint64_t left = known->left.value_or(count);
  const ids::NumberFormat format = format_now(about);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, left); ++i) {
    const ids::Int128 number = ids::Steps(step).end({*known->next, i});
    ids::append_number(static_cast<std::int64_t>(number), format, out);
  }
  return "";
}

}  // namespace idproxy::app::jobs
