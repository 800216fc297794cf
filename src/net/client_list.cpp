#include "net/client_list.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "net/connection_pair.hpp"

namespace idproxy::net {
namespace {

constexpr std::chrono::milliseconds kMostWait{200};
// Who holds more comes before those who have sent the most requests.
constexpr std::uint64_t kMuchMemory = std::uint64_t{1024} * 1024;

// A request or a transaction that is as old is worth a look.
constexpr std::chrono::seconds kLongWait{5};

std::pair<std::uint64_t, std::uint64_t> place_of(std::uint64_t memory, std::uint64_t requests) {
  return {memory > kMuchMemory ? memory : 0, requests};
}

bool matches(const ConnectionPair& pair, const ClientQuery& query) {
  if (!query.application) return true;
  const rewrite::ClientDescription* names = pair.names();
  return names != nullptr && names->application == *query.application;
}

using Age = std::optional<std::chrono::nanoseconds>;
using Applications = std::map<std::string, ApplicationStatistics, std::less<>>;

ApplicationStatistics& place_in(Applications& all, std::string_view name) {
  const auto known = all.find(name);
  if (known != all.end()) return known->second;
  ApplicationStatistics& made = all[std::string(name)];
  made.application = name;
  return made;
}

/// Who holds much, keeps others waiting, sends most, or has connections and does nothing.
bool is_listed_before(const ApplicationStatistics& a, const ApplicationStatistics& b) {
  const auto place = [](const ApplicationStatistics& its) {
    const auto oldest = std::max(its.oldest_transaction, its.waits);
    return std::tuple(its.memory > kMuchMemory ? its.memory : 0,
                      oldest >= Age(kLongWait) ? oldest : std::nullopt,
                      its.requests_per_second + its.documents_per_second, its.connections);
  };
  const auto of_a = place(a);
  const auto of_b = place(b);
  return of_a == of_b ? a.application < b.application : of_a > of_b;
}

/// What one thread's clients amount to by application, with those that have gone.
Applications applications_of(const IoThread& thread) {
  const auto now = thread.shared.clock.monotonic();
  Applications all;
  for (const auto& [id, pair] : thread.pairs) {
    const rewrite::ClientDescription* names = pair->names();
    place_in(all, names ? names->application : std::string_view()).add(pair->share(now));
  }
  for (const auto& [name, sent] : thread.ended.by_application()) {
    const Rates rates = sent.rates(now);
    if (rates.requests == 0) continue;
    place_in(all, name).add(
        {.requests_per_second = rates.requests, .documents_per_second = rates.documents});
  }
  return all;
}

/// Those that come first, and the sum of the others. `ended`: of applications beyond these.
void list_applications(Applications all, const Rates& ended, ClientList& list) {
  for (auto& [name, its] : all) list.applications.push_back(std::move(its));
  std::ranges::sort(list.applications, is_listed_before);
  const std::size_t listed = std::min(list.applications.size(), ClientList::kMostApplications);
  list.others = list.applications.size() - listed;
  for (const auto& each : std::span(list.applications).subspan(listed)) {
    list.other_applications.add(each);
  }
  list.applications.resize(listed);
  if (ended.requests == 0) return;
  list.others = std::max<std::uint64_t>(list.others, 1);
  list.other_applications.add(
      {.requests_per_second = ended.requests, .documents_per_second = ended.documents});
}

/// What a thread answers.
struct Part {
  ClientList list;
  Applications applications;
  Rates ended;  ///< of further applications, whose connections are closed
};

/// The clients of one thread, which must be the calling one. Describes only those that are listed:
/// that takes system calls.
ClientList clients_of(const IoThread& thread, const ClientQuery& query) {
  std::vector<const ConnectionPair*> pairs;
  for (const auto& [id, pair] : thread.pairs) {
    if (matches(*pair, query)) pairs.push_back(pair.get());
  }
  const auto listed = static_cast<std::ptrdiff_t>(std::min(query.most, pairs.size()));
  std::ranges::partial_sort(pairs, pairs.begin() + listed, std::greater(), [](const auto* pair) {
    return place_of(pair->memory(), pair->requests());
  });
  ClientList list{.matching = pairs.size()};
  for (const ConnectionPair* pair : std::span(pairs).first(static_cast<std::size_t>(listed))) {
    list.clients.push_back(pair->describe());
  }
  return list;
}

/// What the threads answer. Shared with them: one may answer when nobody waits any more.
class Answers {
 public:
  explicit Answers(std::size_t threads) : missing_(threads) {}

  void add(Part part) {
    const std::scoped_lock lock(mutex_);
    all_.list.matching += part.list.matching;
    std::ranges::move(part.list.clients, std::back_inserter(all_.list.clients));
    for (const auto& [name, its] : part.applications) place_in(all_.applications, name).add(its);
    all_.ended.requests += part.ended.requests;
    all_.ended.documents += part.ended.documents;
    if (--missing_ == 0) complete_.notify_one();
  }
  Part wait() {
    std::unique_lock lock(mutex_);
    all_.list.complete = complete_.wait_for(lock, kMostWait, [this] { return missing_ == 0; });
    return all_;
  }

 private:
  std::mutex mutex_;  // guards the others
  std::condition_variable complete_;
  std::size_t missing_;
  Part all_;
};

}  // namespace

ClientList list_clients(std::span<const std::unique_ptr<IoThread>> threads,
                        const ClientQuery& query) {
  const auto answers = std::make_shared<Answers>(threads.size());
  for (const auto& thread : threads) {
    thread->loop.post([answers, query, &thread = *thread] {
      answers->add({clients_of(thread, query), applications_of(thread),
                    thread.ended.others().rates(thread.shared.clock.monotonic())});
    });
  }
  Part all = answers->wait();
  ClientList& list = all.list;
  list_applications(std::move(all.applications), all.ended, list);
  std::ranges::sort(list.clients, std::greater(), [](const ClientStatistics& client) {
    return place_of(client.memory, client.requests);
  });
  list.clients.resize(std::min(query.most, list.clients.size()));
  return std::move(list);
}

void ApplicationStatistics::add(const ApplicationStatistics& more) {
  connections += more.connections;
  requests_per_second += more.requests_per_second;
  documents_per_second += more.documents_per_second;
  transactions += more.transactions;
  oldest_transaction = std::max(oldest_transaction, more.oldest_transaction);
  waits = std::max(waits, more.waits);
  memory += more.memory;
}

}  // namespace idproxy::net
