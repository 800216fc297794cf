#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "app/state/status_document.hpp"

namespace idproxy::app::views {

/// The page /, in HTML that needs no JavaScript: the same figures as `document`, which is that of
/// status_document() for this query. All texts are escaped.
[[nodiscard]] std::string status_page(const boost::json::value& document,
                                      const state::StatusQuery& query);

/// The pages /status.css, /status.js and /favicon.ico, from the program; debug builds read
/// src/app/page each time.
[[nodiscard]] std::string status_css();
[[nodiscard]] std::string status_js();
[[nodiscard]] std::string status_icon();

/// `text` as a text or an attribute of HTML.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace idproxy::app::views
