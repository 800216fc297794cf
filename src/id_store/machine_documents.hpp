#pragma once

#include <cstdint>
#include <string>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/machine_lease.hpp"

namespace idproxy::id_store {

/// The machine numbers of a lease as the servers have them, a document each:
///
///   machines: {_id: "default/5", owner: "app1 <of this process> <of this claim>", expires: <date>,
///              ts_ceiling: <milliseconds since 1970>, floor: <the ceiling before the claim>}
///
/// The server's clock says when a lease has expired, so that those of the proxies may differ; no id
/// has a time above the ceiling. Blocks. One thread at a time.
///
/// A claim whose answer is missing is repeated by the same owner, who takes back what it may have
/// got. It has made no ids, whose times would lie above the floor. Once a claim is answered, the
/// next one has another owner.
class MachineDocuments {
 public:
  /// `no`: this process only checks, and writes nothing.
  enum class Claims : std::uint8_t { no, yes };
  explicit MachineDocuments(Claims claims) : claims_(claims) {}

  [[nodiscard]] ids::LeaseReply run(mongo::Client& client, const ids::LeaseJob& job);

 private:
  [[nodiscard]] ids::LeaseReply claim(mongo::Client& client, const ids::LeaseJob& job) const;

  const Claims claims_;
  std::string owner_;        // of the last claim: a late command of an earlier one changes nothing
  bool has_claimed_ = true;  // it was answered with a number
};

}  // namespace idproxy::id_store
