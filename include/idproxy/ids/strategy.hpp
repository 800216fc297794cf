#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <string>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::ids {

enum class Errc {
  exhausted = 1,  ///< the strategy has no value left that this request may get
};

struct Error {
  Errc code;
  std::string reason;  ///< for the client and the log; never holds a document's value
};

template <class T>
using Result = boost::system::result<T, Error>;

/// What strategies draw from. Both outlive every strategy.
struct Sources {
  const Clock& clock;
  RandomSource& random;
};

/// Makes the values of one rule. No I/O, no clock of its own. Thread-safe: all io threads share one
/// object, and take its lock, if it has one, once per call, that is once per insert command.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Appends `n` values to `out`. They are pairwise distinct and differ from all that stand in
  /// `out` already, which are those that this request has been given before. On an error `out` may
  /// hold some of them; none of them may be used.
  [[nodiscard]] virtual Result<void> next(std::size_t n, Values& out) = 0;
};

}  // namespace idproxy::ids
