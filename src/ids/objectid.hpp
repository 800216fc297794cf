#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// The parts of an ObjectId (mongodb/specifications, bson-objectid):
///
///   objectid ::= seconds  random  counter
///   seconds  ::= 4 bytes, unsigned, big-endian, since 1970-01-01T00:00:00Z
///   random   ::= 5 bytes, drawn once per rule and process
///   counter  ::= 3 bytes, big-endian, +1 each from a random start, FFFFFF -> 000000
///
/// Example: 56E1FC72  E0C917E9C4  714161
namespace idproxy::ids {

inline constexpr std::size_t kObjectIdSize = 12;
inline constexpr std::uint32_t kObjectIdCounters = 1U << 24;

using ObjectIdRandom = std::array<std::uint8_t, 5>;

struct ObjectIdPosition {
  std::uint32_t second;
  std::uint32_t counter;  ///< below kObjectIdCounters
};

/// Writes kObjectIdSize bytes to `at`.
void write_objectid(const ObjectIdPosition& position, const ObjectIdRandom& random,
                    std::uint8_t* at);

/// Returns each pair of second and counter at most once, whatever the clock does.
///
/// The second never goes back. While the clock is behind the last second used, the sequence stays
/// at that second; when all counter values of a second are used up, it takes the next second. If it
/// followed the clock back, it would enter seconds of which some counter values are already used,
/// and would have to remember every second since the start to know which. The price: if a clock
/// that was ahead is set back, ids carry the time that it had reached until the clock reaches it
/// again.
class ObjectIdSequence {
 public:
  explicit ObjectIdSequence(std::uint32_t counter) : counter_(counter) {}

  /// Adopts the clock's second, unless that is a step back.
  void follow(std::uint64_t second) {
    if (second > second_) enter(second);
  }

  ObjectIdPosition next() {
    if (used_ == kObjectIdCounters) enter(second_ + 1);
    ++used_;
    const ObjectIdPosition position{static_cast<std::uint32_t>(second_), counter_};
    counter_ = (counter_ + 1) % kObjectIdCounters;
    return position;
  }

 private:
  void enter(std::uint64_t second) {
    second_ = second;
    used_ = 0;
  }

  std::uint64_t second_ = 0;  // 64 bits: the id's field wraps in 2106, this order must not
  std::uint32_t counter_;     // for the next id
  std::uint32_t used_ = 0;    // counter values used in second_
};

}  // namespace idproxy::ids
