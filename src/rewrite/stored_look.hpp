#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "idproxy/ids/reservations.hpp"
#include "idproxy/ids/scope.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// The documents of an insert that a server has stored, found by their `_id`s with one query on the
/// client's connection: servers before 6.0 do not say which statements of a repeated insert they
/// had executed before (docs/server-behaviour.md#retryable-writes).
class StoredLook {
 public:
  /// Larger inserts are not looked at: the query would become too large.
  static constexpr std::size_t kMost = 10'000;

  /// `ids`: by statement; the type `null` without bytes stands for none.
  explicit StoredLook(std::vector<ids::TypedValue> ids) : ids_(std::move(ids)) {}

  struct Question {
    const wire::OpMsgView* insert;  ///< the client's message
    std::string_view ns;            ///< "db.collection"
    std::int32_t request_id;
    std::optional<std::int64_t> max_time_ms;
  };
  /// Fills `out` with the query for the fields of these rules.
  void emit(const Question& question, const Plan& plan, wire::PatchedMessage& out) const;
  /// Event: the reply to the query. False if it tells nothing.
  bool read(const wire::OpMsgView& reply);

  /// The field's value in the statement's document; nothing if there is no such document or no such
  /// field. Valid as long as this object.
  [[nodiscard]] std::optional<bson::Element> value(std::int32_t statement,
                                                   std::string_view field) const;

 private:
  [[nodiscard]] const Buffer* document(std::int32_t statement) const;

  std::vector<ids::TypedValue> ids_;
  std::unordered_map<std::string, Buffer> documents_;  // by type and bytes of `_id`
};

}  // namespace idproxy::rewrite
