#include "idproxy/ids/period.hpp"

namespace idproxy::ids {

std::string padded(unsigned number, std::size_t width) {
  std::string text = std::to_string(number);
  if (text.size() < width) text.insert(0, width - text.size(), '0');
  return text;
}

std::string period_of(Reset reset, std::chrono::year_month_day day) {
  if (reset == Reset::none) return {};
  std::string period = padded(static_cast<unsigned>(static_cast<int>(day.year())), 4);
  if (reset == Reset::yearly) return period;
  period += "-" + padded(static_cast<unsigned>(day.month()), 2);
  if (reset == Reset::monthly) return period;
  return period + "-" + padded(static_cast<unsigned>(day.day()), 2);
}

}  // namespace idproxy::ids
