#pragma once

#include <optional>
#include <string_view>

#include "idproxy/wire/messages.hpp"

namespace idproxy::wire {

/// OP_QUERY, which servers since 5.1 accept only for hello and isMaster:
///
///   header  int32 flags  cstring fullCollectionName  int32 numberToSkip  int32 numberToReturn
///   document query  [document returnFieldsSelector]
struct OpQueryView {
  std::string_view full_collection_name;
  Bytes query;

  /// Reads one whole message; nothing if it is malformed.
  [[nodiscard]] static std::optional<OpQueryView> parse(Bytes message);
};

/// True if servers may answer this OP_QUERY with any number of OP_REPLYs without further requests
/// (flag Exhaust; servers before 5.1). `front`: of the message, with its flags; else it is false.
[[nodiscard]] bool is_exhaust(Bytes front);

/// OP_REPLY, the reply to OP_QUERY:
///
///   header  int32 responseFlags  int64 cursorID  int32 startingFrom  int32 numberReturned
///   document*
inline constexpr std::size_t kReplyDocuments = kHeaderSize + 20;

}  // namespace idproxy::wire
