#include "idproxy/base/secret_file.hpp"

#include <sys/stat.h>

#include <utility>

#include "idproxy/base/digest.hpp"
#include "idproxy/base/input_file.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy {
namespace {

/// `about`: what a fault is about unless it is that every user can read the file.
FileFault refusal(const FromFile<InputFile>& file, Access access, FileFinding::About about) {
  if (!file) return {file.error(), about};
  const mode_t mode = file->status().st_mode;
  if (access == Access::any || (mode & (S_IROTH | S_IWOTH)) == 0) return {};
  return {
      "is open to every user of this host: change that with chmod o-rwx, and if the service's user "
      "then cannot read the file, let systemd pass it on with LoadCredential=, or in Kubernetes "
      "set defaultMode: 0440 for the volume and fsGroup for the pod",
      FileFinding::About::secret_file};
}

/// Editors append newlines, some of them with a carriage return.
std::string without_line_ends(std::string content) {
  while (content.ends_with('\n') || content.ends_with('\r')) content.pop_back();
  return content;
}

void report(const std::string& path, std::string_view key, const FileFault& fault,
            Parameters& reader) {
  reader.error(key, "cannot use " + shown_path(path, key, reader) + ": " + fault.text, path,
               fault.about);
}

}  // namespace

std::string state_of_file(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  const auto content = file->read_all();
  if (!content) return content.error();
  const bool is_open = (file->status().st_mode & (S_IROTH | S_IWOTH)) != 0;
  return sha256(*content) + (is_open ? " open" : "");
}

FileFault fault_of_file(const std::string& path, Access access, Parameters& reader) {
  reader.note_file(path, state_of_file(path));
  return refusal(InputFile::open(path), access, FileFinding::About::certificate);
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
  const FileFault fault = fault_of_file(*path, access, reader);
  if (fault.text.empty()) return path;
  report(*path, key, fault, reader);
  return std::nullopt;
}

std::optional<std::string> read_named_file(std::string_view key, Access access,
                                           Parameters& reader) {
  const auto path = reader.optional_text(key);
  if (!path) return std::nullopt;
  reader.note_file(*path, state_of_file(*path));
  auto file = InputFile::open(*path);
  FileFault fault = refusal(file, access, FileFinding::About::text);
  if (fault.text.empty()) {
    auto content = file->read_all();
    if (content) return without_line_ends(*std::move(content));
    fault.text = content.error();
  }
  report(*path, key, fault, reader);
  return std::nullopt;
}

}  // namespace idproxy
