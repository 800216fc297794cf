#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// A counter to read, and what its cache knew when the read began.
struct WatchedCounter {
  std::shared_ptr<ids::BlockCache> cache;
  ids::CounterSpec spec;
  ids::WatchMark mark;
};

/// Reads where the counters stand, and tells their caches: a value that went back is found without
/// waiting for the next block. Sends one find per collection, or per thousand counters of one, to
/// the primary:
///
///   {find: collection, filter: {key_field: {$in: [key, …]}, …filter}}
///
/// Counters that it cannot read, or whose value is not an integer, are passed over: the next
/// allocation says what is wrong. The marks must be from before this call.
void read_counters(mongo::Client& client, std::span<const WatchedCounter> counters);

}  // namespace idproxy::id_store
