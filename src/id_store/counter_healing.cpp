#include <algorithm>
#include <utility>

#include "id_store/counter_commands.hpp"
#include "id_store/counter_document.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;
using Heal = ids::CounterSpec::Heal;

// Other proxies may hold so many blocks of a counter that was lost: two each.
constexpr std::uint64_t kBlocksOfOthers = 128;

}  // namespace

// ---- create

Outcome<std::int64_t> CounterDocument::first_of_new(Run& run) {
  FieldNumbers stored(run.client, spec_, run.fields);
  const auto most = stored.most();
  if (!most) return most.error();
  std::optional<std::int64_t> first = spec_.start;
  const bool lost = run.job.lost || run.job.beyond;
  for (const auto& before : {most->number, run.job.beyond}) {
    const auto next = before ? numbers_.after(*before) : first;
    if (!next) return at_max();
    first = numbers_.further(*first, *next);
  }
  first = numbers_.after(*first, skipped(*most, lost));
  if (!first || numbers_.is_beyond_max(*first)) return at_max();
  if (most->is_known) return *first;
  const auto free = stored.first_free(*first, run.count);
  if (!free) return free.error();
  return free->first;
}

std::uint64_t CounterDocument::skipped(const FieldNumbers::Most& most, bool lost) const {
  if (!lost || most.is_guarded) return 0;
  return kBlocksOfOthers * (spec_.block.adaptive ? spec_.block.max : spec_.block.size);
}

CounterDocument::Attempt CounterDocument::create(Run& run, bool exists) {
  const auto first = first_of_new(run);
  if (!first) return first.error();
  const auto value = numbers_.value_before(*first);
  if (!value) return at_max();
  Document command;
  if (exists) {
    command = find_and_modify(query(Document().add("$exists", false)))
                  .add("update", set_value(spec_.place.value_field, *value));
  } else {
    Document created = identity_;
    // Only _id is unique for certain: with a key of another name, two proxies could create two.
    if (spec_.place.key_field != "_id") {
      created = Document().add("_id", spec_.place.key).append(identity_);
    }
    created.add(spec_.place.value_field, *value);
    command.add("insert", spec_.place.collection).add("documents", Array().push(created));
  }
  const Reply reply = run.client.write(spec_.place.db, command);
  if (reply.refused(mongo::kDuplicateKey)) return std::nullopt;
  if (!reply.ok()) return after_failure(run, reply, false);
  if (!exists || value_of(reply)) events_.created(*first);
  return std::nullopt;
}

// ---- heal

CounterDocument::Attempt CounterDocument::heal(Run& run) {
  const auto found = read(run);
  if (!found) return found.error();
  if (!found->exists || found->value.kind == StoredValue::Kind::missing) {
    if (Attempt done = create(run, found->exists)) return done;
    return allocate(run);
  }
  if (!found->value.is_number()) return not_an_integer();
  auto from = numbers_.first_at(found->value.number);
  if (from && run.job.beyond) {
    const auto next = numbers_.after(*run.job.beyond);
    from = next ? std::optional(numbers_.further(*from, *next)) : std::nullopt;
  }
  if (!from) return at_max();

  const auto target = heal_target(run, *from);
  if (!target) return target.error();
  return target->by_gap ? fill_gap(run, found->value.number, target->first)
                        : raise(run, target->first);
}

/// `from`: what the counter would give out next, were it not healed.
Outcome<CounterDocument::HealTarget> CounterDocument::heal_target(Run& run, std::int64_t from) {
  FieldNumbers stored(run.client, spec_, run.fields);
  const auto most = stored.most();
  if (!most) return most.error();
  bool by_gap = spec_.heal.mode == Heal::Mode::gap || !most->is_known;
  std::optional<std::int64_t> first = from;
  if (!by_gap && most->number && !numbers_.is_ahead(from, *most->number)) {
    const auto max_jump = static_cast<std::uint64_t>(spec_.heal.max_jump);
    by_gap = Numbers::distance(*most->number, from) > max_jump;
    if (by_gap) {
      events_.jump_too_large(from, *most->number);
    } else {
      first = numbers_.after(*most->number);
    }
  }
  if (first) first = numbers_.after(*first, skipped(*most, run.job.lost));
  if (!first) return at_max();
  return HealTarget{*first, by_gap};
}

/// Past `from`, or past where somebody else has raised it to, and allocates at once.
CounterDocument::Attempt CounterDocument::raise(Run& run, std::int64_t from) {
  if (numbers_.is_beyond_max(from)) return at_max();
  const std::string& field = spec_.place.value_field;
  const auto floor = numbers_.value_before(from);
  run.count = floor ? std::min(run.count, numbers_.room_behind(*floor)) : 0;
  const auto increment = numbers_.increment(run.count);
  if (!increment || run.count == 0) return at_max();
  const Document base = Document().add(numbers_.upwards() ? "$max" : "$min",
                                       Array().push(to_long(field)).push(*floor));
  const Reply reply =
      run.client.write(spec_.place.db, find_and_modify(query(bound(*increment)))
                                           .add("update", set_sum(field, base, *increment))
                                           .add("new", true));
  if (!reply.ok()) return after_failure(run, reply, true);
  const auto image = value_of(reply);
  if (!image) return std::nullopt;
  const StoredValue after = stored_value(*image, field);
  if (!after.is_number()) return not_an_integer();
  const auto first = numbers_.first_at(after.number - *increment);
  if (!first) return at_max();
  events_.healed(*first, "max");
  return allocated(run, *first, run.count);
}

/// Compare-and-set: nobody else gets the numbers, or we start again.
CounterDocument::Attempt CounterDocument::fill_gap(Run& run, std::int64_t value,
                                                   std::int64_t from) {
  const auto free = FieldNumbers(run.client, spec_, run.fields).first_free(from, run.count);
  if (!free) return free.error();
  const auto next = numbers_.after(free->first, free->count);
  const auto stands = next ? numbers_.value_before(*next) : std::nullopt;
  if (!stands) return at_max();
  const Reply reply = run.client.write(
      spec_.place.db, find_and_modify(query(Document().add("$eq", value)))
                          .add("update", set_value(spec_.place.value_field, *stands)));
  if (!reply.ok()) return after_failure(run, reply, true);
  if (!value_of(reply) || free->count == 0) return std::nullopt;
  events_.healed(free->first, "gap");
  return allocated(run, free->first, free->count);
}

}  // namespace idproxy::id_store
