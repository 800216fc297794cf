#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/rewrite/rule.hpp"

/// Values that a rule would give, for people, without using any up. `numbers`: as from
/// id_store::Watch::numbers().
namespace idproxy::app::jobs {

/// A generated value as mongosh writes it: 1001, "INV-1001", ObjectId("…"), UUID("…"), and
/// BinData(3, "…") for the legacy forms of UUIDs. `value` is in the form of bson::Element::value.
[[nodiscard]] std::string value_text(bson::Type type, Bytes value);

/// The next number of a counter, as far as a check tells, or any value of another strategy:
/// "next number: 1001". Empty: not known.
[[nodiscard]] std::string sample_of(const rewrite::Rule& rule, std::size_t rule_index,
                                    const std::vector<ids::RuleNumbers>& numbers);

/// The first and the last of `count` values, at least one, in the collection `ns`: "1001 to 3000",
/// or why they are not known.
[[nodiscard]] std::string samples_of(const rewrite::Rule& rule, std::size_t rule_index,
                                     std::string_view ns,
                                     const std::vector<ids::RuleNumbers>& numbers,
                                     std::uint64_t count);

/// Appends the next `count` values in the collection `ns` of a rule that numbers documents, or as
/// many as are left; not of one whose documents decide. Returns why they are not known, or "".
[[nodiscard]] std::string append_next(const rewrite::Rule& rule, std::size_t rule_index,
                                      std::string_view ns,
                                      const std::vector<ids::RuleNumbers>& numbers,
                                      std::size_t count, ids::Values& out);

}  // namespace idproxy::app::jobs
