#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace idproxy::bench {

/// One element of a BSON document. Views into the document.
struct Element {
  char type = 0;
  std::string_view name;
  std::string_view value;  ///< as it stands there; of a document or an array all of its bytes
};

/// Takes the elements of a server's reply off one after the other. The types are those that
/// replies have; any other one, and a length that does not fit, throws std::runtime_error.
class ElementReader {
 public:
  /// `document`: with its length in front and its terminator.
  explicit ElementReader(std::string_view document);

  std::optional<Element> next();

 private:
  std::string_view take(std::size_t size);

  std::string_view rest_;
};

/// The element of that name; none if there is none.
std::optional<Element> find(std::string_view document, std::string_view name);

/// The number of any type, or boolean, of that name. Throws std::runtime_error if there is none.
std::int64_t integer_at(std::string_view document, std::string_view name);

/// The body of a reply. Throws std::runtime_error if `message` is no OP_MSG of a body alone.
std::string_view body_of(std::string_view message);

}  // namespace idproxy::bench
