#include "id_store/machine_documents.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "id_store/counter_commands.hpp"
#include "id_store/reply_reasons.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

using ids::LeaseJob;
using ids::LeaseReply;
using mongo::Array;
using mongo::Document;
using mongo::Reply;

constexpr const char* kMachines = "machines";

std::string new_text() {
  bson_oid_t id;
  bson_oid_init(&id, nullptr);
  std::array<char, 25> text{};
  bson_oid_to_string(&id, text.data());
  return text.data();
}

/// The beginning of its owners, which no other process has, with the host's name for people.
const std::string& this_process() {
  static const std::string text = [] {
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
    return std::string(host.data()) + " " + new_text() + " ";
  }();
  return text;
}

std::string machine_id(const ids::LeaseSpec& spec, std::int32_t number) {
  return spec.name + "/" + std::to_string(number);
}

Document has_expired() {
  return {"$lt", Array{"$expires", "$$NOW"}};
}

/// {_id: …, $expr: {$and: […]}}: those that the rules may have, of which `more` is true. Others may
/// have more machine_bits.
Document machines_of(const ids::LeaseSpec& spec, const Document& more = {"$eq", Array{1, 1}}) {
  Document ids{{"$gte", spec.name + "/"}, {"$lt", spec.name + "0"}};  // 0 follows the slash
  if (spec.id) ids = Document{"$eq", machine_id(spec, *spec.id)};
  const Document behind_slash{"$arrayElemAt", Array{Document{"$split", Array{"$_id", "/"}}, 1}};
  const Document number{"$convert",
                        {{"input", behind_slash}, {"to", "int"}, {"onError", spec.numbers}}};
  const Document is_below{"$lt", Array{number, spec.numbers}};
  return {{"_id", ids}, {"$expr", {"$and", Array{is_below, more}}}};
}

Document change_machine(const Document& query, const Document& set) {
  return {{"findAndModify", kMachines},
          {"query", query},
          {"update", Array{Document{"$set", set}}},
          {"sort", {"ts_ceiling", 1}}};
}

Document is_owned(const std::string& owner) {
  return {"$eq", Array{"$owner", Document{"$literal", owner}}};
}

/// Of a claim and of a renewal.
Document machine_held(const std::string& owner, const LeaseJob& job) {
  return {{"owner", {"$literal", owner}},
          {"expires", {"$add", Array{"$$NOW", std::int64_t{job.spec.ttl.count()}}}},
          {"ts_ceiling", {"$max", Array{"$ts_ceiling", job.ceiling}}},
          {"floor", {"$cond", Array{is_owned(owner), "$floor", "$ts_ceiling"}}}};
}

LeaseReply lease_failure(const mongo::Client& client, const LeaseJob& job, const Reply& reply) {
  return {LeaseReply::Kind::failed, 0, 0, 0, after_error(client, reply, job.spec.store_db)};
}

bool has_machine(mongo::Client& client, const LeaseJob& job, const Document& more) {
  const Reply found = client.read_first(
      job.spec.store_db, {{"find", kMachines}, {"filter", machines_of(job.spec, more)}});
  return !bson::text_in(found.document.bytes(), "_id").empty();
}

/// Inserts the document of a number that has none.
Reply make_machine(mongo::Client& client, const LeaseJob& job, std::int32_t number) {
  const Document machine{{"_id", machine_id(job.spec, number)},
                         {"owner", ""},
                         {"expires", bson::Type::date, std::array<std::uint8_t, 8>{}},  // 1970
                         {"ts_ceiling", std::int64_t{0}}};
  return client.write(job.spec.store_db, {{"insert", kMachines}, {"documents", Array{machine}}});
}

/// The number that a command of the claim got.
std::optional<LeaseReply> machine_taken(const LeaseJob& job, const Reply& reply) {
  const auto found = value_of(reply);
  if (!found) return std::nullopt;
  std::int32_t number = -1;
  const std::string_view id = bson::text_in(*found, "_id");
  std::from_chars(id.data() + id.rfind('/') + 1, id.data() + id.size(), number);
  if (!job.spec.may_have(number) || id != machine_id(job.spec, number)) return std::nullopt;
  return LeaseReply{LeaseReply::Kind::held, number, bson::integer_in(*found, "floor"),
                    bson::integer_in(*found, "ts_ceiling")};
}

LeaseReply none_free(mongo::Client& client, const LeaseJob& job) {
  const ids::LeaseSpec& spec = job.spec;
  const std::string of_lease = " of the lease '" + spec.name + "'";
  ids::Error error{ids::Errc::unavailable, ""};
  error.reason = "all " + std::to_string(spec.numbers) + " machine numbers" + of_lease +
                 " are held by other proxies: one of them has to stop, or all need more "
                 "machine_bits";
  const Document is_own{
      "$eq", Array{Document{"$indexOfBytes", Array{"$owner", Document{"$literal", this_process()}}},
                   std::int64_t{0}}};
  if (spec.id) {
    error.is_transient = has_machine(client, job, is_own);
    if (!error.is_transient) error.code = ids::Errc::exhausted;
    error.reason = "machine number " + std::to_string(*spec.id) + of_lease +
                   (error.is_transient
                        ? " is still held by the rules that this proxy had before"
                        : " is held by another proxy: give this one another machine.id, or none");
  }
  if (has_machine(client, job, has_expired())) {
    error.code = ids::Errc::unavailable;
    error.reason =
        "the machine numbers" + of_lease +
        " that are free have ids whose times are more than a second ahead of this host's clock: "
        "set that right, or wait for it";
  }
  return {LeaseReply::Kind::none, 0, 0, 0, std::move(error)};
}

}  // namespace

/// Takes the free number with the lowest ceiling. Numbers get their documents when all that have
/// one are held.
LeaseReply MachineDocuments::claim(mongo::Client& client, const LeaseJob& job) const {
  const ids::LeaseSpec& spec = job.spec;
  // Changes nothing, but needs the privilege to write, and a primary with a majority.
  const Document none{"_id", {"$in", Array()}};
  const Document free{machines_of(spec, has_expired()), {"ts_ceiling", {"$lte", job.most_ceiling}}};
  const auto take_of = [&](const Document& query) {
    Document sent = change_machine(query, machine_held(owner_, job));
    return client.write(spec.store_db, sent.add("new", true));
  };
  if (claims_ == Claims::no) {
    const Reply reply = take_of(none);
    if (!reply.ok()) return lease_failure(client, job, reply);
    return {LeaseReply::Kind::held, spec.id.value_or(0), 0, job.ceiling};
  }
  if (!has_claimed_) {
    const Reply own = take_of(machines_of(spec, is_owned(owner_)));
    if (!own.ok()) return lease_failure(client, job, own);
    if (const auto again = machine_taken(job, own)) return *again;
  }
  const Reply known =
      client.read(spec.store_db, {{"count", kMachines}, {"query", machines_of(spec)}});
  const std::int64_t all = spec.id ? 1 : spec.numbers;
  const std::int64_t made = bson::integer_in(known.document.bytes(), "n");
  for (std::int64_t i = made; known.ok(); ++i) {
    const Reply reply = take_of(free);
    if (!reply.ok()) return lease_failure(client, job, reply);
    if (const auto taken = machine_taken(job, reply)) return *taken;
    if (made >= all || i - made >= all) return none_free(client, job);
    const auto number = spec.id.value_or(static_cast<std::int32_t>(i % all));
    const Reply inserted = make_machine(client, job, number);
    if (!inserted.ok() && !inserted.refused(ErrorCode::duplicate_key)) {
      return lease_failure(client, job, inserted);
    }
  }
  return lease_failure(client, job, known);
}

LeaseReply MachineDocuments::run(mongo::Client& client, const LeaseJob& job) {
  using Kind = LeaseReply::Kind;
  if (job.kind == LeaseJob::Kind::claim) {
    if (has_claimed_) owner_ = this_process() + new_text();
    LeaseReply reply = claim(client, job);
    has_claimed_ = reply.kind == Kind::held;
    return reply;
  }
  const bool renews = job.kind == LeaseJob::Kind::renew;
  if (claims_ == Claims::no) {
    return {renews ? Kind::held : Kind::released, job.number, 0, job.ceiling};
  }
  const Document own{{"_id", machine_id(job.spec, job.number)}, {"owner", owner_}};
  const Document free{{"owner", ""}, {"expires", "$$NOW"}, {"ts_ceiling", job.ceiling}};
  Document sent = change_machine(own, renews ? machine_held(owner_, job) : free);
  const Reply reply = client.write(job.spec.store_db, sent.add("new", true));
  if (!reply.ok()) return lease_failure(client, job, reply);
  if (!renews) return {Kind::released};
  const auto now = value_of(reply);
  if (!now) return {Kind::gone};
  return {Kind::held, job.number, 0, bson::integer_in(*now, "ts_ceiling")};
}

}  // namespace idproxy::id_store
