#pragma once

#include <array>
#include <boost/system/result.hpp>
#include <optional>
#include <string_view>

#include "idproxy/wire/msg_header.hpp"

namespace idproxy::wire {

/// OP_MSG:
///
///   header  uint32 flagBits  section+  [uint32 checksum]
///   section ::= 00 document                                          kind 0: the body, exactly one
///            |  01 int32 size  cstring identifier  document*         kind 1: size counts itself
///
/// Example, {ping: 1, $db: "a"}:
///   2F000000 01000000 00000000 DD070000  00000000  00  1A000000 10 70696E6700 01000000
///   02 24646200 02000000 6100 00
namespace flag {
inline constexpr std::uint32_t kChecksumPresent = 1U << 0;
inline constexpr std::uint32_t kMoreToCome = 1U << 1;
inline constexpr std::uint32_t kExhaustAllowed = 1U << 16;
/// Bits that a receiver must know; mongod closes the connection at any other of the low half.
inline constexpr std::uint32_t kRequiredBits = 0xFFFF;
}  // namespace flag

/// Sections of kind 1: bulkWrite has two, every other command at most one.
inline constexpr std::size_t kMaxSequences = 4;

inline constexpr std::size_t kFlagsOffset = kHeaderSize;
inline constexpr std::size_t kSectionsOffset = kHeaderSize + 4;

/// True if `front`, what is there of a message, is an OP_MSG and has this flag. False while the
/// flags are not there.
[[nodiscard]] inline bool has_flag(const MsgHeader& header, Bytes front, std::uint32_t bit) {
  return header.op_code == OpCode::msg && front.size() >= kSectionsOffset &&
         (load_u32(front.data() + kFlagsOffset) & bit) != 0;
}

enum class Errc {
  too_short = 1,       ///< no room for flags and the smallest body
  unknown_flag,        ///< a required bit that nobody defined
  unknown_kind,        ///< a section that is neither 0 nor 1
  bad_size,            ///< a section or its document leaves the message
  no_body,             ///< no section of kind 0
  two_bodies,          ///< more than one
  two_sequences,       ///< two of kind 1 with one identifier
  too_many_sequences,  ///< more than any command takes
  bad_checksum,        ///< it does not fit the bytes before it
};

template <class T>
using Result = boost::system::result<T, Errc>;

/// A section of kind 1.
struct DocumentSequence {
  std::string_view identifier;
  Bytes whole;      ///< from its kind byte on
  Bytes documents;  ///< one after the other; their lengths are not checked yet
};

/// One whole OP_MSG, borrowed.
class OpMsgView {
 public:
  /// `message` is exactly one message, its header's length checked. Reads sections in any order; a
  /// message that mongod could read in another way is an error (the codes that mongod gives:
  /// docs/server-behaviour.md#messages).
  [[nodiscard]] static Result<OpMsgView> parse(Bytes message);

  [[nodiscard]] const MsgHeader& header() const { return header_; }
  [[nodiscard]] Bytes message() const { return message_; }
  [[nodiscard]] bool has(std::uint32_t bit) const { return (flag_bits_ & bit) != 0; }
  /// The kind-0 document.
  [[nodiscard]] Bytes body() const { return body_; }
  [[nodiscard]] const DocumentSequence* sequence(std::string_view identifier) const;
  [[nodiscard]] std::size_t sequence_count() const { return sequence_count_; }

 private:
  Result<void> add_section(Bytes& rest);
  Result<void> add_sequence(Bytes section);

  Bytes message_;
  MsgHeader header_{};
  std::uint32_t flag_bits_ = 0;
  Bytes body_;
  std::array<DocumentSequence, kMaxSequences> sequences_;
  std::size_t sequence_count_ = 0;
};

}  // namespace idproxy::wire
