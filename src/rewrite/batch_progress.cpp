#include "rewrite/batch_progress.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace idproxy::rewrite {
namespace {

// mongod takes about as long to store this many documents as one more command costs.
constexpr std::size_t kSmallestTail = 100;
// No batch has more statements.
constexpr std::size_t kLargestTail = 100'000;

}  // namespace

BatchProgress::BatchProgress(std::size_t statements, Stops stops)
    : stops_(stops), todo_(statements) {
  std::iota(todo_.begin(), todo_.end(), 0);
}

void BatchProgress::sent_whole() {
  out_ = std::exchange(todo_, {});
  commands_ = 1;
}

void BatchProgress::send(std::size_t most) {
  std::size_t count = std::min(most, todo_.size());
  if (stops_ == Stops::never) count = std::min(count, kPartStatements);
  repeats_ = again_ > 0;
  if (repeats_) {
    count = std::min(count, again_);
    again_ -= count;
  }
  if (tail_) count = std::min(count, *tail_);
  const auto end = todo_.begin() + static_cast<std::ptrdiff_t>(count);
  out_.assign(todo_.begin(), end);
  todo_.erase(todo_.begin(), end);
  failed_.reset();
  ++commands_;
}

void BatchProgress::shorten(std::size_t count) {
  const auto rest = out_.begin() + static_cast<std::ptrdiff_t>(count);
  todo_.insert(todo_.begin(), rest, out_.end());
  if (repeats_) again_ += out_.size() - count;
  out_.erase(rest, out_.end());
}

void BatchProgress::join() {
  out_.insert(out_.end(), todo_.begin(), todo_.end());
  todo_.clear();
}

void BatchProgress::answered(std::optional<std::size_t> failed) {
  if (stops_ != Stops::at_errors) return;
  failed_ = failed;
  limit_tail(failed);
}

/// mongod stores nothing of an ordered batch after the first error, so that sending the whole rest
/// after each of many collisions would take quadratic time. So an error halves the size of the next
/// command, but not below kSmallestTail or twice the number of statements that succeeded before the
/// error; a command without an error doubles it.
void BatchProgress::limit_tail(std::optional<std::size_t> failed) {
  if (failed) {
    tail_ = std::max({kSmallestTail, 2 * *failed, tail_.value_or(out_.size()) / 2});
  } else if (tail_) {
    *tail_ = std::min(2 * *tail_, kLargestTail);
  }
}

void BatchProgress::repeat(std::span<const std::int32_t> statements) {
  todo_.insert(todo_.begin(), statements.begin(), statements.end());
  if (stops_ == Stops::never) again_ += statements.size();
}

std::span<const std::int32_t> BatchProgress::tried() const {
  return out().first(failed_.value_or(out_.size()));
}

std::span<const std::int32_t> BatchProgress::tail() const {
  return out().subspan(failed_.value_or(out_.size()));
}

/// Not with `multi: true`: it may have changed documents before it failed.
void Fates::failed(std::int32_t statement) {
  if (!given_.is_multi(statement)) set({&statement, 1}, Fate::undone);
}

/// A server that stops at an error undoes the transaction that its statement is in. If the error
/// leaves open whether it is stored, it is not known what became of the statements behind it,
/// either: several may be one command of a mongos to its shard.
void Fates::answered(const WriteReply& reply, std::span<const std::int32_t> statements,
                     const WriteOptions& options, const Operation& command) {
  auto error = reply.errors.begin();
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const std::int32_t each = statements[i];
    const bool has_failed =
        error != reply.errors.end() && static_cast<std::size_t>(error->index) == i;
    const bool is_undone = has_failed ? denies((error++)->document)
                                      : !command.inserted(each) && !may_be_held(each, reply);
    const bool stops = has_failed && options.stops();
    const auto undone = statements.subspan(i, stops ? std::dynamic_extent : 1);
    if (is_undone) std::ranges::for_each(undone, [this](std::int32_t its) { failed(its); });
    if (!stops) continue;
    for (std::int32_t any = 0; is_undone && options.in_transaction && any < std::ssize(all_);
         ++any) {
      if (of(any) == Fate::sent) failed(any);
    }
    return;
  }
}

}  // namespace idproxy::rewrite
