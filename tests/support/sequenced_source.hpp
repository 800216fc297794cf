#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/ids/rule_source.hpp"
#include "support/fake_clock.hpp"
#include "support/lending_source.hpp"

namespace idproxy::test {

/// What each sequence of a SequencedRule has lent, by the text of the document's field.
using Lendings = std::map<std::string, std::shared_ptr<Lending>>;

/// A sequence for each text of a field. Without a field, there is one sequence, "". Not
/// thread-safe.
class SequencedRule final : public ids::RuleSource {
 public:
  SequencedRule(std::vector<std::string> fields, std::shared_ptr<Lendings> lendings)
      : RuleSource({.sequences = {.scope = std::move(fields)}}), lendings_(std::move(lendings)) {}

  Bound bind(std::string_view /*ns*/, ids::Store* /*store*/) override {
    const auto open = [this](const ids::Sequences::Chosen& chosen, ids::Opening opening) {
      return sequence(chosen.scope, opening);
    };
    return {.sequences = std::make_shared<ids::Sequences>(about().sequences, "",
                                                          ids::NumberFormat(), clock_, open)};
  }

 private:
  std::shared_ptr<ids::Source> sequence(const std::string& scope, ids::Opening opening) {
    const auto field = bson::Elements(as_bytes(scope)).next();
    const std::string text(field ? field->text() : "");
    if (opening == ids::Opening::only_used && !sequences_.contains(text)) return nullptr;
    auto& sequence = sequences_[text];
    if (!sequence) sequence = std::make_shared<LendingSource>(lendings_->at(text));
    return sequence;
  }

  const FakeClock clock_;
  const std::shared_ptr<Lendings> lendings_;
  std::map<std::string, std::shared_ptr<LendingSource>> sequences_;
};

}  // namespace idproxy::test
