#include "idproxy/ids/free_values.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace idproxy::ids {
namespace {

// A query with fewer candidates costs hardly less.
constexpr std::size_t kFewestCandidates = 1000;
// How many more values are looked for than are asked for, since the fill is an estimate.
constexpr double kSpare = 1.2;
constexpr double kFullest = 0.99;

void copy(Bytes value, bson::Type type, Values& out) {
  std::memcpy(out.add(type, value.size()), value.data(), value.size());
}

}  // namespace

FreeValues::FreeValues(std::string db, std::string collection, std::string field,
                       std::shared_ptr<Fill> fill, std::shared_ptr<const Tell> tell)
    : db_(std::move(db)),
      collection_(std::move(collection)),
      field_(std::move(field)),
      fill_(std::move(fill)),
      tell_(std::move(tell)) {}

template <class Event>
void FreeValues::handle(const Event& event) {
  const auto wake_store = [this] {
    if (tell_ && *tell_) (*tell_)(shared_from_this());
  };
  locked(mutex_, wake_store, event);
}

// ---- strategies --------------------------------------------------------------------------------

bool FreeValues::pays(std::size_t n) const {
  if (!fill_->expects_duplicates(n)) return false;
  const std::scoped_lock lock(mutex_);
  return works_;
}

/// Under the lock.
void FreeValues::append(std::size_t n, Values& out) {
  for (const std::size_t end = used_ + n; used_ < end; ++used_) {
    copy(free_[used_], free_.type(), out);
  }
}

bool FreeValues::take(std::size_t n, Values& out) {
  const std::scoped_lock lock(mutex_);
  if (!waiting_.empty() || held() < granted_ + n) return false;
  append(n, out);
  return true;
}

void FreeValues::take_some(std::size_t n, Values& out) {
  const std::scoped_lock lock(mutex_);
  append(std::min(n, held() - std::min(held(), granted_)), out);
}

Ticket FreeValues::ask(std::size_t n, std::unique_ptr<Waiter> waiter) {
  std::uint64_t ticket = 0;
  handle([&](After& after) {
    ticket = waiting_.add(n, std::move(waiter), after);
    if (!works_ || !tell_ || !*tell_) {
      waiting_.refuse_all({Errc::unavailable, "free values cannot be looked up"}, after);
    } else {
      serve(after);
      after.wake = !waiting_.empty() && !std::exchange(is_told_, true);
    }
  });
  return {weak_from_this(), ticket};
}

std::size_t FreeValues::take_granted(Grant grant, Values& out) {
  std::size_t n = 0;
  for (const Range& range : grant.take()) n += range.count;
  const std::scoped_lock lock(mutex_);
  granted_ -= std::min(granted_, n);
  append(std::min(n, held()), out);
  return n;
}

void FreeValues::take_back(const std::vector<Range>& ranges) {
  const std::scoped_lock lock(mutex_);
  for (const Range& range : ranges) granted_ -= std::min<std::size_t>(granted_, range.count);
}

// ---- the store ---------------------------------------------------------------------------------

Values FreeValues::candidates() {
  Draw draw;
  double missing = 0;
  {
    const std::scoped_lock lock(mutex_);
    missing = static_cast<double>(waiting_.needed()) -
              static_cast<double>(held() - std::min(held(), granted_));
    if (missing <= 0) is_told_ = false;
    draw = draw_;
  }
  if (missing <= 0 || !draw) return {};
  // An estimate by few candidates would be a bad one.
  if (!fill_->is_known()) return draw(kMostCandidates);
  const double wanted = kSpare * missing / (1 - std::min(fill_->expected(), kFullest));
  return draw(std::clamp(static_cast<std::size_t>(std::min(wanted, 1e9)), kFewestCandidates,
                         kMostCandidates));
}

/// Under the lock: leaves `keep` of the values that are held.
void FreeValues::compact(std::size_t keep) {
  Values kept;
  const std::size_t end = used_ + std::min(keep, held());
  for (std::size_t i = used_; i < end; ++i) copy(free_[i], free_.type(), kept);
  free_ = std::move(kept);
  used_ = 0;
}

/// Under the lock: adds the free ones of the candidates, and returns how many are new. Of the
/// values from earlier look-ups, keeps those that somebody waits for.
std::size_t FreeValues::add(const Values& candidates, const std::vector<bool>& taken) {
  compact(waiting_.empty() ? granted_ : held());
  std::unordered_set<std::string> known;
  for (std::size_t i = 0; i < free_.size(); ++i) known.emplace(as_text(free_[i]));
  std::size_t added = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (taken[i] || known.contains(std::string(as_text(candidates[i])))) continue;
    copy(candidates[i], candidates.type(), free_);
    ++added;
  }
  return added;
}

void FreeValues::found(const Values& candidates, const std::vector<bool>& taken) {
  fill_->looked_up(candidates.size(),
                   static_cast<std::uint64_t>(std::count(taken.begin(), taken.end(), true)));
  handle([&](After& after) {
    works_ = true;
    const std::size_t added = add(candidates, taken);
    serve(after);
    if (added == 0 || fill_->is_full()) {
      waiting_.refuse_all({Errc::exhausted, "no free value has been found"}, after);
    }
    after.wake = is_told_ = !waiting_.empty();
  });
}

void FreeValues::failed(const Error& error) {
  handle([&](After& after) {
    works_ = is_told_ = false;
    waiting_.refuse_all(error, after);
  });
}

// ---- answers -----------------------------------------------------------------------------------

/// Under the lock: grants values in the order in which they were asked for.
void FreeValues::serve(After& after) {
  while (!waiting_.empty() && held() >= granted_ + waiting_.first()) {
    const std::uint64_t n = waiting_.first();
    granted_ += n;
    waiting_.answer_first(Grant(shared_from_this(), {{0, n}}), after);
  }
}

}  // namespace idproxy::ids
