#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "idproxy/base/random.hpp"
#include "idproxy/ids/values.hpp"
#include "ids/encoding.hpp"

/// The bit layouts of RFC 9562, the order of version 7, and the forms in which drivers store UUIDs.
/// No function here reads a clock.
namespace idproxy::ids {

inline constexpr std::size_t kUuidSize = 16;
using Uuid = std::array<std::uint8_t, kUuidSize>;

/// 100-ns ticks from 1582-10-15, where version 1 begins to count, to 1970-01-01.
inline constexpr std::uint64_t kGregorianOffset = 0x01B21DD213814000;

/// Version 1 (RFC 9562 5.1). `ticks`: 100 ns since 1582-10-15, 60 bits; `clock_seq`: 14 bits.
[[nodiscard]] Uuid layout_v1(std::uint64_t ticks, std::uint16_t clock_seq,
                             const std::array<std::uint8_t, 6>& node);

/// Version 4 (RFC 9562 5.4): these 16 bytes, with version and variant written over 6 of their bits.
[[nodiscard]] Uuid layout_v4(const std::uint8_t* random16);

/// The 74 random bits of version 7 as one big-endian number: rand_a, then rand_b.
struct Random74 {
  std::uint16_t rand_a = 0;  ///< 12 bits
  std::uint64_t rand_b = 0;  ///< 62 bits

  /// Reads the bits from their places in the last 10 bytes of a UUID.
  [[nodiscard]] static Random74 from(const std::uint8_t* bytes10);
  /// Adds `amount`, at most 2^62. False if the sum does not fit 74 bits; the value is then invalid.
  [[nodiscard]] bool raise(std::uint64_t amount);
};

/// Version 7 (RFC 9562 5.7). `milliseconds`: since 1970-01-01, 48 bits.
[[nodiscard]] Uuid layout_v7(std::uint64_t milliseconds, const Random74& random);

/// The parts of an id of version 7; ids sort by them in this order.
struct Uuid7Position {
  std::uint64_t milliseconds = 0;
  Random74 random;
};

/// The first id of a millisecond: random bits with the top bit 0, so that they can grow by 2^73.
[[nodiscard]] Uuid7Position first_in(std::uint64_t milliseconds, RandomSource& random);
/// The id after `last` (RFC 9562 6.2, method 2, monotonic random): the bits grow by `step` + 1; if
/// they no longer fit 74 bits, the first id of the next millisecond.
[[nodiscard]] Uuid7Position behind(const Uuid7Position& last, std::uint32_t step,
                                   RandomSource& random);

/// The form of a UUID in BSON (mongodb/specifications, bson-binary-uuid), for
/// 00112233-4455-6677-8899-aabbccddeeff:
enum class Representation {
  standard,       ///< binary subtype 4: 00112233 4455 6677 8899AABBCCDDEEFF
  java_legacy,    ///< binary subtype 3: 7766554433221100 FFEEDDCCBBAA9988
  csharp_legacy,  ///< binary subtype 3: 33221100 5544 7766 8899AABBCCDDEEFF
  python_legacy,  ///< binary subtype 3: as standard
  string,         ///< string of 36 lower-case characters, or of the digits of an alphabet
};
struct UuidForm {
  Representation representation = Representation::standard;
  TextForm text{};  ///< of `string`
};

void append_uuid(const Uuid& uuid, const UuidForm& form, Values& out);

}  // namespace idproxy::ids
