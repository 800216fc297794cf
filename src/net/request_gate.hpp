#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "idproxy/rewrite/classify.hpp"
#include "idproxy/wire/messages.hpp"
#include "net/budget.hpp"
#include "net/inflation.hpp"

namespace idproxy::net {

/// Why a connection is ended: the name and the text of the log event.
struct ProtocolFault {
  std::string_view event;
  std::string_view message;
};

/// Finds the messages in a client's bytes and decides what to do with each: framing,
/// classification, and room for messages that must be held whole. A state machine without
/// sockets: decide() says what to do with the front of the bytes, and the caller reports what it
/// has done.
class RequestGate {
 public:
  /// What is known of a message as soon as it begins.
  struct Message {
    wire::MsgHeader header{};    ///< of the message inside, if it is compressed
    bool expects_reply = false;  ///< from the server
    bool may_wait = false;       ///< the server may hold its reply back until there is news
    bool may_stream = false;     ///< it is compressed, and has the flag exhaustAllowed
    wire::Compressor compressor = wire::Compressor::none;
  };
  struct Step {
    enum class Kind {
      need,     ///< look again once `bytes` of the message have been received
      wait,     ///< there is no room for more of the message yet: call queue()
      later,    ///< look again once the client has the replies to all earlier requests
      relay,    ///< relay `bytes` to the server, then call relayed()
      collect,  ///< the first `bytes` are the whole message of `request`: call take_share()
      late,     ///< draining: refuse this message of `bytes`, perhaps not all of them received
      reject,   ///< end the connection because of `fault`
    };
    Kind kind;
    std::size_t bytes = 0;
    bool begins = false;     ///< with `relay`: the bytes begin a message
    std::size_t length = 0;  ///< with `begins` and `need`: of the whole message, as it is sent
    Message about{};         ///< with `begins`, `collect` and `late`
    ProtocolFault fault{};
    rewrite::Decision decision{};  ///< with `begins`: Relay; with `collect`: a Request
    /// With `begins`, `collect` and `late`: the message that `about` describes, or its beginning.
    /// Of a compressed one, what was inflated; valid until the next decide().
    Bytes message{};
  };
  /// What a client and its connection are at the moment.
  struct Client {
    bool draining;     ///< messages that expect a reply are late
    bool needs_login;  ///< it has not logged in, and the server wants that
    bool has_replies;  ///< it has taken the replies to all earlier requests
    rewrite::X509 x509;
    wire::Compressors compressors;  ///< that it has agreed on with its server
    std::size_t expected = 0;       ///< about the size of the messages that it has sent
  };

  /// `inflation`: of the thread.
  RequestGate(Budget& budget, Inflation& inflation) : budget_(budget), inflation_(inflation) {}
  ~RequestGate() { leave(); }
  RequestGate(const RequestGate&) = delete;
  RequestGate& operator=(const RequestGate&) = delete;

  /// What to do with `front`, which is not empty and starts where the last step ended.
  [[nodiscard]] Step decide(Bytes front, const Client& client, rewrite::Namespaces& namespaces);

  /// Event: the caller has passed on what `step` says. True if that completes a message.
  bool relayed(const Step& step);
  /// Event: a message has been forwarded to the server, as it is or by an exchange.
  void forwarded() { has_forwarded_ = true; }
  /// After Kind::wait: waits for room for the message; `granted` as for Budget::wait().
  void queue(Budget::Granted granted) {
    place_ = budget_.wait(share_, wanted_, std::move(granted));
  }
  /// Event: the budget has granted `more`.
  void admitted(Budget::Share more) {
    place_ = 0;
    share_.join(std::move(more));
  }
  /// The share of the budget for the message that was collected.
  [[nodiscard]] Budget::Share take_share() { return std::move(share_); }
  /// Returns the share, or leaves the queue for it.
  void leave();

  /// True while a message is passed on and not complete.
  [[nodiscard]] bool inside() const { return frames_.inside(); }
  /// True while a message waits for room.
  [[nodiscard]] bool queued() const { return place_ != 0; }
  /// The bytes of the budget that a message has which is not whole yet.
  [[nodiscard]] std::uint64_t room() const { return share_.bytes(); }
  [[nodiscard]] bool has_forwarded() const { return has_forwarded_; }

 private:
  [[nodiscard]] inline Step look_at_message(const Message& about, Bytes front, const Client& client,
                                            rewrite::Namespaces& namespaces);
  [[nodiscard]] Step look_inside(const wire::MsgHeader& outer, Bytes front, const Client& client,
                                 rewrite::Namespaces& namespaces);
  [[nodiscard]] Step decide_inside(const wire::MsgHeader& outer, Bytes front,
                                   const wire::CompressedView& view, const Client& client,
                                   rewrite::Namespaces& namespaces);
  /// Bytes of a message, inflated and as it came.
  struct Extent {
    std::size_t there;  ///< received
    std::size_t next;   ///< that have to be held so that something can be decided
    std::size_t whole;  ///< that it may grow to
  };
  void find_room(Step& step, const Extent& message, const Client& client);

  Budget& budget_;
  Inflation& inflation_;
  wire::FrameReader frames_;
  Budget::Share share_;         // for the message that is being collected
  Budget::Ticket place_ = 0;    // place in the budget's queue; 0: none
  Budget::Need wanted_{};       // after Kind::wait
  bool has_forwarded_ = false;  // a message has been forwarded
};

}  // namespace idproxy::net
