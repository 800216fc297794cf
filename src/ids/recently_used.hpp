#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace idproxy::ids {

/// Values by key, so many at most: if there are more, the least recently used goes. Not
/// thread-safe.
template <class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(std::size_t most) : most_(most) {}

  /// The value of the key, which make() makes if there is none. `gone` receives the one that had to
  /// go, for the caller to destroy. The reference is valid until the next call.
  template <class Make>
  [[nodiscard]] Value& get(const std::string& key, const Make& make, std::optional<Value>& gone) {
    auto found = by_key_.find(key);
    if (found != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->value;
    }
    entries_.push_front({key, make()});
    by_key_.emplace(entries_.front().key, entries_.begin());
    if (entries_.size() > most_) {
      by_key_.erase(entries_.back().key);
      gone = std::move(entries_.back().value);
      entries_.pop_back();
    }
    return entries_.front().value;
  }

 private:
  struct Entry {
    std::string key;
    Value value;
  };
  using Entries = std::list<Entry>;

  const std::size_t most_;
  Entries entries_;  // most recently used first
  std::unordered_map<std::string_view, typename Entries::iterator> by_key_;  // views of the keys
};

}  // namespace idproxy::ids
