#include "rewrite/turn_stage.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/draw_stage.hpp"
#include "idproxy/rewrite/given_values.hpp"
#include "idproxy/rewrite/guard_stage.hpp"
#include "idproxy/rewrite/memory.hpp"

namespace idproxy::rewrite {
namespace {

ids::TurnTaker taker_of(Bytes body, const ConnectionMemory* memory) {
  ids::TurnTaker taker;
  const bool in_transaction = bson::find_integer(body, "autocommit") == 0;
  if (in_transaction) taker.transaction = transaction_of(body).value_or("");
  if (taker.transaction.empty() || memory == nullptr) return taker;
  taker.connection = memory->connection;
  if (memory->client != nullptr) taker.application = memory->client->application;
  return taker;
}

constexpr std::array<std::uint8_t, bson::kMinDocument> kNoFields{bson::kMinDocument};  // {}

/// True if a majority is at least what the client asks for.
bool is_up_to_majority(const std::optional<bson::Element>& w, std::int64_t majority) {
  if (!w) return true;
  if (w->type == bson::Type::string) return w->text() == "majority";
  const auto members = w->as_integer();
  return members && *members <= std::max<std::int64_t>(majority, 1);
}

void append_w_1(Buffer& out) {
  bson::append_inside(out, bson::Type::document, "writeConcern",
                      [&] { bson::append_int32(out, "w", 1); });
}

}  // namespace

ids::Durability append_write_concern(Bytes body, std::int64_t majority, Buffer& out) {
  const auto sent = bson::find(body, "writeConcern", bson::Type::document);
  const Bytes concern = sent ? sent->value : Bytes(kNoFields);
  const auto w = bson::find(concern, "w");
  const bool raises = is_up_to_majority(w, majority);
  bool has_j = false;
  bson::append_inside(out, bson::Type::document, "writeConcern", [&] {
    if (raises) bson::append_string(out, "w", "majority");
    for (const bson::Element& field : bson::Elements(concern)) {
      has_j = has_j || field.key == "j";
      if (!raises || field.key != "w") bson::append_copy(out, field);
    }
    if (raises && !has_j) bson::append_bool(out, "j", true);
  });
  return raises ? ids::Durability::by_majority : ids::Durability::not_yet;
}

TurnStage::TurnStage(GivenValues& given, const Operation& command, std::size_t statements,
                     const WriteOptions& options, bool is_unsure, const ConnectionMemory* memory)
    : NumbersInTurn(*command.write().plan, given, taker_of(command.message().body(), memory)),
      command_(command),
      options_(options),
      is_unsure_(is_unsure),
      majority_(memory == nullptr ? 0 : memory->majority),
      one_by_one_(command.kind() == WriteKind::insert && options.may_be_repeated() &&
                  (statements > 1 || is_unsure)) {}

std::optional<Need> TurnStage::need(const Moment& moment) {
  if (auto missing = provide(moment.todo)) {
    if (!moment.was_sent) missing->patience -= moment.now - moment.patient_since;
    missing->stage = this;
    return missing;
  }
  if (!one_by_one_ || first_ != First::unknown) return std::nullopt;
  first_ = First::asked;
  first_statement_ = moment.todo.front();
  if (is_unsure_) question_.emplace(moment.todo);
  return Need{this};
}

/// By an insert of the first statement that cannot succeed, into a collection with a UUID that none
/// has: the server skips what it has executed, and answers the first of the others with
/// CollectionUUIDMismatch (observed, 6.0.5; docs/server-behaviour.md#retryable-writes). It costs no
/// write, so that nobody waits for the secondaries twice. Servers before 6.0 have another question.
Action TurnStage::ask(const Question& question) {
  if (question_) {
    question_->emit({&command_.message(), command_.ns(), question.request_id, question.max_time_ms},
                    options_, question.out);
    return action::Send{&question.out, {}};
  }
  ids::CollectionUuid none{};
  question.random.fill(none);
  fields_.clear();
  bson::Scope fields(fields_);
  bson::append_bool(fields_, "ordered", true);
  append_w_1(fields_);
  append_uuid(none, fields_);
  fields.close();
  const WritePart part{{&first_statement_, 1}, &options_,           false,
                       question.max_time_ms,   question.request_id, fields_.view()};
  if (!command_.emit(part, question.workspace, question.out)) return action::Close{};
  return action::Send{&question.out, command_.message().message()};
}

std::optional<End> TurnStage::accept(const Answer& answer) {
  if (first_ != First::asked) {
    ids::Result<ids::Grant>& grant = *answer.grant;
    if (!grant) return with_progress(grant.error(), has_some());
    NumbersInTurn::accept(*std::move(grant));
    return std::nullopt;
  }
  // Any answer but the expected error leaves it open. So does that of a server before 6.0, which
  // does not know the field.
  bool is_not_executed = false;
  if (question_) {
    executed_ = std::exchange(question_, std::nullopt)->read(*answer.reply);
    is_not_executed = executed_ && executed_->empty();
  } else {
    const auto reply = command_.read(answer.reply->body(), 1);
    if (!reply) return action::Close{};
    if (reply->ok && !command_.adds_up(*reply, options_, {&first_statement_, 1})) {
      return action::Close{};
    }
    is_not_executed = reply->ok && !reply->errors.empty() &&
                      reply->errors.front().code == ErrorCode::collection_uuid_mismatch;
  }
  first_ = is_not_executed ? First::not_executed : First::unclear;
  return std::nullopt;
}

bool TurnStage::is_alone(const BatchProgress& progress) const {
  if (command_.kind() != WriteKind::insert) return true;
  return one_by_one_ && !(first_ == First::not_executed && progress.commands() == 0);
}

/// The majority of the members must have a command's writes before the server answers it.
Bytes TurnStage::fields(const BatchProgress& progress) {
  if (options_.in_transaction) return {};
  // The rest follows at once, and its answer is for both.
  const bool rest_follows = one_by_one_ && progress.commands() == 1 && progress.out().size() == 1 &&
                            !progress.todo().empty();
  durability_ = ids::Durability::not_yet;
  fields_.clear();
  bson::Scope all(fields_);
  if (command_.write().command.in_batch()) bson::append_bool(fields_, "ordered", true);
  if (rest_follows) {
    append_w_1(fields_);
  } else {
    durability_ = append_write_concern(command_.message().body(), majority_, fields_);
  }
  all.close();
  return fields_.view();
}

std::optional<Next> TurnStage::failed(const Failure& failure) {
  failure.is_denied && !failure.in_transaction ? stored({}, ids::Durability::not_yet) : lost();
  if (failure.collision != nullptr && !failure.in_transaction) taken(*failure.collision);
  return std::nullopt;
}

void TurnStage::executed(Executed& command) {
  const WriteReply& reply = command.reply;
  const auto out = command.statements;
  if (options_.in_transaction && !reply.errors.empty()) return lost();
  if (command.may_be_held) return lost();
  const bool again =
      reply.retried > 0 || (executed_ && std::ranges::binary_search(*executed_, out.front()));
  is_repeated_ = is_repeated_ || again;
  // It is not known which of several statements the server has executed now, or whether it has
  // executed any.
  const bool is_unknown = is_unsure_ && !executed_ && reply.errors.empty();
  if (is_unknown || (again && out.size() > 1)) return lost();
  std::vector<std::int32_t> done;
  if (!again) {
    std::ranges::copy_if(command.tried, std::back_inserter(done),
                         [&](std::int32_t each) { return command_.inserted(each); });
  }
  const bool is_certain = !bson::find(command.message.body(), "writeConcernError").has_value();
  stored(done, is_certain ? durability_ : ids::Durability::not_yet);
  const bool rest_is_pending = options_.ordered || (!is_repeated_ && !command.loses_writes);
  if (!done.empty() && rest_is_pending) one_by_one_ = false;
  if (reply.errors.empty()) return;
  // A collection that took the place of another one has other numbers.
  if (!command.moved.empty()) return lost();
  if (!command.collisions.empty()) return taken(command.collisions.front());
  if (!denies(reply.errors.front().document)) lost();
}

std::optional<std::string> transaction_of(Bytes body) {
  const auto lsid = bson::find(body, "lsid", bson::Type::document);
  const auto number = bson::find(body, "txnNumber", bson::Type::int64);
  if (!lsid || !number) return std::nullopt;
  return std::string(as_text(lsid->value)).append(as_text(number->value));
}

NumbersInTurn::NumbersInTurn(const Plan& plan, GivenValues& given, ids::TurnTaker taker)
    : plan_(plan), given_(given), places_(given.given.size(), kNone) {
  find_lines();
  sort_lines();
  taker.takes = lines_.size() == 1 ? ids::TurnTaker::Takes::one : ids::TurnTaker::Takes::several;
  for (Line& line : lines_) line.turn = line.sequence->turn(taker);
}

/// Finds the line of each place. The values that it gets come with the numbers. Several objects can
/// be the same sequence, if it has been forgotten meanwhile.
void NumbersInTurn::find_lines() {
  std::unordered_map<ids::Source*, std::uint32_t> by_object;
  std::unordered_map<std::string, std::uint32_t> by_name;
  for (std::size_t at = 0; at < places_.size(); ++at) {
    const Given& given = given_.given[at];
    const Assignment& assignment = plan_[given.assignment];
    if (!assignment.in_turn) continue;
    std::uint32_t source = 0;
    ids::Source* sequence = assignment.source.get();
    if (assignment.sequences != nullptr) {
      const GivenSequences& its = given_.sequences[given.assignment];
      source = its.of_value[given.value];
      sequence = its.all[source].get();
    }
    const auto next = static_cast<std::uint32_t>(lines_.size());
    const auto [known, is_new] = by_object.emplace(sequence, next);
    if (is_new) {
      std::string name = sequence->name();
      known->second = by_name.emplace(name, next).first->second;
      if (known->second == next) {
        lines_.push_back({given.assignment, source, sequence, std::move(name)});
      }
    }
    places_[at] = known->second;
  }
  for (const Line& line : lines_) {
    if (plan_[line.assignment].sequences == nullptr) continue;
    given_.sequences[line.assignment].of_value.clear();
  }
}

void NumbersInTurn::sort_lines() {
  std::vector<std::uint32_t> order(lines_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [this](std::uint32_t line) { return lines_[line].name; });
  std::vector<Line> sorted;
  std::vector<std::uint32_t> now_at(lines_.size());
  for (const std::uint32_t line : order) {
    now_at[line] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(std::move(lines_[line]));
  }
  lines_ = std::move(sorted);
  for (std::uint32_t& line : places_) {
    if (line != kNone) line = now_at[line];
  }
}

/// Calls `use` with the index in GivenValues::given of each place in these statements, in their
/// order, and its line.
template <class Use>
void NumbersInTurn::each_place(std::span<const std::int32_t> statements, const Use& use) const {
  given_.each_of(statements, [&](std::size_t at) {
    if (places_[at] != kNone) use(at, places_[at]);
  });
}

void NumbersInTurn::count_places(std::span<const std::int32_t> statements) {
  for (Line& line : lines_) line.places = 0;
  each_place(statements, [this](std::size_t, std::uint32_t line) { ++lines_[line].places; });
}

/// Gives each statement the next value of its line. If not all are sent now, the others can only
/// get earlier ones later: if some before them fail.
void NumbersInTurn::number(std::span<const std::int32_t> statements) {
  std::vector<std::size_t> next;
  next.reserve(lines_.size());
  for (const Line& line : lines_) next.push_back(line.next);
  each_place(statements, [&](std::size_t at, std::uint32_t line) {
    given_.given[at].value = static_cast<std::uint32_t>(next[line]++);
  });
}

std::optional<Need> NumbersInTurn::provide(std::span<const std::int32_t> statements) {
  const bool is_complete = std::ranges::all_of(
      lines_, [](const Line& line) { return line.has_numbers || line.is_over; });
  if (is_complete && !is_counted_) return std::nullopt;
  if (!std::exchange(is_counted_, true)) count_places(statements);
  for (; asked_ < lines_.size(); ++asked_) {
    Line& line = lines_[asked_];
    line.is_over = line.places == 0;
    if (line.has_numbers || line.is_over) continue;
    if (auto missing = draw(line)) return missing;
  }
  asked_ = 0;
  is_counted_ = false;
  number(statements);
  return std::nullopt;
}

std::optional<Need> NumbersInTurn::draw(Line& line) {
  const Assignment& assignment = plan_[line.assignment];
  Need missing{nullptr,     &assignment,           line.turn.get(),
               line.places, line.turn->patience(), assignment.not_ready};
  if (missing.error) return missing;
  ids::Values& values = given_.values[line.assignment];
  line.next = values.size();
  const ids::Draw drawn = line.turn->next(line.places, values);
  if (drawn.needs_store()) return missing;
  note_source(line);
  if (!drawn) {
    missing.error = drawn.error();
    return missing;
  }
  line.has_numbers = true;
  return std::nullopt;
}

/// Notes where the values come from that have been added.
void NumbersInTurn::note_source(const Line& line) {
  if (plan_[line.assignment].sequences == nullptr) return;
  const std::size_t values = given_.values[line.assignment].size();
  given_.sequences[line.assignment].of_value.resize(values, line.source);
}

bool NumbersInTurn::has_some() const {
  return std::ranges::any_of(lines_, &Line::has_numbers);
}

void NumbersInTurn::accept(ids::Grant grant) {
  Line& line = lines_[asked_];
  line.turn->accept(std::move(grant), given_.values[line.assignment]);
  note_source(line);
  line.has_numbers = true;
}

void NumbersInTurn::send(std::span<const std::int32_t> statements) {
  count_places(statements);
  number(statements);
  may_wait_ = false;
  for (Line& line : lines_) {
    if (line.places == 0) continue;
    line.turn->sent();
    may_wait_ = may_wait_ || line.turn->is_held();
  }
}

void NumbersInTurn::stored(std::span<const std::int32_t> statements, ids::Durability durability) {
  count_places(statements);
  for (Line& line : lines_) {
    if (!line.has_numbers) continue;
    line.next += line.places;
    line.turn->stored(line.places, durability);
  }
}

const Assignment* NumbersInTurn::sequence_in(const Collision& collision) const {
  for (const std::size_t at : collision.given) {
    if (places_[at] != kNone) return &plan_[lines_[places_[at]].assignment];
  }
  return nullptr;
}

void NumbersInTurn::taken(const Collision& collision) {
  for (const std::size_t at : collision.given) {
    if (places_[at] == kNone) continue;
    Line& line = lines_[places_[at]];
    line.has_numbers = false;
    line.turn->taken();
  }
}

void NumbersInTurn::lost() {
  for (Line& line : lines_) {
    if (!line.has_numbers) continue;
    line.has_numbers = false;
    line.turn->lost();
  }
}

}  // namespace idproxy::rewrite
