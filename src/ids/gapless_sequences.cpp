#include "ids/gapless_sequences.hpp"

#include <optional>
#include <utility>

#include "ids/bound_gapless.hpp"

namespace idproxy::ids {

std::shared_ptr<Strategy> GaplessSequences::get(const GaplessSpec& spec, const NumberFormat& format,
                                                Store& store) {
  std::optional<std::shared_ptr<Strategy>> gone;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  return sequences_.get(
      spec.name(), [&] { return std::make_shared<BoundGapless>(store.sequence(spec), format); },
      gone);
}

SequencedGapless::SequencedGapless(GaplessSpec spec, std::shared_ptr<const SequenceChoice> choice,
                                   std::shared_ptr<GaplessSequences> sequences, const Clock& clock,
                                   Store& store)
    : SequencedRule(std::move(choice), clock),
      spec_(std::move(spec)),
      sequences_(std::move(sequences)),
      store_(store) {}

Draw SequencedGapless::next(std::size_t /*n*/, Values& /*out*/) {
  return Error{Errc::exhausted, "its numbers are for documents that are being stored"};
}

std::shared_ptr<Strategy> SequencedGapless::sequence_at(std::span<const FieldValue> values,
                                                        std::chrono::nanoseconds wall) {
  auto chosen = choice().choose(spec_.key(), spec_.field.format, values, wall);
  GaplessSpec spec = spec_;
  spec.place = std::move(chosen.key);
  spec.field.scope = std::move(chosen.scope);
  spec.field.format = std::move(chosen.stored);
  return sequences_->get(spec, chosen.format, store_);
}

}  // namespace idproxy::ids
