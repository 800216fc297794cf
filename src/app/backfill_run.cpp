#include "app/backfill_run.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::app {
namespace {

using id_store::mongo::Document;
using id_store::mongo::Reply;

constexpr std::uint32_t kLargestBatch = 1000;
constexpr std::size_t kMostBytes = 1 << 20;  // of the documents in a batch, as far as they are read
// Documents can be stored without a value while the collection is read.
constexpr int kMostPasses = 3;

/// At most what one second allows, so that the rate is even and no cursor waits for long.
std::size_t batch_size_for(std::uint32_t rate) {
  return rate == 0 ? kLargestBatch : std::min(rate, kLargestBatch);
}

std::chrono::nanoseconds pace_clock() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

BackfillRun::BackfillRun(const BackfillTarget& target, BackfillBatch& batch,
                         const id_store::mongo::Pool& pool, const StopSignals& stop,
                         Patience& patience, ProgressDisplay& display, Options options)
    : target_(target),
      batch_(batch),
      client_(pool.client()),
      stop_(stop),
      patience_(patience),
      display_(display),
      order_(std::move(options.order)),
      batch_size_(batch_size_for(options.rate)),
      find_(find_ids(target, without_value_and_open(target), order_,
                     static_cast<std::int32_t>(batch_size_))),
      pace_(options.rate) {}

void BackfillRun::run() {
  for (int pass = 0; pass < kMostPasses && goes_on(); ++pass) {
    const std::uint64_t given = batch_.tally().given;
    left_.reset();
    read_through();
    const bool helped = batch_.tally().given > given;
    if (!goes_on() || !are_more_left() || !helped) return;
  }
}

std::string BackfillRun::why_ended() const {
  if (!batch_.why_ended().empty()) return batch_.why_ended();
  if (!why_ended_.empty()) return why_ended_;
  return stop_.told() ? StopSignals::kReason : "";
}

void BackfillRun::read_through() {
  while (goes_on()) {
    documents_.clear();
    bytes_ = 0;
    const Reply reply =
        client_.read_all(target_.ns.db, find_, [&](Bytes each) { return add(each); });
    if (reply.ok()) {
      if (goes_on() && !documents_.empty()) (void)give();
      return;
    }
    const bool gives_up = !is_worth_repeating(reply) ||
                          !patience_.rest("the servers do not answer: " + reply.message);
    if (gives_up) why_ended_ = "the collection cannot be read: " + reply.message;
  }
}

/// False: read no further.
bool BackfillRun::add(Bytes document) {
  BackfillDocument next{id_of(document)};
  if (batch_.failed().contains(next.id)) return true;
  if (!target_.beside.empty()) next.beside = as_text(document);
  bytes_ += next.id.size() + next.beside.size();
  documents_.push_back(std::move(next));
  return (documents_.size() < batch_size_ && bytes_ < kMostBytes) || give();
}

/// Has the batch given its values. False: read no further.
bool BackfillRun::give() {
  if (stop_.wait_for(pace_.until_next(pace_clock(), documents_.size()))) return false;
  patience_.succeeded();
  batch_.give(std::exchange(documents_, {}));
  bytes_ = 0;
  display_.show(batch_.tally().done());
  return goes_on();
}

bool BackfillRun::are_more_left() {
  Reply reply;
  left_ = count_matching(client_, target_, without_value_and_open(target_), reply);
  return left_ && *left_ > batch_.failed().size();
}

std::optional<std::uint64_t> count_matching(id_store::mongo::Client& client,
                                            const BackfillTarget& target, const Document& filter,
                                            Reply& reply) {
  reply = client.read(target.ns.db, count_documents(target, filter));
  const auto number = bson::find(reply.document.bytes(), "n");
  if (!reply.ok() || !number) return std::nullopt;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(number->as_integer().value_or(0), 0));
}

}  // namespace idproxy::app
