#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "idproxy/base/typed_command.hpp"

namespace idproxy::ids {

enum class Errc {
  exhausted = 1,  ///< no values for this request, now or soon (IdExhausted)
  unavailable,    ///< the store does not answer now (IdStoreUnavailable)
  unguarded,      ///< as exhausted: the unique index that the rule demands is not there
};

/// The open transaction of a client that has used the next number of a sequence without gaps.
struct NumberHolder {
  std::uint64_t connection = 0;      ///< its id in the log
  std::string application{};         ///< as the client says; empty: it does not
  std::chrono::nanoseconds since{};  ///< its first number; monotonic
};

/// Why something gives no values now.
struct Error {
  Errc code{};
  std::string reason;  ///< for the client and the log; never contains a document's value
  /// The reason with its commands apart, if it has any; shared, since each that waits gets it.
  std::shared_ptr<const Reason> advice{};
  /// Null: no transaction is the reason.
  std::shared_ptr<const NumberHolder> holder{};
  /// It goes away by itself, soon: nobody has looked yet, or it is being prepared. Only of
  /// unavailable.
  bool is_transient = false;
  /// exhausted: the store's server does not support, or does not permit, a command that all rules
  /// of the same kind need.
  bool by_server = false;
  /// exhausted: the last number has been handed out, and nothing else is wrong.
  bool at_end = false;
};

template <class T>
using Result = boost::system::result<T, Error>;

}  // namespace idproxy::ids
