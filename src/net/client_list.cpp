#include "net/client_list.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "net/connection_pair.hpp"

namespace idproxy::net {
namespace {

constexpr std::chrono::milliseconds kMostWait{200};
// Who holds more comes before those who have sent the most requests.
constexpr std::uint64_t kMuchMemory = std::uint64_t{1024} * 1024;

using Place = std::pair<std::uint64_t, std::uint64_t>;
Place place_of(std::uint64_t memory, std::uint64_t requests) {
  return {memory > kMuchMemory ? memory : 0, requests};
}
Place place_of_pair(const ConnectionPair* pair) {
  return place_of(pair->memory(), pair->requests());
}
Place place_of_client(const ClientStatistics& client) {
  return place_of(client.memory, client.requests);
}

bool matches(const ConnectionPair& pair, const ClientQuery& query) {
  if (!query.application) return true;
  const rewrite::ClientDescription* names = pair.names();
  return names != nullptr && names->application == *query.application;
}

/// The clients of one thread, which must be the calling one. Describes only those that are listed:
/// that takes system calls.
ClientList clients_of(const IoThread& thread, const ClientQuery& query) {
  std::vector<const ConnectionPair*> pairs;
  for (const auto& [id, pair] : thread.pairs) {
    if (matches(*pair, query)) pairs.push_back(pair.get());
  }
  const auto listed = static_cast<std::ptrdiff_t>(std::min(query.most, pairs.size()));
  std::ranges::partial_sort(pairs, pairs.begin() + listed, std::ranges::greater(), place_of_pair);
  ClientList list{.matching = pairs.size(), .clients = {}};
  for (const ConnectionPair* pair : std::span(pairs).first(static_cast<std::size_t>(listed))) {
    list.clients.push_back(pair->describe());
  }
  return list;
}

/// What the threads answer. Shared with them: one may answer when nobody waits any more.
class Answers {
 public:
  explicit Answers(std::size_t threads) : missing_(threads) {}

  void add(ClientList part) {
    const std::scoped_lock lock(mutex_);
    all_.matching += part.matching;
    std::ranges::move(part.clients, std::back_inserter(all_.clients));
    if (--missing_ == 0) complete_.notify_one();
  }
  ClientList wait() {
    std::unique_lock lock(mutex_);
    all_.complete = complete_.wait_for(lock, kMostWait, [this] { return missing_ == 0; });
    return all_;
  }

 private:
  std::mutex mutex_;  // guards the others
  std::condition_variable complete_;
  std::size_t missing_;
  ClientList all_;
};

}  // namespace

ClientList list_clients(std::span<const std::unique_ptr<IoThread>> threads,
                        const ClientQuery& query) {
  const auto answers = std::make_shared<Answers>(threads.size());
  for (const auto& thread : threads) {
    thread->loop.post(
        [answers, query, &thread = *thread] { answers->add(clients_of(thread, query)); });
  }
  ClientList list = answers->wait();
  std::ranges::sort(list.clients, std::ranges::greater(), place_of_client);
  list.clients.resize(std::min(query.most, list.clients.size()));
  return list;
}

}  // namespace idproxy::net
