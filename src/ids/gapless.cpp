#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "idproxy/ids/store.hpp"
#include "ids/gapless_source.hpp"
#include "ids/number_parameters.hpp"

namespace idproxy::ids {
namespace {

using Int64 = std::numeric_limits<std::int64_t>;
using Int32 = std::numeric_limits<std::int32_t>;
using Output = NumberFormat::Output;

class Gapless final : public RuleSource {
 public:
  Gapless(About about, const Clock& clock)
      : RuleSource(std::move(about)), clock_(clock), recent_(this->about().sequences.most) {}

  /// Unless documents decide, the store reads today's sequence before the first write comes.
  [[nodiscard]] Bound bind(std::string_view ns, Store* store) override {
    GaplessSpec spec = *about().gapless;
    spec.field.ns = ns;
    const NumberFormat format = spec.field.format;
    if (!about().sequences.any()) return {.source = gapless_source(store->sequence(spec), format)};
    std::string name = spec.key();
    auto open = [this, store, spec = std::move(spec)](Sequences::Chosen chosen, Opening opening) {
      return sequence(spec, std::move(chosen), *store, opening);
    };
    auto sequences = std::make_shared<Sequences>(about().sequences, std::move(name), format, clock_,
                                                 std::move(open));
    if (!about().sequences.by_document()) (void)sequences->sequence({});
    return {.sequences = std::move(sequences)};
  }

 private:
  /// When nobody uses it any more, the store keeps its floor and forgets it.
  [[nodiscard]] std::shared_ptr<Source> sequence(GaplessSpec spec, Sequences::Chosen chosen,
                                                 Store& store, Opening opening) {
    spec.place = std::move(chosen.key);
    spec.field.scope = std::move(chosen.scope);
    spec.field.format = std::move(chosen.stored);
    const auto open = [&]() -> RecentSequences::Write {
      return [queue = store.sequence(spec)](const NumberFormat& format) {
        return gapless_source(queue, format);
      };
    };
    return recent_.get(spec.name(), chosen.format, opening, open, store, [] {});
  }

  const Clock& clock_;
  RecentSequences recent_;
};

/// The last number is, without a template, that of the texts' width. Texts sort as their numbers do
/// only as long as all have the same number of digits, and a template says what to do beyond that.
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
    if (!has_template) spec.max = largest_number(format.pad, format.alphabet.size());
    if (!has_template && format.pad == 0) {
      rule.section("format").error(
          "pad", "is missing: with output string, numbers need a fixed width, such as pad: 9");
      spec.max = Int64::max();
    }
  }
  spec.start = rule.integer("start", lowest, spec.max, 1);
  spec.max = read_width(rule, format, options, {spec.start, 1, spec.max});
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
std::unique_ptr<RuleSource> make_gapless(Parameters& rule, Sources sources,
                                         std::string_view store_db) {
  RuleSource::About about;
  about.field = {rule.text("ns", ""), rule.text("field", ""), read_format(rule)};
  about.sequences = read_sequences(rule, about.field.format);
  GaplessSpec& spec = about.gapless.emplace();
  spec.field = about.field;
  spec.store_db = store_db;
  read_numbers_of(spec, about.sequences, rule);
  spec.floor = rule.boolean("floor", true);
  check_guarded(rule, about.sequences);
  return std::make_unique<Gapless>(std::move(about), sources.clock);
}

}  // namespace idproxy::ids
