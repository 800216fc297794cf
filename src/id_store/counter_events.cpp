#include "id_store/counter_events.hpp"

#include <algorithm>
#include <utility>

#include "id_store/counter_commands.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::id_store {
namespace {

using log::Level;

// Number.MAX_SAFE_INTEGER
constexpr std::int64_t kMostInJavaScript = 9007199254740991;

// Numbers that return one by one can leave many ranges.
constexpr std::size_t kMostListed = 10;

/// "16 to 100"
std::string text_of(const ids::Range& range, std::int64_t step) {
  std::string text = std::to_string(range.first);
  if (range.count == 1) return text;
  const std::int64_t last = range.first + step * static_cast<std::int64_t>(range.count - 1);
  return text + " to " + std::to_string(last);
}

bool is_beyond_javascript(std::int64_t number) {
  return number > kMostInJavaScript || number < -kMostInJavaScript;
}

bool is_beyond_width(std::int64_t number, std::span<const ids::CounterField> fields) {
  return std::ranges::any_of(fields, [number](const ids::CounterField& field) {
    return field.format.pad > 0 && ids::digits_in(number, field.format) > field.format.pad;
  });
}

}  // namespace

CounterEvents::CounterEvents(const ids::CounterSpec& spec)
    : counter_(spec.place.db + "." + spec.place.collection + " " + key_text(spec.place)),
      start_(spec.start),
      step_(spec.step),
      is_range_(spec.place.is_range()) {}

void CounterEvents::created(std::int64_t first, std::string_view warning) const {
  constexpr std::string_view kMessage = "the counter did not exist and has been created";
  if (warning.empty()) {
    log::event(Level::info, "counter_created", kMessage, {{"counter", counter_}, {"first", first}});
    return;
  }
  log::event(Level::warning, "counter_created", kMessage,
             {{"counter", counter_}, {"first", first}, {"warning", warning}});
}

void CounterEvents::index_refused(const std::string& reason, const Commands& by_hand) const {
  log::event(Level::warning, "counter_index_missing",
             "the counters have no unique index, and the proxy cannot make it: another program may "
             "create a counter a second time",
             {{"counter", counter_}, {"reason", reason}, {"command", by_hand.text()}});
}

void CounterEvents::healed(std::int64_t first, std::string_view how) const {
  log::event(Level::warning, "counter_healed",
             "the counter was behind the stored numbers and has been set past them",
             {{"counter", counter_}, {"first", first}, {"how", how}});
}

void CounterEvents::went_backwards() const {
  log::event(
      Level::warning, "counter_backwards",
      "the counter has gone back or was removed, as by a restore of an older copy: it is set "
      "past all numbers that are stored. Without a unique index on the field, numbers may "
      "have been stored twice",
      {{"counter", counter_}});
}

void CounterEvents::numbers_taken(std::uint64_t skipped) const {
  log::event(Level::warning, "numbers_taken",
             "numbers that this proxy had from the counter were stored already: somebody stores "
             "numbers of their own. It leaves these out and goes on with the others",
             {{"counter", counter_}, {"skipped", skipped}});
}

void CounterEvents::numbers_lost(std::span<const ids::Range> numbers) const {
  std::string listed;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    count += numbers[i].count;
    if (i < kMostListed) listed += (i > 0 ? ", " : "") + text_of(numbers[i], step_);
  }
  if (numbers.size() > kMostListed) listed += ", …";
  log::event(Level::info, "numbers_lost",
             "unused numbers did not return to the counter, which has moved on: they are a gap",
             {{"counter", counter_}, {"numbers", listed}, {"count", count}});
}

void CounterEvents::block_dropped(std::string_view reason) const {
  log::event(Level::warning, "block_dropped",
             "numbers may have been allocated and will not be used",
             {{"counter", counter_}, {"reason", reason}});
}

void CounterEvents::jump_too_large(std::int64_t from, std::int64_t most) const {
  log::event(
      Level::warning, "heal_refused",
      "the largest stored number is more than heal.max_jump ahead: looking for free numbers before "
      "it instead",
      {{"counter", counter_}, {"from", from}, {"most", most}});
}

void CounterEvents::gives_no_numbers(const ids::Error& why) {
  if (std::exchange(reason_, why.reason) == why.reason) return;
  if (is_range_ && why.at_end) {
    log::event(Level::info, "range_exhausted", "all numbers of a range have been handed out",
               {{"range", counter_}});
  } else if (is_range_) {
    log::event(Level::warning, "range_left_out",
               "a range gives no numbers until the cause is removed; others take its place",
               {{"range", counter_}, {"reason", why.reason}});
  } else if (why.at_end) {
    log::event(Level::error, "counter_exhausted", "the counter gives no more numbers",
               {{"counter", counter_}, {"reason", why.reason}});
  } else {
    log::event(Level::error, "counter_refused",
               "the counter gives no numbers until the cause is removed",
               {{"counter", counter_}, {"reason", why.reason}});
  }
}

void CounterEvents::not_healed(const std::string& reason) {
  if (std::exchange(reason_, reason) == reason) return;
  log::event(Level::error, "heal_refused",
             "the counter cannot be set past the numbers that are stored",
             {{"counter", counter_}, {"reason", reason}});
}

void CounterEvents::ready_again() {
  if (std::exchange(reason_, {}).empty()) return;
  log::event(Level::info, "ready_again", "the counter gives numbers again",
             {{"counter", counter_}});
}

void CounterEvents::went_well(std::int64_t first, std::int64_t last,
                              std::span<const ids::CounterField> fields) {
  reason_.clear();
  const bool is_behind = step_ > 0 ? first < start_ : first > start_;
  if (!is_known_ && is_behind) {
    log::event(Level::warning, "counter_behind_start",
               "the counter already exists and stands before `start`, which is not used",
               {{"counter", counter_}, {"next", first}, {"start", start_}});
  }
  is_known_ = true;
  if (!is_beyond_width_ && is_beyond_width(last, fields)) {
    is_beyond_width_ = true;
    log::event(Level::warning, "counter_beyond_width",
               "numbers have more digits than their texts have room for: the texts no longer sort "
               "like the numbers",
               {{"counter", counter_}, {"number", last}});
  }
  const bool has_int64 = std::any_of(fields.begin(), fields.end(), [](const auto& field) {
    return field.format.output == ids::NumberFormat::Output::int64;
  });
  if (is_beyond_javascript_ || !has_int64 || !is_beyond_javascript(last)) return;
  is_beyond_javascript_ = true;
  log::event(Level::warning, "counter_beyond_javascript",
             "numbers have passed 9007199254740991; JavaScript rounds larger ones",
             {{"counter", counter_}, {"number", last}});
}

}  // namespace idproxy::id_store
