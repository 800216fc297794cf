#include "app/server_limits.hpp"

#include "app/readiness.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/observability/log.hpp"

namespace idproxy::app {
namespace {

constexpr std::string_view kReplaced =
    "a collection that is dropped or replaced past the proxy is noticed within ten seconds, and "
    "until then a value can be stored twice";
constexpr std::string_view kReport =
    "updates and findAndModify that a driver may repeat report no values";
constexpr std::string_view kReserved = "reservations of a repeated insert are left to the sweeper";

}  // namespace

std::vector<std::string_view> limits_of(const rewrite::Rule& rule, std::int32_t wire_version) {
  if (wire_version <= 0 || wire_version >= server_release::k6_0) return {};
  std::vector<std::string_view> limits;
  const bool is_sequence = rule.strategy_name == "counter" || rule.strategy_name == "gapless";
  if (is_sequence || rule.unique_index != ids::UniqueIndex::warn) limits.push_back(kReplaced);
  if (rule.report) limits.push_back(kReport);
  if (rule.reserve) limits.push_back(kReserved);
  return limits;
}

std::string note_on_limits(const rewrite::Rule& rule, std::int32_t wire_version) {
  std::string note;
  for (const std::string_view limit : limits_of(rule, wire_version)) {
    note += note.empty() ? "with " + server_release::name_of(wire_version) + ": " : "; ";
    note += limit;
  }
  return note;
}

void ServerLimitsLog::look(const std::vector<rewrite::Rule>& rules,
                           const std::vector<net::ServerStatistics::Listener>& servers) {
  for (const auto& server : servers) {
    if (server.wire_version == 0) continue;
    std::int32_t& reported = reported_[server.server];
    if (reported == server.wire_version) continue;
    reported = server.wire_version;
    const std::string release = server_release::name_of(server.wire_version);
    log::event(log::Level::info, "server_release", "the server says which release it is",
               {{"server", server.server}, {"release", release}});
    std::map<std::string_view, RuleList> concerned;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      for (const std::string_view limit : limits_of(rules[i], server.wire_version)) {
        concerned[limit].add(i, rules[i]);
      }
    }
    for (const auto& [limit, of] : concerned) {
      log::event(log::Level::warning, "server_limit",
                 "rules cannot have with this server what later releases allow",
                 {{"server", server.server},
                  {"release", release},
                  {"limit", limit},
                  {"rules", of.text()}});
    }
  }
}

}  // namespace idproxy::app
