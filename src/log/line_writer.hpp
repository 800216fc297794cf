#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace idproxy::log {

/// Writes lines to a descriptor without waiting for its reader, which may be a stopped terminal, a
/// pipe that nobody reads, or a journal that hangs. Buffers what is not taken at once, up to
/// kMostBytes, then drops and counts new lines. Not thread-safe.
///
/// Does not set O_NONBLOCK on the descriptor itself: other processes may share it and would get
/// errors that they do not expect.
class LineWriter {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{256} * 1024;

  explicit LineWriter(int descriptor);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// `line` must end with a newline and contain no other.
  void write(std::string_view line);
  /// Writes buffered lines; waits up to `limit` for the reader if necessary.
  void flush(std::chrono::milliseconds limit = {});
  /// True if lines are buffered.
  [[nodiscard]] bool is_behind() const { return !kept_.empty(); }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  enum class Kind { socket, nonblocking, polled };

  /// Returns the number of bytes taken; 0 if it would have to wait; negative after an error.
  std::ptrdiff_t write_some(std::string_view bytes) const;
  [[nodiscard]] bool await_room(std::chrono::milliseconds limit) const;
  void write_kept();

  int descriptor_;
  bool owned_ = false;
  Kind kind_ = Kind::polled;
  std::string kept_;
  std::uint64_t dropped_ = 0;
};

}  // namespace idproxy::log
