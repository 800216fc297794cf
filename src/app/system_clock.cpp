#include "app/system_clock.hpp"

namespace idproxy::app {
namespace {

class SystemClock final : public Clock {
 public:
  std::chrono::nanoseconds wall() const override {
    return std::chrono::system_clock::now().time_since_epoch();
  }
  std::chrono::nanoseconds monotonic() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
};
const SystemClock kClock;

}  // namespace

ids::Sources process_sources() {
  return {kClock, system_random()};
}

std::chrono::nanoseconds monotonic_now() {
  return kClock.monotonic();
}

}  // namespace idproxy::app
