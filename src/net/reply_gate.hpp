#pragma once

#include <cstddef>
#include <string_view>

#include "idproxy/wire/messages.hpp"
#include "net/inflation.hpp"

namespace idproxy::net {

/// Finds the messages in a server's bytes and the request that each of them answers. A state
/// machine without sockets: decide() says what to do with the front of the bytes, and the caller
/// reports what it has done.
class ReplyGate {
 public:
  struct Step {
    enum class Kind {
      need,      ///< look again once `bytes` of the message have been received
      relay,     ///< relay `bytes` to the client, then call relayed()
      exchange,  ///< the first `bytes` are the whole reply that the exchange awaits
      over,      ///< nobody awaits this reply: end the connection after the replies before it
      reject,    ///< end the connection because of `fault`
    };
    Kind kind;
    std::size_t bytes = 0;
    bool begins = false;  ///< with `relay`: the bytes begin a reply
    bool more = false;    ///< with `begins`: another reply to the same request follows
    wire::MsgHeader header{};
    std::string_view fault{};
  };
  /// Whether the bytes that were passed on complete a reply, or the last one to a request.
  enum class Ended { nothing, reply, last_reply };
  /// The state of the exchange.
  struct Exchange {
    bool awaits_reply = false;
    bool sent_whole = true;  ///< the server has got all of its message
  };

  /// `inflation`: of the thread.
  explicit ReplyGate(Inflation& inflation) : inflation_(inflation) {}

  /// What to do with `front`, which is not empty and starts where the last step ended.
  /// `abandoned`: the proxy has answered the last request itself, and forwards no more.
  [[nodiscard]] Step decide(Bytes front, Exchange exchange, bool abandoned) const;
  /// Event: the caller has passed on what `step` says.
  Ended relayed(const Step& step);

  /// True if the next reply is the one that the exchange awaits.
  [[nodiscard]] bool is_for(Exchange exchange) const {
    return exchange.awaits_reply && ledger_.outstanding() == 1;
  }
  /// The caller reports requests to the ledger, and reads the number of outstanding replies from
  /// it.
  [[nodiscard]] wire::ReplyLedger& ledger() { return ledger_; }
  [[nodiscard]] const wire::ReplyLedger& ledger() const { return ledger_; }
  /// Event: a compressed request was forwarded whose replies may come as a stream. Only then is
  /// there anything to look for in compressed replies that nobody reads.
  void may_stream() { may_stream_ = true; }

 private:
  [[nodiscard]] std::string_view fault_of(const wire::MsgHeader& header, Exchange exchange) const;
  [[nodiscard]] Step look_for_more(Step step, Bytes front) const;

  Inflation& inflation_;
  wire::FrameReader frames_;
  wire::ReplyLedger ledger_;
  bool may_stream_ = false;
};

}  // namespace idproxy::net
