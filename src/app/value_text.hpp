#pragma once

#include <string>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::app {

/// A generated value as mongosh writes it: 1001, "INV-1001", ObjectId("…"), UUID("…"), and
/// BinData(3, "…") for the legacy forms of UUIDs. `value` is in the form of bson::Element::value.
[[nodiscard]] std::string value_text(bson::Type type, Bytes value);

/// A string as mongosh writes it, in double quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace idproxy::app
