#include "rewrite/guards.hpp"

#include <algorithm>

#include "idproxy/bson/builder.hpp"

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

}  // namespace

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

void tell_gone(const Plan& plan, const ids::CollectionUuid& uuid) {
  for (const Assignment& each : plan) {
    if (each.guard) each.guard->gone(uuid);
  }
}

void tell_no_uuid(const Plan& plan) {
  for (const Assignment& each : plan) {
    if (each.guard) each.guard->takes_no_uuid();
  }
}

std::optional<ids::CollectionUuid> uuid_for(const GuardVerdict& verdict, Bytes body,
                                            WriteKind kind) {
  if (!verdict.uuid || kind == WriteKind::find_and_modify) return std::nullopt;
  const auto strict = bson::find(body, "apiStrict");
  const bool is_strict = strict && strict->as_integer() == 1;
  return is_strict || bson::find(body, "collectionUUID") ? std::nullopt : verdict.uuid;
}

void append_uuid(const ids::CollectionUuid& uuid, Buffer& out) {
  constexpr std::uint8_t kUuid = 4;  // subtype
  bson::append_head(out, bson::Type::binary, "collectionUUID");
  store_i32(out.extend(4), static_cast<std::int32_t>(uuid.size()));
  *out.extend(1) = kUuid;
  std::ranges::copy(uuid, out.extend(uuid.size()));
}

}  // namespace idproxy::rewrite
