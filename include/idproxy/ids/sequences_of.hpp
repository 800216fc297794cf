#pragma once

#include "idproxy/ids/sequence_choice.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::ids {

/// The sequences of a rule, from its own object. Of one whose strategy has none, options with which
/// any() is false.
[[nodiscard]] const SequenceOptions& sequences_of(Strategy& rule);

}  // namespace idproxy::ids
