#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "idproxy/base/parameters.hpp"
#include "idproxy/base/time_zone.hpp"
#include "idproxy/ids/machine_lease.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "idproxy/ids/store.hpp"
#include "ids/ascending_time.hpp"
#include "ids/decoding.hpp"
#include "ids/encoding.hpp"

namespace idproxy::ids {
namespace {

constexpr unsigned kSnowflakeBits = 63;
constexpr std::array<SnowflakeLayout, 6> kPresets{{
    {},                                                         // default
    {.epoch = 1'288'834'974'657},                               // twitter
    {.epoch = 1'420'070'400'000},                               // discord
    {1'735'689'600'000, 10, 39, 16, 8, /*machine_last=*/true},  // sonyflake
    {1'314'220'021'721, 1, 40, 13, 10},       // instagram; of its 41 bits, one is an int64's sign
    {.machine_bits = 4, .sequence_bits = 8},  // js53
}};

struct SnowflakeForm {
  SnowflakeLayout layout;
  bool is_text;
  TextForm text;  // of a text; without alphabet, in decimal as short as the number
};

void append_snowflake(std::int64_t id, const SnowflakeForm& form, Values& out) {
  if (!form.is_text) return store_i64(out.add(bson::Type::int64, 8), id);
  if (!form.text.alphabet.empty()) return form.text.append(static_cast<std::uint64_t>(id), out);
  out.add_string(form.text.prefix + std::to_string(id));
}

/// The ids from `first` on, which have one machine number.
void append_from(std::int64_t first, std::uint64_t n, const SnowflakeForm& form, Values& out) {
  const SnowflakeLayout& layout = form.layout;
  const std::int64_t machine = layout.machine_in(first);
  std::int64_t position = layout.position_in(first);
  for (; n > 0; --n) append_snowflake(layout.id(position++, machine), form, out);
}

/// State is in the lease alone.
class Snowflake final : public Source {
 public:
  Snowflake(std::shared_ptr<MachineLease> lease, SnowflakeForm form)
      : lease_(std::move(lease)), form_(std::move(form)) {}

  [[nodiscard]] std::size_t most_bytes() const override {
    return kMostBytes + form_.text.prefix.size();
  }
  Draw next(std::size_t n, Values& out) override {
    if (n == 0) return {};
    const auto first = lease_->take(form_.layout, n);
    if (!first) return Draw::need();
    if (!*first) return first->error();
    append_from(**first, n, form_, out);
    return {};
  }
  [[nodiscard]] Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) override {
    return lease_->ask(form_.layout, n, std::move(waiter));
  }
  [[nodiscard]] std::string why_waiting() const override { return lease_->why_waiting(); }
  void accept(Grant grant, Values& out) override {
    for (const Range& ids : grant.take()) append_from(ids.first, ids.count, form_, out);
  }

 private:
  const std::shared_ptr<MachineLease> lease_;
  const SnowflakeForm form_;
};

/// The number in a text of the rule, or why it is none.
boost::system::result<std::int64_t, std::string> read_snowflake(std::string_view text,
                                                                const SnowflakeForm& form) {
  const SnowflakeLayout& layout = form.layout;
  std::int64_t id = 0;
  if (form.is_text && !form.text.alphabet.empty()) {
    const auto bits = form.text.read(text);
    if (!bits) return bits.error();
    id = static_cast<std::int64_t>(*bits);
  } else {
    const std::string& prefix = form.text.prefix;
    if (!text.starts_with(prefix)) return form.text.fault(text);
    const std::string digits(text.substr(prefix.size()));
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    if (read.ec != std::errc{} || std::to_string(id) != digits) return "is no integer of 64 bits";
  }
  const unsigned bits = layout.time_bits + layout.machine_bits + layout.sequence_bits;
  if (id >= 0 && (bits == kSnowflakeBits || id >> bits == 0)) return id;
  return id < 0 ? "is negative" : "has more than " + std::to_string(bits) + " bits";
}

Decoded meaning_of(std::string_view text, const SnowflakeForm& form) {
  const auto id = read_snowflake(text, form);
  if (!id) return id.error();
  const SnowflakeLayout& layout = form.layout;
  const std::int64_t position = layout.position_in(*id);
  return Meaning{
      {"time",
       time_text(std::chrono::milliseconds(layout.time_of(position >> layout.sequence_bits)))},
      {"machine", std::to_string(layout.machine_in(*id))},
      {"sequence", std::to_string(position & layout.sequence_mask())}};
}

class SnowflakeRule final : public RuleSource {
 public:
  SnowflakeRule(About about, SnowflakeForm form, Sources sources)
      : RuleSource(std::move(about)), form_(std::move(form)), sources_(sources) {}

  /// Holds the number as long as the rule is in force.
  void announce(Store& store) override {
    auto lease = store.lease(*about().lease, about().field, sources_);
    const std::scoped_lock lock(mutex_);
    std::swap(lease_, lease);
  }
  [[nodiscard]] Bound bind(std::string_view /*ns*/, Store* /*store*/) override {
    const std::scoped_lock lock(mutex_);
    return {.source = std::make_shared<Snowflake>(lease_, form_)};
  }
  /// Of machine number 0, now.
  void append_samples(std::size_t n, Values& out) const override {
    const auto now = static_cast<std::int64_t>(milliseconds_of(sources_.clock));
    const std::int64_t unit = std::max<std::int64_t>(form_.layout.unit_at(now), 0);
    append_from(form_.layout.id(unit << form_.layout.sequence_bits, 0), n, form_, out);
  }
  [[nodiscard]] Fit fit(bson::Type type, Bytes value) const override {
    if (type != (form_.is_text ? bson::Type::string : bson::Type::int64)) return Fit::wrong_type;
    return read_snowflake(plain_text(type, value), form_) ? Fit::fits : Fit::wrong_form;
  }
  [[nodiscard]] Decoded decode(std::string_view text) const override {
    return meaning_of(text, form_);
  }

 private:
  const SnowflakeForm form_;
  const Sources sources_;
  std::mutex mutex_;  // guards lease_
  std::shared_ptr<MachineLease> lease_;
};

// ---- keys --------------------------------------------------------------------------------------

void read_layout_bits(Parameters& rule, SnowflakeLayout& layout, const Clock& clock) {
  const auto epoch = time_in(rule.text("epoch", "2024-01-01T00:00:00Z"));
  layout.epoch = epoch.value_or(std::chrono::milliseconds(-1)).count();
  layout.unit = rule.duration("unit", std::chrono::milliseconds(1), std::chrono::seconds(1),
                              std::chrono::milliseconds(1))
                    .count();
  const auto bits = [&](const char* key, std::int64_t min, std::int64_t max, unsigned fallback) {
    return static_cast<unsigned>(rule.integer(key, min, max, fallback));
  };
  layout.time_bits = bits("time_bits", 32, 62, layout.time_bits);
  layout.machine_bits = bits("machine_bits", 0, 16, layout.machine_bits);
  layout.sequence_bits = bits("sequence_bits", 1, 22, layout.sequence_bits);
  const auto now = static_cast<std::int64_t>(milliseconds_of(clock));
  if (layout.epoch < 0) {
    rule.error("epoch", "must be a time in UTC from 1970 on, such as 2024-01-01T00:00:00Z");
  } else if (rule.given("epoch") && layout.epoch > now) {
    rule.error("epoch", "lies in the future: no id could have a time before it");
  } else if (layout.unit_at(now) > layout.last_unit()) {
    rule.error("time_bits",
               "do not suffice: the ids' time ended at " +
                   time_text(std::chrono::milliseconds(layout.time_of(layout.last_unit()))));
  }
  const unsigned sum = layout.time_bits + layout.machine_bits + layout.sequence_bits;
  if (sum <= kSnowflakeBits) return;
  const char* first = rule.given("time_bits")      ? "time_bits"
                      : rule.given("machine_bits") ? "machine_bits"
                                                   : "sequence_bits";
  rule.error(first, "does not fit: time_bits, machine_bits and sequence_bits add up to " +
                        std::to_string(sum) + ", and there are 63");
}

SnowflakeLayout read_snowflake_layout(Parameters& rule, const Clock& clock) {
  const bool has_preset = rule.given("preset");
  SnowflakeLayout layout = kPresets.at(
      rule.choice("preset", {"default", "twitter", "discord", "sonyflake", "instagram", "js53"}));
  const SnowflakeLayout preset = layout;
  read_layout_bits(rule, layout, clock);
  if (has_preset) {
    for (const char* key : {"epoch", "unit", "time_bits", "machine_bits", "sequence_bits"}) {
      if (rule.given(key)) rule.error(key, "is what preset says: remove one of them");
    }
    layout = preset;
  }
  layout.random_start = rule.choice("sequence_start", {"zero", "random"}) == 1;
  return layout;
}

constexpr std::int64_t kMostTens = std::numeric_limits<std::int64_t>::max() / 10;

/// Decimal texts are in the order of the ids until these have one digit more.
void note_order(Parameters& rule, const SnowflakeLayout& layout, const Clock& clock) {
  const std::int64_t now = layout.unit_at(static_cast<std::int64_t>(milliseconds_of(clock)));
  std::int64_t unit = 0;  // in which the ids reach the next power of ten
  for (std::int64_t power = 1; unit <= now && power <= kMostTens;) {
    unit = (power *= 10) >> (layout.machine_bits + layout.sequence_bits);
  }
  if (unit <= now || unit > layout.last_unit()) return;
  rule.note("output", "texts have no zeros in front: they sort as their ids only until " +
                          time_text(std::chrono::milliseconds(layout.time_of(unit))) +
                          ", when they get longer; with `encoding` all have one length");
}

LeaseSpec read_lease(Parameters& machine, const SnowflakeLayout& layout) {
  LeaseSpec lease;
  lease.numbers = std::int32_t{1} << layout.machine_bits;
  lease.name = machine.text("lease", "default");
  lease.ttl = machine.duration("ttl", std::chrono::seconds(3), std::chrono::hours(1), lease.ttl);
  if (const auto id = machine.optional_integer("id", 0, lease.numbers - 1)) {
    lease.id = static_cast<std::int32_t>(*id);
  }
  const bool is_plain = lease.name.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyz"
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "0123456789._-") == std::string::npos;
  if (lease.name.empty() || lease.name.size() > 64 || !is_plain) {
    machine.error("lease", "must be 1 to 64 letters of ASCII, digits, '.', '_' and '-'");
  }
  if (lease.name != "none") return lease;
  lease.name.clear();
  if (!lease.id) {
    machine.error("lease", "none needs the number that nobody else has: set id beside it");
  } else {
    machine.warning("lease",
                    "with none, nobody checks that no other proxy has this number, and a clock "
                    "that goes back while the proxy is stopped repeats ids: remove it if the id "
                    "store can keep the number");
  }
  return lease;
}

}  // namespace

/// Keys: preset, or epoch, unit, time_bits, machine_bits and sequence_bits; sequence_start, machine
/// (lease, ttl, id), output (int64, string), encoding, prefix.
std::unique_ptr<RuleSource> make_snowflake(Parameters& rule, Sources sources,
                                           std::string_view store_db) {
  SnowflakeForm form{read_snowflake_layout(rule, sources.clock), false, {}};
  RuleSource::About about;
  about.lease = read_lease(rule.section("machine"), form.layout);
  about.lease->store_db = store_db;
  about.layout = form.layout;
  about.field.ns = rule.text("ns", "");
  about.field.field = rule.text("field", "");
  form.is_text = read_text_output(rule, "int64", kSnowflakeBits, form.text);
  if (form.is_text && form.text.alphabet.empty()) note_order(rule, form.layout, sources.clock);
  return std::make_unique<SnowflakeRule>(std::move(about), std::move(form), sources);
}

}  // namespace idproxy::ids
