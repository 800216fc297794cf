#include "app/doctor/rules_check.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "app/state/findings.hpp"
#include "app/state/readiness.hpp"
#include "app/state/rules_in_force.hpp"
#include "app/state/run_out.hpp"
#include "app/system_clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/id_store/store.hpp"

namespace idproxy::app::doctor {
namespace {

using namespace std::chrono_literals;
using id_store::mongo::Array;
using id_store::mongo::Document;
using ids::UniqueIndex;

constexpr std::chrono::seconds kRulesWithin = 8s;
constexpr std::chrono::seconds kStopWithin = 2s;
// Reading documents for duplicates: for one rule, and for all.
constexpr std::int32_t kOneMs = 2000;
constexpr std::chrono::seconds kDuplicatesWithin = 4s;

/// Looks for two documents with the same value among those that a unique index would hold.
Document duplicates_of(const rewrite::Rule& rule, const std::string& collection) {
  Document id;
  id.add("value", "$" + rule.field);
  std::size_t i = 0;
  for (const std::string& each : rule.strategy->about().sequences.scope) {
    id.add("scope" + std::to_string(i++), "$" + each);
  }
  const Document exists = Document().add(rule.field, Document().add("$exists", true));
  const Document several = Document().add("documents", Document().add("$gt", 1));
  return Document()
      .add("aggregate", collection)
      .add("pipeline",
           Array()
               .push(Document().add("$match", exists))
               .push(Document().add(
                   "$group", Document().add("_id", id).add("documents", Document().add("$sum", 1))))
               .push(Document().add("$match", several))
               .push(Document().add("$limit", 1)))
      .add("cursor", Document())
      .add("collation", id_store::mongo::simple_collation())
      .add("maxTimeMS", kOneMs);
}

/// Asks the id store of a configuration about its rules.
class RulesCheck {
 public:
  RulesCheck(config::Config config, const std::string& file)
      : config_(state::only_looking(std::move(config))),
        file_(file),
        store_(std::make_unique<id_store::Store>(config_.id_store, process_sources().clock)),
        rules_(state::make_rules(config_.rules, config_.id_store.db, *store_)) {}

  RulesSaid run() {
    rules_.watch->await_first_look(kRulesWithin);
    const auto reasons = state::reasons_of(*rules_.set);
    const auto lacks = rules_.watch->lack_index();
    const auto why_down = rules_.watch->why_down();
    for (std::size_t i = 0; i < config_.rules.size() && !why_down; ++i) {
      const bool is_ready = reasons[i].text.empty();
      if (!is_ready) {
        check_.add(state::rule_not_ready(config_.rules[i], i, reasons[i]),
                   reasons[i].commands.empty() ? check_connect(file_) : Commands());
      }
      if (const auto found = lacks.find(i); found != lacks.end()) {
        lacks_index(i, found->second, is_ready);
      }
    }
    runs_out();
    check_.what = std::to_string(config_.rules.size()) +
                  (config_.rules.size() == 1 ? " rule" : " rules") +
                  (unread_ ? "; not all documents were read for duplicates" : "");
    if (why_down) {
      check_.what = "the id store " + *why_down;
      check_.skipped = true;
    }
    if (store_->stop(kStopWithin)) return {std::move(check_), false};
    store_.release();  // NOLINT(bugprone-unused-return-value): its thread goes on
    return {std::move(check_), true};
  }

 private:
  void lacks_index(std::size_t index, const id_store::MissingIndex& lacks, bool is_ready) {
    const rewrite::Rule& rule = config_.rules[index];
    if (rule.unique_index == UniqueIndex::warn && is_ready) {
      check_.add(state::index_missing(rule, index, lacks), {});
    }
    if (has_duplicates(rule, lacks.ns)) {
      check_.add(finding::kDuplicatesStored, rule_subject(lacks.ns, rule.field),
                 "documents have the same value: the unique index cannot be built before that is "
                 "mended",
                 about_rule("verify", lacks.ns, rule.field, file_));
    }
  }

  bool has_duplicates(const rewrite::Rule& rule, const std::string& text) {
    // Then values may be equal by design.
    if (rule.strategy->about().sequences.repeats() || unread_) return false;
    const auto begun = std::chrono::steady_clock::now();
    const id_store::Namespace ns = id_store::split_namespace(text);
    if (!client_) {
      pool_.emplace(config_.id_store.uri, config_.id_store.wtimeout, config_.id_store.uri_key);
      client_.emplace(pool_->client());
    }
    bool found = false;
    const auto reply = client_->read_all(ns.db, duplicates_of(rule, ns.collection),
                                         [&found](Bytes) { return found = true; });
    spent_ += std::chrono::steady_clock::now() - begun;
    const bool is_unanswered = !reply.ok() && !reply.refused(id_store::mongo::kUnauthorized);
    unread_ = is_unanswered || spent_ > kDuplicatesWithin;
    return found;
  }

  void runs_out() {
    state::RunOut run_out;
    run_out.update(config_.rules, rules_.watch->numbers(std::numeric_limits<std::size_t>::max()),
                   process_sources().clock.monotonic());
    for (const state::RunOut::Warning& each : run_out.current()) {
      const rewrite::Rule& rule = config_.rules[each.rule_index];
      state::Finding found = state::numbers_run_out(rule, each);
      found.subject = rule_subject(each.ns, rule.field);
      check_.add(std::move(found), edit_and_reload(file_));
    }
  }

  const config::Config config_;
  const std::string& file_;
  std::unique_ptr<id_store::Store> store_;
  const state::RulesInForce rules_;
  std::optional<id_store::mongo::Pool> pool_;
  std::optional<id_store::mongo::Client> client_;
  std::chrono::nanoseconds spent_{};
  bool unread_ = false;
  DoctorCheck check_{"rules"};
};

}  // namespace

RulesSaid check_rules(config::Config config, const std::string& file) {
  if (config.rules.empty()) return {{"rules", "none", true}};
  return RulesCheck(std::move(config), file).run();
}

}  // namespace idproxy::app::doctor
