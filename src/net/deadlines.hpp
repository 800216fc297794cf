#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>

#include "asio.hpp"
#include "timer.hpp"

namespace idproxy::net {

/// Connections that all have the same time for something, in the order in which theirs began: one
/// timer for all of them, and none while there is none. Lives on one io thread.
class Deadlines {
 public:
  class Place;
  /// Called once the time of a place is over, and it has left the list.
  using Expired = void (*)(Place& place);

  /// A connection's place. In one list at a time: start() takes it out of the list that it is in.
  class Place : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    [[nodiscard]] bool runs() const { return is_linked(); }
    void stop() {
      if (is_linked()) unlink();
    }

   private:
    friend Deadlines;
    Expired expired_ = nullptr;
    std::chrono::steady_clock::time_point end_;
  };

  Deadlines(asio::io_context& io, std::chrono::milliseconds time) : time_(time), timer_(io) {}

  void start(Place& place, Expired expired);
  void cancel() { timer_.cancel(); }

 private:
  void wait();
  void look();

  using List = boost::intrusive::list<Place, boost::intrusive::constant_time_size<false>>;

  std::chrono::milliseconds time_;
  Timer timer_;
  bool waiting_ = false;
  List places_;
};

}  // namespace idproxy::net
