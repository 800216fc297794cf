#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

namespace idproxy {

/// A file that is open for reading; the destructor closes it. Errors are those of open(2) and
/// read(2).
class InputFile {
 public:
  /// `flags`: flags of open(2) besides O_RDONLY and O_CLOEXEC. With O_NONBLOCK, opening a pipe
  /// without a writer does not block.
  [[nodiscard]] static boost::system::result<InputFile> open(const std::string& path,
                                                             int flags = 0);
  InputFile(InputFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Reads from the current position to the end; errc::file_too_large if that is more than
  /// `limit_bytes`.
  [[nodiscard]] boost::system::result<std::string> read_all(
      std::size_t limit_bytes = std::numeric_limits<std::size_t>::max());

 private:
  explicit InputFile(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

/// The whole content of the file at `path`, which may be a pipe.
[[nodiscard]] boost::system::result<std::string> read_file(const std::string& path);

}  // namespace idproxy
