#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/ids/strategies.hpp"
#include "support/block_caches.hpp"
#include "support/fake_parameters.hpp"
#include "support/hex.hpp"

namespace idproxy::test {

/// The strategy of a rule with these keys; null if the rule is faulty or the name unknown.
inline std::unique_ptr<ids::RuleSource> make_strategy(std::string_view name,
                                                      FakeParameters& parameters,
                                                      ids::Sources sources) {
  for (const ids::Kind& kind : ids::kinds()) {
    if (kind.name == name) return kind.make(parameters, sources, "idproxy");
  }
  return nullptr;
}
inline std::unique_ptr<ids::RuleSource> make_strategy(std::string_view name,
                                                      const FakeParameters::Table& table,
                                                      ids::Sources sources) {
  FakeParameters parameters(table);
  return make_strategy(name, parameters, sources);
}
/// The source of a strategy that needs no store.
inline std::shared_ptr<ids::Source> make_source(std::string_view name,
                                                const FakeParameters::Table& table,
                                                ids::Sources sources) {
  const auto rule = make_strategy(name, table, sources);
  return rule ? rule->bind({}, nullptr).source : nullptr;
}

/// Appends the next `n` values to `out`: those at hand, or those that the store's `work` brings.
template <class Work>
void draw(ids::Source& source, std::size_t n, ids::Values& out, const Work& work) {
  if (!source.next(n, out).needs_store()) return;
  const auto answer = std::make_shared<Answer>();
  const ids::Ticket ticket = source.ask(n, std::make_unique<NotedWaiter>(answer));
  work();
  if (answer->grant && *answer->grant) source.accept(std::move(**answer->grant), out);
}

/// The next values, as lower-case hex of their BSON bytes.
inline std::vector<std::string> next_hex(ids::Source& strategy, std::size_t n) {
  ids::Values values;
  std::vector<std::string> hex;
  if (!strategy.next(n, values)) return hex;
  for (std::size_t i = 0; i < values.size(); ++i) hex.push_back(to_hex(values[i]));
  return hex;
}

/// A value in a form that is fast to sort: its last 16 bytes, which contain a whole ObjectId, UUID
/// or number, in the same order.
__extension__ using Id = unsigned __int128;

inline Id id_of(Bytes value) {
  Id id = 0;
  for (const std::uint8_t byte : value.last(std::min(value.size(), sizeof(Id)))) {
    id = id << 8 | byte;
  }
  return id;
}

/// Adds the next `n` values to `ids`; false on an error.
inline bool collect(ids::Source& strategy, std::size_t n, std::vector<Id>& ids) {
  ids::Values values;
  if (!strategy.next(n, values) || values.size() != n) return false;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(id_of(values[i]));
  return true;
}

inline bool all_distinct(std::vector<Id> ids) {
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) == ids.end();
}

}  // namespace idproxy::test
