#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "measurements.hpp"
#include "targets.hpp"
#include "transport.hpp"

namespace idproxy::bench {

struct Options {
  Programs programs;
  std::optional<TlsVersion> tls;  ///< none: all is plain
  TlsSides sides = TlsSides::both;
  Effort effort;
  bool quick = false;
  std::string only;                   ///< a row, or a part of the names of some; empty: all
  std::string against;                ///< another mongo-idproxy; empty: no comparison
  std::chrono::seconds duration{90};  ///< of the comparison
};

/// None if the words make no sense.
std::optional<Options> parse(const std::vector<std::string>& words);

extern const char* const kUsage;

}  // namespace idproxy::bench
