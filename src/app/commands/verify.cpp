#include "app/commands/command.hpp"
#include "app/jobs/jobs.hpp"

namespace idproxy::app::commands {

const Command kVerify{
    "verify", "Prove what a collection has in a rule's field",
    "Usage: mongo-idproxy verify --ns DB.COLLECTION --field FIELD [--scope JSON]\n"
    "                            [--allow REGEX] [--json] [--config FILE]\n",
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
    "            one at once\n",
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<jobs::VerifyRequest>();
      add_config(options, config);
      add_rule(options, *request, "The field, as its rule names it");
      add_value(options, "--scope", request->scope, "JSON",
                "Only the documents of this scope, such as\n{\"tenant\": \"a\"}");
      add_value(
          options, "--allow", request->allow, "REGEX",
          "Values that are meant to be there though the rule\nhas not made them, such as 'VIP-.*'");
      options.add_flag("--json", request->as_json, "Print the report as JSON");
      return on_file(request, jobs::verify);
    }};

}  // namespace idproxy::app::commands
