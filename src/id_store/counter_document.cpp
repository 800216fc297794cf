#include "id_store/counter_document.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <thread>
#include <utility>

#include "id_store/advice.hpp"
#include "id_store/counter_commands.hpp"
#include "id_store/reply_reasons.hpp"
#include "id_store/server_text.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::id_store {
namespace {

using ids::CounterJob;
using ids::CounterReply;
using log::Level;
using mongo::Array;
using mongo::Document;
using mongo::Reply;

// Other proxies may change the counter between two steps of a job, but not so often in a row unless
// something is wrong.
constexpr int kMostAttempts = 16;
// A failed write is retried at once until a job has taken this long.
constexpr std::chrono::milliseconds kQuick{500};
// A server refuses to create a counter while it drops the database: the drop needs a majority.
constexpr std::chrono::milliseconds kDropPause{40};

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

// Number.MAX_SAFE_INTEGER
constexpr std::int64_t kMostInJavaScript = 9007199254740991;

// Numbers that return one by one can leave many ranges.
constexpr std::size_t kMostListed = 10;

/// "16 to 100"
std::string text_of(const ids::Range& range, std::int64_t step) {
  std::string text = std::to_string(range.first);
  if (range.count == 1) return text;
  const std::int64_t last = range.first + step * static_cast<std::int64_t>(range.count - 1);
  return text + " to " + std::to_string(last);
}

bool says(const std::optional<bson::Element>& element, std::string_view text) {
  return element && element->type == bson::Type::string && element->text() == text;
}

/// What somebody has written into the document, in a reason.
std::string seal_text(const std::optional<bson::Element>& element) {
  constexpr std::size_t kMost = 80;
  if (!element) return "(none)";
  if (element->type != bson::Type::string) return "(no string)";
  return in_quotes(cut_off(element->text(), kMost));
}

bool is_beyond_javascript(std::int64_t number) {
  return number > kMostInJavaScript || number < -kMostInJavaScript;
}

ids::Error does_not_fit(const std::string& counter, std::span<const ids::CounterField> fields) {
  return exhausted("the value of counter " + counter +
                   (has_no_negatives(fields) ? " lies below 0" : " does not fit into int32"));
}

void drop_block(StoreMetrics& metrics, const CounterEvents& events, std::string_view reason) {
  metrics.blocks_dropped.fetch_add(1, std::memory_order_relaxed);
  events.block_dropped(reason);
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

// The document of hidden numbers says with which key they are hidden: another would give two
// numbers one value. An allocation finds the document by that.

/// True if the document does not say yet with which key its numbers are hidden.
ids::Result<bool> lacks_seal(const ids::CounterSpec& spec, const std::string& counter,
                             Bytes document) {
  const ids::Permutation::Seal& own = spec.seal;
  const bool hides = !own.fpe.empty();
  const auto fpe = bson::find(document, "fpe");
  const auto space = bson::find(document, "space");
  if (!fpe) return hides;
  if (says(fpe, own.fpe) && says(space, own.space)) return false;
  const std::string its =
      hides ? "has fpe " + in_quotes(own.fpe) + " and space " + in_quotes(own.space)
            : "does not hide them";
  return exhausted("the numbers of counter " + counter + " are hidden with fpe " + seal_text(fpe) +
                   " and space " + seal_text(space) + ", and the rule " + its +
                   ": values would be given twice. Go back to " +
                   (hides ? "its key, tweak, alphabet and length" : "strategy: permuted") +
                   ", or give the rule another `name`");
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

}  // namespace

CounterDocument::CounterDocument(ids::CounterSpec spec, StoreMetrics& metrics,
                                 CollectionScans& scans)
    : spec_(std::move(spec)),
      numbers_(spec_),
      identity_(identity_of(spec_.place)),
      metrics_(metrics),
      scans_(scans),
      events_(spec_) {}

CounterReply CounterDocument::run(mongo::Client& client, const CounterJob& job,
                                  std::span<const ids::CounterField> fields) {
  Run run{spec_, numbers_, client, job, fields};
  CounterReply reply = carry_out(run);
  unreached_ = std::move(run.unreached);
  met_by_check_ = run.met_by_check;
  if (reply.kind == CounterReply::Kind::not_healed) events_.not_healed(reply.why.reason);
  if (reply.kind == CounterReply::Kind::exhausted) events_.gives_no_numbers(reply.why);
  return reply;
}

CounterReply CounterDocument::carry_out(Run& run) {
  switch (run.job.kind) {
    case CounterJob::Kind::give_back:
      return give_back(run);
    case CounterJob::Kind::confirm:
      return confirm(run);
    case CounterJob::Kind::heal:
      return repeat(run, &CounterDocument::heal);
    case CounterJob::Kind::allocate:
      break;
  }
  return repeat(run, &CounterDocument::allocate);
}

/// An allocation that matches no document: changes nothing, but needs the privilege to write, a
/// primary with a majority, and a server that understands it.
Reply CounterDocument::write_nothing(mongo::Client& client) const {
  return change(client, {bound(0), {"$in", Array()}},
                Document{"$inc", {spec_.place.value_field, std::int64_t{0}}});
}

void CounterDocument::probe(mongo::Client& client) {
  unreached_ = why_unreached(write_nothing(client), client.login());
}

ids::Result<CounterDocument::Checked> CounterDocument::check(
    mongo::Client& client, std::span<const ids::CounterField> fields, const CounterJob& job,
    Demand demand) {
  Run run{spec_, numbers_, client, job, fields};
  auto first = check(run, demand);
  unreached_ = std::move(run.unreached);
  return first;
}

ids::Result<CounterDocument::Checked> CounterDocument::check(Run& run, Demand demand) {
  const Reply written = write_nothing(run.client);
  if (!written.ok()) return answer_to(run, written);
  const auto found = read(run);
  if (!found) return found.error();
  if (spec_.place.is_family()) return Checked{};
  if (found->has_value()) {
    if (found->lacks_seal) {
      if (const auto may = may_seal(run, found->value); !may) return may.error();
    }
    const auto first = check_existing(run, found->value);
    if (!first) return first.error();
    return Checked{*first};
  }
  if (!scans_.enabled()) {
    const auto needed = needs_scan(run);
    if (!needed) return needed.error();
    if (*needed) return Checked{.reads_all = true};
  }
  const auto created = first_of_new(run, found->exists);
  if (!created) return created.error();
  if (demand == Demand::none) return Checked{created->first, created->by_scan};
  if (Attempt failure = create_at(run, found->exists, *created)) return std::move(failure->why);
  return Checked{created->first};
}

ids::Result<std::int64_t> CounterDocument::check_existing(Run& run, const StoredValue& value) {
  if (!value.is_number()) return not_an_integer();
  const auto first = numbers_.first_at(value.number);
  if (!first || numbers_.is_beyond_max(*first)) return at_max(spec_);
  if (!fits_into_fields(*first, run.fields)) return does_not_fit(events_.counter(), run.fields);
  if (run.job.kind != CounterJob::Kind::heal) return *first;
  const auto target = heal_target(run, *first);
  if (!target && !run.not_healed) return target.error();
  return target ? target->first : *first;
}

CounterReply CounterDocument::repeat(Run& run, Attempt (CounterDocument::*attempt)(Run&)) {
  for (int i = 0; i < kMostAttempts; ++i) {
    if (Attempt done = (this->*attempt)(run)) return *std::move(done);
  }
  return failed("counter " + events_.counter() + " is being changed all the time");
}

// ---- allocate

CounterDocument::Attempt CounterDocument::allocate(Run& run) {
  const auto increment = numbers_.increment(run.count);
  if (!increment) return exhausted("the request is for more numbers than there are");
  if (mark_first_) {
    if (const auto marked = mark(run); !marked) return marked.error();
  }
  if (spec_.place.is_range()) return allocate_in_range(run, {});
  const std::string& field = spec_.place.value_field;
  const Reply reply =
      converts_ ? change(run.client, bound(*increment), set_sum(field, to_long(field), *increment))
                : change(run.client, bound(0), Document{"$inc", {field, *increment}});
  if (reply.refused(ErrorCode::bad_value)) return allocate_what_fits(run, reply);
  if (!reply.ok()) return after_failure(run, reply, true);
  if (const auto pre_image = value_of(reply)) return use(run, *pre_image);
  return explain_no_match(run);
}

CounterDocument::Attempt CounterDocument::use(Run& run, Bytes pre_image) {
  const StoredValue value = stored_value(pre_image, spec_.place.value_field);
  if (!value.is_number()) return not_an_integer();
  const auto first = numbers_.first_at(value.number);
  const auto last = numbers_.after(value.number, run.count);
  if (!first || !last) return at_max(spec_);
  const bool is_double = value.kind == StoredValue::Kind::integral_double;
  if (is_double && Numbers::distance(*last, 0) > static_cast<std::uint64_t>(kMostInDouble)) {
    return not_an_integer();
  }
  converts_ = is_double;
  return allocated(run, *first, run.count);
}

CounterDocument::Attempt CounterDocument::allocated(Run& run, std::int64_t first,
                                                    std::uint64_t count) {
  if (!fits_into_fields(first, run.fields)) {
    return does_not_fit(events_.counter(), run.fields);
  }
  if (const auto marked = mark(run); !marked) {
    drop_block(metrics_, events_, marked.error().reason);
    return marked.error();
  }
  events_.went_well(first, numbers_.after(first, count - 1).value_or(first), run.fields);
  return CounterReply(CounterReply::Kind::allocated, {first, count});
}

CounterDocument::Attempt CounterDocument::explain_no_match(Run& run) {
  const auto found = read(run);
  if (!found) return found.error();
  if (found->lacks_seal) return seal(run, *found);
  if (!found->has_value()) return create(run, found->exists);
  if (!found->value.is_number()) return not_an_integer();
  const auto first = numbers_.first_at(found->value.number);
  if (!first || numbers_.is_beyond_max(*first)) return at_max(spec_);
  if (converts_ && !numbers_.after(found->value.number, run.count)) {
    return allocate_what_fits(run, {});
  }
  return std::nullopt;  // another proxy has changed it meanwhile
}

/// `reply` says BadValue, perhaps because $inc would overflow int64. The numbers up to int64's end
/// can still be given out.
CounterDocument::Attempt CounterDocument::allocate_what_fits(Run& run, const Reply& reply) {
  const auto found = read(run);
  if (!found) return found.error();
  if (!found->has_value()) return answer_to(run, reply);
  if (!found->value.is_number()) return not_an_integer();
  const std::uint64_t fits = numbers_.room_behind(found->value.number);
  if (fits == 0) return at_max(spec_);
  if (fits >= run.count) return answer_to(run, reply);  // it was not an overflow
  run.count = fits;
  return std::nullopt;
}

// ---- seals

CounterDocument::Attempt CounterDocument::seal(Run& run, const Found& found) {
  if (const auto may = may_seal(run, found.value); !may) return may.error();
  const Reply reply =
      run.client.write(spec_.place.db, {{"findAndModify", spec_.place.collection},
                                        {"query", {identity_, {"fpe", {"$exists", false}}}},
                                        {"update", {"$set", seal_of(spec_)}}});
  if (!reply.ok()) return after_failure(run, reply, false);
  return std::nullopt;
}

// ---- give back

/// If it is unknown whether the counter was set back, this process must not use the numbers either.
CounterReply CounterDocument::give_back(Run& run) {
  const ids::Range& unused = run.job.unused;
  const auto end = numbers_.after(unused.first, unused.count);
  const auto from = end ? numbers_.value_before(*end) : std::nullopt;
  const auto to = numbers_.value_before(unused.first);
  if (!from || !to) return CounterReply::Kind::overtaken;
  const Reply reply = change(run.client, {"$eq", *from}, set_value(spec_.place.value_field, *to));
  run.unreached = why_unreached(reply, run.client.login());
  const bool no_match = reply.ok() && !value_of(reply);
  if (reply.was_not_sent()) return CounterReply::Kind::not_sent;
  const bool is_overtaken = no_match || reply.kind == Reply::Kind::refused;
  return is_overtaken ? CounterReply::Kind::overtaken : CounterReply::Kind::given_back;
}

// ---- confirm

/// A write, since a primary that has been replaced without knowing it still answers reads. Adding 0
/// as an int32 leaves the value's type as it is.
CounterReply CounterDocument::confirm(Run& run) const {
  const Reply reply = change(run.client, {"$type", Array{"int", "long", "double"}},
                             Document{"$inc", {spec_.place.value_field, std::int32_t{0}}});
  CounterReply nothing(CounterReply::Kind::unknown);
  if (reply.kind == Reply::Kind::refused) return nothing;
  if (!reply.ok()) return answer_to(run, reply);
  const auto image = value_of(reply);
  if (!image) {
    const auto found = read(run);
    if (found && !found->exists) nothing.kind = CounterReply::Kind::gone;
    return nothing;
  }
  const StoredValue value = stored_value(*image, spec_.place.value_field);
  const auto next = value.is_number() ? numbers_.first_at(value.number) : std::nullopt;
  if (!next) return nothing;
  return {CounterReply::Kind::stands, {*next, 0}};
}

// ---- common

ids::Result<CounterDocument::Found> CounterDocument::read(Run& run) const {
  const Reply reply = run.client.read_first(
      spec_.place.db, {{"find", spec_.place.collection}, {"filter", identity_}, {"limit", 1}});
  if (!reply.ok()) return answer_to(run, reply);
  run.unreached.clear();
  const Bytes document = reply.document.bytes();
  Found found{!reply.document.empty(), stored_value(document, spec_.place.value_field)};
  if (found.exists) {
    const auto lacks = lacks_seal(spec_, events_.counter(), document);
    if (!lacks) return lacks.error();
    found.lacks_seal = *lacks;
  }
  if (spec_.place.is_range()) found.last = stored_value(document, spec_.place.max_field);
  return found;
}

/// The job's reply after a failed command.
ids::Error CounterDocument::answer_to(Run& run, const Reply& reply) const {
  run.unreached = why_unreached(reply, run.client.login());
  const bool is_of_the_value =
      reply.kind == Reply::Kind::refused &&
      (reply.code == ErrorCode::type_mismatch || reply.code == ErrorCode::conversion_failure);
  return is_of_the_value ? not_an_integer() : after_error(run.client, reply, spec_.place.db);
}

CounterDocument::Attempt CounterDocument::after_failure(Run& run, const Reply& reply,
                                                        bool gives_numbers) {
  const bool is_early = std::chrono::steady_clock::now() - run.begun < kQuick;
  if (reply.refused(ErrorCode::database_drop_pending) && is_early) {
    std::this_thread::sleep_for(kDropPause);
    return std::nullopt;
  }
  if (reply.kind == Reply::Kind::refused) return answer_to(run, reply);
  if (gives_numbers && !reply.not_carried_out) {
    drop_block(metrics_, events_, server_text(reply.code, reply.message));
  }
  // A retry may find another server. But if there was none, libmongoc has already searched for
  // long, and a refused login would be refused again.
  if (!reply.was_not_sent() && is_early) return std::nullopt;
  return answer_to(run, reply);
}

Document CounterDocument::query(const Document& value) const {
  const bool hides = !spec_.seal.fpe.empty();
  const Document seal = hides ? seal_of(spec_) : Document{"fpe", {"$exists", false}};
  return {identity_, {spec_.place.value_field, value}, seal};
}

/// Matches a value, int or double, that has a number left to give out and to which `increment` can
/// be added. Without the condition, $inc would create a missing V, and a pipeline's $add would turn
/// into a double at int64's end.
Document CounterDocument::bound(std::int64_t increment) const {
  const std::int64_t end = numbers_.upwards() ? INT64_MAX : INT64_MIN;
  std::int64_t most = numbers_.value_before(numbers_.max()).value_or(numbers_.max());
  const std::int64_t fits = end - increment;
  most = numbers_.is_ahead(most, fits) ? fits : most;
  return {{"$type", Array{"int", "long", "double"}}, {numbers_.upwards() ? "$lte" : "$gte", most}};
}

ids::Error CounterDocument::not_an_integer() const {
  return exhausted("the value of counter " + events_.counter() + " is not an integer");
}

CounterEvents::CounterEvents(const ids::CounterSpec& spec)
    : counter_(spec.place.db + "." + spec.place.collection + " " + key_text(spec.place)),
      start_(spec.start),
      step_(spec.step),
      is_range_(spec.place.is_range()) {}

void CounterEvents::created(std::int64_t first, std::string_view warning) const {
  constexpr std::string_view kMessage = "the counter did not exist and has been created";
  if (warning.empty()) {
    log::event(Level::info, "counter_created", kMessage, {{"counter", counter_}, {"first", first}});
    return;
  }
  log::event(Level::warning, "counter_created", kMessage,
             {{"counter", counter_}, {"first", first}, {"warning", warning}});
}

void CounterEvents::index_refused(const std::string& reason, const Commands& by_hand) const {
  log::event(Level::warning, "counter_index_missing",
             "the counters have no unique index, and the proxy cannot make it: another program may "
             "create a counter a second time",
             {{"counter", counter_}, {"reason", reason}, {"command", by_hand.text()}});
}

void CounterEvents::healed(std::int64_t first, std::string_view how) const {
  log::event(Level::warning, "counter_healed",
             "the counter was behind the stored numbers and has been set past them",
             {{"counter", counter_}, {"first", first}, {"how", how}});
}

void CounterEvents::went_backwards() const {
  log::event(
      Level::warning, "counter_backwards",
      "the counter has gone back or was removed, as by a restore of an older copy: it is set "
      "past all numbers that are stored. Without a unique index on the field, numbers may "
      "have been stored twice",
      {{"counter", counter_}});
}

void CounterEvents::numbers_taken(std::uint64_t skipped) const {
  log::event(Level::warning, "numbers_taken",
             "numbers that this proxy had from the counter were stored already: somebody stores "
             "numbers of their own. It leaves these out and goes on with the others",
             {{"counter", counter_}, {"skipped", skipped}});
}

void CounterEvents::numbers_lost(std::span<const ids::Range> numbers) const {
  std::string listed;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    count += numbers[i].count;
    if (i < kMostListed) listed += (i > 0 ? ", " : "") + text_of(numbers[i], step_);
  }
  if (numbers.size() > kMostListed) listed += ", …";
  log::event(Level::info, "numbers_lost",
             "unused numbers did not return to the counter, which has moved on: they are a gap",
             {{"counter", counter_}, {"numbers", listed}, {"count", count}});
}

void CounterEvents::block_dropped(std::string_view reason) const {
  log::event(Level::warning, "block_dropped",
             "numbers may have been allocated and will not be used",
             {{"counter", counter_}, {"reason", reason}});
}

void CounterEvents::jump_too_large(std::int64_t from, std::int64_t most) const {
  log::event(
      Level::warning, "heal_refused",
      "the largest stored number is more than heal.max_jump ahead: looking for free numbers before "
      "it instead",
      {{"counter", counter_}, {"from", from}, {"most", most}});
}

bool CounterEvents::is_news(const std::string& reason) {
  return std::exchange(reason_, reason) != reason;
}

void CounterEvents::gives_no_numbers(const ids::Error& why) {
  if (!is_news(why.reason)) return;
  if (is_range_ && why.at_end) {
    log::event(Level::info, "range_exhausted", "all numbers of a range have been handed out",
               {{"range", counter_}});
  } else if (is_range_) {
    log::event(Level::warning, "range_left_out",
               "a range gives no numbers until the cause is removed; others take its place",
               {{"range", counter_}, {"reason", why.reason}});
  } else if (why.at_end) {
    log::event(Level::error, "counter_exhausted", "the counter gives no more numbers",
               {{"counter", counter_}, {"reason", why.reason}});
  } else {
    log::event(Level::error, "counter_refused",
               "the counter gives no numbers until the cause is removed",
               {{"counter", counter_}, {"reason", why.reason}});
  }
}

void CounterEvents::not_healed(const std::string& reason) {
  if (!is_news(reason)) return;
  log::event(Level::error, "heal_refused",
             "the counter cannot be set past the numbers that are stored",
             {{"counter", counter_}, {"reason", reason}});
}

void CounterEvents::ready_again() {
  if (std::exchange(reason_, {}).empty()) return;
  log::event(Level::info, "ready_again", "the counter gives numbers again",
             {{"counter", counter_}});
}

void CounterEvents::look_at_width(std::int64_t last, std::span<const ids::CounterField> fields) {
  const bool is_beyond = std::ranges::any_of(fields, [last](const ids::CounterField& field) {
    return field.format.pad > 0 && ids::digits_in(last, field.format) > field.format.pad;
  });
  if (is_beyond_width_ || !is_beyond) return;
  is_beyond_width_ = true;
  log::event(Level::warning, "counter_beyond_width",
             "numbers have more digits than their texts have room for: the texts no longer sort "
             "like the numbers",
             {{"counter", counter_}, {"number", last}});
}

void CounterEvents::went_well(std::int64_t first, std::int64_t last,
                              std::span<const ids::CounterField> fields) {
  reason_.clear();
  const bool is_behind = step_ > 0 ? first < start_ : first > start_;
  if (!is_known_ && is_behind) {
    log::event(Level::warning, "counter_behind_start",
               "the counter already exists and stands before `start`, which is not used",
               {{"counter", counter_}, {"next", first}, {"start", start_}});
  }
  is_known_ = true;
  look_at_width(last, fields);
  const bool has_int64 = std::any_of(fields.begin(), fields.end(), [](const auto& field) {
    return field.format.output == ids::NumberFormat::Output::int64;
  });
  if (is_beyond_javascript_ || !has_int64 || !is_beyond_javascript(last)) return;
  is_beyond_javascript_ = true;
  log::event(Level::warning, "counter_beyond_javascript",
             "numbers have passed 9007199254740991; JavaScript rounds larger ones",
             {{"counter", counter_}, {"number", last}});
}

}  // namespace idproxy::id_store
