#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace idproxy::ids {

/// Gives a strategy the keys of its rule, and checks them. Keys that the strategy does not ask for
/// are reported as unknown. A faulty value is recorded with the place of its key and replaced by
/// the fallback, so that one run finds all faults.
class Parameters {
 public:
  virtual ~Parameters() = default;

  /// Bounds are inclusive.
  virtual std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max,
                               std::int64_t fallback) = 0;
  /// An integer; nothing for `word` and for an absent key.
  virtual std::optional<std::int64_t> integer_unless(std::string_view key, std::string_view word,
                                                     std::int64_t min, std::int64_t max) = 0;
  virtual double number(std::string_view key, double min, double max, double fallback) = 0;
  virtual bool boolean(std::string_view key, bool fallback) = 0;
  virtual std::string text(std::string_view key, std::string_view fallback) = 0;
  /// A required text; "" after a fault.
  virtual std::string required_text(std::string_view key) = 0;
  /// Text, or nothing if the key is absent or null; an empty text is a fault.
  virtual std::optional<std::string> optional_text(std::string_view key) = 0;
  /// A list of texts.
  virtual std::vector<std::string> texts(std::string_view key) = 0;
  /// The position of the value in `allowed`, whose first element is the fallback.
  virtual std::size_t choice(std::string_view key,
                             std::initializer_list<std::string_view> allowed) = 0;
  virtual std::chrono::milliseconds duration(std::string_view key, std::chrono::milliseconds min,
                                             std::chrono::milliseconds max,
                                             std::chrono::milliseconds fallback) = 0;
  /// A duration, or the text "off", which is 0.
  virtual std::chrono::milliseconds duration_or_off(std::string_view key,
                                                    std::chrono::milliseconds min,
                                                    std::chrono::milliseconds max,
                                                    std::chrono::milliseconds fallback) = 0;
  /// A mapping of any names to text, integers, true, false or null, as a BSON document; "" if it is
  /// absent or empty.
  virtual std::string document(std::string_view key) = 0;
  /// The keys of a nested mapping; empty if it is absent. Lives as long as this object.
  virtual Parameters& section(std::string_view key) = 0;
  [[nodiscard]] virtual bool given(std::string_view key) const = 0;
  /// True if the key's value is a nested mapping.
  [[nodiscard]] virtual bool is_section(std::string_view key) const = 0;
  /// A key of an earlier release, with any value: warns that it has no effect.
  virtual void gone(std::string_view key) = 0;

  /// Records an error or a warning at the key's place, or at the rule's place if the key is absent.
  virtual void error(std::string_view key, std::string_view reason) = 0;
  virtual void warning(std::string_view key, std::string_view reason) = 0;
};

}  // namespace idproxy::ids
