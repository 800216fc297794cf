#include "net/lately.hpp"

#include <exception>

namespace idproxy::net {
namespace {

constexpr std::size_t kMostNames = 100;

}  // namespace

void EndedClients::add(std::string_view application, const Lately& sent,
                       Lately::Time now) noexcept {
  if (sent.rates(now).requests == 0) return;
  try {
    place_of(application, now).add(sent, now);
  } catch (const std::exception&) {
    return;
  }
}

Lately& EndedClients::place_of(std::string_view application, Lately::Time now) {
  const auto known = by_application_.find(application);
  if (known != by_application_.end()) return known->second;
  if (by_application_.size() >= kMostNames) {
    std::erase_if(by_application_,
                  [&](const auto& each) { return each.second.rates(now).requests == 0; });
  }
  if (by_application_.size() >= kMostNames) return others_;
  return by_application_.try_emplace(std::string(application)).first->second;
}

}  // namespace idproxy::net
