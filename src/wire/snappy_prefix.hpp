#pragma once

#include <cstddef>

#include "idproxy/base/bytes.hpp"

namespace idproxy::wire {

/// The beginning of a block in the format of snappy (format_description.txt of its source), which
/// its library decodes only as a whole:
///
///   block   ::= varint length  element*
///   element ::= tag, whose low two bits tell the kind: 0 a literal, 1 to 3 a copy of bytes that
///               were decoded before, with an offset of 1, 2 or 4 bytes
struct SnappyPrefix {
  enum class Status { there, need_more, malformed };
  Status status;
  std::size_t decoded;  ///< number of bytes written
};

/// Decodes into all of `out`, which is no longer than `length`. Malformed, too, if the block states
/// another length.
[[nodiscard]] SnappyPrefix decode_snappy_prefix(Bytes block, std::size_t length,
                                                std::span<std::uint8_t> out);

}  // namespace idproxy::wire
