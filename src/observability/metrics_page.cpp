#include "idproxy/observability/metrics_page.hpp"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>

namespace idproxy::metrics {

struct Page::Impl {
  std::size_t open(const std::string& name, const std::string& help, prometheus::MetricType type) {
    families.push_back({.name = name, .help = help, .type = type, .metric = {}});
    return families.size() - 1;
  }

  std::vector<prometheus::MetricFamily> families;
};

namespace {

prometheus::ClientMetric& series(prometheus::MetricFamily& family, const Labels& labels) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

}  // namespace

Page::Page() : impl_(std::make_unique<Impl>()) {}
Page::~Page() = default;

Page::Family Page::counter(const std::string& name, const std::string& help) {
  return {*this, impl_->open(name, help, prometheus::MetricType::Counter)};
}

Page::Family Page::gauge(const std::string& name, const std::string& help) {
  return {*this, impl_->open(name, help, prometheus::MetricType::Gauge)};
}

Page::Family Page::histogram(const std::string& name, const std::string& help) {
  return {*this, impl_->open(name, help, prometheus::MetricType::Histogram)};
}

Page::Family& Page::Family::add_value(const Labels& labels, double value) {
  prometheus::ClientMetric& metric = series(page_.impl_->families[index_], labels);
  metric.counter.value = value;  // one of them is what the type says
  metric.gauge.value = value;
  return *this;
}

Page::Family& Page::Family::add(const Labels& labels, const HistogramValues& values) {
  prometheus::ClientMetric::Histogram& histogram =
      series(page_.impl_->families[index_], labels).histogram;
  for (std::size_t i = 0; i < values.counts.size(); ++i) {
    histogram.sample_count += values.counts[i];
    const bool last = i == HistogramValues::kBounds.size();
    histogram.bucket.push_back({.cumulative_count = histogram.sample_count,
                                .upper_bound = last ? std::numeric_limits<double>::infinity()
                                                    : HistogramValues::kBounds[i]});
  }
  histogram.sample_sum = values.sum_seconds;
  return *this;
}

std::string Page::text() const {
  std::vector<prometheus::MetricFamily> shown;
  for (const prometheus::MetricFamily& family : impl_->families) {
    if (!family.metric.empty()) shown.push_back(family);
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, shown);
  return out.str();
}

}  // namespace idproxy::metrics
