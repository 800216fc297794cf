#pragma once

#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "measurements.hpp"
#include "targets.hpp"

namespace idproxy::bench {

/// What the figure of mongo-idproxy is held against.
enum class Measure { ratio, value };  ///< to haproxy's of the same round; or by itself

struct Limit {
  Measure measure;
  double must;
  double aim;
};

struct Row {
  std::string section;  ///< with the unit
  std::string work;
  std::array<std::optional<double>, kTargetKinds> values;  ///< medians over all rounds
  std::vector<double> ratios;                              ///< idproxy to haproxy, by round
  std::optional<Limit> limit;                              ///< none: a figure without a verdict
};

double median(std::vector<double> values);

/// Pairs the columns round by round.
Row make_row(std::string section, std::string work, const Rounds& rounds,
             std::optional<Limit> limit);

void print_table(std::ostream& out, const std::vector<Row>& rows);
void print_json(std::ostream& out, const std::vector<Row>& rows);

}  // namespace idproxy::bench
