#include <cstddef>
#include <cstdint>
#include <string>

#include "fuzz.hpp"
#include "idproxy/config/config.hpp"
#include "idproxy/config/seed_list.hpp"

// Input: the text of a configuration. Findings must be in the order of its lines. In an accepted
// configuration every rule has a strategy and there are servers to connect to, at the latest when
// the servers of a mongodb+srv string are known, and reloading it unchanged needs no restart.

namespace {

using idproxy::fuzz::require;

class StoppedClock : public idproxy::Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override { return {}; }
  [[nodiscard]] std::chrono::nanoseconds wall() const override {
    return std::chrono::seconds(1'700'000'000);
  }
};

void check(const idproxy::config::Loaded& loaded) {
  int line = 0;
  for (const auto& finding : loaded.findings) {
    require(finding.place.line >= line && !finding.message.empty());
    line = finding.place.line;
  }
  if (!loaded.ok()) return;
  require(loaded.config.net.routes.empty() != loaded.config.srv_uri.empty());
  for (const auto& rule : loaded.config.rules) {
    require(rule.strategy != nullptr && !rule.definition.empty());
  }
  require(idproxy::config::needs_restart(loaded.config, loaded.config).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace idproxy;
  const StoppedClock clock;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto loaded = config::parse(text, {clock, system_random()});
  check(loaded);
  if (!loaded.ok() || loaded.config.srv_uri.empty()) return 0;
  const config::SeedList seeds{{"db1.example.org:27017", "db2.example.org:1"},
                               {{"replicaSet", "rs0"}}};
  const auto whole = config::parse(text, {clock, system_random()},
                                   *config::with_seed_list(loaded.config.srv_uri, seeds));
  check(whole);
  require(whole.config.srv_uri.empty());
  if (whole.ok()) require(config::needs_restart(whole.config, loaded.config).empty());
  return 0;
}
