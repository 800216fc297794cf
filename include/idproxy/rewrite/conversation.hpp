#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "idproxy/base/spares.hpp"
#include "idproxy/rewrite/action.hpp"
#include "idproxy/rewrite/context.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "idproxy/rewrite/request.hpp"

namespace idproxy::rewrite {

/// What the log and the counters want to know of an exchange. Set by its first event, or by the
/// last one before a write is sent. Valid as long as the exchange.
struct ExchangeFacts {
  WriteKind command_kind = WriteKind::insert;
  std::size_t documents = 0;    ///< of an insert
  std::size_t assigned = 0;     ///< values that the write gets
  std::size_t values_sent = 0;  ///< so far
  std::size_t refused = 0;      ///< documents that the server does not get
  /// When the write arrived, or the last reply with errors to it, by Clock::monotonic().
  std::chrono::nanoseconds since{};
  /// An `_id` rule for which all documents already had an ObjectId made by their driver.
  const Assignment* driver_made = nullptr;
  /// A rule that left a zero in its field: null, 0, "" and the like.
  const Assignment* leaves_zero = nullptr;
  std::vector<Forwarded> forwarded;   ///< writes that were sent without a value of a rule
  std::vector<TakenAway> taken_away;  ///< updates that take values of a rule away
  /// After Send: the server may hold its reply back until a transaction of another client has
  /// ended.
  bool may_wait = false;
  std::optional<GivenUp> given_up;  ///< after the last event: a duplicate that was not cured
  /// The first rule of an insert of which the server has left out documents without a word.
  const Assignment* lost_writes = nullptr;
  /// The collection into which the client may not write, as the server says.
  const Assignment* not_permitted = nullptr;
  std::size_t handed_out = 0;  ///< values in the answer to {idproxy: "next"}

  /// True if the operator should know how the request was understood.
  [[nodiscard]] bool was_odd() const {
    return driver_made != nullptr || leaves_zero != nullptr || !forwarded.empty() ||
           !taken_away.empty();
  }
  /// The same of how it ended.
  [[nodiscard]] bool ended_badly() const {
    return given_up || lost_writes != nullptr || not_permitted != nullptr;
  }
};

/// The part of an Exchange that depends on the kind of request, from its first message to its last
/// reply. The events are those of Exchange.
class Conversation {
 public:
  /// A request as it was received. `owner`: the buffer that holds exactly `message`, or null; the
  /// conversation may move from it.
  struct Received {
    Bytes message;
    Buffer* owner;
    const Context& context;
    Workspace& workspace;
  };
  explicit Conversation(Bytes request);
  virtual ~Conversation() = default;
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  /// Event: the request.
  virtual Action begin(const Received& received) = 0;
  virtual Action reply(Bytes message, const Context& context, Workspace& workspace) = 0;
  /// The events after AskStore, Wait and Learn: a conversation that returns such an action has a
  /// handler.
  virtual Action answered(ids::Result<ids::Grant> /*grant*/, const Context& /*context*/,
                          Workspace& /*workspace*/) {
    return action::Close{};
  }
  virtual Action resume(const Context& /*context*/, Workspace& /*workspace*/) {
    return action::Close{};
  }
  virtual Action learned(const Context& /*context*/, Workspace& /*workspace*/) {
    return action::Close{};
  }
  /// Event: see Exchange::taken().
  void taken(Workspace& workspace);
  /// Must be the last call: see Exchange::release().
  virtual Buffer release(Workspace& workspace);

  [[nodiscard]] Bytes original() const { return original_.view(); }
  [[nodiscard]] std::int32_t request_id() const { return request_id_; }
  [[nodiscard]] bool awaits_reply() const { return awaits_reply_; }
  [[nodiscard]] bool asks_server() const { return asks_server_; }
  [[nodiscard]] bool acknowledged() const { return acknowledged_; }
  [[nodiscard]] bool streams() const { return streams_; }
  [[nodiscard]] const ExchangeFacts& facts() const { return facts_; }

 protected:
  /// Counts a command that stores documents without values, for each rule.
  void note_past(const CatalogRequest::Past& past);
  /// Keeps the client's message as long as the exchange, to send from and to send again.
  void keep_original(Bytes message, Buffer* owner, Workspace& workspace);
  /// Has memory for a message to send. Not before there is one to write: a write may wait long for
  /// its values.
  void refill(Workspace& workspace);
  /// Answers the command `request` with an error instead of sending it. There is no answer to an
  /// unacknowledged one.
  [[nodiscard]] Action fail_request(Bytes request, CommandError error, Workspace& workspace) const;
  /// The same with the labels of `error`.
  [[nodiscard]] Action fail_with(Bytes request, const CommandError& error,
                                 Workspace& workspace) const;
  /// The reply to a command in an OP_MSG; nothing if the server must not answer like that.
  [[nodiscard]] static std::optional<wire::OpMsgView> single_reply(Bytes message);

  std::int32_t request_id_;
  bool acknowledged_;  // the client waits for an answer
  bool awaits_reply_ = false;
  bool asks_server_ = false;
  bool streams_ = false;
  wire::PatchedMessage message_;  // what is sent, until it is taken
  Buffer original_;
  ExchangeFacts facts_;

 private:
  Conversation(const wire::MsgHeader& header, Bytes request);
};

/// The conversations about `message`, each with what classify() has found in it. `server` and
/// `memory`: as for Exchange. `rights`: null: the server is asked each time.
[[nodiscard]] std::unique_ptr<Conversation> hello_exchange(HelloRequest&& hello, Bytes message,
                                                           ServerId server,
                                                           ConnectionMemory* memory);
[[nodiscard]] std::unique_ptr<Conversation> login_exchange(const LoginRequest& login, Bytes message,
                                                           ConnectionMemory* memory);
[[nodiscard]] std::unique_ptr<Conversation> status_exchange(const StatusRequest& status,
                                                            Bytes message, ServerId server);
[[nodiscard]] std::unique_ptr<Conversation> next_exchange(NextRequest&& next, Bytes message,
                                                          Rights* rights);
[[nodiscard]] std::unique_ptr<Conversation> assign_exchange(AssignRequest&& assign, Bytes message,
                                                            ConnectionMemory* memory);
[[nodiscard]] std::unique_ptr<Conversation> catalog_exchange(CatalogRequest&& request,
                                                             Bytes message, Rights* rights);
[[nodiscard]] std::unique_ptr<Conversation> end_of_transaction_exchange(
    EndOfTransaction&& ending, Bytes message, const ConnectionMemory* memory);

/// A coroutine that tells a conversation from its first action to its last:
///
///   Steps Example::ask() {
///     co_await action::Send{…};   // the caller carries it out; then goes on after the reply
///     co_return action::Relay{};  // the last action
///   }
///
/// An awaited action that ends the exchange (Relay, Reply, Close) is the last one, too: the
/// coroutine does not go on after it. Not thread-safe.
class Steps {
 public:
  class promise_type;

  Steps() = default;
  Steps(Steps&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Steps& operator=(Steps&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Steps() {
    if (handle_) handle_.destroy();
  }

  /// True if the coroutine waits for what follows an action of this type.
  template <class Type>
  [[nodiscard]] bool awaits() const;
  /// Goes on to the next action, which is valid until the next call. Throws what the coroutine
  /// throws. Only before the first action and while it awaits what follows one.
  const Action& next();

 private:
  explicit Steps(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

class Steps::promise_type {
 public:
  /// Writes come and go all the time: their coroutines share the blocks of their thread.
  template <class Story, class... Arguments>
    requires requires(Story& story) { story.frames(); }
  static void* operator new(std::size_t size, Story& story, const Arguments&... /*of it*/) {
    return allocate(size, &story.frames());
  }
  static void* operator new(std::size_t size) { return allocate(size, nullptr); }
  static void operator delete(void* frame) {
    Head* const head = static_cast<Head*>(frame) - 1;
    head->pool == nullptr ? ::operator delete(head) : head->pool->give_back(head);
  }

  Steps get_return_object() {
    return Steps(std::coroutine_handle<promise_type>::from_promise(*this));
  }
  static std::suspend_always initial_suspend() noexcept { return {}; }
  static std::suspend_always final_suspend() noexcept { return {}; }
  std::suspend_always await_transform(const Action& next) {
    last_ = next;
    return {};
  }
  void return_value(const Action& next) { last_ = next; }
  [[noreturn]] static void unhandled_exception() { throw; }
  [[nodiscard]] const Action& last() const { return last_; }

 private:
  /// Before the coroutine's frame.
  struct alignas(std::max_align_t) Head {
    BlockPool* pool;
  };
  static void* allocate(std::size_t size, BlockPool* pool) {
    const std::size_t whole = sizeof(Head) + size;
    void* const block = pool == nullptr ? ::operator new(whole) : pool->take(whole);
    return new (block) Head{pool} + 1;
  }

  Action last_;
};

template <class Type>
bool Steps::awaits() const {
  return handle_ && !handle_.done() && std::holds_alternative<Type>(handle_.promise().last());
}

inline const Action& Steps::next() {
  handle_.resume();
  return handle_.promise().last();
}

}  // namespace idproxy::rewrite
