#include "idproxy/rewrite/conversation.hpp"

#include <utility>

#include "idproxy/rewrite/reply.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::rewrite {

Conversation::Conversation(Bytes request) : Conversation(wire::read_header(request), request) {}

Conversation::Conversation(const wire::MsgHeader& header, Bytes request)
    : request_id_(header.request_id), acknowledged_(wire::expects_reply(header, request)) {}

void Conversation::taken(Workspace& workspace) {
  // The next message is then written to memory that is still in the processor's cache.
  workspace.give_back(std::move(message_));
}

Buffer Conversation::release(Workspace& workspace) {
  workspace.give_back(std::move(message_));
  return std::move(original_);
}

void Conversation::note_past(const CatalogRequest::Past& past) {
  for (const Assignment& assignment : *past.plan) {
    if (assignment.implied) continue;
    facts_.forwarded.push_back(
        {.assignment = &assignment, .reason = past.reason, .upserts = 1, .past_the_rules = true});
    facts_.forwarded.back().count();
  }
}

void Conversation::keep_original(Bytes message, Buffer* owner, Workspace& workspace) {
  if (owner != nullptr) {
    original_ = std::move(*owner);
  } else {
    original_ = std::move(workspace.spare);
    original_.clear();
    original_.append(message);
  }
}

void Conversation::refill(Workspace& workspace) {
  if (message_.capacity() == 0) message_ = workspace.take_message();
}

Action Conversation::fail_request(Bytes request, CommandError error, Workspace& workspace) const {
  if (acknowledged_) error.repeats_write = may_repeat_write(request);
  return fail_with(request, error, workspace);
}

Action Conversation::fail_with(Bytes request, const CommandError& error,
                               Workspace& workspace) const {
  workspace.reply.clear();
  if (acknowledged_) {
    const auto id = static_cast<std::int32_t>(workspace.next_request_id++);
    append_error_reply(request, id, error, workspace.reply);
  }
  return action::Reply{workspace.reply.view()};
}

std::optional<wire::OpMsgView> Conversation::single_reply(Bytes message) {
  if (wire::read_header(message).op_code != wire::OpCode::msg) return std::nullopt;
  auto view = wire::OpMsgView::parse(message);
  const bool is_single = view && !view->has(wire::flag::kMoreToCome) && view->sequence_count() == 0;
  return is_single ? std::optional(*std::move(view)) : std::nullopt;
}

}  // namespace idproxy::rewrite
