#pragma once

#include <array>
#include <boost/system/result.hpp>
#include <optional>
#include <string_view>

#include "idproxy/wire/messages.hpp"

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
/// Bits that a receiver must know: mongod closes the connection at an unknown one in this half.
inline constexpr std::uint32_t kRequiredBits = 0xFFFF;
}  // namespace flag

/// Accepted sections of kind 1: bulkWrite has two, every other command at most one.
inline constexpr std::size_t kMaxSequences = 4;

inline constexpr std::size_t kFlagsOffset = kHeaderSize;
inline constexpr std::size_t kSectionsOffset = kHeaderSize + 4;

/// True if the message is an OP_MSG and has this flag. `front`: the bytes of it received so far.
/// False while the flags have not been received.
[[nodiscard]] inline bool has_flag(const MsgHeader& header, Bytes front, std::uint32_t bit) {
  return header.op_code == OpCode::msg && front.size() >= kSectionsOffset &&
         (load_u32(front.data() + kFlagsOffset) & bit) != 0;
}

/// True if mongod answers the message. `front`: the bytes of it received so far; for an OP_MSG they
/// must include the flags.
[[nodiscard]] bool expects_reply(const MsgHeader& header, Bytes front);

enum class Errc {
  too_short = 1,       ///< no room for flags and the smallest body
  unknown_flag,        ///< a required bit that is not defined
  unknown_kind,        ///< a section of a kind other than 0 and 1
  bad_size,            ///< a section or its document exceeds the message
  no_body,             ///< no section of kind 0
  two_bodies,          ///< more than one section of kind 0
  two_sequences,       ///< two sections of kind 1 with the same identifier
  too_many_sequences,  ///< more than kMaxSequences
  bad_checksum,        ///< it does not match the bytes before it
};

template <class T>
using Result = boost::system::result<T, Errc>;

/// Where bytes are in a message, and in each copy of it.
struct Extent {
  std::uint32_t at = 0;
  std::uint32_t size = 0;

  /// Of a `part` of the message that starts at `message`.
  [[nodiscard]] static Extent of(Bytes part, const std::uint8_t* message) {
    return {static_cast<std::uint32_t>(part.data() - message),
            static_cast<std::uint32_t>(part.size())};
  }
  [[nodiscard]] Bytes in(const std::uint8_t* message) const { return {message + at, size}; }
};

/// A section of kind 1.
struct DocumentSequence {
  std::string_view identifier;
  Bytes whole;      ///< the section from its kind byte on
  Bytes documents;  ///< one after the other; their lengths are not checked
};

/// A view of one whole OP_MSG, valid as long as the message's bytes.
class OpMsgView {
 public:
  /// `message` must be exactly one message, with the length in its header checked. Accepts sections
  /// in any order. A message that mongod could read differently is an error
  /// (docs/server-behaviour.md#messages has mongod's codes).
  [[nodiscard]] static Result<OpMsgView> parse(Bytes message);

  /// The same view of a copy of the message.
  [[nodiscard]] OpMsgView in(Bytes copy) const {
    OpMsgView view = *this;
    view.message_ = copy;
    return view;
  }

  [[nodiscard]] MsgHeader header() const { return read_header(message_); }
  [[nodiscard]] Bytes message() const { return message_; }
  [[nodiscard]] bool has(std::uint32_t bit) const {
    return (load_u32(message_.data() + kFlagsOffset) & bit) != 0;
  }
  /// The document of the section of kind 0.
  [[nodiscard]] Bytes body() const { return body_.in(message_.data()); }
  [[nodiscard]] std::optional<DocumentSequence> sequence(std::string_view identifier) const;
  [[nodiscard]] std::size_t sequence_count() const { return sequence_count_; }

 private:
  // Errc{}: it is added.
  inline Errc add_section(Bytes& rest);
  inline Errc add_sequence(Bytes section);

  // Small, because each write command has one: the rest is read again where it is needed.
  Bytes message_;
  Extent body_;
  std::array<std::uint32_t, kMaxSequences> sequences_{};  // positions in the message
  std::uint32_t sequence_count_ = 0;
};

}  // namespace idproxy::wire
