#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "idproxy/metrics/metrics.hpp"

/// A page of metrics in Prometheus' text format (version 0.0.4).
namespace idproxy::metrics {

inline constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

/// Names and values: {"listener", "127.0.0.1:27117"}. Values must come from the configuration or
/// the program: values that peers choose could create any number of series.
using Labels = std::vector<std::pair<std::string, std::string>>;

enum class Type { counter, gauge, histogram };

/// One metric with all its series. Names follow prometheus.io/docs/practices/naming: counters end
/// in _total, units are seconds and bytes.
struct Family {
  struct Series {
    Labels labels;
    double value = 0;
    HistogramValues values{};  ///< of a histogram
  };
  Type type;
  std::string name;
  std::string help;
  std::vector<Series> series{};

  /// Adds a series. Each series of a family must have different labels.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void add(Labels labels, Number value) {
    series.push_back({std::move(labels), static_cast<double>(value)});
  }
  void add(Labels labels, const HistogramValues& values) {
    series.push_back({std::move(labels), 0, values});
  }
};

/// The page's text, without families that have no series.
[[nodiscard]] std::string page_of(const std::vector<Family>& families);

}  // namespace idproxy::metrics
