#include "net/ending.hpp"

#include "idproxy/rewrite/command.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/wire/messages.hpp"

namespace idproxy::net {
namespace {

using Because = Refusal::Kind;

/// Drivers take the end of the connection for the loss of the server: they choose another one, or
/// wait for it. An error in reply to hello some of them show to the application, and take longer to
/// find the server again (docs/decisions.md).
bool is_hello(Bytes request) {
  const auto command = rewrite::Command::find(request);
  return command && rewrite::is_hello(command->name);
}

}  // namespace

drain::Next drain::next(const Progress& progress) {
  if (progress.handshaking || progress.busy || progress.unsent || progress.outstanding > 0) {
    return Next::wait;
  }
  if (progress.ended) return Next::close;
  if (progress.inside_message) return Next::wait;
  return progress.seen_empty ? Next::close : Next::read;
}

Refusal refuse_late(Bytes front, std::size_t length, std::int32_t id) {
  if (length > kLongestLate) return {Because::close};
  if (front.size() < length) return {Because::need_more, length};
  Refusal refusal{.kind = Because::reply};
  if (!rewrite::append_shutdown_reply(front, id, refusal.reply)) return {Because::close};
  return refusal;
}

Refusal refuse_unreachable(Bytes front, const std::string& errmsg, std::int32_t id) {
  // The proxy holds no more of a request than it holds of any other that has no room in the budget.
  constexpr std::size_t kLongest = std::size_t{64} * 1024;
  if (front.size() < wire::kHeaderSize) return {Because::need_more, wire::kHeaderSize};
  const std::int32_t announced = wire::read_header(front).message_length;
  const auto length = static_cast<std::size_t>(announced);
  if (announced < static_cast<std::int32_t>(wire::kHeaderSize) || length > kLongest) {
    return {Because::close};
  }
  if (front.size() < length) return {Because::need_more, length};
  const Bytes request = front.first(length);
  if (is_hello(request)) return {Because::close};
  Refusal refusal{.kind = Because::reply};
  const rewrite::CommandError error{ErrorCode::host_unreachable, errmsg};
  if (!rewrite::append_unsent_reply(request, id, error, refusal.reply)) return {Because::close};
  return refusal;
}

std::string unreachable_text(std::string_view server, std::string_view reason) {
  std::string text = "mongo-idproxy: cannot reach ";
  return text.append(server).append(": ").append(reason);
}

}  // namespace idproxy::net
