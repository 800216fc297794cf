#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "id_store/advice.hpp"
#include "id_store/counter_commands.hpp"
#include "id_store/counter_run.hpp"
#include "id_store/index.hpp"
#include "id_store/outliers.hpp"
#include "id_store/server_text.hpp"

namespace idproxy::id_store {
namespace {

using ids::CounterReply;
using mongo::Array;
using mongo::Document;
using mongo::Reply;
using Heal = ids::CounterSpec::Heal;

// How many blocks of a lost counter other proxies may hold: two for each of 64 proxies.
constexpr std::uint64_t kBlocksOfOthers = 128;
// The most documents in one insert. A block grows with the requests that wait for it.
constexpr std::uint64_t kMostInOneInsert = 100'000;
// How long a counter may read small collections itself.
constexpr std::chrono::milliseconds kSmallScan{1000};

/// It may have another name than make_index_of() gives it.
bool has_index(mongo::Client& client, const ids::CounterPlace& place) {
  std::vector<Index> indexes;
  (void)list_indexes(client, {place.db, place.collection}, indexes);
  return std::ranges::any_of(indexes, [&](const Index& index) {
    return index.unique && index.partial.kind == Index::Partial::Kind::none &&
           has_key(index, place.scope_field, {{place.name_field}});
  });
}

std::uint64_t count_of(std::span<const ids::Range> ranges) {
  std::uint64_t count = 0;
  for (const ids::Range& range : ranges) count += range.count;
  return count;
}

constexpr std::string_view kGoesFar =
    "stored numbers are more than heal.max_jump ahead of `start`, and too many to be ignored";
constexpr std::string_view kIgnored =
    "a few stored numbers are more than heal.max_jump ahead; the counter ignores them";

enum class Loss {
  none,
  possible,  ///< judging by what is stored; this process never had numbers of it
  certain,   ///< somebody had numbers of it: this process, or it is marked
};

/// The one further ahead of `first` and the number after `number`; nothing at int64's end.
std::optional<std::int64_t> behind(const CounterRun& run, std::optional<std::int64_t> first,
                                   std::optional<std::int64_t> number) {
  if (!first || !number) return first;
  const auto next = run.numbers.after(*number);
  return next ? std::optional(run.numbers.further(*first, *next)) : std::nullopt;
}

bool is_too_far(const CounterRun& run, std::int64_t from, const FieldNumbers::Reading& reading) {
  const auto max_jump = static_cast<std::uint64_t>(run.spec.heal.max_jump);
  return reading.most() && is_jump_too_large(run.numbers, max_jump, from, *reading.most());
}

/// Of hidden numbers that documents seem to have: values of somebody else look like any number.
void leave_out_far(const CounterRun& run, std::int64_t from, FieldNumbers::Reading& reading) {
  if (!has_hidden(run.fields)) return;
  const auto max_jump = static_cast<std::uint64_t>(run.spec.heal.max_jump);
  std::erase_if(reading.furthest, [&](std::int64_t number) {
    return is_jump_too_large(run.numbers, max_jump, from, number);
  });
  const std::size_t outliers = count_outliers_of_latest(reading.furthest);
  reading.furthest.erase(reading.furthest.begin(),
                         reading.furthest.begin() + static_cast<std::ptrdiff_t>(outliers));
}

/// Call it if the jump is too large: removes outliers (outliers.hpp) from `reading`. Returns a
/// warning for the log, or "".
ids::Result<std::string_view> ignore_outliers(const CounterRun& run, FieldNumbers& stored,
                                              FieldNumbers::Reading& reading, std::int64_t from) {
  if (reading.asked < kOutlierSample) {
    auto wider = stored.read_furthest(kOutlierSample);
    if (!wider) return wider.error();
    reading = *std::move(wider);
  }
  const std::size_t outliers =
      count_outliers(run.numbers, static_cast<std::uint64_t>(run.spec.heal.max_jump), from,
                     reading.furthest, reading.is_guarded ? MayMeet::yes : MayMeet::no);
  reading.furthest.erase(reading.furthest.begin(),
                         reading.furthest.begin() + static_cast<std::ptrdiff_t>(outliers));
  if (is_too_far(run, from, reading)) return kGoesFar;
  return outliers > 0 ? kIgnored : std::string_view();
}

/// Leaves room for the numbers of a lost counter that other proxies may hold, unless a unique index
/// would detect duplicates of them.
ids::Result<std::int64_t> behind_others(CounterRun& run, std::int64_t first,
                                        const FieldNumbers::Reading& reading, Loss loss) {
  if (loss == Loss::none || reading.is_guarded || run.numbers.is_beyond_max(first)) return first;
  const std::uint64_t block = run.spec.block.most();
  const std::uint64_t each = loss == Loss::certain ? std::max(block, kMostInOneInsert) : block;
  const auto result = run.numbers.after(first, kBlocksOfOthers * each);
  if (result && !run.numbers.is_beyond_max(*result)) return *result;
  return advice::no_room(run.client, run.spec, run.fields,
                         run.numbers.value_before(first).value_or(first));
}

/// A counter that cannot be healed may go on, since the unique index reports each taken number. It
/// must not if it was lost, because other proxies may hold the next numbers, or if this process
/// never had a number and the rule requires a heal first (heal.at_start).
ids::Error refused_heal(CounterRun& run, ids::Error why) {
  run.not_healed = why.code == ids::Errc::exhausted && !run.job.lost && run.job.beyond;
  return why;
}

/// True if the counter is where this process left it, or further: the duplicates do not come from a
/// counter that was set back, and what the process holds is nobody else's.
bool is_in_place(const CounterRun& run, std::int64_t stands) {
  return !run.job.lost && run.job.beyond && run.numbers.is_ahead(stands, *run.job.beyond);
}

bool is_past(const CounterRun& run, std::int64_t stands, const FieldNumbers::Reading& reading) {
  return !reading.most() || run.numbers.is_ahead(stands, *reading.most());
}

/// Of the numbers that the process holds, those that it must not give out. Where nothing would
/// detect that one is taken, or free ones cannot be looked for, these are all up to the furthest
/// that is stored; where stored values say nothing, simply all.
ids::Result<std::vector<ids::Range>> taken_of_held(CounterRun& run, FieldNumbers& stored,
                                                   const FieldNumbers::Reading& reading) {
  if (std::ranges::any_of(run.fields, &ids::CounterField::repeats)) return run.job.held;
  if (reading.is_known && !reading.most()) return std::vector<ids::Range>();
  std::vector<ids::Range> suspects;
  for (const ids::Range& range : run.job.held) {
    const std::uint64_t up_to =
        reading.is_known ? run.numbers.count(range.first, *reading.most()) : range.count;
    const ids::Range part{range.first, std::min(range.count, up_to)};
    if (part.count > 0) suspects.push_back(part);
  }
  if (!reading.is_guarded || has_pattern(run.fields)) return suspects;
  return stored.taken_among(suspects);
}

/// Looks for free numbers: among those that the process holds, else in front of the counter.
ids::Result<HealTarget> by_gap(CounterRun& run, FieldNumbers& stored,
                               const FieldNumbers::Reading& reading, std::int64_t stands) {
  if (is_in_place(run, stands)) {
    auto taken = taken_of_held(run, stored, reading);
    if (!taken) return refused_heal(run, taken.error());
    if (count_of(*taken) < count_of(run.job.held)) return HealTarget{stands, false, *taken};
  }
  auto from = behind(run, stands, run.job.beyond);
  if (has_hidden(run.fields)) from = behind(run, from, reading.most());
  if (!from) return at_max(run.spec);
  return HealTarget{*from, true};
}

/// A counter stays where it is if another proxy has already raised it past all that this one knows
/// of and past what others may hold.
ids::Result<HealTarget> past_what_is_stored(CounterRun& run, std::int64_t stands,
                                            const FieldNumbers::Reading& reading) {
  std::optional<std::int64_t> most = run.job.beyond;
  if (reading.most()) most = run.numbers.further(most.value_or(*reading.most()), *reading.most());
  const auto next = most ? run.numbers.after(*most) : stands;
  if (!next) return at_max(run.spec);
  const bool fell_behind = reading.most() && !run.numbers.is_ahead(stands, *reading.most());
  // This process never had a number (heal.at_start), but another one had.
  const bool may_be_lost = fell_behind && !run.job.beyond;
  const auto safe = behind_others(run, *next, reading,
                                  run.job.lost  ? Loss::certain
                                  : may_be_lost ? Loss::possible
                                                : Loss::none);
  if (!safe) return safe.error();
  return HealTarget{run.numbers.further(stands, *safe), false};
}

/// Reads small collections at once. Nothing: they are not, or cannot be read now.
std::optional<ids::Result<FieldNumbers::Reading>> read_small(
    const CounterRun& run, const FieldPlaces& places, const std::vector<FieldPlace>& scanned) {
  const auto limit = std::min<std::chrono::milliseconds>(run.spec.scan, kSmallScan);
  if (limit.count() == 0 || !run.counter.scans.are_small(run.client, scanned)) return std::nullopt;
  FieldNumbers stored(run.client, run.spec, run.fields);
  stored.use(places);
  stored.allow_scans(limit);
  auto reading = stored.read_furthest(kOutlierSample);
  if (!reading) return std::nullopt;  // a scan tries again until the cause is removed
  reading->read_all = true;
  return reading;
}

ids::Result<FieldNumbers::Reading> read_for_new(const CounterRun& run, FieldNumbers& stored) {
  const auto scanned = stored.places_to_scan();
  if (!scanned) return scanned.error();
  if (scanned->empty()) return stored.read_furthest(1);
  if (auto read = read_small(run, stored.places(), *scanned)) return *std::move(read);
  auto reading =
      run.counter.scans.ask({run.spec, {run.fields.begin(), run.fields.end()}, stored.indexes()});
  if (reading) reading->read_all = true;
  return reading;
}

/// Other programs create counters, too, and then only the index prevents that there are two.
void make_counters_index(const CounterRun& run) {
  const auto command = make_index_of(run.spec.place);
  if (!command) return;
  const Reply reply = run.client.write(run.spec.place.db, *command);
  if (reply.kind != Reply::Kind::refused || has_index(run.client, run.spec.place)) return;
  run.counter.events.index_refused(error_text(reply), index_by_hand(run.spec.place));
}

// ---- marks
//
// A process writes a counter's mark, with majority, before it gives out its first number of it. So
// a process that finds neither counter nor mark knows that nobody has numbers of it, and that the
// new counter may begin right behind what is stored. If it dies between two writes:
// - the counter is there, its mark is not: nobody has numbers. The next process to allocate writes
//   the mark; if the counter is lost before that, a new one begins where this one did.
// - the mark is there, its counter is not: this order does not occur. If it is made by hand, the
//   counter counts as lost, and a new one skips ahead, which is a gap and never a duplicate.
// Proxies of release 0.1 write no marks. A counter that they use gets its mark from the first newer
// proxy.

ids::Result<bool> was_given_out(CounterRun& run, bool exists) {
  if (run.counter.marked || run.job.lost || run.job.beyond) return true;
  const Reply mark = run.client.read_first(run.spec.place.db, find_mark(run.spec.place, exists));
  if (!mark.ok()) return run.answer_to(mark);
  return !mark.document.empty();
}

/// For stored strings whose maximum cannot be read: searches for free numbers from the first one.
/// The next job continues where this one ends.
ids::Result<NewCounter> first_free_of_new(CounterRun& run, FieldNumbers& stored,
                                          NewCounter created) {
  const std::int64_t from =
      run.numbers.further(created.first, run.counter.taken_up_to.value_or(created.first));
  const auto free = stored.first_free(from, run.count);
  if (!free) return free.error();
  if (free->count == 0) {
    run.counter.taken_up_to = free->first;
    return failed("still looking for a free number for counter " + run.counter.events.counter());
  }
  created.first = free->first;
  return created;
}

/// Raises the counter, which stood at `stands`, to `from`, unless it is already further, and
/// allocates in the same command.
Attempt raise(CounterRun& run, std::int64_t stands, std::int64_t from) {
  if (run.numbers.is_beyond_max(from)) return at_max(run.spec);
  const std::string& field = run.spec.place.value_field;
  const auto floor = run.numbers.value_before(from);
  run.count = floor ? std::min(run.count, run.numbers.room_behind(*floor)) : 0;
  const auto increment = run.numbers.increment(run.count);
  if (!increment || run.count == 0) return at_max(run.spec);
  if (run.spec.place.is_range()) return allocate_in_range(run, from);
  const Document base{run.numbers.upwards() ? "$max" : "$min", Array{to_long(field), *floor}};
  const Reply reply = run.change(run.bound(*increment), set_sum(field, base, *increment));
  if (!reply.ok()) return run.after_failure(reply, true);
  const auto pre_image = value_of(reply);
  if (!pre_image) return std::nullopt;
  const StoredValue before = stored_value(*pre_image, field);
  if (!before.is_number()) return run.not_an_integer();
  const auto first = run.numbers.first_at(run.numbers.further(before.number, *floor));
  if (!first) return at_max(run.spec);
  if (run.numbers.is_ahead(from, stands)) run.counter.events.healed(*first, "max");
  return allocated(run, *first, run.count);
}

/// Allocates free numbers by compare-and-set: if another proxy changed the counter, tries again.
Attempt fill_gap(CounterRun& run, std::int64_t value, std::int64_t from) {
  const auto free = FieldNumbers(run.client, run.spec, run.fields).first_free(from, run.count);
  if (!free) return free.error();
  const auto next = run.numbers.after(free->first, free->count);
  const auto stands = next ? run.numbers.value_before(*next) : std::nullopt;
  if (!stands) return at_max(run.spec);
  const Reply reply = run.change({"$eq", value}, set_value(run.spec.place.value_field, *stands));
  if (!reply.ok()) return run.after_failure(reply, true);
  if (!value_of(reply) || free->count == 0) return std::nullopt;
  run.counter.events.healed(free->first, "gap");
  return allocated(run, free->first, free->count);
}

}  // namespace

ids::Result<void> mark(CounterRun& run) {
  constexpr int kAttempts = 16;
  if (run.counter.marked) return {};
  run.counter.mark_first = true;
  for (int i = 0; i < kAttempts; ++i) {
    const Reply reply = run.client.write(run.spec.place.db, write_mark(run.spec.place));
    // Another proxy has just written it, perhaps not yet with majority. A repetition waits for
    // that.
    if (reply.refused(ErrorCode::duplicate_key)) continue;
    if (reply.ok()) {
      run.counter.marked = true;
      run.counter.mark_first = false;
      return {};
    }
    if (Attempt failure = run.after_failure(reply, false)) return std::move(failure->why);
  }
  return failed("the mark of counter " + run.counter.events.counter() + " cannot be written");
}

// ---- create

ids::Result<NewCounter> first_of_new(CounterRun& run, bool exists) {
  const auto was_used = was_given_out(run, exists);
  if (!was_used) return was_used.error();
  FieldNumbers stored(run.client, run.spec, run.fields);
  auto reading = read_for_new(run, stored);
  if (!reading) return reading.error();
  if (!reading->is_known && !reading->is_guarded) {
    return has_hidden(run.fields) ? advice::no_gap(run.client, run.fields)
                                  : advice::not_sorted(run.client, run.spec, run.fields);
  }
  auto first = behind(run, run.spec.start, run.job.beyond);
  if (!first) return at_max(run.spec);
  leave_out_far(run, *first, *reading);
  ids::Result<std::string_view> warning = std::string_view();
  if (is_too_far(run, *first, *reading)) warning = ignore_outliers(run, stored, *reading, *first);
  if (!warning) return warning.error();
  first = behind(run, first, reading->most());
  if (!first) return at_max(run.spec);
  const auto safe = behind_others(run, *first, *reading, *was_used ? Loss::certain : Loss::none);
  if (!safe) return safe.error();
  if (run.numbers.is_beyond_max(*safe)) return at_max(run.spec);
  const NewCounter created{*safe, *warning, reading->read_all, *was_used};
  return reading->is_known ? created : first_free_of_new(run, stored, created);
}

Attempt create(CounterRun& run, bool exists) {
  const auto created = first_of_new(run, exists);
  run.met_by_check = !created;
  if (!created) return created.error();
  return create_at(run, exists, *created);
}

Attempt create_at(CounterRun& run, bool exists, const NewCounter& created) {
  const auto value = run.numbers.value_before(created.first);
  if (!value) return at_max(run.spec);
  make_counters_index(run);
  const Reply reply =
      exists ? run.change({"$exists", false}, set_value(run.spec.place.value_field, *value))
             : run.client.write(run.spec.place.db,
                                {{"insert", run.spec.place.collection},
                                 {"documents", Array{new_counter(run.spec, *value)}}});
  if (reply.refused(ErrorCode::duplicate_key)) return std::nullopt;
  if (!reply.ok()) return run.after_failure(reply, false);
  if (exists && !value_of(reply)) return std::nullopt;
  if (created.was_used && !run.job.lost) run.counter.events.went_backwards();  // else it is said
  run.counter.events.created(created.first, created.warning);
  return std::nullopt;
}

// ---- heal

ids::Result<HealTarget> heal_target(CounterRun& run, std::int64_t stands) {
  FieldNumbers stored(run.client, run.spec, run.fields);
  auto reading = stored.read_furthest(1);
  if (!reading) return refused_heal(run, reading.error());
  if (!reading->is_known && !reading->is_guarded && !has_hidden(run.fields))
    return refused_heal(run, advice::not_sorted(run.client, run.spec, run.fields));
  const auto from = behind(run, stands, run.job.beyond);
  if (!from) return at_max(run.spec);
  leave_out_far(run, *from, *reading);
  if (run.spec.heal.mode == Heal::Mode::gap || !reading->is_known) {
    if (!reading->is_guarded) return refused_heal(run, advice::no_gap(run.client, run.fields));
    return by_gap(run, stored, *reading, stands);
  }
  if (is_too_far(run, *from, *reading)) {
    if (reading->is_guarded && !has_pattern(run.fields)) {
      run.counter.events.jump_too_large(*from, *reading->most());
      return by_gap(run, stored, *reading, stands);
    }
    // The numbers after a free one may be taken, and without an index nothing would detect that.
    const auto done = ignore_outliers(run, stored, *reading, *from);
    if (!done) return refused_heal(run, done.error());
    if (is_too_far(run, *from, *reading))
      return refused_heal(run, advice::too_far(run.client, run.fields));
  }
  if (!is_in_place(run, stands) || !is_past(run, stands, *reading)) {
    return past_what_is_stored(run, stands, *reading);
  }
  auto taken = taken_of_held(run, stored, *reading);
  if (!taken) return refused_heal(run, taken.error());
  return HealTarget{stands, false, *std::move(taken)};
}

Attempt heal(CounterRun& run) {
  const auto found = run.read();
  if (!found) return found.error();
  if (!found->has_value()) {
    if (run.spec.place.is_range()) return explain_range(run, *found);
    if (Attempt done = create(run, found->exists)) return done;
    return allocate(run);
  }
  if (found->lacks_seal) return seal(run, *found);
  if (!found->value.is_number()) return run.not_an_integer();
  const auto stands = run.numbers.first_at(found->value.number);
  if (!stands) return at_max(run.spec);
  const auto target = heal_target(run, *stands);
  if (!target) {
    CounterReply reply(target.error());
    if (run.not_healed) reply.kind = CounterReply::Kind::not_healed;
    return reply;
  }
  if (target->taken) {
    run.counter.events.ready_again();
    run.counter.events.numbers_taken(count_of(*target->taken));
    return CounterReply(CounterReply::Kind::kept, {}, {}, *target->taken);
  }
  return target->by_gap ? fill_gap(run, found->value.number, target->first)
                        : raise(run, *stands, target->first);
}

}  // namespace idproxy::id_store
