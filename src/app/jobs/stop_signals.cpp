#include "app/jobs/stop_signals.hpp"

#include <cstdlib>
#include <ctime>

#include "idproxy/app/command_line.hpp"

namespace idproxy::app::jobs {
namespace {

using namespace std::chrono_literals;

constexpr auto kRest = 250ms;
// How often the thread that waits for signals looks whether it must end.
constexpr timespec kLook{0, 100'000'000};

}  // namespace

sigset_t stop_signal_set() {
  sigset_t set{};
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&set, signal);
  return set;
}

StopSignals::StopSignals() {
  const sigset_t set = stop_signal_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  thread_.join();
}

void StopSignals::watch() {
  const sigset_t set = stop_signal_set();
  while (true) {
    const bool caught = sigtimedwait(&set, nullptr, &kLook) > 0;
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    if (!caught) continue;
    if (told_) std::_Exit(static_cast<int>(ExitCode::left));
    told_ = true;
    changed_.notify_all();
  }
}

bool StopSignals::told() const {
  const std::scoped_lock lock(mutex_);
  return told_;
}

bool StopSignals::wait_for(std::chrono::nanoseconds time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return told_; });
}

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

}  // namespace idproxy::app::jobs
