#include "idproxy/config/secret_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "idproxy/base/digest.hpp"
#include "idproxy/base/input_file.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

// Certificates with their chain and key take a few KiB, connection strings less.
constexpr std::size_t kMaxSecretBytes = std::size_t{1} << 20;
constexpr const char* kTooLarge = "is larger than 1 MiB";

/// O_NONBLOCK, because the path may name a pipe without a writer.
boost::system::result<InputFile> open_file(const std::string& path) {
  return InputFile::open(path, O_NONBLOCK);
}

/// Why the file must not be used, or "". Checks the open file, since the path may change meanwhile.
std::string refusal(const boost::system::result<InputFile>& file, Access access) {
  if (!file) return file.error().message();
  struct stat status{};
  if (::fstat(file->descriptor(), &status) != 0) return std::generic_category().message(errno);
  if (!S_ISREG(status.st_mode)) return "is not a regular file";
  if (status.st_size > static_cast<off_t>(kMaxSecretBytes)) return kTooLarge;
  if (access == Access::secret && (status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return "is open to every user of this host: change that with chmod o-rwx, and if the service's "
           "user then cannot read the file, let systemd pass it on with LoadCredential=, or in "
           "Kubernetes set defaultMode: 0440 for the volume and fsGroup for the pod";
  }
  return {};
}

/// Returns an error text, or "".
std::string read_all(InputFile& file, std::string& content) {
  auto read = file.read_all(kMaxSecretBytes);
  if (!read) {
    return read.error() == boost::system::errc::file_too_large ? kTooLarge : read.error().message();
  }
  content = *std::move(read);
  return {};
}

void report(const std::string& path, std::string_view key, const std::string& fault,
            Parameters& reader) {
  reader.error(key, "cannot use " + shown_path(path, key, reader) + ": " + fault);
}

}  // namespace

std::string state_of_file(const std::string& path) {
  auto file = open_file(path);
  if (const std::string fault = refusal(file, Access::any); !fault.empty()) return fault;
  std::string content;
  if (const std::string fault = read_all(*file, content); !fault.empty()) return fault;
  const bool is_open = refusal(file, Access::secret) != refusal(file, Access::any);
  return sha256(content) + (is_open ? " open" : "");
}

std::string fault_of_file(const std::string& path, Access access, Parameters& reader) {
  reader.note_file(path, state_of_file(path));
  return refusal(open_file(path), access);
}

std::string shown_path(const std::string& path, std::string_view key, const Parameters& reader) {
  constexpr std::size_t kLongestPath = 4096;  // PATH_MAX: an operator needs all of it
  const std::string whole = shown(path, kLongestPath);
  if (reader.as_written(key) == path) return "'" + whole + "'";
  std::string quoted = "'" + shown(path) + "'";  // the reader replaces it by the text with ${NAME}
  return path.starts_with('/') ? quoted + " (" + whole + ")" : quoted;
}

std::optional<std::string> read_path(std::string_view key, Access access, Parameters& reader) {
  auto path = reader.optional_text(key);
  if (!path) return path;
  const std::string fault = fault_of_file(*path, access, reader);
  if (fault.empty()) return path;
  report(*path, key, fault, reader);
  return std::nullopt;
}

std::optional<std::string> read_named_file(std::string_view key, Access access,
                                           Parameters& reader) {
  const auto path = reader.optional_text(key);
  if (!path) return std::nullopt;
  reader.note_file(*path, state_of_file(*path));
  auto file = open_file(*path);
  std::string fault = refusal(file, access);
  std::string content;
  if (fault.empty()) fault = read_all(*file, content);
  if (!fault.empty()) {
    report(*path, key, fault, reader);
    return std::nullopt;
  }
  // Editors append newlines, some of them with a carriage return.
  while (content.ends_with('\n') || content.ends_with('\r')) content.pop_back();
  return content;
}

}  // namespace idproxy::config
