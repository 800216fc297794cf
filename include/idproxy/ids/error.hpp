#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <utility>

namespace idproxy::ids {

enum class Errc {
  exhausted = 1,  ///< no values for this request, now or soon (IdExhausted)
  unavailable,    ///< the store does not answer now (IdStoreUnavailable)
  unguarded,      ///< as exhausted: the unique index that the rule demands is not there
};

struct Error {
  Errc code{};
  std::string reason;  ///< for the client and the log; never contains a document's value
};

template <class T>
using Result = boost::system::result<T, Error>;

/// The result of a draw: all values, a need to ask the store, or an error.
class [[nodiscard]] Draw {
 public:
  /// Success: all values were drawn.
  Draw() = default;
  /// There are no values.
  Draw(Error error) : result_(std::move(error)) {}
  /// Nothing was drawn: StoreSource::ask() must get the values from the store.
  static Draw need() { return Draw(Result<What>(What::need)); }

  /// True if all values were drawn.
  explicit operator bool() const { return result_ && *result_ == What::values; }
  [[nodiscard]] bool needs_store() const { return result_ && *result_ == What::need; }
  /// Only valid if the draw failed: it is false and needs_store() is false.
  [[nodiscard]] Error error() const { return result_.error(); }

 private:
  enum class What { values, need };
  explicit Draw(Result<What> result) : result_(std::move(result)) {}

  Result<What> result_ = What::values;
};

}  // namespace idproxy::ids
