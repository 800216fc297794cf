#include "idproxy/rewrite/memory.hpp"

#include <algorithm>

namespace idproxy::rewrite {

bool InsertRights::has(std::string_view ns, std::chrono::nanoseconds now) const {
  return known_ && std::ranges::any_of(*known_, [&](const Known& known) {
           return known.ns == ns && now < known.until;
         });
}

void InsertRights::add(std::string_view ns, std::chrono::nanoseconds now) {
  if (!known_) known_ = std::make_unique<std::vector<Known>>();
  std::erase_if(*known_, [&](const Known& known) { return known.ns == ns || known.until <= now; });
  if (known_->size() == kMost) known_->erase(known_->begin());
  known_->push_back({std::string(ns), now + kTrusted});
}

}  // namespace idproxy::rewrite
