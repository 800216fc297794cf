#include "idproxy/rewrite/guard_stage.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/reply_merge.hpp"

namespace idproxy::rewrite {
namespace {

/// Tells the guards that the collection with this UUID is not there.
void tell_gone(const Plan& plan, const ids::CollectionUuid& uuid) {
  for (const Assignment& each : plan) {
    if (each.guard) each.guard->gone(uuid);
  }
}

/// False if the command must not name its collections. findAndModify and the strict Stable API do
/// not know the field (observed, 6.0.5), and a client may send one of its own.
bool names_collections(Bytes body, WriteKind kind) {
  if (kind == WriteKind::find_and_modify) return false;
  return bson::find_integer(body, "apiStrict") != 1 && !bson::find(body, "collectionUUID");
}

}  // namespace

std::optional<Need> GuardStage::need(const WriteRequest& write, const GivenValues& given,
                                     std::chrono::nanoseconds now, bool was_sent) {
  using Saw = ids::GuardState::Kind;
  auto found = lacking(given, now);
  is_left_alone_ = found && found->second.kind == Saw::left_alone;
  if (found && found->second.kind == Saw::unknown) {
    waits_since_ = waits_since_.value_or(now);
    return Need{.stage = Stage::guard,
                .assignment = found->first,
                .source = found->first->guard.get(),
                .patience = patience(now, was_sent)};
  }
  waits_since_.reset();
  ready_at_ = now;
  if (!names_collections(write.message.body(), write.command.kind)) collections_.clear();
  if (!found) return std::nullopt;
  if (is_left_alone_) {
    found->second.error = {ids::Errc::unavailable,
                           "the collection has become a view or a time-series collection"};
  }
  return Need{
      .stage = Stage::guard, .assignment = found->first, .error = std::move(found->second.error)};
}

std::optional<GuardStage::Lacking> GuardStage::lacking(const GivenValues& given,
                                                       std::chrono::nanoseconds now) {
  collections_.clear();
  const Assignment* first = nullptr;  // of a collection
  std::optional<ids::CollectionUuid> its;
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const Assignment& each = plan_[i];
    if (!each.guard || given.wanted[i] == 0) continue;
    ids::GuardState state = each.guard->state(now);
    if (state.kind != ids::GuardState::Kind::guarded) return Lacking(&each, std::move(state));
    if (first == nullptr || first->ns != each.ns) {
      first = &each;
      its = state.uuid;
      if (its) collections_.push_back({each.ns, *its});
    } else if (state.uuid != its) {
      // The collection has been looked at for one of them since it was for the other.
      if (its) tell_gone(plan_, *its);
      if (state.uuid) tell_gone(plan_, *state.uuid);
      return Lacking(&each, ids::GuardState());
    }
  }
  return std::nullopt;
}

std::chrono::nanoseconds GuardStage::patience(std::chrono::nanoseconds now, bool was_sent) const {
  return ids::StoreSource::kPatience - (now - (was_sent ? waits_since_.value_or(now) : started_));
}

bool GuardStage::is_moved(std::int64_t code) const {
  return !collections_.empty() && code == ErrorCode::collection_uuid_mismatch;
}

void GuardStage::moved(std::chrono::nanoseconds now) {
  // Of two drops with a long command in between, each is the first.
  const bool was_long = now - ready_at_ >= ids::StoreSource::kPatience;
  if (!moves_since_ || was_long) moves_since_ = now;
  std::unordered_map<std::string_view, const ids::CollectionUuid*> named;  // it may be thousands
  for (const NamedCollection& each : collections_) named.emplace(each.ns, &each.uuid);
  for (const Assignment& each : plan_) {
    const auto its = named.find(each.ns);
    if (each.guard && its != named.end()) each.guard->gone(*its->second);
  }
}

bool GuardStage::moves_too_often(std::chrono::nanoseconds now) const {
  return moves_since_ && now - *moves_since_ >= ids::StoreSource::kPatience;
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
