#include "report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

namespace idproxy::bench {
namespace {

/// Ours have no character that JSON wants escaped.
std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

void print_columns(std::ostream& out, const std::vector<Column>& columns) {
  const char* comma = "";
  for (const Column& column : columns) {
    out << comma << quoted(column.name) << ": [";
    comma = ", ";
    for (std::size_t i = 0; i < column.rounds.size(); ++i) {
      out << (i == 0 ? "" : ", ") << number(column.rounds[i]);
    }
    out << ']';
  }
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 != 0) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

void print(std::ostream& out, const Row& row) {
  out << "{\"section\": " << quoted(row.section) << ", \"work\": " << quoted(row.work)
      << ", \"unit\": " << quoted(row.unit) << ", \"columns\": {";
  print_columns(out, row.columns);
  out << "}, \"of\": " << quoted(row.of) << ", \"beside\": " << quoted(row.beside);
  if (row.limit) {
    out << ", \"must\": " << number(row.limit->must) << ", \"aim\": " << number(row.limit->aim)
        << ", \"better\": " << quoted(row.limit->better == Better::lower ? "lower" : "higher");
  }
  out << "}\n" << std::flush;
}

void print_note(std::ostream& out, const std::string& note) {
  out << "{\"note\": " << quoted(note) << "}\n" << std::flush;
}

}  // namespace idproxy::bench
