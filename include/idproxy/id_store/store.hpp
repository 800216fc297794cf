#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/ids/store.hpp"

namespace idproxy::id_store {

/// What is looked at for one rule, as the store's user may.
struct Watched {
  std::string ns;     ///< glob over "db.collection"
  std::string field;  ///< dotted path
  ids::UniqueIndex unique_index = ids::UniqueIndex::warn;
  bool counts_documents = false;  ///< random numbers: how full their space is
};

struct Options {
  std::string uri;  ///< connection string of the servers that hold the store
  std::string db = "idproxy";
  std::chrono::milliseconds wtimeout{5000};
  std::vector<Watched> rules;  ///< in file order
};

/// What happened since the start. Thread-safe; each is exact, together they are no snapshot.
struct Counters {
  std::atomic<std::uint64_t> round_trips{0};  ///< commands sent for counters
  std::atomic<std::uint64_t> blocks{0};       ///< allocated, and used
  std::atomic<std::uint64_t> blocks_dropped{
      0};  ///< allocated, perhaps, and never used: no majority, no reply, or the counter went back
  std::atomic<std::uint64_t> heals{0};
  std::atomic<std::uint64_t> numbers_allocated{0};  ///< in those blocks
  std::atomic<std::uint64_t> numbers_returned{0};   ///< given back to the store
};

/// The control plane: counters and what is known of collections, kept in the user's own servers.
/// The only user of libmongoc's client; has a connection pool and threads of its own, so that a
/// store that hangs holds nobody else up. Thread-safe.
class Store final : public ids::Store {
 public:
  /// Connects in the background; never fails for what a server does. `clock` outlives the store.
  /// The URI has been checked (config).
  Store(Options options, const Clock& clock);
  ~Store() override;

  /// Waits until the collections of the rules have been looked at once, or until it is clear that
  /// they cannot be now; at most `limit`.
  void await_first_look(std::chrono::milliseconds limit);
  /// Gives back what is unused, as far as that can be done within `limit`, and ends the threads.
  /// Nothing may be asked of it afterwards. False if a thread still waits for a server: then the
  /// process must end without destroying this object.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);

  std::shared_ptr<ids::BlockCache> counter(const ids::CounterSpec& spec,
                                           const ids::CounterField& field) override;
  std::shared_ptr<ids::Fill> fill(std::string_view ns, std::string_view field) override;
  ids::Standing standing(std::size_t rule_index, std::string_view db,
                         std::string_view collection) override;
  [[nodiscard]] std::uint64_t version() const override;
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t most_per_rule) const override;
  [[nodiscard]] ids::StoreCounts counts() const override;
  [[nodiscard]] const Counters& counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::id_store
