#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/insert.hpp"
#include "idproxy/rewrite/members.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/status.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// Where {idproxy: "status"} gets its answer from. Thread-safe.
class StatusSource {
 public:
  virtual ~StatusSource() = default;
  /// `asked`: the server behind the connection.
  [[nodiscard]] virtual Status status(ServerId asked) const = 0;
};

/// What exchanges of one io thread share: memory that serves one message after the other. Not
/// thread-safe.
struct Workspace {
  Workspace(std::shared_ptr<const RuleSet> rules, const Clock& time, RandomSource& bytes)
      : namespaces(std::move(rules)), clock(time), random(bytes) {}

  Namespaces namespaces;
  const Clock& clock;
  RandomSource& random;  ///< for jitter
  InsertRewriter insert;
  ids::Values values;                 ///< of a plain insert
  Buffer reply;                       ///< of action::Reply
  std::uint32_t next_request_id = 1;  ///< of our own messages; wraps
  /// The newest, when a reply to hello comes; null: nobody wants to know of it.
  std::shared_ptr<const Members> members;
  bool maps_hello = true;  ///< replies to hello name our listeners
  X509 x509 = X509::passes;
  const StatusSource* status = nullptr;

  /// A message to fill; most often with the memory of one that was given back.
  wire::PatchedMessage take_message() {
    if (spare_.empty()) return {};
    wire::PatchedMessage message = std::move(spare_.back());
    spare_.pop_back();
    spare_bytes_ -= message.capacity();
    return message;
  }
  void give_back(wire::PatchedMessage message) {
    constexpr std::size_t kSpareMessages = 16;
    constexpr std::size_t kSpareBytes = std::size_t{1024} * 1024;
    const std::size_t size = message.capacity();
    if (size == 0 || spare_.size() == kSpareMessages || spare_bytes_ + size > kSpareBytes) return;
    spare_bytes_ += size;
    spare_.push_back(std::move(message));
  }
  /// Gives up what a large message has left behind.
  void trim() {
    constexpr std::size_t kKept = std::size_t{256} * 1024;
    if (reply.capacity() > kKept) reply = Buffer();
    if (values.capacity() > kKept) values = ids::Values();
    if (insert.capacity() > kKept) insert = InsertRewriter();
  }

 private:
  std::vector<wire::PatchedMessage> spare_;
  std::size_t spare_bytes_ = 0;  // of their memory
};

}  // namespace idproxy::rewrite
