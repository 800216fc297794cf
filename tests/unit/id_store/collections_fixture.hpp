#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "id_store/inspector_collections.hpp"

namespace idproxy::id_store::test {

using namespace std::chrono_literals;
using ids::Standing;
using ids::UniqueIndex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Asks = Collections::Asks;
using Kind = Answer::Kind;
using Texts = std::vector<std::string>;

inline Index unique(Texts fields) {
  return {.name = "i", .fields = std::move(fields), .unique = true};
}

inline const Answer kUnreachable{.kind = Kind::unreachable, .reason = "no suitable servers"};

inline Answer indexes(std::vector<Index> indexes) {
  Answer answer;
  answer.indexes = std::move(indexes);
  return answer;
}

inline Answer views(std::set<std::string, std::less<>> names) {
  Answer answer;
  answer.left_alone = std::move(names);
  return answer;
}

inline Answer documents(std::uint64_t count) {
  Answer answer;
  answer.documents = count;
  return answer;
}

/// "KIND db.collection" with the field behind it.
inline std::string text_of(const Question& question) {
  constexpr const char* kKinds[] = {"left_alone ", "indexes ", "documents ", "make_index "};
  std::string text = kKinds[static_cast<std::size_t>(question.kind)] + question.db;
  if (!question.collection.empty()) text += "." + question.collection;
  if (!question.field.empty()) text += " " + question.field;
  return text;
}

struct CollectionsTest : ::testing::Test {
  void watch(std::vector<Watched> rules) { known.emplace(std::move(rules), now); }

  /// Answers all that is due, with what `answers` has for it; else with nothing found.
  Texts round(const std::map<std::string, Answer>& answers = {}) {
    Texts asked;
    for (const Asks asks : {Asks::looks, Asks::make_index, Asks::looks}) {
      while (const auto question = known->next(asks, now)) {
        asked.push_back(text_of(*question));
        const auto answer = answers.find(asked.back());
        known->learn(*question, answer == answers.end() ? Answer{} : answer->second, now);
      }
    }
    return asked;
  }
  /// "EVENT MESSAGE"
  Texts remarks() {
    Texts texts;
    for (const Remark& remark : known->remarks(now)) {
      texts.push_back(std::string(remark.event) + " " + remark.message);
    }
    return texts;
  }
  Standing standing(std::string_view db, std::string_view name, std::size_t rule = 0) {
    return known->standing(rule, db, name, now);
  }

  std::chrono::nanoseconds now = 1h;
  std::optional<Collections> known;
};

}  // namespace idproxy::id_store::test
