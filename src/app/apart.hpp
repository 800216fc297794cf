#pragma once

#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace idproxy::app {

/// Asks, in a thread of its own, what cannot be interrupted. Whoever waits no longer leaves the
/// thread behind, so the question owns all that it uses. For commands: the process ends soon.
template <class Said>
[[nodiscard]] std::future<Said> ask_apart(std::function<Said()> question) {
  std::packaged_task<Said()> task(std::move(question));
  std::future<Said> answer = task.get_future();
  std::thread(std::move(task)).detach();
  return answer;
}

}  // namespace idproxy::app
