#include "id_store/scan_lease.hpp"

#include <array>
#include <cstdint>
#include <utility>

#include "id_store/counter_commands.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

constexpr const char* kCollection = "scans";
constexpr const char* kTurn = "turn";
constexpr std::chrono::seconds kRenewAfter{3};

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
  const Document expired = Document().add(
      "$lte", Array().push(std::string_view("$until")).push(std::string_view("$$NOW")));
  const Document held = Document().add(
      "$eq", Array().push(std::string_view("$holder")).push(std::string_view(holder)));
  return Document().add("$expr", Document().add("$or", Array().push(expired).push(held)));
}

/// The server's clock decides, so that those of the proxies may differ.
Array hold(const std::string& holder, std::chrono::milliseconds lasts) {
  const Document until = Document().add(
      "$add", Array().push(std::string_view("$$NOW")).push(std::int64_t{lasts.count()}));
  return Array().push(Document().add("$set", Document().add("holder", holder).add("until", until)));
}

/// Without `until`, which is less than any date: nobody has it.
Reply make_turn(mongo::Client& client, const std::string& db) {
  return client.write(db, Document()
                              .add("insert", kCollection)
                              .add("documents", Array().push(Document().add("_id", kTurn))));
}

}  // namespace

ScanLease::ScanLease(const mongo::Pool& pool, std::string db)
    : pool_(pool), db_(std::move(db)), holder_(new_holder()) {}

Reply ScanLease::take(mongo::Client& client, std::chrono::milliseconds lasts) const {
  const Document query = Document().add("_id", kTurn).append(free_for(holder_));
  return client.write(db_, Document()
                               .add("findAndModify", kCollection)
                               .add("query", query)
                               .add("update", hold(holder_, lasts)));
}

ScanLease::Turn ScanLease::acquire() {
  mongo::Client client = pool_.client();
  Reply reply = take(client, kLasts);
  if (reply.ok() && !value_of(reply)) {
    reply = make_turn(client, db_);
    if (reply.refused(mongo::kDuplicateKey)) return Turn::of_another;
    if (reply.ok()) {
      reply = take(client, kLasts);
      if (reply.ok() && !value_of(reply)) return Turn::of_another;
    }
  }
  if (!reply.ok() && reply.kind != Reply::Kind::refused) return Turn::unknown;
  ending_ = false;
  renews_ = std::thread([this] { renew(); });
  return Turn::mine;
}

void ScanLease::renew() {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, kRenewAfter, [this] { return ending_; })) {
    lock.unlock();
    {
      mongo::Client client = pool_.client();
      (void)take(client, kLasts);
    }
    lock.lock();
  }
}

void ScanLease::release() {
  if (!renews_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  end_.notify_one();
  renews_.join();
  mongo::Client client = pool_.client();
  (void)take(client, std::chrono::milliseconds(0));
}

}  // namespace idproxy::id_store
