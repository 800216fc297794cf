#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/base/glob.hpp"
#include "idproxy/base/secret_file.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/permutation.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "ids/counter.hpp"
#include "ids/encoding.hpp"
#include "ids/ff1.hpp"
#include "ids/number_parameters.hpp"

namespace idproxy::ids {
namespace {

using Int64 = std::numeric_limits<std::int64_t>;

// So many values FF1 must have: with fewer it can be broken by trying.
constexpr std::int64_t kFewestValues = 1'000'000;
constexpr const char* kKeyForm =
    "must be 32, 48 or 64 hexadecimal digits, a key of AES, such as `openssl rand -hex 32` prints";

// ---- the space ----------------------------------------------------------------------------------

void check_digits_key(std::int64_t digits, bool is_text, Parameters& rule) {
  constexpr std::int64_t kMostInInt64 = 18;
  if (rule.given("length")) {
    rule.error("length", "needs an `alphabet`; for digits, write `digits` instead");
  }
  if (!is_text && digits > kMostInInt64) {
    rule.error("digits", "must be 6 to 18 with output int64, is " + std::to_string(digits) +
                             ": add output: string");
  } else if (!is_text && digits > 15) {
    rule.warning("digits",
                 "numbers above 2^53 are not exact in JavaScript; output string keeps them");
  }
}

void check_alphabet_key(const Permutation::Space& space, Parameters& rule) {
  for (const char* key : {"digits", "leading_zeros"}) {
    if (!rule.given(key)) continue;
    rule.error(key, "has no place beside `alphabet`, whose texts have `length` characters");
  }
  const std::size_t radix = space.alphabet.size();
  if (radix < 2 || largest_number(space.length, radix) >= kFewestValues - 1) return;
  std::size_t enough = space.length;
  while (largest_number(enough, radix) < kFewestValues - 1) ++enough;
  rule.error("length", "must be at least " + std::to_string(enough) +
                           ", for a million values of this alphabet, is " +
                           std::to_string(space.length));
}

Permutation::Space read_hidden_space(const NumberFormat& format, Parameters& rule) {
  const std::int64_t digits = rule.integer("digits", 6, Ff1::kMostLength, 12);
  const bool has_zeros = rule.boolean("leading_zeros", true);
  Permutation::Space space{read_alphabet(rule, "digits", Ff1::kMostRadix)};
  space.length = static_cast<std::size_t>(rule.integer("length", 1, Ff1::kMostLength, 12));
  if (rule.given("alphabet")) {
    check_alphabet_key(space, rule);
  } else {
    check_digits_key(digits, format.output == NumberFormat::Output::string, rule);
    space.length = static_cast<std::size_t>(digits);
    if (!has_zeros) space.zeros = Permutation::LeadingZeros::none;
  }
  return space;
}

// ---- the keys -----------------------------------------------------------------------------------

std::optional<std::string> bytes_in_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    std::string pair(hex.substr(i, 2));
    std::ranges::transform(pair, pair.begin(), [](char c) {
      return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const auto byte = decode(pair, kHex, 8);
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(static_cast<std::uint8_t>(*byte));
  }
  const bool fits = hex.size() == 32 || hex.size() == 48 || hex.size() == 64;
  return fits ? std::optional(bytes) : std::nullopt;
}

std::optional<std::string> variable_of(const std::string& name, Parameters& key) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) key.error("env", "is not set in the environment of this process");
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// The bytes of a key, of which no finding shows any; empty after a fault.
std::string read_key(Parameters& parent) {
  Parameters& key = parent.section("key");
  const auto env = key.optional_text("env");
  const bool has_file = key.given("file") && !key.is_none("file");
  const auto file = read_named_file("file", Access::secret, key);
  if (env.has_value() == has_file) {
    parent.error("key", std::string(env ? "must have `env` or `file`, not both"
                                        : "is missing: name a variable of the environment, key: "
                                          "{env: NAME}, or a file, key: {file: PATH}; its text ") +
                            (env ? "" : kKeyForm));
    return {};
  }
  const auto hex = env ? variable_of(*env, key) : file;
  if (!hex) return {};
  auto bytes = bytes_in_hex(*hex);
  if (bytes) return *std::move(bytes);
  key.error(env ? "env" : "file", "names a key that does not fit: its text " +
                                      std::string(kKeyForm) + "; it has " +
                                      std::to_string(hex->size()) + " characters");
  return {};
}

void refuse_epochs(Parameters& rule) {
  if (!rule.given("key_epochs")) return;
  rule.gone("key_epochs");
  rule.error("key_epochs",
             "is refused: values of two keys can be the same, and none tells which key it has. A "
             "counter keeps its key; for another one, give the rule another `field` and `name`");
}

std::string read_tweak(const CounterField& field, Parameters& rule) {
  const auto tweak = rule.optional_text("tweak");
  const std::string own = field.ns + "." + field.field;
  rule.falls_back_to("tweak", own);
  if (!tweak && has_wildcards(field.ns)) {
    rule.error("tweak",
               "is missing: its default has the collection's name, and `ns` has wildcards. Write "
               "any text, with which all these collections hide their numbers");
  }
  return tweak.value_or(own);
}

// ---- the rule -----------------------------------------------------------------------------------

void read_hidden_numbers(CounterSpec& spec, std::int64_t most, Parameters& rule) {
  spec.max = rule.integer("max", 0, most, most);
  rule.spec("max").computed = true;
  spec.start = rule.integer("start", 0, Int64::max(), 0);
  if (spec.start <= spec.max) return;
  rule.error("start", "must not be beyond max (" + std::to_string(spec.max) + ")");
}

void check_fields_of(const CounterPlace& place, Parameters& store) {
  for (const auto& [key, name] :
       {std::pair("value_field", place.value_field), std::pair("key_field", place.key_field)}) {
    if (name != "fpe" && name != "space") continue;
    store.error(key, "must not be '" + name + "', which says how the counter's numbers are hidden");
  }
  if (place.filter.empty()) return;
  for (const char* name : {"fpe", "space"}) {
    if (!bson::find(as_bytes(place.filter), name)) continue;
    store.error("filter", std::string("must not name '") + name +
                              "', which says how the counter's numbers are hidden");
  }
}

}  // namespace

/// Keys: output, format, digits, leading_zeros, alphabet, length, key, tweak, start, max,
/// and those of read_sequences() and read_counter().
std::unique_ptr<RuleSource> make_permuted(Parameters& rule, Sources sources,
                                          std::string_view store_db) {
  const std::size_t errors = rule.errors();
  RuleSource::About about;
  about.field = {rule.text("ns", ""), rule.text("field", ""), read_hidden_format(rule)};
  Permutation::Space space = read_hidden_space(about.field.format, rule);
  std::string key = read_key(rule);
  refuse_epochs(rule);
  std::string tweak = read_tweak(about.field, rule);
  CounterSpec& spec = about.counter.emplace();
  NumberFormat& format = about.field.format;
  if (rule.errors() == errors) {
    format.alphabet = space.alphabet;
    format.permutation = SharedPermutation(
        std::make_shared<Permutation>(std::move(space), std::move(tweak), std::move(key)));
    spec.seal = format.permutation->seal();
  }
  about.sequences = read_sequences(rule, format);
  if (format.pad > 0 || (about.sequences.text && about.sequences.text->width() > 0)) {
    rule.error("template", "has a width: {counter} stands for the whole text, of one length");
  }
  read_hidden_numbers(spec, format.permutation ? format.permutation->max() : Int64::max(), rule);
  read_counter(about, rule, store_db, read_hidden_heal);
  check_fields_of(spec.place, rule.section("store"));
  return counter_rule(std::move(about), sources.clock);
}

}  // namespace idproxy::ids
