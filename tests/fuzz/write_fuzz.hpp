#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "support/fake_clock.hpp"
#include "support/lending_source.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"
#include "support/upserts.hpp"

/// What the fuzz targets of writes share: choices, a client's world, what a value may change, and a
/// model of the documents of a server.
namespace idproxy::fuzz {

namespace action = rewrite::action;
using rewrite::Action;

constexpr std::uint32_t kAttempts = 3;  ///< of the rules

/// One choice after the other; zeros at the end of the input.
class Choices {
 public:
  explicit Choices(Bytes input) : rest_(input) {}
  std::uint8_t next() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  bool yes(std::uint8_t one_in) { return next() % one_in == 1; }

 private:
  Bytes rest_;
};

/// What an exchange needs. A few values are at hand; every third question to the store fails.
class World {
 public:
  using Rules = std::shared_ptr<const rewrite::RuleSet>(std::shared_ptr<test::Lending>);
  explicit World(Rules* rules) : namespaces_(rules(lending_)) { lending_->at_hand = 5; }

  Action begin(rewrite::Exchange& exchange, const std::string& message) {
    return ask(exchange, test::begin(exchange, as_bytes(message), nullptr, namespaces_, context_,
                                     workspace_));
  }
  Action reply(rewrite::Exchange& exchange, const std::string& bytes) {
    return ask(exchange, exchange.reply(as_bytes(bytes), context_, workspace_));
  }
  void end(rewrite::Exchange& exchange) { exchange.release(workspace_); }
  [[nodiscard]] const std::vector<std::int64_t>& given_back() const { return lending_->back; }

 private:
  Action ask(rewrite::Exchange& exchange, Action action) {
    while (const auto* need = std::get_if<action::AskStore>(&action)) {
      const std::uint64_t count = need->count;
      require(count > 0 && ++asked_ < 1000);
      const std::int64_t first = 1'000'000 * asked_;
      if (asked_ % 3 == 0) {
        action = exchange.answered(ids::Error{ids::Errc::exhausted, "none"}, context_, workspace_);
      } else {
        action = exchange.answered(ids::Grant(nullptr, {{first, count}}), context_, workspace_);
      }
    }
    return action;
  }

  std::int64_t asked_ = 0;
  std::shared_ptr<test::Lending> lending_ = std::make_shared<test::Lending>();
  test::FakeClock clock_;
  test::SeededRandom random_;
  rewrite::Namespaces namespaces_;
  rewrite::Context context_{clock_, random_};
  rewrite::Workspace workspace_;
};

inline std::string bytes_of(const action::Send& send) {
  Buffer out;
  send.message->copy(send.original, 0, out);
  return test::text_of(out.view());
}

// ---- what values may change ------------------------------------------------------------------

inline std::vector<bson::Element> elements_of(Bytes document) {
  std::vector<bson::Element> all;
  bson::Elements elements(document);
  while (const auto element = elements.next()) all.push_back(*element);
  require(!elements.malformed());
  return all;
}

inline bool equal(const bson::Element& a, const bson::Element& b) {
  return as_text({a.begin, a.end()}) == as_text({b.begin, b.end()});
}

/// What the rule for `number` takes for no value. Leaves aside what zeros of rare types are.
inline bool may_be_zero(const bson::Element& element) {
  if (element.key != "number") return false;
  using bson::Type;
  if (element.type == Type::string) return element.text().empty();
  const bool is_number = element.type == Type::int32 || element.type == Type::int64 ||
                         element.type == Type::number_double;
  if (is_number) return element.as_integer() == 0;
  return element.type == Type::null || element.type == Type::decimal128 ||
         element.type == Type::object_id || element.type == Type::binary;
}

/// Requires `sent` to be `original` with elements added at its end, and values in place of zeros.
inline void check_grown(Bytes original, Bytes sent) {
  const auto before = elements_of(original);
  const auto after = elements_of(sent);
  require(before.size() <= after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool replaced = before[i].key == after[i].key && may_be_zero(before[i]) &&
                          after[i].type == bson::Type::int64 && !may_be_zero(after[i]);
    require(replaced || equal(before[i], after[i]));
  }
}

inline void check_update(const bson::Element& original, const bson::Element& sent) {
  require(original.type == sent.type);
  const auto before = elements_of(original.value);
  const auto after = elements_of(sent.value);
  require(before.size() <= after.size());
  if (original.type == bson::Type::array) {  // stages in front
    const std::size_t added = after.size() - before.size();
    for (std::size_t i = 0; i < before.size(); ++i) {
      require(after[added + i].key == std::to_string(added + i));
      require(as_text(after[added + i].value) == as_text(before[i].value));
    }
    return;
  }
  require(after.size() <= before.size() + 1);
  for (std::size_t i = 0; i < before.size(); ++i) {
    require(before[i].key == after[i].key);
    if (before[i].key == "$setOnInsert") {
      check_grown(before[i].value, after[i].value);
    } else {
      require(equal(before[i], after[i]));
    }
  }
  require(after.size() == before.size() || after.back().key == "$setOnInsert");
}

/// Of a replacement that keeps a value: the pipeline has it as it is, and `upsert` may be left out.
inline void check_kept(const bson::Element& original, Bytes statement, Bytes sent,
                       std::string_view update) {
  for (const bson::Element& each : elements_of(statement)) {
    const auto its = bson::find(sent, each.key);
    if (each.key == update) {
      require(its && as_text(its->value).find(as_text(original.value)) != std::string_view::npos);
    } else {
      require(its ? equal(each, *its) : each.key == "upsert");
    }
  }
}

inline void check_statement(Bytes original, Bytes sent, std::string_view update) {
  if (as_text(original) == as_text(sent)) return;
  const auto replacement = bson::find(original, update);
  const auto becomes = bson::find(sent, update);
  require(replacement && becomes);
  if (replacement->type == bson::Type::document && becomes->type == bson::Type::array) {
    return check_kept(*replacement, original, sent, update);
  }
  const auto before = elements_of(original);
  const auto after = elements_of(sent);
  require(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].key == update) {
      check_update(before[i], after[i]);
    } else {
      require(equal(before[i], after[i]));
    }
  }
}

// ---- a model of the server -------------------------------------------------------------------

/// The value that this update gives to `number` when it inserts a document.
inline std::optional<std::int64_t> number_in(const bson::Element& update) {
  std::optional<bson::Element> value;
  if (update.type == bson::Type::array) {
    for (const bson::Element& stage : elements_of(update.value)) {
      const auto set = bson::find(stage.value, "$set");
      const auto field = set ? bson::find(set->value, "number") : std::nullopt;
      if (!field) continue;
      const auto condition = bson::find(field->value, "$cond");
      require(condition && elements_of(condition->value).size() == 3);
      value = bson::find(elements_of(condition->value)[1].value, "$literal");
    }
  } else if (const auto on_insert = bson::find(update.value, "$setOnInsert")) {
    value = bson::find(on_insert->value, "number");
  } else {
    value = bson::find(update.value, "number");
  }
  if (!value) return std::nullopt;
  return value->as_integer();
}

/// Documents with the key k, and unique indexes on `number` and `mail`.
class Documents {
 public:
  explicit Documents(Choices& choices) : choices_(choices) {}

  void add_document(std::int32_t k) { exists_.insert(k); }
  void make_foreign(std::int32_t k) { foreign_.insert(k); }

  /// How often a statement has changed or inserted the document k.
  [[nodiscard]] int executions(std::int32_t k) const {
    const auto found = executions_.find(k);
    return found == executions_.end() ? 0 : found->second;
  }
  /// How often a statement has been tried, without those that were executed earlier.
  [[nodiscard]] int tries(std::int32_t k) const {
    const auto found = tries_.find(k);
    return found == tries_.end() ? 0 : found->second;
  }
  [[nodiscard]] bool inserted(std::int32_t k) const { return inserted_.contains(k); }
  /// True if this value is stored, by a statement or by somebody else.
  [[nodiscard]] bool holds(std::int64_t number) const {
    return numbers_.contains(number) || taken_.contains(number);
  }

 protected:
  [[nodiscard]] Choices& choices() { return choices_; }
  [[nodiscard]] bool exists(std::int32_t k) const { return exists_.contains(k); }
  /// True if the statement with this number was executed, which must have been for k.
  [[nodiscard]] bool was_executed(std::int32_t number, std::int32_t k) const {
    const auto found = executed_.find(number);
    if (found == executed_.end()) return false;
    require(found->second == k);
    return true;
  }
  void try_once(std::int32_t k) {
    ++tries_[k];
    require(!final_.contains(k));
  }
  /// Inserts a document. Returns the keys of the index that it violates; empty: none.
  [[nodiscard]] std::vector<std::string> insert(std::int32_t k, std::optional<std::int64_t> number,
                                                bool multi) {
    require(number != 0);
    if (foreign_.contains(k)) return {"mail"};
    // With multi, such an error may hide that documents were changed: it is the last one.
    if (number && multi && choices_.yes(4)) {
      final_.insert(k);
      return {"number", "t"};
    }
    if (number && (numbers_.contains(*number) || choices_.yes(3))) {
      taken_.insert(*number);
      return {"number"};
    }
    if (number && taken_.contains(*number)) return {"number"};
    if (number) numbers_.insert(*number);
    exists_.insert(k);
    inserted_.insert(k);
    return {};
  }
  void note_executed(std::int32_t k, std::optional<std::int32_t> number) {
    ++executions_[k];
    if (number) executed_.emplace(*number, k);
  }

 private:
  Choices& choices_;
  std::set<std::int32_t> exists_, foreign_, inserted_, final_;
  std::set<std::int64_t> numbers_;  // that are stored by statements
  std::set<std::int64_t> taken_;    // by somebody else
  std::map<std::int32_t, int> executions_, tries_;
  std::map<std::int32_t, std::int32_t> executed_;  // k by statement number
};

/// Requires that each of the statements, for k = 0, 1, …, was executed at most once.
inline void check_tries(const Documents& server, std::size_t statements) {
  for (std::size_t i = 0; i < statements; ++i) {
    const auto k = static_cast<std::int32_t>(i);
    require(server.executions(k) <= 1);
    require(server.tries(k) <= static_cast<int>(kAttempts) + 1);
  }
}

/// Requires that no value was given back that is stored, or twice.
inline void check_values(const World& world, const Documents& server) {
  std::set<std::int64_t> back;
  for (const std::int64_t value : world.given_back()) {
    require(back.insert(value).second && !server.holds(value));
  }
}

/// An update, as the element `u`.
inline std::string update_of(Choices& choices) {
  const std::string set = test::doc_field("$set", test::int_field("x", 1));
  const std::string stage = test::item(set);
  const auto in_doc = [](const std::string& elements) { return test::doc_field("u", elements); };
  const std::string zeros[] = {test::element(bson::Type::null, "number", ""),
                               test::int_field("number", 0), test::double_field("number", -0.0)};
  switch (choices.next() % 9) {
    case 0:
      return in_doc(test::int_field("x", 1));  // a replacement
    case 1:
      return in_doc(test::long_field("number", -5 - choices.next()));
    case 2:
      return in_doc(set + test::doc_field("$setOnInsert", test::int_field("y", 1)));
    case 3:
      return in_doc(test::doc_field("$setOnInsert", test::long_field("number", -5)) + set);
    case 4:
      return test::array_of("u", {stage});
    case 5:
      return test::array_of("u", {});
    case 6:
      return in_doc("");
    case 8:
      return in_doc(set + test::doc_field("$setOnInsert",
                                          test::int_field("y", 1) + zeros[choices.next() % 3]));
    default:
      return in_doc(set);
  }
}

}  // namespace idproxy::fuzz
