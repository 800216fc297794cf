#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/observability/metrics.hpp"

namespace idproxy::metrics {

/// Names and values: {"listener", "127.0.0.1:27117"}. Values must come from the configuration or
/// the program: values that peers choose could create any number of series.
using Labels = std::vector<std::pair<std::string, std::string>>;

/// A page of metrics in Prometheus' text format (version 0.0.4): families with their series. Names
/// follow prometheus.io/docs/practices/naming: counters end in _total, units are seconds and bytes.
class Page {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  /// All series of one metric. Valid as long as its page.
  class Family {
   public:
    /// Adds a series. Each series of a family must have different labels.
    template <class Number>
      requires std::integral<Number> || std::floating_point<Number>
    Family& add(const Labels& labels, Number value) {
      return add_value(labels, static_cast<double>(value));
    }
    Family& add(const Labels& labels, const HistogramValues& values);

   private:
    friend class Page;
    Family(Page& page, std::size_t index) : page_(page), index_(index) {}
    Family& add_value(const Labels& labels, double value);

    Page& page_;
    std::size_t index_;
  };

  Page();
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  Family counter(const std::string& name, const std::string& help);
  Family gauge(const std::string& name, const std::string& help);
  Family histogram(const std::string& name, const std::string& help);

  /// The page's text, without families that have no series.
  [[nodiscard]] std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::metrics
