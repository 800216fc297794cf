#pragma once

#include <optional>
#include <string>

/// Figures of a proxy for people. A figure that is not known is "-".
namespace idproxy::app::views {

/// "1,234"; a fraction is cut off.
[[nodiscard]] std::string count_text(std::optional<double> count);
/// The same of numbers that are left: "> 10^15" stands for more than anybody uses.
[[nodiscard]] std::string left_text(std::optional<double> count);
/// Per second: "0", "0.4", "12.5", "1,234".
[[nodiscard]] std::string rate_text(std::optional<double> rate);
/// From seconds: "0.05 ms", "1.2 ms", "48 ms", "1.2 s", "12 s".
[[nodiscard]] std::string latency_text(std::optional<double> seconds);
/// From seconds: "0.8 s", "12 s", "3 min 5 s", "2 h 10 min", "12 d 3 h".
[[nodiscard]] std::string age_text(std::optional<double> seconds);
/// The same with one unit, rounded down: "12 s", "3 min", "2 h", "12 d".
[[nodiscard]] std::string short_age_text(std::optional<double> seconds);
/// "512 B", "1.2 MiB".
[[nodiscard]] std::string bytes_text(std::optional<double> bytes);
/// From seconds since 1970: "2026-11-27 18:04", in the process's time zone.
[[nodiscard]] std::string date_text(std::optional<double> time);
/// From seconds since 1970: "18:04:09", in the process's time zone.
[[nodiscard]] std::string clock_text(std::optional<double> time);

}  // namespace idproxy::app::views
