#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "idproxy/config/config.hpp"

// The text of a configuration: whatever it holds, findings come out, in the order of its lines, and
// an accepted one has a strategy in each rule and a server behind each listener.

namespace {

class StoppedClock : public idproxy::Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override { return {}; }
  [[nodiscard]] std::chrono::nanoseconds wall() const override {
    return std::chrono::seconds(1'700'000'000);
  }
};

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const StoppedClock clock;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto loaded = idproxy::config::parse(text, {clock, idproxy::system_random()});
  int line = 0;
  for (const auto& finding : loaded.findings) {
    require(finding.line >= line && !finding.message.empty());
    line = finding.line;
  }
  if (!loaded.ok()) return 0;
  require(!loaded.config.net.routes.empty());
  for (const auto& rule : loaded.config.rules) require(rule.strategy != nullptr);
  return 0;
}
