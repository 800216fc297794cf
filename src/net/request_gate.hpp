#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "budget.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "idproxy/wire/frame_reader.hpp"

namespace idproxy::net {

/// Why a connection ends: an event for the log, and its message.
struct ProtocolFault {
  std::string_view event;
  std::string_view message;
};

/// Finds the messages in a client's bytes and decides what becomes of each: framing,
/// classification, and admission of those that are to be held whole. A state machine without
/// sockets: look() decides about the front of the bytes, and the caller reports what it has done.
class RequestGate {
 public:
  struct Step {
    enum class Kind {
      need,     ///< nothing can be decided before `bytes` of the message are there
      wait,     ///< there is no room for the message yet: queue() for it
      pass,     ///< `bytes` go on to the server: then passed()
      collect,  ///< the first `bytes` are a whole message for an Exchange, `request`: then
                ///< take_share()
      late,     ///< draining: a message that expects a reply, `bytes` long, not all of it there
      reject,   ///< the connection ends, for `fault`
    };
    Kind kind;
    std::size_t bytes = 0;
    bool begins = false;  ///< of `pass`: with them a message begins, the one with `header`
    wire::MsgHeader header{};
    ProtocolFault fault{};
    std::optional<rewrite::Request> request{};  ///< of `collect`
  };

  explicit RequestGate(Budget& budget) : budget_(budget) {}
  ~RequestGate() { leave(); }
  RequestGate(const RequestGate&) = delete;
  RequestGate& operator=(const RequestGate&) = delete;

  /// What becomes of `front`, which is not empty and starts where the last step ended.
  [[nodiscard]] Step look(Bytes front, bool draining, rewrite::Namespaces& namespaces,
                          rewrite::X509 x509);

  /// Event: what `step` passes on has been taken. True if a message ends with it.
  bool passed(const Step& step);
  /// Event: a message has gone to the server, or into an exchange that sent it.
  void forwarded() { has_forwarded_ = true; }
  /// Waits for the room that Step::wait asks for; `granted` as for Budget::wait().
  void queue(Budget::Granted granted) { place_ = budget_.wait(wanted_room_, std::move(granted)); }
  /// Event: there is room.
  void admitted(Budget::Share share) {
    place_ = 0;
    share_ = std::move(share);
  }
  /// The room of the message that has been collected.
  [[nodiscard]] Budget::Share take_share() { return std::move(share_); }
  /// Gives room, or the place in the queue for it, back.
  void leave();

  /// A message is passed on and not at its end.
  [[nodiscard]] bool inside() const { return frames_.inside(); }
  /// A message waits for room.
  [[nodiscard]] bool queued() const { return place_ != 0; }
  [[nodiscard]] bool has_forwarded() const { return has_forwarded_; }

 private:
  [[nodiscard]] Step look_at_message(const wire::MsgHeader& header, Bytes front,
                                     rewrite::Namespaces& namespaces, rewrite::X509 x509);
  [[nodiscard]] bool admit(std::size_t length);

  Budget& budget_;
  wire::FrameReader frames_;
  Budget::Share share_;          // of the message that is being collected
  Budget::Ticket place_ = 0;     // in the budget's queue; 0: none
  std::size_t wanted_room_ = 0;  // of Step::wait
  bool has_forwarded_ = false;   // a message
};

}  // namespace idproxy::net
