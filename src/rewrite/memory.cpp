#include "idproxy/rewrite/memory.hpp"

#include <algorithm>

namespace idproxy::rewrite {

bool Rights::has(const std::string& ns, Right right) const {
  if (!known_) return false;
  const auto found = known_->find(ns);
  return found != known_->end() && found->second.right >= right;
}

bool Rights::has_lately(const std::string& ns, Right right, std::chrono::nanoseconds now) const {
  return has(ns, right) && now < known_->at(ns).said + kTrusted;
}

void Rights::add(const std::string& ns, Right right, std::chrono::nanoseconds now) {
  if (!known_) known_ = std::make_unique<std::unordered_map<std::string, Known>>();
  if (known_->size() == kMost && !known_->contains(ns)) known_->erase(known_->begin());
  Known& its = (*known_)[ns];
  its = {std::max(its.right, right), now};
}

void Rights::remove(const std::string& ns) {
  if (known_) known_->erase(ns);
}

void Rights::change_refused(const std::string& what, std::chrono::nanoseconds now) {
  std::erase_if(refused_, [&](const Refused& each) { return each.what == what; });
  if (refused_.size() == kMostRefused) refused_.erase(refused_.begin());
  refused_.push_back({what, now});
}

bool Rights::refuses_change(const std::string& what, std::chrono::nanoseconds now) const {
  return std::ranges::any_of(refused_, [&](const Refused& each) {
    return each.what == what && now < each.said + kRefused;
  });
}

ClientDescription& ConnectionMemory::description() {
  if (client == nullptr) client = std::make_unique<ClientDescription>();
  return *client;
}

void ConnectionMemory::user_changed(std::string_view user) {
  if (client != nullptr || !user.empty()) description().user = user;
}

}  // namespace idproxy::rewrite
