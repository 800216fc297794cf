#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace idproxy::ids {

/// The keys of a rule, as its strategy reads and checks them. Asking for a key makes it known; a
/// key that nobody asks for is reported as unknown. Faults are collected with the place of the key,
/// and the fallback is returned, so that one run finds all of them.
class Parameters {
 public:
  virtual ~Parameters() = default;

  /// Bounds are inclusive.
  virtual std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max,
                               std::int64_t fallback) = 0;
  virtual double number(std::string_view key, double min, double max, double fallback) = 0;
  virtual bool boolean(std::string_view key, bool fallback) = 0;
  virtual std::string text(std::string_view key, std::string_view fallback) = 0;
  /// Text that must be there; "" after a fault.
  virtual std::string required_text(std::string_view key) = 0;
  /// Text, or nothing for an absent key and for null; an empty one is a fault.
  virtual std::optional<std::string> optional_text(std::string_view key) = 0;
  /// A list of texts.
  virtual std::vector<std::string> texts(std::string_view key) = 0;
  /// Position of the value in `allowed`; the first of them is the fallback.
  virtual std::size_t choice(std::string_view key,
                             std::initializer_list<std::string_view> allowed) = 0;
  virtual std::chrono::milliseconds duration(std::string_view key, std::chrono::milliseconds min,
                                             std::chrono::milliseconds max,
                                             std::chrono::milliseconds fallback) = 0;
  /// A mapping of names, which are not ours to know, to text, integers, true, false or null, as a
  /// BSON document; "" when it is absent or has no names.
  virtual std::string document(std::string_view key) = 0;
  /// The keys of a nested mapping; empty when it is absent. Lives as long as this object.
  virtual Parameters& section(std::string_view key) = 0;
  [[nodiscard]] virtual bool given(std::string_view key) const = 0;

  /// A fault, or something to think about, at the key's place (at the rule's if it is not given).
  virtual void error(std::string_view key, std::string_view reason) = 0;
  virtual void warning(std::string_view key, std::string_view reason) = 0;
};

}  // namespace idproxy::ids
