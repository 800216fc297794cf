#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace idproxy::log {

/// Writes lines to a descriptor without ever waiting for whoever reads it: a terminal that was
/// stopped, a pipe that nobody reads, a journal that hangs. What is not taken at once is kept, up
/// to kMostBytes, then new lines are dropped and counted. Not thread-safe.
///
/// The descriptor's O_NONBLOCK is not set: other processes may share it, and would meet errors that
/// they do not expect.
class LineWriter {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{256} * 1024;

  explicit LineWriter(int descriptor);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// `line` ends with its only newline.
  void write(std::string_view line);
  /// Tries again to write what is kept, for as long as `limit` if need be.
  void flush(std::chrono::milliseconds limit = {});
  /// Something is kept.
  [[nodiscard]] bool is_behind() const { return !kept_.empty(); }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  enum class Kind { socket, nonblocking, polled };

  /// How much was taken of it; nothing if it would have to wait; less than 0 after an error.
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
