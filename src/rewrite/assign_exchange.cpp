#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/conversation.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/rewrite/field_request.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/write_exchange.hpp"
#include "idproxy/rewrite/zero_value.hpp"
#include "rewrite/own_message.hpp"
#include "rewrite/right_question.hpp"
#include "rewrite/turn_stage.hpp"

namespace idproxy::rewrite {
namespace {

using bson::Type;

// The client's fields that go with the proxy's own commands. A question belongs to no session; a
// read, which may find what the client has written, to its session and its transaction. If that
// begins with this command, it begins with the first read.
constexpr auto kOfQuestion =
    std::to_array<std::string_view>({"maxTimeMS", "comment", "apiVersion"});
constexpr auto kOfSession =
    std::to_array<std::string_view>({"maxTimeMS", "comment", "apiVersion", "apiStrict",
                                     "apiDeprecationErrors", "$clusterTime", "lsid"});
constexpr auto kOfTransaction = std::to_array<std::string_view>({"txnNumber", "autocommit"});
constexpr auto kBegins = std::to_array<std::string_view>({"startTransaction", "readConcern"});
constexpr auto kOfWrite =
    std::to_array<std::string_view>({"txnNumber", "autocommit", "stmtId", "writeConcern"});

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void append_value(Buffer& out, std::string_view key, const bson::Element& value) {
  bson::append_head(out, value.type, key);
  out.append(value.value);
}

/// What the rule calls missing in a stored document, of which a value that is there stays.
Assign missing_as(const Rule& rule) {
  const bool is_of_inserts = rule.assign == Assign::always || rule.assign == Assign::driver;
  return is_of_inserts ? Assign::missing_or_null : rule.assign;
}

/// The first document of a cursor; nothing if there is none.
std::optional<Bytes> first_of(Bytes reply) {
  const auto batch = first_batch(reply);
  const auto first = batch ? bson::Elements(*batch).next() : std::nullopt;
  return first && first->type == Type::document ? std::optional(first->value) : std::nullopt;
}

/// True if the index is unique, and each field of its key is one of the filter.
bool tells_apart(Bytes index, Bytes filter) {
  const auto key = bson::find(index, "key", Type::document);
  const bool is_for_all = bson::find_integer(index, "unique") == 1 &&
                          !bson::find(index, "partialFilterExpression") &&
                          !bson::find(index, "buildUUID");
  if (!key || !is_for_all) return false;
  // Of two fields within one array, each document may have the values in other elements of it.
  std::vector<std::string_view> first_names;
  bson::Elements fields(key->value);
  while (const auto field = fields.next()) {
    const std::string_view first = field->key.substr(0, field->key.find('.'));
    if (!bson::find(filter, field->key) || is_among(first_names, first)) return false;
    first_names.push_back(first);
  }
  return !fields.malformed();
}

/// As listIndexes has it: where it differs from the collection's own, which `_id` has, the server
/// compares by another one than the index.
std::string_view collation_of(Bytes index) {
  const auto collation = bson::find(index, "collation", Type::document);
  return collation ? as_text(collation->value) : std::string_view();
}

/// True if one of these indexes allows one document at most that the filter finds.
bool is_unique(Bytes reply, Bytes filter) {
  const auto batch = first_batch(reply);
  if (!batch) return false;
  std::string_view own;
  std::vector<Bytes> unique;
  bson::Elements indexes(*batch);
  while (const auto index = indexes.next()) {
    if (index->type != Type::document) continue;
    const auto name = bson::find(index->value, "name", Type::string);
    const bool is_of_id = (name && name->text() == "_id_") || bson::find(index->value, "clustered");
    if (is_of_id) own = collation_of(index->value);
    if (tells_apart(index->value, filter)) unique.push_back(index->value);
  }
  return std::ranges::any_of(unique, [&](Bytes each) { return collation_of(each) == own; });
}

std::optional<CommandError> fault_of_rule(const AssignRequest& request) {
  const Assignment* its = request.assignment;
  if (its == nullptr) return request.no_rule();
  const char* why = nullptr;
  if (its->is_id()) why = "nobody can change the _id of a stored document";
  if (its->reservations != nullptr) why = "the rule reserves values for documents to be inserted";
  if (why == nullptr) return std::nullopt;
  return CommandError{ErrorCode::bad_value, "mongo-idproxy: no value for field '" + request.field +
                                                "' of a document in " + request.ns() + ": " + why};
}

/// Those of the document that determine its value.
const std::vector<std::string>& fields_of(const AssignRequest& request) {
  static const std::vector<std::string> kNone;
  const auto& sequences = request.assignment->sequences;
  return sequences == nullptr ? kNone : sequences->fields();
}

/// The value that the document has and keeps, as read.
std::optional<bson::Element> value_found(const AssignRequest& request, Bytes reply) {
  if (bson::find_integer(reply, "ok") != 1) return std::nullopt;
  const auto found = first_of(reply);
  const auto value = found ? field_at(*found, request.field) : std::nullopt;
  const bool stays = value && value->is == ids::FieldValue::Is::there &&
                     !replaces(missing_as(*request.assignment->rule), value->element);
  return stays ? std::optional(value->element) : std::nullopt;
}

/// The part of the field's path that is there, and no document; empty: none.
std::string blocked_at(const std::string& field, Bytes document) {
  for (std::size_t dot = field.find('.'); dot != std::string::npos;
       dot = field.find('.', dot + 1)) {
    const auto around = field_at(document, field.substr(0, dot));
    const bool is_there = around && around->is == ids::FieldValue::Is::there;
    if (is_there && around->element.type != Type::document) return field.substr(0, dot);
  }
  return {};
}

/// What the value depends on. As conditions of a rule, since they compare without a collation.
std::vector<Condition> conditions_of(const AssignRequest& request, const AssignedField& its) {
  std::vector<Condition> all;
  for (std::size_t i = 0; i < its.values.size(); ++i) {
    const ids::FieldValue& value = its.values[i];
    Condition condition{fields_of(request)[i]};
    Buffer own;
    if (value.is == ids::FieldValue::Is::there) {
      static_cast<void>(ids::append_scope(own, "", value.element));  // refusal() has admitted it
      condition.values.emplace_back(as_text(own.view()));
    } else {
      condition.exists = false;
    }
    all.push_back(std::move(condition));
  }
  return all;
}

/// $and: [<the filter>, <the field is missing>, <what the value depends on is still so>]: else the
/// value would be another document's.
void append_query(const AssignRequest& request, const AssignedField& its, Buffer& out) {
  std::size_t place = 0;
  const auto append = [&](const auto& condition) {
    bson::append_inside(out, Type::document, std::to_string(place++), condition);
  };
  append_value(out, std::to_string(place++), *bson::find(request.message.body(), "filter"));
  append([&] {
    bson::append_inside(out, Type::document, request.field,
                        [&] { append_missing(request.assignment->rule->assign, out); });
  });
  if (!its.values.empty()) append([&] { append_filter(conditions_of(request, its), out); });
}

/// The conversation of {idproxy: "assign"}. All that it does goes over the client's own connection,
/// with its session and its rights: it asks whether the client may write there, and whether the
/// filter names one document; reads that, so that nothing is drawn or made for one that is not
/// there or has a value; then has a findAndModify done as if the client had sent it, which gets its
/// value as an upsert does. If that has changed nothing, it reads why.
class AssignExchange final : public Conversation {
 public:
  AssignExchange(AssignRequest&& assign, Bytes request, ConnectionMemory* memory)
      : Conversation(request), memory_(memory), request_(std::move(assign)) {}

  Action begin(const Received& received) override;
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;
  Action answered(ids::Result<ids::Grant> grant, const Context& context,
                  Workspace& workspace) override;
  Action resume(const Context& context, Workspace& workspace) override;
  Buffer release(Workspace& workspace) override;

 private:
  Steps assign();
  Action go_on(const Context& context, Workspace& workspace);

  [[nodiscard]] bool must_show_right();
  std::optional<Action> take_right();
  std::optional<Action> take_indexes();
  std::optional<Action> take_document();
  std::optional<Action> answer_found();
  void begin_write();
  [[nodiscard]] bool is_writing() const;
  std::optional<Action> take_write();

  Action list_indexes();
  Action read_document();
  Action confirm();
  Action take_confirmation();
  Action send();
  Action refuse(std::string_view needed);
  Action fail(const CommandError& error);
  Action answer(const std::optional<bson::Element>& value, bool modified, bool found);
  [[nodiscard]] Bytes body() const { return reply_->body(); }
  /// Of all commands of the proxy's own: the write may have used others since.
  [[nodiscard]] std::int32_t client_id() const { return request_.message.header().request_id; }
  [[nodiscard]] bool in_transaction() const {
    return bson::find_integer(request_.message.body(), "autocommit") == 0;
  }

  ConnectionMemory* const memory_;
  AssignRequest request_;
  bool has_begun_ = false;  // the client's transaction, if it has one
  AssignedField assigned_;  // values in document_
  Buffer document_;         // what was read last
  Buffer concern_error_;    // that of the write, an element
  Buffer command_;          // that of write_
  std::optional<WriteExchange> write_;
  Action next_;  // of write_
  Buffer answer_;
  Steps steps_;

  // The current event.
  const Context* context_ = nullptr;
  Workspace* workspace_ = nullptr;
  std::optional<wire::OpMsgView> reply_;
};

// ---- the whole conversation --------------------------------------------------------------------

Steps AssignExchange::assign() {
  if (must_show_right()) {
    refill(*workspace_);
    ask_right(request_.message, client_id(), request_.db, request_.collection,
              Right::find_and_modify, message_);
    co_await send();
    if (const auto end = take_right()) co_return *end;
  }
  request_.bind();
  if (const auto fault = fault_of_rule(request_)) co_return fail(*fault);
  if (!bson::find(request_.filter(), "_id")) {
    co_await list_indexes();
    if (const auto end = take_indexes()) co_return *end;
  }
  co_await read_document();
  if (!in_transaction() && value_found(request_, body())) {
    co_await confirm();
    co_return take_confirmation();
  }
  if (const auto end = take_document()) co_return *end;
  for (begin_write(); is_writing();) co_await next_;
  if (const auto end = take_write()) co_return *end;
  co_await read_document();
  if (const auto end = answer_found()) co_return *end;
  co_return fail({ErrorCode::write_conflict,
                  "mongo-idproxy: the document has changed meanwhile: send the command again",
                  in_transaction() ? kTransientTransactionError : std::string_view(), false,
                  std::string(as_text(concern_error_.view()))});
}

Action AssignExchange::begin(const Received& received) {
  if (!acknowledged_) return action::Reply{};
  keep_original(received.message, received.owner, received.workspace);
  request_.refer_to(original_.view());
  steps_ = assign();
  return go_on(received.context, received.workspace);
}

Action AssignExchange::go_on(const Context& context, Workspace& workspace) {
  context_ = &context;
  workspace_ = &workspace;
  Action action = steps_.next();
  if (!write_) return action;
  facts_ = write_->facts();
  if (!is_writing()) return action;
  request_id_ = write_->request_id();
  return action;
}

Action AssignExchange::reply(Bytes message, const Context& context, Workspace& workspace) {
  reply_ = single_reply(message);
  if (!reply_) return action::Close{};
  if (write_ && is_writing()) next_ = write_->reply(message, context, workspace);
  return go_on(context, workspace);
}

Action AssignExchange::answered(ids::Result<ids::Grant> grant, const Context& context,
                                Workspace& workspace) {
  if (!write_) return action::Close{};
  reply_.reset();
  next_ = write_->answered(std::move(grant), context, workspace);
  return go_on(context, workspace);
}

Action AssignExchange::resume(const Context& context, Workspace& workspace) {
  if (!write_) return action::Close{};
  reply_.reset();
  next_ = write_->resume(context, workspace);
  return go_on(context, workspace);
}

Buffer AssignExchange::release(Workspace& workspace) {
  if (write_) static_cast<void>(write_->release(workspace));
  return Conversation::release(workspace);
}

// ---- before the write --------------------------------------------------------------------------

bool AssignExchange::must_show_right() {
  return memory_ != nullptr && memory_->enforces_logins() &&
         !memory_->rights.has_lately(request_.ns(), Right::find_and_modify,
                                     context_->clock.monotonic());
}

std::optional<Action> AssignExchange::take_right() {
  const RightAnswer said = read_right(*reply_, Right::find_and_modify);
  if (said == RightAnswer::malformed) return action::Close{};
  if (said == RightAnswer::may) {
    memory_->rights.add(request_.ns(), Right::find_and_modify, context_->clock.monotonic());
    return std::nullopt;
  }
  if (said == RightAnswer::may_not && request_.plan != nullptr) {
    facts_.not_permitted = &request_.plan->front();
    ++facts_.not_permitted->outcomes->not_permitted;
  }
  return refuse(kRightNeeded);
}

Action AssignExchange::list_indexes() {
  refill(*workspace_);
  OwnCommand command(request_.message, client_id());
  bson::append_string(command.body(), "listIndexes", request_.collection);
  // One that is being built is then listed in another form.
  bson::append_bool(command.body(), "includeBuildUUIDs", true);
  command.send(kOfQuestion, request_.db, message_);
  return send();
}

std::optional<Action> AssignExchange::take_indexes() {
  if (bson::find_integer(body(), "ok") != 1) {
    // Which the read will say, and begin the client's transaction.
    if (bson::find_integer(body(), "code") == ErrorCode::namespace_not_found) return std::nullopt;
    return refuse(
        "mongo-idproxy: whether a filter without _id names one document, only the collection's "
        "indexes tell; the server says: ");
  }
  if (is_unique(body(), request_.filter())) return std::nullopt;
  return fail({ErrorCode::bad_value,
               "mongo-idproxy: 'filter' must name one document: no unique index of " +
                   request_.ns() +
                   " has only fields of it (partial indexes, and those with a collation of their "
                   "own, do not count): name the _id"});
}

Action AssignExchange::read_document() {
  refill(*workspace_);
  document_.clear();
  OwnCommand command(request_.message, client_id());
  Buffer& out = command.body();
  bson::append_string(out, "find", request_.collection);
  append_value(out, "filter", *bson::find(request_.message.body(), "filter"));
  std::vector<std::string> paths = fields_of(request_);
  paths.push_back(request_.field);
  if (std::ranges::find(paths, "_id") == paths.end()) paths.emplace_back("_id");  // for confirm()
  bson::append_inside(out, Type::document, "projection", [&] {
    // A server refuses a path and one around it.
    for (const std::string& each : paths) {
      const bool is_within = std::ranges::any_of(
          paths, [&](const std::string& other) { return each.starts_with(other + "."); });
      if (!is_within) bson::append_int32(out, each, 1);
    }
  });
  bson::append_int32(out, "limit", 1);
  bson::append_bool(out, "singleBatch", true);
  std::vector<std::string_view> kept(kOfSession.begin(), kOfSession.end());
  if (in_transaction()) {
    kept.insert(kept.end(), kOfTransaction.begin(), kOfTransaction.end());
    if (!std::exchange(has_begun_, true)) kept.insert(kept.end(), kBegins.begin(), kBegins.end());
  } else {
    // A majority may not have what another client has just been given.
    bson::append_inside(out, Type::document, "readConcern",
                        [&] { bson::append_string(out, "level", "local"); });
  }
  command.send(kept, request_.db, message_);
  return send();
}

/// A failover may undo a value that is there, and whoever is told of it wants it as durable as one
/// that is given now. So this is a write that changes nothing, after which the server that has the
/// document waits for all that was written before, as the client's write concern says.
Action AssignExchange::confirm() {
  const auto id = bson::find(*first_of(body()), "_id");  // a view may not show it
  document_.append(reply_->message());
  refill(*workspace_);
  OwnCommand command(request_.message, client_id());
  Buffer& out = command.body();
  bson::append_string(out, "update", request_.collection);
  bson::append_inside(out, Type::array, "updates", [&] {
    bson::append_inside(out, Type::document, "0", [&] {
      bson::append_inside(out, Type::document, "q", [&] {
        if (id) {
          bson::append_inside(out, Type::document, "_id", [&] { append_value(out, "$eq", *id); });
        } else {
          for (const auto& each : bson::Elements(request_.filter())) bson::append_copy(out, each);
        }
      });
      bson::append_inside(out, Type::document, "u", [&] {
        bson::append_inside(out, Type::document, "$setOnInsert",
                            [&] { bson::append_int32(out, "_", 0); });
      });
      bson::append_bool(out, "multi", true);  // else a mongos wants the shard key
    });
  });
  std::vector<std::string_view> kept(kOfSession.begin(), kOfSession.end());
  if (request_.assignment->in_turn) {
    const std::int64_t majority = memory_ == nullptr ? 0 : memory_->majority;
    static_cast<void>(append_write_concern(request_.message.body(), majority, out));
  } else {
    kept.emplace_back("writeConcern");
  }
  command.send(kept, request_.db, message_);
  return send();
}

/// The answer, by the read before.
Action AssignExchange::take_confirmation() {
  const auto read = WriteReply::read(body(), 1);
  if (!read) return action::Close{};
  if (!read->ok) return action::Relay{};
  if (!read->errors.empty()) {
    return fail({ErrorCode{static_cast<std::int32_t>(read->errors.front().code)},
                 "mongo-idproxy: the document has a value, but the server does not say whether it "
                 "is durable"});
  }
  if (const auto error = bson::find(body(), "writeConcernError")) {
    bson::append_copy(concern_error_, *error);
  }
  reply_ = *wire::OpMsgView::parse(document_.view());
  return *answer_found();
}

/// The answer, unless the document lacks its value. Sets what that depends on.
std::optional<Action> AssignExchange::take_document() {
  if (auto end = answer_found()) return end;
  document_.append(*first_of(body()));
  if (const std::string at = blocked_at(request_.field, document_.view()); !at.empty()) {
    return fail({ErrorCode::path_not_viable, "mongo-idproxy: cannot create field '" +
                                                 request_.field + "': '" + at +
                                                 "' is not an object"});
  }
  for (const std::string& each : fields_of(request_)) {
    const auto value = field_at(document_.view(), each);
    if (!value) return action::Close{};
    assigned_.values.push_back(*value);
  }
  const ids::Sequences* sequences = request_.assignment->sequences.get();
  const std::string why = sequences == nullptr ? "" : sequences->refusal(assigned_.values);
  if (why.empty()) return std::nullopt;
  return fail({ErrorCode::bad_value, "mongo-idproxy: no value for field '" + request_.field +
                                         "' of a document in " + request_.ns() + ": " + why});
}

/// The answer by what was read; nothing: the document is there, and lacks its value.
std::optional<Action> AssignExchange::answer_found() {
  if (bson::find_integer(body(), "ok") != 1) return action::Relay{};
  if (const auto value = value_found(request_, body())) return answer(value, false, true);
  const auto found = first_of(body());
  if (!found) return answer({}, false, false);
  const auto value = field_at(*found, request_.field);
  if (!value) return action::Close{};
  using Is = ids::FieldValue::Is;
  if (value->is == Is::missing || value->is == Is::there) return std::nullopt;
  return answer({}, false, true);
}

// ---- the write ---------------------------------------------------------------------------------

void AssignExchange::begin_write() {
  const wire::OpMsgView& client = request_.message;
  const bool checksum = client.has(wire::flag::kChecksumPresent);
  append_op_msg(command_, client.header().request_id, 0, checksum, [&] {
    bson::append_string(command_, "findAndModify", request_.collection);
    bson::append_inside(command_, Type::document, "query", [&] {
      bson::append_inside(command_, Type::array, "$and",
                          [&] { append_query(request_, assigned_, command_); });
    });
    bson::append_inside(command_, Type::document, "update",
                        [&] { bson::append_inside(command_, Type::document, "$set", [] {}); });
    bson::append_bool(command_, "new", true);
    bson::append_inside(command_, Type::document, "fields", [&] {
      bson::append_int32(command_, "_id", 0);
      bson::append_int32(command_, request_.field, 1);
    });
    bson::Elements fields(client.body());
    while (const auto field = fields.next()) {
      if (is_among(kOfSession, field->key) || is_among(kOfWrite, field->key)) {
        bson::append_copy(command_, *field);
      }
    }
    bson::append_string(command_, "$db", request_.db);
  });
  const auto view = *wire::OpMsgView::parse(command_.view());
  WriteRequest write{view, *WriteCommand::read(view), request_.plan};
  write.known = request_.known;
  assigned_.field = request_.field;
  write.assigns = &assigned_;
  const Received received{command_.view(), nullptr, *context_, *workspace_};
  reply_.reset();
  write_.emplace(std::move(write), received, memory_);
  next_ = write_->begin(received);
}

bool AssignExchange::is_writing() const {
  const bool has_ended = std::holds_alternative<action::Relay>(next_) ||
                         std::holds_alternative<action::Reply>(next_) ||
                         std::holds_alternative<action::Close>(next_);
  // Without a value, it would go as it is: the collection is none that gets any.
  const bool is_left_alone =
      std::holds_alternative<action::Send>(next_) && write_->facts().assigned == 0;
  return !has_ended && !is_left_alone;
}

/// The answer; nothing if the write has changed no document.
std::optional<Action> AssignExchange::take_write() {
  if (std::holds_alternative<action::Close>(next_)) return next_;
  if (const auto* replied = std::get_if<action::Reply>(&next_)) {
    reply_ = single_reply(replied->message);
  } else if (!reply_ || std::holds_alternative<action::Send>(next_)) {
    return fail(request_.no_rule());
  }
  if (bson::find_integer(body(), "ok") != 1) return next_;
  const auto changed = bson::find(body(), "value", Type::document);
  if (!changed) {
    if (const auto error = bson::find(body(), "writeConcernError")) {
      bson::append_copy(concern_error_, *error);
    }
    return std::nullopt;
  }
  const auto value = field_at(changed->value, request_.field);
  if (!value || value->is != ids::FieldValue::Is::there) return action::Close{};
  return answer(value->element, true, true);
}

// ---- answers -----------------------------------------------------------------------------------

Action AssignExchange::send() {
  request_id_ = client_id();
  awaits_reply_ = true;
  return action::Send{&message_, {}};
}

Action AssignExchange::refuse(std::string_view needed) {
  workspace_->reply.clear();
  append_refusal(request_.message, *reply_, needed, workspace_->reply);
  return action::Reply{workspace_->reply.view()};
}

Action AssignExchange::fail(const CommandError& error) {
  return fail_with(request_.message.message(), error, *workspace_);
}

/// With what drivers want to know of each reply.
Action AssignExchange::answer(const std::optional<bson::Element>& value, bool modified,
                              bool found) {
  const auto id = static_cast<std::int32_t>(workspace_->next_request_id++);
  append_answer(answer_, id, request_.message, [&] {
    if (value) append_value(answer_, "value", *value);
    if (!value) bson::append_head(answer_, Type::null, "value");
    bson::append_bool(answer_, "modified", modified);
    if (!modified) bson::append_bool(answer_, "found", found);
    bson::append_double(answer_, "ok", 1);
    answer_.append(concern_error_.view());
    append_fields(body(), {"writeConcernError", "errorLabels", "$clusterTime", "operationTime"},
                  answer_);
  });
  return action::Reply{answer_.view()};
}

}  // namespace

std::unique_ptr<Conversation> assign_exchange(AssignRequest&& assign, Bytes message,
                                              ConnectionMemory* memory) {
  return std::make_unique<AssignExchange>(std::move(assign), message, memory);
}

}  // namespace idproxy::rewrite
