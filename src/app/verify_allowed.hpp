#pragma once

#include <boost/system/result.hpp>
#include <regex>
#include <string>

#include "idproxy/bson/elements.hpp"

namespace idproxy::app {

/// Values that no rule has made and that are meant to be there, such as vanity numbers.
class VerifyAllowed {
 public:
  /// An expression in ECMAScript's syntax. The error: what is wrong with it, for people.
  [[nodiscard]] static boost::system::result<VerifyAllowed, std::string> parse(
      const std::string& text);

  /// Whether it is the whole value: a text, or an integer as digits. Never one of another type, nor
  /// a text of more than 1,000 bytes.
  [[nodiscard]] bool includes(const bson::Element& value) const;

 private:
  explicit VerifyAllowed(std::regex expression) : expression_(std::move(expression)) {}

  std::regex expression_;
};

}  // namespace idproxy::app
