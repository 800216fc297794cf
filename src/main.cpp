#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

#include "idproxy/app/app.hpp"

namespace {

using idproxy::app::ExitCode;

constexpr const char* kFooter =
    "\nApplications point their connection string at the proxy; inserts get their ids from the\n"
    "rules of the configuration, everything else is relayed unchanged.\n"
    "\n"
    "Exit codes: 0 done, 64 command line, 69 cannot listen, 70 internal error,\n"
    "            77 file unreadable or port not permitted, 78 configuration\n"
    "Signals:    SIGTERM and SIGINT end it once requests that are under way are answered,\n"
    "            a second one at once; SIGHUP reads the configuration again\n";

ExitCode run(int argc, char** argv) {
  CLI::App options("mongo-idproxy: a MongoDB proxy that gives inserted documents their ids");
  options.footer(kFooter);
  options.set_version_flag("--version", "mongo-idproxy " IDPROXY_VERSION);
  std::string config;
  bool check_only = false;
  options.add_option("-c,--config", config, "The YAML configuration")
      ->required()
      ->type_name("FILE");
  options.add_flag("--check-config", check_only,
                   "Print everything that is wrong with the configuration, and stop");
  try {
    options.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return options.exit(error) == 0 ? ExitCode::ok : ExitCode::usage;
  }
  if (check_only) return idproxy::app::check_config(config);
  return idproxy::app::serve(config, IDPROXY_VERSION);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "mongo-idproxy: internal error: " << error.what() << '\n';
    return static_cast<int>(ExitCode::internal);
  }
}
