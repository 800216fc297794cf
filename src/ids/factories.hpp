#pragma once

#include <memory>

#include "idproxy/ids/parameters.hpp"
#include "idproxy/ids/strategy.hpp"

/// What the registry lists, one per strategy file. Each returns null after a fault.
namespace idproxy::ids {

/// Keys: output (objectid, string).
std::unique_ptr<Strategy> make_objectid(Parameters& parameters, Sources sources);
/// Keys: version (7, 1, 4), representation (standard, java-legacy, csharp-legacy, python-legacy,
/// string), monotonic (process, none; it concerns version 7).
std::unique_ptr<Strategy> make_uuid(Parameters& parameters, Sources sources);
/// Keys: output (int64, int32, string), digits, leading_zeros, warn_fill, max_fill.
std::unique_ptr<Strategy> make_random_digits(Parameters& parameters, Sources sources);

}  // namespace idproxy::ids
