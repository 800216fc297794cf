#include "id_store/stored_sequences.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::id_store {
namespace {

using ids::Errc;
using ids::GaplessReply;

/// The key of the sequence within its rule, as JSON; empty: it is the only one.
std::string text_of(const ids::GaplessSpec& spec) {
  return spec.place.empty() ? std::string() : mongo::json_of(as_bytes(spec.place));
}

/// The last user's reference wakes the task, which keeps the floor and forgets the sequence.
std::shared_ptr<ids::GaplessQueue> lend_queue(auto& sequence) {
  if (auto lent = sequence.lent.lock()) return lent;
  std::shared_ptr<ids::GaplessQueue> lent(
      sequence.queue.get(), [queue = sequence.queue](ids::GaplessQueue*) { queue->let_go(); });
  sequence.lent = lent;
  return lent;
}

bool is_unused(const auto& sequence) {
  return sequence.lent.expired() && sequence.queue->idle();
}

/// Logs each change once.
void report_sequence(auto& sequence, const ids::GaplessJob& job, const GaplessReply& reply) {
  const std::string reason = reply ? "" : reply.error().reason;
  if (!reply && reply.error().code == Errc::unguarded) return;  // the inspection reports it
  if (std::exchange(sequence.reported, reason) == reason) return;
  const ids::CounterField& field = sequence.queue->spec().field;
  if (reply) {
    log::event(log::Level::info, "gapless_again", "the sequence gives numbers again",
               {{"ns", field.ns}, {"field", field.field}});
  } else if (job.kind == ids::GaplessJob::Kind::keep) {
    log::event(log::Level::warning, "gapless_floor_not_kept",
               "the highest number that was given out cannot be written to the id store: if its "
               "document is deleted and the proxy restarts, it is given out again",
               {{"ns", field.ns}, {"field", field.field}, {"reason", reason}});
  } else {
    log::event(log::Level::error, "gapless_refused",
               "the sequence gives no numbers until the cause is removed",
               {{"ns", field.ns}, {"field", field.field}, {"reason", reason}});
  }
}

/// Warns once.
void report_width(auto& sequence, std::optional<std::int64_t> number) {
  const ids::GaplessSpec& spec = sequence.queue->spec();
  const ids::NumberFormat& format = spec.field.format;
  const bool is_text = format.output == ids::NumberFormat::Output::string;
  if (sequence.is_beyond_width || !is_text || format.pad == 0 || !number) return;
  if (ids::digits_in(*number, format) <= format.pad) return;
  sequence.is_beyond_width = true;
  log::event(log::Level::warning, "gapless_beyond_width",
             "numbers have more digits than their texts have room for: the texts no longer sort "
             "like the numbers, and to find the highest one, all of them are read",
             {{"ns", spec.field.ns}, {"field", spec.field.field}, {"sequence", text_of(spec)}});
}

}  // namespace

StoredSequences::Sequence::Sequence(StoredSequences& owner, const ids::GaplessSpec& spec)
    : document(spec), task(Lane::sequences, [this, &owner] { return owner.run(*this); }) {}

StoredSequences::StoredSequences(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics,
                                 Scheduler& scheduler)
    : pool_(pool), clock_(clock), metrics_(metrics), scheduler_(scheduler) {}

std::shared_ptr<ids::GaplessQueue> StoredSequences::sequence(const ids::GaplessSpec& spec,
                                                             std::uint64_t watch) {
  const auto make = [&] {
    auto made = std::make_shared<Sequence>(*this, spec);
    made->queue = std::make_shared<ids::GaplessQueue>(
        spec, clock_,
        [this, weak = std::weak_ptr(made)] {
          if (const Shared woken = weak.lock()) scheduler_.wake({woken, &woken->task});
        },
        transactions_);
    return made;
  };
  std::shared_ptr<ids::GaplessQueue> queue;
  {
    const std::scoped_lock lock(sequences_.mutex);
    // Sequences that nobody uses: the next insert looks what is stored.
    const auto unused = [](const Shared& each) { return is_unused(*each); };
    if (sequences_.are_many()) sequences_.forget_if(unused);
    // Writes that have the old object still use it. Two objects for one sequence behave as those of
    // two processes.
    const auto [sequence, got] = sequences_.get(
        spec.name(), watch, [&](const Shared& known) { return known->queue->spec() == spec; },
        make);
    sequence->add_field(spec.field, watch);
    queue = lend_queue(*sequence);
    if (got != decltype(sequences_)::Got::made) return queue;
    sequences_.forget_retired_if(unused);
  }
  queue->announce();
  return queue;
}

void StoredSequences::transaction_ended(const std::string& transaction, bool is_durable) {
  for (const auto& sequence : transactions_->end(transaction)) {
    sequence->transaction_ended(transaction, is_durable);
  }
}

std::vector<NotReadyReport> StoredSequences::not_ready() const {
  const bool starves = scheduler_.starves(Lane::sequences);
  return sequences_.not_ready([&](const Sequence& sequence) -> std::optional<ids::Error> {
    if (starves) return no_thread();
    const ids::GaplessStatistics now = sequence.queue->statistics();
    // One of many, whose writes get the reason, unless that is the same for all.
    if (!sequence.queue->spec().field.scope.empty() && !sequence.is_refused) return std::nullopt;
    // Known from the inspection of the collection.
    if (now.failure && now.failure->code == Errc::unguarded) return std::nullopt;
    if (now.failure && !now.next) return now.failure;
    if (sequence.looked) return std::nullopt;
    return not_looked_at("the sequence has");
  });
}

std::vector<InUse> StoredSequences::in_use() const {
  const std::scoped_lock lock(sequences_.mutex);
  std::vector<InUse> found;
  for (const auto& [name, sequence] : sequences_.in_force()) {
    const ids::GaplessSpec& spec = sequence->queue->spec();
    ids::CounterNumbers numbers{sequence->queue->statistics().next, 0, {}};
    if (numbers.next) numbers.left = ids::Steps(1).count(*numbers.next, spec.max);
    found.push_back({numbers, {spec.field}, text_of(spec)});
    if (!spec.place.empty()) found.back().period = bson::text_in(as_bytes(spec.place), "p");
    found.back().count(spec.start, 1, spec.max);
  }
  return found;
}

std::size_t StoredSequences::waiting() const {
  const std::scoped_lock lock(sequences_.mutex);
  std::size_t waiting = 0;
  for (const Shared& sequence : sequences_.all()) waiting += sequence->queue->statistics().waiting;
  return waiting;
}

// ---- the task ----------------------------------------------------------------------------------

std::optional<Scheduler::Time> StoredSequences::run(Sequence& sequence) {
  const bool done = do_job(sequence);
  const std::scoped_lock lock(sequences_.mutex);
  if (done && sequences_.is_stopping()) {
    scheduler_.wake({sequence.shared_from_this(), &sequence.task});
  }
  // One of several sequences of a rule goes at once: the rule limits their number (max_scopes).
  // Others have been announced, and tell whether their rule is ready.
  const ids::GaplessSpec& spec = sequence.queue->spec();
  if (!spec.place.empty() && is_unused(sequence)) sequences_.forget(spec.name(), sequence);
  return sequence.queue->due();
}

/// False if there was no job, or it failed.
bool StoredSequences::do_job(Sequence& sequence) {
  const auto job = sequence.queue->begin();
  if (!job) return false;
  mongo::Client client = pool_.client(&metrics_.round_trips);
  const GaplessReply reply = sequence.document.run(client, *job);
  report_sequence(sequence, *job, reply);
  const bool keeps = job->kind == ids::GaplessJob::Kind::keep;
  report_width(sequence, keeps ? std::optional(job->floor) : reply ? *reply : std::nullopt);
  sequence.queue->finish(reply);
  if (job->kind == ids::GaplessJob::Kind::read) {
    const std::scoped_lock lock(sequences_.mutex);
    sequence.looked = true;
    sequence.is_refused = sequence.document.is_refused();
  }
  return reply.has_value();
}

void StoredSequences::stop() {
  sequences_.stop([this](const Shared& sequence) { scheduler_.wake({sequence, &sequence->task}); });
}

}  // namespace idproxy::id_store
