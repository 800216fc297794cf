#include "id_store/inspection_requests.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "id_store/reply_reasons.hpp"
#include "id_store/server_text.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/login_advice.hpp"
#include "idproxy/id_store/stored_value.hpp"

namespace idproxy::id_store {
namespace {

using AnswerKind = ServerAnswer::Kind;
using mongo::Array;
using mongo::Document;
using mongo::Reply;

// Larger collections are sampled unless indexes do: counting would read too much of them every
// minute.
constexpr std::int64_t kCountedAtMost = 200'000;
constexpr std::int32_t kSample = 1000;
constexpr std::int32_t kCountMaxTimeMs = 1000;

// Per database.
constexpr std::size_t kMostLeftAlone = 10'000;
constexpr std::size_t kMostOthers = 4096;

std::string reason_of(const Reply& reply) {
  switch (ErrorCode{reply.code}) {
    case ErrorCode::duplicate_key:
      return "several documents have the same value";
    case ErrorCode::cannot_create_index:
      return "the server answers with " + error_text(reply) +
             ". On a sharded collection, a unique index must begin with the shard key: set "
             "`reserve`, which keeps values unique without one, and leave unique_index at warn";
    case ErrorCode::index_options_conflict:
    case ErrorCode::index_key_specs_conflict:
      return "the field already has an index with other options: drop it first";
    case ErrorCode::command_not_supported_on_view:
      return "it is a view: no rule applies to it";
    default:
      return "the server answers with " + error_text(reply);
  }
}

ServerAnswer answer_of(const mongo::Client& client, const Reply& reply) {
  ServerAnswer answer;
  answer.has_user = client.login().has_user;
  if (reply.ok()) return answer;
  if (reply.kind != Reply::Kind::refused) {
    answer.kind = AnswerKind::unreachable;
    answer.reason = why_unreached(reply);
    answer.told = unreached(reply);
    if (answer.told == kLoginRefused) answer.reason += ' ' + advice::check_login(client.login());
  } else if (reply.code == ErrorCode::unauthorized) {
    answer.kind = AnswerKind::not_permitted;
  } else if (reply.code == ErrorCode::namespace_not_found) {
    answer.kind = AnswerKind::no_collection;
  } else {
    answer.kind = AnswerKind::refused;
    answer.reason = reason_of(reply);
    answer.is_transient = is(reply.code, CodeTrait::transient);
  }
  return answer;
}

/// Of an entry of listCollections.
std::optional<LeftAlone> left_alone_as(Bytes listed) {
  const std::string_view type = bson::text_in(listed, "type");
  if (type == "view") return LeftAlone::view;
  if (type == "timeseries") return LeftAlone::time_series;
  return std::nullopt;
}

std::optional<ids::CollectionUuid> uuid_in(Bytes listed) {
  const auto info = bson::document_in(listed, "info");
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
IndexList ask_which(mongo::Client& client, const Namespace& ns) {
  const bool takes_uuid = client.wire_version() >= server_release::k6_0;
  const Reply found =
      client.read_first(ns.db, {{"listCollections", 1}, {"filter", {"name", ns.collection}}});
  IndexList answer{answer_of(client, found)};
  if (!found.ok()) return answer;
  if (found.document.empty()) {
    answer.kind = AnswerKind::no_collection;
    return answer;
  }
  answer.left_alone = left_alone_as(found.document.bytes());
  if (takes_uuid) answer.uuid = uuid_in(found.document.bytes());
  return answer;
}

/// Sends an aggregation without conditions on the documents, and calls `use` for each result.
Reply aggregate(mongo::Client& client, const CountDocuments& request, const Array& stages,
                const std::function<bool(Bytes)>& use) {
  return client.read_all(request.ns.db,
                         {{"aggregate", request.ns.collection},
                          {"pipeline", stages},
                          {"cursor", Document()},
                          {"maxTimeMS", kCountMaxTimeMs}},
                         use);
}

/// Counts the documents with a number or a string in a field, whose index, if any, is enough for
/// that if it has no collation. No other value can repeat one that the proxy makes.
Reply count_all(mongo::Client& client, const CountDocuments& request, DocumentCount& answer) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Document ranges[] = {Document{{"$gte", -kInfinity}, {"$lte", kInfinity}},
                             Document{"$gte", ""}};  // compares with strings only
  for (const std::string& field : request.fields) {
    std::int64_t sum = 0;
    for (const Document& range : ranges) {
      Reply reply = client.read(request.ns.db, {{"count", request.ns.collection},
                                                {"query", {field, range}},
                                                {"collation", mongo::simple_collation()},
                                                {"maxTimeMS", kCountMaxTimeMs}});
      if (!reply.ok()) return reply;
      sum += bson::integer_in(reply.document.bytes(), "n");
    }
    answer.with_value[field] = static_cast<std::uint64_t>(std::max<std::int64_t>(sum, 0));
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
Reply sample(mongo::Client& client, const CountDocuments& request, DocumentCount& answer) {
  Document sums{{"_id", ""}, {"all", {"$sum", 1}}};
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    sums.add(std::to_string(i), sum_of_values(request.fields[i]));
  }
  const Array stages{Document{"$sample", {"size", kSample}}, Document{"$group", sums}};
  return aggregate(client, request, stages, [&](Bytes found) {
    const auto all = static_cast<double>(std::max<std::int64_t>(bson::integer_in(found, "all"), 1));
    for (std::size_t i = 0; i < request.fields.size(); ++i) {
      const double share = static_cast<double>(bson::integer_in(found, std::to_string(i))) / all;
      answer.with_value[request.fields[i]] =
          static_cast<std::uint64_t>(std::llround(share * static_cast<double>(answer.documents)));
    }
    return true;
  });
}

/// True if count_all() reads indexes and no documents.
bool can_count_by_indexes(mongo::Client& client, const CountDocuments& request) {
  std::vector<Index> indexes;
  if (!list_indexes(client, request.ns, indexes).ok()) return false;
  return std::ranges::all_of(request.fields, [&](const std::string& field) {
    return std::ranges::any_of(indexes, [&](const Index& index) {
      return index.partial.kind != Index::Partial::Kind::types && index.collation.empty() &&
             can_read(index, field, ValueType::number) && can_read(index, field, ValueType::string);
    });
  });
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
  if (!index->collation.empty()) {
    command.add("collation", Document(as_bytes(index->collation)));
  } else if (values.type() == bson::Type::string) {
    // By the collection's own collation, the index would be of no use.
    command.add("collation", mongo::simple_collation());
  }
  return client.read_all(ns.db, command, [&](Bytes document) {
    const auto element = find_path(document, field);
    const auto key = element ? comparable_key(*element) : std::nullopt;
    const auto place = key ? places.find(*key) : places.end();
    if (place != places.end()) taken[place->second] = true;
    return true;
  });
}

}  // namespace

DatabaseList ask(mongo::Client& client, const ListDatabases& /*request*/) {
  std::vector<std::string> names;
  ServerAnswer answer = answer_of(client, list_databases(client, names));
  return {std::move(answer), std::move(names)};
}

/// {name, type} of views and time-series collections only, unless all are wanted. Without
/// `authorizedCollections`, which would silently leave out those that the user may not read.
CollectionList ask(mongo::Client& client, const ListCollections& request) {
  Document command{{"listCollections", 1}, {"nameOnly", true}};
  if (!request.lists_all) {
    command.append({"filter", {"type", {"$in", Array{"view", "timeseries"}}}});
  }
  LeftAloneByName left_alone;
  std::vector<std::string> others;
  const Reply reply = client.read_all(request.db, command, [&](Bytes document) {
    const std::string_view name = bson::text_in(document, "name");
    if (name.empty()) return true;
    if (const auto as = left_alone_as(document)) {
      left_alone.emplace(name, *as);
    } else if (others.size() < kMostOthers) {
      others.emplace_back(name);
    }
    return left_alone.size() < kMostLeftAlone;
  });
  if (!reply.ok()) return {answer_of(client, reply)};
  return {answer_of(client, reply), std::move(left_alone), std::move(others)};
}

IndexList ask(mongo::Client& client, const ListIndexes& request) {
  IndexList which = request.identifies ? ask_which(client, request.ns) : IndexList();
  const bool is_known =
      which.kind == AnswerKind::answered || which.kind == AnswerKind::not_permitted;
  if (!is_known || which.left_alone) return which;
  std::vector<Index> indexes;
  const Reply listed = list_indexes(client, request.ns, indexes);
  IndexList answer{answer_of(client, listed)};
  if (!listed.ok()) return answer;
  answer.uuid = which.uuid;
  for (const UniqueField& field : request.advise) {
    if (readable_guard_among(indexes, field) != nullptr) continue;
    answer.offers[field.name] = offer_index(client, request.ns, field, indexes);
  }
  answer.indexes = std::move(indexes);
  return answer;
}

/// $collStats returns {count: N} for each shard. A small collection is then counted, because
/// $sample reads all of it anyway, and a large one if an index tells; otherwise, or if counting
/// takes too long, a sample tells.
DocumentCount ask(mongo::Client& client, const CountDocuments& request) {
  const Array stages{Document{"$collStats", {"count", Document()}}};
  std::int64_t documents = 0;
  const Reply reply = aggregate(client, request, stages, [&](Bytes document) {
    documents += bson::integer_in(document, "count");
    return true;
  });
  DocumentCount answer{answer_of(client, reply)};
  if (reply.refused(ErrorCode::nothing_to_count)) answer.kind = AnswerKind::no_collection;
  if (documents <= 0) return answer;
  answer.documents = static_cast<std::uint64_t>(documents);
  const bool counts = documents <= kCountedAtMost || can_count_by_indexes(client, request);
  Reply counted = counts ? count_all(client, request, answer) : sample(client, request, answer);
  if (counted.refused(ErrorCode::max_time_ms_expired)) counted = sample(client, request, answer);
  if (counted.ok()) return answer;
  if (!counted.refused(ErrorCode::unauthorized)) return {answer_of(client, counted)};
  answer.with_value.clear();
  answer.may_not_find = true;
  return answer;
}

MadeIndex ask(mongo::Client& client, const MakeIndex& request) {
  bool is_new = false;
  const Reply made = make_index(client, request.ns, request.field, is_new);
  ServerAnswer answer = answer_of(client, made);
  answer.is_transient = answer.is_transient && !made.refused(ErrorCode::duplicate_key);
  return {std::move(answer), is_new};
}

DroppedIndex ask(mongo::Client& client, const YieldIndex& request) {
  std::string to;
  ServerAnswer answer = answer_of(client, yield_index(client, request.ns, request.field, to));
  return {std::move(answer), std::move(to)};
}

DroppedIndex ask(mongo::Client& client, const MakeRoom& request) {
  Reply reply;
  std::string replaced;
  bool is_free = true;
  for (const UniqueField& field : request.made) {
    if (!reply.ok() || !request.room->is_awaited()) break;
    reply = make_room(client, request.ns, field, request.room->indexes(), replaced, is_free);
  }
  const ids::Error no_room{ids::Errc::unavailable, "there is no room to make"};
  request.room->answer(is_free && reply.ok() ? ids::Result<void>() : no_room);
  return {answer_of(client, reply), std::move(replaced)};
}

ServerAnswer ask(mongo::Client& client, const LookUpValues& request) {
  ids::FreeValues& values = *request.values;
  const ids::Values candidates = values.candidates();
  if (candidates.size() == 0) return answer_of(client, {});
  std::vector<bool> taken;
  const Namespace ns{values.db(), values.collection()};
  const Reply reply = look_up(client, ns, values.field(), candidates, taken);
  ServerAnswer answer = answer_of(client, reply);
  if (reply.ok()) {
    values.found(candidates, taken);
  } else {
    values.failed({ids::Errc::unavailable, answer.reason});
  }
  return answer;
}

}  // namespace idproxy::id_store
