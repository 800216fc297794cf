#include "idproxy/metrics/metrics_page.hpp"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <cstddef>
#include <limits>
#include <sstream>

#include "idproxy/base/printable.hpp"

namespace idproxy::metrics {
namespace {

constexpr std::array kTypes{prometheus::MetricType::Counter, prometheus::MetricType::Gauge,
                            prometheus::MetricType::Histogram};

prometheus::ClientMetric::Histogram histogram_of(const HistogramValues& values) {
  prometheus::ClientMetric::Histogram histogram;
  for (std::size_t i = 0; i < values.counts.size(); ++i) {
    histogram.sample_count += values.counts[i];
    const bool last = i == HistogramValues::kBounds.size();
    histogram.bucket.push_back({.cumulative_count = histogram.sample_count,
                                .upper_bound = last ? std::numeric_limits<double>::infinity()
                                                    : HistogramValues::kBounds[i]});
  }
  histogram.sample_sum = values.sum_seconds;
  return histogram;
}

}  // namespace

std::string page_of(const std::vector<Family>& families) {
  std::vector<prometheus::MetricFamily> shown;
  for (const Family& family : families) {
    if (family.series.empty()) continue;
    const auto type = kTypes[static_cast<std::size_t>(family.type)];
    shown.push_back({.name = family.name, .help = family.help, .type = type, .metric = {}});
    for (const auto& [labels, value, values] : family.series) {
      prometheus::ClientMetric& metric = shown.back().metric.emplace_back();
      for (const auto& [label, text] : labels) metric.label.push_back({label, printable(text)});
      metric.counter.value = value;  // one of them is what the type says
      metric.gauge.value = value;
      if (family.type == Type::histogram) metric.histogram = histogram_of(values);
    }
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, shown);
  return out.str();
}

}  // namespace idproxy::metrics
