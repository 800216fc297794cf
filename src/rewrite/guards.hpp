#pragma once

#include <chrono>
#include <optional>

#include "idproxy/base/buffer.hpp"
#include "idproxy/ids/guard.hpp"
#include "idproxy/rewrite/batch_command.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {

/// What the guards of the rules say whose values a write stores.
struct GuardVerdict {
  enum class Kind {
    ready,       ///< the write may be sent; with `uuid`, if there is one
    waits,       ///< ask the guard of `assignment` first
    refused,     ///< there is no value for `assignment`: `error`
    left_alone,  ///< no rule applies to the collection after all
  };
  Kind kind = Kind::ready;
  const Assignment* assignment = nullptr;
  ids::Error error{};
  std::optional<ids::CollectionUuid> uuid{};
};
[[nodiscard]] GuardVerdict ask_guards(const Plan& plan, const GivenValues& given,
                                      std::chrono::nanoseconds now);

/// Tells the guards that the collection with this UUID is not there.
void tell_gone(const Plan& plan, const ids::CollectionUuid& uuid);
/// Tells the guards that the server does not accept `collectionUUID`.
void tell_no_uuid(const Plan& plan);

/// The UUID for the field `collectionUUID` of the command; nothing: it must not have one.
/// findAndModify and the strict Stable API do not know the field (observed, 6.0.5), and a client
/// may send one of its own.
[[nodiscard]] std::optional<ids::CollectionUuid> uuid_for(const GuardVerdict& verdict, Bytes body,
                                                          WriteKind kind);
/// Appends {collectionUUID: <uuid>} as an element. The server refuses each statement with error 361
/// CollectionUUIDMismatch, and stores nothing, if its collection has another UUID
/// (docs/server-behaviour.md#collection-uuid).
void append_uuid(const ids::CollectionUuid& uuid, Buffer& out);

}  // namespace idproxy::rewrite
