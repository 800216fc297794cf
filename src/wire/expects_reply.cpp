#include "idproxy/wire/expects_reply.hpp"

#include "idproxy/wire/op_msg.hpp"

namespace idproxy::wire {

bool expects_reply(const MsgHeader& header, Bytes front) {
  switch (header.op_code) {
    case OpCode::msg:
      return !has_flag(header, front, flag::kMoreToCome);
    case OpCode::query:
    case OpCode::get_more:
      return true;
    default:
      return false;
  }
}

bool is_legacy_exhaust(const MsgHeader& header, Bytes front) {
  constexpr std::uint32_t kExhaust = 1U << 6;
  return header.op_code == OpCode::query && front.size() >= kHeaderSize + 4 &&
         (load_u32(front.data() + kHeaderSize) & kExhaust) != 0;
}

}  // namespace idproxy::wire
