#include "idproxy/rewrite/right_stage.hpp"

#include <algorithm>

#include "idproxy/base/words.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "rewrite/right_question.hpp"

namespace idproxy::rewrite {
namespace {

/// What a server asks for before it executes a command of this kind. A bulkWrite's operations each
/// have their own.
Right right_of(WriteKind kind) {
  if (kind == WriteKind::insert) return Right::insert;
  return kind == WriteKind::find_and_modify ? Right::find_and_modify : Right::upsert;
}

/// True if a value of the assignment comes from a source that has too few in memory.
bool lacks_values(const Plan& plan, const GivenValues& given, std::size_t assignment) {
  const Assignment& its = plan[assignment];
  if (its.sequences == nullptr) return !its.source->holds(given.wanted[assignment]);
  const GivenSequences& sequences = given.sequences[assignment];
  const std::vector<std::size_t> counts = sequences.counts();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (sequences.all[i] == nullptr || !sequences.all[i]->holds(counts[i])) return true;
  }
  return false;
}

/// mongod refuses them in every version (observed, 4.4.2 to 6.0.27).
bool is_refused_id(const bson::Element& id) {
  return id.type == bson::Type::array || id.type == bson::Type::undefined ||
         id.type == bson::Type::regex;
}

/// Servers want one more right for that.
bool goes_past_validation(Bytes body) {
  const auto field = bson::find(body, "bypassDocumentValidation");
  return field && field->as_integer() != 0;
}

}  // namespace

RightStage::RightStage(const WriteRequest& write, const GivenValues& given,
                       ConnectionMemory* memory)
    : write_(write),
      given_(given),
      memory_(memory),
      is_shown_(memory == nullptr || !memory->enforces_logins()) {
  if (is_shown_) return;
  if (goes_past_validation(write.message.body())) beside_ = " past validation";
  const Right right = right_of(write.command.kind);
  is_shown_ = std::ranges::all_of(*write.plan, [&](const Assignment& each) {
    return beside_.empty() ? memory_->rights.has(each.ns, right)
                           : memory_->rights.has(key_of(each), right);
  });
}

bool RightStage::admits(const Assignment& its) const {
  return memory_ == nullptr || !memory_->enforces_logins() ||
         memory_->rights.has(key_of(its), Right::insert);
}

Right RightStage::right_for(std::size_t assignment) {
  if (write_.command.kind != WriteKind::bulk_write) return right_of(write_.command.kind);
  if (!upserts_) {
    upserts_.emplace();
    for (const Given& each : given_.given) {
      const auto kind = given_.upserts[static_cast<std::size_t>(each.statement)].kind;
      if (kind != UpsertParts::Kind::insert) upserts_->insert((*write_.plan)[each.assignment].ns);
    }
  }
  return upserts_->contains((*write_.plan)[assignment].ns) ? Right::upsert : Right::insert;
}

std::optional<Need> RightStage::need(const Moment& moment) {
  if (is_shown_ || moment.was_sent || !makes_something(moment.now)) return std::nullopt;
  return demand();
}

std::optional<Need> RightStage::demand() {
  return advance() ? std::optional(Need{this}) : std::nullopt;
}

Action RightStage::ask(const Question& question) {
  const auto [db, collection] = split_ns(asked_for_->ns);
  ask_right(write_.message, question.request_id, db, collection, asked_, question.out);
  if (question.is_first) return action::AskServer{&question.out};
  return action::Send{&question.out, {}};
}

std::optional<End> RightStage::accept(const Answer& answer) {
  const RightAnswer said = read_right(*answer.reply, asked_);
  if (said == RightAnswer::malformed) return action::Close{};
  if (said != RightAnswer::may) {
    if (said == RightAnswer::may_not) refused({asked_for_, 1});
    Buffer& reply = answer.workspace.reply;
    reply.clear();
    append_refusal(write_.message, *answer.reply, kRightNeeded, reply);
    return action::Reply{reply.view()};
  }
  shown(answer.now);
  advance();
  return std::nullopt;
}

bool RightStage::makes_something(std::chrono::nanoseconds now) const {
  const Plan& plan = *write_.plan;
  if (given_.given.empty() && write_.command.kind != WriteKind::insert) return false;
  if (plan.reserves()) return true;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const Assignment& each = plan[i];
    if (given_.wanted[i] == 0 || each.not_ready) continue;
    const bool is_outline = each.source == nullptr && each.sequences == nullptr;
    if (is_outline || each.in_turn || (each.guard && !each.guard->is_guarded(now))) return true;
    if (lacks_values(plan, given_, i)) return true;
  }
  return false;
}

/// Finds the next right to ask for. False: there is none, and is_shown() from now on.
bool RightStage::advance() {
  const bool is_bulk = write_.command.kind == WriteKind::bulk_write;
  for (; !is_shown_ && at_ < write_.plan->size(); ++at_) {
    const Assignment& each = (*write_.plan)[at_];
    if (is_bulk && given_.wanted[at_] == 0) continue;
    asked_for_ = &each;
    asked_ = right_for(at_);
    if (!memory_->rights.has(key_of(each), asked_)) return true;
  }
  is_shown_ = true;
  return false;
}

void RightStage::shown(std::chrono::nanoseconds now) {
  memory_->rights.add(key_of(*asked_for_), asked_, now);
  if (!beside_.empty()) memory_->rights.add(asked_for_->ns, asked_, now);
}

void RightStage::replanned() {
  if (memory_ == nullptr || !memory_->enforces_logins()) return;
  at_ = 0;
  upserts_.reset();
  is_shown_ = false;
  advance();
}

void RightStage::carried_out(std::chrono::nanoseconds now) {
  for (; !is_shown_; ++at_) {
    if (advance()) shown(now);
  }
}

void RightStage::refused(std::span<const Assignment> where) {
  for (const Assignment& each : where) {
    if (not_permitted_ == nullptr) not_permitted_ = &each;
    if (memory_ != nullptr) memory_->rights.remove(key_of(each));
    if (!each.implied) ++each.outcomes->not_permitted;
  }
}

bool stores_nothing(const WriteCommand& insert, Bytes body) {
  const bool stops = bson::find_integer(body, "ordered") != 0;
  Statements documents(insert);
  std::size_t refused = 0;
  while (const auto document = documents.next()) {
    const auto id = bson::find(*document, "_id");
    if (!id || !is_refused_id(*id)) return false;
    ++refused;
    if (stops) break;
  }
  return refused > 0;
}

}  // namespace idproxy::rewrite
