#include "net/prober.hpp"

#include <chrono>
#include <utility>

#include "idproxy/base/random.hpp"

namespace idproxy::net {
namespace {

// How often to ask a server that no client is connected to.
constexpr std::chrono::seconds kAskIdle{10};

}  // namespace

Prober::Prober(IoThread& thread, std::shared_ptr<Upstream> server, Owner& owner)
    : thread_(thread), server_(std::move(server)), owner_(owner), pause_(thread.loop) {}

void Prober::start() {
  if (probe_) std::exchange(probe_, nullptr)->cancel();
  const bool known = owner_.is_known(*server_);
  const std::chrono::nanoseconds pause =
      known ? kAskIdle : backoff_.wait(thread_.shared.clock.monotonic());
  pause_.start(pause, [self = shared_from_this(), known] {
    self->owner_.about_to_ask(*self->server_);
    if (self->stopped_) return;
    const Upstream& server = *self->server_;
    const bool clients_tell = server.connections > 0 && server.down_since == 0;
    if (known && clients_tell) return self->start();
    self->ask();
  });
}

void Prober::stop() {
  stopped_ = true;
  pause_.cancel();
  if (probe_) std::exchange(probe_, nullptr)->cancel();
}

void Prober::ask() {
  auto probe = Probe::start(thread_, server_,
                            [self = shared_from_this()](std::optional<rewrite::HelloReply> said) {
                              if (!self->stopped_) self->answered(std::move(said));
                            });
  // The probe may have failed at once, and the owner may have stopped this prober.
  if (!stopped_) probe_ = std::move(probe);
}

void Prober::answered(std::optional<rewrite::HelloReply> said) {
  if (said && said->state != rewrite::HelloReply::State::unknown) {
    backoff_.succeeded();
  } else {
    backoff_.failed(thread_.shared.clock.monotonic(), system_random());
    said.reset();
  }
  owner_.answered(*server_, std::move(said));
  if (!stopped_) start();
}

}  // namespace idproxy::net
