#include "thread_trace.hpp"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>

namespace idproxy::app {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kPatience = 200ms;

// Where the signal's handler leaves what it has found; of one thread at a time.
std::array<void*, 48> frames;
std::atomic<int> depth{0};

void take_trace(int) {
  depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
}

bool install() {
  (void)::backtrace(frames.data(), 1);  // it loads a library the first time: not in a handler
  struct sigaction action{};
  action.sa_handler = take_trace;
  action.sa_flags = SA_RESTART;
  return ::sigaction(SIGUSR2, &action, nullptr) == 0;
}

}  // namespace

std::string trace_of(pid_t thread) {
  static const bool installed = install();
  depth = 0;
  if (!installed || ::tgkill(::getpid(), thread, SIGUSR2) != 0) return "";
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (depth == 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  const std::unique_ptr<char*, decltype(&std::free)> symbols(
      ::backtrace_symbols(frames.data(), depth), &std::free);
  if (!symbols) return "";
  constexpr int kHandler = 2;  // take_trace(), and what the kernel calls it from
  std::string trace;
  for (int i = kHandler; i < depth; ++i) {
    std::string_view symbol = symbols.get()[i];
    symbol = symbol.substr(0, symbol.find(" ["));  // the address, once more
    trace.append(trace.empty() ? "" : " ").append(symbol);
  }
  return trace;
}

}  // namespace idproxy::app
