#pragma once

#include <string_view>

#include "idproxy/rewrite/request.hpp"

/// Commands that make, drop or change collections and their indexes. Once one is forwarded,
/// the proxy's knowledge of these collections is void.
namespace idproxy::rewrite {

/// True if a command of this name may be one; aggregate and applyOps are only if they say so.
[[nodiscard]] bool may_change_catalog(std::string_view command);

/// Reads a command for which that is true. Without changes, it is none, or malformed.
[[nodiscard]] CatalogRequest read_catalog_command(const wire::OpMsgView& message);

}  // namespace idproxy::rewrite
