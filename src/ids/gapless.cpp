#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/counter_use.hpp"
#include "idproxy/ids/gapless_job.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/ids/strategy.hpp"
#include "ids/bound_gapless.hpp"
#include "ids/counter_parameters.hpp"
#include "ids/gapless_sequences.hpp"
#include "ids/sequence_parameters.hpp"

namespace idproxy::ids {
namespace {

using Int64 = std::numeric_limits<std::int64_t>;
using Int32 = std::numeric_limits<std::int32_t>;
using Output = NumberFormat::Output;

/// The rule's own object; bind() makes one for each of its collections.
class Gapless final : public Strategy, public SequenceRule {
 public:
  Gapless(GaplessSpec spec, SequenceOptions options, const Clock& clock)
      : spec_(std::move(spec)),
        options_(std::move(options)),
        clock_(clock),
        choice_(std::make_shared<const SequenceChoice>(options_)),
        sequences_(std::make_shared<GaplessSequences>(options_.most)) {}

  [[nodiscard]] std::shared_ptr<Strategy> bind(std::string_view ns, Store& store) const override {
    GaplessSpec spec = spec_;
    spec.field.ns = ns;
    if (options_.any()) return bind_several(std::move(spec), store);
    auto queue = store.sequence(spec);
    if (queue == nullptr) return nullptr;
    return std::make_shared<BoundGapless>(std::move(queue), spec_.field.format);
  }
  SequenceRule* sequence_rule() override { return this; }
  [[nodiscard]] const GaplessSpec& spec() const override { return spec_; }
  [[nodiscard]] const SequenceOptions& options() const override { return options_; }

  Draw next(std::size_t /*n*/, Values& /*out*/) override {
    return Error{Errc::unavailable, "there is no id store"};
  }

 private:
  /// Unless documents decide, the store looks at today's sequence before the first write comes.
  [[nodiscard]] std::shared_ptr<Strategy> bind_several(GaplessSpec spec, Store& store) const {
    auto bound =
        std::make_shared<SequencedGapless>(std::move(spec), choice_, sequences_, clock_, store);
    if (choice_->fields().empty()) (void)bound->sequence({});
    return bound;
  }

  const GaplessSpec spec_;
  const SequenceOptions options_;
  const Clock& clock_;
  const std::shared_ptr<const SequenceChoice> choice_;
  const std::shared_ptr<GaplessSequences> sequences_;
};

/// The largest number with this many digits.
std::int64_t largest(std::uint32_t digits) {
  std::int64_t number = 0;
  for (std::uint32_t i = 0; i < digits; ++i) {
    if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, 9, &number)) {
      return Int64::max();
    }
  }
  return number;
}

/// The last number: without a template, that of the texts' width. Texts sort as their numbers do
/// only as long as all have the same number of digits, and a template says what to do beyond that.
void read_end(GaplessSpec& spec, const SequenceOptions& options, Parameters& rule) {
  CounterUse use;
  use.field = spec.field;
  use.sequences = options;
  CounterSpec numbers;
  numbers.start = spec.start;
  numbers.max = spec.max;
  read_width(rule, use, numbers);
  spec.max = numbers.max;
}

void read_numbers_of(GaplessSpec& spec, const SequenceOptions& options, Parameters& rule) {
  const NumberFormat& format = spec.field.format;
  std::int64_t lowest = Int64::min();
  spec.max = Int64::max();
  if (format.output == Output::int32) {
    lowest = Int32::min();
    spec.max = Int32::max();
  } else if (format.output == Output::string) {
    lowest = 0;
    const bool has_template = rule.given("template");
    if (!has_template) spec.max = largest(format.pad);
    if (!has_template && format.pad == 0) {
      rule.section("format").error(
          "pad", "is missing: with output string, numbers need a fixed width, such as pad: 9");
      spec.max = Int64::max();
    }
  }
  spec.start = rule.integer("start", lowest, spec.max, 1);
  read_end(spec, options, rule);
}

/// The unique index keeps a number from being stored twice only if a sequence never writes it in
/// two ways.
void check_guarded(Parameters& rule, const SequenceOptions& options) {
  if (options.repeats()) {
    rule.error("reset",
               "needs a template that shows the period: only the stored values tell which numbers "
               "are used. A field that has the period can be in `scope`, in place of `reset`");
  }
  if (!options.text) return;
  const bool only_scope = std::ranges::all_of(options.text->fields(), [&](const std::string& each) {
    return std::ranges::find(options.scope, each) != options.scope.end();
  });
  if (only_scope && options.text->shows_periods_only(options.reset)) return;
  rule.error(
      "template",
      "must be the same for all documents of a sequence but for {counter} and {check}, or no "
      "index could tell that a number is used twice: add each {field:…} to `scope`, and a "
      "`reset` that is as frequent as the date changes");
}

}  // namespace

/// Keys: output, format, start, floor, and those of read_sequences() and read_width().
std::unique_ptr<Strategy> make_gapless(Parameters& rule, Sources sources,
                                       std::string_view store_db) {
  GaplessSpec spec;
  spec.field = {rule.text("ns", ""), rule.text("field", ""), read_format(rule)};
  spec.store_db = store_db;
  SequenceOptions options = read_sequences(rule, spec.field.format);
  read_numbers_of(spec, options, rule);
  spec.floor = rule.boolean("floor", true);
  check_guarded(rule, options);
  return std::make_unique<Gapless>(std::move(spec), std::move(options), sources.clock);
}

}  // namespace idproxy::ids
