#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>

#include "asio.hpp"
#include "timer.hpp"

namespace idproxy::net {

class ConnectionPair;

/// Connections that all have the same time for something, in the order in which theirs began: one
/// timer for all of them, and none while there is none. Lives on one io thread.
class Deadlines {
 public:
  using Expired = void (ConnectionPair::*)();

  /// A connection's place. One at a time: start() takes it out of where it is.
  class Place : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    explicit Place(ConnectionPair& pair) : pair_(pair) {}
    [[nodiscard]] bool runs() const { return is_linked(); }
    void stop() {
      if (is_linked()) unlink();
    }

   private:
    friend Deadlines;
    ConnectionPair& pair_;
    std::chrono::steady_clock::time_point end_;
  };

  /// `expired` is called for each whose time is over, which has left the list then.
  Deadlines(asio::io_context& io, std::chrono::milliseconds time, Expired expired)
      : time_(time), expired_(expired), timer_(io) {}

  void start(Place& place);
  void cancel() { timer_.cancel(); }

 private:
  void wait();
  void look();

  using List = boost::intrusive::list<Place, boost::intrusive::constant_time_size<false>>;

  std::chrono::milliseconds time_;
  Expired expired_;
  Timer timer_;
  bool waiting_ = false;
  List places_;
};

}  // namespace idproxy::net
