#include "id_store/machine_documents.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

#include "id_store/counter_commands.hpp"
#include "id_store/reply_reasons.hpp"

namespace idproxy::id_store {
namespace {

using ids::LeaseJob;
using ids::LeaseReply;
using mongo::Array;
using mongo::Document;
using mongo::Reply;

constexpr const char* kMachines = "machines";

/// A text that no other claim has, with the host's name for people.
std::string new_machine_owner() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  bson_oid_t id;
  bson_oid_init(&id, nullptr);
  std::array<char, 25> text{};
  bson_oid_to_string(&id, text.data());
  return std::string(host.data()) + " " + text.data();
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

/// Of a claim and of a renewal.
Document machine_held(const std::string& owner, const LeaseJob& job) {
  return {{"owner", {"$literal", owner}},
          {"expires", {"$add", Array{"$$NOW", std::int64_t{job.spec.ttl.count()}}}},
          {"ts_ceiling", {"$max", Array{"$ts_ceiling", job.ceiling}}}};
}

LeaseReply lease_failure(const mongo::Client& client, const LeaseJob& job, const Reply& reply) {
  return {LeaseReply::Kind::failed, 0, 0, 0, after_error(client, reply, job.spec.store_db)};
}

Reply count_machines(mongo::Client& client, const LeaseJob& job, const Document& query) {
  return client.read(job.spec.store_db, {{"count", kMachines}, {"query", query}});
}

/// Inserts the document of a number that has none.
Reply make_machine(mongo::Client& client, const LeaseJob& job, std::int32_t number) {
  const Document machine{{"_id", machine_id(job.spec, number)},
                         {"owner", ""},
                         {"expires", bson::Type::date, std::array<std::uint8_t, 8>{}},  // 1970
                         {"ts_ceiling", std::int64_t{0}}};
  return client.write(job.spec.store_db, {{"insert", kMachines}, {"documents", Array{machine}}});
}

LeaseReply none_free(mongo::Client& client, const LeaseJob& job) {
  const ids::LeaseSpec& spec = job.spec;
  const Reply ahead = count_machines(client, job, machines_of(spec, has_expired()));
  const std::string of_lease = " of the lease '" + spec.name + "'";
  std::string why = "all " + std::to_string(spec.numbers) + " machine numbers" + of_lease +
                    " are held by other proxies: one of them has to stop, or all need more "
                    "machine_bits";
  if (spec.id) {
    why = "machine number " + std::to_string(*spec.id) + of_lease +
          " is held by another proxy: give this one another machine.id, or none";
  }
  if (mongo::integer_in(ahead.document.bytes(), "n") > 0) {
    why = "the machine numbers" + of_lease +
          " that are free have ids whose times are more than a second ahead of this host's clock: "
          "set that right, or wait for it";
  }
  const ids::Errc code = spec.id ? ids::Errc::exhausted : ids::Errc::unavailable;
  return {LeaseReply::Kind::none, 0, 0, 0, {code, std::move(why)}};
}

}  // namespace

/// Takes the free number with the lowest ceiling. Numbers get their documents when all that have
/// one are held.
LeaseReply MachineDocuments::claim(mongo::Client& client, const LeaseJob& job) const {
  const ids::LeaseSpec& spec = job.spec;
  // Changes nothing, but needs the privilege to write, and a primary with a majority.
  const Document none{"_id", {"$in", Array()}};
  const Document free{machines_of(spec, has_expired()), {"ts_ceiling", {"$lte", job.most_ceiling}}};
  const Document take =
      change_machine(claims_ == Claims::no ? none : free, machine_held(owner_, job));
  const Reply known = count_machines(client, job, machines_of(spec));
  const std::int64_t all = spec.id ? 1 : spec.numbers;
  const std::int64_t made = mongo::integer_in(known.document.bytes(), "n");
  for (std::int64_t i = made; known.ok(); ++i) {
    const Reply reply = client.write(spec.store_db, take);
    if (!reply.ok()) return lease_failure(client, job, reply);
    if (claims_ == Claims::no) return {LeaseReply::Kind::held, 0, 0, job.ceiling};
    if (const auto found = value_of(reply)) {
      std::int32_t number = -1;
      const std::string_view id = mongo::text_in(*found, "_id");
      std::from_chars(id.data() + id.rfind('/') + 1, id.data() + id.size(), number);
      const std::int64_t floor = mongo::integer_in(*found, "ts_ceiling");
      if (spec.may_have(number) && id == machine_id(spec, number)) {
        return {LeaseReply::Kind::held, number, floor, job.ceiling};
      }
    }
    if (made >= all || i - made >= all) return none_free(client, job);
    const auto number = spec.id.value_or(static_cast<std::int32_t>(i % all));
    const Reply inserted = make_machine(client, job, number);
    if (!inserted.ok() && !inserted.refused(mongo::kDuplicateKey)) {
      return lease_failure(client, job, inserted);
    }
  }
  return lease_failure(client, job, known);
}

LeaseReply MachineDocuments::run(mongo::Client& client, const LeaseJob& job) {
  using Kind = LeaseReply::Kind;
  if (job.kind == LeaseJob::Kind::claim) {
    owner_ = new_machine_owner();
    return claim(client, job);
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
  return {Kind::held, job.number, 0, mongo::integer_in(*now, "ts_ceiling")};
}

}  // namespace idproxy::id_store
