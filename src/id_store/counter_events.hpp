#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "idproxy/base/typed_command.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/grant.hpp"

namespace idproxy::id_store {

/// Logs the events of one counter: each change once, not each attempt. Shows no values of documents
/// except the counter's numbers. One thread at a time.
class CounterEvents {
 public:
  explicit CounterEvents(const ids::CounterSpec& spec);

  /// "db.collection key"
  [[nodiscard]] const std::string& counter() const { return counter_; }

  /// `warning` says what is unusual; empty: nothing.
  void created(std::int64_t first, std::string_view warning) const;
  /// The counters' unique index is missing and cannot be made.
  void index_refused(const std::string& reason, const Commands& by_hand) const;
  void healed(std::int64_t first, std::string_view how) const;
  void went_backwards() const;
  /// Others have stored numbers of this process; it held `skipped` more of those.
  void numbers_taken(std::uint64_t skipped) const;
  /// Unused numbers that nobody will use: not empty.
  void numbers_lost(std::span<const ids::Range> numbers) const;
  void block_dropped(std::string_view reason) const;
  void jump_too_large(std::int64_t from, std::int64_t most) const;
  /// The counter gives no numbers: its max is reached, or it is refused for another reason.
  void gives_no_numbers(const ids::Error& why);
  void not_healed(const std::string& reason);
  /// The cause of the last exhausted() or not_healed() has gone, if there was one.
  void ready_again();
  /// Numbers have been allocated.
  void went_well(std::int64_t first, std::int64_t last, std::span<const ids::CounterField> fields);

 private:
  std::string counter_;
  std::int64_t start_;
  std::int64_t step_;
  bool is_range_;
  std::string reason_;  // the last logged reason; empty: the last allocation succeeded
  bool is_known_ = false;
  bool is_beyond_javascript_ = false;
  bool is_beyond_width_ = false;
};

}  // namespace idproxy::id_store
