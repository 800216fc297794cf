#include "app/doctor/rules_check.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "app/jobs/rule_session.hpp"
#include "app/state/findings.hpp"
#include "app/state/readiness.hpp"
#include "app/state/run_out.hpp"
#include "app/system_clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"

namespace idproxy::app::doctor {
namespace {

using namespace std::chrono_literals;
using id_store::mongo::Array;
using id_store::mongo::Document;
using ids::UniqueIndex;

constexpr std::chrono::seconds kRulesWithin = 8s;
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
      : file_(file),
        options_(config.id_store),
        session_(state::only_looking(std::move(config))),
        rules_(session_.set().rules()) {}

  RulesSaid run() {
    session_.await_first_look(kRulesWithin);
    const auto reasons = state::reasons_of(session_.set());
    const auto lacks = session_.watch().lack_index();
    const auto why_down = session_.watch().why_down();
    for (std::size_t i = 0; i < rules_.size() && !why_down; ++i) {
      const bool is_ready = reasons[i].text.empty();
      if (!is_ready) {
        check_.add(state::rule_not_ready(rules_[i], i, reasons[i]),
                   reasons[i].commands.empty() ? check_connect(file_) : Commands());
      }
      if (const auto found = lacks.find(i); found != lacks.end()) {
        lacks_index(i, found->second, is_ready);
      }
    }
    runs_out();
    check_.what = std::to_string(rules_.size()) + (rules_.size() == 1 ? " rule" : " rules") +
                  (unread_ ? "; not all documents were read for duplicates" : "");
    if (why_down) {
      check_.what = "the id store " + *why_down;
      check_.skipped = true;
    }
    const bool hangs = !session_.stop();
    return {std::move(check_), hangs};
  }

 private:
  void lacks_index(std::size_t index, const id_store::MissingIndex& lacks, bool is_ready) {
    const rewrite::Rule& rule = rules_[index];
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
      pool_.emplace(options_.uri, options_.wtimeout, options_.uri_key);
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
    run_out.update(rules_, session_.watch().numbers(std::numeric_limits<std::size_t>::max()),
                   process_sources().clock.monotonic());
    for (const state::RunOut::Warning& each : run_out.current()) {
      const rewrite::Rule& rule = rules_[each.rule_index];
      state::Finding found = state::numbers_run_out(rule, each);
      found.subject = rule_subject(each.ns, rule.field);
      check_.add(std::move(found), edit_and_reload(file_));
    }
  }

  const std::string& file_;
  const id_store::Options options_;
  jobs::RuleSession session_;
  const std::vector<rewrite::Rule>& rules_;  // of session_
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
