#include "idproxy/rewrite/exchange.hpp"

#include <utility>

#include "idproxy/rewrite/connection_memory.hpp"
#include "rewrite/catalog_exchange.hpp"
#include "rewrite/hello_exchange.hpp"
#include "rewrite/next_exchange.hpp"
#include "rewrite/status_exchange.hpp"

namespace idproxy::rewrite {
namespace {

/// A request that the proxy answers itself.
class Refusal final : public Conversation {
 public:
  using Conversation::Conversation;
  Action begin(CommandError error, const Received& received) {
    return fail_request(received.message, std::move(error), received.workspace);
  }
  Action reply(Bytes /*message*/, const Context& /*context*/, Workspace& /*workspace*/) override {
    return action::Close{};
  }
};

}  // namespace

Exchange::Exchange(ServerId server, ConnectionMemory* memory) : server_(server), memory_(memory) {}

Exchange::~Exchange() = default;

template <class Type, class... Arguments>
Type& Exchange::open(Arguments&&... arguments) {
  auto opened = std::make_unique<Type>(std::forward<Arguments>(arguments)...);
  Type& what = *opened;
  other_ = std::move(opened);
  what_ = &what;
  return what;
}

Action Exchange::request(Request&& request, Bytes message, Buffer* owner, const Context& context,
                         Workspace& workspace) {
  const Conversation::Received received{message, owner, context, workspace};
  if (auto* found = std::get_if<WriteRequest>(&request)) {
    what_ = &write_.emplace(std::move(*found), received, memory_);
    return write_->begin(received);
  }
  if (const auto* found = std::get_if<HelloRequest>(&request)) {
    kind_ = Kind::hello;
    return open<HelloExchange>(message, server_, memory_).begin(*found, received);
  }
  if (const auto* found = std::get_if<StatusRequest>(&request)) {
    const Action action = open<StatusExchange>(message, server_).begin(*found, received);
    if (acknowledged()) kind_ = Kind::status;
    return action;
  }
  if (const auto* found = std::get_if<NextRequest>(&request)) {
    auto& next = open<NextExchange>(message, memory_ == nullptr ? nullptr : &memory_->rights);
    if (acknowledged()) kind_ = Kind::next;
    return next.begin(*found, received);
  }
  if (auto* found = std::get_if<EndOfTransaction>(&request)) {
    return open<EndOfTransactionExchange>(message).begin(std::move(*found));
  }
  if (auto* found = std::get_if<CatalogRequest>(&request)) {
    return open<CatalogExchange>(message).begin(std::move(*found));
  }
  return open<Refusal>(message).begin(std::get<RefusedRequest>(std::move(request)).error, received);
}

std::size_t Exchange::handed_out() const {
  return is_next() ? static_cast<const NextExchange&>(*other_).handed_out() : 0;
}

}  // namespace idproxy::rewrite
