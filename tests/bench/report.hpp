#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace idproxy::bench {

/// What was measured of one program, once in each round.
struct Column {
  std::string name;
  std::vector<double> rounds;
};

enum class Better { lower, higher };

/// What a figure is held against.
struct Limit {
  double must;
  double aim;
  Better better = Better::lower;
};

/// A row of the tables. Its figure is what column `of` has in each round, divided by what column
/// `beside` has in the same one; if there is no such column, what `of` has by itself.
struct Row {
  std::string section;
  std::string work;
  std::string unit;  ///< of the columns
  std::vector<Column> columns;
  std::string of;
  std::string beside;
  std::optional<Limit> limit;  ///< none: a figure without a verdict
};

double median(std::vector<double> values);

/// One line of JSON, which report.py reads.
void print(std::ostream& out, const Row& row);
/// A sentence about the measurement, likewise.
void print_note(std::ostream& out, const std::string& note);

}  // namespace idproxy::bench
