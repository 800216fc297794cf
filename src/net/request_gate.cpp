#include "net/request_gate.hpp"

#include <algorithm>
#include <variant>

#include "idproxy/net/tls.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "net/ending.hpp"

namespace idproxy::net {
namespace {

// A message of which more than this must be held needs room in the budget. A connection without the
// login that its server wants may hold no more.
constexpr std::size_t kUnbudgeted = Budget::kSmall;
// So much of a write is awaited before it takes room, or an unsent one could wait for its turn.
constexpr std::size_t kBeginning = std::size_t{4} * 1024;

constexpr ProtocolFault kTls{
    "tls_on_plain_port",
    "a client speaks TLS where listen.tls.mode is off: either is to be changed"};
constexpr ProtocolFault kLength{"bad_message_length",
                                "a client's message length is not between 16 and 48000000"};
constexpr ProtocolFault kCompressed{
    "compressed_message",
    "a client's OP_COMPRESSED has a compressor that was not negotiated, or is malformed"};
constexpr ProtocolFault kStaysPlain{
    "compressed_message",
    "a client compressed a command with a new password, which drivers must not do"};

constexpr ProtocolFault kNeedsLogin{
    "login_required",
    "a client that has not logged in, as its server wants, sends more than 64 KiB that the proxy "
    "would have to hold: have it log in (docs/operations.md#limits)"};

constexpr ProtocolFault kLegacyWrite{
    "legacy_write",
    "a client sent OP_INSERT or OP_UPDATE where a rule applies: writes must come as OP_MSG"};

RequestGate::Step reject(const ProtocolFault& fault) {
  return {.kind = RequestGate::Step::Kind::reject, .fault = fault};
}

RequestGate::Message message_of(const wire::MsgHeader& header, Bytes front) {
  return {.header = header,
          .expects_reply = wire::expects_reply(header, front),
          .may_wait = wire::has_flag(header, front, wire::flag::kExhaustAllowed)};
}

/// Decides about a message of which `front` is known. Step::bytes counts bytes of it.
RequestGate::Step step_for(const RequestGate::Message& about, Bytes front,
                           rewrite::Namespaces& namespaces, rewrite::X509 x509) {
  using Kind = RequestGate::Step::Kind;
  RequestGate::Step step{.kind = Kind::collect,
                         .bytes = static_cast<std::size_t>(about.header.message_length),
                         .about = about,
                         .decision = rewrite::classify(about.header, front, namespaces, x509),
                         .message = front};
  if (const auto* relay = std::get_if<rewrite::decision::Relay>(&step.decision)) {
    step.kind = Kind::relay;
    step.length = step.bytes;
    step.bytes = front.size();
    step.begins = true;
    step.about.may_wait = about.may_wait || relay->may_wait;
  } else if (const auto* more = std::get_if<rewrite::decision::NeedMore>(&step.decision)) {
    step.kind = Kind::need;
    step.length = step.bytes;
    step.bytes = more->bytes;
  } else if (std::holds_alternative<rewrite::decision::Close>(step.decision)) {
    step.kind = Kind::reject;
    step.fault = kLegacyWrite;
  } else {
    const auto* hello =
        std::get_if<rewrite::HelloRequest>(&std::get<rewrite::Request>(step.decision));
    step.about.may_wait = about.may_wait || (hello != nullptr && hello->may_wait);
  }
  return step;
}

bool is_write(const rewrite::Decision& decision) {
  if (const auto* more = std::get_if<rewrite::decision::NeedMore>(&decision)) {
    return more->is_write;
  }
  const auto* request = std::get_if<rewrite::Request>(&decision);
  return request != nullptr && std::holds_alternative<rewrite::WriteRequest>(*request);
}

}  // namespace

RequestGate::Step RequestGate::decide(Bytes front, const Client& client,
                                      rewrite::Namespaces& namespaces) {
  using Frame = wire::FrameReader::Kind;
  using Kind = Step::Kind;
  const auto frame = frames_.front(front);
  if (frame.kind == Frame::inside) return {.kind = Kind::relay, .bytes = frame.bytes};
  if (frame.kind == Frame::need_more) return {.kind = Kind::need, .bytes = wire::kHeaderSize};
  if (!has_forwarded_ && tls::begins_tls(front)) return reject(kTls);
  if (frame.kind == Frame::malformed) return reject(kLength);
  const auto length = static_cast<std::size_t>(frame.header.message_length);
  const Bytes message = front.first(std::min(length, front.size()));
  if (frame.header.op_code == wire::OpCode::compressed) {
    return look_inside(frame.header, message, client, namespaces);
  }
  const Message about = message_of(frame.header, message);
  if (client.draining && about.expects_reply) {
    return {.kind = Kind::late, .bytes = length, .about = about, .message = message};
  }
  return look_at_message(about, message, client, namespaces);
}

RequestGate::Step RequestGate::look_at_message(const Message& about, Bytes front,
                                               const Client& client,
                                               rewrite::Namespaces& namespaces) {
  Step step = step_for(about, front, namespaces, client.x509);
  const auto length = static_cast<std::size_t>(about.header.message_length);
  find_room(step, {.there = front.size(), .next = step.bytes, .whole = length}, client);
  return step;
}

/// Inflates the beginning of a message, and all of it where that is not enough to decide.
/// `front`: of the OP_COMPRESSED, as much as has been received.
RequestGate::Step RequestGate::look_inside(const wire::MsgHeader& outer, Bytes front,
                                           const Client& client, rewrite::Namespaces& namespaces) {
  using Kind = Step::Kind;
  using Peeked = Inflation::Peeked;
  const auto length = static_cast<std::size_t>(outer.message_length);
  if (length < wire::kCompressedOffset) return reject(kCompressed);
  if (front.size() < wire::kCompressedOffset) {
    return {.kind = Kind::need, .bytes = wire::kCompressedOffset};
  }
  const auto view = wire::CompressedView::read(outer, front);
  if (!view || !client.compressors.has(view->compressor)) return reject(kCompressed);
  const auto inner = static_cast<std::size_t>(view->original.message_length);
  Step step{.kind = Kind::need, .bytes = length, .length = length};
  const auto peeked = inflation_.peek(*view, front.size(), length, inflation_.request);
  switch (peeked.kind) {
    case Peeked::Kind::malformed:
      return reject(kCompressed);
    case Peeked::Kind::need:
      step.bytes = peeked.bytes;
      find_room(step,
                {.there = front.size(),
                 .next = step.bytes,
                 .whole = std::min(length, Inflation::kMostOfPrefix)},
                client);
      return step;
    case Peeked::Kind::there:
      step = decide_inside(outer, front, *view, client, namespaces);
      if (step.kind != Kind::need) return step;
      break;
    case Peeked::Kind::whole:
      break;
  }
  const std::size_t both = length + inner;
  const bool is_there = front.size() == length;
  find_room(
      step,
      {.there = is_there ? both : front.size(), .next = is_there ? both : length, .whole = both},
      client);
  if (step.kind != Kind::need || !is_there) return step;
  if (!inflation_.codec.inflate(*view, inflation_.request)) return reject(kCompressed);
  step = decide_inside(outer, front, *view, client, namespaces);
  find_room(step, {.there = both, .next = both, .whole = both}, client);
  return step;
}

/// Decides by what has been inflated; Step::bytes counts bytes of `front`, as it was received.
RequestGate::Step RequestGate::decide_inside(const wire::MsgHeader& outer, Bytes front,
                                             const wire::CompressedView& view, const Client& client,
                                             rewrite::Namespaces& namespaces) {
  using Kind = Step::Kind;
  const Bytes message = inflation_.request.view();
  const auto inner = static_cast<std::size_t>(view.original.message_length);
  if (rewrite::stays_plain(view.original, message)) return reject(kStaysPlain);
  Message about = message_of(view.original, message);
  about.may_stream = about.may_wait;
  about.compressor = view.compressor;
  const auto length = static_cast<std::size_t>(outer.message_length);
  if (client.draining && about.expects_reply) {
    const bool is_needed = message.size() < inner && inner <= kLongestLate;
    return {.kind = is_needed ? Kind::need : Kind::late,
            .bytes = length,
            .about = about,
            .message = message};
  }
  Step step = step_for(about, message, namespaces, client.x509);
  step.length = length;
  step.bytes = step.kind == Kind::relay ? front.size() : length;
  return step;
}

/// Lets `step` wait if there is no room for what is there of the message, or has it looked at again
/// once there is as much again. What an exchange holds, others wait for: its reply must not be
/// stuck behind those that the client does not read. (The server, too, begins with a request only
/// then.)
void RequestGate::find_room(Step& step, const Extent& message, const Client& client) {
  using Kind = Step::Kind;
  if (step.kind != Kind::need && step.kind != Kind::collect) return;
  const bool write = is_write(step.decision);
  const bool is_small = !write && message.next <= kUnbudgeted;
  if (!client.has_replies && (!is_small || step.kind == Kind::collect)) {
    step.kind = Kind::later;
    return;
  }
  if (is_small) return;
  if (client.needs_login && (write ? message.whole : message.next) > kUnbudgeted) {
    step = reject(kNeedsLogin);
    return;
  }
  const std::uint64_t there = message.there;
  std::uint64_t held = message.whole;
  if (there < held && step.kind == Kind::need) {
    // Else a large message is copied each time that it has grown.
    const std::uint64_t ahead = std::min<std::uint64_t>(held, client.expected);
    if (ahead > std::max<std::uint64_t>(2 * there, kUnbudgeted) &&
        budget_.grow_ahead(share_, ahead)) {
      step.bytes = std::min<std::size_t>(step.bytes, ahead);
      return;
    }
    const std::uint64_t again =
        there < kBeginning ? kBeginning : std::max<std::uint64_t>(2 * there, kUnbudgeted);
    step.bytes = std::min<std::size_t>(step.bytes, again);
    if (there < kBeginning) return;
    held = there < kUnbudgeted ? there : std::min(held, 2 * there);
  }
  wanted_ = {.bytes = held, .whole = message.whole};
  if (!budget_.grow(share_, wanted_)) step.kind = Kind::wait;
}

bool RequestGate::relayed(const Step& step) {
  if (step.begins) {
    share_.reset();
    frames_.enter(step.length);
  }
  return frames_.took(step.bytes);
}

void RequestGate::leave() {
  share_.reset();
  if (place_ != 0) budget_.leave(std::exchange(place_, 0));
}

}  // namespace idproxy::net
