#include "net/deadlines.hpp"

namespace idproxy::net {

void Deadlines::start(Place& place, Expired expired) {
  place.stop();
  place.expired_ = expired;
  place.end_ = std::chrono::steady_clock::now() + time_;
  places_.push_back(place);
  if (!timer_.runs()) wait();
}

void Deadlines::wait() {
  timer_.start_at(places_.front().end_, [this] { look(); });
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
