#include "id_store/collection_scans.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "id_store/counter_commands.hpp"
#include "id_store/outliers.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;
using Reading = FieldNumbers::Reading;
using log::Level;

constexpr const char* kCollection = "scans";
constexpr const char* kTurn = "turn";
constexpr std::chrono::seconds kRenewAfter{3};
// While another proxy has its turn.
constexpr std::chrono::seconds kTurnAgain{1};
// Commands of a scan may take longer than the scan itself: the reply must arrive.
constexpr std::chrono::seconds kBeyondScan{10};
constexpr std::chrono::seconds kLeastValid{1};

/// A text that no other object has.
std::string new_holder() {
  bson_oid_t id;
  bson_oid_init(&id, nullptr);
  std::array<char, 25> text{};
  bson_oid_to_string(&id, text.data());
  return text.data();
}

/// {$expr: {$or: [{$lte: ["$until", "$$NOW"]}, {$eq: ["$holder", holder]}]}}
Document free_for(const std::string& holder) {
  const Document expired{"$lte", Array{"$until", "$$NOW"}};
  const Document held{"$eq", Array{"$holder", holder}};
  return {"$expr", {"$or", Array{expired, held}}};
}

/// The server's clock decides, so that those of the proxies may differ.
Array hold(const std::string& holder, std::chrono::milliseconds lasts) {
  const Document until{"$add", Array{"$$NOW", std::int64_t{lasts.count()}}};
  return Array{Document{"$set", {{"holder", holder}, {"until", until}}}};
}

Reply take_turn(mongo::Client& client, const std::string& db, const std::string& holder,
                std::chrono::milliseconds lasts) {
  return client.write(db, {{"findAndModify", kCollection},
                           {"query", {{"_id", kTurn}, free_for(holder)}},
                           {"update", hold(holder, lasts)}});
}

/// Without `until`, which is less than any date: nobody has it.
Reply make_turn(mongo::Client& client, const std::string& db) {
  return client.write(db, {{"insert", kCollection}, {"documents", Array{Document{"_id", kTurn}}}});
}

/// "2026-11-23T20:15:00Z"
std::string time_of_day(std::chrono::nanoseconds wall) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(wall).count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

/// About how many documents the collections have, from the servers' metadata; nothing: not known.
std::optional<std::int64_t> documents_of(mongo::Client& client,
                                         const std::vector<FieldPlace>& places) {
  std::int64_t documents = 0;
  for (const FieldPlace& place : places) {
    const Reply reply = client.read(place.ns.db, {"count", place.ns.collection});
    if (!reply.ok()) return std::nullopt;
    documents += bson::integer_in(reply.document.bytes(), "n");
  }
  return documents;
}

std::string subject_key(const CollectionScans::Subject& subject) {
  return subject.spec.place.ns() + " " + key_text(subject.spec.place);
}

void report(const CollectionScans::Subject& subject, const ids::Result<Reading>& result,
            std::chrono::nanoseconds took) {
  const std::string counter = subject_key(subject);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  if (result) {
    return log::event(Level::info, "scan_done", "the proxy has read the whole collection",
                      {{"counter", counter}, {"milliseconds", milliseconds}});
  }
  log::event(
      Level::warning, "scan_failed", "the proxy could not read the whole collection",
      {{"counter", counter}, {"milliseconds", milliseconds}, {"reason", result.error().reason}});
}

std::string progress_of(const auto& scan) {
  const ids::CounterField& field = scan.subject.fields.front();
  const std::string what = field.field + " in " + field.ns;
  if (scan.since.empty()) {
    return "no index begins with " + what +
           ", so the proxy is about to read the whole collection for the largest value";
  }
  return "no index begins with " + what + ", so the proxy has been reading about " +
         std::to_string(scan.documents) + " documents for the largest value since " + scan.since;
}

}  // namespace

// ---- the lease ---------------------------------------------------------------------------------

ScanLease::ScanLease(const mongo::Pool& pool, std::string db)
    : pool_(pool), db_(std::move(db)), holder_(new_holder()) {}

bool ScanLease::acquire() {
  const std::scoped_lock lock(mutex_);
  mongo::Client client = pool_.client();
  Reply reply = take_turn(client, db_, holder_, kLasts);
  if (reply.ok() && !value_of(reply)) {
    reply = make_turn(client, db_);
    if (reply.refused(ErrorCode::duplicate_key)) return false;  // another one has it
    if (reply.ok()) {
      reply = take_turn(client, db_, holder_, kLasts);
      if (reply.ok() && !value_of(reply)) return false;
    }
  }
  return is_held_ = reply.ok() || reply.kind == Reply::Kind::refused;
}

bool ScanLease::renew() {
  const std::scoped_lock lock(mutex_);
  if (!is_held_) return false;
  mongo::Client client = pool_.client();
  (void)take_turn(client, db_, holder_, kLasts);
  return true;
}

void ScanLease::release() {
  const std::scoped_lock lock(mutex_);
  is_held_ = false;
  mongo::Client client = pool_.client();
  (void)take_turn(client, db_, holder_, std::chrono::milliseconds(0));
}

// ---- scans -------------------------------------------------------------------------------------

CollectionScans::CollectionScans(std::string uri, std::string db, const mongo::Pool& pool,
                                 const Clock& clock, Scheduler& scheduler, Enabled enabled,
                                 std::int64_t few)
    : uri_(std::move(uri)),
      clock_(clock),
      scheduler_(scheduler),
      enabled_(enabled),
      few_(few),
      lease_(pool, std::move(db)) {}

bool CollectionScans::are_small(mongo::Client& client,
                                const std::vector<FieldPlace>& places) const {
  const auto documents = documents_of(client, places);
  return documents && *documents < few_;
}

/// The scan of the subject, which replaces another one of the same counter.
CollectionScans::Shared CollectionScans::find(const Subject& subject) {
  const Time now = clock_.monotonic();
  std::erase_if(scans_, [&](const Shared& scan) { return now - scan->asked > kRefusedFor; });
  const auto found = std::ranges::find_if(
      scans_, [&](const Shared& scan) { return scan->subject.spec.place == subject.spec.place; });
  if (found == scans_.end()) {
    return scans_.emplace_back(std::make_shared<Scan>(Scan{.subject = subject}));
  }
  if ((*found)->subject != subject) *found = std::make_shared<Scan>(Scan{.subject = subject});
  return *found;
}

ids::Result<Reading> CollectionScans::ask(const Subject& subject) {
  const std::scoped_lock lock(mutex_);
  const Shared scan = find(subject);
  const Time now = clock_.monotonic();
  scan->asked = now;
  if (now < scan->holds_until) return scan->result;
  if (scan->state != Scan::State::running) {
    scan->state = Scan::State::waiting;
    scan->since.clear();
  }
  scheduler_.wake(task_);
  return ids::Error{
      .code = ids::Errc::unavailable, .reason = progress_of(*scan), .is_transient = true};
}

std::optional<CollectionScans::Time> CollectionScans::run() {
  Shared waiting;
  {
    const std::scoped_lock lock(mutex_);
    const Time now = clock_.monotonic();
    std::erase_if(scans_, [&](const Shared& scan) {
      return scan->state == Scan::State::waiting && now - scan->asked > kWantedFor;
    });
    const auto found = std::ranges::find(scans_, Scan::State::waiting,
                                         [](const Shared& scan) { return scan->state; });
    if (found != scans_.end()) waiting = *found;
  }
  if (!waiting || scheduler_.is_stopping()) return std::nullopt;
  if (lease_.acquire()) {
    scheduler_.wake_at(renews_, clock_.monotonic() + kRenewAfter);
    scan(*waiting);
    lease_.release();
  } else {
    (void)scheduler_.pause(kTurnAgain);
  }
  return clock_.monotonic();
}

std::optional<CollectionScans::Time> CollectionScans::renew() {
  if (!lease_.renew()) return std::nullopt;
  return clock_.monotonic() + kRenewAfter;
}

void CollectionScans::scan(Scan& scan) {
  const Time begun = clock_.monotonic();
  {
    const std::scoped_lock lock(mutex_);
    // Another proxy may have created the counter meanwhile: then nobody asks any more.
    if (begun - scan.asked > kWantedFor) return;
    scan.state = Scan::State::running;
  }
  ids::Result<Reading> result = read(scan);
  const Time now = clock_.monotonic();
  report(scan.subject, result, now - begun);
  const std::scoped_lock lock(mutex_);
  scan.state = Scan::State::idle;
  if (result) {
    scan.holds_until = now + std::max<Time>(now - begun, kLeastValid);
  } else {
    // Another attempt after a refusal of the server costs little.
    const bool is_long = result.error().code == ids::Errc::exhausted && !result.error().by_server;
    scan.holds_until = now + (is_long ? Time(kRefusedFor) : Time(kFailedFor));
  }
  scan.result = std::move(result);
}

ids::Result<Reading> CollectionScans::read(Scan& scan) {
  const Subject& subject = scan.subject;  // never changes
  const std::chrono::milliseconds limit = subject.spec.scan;
  const mongo::Pool patient(uri_, limit + kBeyondScan);
  mongo::Client client = patient.client();
  FieldNumbers numbers(client, subject.spec, subject.fields);
  const auto places = numbers.places_to_scan();
  if (!places) return places.error();
  if (limit.count() == 0 && !places->empty()) {
    return numbers.not_indexed(places->front(), kScanIsOff);
  }
  const std::int64_t documents = documents_of(client, *places).value_or(0);
  {
    const std::scoped_lock lock(mutex_);
    scan.since = time_of_day(clock_.wall());
    scan.documents = documents;
  }
  log::event(Level::info, "scan_begun",
             "no index begins with the counter's field: the proxy reads the whole collection for "
             "the largest value",
             {{"counter", subject_key(subject)}, {"documents", documents}});
  numbers.allow_scans(limit);
  return numbers.read_furthest(kOutlierSample);
}

}  // namespace idproxy::id_store
