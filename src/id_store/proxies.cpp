#include "id_store/proxies.hpp"

#include <array>
#include <utility>

#include "id_store/reply_reasons.hpp"
#include "id_store/server_text.hpp"
#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"
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
  return Document().add("$literal", text);
}

/// {$subtract: ["$$NOW", ms]}
Document before_now(std::chrono::nanoseconds time) {
  return Document().add("$subtract", Array().push("$$NOW").push(in_milliseconds(time)));
}

Document index_command() {
  const Document index = Document()
                             .add("key", Document().add("seen", 1))
                             .add("name", "seen_1")
                             .add("expireAfterSeconds", std::int64_t{Proxies::kKeptFor.count()});
  return Document()
      .add("createIndexes", kProxies)
      .add("indexes", Array().push(index))
      .add("maxTimeMS", std::int64_t{kIndexWithin.count()});
}

Document delete_command(const Document& filter) {
  return Document()
      .add("delete", kProxies)
      .add("deletes", Array().push(Document().add("q", filter).add("limit", 0)));
}

Document find_command() {
  Document fields;
  for (const char* each : {"host", "version", "rules_hash", "since", "seen"}) fields.add(each, 1);
  const auto most = static_cast<std::int32_t>(KnownProxies::kMostListeners);
  fields.add("listeners", Document().add("$slice", most));
  fields.add("namespaces", 1);
  return Document()
      .add("find", kProxies)
      .add("sort", Document().add("seen", -1))
      .add("projection", fields)
      .add("limit", KnownProxies::kMost)
      .add("batchSize", KnownProxies::kMost);
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

bool Proxies::is_leaving() const {
  const std::scoped_lock lock(mutex_);
  return leaving_;
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
  if (is_leaving()) withdraw();
  return clock_.monotonic() + pause;
}

/// Returns when to do so again.
Proxies::Time Proxies::introduce_self(mongo::Client& client, const ProxyDescription& self) {
  if (std::exchange(looks_at_index_, false)) {
    // Before the first document: in an empty collection this waits for no other member.
    has_index_ = client.write_to_primary(db_, index_command()).ok();
  }
  const Reply written = write(client, self);
  if (!written.ok()) {
    tell_failure(client, written);
    return written.kind == Reply::Kind::refused ? Time(kAfterRefusal) : Time(kEvery);
  }
  listed_as_ = proxy_id(self);
  // If the own document was missing, the collection may have been dropped, and its index with it.
  looks_at_index_ = bson::find(written.document.bytes(), "upserted").has_value();
  if (const auto now = server_time(client)) {
    if (!has_index_) delete_old(client, *now);
    read(client, KnownProxies(listed_as_, clock_.monotonic(), *now));
  }
  return kEvery;
}

/// When the server wrote the own document, by its clock.
std::optional<std::int64_t> Proxies::server_time(mongo::Client& client) const {
  std::optional<std::int64_t> time;
  (void)client.read_all(db_,
                        Document()
                            .add("find", kProxies)
                            .add("filter", Document().add("_id", listed_as_))
                            .add("projection", Document().add("seen", 1))
                            .add("limit", 1),
                        [&](Bytes own) {
                          const auto seen = bson::find(own, "seen");
                          const bool is_date = seen && seen->type == bson::Type::date;
                          if (is_date) time = load_i64(seen->value.data());
                          return true;
                        });
  return time;
}

Reply Proxies::write(mongo::Client& client, const ProxyDescription& self) const {
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
  const Document whole =
      Document()
          .add("_id", literal(id))
          .add("process", bson::Type::object_id, Bytes(process_.bytes, sizeof process_.bytes))
          .add("host", literal(self.host))
          .add("version", literal(self.version))
          .add("listeners", Document().add("$literal", listeners))
          .add("rules_hash", literal(self.rules_hash))
          .add("namespaces", Document().add("$literal", namespaces))
          .add("since", before_now(clock_.monotonic() - started_))
          .add("seen", "$$NOW");
  return client.write_to_primary(
      db_, Document()
               .add("update", kProxies)
               .add("updates",
                    Array().push(Document()
                                     .add("q", Document().add("_id", id))
                                     .add("u", Array().push(Document().add("$replaceWith", whole)))
                                     .add("upsert", true))));
}

void Proxies::read(mongo::Client& client, KnownProxies found) {
  const Reply reply = client.read_all(db_, find_command(), [&](Bytes document) {
    found.add(document);
    return true;
  });
  if (!reply.ok()) return tell_failure(client, reply);
  const std::scoped_lock lock(mutex_);
  known_ = std::move(found);
}

/// As an index would have the server do. `now`: by its clock; 4.4 has no $$NOW in a delete.
void Proxies::delete_old(mongo::Client& client, std::int64_t now) {
  std::array<std::uint8_t, 8> limit{};
  store_i64(limit.data(), now - in_milliseconds(kKeptFor));
  const Document is_old = Document().add("$lt", bson::Type::date, limit);
  (void)client.write_to_primary(db_, delete_command(Document().add("seen", is_old)));
}

/// Only what this process wrote: another one may have taken over the address.
void Proxies::withdraw() {
  if (listed_as_.empty()) return;
  mongo::Client client = pool_.client();
  if (!client.knows_primary()) return;
  const Document own =
      Document()
          .add("_id", std::exchange(listed_as_, {}))
          .add("process", bson::Type::object_id, Bytes(process_.bytes, sizeof process_.bytes));
  (void)client.write_to_primary(db_, delete_command(own));
}

Outcome<std::vector<KnownProxy>> read_proxies(mongo::Client& client, const std::string& db) {
  const Reply hello = client.read("admin", Document().add("hello", 1));
  const auto time = bson::find(hello.document.bytes(), "localTime");
  if (!hello.ok() || !time || time->type != bson::Type::date) {
    return failed("the id store " + why_unreached(hello, client.login()));
  }
  constexpr std::chrono::nanoseconds kNow{};
  KnownProxies found("", kNow, load_i64(time->value.data()));
  const Reply reply = client.read_all(db, find_command(), [&](Bytes document) {
    found.add(document);
    return true;
  });
  if (!reply.ok()) return after_error(client, reply, db);
  return found.at(kNow);
}

}  // namespace idproxy::id_store
