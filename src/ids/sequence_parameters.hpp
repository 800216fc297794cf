#pragma once

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/counter_use.hpp"

namespace idproxy::ids {

/// Reads and checks `template`, `reset`, `timezone`, `check`, `scope`, `on_missing_scope` and
/// `max_scopes`. `format`: the rule's output and `format`, to which the check digits are added; a
/// template that has no other tokens becomes the format. Does not check the names of fields.
[[nodiscard]] SequenceOptions read_sequences(Parameters& rule, NumberFormat& format);

/// Refuses `heal: {mode: gap}` where what the texts of a sequence have in common does not suffice
/// to look for free numbers.
void check_gap(Parameters& rule, const SequenceOptions& options);

/// Reads `on_width`: with `error`, lowers the counter's max to what the template's width holds.
/// `use`: as read so far.
void read_width(Parameters& rule, const CounterUse& use, CounterSpec& spec);

}  // namespace idproxy::ids
