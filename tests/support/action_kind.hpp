#pragma once

#include "idproxy/rewrite/action.hpp"

namespace idproxy::test {

/// The alternatives of rewrite::Action, in the same order.
enum class ActionKind { relay, send, ask_server, wait, ask_store, learn, reply, close };

inline ActionKind kind_of(const rewrite::Action& action) {
  return static_cast<ActionKind>(action.index());
}

}  // namespace idproxy::test
