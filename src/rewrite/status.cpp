#include "rewrite/status.hpp"

#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "rewrite/own_message.hpp"

namespace idproxy::rewrite {
namespace {

constexpr std::string_view kNeeded =
    "mongo-idproxy: the status is for those who may do hostInfo on the cluster, which the role "
    "clusterMonitor includes; the server says: ";

void append_all(Bytes document, Buffer& out) {
  for (const bson::Element& each : bson::Elements(document)) bson::append_copy(out, each);
}

}  // namespace

std::optional<CommandError> fault_of_database(const wire::OpMsgView& request) {
  const auto db = bson::find(request.body(), "$db", bson::Type::string);
  if (db && db->text() == "admin") return std::nullopt;
  return CommandError{ErrorCode::unauthorized,
                      "idproxy may only be run against the admin database."};
}

std::optional<CommandError> fault_of_status_request(const wire::OpMsgView& request) {
  if (auto fault = fault_of_database(request)) return fault;
  const auto what = bson::Elements(request.body()).next();
  if (!what || what->type != bson::Type::string || what->text() != "status") {
    return CommandError{ErrorCode::bad_value,
                        "mongo-idproxy: it answers {idproxy: \"status\"} and {idproxy: "
                        "\"next\"}, and nothing else"};
  }
  return std::nullopt;
}

void ask_for_right(const wire::OpMsgView& request, wire::PatchedMessage& out) {
  OwnCommand question(request, request.header().request_id);
  bson::append_int32(question.body(), "hostInfo", 1);
  question.send({}, "admin", out);
}

std::optional<bool> permits_status(const wire::OpMsgView& reply) {
  std::optional<std::int64_t> ok;
  bson::Elements fields(reply.body());
  while (const auto field = fields.next()) {
    if (field->key != "ok") continue;
    if (ok) return std::nullopt;
    ok = field->as_integer();
    if (ok != 0 && ok != 1) return std::nullopt;
  }
  if (fields.malformed() || !ok) return std::nullopt;
  return *ok == 1;
}

void append_status_refusal(const wire::OpMsgView& request, const wire::OpMsgView& reply,
                           Buffer& out) {
  append_refusal(request, reply, kNeeded, out);
}

void append_status_reply(const wire::OpMsgView& request, const wire::OpMsgView& reply, Bytes status,
                         Buffer& out) {
  append_answer(out, reply.header().request_id, request, [&] {
    append_all(status, out);
    bson::append_double(out, "ok", 1);
    append_fields(reply.body(), {"$clusterTime", "operationTime"}, out);
  });
}

}  // namespace idproxy::rewrite
