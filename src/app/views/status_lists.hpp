#pragma once

#include <string>

#include "app/json_view.hpp"
#include "app/views/columns.hpp"
#include "app/views/terminal.hpp"

/// Shows the lists in the state of a proxy, the document of /status.json, to people.
namespace idproxy::app::views {

[[nodiscard]] std::string servers_text(const JsonView& status, const Terminal& terminal,
                                       Detail detail);
[[nodiscard]] std::string rules_text(const JsonView& status, const Terminal& terminal,
                                     Detail detail);
/// `application`: only the clients with this name; empty: all.
[[nodiscard]] std::string clients_text(const JsonView& status, const Terminal& terminal,
                                       const std::string& application);
/// The other proxies of the set; "" if there are none.
[[nodiscard]] std::string proxies_text(const JsonView& status, const Terminal& terminal);

}  // namespace idproxy::app::views
