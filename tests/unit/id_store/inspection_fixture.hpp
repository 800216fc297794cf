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
#include <variant>
#include <vector>

#include "id_store/inspection.hpp"

namespace idproxy::id_store::test {

using namespace std::chrono_literals;
using ids::Readiness;
using ids::UniqueIndex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Asks = Inspection::Asks;
using Kind = ServerAnswer::Kind;
using Texts = std::vector<std::string>;
/// For a request of another kind, nothing is found.
using Answer = std::variant<ServerAnswer, DatabaseList, CollectionList, IndexList, DocumentCount,
                            MadeIndex, DroppedIndex>;

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

inline const ServerAnswer kUnreachable{.kind = Kind::unreachable, .reason = "no suitable servers"};

inline IndexList indexes(std::vector<Index> indexes) {
  return {{}, std::move(indexes)};
}

inline CollectionList views(const std::set<std::string>& names) {
  CollectionList answer;
  for (const std::string& name : names) answer.left_alone.emplace(name, LeftAlone::view);
  return answer;
}

inline CollectionList ordinary(Texts names) {
  return {{}, {}, std::move(names)};
}

inline DocumentCount documents(std::uint64_t count) {
  return {{}, count};
}

inline std::string text_of(const ListDatabases& /*request*/) {
  return "databases";
}
inline std::string text_of(const ListCollections& request) {
  return "left_alone " + request.db;
}
inline std::string text_of(const ListIndexes& request) {
  return "indexes " + request.ns.text();
}
inline std::string text_of(const CountDocuments& request) {
  return "documents " + request.ns.text();
}
inline std::string text_of(const MakeIndex& request) {
  return "make_index " + request.ns.text() + " " + request.field.name;
}
inline std::string text_of(const YieldIndex& request) {
  return "yield " + request.ns.text() + " " + request.field.name;
}
inline std::string text_of(const MakeRoom& request) {
  return "make_room " + request.ns.text();
}
inline std::string text_of(const LookUpValues& /*request*/) {
  return "values";
}
/// "KIND db.collection" with the field behind it.
inline std::string text_of(const InspectionRequest& request) {
  return std::visit([](const auto& its) { return text_of(its); }, request);
}

struct InspectionTest : ::testing::Test {
  void watch(std::vector<WatchedRule> rules) { known.emplace(std::move(rules), now); }

  void learn(const InspectionRequest& request, const Answer& answer) {
    std::visit(
        [&](const auto& its) {
          using Its = decltype(ask(std::declval<mongo::Client&>(), its));
          Its whole;
          static_cast<ServerAnswer&>(whole) =
              *std::visit([](const ServerAnswer& any) { return &any; }, answer);
          if (const auto* found = std::get_if<Its>(&answer)) whole = *found;
          known->learn(its, whole, now);
        },
        request);
  }
  /// Answers all that is due, with what `answers` has for it; else with nothing found.
  Texts round(const std::map<std::string, Answer>& answers = {}) {
    Texts asked;
    for (const Asks asks : {Asks::checks, Asks::indexes, Asks::checks}) {
      while (const auto request = known->next(asks, now)) {
        asked.push_back(text_of(*request));
        const auto answer = answers.find(asked.back());
        learn(*request, answer == answers.end() ? Answer() : answer->second);
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
  std::optional<Inspection> known;
};

}  // namespace idproxy::id_store::test
