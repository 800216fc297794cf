#pragma once

#include <cstdint>
#include <string_view>

#include "idproxy/rewrite/memory.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/patched_message.hpp"

/// How the proxy learns what a client may do: it asks the server on the client's own connection, by
/// a command that the server refuses in any case. To those who have the right, it says what is
/// wrong with the command; to others, error 13. Nothing is stored, and no collection is made
/// (observed, 4.4.2, 5.0.4, 6.0.5):
///
///   insert           {insert: c, documents: [{_id: []}]}                write error 53; 2 in 4.4
///   upsert           {update: c, ordered: true, updates: [              write error 9
///                      {q: {}, u: {$idproxy: 1}},
///                      {q: {}, u: {$idproxy: 1}, upsert: true}]}
///   find_and_modify  {findAndModify: c, query: {}, update: [],          error 9
///                      arrayFilters: [], upsert: true}
///
/// The second update is never tried, and so makes no collection; but the server asks for its
/// rights. The command belongs to no session: it cannot end a transaction of the client, or take a
/// number from its retryable writes.
namespace idproxy::rewrite {

/// Makes the question in `out`, which answers `request_id`. `client`: the message for which the
/// right is needed; fields of it that change what the server asks for, or when it answers, are
/// kept.
void ask_right(const wire::OpMsgView& client, std::int32_t request_id, std::string_view db,
               std::string_view collection, Right right, wire::PatchedMessage& out);

enum class RightAnswer {
  may,
  may_not,    ///< error 13
  failed,     ///< another error of the whole command: nobody knows
  malformed,  ///< no server answers so
};
[[nodiscard]] RightAnswer read_right(const wire::OpMsgView& reply, Right right);

}  // namespace idproxy::rewrite
