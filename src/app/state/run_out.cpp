#include "app/state/run_out.hpp"

#include <array>
#include <variant>

namespace idproxy::app::state {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSmallPart = 100;
constexpr std::uint64_t kHoursAhead = 24;
constexpr auto kHour = 1h;
constexpr auto kDay = 24h;
// A rate over less time says little.
constexpr auto kShortest = 1min;
// Numbers that last longer need no date.
constexpr double kMostSeconds = 100.0 * 365 * 86'400;
constexpr auto kSampleEvery = 5min;
// Of more counters, only what is left counts, not the rate.
constexpr std::size_t kMostHistories = 10'000;

/// True if the log or /readyz should say that so few are left. At the end itself others do.
bool is_short(std::uint64_t left, std::uint64_t all, std::uint64_t per_hour) {
  return left > 0 && (left <= all / kSmallPart || left / kHoursAhead < per_hour);
}

/// A space of 34 digits has more numbers than an integer can count.
std::uint64_t whole(double numbers) {
  constexpr double kMost = 1e18;
  return static_cast<std::uint64_t>(std::clamp(numbers, 0.0, kMost));
}

/// Keeps the samples of the last hour, and one for each hour of the day before.
template <class History>
void thin_out(History& history, RunOut::Time now) {
  while (!history.empty() && now - history.front().at > kDay) history.pop_front();
  for (std::size_t i = 1; i + 1 < history.size();) {
    const bool is_old = now - history[i + 1].at > kHour;
    const bool is_close = history[i + 1].at - history[i - 1].at <= kHour;
    if (!is_old) return;
    is_close ? static_cast<void>(history.erase(history.begin() + static_cast<std::ptrdiff_t>(i)))
             : static_cast<void>(++i);
  }
}

/// How long the numbers last at the rate since this sample.
template <class Sample>
std::optional<RunOut::Time> lasts(const Sample& sample, std::uint64_t left, RunOut::Time now) {
  using Seconds = std::chrono::duration<double>;
  const Seconds time = now - sample.at;
  if (time < kShortest || sample.left <= left) return std::nullopt;
  const double seconds =
      static_cast<double>(left) * time.count() / static_cast<double>(sample.left - left);
  if (seconds > kMostSeconds) return std::nullopt;
  return std::chrono::duration_cast<RunOut::Time>(Seconds(seconds));
}

/// What is said of each RunOut::End.
struct EndTexts {
  std::string_view where;
  std::string_view way_out;
};
constexpr auto kEnds = std::to_array<EndTexts>(
    {{"up to max", "raise max; with output int32, which ends at 2147483647, use int64"},
     {"down to max", "lower max; with output int32, which ends at -2147483648, use int64"},
     {"of this length",
      "give the rule more digits, or with an alphabet a larger length, and another field and name: "
      "a "
      "counter of hidden numbers keeps its length"},
     {"in all ranges", "raise ranges.count, or without ranges add documents"},
     {"in the template's width, and then values get longer",
      "give the template a greater width, if its values must keep their order as text"},
     {"up to max_fill", "use more digits, with nanoid a larger size"}});

bool ends_before(const RunOut::Outlook& a, const RunOut::Outlook& b) {
  return a.end() != b.end() ? a.end() < b.end() : a.left < b.left;
}

std::string key_of(const rewrite::Rule& rule, std::string_view ns, std::string_view more) {
  return rule.field + '\0' + std::string(ns) + '\0' + std::string(more);
}

}  // namespace

RunOut::End RunOut::end_of(const ids::CounterSpec& counter, const ids::NumberFormat& format) {
  if (counter.place.is_range()) return End::ranges;
  if (format.permutation && counter.max == format.permutation->max()) return End::length;
  return counter.step < 0 ? End::lowest : End::max;
}

std::string RunOut::Warning::text() const {
  std::string text = (left == 0 ? "no" : std::to_string(left)) +
                     (left < 2 ? " number is" : " numbers are") + " left " +
                     std::string(kEnds[static_cast<std::size_t>(end)].where);
  if (per_hour == 0) return text;
  const std::uint64_t hours = left / per_hour;
  const std::uint64_t minutes = left * 60 / per_hour;
  const std::string lasts = hours > 1 ? std::to_string(hours) + " hours"
                                      : std::to_string(std::max<std::uint64_t>(minutes, 1)) +
                                            (minutes > 1 ? " minutes" : " minute");
  return text + "; at the rate of the last hour they last " + lasts;
}

std::string_view RunOut::Warning::way_out() const {
  return kEnds[static_cast<std::size_t>(end)].way_out;
}

/// Notes how many are left now.
RunOut::Use RunOut::note(const std::string& key, std::uint64_t left, Time now) {
  auto found = histories_.find(key);
  if (found == histories_.end()) {
    if (histories_.size() == kMostHistories) return {.outlook = {.left = left}};
    found = histories_.emplace(key, History{}).first;
  }
  History& history = found->second;
  thin_out(history, now);
  if (history.empty() || now - history.back().at >= kSampleEvery) history.push_back({now, left});
  // More than before: `max` was raised, or the counter was set back.
  if (history.back().left < left) history.assign(1, {now, left});
  const auto& hour = *std::ranges::find_if(
      history, [&](const Sample& sample) { return now - sample.at <= kHour; });
  return {hour.left - std::min(hour.left, left),
          {left, lasts(hour, left, now), lasts(history.front(), left, now)}};
}

/// Of several sequences of one collection, the one that ends first counts.
void RunOut::add(Warning warning) {
  const auto same = std::ranges::find_if(current_, [&](const Warning& each) {
    return each.rule_index == warning.rule_index && each.ns == warning.ns;
  });
  if (same == current_.end()) {
    current_.push_back(std::move(warning));
  } else if (warning.left < same->left) {
    *same = std::move(warning);
  }
}

void RunOut::update(const std::vector<rewrite::Rule>& rules,
                    const std::vector<ids::RuleNumbers>& numbers, Time now, Time wall) {
  current_.clear();
  outlooks_.assign(rules.size(), std::nullopt);
  for (const ids::RuleNumbers& each : numbers) {
    if (each.rule_index >= rules.size()) continue;
    if (const auto* space = std::get_if<ids::SpaceUse>(&each.numbers)) {
      const std::uint64_t all = whole(space->max_fill * space->space);
      const std::uint64_t left = whole((space->max_fill - space->fill) * space->space);
      if (is_short(left, all, 0)) add({each.rule_index, each.ns, End::max_fill, left, 0});
      continue;
    }
    const auto* counts = std::get_if<ids::CounterNumbers>(&each.numbers);
    if (counts == nullptr || !counts->left) continue;
    const ids::RuleSource::About& about = rules[each.rule_index].strategy->about();
    if (about.sequences.is_past(each.period, wall)) continue;
    const ids::CounterNumbers& counter = *counts;
    const std::string key = key_of(rules[each.rule_index], each.ns, each.sequence);
    const auto [used, outlook] = note(key, *counter.left, now);
    auto& first = outlooks_[each.rule_index];
    if (!first || ends_before(outlook, *first)) first = outlook;
    if (is_short(*counter.left, counter.all, used)) {
      const End end = about.counter ? end_of(*about.counter, about.field.format) : End::max;
      add({each.rule_index, each.ns, end, *counter.left, used});
    }
    if (counter.width && is_short(counter.width->left, counter.width->all, used)) {
      add({each.rule_index, each.ns, End::width, counter.width->left, used});
    }
  }
  // Of counters that are no longer in use.
  std::erase_if(histories_, [&](const auto& each) { return now - each.second.back().at > kDay; });
  tell(rules, now);
}

void RunOut::tell(const std::vector<rewrite::Rule>& rules, Time now) {
  std::map<std::string, Told> told;
  for (const Warning& each : current_) {
    const std::string key = key_of(rules[each.rule_index], each.ns, each.way_out());
    const auto before = told_.find(key);
    const bool is_new = before == told_.end() || now - before->second.at >= kHour ||
                        each.left <= before->second.left / 2;
    if (is_new) news_.push_back(each);
    told.emplace(key, is_new ? Told{now, each.left} : before->second);
  }
  told_ = std::move(told);
}

}  // namespace idproxy::app::state
