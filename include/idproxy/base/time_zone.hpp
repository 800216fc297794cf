#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace idproxy {

/// A time zone of the IANA database, as the system has it (/usr/share/zoneinfo). Thread-safe; a
/// copy shares the rules.
class TimeZone {
 public:
  /// UTC
  TimeZone() = default;

  /// "Europe/Berlin"; nothing if the system does not know the name, or it is a path or `localtime`.
  /// Reads files.
  [[nodiscard]] static std::optional<TimeZone> find(const std::string& name);

  /// The day of the calendar at a time since the Unix epoch.
  [[nodiscard]] std::chrono::year_month_day date_at(std::chrono::nanoseconds wall) const;

 private:
  struct Rules;
  std::shared_ptr<const Rules> rules_;  // null: UTC
};

/// A time since 1970 as `format` of cctz writes it, in UTC: "%E4Y-%m-%dT%H:%M:%SZ".
[[nodiscard]] std::string utc_text(const std::string& format, std::chrono::milliseconds since_1970);

/// A time as RFC 3339 writes it, since 1970; nothing if it is none.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_in(const std::string& text);

}  // namespace idproxy
