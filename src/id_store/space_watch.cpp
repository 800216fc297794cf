#include <cstdio>
#include <utility>

#include "id_store/collection_watch.hpp"

// How a CollectionWatch judges how full the spaces of random numbers are.
namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using AnswerKind = ServerAnswer::Kind;
using Time = Inquiry::Time;

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

void CollectionWatch::learn(const CountDocuments& /*request*/, const DocumentCount& answer,
                            Time now) {
  counted_at_ = now;
  const Time round = answer.kind == AnswerKind::unreachable ? Time(kSoon) : around_->round();
  counting_.answered(answer, now + round);
  plan();
  around_->fills_due = std::min(around_->fills_due, now);
  if (answer.kind == AnswerKind::not_permitted) around_->miss("collStats", ns_);
  if (answer.may_not_find) around_->miss("find", ns_);
  if (answer.kind != AnswerKind::answered && answer.kind != AnswerKind::no_collection) return;
  for (const SpaceWatch& each : spaces_) {
    const auto found = answer.with_value.find(each.field);
    each.free->works();
    each.fill->counted(found != answer.with_value.end() ? found->second : answer.documents);
  }
}

void CollectionWatch::judge_spaces(Time now) {
  const Time age = counted_at_ ? now - *counted_at_ : Inquiry::kNever;
  // Not if an answer is under way, or if no server can be reached: then its answer is the news.
  const auto count_soon = [&] {
    if (counting_.due == Inquiry::kNever || counting_.due <= now) return;
    counting_.hurry(now);
    plan_news();
  };
  for (SpaceWatch& each : spaces_) {
    if (now >= each.age_due) {
      each.fill->age();
      each.age_due = now + kRound;
    }
    const ids::Fill::Seen seen = each.fill->seen();
    if (!seen.limits) continue;
    if (age >= kCountAgain && has_grown(seen)) count_soon();
    const bool is_full = !why_full(seen).empty();
    const bool is_new = is_full
                            ? !each.is_full
                            : seen.fraction > seen.limits->warn_fill &&
                                  (now >= each.warn_due || is_much_fuller(seen, each.warned_of));
    if (!is_new) {
      each.is_full = is_full;
    } else if (age <= kFresh) {
      report_fill(each, seen, now);
    } else {
      count_soon();  // the answer leads back here
    }
  }
}

void CollectionWatch::report_fill(SpaceWatch& space, const ids::Fill::Seen& seen, Time now) {
  const auto log_event = [&](log::Level level, std::string_view event, std::string message) {
    say(level, event, std::move(message), space.field, "documents",
        seen.documents ? std::to_string(*seen.documents) : "unknown");
  };
  const std::string why = why_full(seen);
  space.is_full = !why.empty();
  if (space.is_full) return log_event(log::Level::error, "numbers_used_up", why);
  space.warn_due = now + kWarnAgain;
  space.warned_of = seen.fraction;
  log_event(log::Level::warning, "numbers_run_out",
            in_use(seen) + ", and at max_fill (" + percent(seen.limits->max_fill) +
                "), that is with " + whole(seen.limits->space * seen.limits->max_fill) +
                " documents, no more will be given out");
}

}  // namespace idproxy::id_store
