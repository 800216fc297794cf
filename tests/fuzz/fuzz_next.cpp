// Input: {uint16 length, a client's message of that length, the server's reply}. If the message
// asks for values, the server is asked with a well-formed insert outside of sessions, and values
// are handed out only if its reply is the one that means "may insert". If it asks for the value of
// a stored document, all that follows are replies, and what the server and the client get is
// well-formed.

#include <algorithm>

#include "fuzz.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "support/fake_clock.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;
namespace action = rewrite::action;

void check_question(const action::Send& send, std::int32_t request_id) {
  Buffer out;
  send.message->copy(send.original, 0, out);
  const auto view = wire::OpMsgView::parse(out.view());
  require(view && view->header().request_id == request_id && view->sequence_count() == 0);
  require(view->header().message_length == static_cast<std::int32_t>(out.size()));
  const auto first = bson::Elements(view->body()).next();
  require(first && first->key == "insert");
  for (const char* key : {"lsid", "txnNumber", "autocommit", "idproxy"}) {
    require(!bson::find(view->body(), key));
  }
}

bool means_may_insert(Bytes reply) {
  const auto view = wire::OpMsgView::parse(reply);
  if (!view) return false;
  const auto read = rewrite::WriteReply::read(view->body(), 1);
  return read && read->ok && read->errors.size() == 1 &&
         (read->errors.front().code == 53 || read->errors.front().code == 61);
}

void check_answer(Bytes answer, std::int32_t request_id, bool may_insert) {
  const auto view = wire::OpMsgView::parse(answer);
  require(view && view->header().response_to == request_id);
  require(view->header().message_length == static_cast<std::int32_t>(answer.size()));
  require(view->body().size() <= static_cast<std::size_t>(bson::kMaxInternalDocument));
  require(!bson::find(view->body(), "ids") || may_insert);
}

/// {idproxy: "assign"}: `rest` has the server's replies, one after the other.
void play_assign(rewrite::Exchange& exchange, rewrite::Action next, Bytes rest,
                 const rewrite::Context& context, rewrite::Workspace& workspace,
                 std::int32_t request_id) {
  while (true) {
    if (const auto* answer = std::get_if<action::Reply>(&next)) {
      const auto view = wire::OpMsgView::parse(answer->message);
      require(answer->message.empty() || (view && view->header().response_to == request_id));
      return;
    }
    const auto* send = std::get_if<action::Send>(&next);
    if (send == nullptr) return;
    Buffer out;
    send->message->copy(send->original, 0, out);
    const auto view = wire::OpMsgView::parse(out.view());
    require(view && view->header().message_length == static_cast<std::int32_t>(out.size()));
    require(!bson::find(view->body(), "idproxy"));
    if (rest.size() < wire::kHeaderSize || !exchange.awaits_reply()) return;
    const auto its = static_cast<std::size_t>(std::clamp<std::int64_t>(
        load_i32(rest.data()), wire::kHeaderSize, static_cast<std::int64_t>(rest.size())));
    const Buffer reply = framed(rest.first(its), exchange.request_id());
    rest = rest.subspan(its);
    next = exchange.reply(reply.view(), context, workspace);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t length = data[0] + (std::size_t{data[1]} << 8);
  const Bytes rest(data + 2, size - 2);
  if (length < wire::kHeaderSize || rest.size() < length + wire::kHeaderSize) return 0;
  static const test::FakeClock clock;
  static rewrite::Namespaces namespaces(test::rule_set());
  static rewrite::Workspace workspace;
  const rewrite::Context context{clock, system_random()};
  const Buffer request = framed(rest.first(length), 0);
  const std::int32_t id = wire::read_header(request.view()).request_id;
  rewrite::Exchange exchange;
  const auto first = test::begin(exchange, request.view(), nullptr, namespaces, context, workspace);
  const auto* question = std::get_if<action::Send>(&first);
  if (question == nullptr) return 0;
  if (!exchange.is_next()) {
    const auto view = wire::OpMsgView::parse(request.view());
    const auto what = view ? bson::Elements(view->body()).next() : std::nullopt;
    if (what && what->key == "idproxy") {
      play_assign(exchange, first, rest.subspan(length), context, workspace, id);
      exchange.release(workspace);
    }
    return 0;
  }
  check_question(*question, id);
  const Buffer reply = framed(rest.subspan(length), exchange.request_id());
  const auto last = exchange.reply(reply.view(), context, workspace);
  if (const auto* answer = std::get_if<action::Reply>(&last)) {
    check_answer(answer->message, id, means_may_insert(reply.view()));
  } else {
    require(std::holds_alternative<action::Close>(last));
  }
  exchange.release(workspace);
  workspace.trim();
  return 0;
}
