#pragma once

#include <cstdint>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/sequences.hpp"

/// Read and check the keys that rules with numbers have in common (docs/configuration.md).
namespace idproxy::ids {

/// Reads `output`, `encoding` and `format`.
[[nodiscard]] NumberFormat read_format(Parameters& rule);
/// Reads `output` (int64, string; with `alphabet` string) and `format`, without a width, for
/// numbers with a permutation.
[[nodiscard]] NumberFormat read_hidden_format(Parameters& rule);
/// The same for a strategy without int32 and without `template`.
[[nodiscard]] NumberFormat read_plain_format(Parameters& rule);

/// Reads `block`: auto, a size, or {size: …}.
[[nodiscard]] CounterSpec::Block read_block(Parameters& rule);
[[nodiscard]] CounterSpec::Heal read_heal(Parameters& heal);
/// The same for numbers with a permutation, which are not stored in their order.
[[nodiscard]] CounterSpec::Heal read_hidden_heal(Parameters& heal);
[[nodiscard]] CounterSpec::OnStoreDown read_on_store_down(Parameters& on_store_down);

/// Reads and checks `template`, `reset`, `timezone`, `check`, `scope`, `on_missing_scope` and
/// `max_scopes`. `format`: the rule's output and `format`, to which the check digits are added; a
/// template that has no other tokens becomes the format. Does not check the names of fields.
[[nodiscard]] SequenceOptions read_sequences(Parameters& rule, NumberFormat& format);

/// Refuses `mode: gap` where what the texts of a sequence have in common does not suffice
/// to look for free numbers.
void check_gap(Parameters& rule, const SequenceOptions& options, const CounterSpec::Heal& heal);

/// The numbers of a rule, from first to last.
struct Course {
  std::int64_t start;
  std::int64_t step;
  std::int64_t max;
};
/// Reads `on_width`. Returns `max`; with on_width: error, at most what the template's width holds.
/// `format` and `options`: as read so far.
[[nodiscard]] std::int64_t read_width(Parameters& rule, const NumberFormat& format,
                                      const SequenceOptions& options, const Course& course);

}  // namespace idproxy::ids
