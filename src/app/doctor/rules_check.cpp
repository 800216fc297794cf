#include "app/doctor/rules_check.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "app/jobs/rule_session.hpp"
#include "app/jobs/value_text.hpp"
#include "app/state/findings.hpp"
#include "app/state/readiness.hpp"
#include "app/state/run_out.hpp"
#include "app/system_clock.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/id_store/closed_schema.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"

namespace idproxy::app::doctor {
namespace {

using namespace std::chrono_literals;
using id_store::mongo::Array;
using id_store::mongo::Document;
using ids::UniqueIndex;

// The first inspection of the collections.
constexpr std::chrono::milliseconds kLookAtLeast = 1s;
constexpr std::chrono::milliseconds kLookAtMost = 8s;
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
  RulesCheck(config::Config config, const std::string& file, const RulesLimits& limits)
      : file_(file),
        limits_(limits),
        options_(config.id_store),
        session_(std::make_unique<jobs::RuleSession>(state::only_looking(std::move(config)))),
        rules_(session_->set().rules()) {}

  RulesSaid run() {
    session_->await_first_inspection(std::clamp(left(), kLookAtLeast, kLookAtMost));
    RulesSaid said{{"rules"}, {}, session_->why_down()};
    const auto lacks = session_->watch().lack_index();
    const auto numbers = session_->watch().numbers(1);
    const auto reasons = state::reasons_of(session_->set());
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      const auto found = lacks.find(i);
      said.rules.push_back(rule(i, reasons[i], found == lacks.end() ? nullptr : &found->second,
                                said.why_down.empty()));
      if (said.rules[i].reason.empty()) {
        said.rules[i].sample = jobs::sample_of(rules_[i], i, numbers);
      }
    }
    runs_out();
    check_.what = count_of(rules_.size(), "rule") +
                  (unread_ ? "; not all documents were read for duplicates" : "");
    if (const auto why_down = session_->watch().why_down()) {
      check_.what = "the id store " + *why_down;
      check_.skipped = true;
    }
    said.check = std::move(check_);
    (void)session_->stop(limits_.stop);
    said.session = std::move(session_);
    return said;
  }

 private:
  [[nodiscard]] std::chrono::milliseconds left() const {
    return std::chrono::floor<std::chrono::milliseconds>(limits_.until -
                                                         std::chrono::steady_clock::now());
  }

  /// `is_up`: the store answers; if not, that alone is found.
  RuleSaid rule(std::size_t index, Reason reason, const id_store::MissingIndex* lacks, bool is_up) {
    const rewrite::Rule& rule = rules_[index];
    if (reason.text.empty() && is_up && !has_wildcards(rule.ns)) reason.text = closed_schema(rule);
    RuleSaid said{reason.whole()};
    const bool is_ready = reason.text.empty();
    if (is_ready && lacks != nullptr) said.note = state::note_on_index(rule, lacks->commands);
    if (!is_up) return said;
    if (!is_ready) {
      const Commands more = reason.commands.empty() ? check_connect(file_) : Commands();
      check_.add(state::rule_not_ready(rule, index, std::move(reason)), more);
    }
    if (lacks != nullptr) lacks_index(index, *lacks, is_ready);
    return said;
  }

  /// What the collection's validator refuses.
  std::string closed_schema(const rewrite::Rule& rule) {
    return id_store::closed_schema_fault(client(), id_store::split_namespace(rule.ns), rule.field);
  }

  id_store::mongo::Client& client() {
    if (!client_) {
      pool_.emplace(options_.uri, options_.wtimeout, options_.uri_key);
      client_.emplace(pool_->client());
    }
    return *client_;
  }

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
    if (!limits_.reads_documents) return false;
    if (left().count() < kOneMs) {
      unread_ = true;
      return false;
    }
    const auto begun = std::chrono::steady_clock::now();
    const id_store::Namespace ns = id_store::split_namespace(text);
    bool found = false;
    const auto reply = client().read_all(ns.db, duplicates_of(rule, ns.collection),
                                         [&found](Bytes) { return found = true; });
    spent_ += std::chrono::steady_clock::now() - begun;
    const bool is_unanswered = !reply.ok() && !reply.refused(ErrorCode::unauthorized);
    unread_ = is_unanswered || spent_ > kDuplicatesWithin;
    return found;
  }

  void runs_out() {
    state::RunOut run_out;
    run_out.update(rules_, session_->watch().numbers(std::numeric_limits<std::size_t>::max()),
                   process_sources().clock.monotonic(), process_sources().clock.wall());
    for (const state::RunOut::Warning& each : run_out.current()) {
      const rewrite::Rule& rule = rules_[each.rule_index];
      Finding found = state::numbers_run_out(rule, each);
      found.subject = rule_subject(each.ns, rule.field);
      check_.add(std::move(found), edit_and_reload(file_));
    }
  }

  const std::string& file_;
  const RulesLimits limits_;
  const id_store::Options options_;
  std::unique_ptr<jobs::RuleSession> session_;
  const std::vector<rewrite::Rule>& rules_;  // of session_
  std::optional<id_store::mongo::Pool> pool_;
  std::optional<id_store::mongo::Client> client_;
  std::chrono::nanoseconds spent_{};
  bool unread_ = false;
  DoctorCheck check_{"rules"};
};

}  // namespace

RulesSaid check_rules(config::Config config, const std::string& file, const RulesLimits& limits) {
  if (config.rules.empty()) return {{"rules", "none", true}};
  return RulesCheck(std::move(config), file, limits).run();
}

}  // namespace idproxy::app::doctor
