#include "app/verify_allowed.hpp"

#include <optional>
#include <utility>

#include "idproxy/ids/scope.hpp"

namespace idproxy::app {
namespace {

// The library's matching needs stack for each byte.
constexpr std::size_t kLongestMatched = 1000;

std::optional<std::string> text_to_match(const bson::Element& value) {
  if (value.type == bson::Type::string) {
    const std::string_view text = value.text();
    return text.size() <= kLongestMatched ? std::optional(std::string(text)) : std::nullopt;
  }
  const auto number = ids::integer_of(value);
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

}  // namespace

boost::system::result<VerifyAllowed, std::string> VerifyAllowed::parse(const std::string& text) {
  try {
    return VerifyAllowed(std::regex(text, std::regex::ECMAScript | std::regex::optimize));
  } catch (const std::regex_error& error) {
    return std::string(error.what());
  }
}

bool VerifyAllowed::includes(const bson::Element& value) const {
  const auto text = text_to_match(value);
  return text && std::regex_match(*text, expression_);
}

}  // namespace idproxy::app
