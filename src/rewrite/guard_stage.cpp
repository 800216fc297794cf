#include "idproxy/rewrite/guard_stage.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "rewrite/bulk_write.hpp"

namespace idproxy::rewrite {
namespace {

/// Tells the guards that the collection with this UUID is not there.
void tell_gone(const Plan& plan, const ids::CollectionUuid& uuid) {
  for (const Assignment& each : plan) {
    if (each.guard) each.guard->gone(uuid);
  }
}

}  // namespace

std::optional<Need> GuardStage::need(const Moment& moment) {
  using Saw = ids::GuardState::Kind;
  auto found = lacking(moment.now);
  if (found && found->second.kind == Saw::unknown) {
    waits_since_ = waits_since_.value_or(moment.now);
    return Need{.stage = this,
                .assignment = found->first,
                .source = found->first->guard.get(),
                .patience = patience(moment)};
  }
  waits_since_.reset();
  ready_at_ = moment.now;
  if (!write_.command.takes_uuid || is_unnamed_) collections_.clear();
  if (!found) return std::nullopt;
  Need none{.stage = this, .assignment = found->first, .error = std::move(found->second.error)};
  none.is_left_alone = found->second.kind == Saw::left_alone;
  if (none.is_left_alone) {
    none.error = {ids::Errc::unavailable,
                  "the collection has become a view or a time-series collection"};
  }
  return none;
}

std::optional<End> GuardStage::accept(const Answer& answer) {
  return *answer.grant ? std::nullopt : std::optional<End>(answer.grant->error());
}

std::optional<Next> GuardStage::failed(const Failure& failure) {
  if (collections_.empty() || failure.in_transaction) return std::nullopt;
  if (is_moved(failure.code)) {
    moved(failure.now);
    return moves_too_often(failure.now).value_or(Next());
  }
  if (!rejects("collectionUUID", failure.message, failure.code)) return std::nullopt;
  is_unnamed_ = true;
  return Next();
}

std::optional<GuardStage::Lacking> GuardStage::lacking(std::chrono::nanoseconds now) {
  collections_.clear();
  const Assignment* first = nullptr;  // of a collection
  std::optional<ids::CollectionUuid> its;
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const Assignment& each = plan_[i];
    if (!each.guard || given_.wanted[i] == 0) continue;
    ids::GuardState state = each.guard->state(now);
    if (state.kind != ids::GuardState::Kind::guarded) return Lacking(&each, std::move(state));
    if (first == nullptr || first->ns != each.ns) {
      first = &each;
      its = state.uuid;
      if (its && !named_by_client_.contains(each.ns)) collections_.push_back({each.ns, *its});
    } else if (state.uuid != its) {
      // The collection has been looked at for one of them since it was for the other.
      if (its) tell_gone(plan_, *its);
      if (state.uuid) tell_gone(plan_, *state.uuid);
      return Lacking(&each, ids::GuardState());
    }
  }
  return std::nullopt;
}

/// It waits as long as for values, or, once something was sent, as long each time.
std::chrono::nanoseconds GuardStage::patience(const Moment& moment) const {
  const auto since = moment.was_sent ? waits_since_.value_or(moment.now) : moment.patient_since;
  return ids::StoreSource::kPatience - (moment.now - since);
}

bool GuardStage::is_moved(std::int64_t code) const {
  return !collections_.empty() && code == ErrorCode::collection_uuid_mismatch;
}

/// The server's answer to that is for the client.
bool GuardStage::is_named_by_client(std::int32_t statement) const {
  if (named_by_client_.empty()) return false;
  const UpsertParts& parts = given_.upserts[static_cast<std::size_t>(statement)];
  const auto whole = bson::document_at(write_.message.message().subspan(parts.whole));
  const auto op = BulkOp::read(*whole, write_.namespaces.size());
  return op && write_.namespaces[op->ns].names_uuid;
}

void GuardStage::executed(Executed& command) {
  // Before, its own text may have come from a field of the client's with a name like that.
  for (const Assignment& each : plan_) {
    if (is_unnamed_ && each.guard) each.guard->takes_no_uuid();
  }
  for (const WriteError& error : command.reply.errors) {
    const std::int32_t statement = command.statements[static_cast<std::size_t>(error.index)];
    if (is_moved(error.code) && !is_named_by_client(statement)) command.moved.push_back(statement);
  }
  if (command.reply.n.value_or(0) > 0) moves_since_.reset();
  if (!command.moved.empty()) moved(command.now);
}

/// The server has said that the collections are others.
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

bool GuardStage::lost_index(const Moment& moment) {
  if (collections_.empty() || patience(moment).count() <= 0) return false;
  moved(moment.now);
  return !moves_too_often(moment.now);
}

std::optional<Next> GuardStage::moves_too_often(std::chrono::nanoseconds now) const {
  if (!moves_since_ || now - *moves_since_ < ids::StoreSource::kPatience) return std::nullopt;
  return Next{&rule(),
              {ids::Errc::unavailable, "the collection is dropped or replaced again and again"}};
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
