#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "id_store/number_texts.hpp"
#include "id_store/scheduler.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// Why FieldNumbers::not_indexed() refuses if the rule's `scan` is off.
inline constexpr std::string_view kScanIsOff = ", and `scan` is off";

/// The turn of one proxy to read a whole collection, so that several proxies do not burden the
/// primary with that at the same time: a document in the id store's database,
///
///   scans: {_id: "turn", holder: <of this object>, until: <date of the server's clock>}
///
/// A holder that does not renew it loses it after kLasts. If it breaks, two proxies scan at the
/// same time, and no more. Thread-safe.
class ScanLease {
 public:
  static constexpr std::chrono::seconds kLasts{10};

  /// `pool` must outlive it.
  ScanLease(const mongo::Pool& pool, std::string db);

  /// True if the turn is this object's now. A server that refuses the command leaves it to
  /// everybody.
  [[nodiscard]] bool acquire();
  /// False, and does nothing, if it has been released.
  bool renew();
  void release();

 private:
  const mongo::Pool& pool_;
  const std::string db_;
  const std::string holder_;
  std::mutex mutex_;  // guards is_held_; held during commands, so that none renews what is released
  bool is_held_ = false;
};

/// Finds the largest numbers in fields that no index covers, by reading whole collections, before
/// their counter is created. Small ones are read at once by those who ask. Two tasks: one reads for
/// one counter at a time, and no two proxies at the same time (ScanLease); one renews the lease
/// meanwhile. Thread-safe.
class CollectionScans {
 public:
  /// A counter whose first number is wanted.
  struct Subject {
    ids::CounterSpec spec;
    std::vector<ids::CounterField> fields;
    std::string indexes;  ///< FieldPlaces::indexes
    friend bool operator==(const Subject&, const Subject&) = default;
  };

  /// How long a refusal holds, unless the subject differs.
  static constexpr std::chrono::hours kRefusedFor{1};
  /// When to try again after a server did not answer, or refused the command.
  static constexpr std::chrono::seconds kFailedFor{30};
  /// A scan that has not begun is dropped if nobody has asked for it for this long.
  static constexpr std::chrono::seconds kWantedFor{5};
  /// Collections with fewer documents than this, all of a counter together, are small.
  static constexpr std::int64_t kFew = 10'000;

  /// `uri` is for connections of its own to the servers of `pool`; `db` is the id store's database,
  /// which has the lease. The references must outlive it, the scheduler's threads must not.
  enum class Enabled { no, yes };
  CollectionScans(std::string uri, std::string db, const mongo::Pool& pool, const Clock& clock,
                  Scheduler& scheduler, Enabled enabled = Enabled::yes, std::int64_t few = kFew);

  /// The kOutlierSample numbers furthest ahead, if they have been read recently: not longer ago
  /// than reading them took, or one second. Else a reply of kind
  /// - pending: they are being read, or about to be; ask again soon
  /// - exhausted: they cannot be read; the reason says what to type
  /// - failed: a server did not answer
  /// Does not wait. Only if enabled().
  [[nodiscard]] ids::Result<FieldNumbers::Reading> ask(const Subject& subject);

  /// True if these places are small, as a count says: whoever wants their numbers reads them at
  /// once.
  [[nodiscard]] bool are_small(mongo::Client& client, const std::vector<FieldPlace>& places) const;
  /// False: this process only checks, and must neither read for long nor write the lease.
  [[nodiscard]] bool enabled() const { return enabled_ == Enabled::yes; }

 private:
  using Time = Scheduler::Time;
  struct Scan {
    enum class State { idle, waiting, running };
    Subject subject;
    State state = State::idle;
    Time asked{};
    std::string since{};                          // running: the time of day when it began
    std::int64_t documents = 0;                   // running: about how many there are
    ids::Result<FieldNumbers::Reading> result{};  // until holds_until
    Time holds_until{};
  };
  using Shared = std::shared_ptr<Scan>;

  [[nodiscard]] std::optional<Time> run();
  [[nodiscard]] std::optional<Time> renew();
  void scan(Scan& scan);
  [[nodiscard]] ids::Result<FieldNumbers::Reading> read(Scan& scan);

  // Under the lock.
  [[nodiscard]] Shared find(const Subject& subject);

  const std::string uri_;
  const Clock& clock_;
  Scheduler& scheduler_;
  const Enabled enabled_;
  const std::int64_t few_;
  ScanLease lease_;

  std::mutex mutex_;           // guards scans_
  std::vector<Shared> scans_;  // one per counter
  const Scheduler::Shared task_ =
      std::make_shared<Scheduler::Task>(Lane::scans, [this] { return run(); });
  // Short, and needed while a scan has all threads of its lane.
  const Scheduler::Shared renews_ =
      std::make_shared<Scheduler::Task>(Lane::inspector, [this] { return renew(); });
};

}  // namespace idproxy::id_store
