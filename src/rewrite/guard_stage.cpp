#include "idproxy/rewrite/guard_stage.hpp"

#include <algorithm>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/reply_merge.hpp"

namespace idproxy::rewrite {
namespace {

GuardVerdict verdict_of(const Assignment& assignment, ids::GuardState state) {
  using Saw = ids::GuardState::Kind;
  using Says = GuardVerdict::Kind;
  switch (state.kind) {
    case Saw::guarded:
      return {.uuid = state.uuid};
    case Saw::unguarded:
      return {Says::refused, &assignment, std::move(state.error), {}};
    case Saw::left_alone:
      return {Says::left_alone, &assignment, {}, {}};
    case Saw::unknown:
      break;
  }
  return {Says::waits, &assignment, std::move(state.error), {}};
}

/// Tells the guards that the collection with this UUID is not there.
void tell_gone(const Plan& plan, const ids::CollectionUuid& uuid) {
  for (const Assignment& each : plan) {
    if (each.guard) each.guard->gone(uuid);
  }
}

GuardVerdict ask_guards(const Plan& plan, const GivenValues& given, std::chrono::nanoseconds now) {
  GuardVerdict all;
  bool is_first = true;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (!plan[i].guard || given.wanted[i] == 0) continue;
    GuardVerdict one = verdict_of(plan[i], plan[i].guard->state(now));
    if (one.kind != GuardVerdict::Kind::ready) return one;
    if (!is_first && one.uuid != all.uuid) {
      // The collection has been looked at for one of them since it was for the other.
      if (all.uuid) tell_gone(plan, *all.uuid);
      if (one.uuid) tell_gone(plan, *one.uuid);
      return {GuardVerdict::Kind::waits, &plan[i], {}, {}};
    }
    all = std::move(one);
    is_first = false;
  }
  return all;
}

/// The UUID for the field `collectionUUID` of the command; nothing: it must not have one.
/// findAndModify and the strict Stable API do not know the field (observed, 6.0.5), and a client
/// may send one of its own.
std::optional<ids::CollectionUuid> uuid_for(const GuardVerdict& verdict, Bytes body,
                                            WriteKind kind) {
  if (!verdict.uuid || kind == WriteKind::find_and_modify) return std::nullopt;
  const auto strict = bson::find(body, "apiStrict");
  const bool is_strict = strict && strict->as_integer() == 1;
  return is_strict || bson::find(body, "collectionUUID") ? std::nullopt : verdict.uuid;
}

}  // namespace

GuardVerdict GuardStage::ask(const GivenValues& given, Bytes body, WriteKind kind,
                             std::chrono::nanoseconds now) {
  GuardVerdict verdict = ask_guards(plan_, given, now);
  uuid_ = uuid_for(verdict, body, kind);
  return verdict;
}

std::chrono::nanoseconds GuardStage::patience(std::chrono::nanoseconds now, bool was_sent) const {
  return ids::StoreSource::kPatience - (now - (was_sent ? moved_at_.value_or(now) : started_));
}

bool GuardStage::is_moved(std::int64_t code) const {
  return uuid_ && code == kCollectionUuidMismatch;
}

void GuardStage::moved(std::chrono::nanoseconds now) {
  if (!moved_at_) moved_at_ = now;
  tell_gone(plan_, *uuid_);
}

void GuardStage::takes_no_uuid() const {
  for (const Assignment& each : plan_) {
    if (each.guard) each.guard->takes_no_uuid();
  }
}

const Assignment& GuardStage::rule() const {
  return *std::ranges::find_if(plan_, [](const auto& each) { return each.guard != nullptr; });
}

void append_uuid(const ids::CollectionUuid& uuid, Buffer& out) {
  constexpr std::uint8_t kUuid = 4;  // subtype
  bson::append_head(out, bson::Type::binary, "collectionUUID");
  store_i32(out.extend(4), static_cast<std::int32_t>(uuid.size()));
  *out.extend(1) = kUuid;
  std::ranges::copy(uuid, out.extend(uuid.size()));
}

}  // namespace idproxy::rewrite
