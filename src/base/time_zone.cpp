#include "idproxy/base/time_zone.hpp"

#include <cctz/civil_time.h>
#include <cctz/time_zone.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "idproxy/base/words.hpp"

namespace idproxy {
namespace {

/// cctz also opens paths, and what waits there as a pipe does; and `localtime` is another zone on
/// each host.
bool may_name_one(const std::string& name) {
  if (!consists_of(name, "_+-/") || name.front() == '/' || name == "localtime") return false;
  const char* const set = std::getenv("TZDIR");
  const std::filesystem::path directory(set == nullptr || *set == 0 ? "/usr/share/zoneinfo" : set);
  std::error_code error;
  return name == "UTC" || std::filesystem::is_regular_file(directory / name, error);
}

}  // namespace

struct TimeZone::Rules {
  cctz::time_zone zone;
};

std::optional<TimeZone> TimeZone::find(const std::string& name) {
  Rules rules;
  if (!may_name_one(name)) return std::nullopt;
  if (!cctz::load_time_zone(name, &rules.zone)) return std::nullopt;
  TimeZone found;
  found.rules_ = std::make_shared<const Rules>(rules);
  return found;
}

std::chrono::year_month_day TimeZone::date_at(std::chrono::nanoseconds wall) const {
  using std::chrono::floor;
  const std::chrono::sys_seconds at(floor<std::chrono::seconds>(wall));
  if (!rules_) return floor<std::chrono::days>(at);
  const cctz::civil_day day(cctz::convert(at, rules_->zone));
  return std::chrono::year(static_cast<int>(day.year())) /
         std::chrono::month(static_cast<unsigned>(day.month())) /
         std::chrono::day(static_cast<unsigned>(day.day()));
}

std::string utc_text(const std::string& format, std::chrono::milliseconds since_1970) {
  const std::chrono::sys_time<std::chrono::milliseconds> at(since_1970);
  return cctz::format(format, at, cctz::utc_time_zone());
}

std::optional<std::chrono::milliseconds> time_in(const std::string& text) {
  std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds> at;
  if (!cctz::parse("%Y-%m-%dT%H:%M:%E*S%Ez", text, cctz::utc_time_zone(), &at)) return {};
  return at.time_since_epoch();
}

}  // namespace idproxy
