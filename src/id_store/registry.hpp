#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// A Registry's notes about each of its objects.
struct Registered {
  std::uint64_t watch = 0;                  ///< the newest one that has asked for it
  std::vector<ids::CounterField> fields{};  ///< that the rules of this watch fill from it

  /// True if the field is new. Rules of an older watch are about to end, and their fields too.
  bool add_field(const ids::CounterField& field, std::uint64_t of_watch) {
    if (of_watch < watch || std::ranges::find(fields, field) != fields.end()) return false;
    fields.push_back(field);
    return true;
  }
};

/// Objects of one kind that rules name, such as counters. Several rules may share one. A watch
/// stands for a list of rules; newer watches, after a reload, have larger numbers. An object serves
/// the rules of all watches in the way that the newest of them describes. If it cannot, it retires:
/// it continues to serve those that have it, and another object takes its place. `Thing` derives
/// from Registered. The owner's lock guards it.
template <class Thing>
class Registry {
 public:
  using Shared = std::shared_ptr<Thing>;
  enum class Got { known, renewed, made };

  /// Returns the object, made by `make()` if there is none. At the first request of a newer watch,
  /// `renew(it)` adapts it to that watch, and returns false if it must retire.
  template <class Renew, class Make>
  std::pair<Shared, Got> get(const std::string& name, std::uint64_t watch, const Renew& renew,
                             const Make& make) {
    const auto found = things_.find(name);
    Shared thing = found == things_.end() ? nullptr : found->second;
    Got got = Got::known;
    if (thing && watch > thing->watch) {
      got = Got::renewed;
      thing->fields.clear();
      if (!renew(thing)) {
        retired_.push_back(std::exchange(thing, nullptr));
        things_.erase(found);
      }
    }
    if (!thing) {
      got = Got::made;
      thing = make();
      things_.emplace(name, thing);
    }
    thing->watch = std::max(thing->watch, watch);
    return {thing, got};
  }

  /// By name; not those that have retired.
  [[nodiscard]] const std::map<std::string, Shared>& in_force() const { return things_; }
  [[nodiscard]] std::vector<Shared> all() const {
    std::vector<Shared> all = retired_;
    for (const auto& [name, thing] : things_) all.push_back(thing);
    return all;
  }

  /// Retires those that the watch has not asked for.
  void retire_older(std::uint64_t watch) {
    std::erase_if(things_, [&](auto& item) {
      const bool is_old = item.second->watch < watch;
      if (is_old) retired_.push_back(std::move(item.second));
      return is_old;
    });
  }
  template <class Is>
  void forget_if(const Is& is) {
    forget_retired_if(is);
    std::erase_if(things_, [&](const auto& item) { return is(item.second); });
  }
  template <class Is>
  void forget_retired_if(const Is& is) {
    std::erase_if(retired_, is);
  }
  [[nodiscard]] bool is_in_force(const std::string& name, const Thing& thing) const {
    const auto found = things_.find(name);
    return found != things_.end() && found->second.get() == &thing;
  }
  void forget(const std::string& name, const Thing& thing) {
    if (is_in_force(name, thing)) things_.erase(name);
  }

 private:
  std::map<std::string, Shared> things_;
  std::vector<Shared> retired_;
};

}  // namespace idproxy::id_store
