#include "id_store/counter_document.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "id_store/advice.hpp"
#include "id_store/counter_commands.hpp"
#include "id_store/reply_reasons.hpp"
#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/number_format.hpp"

namespace idproxy::id_store {
namespace {

using ids::CounterJob;
using ids::CounterReply;
using mongo::Array;
using mongo::Document;
using mongo::Reply;

// Other proxies may change the counter between two steps of a job, but not so often in a row unless
// something is wrong.
constexpr int kMostAttempts = 16;

bool has_no_negatives(std::span<const ids::CounterField> fields) {
  return has_hidden(fields) || std::ranges::any_of(fields, [](const ids::CounterField& field) {
           return field.format.alphabet.size() != 10;
         });
}

/// True if `first` fits; config has checked that max does, and so do all numbers between.
bool fits_into_fields(std::int64_t first, std::span<const ids::CounterField> fields) {
  using Int32 = std::numeric_limits<std::int32_t>;
  if (first < 0 && has_no_negatives(fields)) return false;
  return (first >= Int32::min() && first <= Int32::max()) ||
         std::none_of(fields.begin(), fields.end(), [](const ids::CounterField& field) {
           return field.format.output == ids::NumberFormat::Output::int32;
         });
}

ids::Error does_not_fit(const CounterRun& run) {
  return exhausted("the value of counter " + run.counter.events.counter() +
                   (has_no_negatives(run.fields) ? " lies below 0" : " does not fit into int32"));
}

ids::Result<bool> needs_scan(const CounterRun& run) {
  FieldNumbers stored(run.client, run.spec, run.fields);
  const auto scanned = stored.places_to_scan();
  if (!scanned) return scanned.error();
  if (scanned->empty()) return false;
  if (run.spec.scan.count() == 0) return stored.not_indexed(scanned->front(), kScanIsOff);
  if (!stored.may_scan(scanned->front())) return stored.not_indexed(scanned->front(), kNoTableScan);
  return true;
}

/// The numbers before may be stored as they are, and look like hidden ones. Not those below 0.
ids::Result<void> may_seal(const CounterRun& run, const StoredValue& value) {
  const auto next = value.is_number() ? run.numbers.first_at(value.number) : std::nullopt;
  if (!next || *next <= 0) return {};
  FieldNumbers stored(run.client, run.spec, run.fields);
  if (const auto scanned = stored.places_to_scan(); !scanned) return scanned.error();
  if (stored.are_guarded()) return {};
  return advice::no_hiding(run.client, run.fields, *next);
}

/// `reply` says BadValue, perhaps because $inc would overflow int64. The numbers up to int64's end
/// can still be given out.
Attempt allocate_what_fits(CounterRun& run, const Reply& reply) {
  const auto found = run.read();
  if (!found) return found.error();
  if (!found->has_value()) return run.answer_to(reply);
  if (!found->value.is_number()) return run.not_an_integer();
  const std::uint64_t fits = run.numbers.room_behind(found->value.number);
  if (fits == 0) return at_max(run.spec);
  if (fits >= run.count) return run.answer_to(reply);  // it was not an overflow
  run.count = fits;
  return std::nullopt;
}

Attempt use(CounterRun& run, Bytes pre_image) {
  const StoredValue value = stored_value(pre_image, run.spec.place.value_field);
  if (!value.is_number()) return run.not_an_integer();
  const auto first = run.numbers.first_at(value.number);
  const auto last = run.numbers.after(value.number, run.count);
  if (!first || !last) return at_max(run.spec);
  const bool is_double = value.kind == StoredValue::Kind::integral_double;
  if (is_double && Numbers::distance(*last, 0) > static_cast<std::uint64_t>(kMostInDouble)) {
    return run.not_an_integer();
  }
  run.counter.converts = is_double;
  return allocated(run, *first, run.count);
}

Attempt explain_no_match(CounterRun& run) {
  const auto found = run.read();
  if (!found) return found.error();
  if (found->lacks_seal) return seal(run, *found);
  if (!found->has_value()) return create(run, found->exists);
  if (!found->value.is_number()) return run.not_an_integer();
  const auto first = run.numbers.first_at(found->value.number);
  if (!first || run.numbers.is_beyond_max(*first)) return at_max(run.spec);
  if (run.counter.converts && !run.numbers.after(found->value.number, run.count)) {
    return allocate_what_fits(run, {});
  }
  return std::nullopt;  // another proxy has changed it meanwhile
}

Attempt use_in_range(CounterRun& run, Bytes pre_image, std::optional<std::int64_t> from) {
  const StoredValue value = stored_value(pre_image, run.spec.place.value_field);
  const StoredValue last = stored_value(pre_image, run.spec.place.max_field);
  if (!value.is_number() || !last.is_number()) return run.not_an_integer();
  const std::int64_t first = std::max(value.number, from.value_or(value.number));
  if (first > last.number) return at_max(run.spec);
  if (first > value.number) run.counter.events.healed(first, "max");
  return allocated(run, first, std::min(run.count, Numbers::distance(last.number, first) + 1));
}

// ---- give back

/// If it is unknown whether the counter was set back, this process must not use the numbers either.
CounterReply give_back(CounterRun& run) {
  const ids::Range& unused = run.job.unused;
  const auto end = run.numbers.after(unused.first, unused.count);
  const auto from = end ? run.numbers.value_before(*end) : std::nullopt;
  const auto to = run.numbers.value_before(unused.first);
  if (!from || !to) return CounterReply::Kind::overtaken;
  const Reply reply = run.change({"$eq", *from}, set_value(run.spec.place.value_field, *to));
  run.unreached = why_unreached(reply, run.client.login());
  const bool no_match = reply.ok() && !value_of(reply);
  if (reply.was_not_sent()) return CounterReply::Kind::not_sent;
  const bool is_overtaken = no_match || reply.kind == Reply::Kind::refused;
  return is_overtaken ? CounterReply::Kind::overtaken : CounterReply::Kind::given_back;
}

// ---- confirm

/// A write, since a primary that has been replaced without knowing it still answers reads. Adding 0
/// as an int32 leaves the value's type as it is.
CounterReply confirm(CounterRun& run) {
  const Reply reply = run.change({"$type", Array{"int", "long", "double"}},
                                 Document{"$inc", {run.spec.place.value_field, std::int32_t{0}}});
  CounterReply nothing(CounterReply::Kind::unknown);
  if (reply.kind == Reply::Kind::refused) return nothing;
  if (!reply.ok()) return run.answer_to(reply);
  const auto image = value_of(reply);
  if (!image) {
    const auto found = run.read();
    if (found && !found->exists) nothing.kind = CounterReply::Kind::gone;
    return nothing;
  }
  const StoredValue value = stored_value(*image, run.spec.place.value_field);
  const auto next = value.is_number() ? run.numbers.first_at(value.number) : std::nullopt;
  if (!next) return nothing;
  return {CounterReply::Kind::stands, {*next, 0}};
}

// ---- check

ids::Result<std::int64_t> check_existing(CounterRun& run, const StoredValue& value) {
  if (!value.is_number()) return run.not_an_integer();
  const auto first = run.numbers.first_at(value.number);
  if (!first || run.numbers.is_beyond_max(*first)) return at_max(run.spec);
  if (!fits_into_fields(*first, run.fields)) return does_not_fit(run);
  if (run.job.kind != CounterJob::Kind::heal) return *first;
  const auto target = heal_target(run, *first);
  if (!target && !run.not_healed) return target.error();
  return target ? target->first : *first;
}

/// An allocation that matches no document: changes nothing, but needs the privilege to write, a
/// primary with a majority, and a server that understands it.
Reply write_nothing(const CounterRun& run) {
  return run.change({run.bound(0), {"$in", Array()}},
                    Document{"$inc", {run.spec.place.value_field, std::int64_t{0}}});
}

ids::Result<CounterDocument::Checked> check_run(CounterRun& run, CounterDocument::Demand demand) {
  using Checked = CounterDocument::Checked;
  const Reply written = write_nothing(run);
  if (!written.ok()) return run.answer_to(written);
  const auto found = run.read();
  if (!found) return found.error();
  if (run.spec.place.is_family()) return Checked{};
  if (found->has_value()) {
    if (found->lacks_seal) {
      if (const auto may = may_seal(run, found->value); !may) return may.error();
    }
    const auto first = check_existing(run, found->value);
    if (!first) return first.error();
    return Checked{*first};
  }
  if (!run.counter.scans.enabled()) {
    const auto needed = needs_scan(run);
    if (!needed) return needed.error();
    if (*needed) return Checked{.reads_all = true};
  }
  const auto created = first_of_new(run, found->exists);
  if (!created) return created.error();
  if (demand == CounterDocument::Demand::none) return Checked{created->first, created->by_scan};
  if (Attempt failure = create_at(run, found->exists, *created)) return std::move(failure->why);
  return Checked{created->first};
}

CounterReply repeat(CounterRun& run, Attempt (*attempt)(CounterRun&)) {
  for (int i = 0; i < kMostAttempts; ++i) {
    if (Attempt done = attempt(run)) return *std::move(done);
  }
  return failed("counter " + run.counter.events.counter() + " is being changed all the time");
}

CounterReply carry_out(CounterRun& run) {
  switch (run.job.kind) {
    case CounterJob::Kind::give_back:
      return give_back(run);
    case CounterJob::Kind::confirm:
      return confirm(run);
    case CounterJob::Kind::heal:
      return repeat(run, heal);
    case CounterJob::Kind::allocate:
      break;
  }
  return repeat(run, allocate);
}

}  // namespace

// ---- allocate

Attempt allocate(CounterRun& run) {
  const auto increment = run.numbers.increment(run.count);
  if (!increment) return exhausted("the request is for more numbers than there are");
  if (run.counter.mark_first) {
    if (const auto marked = mark(run); !marked) return marked.error();
  }
  if (run.spec.place.is_range()) return allocate_in_range(run, {});
  const std::string& field = run.spec.place.value_field;
  const Reply reply =
      run.counter.converts
          ? run.change(run.bound(*increment), set_sum(field, to_long(field), *increment))
          : run.change(run.bound(0), Document{"$inc", {field, *increment}});
  if (reply.refused(ErrorCode::bad_value)) return allocate_what_fits(run, reply);
  if (!reply.ok()) return run.after_failure(reply, true);
  if (const auto pre_image = value_of(reply)) return use(run, *pre_image);
  return explain_no_match(run);
}

Attempt allocated(CounterRun& run, std::int64_t first, std::uint64_t count) {
  if (!fits_into_fields(first, run.fields)) return does_not_fit(run);
  if (const auto marked = mark(run); !marked) {
    run.drop_block(marked.error().reason);
    return marked.error();
  }
  run.counter.events.went_well(first, run.numbers.after(first, count - 1).value_or(first),
                               run.fields);
  return CounterReply(CounterReply::Kind::allocated, {first, count});
}

Attempt allocate_in_range(CounterRun& run, std::optional<std::int64_t> from) {
  const auto increment = run.numbers.increment(run.count);
  if (!increment) return exhausted("the request is for more numbers than there are");
  const Reply reply = run.client.write(
      run.spec.place.db,
      allocate_from_range(run.spec.place, run.query(run.bound(*increment)), *increment, from));
  if (!reply.ok()) return run.after_failure(reply, true);
  if (const auto pre_image = value_of(reply)) return use_in_range(run, *pre_image, from);
  const auto found = run.read();
  if (!found) return found.error();
  return explain_range(run, *found);
}

Attempt explain_range(CounterRun& run, const FoundCounter& found) {
  if (!found.exists) return exhausted("the document of a range is missing");
  const bool is_stuck =
      found.value.kind == StoredValue::Kind::integral_double && found.value.number >= kMostInDouble;
  if (!found.value.is_number() || !found.last.is_number() || is_stuck) return run.not_an_integer();
  if (found.value.number > std::min(found.last.number, run.numbers.max())) return at_max(run.spec);
  if (!run.numbers.after(found.value.number, run.count)) return allocate_what_fits(run, {});
  return std::nullopt;  // another program has changed it meanwhile
}

// ---- seals

Attempt seal(CounterRun& run, const FoundCounter& found) {
  if (const auto may = may_seal(run, found.value); !may) return may.error();
  const Reply reply = run.client.write(
      run.spec.place.db, {{"findAndModify", run.spec.place.collection},
                          {"query", {run.counter.identity, {"fpe", {"$exists", false}}}},
                          {"update", {"$set", seal_of(run.spec)}}});
  if (!reply.ok()) return run.after_failure(reply, false);
  return std::nullopt;
}

// ---- jobs

CounterReply CounterDocument::run(mongo::Client& client, const CounterJob& job,
                                  std::span<const ids::CounterField> fields) {
  CounterRun run{counter_, client, job, fields};
  CounterReply reply = carry_out(run);
  unreached_ = std::move(run.unreached);
  met_by_check_ = run.met_by_check;
  if (reply.kind == CounterReply::Kind::not_healed) events().not_healed(reply.why.reason);
  if (reply.kind == CounterReply::Kind::exhausted) events().gives_no_numbers(reply.why);
  return reply;
}

void CounterDocument::probe(mongo::Client& client) {
  const CounterJob job{CounterJob::Kind::allocate};
  unreached_ = why_unreached(write_nothing({counter_, client, job, {}}), client.login());
}

ids::Result<CounterDocument::Checked> CounterDocument::check(
    mongo::Client& client, std::span<const ids::CounterField> fields, const CounterJob& job,
    Demand demand) {
  CounterRun run{counter_, client, job, fields};
  auto first = check_run(run, demand);
  unreached_ = std::move(run.unreached);
  return first;
}

}  // namespace idproxy::id_store
