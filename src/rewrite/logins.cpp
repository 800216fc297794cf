#include "idproxy/rewrite/logins.hpp"

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/hello_reply.hpp"
#include "idproxy/rewrite/reply.hpp"

namespace idproxy::rewrite {

Logins read_logins(Bytes reply) {
  const auto answer = find_hello_document(reply);
  if (!answer) return Logins::unknown;
  const auto ok = bson::find(answer->document, "ok");
  if (ok && ok->as_integer() == 1) return Logins::not_enforced;
  const auto code = bson::find(answer->document, "code");
  const bool refused =
      code && code->as_integer() == static_cast<std::int32_t>(ErrorCode::unauthorized);
  return refused ? Logins::enforced : Logins::unknown;
}

}  // namespace idproxy::rewrite
