#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string_view>

namespace idproxy::bench {
namespace {

constexpr auto kHaproxy = column_of(TargetKind::haproxy);
constexpr auto kIdproxy = column_of(TargetKind::idproxy);

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

std::string number(std::optional<double> value) {
  return value ? format(*value < 100 ? "%.2f" : "%.1f", *value) : "-";
}

std::optional<double> judged_figure(const Row& row) {
  if (row.limit && row.limit->measure == Measure::value) return row.values[kIdproxy];
  if (row.ratios.empty()) return std::nullopt;
  return median(row.ratios);
}

std::string_view verdict(const Row& row) {
  if (!row.limit) return "no limit";
  const auto figure = judged_figure(row);
  if (!figure) return "not measured";
  if (*figure <= row.limit->aim) return "aim reached";
  return *figure <= row.limit->must ? "good enough" : "MISSED";
}

std::string ratio_text(const Row& row) {
  if (row.ratios.empty()) return "-";
  if (row.ratios.size() == 1) return format("%.2f", row.ratios.front());
  const auto [low, high] = std::minmax_element(row.ratios.begin(), row.ratios.end());
  return format("%.2f (%.2f..%.2f)", median(row.ratios), *low, *high);
}

std::string limit_text(const std::optional<Limit>& limit, double Limit::* bound) {
  if (!limit) return "-";
  return format(limit->measure == Measure::ratio ? "%.2f" : "%.1f abs", *limit.*bound);
}

void print_line(std::ostream& out, const Row& row) {
  out << format("  %-26s %9s %9s %9s  %-19s %9s %9s  ", row.work.c_str(),
                number(row.values[0]).c_str(), number(row.values[1]).c_str(),
                number(row.values[2]).c_str(), ratio_text(row).c_str(),
                limit_text(row.limit, &Limit::must).c_str(),
                limit_text(row.limit, &Limit::aim).c_str())
      << verdict(row) << '\n';
}

std::string json_number(std::optional<double> value) {
  return value ? format("%.4f", *value) : "null";
}

void print_json_row(std::ostream& out, const Row& row) {
  out << "{\"section\": \"" << row.section << "\", \"work\": \"" << row.work << '"';
  for (const auto kind : {TargetKind::haproxy, TargetKind::relay, TargetKind::idproxy}) {
    out << ", \"" << name_of(kind) << "\": " << json_number(row.values[column_of(kind)]);
  }
  out << ", \"figure\": " << json_number(judged_figure(row)) << ", \"ratios\": [";
  for (std::size_t i = 0; i < row.ratios.size(); ++i) {
    out << (i == 0 ? "" : ", ") << json_number(row.ratios[i]);
  }
  const bool by_value = row.limit && row.limit->measure == Measure::value;
  const auto bound = [&](double Limit::* part) {
    return json_number(row.limit ? std::optional(*row.limit.*part) : std::nullopt);
  };
  out << "], \"judged_by\": \"" << (by_value ? "value" : "ratio")
      << "\", \"must\": " << bound(&Limit::must) << ", \"aim\": " << bound(&Limit::aim)
      << ", \"verdict\": \"" << verdict(row) << "\"}";
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 != 0) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

Row make_row(std::string section, std::string work, const Rounds& rounds,
             std::optional<Limit> limit) {
  Row row{std::move(section), std::move(work), {}, {}, limit};
  for (std::size_t column = 0; column < kTargetKinds; ++column) {
    if (!rounds[column].empty()) row.values[column] = median(rounds[column]);
  }
  const std::size_t pairs = std::min(rounds[kHaproxy].size(), rounds[kIdproxy].size());
  for (std::size_t i = 0; i < pairs; ++i) {
    row.ratios.push_back(rounds[kIdproxy][i] / rounds[kHaproxy][i]);
  }
  return row;
}

void print_table(std::ostream& out, const std::vector<Row>& rows) {
  out << format("  %-26s %9s %9s %9s  %-19s %9s %9s  %s\n", "", "haproxy", "relay", "idproxy",
                "ratio (min..max)", "must", "aim", "verdict");
  std::string_view section;
  for (const Row& row : rows) {
    if (row.section != section) out << row.section << '\n';
    section = row.section;
    print_line(out, row);
  }
}

void print_json(std::ostream& out, const std::vector<Row>& rows) {
  out << "{\"rows\": [\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out << (i == 0 ? "  " : ",\n  ");
    print_json_row(out, rows[i]);
  }
  out << "\n]}\n";
}

}  // namespace idproxy::bench
