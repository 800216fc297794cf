#include "id_store/counter_run.hpp"

#include <cstddef>
#include <optional>
#include <thread>

#include "id_store/reply_reasons.hpp"
#include "id_store/server_text.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

// A failed write is retried at once until a job has taken this long.
constexpr std::chrono::milliseconds kQuick{500};
// A server refuses to create a counter while it drops the database: the drop needs a majority.
constexpr std::chrono::milliseconds kDropPause{40};

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

}  // namespace

ids::Result<FoundCounter> CounterRun::read() {
  const Reply reply = client.read_first(
      spec.place.db, {{"find", spec.place.collection}, {"filter", counter.identity}, {"limit", 1}});
  if (!reply.ok()) return answer_to(reply);
  unreached.clear();
  const Bytes document = reply.document.bytes();
  FoundCounter found{!reply.document.empty(), stored_value(document, spec.place.value_field)};
  if (found.exists) {
    const auto lacks = lacks_seal(spec, counter.events.counter(), document);
    if (!lacks) return lacks.error();
    found.lacks_seal = *lacks;
  }
  if (spec.place.is_range()) found.last = stored_value(document, spec.place.max_field);
  return found;
}

ids::Error CounterRun::answer_to(const Reply& reply) {
  unreached = why_unreached(reply, client.login());
  const bool is_of_the_value =
      reply.kind == Reply::Kind::refused &&
      (reply.code == ErrorCode::type_mismatch || reply.code == ErrorCode::conversion_failure);
  return is_of_the_value ? not_an_integer() : after_error(client, reply, spec.place.db);
}

Attempt CounterRun::after_failure(const Reply& reply, bool gives_numbers) {
  const bool is_early = std::chrono::steady_clock::now() - begun < kQuick;
  if (reply.refused(ErrorCode::database_drop_pending) && is_early) {
    std::this_thread::sleep_for(kDropPause);
    return std::nullopt;
  }
  if (reply.kind == Reply::Kind::refused) return answer_to(reply);
  if (gives_numbers && !reply.not_carried_out) {
    drop_block(server_text(reply.code, reply.message));
  }
  // A retry may find another server. But if there was none, libmongoc has already searched for
  // long, and a refused login would be refused again.
  if (!reply.was_not_sent() && is_early) return std::nullopt;
  return answer_to(reply);
}

void CounterRun::drop_block(std::string_view reason) const {
  counter.metrics.blocks_dropped.fetch_add(1, std::memory_order_relaxed);
  counter.events.block_dropped(reason);
}

Document CounterRun::query(const Document& value) const {
  const bool hides = !spec.seal.fpe.empty();
  const Document seal = hides ? seal_of(spec) : Document{"fpe", {"$exists", false}};
  return {counter.identity, {spec.place.value_field, value}, seal};
}

Document CounterRun::bound(std::int64_t increment) const {
  const std::int64_t end = numbers.upwards() ? INT64_MAX : INT64_MIN;
  std::int64_t most = numbers.value_before(numbers.max()).value_or(numbers.max());
  const std::int64_t fits = end - increment;
  most = numbers.is_ahead(most, fits) ? fits : most;
  return {{"$type", Array{"int", "long", "double"}}, {numbers.upwards() ? "$lte" : "$gte", most}};
}

ids::Error CounterRun::not_an_integer() const {
  return exhausted("the value of counter " + counter.events.counter() + " is not an integer");
}

}  // namespace idproxy::id_store
