#include "id_store/proxies.hpp"

#include <array>
#include <utility>

#include "id_store/reply_reasons.hpp"
#include "id_store/server_text.hpp"
#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/wait_list.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

constexpr const char* kProxies = "proxies";
// The build of an index in a collection with documents waits for all members that vote.
constexpr std::chrono::milliseconds kIndexWithin{1000};

std::int64_t in_milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

/// A text in an expression, where one that begins with $ would be a field's name.
Document literal(std::string_view text) {
  return {"$literal", text};
}

/// {$subtract: ["$$NOW", ms]}
Document before_now(std::chrono::nanoseconds time) {
  return {"$subtract", Array{"$$NOW", in_milliseconds(time)}};
}

Document index_command() {
  const Document index{{"key", {"seen", 1}},
                       {"name", "seen_1"},
                       {"expireAfterSeconds", std::int64_t{Proxies::kKeptFor.count()}}};
  return {{"createIndexes", kProxies},
          {"indexes", Array{index}},
          {"maxTimeMS", std::int64_t{kIndexWithin.count()}}};
}

Document delete_command(const Document& filter) {
  return {{"delete", kProxies}, {"deletes", Array{Document{{"q", filter}, {"limit", 0}}}}};
}

Document find_command() {
  constexpr auto kMostListeners = static_cast<std::int32_t>(KnownProxies::kMostListeners);
  const Document fields{{"host", 1},      {"version", 1}, {"rules_hash", 1},
                        {"since", 1},     {"seen", 1},    {"listeners", {"$slice", kMostListeners}},
                        {"namespaces", 1}};
  return {{"find", kProxies},
          {"sort", {"seen", -1}},
          {"projection", fields},
          {"limit", KnownProxies::kMost},
          {"batchSize", KnownProxies::kMost}};
}

Reply read_all(mongo::Client& client, const std::string& db, KnownProxies& found) {
  return client.read_all(db, find_command(), [&](Bytes document) {
    found.add(document);
    return true;
  });
}

/// `age`: of the process.
Document update_command(const ProxyDescription& self, const bson_oid_t& process,
                        std::chrono::nanoseconds age) {
  const std::string id = proxy_id(self);
  Array listeners;
  for (const std::string& each : self.listeners) listeners.push(each);
  Array namespaces;  // all or none
  const bool are_few = self.namespaces.size() <= KnownProxies::kMostNamespaces &&
                       std::ranges::all_of(self.namespaces, [](const std::string& each) {
                         return each.size() <= KnownProxies::kMostTextBytes;
                       });
  for (const std::string& each : are_few ? self.namespaces : std::vector<std::string>()) {
    namespaces.push(each);
  }
  const Document whole{
      {"_id", literal(id)},
      {"process", bson::Type::object_id, Bytes(process.bytes, sizeof process.bytes)},
      {"host", literal(self.host)},
      {"version", literal(self.version)},
      {"listeners", {"$literal", listeners}},
      {"rules_hash", literal(self.rules_hash)},
      {"namespaces", {"$literal", namespaces}},
      {"since", before_now(age)},
      {"seen", "$$NOW"}};
  return {{"update", kProxies},
          {"updates", Array{Document{{"q", {"_id", id}},
                                     {"u", Array{Document{"$replaceWith", whole}}},
                                     {"upsert", true}}}}};
}

/// When the server wrote the document, by its clock.
std::optional<std::int64_t> server_time(mongo::Client& client, const std::string& db,
                                        const std::string& id) {
  const Reply own = client.read_first(
      db, {{"find", kProxies}, {"filter", {"_id", id}}, {"projection", {"seen", 1}}, {"limit", 1}});
  const auto seen = bson::find(own.document.bytes(), "seen");
  if (!own.ok() || !seen || seen->type != bson::Type::date) return std::nullopt;
  return load_i64(seen->value.data());
}

/// As an index would have the server do. `now`: by its clock; 4.4 has no $$NOW in a delete.
void delete_old(mongo::Client& client, const std::string& db, std::int64_t now) {
  std::array<std::uint8_t, 8> limit{};
  store_i64(limit.data(), now - in_milliseconds(Proxies::kKeptFor));
  (void)client.write_to_primary(db,
                                delete_command({"seen", Document{"$lt", bson::Type::date, limit}}));
}

void tell_failure(const mongo::Client& client, const Reply& reply) {
  const bool is_refused = reply.kind == Reply::Kind::refused;
  log::event(log::Level::debug, "proxies_unknown",
             "the id store did not take or tell who its proxies are",
             {{"reason", is_refused ? error_text(reply) : why_unreached(reply, client.login())}});
}

}  // namespace

Proxies::Proxies(const mongo::Pool& pool, std::string db, const Clock& clock)
    : pool_(pool), db_(std::move(db)), clock_(clock), started_(clock.monotonic()), process_{} {
  bson_oid_init(&process_, nullptr);
}

void Proxies::introduce(ProxyDescription description, Scheduler& scheduler) {
  const std::scoped_lock lock(mutex_);
  if (leaving_) return;
  self_ = std::move(description);
  scheduler_ = &scheduler;
  scheduler.wake(task_, Scheduler::Order::last);
}

std::vector<KnownProxy> Proxies::known() const {
  const std::scoped_lock lock(mutex_);
  return known_.at(clock_.monotonic());
}

void Proxies::leave() {
  const std::scoped_lock lock(mutex_);
  leaving_ = true;
  if (scheduler_ != nullptr) scheduler_->wake(task_);
}

// ---- the task ----------------------------------------------------------------------------------

Proxies::Time Proxies::run() {
  std::optional<ProxyDescription> self;
  {
    const std::scoped_lock lock(mutex_);
    if (!leaving_) self = self_;
  }
  Time pause = kEvery;
  if (self) {
    mongo::Client client = pool_.client();
    pause = client.knows_primary() ? introduce_self(client, *self) : Time(kLookAgain);
  }
  if (ids::locked(mutex_, [this] { return leaving_; })) withdraw();
  return clock_.monotonic() + pause;
}

/// Returns when to do so again.
Proxies::Time Proxies::introduce_self(mongo::Client& client, const ProxyDescription& self) {
  if (std::exchange(looks_at_index_, false)) {
    // Before the first document: in an empty collection this waits for no other member.
    has_index_ = client.write_to_primary(db_, index_command()).ok();
  }
  const Reply written =
      client.write_to_primary(db_, update_command(self, process_, clock_.monotonic() - started_));
  if (!written.ok()) {
    tell_failure(client, written);
    return written.kind == Reply::Kind::refused ? Time(kAfterRefusal) : Time(kEvery);
  }
  listed_as_ = proxy_id(self);
  // If the own document was missing, the collection may have been dropped, and its index with it.
  looks_at_index_ = bson::find(written.document.bytes(), "upserted").has_value();
  const auto now = server_time(client, db_, listed_as_);
  if (!now) return kEvery;
  if (!has_index_) delete_old(client, db_, *now);
  KnownProxies found(listed_as_, clock_.monotonic(), *now);
  const Reply read = read_all(client, db_, found);
  if (read.ok()) {
    const std::scoped_lock lock(mutex_);
    known_ = std::move(found);
  } else {
    tell_failure(client, read);
  }
  return kEvery;
}

/// Only what this process wrote: another one may have taken over the address.
void Proxies::withdraw() {
  if (listed_as_.empty()) return;
  mongo::Client client = pool_.client();
  if (!client.knows_primary()) return;
  (void)client.write_to_primary(
      db_, delete_command(
               {{"_id", std::exchange(listed_as_, {})},
                {"process", bson::Type::object_id, Bytes(process_.bytes, sizeof process_.bytes)}}));
}

ids::Result<std::vector<KnownProxy>> read_proxies(mongo::Client& client, const std::string& db) {
  const Reply hello = client.read("admin", {"hello", 1});
  const auto time = bson::find(hello.document.bytes(), "localTime");
  if (!hello.ok() || !time || time->type != bson::Type::date) {
    return failed("the id store " + why_unreached(hello, client.login()));
  }
  constexpr std::chrono::nanoseconds kNow{};
  KnownProxies found("", kNow, load_i64(time->value.data()));
  const Reply reply = read_all(client, db, found);
  if (!reply.ok()) return after_error(client, reply, db);
  return found.at(kNow);
}

}  // namespace idproxy::id_store
