#include "app/jobs/verify_allowed.hpp"

#include <optional>
#include <stdexcept>

#include "idproxy/ids/scope.hpp"

namespace idproxy::app::jobs {
namespace {

constexpr std::size_t kLongest = 1000;

std::optional<std::string> text_to_match(const bson::Element& value) {
  if (value.type == bson::Type::string) {
    const std::string_view text = value.text();
    return text.size() <= kLongest ? std::optional(std::string(text)) : std::nullopt;
  }
  const auto number = ids::integer_of(value);
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

}  // namespace

boost::system::result<VerifyAllowed, std::string> VerifyAllowed::parse(const std::string& text) {
  if (text.size() > kLongest) return std::string("it has more than 1,000 bytes");
  try {
    return VerifyAllowed(boost::regex(text));
  } catch (const boost::regex_error& error) {
    return std::string(error.what());
  }
}

bool VerifyAllowed::includes(const bson::Element& value) const {
  const auto text = text_to_match(value);
  try {
    return text && boost::regex_match(*text, expression_);
  } catch (const std::runtime_error&) {  // it backtracks too often
    return false;
  }
}

}  // namespace idproxy::app::jobs
