#include "lookups.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace idproxy::net {
namespace {

using boost::asio::ip::tcp;

struct Answer {
  std::string error;
  std::vector<tcp::endpoint> found;
};

Answer ask(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* all = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &all);
  if (code == EAI_SYSTEM) return {std::generic_category().message(errno), {}};
  if (code != 0) return {::gai_strerror(code), {}};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(all, ::freeaddrinfo);
  Answer answer;
  for (const addrinfo* each = all; each != nullptr; each = each->ai_next) {
    tcp::endpoint endpoint;
    if (each->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), each->ai_addr, each->ai_addrlen);
    endpoint.resize(each->ai_addrlen);
    answer.found.push_back(endpoint);
  }
  if (answer.found.empty()) answer.error = "the name has no address";
  return answer;
}

}  // namespace

struct Lookups::State {
  struct Waiting {
    boost::asio::io_context* io;
    Done done;
  };

  void answered(const std::string& name, const Answer& answer) {
    const std::lock_guard lock(mutex);
    for (Waiting& each : std::exchange(waiting[name], {})) {
      boost::asio::post(
          *each.io, [done = std::move(each.done), answer] { done(answer.error, answer.found); });
    }
    waiting.erase(name);
  }

  std::mutex mutex;
  std::map<std::string, std::vector<Waiting>> waiting;  // by "host port"; cleared by stop()
  bool stopped = false;
};

Lookups::Lookups() : state_(std::make_shared<State>()) {}

void Lookups::start(boost::asio::io_context& io, const std::string& host, std::uint16_t port,
                    Done done) {
  const std::string name = host + ' ' + std::to_string(port);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopped) return;
    auto& waiting = state_->waiting[name];
    waiting.push_back({&io, std::move(done)});
    if (waiting.size() > 1) return;
  }
  try {
    // Nobody joins it: getaddrinfo cannot be cancelled, and touches nothing of ours.
    std::thread([state = state_, name, host, port] {
      state->answered(name, ask(host, port));
    }).detach();
  } catch (const std::system_error& error) {
    state_->answered(name, {error.what(), {}});
  }
}

void Lookups::stop() {
  // Freed without the lock: what a Done holds may ask for something in turn.
  std::map<std::string, std::vector<State::Waiting>> waiting;
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  waiting.swap(state_->waiting);
}

}  // namespace idproxy::net
