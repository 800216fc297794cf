#pragma once

#include <memory>
#include <string>
#include <utility>

#include "idproxy/ids/error.hpp"

namespace idproxy::id_store {

inline constexpr const char* kNoAnswer = "the id store does not answer";  ///< in reasons

/// Why rules do not apply to a namespace, in reasons.
[[nodiscard]] inline std::string is_a_view(const std::string& ns) {
  return ns + " is a view: no rule applies to it";
}

[[nodiscard]] inline ids::Error exhausted(std::string reason) {
  return {ids::Errc::exhausted, std::move(reason)};
}
[[nodiscard]] inline ids::Error exhausted(Reason advice) {
  return {ids::Errc::exhausted, advice.whole(), std::make_shared<const Reason>(std::move(advice))};
}
[[nodiscard]] inline ids::Error failed(std::string reason) {
  return {ids::Errc::unavailable, std::move(reason)};
}

}  // namespace idproxy::id_store
