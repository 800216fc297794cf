#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/range_spec.hpp"

namespace idproxy::id_store {

/// What is read, and how that went.
struct RangeJob {
  mongo::Client& client;
  const ids::RangesSpec& spec;
  std::span<const ids::CounterField> fields;
  std::string unreached{};  ///< RangeDocuments::unreached()
};

/// The documents of a rule's ranges, in the servers' collection. Blocks. One thread at a time.
class RangeDocuments {
 public:
  enum class Missing {
    create,  ///< if the rule says so
    assume,  ///< writes nothing: returns them as they would be created
  };
  /// The arguments must outlive it. `fields`: all fields that are filled from the ranges.
  RangeDocuments(mongo::Client& client, const ids::RangesSpec& spec,
                 std::span<const ids::CounterField> fields, Missing missing)
      : job_{client, spec, fields}, missing_(missing) {}

  /// Reads the documents and checks them, and that the store's user may write them. Creates missing
  /// ones, from the last to the first, behind the numbers that are stored in the fields. If that is
  /// interrupted, the next reading continues. `stops`: true once it should end early. The ranges
  /// are in ascending order; the error is what a counter's job would reply.
  [[nodiscard]] ids::Result<std::vector<ids::RangeState>> read(const std::function<bool()>& stops);
  /// Why the last command reached no server, for the log; empty if it did.
  [[nodiscard]] const std::string& unreached() const { return job_.unreached; }

 private:
  RangeJob job_;
  Missing missing_;
};

}  // namespace idproxy::id_store
