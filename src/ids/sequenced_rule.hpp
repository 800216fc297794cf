#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/ids/sequence_choice.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::ids {

/// A rule with several sequences, bound to a collection: `choice` says which one a document's value
/// comes from.
class SequencedRule : public Strategy, public Sequences {
 public:
  /// `clock` must outlive it.
  SequencedRule(std::shared_ptr<const SequenceChoice> choice, const Clock& clock)
      : choice_(std::move(choice)), clock_(clock) {}

  Sequences* sequences() final { return this; }

  [[nodiscard]] const std::vector<std::string>& fields() const final { return choice_->fields(); }
  [[nodiscard]] std::string refusal(std::span<const FieldValue> values) const final {
    return choice_->refusal(values);
  }
  [[nodiscard]] std::shared_ptr<Strategy> sequence(std::span<const FieldValue> values) final {
    return sequence_at(values, clock_.wall());
  }

 protected:
  [[nodiscard]] const SequenceChoice& choice() const { return *choice_; }

 private:
  const std::shared_ptr<const SequenceChoice> choice_;
  const Clock& clock_;
};

}  // namespace idproxy::ids
