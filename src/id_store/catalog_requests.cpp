#include "id_store/catalog_requests.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "id_store/index.hpp"
#include "id_store/reply_reasons.hpp"
#include "id_store/server_text.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/login_advice.hpp"
#include "idproxy/id_store/stored_value.hpp"

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

/// Of an entry of listCollections.
std::optional<LeftAlone> left_alone_as(Bytes listed) {
  const std::string_view type = mongo::text_in(listed, "type");
  if (type == "view") return LeftAlone::view;
  if (type == "timeseries") return LeftAlone::time_series;
  return std::nullopt;
}

/// {name, type} of views and time-series collections only, unless all are wanted. Without
/// `authorizedCollections`, which would silently leave out those that the user may not read.
CatalogResponse ask_left_alone(mongo::Client& client, const CatalogRequest& request) {
  Document command{{"listCollections", 1}, {"nameOnly", true}};
  if (!request.lists_all) {
    command.append({"filter", {"type", {"$in", Array{"view", "timeseries"}}}});
  }
  CatalogResponse found;
  const Reply reply = client.read_all(request.ns.db, command, [&](Bytes document) {
    const std::string_view name = mongo::text_in(document, "name");
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

CatalogResponse ask_databases(mongo::Client& client) {
  std::vector<std::string> names;
  CatalogResponse response = response_of(list_databases(client, names));
  response.names = std::move(names);
  return response;
}

std::optional<ids::CollectionUuid> uuid_in(Bytes listed) {
  const auto info = mongo::document_in(listed, "info");
  const auto uuid = info ? bson::find(*info, "uuid") : std::nullopt;
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
  const Reply found = client.read_first(
      request.ns.db, {{"listCollections", 1}, {"filter", {"name", request.ns.collection}}});
  CatalogResponse response = response_of(found);
  if (!found.ok()) return response;
  if (found.document.empty()) return {.kind = Kind::no_collection};
  response.is_left_alone = left_alone_as(found.document.bytes());
  if (takes_uuid) response.uuid = uuid_in(found.document.bytes());
  return response;
}

CatalogResponse ask_indexes(mongo::Client& client, const CatalogRequest& request) {
  using Kind = CatalogResponse::Kind;
  CatalogResponse which = request.is_anew ? ask_which(client, request) : CatalogResponse{};
  const bool is_known = which.kind == Kind::answered || which.kind == Kind::not_permitted;
  if (!is_known || which.is_left_alone) return which;
  std::vector<Index> indexes;
  CatalogResponse response = response_of(list_indexes(client, request.ns, indexes));
  if (response.kind != Kind::answered) return response;
  response.uuid = which.uuid;
  for (const UniqueField& field : request.advise) {
    if (readable_guard_among(indexes, field) != nullptr) continue;
    response.offers[field.name] = offer_index(client, request.ns, field, indexes);
  }
  response.indexes = std::move(indexes);
  return response;
}

/// Sends an aggregation without conditions on the documents, and calls `use` for each result.
Reply aggregate(mongo::Client& client, const CatalogRequest& request, const Array& stages,
                const std::function<bool(Bytes)>& use) {
  return client.read_all(request.ns.db,
                         {{"aggregate", request.ns.collection},
                          {"pipeline", stages},
                          {"cursor", Document()},
                          {"maxTimeMS", kCountMaxTimeMs}},
                         use);
}

/// Counts the documents with a number or a string in a field, whose index, if any, is enough for
/// that. No other value can repeat one that the proxy makes.
Reply count_all(mongo::Client& client, const CatalogRequest& request, CatalogResponse& response) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Document ranges[] = {Document{{"$gte", -kInfinity}, {"$lte", kInfinity}},
                             Document{"$gte", ""}};  // compares with strings only
  for (const std::string& field : request.fields) {
    std::int64_t sum = 0;
    for (const Document& range : ranges) {
      Reply reply = client.read(request.ns.db, {{"count", request.ns.collection},
                                                {"query", {field, range}},
                                                {"maxTimeMS", kCountMaxTimeMs}});
      if (!reply.ok()) return reply;
      sum += mongo::integer_in(reply.document.bytes(), "n");
    }
    response.with_value[field] = static_cast<std::uint64_t>(std::max<std::int64_t>(sum, 0));
  }
  return {};
}

/// {$sum: {$cond: [{$in: [{$type: "$field"}, [types of numbers and strings]]}, 1, 0]}}
Document sum_of_values(const std::string& field) {
  const Array types{"int", "long", "double", "decimal", "string"};
  const Document has_value{"$in", Array{Document{"$type", "$" + field}, types}};
  return {"$sum", {"$cond", Array{has_value, 1, 0}}};
}

/// As count_all(), but judges by some documents drawn at random.
Reply sample(mongo::Client& client, const CatalogRequest& request, CatalogResponse& response) {
  Document sums{{"_id", ""}, {"all", {"$sum", 1}}};
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    sums.add(std::to_string(i), sum_of_values(request.fields[i]));
  }
  const Array stages{Document{"$sample", {"size", kSample}}, Document{"$group", sums}};
  return aggregate(client, request, stages, [&](Bytes found) {
    const auto all =
        static_cast<double>(std::max<std::int64_t>(mongo::integer_in(found, "all"), 1));
    for (std::size_t i = 0; i < request.fields.size(); ++i) {
      const double share = static_cast<double>(mongo::integer_in(found, std::to_string(i))) / all;
      response.with_value[request.fields[i]] =
          static_cast<std::uint64_t>(std::llround(share * static_cast<double>(response.documents)));
    }
    return true;
  });
}

/// True if count_all() reads indexes and no documents.
bool can_count_by_indexes(mongo::Client& client, const CatalogRequest& request) {
  std::vector<Index> indexes;
  if (!list_indexes(client, request.ns, indexes).ok()) return false;
  return std::ranges::all_of(request.fields, [&](const std::string& field) {
    return std::ranges::any_of(indexes, [&](const Index& index) {
      return index.partial.kind != Index::Partial::Kind::types && index.collation.empty() &&
             can_read(index, field, ValueType::number) && can_read(index, field, ValueType::string);
    });
  });
}

/// $collStats returns {count: N} for each shard. A small collection is then counted, because
/// $sample reads all of it anyway, and a large one if an index tells; otherwise, or if counting
/// takes too long, a sample tells.
CatalogResponse ask_documents(mongo::Client& client, const CatalogRequest& request) {
  const Array stages{Document{"$collStats", {"count", Document()}}};
  std::int64_t documents = 0;
  const Reply reply = aggregate(client, request, stages, [&](Bytes document) {
    documents += mongo::integer_in(document, "count");
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

/// Equal for values that a unique index takes for equal, though an integer may have come back as
/// another type of number.
std::optional<std::string> comparable_key(const bson::Element& element) {
  if (element.type == bson::Type::string) return std::string(element.text());
  if (const auto number = element.as_integer()) return std::to_string(*number);
  return std::nullopt;
}

/// {field: {$in: [values], and the index's condition}}
Document filter_of(const std::string& field, const ids::Values& values, const Index& index) {
  Buffer bytes;
  bson::Scope document(bytes);
  bson::append_head(bytes, bson::Type::array, "$in");
  bson::Scope array(bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    bson::append_head(bytes, values.type(), std::to_string(i));
    bytes.append(values[i]);
  }
  array.close();
  document.close();
  return {field, {Document(bytes.view()), Document(as_bytes(index.partial.condition))}};
}

/// The best index to read the field: of all documents that have one, with few other keys. It may
/// have a collation: whom it calls equal it also returns.
const Index* best_of(const std::vector<Index>& indexes, const std::string& field, ValueType type) {
  const Index* best = nullptr;
  for (const Index& index : indexes) {
    if (!can_read(index, field, type)) continue;
    if (best == nullptr || index.keys.size() < best->keys.size()) best = &index;
  }
  return best;
}

/// Finds out which of the values, integers or strings, some document of the collection has in the
/// field, with one query through an index; `taken` gets as many elements. A document whose field is
/// an array, or a number of a form that a rule does not make, may be overlooked. Without an index
/// to read, or a collection, the reply is one that refuses.
Reply look_up(mongo::Client& client, const Namespace& ns, const std::string& field,
              const ids::Values& values, std::vector<bool>& taken) {
  taken.assign(values.size(), false);
  std::vector<Index> indexes;
  Reply listed = list_indexes(client, ns, indexes);
  if (!listed.ok()) return listed;
  const Index* index = best_of(indexes, field, value_type_of(values.type()));
  if (index == nullptr) {
    Reply none;
    none.kind = Reply::Kind::refused;
    none.message = "no index on the field can be read";
    return none;
  }
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (auto key = comparable_key({values.type(), {}, values[i]}))
      places.emplace(*std::move(key), i);
  }
  Document projection{"_id", field == "_id" ? 1 : 0};
  if (field != "_id") projection.add(field, 1);
  Document command{
      {"find", ns.collection},        {"filter", filter_of(field, values, *index)},
      {"projection", projection},     {"hint", index->name},
      {"maxTimeMS", kCountMaxTimeMs}, {"batchSize", static_cast<std::int32_t>(values.size() + 1)}};
  if (!index->collation.empty()) command.add("collation", Document(as_bytes(index->collation)));
  return client.read_all(ns.db, command, [&](Bytes document) {
    const auto element = find_path(document, field);
    const auto key = element ? comparable_key(*element) : std::nullopt;
    const auto place = key ? places.find(*key) : places.end();
    if (place != places.end()) taken[place->second] = true;
    return true;
  });
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

CatalogResponse drop_own(mongo::Client& client, const CatalogRequest& request) {
  std::string to;
  CatalogResponse response = response_of(yield_index(client, request.ns, request.field, to));
  response.index = std::move(to);
  return response;
}

CatalogResponse ask_for_room(mongo::Client& client, const CatalogRequest& request) {
  CatalogResponse response;
  std::string replaced;
  bool is_free = true;
  for (const UniqueField& field : request.made) {
    if (response.kind != CatalogResponse::Kind::answered || !request.room->is_awaited()) break;
    response = response_of(
        make_room(client, request.ns, field, request.room->indexes(), replaced, is_free));
  }
  response.index = replaced;
  is_free = is_free && response.kind == CatalogResponse::Kind::answered;
  request.room->answer(
      is_free ? ids::Result<void>()
              : ids::Result<void>(ids::Error{ids::Errc::unavailable, "there is no room to make"}));
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
    case CatalogRequest::Kind::yield:
      return drop_own(client, request);
    case CatalogRequest::Kind::make_room:
      return ask_for_room(client, request);
    case CatalogRequest::Kind::make_index:
      break;
  }
  bool is_new = false;
  const Reply made = make_index(client, request.ns, request.field, is_new);
  CatalogResponse response = response_of(made);
  response.is_new = is_new;
  response.passes = response.passes && !made.refused(mongo::kDuplicateKey);
  return response;
}

}  // namespace

CatalogResponse send(mongo::Client client, const CatalogRequest& request) {
  CatalogResponse response = ask(client, request);
  response.has_user = client.login().has_user;
  if (response.told == kLoginRefused) response.reason += ' ' + advice::check_login(client.login());
  return response;
}

}  // namespace idproxy::id_store
