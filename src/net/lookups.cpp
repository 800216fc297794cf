#include "net/lookups.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "idproxy/threads/threads.hpp"

namespace idproxy::net {
namespace {

// Requests within this time of the last one share its answer.
constexpr std::chrono::milliseconds kYoung{250};
constexpr std::size_t kMostAsking = 4;

struct LookupResult {
  std::string error;
  std::vector<SocketAddress> found;
};

LookupResult ask(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* all = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &all);
  if (code == EAI_SYSTEM) return {std::generic_category().message(errno), {}};
  if (code != 0) return {::gai_strerror(code), {}};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(all, ::freeaddrinfo);
  LookupResult result;
  for (const addrinfo* each = all; each != nullptr; each = each->ai_next) {
    result.found.emplace_back(each->ai_addr, each->ai_addrlen, each->ai_protocol);
  }
  if (result.found.empty()) result.error = "the name has no address";
  return result;
}

}  // namespace

struct Lookups::State {
  struct Waiting {
    EventLoop* loop;
    Done done;
  };
  struct Name {
    std::vector<Waiting> waiting;
    std::size_t asking = 0;  // threads
    std::chrono::steady_clock::time_point last;
  };

  /// True if no thread asks yet, or the last one has waited so long that its packet may be lost.
  static bool wants_another(const Name& name, std::chrono::steady_clock::time_point now) {
    return name.asking == 0 || (name.asking < kMostAsking && now - name.last >= kYoung);
  }

  // Under the lock:

  /// Answers all waiting requests, whichever thread asked for them.
  void answered(const std::string& key, const LookupResult& result) {
    if (result.error.empty()) known[key] = result.found;
    const auto found = names.find(key);
    if (found == names.end()) return;
    answer(found->second, result);
    if (--found->second.asking == 0) names.erase(found);
  }

  /// No thread can be started for the request that came last. False: nobody answers it.
  bool not_asked(const std::string& key) {
    const auto found = names.find(key);
    Name& name = found->second;
    const auto last = known.find(key);
    const bool is_known = last != known.end();
    if (is_known) answer(name, {{}, last->second});
    if (!is_known && name.asking == 0) name.waiting.pop_back();
    if (name.asking > 0) return true;
    names.erase(found);
    return is_known;
  }

  static void answer(Name& name, const LookupResult& result) {
    for (Waiting& each : std::exchange(name.waiting, {})) {
      each.loop->post([done = std::move(each.done), result] { done(result.error, result.found); });
    }
  }

  std::mutex mutex;
  std::map<std::string, Name> names;                        // by "host port"; cleared by stop()
  std::map<std::string, std::vector<SocketAddress>> known;  // the last answers
  bool stopped = false;
};

Lookups::Lookups() : state_(std::make_shared<State>()) {}

bool Lookups::start(EventLoop& loop, const std::string& host, std::uint16_t port, Done done) {
  const std::string key = host + ' ' + std::to_string(port);
  const std::lock_guard lock(state_->mutex);
  if (state_->stopped) return true;
  State::Name& name = state_->names[key];
  name.waiting.push_back({&loop, std::move(done)});
  const auto now = std::chrono::steady_clock::now();
  if (!State::wants_another(name, now)) return true;
  std::thread thread;
  const bool asks = threads::start(thread, [state = state_, key, host, port] {
    const LookupResult result = ask(host, port);
    const std::lock_guard its(state->mutex);
    state->answered(key, result);
  });
  if (!asks) return state_->not_asked(key);
  // Detached, because getaddrinfo() cannot be cancelled. The thread owns all that it uses.
  thread.detach();
  ++name.asking;
  name.last = now;
  return true;
}

void Lookups::stop() {
  // Destroyed after the lock is released: what a Done owns may call start() in its destructor.
  std::map<std::string, State::Name> names;
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  names.swap(state_->names);
}

}  // namespace idproxy::net
