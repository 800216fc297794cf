#pragma once

#include <string>
#include <string_view>

/// What MongoDB takes for names. Each check returns what is wrong, or "".
namespace idproxy::config {

[[nodiscard]] std::string fault_of_database(std::string_view name);

[[nodiscard]] std::string fault_of_collection(std::string_view name);

/// A rule's `ns`: must be able to match a namespace that rules may touch. `store_db` is the one
/// whose collections are this program's own.
[[nodiscard]] std::string fault_of_ns(std::string_view ns, std::string_view store_db);

/// A rule's `field`: a dotted path.
[[nodiscard]] std::string fault_of_field(std::string_view field);

/// A field in the document itself, other than `_id`.
[[nodiscard]] std::string fault_of_plain_field(std::string_view field);

/// True if `a` is `b`, or the path of something that `b` lies in.
[[nodiscard]] bool is_prefix(std::string_view a, std::string_view b);

}  // namespace idproxy::config
