#include "id_store/reply_reasons.hpp"

#include "id_store/counter_commands.hpp"
#include "id_store/login_advice.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Reply;

/// The reason for clients, without the names of servers.
std::string no_answer(const Reply& reply) {
  switch (reply.code) {
    case mongo::kNoLogin:
      return "the id store refuses the proxy's login";
    case mongo::kNoServer:
      return std::string(kNoAnswer) + ": its primary cannot be reached";
    default:
      return bson::find(reply.document.bytes(), "code")
                 ? std::string(kNoAnswer) + ": error " + code_name(reply)
                 : kNoAnswer;
  }
}

}  // namespace

std::string why_unreached(const Reply& reply, const mongo::Login& login) {
  if (reply.kind != Reply::Kind::unreachable) return {};
  if (reply.code == mongo::kNoLogin) return reply.message + " " + advice::check_login(login);
  return reply.message.empty() ? kNoAnswer : reply.message;
}

ids::CounterReply after_error(const mongo::Client& client, const Reply& reply,
                              const std::string& db) {
  if (reply.kind == Reply::Kind::unreachable) return failed(no_answer(reply));
  if (reply.kind == Reply::Kind::not_majority) {
    return failed("the id store does not reach a majority of its members");
  }
  if (reply.code == mongo::kUnauthorized) return advice::needs_read_write(client.login(), db);
  return failed("the id store answered with error " + code_name(reply));
}

}  // namespace idproxy::id_store
