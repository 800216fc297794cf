#include "net/unreachable.hpp"

#include <utility>

#include "idproxy/rewrite/command.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/wire/msg_header.hpp"

namespace idproxy::net::unreachable {
namespace {

using Kind = Answer::Kind;

// The proxy holds no more of a request than it holds of any other that has no room in the budget.
constexpr std::size_t kLongest = std::size_t{64} * 1024;

/// Drivers take the end of the connection for the loss of the server: they choose another one, or
/// wait for it. An error in reply to hello some of them show to the application, and take longer to
/// find the server again (docs/decisions.md).
bool is_hello(Bytes request) {
  const auto command = rewrite::Command::find(request);
  return command && rewrite::is_hello(command->name);
}

}  // namespace

std::string message(std::string_view server, std::string_view reason) {
  std::string text = "mongo-idproxy: cannot reach ";
  return text.append(server).append(": ").append(reason);
}

Answer answer(Bytes front, const std::string& errmsg, std::int32_t id) {
  if (front.size() < wire::kHeaderSize) return {Kind::need_more, wire::kHeaderSize};
  const std::int32_t announced = wire::read_header(front).message_length;
  const auto length = static_cast<std::size_t>(announced);
  if (announced < static_cast<std::int32_t>(wire::kHeaderSize) || length > kLongest) {
    return {Kind::close};
  }
  if (front.size() < length) return {Kind::need_more, length};
  const Bytes request = front.first(length);
  if (is_hello(request)) return {Kind::close};
  Answer refusal{.kind = Kind::reply};
  const rewrite::CommandError error{rewrite::ErrorCode::host_unreachable, errmsg};
  if (!rewrite::append_unsent_reply(request, id, error, refusal.reply)) return {Kind::close};
  return refusal;
}

}  // namespace idproxy::net::unreachable
