#include "idproxy/ids/strategies.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "idproxy/base/printable.hpp"
#include "idproxy/ids/number_ranges.hpp"

// One line per strategy: its name in rules, and the function that makes it.
#define IDPROXY_STRATEGIES(STRATEGY)              \
  STRATEGY("objectid", make_objectid)             \
  STRATEGY("uuid", make_uuid)                     \
  STRATEGY("ulid", make_ulid)                     \
  STRATEGY("snowflake", make_snowflake)           \
  STRATEGY("counter", make_counter)               \
  STRATEGY("permuted", make_permuted)             \
  STRATEGY("counter-ranges", make_counter_ranges) \
  STRATEGY("gapless", make_gapless)               \
  STRATEGY("random-digits", make_random_digits)   \
  STRATEGY("nanoid", make_nanoid)

namespace idproxy::ids {

Fit RuleSource::fit(bson::Type type, Bytes value) const {
  Values sample;
  append_samples(1, sample);
  if (type != sample.type()) return Fit::wrong_type;
  const bool counts = about_.counter || about_.ranges || about_.gapless;
  if (counts)
    return about_.sequences.text ? Fit::fits : fit_number(type, value, about_.field.format).fit;
  constexpr std::size_t kBinaryHead = 4 + 1;  // size and subtype
  const std::size_t head = type == bson::Type::binary ? kBinaryHead : 0;
  const bool is_like_it = value.size() == sample[0].size() &&
                          std::ranges::equal(value.first(head), sample[0].first(head));
  return is_like_it ? Fit::fits : Fit::wrong_form;
}

namespace {

/// Why a rule cannot have given a number; empty: it can. Not because of a counter's start or step:
/// it goes on from any number that is stored.
std::string range_fault(const RuleSource::About& about, std::int64_t number) {
  if (about.ranges && !about.ranges->layout) return {};
  std::int64_t step = 1;
  std::int64_t last = 0;
  std::optional<std::int64_t> first;
  if (about.ranges) {
    const RangesSpec::Layout& layout = *about.ranges->layout;
    first = layout.first;
    last = layout.last_of(layout.count - 1);
  } else if (about.gapless) {
    first = about.gapless->start;
    last = about.gapless->max;
  } else {
    step = about.counter->step;
    last = about.counter->max;
  }
  const Steps steps(step);
  if (first && number < *first) return "lies before the first, " + std::to_string(*first);
  if (steps.before(last, number)) return "lies beyond the last, " + std::to_string(last);
  return {};
}

}  // namespace

/// Of values that tell nothing but a number, if that.
Decoded RuleSource::decode(std::string_view text) const {
  Values value;
  append_samples(1, value);
  const bson::Type type = value.type();
  value.clear();
  std::int64_t number = 0;
  if (type == bson::Type::string) {
    value.add_string(text);
  } else {
    const char* const begin = std::to_address(text.begin());
    const char* const end = begin + text.size();
    const auto read = std::from_chars(begin, end, number);
    const bool is_narrow = type == bson::Type::int32;
    if (read.ec != std::errc{} || read.ptr != end || std::to_string(number) != text ||
        (is_narrow && number != static_cast<std::int32_t>(number))) {
      return std::string("is no integer of ") + (is_narrow ? "32" : "64") + " bits";
    }
    if (is_narrow) store_i32(value.add(type, 4), static_cast<std::int32_t>(number));
    if (!is_narrow) store_i64(value.add(type, 8), number);
  }
  const Fit judged = fit(type, value[0]);
  if (judged == Fit::wrong_check) return "has wrong check digits";
  if (judged != Fit::fits) {
    Values sample;
    append_samples(1, sample);
    return "is not written as the rule's values are, such as " +
           (type == bson::Type::string ? in_quotes(text_in_string(sample[0]))
                                       : plain_text(type, sample[0]));
  }
  if (about_.counter || about_.ranges || about_.gapless) {
    const auto counted = read_number(type, value[0], about_.field.format).value_or(0);
    if (std::string why = range_fault(about_, counted); !why.empty()) return why;
    return Meaning{{"number", std::to_string(counted)}};
  }
  return Meaning{};
}

#define IDPROXY_DECLARE(name, make) MakeRuleSource make;
IDPROXY_STRATEGIES(IDPROXY_DECLARE)

std::span<const Kind> kinds() {
#define IDPROXY_KIND(name, make) Kind{name, make},
  static constexpr std::array kKinds{IDPROXY_STRATEGIES(IDPROXY_KIND)};
  return kKinds;
}

}  // namespace idproxy::ids
