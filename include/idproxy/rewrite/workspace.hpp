#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "idproxy/base/spares.hpp"
#include "idproxy/rewrite/insert.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// Memory that the exchanges of one io thread share and reuse from message to message. Not
/// thread-safe.
struct Workspace {
  InsertRewriter insert;
  Buffer reply;                       ///< the message of action::Reply
  Buffer spare;                       ///< memory for the next request that has to be copied
  std::uint32_t next_request_id = 1;  ///< the request id of the proxy's next own message; wraps

  /// Returns a message to fill, usually with the memory of one that was given back.
  wire::PatchedMessage take_message() {
    return spare_.empty() ? wire::PatchedMessage() : spare_.take();
  }
  void give_back(wire::PatchedMessage&& message) {
    constexpr std::size_t kSpareMessages = 16;
    constexpr std::size_t kSpareBytes = std::size_t{4} * 1024 * 1024;
    const std::size_t size = message.capacity();
    if (size == 0 || spare_.size() == kSpareMessages) return;
    if (spare_.bytes() + size <= kSpareBytes) spare_.add(std::move(message));
  }
  /// Gives `empty` the memory of values that were given back, if there are any.
  void lend_to(GivenValues& empty) {
    if (!spare_given_.empty()) empty = spare_given_.take();
  }
  void give_back(GivenValues&& given) {
    constexpr std::size_t kSpareValues = 16;
    constexpr std::size_t kSpareBytes = std::size_t{1024} * 1024;
    const std::size_t size = given.capacity();
    if (size == 0 || spare_given_.size() == kSpareValues) return;
    if (spare_given_.bytes() + size > kSpareBytes) return;
    given.clear();
    spare_given_.add(std::move(given));
  }
  /// Frees messages and values that nobody has needed since the last call.
  void free_unused() {
    spare_.free_unused();
    spare_given_.free_unused();
  }
  /// Frees the memory that a large message has left behind.
  void trim() {
    constexpr std::size_t kKept = std::size_t{256} * 1024;
    if (reply.capacity() > kKept) reply = Buffer();
    if (insert.capacity() > kKept) insert.free_memory();
  }

 private:
  Spares<wire::PatchedMessage> spare_;
  Spares<GivenValues> spare_given_;
};

}  // namespace idproxy::rewrite
