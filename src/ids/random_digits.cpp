#include "ids/random_digits.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/check_digits.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/fill.hpp"
#include "idproxy/ids/free_values.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "idproxy/ids/store.hpp"
#include "ids/encoding.hpp"
#include "ids/random_characters.hpp"
#include "ids/random_chunk.hpp"

namespace idproxy::ids {
namespace {

using Output = NumberFormat::Output;

/// Above 19 digits, numbers and the random values that they are made from need 128 bits.
constexpr std::int64_t kMostDigits64 = 19;

template <class Number>
constexpr Number power_of_ten(std::int64_t exponent) {
  Number power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

/// Writes `value` in decimal with leading zeros, filling `text`.
void write_digits(std::uint64_t value, MutableBytes text) {
  for (std::size_t i = text.size(); i-- > 0; value /= 10) {
    text[i] = static_cast<std::uint8_t>('0' + value % 10);
  }
}

/// Works in two halves: dividing 128 bits for every digit is three times as slow.
void write_digits(Uint128 value, MutableBytes text) {
  constexpr std::size_t kLow = 17;
  constexpr auto kSplit = power_of_ten<std::uint64_t>(kLow);
  write_digits(static_cast<std::uint64_t>(value / kSplit), text.first(text.size() - kLow));
  write_digits(static_cast<std::uint64_t>(value % kSplit), text.last(kLow));
}

/// The number in a text of the format's digits.
template <class Number>
Number number_in(std::string_view digits, const RandomFormat& format) {
  if (!format.alphabet.empty()) {
    return static_cast<Number>(decode(digits, format.alphabet, 128).value_or(0));
  }
  Number number = 0;
  for (const char digit : digits) number = number * 10 + static_cast<Number>(digit - '0');
  return number;
}

void append_integer(std::uint64_t value, const RandomFormat& format, Values& out) {
  if (format.check != Check::none) {
    const std::string digits = std::to_string(value);
    value = std::stoull(digits + check_digits_of(format.check, digits));
  }
  if (format.output == Output::int32) {
    return store_i32(out.add(bson::Type::int32, 4), static_cast<std::int32_t>(value));
  }
  store_i64(out.add(bson::Type::int64, 8), static_cast<std::int64_t>(value));
}

template <class Number>
void append_digits(Number value, const RandomFormat& format, Values& out) {
  const std::size_t check = width_of(format.check);
  const std::string& prefix = format.prefix;
  std::uint8_t* at = out.add_string(prefix.size() + format.digits + check);
  at = std::copy(prefix.begin(), prefix.end(), at);
  const MutableBytes digits(at, format.digits);
  format.alphabet.empty() ? write_digits(value, digits) : encode(value, format.alphabet, digits);
  if (check == 0) return;
  const std::string text = check_digits_of(format.check, as_text(digits));
  std::copy(text.begin(), text.end(), at + format.digits);
}

template <class Number>
void append_number(Number value, const RandomFormat& format, Values& out) {
  if (format.output == Output::string) return append_digits(value, format, out);
  append_integer(static_cast<std::uint64_t>(value), format, out);
}

/// Reads what append_number() wrote.
template <class Number>
Number read_number(Bytes value, const RandomFormat& format) {
  if (format.output == Output::string) {
    const Bytes digits = value.subspan(4 + format.prefix.size(), format.digits);
    return number_in<Number>(as_text(digits), format);
  }
  const bool narrow = format.output == Output::int32;
  const std::int64_t number = narrow ? load_i32(value.data()) : load_i64(value.data());
  const auto check_digits = static_cast<std::int64_t>(width_of(format.check));
  return static_cast<Number>(number / power_of_ten<std::int64_t>(check_digits));
}

bson::Type type_of(Output output) {
  if (output == Output::string) return bson::Type::string;
  return output == Output::int32 ? bson::Type::int32 : bson::Type::int64;
}

/// The numbers of one request, in a hash table of more than twice their count. Numbers are uniform,
/// so their low bits serve as the hash.
template <class Number>
class NumberSet {
 public:
  explicit NumberSet(std::size_t most) : slots_(std::bit_ceil(2 * most + 1), kFree) {}

  /// False if `number` is already in the set.
  bool insert(Number number) {
    std::size_t at = static_cast<std::size_t>(number) & (slots_.size() - 1);
    while (slots_[at] != kFree) {
      if (slots_[at] == number) return false;
      at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = number;
    return true;
  }

 private:
  static constexpr Number kFree = static_cast<Number>(~Number{0});  // no number is that large
  std::vector<Number> slots_;
};

/// "12.5 %"
std::string percent(double fraction) {
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.4g %%", 100 * fraction);
  return {text.data(), static_cast<std::size_t>(size)};
}

/// Uniform numbers in [lowest, lowest + count), each as often as chance has it.
template <class Number>
class UniformDigits {
 public:
  UniformDigits(Number lowest, Number count, RandomFormat format, RandomSource& random)
      : lowest_(lowest), count_(count), format_(std::move(format)), random_(random) {}

  [[nodiscard]] Number count() const { return count_; }
  [[nodiscard]] const RandomFormat& format() const { return format_; }

  [[nodiscard]] Fit fit(bson::Type type, Bytes value) const {
    if (type != type_of(format_.output)) return Fit::wrong_type;
    std::string text = plain_text(type, value);
    if (!text.starts_with(format_.prefix)) return Fit::wrong_form;
    text.erase(0, format_.prefix.size());
    const std::size_t check = width_of(format_.check);
    const bool is_text = format_.output == Output::string;
    // The integer does not show that its number is 0, in front of the check digits.
    if (!is_text && text.size() <= check) text.insert(0, check + 1 - text.size(), '0');
    const bool has_length =
        is_text ? text.size() == format_.digits + check : text.size() <= format_.digits + check;
    const std::string_view known =
        format_.alphabet.empty() ? "0123456789" : std::string_view(format_.alphabet);
    if (!has_length || text.find_first_not_of(known) != std::string::npos) return Fit::wrong_form;
    const std::string stored = text.substr(text.size() - check);
    text.resize(text.size() - check);
    const auto number = number_in<Number>(text, format_);
    if (number < lowest_ || number - lowest_ >= count_) return Fit::wrong_form;
    return check_digits_of(format_.check, text) == stored ? Fit::fits : Fit::wrong_check;
  }

  /// Appends `n` numbers that differ from each other and from those in `out`, which must leave as
  /// many. Beyond a quarter of the space, draws would hit numbers of `out` too often. Up to a
  /// quarter, a number takes 4/3 draws on average at the worst.
  void append(std::size_t n, Values& out) const {
    n + out.size() > count_ / 4 ? shuffle(n, out) : draw(n, out);
  }

  /// Appends `n` numbers, or all, to no others.
  void append_some(std::size_t n, Values& out) const {
    append(static_cast<std::size_t>(std::min<Number>(n, count_)), out);
  }

  /// Appends those of `some` that are not in `out`.
  void append_new(const Values& some, Values& out) const {
    NumberSet<Number> known = numbers_in(out, some.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto number = read_number<Number>(some[i], format_);
      if (known.insert(number)) append_number(number, format_, out);
    }
  }

 private:
  /// The number of a text of random characters.
  Number draw_text() const {
    std::array<std::uint8_t, kMostCharacters> characters;
    const MutableBytes text(characters.data(), format_.digits);
    draw_characters(random_, format_.alphabet, text);
    return number_in<Number>(as_text(text), format_);
  }

  /// With room for `more`.
  NumberSet<Number> numbers_in(const Values& out, std::size_t more) const {
    NumberSet<Number> numbers(out.size() + more);
    for (std::size_t i = 0; i < out.size(); ++i) {
      numbers.insert(read_number<Number>(out[i], format_));
    }
    return numbers;
  }

  void draw(std::size_t n, Values& out) const {
    NumberSet<Number> known = numbers_in(out, n);
    UniformNumbers<Number> numbers(random_, count_, n);
    const bool is_decimal = format_.alphabet.empty();
    while (n > 0) {
      const Number number = is_decimal ? lowest_ + numbers.next() : draw_text();
      if (!known.insert(number)) continue;
      append_number(number, format_, out);
      --n;
    }
  }

  /// Fisher-Yates shuffle of the other numbers, at most 4 * (n + out.size()), as far as needed.
  void shuffle(std::size_t n, Values& out) const {
    std::vector<Number> left = not_in(out);
    for (std::size_t i = 0; i < n; ++i) {
      std::swap(left[i], left[i + uniform(random_, left.size() - i)]);
      append_number(left[i], format_, out);
    }
  }

  std::vector<Number> not_in(const Values& out) const {
    std::vector<bool> known(static_cast<std::size_t>(count_));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Number at = read_number<Number>(out[i], format_) - lowest_;
      if (at < count_) known[static_cast<std::size_t>(at)] = true;
    }
    std::vector<Number> left;
    left.reserve(known.size() - out.size());
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (!known[i]) left.push_back(lowest_ + i);
    }
    return left;
  }

  Number lowest_;
  Number count_;
  RandomFormat format_;
  RandomSource& random_;
};

/// A number may come again in a later request; the collection's unique index then rejects it. The
/// store's Fill knows how full the collection is. Where many numbers are taken, the store looks up
/// which are free, if it can.
template <class Number>
class RandomDigits final : public Source {
 public:
  /// `fill`: null if nobody counts the documents. `free`: null if nobody looks them up.
  RandomDigits(UniformDigits<Number> digits, double max_fill, std::shared_ptr<Fill> fill,
               std::shared_ptr<FreeValues> free)
      : digits_(digits), max_fill_(max_fill), fill_(std::move(fill)), free_(std::move(free)) {
    if (free_) free_->draw_with(candidates());
  }

  [[nodiscard]] std::size_t most_bytes() const override { return digits_.format().most_bytes(); }
  std::uint32_t attempts() const override { return fill_ ? fill_->attempts() : kAttempts; }

  void collided(const Values& /*values*/, std::span<const std::uint32_t> which,
                std::size_t /*in_request*/, Taken /*where*/) override {
    if (fill_) fill_->collided(which.size());
    if (free_) free_->drop();
  }

  bool doubts(std::size_t tried, std::size_t untried) override {
    return free_ && fill_->suspect(1 / static_cast<double>(tried), untried) && free_->pays(untried);
  }

  Draw next(std::size_t n, Values& out) override {
    const std::size_t given = out.size();
    if (digits_.count() < given || n > digits_.count() - given) return exhausted(n + given);
    if (!free_ || !free_->pays(n)) return draw(n, out);
    Values some;
    if (!free_->take(n, some)) return fill_->is_full() ? Draw(too_full()) : Draw::need();
    return fill_up(given + n, some, out);
  }

  [[nodiscard]] bool holds(std::size_t n) const override { return !free_ || !free_->pays(n); }

  Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) override {
    return free_->ask(n, std::move(waiter));
  }
  std::chrono::nanoseconds patience() const override { return kLookPatience; }
  std::string why_waiting() const override {
    return "the id store has not said in time which values are free";
  }
  void accept(Grant grant, Values& out) override {
    Values some;
    const std::size_t wanted = out.size() + free_->take_granted(std::move(grant), some);
    static_cast<void>(fill_up(wanted, some, out));
    // Granted is granted: the space has become full only now.
    if (out.size() < wanted) digits_.append(wanted - out.size(), out);
  }
  Draw make_do(std::size_t n, Values& out, Error /*why*/) override {
    free_->give_up();
    Values none;
    return fill_up(out.size() + n, none, out);
  }

 private:
  /// A look-up takes a few milliseconds. After this, blind draws are better than to go on waiting.
  static constexpr std::chrono::seconds kLookPatience{1};

  FreeValues::Draw candidates() const {
    return [digits = digits_](std::size_t n) {
      Values drawn;
      digits.append_some(n, drawn);
      return drawn;
    };
  }

  Error exhausted(std::size_t needed) const {
    return {Errc::exhausted, "there are only " +
                                 std::to_string(static_cast<std::uint64_t>(digits_.count())) +
                                 " possible values, the request needs " + std::to_string(needed)};
  }

  Error too_full() const {
    return {Errc::exhausted,
            "of the possible values " + percent(fill_->seen().fraction) +
                " are in use, and max_fill is " + percent(max_fill_) +
                (digits_.format().alphabet.empty() ? ": more digits make room"
                                                   : ": a larger size makes room")};
  }

  Draw draw(std::size_t n, Values& out) const {
    if (fill_ && !fill_->draw(n)) return too_full();
    digits_.append(n, out);
    return {};
  }

  /// Appends free values, `some` and what is held beside them, and draws what is missing until
  /// there are `wanted`.
  Draw fill_up(std::size_t wanted, Values& some, Values& out) const {
    const std::size_t before = out.size();
    digits_.append_new(some, out);
    while (out.size() < wanted) {  // some were in `out` already
      some.clear();
      free_->take_some(wanted - out.size(), some);
      if (some.size() == 0) break;
      digits_.append_new(some, out);
    }
    if (!fill_->choose(out.size() - before)) return too_full();
    return out.size() < wanted ? draw(wanted - out.size(), out) : Draw{};
  }

  const UniformDigits<Number> digits_;
  const double max_fill_;
  const std::shared_ptr<Fill> fill_;
  const std::shared_ptr<FreeValues> free_;
};

template <class Number>
class RandomDigitsRule final : public RuleSource {
 public:
  RandomDigitsRule(UniformDigits<Number> digits, FillRule rule)
      : RuleSource({.fills_up = true}), digits_(digits), rule_(std::move(rule)) {}

  Bound bind(std::string_view ns, Store* store) override {
    const auto fill = store == nullptr ? nullptr : store->fill(ns, rule_.field);
    if (fill) fill->limit({static_cast<double>(digits_.count()), rule_.warn_fill, rule_.max_fill});
    auto free = fill ? store->free_values(ns, rule_.field) : nullptr;
    return {.source = std::make_shared<RandomDigits<Number>>(digits_, rule_.max_fill, fill,
                                                             std::move(free))};
  }
  void append_samples(std::size_t n, Values& out) const override { digits_.append_some(n, out); }
  [[nodiscard]] Fit fit(bson::Type type, Bytes value) const override {
    return digits_.fit(type, value);
  }
  [[nodiscard]] Decoded decode(std::string_view text) const override {
    const RandomFormat& format = digits_.format();
    return format.alphabet.empty() ? RuleSource::decode(text) : format.decode(text);
  }

 private:
  const UniformDigits<Number> digits_;
  const FillRule rule_;
};

template <class Number>
std::unique_ptr<RuleSource> make(std::int64_t digits, bool leading_zeros, RandomFormat format,
                                 FillRule rule, RandomSource& random) {
  const Number end = power_of_ten<Number>(digits);
  const Number lowest = leading_zeros ? Number{0} : end / 10;
  return std::make_unique<RandomDigitsRule<Number>>(
      UniformDigits<Number>(lowest, end - lowest, std::move(format), random), std::move(rule));
}

struct DigitRange {
  std::string_view output;
  std::int64_t most_digits;  // so that all numbers fit the type; 34: as many as decimal128 has
};
constexpr std::array<DigitRange, 3> kRanges{{{"int64", 18}, {"int32", 9}, {"string", 34}}};

/// Returns the number of digits, without check digits; 0 after a fault.
std::int64_t read_digits(Parameters& parameters, Output output, Check check) {
  constexpr std::int64_t kDefault = 12;
  using Limits = std::numeric_limits<std::int64_t>;
  const auto digits = parameters.integer("digits", Limits::min(), Limits::max(), kDefault);
  const DigitRange& range = kRanges.at(static_cast<std::size_t>(output));
  parameters.spec("digits").min = 1;
  parameters.spec("digits").max = static_cast<double>(range.most_digits);
  const auto check_digits = static_cast<std::int64_t>(width_of(check));
  const std::int64_t most = range.most_digits - check_digits;
  if (digits < 1 || digits > most) {
    parameters.error("digits", "must be 1 to " + std::to_string(most) + " with output " +
                                   std::string(range.output) +
                                   (check_digits > 0 ? " and this check" : "") + ", is " +
                                   std::to_string(digits) +
                                   (parameters.given("digits") ? "" : " by default"));
    return 0;
  }
  if (output == Output::int64 && digits + check_digits > 15) {
    parameters.warning("digits",
                       "numbers above 2^53 are not exact in JavaScript; output string keeps them");
  }
  return digits;
}

}  // namespace

std::optional<FillRule> read_fill(Parameters& parameters) {
  FillRule rule{parameters.text("field", ""), parameters.number("warn_fill", 0, 1, 0.1),
                parameters.number("max_fill", 0, 0.99, 0.9)};
  if (rule.warn_fill <= rule.max_fill) return rule;
  parameters.error("warn_fill", "must not be above max_fill");
  return std::nullopt;
}

std::unique_ptr<RuleSource> make_random_texts(RandomFormat format, std::uint64_t count,
                                              FillRule fill, RandomSource& random) {
  return std::make_unique<RandomDigitsRule<std::uint64_t>>(
      UniformDigits<std::uint64_t>(0, count, std::move(format), random), std::move(fill));
}

/// Keys: output (int64, int32, string), digits, leading_zeros, check, warn_fill, max_fill.
std::unique_ptr<RuleSource> make_random_digits(Parameters& parameters, Sources sources,
                                               std::string_view /*store_db*/) {
  const auto output =
      static_cast<Output>(parameters.choice("output", {"int64", "int32", "string"}));
  const Check check = read_check(parameters);
  const std::int64_t digits = read_digits(parameters, output, check);
  const bool leading_zeros = parameters.boolean("leading_zeros", true);
  auto fill = read_fill(parameters);
  if (!fill || digits == 0) return nullptr;
  const RandomFormat format{output, static_cast<std::size_t>(digits), check};
  return digits <= kMostDigits64
             ? make<std::uint64_t>(digits, leading_zeros, format, std::move(*fill), sources.random)
             : make<Uint128>(digits, leading_zeros, format, std::move(*fill), sources.random);
}

}  // namespace idproxy::ids
