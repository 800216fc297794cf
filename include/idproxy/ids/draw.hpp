#pragma once

#include <utility>

#include "idproxy/ids/error.hpp"

namespace idproxy::ids {

/// What came of a draw: the values, a need of the store, or an error.
class [[nodiscard]] Draw {
 public:
  /// All values are there.
  Draw() = default;
  /// No value is to be had.
  Draw(Error error) : result_(std::move(error)) {}
  /// Values must come from the store: nothing has been drawn, and StoreBacked::ask() gets them.
  static Draw need() { return Draw(Result<What>(What::need)); }

  /// True if all values are there.
  explicit operator bool() const { return result_ && *result_ == What::values; }
  [[nodiscard]] bool needs_store() const { return result_ && *result_ == What::need; }
  /// Only of a draw that has neither values nor a need.
  [[nodiscard]] Error error() const { return result_.error(); }

 private:
  enum class What { values, need };
  explicit Draw(Result<What> result) : result_(std::move(result)) {}

  Result<What> result_ = What::values;
};

}  // namespace idproxy::ids
