#pragma once

#include <boost/system/result.hpp>
#include <string>

namespace idproxy::ids {

enum class Errc {
  exhausted = 1,  ///< no value left that this request may get, now or soon (IdExhausted)
  unavailable,    ///< the store does not answer; it may, later (IdStoreUnavailable)
};

struct Error {
  Errc code{};
  std::string reason;  ///< for the client and the log; never holds a document's value
};

template <class T>
using Result = boost::system::result<T, Error>;

}  // namespace idproxy::ids
