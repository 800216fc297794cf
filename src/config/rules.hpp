#pragma once

#include <string>
#include <vector>

#include "config/reader.hpp"
#include "idproxy/ids/strategy.hpp"
#include "idproxy/rewrite/rule.hpp"

namespace idproxy::config {

/// Reads `rules` of the file: each rule by itself, then what two of them do to one another.
/// `store_db` is the database that no rule touches.
[[nodiscard]] std::vector<rewrite::Rule> read_rules(Reader& file, const std::string& store_db,
                                                    ids::Sources sources);

}  // namespace idproxy::config
