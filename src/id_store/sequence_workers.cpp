#include "id_store/sequence_workers.hpp"

#include <algorithm>
#include <utility>

#include "id_store/counter_commands.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/observability/log.hpp"

namespace idproxy::id_store {
namespace {

using ids::GaplessReply;

// How many sequences can be looked at at once. A look mostly waits for the servers' majority, and
// an insert can need those of many sequences.
constexpr std::size_t kMostSequenceThreads = 32;
// The number of sequences from which on sweep() looks for ones to forget: clients can invent names
// of collections.
constexpr std::size_t kSweepSequencesAt = 1024;

/// Which of its rule's sequences it is, as JSON; empty: the only one.
std::string text_of(const ids::GaplessSpec& spec) {
  if (spec.place.empty()) return {};
  ids::CounterPlace place;
  place.key = spec.place;
  place.key_is = ids::CounterPlace::KeyIs::document;
  return key_text(place);
}

}  // namespace

SequenceWorkers::SequenceWorkers(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics)
    : pool_(pool), clock_(clock), metrics_(metrics), sweep_at_(kSweepSequencesAt) {}

SequenceWorkers::~SequenceWorkers() {
  (void)stop(std::chrono::milliseconds(0));
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<ids::GaplessQueue> SequenceWorkers::sequence(const ids::GaplessSpec& spec,
                                                             std::uint64_t watch) {
  std::shared_ptr<ids::GaplessQueue> queue;
  {
    const std::scoped_lock lock(mutex_);
    if (sequences_.size() >= sweep_at_) sweep();
    Shared& sequence = sequences_[spec.name()];
    const bool is_newer = sequence && watch > sequence->watch;
    if (sequence && !(is_newer && sequence->queue->spec() != spec)) {
      sequence->watch = std::max(sequence->watch, watch);
      return lend(*sequence);
    }
    // Writes that have the old object still use it. Two objects for one sequence behave as those of
    // two processes.
    sequence = make(spec);
    sequence->watch = watch;
    queue = lend(*sequence);
  }
  queue->announce();
  return queue;
}

SequenceWorkers::Shared SequenceWorkers::make(const ids::GaplessSpec& spec) {
  auto sequence = std::make_shared<Sequence>(spec);
  sequence->queue = std::make_shared<ids::GaplessQueue>(
      spec, clock_,
      [this, weak = std::weak_ptr(sequence)] {
        if (const Shared woken = weak.lock()) wake(woken);
      },
      transactions_);
  if (stopping_) sequence->queue->stop();
  return sequence;
}

/// The last user's reference wakes a thread, which keeps the floor and forgets the sequence.
std::shared_ptr<ids::GaplessQueue> SequenceWorkers::lend(Sequence& sequence) {
  if (auto lent = sequence.lent.lock()) return lent;
  std::shared_ptr<ids::GaplessQueue> lent(
      sequence.queue.get(), [queue = sequence.queue](ids::GaplessQueue*) { queue->let_go(); });
  sequence.lent = lent;
  return lent;
}

void SequenceWorkers::transaction_ended(const std::string& transaction) {
  for (const auto& sequence : transactions_->end(transaction)) {
    sequence->transaction_ended(transaction);
  }
}

std::vector<SequenceWorkers::Shared> SequenceWorkers::all() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Shared> found;
  found.reserve(sequences_.size());
  for (const auto& [key, sequence] : sequences_) found.push_back(sequence);
  return found;
}

void SequenceWorkers::await_looks(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  looked_.wait_for(lock, limit, [this] {
    return stopping_ ||
           std::ranges::all_of(sequences_, [](const auto& item) { return item.second->looked; });
  });
}

std::vector<CounterWorkers::NotReady> SequenceWorkers::not_ready() const {
  const std::scoped_lock lock(mutex_);
  std::vector<CounterWorkers::NotReady> found;
  for (const auto& [key, sequence] : sequences_) {
    const ids::GaplessStatistics now = sequence->queue->statistics();
    const std::vector<ids::CounterField> field{sequence->queue->spec().field};
    // One of many, whose writes get the reason, unless that is the same for all.
    if (!field.front().scope.empty() && !sequence->is_refused) continue;
    if (now.is_unguarded) continue;  // which is known from the inspection of the collection
    if (now.failure && !now.next) {
      found.push_back({{*now.failure, false}, field});
    } else if (!sequence->looked) {
      found.push_back(
          {{{ids::Errc::unavailable, "the sequence has not been looked at yet"}, true}, field});
    }
  }
  return found;
}

std::vector<CounterWorkers::InUse> SequenceWorkers::in_use() const {
  const std::scoped_lock lock(mutex_);
  std::vector<CounterWorkers::InUse> found;
  for (const auto& [key, sequence] : sequences_) {
    const ids::GaplessSpec& spec = sequence->queue->spec();
    ids::CounterNumbers numbers{sequence->queue->statistics().next, 0, {}};
    if (numbers.next) numbers.left = ids::Steps(1).count(*numbers.next, spec.max);
    found.push_back({numbers, {spec.field}, text_of(spec)});
    found.back().count(spec.start, 1, spec.max);
  }
  return found;
}

std::size_t SequenceWorkers::waiting() const {
  std::size_t waiting = 0;
  for (const Shared& sequence : all()) waiting += sequence->queue->statistics().waiting;
  return waiting;
}

// ---- the queue of jobs -------------------------------------------------------------------------

/// Starts one more if those that wait for work do not suffice.
void SequenceWorkers::start_thread() {
  const bool suffice = queue_.size() <= idle_ || threads_.size() == kMostSequenceThreads;
  if (suffice || stopping_) return;
  ++running_;
  threads_.emplace_back([this] { run(); });
}

bool SequenceWorkers::is_unused(const Sequence& sequence) {
  return !sequence.queued && !sequence.running && sequence.lent.expired() && sequence.queue->idle();
}

/// Forgets sequences that nobody uses. The next insert looks what is stored.
void SequenceWorkers::sweep() {
  std::erase_if(sequences_, [](const auto& item) { return is_unused(*item.second); });
  sweep_at_ = std::max(kSweepSequencesAt, 2 * sequences_.size());
}

/// One of several sequences of a rule: the rule limits their number (max_scopes). Others have been
/// announced, and tell whether their rule is ready.
void SequenceWorkers::forget_if_unused(const Shared& sequence) {
  const ids::GaplessSpec& spec = sequence->queue->spec();
  if (spec.place.empty() || !is_unused(*sequence)) return;
  const auto known = sequences_.find(spec.name());
  if (known != sequences_.end() && known->second == sequence) sequences_.erase(known);
}

void SequenceWorkers::wake(const Shared& sequence) {
  const std::scoped_lock lock(mutex_);
  enqueue(sequence);
}

void SequenceWorkers::enqueue(const Shared& sequence) {
  if (sequence->running) {
    sequence->woken_meanwhile = true;
  } else if (!std::exchange(sequence->queued, true)) {
    queue_.push_back(sequence);
    start_thread();
    changed_.notify_one();
  }
}

/// Notes when the sequence may have a job without being woken. Each time that this changes, it is
/// woken or has just had a job.
void SequenceWorkers::schedule(const Shared& sequence) {
  const auto due = sequence->queue->due();
  if (!due || (sequence->due && *sequence->due <= *due)) return;
  sequence->due = due;
  due_.emplace(*due, sequence);
}

/// Returns when the next one is due.
std::optional<std::chrono::nanoseconds> SequenceWorkers::enqueue_due() {
  const auto now = clock_.monotonic();
  while (!due_.empty() && due_.begin()->first <= now) {
    const Shared sequence = due_.begin()->second.lock();
    due_.erase(due_.begin());
    if (!sequence) continue;
    sequence->due.reset();
    enqueue(sequence);
  }
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

/// Waits for the next sequence with work; null if the thread must end.
SequenceWorkers::Shared SequenceWorkers::next(std::unique_lock<std::mutex>& lock) {
  while (queue_.empty()) {
    if (stopping_) return nullptr;
    const auto due = enqueue_due();
    if (!queue_.empty()) break;
    ++idle_;
    if (due) {
      changed_.wait_for(lock, *due - clock_.monotonic());
    } else {
      changed_.wait(lock);
    }
    --idle_;
  }
  Shared sequence = std::move(queue_.front());
  queue_.pop_front();
  sequence->queued = false;
  sequence->running = true;
  return sequence;
}

void SequenceWorkers::run() {
  std::unique_lock lock(mutex_);
  while (const Shared sequence = next(lock)) {
    lock.unlock();
    const bool done = do_job(*sequence);
    lock.lock();
    sequence->running = false;
    const bool woken = std::exchange(sequence->woken_meanwhile, false);
    if (woken || (stopping_ && done)) {
      enqueue(sequence);
    } else {
      schedule(sequence);
      forget_if_unused(sequence);
    }
  }
  --running_;
  changed_.notify_all();
}

/// False if there was no job, or it failed.
bool SequenceWorkers::do_job(Sequence& sequence) {
  const auto job = sequence.queue->begin();
  if (!job) return false;
  mongo::Client client = pool_.client(&metrics_.round_trips);
  const GaplessReply reply = sequence.document.run(client, *job);
  report(sequence, *job, reply);
  const bool keeps = job->kind == ids::GaplessJob::Kind::keep;
  look_at_width(sequence, keeps ? std::optional(job->floor) : reply.most);
  sequence.queue->finish(reply);
  if (job->kind == ids::GaplessJob::Kind::look) {
    const std::scoped_lock lock(mutex_);
    sequence.looked = true;
    sequence.is_refused = sequence.document.is_refused();
    looked_.notify_all();
  }
  return reply.kind == GaplessReply::Kind::found || reply.kind == GaplessReply::Kind::kept;
}

/// Logs each change once.
void SequenceWorkers::report(Sequence& sequence, const ids::GaplessJob& job,
                             const GaplessReply& reply) {
  if (reply.kind == GaplessReply::Kind::unguarded) return;  // the inspection reports it
  const std::string before = std::exchange(sequence.reported, reply.reason);
  if (before == reply.reason) return;
  const ids::CounterField& field = sequence.queue->spec().field;
  if (reply.reason.empty()) {
    log::event(log::Level::info, "gapless_again", "the sequence gives numbers again",
               {{"ns", field.ns}, {"field", field.field}});
  } else if (job.kind == ids::GaplessJob::Kind::keep) {
    log::event(log::Level::warning, "gapless_floor_not_kept",
               "the highest number that was given out cannot be written to the id store: if its "
               "document is deleted and the proxy restarts, it is given out again",
               {{"ns", field.ns}, {"field", field.field}, {"reason", reply.reason}});
  } else {
    log::event(log::Level::error, "gapless_refused",
               "the sequence gives no numbers until the cause is removed",
               {{"ns", field.ns}, {"field", field.field}, {"reason", reply.reason}});
  }
}

/// Warns once.
void SequenceWorkers::look_at_width(Sequence& sequence, std::optional<std::int64_t> number) {
  const ids::GaplessSpec& spec = sequence.queue->spec();
  const ids::NumberFormat& format = spec.field.format;
  const bool is_text = format.output == ids::NumberFormat::Output::string;
  if (sequence.is_beyond_width || !is_text || format.pad == 0 || !number) return;
  if (std::to_string(*number).size() <= format.pad) return;
  sequence.is_beyond_width = true;
  log::event(log::Level::warning, "gapless_beyond_width",
             "numbers have more digits than their texts have room for: the texts no longer sort "
             "like the numbers, and to find the highest one, all of them are read",
             {{"ns", spec.field.ns}, {"field", spec.field.field}, {"sequence", text_of(spec)}});
}

bool SequenceWorkers::stop(std::chrono::milliseconds limit) {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  const std::vector<Shared> sequences = all();
  for (const Shared& sequence : sequences) sequence->queue->stop();
  std::unique_lock lock(mutex_);
  for (const Shared& sequence : sequences) enqueue(sequence);
  changed_.notify_all();
  looked_.notify_all();
  return changed_.wait_for(lock, limit, [this] { return running_ == 0; });
}

}  // namespace idproxy::id_store
