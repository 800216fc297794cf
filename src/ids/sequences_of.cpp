#include "idproxy/ids/sequences_of.hpp"

#include "idproxy/ids/counter_use.hpp"

namespace idproxy::ids {

const SequenceOptions& sequences_of(Strategy& rule) {
  static const SequenceOptions kOne;
  if (const CounterRule* counter = rule.counter_rule()) return counter->use().sequences;
  if (const SequenceRule* gapless = rule.sequence_rule()) return gapless->options();
  return kOne;
}

}  // namespace idproxy::ids
