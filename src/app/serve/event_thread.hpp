#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <utility>

/// Threads of the app that run an event loop.
namespace idproxy::app::serve {

/// How long to wait at exit until standard error has taken all lines of the log.
inline constexpr std::chrono::seconds kLogFlushTimeout{1};

/// Runs the loop on this thread, which gets this name, until it is stopped. An exception ends the
/// process, with a line in the log.
void run_loop(boost::asio::io_context& io, const char* name);

/// Runs `work` on the thread of `io`, another one, and returns its result.
template <class Work>
auto on_thread(boost::asio::io_context& io, Work work) {
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto result = task.get_future();
  boost::asio::post(io, std::move(task));
  return result.get();
}

}  // namespace idproxy::app::serve
