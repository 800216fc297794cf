#pragma once

#include <boost/system/result.hpp>
#include <string>

#include "idproxy/base/random.hpp"

namespace idproxy::app {

/// Resolves `srv_uri`, a mongodb+srv string, by the DNS to a mongodb:// string, or returns an
/// error.
[[nodiscard]] boost::system::result<std::string, std::string> find_seed_list(
    const std::string& srv_uri);

/// Resolves `srv_uri`, a mongodb+srv string, by the DNS to a mongodb:// string. Retries until it
/// succeeds, and logs failures.
[[nodiscard]] std::string await_seed_list(const std::string& srv_uri, RandomSource& random);

}  // namespace idproxy::app
