#include "deadlines.hpp"

#include "connection_pair.hpp"

namespace idproxy::net {

void Deadlines::start(Place& place) {
  place.stop();
  place.end_ = std::chrono::steady_clock::now() + time_;
  places_.push_back(place);
  if (!waiting_) wait();
}

void Deadlines::wait() {
  waiting_ = true;
  timer_.expires_at(places_.front().end_);
  timer_.async_wait([this](error_code error) {
    waiting_ = false;
    if (!error) look();
  });
}

void Deadlines::look() {
  const auto now = std::chrono::steady_clock::now();
  while (!places_.empty() && places_.front().end_ <= now) {
    Place& place = places_.front();
    places_.pop_front();
    (place.pair_.*expired_)();
  }
  if (!places_.empty()) wait();
}

}  // namespace idproxy::net
