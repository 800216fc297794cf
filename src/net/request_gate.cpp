#include "net/request_gate.hpp"

#include <algorithm>
#include <variant>

#include "idproxy/net/tls.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::net {
namespace {

// A message of which more than this must be held needs room in the budget.
constexpr std::size_t kUnbudgeted = std::size_t{64} * 1024;

constexpr ProtocolFault kTls{
    "tls_on_plain_port",
    "a client speaks TLS where listen.tls.mode is off: either is to be changed"};
constexpr ProtocolFault kLength{"bad_message_length",
                                "a client's message length is not between 16 and 48000000"};
constexpr ProtocolFault kCompressed{"compressed_message",
                                    "a client sent OP_COMPRESSED, which was not negotiated"};

RequestGate::Step reject(const ProtocolFault& fault) {
  return {.kind = RequestGate::Step::Kind::reject, .fault = fault};
}

}  // namespace

RequestGate::Step RequestGate::look(Bytes front, bool draining, rewrite::Namespaces& namespaces,
                                    rewrite::X509 x509) {
  using Frame = wire::FrameReader::Kind;
  using Kind = Step::Kind;
  const auto frame = frames_.look(front);
  if (frame.kind == Frame::inside) return {.kind = Kind::pass, .bytes = frame.bytes};
  if (frame.kind == Frame::need_more) return {.kind = Kind::need, .bytes = wire::kHeaderSize};
  if (!has_forwarded_ && tls::begins_tls(front)) return reject(kTls);
  if (frame.kind == Frame::malformed) return reject(kLength);
  const auto length = static_cast<std::size_t>(frame.header.message_length);
  const Bytes message = front.first(std::min(length, front.size()));
  const Message about{frame.header, wire::expects_reply(frame.header, message),
                      wire::has_flag(frame.header, message, wire::flag::kExhaustAllowed)};
  if (draining && about.expects_reply) return {.kind = Kind::late, .bytes = length};
  return look_at_message(about, message, namespaces, x509);
}

RequestGate::Step RequestGate::look_at_message(const Message& about, Bytes front,
                                               rewrite::Namespaces& namespaces,
                                               rewrite::X509 x509) {
  using Kind = Step::Kind;
  const auto length = static_cast<std::size_t>(about.header.message_length);
  Step step{.kind = Kind::collect,
            .bytes = length,
            .about = about,
            .decision = rewrite::classify(about.header, front, namespaces, x509)};
  if (const auto* relay = std::get_if<rewrite::decision::Relay>(&step.decision)) {
    step.kind = Kind::pass;
    step.bytes = front.size();
    step.begins = true;
    step.about.may_wait = about.may_wait || relay->may_wait;
    return step;
  }
  if (std::holds_alternative<rewrite::decision::Close>(step.decision)) {
    step.kind = Kind::reject;
    step.fault = kCompressed;
    return step;
  }
  if (const auto* request = std::get_if<rewrite::Request>(&step.decision)) {
    const auto* hello = std::get_if<rewrite::HelloRequest>(request);
    step.about.may_wait = about.may_wait || (hello != nullptr && hello->may_wait);
  }
  const auto* more = std::get_if<rewrite::decision::NeedMore>(&step.decision);
  const bool is_write = more != nullptr ? more->is_write
                                        : std::holds_alternative<rewrite::WriteRequest>(
                                              std::get<rewrite::Request>(step.decision));
  if (more != nullptr) {
    step.kind = Kind::need;
    step.bytes = more->bytes;
  }
  // Small commands of drivers do not wait behind large writes, or the driver would take the server
  // for dead.
  if ((is_write || step.bytes > kUnbudgeted) && !admit(length)) {
    wanted_room_ = length;
    step.kind = Kind::wait;
  }
  return step;
}

bool RequestGate::admit(std::size_t length) {
  if (share_.bytes() < length) share_ = budget_.take(length);
  return share_.bytes() > 0;
}

bool RequestGate::passed(const Step& step) {
  if (step.begins) {
    share_.reset();
    frames_.pass(step.about.header);
  }
  return frames_.took(step.bytes);
}

void RequestGate::leave() {
  share_.reset();
  if (place_ != 0) budget_.leave(std::exchange(place_, 0));
}

}  // namespace idproxy::net
