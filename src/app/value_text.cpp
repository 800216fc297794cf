#include "app/value_text.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <variant>

#include "app/process.hpp"
#include "app/readiness.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/ids/counter_use.hpp"
#include "idproxy/ids/gapless_job.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::app {
namespace {

constexpr std::uint8_t kUuid = 4;  // the subtype of binary

std::string hex(Bytes bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
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

/// A rule whose values are numbers that follow each other.
struct Numbering {
  const ids::SequenceOptions& options;
  const ids::NumberFormat& format;
  std::int64_t step;
  std::int64_t max;
  const char* whose;               ///< max
  const ids::CounterUse* counter;  ///< null: there is none, but a sequence without gaps
};

std::optional<Numbering> numbering_of(ids::Strategy& strategy) {
  if (const ids::CounterRule* counter = strategy.counter_rule()) {
    const ids::CounterUse& use = counter->use();
    return Numbering{use.sequences, use.field.format, use.spec.step, use.spec.max, "counter", &use};
  }
  if (const ids::SequenceRule* sequence = strategy.sequence_rule()) {
    const ids::GaplessSpec& spec = sequence->spec();
    return Numbering{sequence->options(), spec.field.format, 1, spec.max, "sequence", nullptr};
  }
  return std::nullopt;
}

/// How the values of a rule whose documents do not decide are written now.
ids::NumberFormat format_now(const Numbering& numbering) {
  return ids::SequenceChoice(numbering.options)
      .choose({}, numbering.format, {}, process_sources().clock.wall())
      .format;
}

/// The numbers of the next `count` documents.
std::string numbers_text(const ids::CounterNumbers& known, const Numbering& numbering,
                         std::uint64_t count) {
  const ids::NumberFormat format = format_now(numbering);
  const std::int64_t first = *known.next;
  const bool suffices = !known.left || count <= *known.left;
  const ids::Int128 last =
      ids::Steps(numbering.step).end({first, count}) - static_cast<ids::Int128>(numbering.step);
  std::string text =
      sample_text(first, format) + " to " +
      sample_text(suffices ? static_cast<std::int64_t>(last) : numbering.max, format);
  if (suffices) return text;
  return text + ", the " + numbering.whose + "'s max: too few for all (" +
         std::to_string(*known.left) + " left)";
}

std::string range_text(const ids::CounterNumbers& known, const ids::NumberFormat& format) {
  return "for example: " + sample_text(*known.next, format) + ", from one of " +
         std::to_string(known.ranges->all) + " ranges";
}

/// The text where the next number is not known.
std::string unknown_text(const Numbering& numbering, const rewrite::Rule& rule,
                         const char* otherwise) {
  if (numbering.counter == nullptr || has_wildcards(rule.ns)) return otherwise;
  return "the first insert would read the whole collection (scan: " +
         seconds_of(numbering.counter->spec.scan) + ")";
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
  if (const auto numbering = numbering_of(*rule.strategy)) {
    if (!ids::SequenceChoice(numbering->options).fields().empty()) {
      return "next number: depends on the document";
    }
    const auto* known = known_numbers(numbers, rule_index, rule.ns);
    if (known == nullptr) return unknown_text(*numbering, rule, "");
    if (known->ranges) return range_text(*known, numbering->format);
    return "next number: " + sample_text(*known->next, format_now(*numbering));
  }
  ids::Values values;
  if (!rule.strategy->next(1, values)) return "";
  return "for example: " + value_text(values.type(), values[0]);
}

std::string samples_of(const rewrite::Rule& rule, std::size_t rule_index, std::string_view ns,
                       const std::vector<ids::RuleNumbers>& numbers, std::uint64_t count) {
  if (const auto numbering = numbering_of(*rule.strategy)) {
    const bool depends = numbering->options.reset != ids::Reset::none ||
                         !ids::SequenceChoice(numbering->options).fields().empty();
    if (depends) return "depend on the document";
    const auto* known = known_numbers(numbers, rule_index, ns);
    if (known == nullptr) return unknown_text(*numbering, rule, "known with the first one");
    return known->ranges ? range_text(*known, numbering->format)
                         : numbers_text(*known, *numbering, count);
  }
  ids::Values values;
  if (!rule.strategy->next(2, values)) return "not known";
  return "for example " + value_text(values.type(), values[0]) + " and " +
         value_text(values.type(), values[1]);
}

}  // namespace idproxy::app
