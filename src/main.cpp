#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "idproxy/app/app.hpp"
#include "idproxy/app/version.hpp"

namespace {

using idproxy::app::BackfillRequest;
using idproxy::app::ExitCode;

constexpr const char* kUsage =
    "Usage: mongo-idproxy --config FILE [--check-config [--connect]]\n"
    "       mongo-idproxy backfill --config FILE --ns DB.COLLECTION --field FIELD [OPTIONS]\n";

constexpr const char* kFooter =
    "Applications point their connection string at the proxy; inserts get their ids from the\n"
    "rules of the configuration, everything else is relayed unchanged.\n"
    "\n"
    "Exit codes: 0 done, 64 command line, 69 cannot listen, 70 internal error,\n"
    "            69 with --connect: a server does not answer, or a rule is not ready,\n"
    "            77 file unreadable or port not permitted, 78 configuration\n"
    "Signals:    SIGTERM and SIGINT stop the proxy once requests under way are answered,\n"
    "            a second one stops it at once; SIGHUP reloads the configuration\n";

constexpr const char* kBackfillUsage =
    "Usage: mongo-idproxy backfill --config FILE --ns DB.COLLECTION --field FIELD\n"
    "                              [--sort FIELD | --sort -FIELD] [--rate N] [--dry-run]\n";

constexpr const char* kBackfillFooter =
    "Make the unique index, backfill, start or reload the proxy with the rule, and backfill\n"
    "again for what was stored in between: so old documents have the lower numbers.\n"
    "\n"
    "Documents that have a value keep it, so that an interrupted backfill can be started again\n"
    "and goes on. Applications may write meanwhile. The user in id_store.uri needs find and\n"
    "update on the collection.\n"
    "\n"
    "Example:    mongo-idproxy backfill --config FILE --ns shop.orders --field number \\\n"
    "              --sort created --rate 2000\n"
    "\n"
    "Exit codes: 0 no document is left without a value, 1 some are (the report says why),\n"
    "            64 command line, 69 a server does not answer or the rule is not ready,\n"
    "            70 internal error, 77 file unreadable, 78 configuration\n"
    "Signals:    SIGTERM and SIGINT end it behind the batch under way, a second one at once\n";

/// Shows what a command line needs, for which CLI11 shows only "[OPTIONS]".
class Help : public CLI::Formatter {
 public:
  explicit Help(std::string usage) : usage_(std::move(usage)) {}
  [[nodiscard]] std::string make_usage(const CLI::App*, std::string) const override {
    return usage_;
  }

 private:
  const std::string usage_;
};

/// A subcommand that fills in `request`, which must outlive it.
const CLI::App* add_backfill(CLI::App& options, BackfillRequest& request) {
  CLI::App* backfill =
      options.add_subcommand("backfill", "Give values to documents from before their rule");
  backfill->formatter(std::make_shared<Help>(kBackfillUsage));
  backfill->footer(kBackfillFooter);
  const auto add = [&](const char* name, auto& value, const char* argument, const char* text) {
    return backfill->add_option(name, value, text)->option_text(argument);
  };
  add("-c,--config", request.file, "FILE", "The YAML configuration");
  add("--ns", request.ns, "DB.COLLECTION", "The collection");
  add("--field", request.field, "FIELD", "The field to fill, as its rule names it");
  add("--sort", request.sort, "FIELD",
      "Give values in the order of this field, by default _id;\n-FIELD: in descending order");
  add("--rate", request.rate, "N", "Change at most N documents a second")
      ->check(CLI::Range(1, 1'000'000));
  backfill->add_flag_callback(
      "--dry-run", [&request] { request.mode = BackfillRequest::Mode::dry_run; },
      "Change nothing; print how many documents would get\nwhich values");
  add("--period-from", request.period_from, "FIELD",
      "For rules with `reset`, or with a date in the\n`template`: a document's date is in this "
      "field");
  return backfill;
}

/// For the same reason as --config is not required() below.
void require_options(const BackfillRequest& request) {
  if (request.file.empty()) throw CLI::RequiredError("--config FILE");
  if (request.ns.empty()) throw CLI::RequiredError("--ns DB.COLLECTION");
  if (request.field.empty()) throw CLI::RequiredError("--field FIELD");
}

ExitCode run(int argc, char** argv) {
  CLI::App options("mongo-idproxy: a MongoDB proxy that gives inserted documents their ids");
  options.formatter(std::make_shared<Help>(kUsage));
  options.footer(kFooter);
  options.failure_message([](const CLI::App*, const CLI::Error& error) {
    return "mongo-idproxy: " + std::string(error.what()) + "; see --help\n";
  });
  options.set_version_flag("-V,--version", idproxy::app::version_text);
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
  BackfillRequest request;
  const CLI::App* backfill = add_backfill(options, request);
  try {
    options.parse(argc, argv);
    if (backfill->parsed()) {
      require_options(request);
    } else if (file->empty()) {
      throw CLI::RequiredError("--config FILE");
    }
  } catch (const CLI::ParseError& error) {
    return options.exit(error) == 0 ? ExitCode::ok : ExitCode::usage;
  }
  if (backfill->parsed()) return idproxy::app::backfill(request);
  using idproxy::app::CheckWith;
  if (check_only) {
    return idproxy::app::check_config(config, connect ? CheckWith::servers : CheckWith::file);
  }
  return idproxy::app::serve(config, std::string(idproxy::app::version()));
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
