#include "idproxy/rewrite/status.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <variant>

#include "idproxy/bson/builder.hpp"
#include "rewrite/own_message.hpp"

namespace idproxy::rewrite {
namespace {

using bson::append_inside;

// Per rule; nobody reads more than that.
constexpr std::size_t kMostNotReady = 20;
constexpr std::size_t kMostNumbers = 20;
// A reply has at most 16 MiB + 16 KiB. Beyond this size, collections that are not ready are left
// out; everything else about rules and listeners takes far less than the rest of a reply.
constexpr std::size_t kMostStatusBytes = std::size_t{8} * 1024 * 1024;

constexpr std::string_view kNeeded =
    "mongo-idproxy: the status is for those who may do hostInfo on the cluster, which the role "
    "clusterMonitor includes; the server says: ";

void append_count(Buffer& out, std::string_view key, std::uint64_t count) {
  bson::append_int64(out, key, static_cast<std::int64_t>(count));
}

/// A count that may be larger than what BSON has.
std::uint64_t clamped(std::uint64_t count) {
  return std::min<std::uint64_t>(count, std::numeric_limits<std::int64_t>::max());
}

/// Appends an array with a document for each item, which `each` fills.
template <class Items, class Each>
void append_documents(Buffer& out, std::string_view key, const Items& items, Each each) {
  append_inside(out, bson::Type::array, key, [&] {
    std::size_t i = 0;
    for (const auto& item : items) {
      append_inside(out, bson::Type::document, std::to_string(i++), [&] { each(item); });
    }
  });
}

class StatusWriter {
 public:
  StatusWriter(const Status& status, Buffer& out)
      : status_(status), out_(out), most_(out.size() + kMostStatusBytes) {}

  void write() {
    bson::append_string(out_, "version", status_.version);
    bson::append_string(out_, "listener", status_.listener);
    bson::append_string(out_, "server", status_.server);
    append_documents(out_, "listeners", status_.listeners,
                     [&](const ListenerStatus& each) { listener(each); });
    rules();
    append_inside(out_, bson::Type::document, "counters", [&] { counters(); });
    if (status_.rules->store() == nullptr) return;
    append_inside(out_, bson::Type::document, "store",
                  [&] { store(status_.rules->store()->counts()); });
  }

 private:
  using NotReady = std::span<const ids::NotReady>;
  using Numbers = std::span<const ids::RuleNumbers>;

  void listener(const ListenerStatus& listener) {
    bson::append_string(out_, "address", listener.address);
    bson::append_string(out_, "server", listener.server);
    if (!listener.me.empty()) bson::append_string(out_, "me", listener.me);
    if (!listener.set_name.empty()) bson::append_string(out_, "setName", listener.set_name);
    bson::append_string(out_, "state", listener.state);
    bson::append_string(out_, "origin", listener.origin);
    append_count(out_, "connections", listener.connections);
  }

  void rules() {
    std::vector<ids::NotReady> not_ready;
    std::vector<ids::RuleNumbers> numbers;
    if (const ids::Store* store = status_.rules->store()) {
      not_ready = store->not_ready(kMostNotReady + 1);
      numbers = store->numbers(kMostNumbers);
    }
    sort(not_ready);
    sort(numbers);
    NotReady all_not_ready = not_ready;
    Numbers all_numbers = numbers;
    std::size_t index = 0;
    append_documents(out_, "rules", status_.rules->rules(), [&](const Rule& each) {
      const NotReady its_reasons = take(all_not_ready, index);
      const Numbers its_numbers = take(all_numbers, index);
      rule(each, its_reasons, its_numbers, status_.rules->outcomes(index));
      ++index;
    });
  }

  /// By rule and collection.
  template <class Item>
  static void sort(std::vector<Item>& items) {
    std::ranges::sort(items, {}, [](const Item& each) {
      return std::pair<std::size_t, std::string_view>(each.rule_index, each.ns);
    });
  }

  /// Removes and returns the items of this rule from the front of `rest`.
  template <class Item>
  static std::span<const Item> take(std::span<const Item>& rest, std::size_t rule_index) {
    const auto end = std::ranges::upper_bound(rest, rule_index, {}, &Item::rule_index);
    const auto its = rest.first(static_cast<std::size_t>(end - rest.begin()));
    rest = rest.subspan(its.size());
    return its;
  }

  void rule(const Rule& rule, NotReady not_ready, Numbers numbers, const RuleOutcomes& outcomes) {
    bson::append_string(out_, "ns", rule.ns);
    bson::append_string(out_, "field", rule.field);
    bson::append_string(out_, "strategy", rule.strategy_name);
    bson::append_bool(out_, "ready", not_ready.empty());
    if (!not_ready.empty()) reasons(not_ready);
    if (!numbers.empty() && out_.size() < most_) {
      append_documents(out_, "numbers", numbers, [&](const auto& each) { number(each); });
    }
    append_count(out_, "assigned", outcomes.assigned);
    append_count(out_, "resent", outcomes.resent);
    append_count(out_, "cured", outcomes.cured);
    append_count(out_, "givenUp", outcomes.given_up);
    append_count(out_, "foreign", outcomes.foreign);
    append_count(out_, "transient", outcomes.transient);
    append_count(out_, "surfaced", outcomes.surfaced);
    append_count(out_, "unacknowledged", outcomes.unacknowledged);
    append_count(out_, "handedOut", outcomes.handed_out);
    append_inside(out_, bson::Type::document, "upsertsForwarded", [&] {
      for (std::size_t reason = 0; reason < outcomes.forwarded.size(); ++reason) {
        const std::uint64_t count = outcomes.forwarded[reason];
        if (count > 0) append_count(out_, name_of(static_cast<ForwardReason>(reason)), count);
      }
    });
  }

  void reasons(NotReady not_ready) {
    const std::size_t most = out_.size() < most_ ? kMostNotReady : 0;
    append_documents(out_, "notReady", not_ready.first(std::min(most, not_ready.size())),
                     [&](const ids::NotReady& each) { reason(each); });
    if (not_ready.size() > most) bson::append_bool(out_, "truncated", true);
  }

  void reason(const ids::NotReady& not_ready) {
    bson::append_string(out_, "ns", not_ready.ns);
    if (not_ready.readiness.kind == ids::Readiness::Kind::left_alone) {
      return bson::append_string(out_, "errmsg",
                                 "a view or a time-series collection: no rule applies to it");
    }
    const ids::Error& error = not_ready.readiness.error;
    bson::append_int32(out_, "code", static_cast<std::int32_t>(code_of(error.code)));
    bson::append_string(out_, "errmsg", error.reason);
  }

  void number(const ids::RuleNumbers& numbers) {
    bson::append_string(out_, "ns", numbers.ns);
    if (!numbers.sequence.empty()) bson::append_string(out_, "sequence", numbers.sequence);
    if (const auto* counter = std::get_if<ids::CounterNumbers>(&numbers.numbers)) {
      if (counter->next) bson::append_int64(out_, "next", *counter->next);
      append_count(out_, "held", counter->held);
      if (counter->left) append_count(out_, "left", clamped(*counter->left));
      if (counter->reads_all) bson::append_bool(out_, "readsCollection", true);
      if (counter->ranges) {
        append_count(out_, "liveRanges", counter->ranges->live);
        append_count(out_, "ranges", counter->ranges->all);
      }
    } else if (const auto* space = std::get_if<ids::SpaceUse>(&numbers.numbers)) {
      if (space->documents) append_count(out_, "documents", *space->documents);
      bson::append_double(out_, "fill", space->fill);
      bson::append_double(out_, "maxFill", space->max_fill);
    }
  }

  void counters() {
    append_count(out_, "connections", status_.connections);
    append_count(out_, "insertsAssigned", status_.inserts_assigned);
    append_count(out_, "documentsRefused", status_.documents_refused);
    append_count(out_, "commandsFailed", status_.commands_failed);
  }

  void store(const ids::StoreCounts& counts) {
    append_count(out_, "roundTrips", counts.round_trips);
    append_count(out_, "blocks", counts.blocks);
    append_count(out_, "blocksDropped", counts.blocks_dropped);
    append_count(out_, "numbersAllocated", counts.numbers_allocated);
    append_count(out_, "numbersReturned", counts.numbers_returned);
    append_count(out_, "heals", counts.heals);
  }

  const Status& status_;
  Buffer& out_;
  std::size_t most_;
};

/// Reads `ok` of a reply. Nothing unless the reply has exactly one, which is 0 or 1.
std::optional<bool> ok_of(const wire::OpMsgView& reply) {
  std::optional<std::int64_t> ok;
  bson::Elements fields(reply.body());
  while (const auto field = fields.next()) {
    if (field->key != "ok") continue;
    if (ok) return std::nullopt;
    ok = field->as_integer();
    if (ok != 0 && ok != 1) return std::nullopt;
  }
  if (fields.malformed() || !ok) return std::nullopt;
  return *ok == 1;
}

void append_status(const wire::OpMsgView& reply, const Status& status, Buffer& out) {
  StatusWriter(status, out).write();
  bson::append_double(out, "ok", 1);
  for (const std::string_view key : {"$clusterTime", "operationTime"}) {
    if (const auto time = bson::find(reply.body(), key)) bson::append_copy(out, *time);
  }
}

}  // namespace

std::optional<CommandError> fault_of_database(const wire::OpMsgView& request) {
  const auto db = bson::find(request.body(), "$db");
  if (db && db->type == bson::Type::string && db->text() == "admin") return std::nullopt;
  return CommandError{ErrorCode::unauthorized,
                      "idproxy may only be run against the admin database."};
}

std::optional<CommandError> fault_of_status_request(const wire::OpMsgView& request) {
  if (auto fault = fault_of_database(request)) return fault;
  const auto what = bson::Elements(request.body()).next();
  if (!what || what->type != bson::Type::string || what->text() != "status") {
    return CommandError{ErrorCode::bad_value,
                        "mongo-idproxy: it answers {idproxy: \"status\"} and {idproxy: "
                        "\"next\"}, and nothing else"};
  }
  return std::nullopt;
}

void ask_for_right(const wire::OpMsgView& request, wire::PatchedMessage& out) {
  OwnCommand question(request, request.header().request_id);
  bson::append_int32(question.body(), "hostInfo", 1);
  question.send({}, "admin", out);
}

bool append_status_reply(const wire::OpMsgView& request, const wire::OpMsgView& reply,
                         const Status& status, Buffer& out) {
  const auto ok = ok_of(reply);
  if (!ok) return false;
  if (!*ok) {
    append_refusal(request, reply, kNeeded, out);
    return true;
  }
  ReplyFrame frame(out, reply.header().request_id, request.header().request_id,
                   request.has(wire::flag::kChecksumPresent));
  bson::Scope document(out);
  append_status(reply, status, out);
  document.close();
  frame.close();
  return true;
}

}  // namespace idproxy::rewrite
