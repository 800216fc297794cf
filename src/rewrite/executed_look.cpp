#include "rewrite/executed_look.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "rewrite/own_command.hpp"

namespace idproxy::rewrite {
namespace {

using bson::append_inside;
using bson::Type;

// What the update has in common with the insert.
constexpr std::array<std::string_view, 5> kKeptInSession = {"lsid", "txnNumber", "apiVersion",
                                                            "apiStrict", "apiDeprecationErrors"};

void append_statement(std::string_view key, Buffer& out) {
  append_inside(out, Type::document, key, [&] {
    append_inside(out, Type::document, "q", [&] {
      append_inside(out, Type::document, "_id",
                    [&] { append_inside(out, Type::array, "$in", [] {}); });
    });
    append_inside(out, Type::document, "u", [&] {
      append_inside(out, Type::document, "$set", [&] { bson::append_int32(out, "_", 0); });
    });
  });
}

}  // namespace

void ExecutedLook::emit(const Question& question, wire::PatchedMessage& out) const {
  const std::size_t dot = question.ns.find('.');
  OwnCommand command(*question.insert, question.request_id);
  Buffer& update = command.body();
  bson::append_string(update, "update", question.ns.substr(dot + 1));
  append_inside(update, Type::array, "updates", [&] {
    for (std::size_t i = 0; i < statements_.size(); ++i) {
      append_statement(std::to_string(i), update);
    }
  });
  append_inside(update, Type::array, "stmtIds", [&] {
    for (std::size_t i = 0; i < statements_.size(); ++i) {
      bson::append_int32(update, std::to_string(i), question.options->number_of(statements_[i]));
    }
  });
  bson::append_bool(update, "ordered", false);
  append_inside(update, Type::document, "writeConcern",
                [&] { bson::append_int32(update, "w", 1); });
  if (question.max_time_ms) bson::append_int64(update, "maxTimeMS", *question.max_time_ms);
  command.send(kKeptInSession, question.ns.substr(0, dot), out);
}

std::optional<std::vector<std::int32_t>> ExecutedLook::read(const wire::OpMsgView& reply) const {
  const auto integer = [](Bytes document, std::string_view key) {
    const auto field = bson::find(document, key);
    return field ? field->as_integer() : std::nullopt;
  };
  const Bytes body = reply.body();
  if (integer(body, "ok") != 1 || bson::find(body, "writeErrors")) return std::nullopt;
  const auto upserted = bson::find(body, "upserted");
  if (!upserted)
    return integer(body, "n") == 0 ? std::optional(std::vector<std::int32_t>()) : std::nullopt;
  if (upserted->type != Type::array) return std::nullopt;
  std::vector<std::int32_t> executed;
  bson::Elements entries(upserted->value);
  while (const auto entry = entries.next()) {
    if (entry->type != Type::document) return std::nullopt;
    const auto index = integer(entry->value, "index");
    if (!index || *index < 0 || *index >= static_cast<std::int64_t>(statements_.size())) {
      return std::nullopt;
    }
    executed.push_back(statements_[static_cast<std::size_t>(*index)]);
  }
  std::ranges::sort(executed);
  const bool adds_up = integer(body, "n") == static_cast<std::int64_t>(executed.size()) &&
                       std::ranges::adjacent_find(executed) == executed.end();
  return adds_up ? std::optional(std::move(executed)) : std::nullopt;
}

}  // namespace idproxy::rewrite
