#include <memory>
#include <string>

#include "idproxy/rewrite/conversation.hpp"
#include "rewrite/login.hpp"

namespace idproxy::rewrite {
namespace {

/// The conversation of a step of a login, or of a logout: who the connection's user is afterwards.
class LoginExchange final : public Conversation {
 public:
  LoginExchange(const LoginRequest& login, Bytes message, ConnectionMemory* memory)
      : Conversation(message), name_(login.command.name), memory_(memory) {
    if (memory == nullptr) return;
    if (const auto user = user_after(login.command)) memory->user_changed(*user);
    memory->rights.forget();
  }

  Action begin(const Received& /*received*/) override {
    awaits_reply_ = acknowledged_;
    return action::Relay{};
  }
  Action reply(Bytes message, const Context& /*context*/, Workspace& /*workspace*/) override {
    const wire::MsgHeader header = wire::read_header(message);
    if (wire::has_flag(header, message, wire::flag::kMoreToCome)) return action::Close{};
    const bool readable = memory_ == nullptr || note_login(name_, message, *memory_);
    return readable ? rewrite::Action(action::Relay{}) : action::Close{};
  }

 private:
  const std::string name_;
  ConnectionMemory* const memory_;
};

}  // namespace

std::unique_ptr<Conversation> login_exchange(const LoginRequest& login, Bytes message,
                                             ConnectionMemory* memory) {
  return std::make_unique<LoginExchange>(login, message, memory);
}

}  // namespace idproxy::rewrite
