#pragma once

#include <memory>
#include <vector>

#include "idproxy/rewrite/conversation.hpp"

namespace idproxy::rewrite {

/// The conversation of a command that changes the catalog: what is known of its collections is void
/// until it is answered, or from now on. Collections are looked at again after it.
class CatalogExchange final : public Conversation {
 public:
  using Conversation::Conversation;

  Action begin(CatalogRequest&& request);
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;

 private:
  CatalogRequest request_;
  std::vector<std::shared_ptr<void>> changes_;  // under way
};

/// The conversation of commitTransaction and abortTransaction: whose numbers without gaps were the
/// transaction's.
class EndOfTransactionExchange final : public Conversation {
 public:
  using Conversation::Conversation;

  Action begin(EndOfTransaction&& ending);
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;

 private:
  EndOfTransaction ending_;
};

}  // namespace idproxy::rewrite
