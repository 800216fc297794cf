#include "id_store/catalog_requests.hpp"

#include <utility>

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
      return "the server cannot make it (error 67 CannotCreateIndex)";
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

/// {v, key: {a: 1, b: -1}, name, unique, partialFilterExpression …}
Index index_of(Bytes document) {
  Index index;
  if (const auto name = bson::find(document, "name"); name && name->type == bson::Type::string) {
    index.name = name->text();
  }
  index.unique = mongo::is_true(document, "unique");
  index.partial = bson::find(document, "partialFilterExpression").has_value();
  const auto key = bson::find(document, "key");
  if (!key || key->type != bson::Type::document) return index;
  bson::Elements fields(key->value);
  while (const auto field = fields.next()) index.fields.emplace_back(field->key);
  return index;
}

/// An index that is still being built stands under "spec", beside "buildUUID"; but not on a
/// standalone, which lists it as if it were there (observed, 6.0.5).
Index listed_index_of(Bytes document) {
  const auto spec = bson::find(document, "spec");
  if (!spec || spec->type != bson::Type::document) return index_of(document);
  Index index = index_of(spec->value);
  index.building = true;
  return index;
}

CatalogResponse ask_indexes(mongo::Client& client, const CatalogRequest& request) {
  std::vector<Index> indexes;
  const Reply reply = client.list_indexes(request.db, request.collection, [&](Bytes document) {
    indexes.push_back(listed_index_of(document));
    return true;
  });
  CatalogResponse response = response_of(reply);
  if (response.kind == CatalogResponse::Kind::answered) response.indexes = std::move(indexes);
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

CatalogResponse make_index(mongo::Client& client, const CatalogRequest& request) {
  Document index;
  index.add("key", Document().add(request.field, 1));
  index.add("name", request.field + "_1").add("unique", true).add("sparse", true);
  Document command;
  command.add("createIndexes", request.collection).add("indexes", Array().push(index));
  return response_of(client.write(request.db, command));
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
  return make_index(client, request);
}

}  // namespace idproxy::id_store
