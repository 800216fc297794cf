#include "net/open_transactions.hpp"

#include <algorithm>

namespace idproxy::net {

std::size_t OpenTransactions::Hash::operator()(const Session& session) const {
  return std::hash<std::string_view>{}(as_text(session));
}

void OpenTransactions::note(Bytes session, std::uint64_t client, bool ends) {
  Session key{};
  if (session.size() != key.size()) return;
  std::ranges::copy(session, key.begin());
  const std::scoped_lock lock(mutex_);
  const auto found = client_of_.find(key);
  if (found != client_of_.end()) {
    if (!ends && found->second == client) return;
    remove(found->second);
    client_of_.erase(found);
  }
  if (ends || client_of_.size() >= kMost) return;
  client_of_.emplace(key, client);
  ++number_of_[client];
}

void OpenTransactions::left(std::uint64_t client) {
  const std::scoped_lock lock(mutex_);
  if (number_of_.erase(client) == 0) return;
  std::erase_if(client_of_, [client](const auto& each) { return each.second == client; });
}

std::size_t OpenTransactions::of(std::uint64_t client) const {
  const std::scoped_lock lock(mutex_);
  const auto found = number_of_.find(client);
  return found == number_of_.end() ? 0 : found->second;
}

std::size_t OpenTransactions::size() const {
  const std::scoped_lock lock(mutex_);
  return client_of_.size();
}

void OpenTransactions::remove(std::uint64_t client) {
  const auto found = number_of_.find(client);
  if (--found->second == 0) number_of_.erase(found);
}

}  // namespace idproxy::net
