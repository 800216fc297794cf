#include "config/secret_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "config/words.hpp"

namespace idproxy::config {
namespace {

// Certificates with their chain and key take a few KiB, connection strings less.
constexpr std::size_t kMaxSecretBytes = std::size_t{1} << 20;

class File {
 public:
  // Not blocking: the path may name a pipe that nobody writes to.
  explicit File(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string system_text(int code) {
  return std::generic_category().message(code);
}

/// What forbids to use the open file, or "". Looks at what is open, not at the path once more.
std::string refusal(const File& file, Access access) {
  struct stat status{};
  if (file.descriptor() < 0 || ::fstat(file.descriptor(), &status) != 0) return system_text(errno);
  if (!S_ISREG(status.st_mode)) return "is not a regular file";
  if (status.st_size > static_cast<off_t>(kMaxSecretBytes)) return "is larger than 1 MiB";
  if (access == Access::secret && (status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return "is open to every user of this host: take that away with chmod o-rwx, and let systemd "
           "hand it over with LoadCredential= to a service whose user cannot read it then";
  }
  return {};
}

/// Returns what went wrong, or "".
std::string read_all(const File& file, std::string& content) {
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(file.descriptor(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_text(errno);
    if (n == 0) return {};
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > kMaxSecretBytes) return "is larger than 1 MiB";
  }
}

void report(const std::string& path, std::string_view key, const std::string& fault,
            Reader& reader) {
  reader.error(key, "cannot use " + shown_path(path, key, reader) + ": " + fault);
}

}  // namespace

std::string fault_of_file(const std::string& path, Access access) {
  return refusal(File(path), access);
}

std::string shown_path(const std::string& path, std::string_view key, const Reader& reader) {
  std::string quoted = "'" + shown(path) + "'";  // the reader puts ${NAME} back into it
  if (reader.as_written(key) == path || !path.starts_with('/')) return quoted;
  return quoted + " (" + shown(path) + ")";
}

std::optional<std::string> read_path(std::string_view key, Access access, Reader& reader) {
  auto path = reader.optional_text(key);
  if (!path) return path;
  const std::string fault = fault_of_file(*path, access);
  if (fault.empty()) return path;
  report(*path, key, fault, reader);
  return std::nullopt;
}

std::optional<std::string> read_named_file(std::string_view key, Access access, Reader& reader) {
  const auto path = reader.optional_text(key);
  if (!path) return std::nullopt;
  const File file(*path);
  std::string content;
  std::string fault = refusal(file, access);
  if (fault.empty()) fault = read_all(file, content);
  if (!fault.empty()) {
    report(*path, key, fault, reader);
    return std::nullopt;
  }
  // Editors leave newlines behind it, some of them with a carriage return.
  while (content.ends_with('\n') || content.ends_with('\r')) content.pop_back();
  return content;
}

}  // namespace idproxy::config
