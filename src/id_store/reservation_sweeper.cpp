#include "id_store/reservation_sweeper.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "id_store/index.hpp"
#include "id_store/reply_reasons.hpp"
#include "id_store/reservation_collection.hpp"
#include "id_store/server_text.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/id_store/stored_value.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Client;
using mongo::Reply;

constexpr std::size_t kSweepPage = 1000;
constexpr std::size_t kPageBytes = std::size_t{4} * 1024 * 1024;
constexpr std::int64_t kEarliest = std::numeric_limits<std::int64_t>::min();

std::string why_not_swept(const Client& client, const Reply& reply) {
  if (reply.kind == Reply::Kind::refused) return error_text(reply);
  if (reply.kind == Reply::Kind::not_majority) return unreached(reply);
  return "the id store " + why_unreached(reply, client.login());
}

/// Of others queries make something else, or nothing.
bool is_comparable(bson::Type type) {
  return type != bson::Type::regex && type != bson::Type::undefined;
}

/// True if no other bytes are equal to a value of this type. Strings may be, by a collation.
bool has_one_form(bson::Type type) {
  return type == bson::Type::object_id || type == bson::Type::binary;
}

std::optional<OldReservation> old_of(Bytes document, const ids::ReserveSpec& spec) {
  const auto id = bson::find(document, "_id");
  const auto value = bson::find(document, spec.name);
  const auto parent = bson::find(document, "parent_id");
  const auto at = bson::find(document, "at");
  if (!id || !value || !parent || !at || at->type != bson::Type::date) return std::nullopt;
  if (!is_comparable(value->type) || !is_comparable(parent->type)) return std::nullopt;
  return OldReservation{value_of(*id), value_of(*value), value_of(*parent),
                        load_i64(at->value.data())};
}

std::string pair_of(const ids::TypedValue& parent, const ids::TypedValue& value) {
  const std::string key = key_of(parent);
  return std::to_string(key.size()) + ":" + key + key_of(value);
}

std::size_t old_bytes(const OldReservation& item) {
  return item.id.bytes.size() + item.value.bytes.size() + item.parent_id.bytes.size();
}

/// Compares most values itself, and has the server compare those that seem to differ, one by one: 1
/// and Decimal 1 are the same to it, and it looks into arrays. Returns the first reply that is not
/// ok, if there is one.
Reply find_orphans(Client& client, const ids::ReserveSpec& spec,
                   const std::vector<OldReservation>& page, std::vector<OldReservation>& orphans) {
  const std::string db = split_namespace(spec.parent_ns).db;
  std::unordered_set<std::string> found;  // key_of() the _id
  std::unordered_set<std::string> alive;
  const auto note = [&](Bytes document) {
    const auto id = bson::find(document, "_id");
    const auto value = find_path(document, spec.parent_field);
    if (id) found.insert(key_of(value_of(*id)));
    if (id && value) alive.insert(pair_of(value_of(*id), value_of(*value)));
    return true;
  };
  Reply reply = client.read_all(db, parents_command(spec, page), note);
  if (!reply.ok()) return reply;
  for (const OldReservation& item : page) {
    if (alive.contains(pair_of(item.parent_id, item.value))) continue;
    if (has_one_form(item.parent_id.type) && !found.contains(key_of(item.parent_id))) {
      orphans.push_back(item);
      continue;
    }
    reply = client.read_first(db, parent_command(spec, item));
    if (!reply.ok()) return reply;
    if (reply.document.empty()) orphans.push_back(item);
  }
  return reply;
}

/// Deletes the orphans of the page. Returns the first reply that is not ok, if there is one.
Reply delete_orphans(Client& client, const ids::ReserveSpec& spec,
                     const std::vector<OldReservation>& page, ReservationSweeper::Swept& swept) {
  std::vector<OldReservation> orphans;
  Reply reply = find_orphans(client, spec, page, orphans);
  if (!reply.ok() || orphans.empty()) return reply;
  // Of a collection that is dropped to be restored, or exchanged for another one, they come back.
  reply = client.read_first(split_namespace(spec.parent_ns).db, any_parent_command(spec));
  if (!reply.ok() || reply.document.empty()) {
    swept.is_complete = false;
    return reply;
  }
  reply = client.write(spec.db, sweep_command(spec, orphans));
  swept.deleted += static_cast<std::uint64_t>(outcome_of(reply).n);
  return reply;
}

}  // namespace

ReservationSweeper::ReservationSweeper(ids::ReserveSpec spec, const Clock& clock,
                                       StoreMetrics& metrics)
    : spec_(std::move(spec)), clock_(clock), metrics_(metrics) {}

std::chrono::seconds ReservationSweeper::interval() const {
  return std::clamp(spec_.orphan_after / 4, std::chrono::seconds(60), std::chrono::seconds(3600));
}

ReservationSweeper::Swept ReservationSweeper::sweep(Client& client, Client& writer,
                                                    const Pause& pause) {
  using Milliseconds = std::chrono::milliseconds;
  const auto now = clock_.monotonic();
  const std::int64_t until = milliseconds_of(clock_) -
                             std::chrono::duration_cast<Milliseconds>(spec_.orphan_after).count();
  const bool reads_all = !whole_at_ || now >= *whole_at_;
  std::vector<Index> indexes;
  (void)list_indexes(client, {spec_.db, spec_.collection}, indexes);
  const Order order = has_dates(indexes) ? Order::by_date : Order::any;
  Swept swept;
  std::vector<OldReservation> page;
  std::size_t bytes = 0;
  bool goes_on = true;
  Reply judged;
  auto begun = std::chrono::steady_clock::now();
  const auto end_page = [&] {
    const std::uint64_t before = swept.deleted;
    if (!page.empty()) judged = delete_orphans(writer, spec_, page, swept);
    metrics_.reservations_swept += swept.deleted - before;
    goes_on = judged.ok();
    if (goes_on && !page.empty() && order == Order::by_date) resume_ = page.back().at;
    page.clear();
    bytes = 0;
    goes_on = goes_on && pause(std::chrono::steady_clock::now() - begun);
    begun = std::chrono::steady_clock::now();
  };
  const auto use = [&](Bytes document) {
    auto item = old_of(document, spec_);
    if (!item) return true;
    ++swept.read;
    bytes += old_bytes(*item);
    page.push_back(*std::move(item));
    if (page.size() >= kSweepPage || bytes >= kPageBytes) end_page();
    return goes_on;
  };
  const std::int64_t from = resume_.value_or(reads_all ? kEarliest : from_);
  const Reply reply = client.read_all(spec_.db, old_command(spec_, from, until, order), use);
  if (reply.ok() && goes_on) end_page();
  if (!reply.ok() || !judged.ok()) {
    swept.failure = why_not_swept(client, reply.ok() ? judged : reply);
  }
  if (!swept.is_complete) resume_.reset();
  if (!reply.ok() || !goes_on || !swept.is_complete) return swept;
  const auto overlap = std::chrono::duration_cast<Milliseconds>(kOverlap).count();
  from_ = until - overlap;
  resume_.reset();
  if (reads_all) whole_at_ = now + kWholeEvery;
  return swept;
}

}  // namespace idproxy::id_store
