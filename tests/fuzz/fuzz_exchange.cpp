// Drives an exchange as net does, with a client's message and a server's replies. Input: pieces of
// {uint8 event, uint24 length, bytes}. The first piece is the request; an odd event byte means that
// X.509 is refused. The others are replies; their event byte is the time in ms that passes before.
// One rule holds values for the first few documents only; after that the store is asked, and has
// none every third time.
//
// Whatever the server replies: every command sent to the server is a well-formed insert of
// documents that the client sent and that no reply reported as stored, each no more often than its
// rule allows, with the client's statement numbers. The reply to the client accounts for every
// document. No value is given back that may be stored. And the exchange ends.

#include <set>

#include "fuzz.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "support/fake_clock.hpp"
#include "support/lending_source.hpp"
#include "support/replies.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"
#include "support/write_options.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;
using rewrite::Action;
namespace action = rewrite::action;

constexpr std::uint32_t kAttempts = 3;

std::shared_ptr<const rewrite::RuleSet> rules(std::shared_ptr<test::Lending> lending) {
  auto id = test::rule("shop.*", "_id");
  id.strategy = test::shared_source<test::LendingSource>(std::move(lending));
  auto other = test::rule("shop.o*", "a.b");
  auto placed = test::rule("shop.out", "code", rewrite::Assign::always, 40);
  id.retry.attempts = other.retry.attempts = placed.retry.attempts = kAttempts;
  other.retry.backoff = std::chrono::milliseconds(1);
  placed.in_transaction = rewrite::InTransaction::surface;
  other.report = true;
  return test::rule_set_of(std::move(id), std::move(other), std::move(placed));
}

/// One insert, of the client or the proxy.
struct Sent {
  std::vector<std::string> documents;  // without the fields that rules assign
  std::vector<std::int32_t> numbers;   // statement numbers, if they matter
  bool well_formed = true;
  bool stops_at_errors = true;
  bool acknowledged = true;
  bool in_transaction = false;
};

/// The fields that no rule touches; empty for a document that replaces a refused one.
std::string untouched(Bytes document, bool& well_formed) {
  std::string kept;
  bson::Elements elements(document);
  while (const auto element = elements.next()) {
    if (element->key == "_id" || element->key == "a" || element->key == "code") continue;
    kept.append(as_text({element->begin, element->end()}));
  }
  well_formed = well_formed && !elements.malformed();
  return kept;
}

Sent read(Bytes bytes) {
  const auto view = wire::OpMsgView::parse(bytes);
  require(view && load_i32(bytes.data()) == static_cast<std::int32_t>(bytes.size()));
  const auto command = rewrite::WriteCommand::read(*view);
  require(command.has_value());
  Sent sent;
  rewrite::Statements documents(*command);
  while (const auto document = documents.next()) {
    sent.documents.push_back(untouched(*document, sent.well_formed));
  }
  require(!documents.malformed());
  const auto options = test::options_in(view->body());
  if (!options) return sent;
  sent.stops_at_errors = options->ordered || options->in_transaction;
  sent.acknowledged = options->acknowledged;
  sent.in_transaction = options->in_transaction;
  if (options->in_transaction || !options->has_txn_number) return sent;
  if (!options->numbers(sent.documents.size())) return sent;
  for (std::size_t i = 0; i < sent.documents.size(); ++i) {
    sent.numbers.push_back(options->number_of(static_cast<std::int32_t>(i)));
  }
  const std::set<std::int32_t> distinct(sent.numbers.begin(), sent.numbers.end());
  require(distinct.size() == sent.numbers.size());
  return sent;
}

/// Checks from outside which documents are sent and stored.
class Watch {
 public:
  explicit Watch(Sent whole)
      : whole_(std::move(whole)),
        open_(whole_.documents.size()),
        failures_(whole_.documents.size()) {
    for (std::size_t i = 0; i < open_.size(); ++i) open_[i] = i;
  }

  /// A command was sent: its documents must be some of the client's that are not stored, in their
  /// order.
  void sent(const Sent& part) {
    require(part.well_formed && part.numbers.empty() == whole_.numbers.empty());
    out_.clear();
    std::size_t at = 0;
    for (std::size_t i = 0; i < part.documents.size(); ++i, ++at) {
      const auto fits = [&](std::size_t index) {
        if (!part.numbers.empty() && whole_.numbers[index] != part.numbers[i]) return false;
        // A document that cannot take its value is replaced by one that mongod refuses.
        return part.documents[i].empty() || part.documents[i] == whole_.documents[index];
      };
      while (at < open_.size() && !fits(open_[at])) ++at;
      require(at < open_.size());
      out_.push_back(open_[at]);
      require(failures_[open_[at]] <= kAttempts);
    }
    require(!out_.empty());
  }

  /// A reply led to another command: the documents that it does not report as failed are stored. An
  /// ordered batch, and a transaction, stop at the first error.
  void answered(Bytes reply) {
    const auto view = wire::OpMsgView::parse(reply);
    const auto read = rewrite::WriteReply::read(view->body(), out_.size());
    require(read.has_value());
    if (!read->ok) {  // one document, and it is not stored
      require(out_.size() == 1);
      ++failures_[out_.front()];
      return;
    }
    std::set<std::size_t> failed;
    for (const auto& error : read->errors) failed.insert(static_cast<std::size_t>(error.index));
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (failed.contains(i)) {
        ++failures_[out_[i]];
        if (whole_.stops_at_errors) break;
        continue;
      }
      std::erase(open_, out_[i]);
    }
  }

 private:
  Sent whole_;
  std::vector<std::size_t> open_;  // documents that are not stored yet
  std::vector<std::size_t> out_;
  std::vector<std::uint32_t> failures_;  // by document
};

/// The values of `_id` that may be stored.
class Values {
 public:
  void sent(Bytes bytes) {
    const auto view = wire::OpMsgView::parse(bytes);
    const auto command = rewrite::WriteCommand::read(*view);
    out_.clear();
    rewrite::Statements documents(*command);
    while (const auto document = documents.next()) {
      const auto id = bson::find(*document, "_id");
      const bool ours = id && id->type == bson::Type::int64;
      out_.push_back(ours ? load_i64(id->value.data()) : -1);
    }
    const Sent command_sent = read(bytes);
    stops_at_errors_ = command_sent.stops_at_errors;
    in_transaction_ = command_sent.in_transaction;
  }
  /// Any value may be stored unless the reply clearly denies it.
  void answered(Bytes reply) {
    std::set<std::size_t> denied;
    const auto view = wire::OpMsgView::parse(reply);
    const auto read = view ? rewrite::WriteReply::read(view->body(), out_.size()) : std::nullopt;
    if (read && read->ok && read->retried == 0 && read->n) deny(*read, denied);
    // Not authorized, an invalid namespace, a view, not understood: the server refused the whole
    // command.
    static const std::set<std::int64_t> kRefused = {2, 9, 13, 14, 72, 73, 166, 323, 40415};
    if (read && !read->ok && kRefused.contains(read->code)) return;
    if (read && read->code == ErrorCode::duplicate_key && out_.size() == 1) return;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (!denied.contains(i)) stored_.insert(out_[i]);
    }
  }
  void check(const std::vector<std::int64_t>& back) const {
    for (const std::int64_t value : back) require(!stored_.contains(value));
  }

 private:
  /// Each error speaks of its own document; one that stops the batch of those behind it, too, and
  /// in a transaction of all.
  void deny(const rewrite::WriteReply& reply, std::set<std::size_t>& denied) const {
    static const std::set<std::int64_t> kDenied = {2,   9,     13,    14,    28,    40,   52,
                                                   53,  54,    56,    57,    66,    121,  166,
                                                   361, 10334, 11000, 16755, 17419, 17420};
    for (const auto& error : reply.errors) {
      const auto index = static_cast<std::size_t>(error.index);
      const bool is_denied = kDenied.contains(error.code);
      if (is_denied) denied.insert(index);
      if (!stops_at_errors_) continue;
      if (!is_denied) return;
      for (auto i = in_transaction_ ? 0 : index; i < out_.size(); ++i) denied.insert(i);
      return;
    }
  }

  std::vector<std::int64_t> out_;  // of the last command sent, by document
  std::set<std::int64_t> stored_;
  bool stops_at_errors_ = true;
  bool in_transaction_ = false;
};

/// Answers the exchange as the store.
Action ask(Action action, rewrite::Exchange& exchange, const rewrite::Context& context,
           rewrite::Workspace& workspace, std::size_t& asked) {
  static constexpr std::int64_t kFirst = 1'000'000;
  while (const auto* need = std::get_if<action::AskStore>(&action)) {
    const std::uint64_t count = need->count;
    require(count > 0 && ++asked < 1000);
    if (asked % 3 == 0) {
      action = exchange.answered(ids::Error{ids::Errc::exhausted, "none"}, context, workspace);
    } else {
      const auto first = kFirst * static_cast<std::int64_t>(asked);
      action = exchange.answered(ids::Grant(nullptr, {{first, count}}), context, workspace);
    }
  }
  return action;
}

std::optional<Bytes> piece(Bytes& input, std::uint8_t& event) {
  if (input.size() < 4) return std::nullopt;
  event = input[0];
  const std::size_t length =
      input[1] + (std::size_t{input[2]} << 8) + (std::size_t{input[3]} << 16);
  const Bytes content = input.subspan(4).first(std::min(length, input.size() - 4));
  input = input.subspan(4 + content.size());
  return content;
}

/// Checks the reply to the client, in which every document is stored, failed, or was not reached.
void check_reply(Bytes bytes, std::int32_t request_id, const Sent& whole) {
  const auto view = wire::OpMsgView::parse(bytes);
  require(view && view->header().response_to == request_id);
  require(view->header().message_length == static_cast<std::int32_t>(bytes.size()));
  const auto reply = rewrite::WriteReply::read(view->body(), whole.documents.size());
  require(reply.has_value());
  if (!reply->ok) return;
  const auto documents = static_cast<std::int64_t>(whole.documents.size());
  const auto& errors = reply->errors;
  require(reply->n.has_value());
  if (!whole.acknowledged) return require(errors.empty() && *reply->n == 0);
  if (!whole.stops_at_errors) {
    return require(*reply->n + static_cast<std::int64_t>(errors.size()) == documents);
  }
  require(errors.size() <= 1 && *reply->n == (errors.empty() ? documents : errors.front().index));
}

bool more_to_come(Bytes reply) {
  const auto view = wire::OpMsgView::parse(reply);
  return view && view->has(wire::flag::kMoreToCome);
}

void drive(Bytes input, rewrite::Namespaces& namespaces, rewrite::Context context,
           rewrite::Workspace& workspace, test::FakeClock& clock, const test::Lending& lending) {
  std::uint8_t event = 0;
  auto content = piece(input, event);
  if (!content || content->size() < wire::kHeaderSize) return;
  context.x509 = event % 2 == 1 ? rewrite::X509::refused : rewrite::X509::allowed;
  const Buffer request = framed(*content, 0);
  rewrite::Exchange exchange;
  std::size_t asked = 0;
  Action action =
      ask(test::begin(exchange, request.view(), nullptr, namespaces, context, workspace), exchange,
          context, workspace, asked);
  const auto* send = std::get_if<action::Send>(&action);
  if (send == nullptr || !exchange.awaits_reply()) return;
  if (exchange.is_hello() || exchange.is_status() || exchange.is_next()) return;
  if (exchange.facts().command_kind != rewrite::WriteKind::insert)
    return;  // fuzz_upsert drives those
  const std::int32_t id = wire::read_header(request.view()).request_id;
  const Sent whole = read(request.view());
  if (!whole.well_formed) return;  // every server refuses it
  const std::size_t most = whole.documents.size() * kAttempts + 1;
  Watch watch(whole);
  Values values;
  std::set<std::int32_t> ids;
  Buffer reply;
  for (std::size_t steps = 0;; ++steps) {
    require(steps <= most);
    if (send != nullptr) {
      Buffer out;
      send->message->copy(send->original, 0, out);
      exchange.taken(workspace);
      require(wire::read_header(out.view()).request_id == exchange.request_id());
      // A client's request id may equal one of the proxy's; only one command is under way at a
      // time.
      require(steps == 0 || ids.insert(exchange.request_id()).second);
      watch.sent(read(out.view()));
      values.sent(out.view());
    }
    content = piece(input, event);
    if (!content || content->size() < wire::kHeaderSize) return;  // the server has disconnected
    clock.advance(std::chrono::milliseconds(event));
    reply = framed(*content, exchange.request_id());
    values.answered(reply.view());
    action =
        ask(exchange.reply(reply.view(), context, workspace), exchange, context, workspace, asked);
    values.check(lending.back);
    require(std::holds_alternative<action::Close>(action) || !more_to_come(reply.view()));
    if (const auto* wait = std::get_if<action::Wait>(&action)) {
      require(wait->delay.count() > 0);
      watch.answered(reply.view());
      clock.advance(wait->delay);
      action = exchange.resume(context, workspace);
    } else if (std::holds_alternative<action::Send>(action)) {
      watch.answered(reply.view());
    }
    send = std::get_if<action::Send>(&action);
    if (send == nullptr) break;
  }
  if (const auto* ours = std::get_if<action::Reply>(&action)) {
    check_reply(ours->message, id, whole);
  }
  // Only a reply to the client's own message may be relayed unchanged.
  if (std::holds_alternative<action::Relay>(action)) {
    require(wire::read_header(reply.view()).response_to == id);
  }
  static_cast<void>(exchange.facts().given_up);
  workspace.reply.clear();
  exchange.release(workspace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto lending = std::make_shared<test::Lending>();
  lending->at_hand = 7;
  const auto set = rules(lending);
  test::FakeClock clock;
  test::SeededRandom random;
  rewrite::Namespaces namespaces(set);
  rewrite::Workspace workspace;
  drive({data, size}, namespaces, {clock, random}, workspace, clock, *lending);
  return 0;
}
