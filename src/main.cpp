#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

#include "idproxy/app/app.hpp"

namespace {

using idproxy::app::ExitCode;

constexpr const char* kFooter =
    "Applications point their connection string at the proxy; inserts get their ids from the\n"
    "rules of the configuration, everything else is relayed unchanged.\n"
    "\n"
    "Exit codes: 0 done, 64 command line, 69 cannot listen, 70 internal error,\n"
    "            69 with --connect: a server does not answer, or a rule is not ready,\n"
    "            77 file unreadable or port not permitted, 78 configuration\n"
    "Signals:    SIGTERM and SIGINT stop the proxy once requests under way are answered,\n"
    "            a second one stops it at once; SIGHUP reloads the configuration\n";

/// Shows what a command line needs, for which CLI11 shows only "[OPTIONS]".
class Help : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: mongo-idproxy --config FILE [--check-config [--connect]]\n";
  }
};

ExitCode run(int argc, char** argv) {
  CLI::App options("mongo-idproxy: a MongoDB proxy that gives inserted documents their ids");
  options.formatter(std::make_shared<Help>());
  options.footer(kFooter);
  options.failure_message([](const CLI::App*, const CLI::Error& error) {
    return "mongo-idproxy: " + std::string(error.what()) + "; see --help\n";
  });
  options.set_version_flag("-V,--version", "mongo-idproxy " IDPROXY_VERSION);
  std::string config;
  bool check_only = false;
  // Not required(): CLI11 would then report its absence instead of an unknown option.
  const CLI::Option* file =
      options.add_option("-c,--config", config, "The YAML configuration")->type_name("FILE");
  CLI::Option* check =
      options.add_flag("--check-config", check_only,
                       "Check the configuration, print all errors and warnings, and exit");
  bool connect = false;
  options
      .add_flag("--connect", connect,
                "With --check-config: also ask the servers whether each rule is ready")
      ->needs(check);
  try {
    options.parse(argc, argv);
    if (file->empty()) throw CLI::RequiredError("--config FILE");
  } catch (const CLI::ParseError& error) {
    return options.exit(error) == 0 ? ExitCode::ok : ExitCode::usage;
  }
  using idproxy::app::CheckWith;
  if (check_only) {
    return idproxy::app::check_config(config, connect ? CheckWith::servers : CheckWith::file);
  }
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
