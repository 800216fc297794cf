#include <memory>
#include <utility>
#include <vector>

#include "idproxy/ids/index_room.hpp"
#include "idproxy/rewrite/conversation.hpp"

namespace idproxy::rewrite {
namespace {

/// The conversation of a command that changes the catalog: what is known of its collections is void
/// until it is answered, or from now on. Collections are looked at again after it. If the server
/// refuses a createIndexes because of an index that the proxy itself has made, that makes room; if
/// it refuses a command because an index is being built, the proxy's own gets ready. Then the
/// command is sent again, once. The server has asked for the client's rights before. Of a client to
/// which it has just refused such a command, the next ones void nothing.
class CatalogExchange final : public Conversation {
 public:
  CatalogExchange(CatalogRequest&& request, Bytes message, Rights* rights)
      : Conversation(message), request_(std::move(request)), rights_(rights) {}
  CatalogExchange(const CatalogExchange&) = delete;
  CatalogExchange& operator=(const CatalogExchange&) = delete;
  ~CatalogExchange() override {
    if (is_untold_) tell();  // nobody knows what the server did
  }

  Action begin(const Received& received) override;
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;
  Action answered(ids::Result<ids::Grant> grant, const Context& context,
                  Workspace& workspace) override;

 private:
  void begin_changes();
  void tell() const;
  [[nodiscard]] std::string what() const;
  std::optional<Action> make_room(const wire::OpMsgView& refusal);
  [[nodiscard]] std::optional<Bytes> in_the_way_of(const wire::OpMsgView& refusal) const;

  const CatalogRequest request_;
  Rights* const rights_;                        // null: nobody is refused anything
  std::optional<std::size_t> maker_;            // the rule that has an index made there
  std::vector<std::shared_ptr<void>> changes_;  // under way
  bool is_untold_ = false;                      // the server will refuse it, as it seems
  std::shared_ptr<ids::IndexRoom> room_;
  Buffer refusal_;
};

/// The conversation of commitTransaction and abortTransaction: whose numbers without gaps were the
/// transaction's.
class EndOfTransactionExchange final : public Conversation {
 public:
  EndOfTransactionExchange(EndOfTransaction&& ending, Bytes message, const ConnectionMemory* memory)
      : Conversation(message), ending_(std::move(ending)), memory_(memory) {}

  Action begin(const Received& received) override;
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;

 private:
  const EndOfTransaction ending_;
  const ConnectionMemory* const memory_;
  bool wants_majority_ = false;
};

/// True if the command commits the transaction once a majority has it.
bool commits_to_majority(Bytes command, const ConnectionMemory* memory) {
  const auto name = bson::Elements(command).next();
  if (!name || name->key != "commitTransaction") return false;
  const auto concern = bson::find(command, "writeConcern", bson::Type::document);
  const auto w = concern ? bson::find(concern->value, "w") : std::nullopt;
  // The default of these servers, unless somebody sets another.
  if (!w) return memory != nullptr && memory->wire_version >= server_release::k5_0;
  if (w->type == bson::Type::string) return w->text() == "majority";
  const auto members = w->as_integer();
  return members && memory != nullptr && memory->majority > 0 && *members >= memory->majority;
}

Action EndOfTransactionExchange::begin(const Received& received) {
  awaits_reply_ = acknowledged_;
  const auto command = wire::OpMsgView::parse(received.message);
  wants_majority_ = command && commits_to_majority(command->body(), memory_);
  return action::Relay{};
}

void CatalogExchange::begin_changes() {
  for (const ids::CatalogChange& change : request_.changes) {
    changes_.push_back(request_.rules->change(change));
  }
  if (request_.done == CatalogRequest::Done::at_once) changes_.clear();
}

Action CatalogExchange::begin(const Received& received) {
  awaits_reply_ = acknowledged_;
  if (acknowledged_ && !request_.changes.empty()) {
    maker_ = request_.rules->index_maker(request_.changes.front());
  }
  if (maker_) keep_original(received.message, nullptr, received.workspace);
  is_untold_ =
      rights_ != nullptr && rights_->refuses_change(what(), received.context.clock.monotonic());
  if (!is_untold_) begin_changes();
  for (const CatalogRequest::Past& each : request_.past) note_past(each);
  return action::Relay{};
}

/// The indexes that need room; none if one is being built; nothing if it is another refusal.
std::optional<Bytes> CatalogExchange::in_the_way_of(const wire::OpMsgView& refusal) const {
  const auto code = bson::find_integer(refusal.body(), "code");
  if (code == ErrorCode::background_operation_in_progress) return Bytes{};
  const bool is_conflict =
      code == ErrorCode::index_options_conflict || code == ErrorCode::index_key_specs_conflict;
  if (!request_.makes_indexes || !is_conflict) return std::nullopt;
  const auto command = wire::OpMsgView::parse(original());
  if (!command) return std::nullopt;
  const auto indexes = bson::find(command->body(), "indexes", bson::Type::array);
  return indexes ? std::optional(indexes->value) : std::nullopt;
}

/// The first time.
std::optional<Action> CatalogExchange::make_room(const wire::OpMsgView& refusal) {
  if (!maker_ || room_) return std::nullopt;
  const auto indexes = in_the_way_of(refusal);
  if (!indexes) return std::nullopt;
  room_ = request_.rules->index_room(request_.changes.front(), *indexes);
  if (!room_) return std::nullopt;
  refusal_.append(refusal.message());
  return action::AskStore{room_.get(), &request_.rules->outcomes(*maker_), 1, room_->patience()};
}

Action CatalogExchange::answered(ids::Result<ids::Grant> grant, const Context& /*context*/,
                                 Workspace& workspace) {
  // Without a proxy, its index would not be in the way: the client may try again.
  if (!grant && grant.error().is_transient) {
    return fail_request(original(), {ErrorCode::shutdown_in_progress, grant.error().reason},
                        workspace);
  }
  if (!grant) return action::Reply{refusal_.view()};
  begin_changes();
  refill(workspace);
  message_.start(original());
  message_.keep(0, original().size());
  return action::Send{&message_, original()};
}

Action CatalogExchange::reply(Bytes message, const Context& context, Workspace& /*workspace*/) {
  const auto view = single_reply(message);
  if (!view) return action::Close{};
  if (const auto room = make_room(*view)) return *room;
  is_untold_ = false;
  const bool is_refused = bson::find_integer(view->body(), "code") == ErrorCode::unauthorized;
  if (is_refused && rights_ != nullptr) {
    rights_->change_refused(what(), context.clock.monotonic());
  }
  if (changes_.empty() && !is_refused) tell();
  changes_.clear();
  return action::Relay{};
}

void CatalogExchange::tell() const {
  for (const ids::CatalogChange& change : request_.changes) {
    static_cast<void>(request_.rules->change(change));
  }
}

/// The collections that it changes.
std::string CatalogExchange::what() const {
  std::string names;
  for (const ids::CatalogChange& change : request_.changes) {
    names += change.db + "." + change.collection + " ";
  }
  return names;
}

Action EndOfTransactionExchange::reply(Bytes message, const Context& /*context*/,
                                       Workspace& /*workspace*/) {
  const auto view = single_reply(message);
  if (!view) return action::Close{};
  const bool is_done =
      bson::find_integer(view->body(), "ok") == 1 && !bson::find(view->body(), "writeConcernError");
  ending_.rules->transaction_ended(ending_.transaction, wants_majority_ && is_done);
  return action::Relay{};
}

}  // namespace

std::unique_ptr<Conversation> catalog_exchange(CatalogRequest&& request, Bytes message,
                                               Rights* rights) {
  return std::make_unique<CatalogExchange>(std::move(request), message, rights);
}

std::unique_ptr<Conversation> end_of_transaction_exchange(EndOfTransaction&& ending, Bytes message,
                                                          const ConnectionMemory* memory) {
  return std::make_unique<EndOfTransactionExchange>(std::move(ending), message, memory);
}

}  // namespace idproxy::rewrite
