#pragma once

#include <sys/stat.h>

#include <boost/system/result.hpp>
#include <cstddef>
#include <string>
#include <utility>

namespace idproxy {

/// What was read, or why not: "Permission denied", "is not a regular file", "is larger than 1 MiB".
template <class T>
using FromFile = boost::system::result<T, std::string>;

/// Of a file that operators write: certificates with their chain and key take a few KiB, connection
/// strings less, a configuration with 1,000 rules more.
inline constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;

/// A regular file that is open for reading; the destructor closes it. Pipes and devices are
/// refused, and not opened: they could keep the reader waiting, or never end.
class InputFile {
 public:
  [[nodiscard]] static FromFile<InputFile> open(const std::string& path,
                                                std::size_t limit_bytes = kMostFileBytes);
  InputFile(InputFile&& other) noexcept
      : status_(other.status_),
        descriptor_(std::exchange(other.descriptor_, -1)),
        limit_bytes_(other.limit_bytes_) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Of the open file: its path may lead elsewhere meanwhile.
  [[nodiscard]] const struct stat& status() const { return status_; }
  /// Reads from the current position to the end. A file may have grown.
  [[nodiscard]] FromFile<std::string> read_all();

 private:
  InputFile(int descriptor, std::size_t limit_bytes)
      : descriptor_(descriptor), limit_bytes_(limit_bytes) {}

  struct stat status_{};
  int descriptor_;
  std::size_t limit_bytes_;
};

/// The whole content of the regular file at `path`.
[[nodiscard]] FromFile<std::string> read_file(const std::string& path,
                                              std::size_t limit_bytes = kMostFileBytes);

}  // namespace idproxy
