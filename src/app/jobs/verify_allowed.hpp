#pragma once

#include <boost/regex.hpp>
#include <boost/system/result.hpp>
#include <string>

#include "idproxy/bson/elements.hpp"

namespace idproxy::app::jobs {

/// Values that no rule has made and that are meant to be there, such as vanity numbers.
class VerifyAllowed {
 public:
  /// An expression in ECMAScript's syntax, of 1,000 bytes at most. The error: what is wrong with
  /// it, for people.
  [[nodiscard]] static boost::system::result<VerifyAllowed, std::string> parse(
      const std::string& text);

  /// Whether it is the whole value: a text, or an integer as digits. Never one of another type, a
  /// text of more than 1,000 bytes, or one for which matching takes too many steps.
  [[nodiscard]] bool includes(const bson::Element& value) const;

 private:
  explicit VerifyAllowed(const boost::regex& expression) : expression_(expression) {}

  boost::regex expression_;
};

}  // namespace idproxy::app::jobs
