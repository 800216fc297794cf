#include "app/jobs/jobs.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <optional>
#include <utility>

#include "app/config_file.hpp"
#include "app/jobs/backfill_batch.hpp"
#include "app/jobs/backfill_report.hpp"
#include "app/jobs/backfill_rule.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/id_store/login_advice.hpp"

namespace idproxy::app::jobs {
namespace {

using id_store::mongo::Document;
using id_store::mongo::Pool;
using id_store::mongo::Reply;

// A command may read the whole collection, and sort it on disk.
constexpr std::chrono::hours kReadTimeout{1};
constexpr std::uint32_t kLargestBatch = 1000;
constexpr std::size_t kMostBytes = 1 << 20;  // of the documents in a batch, as far as they are read
// Documents can be stored without a value while the collection is read.
constexpr int kMostRounds = 3;

/// The documents of the collection before the run.
struct Documents {
  std::uint64_t all = 0;
  std::uint64_t open = 0;     ///< without a value, and can get one
  std::uint64_t blocked = 0;  ///< without a value, and cannot

  [[nodiscard]] std::uint64_t with_value() const {
    return all - std::min(all, open + blocked);  // they are counted one after the other
  }
};

/// The collection, with connections to its servers.
struct BackfillCollection {
  BackfillCollection(BackfillTarget its_target, const id_store::Options& store)
      : target(std::move(its_target)),
        reads(store.uri, kReadTimeout, store.uri_key),
        writes(store.uri, store.wtimeout, store.uri_key),
        client(reads.client()) {}

  std::string why_not_permitted() const {
    const Reply refusal = writes.client().write(target.ns.db, update_of_nothing(target));
    return refusal.ok() ? "" : failure_of(refusal);
  }

  std::string failure_of(const Reply& refusal) const {
    return refusal_of(refusal, target.ns.text(), "a backfill needs find and update",
                      id_store::advice::needs_read_write(client.login(), target.ns.db),
                      "cannot be changed");
  }

  /// Counts documents. Nothing: no server answers, or it refuses; then `reply` says why.
  std::optional<std::uint64_t> count(const Document& filter) {
    reply = client.read(target.ns.db, count_documents(target, filter));
    const auto number = bson::find(reply.document.bytes(), "n");
    if (!reply.ok() || !number) return std::nullopt;
    return static_cast<std::uint64_t>(std::max<std::int64_t>(number->as_integer().value_or(0), 0));
  }

  std::optional<std::uint64_t> count_open() { return count(without_value_and_open(target)); }

  std::optional<std::uint64_t> count_blocked() {
    const auto filter = without_value_and_blocked(target);
    return filter ? count(*filter) : 0;
  }

  std::optional<Documents> count_all() {
    const auto all = count(Document());
    const auto open = all ? count_open() : std::nullopt;
    const auto blocked = open ? count_blocked() : std::nullopt;
    if (!blocked) return std::nullopt;
    return Documents{*all, *open, *blocked};
  }

  void note_blocked(std::uint64_t documents, BackfillTally& tally) {
    if (documents == 0) return;
    const std::string reason = "a part of the path " + target.field + " is not an object";
    const Document examples = find_ids(target, *without_value_and_blocked(target), {},
                                       static_cast<std::int32_t>(BackfillTally::kExamples));
    (void)client.read_all(target.ns.db, examples, [&](Bytes id) {
      tally.leave(reason, id);
      return tally.left[reason].documents < BackfillTally::kExamples;
    });
    tally.left[reason].documents = documents;
  }

  const BackfillTarget target;
  const Pool reads;
  const Pool writes;
  id_store::mongo::Client client;  // of `reads`
  Reply reply;                     // to the last count
};

/// "shop.orders: number, by the strategy counter"
std::string subject_of(const BackfillRequest& request, const BackfillRule& rule) {
  return request.ns + ": " + request.field + ", by the strategy " + rule.rule().strategy_name;
}

/// At most what one second allows, so that the rate is even and no cursor waits for long.
std::size_t batch_size_for(std::uint32_t rate) {
  return rate == 0 ? kLargestBatch : std::min(rate, kLargestBatch);
}

/// Reads the ids of the documents without a value, in order, and has each batch of them given
/// values. Where the cursor is lost, reads again: documents that have a value are not found again.
/// One thread.
class BackfillRun {
 public:
  /// Borrows its arguments, except `documents`.
  BackfillRun(const BackfillRequest& request, const BackfillRule& rule, const StopSignals& stop,
              BackfillCollection& collection, const Documents& documents)
      : request_(request),
        rule_(rule),
        stop_(stop),
        collection_(collection),
        target_(collection.target),
        before_(documents),
        batch_size_(batch_size_for(request.rate)),
        find_(find_ids(target_, without_value_and_open(target_), order_of(request),
                       static_cast<std::int32_t>(batch_size_))),
        display_(documents.open),
        patience_(stop, display_),
        batch_(target_, rule.plan(), request.period_from, collection.writes, stop, patience_),
        pace_(request.rate) {}

  /// Gives values, and prints the report.
  [[nodiscard]] ExitCode run() {
    std::cerr << with_commas(before_.open) << " documents of " << printable(request_.ns)
              << " without " << printable(request_.field) << ", in the order of "
              << printable(request_.sort) << '\n'
              << std::flush;
    const auto begun = std::chrono::steady_clock::now();
    if (before_.open > 0) give_all();
    const auto took = std::chrono::steady_clock::now() - begun;
    BackfillTally tally = batch_.tally();
    tally.had_one = before_.with_value();
    const auto left = count_left(tally);
    display_.finish();
    std::cout << report_of(
        tally, {subject_of(request_, rule_), why_ended(), left, show_without_value(target_), took});
    return left == 0U ? ExitCode::ok : ExitCode::left;
  }

 private:
  /// Returns when no document is left that could get a value, or when it cannot go on.
  void give_all() {
    for (int round = 0; round < kMostRounds && goes_on(); ++round) {
      const std::uint64_t given = batch_.tally().given;
      left_.reset();
      read_through();
      const bool helped = batch_.tally().given > given;
      if (!goes_on() || !are_more_left() || !helped) return;
    }
  }

  /// Why give_all() ended early; empty: it did not.
  [[nodiscard]] std::string why_ended() const {
    if (!batch_.why_ended().empty()) return batch_.why_ended();
    if (!why_ended_.empty()) return why_ended_;
    return stop_.told() ? StopSignals::kReason : "";
  }

  [[nodiscard]] bool goes_on() const { return why_ended().empty(); }

  void read_through() {
    while (goes_on()) {
      next_.clear();
      bytes_ = 0;
      const Reply reply =
          collection_.client.read_all(target_.ns.db, find_, [&](Bytes each) { return add(each); });
      if (reply.ok()) {
        if (goes_on() && !next_.empty()) (void)give();
        return;
      }
      const bool gives_up = !is_worth_repeating(reply) ||
                            !patience_.rest("the servers do not answer: " + reply.message);
      if (gives_up) why_ended_ = "the collection cannot be read: " + reply.message;
    }
  }

  /// False: read no further.
  bool add(Bytes document) {
    BackfillDocument next{id_of(document)};
    if (batch_.failed().contains(next.id)) return true;
    if (!target_.beside.empty()) next.beside = as_text(document);
    bytes_ += next.id.size() + next.beside.size();
    next_.push_back(std::move(next));
    return (next_.size() < batch_size_ && bytes_ < kMostBytes) || give();
  }

  /// Has the batch given its values. False: read no further.
  bool give() {
    if (stop_.wait_for(
            pace_.until_next(std::chrono::steady_clock::now().time_since_epoch(), next_.size())))
      return false;
    patience_.succeeded();
    batch_.give(std::exchange(next_, {}));
    bytes_ = 0;
    display_.show(batch_.tally().done());
    return goes_on();
  }

  bool are_more_left() {
    left_ = collection_.count_open();
    return left_ && *left_ > batch_.failed().size();
  }

  /// How many documents have no value now.
  std::optional<std::uint64_t> count_left(BackfillTally& tally) {
    do {
      const auto open = left_ ? left_ : collection_.count_open();
      const auto blocked = open ? collection_.count_blocked() : std::nullopt;
      if (blocked) {
        collection_.note_blocked(*blocked, tally);
        return *open + *blocked;
      }
    } while (is_worth_repeating(collection_.reply) && patience_.rest("the servers do not answer"));
    return std::nullopt;
  }

  const BackfillRequest& request_;
  const BackfillRule& rule_;
  const StopSignals& stop_;
  BackfillCollection& collection_;
  const BackfillTarget& target_;  // of collection_
  const Documents before_;
  const std::size_t batch_size_;
  const Document find_;

  ProgressDisplay display_;
  Patience patience_;
  BackfillBatch batch_;
  Pace pace_;
  std::vector<BackfillDocument> next_;  // the next batch
  std::size_t bytes_ = 0;               // of them
  std::string why_ended_;               // unless batch_ or stop_ says why
  /// The documents that still lack a value and could get one, once there was reason to count them.
  std::optional<std::uint64_t> left_;
};

/// Prints what a run would do.
ExitCode rehearse(const BackfillRequest& request, const BackfillRule& rule,
                  BackfillCollection& collection, const Documents& documents) {
  BackfillTally tally;
  collection.note_blocked(documents.blocked, tally);
  std::cout << rehearsal_of(subject_of(request, rule), documents.open, documents.with_value(),
                            tally, documents.open > 0 ? rule.samples(documents.open) : "");
  return documents.blocked == 0 ? ExitCode::ok : ExitCode::left;
}

/// Has the rule give the values, once it is ready.
ExitCode carry_out(const BackfillRequest& request, const id_store::Options& store,
                   BackfillRule& rule, const StopSignals& stop) {
  if (const std::string why = rule.await_ready(stop); !why.empty()) {
    return end_with(ExitCode::unavailable, "the rule for " + request.field + " in " + request.ns +
                                               " is not ready: " + why);
  }
  if (const std::string note = rule.note(); !note.empty()) tell(note);
  BackfillCollection collection(target_of(request, rule.plan().front()), store);
  if (const std::string why = collection.why_not_permitted(); !why.empty()) {
    return end_with(ExitCode::unavailable, why);
  }
  const auto documents = collection.count_all();
  if (!documents) return end_with(ExitCode::unavailable, collection.failure_of(collection.reply));
  if (documents->all == 0) std::cerr << printable(request.ns) << " has no documents\n";
  if (request.mode == BackfillRequest::Mode::dry_run) {
    return rehearse(request, rule, collection, *documents);
  }
  return BackfillRun(request, rule, stop, collection, *documents).run();
}

}  // namespace

ExitCode backfill(const BackfillRequest& request) {
  const StopSignals stop;
  (void)std::signal(SIGPIPE, SIG_IGN);  // nobody may read the progress any more
  if (const std::string fault = fault_of(request); !fault.empty()) {
    return end_with(ExitCode::usage, fault);
  }
  auto opened = open_rule(request, ConfigFile::Print::findings);
  if (!opened) return opened.error();
  if (const std::string fault = fault_for(request, opened->rule()); !fault.empty()) {
    return end_with(ExitCode::usage, fault);
  }
  if (const ExitCode code = find_store(opened->file); code != ExitCode::ok) return code;
  const id_store::Options store = opened->config().id_store;
  BackfillRule rule(std::move(opened->config()), opened->index, request);
  return rule.end(carry_out(request, store, rule, stop));
}

}  // namespace idproxy::app::jobs
