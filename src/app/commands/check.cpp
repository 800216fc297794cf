#include "app/commands/check.hpp"

#include <boost/json/object.hpp>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <sstream>

#include "app/commands/command.hpp"
#include "app/config_file.hpp"
#include "app/jobs/connected_check.hpp"
#include "app/json_view.hpp"
#include "idproxy/base/printable.hpp"

namespace idproxy::app::commands {
namespace {

// A check of servers ends within ten seconds, whatever does not answer.
constexpr std::chrono::milliseconds kCheckWithin{9500};
constexpr std::chrono::milliseconds kLookUpWithin{2500};

boost::json::array findings_json(const ConfigFile& opened, const std::string& file) {
  boost::json::array all;
  for (const auto* findings : {&opened.loaded.findings, &opened.loaded.notes}) {
    for (const Finding& each : *findings) {
      all.push_back({{"level", each.level()},
                     {"line", each.place.line},
                     {"column", each.place.column},
                     {"text", each.text(file)}});
    }
  }
  return all;
}

}  // namespace

ExitCode check_config(const CheckRequest& request) {
  auto opened = ConfigFile::open(request.file);
  if (!opened) return opened.error();
  config::Loaded& loaded = opened->loaded;
  opened->look_at_mode();
  const std::size_t count = loaded.config.rules.size();
  boost::json::object json{{"file", request.file}};
  std::ostringstream unseen;
  std::ostream& out = request.as_json ? static_cast<std::ostream&>(unseen) : std::cout;
  const auto end = [&](ExitCode code) {
    json["findings"] = findings_json(*opened, request.file);
    if (request.as_json) std::cout << json_line(json);
    return code;
  };
  opened->print_findings(out);
  for (const Finding& note : loaded.notes) out << printable(note.text(request.file)) << '\n';
  json["ok"] = loaded.ok();
  if (!loaded.ok()) return end(ExitCode::config);
  out << printable(request.file) << ": ok, " << count << (count == 1 ? " rule\n" : " rules\n");
  if (request.with == CheckRequest::With::file) return end(ExitCode::ok);
  const auto until = std::chrono::steady_clock::now() + kCheckWithin;
  const auto upstream_uri = opened->find_servers(out, kLookUpWithin);
  if (!upstream_uri) return end(upstream_uri.error());
  json["findings"] = findings_json(*opened, request.file);
  return jobs::check_connected(std::move(loaded.config), *upstream_uri, until, std::cout,
                               request.as_json ? &json : nullptr);
}

const Command kCheck{
    "check", "Check the configuration",
    "Usage: mongo-idproxy check [--connect] [--json] [--config FILE]",
    R"(The same as --check-config. It prints all errors and warnings with their lines,
opens no listener and writes nothing. --connect takes ten seconds at most.

Examples:   mongo-idproxy check
            mongo-idproxy check --connect --config proxy.yaml

Exit codes: 0 no error, 64 command line, 70 internal error, 77 file unreadable,
            78 configuration; with --connect 69: a server does not answer, or a
            rule is not ready)",
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<CheckRequest>();
      options.add_flag_callback(
          "--connect", [request] { request->with = CheckRequest::With::servers; },
          "Also ask the servers whether each rule is ready");
      options.add_flag("--json", request->as_json, "Print JSON");
      add_config(options, config);
      return on_file(request, check_config);
    }};

}  // namespace idproxy::app::commands
