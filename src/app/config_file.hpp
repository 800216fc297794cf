#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <iosfwd>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/app/command_line.hpp"
#include "idproxy/config/config.hpp"

namespace idproxy::app {

/// Tells people a text, which may come from elsewhere, in a line of its own on standard error.
void tell(const std::string& text);
/// The same for a command that ends with this code because of it.
[[nodiscard]] ExitCode end_with(ExitCode code, const std::string& why);

/// A configuration file: its text, and what it means.
class ConfigFile {
 public:
  enum class Print {
    faults,    ///< findings only if the configuration has errors
    findings,  ///< all of them, and those of look_at_mode()
  };
  /// `seed_list`: as for config::parse(). The error: "cannot read FILE: Permission denied".
  [[nodiscard]] static boost::system::result<ConfigFile, std::string> read(
      const std::string& name, const std::string& seed_list = {});
  /// The same for a command. Prints the error and returns its exit code.
  [[nodiscard]] static boost::system::result<ConfigFile, ExitCode> open(const std::string& name);
  /// The same for a command that needs a configuration without errors.
  [[nodiscard]] static boost::system::result<ConfigFile, ExitCode> open(const std::string& name,
                                                                        Print print);

  /// Adds a warning if the file contains passwords and every user of the host can read or write it.
  void look_at_mode();
  /// Logs each finding that it has not logged yet, in the form of FileFinding::text().
  void log_findings();
  /// Some of them, as many as a page shows, in the form of FileFinding::text().
  [[nodiscard]] std::vector<std::string> first_findings() const;
  /// Prints each finding in the form of FileFinding::text(), one a line.
  void print_findings(std::ostream& out) const;

  /// For commands that use the servers once: if upstream.uri is a mongodb+srv string, looks its
  /// servers up and parses the text again, which may have faults then. Returns upstream.uri, or the
  /// mongodb:// string that it resolves to. The error: "cannot look up the servers of upstream.uri:
  /// REASON", also where the name service is silent for `limit`.
  [[nodiscard]] boost::system::result<std::string, std::string> look_up_servers(
      std::chrono::milliseconds limit);
  /// The same. Prints faults to `out` and returns the exit code.
  [[nodiscard]] boost::system::result<std::string, ExitCode> find_servers(
      std::ostream& out, std::chrono::milliseconds limit = std::chrono::seconds(10));
  /// The same for the proxy: retries until it succeeds, and logs failures and findings. Returns the
  /// seed list, or "".
  [[nodiscard]] std::string await_servers();

  std::string text;
  config::Loaded loaded;  ///< its files: with this one

 private:
  ConfigFile(std::string name, std::string state, std::string its_text,
             const std::string& seed_list)
      : text(std::move(its_text)), name_(std::move(name)), state_(std::move(state)) {
    parse(seed_list);
  }
  void parse(const std::string& seed_list);

  std::string name_;
  std::string state_;  // before it was read
  std::set<std::string> logged_;
};

}  // namespace idproxy::app
