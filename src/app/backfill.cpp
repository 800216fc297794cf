#include "idproxy/app/backfill.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <utility>

#include "backfill_batch.hpp"
#include "backfill_report.hpp"
#include "backfill_request.hpp"
#include "backfill_rule.hpp"
#include "backfill_run.hpp"
#include "config_file.hpp"
#include "id_store/login_advice.hpp"
#include "progress.hpp"
#include "sources.hpp"

namespace idproxy::app {
namespace {

using id_store::mongo::Document;
using id_store::mongo::Pool;
using id_store::mongo::Reply;
using Mode = BackfillRequest::Mode;

// A command may read the whole collection, and sort it on disk.
constexpr std::chrono::hours kReadTimeout{1};

void complain(const std::string& text) {
  std::cerr << "mongo-idproxy: " << text << '\n';
}

/// The documents of the collection before the run.
struct Documents {
  std::uint64_t all = 0;
  std::uint64_t open = 0;     ///< without a value, and can get one
  std::uint64_t blocked = 0;  ///< without a value, and cannot

  [[nodiscard]] std::uint64_t with_value() const {
    return all - std::min(all, open + blocked);  // they are counted one after the other
  }
};

/// One backfill whose rule is ready.
class Backfill {
 public:
  /// Borrows its arguments.
  Backfill(const BackfillRequest& request, const id_store::Options& store, const BackfillRule& rule,
           const StopSignals& stop)
      : request_(request),
        rule_(rule),
        stop_(stop),
        target_(target_of(request, rule.plan().front())),
        reads_(store.uri, kReadTimeout, store.uri_key),
        writes_(store.uri, store.wtimeout, store.uri_key),
        client_(reads_.client()) {}

  [[nodiscard]] ExitCode run();

 private:
  [[nodiscard]] std::string why_not_permitted();
  [[nodiscard]] std::optional<Documents> count_all();
  [[nodiscard]] bool count_some(const Document& filter, std::uint64_t& documents);
  [[nodiscard]] ExitCode rehearse(const Documents& documents);
  [[nodiscard]] ExitCode give(const Documents& documents);
  [[nodiscard]] std::optional<std::uint64_t> count_left(const BackfillRun& run, Patience& patience,
                                                        BackfillTally& tally);
  void note_blocked(std::uint64_t documents, BackfillTally& tally);
  [[nodiscard]] std::string failure_of(const Reply& reply) const;
  [[nodiscard]] std::string subject() const;

  const BackfillRequest& request_;
  const BackfillRule& rule_;
  const StopSignals& stop_;
  const BackfillTarget target_;
  const Pool reads_;
  const Pool writes_;
  id_store::mongo::Client client_;
  Reply reply_;  // to the last count
};

ExitCode Backfill::run() {
  if (const std::string why = why_not_permitted(); !why.empty()) {
    complain(why);
    return ExitCode::unavailable;
  }
  const auto documents = count_all();
  if (!documents) {
    complain(failure_of(reply_));
    return ExitCode::unavailable;
  }
  if (documents->all == 0) std::cerr << request_.ns << " has no documents\n";
  return request_.mode == Mode::dry_run ? rehearse(*documents) : give(*documents);
}

std::string Backfill::why_not_permitted() {
  const Reply reply = writes_.client().write(target_.ns.db, update_of_nothing(target_));
  return reply.ok() ? "" : failure_of(reply);
}

std::string Backfill::failure_of(const Reply& reply) const {
  if (reply.refused(id_store::mongo::kUnauthorized)) {
    return "a backfill needs find and update on " + target_.ns.text() + ": " +
           id_store::advice::needs_read_write(client_.login(), target_.ns.db).reason;
  }
  if (reply.kind != Reply::Kind::refused) return "the servers do not answer: " + reply.message;
  return target_.ns.text() + " cannot be changed: " + reply.message;
}

bool Backfill::count_some(const Document& filter, std::uint64_t& documents) {
  const auto counted = count_matching(client_, target_, filter, reply_);
  documents = counted.value_or(0);
  return counted.has_value();
}

std::optional<Documents> Backfill::count_all() {
  Documents documents;
  if (!count_some(Document(), documents.all)) return std::nullopt;
  if (!count_some(without_value_and_open(target_), documents.open)) return std::nullopt;
  const auto blocked = without_value_and_blocked(target_);
  if (blocked && !count_some(*blocked, documents.blocked)) return std::nullopt;
  return documents;
}

std::string Backfill::subject() const {
  return request_.ns + ": " + request_.field + ", by the strategy " + rule_.rule().strategy_name;
}

ExitCode Backfill::rehearse(const Documents& documents) {
  BackfillTally tally;
  note_blocked(documents.blocked, tally);
  std::cout << rehearsal_of(subject(), documents.open, documents.with_value(), tally,
                            documents.open > 0 ? rule_.samples(documents.open) : "");
  return documents.blocked == 0 ? ExitCode::ok : ExitCode::left;
}

ExitCode Backfill::give(const Documents& documents) {
  std::cerr << with_commas(documents.open) << " documents of " << request_.ns << " without "
            << request_.field << ", in the order of " << request_.sort << '\n'
            << std::flush;
  const auto begun = std::chrono::steady_clock::now();
  ProgressDisplay display(documents.open);
  Patience patience(stop_, display);
  BackfillBatch batch(target_, rule_.plan(), request_.period_from, writes_, stop_, patience);
  BackfillRun run(target_, batch, reads_, stop_, patience, display,
                  {order_of(request_), request_.rate});
  if (documents.open > 0) run.run();
  const auto took = std::chrono::steady_clock::now() - begun;
  BackfillTally tally = batch.tally();
  tally.had_one = documents.with_value();
  const auto left = count_left(run, patience, tally);
  display.finish();
  std::cout << report_of(tally,
                         {subject(), run.why_ended(), left, show_without_value(target_), took});
  return left == 0U ? ExitCode::ok : ExitCode::left;
}

/// How many documents have no value now.
std::optional<std::uint64_t> Backfill::count_left(const BackfillRun& run, Patience& patience,
                                                  BackfillTally& tally) {
  do {
    std::uint64_t open = 0;
    std::uint64_t blocked = 0;
    const bool is_known = run.left() || count_some(without_value_and_open(target_), open);
    const auto filter = without_value_and_blocked(target_);
    if (is_known && (!filter || count_some(*filter, blocked))) {
      note_blocked(blocked, tally);
      return run.left().value_or(open) + blocked;
    }
  } while (is_worth_repeating(reply_) && patience.rest("the servers do not answer"));
  return std::nullopt;
}

void Backfill::note_blocked(std::uint64_t documents, BackfillTally& tally) {
  if (documents == 0) return;
  BackfillTally::Left& left =
      tally.left["a part of the path " + request_.field + " is not an object"];
  left.documents += documents;
  const Document examples = find_ids(target_, *without_value_and_blocked(target_), {},
                                     static_cast<std::int32_t>(BackfillTally::kExamples));
  (void)client_.read_all(target_.ns.db, examples, [&](Bytes id) {
    left.examples.push_back(json_of_id(id));
    return left.examples.size() < BackfillTally::kExamples;
  });
}

/// Has the rule, once it is ready, give the values.
ExitCode carry_out(const BackfillRequest& request, const id_store::Options& store,
                   BackfillRule& rule, const StopSignals& stop) {
  if (const std::string why = rule.await_ready(stop); !why.empty()) {
    complain("the rule for " + request.field + " in " + request.ns + " is not ready: " + why);
    return ExitCode::unavailable;
  }
  if (const std::string note = rule.note(); !note.empty()) complain(note);
  return Backfill(request, store, rule, stop).run();
}

}  // namespace

ExitCode backfill(const BackfillRequest& request) {
  const StopSignals stop;
  (void)std::signal(SIGPIPE, SIG_IGN);  // nobody may read the progress any more
  if (const std::string fault = fault_of(request); !fault.empty()) {
    complain(fault);
    return ExitCode::usage;
  }
  const auto text = read_config_file(request.file);
  if (!text) {
    complain(text.error());
    return ExitCode::no_permission;
  }
  config::Loaded loaded = config::parse(*text, process_sources());
  look_at_mode(request.file, loaded);
  print_findings(std::cerr, request.file, loaded);
  if (!loaded.ok()) return ExitCode::config;
  const auto servers = resolve_servers(request.file, *text, process_sources(), loaded, std::cerr);
  if (!servers) return servers.error();
  const auto index = rule_for(request, loaded.config.rules);
  if (!index) {
    complain(index.error());
    return ExitCode::usage;
  }
  if (const std::string fault = fault_of(request, loaded.config.rules[*index]); !fault.empty()) {
    complain(fault);
    return ExitCode::usage;
  }
  const id_store::Options store = loaded.config.id_store;
  BackfillRule rule(std::move(loaded.config), *index, id_store::split_namespace(request.ns),
                    request.mode);
  const ExitCode code = carry_out(request, store, rule, stop);
  if (rule.stop()) return code;
  // A thread still waits for a server, and the store must not be destroyed.
  std::cout.flush();
  std::_Exit(static_cast<int>(code));
}

}  // namespace idproxy::app
