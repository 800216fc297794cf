#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "id_store/reports.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// What Things notes about each of them, which derives from it.
template <class Derived>
struct Thing : std::enable_shared_from_this<Derived> {
  std::uint64_t watch = 0;  ///< the newest one that has asked for it
  /// That rules fill from it: those of this watch, and before them, while the rules of this watch
  /// are being made, the others of the watch before. Who reads them meanwhile misses none.
  std::vector<ids::CounterField> fields{};
  std::size_t older = 0;  ///< the number of those others

  /// True if this watch has not had the field yet. Rules of an older one are about to end, and
  /// their fields too.
  bool add_field(const ids::CounterField& field, std::uint64_t of_watch) {
    if (of_watch < watch) return false;
    const auto known = std::ranges::find(fields, field);
    if (known == fields.end()) {
      fields.push_back(field);
      return true;
    }
    if (known - fields.begin() >= static_cast<std::ptrdiff_t>(older)) return false;
    std::rotate(known, known + 1, fields.end());
    --older;
    return true;
  }
  void drop_older() {
    fields.erase(fields.begin(), fields.begin() + static_cast<std::ptrdiff_t>(older));
    older = 0;
  }

 private:
  Thing() = default;
  friend Derived;
};

/// What rules name, such as counters. Several rules may share one. A watch stands for a list of
/// rules; newer watches, after a reload, have larger numbers. A thing serves the rules of all
/// watches in the way that the newest of them describes. If it cannot, it retires: it continues to
/// serve those that have it, and another one takes its place. `T` derives from Thing; its member
/// kServed points to what rules hold of it. The caller holds `mutex`, except where it says so.
template <class T, auto kServed>
class Things {
 public:
  using Shared = std::shared_ptr<T>;
  enum class Got { known, renewed, made };

  mutable std::mutex mutex;

  /// Returns the thing, made by `make()` if there is none. At the first request of a newer watch,
  /// `renew(it)` adapts it to that watch, and returns false if it must retire.
  template <class Renew, class Make>
  std::pair<Shared, Got> get(const std::string& name, std::uint64_t watch, const Renew& renew,
                             const Make& make) {
    const auto found = things_.find(name);
    Shared thing = found == things_.end() ? nullptr : found->second;
    Got got = Got::known;
    if (thing && watch > thing->watch) {
      got = Got::renewed;
      if (renew(thing)) {
        thing->older = thing->fields.size();
        if (watch <= made_) thing->drop_older();
      } else {
        // With its fields: those that have it may need numbers behind the stored ones.
        retired_.push_back(std::exchange(thing, nullptr));
        things_.erase(found);
      }
    }
    if (!thing) {
      got = Got::made;
      thing = make();
      if constexpr (requires { ((*thing).*kServed)->stop(); }) {
        if (stopping_) ((*thing).*kServed)->stop();
      }
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
  /// Those in force for which `why(thing)` has an error. Takes the lock.
  template <class Why>
  [[nodiscard]] std::vector<NotReadyReport> not_ready(const Why& why) const {
    const std::scoped_lock lock(mutex);
    std::vector<NotReadyReport> found;
    for (const auto& [name, thing] : things_) {
      if (auto error = why(*thing)) found.push_back({*std::move(error), thing->fields});
    }
    return found;
  }

  /// Event: all rules of the watch have asked. Calls `changed(thing)` for each that has lost the
  /// fields of other rules. Takes the lock.
  template <class Changed>
  void rules_are_made(std::uint64_t watch, const Changed& changed) {
    const std::scoped_lock lock(mutex);
    made_ = std::max(made_, watch);
    for (const auto& [name, thing] : things_) {
      if (thing->older == 0 || thing->watch > watch) continue;
      thing->drop_older();
      changed(thing);
    }
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
    sweep_at_ = std::max(kSweepAt, 2 * things_.size());
  }
  template <class Is>
  void forget_retired_if(const Is& is) {
    std::erase_if(retired_, is);
  }
  /// True if there are so many that it is time to forget some: clients can invent names.
  [[nodiscard]] bool are_many() const { return things_.size() >= sweep_at_; }
  [[nodiscard]] bool is_in_force(const std::string& name, const T& thing) const {
    const auto found = things_.find(name);
    return found != things_.end() && found->second.get() == &thing;
  }
  void forget(const std::string& name, const T& thing) {
    if (is_in_force(name, thing)) things_.erase(name);
  }

  /// All refuse requests from now on, also those that are made later; `wake(thing)` has its task do
  /// what is left. Takes the lock, but not for these calls.
  template <class Wake>
  void stop(const Wake& wake) {
    std::vector<Shared> things;
    {
      const std::scoped_lock lock(mutex);
      stopping_ = true;
      things = all();
    }
    for (const Shared& thing : things) {
      ((*thing).*kServed)->stop();
      wake(thing);
    }
  }
  [[nodiscard]] bool is_stopping() const { return stopping_; }

 private:
  static constexpr std::size_t kSweepAt = 1024;

  std::map<std::string, Shared> things_;
  std::vector<Shared> retired_;
  std::size_t sweep_at_ = kSweepAt;
  std::uint64_t made_ = 0;  // the newest watch whose rules have been made
  bool stopping_ = false;
};

}  // namespace idproxy::id_store
