#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "idproxy/ids/strategy.hpp"
#include "idproxy/rewrite/rule.hpp"

namespace idproxy::rewrite {

/// A duplicate of ours that stays one. Valid as long as its exchange.
struct GivenUp {
  std::string ns;  ///< "db.collection"
  const Rule* rule;
  std::uint32_t attempts;  ///< that its documents had, at most
};

/// What an exchange needs of the id store.
struct Need {
  ids::Strategy* strategy;
  std::size_t count;
  std::chrono::nanoseconds patience;  ///< then Errc::unavailable is the answer
};

/// What net does next.
enum class Action {
  relay,  ///< the message at hand, request or reply, goes on as it came
  send,   ///< Exchange::message() goes upstream
  wait,   ///< for Exchange::delay(); then resume()
  ask,    ///< the id store, for Exchange::need(); then answered()
  learn,  ///< Topology hears Exchange::said(); then learned()
  reply,  ///< Workspace::reply goes downstream; in answer to the request, once everything that the
          ///< client sent before has been answered
  close,  ///< both connections end: what the server said cannot be
};

}  // namespace idproxy::rewrite
