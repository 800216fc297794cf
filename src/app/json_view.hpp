#pragma once

#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/typed_command.hpp"

namespace idproxy::app {

/// Reads a JSON document that another program has sent: a value that is missing, or has another
/// type than expected, is one that is not known. Borrows the document.
class JsonView {
 public:
  JsonView() = default;
  explicit JsonView(const boost::json::value& value) : value_(&value) {}

  /// The member of an object; of anything else a view of nothing.
  [[nodiscard]] JsonView operator[](std::string_view key) const;
  /// The elements of an array; of anything else none.
  [[nodiscard]] std::vector<JsonView> items() const;
  /// The last element of an array.
  [[nodiscard]] JsonView last() const;
  /// The names of an object's members.
  [[nodiscard]] std::vector<std::string> keys() const;

  [[nodiscard]] bool is_object() const { return value_ != nullptr && value_->is_object(); }
  [[nodiscard]] bool is_array() const { return value_ != nullptr && value_->is_array(); }
  /// Finite.
  [[nodiscard]] std::optional<double> number() const;
  /// A whole number from 0 up to what a double counts without gaps (2^53).
  [[nodiscard]] std::optional<std::uint64_t> count() const;
  /// "" if it is no string.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_true() const;
  [[nodiscard]] bool is_false() const;

 private:
  const boost::json::value* value_ = nullptr;  // null: nothing is known
};

/// JSON is UTF-8, and names of peers need not be.
[[nodiscard]] boost::json::string json_text(std::string_view of);
/// Null for "".
[[nodiscard]] boost::json::value text_or_null(std::string_view of);
template <class T>
boost::json::value or_null(const std::optional<T>& value) {
  return value ? boost::json::value(*value) : boost::json::value();
}
/// For programs: [{"in": "shell", "command": "ls -l 'a b'", "words": ["ls", "-l", "a b"]}].
[[nodiscard]] boost::json::array commands_json(const Commands& commands);
/// The document as BSON: integers are 32 bits wide if they fit, else 64.
[[nodiscard]] Buffer bson_of(const boost::json::value& document);
/// The value as a line of JSON, with its newline, that is printable() and means the same.
[[nodiscard]] std::string json_line(const boost::json::value& value);

}  // namespace idproxy::app
