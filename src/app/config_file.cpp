#include "app/config_file.hpp"

#include <sys/stat.h>

#include <ostream>
#include <utility>

#include "app/srv_lookup.hpp"
#include "idproxy/base/input_file.hpp"
#include "idproxy/observability/log.hpp"

namespace idproxy::app {

boost::system::result<std::string, std::string> read_config_file(const std::string& file) {
  auto text = read_file(file);
  using Text = boost::system::result<std::string, std::string>;
  if (text) return Text(boost::system::in_place_value, *std::move(text));
  return Text(boost::system::in_place_error, "cannot read " + file + ": " + text.error().message());
}

void look_at_mode(const std::string& file, config::Loaded& loaded) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0 || (status.st_mode & (S_IROTH | S_IWOTH)) == 0) return;
  for (const std::string& key : loaded.config.written.password_keys) {
    loaded.findings.push_back(
        {Finding::Severity::warning,
         {},
         key + ": contains a password, and this file is open to every user of this host: put the "
               "store's string into a file of its own, id_store.uri_file, which systemd passes on "
               "with LoadCredential=, or write the password as a variable, ${NAME}. (chmod o-rwx "
               "is enough if the proxy's user owns the file; the systemd unit's user does not.)"});
  }
}

void log_findings(const std::string& file, const config::Loaded& loaded,
                  const std::set<std::string>& before) {
  for (const Finding& finding : loaded.findings) {
    const bool is_error = finding.severity == Finding::Severity::error;
    const std::string text = finding.text(file);
    if (before.contains(text)) continue;
    log::event(is_error ? log::Level::error : log::Level::warning,
               is_error ? "config_error" : "config_warning", text);
  }
}

void print_findings(std::ostream& out, const std::string& file, const config::Loaded& loaded) {
  for (const Finding& finding : loaded.findings) {
    out << finding.text(file) << '\n';
  }
}

boost::system::result<std::string, ExitCode> resolve_servers(const std::string& file,
                                                             const std::string& text,
                                                             ids::Sources sources,
                                                             config::Loaded& loaded,
                                                             std::ostream& out) {
  if (loaded.config.srv_uri.empty()) return loaded.config.written.upstream_uri;
  auto seed_list = find_seed_list(loaded.config.srv_uri);
  if (!seed_list) {
    out << "\ncannot look up the servers of upstream.uri: " << seed_list.error() << '\n';
    return ExitCode::unavailable;
  }
  loaded = config::parse(text, sources, *seed_list);
  if (loaded.ok()) return *std::move(seed_list);
  print_findings(out, file, loaded);
  return ExitCode::config;
}

}  // namespace idproxy::app
