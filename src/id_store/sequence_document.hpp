#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "id_store/field_places.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/ids/gapless_job.hpp"

namespace idproxy::id_store {

/// One sequence without gaps as the servers have it: the numbers in its collection, and the floor,
/// the highest number that a proxy is known to have stored. Blocks. One thread at a time.
class SequenceDocument {
 public:
  explicit SequenceDocument(ids::GaplessSpec spec);

  [[nodiscard]] ids::GaplessReply run(mongo::Client& client, const ids::GaplessJob& job);
  /// Error::by_server of the last reading.
  [[nodiscard]] bool is_refused() const { return is_refused_; }

 private:
  [[nodiscard]] ids::GaplessReply read(mongo::Client& client, ids::GaplessRead how);
  [[nodiscard]] ids::Result<std::optional<std::int64_t>> most_stored(mongo::Client& client,
                                                                     ids::GaplessRead how);

  const ids::GaplessSpec spec_;
  const ids::CounterSpec counter_;               // the same, for FieldNumbers
  const std::vector<ids::CounterField> fields_;  // the only one; places_ points to it
  /// The same, to read texts beyond the width of the format.
  const std::vector<ids::CounterField> wide_;
  std::optional<FieldPlaces> places_;  // of the last reading that succeeded
  bool index_has_gone_ = false;        // during the last reading
  bool is_refused_ = false;
};

}  // namespace idproxy::id_store
