#pragma once

#include "options.hpp"

namespace idproxy::bench {

/// Measures a mongo-idproxy beside another one, in turn, until it is known for each work whether it
/// costs more than 5 % more, or time is up. Counts instructions where the machine does, else CPU
/// time. Prints a line for each work; false if there is a loss. Throws std::exception if a reply or
/// a document is wrong.
bool compare(const Options& options);

}  // namespace idproxy::bench
