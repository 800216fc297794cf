#pragma once

#include <coroutine>
#include <utility>

#include "idproxy/rewrite/action.hpp"

namespace idproxy::rewrite {

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
