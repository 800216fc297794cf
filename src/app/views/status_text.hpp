#pragma once

#include <string>

#include "app/json_view.hpp"
#include "app/views/terminal.hpp"

/// Shows the state of a proxy, the document of /status.json, to people.
namespace idproxy::app::views {

/// What is wrong, and then everything in brief.
[[nodiscard]] std::string summary_text(const JsonView& status, const Terminal& terminal);

/// True if something in it is wrong that is an error.
[[nodiscard]] bool has_errors(const JsonView& status);

/// Figures of the last second, one line each time, below headers of the same widths.
[[nodiscard]] std::string watch_headers();
[[nodiscard]] std::string watch_line(const JsonView& status);

}  // namespace idproxy::app::views
