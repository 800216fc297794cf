#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "id_store/inspector_collections.hpp"

namespace idproxy::id_store::test {

using namespace std::chrono_literals;
using ids::Readiness;
using ids::UniqueIndex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Asks = Collections::Asks;
using Kind = CatalogResponse::Kind;
using Texts = std::vector<std::string>;

inline Index unique(const Texts& fields) {
  Index index{.name = "i", .unique = true};
  for (const std::string& field : fields) index.keys.push_back({field});
  return index;
}

/// As the proxy makes it.
inline Index own_index(const std::string& field) {
  Index index = unique({field});
  index.name = field + "_idproxy";
  const auto condition = mongo::Document().add("$exists", true);
  index.partial = {Index::Partial::Kind::exists, field, 0, std::string(as_text(condition.bytes()))};
  return index;
}

inline const CatalogResponse kUnreachable{.kind = Kind::unreachable,
                                          .reason = "no suitable servers"};

inline CatalogResponse indexes(std::vector<Index> indexes) {
  CatalogResponse response;
  response.indexes = std::move(indexes);
  return response;
}

inline CatalogResponse views(const std::set<std::string>& names) {
  CatalogResponse response;
  for (const std::string& name : names) response.left_alone.emplace(name, LeftAlone::view);
  return response;
}

inline CatalogResponse documents(std::uint64_t count) {
  CatalogResponse response;
  response.documents = count;
  return response;
}

/// "KIND db.collection" with the field behind it.
inline std::string text_of(const CatalogRequest& request) {
  constexpr const char* kKinds[] = {"left_alone ", "indexes ", "documents ", "make_index ",
                                    "databases",   "values ",  "yield ",     "make_room "};
  std::string text = kKinds[static_cast<std::size_t>(request.kind)] + request.ns.db;
  if (!request.ns.collection.empty()) text += "." + request.ns.collection;
  if (!request.field.name.empty()) text += " " + request.field.name;
  return text;
}

struct CollectionsTest : ::testing::Test {
  void watch(std::vector<WatchedRule> rules) { known.emplace(std::move(rules), now); }

  /// Answers all that is due, with what `answers` has for it; else with nothing found.
  Texts round(const std::map<std::string, CatalogResponse>& answers = {}) {
    Texts asked;
    for (const Asks asks : {Asks::looks, Asks::make_index, Asks::looks}) {
      while (const auto request = known->next(asks, now)) {
        asked.push_back(text_of(*request));
        const auto response = answers.find(asked.back());
        known->learn(*request, response == answers.end() ? CatalogResponse{} : response->second,
                     now);
      }
    }
    return asked;
  }
  /// "EVENT MESSAGE"
  Texts log_events() {
    Texts texts;
    for (const LogEvent& log_event : known->take_log_events(now)) {
      texts.push_back(std::string(log_event.event) + " " + log_event.message);
    }
    return texts;
  }
  Readiness readiness(std::string_view db, std::string_view name, std::size_t rule = 0) {
    return known->readiness(rule, db, name, now);
  }

  std::chrono::nanoseconds now = 1h;
  std::optional<Collections> known;
};

}  // namespace idproxy::id_store::test
