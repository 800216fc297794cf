#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {

/// The turn of one proxy to read a whole collection, so that several proxies do not burden the
/// primary with that at the same time: a document in the id store's database,
///
///   scans: {_id: "turn", holder: <of this object>, until: <date of the server's clock>}
///
/// Its holder renews it while it has it. A holder that is gone loses it after kLasts. If it breaks,
/// two proxies scan at the same time, and no more. One thread at a time.
class ScanLease {
 public:
  static constexpr std::chrono::seconds kLasts{10};

  enum class Turn { mine, of_another, unknown };

  /// `pool` must outlive it.
  ScanLease(const mongo::Pool& pool, std::string db);
  ScanLease(const ScanLease&) = delete;
  ScanLease& operator=(const ScanLease&) = delete;
  ~ScanLease() { release(); }

  /// `mine`: has begun to renew the lease. A server that refuses the command leaves the turn to
  /// everybody.
  [[nodiscard]] Turn acquire();
  void release();

 private:
  [[nodiscard]] mongo::Reply take(mongo::Client& client, std::chrono::milliseconds lasts) const;
  void renew();

  const mongo::Pool& pool_;
  const std::string db_;
  const std::string holder_;
  std::mutex mutex_;  // guards ending_
  std::condition_variable end_;
  bool ending_ = false;
  std::thread renews_;
};

}  // namespace idproxy::id_store
