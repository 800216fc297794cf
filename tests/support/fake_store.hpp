#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/ids/guard.hpp"
#include "idproxy/ids/index_room.hpp"
#include "idproxy/ids/store.hpp"

namespace idproxy::test {

/// A store without counters; the test sets its answers.
class FakeStore : public ids::Store {
 public:
  std::shared_ptr<ids::BlockCache> counter(const ids::CounterSpec& /*spec*/,
                                           const ids::CounterField& /*field*/) override {
    return nullptr;
  }
  std::shared_ptr<ids::Fill> fill(std::string_view /*ns*/, std::string_view /*field*/) override {
    return nullptr;
  }
  ids::Readiness readiness(std::size_t /*rule_index*/, std::string_view db,
                           std::string_view collection) override {
    asked.insert(std::string(db) + "." + std::string(collection));
    return readiness_;
  }
  std::shared_ptr<ids::Guard> guard(std::size_t /*rule_index*/, std::string_view /*db*/,
                                    std::string_view /*collection*/) override {
    return guarding;
  }
  [[nodiscard]] std::shared_ptr<void> change(const ids::CatalogChange& change) override {
    changes.push_back(change);
    ++under_way;
    return {this, [](FakeStore* store) { --store->under_way; }};
  }
  [[nodiscard]] std::shared_ptr<ids::IndexRoom> index_room(const ids::CatalogChange& in,
                                                           Bytes wanted) override {
    room = std::make_shared<ids::IndexRoom>(in, wanted, [](const auto& /*room*/) {});
    return room;
  }
  [[nodiscard]] std::optional<ids::UniqueIndexes> unique_indexes(std::string_view ns) override {
    return ns == "shop.orders" ? indexes : std::nullopt;
  }
  [[nodiscard]] const Version& version() const override { return version_; }
  /// Everything that the test has listed, without the limit per rule.
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t /*most*/) const override {
    return listed;
  }
  [[nodiscard]] std::vector<ids::RuleNumbers> numbers(std::size_t /*most*/) const override {
    return numbered;
  }
  [[nodiscard]] ids::StoreCounts counts() const override { return counted; }

  /// Sets the readiness of all rules in all collections.
  void set(ids::Readiness readiness) {
    readiness_ = std::move(readiness);
    ++version_;
  }
  std::shared_ptr<ids::Guard> guarding;  ///< of all rules in all collections
  std::vector<ids::CatalogChange> changes;
  std::set<std::string> asked;             ///< the collections that it was asked about
  int under_way = 0;                       ///< changes that have not ended
  std::shared_ptr<ids::IndexRoom> room{};  ///< the last one that was asked for
  std::vector<ids::NotReady> listed;
  std::vector<ids::RuleNumbers> numbered;
  std::optional<ids::UniqueIndexes> indexes;  ///< of shop.orders
  ids::StoreCounts counted;

 private:
  ids::Readiness readiness_;
  Version version_{0};
};

}  // namespace idproxy::test
