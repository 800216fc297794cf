#include "deadlines.hpp"

namespace idproxy::net {

void Deadlines::start(Place& place, Expired expired) {
  place.stop();
  place.expired_ = expired;
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
    place.expired_(place);
  }
  if (!places_.empty()) wait();
}

}  // namespace idproxy::net
