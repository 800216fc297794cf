#include "id_store/sequence_document.hpp"

#include <algorithm>
#include <utility>

#include "id_store/number_texts.hpp"
#include "id_store/reply_reasons.hpp"

namespace idproxy::id_store {
namespace {

using ids::GaplessReply;
using mongo::Array;
using mongo::Document;
using mongo::Reply;
using Number = std::optional<std::int64_t>;

ids::CounterSpec counter_of(const ids::GaplessSpec& spec) {
  ids::CounterSpec counter;
  counter.place.db = counter.place.store_db = spec.store_db;
  counter.max = spec.max;
  return counter;
}

/// As a field whose texts vary: numbers of any width.
ids::CounterField wide_field(ids::CounterField field) {
  ids::NumberFormat& format = field.format;
  if (format.output != ids::NumberFormat::Output::string || !format.pattern.empty()) return field;
  format.pattern = pattern_of_all(format);
  return field;
}

/// The _id of the document that has the floor.
Document floor_id(const ids::GaplessSpec& spec) {
  if (spec.place.empty()) return {"_id", spec.key()};
  return {"_id", Document(as_bytes(spec.place))};
}

ids::Result<Number> floor_of(mongo::Client& client, const ids::GaplessSpec& spec) {
  const Reply reply = client.read_first(
      spec.store_db, {{"find", kFloors}, {"filter", floor_id(spec)}, {"limit", 1}});
  if (!reply.ok()) return after_error(client, reply, spec.store_db);
  return bson::find_integer(reply.document.bytes(), "floor");
}

GaplessReply keep(mongo::Client& client, const ids::GaplessSpec& spec, std::int64_t floor) {
  const Document update{{"q", floor_id(spec)}, {"u", {"$max", {"floor", floor}}}, {"upsert", true}};
  const Reply reply =
      client.write(spec.store_db, {{"update", kFloors}, {"updates", Array{update}}});
  if (reply.ok()) return floor;
  return after_error(client, reply, spec.store_db);
}

}  // namespace

SequenceDocument::SequenceDocument(ids::GaplessSpec spec)
    : spec_(std::move(spec)),
      counter_(counter_of(spec_)),
      fields_{spec_.field},
      wide_{wide_field(spec_.field)} {}

GaplessReply SequenceDocument::run(mongo::Client& client, const ids::GaplessJob& job) {
  const bool keeps = job.kind == ids::GaplessJob::Kind::keep;
  GaplessReply reply = keeps ? keep(client, spec_, job.floor) : read(client, job.how);
  if (!keeps || !reply) is_refused_ = !reply && reply.error().by_server;
  return reply;
}

GaplessReply SequenceDocument::read(mongo::Client& client, ids::GaplessRead how) {
  constexpr int kMostReads = 3;  // each finds the index that is there then
  auto most = most_stored(client, how);
  for (int i = 1; i < kMostReads && index_has_gone_; ++i) {
    places_.reset();
    most = most_stored(client, how);
  }
  if (!most) {
    places_.reset();
    return most.error();
  }
  // A quick reading follows a sure one, which has read the floor.
  if (spec_.floor && how == ids::GaplessRead::sure) {
    const auto kept = floor_of(client, spec_);
    if (!kept) return kept.error();
    if (*kept) *most = std::max(most->value_or(**kept), **kept);
  }
  return most;
}

ids::Result<Number> SequenceDocument::most_stored(mongo::Client& client, ids::GaplessRead how) {
  index_has_gone_ = false;
  FieldNumbers stored(client, counter_, fields_);
  if (spec_.start >= 0) stored.expect_no_negatives();
  if (how == ids::GaplessRead::sure) {
    stored.read_linearizable();
  } else if (places_) {
    stored.use(*places_);
  }
  const auto without_index = stored.places_to_scan();
  if (!without_index) return without_index.error();
  ids::Error unguarded{ids::Errc::unguarded,
                       "no unique index guards " + spec_.field.field + " in " + spec_.field.ns};
  if (!without_index->empty()) return unguarded;
  auto reading = stored.read_furthest(1);
  index_has_gone_ = stored.index_has_gone();
  if (!reading) return reading.error();
  if (!reading->is_guarded) return unguarded;
  places_ = stored.places();
  if (!reading->is_known) {
    // Some texts have more digits than the format has, and sort before shorter ones.
    FieldNumbers all(client, counter_, wide_);
    if (how == ids::GaplessRead::sure) all.read_linearizable();
    reading = all.read_furthest(1);
    if (!reading) return reading.error();
  }
  return reading->most();
}

}  // namespace idproxy::id_store
