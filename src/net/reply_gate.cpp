#include "net/reply_gate.hpp"

#include <algorithm>

#include "idproxy/wire/op_msg.hpp"

namespace idproxy::net {
namespace {

ReplyGate::Step reject(std::string_view fault) {
  return {.kind = ReplyGate::Step::Kind::reject, .fault = fault};
}

/// How many bytes of a reply must have been received before it can be passed on: all of a reply to
/// an exchange; otherwise the header and the flags, which tell whether more replies follow.
std::size_t bytes_needed(const wire::MsgHeader& header, bool for_exchange) {
  const auto length = static_cast<std::size_t>(header.message_length);
  if (for_exchange) return length;
  return header.op_code == wire::OpCode::msg ? std::min(length, wire::kSectionsOffset)
                                             : wire::kHeaderSize;
}

}  // namespace

ReplyGate::Step ReplyGate::decide(Bytes front, Exchange exchange, bool abandoned) const {
  using Kind = Step::Kind;
  using Frame = wire::FrameReader::Kind;
  const auto frame = frames_.front(front);
  if (frame.kind == Frame::inside) return {.kind = Kind::relay, .bytes = frame.bytes};
  if (frame.kind == Frame::need_more) return {.kind = Kind::need, .bytes = wire::kHeaderSize};
  if (frame.kind == Frame::malformed) {
    return reject("a server's message length is not between 16 and 48000000");
  }
  const bool for_exchange = is_for(exchange);
  const std::size_t needed = bytes_needed(frame.header, for_exchange);
  if (front.size() < needed) return {.kind = Kind::need, .bytes = needed};
  if (abandoned && ledger_.outstanding() == 0) return {.kind = Kind::over};
  if (const auto fault = fault_of(frame.header, exchange); !fault.empty()) return reject(fault);
  if (for_exchange) return {.kind = Kind::exchange, .bytes = needed};
  const auto length = static_cast<std::size_t>(frame.header.message_length);
  const Bytes message = front.first(std::min(length, front.size()));
  const Step step{.kind = Kind::relay,
                  .bytes = message.size(),
                  .begins = true,
                  .more = wire::has_flag(frame.header, message, wire::flag::kMoreToCome),
                  .header = frame.header};
  const bool is_hidden = may_stream_ && frame.header.op_code == wire::OpCode::compressed;
  return is_hidden ? look_for_more(step, message) : step;
}

/// Finds out whether another reply follows a compressed one: `step`, but for `more`, or another.
ReplyGate::Step ReplyGate::look_for_more(Step step, Bytes front) const {
  using Kind = Step::Kind;
  using Peeked = Inflation::Peeked;
  constexpr std::string_view kFault = "a server's OP_COMPRESSED is malformed";
  const auto length = static_cast<std::size_t>(step.header.message_length);
  const std::size_t least = std::min(length, wire::kCompressedOffset + 1);
  if (front.size() < least) return {.kind = Kind::need, .bytes = least};
  const auto view = length > wire::kCompressedOffset
                        ? wire::CompressedView::read(step.header, front)
                        : std::nullopt;
  if (!view) return reject(kFault);
  const auto peeked = inflation_.peek(*view, front.size(), length, inflation_.reply);
  if (peeked.kind == Peeked::Kind::need) return {.kind = Kind::need, .bytes = peeked.bytes};
  if (peeked.kind == Peeked::Kind::malformed) return reject(kFault);
  if (peeked.kind == Peeked::Kind::whole) {
    // Only a small one, or none that a server makes.
    if (length > Inflation::kMostOfPrefix) return reject(kFault);
    if (front.size() < length) return {.kind = Kind::need, .bytes = length};
    if (!inflation_.codec.inflate(*view, inflation_.reply)) return reject(kFault);
  }
  step.more = wire::has_flag(view->original, inflation_.reply.view(), wire::flag::kMoreToCome);
  return step;
}

/// Why the reply cannot answer an outstanding request, or "".
std::string_view ReplyGate::fault_of(const wire::MsgHeader& header, Exchange exchange) const {
  using Owed = wire::ReplyLedger::Owed;
  if (ledger_.unrequested_permitted() && !is_for(exchange)) return {};
  const Owed owed = ledger_.owed(header);
  if (owed == Owed::to_nobody) return "the server sent a reply without a request";
  if (owed == Owed::to_other) return "a server's reply belongs to no request of this connection";
  if (is_for(exchange) && !exchange.sent_whole) {
    return "the server replied to a request that had not been sent whole";
  }
  return {};
}

ReplyGate::Ended ReplyGate::relayed(const Step& step) {
  if (step.begins) {
    step.more ? ledger_.begin_with_more(step.header) : ledger_.begin_last();
    frames_.enter(static_cast<std::size_t>(step.header.message_length));
  }
  if (!frames_.took(step.bytes)) return Ended::nothing;
  return ledger_.is_last() ? Ended::last_reply : Ended::reply;
}

}  // namespace idproxy::net
