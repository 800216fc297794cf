#include "rewrite/catalog_exchange.hpp"

#include <utility>

namespace idproxy::rewrite {

Action CatalogExchange::begin(CatalogRequest&& request) {
  awaits_reply_ = acknowledged_;
  for (const ids::CatalogChange& change : request.changes) {
    changes_.push_back(request.rules->change(change));
  }
  if (request.done == CatalogRequest::Done::at_once) changes_.clear();
  for (const CatalogRequest::Past& each : request.past) note_past(each);
  request_ = std::move(request);
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

Action EndOfTransactionExchange::begin(EndOfTransaction&& ending) {
  awaits_reply_ = acknowledged_;
  ending_ = std::move(ending);
  return action::Relay{};
}

Action EndOfTransactionExchange::reply(Bytes message, const Context& /*context*/,
                                       Workspace& /*workspace*/) {
  if (!single_reply(message)) return action::Close{};
  ending_.rules->transaction_ended(ending_.transaction);
  return action::Relay{};
}

}  // namespace idproxy::rewrite
