#include "app/serve/pulse.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "app/serve/event_thread.hpp"
#include "app/state/health.hpp"
#include "app/system_clock.hpp"
#include "app/systemd.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::serve {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr std::chrono::microseconds kLongestBeat = 1s;

/// The interval of beats: a third of systemd's watchdog period, at most kLongestBeat.
std::chrono::microseconds beat() {
  return std::clamp<std::chrono::microseconds>(watchdog_period().value_or(1h) / 3, 1ms,
                                               kLongestBeat);
}

}  // namespace

Pulse::Pulse() : tick_(beat()) {
  await_tick();
  thread_ = std::thread([this] { run_loop(io_, "pulse"); });
}

void Pulse::stop() {
  if (!thread_.joinable()) return;
  io_.stop();
  thread_.join();
}

ListenFault Pulse::open(const net::Endpoint& admin, const std::vector<std::string>& names,
                        admin::PagesElsewhere pages) {
  return on_thread(io_, [&]() -> ListenFault {
    admin::Pages own{{"/livez", [this](std::string_view) {
                        return livez(watchdog_ ? watchdog_->owed(monotonic_now())
                                               : std::vector<Watchdog::Time>());
                      }}};
    auto opened = admin::HttpServer::open(io_, admin.host, admin.port, std::move(own), names, {},
                                          std::move(pages));
    if (!opened) return opened.error();
    http_server_ = std::move(*opened);
    log::event(log::Level::info, "admin_listening", "answering operators by HTTP",
               {{"address", http_server_->address()}});
    return {};
  });
}

void Pulse::watch(net::Server& server) {
  asio::post(io_, [this, &server] {
    watchdog_.emplace(server.threads(),
                      [&server](std::size_t thread, std::function<void()> answer) {
                        server.ask(thread, std::move(answer));
                      });
  });
}

void Pulse::ignore() {
  on_thread(io_, [this] { watchdog_.reset(); });
}

void Pulse::drains() {
  asio::post(io_, [this] { drains_ = true; });
}

void Pulse::await_tick() {
  timer_.expires_after(tick_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    on_tick();
    await_tick();
  });
}

void Pulse::on_tick() {
  // The answers to the previous tick's questions.
  if (!watchdog_ || watchdog_->all_answered()) notify("WATCHDOG=1");
  if (!watchdog_) return;
  watchdog_->tick(monotonic_now());
  // limits.drain may be longer than systemd's timeout. The first io thread enforces it; if a thread
  // is stuck, let systemd end the process.
  if (drains_ && all_well()) notify("EXTEND_TIMEOUT_USEC=10000000");
}

bool Pulse::all_well() const {
  return std::ranges::all_of(watchdog_->owed(monotonic_now()),
                             [](Watchdog::Time owed) { return owed < Watchdog::kStuck; });
}

}  // namespace idproxy::app::serve
