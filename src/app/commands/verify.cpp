#include "app/commands/command.hpp"
#include "app/jobs/jobs.hpp"

namespace idproxy::app::commands {

const Command kVerify{
    "verify",
    "Prove what a collection has in a rule's field",
    R"(It reads each document's _id, the field and the fields of the rule's scope, and
changes nothing. It reports documents without a value, duplicates, other types,
texts and check digits that do not fit, gaps, and numbers beyond the counter or
its max. Applications may write meanwhile. The user in id_store.uri needs find
on the collection.

Examples:   mongo-idproxy verify --ns shop.orders --field number
            mongo-idproxy verify --ns shop.invoices --field number \
              --scope '{"tenant": "a"}' --json --config proxy.yaml)",
    {{0, "nothing is wrong"},
     {1, "something is, or not all was read"},
     {69, "a server does not answer"}},
    "SIGTERM and SIGINT end it with a report of what was read, a second one at once",
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<jobs::VerifyRequest>();
      add_rule(options, *request, "The field, as its rule names it");
      add_value(options, "--scope", request->scope, "JSON",
                "Only the documents of this scope, such as\n{\"tenant\": \"a\"}");
      add_value(
          options, "--allow", request->allow, "REGEX",
          "Values that are meant to be there though the rule\nhas not made them, such as 'VIP-.*'");
      options.add_flag("--json", request->as_json, "Print the report as JSON");
      add_config(options, config);
      return on_file(request, jobs::verify);
    }};

}  // namespace idproxy::app::commands
