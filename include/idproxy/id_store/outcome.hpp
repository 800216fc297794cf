#pragma once

#include <boost/system/result.hpp>
#include <memory>
#include <string>
#include <utility>

#include "idproxy/ids/block_cache.hpp"

namespace idproxy::id_store {

inline constexpr const char* kNoAnswer = "the id store does not answer";  ///< in reasons

/// Why rules do not apply to a namespace, in reasons.
[[nodiscard]] inline std::string is_a_view(const std::string& ns) {
  return ns + " is a view: no rule applies to it";
}

/// The result of a step of a job: a value for the next step, or the reply that ends the job.
template <class T>
using Outcome = boost::system::result<T, ids::CounterReply>;

[[nodiscard]] inline ids::CounterReply exhausted(std::string reason) {
  return {ids::CounterReply::Kind::exhausted, {}, std::move(reason)};
}
[[nodiscard]] inline ids::CounterReply exhausted(Reason advice) {
  ids::CounterReply reply = exhausted(advice.whole());
  reply.advice = std::make_shared<const Reason>(std::move(advice));
  return reply;
}
[[nodiscard]] inline ids::CounterReply failed(std::string reason) {
  return {ids::CounterReply::Kind::failed, {}, std::move(reason)};
}

}  // namespace idproxy::id_store
