#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "idproxy/rewrite/classify.hpp"
#include "idproxy/wire/frame_reader.hpp"
#include "net/budget.hpp"

namespace idproxy::net {

/// Why a connection is ended: the name and the text of the log event.
struct ProtocolFault {
  std::string_view event;
  std::string_view message;
};

/// Finds the messages in a client's bytes and decides what to do with each: framing,
/// classification, and admission of messages that must be held whole. A state machine without
/// sockets: look() decides about the front of the bytes, and the caller reports what it has done.
class RequestGate {
 public:
  /// What is known of a message as soon as it begins.
  struct Message {
    wire::MsgHeader header{};
    bool expects_reply = false;  ///< from the server
    bool may_wait = false;       ///< the server may hold its reply back until there is news
  };
  struct Step {
    enum class Kind {
      need,     ///< look again once `bytes` of the message have been received
      wait,     ///< there is no room for the message yet: call queue()
      pass,     ///< pass `bytes` on to the server, then call passed()
      collect,  ///< the first `bytes` are the whole message of `request`: call take_share()
      late,     ///< draining: refuse this message of `bytes`, perhaps not all of them received
      reject,   ///< end the connection because of `fault`
    };
    Kind kind;
    std::size_t bytes = 0;
    bool begins = false;  ///< with `pass`: the bytes begin a message
    Message about{};      ///< with `begins` and `collect`
    ProtocolFault fault{};
    rewrite::Decision decision{};  ///< with `begins`: Relay; with `collect`: a Request
  };

  explicit RequestGate(Budget& budget) : budget_(budget) {}
  ~RequestGate() { leave(); }
  RequestGate(const RequestGate&) = delete;
  RequestGate& operator=(const RequestGate&) = delete;

  /// Decides what to do with `front`, which is not empty and starts where the last step ended.
  /// `draining`: messages that expect a reply are late.
  [[nodiscard]] Step look(Bytes front, bool draining, rewrite::Namespaces& namespaces,
                          rewrite::X509 x509);

  /// Event: the caller has passed on what `step` says. True if that completes a message.
  bool passed(const Step& step);
  /// Event: a message has been forwarded to the server, as it is or by an exchange.
  void forwarded() { has_forwarded_ = true; }
  /// After Kind::wait: waits for room for the message; `granted` as for Budget::wait().
  void queue(Budget::Granted granted) { place_ = budget_.wait(wanted_room_, std::move(granted)); }
  /// Event: the budget has granted `share`.
  void admitted(Budget::Share share) {
    place_ = 0;
    share_ = std::move(share);
  }
  /// The share of the budget for the message that was collected.
  [[nodiscard]] Budget::Share take_share() { return std::move(share_); }
  /// Returns the share, or leaves the queue for it.
  void leave();

  /// True while a message is passed on and not complete.
  [[nodiscard]] bool inside() const { return frames_.inside(); }
  /// True while a message waits for room.
  [[nodiscard]] bool queued() const { return place_ != 0; }
  [[nodiscard]] bool has_forwarded() const { return has_forwarded_; }

 private:
  [[nodiscard]] Step look_at_message(const Message& about, Bytes front,
                                     rewrite::Namespaces& namespaces, rewrite::X509 x509);
  [[nodiscard]] bool admit(std::size_t length);

  Budget& budget_;
  wire::FrameReader frames_;
  Budget::Share share_;          // for the message that is being collected
  Budget::Ticket place_ = 0;     // place in the budget's queue; 0: none
  std::size_t wanted_room_ = 0;  // bytes, after Kind::wait
  bool has_forwarded_ = false;   // a message has been forwarded
};

}  // namespace idproxy::net
