#pragma once

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/sequence_choice.hpp"

namespace idproxy::ids {

/// A rule's counter, and the field that the rule fills from it.
struct CounterUse {
  CounterSpec spec;
  CounterField field;
  /// True: each collection has a counter of its own, whose key is "<db>.<collection>.<field>"; in
  /// the spec's key and the field's ns, "<db>.<collection>" is then the rule's glob. False: the
  /// spec names one counter for all collections.
  bool per_namespace = false;
  /// If any(), there are several counters: the spec's key is the name of all.
  SequenceOptions sequences{};
};

}  // namespace idproxy::ids
