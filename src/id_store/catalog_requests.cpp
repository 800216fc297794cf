#include "id_store/catalog_requests.hpp"

#include <algorithm>
#include <boost/system/result.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "id_store/index_requests.hpp"
#include "id_store/reply_reasons.hpp"
#include "id_store/server_text.hpp"
#include "id_store/value_lookup.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/login_advice.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

// Server error codes.
constexpr std::int32_t kCannotCreateIndex = 67;

// Larger collections are sampled unless indexes do: counting would read too much of them every
// minute.
constexpr std::int64_t kCountedAtMost = 200'000;
constexpr std::int32_t kSample = 1000;
constexpr std::int32_t kCountMaxTimeMs = 1000;

std::string reason_of(const Reply& reply) {
  switch (reply.code) {
    case mongo::kDuplicateKey:
      return "several documents have the same value";
    case kCannotCreateIndex:
      return "the server answers with " + error_text(reply) +
             ". On a sharded collection, a unique index must begin with the shard key: set "
             "`reserve`, which keeps values unique without one, and leave unique_index at warn";
    case kIndexOptionsConflict:
    case kIndexKeySpecsConflict:
      return "the field already has an index with other options: drop it first";
    case mongo::kNotOnView:
      return "it is a view: no rule applies to it";
    default:
      return "the server answers with " + error_text(reply);
  }
}

CatalogResponse response_of(const Reply& reply) {
  using Kind = CatalogResponse::Kind;
  if (reply.ok()) return {};
  if (reply.kind != Reply::Kind::refused) {
    return {.kind = Kind::unreachable, .reason = why_unreached(reply), .told = unreached(reply)};
  }
  if (reply.code == mongo::kUnauthorized) return {Kind::not_permitted};
  if (reply.code == mongo::kNamespaceNotFound) return {Kind::no_collection};
  return {.kind = Kind::refused, .reason = reason_of(reply), .passes = mongo::may_pass(reply.code)};
}

std::string_view text_in(Bytes document, std::string_view key) {
  const auto text = bson::find(document, key);
  return text && text->type == bson::Type::string ? text->text() : std::string_view{};
}

/// Of an entry of listCollections.
std::optional<LeftAlone> left_alone_as(Bytes listed) {
  const std::string_view type = text_in(listed, "type");
  if (type == "view") return LeftAlone::view;
  if (type == "timeseries") return LeftAlone::time_series;
  return std::nullopt;
}

/// {name, type} of views and time-series collections only, unless all are wanted. Without
/// `authorizedCollections`, which would silently leave out those that the user may not read.
CatalogResponse ask_left_alone(mongo::Client& client, const CatalogRequest& request) {
  Document command;
  command.add("listCollections", 1).add("nameOnly", true);
  if (!request.lists_all) {
    const Array types = Array().push(std::string_view("view")).push("timeseries");
    command.add("filter", Document().add("type", Document().add("$in", types)));
  }
  CatalogResponse found;
  const Reply reply = client.read_all(request.db, command, [&](Bytes document) {
    const std::string_view name = text_in(document, "name");
    if (name.empty()) return true;
    if (const auto as = left_alone_as(document)) {
      found.left_alone.emplace(name, *as);
    } else if (found.names.size() < Collections::kMostCollections) {
      found.names.emplace_back(name);
    }
    return found.left_alone.size() < Collections::kMostLeftAlone;
  });
  const CatalogResponse response = response_of(reply);
  return response.kind == CatalogResponse::Kind::answered ? found : response;
}

/// A server lists those that the user may see.
CatalogResponse ask_databases(mongo::Client& client) {
  const Document command = Document().add("listDatabases", 1).add("nameOnly", true);
  const Reply reply = client.read("admin", command);
  CatalogResponse response = response_of(reply);
  const auto databases = bson::find(reply.document.bytes(), "databases");
  if (!databases || databases->type != bson::Type::array) return response;
  bson::Elements each(databases->value);
  while (const auto database = each.next()) {
    if (database->type != bson::Type::document) continue;
    response.names.emplace_back(text_in(database->value, "name"));
  }
  return response;
}

std::optional<ids::CollectionUuid> uuid_in(Bytes listed) {
  const auto info = bson::find(listed, "info");
  if (!info || info->type != bson::Type::document) return std::nullopt;
  const auto uuid = bson::find(info->value, "uuid");
  ids::CollectionUuid found{};
  constexpr std::size_t kHead = 4 + 1;  // size and subtype
  if (!uuid || uuid->type != bson::Type::binary) return std::nullopt;
  if (uuid->value.size() != kHead + found.size()) return std::nullopt;
  std::ranges::copy(uuid->value.subspan(kHead), found.begin());
  return found;
}

/// Asks for the identity of the collection. If the server does not tell it, writes are sent without
/// its UUID.
CatalogResponse ask_which(mongo::Client& client, const CatalogRequest& request) {
  using Kind = CatalogResponse::Kind;
  const bool takes_uuid = client.wire_version() >= server_release::k6_0;
  CatalogResponse found{.kind = Kind::no_collection};
  const Document filter = Document().add("name", request.collection);
  const Reply reply = client.read_all(
      request.db, Document().add("listCollections", 1).add("filter", filter), [&](Bytes listed) {
        found.kind = Kind::answered;
        found.is_left_alone = left_alone_as(listed);
        if (takes_uuid) found.uuid = uuid_in(listed);
        return false;
      });
  const CatalogResponse response = response_of(reply);
  return response.kind == Kind::answered ? found : response;
}

CatalogResponse ask_indexes(mongo::Client& client, const CatalogRequest& request) {
  using Kind = CatalogResponse::Kind;
  CatalogResponse which = request.is_anew ? ask_which(client, request) : CatalogResponse{};
  const bool is_known = which.kind == Kind::answered || which.kind == Kind::not_permitted;
  if (!is_known || which.is_left_alone) return which;
  const Namespace ns{request.db, request.collection};
  std::vector<Index> indexes;
  CatalogResponse response = response_of(list_indexes(client, ns, indexes));
  if (response.kind != Kind::answered) return response;
  response.uuid = which.uuid;
  for (const CatalogRequest::Field& each : request.advise) {
    const bool guarded = std::ranges::any_of(indexes, [&](const Index& index) {
      return guards(index, each.name, each.type, each.repeats);
    });
    if (guarded) continue;
    response.offers[each.name] =
        offer_index(client, ns, each.name, each.type, indexes, each.repeats);
  }
  response.indexes = std::move(indexes);
  return response;
}

std::int64_t integer_in(Bytes document, std::string_view key) {
  const auto element = bson::find(document, key);
  return element ? element->as_integer().value_or(0) : 0;
}

/// Sends an aggregation without conditions on the documents, and calls `use` for each result.
Reply aggregate(mongo::Client& client, const CatalogRequest& request, const Array& stages,
                const std::function<bool(Bytes)>& use) {
  Document command;
  command.add("aggregate", request.collection).add("pipeline", stages);
  command.add("cursor", Document()).add("maxTimeMS", kCountMaxTimeMs);
  return client.read_all(request.db, command, use);
}

/// Counts the documents whose field is within a range; the field's index, if any, is enough for it.
/// Returns the error instead if there is one.
boost::system::result<std::int64_t, Reply> count_within(mongo::Client& client,
                                                        const CatalogRequest& request,
                                                        const std::string& field,
                                                        const Document& range) {
  Document command;
  command.add("count", request.collection);
  command.add("query", Document().add(field, range)).add("maxTimeMS", kCountMaxTimeMs);
  Reply reply = client.read(request.db, command);
  if (!reply.ok()) return reply;
  return integer_in(reply.document.bytes(), "n");
}

/// Counts the documents with a number or a string in a field. No other value can repeat one that
/// the proxy makes.
Reply count_all(mongo::Client& client, const CatalogRequest& request, CatalogResponse& response) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Document ranges[] = {Document().add("$gte", -kInfinity).add("$lte", kInfinity),
                             Document().add("$gte", "")};  // compares with strings only
  for (const std::string& field : request.fields) {
    std::int64_t sum = 0;
    for (const Document& range : ranges) {
      const auto count = count_within(client, request, field, range);
      if (!count) return count.error();
      sum += *count;
    }
    response.with_value[field] = static_cast<std::uint64_t>(std::max<std::int64_t>(sum, 0));
  }
  return {};
}

/// {$sum: {$cond: [{$in: [{$type: "$field"}, [types of numbers and strings]]}, 1, 0]}}
Document sum_of_values(const std::string& field) {
  Array types;
  for (const std::string_view type : {"int", "long", "double", "decimal", "string"}) {
    types.push(type);
  }
  const Document has_value =
      Document().add("$in", Array().push(Document().add("$type", "$" + field)).push(types));
  return Document().add("$sum", Document().add("$cond", Array().push(has_value).push(1).push(0)));
}

/// As count_all(), but judges by some documents drawn at random.
Reply sample(mongo::Client& client, const CatalogRequest& request, CatalogResponse& response) {
  Document sums = Document().add("_id", "").add("all", Document().add("$sum", 1));
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    sums.add(std::to_string(i), sum_of_values(request.fields[i]));
  }
  const Array stages = Array()
                           .push(Document().add("$sample", Document().add("size", kSample)))
                           .push(Document().add("$group", sums));
  return aggregate(client, request, stages, [&](Bytes found) {
    const auto all = static_cast<double>(std::max<std::int64_t>(integer_in(found, "all"), 1));
    for (std::size_t i = 0; i < request.fields.size(); ++i) {
      const double share = static_cast<double>(integer_in(found, std::to_string(i))) / all;
      response.with_value[request.fields[i]] =
          static_cast<std::uint64_t>(std::llround(share * static_cast<double>(response.documents)));
    }
    return true;
  });
}

/// True if count_all() reads indexes and no documents.
bool can_count_by_indexes(mongo::Client& client, const CatalogRequest& request) {
  std::vector<Index> indexes;
  if (!list_indexes(client, {request.db, request.collection}, indexes).ok()) return false;
  return std::ranges::all_of(request.fields, [&](const std::string& field) {
    return std::ranges::any_of(indexes, [&](const Index& index) {
      return index.partial.kind != Index::Partial::Kind::types &&
             can_read(index, field, ValueType::number) && can_read(index, field, ValueType::string);
    });
  });
}

/// $collStats returns {count: N} for each shard. A small collection is then counted, because
/// $sample reads all of it anyway, and a large one if an index tells; otherwise, or if counting
/// takes too long, a sample tells.
CatalogResponse ask_documents(mongo::Client& client, const CatalogRequest& request) {
  const Document stage = Document().add("$collStats", Document().add("count", Document()));
  std::int64_t documents = 0;
  const Reply reply = aggregate(client, request, Array().push(stage), [&](Bytes document) {
    documents += integer_in(document, "count");
    return true;
  });
  if (reply.refused(mongo::kNothingToCount)) return {.kind = CatalogResponse::Kind::no_collection};
  CatalogResponse response = response_of(reply);
  if (documents <= 0) return response;
  response.documents = static_cast<std::uint64_t>(documents);
  const bool counts = documents <= kCountedAtMost || can_count_by_indexes(client, request);
  Reply looked = counts ? count_all(client, request, response) : sample(client, request, response);
  if (looked.refused(mongo::kMaxTimeExpired)) looked = sample(client, request, response);
  if (looked.ok()) return response;
  if (!looked.refused(mongo::kUnauthorized)) return response_of(looked);
  response.with_value.clear();
  response.may_not_find = true;
  return response;
}

CatalogResponse ask_values(mongo::Client& client, ids::FreeValues& values) {
  const ids::Values candidates = values.candidates();
  if (candidates.size() == 0) return {};
  std::vector<bool> taken;
  const Namespace ns{values.db(), values.collection()};
  const Reply reply = look_up(client, ns, values.field(), candidates, taken);
  CatalogResponse response = response_of(reply);
  if (reply.ok()) {
    values.found(candidates, taken);
  } else {
    values.failed({ids::Errc::unavailable, response.reason});
  }
  return response;
}

CatalogResponse ask(mongo::Client& client, const CatalogRequest& request) {
  switch (request.kind) {
    case CatalogRequest::Kind::databases:
      return ask_databases(client);
    case CatalogRequest::Kind::left_alone:
      return ask_left_alone(client, request);
    case CatalogRequest::Kind::indexes:
      return ask_indexes(client, request);
    case CatalogRequest::Kind::documents:
      return ask_documents(client, request);
    case CatalogRequest::Kind::values:
      return ask_values(client, *request.values);
    case CatalogRequest::Kind::make_index:
      break;
  }
  const Namespace ns{request.db, request.collection};
  return response_of(make_index(client, ns, request.field, request.type, request.repeats));
}

}  // namespace

CatalogResponse send(mongo::Client& client, const CatalogRequest& request) {
  CatalogResponse response = ask(client, request);
  response.has_user = client.login().has_user;
  if (response.told == kLoginRefused) response.reason += ' ' + advice::check_login(client.login());
  return response;
}

}  // namespace idproxy::id_store
