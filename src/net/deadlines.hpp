#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>

#include "net/event_loop.hpp"

namespace idproxy::net {

/// Gives many connections the same time limit with a single timer: a list in the order in which
/// their times began. No timer runs while the list is empty. Lives on one io thread.
class Deadlines {
 public:
  class Place;
  /// Called when a place's time is over, after it has left the list.
  using Expired = void (*)(Place& place);

  /// A connection's place. It is in one list at a time: start() removes it from any other.
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

  Deadlines(EventLoop& loop, std::chrono::milliseconds time) : time_(time), timer_(loop) {}

  void start(Place& place, Expired expired);

 private:
  void wait();
  void look();

  using List = boost::intrusive::list<Place, boost::intrusive::constant_time_size<false>>;

  std::chrono::milliseconds time_;
  Timer timer_;
  List places_;
};

}  // namespace idproxy::net
