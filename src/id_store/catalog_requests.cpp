#include "id_store/catalog_requests.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "id_store/index_requests.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

// Server error codes.
constexpr std::int32_t kCannotCreateIndex = 67;
constexpr std::int32_t kIndexOptionsConflict = 85;
constexpr std::int32_t kIndexKeySpecsConflict = 86;

/// Never the server's message, which may show a document's value.
std::string reason_of(std::int32_t code) {
  switch (code) {
    case mongo::kDuplicateKey:
      return "several documents have the same value";
    case kCannotCreateIndex:
      return "the server cannot make it (error 67 CannotCreateIndex). On a sharded collection, a "
             "unique index must begin with the shard key; `reserve`, which makes values unique "
             "without it, is not in this release";
    case kIndexOptionsConflict:
    case kIndexKeySpecsConflict:
      return "the field already has an index with other options: drop it first";
    default:
      return "the server answers with error " + std::to_string(code);
  }
}

CatalogResponse response_of(const Reply& reply) {
  using Kind = CatalogResponse::Kind;
  if (reply.ok()) return {};
  if (reply.kind == Reply::Kind::unreachable) return {Kind::unreachable, reply.message};
  if (reply.kind == Reply::Kind::not_majority) {
    return {Kind::unreachable, "a majority of the servers does not answer"};
  }
  if (reply.code == mongo::kUnauthorized) return {Kind::not_permitted};
  if (reply.code == mongo::kNamespaceNotFound) return {Kind::no_collection};
  return {Kind::refused, reason_of(reply.code)};
}

/// {name, type} of views and time-series collections only. Without `authorizedCollections`, which
/// would silently leave out those that the user may not read.
CatalogResponse ask_left_alone(mongo::Client& client, const CatalogRequest& request) {
  Document filter;
  filter.add("type",
             Document().add("$in", Array().push(std::string_view("view")).push("timeseries")));
  Document command;
  command.add("listCollections", 1).add("nameOnly", true).add("filter", filter);
  std::set<std::string, std::less<>> names;
  const Reply reply = client.read_all(request.db, command, [&](Bytes document) {
    const auto name = bson::find(document, "name");
    if (name && name->type == bson::Type::string) names.emplace(name->text());
    return names.size() < Collections::kMostLeftAlone;
  });
  CatalogResponse response = response_of(reply);
  response.left_alone = std::move(names);
  if (response.kind != CatalogResponse::Kind::answered) response.left_alone.clear();
  return response;
}

CatalogResponse ask_indexes(mongo::Client& client, const CatalogRequest& request) {
  const Namespace ns{request.db, request.collection};
  std::vector<Index> indexes;
  CatalogResponse response = response_of(list_indexes(client, ns, indexes));
  if (response.kind != CatalogResponse::Kind::answered) return response;
  for (const auto& [field, type] : request.advise) {
    const bool guarded = std::ranges::any_of(
        indexes, [&](const Index& index) { return guards(index, field, type); });
    if (!guarded) response.offers[field] = offer_index(client, ns, field, type, indexes);
  }
  response.indexes = std::move(indexes);
  return response;
}

/// $collStats returns {count: N} for each shard.
CatalogResponse ask_documents(mongo::Client& client, const CatalogRequest& request) {
  const Document stage = Document().add("$collStats", Document().add("count", Document()));
  Document command;
  command.add("aggregate", request.collection);
  command.add("pipeline", Array().push(stage));
  command.add("cursor", Document());
  std::int64_t documents = 0;
  const Reply reply = client.read_all(request.db, command, [&](Bytes document) {
    if (const auto count = bson::find(document, "count")) {
      documents += count->as_integer().value_or(0);
    }
    return true;
  });
  CatalogResponse response = response_of(reply);
  if (documents > 0) response.documents = static_cast<std::uint64_t>(documents);
  return response;
}

}  // namespace

CatalogResponse send(mongo::Client& client, const CatalogRequest& request) {
  switch (request.kind) {
    case CatalogRequest::Kind::left_alone:
      return ask_left_alone(client, request);
    case CatalogRequest::Kind::indexes:
      return ask_indexes(client, request);
    case CatalogRequest::Kind::documents:
      return ask_documents(client, request);
    case CatalogRequest::Kind::make_index:
      break;
  }
  const Namespace ns{request.db, request.collection};
  return response_of(make_index(client, ns, request.field, request.type));
}

}  // namespace idproxy::id_store
