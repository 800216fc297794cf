#pragma once

#include <boost/system/result.hpp>
#include <string>

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

}  // namespace idproxy::ids
