#include "id_store/inspector.hpp"

#include <algorithm>
#include <utility>

#include "id_store/inspector_questions.hpp"
#include "idproxy/observability/log.hpp"

namespace idproxy::id_store {
namespace {

// For an index of a large collection.
constexpr std::chrono::hours kPatience{24};

bool any_creates(const std::vector<Watched>& rules) {
  return std::any_of(rules.begin(), rules.end(), [](const Watched& rule) {
    return rule.unique_index == ids::UniqueIndex::create && rule.field != "_id";
  });
}

void write(const Remark& remark) {
  const auto& [first, second, third] = remark.fields;
  if (second.value.empty()) {
    return log::event(remark.level, remark.event, remark.message, {{first.name, first.value}});
  }
  log::event(remark.level, remark.event, remark.message,
             {{first.name, first.value}, {second.name, second.value}, {third.name, third.value}});
}

}  // namespace

Inspector::Inspector(const Options& options, const mongo::Pool& pool, const Clock& clock)
    : pool_(pool), clock_(clock), collections_(options.rules, clock.monotonic()) {
  if (options.rules.empty()) return;
  running_ = 1;
  if (any_creates(options.rules)) {
    patient_ = std::make_unique<mongo::Pool>(options.uri, kPatience);
    ++running_;
    makes_indexes_ = std::thread([this] { run(Collections::Asks::make_index, *patient_); });
  }
  looks_ = std::thread([this] { run(Collections::Asks::looks, pool_); });
}

Inspector::~Inspector() {
  (void)stop(std::chrono::milliseconds(0));
  if (looks_.joinable()) looks_.join();
  if (makes_indexes_.joinable()) makes_indexes_.join();
}

bool Inspector::stop(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, limit, [this] { return running_ == 0; });
}

void Inspector::await_first_look(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return stopping_ || collections_.looked(); });
}

std::shared_ptr<ids::Fill> Inspector::fill(std::string_view ns, std::string_view field) {
  const std::scoped_lock lock(mutex_);
  auto fill = collections_.fill(ns, field, clock_.monotonic());
  if (collections_.take_news()) changed_.notify_all();
  return fill;
}

ids::Standing Inspector::standing(std::size_t rule_index, std::string_view db,
                                  std::string_view collection) {
  const std::scoped_lock lock(mutex_);
  auto standing = collections_.standing(rule_index, db, collection, clock_.monotonic());
  if (collections_.take_news()) changed_.notify_all();
  return standing;
}

std::vector<ids::NotReady> Inspector::not_ready(std::size_t most_per_rule) const {
  const std::scoped_lock lock(mutex_);
  return collections_.not_ready(most_per_rule);
}

void Inspector::run(Collections::Asks its, const mongo::Pool& pool) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (const auto question = collections_.next(its, clock_.monotonic())) {
      lock.unlock();
      Answer answer;
      {
        mongo::Client client = pool.client();
        answer = ask(client, *question);
      }
      lock.lock();
      collections_.learn(*question, answer, clock_.monotonic());
      version_.store(collections_.version(), std::memory_order_release);
      changed_.notify_all();
    } else {
      wait(lock, its);
    }
    tell(lock);
  }
  --running_;
  changed_.notify_all();
}

/// Writing to the log may block: nobody else shall wait for that.
void Inspector::tell(std::unique_lock<std::mutex>& lock) {
  const auto remarks = collections_.remarks(clock_.monotonic());
  if (remarks.empty()) return;
  lock.unlock();
  std::for_each(remarks.begin(), remarks.end(), write);
  lock.lock();
}

void Inspector::wait(std::unique_lock<std::mutex>& lock, Collections::Asks its) {
  const auto due = collections_.due(its);
  if (!due) {
    changed_.wait(lock);
  } else if (const auto now = clock_.monotonic(); *due > now) {
    changed_.wait_for(lock, *due - now);
  }
}

}  // namespace idproxy::id_store
