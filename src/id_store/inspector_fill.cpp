#include <cstdio>
#include <utility>

#include "id_store/inspector_collections.hpp"

// How Collections judge how full the spaces of random numbers are.
namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using Kind = CatalogResponse::Kind;

constexpr auto kWarnAgain = 1h;
// A count that is older than this is renewed before the log speaks of it.
constexpr auto kFresh = 1s;
// How often a collection that grows is counted.
constexpr auto kCountAgain = 4s;

std::string percent(double fraction) {
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%.3g %%", 100 * fraction);
  return {text, static_cast<std::size_t>(size)};
}

std::string whole(double number) {
  char text[64];
  const int size = std::snprintf(text, sizeof text, "%.0f", number);
  return {text, static_cast<std::size_t>(size)};
}

std::string in_use(const ids::Fill::Seen& seen) {
  return percent(seen.fraction) + " of the possible numbers are in use";
}

/// True if the draws since the last count say that the collection has grown: by a twentieth, and by
/// a hundred documents unless these are much of the space.
bool has_grown(const ids::Fill::Seen& seen) {
  const auto counted = static_cast<double>(seen.documents.value_or(0));
  const double much = std::min(std::max(100.0, counted / 20), seen.limits->space / 50);
  return static_cast<double>(seen.drawn) >= std::max(1.0, much);
}

/// True if half of what was left up to max_fill at the last warning is used up.
bool is_much_fuller(const ids::Fill::Seen& seen, double warned_of) {
  return seen.fraction >= (warned_of + seen.limits->max_fill) / 2;
}

}  // namespace

std::string why_full(const ids::Fill::Seen& seen) {
  if (!seen.is_full) return {};
  return in_use(seen) + ", more than max_fill (" + percent(seen.limits->max_fill) +
         "): no more are given out";
}

void Collections::learn_documents(Collection& collection, const CatalogResponse& response,
                                  Time now) {
  collection.documents_at = now;
  collection.documents.answered(response,
                                now + (response.kind == Kind::unreachable ? Time(kSoon) : round()));
  fills_due_ = std::min(fills_due_, now);
  if (response.kind == Kind::not_permitted) miss("collStats", collection.ns);
  if (response.may_not_find) miss("find", collection.ns);
  if (response.kind != Kind::answered && response.kind != Kind::no_collection) return;
  for (Numbers& numbers : collection.numbers) {
    const auto found = response.with_value.find(numbers.field);
    numbers.free->works();
    numbers.fill->counted(found != response.with_value.end() ? found->second : response.documents);
  }
}

void Collections::judge_fill(Collection& collection, Numbers& numbers, Time now) {
  if (now >= numbers.age_due) {
    numbers.fill->age();
    numbers.age_due = now + kRound;
  }
  const ids::Fill::Seen seen = numbers.fill->seen();
  if (!seen.limits) return;
  const Time age = collection.documents_at ? now - *collection.documents_at : kNever;
  if (age >= kCountAgain && has_grown(seen)) count_soon(collection, now);
  const bool full = !why_full(seen).empty();
  const bool is_new =
      full ? !numbers.full
           : seen.fraction > seen.limits->warn_fill &&
                 (now >= numbers.warn_due || is_much_fuller(seen, numbers.warned_of));
  if (!is_new) {
    numbers.full = full;
  } else if (age <= kFresh) {
    report_fill(collection, numbers, seen, now);
  } else {
    count_soon(collection, now);  // the response leads back here
  }
}

void Collections::report_fill(const Collection& collection, Numbers& numbers,
                              const ids::Fill::Seen& seen, Time now) {
  const auto log_event = [&](log::Level level, std::string_view event, std::string message) {
    say(level, event, std::move(message), collection.ns, numbers.field,
        {"documents", seen.documents ? std::to_string(*seen.documents) : "unknown"});
  };
  const std::string why = why_full(seen);
  numbers.full = !why.empty();
  if (numbers.full) return log_event(log::Level::error, "numbers_used_up", why);
  numbers.warn_due = now + kWarnAgain;
  numbers.warned_of = seen.fraction;
  log_event(log::Level::warning, "numbers_run_out",
            in_use(seen) + ", and at max_fill (" + percent(seen.limits->max_fill) +
                "), that is with " + whole(seen.limits->space * seen.limits->max_fill) +
                " documents, no more will be given out");
}

std::vector<ids::RuleNumbers> Collections::spaces() const {
  std::vector<ids::RuleNumbers> found;
  for (const auto& [ns, collection] : collections_) {
    if (is_left_alone(collection.ns)) continue;
    for (const Numbers& numbers : collection.numbers) {
      const ids::Fill::Seen seen = numbers.fill->seen();
      const auto rule = rule_of(rules_, ns, numbers.field);
      if (!rule || !seen.limits) continue;
      found.push_back({*rule, ns,
                       ids::SpaceUse{seen.documents, std::min(seen.fraction, 1.0),
                                     seen.limits->max_fill, seen.limits->space}});
    }
  }
  return found;
}

/// Not if a response is under way, or if no server can be reached: then its response is the news.
void Collections::count_soon(Collection& collection, Time now) {
  if (collection.documents.due == kNever || collection.documents.due <= now) return;
  collection.documents.due = now;
  schedule(collection);
  news_ = true;
}

}  // namespace idproxy::id_store
