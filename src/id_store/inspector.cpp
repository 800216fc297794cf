#include "id_store/inspector.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "id_store/inspection_requests.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::id_store {
namespace {

// For an index of a large collection.
constexpr std::chrono::hours kPatience{24};
// So that writes into many collections do not wait for each other for long.
constexpr std::size_t kAwaitedThreads = 3;
// So that one collection does not wait for the index of another one, which takes hours.
constexpr std::size_t kIndexThreads = 2;

void write(const LogEvent& event) {
  std::vector<log::Field> fields;
  for (const auto& [name, value] : event.fields) {
    if (!value.empty()) fields.emplace_back(name, value);
  }
  const auto say = [&](std::initializer_list<log::Field> all) {
    log::event(event.level, event.event, event.message, all);
  };
  if (fields.empty()) return say({});
  if (fields.size() == 1) return say({fields[0]});
  if (fields.size() == 2) return say({fields[0], fields[1]});
  say({fields[0], fields[1], fields[2]});
}

void answer_at_end(ids::IndexRoom& room) {
  room.answer(ids::Error{.code = ids::Errc::unavailable,
                         .reason = "mongo-idproxy is shutting down",
                         .is_transient = true});
}

/// The newest first.
std::vector<std::shared_ptr<Inspection>> in_use(
    const std::vector<std::weak_ptr<Inspection>>& inspections) {
  std::vector<std::shared_ptr<Inspection>> found;
  for (auto known = inspections.rbegin(); known != inspections.rend(); ++known) {
    if (auto inspection = known->lock()) found.push_back(std::move(inspection));
  }
  return found;
}

std::shared_ptr<Inspection> newest(const std::vector<std::weak_ptr<Inspection>>& inspections) {
  const auto all = in_use(inspections);
  return all.empty() ? nullptr : all.front();
}

/// Only the newest inspection makes indexes: an older one may have rules that are gone.
std::vector<std::shared_ptr<Inspection>> asking(
    const std::vector<std::weak_ptr<Inspection>>& inspections, Inspection::Asks asks) {
  auto all = in_use(inspections);
  if (asks == Inspection::Asks::indexes && !all.empty()) all.resize(1);
  return all;
}

/// Without the lock: who is answered may ask again.
void answer_guards(const std::vector<std::weak_ptr<Inspection>>& inspections,
                   std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<ids::Guard>> answers;
  for (const auto& inspection : in_use(inspections)) {
    std::ranges::move(inspection->take_answers(), std::back_inserter(answers));
  }
  if (answers.empty()) return;
  lock.unlock();
  for (const auto& guard : answers) guard->answer();
  lock.lock();
}

}  // namespace

Inspector::Inspector(std::string uri, const mongo::Pool& pool, const Clock& clock,
                     ids::Store::Version& version, Scheduler& scheduler)
    : uri_(std::move(uri)), pool_(pool), clock_(clock), version_(version), scheduler_(scheduler) {}

void Inspector::drain() {
  std::vector<std::weak_ptr<ids::IndexRoom>> asked;
  {
    const std::scoped_lock lock(mutex_);
    draining_ = true;
    asked.swap(asked_rooms_);
  }
  for (const auto& each : asked) {
    if (const auto room = each.lock()) answer_at_end(*room);
  }
}

void Inspector::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  learned_.notify_all();
}

std::shared_ptr<Inspection> Inspector::inspect(std::vector<WatchedRule> rules) {
  const std::scoped_lock lock(mutex_);
  auto before = newest(inspections_);
  if (before && before->rules() == rules) return before;
  make_tasks(rules);
  const auto now = clock_.monotonic();
  auto added = std::make_shared<Inspection>(std::move(rules), now, before.get());
  const auto on = [this, weak = std::weak_ptr(added)](const auto& event) {
    const auto known = weak.lock();
    if (!known) return;
    const std::scoped_lock its_lock(mutex_);
    event(*known, clock_.monotonic());
    wake();
  };
  added->tell(
      [on](const ids::Guard& guard, ids::Guard::Need need) {
        on([&](Inspection& known, auto asked) { known.need(guard, need, asked); });
      },
      [on](std::shared_ptr<ids::FreeValues> values) {
        on([&](Inspection& known, auto /*asked*/) { known.look_up(std::move(values)); });
      });
  std::erase_if(inspections_, [](const auto& known) { return known.expired(); });
  inspections_.push_back(added);
  wake();
  return added;
}

void Inspector::make_tasks(const std::vector<WatchedRule>& rules) {
  const auto make = [this](Lane lane, std::size_t at_once, Asks its, const mongo::Pool& pool) {
    tasks_.push_back(std::make_shared<Scheduler::Task>(
        lane, [this, its, &pool] { return run(its, pool); }, at_once));
  };
  if (rules.empty()) return;
  if (tasks_.empty()) {
    make(Lane::inspector, 1, Asks::checks, pool_);
    make(Lane::inspector, kAwaitedThreads, Asks::awaited, pool_);
  }
  const bool creates = std::ranges::any_of(rules, [](const WatchedRule& rule) {
    return rule.unique_index == ids::UniqueIndex::create && rule.field != "_id";
  });
  if (!creates || patient_) return;
  patient_ = std::make_unique<mongo::Pool>(uri_, kPatience);
  make(Lane::indexes, kIndexThreads, Asks::indexes, *patient_);
}

Scheduler* Inspector::threads() {
  const std::scoped_lock lock(mutex_);
  return tasks_.empty() ? nullptr : &scheduler_;
}

void Inspector::wake() {
  for (const Scheduler::Shared& task : tasks_) scheduler_.wake(task);
}

std::shared_ptr<void> Inspector::change(const ids::CatalogChange& change) {
  const auto each = [this, change](auto member) {
    const std::scoped_lock lock(mutex_);
    for (const auto& inspection : in_use(inspections_)) {
      ((*inspection).*member)(change, clock_.monotonic());
    }
    wake();
  };
  try {
    each(&Inspection::begin_change);
  } catch (const std::bad_alloc&) {  // some may have begun
    each(&Inspection::end_change);
    throw;
  }
  return {this, [each](Inspector*) { each(&Inspection::end_change); }};
}

std::shared_ptr<ids::IndexRoom> Inspector::index_room(const ids::CatalogChange& in, Bytes indexes) {
  return std::make_shared<ids::IndexRoom>(
      in, indexes, [this](std::shared_ptr<ids::IndexRoom> room) {
        std::unique_lock lock(mutex_);
        if (draining_) {
          lock.unlock();
          return answer_at_end(*room);
        }
        std::erase_if(asked_rooms_, [](const auto& each) { return each.expired(); });
        asked_rooms_.push_back(room);
        rooms_.push_back(std::move(room));
        wake();
      });
}

void Inspector::await_first_inspection(const Inspection& inspection,
                                       std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  learned_.wait_for(lock, limit, [&] { return stopping_ || inspection.is_checked(); });
}

std::optional<Scheduler::Time> Inspector::run(Asks asks, const mongo::Pool& pool) {
  Lock lock(mutex_);
  if (stopping_) return std::nullopt;
  if (const auto request = next(asks)) {
    wake();  // other threads send what else there is meanwhile
    std::visit([&](const auto& its) { carry_out(its, pool, lock); }, *request);
    learned_.notify_all();
    answer_guards(inspections_, lock);
    wake();
  }
  tell(lock);
  const auto at = due(asks);
  return at == Inspection::kNever ? std::nullopt : std::optional(at);
}

/// Passes the answer to all inspections, no matter which one sent the request.
template <class Request>
void Inspector::carry_out(const Request& request, const mongo::Pool& pool, Lock& lock) {
  const auto send = [&] {
    std::shared_ptr<void> under_way;
    // Nobody takes a field for guarded, by what was seen before, while an index on it is dropped.
    if constexpr (std::is_same_v<Request, YieldIndex>) {
      under_way = change({request.ns.db, request.ns.collection});
    }
    mongo::Client client = pool.client();
    return ask(client, request);
  };
  lock.unlock();
  const auto answer = send();
  lock.lock();
  const auto now = clock_.monotonic();
  const auto all = in_use(inspections_);
  for (const auto& inspection : all) {
    const std::uint64_t version = inspection->version();
    inspection->learn(request, answer, now);
    if (inspection->version() != version) ++version_;
    if (inspection != all.front()) inspection->drop_log_events();
  }
}

std::optional<InspectionRequest> Inspector::next(Asks asks) {
  const auto now = clock_.monotonic();
  const auto speaks = newest(inspections_);
  if (asks == Asks::indexes && speaks && !rooms_.empty()) {
    const auto room = std::move(rooms_.front());
    rooms_.pop_front();
    return speaks->request_for(room);
  }
  for (const auto& inspection : asking(inspections_, asks)) {
    if (auto request = inspection->next(asks, now)) return request;
  }
  return std::nullopt;
}

/// Without the lock: writing to the log may block.
void Inspector::tell(Lock& lock) {
  const auto inspection = newest(inspections_);
  if (!inspection) return;
  const auto log_events = inspection->take_log_events(clock_.monotonic());
  if (inspection->take_news()) wake();
  if (log_events.empty()) return;
  lock.unlock();
  std::for_each(log_events.begin(), log_events.end(), write);
  lock.lock();
}

Inspection::Time Inspector::due(Asks asks) const {
  if (asks == Asks::indexes && !rooms_.empty()) return clock_.monotonic();
  auto first = Inspection::kNever;
  for (const auto& inspection : asking(inspections_, asks)) {
    first = std::min(first, inspection->due(asks));
  }
  const auto speaks = newest(inspections_);
  if (!speaks || asks != Asks::checks) return first;
  return std::min(first, speaks->log_events_due());
}

}  // namespace idproxy::id_store
