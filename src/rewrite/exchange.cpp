#include "idproxy/rewrite/exchange.hpp"

#include <utility>

#include "idproxy/rewrite/memory.hpp"

namespace idproxy::rewrite {
namespace {

/// A request that the proxy answers itself.
class Refusal final : public Conversation {
 public:
  Refusal(CommandError error, Bytes message) : Conversation(message), error_(std::move(error)) {}
  Action begin(const Received& received) override {
    return fail_request(received.message, std::move(error_), received.workspace);
  }
  Action reply(Bytes /*message*/, const Context& /*context*/, Workspace& /*workspace*/) override {
    return action::Close{};
  }

 private:
  CommandError error_;
};

}  // namespace

constinit const ExchangeFacts Exchange::kNothing;

Exchange::Exchange(ServerId server, ConnectionMemory* memory) : server_(server), memory_(memory) {}

Exchange::~Exchange() = default;

Action Exchange::request(Request&& request, Bytes message, Buffer* owner, const Context& context,
                         Workspace& workspace) {
  const Conversation::Received received{message, owner, context, workspace};
  if (auto* found = std::get_if<WriteRequest>(&request)) {
    what_ = &write_.emplace(std::move(*found), received, memory_);
    return what_->begin(received);
  }
  Kind kind = Kind::other;
  Rights* const rights = memory_ == nullptr ? nullptr : &memory_->rights;
  if (auto* hello = std::get_if<HelloRequest>(&request)) {
    kind = Kind::hello;
    other_ = hello_exchange(std::move(*hello), message, server_, memory_);
  } else if (const auto* login = std::get_if<LoginRequest>(&request)) {
    other_ = login_exchange(*login, message, memory_);
  } else if (const auto* status = std::get_if<StatusRequest>(&request)) {
    kind = Kind::status;
    other_ = status_exchange(*status, message, server_);
  } else if (auto* next = std::get_if<NextRequest>(&request)) {
    kind = Kind::next;
    other_ = next_exchange(std::move(*next), message, rights);
  } else if (auto* assign = std::get_if<AssignRequest>(&request)) {
    kind = Kind::assign;
    other_ = assign_exchange(std::move(*assign), message, memory_);
  } else if (auto* ending = std::get_if<EndOfTransaction>(&request)) {
    other_ = end_of_transaction_exchange(std::move(*ending), message, memory_);
  } else if (auto* catalog = std::get_if<CatalogRequest>(&request)) {
    // The server refuses it: what is known stays so.
    if (memory_ != nullptr && memory_->is_stranger()) {
      catalog->changes.clear();
      catalog->past.clear();
    }
    other_ = catalog_exchange(std::move(*catalog), message, rights);
  } else {
    other_ = std::make_unique<Refusal>(std::get<RefusedRequest>(std::move(request)).error, message);
  }
  what_ = other_.get();
  if (kind == Kind::hello || acknowledged()) kind_ = kind;
  return what_->begin(received);
}

}  // namespace idproxy::rewrite
