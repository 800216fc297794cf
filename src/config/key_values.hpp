#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/parameters.hpp"

namespace idproxy::config {

/// A scalar of the file, or a key's fallback, as JSON.
[[nodiscard]] boost::json::value value_of(KeySpec::Type type, const std::string& text);

[[nodiscard]] boost::json::value fallback_of(const KeySpec& spec);

struct NamedSpec {
  std::string_view key;
  const KeySpec* spec;
};
/// In the order in which the keys were read. Valid as long as the reader.
[[nodiscard]] std::vector<NamedSpec> in_order(const Parameters& reader);

}  // namespace idproxy::config
