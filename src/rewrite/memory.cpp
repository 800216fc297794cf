#include "idproxy/rewrite/memory.hpp"

#include <algorithm>

namespace idproxy::rewrite {

const InsertRights::Known* InsertRights::find(std::string_view ns, Right right) const {
  if (!known_) return nullptr;
  const auto found = std::ranges::find(*known_, ns, &Known::ns);
  return found == known_->end() || found->right < right ? nullptr : &*found;
}

bool InsertRights::has(std::string_view ns, Right right) const {
  return find(ns, right) != nullptr;
}

bool InsertRights::has_lately(std::string_view ns, Right right,
                              std::chrono::nanoseconds now) const {
  const Known* known = find(ns, right);
  return known != nullptr && now < known->said + kTrusted;
}

void InsertRights::add(std::string_view ns, Right right, std::chrono::nanoseconds now) {
  if (!known_) known_ = std::make_unique<std::vector<Known>>();
  const Known* before = find(ns, Right::insert);
  const Right most = before == nullptr ? right : std::max(before->right, right);
  remove(ns);
  if (known_->size() == kMost) known_->pop_back();
  known_->insert(known_->begin(), {std::string(ns), most, now});
}

void InsertRights::remove(std::string_view ns) {
  if (known_) std::erase_if(*known_, [&](const Known& known) { return known.ns == ns; });
}

}  // namespace idproxy::rewrite
