#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "idproxy/ids/gapless_job.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/parameters.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/ids/strategy.hpp"
#include "ids/counter_parameters.hpp"
#include "ids/gapless_turn.hpp"

namespace idproxy::ids {
namespace {

using Int64 = std::numeric_limits<std::int64_t>;
using Int32 = std::numeric_limits<std::int32_t>;
using Output = NumberFormat::Output;

/// Draws for one collection. The state is in the queue.
class BoundGapless final : public Strategy, public Sequenced {
 public:
  explicit BoundGapless(std::shared_ptr<GaplessQueue> queue) : queue_(std::move(queue)) {}

  Sequenced* sequenced() override { return this; }
  [[nodiscard]] std::size_t most_bytes() const override {
    return longest(queue_->spec().field.format);
  }
  [[nodiscard]] std::unique_ptr<Turn> turn(std::string transaction) override {
    return std::make_unique<GaplessTurn>(queue_, std::move(transaction));
  }
  Draw next(std::size_t /*n*/, Values& /*out*/) override {
    return Error{Errc::exhausted, "its numbers are for documents that are being stored"};
  }

 private:
  const std::shared_ptr<GaplessQueue> queue_;
};

/// The rule's own object; bind() makes a BoundGapless for each of its collections.
class Gapless final : public Strategy, public SequenceRule {
 public:
  explicit Gapless(GaplessSpec spec) : spec_(std::move(spec)) {}

  [[nodiscard]] std::shared_ptr<Strategy> bind(std::string_view ns, Store& store) const override {
    GaplessSpec spec = spec_;
    spec.field.ns = ns;
    auto queue = store.sequence(spec);
    return queue == nullptr ? nullptr : std::make_shared<BoundGapless>(std::move(queue));
  }
  SequenceRule* sequence_rule() override { return this; }
  [[nodiscard]] const GaplessSpec& spec() const override { return spec_; }

  Draw next(std::size_t /*n*/, Values& /*out*/) override {
    return Error{Errc::unavailable, "there is no id store"};
  }

 private:
  const GaplessSpec spec_;
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

/// Texts sort as their numbers do only as long as all have the same number of digits, and the proxy
/// has to find the largest.
void read_numbers_of(GaplessSpec& spec, Parameters& rule) {
  const NumberFormat& format = spec.field.format;
  std::int64_t lowest = Int64::min();
  spec.max = Int64::max();
  if (format.output == Output::int32) {
    lowest = Int32::min();
    spec.max = Int32::max();
  } else if (format.output == Output::string) {
    lowest = 0;
    spec.max = largest(format.pad);
    if (format.pad == 0) {
      rule.section("format").error(
          "pad", "is missing: with output string, numbers need a fixed width, such as pad: 9");
      spec.max = Int64::max();
    }
  }
  spec.start = rule.integer("start", lowest, spec.max, 1);
}

}  // namespace

/// Keys: output, format, start, floor, and those of `scope`.
std::unique_ptr<Strategy> make_gapless(Parameters& rule, std::string_view store_db) {
  GaplessSpec spec;
  spec.field = {rule.text("ns", ""), rule.text("field", ""), read_format(rule)};
  spec.store_db = store_db;
  read_numbers_of(spec, rule);
  spec.floor = rule.boolean("floor", true);
  refuse_scope(rule);
  return std::make_unique<Gapless>(std::move(spec));
}

}  // namespace idproxy::ids
