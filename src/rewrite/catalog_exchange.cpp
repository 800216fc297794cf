#include <memory>
#include <utility>
#include <vector>

#include "idproxy/rewrite/conversation.hpp"

namespace idproxy::rewrite {
namespace {

/// The conversation of a command that changes the catalog: what is known of its collections is void
/// until it is answered, or from now on. Collections are looked at again after it.
class CatalogExchange final : public Conversation {
 public:
  CatalogExchange(CatalogRequest&& request, Bytes message)
      : Conversation(message), request_(std::move(request)) {}

  Action begin(const Received& received) override;
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;

 private:
  const CatalogRequest request_;
  std::vector<std::shared_ptr<void>> changes_;  // under way
};

/// The conversation of commitTransaction and abortTransaction: whose numbers without gaps were the
/// transaction's.
class EndOfTransactionExchange final : public Conversation {
 public:
  EndOfTransactionExchange(EndOfTransaction&& ending, Bytes message)
      : Conversation(message), ending_(std::move(ending)) {}

  Action begin(const Received& /*received*/) override {
    awaits_reply_ = acknowledged_;
    return action::Relay{};
  }
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;

 private:
  const EndOfTransaction ending_;
};

Action CatalogExchange::begin(const Received& /*received*/) {
  awaits_reply_ = acknowledged_;
  for (const ids::CatalogChange& change : request_.changes) {
    changes_.push_back(request_.rules->change(change));
  }
  if (request_.done == CatalogRequest::Done::at_once) changes_.clear();
  for (const CatalogRequest::Past& each : request_.past) note_past(each);
  return action::Relay{};
}

Action CatalogExchange::reply(Bytes message, const Context& /*context*/, Workspace& /*workspace*/) {
  if (!single_reply(message)) return action::Close{};
  if (!changes_.empty()) {
    changes_.clear();
    return action::Relay{};
  }
  for (const ids::CatalogChange& change : request_.changes) {
    static_cast<void>(request_.rules->change(change));
  }
  return action::Relay{};
}

Action EndOfTransactionExchange::reply(Bytes message, const Context& /*context*/,
                                       Workspace& /*workspace*/) {
  if (!single_reply(message)) return action::Close{};
  ending_.rules->transaction_ended(ending_.transaction);
  return action::Relay{};
}

}  // namespace

std::unique_ptr<Conversation> catalog_exchange(CatalogRequest&& request, Bytes message) {
  return std::make_unique<CatalogExchange>(std::move(request), message);
}

std::unique_ptr<Conversation> end_of_transaction_exchange(EndOfTransaction&& ending,
                                                          Bytes message) {
  return std::make_unique<EndOfTransactionExchange>(std::move(ending), message);
}

}  // namespace idproxy::rewrite
