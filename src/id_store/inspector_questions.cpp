#include "id_store/inspector_questions.hpp"

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
      return "there are documents with the same value";
    case kCannotCreateIndex:
      return "the server cannot make it (error 67 CannotCreateIndex)";
    case kIndexOptionsConflict:
    case kIndexKeySpecsConflict:
      return "the field has another index already, with other options: drop it first";
    default:
      return "the server answers with error " + std::to_string(code);
  }
}

using Kind = Answer::Kind;

Answer answer_of(const Reply& reply) {
  if (reply.ok()) return {};
  if (reply.kind == Reply::Kind::unreachable) return {Kind::unreachable, reply.message};
  if (reply.kind == Reply::Kind::not_majority) {
    return {Kind::unreachable, "a majority of the servers does not answer"};
  }
  if (reply.code == mongo::kUnauthorized) return {Kind::not_permitted};
  if (reply.code == mongo::kNamespaceNotFound) return {Kind::no_collection};
  return {Kind::refused, reason_of(reply.code)};
}

/// {name, type}, for views and time-series collections alone. Not `authorizedCollections`: those
/// that the user may not read would be missing, without a word.
Answer ask_left_alone(mongo::Client& client, const Question& question) {
  Document filter;
  filter.add("type",
             Document().add("$in", Array().push(std::string_view("view")).push("timeseries")));
  Document command;
  command.add("listCollections", 1).add("nameOnly", true).add("filter", filter);
  std::set<std::string, std::less<>> names;
  const Reply reply = client.read_all(question.db, command, [&](Bytes document) {
    const auto name = bson::find(document, "name");
    if (name && name->type == bson::Type::string) names.emplace(name->text());
    return names.size() < Collections::kMostLeftAlone;
  });
  Answer answer = answer_of(reply);
  answer.left_alone = std::move(names);
  if (answer.kind != Answer::Kind::answered) answer.left_alone.clear();
  return answer;
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

Answer ask_indexes(mongo::Client& client, const Question& question) {
  std::vector<Index> indexes;
  const Reply reply = client.list_indexes(question.db, question.collection, [&](Bytes document) {
    indexes.push_back(listed_index_of(document));
    return true;
  });
  Answer answer = answer_of(reply);
  if (answer.kind == Answer::Kind::answered) answer.indexes = std::move(indexes);
  return answer;
}

/// {count: N} from each shard.
Answer ask_documents(mongo::Client& client, const Question& question) {
  const Document stage = Document().add("$collStats", Document().add("count", Document()));
  Document command;
  command.add("aggregate", question.collection);
  command.add("pipeline", Array().push(stage));
  command.add("cursor", Document());
  std::int64_t documents = 0;
  const Reply reply = client.read_all(question.db, command, [&](Bytes document) {
    if (const auto count = bson::find(document, "count")) {
      documents += count->as_integer().value_or(0);
    }
    return true;
  });
  Answer answer = answer_of(reply);
  if (documents > 0) answer.documents = static_cast<std::uint64_t>(documents);
  return answer;
}

Answer make_index(mongo::Client& client, const Question& question) {
  Document index;
  index.add("key", Document().add(question.field, 1));
  index.add("name", question.field + "_1").add("unique", true);
  Document command;
  command.add("createIndexes", question.collection).add("indexes", Array().push(index));
  return answer_of(client.write(question.db, command));
}

}  // namespace

Answer ask(mongo::Client& client, const Question& question) {
  switch (question.kind) {
    case Question::Kind::left_alone:
      return ask_left_alone(client, question);
    case Question::Kind::indexes:
      return ask_indexes(client, question);
    case Question::Kind::documents:
      return ask_documents(client, question);
    case Question::Kind::make_index:
      break;
  }
  return make_index(client, question);
}

}  // namespace idproxy::id_store
