#include "net/open_transactions.hpp"

#include <algorithm>
#include <iterator>

namespace idproxy::net {

void OpenTransactions::note(const rewrite::TransactionStep& step, std::uint64_t client,
                            Sessions& own, Time now) {
  Session session{};
  if (step.session.size() != session.size()) return;
  std::ranges::copy(step.session, session.begin());
  step.ends ? ended(session, own) : stated(session, step.begins, client, own, now);
}

void OpenTransactions::stated(const Session& session, bool begins, std::uint64_t client,
                              Sessions& own, Time now) {
  if (own == nullptr) own = std::make_unique<std::vector<Session>>();
  const bool is_known = std::ranges::find(*own, session) != own->end();
  const bool fits = is_known || has_room(client, *own);
  Part& part = part_of(session);
  const std::scoped_lock lock(part.mutex);
  const auto found = part.places.find(session);
  if (found != part.places.end()) {
    Entry& entry = *found->second;
    if (fits) entry.client = client;
    if (begins) {
      entry.since = now;
      part.entries.splice(part.entries.end(), part.entries, found->second);
    }
  } else if (fits) {
    part.entries.push_back({client, now});
    part.places.emplace(session, std::prev(part.entries.end()));
  }
  if (fits && !is_known) own->push_back(session);
}

void OpenTransactions::ended(const Session& session, Sessions& own) {
  if (own != nullptr) std::erase(*own, session);
  erase(session, std::nullopt);
}

/// Only if it is of this connection; nothing: of any.
void OpenTransactions::erase(const Session& session, std::optional<std::uint64_t> client) {
  Part& part = part_of(session);
  const std::scoped_lock lock(part.mutex);
  const auto found = part.places.find(session);
  if (found == part.places.end() || (client && found->second->client != *client)) return;
  part.entries.erase(found->second);
  part.places.erase(found);
}

/// Forgets first the sessions that are of other connections now, or have ended there.
bool OpenTransactions::has_room(std::uint64_t client, std::vector<Session>& own) const {
  if (own.size() < kMostOfClient) return true;
  std::erase_if(own, [&](const Session& each) { return !since(each, client); });
  return own.size() < kMostOfClient;
}

void OpenTransactions::left(std::uint64_t client, Sessions& own) {
  if (own == nullptr) return;
  for (const Session& each : *own) erase(each, client);
  own.reset();
}

/// When it has begun, if it is the client's.
std::optional<OpenTransactions::Time> OpenTransactions::since(const Session& session,
                                                              std::uint64_t client) const {
  Part& part = part_of(session);
  const std::scoped_lock lock(part.mutex);
  const auto found = part.places.find(session);
  if (found == part.places.end() || found->second->client != client) return std::nullopt;
  return found->second->since;
}

OpenTransactions::Open OpenTransactions::of(std::uint64_t client, const Sessions& own) const {
  Open open;
  if (own == nullptr) return open;
  for (const Session& each : *own) {
    if (const auto its = since(each, client)) open.add(1, *its);
  }
  return open;
}

OpenTransactions::Open OpenTransactions::all() const {
  Open open;
  for (Part& part : parts_) {
    const std::scoped_lock lock(part.mutex);
    if (!part.entries.empty()) open.add(part.entries.size(), part.entries.front().since);
  }
  return open;
}

void OpenTransactions::Open::add(std::size_t more, Time its_since) {
  count += more;
  since = std::min(since.value_or(its_since), its_since);
}

}  // namespace idproxy::net
