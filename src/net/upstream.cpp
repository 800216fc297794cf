#include "net/upstream.hpp"

#include "idproxy/log/log.hpp"

namespace idproxy::net {

void Upstream::is_back(std::int64_t since, std::chrono::nanoseconds connected) {
  if (!down_since.compare_exchange_strong(since, 0)) return;
  state_since = connected.count();
  log::event(log::Level::info, "upstream_back", "the server answers again", {{"server", name}});
}

}  // namespace idproxy::net
