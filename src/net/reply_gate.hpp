#pragma once

#include <cstddef>
#include <string_view>

#include "idproxy/wire/frame_reader.hpp"
#include "idproxy/wire/reply_ledger.hpp"

namespace idproxy::net {

/// Finds the messages in a server's bytes and tells which request each of them answers. A state
/// machine without sockets: look() decides about the front of the bytes, and the caller reports
/// what it has done.
class ReplyGate {
 public:
  struct Step {
    enum class Kind {
      need,      ///< nothing can be decided before `bytes` of the message are there
      pass,      ///< `bytes` go on to the client: then passed()
      exchange,  ///< the first `bytes` are the whole reply that the exchange awaits
      over,      ///< nobody awaits this reply any more: the connection has nothing left to say
      reject,    ///< the connection ends, for `fault`
    };
    Kind kind;
    std::size_t bytes = 0;
    bool begins = false;  ///< of `pass`: with them a reply begins
    bool more = false;    ///< of one that begins: another reply to the same request follows it
    wire::MsgHeader header{};
    std::string_view fault{};
  };
  /// What ends with the bytes that were passed on.
  enum class Ended { nothing, reply, last_reply };
  /// How far the exchange is.
  struct Exchange {
    bool awaits_reply = false;
    bool sent_whole = true;  ///< its message
  };

  /// What becomes of `front`, which is not empty and starts where the last step ended.
  /// `abandoned`: the last request has been answered by the proxy, and no later one is forwarded.
  [[nodiscard]] Step look(Bytes front, Exchange exchange, bool abandoned) const;
  /// Event: what `step` passes on has been taken.
  Ended passed(const Step& step);

  /// The next reply is the one that the exchange awaits.
  [[nodiscard]] bool is_for(Exchange exchange) const {
    return exchange.awaits_reply && ledger_.outstanding() == 1;
  }
  /// For its events, and what is outstanding.
  [[nodiscard]] wire::ReplyLedger& ledger() { return ledger_; }
  [[nodiscard]] const wire::ReplyLedger& ledger() const { return ledger_; }

 private:
  [[nodiscard]] std::string_view fault_of(const wire::MsgHeader& header, Exchange exchange) const;

  wire::FrameReader frames_;
  wire::ReplyLedger ledger_;
};

}  // namespace idproxy::net
