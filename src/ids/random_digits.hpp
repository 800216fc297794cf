#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/check_digits.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "ids/encoding.hpp"

namespace idproxy::ids {

/// How a random number is written. A string has `digits` characters between the prefix and the
/// check digits.
struct RandomFormat {
  NumberFormat::Output output = NumberFormat::Output::string;
  std::size_t digits = 0;
  Check check = Check::none;  ///< decimal numbers only
  std::string alphabet{};     ///< the one for 0 first; empty: decimal digits
  std::string prefix{};

  /// As RuleSource::decode(), of characters of the alphabet.
  [[nodiscard]] Decoded decode(std::string_view text) const {
    TextForm form;
    form.prefix = prefix;
    form.alphabet = alphabet;
    form.digits = digits;
    if (std::string why = form.fault(text); !why.empty()) return why;
    return Meaning{};
  }
  /// As Source::most_bytes().
  [[nodiscard]] std::size_t most_bytes() const {
    constexpr std::size_t kAround = 4 + 1 + 2;  // length, NUL, check digits
    return std::max(Source::kMostBytes, kAround + prefix.size() + digits);
  }
};

/// The rule's limits for the fill; `field` tells the store which numbers are meant.
struct FillRule {
  std::string field;
  double warn_fill;
  double max_fill;
};
/// Reads `warn_fill` and `max_fill`; nothing after a fault.
[[nodiscard]] std::optional<FillRule> read_fill(Parameters& rule);

/// A rule with random texts of `format`, of which there are `count`, fewer than 2^64: the store
/// watches how many are in use, and finds free ones where most are.
[[nodiscard]] std::unique_ptr<RuleSource> make_random_texts(RandomFormat format,
                                                            std::uint64_t count, FillRule fill,
                                                            RandomSource& random);

}  // namespace idproxy::ids
