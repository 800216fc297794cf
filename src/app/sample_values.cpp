#include "app/sample_values.hpp"

#include <chrono>
#include <optional>
#include <variant>

#include "app/readiness.hpp"
#include "app/value_text.hpp"
#include "idproxy/ids/counter_use.hpp"
#include "idproxy/ids/gapless_job.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::app {
namespace {

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

std::string first_reads_all(const ids::CounterUse& use) {
  return "the first insert would read the whole collection (scan: " + seconds_of(use.spec.scan) +
         ")";
}

std::string sample_text(std::int64_t number, const ids::NumberFormat& format) {
  ids::Values values;
  ids::append_number(number, format, values);
  return value_text(values.type(), values[0]);
}

/// The order in which numbers follow each other.
struct Course {
  std::int64_t step;
  std::int64_t max;
  const char* whose;  ///< max
};

/// The numbers of the next `count` documents.
std::string numbers_text(const ids::CounterNumbers& known, const Course& course,
                         const ids::NumberFormat& format, std::uint64_t count) {
  const std::int64_t first = *known.next;
  const bool suffices = !known.left || count <= *known.left;
  const ids::Int128 last =
      ids::Steps(course.step).end({first, count}) - static_cast<ids::Int128>(course.step);
  std::string text = sample_text(first, format) + " to " +
                     sample_text(suffices ? static_cast<std::int64_t>(last) : course.max, format);
  if (suffices) return text;
  return text + ", the " + course.whose + "'s max: too few for all (" +
         std::to_string(*known.left) + " left)";
}

/// How the values of a rule whose documents do not decide are written now.
ids::NumberFormat format_now(const ids::NumberFormat& format, const ids::SequenceChoice& choice,
                             const Clock& clock) {
  return choice.choose({}, format, {}, clock.wall()).format;
}

std::string range_text(const ids::CounterNumbers& known, const ids::CounterUse& use) {
  return "for example: " + sample_text(*known.next, use.field.format) + ", from one of " +
         std::to_string(known.ranges->all) + " ranges";
}

}  // namespace

std::string sample_of(const rewrite::Rule& rule, std::size_t rule_index,
                      const std::vector<ids::RuleNumbers>& numbers, const Clock& clock) {
  if (const ids::CounterRule* counter = rule.strategy->counter_rule()) {
    const ids::CounterUse& use = counter->use();
    const ids::SequenceChoice choice(use.sequences);
    if (!choice.fields().empty()) return "next number: depends on the document";
    if (const auto* known = known_numbers(numbers, rule_index, rule.ns)) {
      return known->ranges
                 ? range_text(*known, use)
                 : "next number: " +
                       sample_text(*known->next, format_now(use.field.format, choice, clock));
    }
    return has_wildcards(rule.ns) ? "" : first_reads_all(use);
  }
  if (const ids::SequenceRule* sequence = rule.strategy->sequence_rule()) {
    const ids::SequenceChoice choice(sequence->options());
    if (!choice.fields().empty()) return "next number: depends on the document";
    const auto* known = known_numbers(numbers, rule_index, rule.ns);
    if (known == nullptr) return "";
    const ids::NumberFormat& format = sequence->spec().field.format;
    return "next number: " + sample_text(*known->next, format_now(format, choice, clock));
  }
  ids::Values values;
  if (!rule.strategy->next(1, values)) return "";
  return "for example: " + value_text(values.type(), values[0]);
}

std::string samples_of(const rewrite::Rule& rule, std::size_t rule_index, std::string_view ns,
                       const std::vector<ids::RuleNumbers>& numbers, std::uint64_t count,
                       const Clock& clock) {
  if (const ids::CounterRule* counter = rule.strategy->counter_rule()) {
    const ids::CounterUse& use = counter->use();
    const ids::SequenceChoice choice(use.sequences);
    const bool resets = use.sequences.reset != ids::Reset::none;
    if (!choice.fields().empty() || resets) return "depend on the document";
    if (const auto* known = known_numbers(numbers, rule_index, ns)) {
      return known->ranges ? range_text(*known, use)
                           : numbers_text(*known, {use.spec.step, use.spec.max, "counter"},
                                          format_now(use.field.format, choice, clock), count);
    }
    return has_wildcards(rule.ns) ? "known with the first one" : first_reads_all(use);
  }
  if (const ids::SequenceRule* sequence = rule.strategy->sequence_rule()) {
    const ids::GaplessSpec& spec = sequence->spec();
    const ids::SequenceChoice choice(sequence->options());
    const bool resets = sequence->options().reset != ids::Reset::none;
    if (!choice.fields().empty() || resets) return "depend on the document";
    const auto* known = known_numbers(numbers, rule_index, ns);
    if (known == nullptr) return "known with the first one";
    return numbers_text(*known, {1, spec.max, "sequence"},
                        format_now(spec.field.format, choice, clock), count);
  }
  ids::Values values;
  if (!rule.strategy->next(2, values)) return "not known";
  return "for example " + value_text(values.type(), values[0]) + " and " +
         value_text(values.type(), values[1]);
}

}  // namespace idproxy::app
