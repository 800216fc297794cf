#include "id_store/reply_reasons.hpp"

#include "id_store/server_text.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/login_advice.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Reply;

/// A refusal of a command whose user is permitted to send it.
ids::Error refused(const Reply& reply, const std::string& where) {
  const std::string reason = "the id store answered with " + error_text(reply) + where;
  if (is(reply.code, CodeTrait::transient)) return failed(reason);
  ids::Error refusal = exhausted(reason);
  refusal.by_server = true;
  return refusal;
}

ids::Error forbidden(ids::Error advice) {
  advice.by_server = true;
  return advice;
}

}  // namespace

std::string why_unreached(const Reply& reply, const mongo::Login& login) {
  if (reply.kind != Reply::Kind::unreachable) return {};
  const bool is_login = reply.code == mongo::kNoLogin;
  return why_unreached(reply) + (is_login ? ' ' + advice::check_login(login) : "");
}

std::string why_unreached(const Reply& reply) {
  if (reply.kind == Reply::Kind::not_majority) return "does not reach a majority of its members";
  if (reply.code == mongo::kNoLogin) return "refuses the proxy's login: " + reply.message;
  if (reply.code == mongo::kOtherSet) return "is not found: " + reply.message;
  if (bson::find(reply.document.bytes(), "code")) return "does not answer: " + error_text(reply);
  return reply.message.empty() ? "does not answer" : "does not answer: " + reply.message;
}

std::string unreached(const Reply& reply) {
  if (reply.kind == Reply::Kind::not_majority) {
    return "the id store does not reach a majority of its members";
  }
  if (reply.code == mongo::kNoLogin) return kLoginRefused;
  if (reply.code == mongo::kOtherSet) {
    return "the id store's servers belong to another replica set than its connection string names";
  }
  const std::string no_answer = kNoAnswer;
  if (reply.code == mongo::kNoServer) return no_answer + ": its primary cannot be reached";
  const bool has_code = bson::find(reply.document.bytes(), "code").has_value();
  return has_code ? no_answer + ": " + error_text(reply) : no_answer;
}

ids::Error after_error(const mongo::Client& client, const Reply& reply, const std::string& db) {
  if (reply.kind != Reply::Kind::refused) return failed(unreached(reply));
  if (reply.code == ErrorCode::unauthorized) {
    return forbidden(advice::needs_read_write(client.login(), db));
  }
  return refused(reply, {});
}

ids::Error after_read_error(const mongo::Client& client, const Reply& reply, const Namespace& ns) {
  if (reply.kind != Reply::Kind::refused) return failed(unreached(reply));
  if (reply.code == ErrorCode::unauthorized)
    return forbidden(advice::needs_read(client.login(), ns));
  if (reply.code == ErrorCode::command_not_supported_on_view)
    return exhausted(is_a_view(ns.text()));
  return refused(reply, " (reading " + ns.text() + ")");
}

}  // namespace idproxy::id_store
