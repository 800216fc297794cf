#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "ids/encoding.hpp"
#include "ids/random_characters.hpp"
#include "ids/random_digits.hpp"

namespace idproxy::ids {
namespace {

/// Of so many texts that nobody need look which are taken. No state.
class Nanoid final : public Source {
 public:
  Nanoid(RandomFormat format, RandomSource& random)
      : format_(std::move(format)), text_(format_.prefix, {}, 0), random_(random) {}

  [[nodiscard]] std::size_t most_bytes() const override { return format_.most_bytes(); }
  Draw next(std::size_t n, Values& out) override {
    for (; n > 0; --n) {
      draw_characters(random_, format_.alphabet, {text_.add(format_.digits, out), format_.digits});
    }
    return {};
  }

 private:
  const RandomFormat format_;
  const TextForm text_;  // its prefix
  RandomSource& random_;
};

/// Nothing for 2^64 and more.
std::optional<std::uint64_t> count_of(const RandomFormat& format) {
  Uint128 count = 1;
  for (std::size_t i = 0; i < format.digits; ++i) {
    count *= format.alphabet.size();
    if (count >> 64 > 0) return std::nullopt;
  }
  return static_cast<std::uint64_t>(count);
}

}  // namespace

/// Keys: size, alphabet, prefix, warn_fill, max_fill.
std::unique_ptr<RuleSource> make_nanoid(Parameters& parameters, Sources sources,
                                        std::string_view /*store_db*/) {
  RandomFormat format;
  format.digits = static_cast<std::size_t>(parameters.integer("size", 4, kMostCharacters, 21));
  format.alphabet = read_alphabet(parameters, "url64", 95);
  format.prefix = read_prefix(parameters);
  auto fill = read_fill(parameters);
  if (!fill) return nullptr;
  const auto count = count_of(format);
  if (count) return make_random_texts(std::move(format), *count, std::move(*fill), sources.random);
  for (const char* key : {"warn_fill", "max_fill"}) {
    if (!parameters.given(key)) continue;
    parameters.warning(
        key, "has no effect: there are 2^64 values or more, which cannot run out; remove it");
  }
  return std::make_unique<SharedSource>(
      std::make_shared<Nanoid>(format, sources.random),
      [format](std::string_view text) { return format.decode(text); },
      [format](std::string_view text) { return format.decode(text).has_value(); });
}

}  // namespace idproxy::ids
