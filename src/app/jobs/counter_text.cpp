#include "app/jobs/counter_text.hpp"

#include <boost/algorithm/string/join.hpp>
#include <boost/json/array.hpp>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "app/json_view.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::app::jobs {
namespace {

using id_store::StoredCounter;
using id_store::StoredNumbers;
using ValueIs = ids::CounterPlace::ValueIs;
using Int64 = std::numeric_limits<std::int64_t>;

bool is_full(const StoredCounter& counter) {
  const bool is_known = counter.is_gapless ? counter.next.has_value() : counter.value.is_number();
  return is_known && counter.left == 0;
}

bool has_max(const ids::CounterSpec& spec) {
  return spec.max != (spec.step > 0 ? Int64::max() : Int64::min());
}

std::string next_text(const StoredCounter& counter) {
  return counter.next && counter.left > 0 ? std::to_string(*counter.next) : "-";
}

std::string value_text_of(const StoredCounter& counter) {
  if (!counter.exists()) return "no document yet";
  const std::string& field = counter.spec.place.value_field;
  if (!counter.value.is_number()) return field + ": no integer";
  return field + ": " + std::to_string(counter.value.number);
}

/// In the words of docs/counters.md#layouts.
std::string_view meaning_of(const StoredCounter& counter) {
  return counter.spec.place.value_is == ValueIs::next ? "the next number"
                                                      : "the last number given out";
}

std::string stored_text(const StoredCounter& counter) {
  const bool is_next = counter.spec.place.value_is == ValueIs::next;
  return value_text_of(counter) +
         (counter.value.is_number() ? (is_next ? " (next)" : " (last given out)") : "");
}

std::string largest_text(const StoredNumbers& stored) {
  if (!stored.unknown.empty()) return "-";
  return stored.most ? std::to_string(*stored.most) : "none";
}

/// How many stored numbers the counter has not passed yet, or how many it is past them.
struct Distance {
  std::uint64_t behind = 0;
  std::uint64_t ahead = 0;  ///< 0: the next number is the one after the largest
};

std::optional<Distance> distance_of(const CounterView& view) {
  const auto next = view.counter.next;
  if (!next || !view.stored.most || !view.stored.unknown.empty()) return std::nullopt;
  const ids::Steps steps(view.counter.spec.step);
  if (const auto behind = steps.count(*next, *view.stored.most); behind > 0)
    return Distance{behind};
  const auto both = steps.count(*view.stored.most, *next);
  return Distance{0, both > 2 ? both - 2 : 0};
}

views::TableCell distance_cell(const CounterView& view) {
  const auto distance = distance_of(view);
  if (!distance) return {"-"};
  if (distance->behind > 0) return {with_commas(distance->behind) + " behind", views::Tone::bad};
  return {with_commas(distance->ahead) + " ahead"};
}

views::TableCell left_cell(const StoredCounter& counter) {
  if (is_full(counter)) return {"full", views::Tone::bad};
  if (!counter.next) return {"-"};
  return {has_max(counter.spec) ? with_commas(counter.left) : "no max"};
}

std::string rules_text(const StoredCounter& counter) {
  return printable(boost::algorithm::join(counter.rules, "; "));
}

/// "shop.orders"; of several collections, those of the first field.
std::string where(const CounterView& view) {
  const ids::CounterField& field = view.counter.fields.front();
  return field.field + " in " + field.ns;
}

bool is_ahead(const CounterView& view, std::int64_t a, std::int64_t of) {
  return view.counter.spec.step > 0 ? a > of : a < of;
}

/// Why it cannot be set at all.
std::string why_never(const StoredCounter& counter, const std::string& name) {
  if (counter.is_gapless) {
    return name +
           " is a sequence without gaps: it goes on behind the highest number that is stored "
           "or was stored, and cannot be set";
  }
  return counter.exists() ? "" : "there is no counter " + name + " yet: the first insert makes it";
}

}  // namespace

std::vector<std::string> names_of(std::span<const StoredCounter> counters) {
  std::map<std::string, std::size_t> counts;
  const auto full_name = [](const StoredCounter& each) { return each.ns() + " " + each.key; };
  for (const StoredCounter& each : counters) {
    ++counts[each.key];
    ++counts[full_name(each)];
  }
  std::vector<std::string> names;
  for (const StoredCounter& each : counters) {
    std::string name = counts[each.key] == 1 ? each.key : full_name(each);
    if (counts[name] > 1) name += " (" + each.rules.front() + ")";
    names.push_back(std::move(name));
  }
  return names;
}

std::string counters_text(std::span<const CounterView> counters, const views::Terminal& terminal) {
  using Align = views::TextTable::Align;
  views::TextTable table({{"NAME"},
                          {"RULE"},
                          {"NEXT", Align::right},
                          {"STORED"},
                          {"LARGEST IN DATA", Align::right},
                          {"DISTANCE", Align::right},
                          {"LEFT", Align::right}});
  for (const CounterView& view : counters) {
    table.add({{printable(view.name)},
               {rules_text(view.counter)},
               {next_text(view.counter)},
               {printable(stored_text(view.counter))},
               {largest_text(view.stored)},
               distance_cell(view),
               left_cell(view.counter)});
  }
  return table.text(terminal);
}

std::string counter_text(const CounterView& view, const views::Terminal& terminal) {
  const StoredCounter& counter = view.counter;
  const ids::CounterSpec& spec = counter.spec;
  std::string text;
  const auto add = [&](std::string label, std::string_view value) {
    label.resize(12, ' ');
    text += terminal.wrapped(label, value, 12);
  };
  add("name", printable(view.name));
  add("document in", printable(counter.ns()));
  for (const std::string& rule : counter.rules) add("rule", printable(rule));
  add(printable(spec.place.value_field),
      counter.value.is_number()
          ? std::to_string(counter.value.number) + ", " + std::string(meaning_of(counter))
      : counter.exists() ? "no integer"
                         : "no document yet");
  add("next", next_text(counter));
  add("largest", view.stored.unknown.empty() ? largest_text(view.stored)
                                             : "not known: " + printable(view.stored.unknown));
  add("distance", distance_cell(view).text);
  add("left", left_cell(counter).text + (has_max(spec) ? ", max " + std::to_string(spec.max) : ""));
  return text;
}

boost::json::object counter_json(const CounterView& view) {
  const StoredCounter& counter = view.counter;
  const auto distance = distance_of(view);
  boost::json::array rules(counter.rules.begin(), counter.rules.end());
  boost::json::object json{
      {"name", view.name},
      {"collection", counter.ns()},
      {"rules", std::move(rules)},
      {"exists", counter.exists()},
      {"gapless", counter.is_gapless},
      {"value_field", counter.spec.place.value_field},
      {"value_is", counter.spec.place.value_is == ValueIs::next ? "next" : "last"},
      {"value", counter.value.is_number() ? boost::json::value(counter.value.number) : nullptr},
      {"next", counter.left > 0 ? or_null(counter.next) : nullptr},
      {"largest", view.stored.unknown.empty() ? or_null(view.stored.most) : nullptr}};
  json["behind"] = distance ? boost::json::value(distance->behind) : nullptr;
  json["ahead"] = distance && distance->behind == 0 ? boost::json::value(distance->ahead) : nullptr;
  json["max"] = counter.spec.max;
  json["left"] = counter.left;
  json["full"] = is_full(counter);
  if (!view.stored.unknown.empty()) json["unknown"] = view.stored.unknown;
  return json;
}

std::string refusal_to_set(const CounterView& view, std::int64_t next, Force force) {
  using Int32 = std::numeric_limits<std::int32_t>;
  const std::string number = std::to_string(next);
  const StoredCounter& counter = view.counter;
  if (std::string why = why_never(counter, view.name); !why.empty()) return why;
  if (is_ahead(view, next, counter.spec.max)) {
    return number + " is beyond the max of " + view.name + ", " + std::to_string(counter.spec.max);
  }
  if (counter.spec.place.is_range() && next < counter.spec.start) {
    return number + " is before the first number of " + view.name + ", " +
           std::to_string(counter.spec.start) + ": it is of another range, or of none";
  }
  for (const ids::CounterField& field : counter.fields) {
    const bool is_narrow = field.format.output == ids::NumberFormat::Output::int32;
    if (is_narrow && (next < Int32::min() || next > Int32::max())) {
      return number + " does not fit into int32, the output of " + field.field;
    }
  }
  if (force == Force::yes) return "";
  if (view.stored.most && view.stored.unknown.empty() && !is_ahead(view, next, *view.stored.most)) {
    return number + " is not beyond the largest number that is stored, " +
           std::to_string(*view.stored.most) + " (" + where(view) +
           "); --force sets it all the same";
  }
  if (counter.next && is_ahead(view, *counter.next, next)) {
    return number + " is behind the next number, " + std::to_string(*counter.next) +
           (view.stored.unknown.empty()
                ? ": running proxies may have those in between in memory. Stop the proxies"
                : ", and the largest number that is stored is not known: " + view.stored.unknown) +
           "; --force sets it all the same";
  }
  if (!counter.next) {
    return "the next number of " + view.name + " is not known: running proxies may have " + number +
           " and those behind it in memory. Stop the proxies; --force sets it all the same";
  }
  return "";
}

std::vector<std::string> dangers_of(const CounterView& view, std::int64_t next) {
  std::vector<std::string> dangers;
  const auto& most = view.stored.most;
  const bool goes_back = view.counter.next && is_ahead(view, *view.counter.next, next);
  const bool is_below = most && !is_ahead(view, next, *most);
  if (is_below || (goes_back && !view.stored.unknown.empty())) {
    dangers.push_back((is_below ? "numbers from " + std::to_string(next) + " to " +
                                      std::to_string(*most) + " will be given out a second time"
                                : "numbers may be given out a second time") +
                      (view.stored.is_guarded
                           ? "; the unique index on " + where(view) + " keeps them out"
                           : ", and stored twice unless a unique index keeps them out"));
  }
  if (!view.counter.next) {
    dangers.emplace_back(
        "it is not known which numbers running proxies have. Stop the proxies before you set the "
        "counter");
  }
  if (goes_back) {
    dangers.emplace_back(
        "the counter goes back: within ten seconds a running proxy that has used it sets it past "
        "all "
        "numbers that it had. Stop the proxies before you set a counter back");
  }
  return dangers;
}

SyncTarget sync_target(const CounterView& view) {
  const StoredCounter& counter = view.counter;
  if (std::string why = why_never(counter, view.name); !why.empty()) return {{}, std::move(why)};
  if (!counter.value.is_number()) {
    return {
        {},
        "the value of " + view.name + " is no integer: stop the proxies, and set it with --force"};
  }
  if (!view.stored.unknown.empty()) {
    return {{}, "the largest number that is stored is not known: " + view.stored.unknown};
  }
  if (!counter.next) {
    return {{},
            view.name + ": no number is left behind " + std::to_string(counter.value.number) +
                ", the last number given out"};
  }
  if (is_full(counter)) {
    return {{},
            view.name + ": no number is left up to its max, " + std::to_string(counter.spec.max)};
  }
  const auto distance = distance_of(view);
  if (!distance || distance->behind == 0) return {};
  const std::int64_t most = *view.stored.most;
  const ids::Int128 next = static_cast<ids::Int128>(most) + counter.spec.step;
  const ids::Int128 jump = static_cast<ids::Int128>(most) - *counter.next;
  if (ids::Steps(counter.spec.step).before(counter.spec.max, next)) {
    return {{}, "no number is left behind the largest that is stored, " + std::to_string(most)};
  }
  if ((jump < 0 ? -jump : jump) > counter.spec.heal.max_jump) {
    return {{},
            "the largest number that is stored, " + std::to_string(most) +
                ", is more than heal.max_jump ahead of the next one, " +
                std::to_string(*counter.next) + ": if it is right, set the counter"};
  }
  return {static_cast<std::int64_t>(next), {}};
}

}  // namespace idproxy::app::jobs
