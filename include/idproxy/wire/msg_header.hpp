#pragma once

#include <cstdint>

#include "idproxy/base/bytes.hpp"

/// The MongoDB wire protocol (MongoDB manual, "Wire Protocol"; driver specifications, "OP_MSG").
///
///   message ::= int32 messageLength  int32 requestID  int32 responseTo  int32 opCode  body
///
/// All integers are little-endian; messageLength includes the header.
namespace idproxy::wire {

enum class OpCode : std::int32_t {
  reply = 1,
  update = 2001,
  insert = 2002,
  query = 2004,
  get_more = 2005,
  compressed = 2012,
  msg = 2013,
};

struct MsgHeader {
  std::int32_t message_length;
  std::int32_t request_id;
  std::int32_t response_to;
  OpCode op_code;  ///< may be an unknown value
};

inline constexpr std::size_t kHeaderSize = 16;
/// maxMessageSizeBytes: mongod closes the connection at 48,000,001 (observed, 6.0.5).
inline constexpr std::int64_t kMaxMessageSize = 48'000'000;

/// `bytes` must hold at least kHeaderSize bytes.
inline MsgHeader read_header(Bytes bytes) {
  return {load_i32(bytes.data()), load_i32(bytes.data() + 4), load_i32(bytes.data() + 8),
          static_cast<OpCode>(load_i32(bytes.data() + 12))};
}

inline void write_header(std::uint8_t* at, const MsgHeader& header) {
  store_i32(at, header.message_length);
  store_i32(at + 4, header.request_id);
  store_i32(at + 8, header.response_to);
  store_i32(at + 12, static_cast<std::int32_t>(header.op_code));
}

}  // namespace idproxy::wire
