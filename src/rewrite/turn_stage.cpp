#include "rewrite/turn_stage.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "idproxy/rewrite/unused_values.hpp"

namespace idproxy::rewrite {
namespace {

std::string transaction_in(Bytes body) {
  const auto autocommit = bson::find(body, "autocommit");
  const bool is_one = autocommit && autocommit->as_integer() == 0;
  return is_one ? transaction_of(body).value_or("") : std::string();
}

}  // namespace

TurnStage::TurnStage(const Plan& plan, GivenValues& given, const WriteCommand& command,
                     WriteKind kind)
    : command_(command),
      kind_(kind),
      numbers_(plan, given, transaction_in(command.message().body())) {}

void TurnStage::told(std::optional<std::vector<std::int32_t>> executed) {
  executed_ = std::move(executed);
  told(executed_ && executed_->empty());
}

/// Whether an earlier attempt of the client has executed the statement, as far as the server says.
bool TurnStage::was_executed(std::int32_t statement) const {
  return executed_ && std::ranges::binary_search(*executed_, statement);
}

bool TurnStage::is_alone(const BatchProgress& progress) const {
  if (kind_ != WriteKind::insert) return true;
  return one_by_one_ && !(first_ == First::not_executed && progress.commands() == 0);
}

void TurnStage::send(const BatchProgress& progress, Buffer& fields) {
  // The rest follows at once, and its answer is for both.
  const bool rest_follows = one_by_one_ && progress.commands() == 1 && progress.out().size() == 1 &&
                            !progress.todo().empty();
  durability_ =
      append_fields_in_turn(command_.message().body(), kind_,
                            rest_follows ? AnswersAfter::primary : AnswersAfter::majority, fields);
}

void TurnStage::answered(const Outcome& outcome) {
  const WriteReply& reply = outcome.reply;
  const auto out = outcome.progress.out();
  if (outcome.options.in_transaction && !reply.errors.empty()) return lost();
  const bool again = reply.retried > 0 || was_executed(out.front());
  is_repeated_ = is_repeated_ || again;
  // It is not known which of several statements the server has executed now, or whether it has
  // executed any.
  const bool is_unknown = outcome.is_unsure && !executed_ && reply.errors.empty();
  if (is_unknown || (again && out.size() > 1)) return lost();
  std::vector<std::int32_t> stored;
  if (!again) {
    std::ranges::copy_if(outcome.progress.tried(), std::back_inserter(stored),
                         [&](std::int32_t each) { return command_.inserted(each); });
  }
  const bool is_certain = !bson::find(outcome.message.body(), "writeConcernError").has_value();
  numbers_.stored(stored, is_certain ? durability_ : ids::Durability::not_yet);
  const bool rest_is_pending = outcome.options.ordered || (!is_repeated_ && !outcome.loses_writes);
  if (!stored.empty() && rest_is_pending) one_by_one_ = false;
  if (!reply.errors.empty()) answered_with_error(outcome);
}

/// A collection that took the place of another one has other numbers.
void TurnStage::answered_with_error(const Outcome& outcome) {
  if (outcome.is_moved) return lost();
  if (!outcome.collisions.empty()) return taken(outcome.collisions.front());
  if (!denies(outcome.reply.errors.front().document)) lost();
}

}  // namespace idproxy::rewrite
