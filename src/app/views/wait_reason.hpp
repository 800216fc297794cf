#pragma once

#include <string>

#include "app/json_view.hpp"

namespace idproxy::app::views {

/// Why a proxy, of which this is the document of /status.json, is not ready for its clients: it
/// does not serve, or a rule that names its collection gives no values. "" if it is.
[[nodiscard]] std::string why_not_ready(const JsonView& status);

}  // namespace idproxy::app::views
