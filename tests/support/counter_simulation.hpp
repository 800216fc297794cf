#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "idproxy/ids/block_cache.hpp"
#include "support/fake_clock.hpp"

namespace idproxy::test {

/// Proxies that share one counter: their own code (BlockCache) around a
/// model of the counter's document, of the way to it and of the clients. No time passes but that of
/// a FakeClock.
struct Simulation {
  std::size_t proxies = 1;
  double inserts_per_second = 1;  ///< of one document each, through all proxies, at random times
  std::chrono::seconds duration{60};
  std::chrono::seconds warm_up{0};  ///< at first; round trips and waits count from then on
  ids::CounterSpec::Block block{};
  std::size_t kills = 0;     ///< proxies killed and started again, at random times
  std::size_t restarts = 0;  ///< proxies stopped cleanly and started again
  std::chrono::microseconds round_trip{4000};  ///< to the primary and its majority, and back
  std::chrono::microseconds one_write{100};    ///< for this time the document is written by one
  unsigned seed = 1;
};

struct SimulationResult {
  std::uint64_t used = 0;     ///< numbers that documents got
  std::uint64_t waited = 0;   ///< inserts that did not find a number in memory
  std::uint64_t writes = 0;   ///< round trips: blocks fetched and given back
  std::uint64_t reads = 0;    ///< round trips: to see whether the counter went back
  std::uint64_t fetched = 0;  ///< numbers in all blocks
  std::uint64_t largest_block = 0;
  std::uint64_t passed = 0;          ///< numbers lost because another proxy had counted past them
  std::uint64_t killed = 0;          ///< numbers lost with killed proxies
  std::uint64_t missing = 0;         ///< numbers that nobody got, holds or will get
  std::uint64_t twice = 0;           ///< documents whose number another one has
  bool held_more_than_two = false;   ///< a proxy held more than its last two blocks
  bool believed_to_be_back = false;  ///< a proxy thought that the counter had gone back
  std::int64_t most_behind = 0;      ///< by how much a number was lower than one given before it
  std::chrono::milliseconds p99_late{0};  ///< how long after a higher one a number was given
  std::chrono::milliseconds most_late{0};
};

class CounterSimulation {
 public:
  explicit CounterSimulation(const Simulation& options) : options_(options), chance_(options.seed) {
    spec_.block = options.block;
    for (std::size_t i = 0; i < options.proxies; ++i) start(i);
  }
  CounterSimulation(const CounterSimulation&) = delete;
  CounterSimulation& operator=(const CounterSimulation&) = delete;

  SimulationResult run() {
    const Time end = kStart + options_.duration;
    for (std::size_t i = 0; i < options_.proxies; ++i) {
      push(kStart + next_insert(), i, What::insert);
      push(kStart + random_time(kWatchEvery), i, What::watch);
    }
    for (std::size_t i = 0; i < options_.kills; ++i) push_anywhere(What::kill);
    for (std::size_t i = 0; i < options_.restarts; ++i) push_anywhere(What::restart);
    while (!events_.empty() && events_.top().at < end) {
      const Event event = events_.top();
      events_.pop();
      clock_.advance(event.at - clock_.monotonic());
      if (clock_.monotonic() - kStart < options_.warm_up) {
        result_.writes = result_.reads = result_.waited = 0;
      }
      happen(event);
    }
    return finished();
  }

 private:
  using Time = std::chrono::nanoseconds;
  using Job = ids::CounterJob::Kind;
  using Reply = ids::CounterReply::Kind;
  static constexpr std::chrono::seconds kWatchEvery{10};
  static constexpr Time kStart{1};  // FakeClock's

  /// In the order of a job: begin, arrive (at the document), answer.
  enum class What { insert, begin, arrive, answer, watch, read, tell, kill, restart };
  struct Event {
    Time at;
    std::uint64_t order;
    std::size_t proxy;
    What what;
    std::uint64_t process;
    bool operator<(const Event& other) const {  // the first one is the greatest
      return std::tie(other.at, other.order) < std::tie(at, order);
    }
  };
  struct Proxy {
    std::uint64_t process = 0;  // changes with each start
    std::shared_ptr<ids::BlockCache> cache;
    std::optional<ids::CounterJob> job;
    std::optional<ids::CounterReply> reply;  // on its way
    std::optional<ids::WatchMark> mark;
    std::int64_t read = 0;
    std::deque<ids::Ticket> tickets;
    std::uint64_t last_block = 0;
  };
  class Insert final : public ids::Waiter {
   public:
    explicit Insert(CounterSimulation& simulation) : simulation_(simulation) {}
    void answered(ids::Result<ids::Grant> grant) override {
      if (grant) simulation_.use(grant->take());
    }

   private:
    CounterSimulation& simulation_;
  };

  void start(std::size_t i) {
    Proxy& proxy = proxies_[i];
    const std::uint64_t process = proxy.process + 1;
    proxy = {};
    proxy.process = process;
    proxy.cache = std::make_shared<ids::BlockCache>(
        spec_, clock_, [this, i] { push(clock_.monotonic(), i, What::begin); });
  }

  void happen(const Event& event) {
    Proxy& proxy = proxies_[event.proxy];
    const bool is_of_this_process = event.process == proxy.process;
    switch (event.what) {
      case What::insert:
        push(clock_.monotonic() + next_insert(), event.proxy, What::insert);
        return insert(proxy);
      case What::watch:
        push(clock_.monotonic() + kWatchEvery, event.proxy, What::watch);
        return watch(event.proxy);
      case What::kill:
        return kill(event.proxy);
      case What::restart:
        return restart(event.proxy);
      case What::begin:
        return is_of_this_process ? begin(event.proxy) : void();
      case What::arrive:
        return is_of_this_process ? arrive(event.proxy) : void();
      case What::answer:
        return is_of_this_process ? answer(event.proxy) : void();
      case What::read:
        if (is_of_this_process) {
          proxy.read = value_;
          push(clock_.monotonic() + options_.round_trip / 2, event.proxy, What::tell);
        }
        return;
      case What::tell:
        if (is_of_this_process) proxy.cache->watched(proxy.read, *std::exchange(proxy.mark, {}));
        return;
    }
  }

  void insert(Proxy& proxy) {
    ranges_.clear();
    if (proxy.cache->take(1, ranges_)) return use(ranges_);
    ++result_.waited;
    while (proxy.tickets.size() > 10'000) proxy.tickets.pop_front();  // long since answered
    proxy.tickets.push_back(proxy.cache->ask(1, std::make_unique<Insert>(*this)));
  }

  void begin(std::size_t i) {
    Proxy& proxy = proxies_[i];
    if (proxy.job) return;
    proxy.job = proxy.cache->begin();
    note_lost(proxy);
    if (proxy.job) {
      push(clock_.monotonic() + options_.round_trip / 2, i, What::arrive);
    } else {
      push_due(i);
    }
  }
  /// Writes to one document follow each other.
  void arrive(std::size_t i) {
    const Time begun = std::max(clock_.monotonic(), free_at_);
    free_at_ = begun + options_.one_write;
    proxies_[i].reply = carry_out(*proxies_[i].job);
    push(free_at_ + options_.round_trip / 2, i, What::answer);
  }
  void answer(std::size_t i) {
    Proxy& proxy = proxies_[i];
    const ids::CounterJob job = *std::exchange(proxy.job, {});
    const ids::CounterReply reply = *std::exchange(proxy.reply, {});
    if (reply.kind == Reply::allocated) {
      const std::uint64_t before = proxy.cache->statistics().held;
      const std::uint64_t last = std::exchange(proxy.last_block, job.count);
      if (before > last) result_.held_more_than_two = true;
    }
    const ids::BlockOutcome outcome = proxy.cache->finish(reply);
    if (outcome == ids::BlockOutcome::went_back) result_.believed_to_be_back = true;
    note_lost(proxy);
    push(clock_.monotonic(), i, What::begin);
  }
  ids::CounterReply carry_out(const ids::CounterJob& job) {
    ++result_.writes;
    const auto count = static_cast<std::int64_t>(job.count);
    if (job.kind == Job::confirm) return {Reply::stands, {value_, 0}, {}};
    if (job.kind == Job::give_back) {
      if (job.unused.first + count != value_) return {Reply::overtaken, {}, {}};
      value_ = job.unused.first;
      return {Reply::given_back, {}, {}};
    }
    result_.fetched += job.count;
    result_.largest_block = std::max(result_.largest_block, job.count);
    return {Reply::allocated, {std::exchange(value_, value_ + count), job.count}, {}};
  }

  void watch(std::size_t i) {
    Proxy& proxy = proxies_[i];
    if (proxy.mark) return;
    proxy.mark = proxy.cache->watch_mark();
    if (!proxy.mark) return;
    ++result_.reads;
    push(clock_.monotonic() + options_.round_trip / 2, i, What::read);
  }

  void kill(std::size_t i) {
    Proxy& proxy = proxies_[i];
    result_.killed += proxy.cache->statistics().held;
    if (proxy.job && !proxy.reply) proxy.reply = carry_out(*proxy.job);
    if (proxy.reply && proxy.reply->kind == Reply::allocated) result_.killed += proxy.job->count;
    start(i);
  }
  void restart(std::size_t i) {
    Proxy& proxy = proxies_[i];
    if (proxy.job && !proxy.reply) proxy.reply = carry_out(*proxy.job);
    if (proxy.reply) proxy.cache->finish(*proxy.reply);
    proxy.cache->stop();
    while (const auto job = proxy.cache->begin()) proxy.cache->finish(carry_out(*job));
    note_lost(proxy);
    start(i);
  }
  void note_lost(Proxy& proxy) {
    for (const ids::Range& range : proxy.cache->take_lost()) result_.passed += range.count;
  }

  void use(const std::vector<ids::Range>& ranges) {
    const std::int64_t number = ranges.front().first;
    const auto at = static_cast<std::size_t>(number);
    if (seen_.size() <= at) seen_.resize(2 * at + 1);
    result_.twice += seen_[at] ? 1U : 0U;
    seen_[at] = true;
    ++result_.used;
    note_order(number);
  }
  /// highest_[i] is the highest number given in the first i + 1 milliseconds.
  void note_order(std::int64_t number) {
    const auto now = static_cast<std::size_t>(clock_.monotonic() / std::chrono::milliseconds(1));
    if (highest_.size() <= now) highest_.resize(now + 1, highest_.empty() ? 0 : highest_.back());
    const std::int64_t highest = highest_.back();
    highest_.back() = std::max(highest, number);
    result_.most_behind = std::max(result_.most_behind, highest - number);
    std::size_t late = 0;
    if (number < highest) {
      const auto higher = std::upper_bound(highest_.begin(), highest_.end(), number);
      late = now - static_cast<std::size_t>(higher - highest_.begin());
    }
    if (late_.size() <= late) late_.resize(late + 1);
    ++late_[late];
  }

  SimulationResult finished() {
    std::uint64_t somewhere = result_.used;
    for (const auto& proxy : proxies_) {
      somewhere += proxy.cache->statistics().held;
      const bool is_fetching = proxy.reply && proxy.reply->kind == Reply::allocated;
      const bool is_returning = proxy.job && proxy.job->kind == Job::give_back && !proxy.reply;
      if (is_fetching || is_returning) somewhere += proxy.job->count;
      if (proxy.reply && proxy.reply->kind == Reply::overtaken) result_.passed += proxy.job->count;
    }
    result_.missing = static_cast<std::uint64_t>(value_ - 1) - somewhere;
    std::uint64_t later = 0;
    for (std::size_t i = late_.size(); i-- > 0;) {
      later += late_[i];
      const std::chrono::milliseconds late(i);
      if (later > 0) result_.most_late = std::max(result_.most_late, late);
      if (later * 100 > result_.used) {
        result_.p99_late = late;
        break;
      }
    }
    for (auto& proxy : proxies_) proxy.tickets.clear();
    return result_;
  }

  Time next_insert() {
    const double each = options_.inserts_per_second / static_cast<double>(options_.proxies) * 1e-9;
    return Time(std::llround(std::exponential_distribution<double>(each)(chance_)) + 1);
  }
  Time random_time(Time below) {
    return Time(std::uniform_int_distribution<std::int64_t>(0, below.count())(chance_));
  }
  void push(Time at, std::size_t proxy, What what) {
    events_.push({at, ++pushed_, proxy, what, proxies_[proxy].process});
  }
  void push_anywhere(What what) {
    const auto proxy = std::uniform_int_distribution<std::size_t>(0, options_.proxies - 1)(chance_);
    push(kStart + random_time(options_.duration), proxy, what);
  }
  void push_due(std::size_t i) {
    const auto due = proxies_[i].cache->due();
    if (due) push(std::max(*due, clock_.monotonic()), i, What::begin);
  }

  const Simulation options_;
  std::mt19937_64 chance_;
  FakeClock clock_;
  ids::CounterSpec spec_;
  std::vector<Proxy> proxies_ = std::vector<Proxy>(options_.proxies);
  std::priority_queue<Event> events_;
  std::uint64_t pushed_ = 0;
  std::int64_t value_ = 1;  // of the counter's document
  Time free_at_{};          // of the document
  std::vector<ids::Range> ranges_;
  std::vector<bool> seen_;
  std::vector<std::int64_t> highest_;
  std::vector<std::uint64_t> late_;  // documents, by how many milliseconds they are late
  SimulationResult result_;
};

}  // namespace idproxy::test
