#include "app/patience.hpp"

#include <thread>

namespace idproxy::app {
namespace {

constexpr std::chrono::milliseconds kRest{250};

}  // namespace

Patience::Patience(const StopSignals& stop, ProgressDisplay& display)
    : stop_(stop), display_(display), succeeded_(std::chrono::steady_clock::now()) {}

void Patience::succeeded() {
  succeeded_ = std::chrono::steady_clock::now();
}

bool Patience::rest(const std::string& reason) {
  const auto waited = std::chrono::steady_clock::now() - succeeded_;
  if (waited > kUsual || (stop_.told() && waited > kAtStop)) return false;
  display_.waits(reason);
  std::this_thread::sleep_for(kRest);
  return true;
}

}  // namespace idproxy::app
