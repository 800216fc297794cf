#include "net/upstream.hpp"

#include "idproxy/observability/log.hpp"

namespace idproxy::net {

void Upstream::is_back(std::int64_t since) {
  if (!down_since.compare_exchange_strong(since, 0)) return;
  log::event(log::Level::info, "upstream_back", "the server answers again", {{"server", name}});
}

}  // namespace idproxy::net
