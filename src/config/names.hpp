#pragma once

#include <string>
#include <string_view>

/// Checks names by MongoDB's rules. Each check returns an error text, or "".
namespace idproxy::config {

[[nodiscard]] std::string fault_of_database(std::string_view name);

[[nodiscard]] std::string fault_of_collection(std::string_view name);

/// For a database, or a collection, in which the proxy keeps something.
[[nodiscard]] std::string fault_of_own_database(std::string_view name);
[[nodiscard]] std::string fault_of_own_collection(std::string_view name);

/// For a pattern of namespaces.
[[nodiscard]] std::string fault_of_pattern(std::string_view ns);

/// For a rule's `ns`, which must be able to match a namespace that rules may apply to. `store_db`
/// is the proxy's own database.
[[nodiscard]] std::string fault_of_ns(std::string_view ns, std::string_view store_db);

/// For a rule's `field`, a dotted path.
[[nodiscard]] std::string fault_of_field(std::string_view field);

/// For a top-level field other than `_id`.
[[nodiscard]] std::string fault_of_plain_field(std::string_view field);

/// True if the path `a` equals `b` or contains it.
[[nodiscard]] bool is_prefix(std::string_view a, std::string_view b);

}  // namespace idproxy::config
