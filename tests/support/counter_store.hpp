#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/ids/store.hpp"
#include "support/block_caches.hpp"

namespace idproxy::test {

/// A store whose counters are allocated by the test.
class CounterStore final : public ids::Store {
 public:
  std::shared_ptr<ids::BlockCache> counter(const ids::CounterSpec& spec,
                                           const ids::CounterField& field) override {
    auto& counter = counters[spec.place.filter + spec.place.key];
    if (!counter) counter = std::make_unique<BlockCaches>(spec, spec.start);
    specs.push_back(spec);
    fields.push_back(field);
    return counter->cache;
  }
  std::shared_ptr<ids::Fill> fill(std::string_view, std::string_view) override { return nullptr; }
  ids::Readiness readiness(std::size_t, std::string_view, std::string_view) override { return {}; }
  [[nodiscard]] const Version& version() const override { return version_; }
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t) const override { return {}; }
  [[nodiscard]] std::vector<ids::RuleNumbers> numbers(std::size_t) const override { return {}; }
  [[nodiscard]] ids::StoreCounts counts() const override { return {}; }

  std::map<std::string, std::unique_ptr<BlockCaches>> counters;  // by filter and key
  std::vector<ids::CounterSpec> specs;                           // as asked for
  std::vector<ids::CounterField> fields;                         // likewise

 private:
  const Version version_{0};
};

}  // namespace idproxy::test
