#include "idproxy/base/input_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "idproxy/base/scalars.hpp"

namespace idproxy {
namespace {

constexpr const char* kNotRegular = "is not a regular file";

std::string last_error() {
  return std::generic_category().message(errno);
}

/// "is larger than 1 MiB"
std::string too_large(std::size_t limit_bytes) {
  std::string size = size_text(static_cast<std::int64_t>(limit_bytes));
  size.insert(size.find_first_not_of("0123456789"), " ");
  return "is larger than " + size;
}

FromFile<std::string> failed(std::string why) {
  return {boost::system::in_place_error, std::move(why)};
}

}  // namespace

FromFile<InputFile> InputFile::open(const std::string& path, std::size_t limit_bytes) {
  struct stat named{};
  if (::stat(path.c_str(), &named) != 0) return last_error();
  if (!S_ISREG(named.st_mode)) return kNotRegular;
  // Nothing that may have taken its place since keeps open() waiting.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return last_error();
  InputFile file(descriptor, limit_bytes);
  if (::fstat(descriptor, &file.status_) != 0) return last_error();
  if (!S_ISREG(file.status_.st_mode)) return kNotRegular;
  if (file.status_.st_size > static_cast<off_t>(limit_bytes)) return too_large(limit_bytes);
  return file;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FromFile<std::string> InputFile::read_all() {
  std::string content;
  std::array<char, 4096> block;
  for (;;) {
    const ssize_t n = ::read(descriptor_, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(last_error());
    if (n == 0) return {boost::system::in_place_value, std::move(content)};
    content.append(block.data(), static_cast<std::size_t>(n));
    if (content.size() > limit_bytes_) return failed(too_large(limit_bytes_));
  }
}

FromFile<std::string> read_file(const std::string& path, std::size_t limit_bytes) {
  auto file = InputFile::open(path, limit_bytes);
  if (!file) return failed(file.error());
  return file->read_all();
}

}  // namespace idproxy
