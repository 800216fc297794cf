#include "app/commands/command.hpp"
#include "app/jobs/jobs.hpp"

namespace idproxy::app::commands {

const Command kBackfill{
    "backfill",
    "Give values to documents from before their rule",
    R"(Make the unique index, backfill, start or reload the proxy with the rule, and
backfill again for what was stored in between: so old documents have the lower
numbers.

Documents that have a value keep it, so that an interrupted backfill can be
started again and goes on. Applications may write meanwhile. The user in
id_store.uri needs find and update on the collection.

Examples:   mongo-idproxy backfill --ns shop.orders --field number --dry-run
            mongo-idproxy backfill --ns shop.orders --field number \
              --sort created --rate 2000 --config proxy.yaml)",
    {{0, "no document is left without a value"},
     {1, "some are (the report says why)"},
     {69, "a server does not answer or the rule is not ready"}},
    "SIGTERM and SIGINT end it behind the batch under way, a second one at once",
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<jobs::BackfillRequest>();
      add_rule(options, *request, "The field to fill, as its rule names it");
      add_value(
          options, "--sort", request->sort, "FIELD",
          "Give values in the order of this field, by\ndefault _id; -FIELD: in descending order");
      add_value(options, "--rate", request->rate, "N", "Change at most N documents a second")
          ->check(CLI::Range(1, 1'000'000));
      options.add_flag_callback(
          "--dry-run", [request] { request->mode = jobs::BackfillRequest::Mode::dry_run; },
          "Change nothing; print how many documents would\nget which values");
      add_value(
          options, "--period-from", request->period_from, "FIELD",
          "For rules with `reset`, or with a date in the\n`template`: a document's date is in "
          "this field");
      add_config(options, config);
      return on_file(request, jobs::backfill);
    }};

}  // namespace idproxy::app::commands
