#include "app/jobs/jobs.hpp"

#include <bson/bson.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <optional>
#include <utility>

#include "app/config_file.hpp"
#include "app/jobs/backfill_commands.hpp"
#include "app/jobs/progress.hpp"
#include "app/jobs/rule_session.hpp"
#include "app/jobs/stop_signals.hpp"
#include "app/jobs/verify_commands.hpp"
#include "app/jobs/verify_judge.hpp"
#include "app/jobs/verify_report.hpp"
#include "app/state/readiness.hpp"
#include "app/system_clock.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/counter_position.hpp"
#include "idproxy/id_store/login_advice.hpp"
#include "idproxy/id_store/stored_counters.hpp"
#include "idproxy/rewrite/document_fields.hpp"

namespace idproxy::app::jobs {
namespace {

using id_store::mongo::Document;
using id_store::mongo::Pool;
using id_store::mongo::Reply;

// The server may have to sort the whole collection before it answers.
constexpr std::chrono::hours kVerifyTimeout{1};
constexpr std::chrono::seconds kLookWithin{10};
constexpr std::uint64_t kDocumentsBetweenLooks = 1024;  // at signals and the clock
// A lost cursor begins again from the front.
constexpr int kMostReads = 3;

/// Why the rule cannot be verified, for people; empty: it can.
std::string fault_in(const RuleSession& session, const std::string& ns, std::size_t index) {
  if (std::string why = session.why_down(); !why.empty()) return why;
  const auto [db, collection] = id_store::split_namespace(ns);
  const auto state = session.watch().readiness(index, db, collection);
  if (state.kind != ids::Readiness::Kind::left_alone) return {};
  return "no rule applies to " + ns + ": it is a view or a time-series collection";
}

/// Why no unique index guards the field, or none is known to; empty: one does.
std::string unguarded(const RuleSession& session, std::size_t index) {
  std::string reason = state::reasons_of(session.set())[index].whole();
  if (!reason.empty()) return reason;
  const rewrite::Rule& rule = session.rule(index);
  const bool is_looked_for = !rule.reserve || rule.unique_index != ids::UniqueIndex::warn;
  if (!is_looked_for) return "not looked for: the rule reserves its values";
  const auto lacks = session.lacks_index(index);
  if (!lacks) return {};
  const bool is_offered = rule.unique_index == ids::UniqueIndex::offer;
  return is_offered ? "none yet: the proxy makes it when it starts"
                    : Reason{"none", ": ", lacks->commands}.whole();
}

/// What is asked of the servers beside the documents themselves.
class VerifyQuestions final : public VerifyAnswers {
 public:
  /// Borrows its arguments.
  VerifyQuestions(const VerifyTarget& target, const ids::RuleSource& rule, const Pool& pool,
                  const id_store::Options& store)
      : target_(target), about_(rule.about()), store_(store), client_(pool.client()) {}

  std::optional<std::int64_t> next_number(const VerifiedSequence& sequence) override {
    if (about_.gapless && !about_.gapless->floor) return std::nullopt;
    const ids::CounterPlace place = place_of(sequence);
    id_store::StoredValue value;
    const Reply reply = id_store::read_counter(client_, place, value);
    if (!reply.ok()) note_ = place.ns() + " cannot be read: " + reply.message;
    std::int64_t next = value.number;
    const bool is_last = place.value_is == ids::CounterPlace::ValueIs::last;
    const std::int64_t step = about_.counter ? about_.counter->step : 1;
    const bool is_known =
        reply.ok() && value.is_number() && !__builtin_add_overflow(next, is_last ? step : 0, &next);
    return is_known ? std::optional(next) : std::nullopt;
  }

  std::vector<VerifiedRange> ranges() override {
    id_store::StoredCounters counters(store_, process_sources().clock);
    const std::vector<const ids::RuleSource::About*> rules{&about_};
    const auto found = counters.find(rules);
    std::vector<VerifiedRange> ranges;
    if (!found) {
      note_ = "numbers are not compared with the ranges: " + found.error().reason;
      return ranges;
    }
    for (const id_store::StoredCounter& range : *found) {
      ranges.push_back({range.spec.place.key, range.spec.start, range.spec.max, range.next});
    }
    return ranges;
  }

  std::string remedy(const VerifiedSequence& sequence, std::int64_t next) override {
    return id_store::set_counter_command(place_of(sequence), next, about_.counter->step).text();
  }

  std::vector<std::int64_t> stored(const VerifiedSequence& sequence,
                                   const VerifyRuns::Gap& among) override {
    std::vector<std::int64_t> numbers;
    (void)client_.read_all(
        target_.ns.db, find_numbers(target_, sequence, among), [&](Bytes document) {
          const auto value = rewrite::field_at(document, target_.field);
          if (!value || value->is != ids::FieldValue::Is::there) return true;
          const bson::Element& found = value->element;
          const bool is_read = sequence.format.output == ids::NumberFormat::Output::string ||
                               sequence.format.permutation;
          const auto number = is_read ? ids::read_number(found.type, found.value, sequence.format)
                                      : ids::integer_of(found);
          if (number) numbers.push_back(*number);
          return true;
        });
    return numbers;
  }

  /// Why something could not be asked; empty: it could.
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  [[nodiscard]] ids::CounterPlace place_of(const VerifiedSequence& sequence) const {
    ids::CounterPlace place = about_.counter ? about_.counter->place : floor_place();
    if (about_.per_namespace || about_.gapless) place.key = target_.ns.text() + "." + target_.field;
    if (!sequence.range.empty()) place.key = sequence.range;
    const std::string key = ids::sequence_key(place.key, sequence.scope, sequence.period);
    if (!key.empty()) ids::choose_in(place, key, sequence.scope);
    return place;
  }

  /// Of the highest number that a sequence without gaps had: in the form of a counter.
  [[nodiscard]] ids::CounterPlace floor_place() const {
    ids::CounterPlace place;
    place.db = about_.gapless->store_db;
    place.collection = id_store::kFloors;
    place.value_field = "floor";
    place.value_is = ids::CounterPlace::ValueIs::last;
    return place;
  }

  const VerifyTarget& target_;
  const ids::RuleSource::About& about_;
  const id_store::Options& store_;
  id_store::mongo::Client client_;
  std::string note_;
};

/// Reads the collection and judges its documents. One thread.
class Verification {
 public:
  /// Borrows its arguments, except `target`.
  Verification(VerifyTarget target, const rewrite::Rule& rule, const id_store::Options& store,
               const StopSignals& stop, const VerifyAllowed* allowed)
      : target_(std::move(target)),
        rule_(*rule.strategy),
        pool_(store.uri, kVerifyTimeout, store.uri_key),
        client_(pool_.client()),
        questions_(target_, rule_, pool_, store),
        stop_(stop),
        allowed_(allowed) {}

  /// Looks at what there is to read. Returns why it cannot be read, for people; empty: it can.
  [[nodiscard]] std::string begin() {
    std::vector<Document> indexes;
    const Reply listed =
        client_.list_indexes(target_.ns.db, target_.ns.collection, [&](Bytes index) {
          indexes.emplace_back(index);
          return true;
        });
    order_ = verify_order(target_, indexes);
    if (!listed.ok() && !listed.refused(ErrorCode::namespace_not_found)) {
      return failure_of(listed);
    }
    if (const Reply counted = count(count_verified(target_), all_); !counted.ok()) {
      return failure_of(counted);
    }
    const Reply counted = count(count_without_field(target_), without_field_.count);
    return counted.ok() ? note_missing() : failure_of(counted);
  }

  /// Sets run's part of the result.
  [[nodiscard]] VerifyFindings read(VerifyRun& run) {
    ProgressDisplay display(all_);
    Patience patience(stop_, display);
    const std::string concern = client_.has_replicas() ? "majority" : "";
    std::optional<VerifyJudge> judge;
    for (int reads = 1;; ++reads) {
      judge.emplace(rule_, target_.field, questions_, allowed_);
      run.why.clear();
      const Reply reply =
          client_.read_all(target_.ns.db, find_verified(target_, order_, concern), [&](Bytes each) {
            judge->next(each);
            return judge->findings().documents % kDocumentsBetweenLooks != 0 ||
                   goes_on(judge->findings().documents, display, patience);
          });
      if (stop_.told()) run.why = StopSignals::kReason;
      if (reply.ok()) break;
      run.why = "the collection cannot be read: " + reply.message;
      if (reads == kMostReads || !is_worth_repeating(reply) || !patience.rest(run.why)) break;
    }
    judge->end(run.why.empty() ? VerifyJudge::Read::all : VerifyJudge::Read::a_part);
    display.finish();
    VerifyFindings findings = judge->findings();
    findings.kinds[VerifyKind::missing] = without_field_;
    run.index = order_.index;
    run.note = note();
    return findings;
  }

 private:
  [[nodiscard]] Reply count(const Document& command, std::uint64_t& documents) {
    Reply reply = client_.read(target_.ns.db, command);
    const auto number = bson::integer_in(reply.document.bytes(), "n");
    documents = static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0));
    return reply;
  }

  [[nodiscard]] std::string note_missing() {
    if (without_field_.count == 0) return {};
    const Reply reply =
        client_.read_all(target_.ns.db, find_without_field(target_), [this](Bytes document) {
          without_field_.examples.push_back({.value = {}, .id = verify_id_text(document)});
          return true;
        });
    return reply.ok() ? "" : failure_of(reply);
  }

  [[nodiscard]] std::string failure_of(const Reply& reply) const {
    return refusal_of(reply, target_.ns.text(), "a verification needs find",
                      id_store::advice::needs_read(client_.login(), target_.ns), "cannot be read");
  }

  bool goes_on(std::uint64_t documents, ProgressDisplay& display, Patience& patience) const {
    patience.succeeded();
    display.show(documents);
    return !stop_.told();
  }

  [[nodiscard]] std::string note() const {
    if (rule_.about().sequences.repeats()) {
      return "values repeat by design in each period, which they do not show: duplicates and "
             "ranges cannot be judged";
    }
    return questions_.note();
  }

  const VerifyTarget target_;
  const ids::RuleSource& rule_;
  const Pool pool_;
  id_store::mongo::Client client_;
  VerifyQuestions questions_;
  const StopSignals& stop_;
  const VerifyAllowed* const allowed_;
  VerifyOrder order_;
  std::uint64_t all_ = 0;
  VerifyFound without_field_;
};

/// The documents of `scope`, JSON, or what is wrong with it.
boost::system::result<Document, std::string> scope_filter(const std::string& scope,
                                                          const std::vector<std::string>& fields) {
  if (scope.empty()) return Document();
  std::string wanted = "--scope must be JSON with a value for each field of the rule's `scope`";
  if (fields.empty()) return "--scope is for rules with `scope`, which this one does not have";
  bson_t read;
  bson_error_t error{};
  if (!bson_init_from_json(&read, scope.data(), static_cast<ssize_t>(scope.size()), &error)) {
    return wanted + ": " + static_cast<const char*>(error.message);
  }
  Document filter(Bytes(bson_get_data(&read), read.len));
  bson_destroy(&read);
  std::vector<std::string> given;
  bson::Elements elements(filter.bytes());
  while (const auto element = elements.next()) given.emplace_back(element->key);
  std::ranges::sort(given);
  const bool is_scope = given == fields && ids::as_scope(filter.bytes());
  if (!is_scope) return wanted;
  return filter;
}

VerifyTarget verify_target(const VerifyRequest& request, const rewrite::Rule& rule,
                           Document among) {
  const ids::SequenceOptions& options = rule.strategy->about().sequences;
  VerifyTarget target{
      id_store::split_namespace(request.ns), request.field, options.scope, {}, std::move(among)};
  if (options.text) target.beside = options.text->fields();
  target.when = filter_of(rule.when);
  return target;
}

ExitCode verify_rule(const VerifyRequest& request, const RuleSession& session, std::size_t index,
                     Document among, const id_store::Options& store, const StopSignals& stop,
                     const VerifyAllowed* allowed) {
  if (const std::string fault = fault_in(session, request.ns, index); !fault.empty()) {
    return end_with(ExitCode::unavailable, fault);
  }
  const rewrite::Rule& rule = session.rule(index);
  VerifyRun run{request.ns, request.field, rule.strategy_name, request.scope};
  run.allow = request.allow;
  run.unguarded = unguarded(session, index);
  run.begin = std::chrono::system_clock::now();
  const auto begun = std::chrono::steady_clock::now();
  Verification verification(verify_target(request, rule, std::move(among)), rule, store, stop,
                            allowed);
  if (const std::string why = verification.begin(); !why.empty()) {
    return end_with(ExitCode::unavailable, why);
  }
  const VerifyFindings findings = verification.read(run);
  run.took = std::chrono::steady_clock::now() - begun;
  std::cout << (request.as_json ? verify_json(run, findings) : verify_report(run, findings));
  return findings.count() == 0 && run.why.empty() ? ExitCode::ok : ExitCode::findings;
}

}  // namespace

ExitCode verify(const VerifyRequest& request) {
  const StopSignals stop;
  (void)std::signal(SIGPIPE, SIG_IGN);  // nobody may read the progress any more
  const auto allowed = VerifyAllowed::parse(request.allow);
  if (!allowed) {
    return end_with(
        ExitCode::usage,
        "--allow must be a regular expression, such as 'VIP-[0-9]+': " + allowed.error());
  }
  auto opened = open_rule(request, ConfigFile::Print::findings);
  if (!opened) return opened.error();
  auto among = scope_filter(request.scope, opened->rule().strategy->about().sequences.scope);
  if (!among) return end_with(ExitCode::usage, among.error());
  if (const ExitCode code = find_store(opened->file); code != ExitCode::ok) return code;
  const id_store::Options store = opened->config().id_store;
  add_rule_of(request.ns, opened->config().rules, opened->index);
  RuleSession session(state::only_looking(std::move(opened->config())));
  session.await_first_inspection(kLookWithin);
  return session.end(verify_rule(request, session, opened->index, *std::move(among), store, stop,
                                 request.allow.empty() ? nullptr : &*allowed));
}

}  // namespace idproxy::app::jobs
