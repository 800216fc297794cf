#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/lending_strategy.hpp"

namespace idproxy::test {

/// The sequences of a SequencedStrategy: what each has lent, by the text of the document's field.
using Lendings = std::map<std::string, std::shared_ptr<Lending>>;

/// A sequence for each text of a field; a document without a text there gets no value. Without a
/// field, there is one sequence, "". Not thread-safe.
class SequencedStrategy final : public ids::Strategy, public ids::Sequences {
 public:
  SequencedStrategy(std::vector<std::string> fields, std::shared_ptr<Lendings> lendings)
      : fields_(std::move(fields)), lendings_(std::move(lendings)) {}

  ids::Draw next(std::size_t /*n*/, ids::Values& /*out*/) override {
    return ids::Error{ids::Errc::exhausted, "has sequences"};
  }
  ids::Sequences* sequences() override { return this; }

  [[nodiscard]] const std::vector<std::string>& fields() const override { return fields_; }
  [[nodiscard]] std::string refusal(std::span<const ids::FieldValue> values) const override {
    for (const ids::FieldValue& value : values) {
      const bool there = value.is == ids::FieldValue::Is::there;
      if (!there || value.element.type != bson::Type::string) return "has no text";
    }
    return {};
  }
  std::shared_ptr<ids::Strategy> sequence(std::span<const ids::FieldValue> values) override {
    const std::string text(values.empty() ? "" : values.front().element.text());
    auto& sequence = sequences_[text];
    if (!sequence) sequence = std::make_shared<LendingStrategy>(lendings_->at(text));
    return sequence;
  }
  std::shared_ptr<ids::Strategy> sequence_at(std::span<const ids::FieldValue> values,
                                             std::chrono::nanoseconds /*wall*/) override {
    return sequence(values);
  }

 private:
  std::vector<std::string> fields_;
  std::shared_ptr<Lendings> lendings_;
  std::map<std::string, std::shared_ptr<LendingStrategy>> sequences_;
};

}  // namespace idproxy::test
