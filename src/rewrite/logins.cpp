#include "idproxy/rewrite/logins.hpp"

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/hello_reply.hpp"
#include "idproxy/rewrite/reply.hpp"

namespace idproxy::rewrite {

Logins read_logins(Bytes reply) {
  const auto answer = find_hello_document(reply);
  if (!answer) return Logins::unknown;
  if (bson::find_integer(answer->document, "ok") == 1) return Logins::not_enforced;
  const auto code = bson::find_integer(answer->document, "code");
  return code == ErrorCode::unauthorized ? Logins::enforced : Logins::unknown;
}

}  // namespace idproxy::rewrite
