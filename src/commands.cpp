#include "commands.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "idproxy/app/commands/run.hpp"
#include "idproxy/app/jobs/jobs.hpp"
#include "idproxy/base/scalars.hpp"

namespace idproxy {
namespace {

using app::BackfillRequest;
using app::ConfigRequest;
using app::CountersRequest;
using app::ExitCode;
using app::IdsRequest;
using app::StatusRequest;
using app::VerifyRequest;
using Syntax = std::vector<app::CommandSyntax>;

constexpr const char* kStatusUsage =
    "Usage: mongo-idproxy status [--servers] [--rules] [--clients [--app NAME]]\n"
    "                            [--watch] [--json]\n"
    "                            [--config FILE | --admin HOST:PORT]\n";

constexpr const char* kStatusFooter =
    "Without --servers, --rules and --clients it prints a summary, with what is wrong\n"
    "first. With --watch, where standard output is no terminal, a summary is one line\n"
    "a second, with figures of that second.\n"
    "\n"
    "Examples:   mongo-idproxy status --watch\n"
    "            mongo-idproxy status --clients --app shop --admin 127.0.0.1:27216\n"
    "\n"
    "Exit codes: 0 nothing is wrong, or --watch; 1 an error is among what is wrong,\n"
    "            64 command line, 69 the proxy does not answer, 70 internal error,\n"
    "            77 file unreadable, 78 the file does not say where to ask\n";

constexpr const char* kWaitUsage =
    "Usage: mongo-idproxy wait [--max DURATION] [--json]\n"
    "                          [--config FILE | --admin HOST:PORT]\n";

constexpr const char* kWaitFooter =
    "A proxy is ready once it serves, and each rule without wildcards gives values.\n"
    "Standard error says what it waits for.\n"
    "\n"
    "Examples:   mongo-idproxy wait && ./start-the-application\n"
    "            mongo-idproxy wait --max 2m --admin 127.0.0.1:27216\n"
    "\n"
    "Exit codes: 0 it is ready, 69 it was not within --max, 64 command line,\n"
    "            70 internal error, 77 file unreadable, 78 the file does not say\n"
    "            where to ask\n";

constexpr const char* kReloadUsage =
    "Usage: mongo-idproxy reload [--json] [--config FILE] [--admin HOST:PORT]\n";

constexpr const char* kReloadFooter =
    "It checks the file, sends the proxy SIGHUP if there is no error, waits up to\n"
    "10 s and prints what has changed. Variables in the file are those of the proxy,\n"
    "if this user may see them (root).\n"
    "\n"
    "Examples:   sudo mongo-idproxy reload\n"
    "            mongo-idproxy reload --config proxy.yaml && echo done\n"
    "\n"
    "Exit codes: 0 reloaded, 64 command line, 69 the proxy does not answer, or its\n"
    "            process is not to be seen from here, 70 internal error, 77 it is\n"
    "            another user's, or file unreadable, 78 configuration\n";

constexpr const char* kCheckUsage =
    "Usage: mongo-idproxy check [--connect] [--json] [--config FILE]\n";

constexpr const char* kCheckFooter =
    "The same as --check-config. It prints all errors and warnings with their lines,\n"
    "opens no listener and writes nothing. --connect takes ten seconds at most.\n"
    "\n"
    "Examples:   mongo-idproxy check\n"
    "            mongo-idproxy check --connect --config proxy.yaml\n"
    "\n"
    "Exit codes: 0 no error, 64 command line, 70 internal error, 77 file unreadable,\n"
    "            78 configuration; with --connect 69: a server does not answer, or a\n"
    "            rule is not ready\n";

constexpr const char* kConfigUsage =
    "Usage: mongo-idproxy config [--json] [--config FILE]\n"
    "       mongo-idproxy config --schema\n";

constexpr const char* kConfigFooter =
    "Prints each key with its value, its default if that is another one, and where\n"
    "the value comes from. Connection strings are shown without user and password.\n"
    "--schema needs no file.\n"
    "\n"
    "Examples:   mongo-idproxy config --config proxy.yaml\n"
    "            mongo-idproxy config --schema > mongo-idproxy.schema.json\n"
    "\n"
    "Exit codes: 0 printed, 64 command line, 70 internal error, 77 file unreadable,\n"
    "            78 configuration\n";

constexpr const char* kDoctorUsage = "Usage: mongo-idproxy doctor [--json] [--config FILE]\n";

constexpr const char* kDoctorFooter =
    "Looks at the file, its secrets and certificates, this host's ports and\n"
    "descriptors, the servers, the store's user, rules, indexes, counters, and the\n"
    "proxies that run. Each finding has a name that docs/troubleshooting.md explains,\n"
    "and the commands to type. It only reads, and ends within 30 seconds.\n"
    "\n"
    "Examples:   sudo mongo-idproxy doctor\n"
    "            mongo-idproxy doctor --json --config proxy.yaml\n"
    "\n"
    "Exit codes: 0 nothing is wrong, but for notes; 1 errors or warnings,\n"
    "            64 command line, 70 internal error, 77 file unreadable,\n"
    "            78 the file is no configuration\n";

constexpr const char* kBackfillUsage =
    "Usage: mongo-idproxy backfill --ns DB.COLLECTION --field FIELD\n"
    "                              [--sort FIELD | --sort -FIELD] [--rate N]\n"
    "                              [--dry-run] [--config FILE]\n";

constexpr const char* kBackfillFooter =
    "Make the unique index, backfill, start or reload the proxy with the rule, and\n"
    "backfill again for what was stored in between: so old documents have the lower\n"
    "numbers.\n"
    "\n"
    "Documents that have a value keep it, so that an interrupted backfill can be\n"
    "started again and goes on. Applications may write meanwhile. The user in\n"
    "id_store.uri needs find and update on the collection.\n"
    "\n"
    "Examples:   mongo-idproxy backfill --ns shop.orders --field number --dry-run\n"
    "            mongo-idproxy backfill --ns shop.orders --field number \\\n"
    "              --sort created --rate 2000 --config proxy.yaml\n"
    "\n"
    "Exit codes: 0 no document is left without a value, 1 some are (the report says\n"
    "            why), 64 command line, 69 a server does not answer or the rule is\n"
    "            not ready, 70 internal error, 77 file unreadable, 78 configuration\n"
    "Signals:    SIGTERM and SIGINT end it behind the batch under way, a second one\n"
    "            at once\n";

constexpr const char* kVerifyUsage =
    "Usage: mongo-idproxy verify --ns DB.COLLECTION --field FIELD [--scope JSON]\n"
    "                            [--allow REGEX] [--json] [--config FILE]\n";

constexpr const char* kVerifyFooter =
    "It reads each document's _id, the field and the fields of the rule's scope, and\n"
    "changes nothing. It reports documents without a value, duplicates, other types,\n"
    "texts and check digits that do not fit, gaps, and numbers beyond the counter or\n"
    "its max. Applications may write meanwhile. The user in id_store.uri needs find\n"
    "on the collection.\n"
    "\n"
    "Examples:   mongo-idproxy verify --ns shop.orders --field number\n"
    "            mongo-idproxy verify --ns shop.invoices --field number \\\n"
    "              --scope '{\"tenant\": \"a\"}' --json --config proxy.yaml\n"
    "\n"
    "Exit codes: 0 nothing is wrong, 1 something is, or not all was read, 64 command\n"
    "            line, 69 a server does not answer, 70 internal error, 77 file\n"
    "            unreadable, 78 configuration\n"
    "Signals:    SIGTERM and SIGINT end it with a report of what was read, a second\n"
    "            one at once\n";
constexpr const char* kCountersUsage =
    "Usage: mongo-idproxy counters list [--json] [--config FILE]\n"
    "       mongo-idproxy counters get NAME [--json] [--config FILE]\n"
    "       mongo-idproxy counters set NAME VALUE [--force] [--json] [--config FILE]\n"
    "       mongo-idproxy counters sync NAME [--json] [--config FILE]\n";

constexpr const char* kCountersFooter =
    "`list` shows the counters and the sequences without gaps that the rules use: the\n"
    "next number of each, and the largest that is stored. `set` has a counter's next\n"
    "number be VALUE, which must be beyond what is stored. `sync` sets a counter that\n"
    "is behind the data past it. Running proxies follow. NAME is as `list` prints it.\n"
    "\n"
    "Examples:   mongo-idproxy counters list\n"
    "            mongo-idproxy counters set shop.orders.number 5000\n"
    "\n"
    "Exit codes: 0 done, 1 there is no such counter, or it must not be set so,\n"
    "            64 command line, 69 a server does not answer or refuses,\n"
    "            70 internal error, 77 file unreadable, 78 configuration\n";

constexpr const char* kIdsUsage =
    "Usage: mongo-idproxy ids --ns DB.COLLECTION --field FIELD [-n N] [--json]\n"
    "                         [--config FILE]\n";

constexpr const char* kIdsFooter =
    "Prints values that the rule would give, one a line, as mongosh writes them. None\n"
    "is used up: the next numbers of a counter may go to others meanwhile.\n"
    "\n"
    "Examples:   mongo-idproxy ids --ns shop.orders --field number\n"
    "            mongo-idproxy ids --ns shop.orders --field code -n 3 --json\n"
    "\n"
    "Exit codes: 0 printed, 64 command line, 69 a server does not answer or the rule\n"
    "            is not ready, 70 internal error, 77 file unreadable,\n"
    "            78 configuration\n";

constexpr const char* kCompletionUsage = "Usage: mongo-idproxy completion bash|zsh|fish\n";

constexpr const char* kCompletionFooter =
    "Prints a script that completes commands and options. An installation has them\n"
    "where the shells look for them.\n"
    "\n"
    "Examples:   source <(mongo-idproxy completion bash)\n"
    "            mongo-idproxy completion fish | source\n";

bool complete_check(const Asked&) {
  return true;
}

/// Of a command for one rule in one collection, with this request.
template <auto kRequest>
bool complete_rule(const Asked& asked) {
  if ((asked.*kRequest).ns.empty()) throw CLI::RequiredError("--ns DB.COLLECTION");
  if ((asked.*kRequest).field.empty()) throw CLI::RequiredError("--field FIELD");
  return true;
}

/// What each action of `counters` is given behind its name.
struct CountersAction {
  std::string_view name;
  CountersRequest::Act act;
  bool takes_name;
  bool takes_value;
};
constexpr CountersAction kCountersActions[] = {
    {"list", CountersRequest::Act::list, false, false},
    {"get", CountersRequest::Act::get, true, false},
    {"set", CountersRequest::Act::set, true, true},
    {"sync", CountersRequest::Act::sync, true, false},
};

bool complete_counters(const Asked& asked) {
  const auto action =
      std::ranges::find(kCountersActions, asked.counters_action, &CountersAction::name);
  if (action == std::end(kCountersActions)) throw CLI::RequiredError("list, get, set or sync");
  if (asked.counters.name.empty() == action->takes_name) {
    if (action->takes_name) throw CLI::RequiredError("NAME");
    throw CLI::ExtrasError({asked.counters.name});
  }
  if (!asked.counter_value && action->takes_value) throw CLI::RequiredError("VALUE");
  if (asked.counter_value && !action->takes_value) {
    throw CLI::ExtrasError({std::to_string(*asked.counter_value)});
  }
  if (asked.counters.force && !action->takes_value) throw CLI::ExcludesError("--force", "set");
  return true;
}

bool complete_completion(const Asked& asked) {
  if (asked.shell.empty()) throw CLI::RequiredError("bash, zsh or fish");
  return false;
}

/// Of commands that ask a running proxy: the configuration only says where that is.
bool complete_admin(const Asked& asked) {
  return asked.admin.empty();
}

void add_admin(CLI::App& options, Asked& asked) {
  add_value(options, "--admin", asked.admin, "HOST:PORT",
            "Where the proxy answers, in place of\nadmin.listen in the configuration");
}

void add_status_options(CLI::App& options, Asked& asked) {
  StatusRequest& request = asked.status;
  options.add_flag("--servers", request.servers, "All figures of the servers");
  options.add_flag("--rules", request.rules, "All figures of the rules");
  CLI::Option* clients =
      options.add_flag("--clients", request.clients, "The clients, the busiest first");
  add_value(options, "--app", request.application, "NAME",
            "With --clients: only those of this application")
      ->needs(clients);
  options.add_flag_callback(
      "--watch", [&request] { request.repeat = StatusRequest::Repeat::each_second; },
      "Go on, each second, until SIGINT");
  options.add_flag("--json", request.as_json, "Print /status.json as it is");
  add_config(options, asked);
  add_admin(options, asked);
}

void add_wait_options(CLI::App& options, Asked& asked) {
  const auto read = [&asked](const std::string& text) {
    const auto most = read_duration(text);
    if (most.reading != Reading::ok || most.value.count() < 0) {
      throw CLI::ValidationError("--max", "must be a duration such as 30s or 2m");
    }
    asked.wait.most = most.value;
  };
  options.add_option_function<std::string>("--max", read, "How long to wait; 30s if not given")
      ->option_text("DURATION");
  options.add_flag("--json", asked.wait.as_json, "Print JSON");
  add_config(options, asked);
  add_admin(options, asked);
}

void add_reload_options(CLI::App& options, Asked& asked) {
  options.add_flag("--json", asked.reload.as_json, "Print JSON");
  add_config(options, asked);
  add_admin(options, asked);
}

void add_check_options(CLI::App& options, Asked& asked) {
  options.add_flag_callback(
      "--connect", [&asked] { asked.check.with = app::CheckWith::servers; },
      "Also ask the servers whether each rule is ready");
  options.add_flag("--json", asked.check.as_json, "Print JSON");
  add_config(options, asked);
}

bool complete_config(const Asked& asked) {
  return asked.show_config.show != ConfigRequest::Show::schema;
}

void add_config_options(CLI::App& options, Asked& asked) {
  ConfigRequest& request = asked.show_config;
  CLI::Option* json =
      options
          .add_flag_callback(
              "--json", [&request] { request.show = ConfigRequest::Show::keys_as_json; },
              "Print JSON")
          ->option_text(" ");
  options
      .add_flag_callback(
          "--schema", [&request] { request.show = ConfigRequest::Show::schema; },
          "Print the JSON Schema of the file, for editors")
      ->excludes(json)
      ->option_text(" ");
  add_config(options, asked);
}

void add_doctor_options(CLI::App& options, Asked& asked) {
  options.add_flag("--json", asked.doctor.as_json, "Print the findings as JSON");
  add_config(options, asked);
}

void add_backfill_options(CLI::App& options, Asked& asked) {
  BackfillRequest& request = asked.backfill;
  add_config(options, asked);
  add_value(options, "--ns", request.ns, "DB.COLLECTION", "The collection");
  add_value(options, "--field", request.field, "FIELD", "The field to fill, as its rule names it");
  add_value(options, "--sort", request.sort, "FIELD",
            "Give values in the order of this field, by\ndefault _id; -FIELD: in descending order");
  add_value(options, "--rate", request.rate, "N", "Change at most N documents a second")
      ->check(CLI::Range(1, 1'000'000));
  options.add_flag_callback(
      "--dry-run", [&request] { request.mode = BackfillRequest::Mode::dry_run; },
      "Change nothing; print how many documents would\nget which values");
  add_value(options, "--period-from", request.period_from, "FIELD",
            "For rules with `reset`, or with a date in the\n`template`: a document's date is in "
            "this field");
}

void add_verify_options(CLI::App& options, Asked& asked) {
  VerifyRequest& request = asked.verify;
  add_config(options, asked);
  add_value(options, "--ns", request.ns, "DB.COLLECTION", "The collection");
  add_value(options, "--field", request.field, "FIELD", "The field, as its rule names it");
  add_value(options, "--scope", request.scope, "JSON",
            "Only the documents of this scope, such as\n{\"tenant\": \"a\"}");
  add_value(
      options, "--allow", request.allow, "REGEX",
      "Values that are meant to be there though the rule\nhas not made them, such as 'VIP-.*'");
  options.add_flag("--json", request.as_json, "Print the report as JSON");
}

void add_counters_options(CLI::App& options, Asked& asked) {
  CountersRequest& request = asked.counters;
  add_value(options, "action", asked.counters_action, "", "list, get, set or sync");
  add_value(options, "name", request.name, "", "As `list` prints it");
  const auto read = [&asked](const std::string& text) {
    std::int64_t value = 0;
    const auto done = std::from_chars(text.data(), text.data() + text.size(), value);
    if (done.ec != std::errc{} || done.ptr != text.data() + text.size()) {
      throw CLI::ValidationError("VALUE", "must be an integer of at most 64 bits");
    }
    asked.counter_value = value;
  };
  options.add_option_function<std::string>("value", read, "set: the next number")->option_text("");
  options.add_flag("--force", request.force,
                   "set: although numbers that are stored would be\ngiven out a second time");
  options.add_flag("--json", request.as_json, "Print JSON");
  add_config(options, asked);
}

void add_ids_options(CLI::App& options, Asked& asked) {
  IdsRequest& request = asked.ids;
  add_value(options, "--ns", request.ns, "DB.COLLECTION", "The collection");
  add_value(options, "--field", request.field, "FIELD", "The field, as its rule names it");
  add_value(options, "-n", request.count, "N", "How many values; 5 if not given")
      ->check(CLI::Range(1, 10'000));
  options.add_flag("--json", request.as_json, "Print a document of extended JSON");
  add_config(options, asked);
}

void add_completion_options(CLI::App& options, Asked& asked) {
  add_value(options, "shell", asked.shell, "", "bash, zsh or fish");
}

app::AdminOptions proxy_of(const Asked& asked) {
  return {asked.config, asked.admin};
}

ExitCode run_status(Asked& asked, const Syntax&) {
  asked.status.proxy = proxy_of(asked);
  return app::commands::status(asked.status);
}

ExitCode run_wait(Asked& asked, const Syntax&) {
  asked.wait.proxy = proxy_of(asked);
  return app::commands::wait(asked.wait);
}

ExitCode run_reload(Asked& asked, const Syntax&) {
  asked.reload.proxy = proxy_of(asked);
  return app::commands::reload(asked.reload);
}

ExitCode run_check(Asked& asked, const Syntax&) {
  asked.check.file = asked.config;
  return app::commands::check_config(asked.check);
}

ExitCode run_config(Asked& asked, const Syntax&) {
  asked.show_config.file = asked.config;
  return app::commands::print_config(asked.show_config);
}

ExitCode run_doctor(Asked& asked, const Syntax&) {
  asked.doctor.file = asked.config;
  return app::commands::doctor(asked.doctor);
}

ExitCode run_backfill(Asked& asked, const Syntax&) {
  asked.backfill.file = asked.config;
  return app::jobs::backfill(asked.backfill);
}

ExitCode run_verify(Asked& asked, const Syntax&) {
  asked.verify.file = asked.config;
  return app::jobs::verify(asked.verify);
}

ExitCode run_counters(Asked& asked, const Syntax&) {
  CountersRequest& request = asked.counters;
  request.file = asked.config;
  request.value = asked.counter_value.value_or(0);
  request.act =
      std::ranges::find(kCountersActions, asked.counters_action, &CountersAction::name)->act;
  return app::commands::counters(request);
}

ExitCode run_ids(Asked& asked, const Syntax&) {
  asked.ids.file = asked.config;
  return app::commands::print_ids(asked.ids);
}

ExitCode run_completion(Asked& asked, const Syntax& all) {
  return app::commands::print_completion(asked.shell, all);
}

constexpr Command kCommands[] = {
    {"status", "Show servers, rules, clients and what is wrong", kStatusUsage, kStatusFooter,
     add_status_options, complete_admin, run_status},
    {"wait", "Wait until the proxy is ready", kWaitUsage, kWaitFooter, add_wait_options,
     complete_admin, run_wait},
    {"reload", "Have the proxy read its configuration again", kReloadUsage, kReloadFooter,
     add_reload_options, complete_admin, run_reload},
    {"check", "Check the configuration", kCheckUsage, kCheckFooter, add_check_options,
     complete_check, run_check},
    {"config", "Show each key, its value and where it is from", kConfigUsage, kConfigFooter,
     add_config_options, complete_config, run_config},
    {"doctor", "Find what is wrong, with the commands that mend it", kDoctorUsage, kDoctorFooter,
     add_doctor_options, complete_check, run_doctor},
    {"backfill", "Give values to documents from before their rule", kBackfillUsage, kBackfillFooter,
     add_backfill_options, complete_rule<&Asked::backfill>, run_backfill},
    {"verify", "Prove what a collection has in a rule's field", kVerifyUsage, kVerifyFooter,
     add_verify_options, complete_rule<&Asked::verify>, run_verify},
    {"counters", "List, show and set counters", kCountersUsage, kCountersFooter,
     add_counters_options, complete_counters, run_counters},
    {"ids", "Print values that a rule would give", kIdsUsage, kIdsFooter, add_ids_options,
     complete_rule<&Asked::ids>, run_ids},
    {"completion", "Print a script for a shell", kCompletionUsage, kCompletionFooter,
     add_completion_options, complete_completion, run_completion},
};

std::string in_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

CLI::Option* add_config(CLI::App& options, Asked& asked) {
  return add_value(options, "-c,--config", asked.config, "FILE", "The YAML configuration");
}

app::CommandSyntax syntax_of(const CLI::App& options) {
  app::CommandSyntax syntax{
      options.get_parent() != nullptr ? options.get_name() : "", options.get_description(), {}};
  for (const CLI::Option* option : options.get_options()) {
    // A blank keeps CLI11 from saying what a flag needs or excludes.
    const std::string argument = option->get_option_text() == " " ? "" : option->get_option_text();
    app::CommandSyntax::Option found{{}, argument, in_one_line(option->get_description())};
    for (const std::string& name : option->get_snames()) found.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) found.names.push_back("--" + name);
    if (!found.names.empty()) syntax.options.push_back(std::move(found));
  }
  return syntax;
}

}  // namespace idproxy
