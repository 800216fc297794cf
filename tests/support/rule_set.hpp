#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "idproxy/rewrite/rules.hpp"

namespace idproxy::test {

/// 1, 2, 3 … up to `limit`, as int64.
class CountingSource final : public ids::Source {
 public:
  explicit CountingSource(std::int64_t limit = std::int64_t{1} << 62) : limit_(limit) {}
  ids::Draw next(std::size_t n, ids::Values& out) override {
    for (; n > 0; --n) {
      if (last_ == limit_)
        return ids::Error{ids::Errc::exhausted, "the test's numbers are used up"};
      store_i64(out.add(bson::Type::int64, 8), ++last_);
    }
    return {};
  }

 private:
  std::int64_t limit_;
  std::atomic<std::int64_t> last_ = 0;
};

/// The strategy of a rule whose collections all have this source.
inline std::shared_ptr<ids::RuleSource> shared_source(std::shared_ptr<ids::Source> source) {
  return std::make_shared<ids::SharedSource>(
      std::move(source), [](std::string_view /*text*/) { return ids::Meaning{}; });
}
template <class Source, class... Arguments>
std::shared_ptr<ids::RuleSource> shared_source(Arguments&&... arguments) {
  return shared_source(std::make_shared<Source>(std::forward<Arguments>(arguments)...));
}

inline rewrite::Rule rule(std::string ns, std::string field,
                          rewrite::Assign assign = rewrite::Assign::missing,
                          std::int64_t limit = std::int64_t{1} << 62) {
  rewrite::Rule rule;
  rule.ns = std::move(ns);
  rule.field = std::move(field);
  rule.assign = assign;
  rule.strategy_name = "counting";
  rule.strategy = shared_source<CountingSource>(limit);
  return rule;
}

template <class... Rules>
std::shared_ptr<const rewrite::RuleSet> rule_set_of(Rules&&... rules) {
  std::vector<rewrite::Rule> all;
  (all.push_back(std::forward<Rules>(rules)), ...);
  return std::make_shared<const rewrite::RuleSet>(std::move(all), "idproxy");
}

/// Rules that add only missing fields: a message that they have patched needs no second patch.
inline std::shared_ptr<const rewrite::RuleSet> rule_set() {
  return rule_set_of(rule("shop.*", "_id"), rule("shop.o*", "number"), rule("shop.o*", "a.b.c"),
                     rule("shop.o*", "a.b.d"), rule("shop.o*", "a.e"));
}

}  // namespace idproxy::test
