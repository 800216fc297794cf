#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/conversation.hpp"
#include "idproxy/rewrite/field_request.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/write.hpp"
#include "rewrite/own_message.hpp"
#include "rewrite/right_question.hpp"

namespace idproxy::rewrite {
namespace {

// What an array's element has beside its value: the type, a key below 100000, and a NUL.
constexpr std::size_t kAroundValue = 1 + 5 + 1;
// What the answer has beside its values, generously.
constexpr std::size_t kAroundValues = 1024;

/// Appends the only write error of `reply` as the error of the whole command that answers
/// `request`.
void append_write_error(const wire::OpMsgView& request, const wire::OpMsgView& reply,
                        const WriteError& error, Buffer& out) {
  append_answer(out, reply.header().request_id, request, [&] {
    bson::append_double(out, "ok", 0);
    append_fields(error.document, {"errmsg", "code"}, out);
    append_fields(reply.body(), {"errorLabels", "$clusterTime", "operationTime"}, out);
  });
}

/// Why there are no values before there is a document, as half a sentence; empty: there are.
std::string why_document(const Assignment& assignment) {
  if (assignment.reservations != nullptr) return "the rule reserves each value for one";
  if (assignment.sequences == nullptr || assignment.sequences->fields().empty()) return {};
  std::string text = "the rule takes ";
  const auto& fields = assignment.sequences->fields();
  for (const std::string& field : fields)
    text.append(&field == fields.data() ? "" : ", ").append(field);
  return text + " from it";
}

CommandError no_document(const NextRequest& request, const std::string& why) {
  return {ErrorCode::bad_value, "mongo-idproxy: no values for field '" +
                                    request.assignment->rule->field + "' of " + request.ns() +
                                    " before there is a document: " + why};
}

CommandError none_for(const NextRequest& request, const ids::Error& error) {
  const bool is_transient = error.code == ids::Errc::unavailable;
  const bool repeats = bson::find(request.message.body(), "txnNumber").has_value();
  return {code_of(error.code), no_value_text(*request.assignment, error),
          is_transient && repeats ? kRetryableWriteError : std::string_view{}};
}

/// The conversation of {idproxy: "next"}: checks the client's right, draws the values, replies.
///
/// The server checks the right on the client's own connection (rewrite/right_question.hpp).
class NextExchange final : public Conversation {
 public:
  /// `rights`: those of the connection; null: asks the server each time.
  NextExchange(NextRequest&& next, Bytes request, Rights* rights)
      : Conversation(request), rights_(rights), request_(std::move(next)) {}

  Action begin(const Received& received) override;
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;
  Action answered(ids::Result<ids::Grant> grant, const Context& context,
                  Workspace& workspace) override;

 private:
  /// The arguments of an event's handlers.
  struct Step {
    std::chrono::nanoseconds now;  ///< monotonic
    Workspace& workspace;          ///< its `reply` gets the answer
  };
  Action send_question(Workspace& workspace);
  Action read_answer(const wire::OpMsgView& message, const Step& step);
  Action draw_values(const Step& step);
  std::optional<Action> await_guard(const Step& step);
  Action hand_out(const Step& step);
  Action fail(const CommandError& error, const Step& step) const {
    return fail_with(request_.message.message(), error, step.workspace);
  }

  /// The source of the values: the sequence, if there is one, or the collection's.
  [[nodiscard]] ids::Source& source() const {
    return sequence_ ? *sequence_ : *request_.assignment->source;
  }

  Rights* const rights_;
  NextRequest request_;
  ids::Values values_;
  std::shared_ptr<ids::Source> sequence_;  // the rule's, if it has any
  bool awaits_guard_ = false;
};

// ---- the right -------------------------------------------------------------------------------

Action NextExchange::begin(const Received& received) {
  if (!acknowledged_) return action::Reply{};
  keep_original(received.message, received.owner, received.workspace);
  request_.refer_to(original_.view());
  const Step step{received.context.clock.monotonic(), received.workspace};
  const bool may_insert =
      rights_ != nullptr && rights_->has_lately(request_.ns(), Right::insert, step.now);
  if (!may_insert) return send_question(received.workspace);
  request_.bind();
  return draw_values(step);
}

Action NextExchange::send_question(Workspace& workspace) {
  refill(workspace);
  ask_right(request_.message, request_id_, request_.db, request_.collection, Right::insert,
            message_);
  awaits_reply_ = true;
  return action::Send{&message_, {}};
}

Action NextExchange::reply(Bytes message, const Context& context, Workspace& workspace) {
  const auto view = single_reply(message);
  if (!view) return action::Close{};
  return read_answer(*view, {context.clock.monotonic(), workspace});
}

Action NextExchange::read_answer(const wire::OpMsgView& message, const Step& step) {
  const auto read = WriteReply::read(message.body(), 1);
  if (!read || (read->ok && read->errors.empty())) return action::Close{};
  if (says_not_permitted(*read) && request_.plan != nullptr) {
    facts_.not_permitted = &request_.plan->front();
    ++facts_.not_permitted->outcomes->not_permitted;
  }
  Buffer& out = step.workspace.reply;
  out.clear();
  if (!read->ok) {
    append_refusal(request_.message, message, kRightNeeded, out);
    return action::Reply{out.view()};
  }
  const WriteError& error = read->errors.front();
  const bool may_insert = !says_not_permitted(*read);
  if (may_insert) request_.bind();
  // A mongos says ShardKeyNotFound if `_id` is the collection's shard key: that cannot be an
  // array, either (not observed).
  if (refuses_id(error.code) || error.code == ErrorCode::shard_key_not_found) {
    if (rights_ != nullptr) rights_->add(request_.ns(), Right::insert, step.now);
    return draw_values(step);
  }
  // A view or a time-series collection has an error of its own, which would not say why there are
  // no values.
  if (may_insert && request_.assignment == nullptr) return fail(request_.no_rule(), step);
  append_write_error(request_.message, message, error, out);
  return action::Reply{out.view()};
}

// ---- the values ------------------------------------------------------------------------------

Action NextExchange::draw_values(const Step& step) {
  if (request_.assignment == nullptr) return fail(request_.no_rule(), step);
  const Assignment& assignment = *request_.assignment;
  if (assignment.in_turn) {
    return fail(none_for(request_, {ids::Errc::exhausted,
                                    "its numbers are for documents that are being stored"}),
                step);
  }
  if (const std::string why = why_document(assignment); !why.empty()) {
    return fail(no_document(request_, why), step);
  }
  if (assignment.sequences != nullptr) sequence_ = assignment.sequences->sequence({});
  const std::size_t most = request_.count * (kAroundValue + source().most_bytes());
  if (most + kAroundValues > static_cast<std::size_t>(bson::kMaxInternalDocument)) {
    return fail({ErrorCode::bson_object_too_large,
                 "mongo-idproxy: so many values may not fit into one reply: ask for fewer at once"},
                step);
  }
  if (assignment.not_ready) return fail(none_for(request_, *assignment.not_ready), step);
  if (const auto otherwise = await_guard(step)) return *otherwise;
  const auto drawn = source().next(request_.count, values_);
  if (drawn) return hand_out(step);
  if (!drawn.needs_store()) return fail(none_for(request_, drawn.error()), step);
  return action::AskStore{&source(), assignment.outcomes, request_.count, source().patience()};
}

/// Values are for documents that the unique index will guard.
std::optional<Action> NextExchange::await_guard(const Step& step) {
  ids::Guard* guard = request_.assignment->guard.get();
  if (guard == nullptr) return std::nullopt;
  const ids::GuardState state = guard->state(step.now);
  if (state.kind == ids::GuardState::Kind::guarded) return std::nullopt;
  if (state.kind == ids::GuardState::Kind::left_alone) {
    request_.assignment = nullptr;
    request_.plan = nullptr;
    return fail(request_.no_rule(), step);
  }
  if (state.kind == ids::GuardState::Kind::unguarded)
    return fail(none_for(request_, state.error), step);
  awaits_guard_ = true;
  return action::AskStore{guard, request_.assignment->outcomes, 0, guard->patience()};
}

Action NextExchange::answered(ids::Result<ids::Grant> grant, const Context& context,
                              Workspace& workspace) {
  const Step step{context.clock.monotonic(), workspace};
  if (std::exchange(awaits_guard_, false)) {
    return grant ? draw_values(step) : fail(none_for(request_, grant.error()), step);
  }
  if (grant) {
    source().accept(std::move(*grant), values_);
  } else if (const auto drawn = source().make_do(request_.count, values_, grant.error()); !drawn) {
    return fail(none_for(request_, drawn.error()), step);
  }
  return hand_out(step);
}

Action NextExchange::hand_out(const Step& step) {
  facts_.handed_out = values_.size();
  request_.assignment->outcomes->handed_out += facts_.handed_out;
  request_.assignment->outcomes->last_assigned = step.now.count();
  Buffer& out = step.workspace.reply;
  out.clear();
  out.reserve(values_.bytes() + facts_.handed_out * kAroundValue + kAroundValues);
  const auto id = static_cast<std::int32_t>(step.workspace.next_request_id++);
  append_answer(out, id, request_.message, [&] {
    bson::append_inside(out, bson::Type::array, "ids", [&] {
      for (std::size_t i = 0; i < facts_.handed_out; ++i) {
        bson::append_head(out, values_.type(), std::to_string(i));
        out.append(values_[i]);
      }
    });
    bson::append_double(out, "ok", 1);
  });
  return action::Reply{out.view()};
}

}  // namespace

std::unique_ptr<Conversation> next_exchange(NextRequest&& next, Bytes message, Rights* rights) {
  return std::make_unique<NextExchange>(std::move(next), message, rights);
}

}  // namespace idproxy::rewrite
