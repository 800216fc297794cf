#include "id_store/reservation_commands.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "idproxy/base/buffer.hpp"
#include "idproxy/bson/builder.hpp"

namespace idproxy::id_store {
namespace {

using bson::Scope;
using bson::Type;
using ids::Reservation;
using ids::ReserveSpec;
using ids::TypedValue;
using mongo::Document;

// Of 16 MiB, for documents or errors.
constexpr std::size_t kMostCommandBytes = std::size_t{12} * 1024 * 1024;
// The size of a reservation without its value and parent_id: names, date, the statement around it.
constexpr std::size_t kFixedBytes = 96;
// The size of a duplicate key error without the namespace, the field (three times) and the value.
// The value is repeated in the text, but cut there (observed, 6.0.5): kMostErrorText.
constexpr std::size_t kFixedErrorBytes = 180;
constexpr std::size_t kMostErrorText = 400;
// The server's code and message for documents that are too large.
constexpr std::int32_t kObjectTooLarge = 10334;

void append_value(Buffer& out, std::string_view name, const TypedValue& value) {
  bson::append_head(out, value.type, name);
  out.append(as_bytes(value.bytes));
}

void append_date(Buffer& out, std::string_view name, std::int64_t milliseconds) {
  bson::append_head(out, Type::date, name);
  store_i64(out.extend(sizeof milliseconds), milliseconds);
}

/// {name: {$eq: value}}: alone, a value could be an operator.
void append_equal(Buffer& out, std::string_view name, const TypedValue& value) {
  bson::append_inside(out, Type::document, name, [&] { append_value(out, "$eq", value); });
}

/// A command: `what` is its name.
template <class Content>
Document command_on(std::string_view what, const std::string& collection, Content content) {
  Buffer out;
  Scope whole(out);
  bson::append_string(out, what, collection);
  content(out);
  whole.close();
  return Document(out.view());
}

/// name: [item, …], with `append(key, item)` for each.
template <class Items, class Append>
void append_array(Buffer& out, std::string_view name, const Items& items, Append append) {
  bson::append_inside(out, Type::array, name, [&] {
    std::size_t position = 0;
    for (const auto& item : items) append(std::to_string(position++), item);
  });
}

/// {a: 1, b: 1}
void append_projection(Buffer& out, std::span<const std::string_view> names) {
  bson::append_inside(out, Type::document, "projection", [&] {
    for (const std::string_view name : names) bson::append_int32(out, name, 1);
  });
}

/// Of the value and what else there is; none may be there twice.
void append_projection(Buffer& out, const ReserveSpec& spec, std::vector<std::string_view> others) {
  if (std::ranges::find(others, spec.name) == others.end()) others.emplace_back(spec.name);
  append_projection(out, others);
}

void append_majority(Buffer& out) {
  bson::append_inside(out, Type::document, "readConcern",
                      [&] { bson::append_string(out, "level", "majority"); });
}

/// [{$set: {at: {$max: [now, {$cond: [{$eq: [{$type: "$at"}, "date"]}, {$add: ["$at", 1]},
/// null]}]}}}]
void append_refresh(Buffer& out, std::int64_t now) {
  const auto inside = [&](Type type, std::string_view key, const auto& content) {
    bson::append_inside(out, type, key, content);
  };
  const auto is_date = [&] {
    inside(Type::array, "$eq", [&] {
      inside(Type::document, "0", [&] { bson::append_string(out, "$type", "$at"); });
      bson::append_string(out, "1", "date");
    });
  };
  const auto later = [&] {
    inside(Type::array, "$add", [&] {
      bson::append_string(out, "0", "$at");
      bson::append_int32(out, "1", 1);
    });
  };
  const auto condition = [&] {
    inside(Type::array, "$cond", [&] {
      inside(Type::document, "0", is_date);
      inside(Type::document, "1", later);
      bson::append_head(out, Type::null, "2");
    });
  };
  const auto most = [&] {
    inside(Type::array, "$max", [&] {
      append_date(out, "0", now);
      inside(Type::document, "1", condition);
    });
  };
  inside(Type::array, "u", [&] {
    inside(Type::document, "0",
           [&] { inside(Type::document, "$set", [&] { inside(Type::document, "at", most); }); });
  });
}

std::optional<std::int64_t> exact_integer(const TypedValue& value) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(value.bytes.data());
  if (value.type == Type::int32 && value.bytes.size() == 4) return load_i32(bytes);
  if (value.type == Type::int64 && value.bytes.size() == 8) return load_i64(bytes);
  if (value.type != Type::number_double || value.bytes.size() != 8) return std::nullopt;
  const auto number = std::bit_cast<double>(load_i64(bytes));
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  const bool fits = number >= -kLimit && number < kLimit && std::trunc(number) == number;
  return fits ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

void refuse_with(Reservation& item, std::int32_t code, std::string error) {
  item.state = Reservation::State::refused;
  item.code = code;
  item.error = std::move(error);
}

std::int64_t integer_of(Bytes document, std::string_view name) {
  const auto element = bson::find(document, name);
  return element ? element->as_integer().value_or(0) : 0;
}

WriteError write_error_of(Bytes document) {
  WriteError error{static_cast<std::size_t>(integer_of(document, "index")),
                   static_cast<std::int32_t>(integer_of(document, "code")),
                   {}};
  const auto text = bson::find(document, "errmsg");
  if (text && text->type == Type::string) error.text = text->text();
  return error;
}

}  // namespace

std::size_t bytes_of(const Reservation& item) {
  return item.value.bytes.size() + item.parent_id.bytes.size() + kFixedBytes;
}

std::size_t fitting(const ReserveSpec& spec, Reserved items, std::size_t most) {
  const std::size_t of_all = kFixedErrorBytes + spec.ns().size() + 3 * spec.name.size();
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (const Reservation* item : items) {
    const std::size_t value = item->value.bytes.size();
    bytes += std::max(bytes_of(*item), of_all + value + std::min(3 * value, kMostErrorText));
    if (count == most || (count > 0 && bytes > kMostCommandBytes)) break;
    ++count;
  }
  return count;
}

bool refuse(Reservation& item) {
  switch (item.value.type) {
    case Type::array:
    case Type::regex:
    case Type::undefined:
      refuse_with(item, mongo::kBadValue,
                  "an array, a regular expression or undefined cannot be reserved");
      return true;
    default:
      break;
  }
  if (bytes_of(item) <= kMostCommandBytes) return false;
  refuse_with(item, kObjectTooLarge, "the value and the document's _id are too large to reserve");
  return true;
}

std::string key_of(const TypedValue& value) {
  if (const auto number = exact_integer(value)) return "i" + std::to_string(*number);
  return std::to_string(static_cast<int>(value.type)) + ":" + value.bytes;
}

TypedValue value_of(const bson::Element& element) {
  return {element.type, std::string(as_text(element.value))};
}

Document insert_command(const ReserveSpec& spec, Reserved items, std::int64_t at) {
  return command_on("insert", spec.collection, [&](Buffer& out) {
    bson::append_bool(out, "ordered", false);
    append_array(out, "documents", items, [&](const std::string& key, const Reservation* item) {
      bson::append_inside(out, Type::document, key, [&] {
        append_value(out, spec.name, item->value);
        append_value(out, "parent_id", item->parent_id);
        append_date(out, "at", at);
      });
    });
  });
}

Document find_command(const ReserveSpec& spec, Reserved items) {
  return command_on("find", spec.collection, [&](Buffer& out) {
    bson::append_inside(out, Type::document, "filter", [&] {
      bson::append_inside(out, Type::document, spec.name, [&] {
        append_array(out, "$in", items, [&](const std::string& key, const Reservation* item) {
          append_value(out, key, item->value);
        });
      });
    });
    append_projection(out, spec, {"parent_id"});
  });
}

Document find_command(const ReserveSpec& spec, const Reservation& item) {
  return command_on("find", spec.collection, [&](Buffer& out) {
    bson::append_inside(out, Type::document, "filter",
                        [&] { append_equal(out, spec.name, item.value); });
    append_projection(out, spec, {"parent_id"});
    bson::append_int32(out, "limit", 1);
  });
}

Document refresh_command(const ReserveSpec& spec, Reserved items, std::int64_t now) {
  return command_on("update", spec.collection, [&](Buffer& out) {
    bson::append_bool(out, "ordered", false);
    append_array(out, "updates", items, [&](const std::string& key, const Reservation* item) {
      bson::append_inside(out, Type::document, key, [&] {
        bson::append_inside(out, Type::document, "q", [&] {
          append_equal(out, spec.name, item->value);
          append_equal(out, "parent_id", item->parent_id);
        });
        append_refresh(out, now);
      });
    });
  });
}

Document release_command(const ReserveSpec& spec, Reserved items) {
  return command_on("delete", spec.collection, [&](Buffer& out) {
    bson::append_bool(out, "ordered", false);
    append_array(out, "deletes", items, [&](const std::string& key, const Reservation* item) {
      bson::append_inside(out, Type::document, key, [&] {
        bson::append_inside(out, Type::document, "q", [&] {
          append_equal(out, spec.name, item->value);
          append_equal(out, "parent_id", item->parent_id);
          append_date(out, "at", item->at);
        });
        bson::append_int32(out, "limit", 1);
      });
    });
  });
}

Document old_command(const ReserveSpec& spec, std::int64_t from, std::int64_t until, Order order) {
  constexpr std::int32_t kOldPage = 1000;
  return command_on("find", spec.collection, [&](Buffer& out) {
    bson::append_inside(out, Type::document, "filter", [&] {
      bson::append_inside(out, Type::document, "at", [&] {
        append_date(out, "$gte", from);
        append_date(out, "$lt", until);
      });
      // One without it was not made by this recipe.
      bson::append_inside(out, Type::document, "parent_id",
                          [&] { bson::append_bool(out, "$exists", true); });
    });
    append_projection(out, spec, {"_id", "parent_id", "at"});
    if (order == Order::by_date) {
      bson::append_inside(out, Type::document, "sort", [&] { bson::append_int32(out, "at", 1); });
    }
    bson::append_int32(out, "batchSize", kOldPage);
    append_majority(out);
  });
}

Document parents_command(const ReserveSpec& spec, std::span<const OldReservation> items) {
  const std::string collection = spec.parent_ns.substr(spec.parent_ns.find('.') + 1);
  return command_on("find", collection, [&](Buffer& out) {
    bson::append_inside(out, Type::document, "filter", [&] {
      bson::append_inside(out, Type::document, "_id", [&] {
        append_array(out, "$in", items, [&](const std::string& key, const OldReservation& item) {
          append_value(out, key, item.parent_id);
        });
      });
    });
    append_projection(out, std::vector<std::string_view>{"_id", spec.parent_field});
    append_majority(out);
  });
}

Document parent_command(const ReserveSpec& spec, const OldReservation& item) {
  const std::string collection = spec.parent_ns.substr(spec.parent_ns.find('.') + 1);
  return command_on("find", collection, [&](Buffer& out) {
    bson::append_inside(out, Type::document, "filter", [&] {
      append_equal(out, "_id", item.parent_id);
      append_equal(out, spec.parent_field, item.value);
    });
    append_projection(out, std::vector<std::string_view>{"_id"});
    bson::append_int32(out, "limit", 1);
    append_majority(out);
  });
}

Document sweep_command(const ReserveSpec& spec, std::span<const OldReservation> items) {
  return command_on("delete", spec.collection, [&](Buffer& out) {
    bson::append_bool(out, "ordered", false);
    append_array(out, "deletes", items, [&](const std::string& key, const OldReservation& item) {
      bson::append_inside(out, Type::document, key, [&] {
        bson::append_inside(out, Type::document, "q", [&] {
          append_equal(out, "_id", item.id);
          // The key of a collection that is sharded by it.
          if (spec.name != "_id") append_equal(out, spec.name, item.value);
          append_equal(out, "parent_id", item.parent_id);
          append_date(out, "at", item.at);
        });
        bson::append_int32(out, "limit", 1);
      });
    });
  });
}

WriteOutcome outcome_of(const mongo::Reply& reply) {
  WriteOutcome outcome;
  const Bytes document = reply.document.bytes();
  const auto ok = bson::find(document, "ok");
  outcome.executed = ok && ok->as_integer().value_or(0) == 1;
  if (!outcome.executed) return outcome;
  outcome.n = integer_of(document, "n");
  outcome.majority = !bson::find(document, "writeConcernError");
  const auto errors = bson::find(document, "writeErrors");
  if (!errors || errors->type != Type::array) return outcome;
  bson::Elements each(errors->value);
  while (const auto element = each.next()) {
    if (element->type == Type::document) outcome.errors.push_back(write_error_of(element->value));
  }
  return outcome;
}

}  // namespace idproxy::id_store
