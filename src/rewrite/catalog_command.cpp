#include "rewrite/catalog_command.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "idproxy/base/words.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::rewrite {
namespace {

using Done = CatalogRequest::Done;
using ids::CatalogChange;

struct Named {
  std::string_view command;
  Done done;
};

/// Those whose first element names the collection.
constexpr std::array<Named, 7> kOfOne{{{"drop", Done::when_answered},
                                       {"create", Done::at_once},
                                       {"collMod", Done::when_answered},
                                       {"dropIndexes", Done::when_answered},
                                       {"deleteIndexes", Done::when_answered},
                                       {"createIndexes", Done::at_once},
                                       {"convertToCapped", Done::when_answered}}};
constexpr std::array<std::string_view, 4> kOthers{"aggregate", "applyOps", "dropDatabase",
                                                  "renameCollection"};

std::string text_of(Bytes document, std::string_view key) {
  const auto element = bson::find(document, key, bson::Type::string);
  return element ? std::string(element->text()) : std::string();
}

CatalogChange change_of(std::string_view ns) {
  const auto [db, collection] = split_ns(ns);
  return {std::string(db), std::string(collection)};
}

/// The last stage of a pipeline; mongod accepts $out nowhere else.
std::optional<bson::Element> last_stage(Bytes aggregate) {
  const auto pipeline = bson::find(aggregate, "pipeline", bson::Type::array);
  if (!pipeline) return std::nullopt;
  std::optional<bson::Element> last;
  for (const bson::Element& stage : bson::Elements(pipeline->value)) last = stage;
  if (!last || last->type != bson::Type::document) return std::nullopt;
  return bson::Elements(last->value).next();
}

/// "collection" or {db, coll}
std::optional<CatalogChange> target_of(const bson::Element& stage, const std::string& db) {
  if (stage.type == bson::Type::string) return CatalogChange{db, std::string(stage.text())};
  if (stage.type != bson::Type::document) return std::nullopt;
  return CatalogChange{text_of(stage.value, "db"), text_of(stage.value, "coll")};
}

/// {$out: target}; {$merge: "collection"}, {$merge: {into: target, …}}
CatalogRequest read_aggregate(Bytes aggregate, const std::string& db) {
  const auto stage = last_stage(aggregate);
  if (stage && stage->key == "$out") {
    const auto target = target_of(*stage, db);
    if (target) return {Done::at_once, {*target}, {{*target, ForwardReason::out}}};
  }
  if (!stage || stage->key != "$merge") return {};
  const auto into = stage->type == bson::Type::document ? bson::find(stage->value, "into") : stage;
  const auto target = into ? target_of(*into, db) : std::nullopt;
  if (!target) return {};
  return {Done::at_once, {}, {{*target, ForwardReason::merge}}};
}

/// {applyOps: [{op: "c", …}, {op: "i", ns, o}, …]}. A command in it may change anything.
CatalogRequest read_apply_ops(Bytes apply_ops) {
  CatalogRequest request;
  const auto operations = bson::Elements(apply_ops).next();
  if (!operations || operations->type != bson::Type::array) return request;
  for (const bson::Element& operation : bson::Elements(operations->value)) {
    if (operation.type != bson::Type::document) continue;
    const std::string op = text_of(operation.value, "op");
    if (op == "c" && request.changes.empty()) request.changes.push_back({{}, {}});
    if (op != "i") continue;
    const CatalogChange into = change_of(text_of(operation.value, "ns"));
    const auto known = std::ranges::find(request.past, into, &CatalogRequest::Past::collection);
    if (known == request.past.end()) request.past.push_back({into, ForwardReason::apply_ops});
  }
  request.done = Done::when_answered;
  return request;
}

}  // namespace

bool may_change_catalog(std::string_view command) {
  return std::ranges::find(kOfOne, command, &Named::command) != kOfOne.end() ||
         std::ranges::find(kOthers, command) != kOthers.end();
}

CatalogRequest read_catalog_command(const wire::OpMsgView& message) {
  const Bytes body = message.body();
  const auto first = bson::Elements(body).next();
  const std::string db = text_of(body, "$db");
  if (!first || db.empty()) return {};
  const auto one = std::ranges::find(kOfOne, first->key, &Named::command);
  const bool names_one = first->type == bson::Type::string || first->type == bson::Type::symbol;
  if (one != kOfOne.end()) {
    if (!names_one) return {};
    CatalogRequest request{one->done, {{db, std::string(first->text())}}};
    // In a transaction, which the refusal has ended, it could not be sent again.
    request.makes_indexes = first->key == "createIndexes" && !bson::find(body, "txnNumber");
    return request;
  }
  if (first->key == "dropDatabase") return {Done::when_answered, {{db, {}}}};
  if (first->key == "renameCollection" && names_one) {
    return {Done::when_answered, {change_of(first->text()), change_of(text_of(body, "to"))}};
  }
  if (first->key == "applyOps") return read_apply_ops(body);
  if (first->key == "aggregate") return read_aggregate(body, db);
  return {};
}

}  // namespace idproxy::rewrite
