#include "idproxy/base/input_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace idproxy {
namespace {

boost::system::error_code last_error() {
  return {errno, boost::system::system_category()};
}

}  // namespace

boost::system::result<InputFile> InputFile::open(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) return last_error();
  return InputFile(descriptor);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

boost::system::result<std::string> InputFile::read_all(std::size_t limit_bytes) {
  std::string content;
  std::array<char, 4096> block;
  for (;;) {
    const ssize_t n = ::read(descriptor_, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return last_error();
    if (n == 0) return content;
    content.append(block.data(), static_cast<std::size_t>(n));
    if (content.size() > limit_bytes) {
      return boost::system::errc::make_error_code(boost::system::errc::file_too_large);
    }
  }
}

boost::system::result<std::string> read_file(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  return file->read_all();
}

}  // namespace idproxy
