#include "idproxy/app/backfill_request.hpp"

#include "backfill_request.hpp"

#include "idproxy/base/glob.hpp"
#include "idproxy/ids/sequences_of.hpp"
#include "readiness.hpp"

namespace idproxy::app {

std::string fault_of(const BackfillRequest& request) {
  const std::size_t dot = request.ns.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == request.ns.size()) {
    return "--ns must be a database and a collection, such as shop.orders";
  }
  if (has_wildcards(request.ns)) return "--ns must name one collection, without wildcards";
  if (request.field == "_id" || request.field.starts_with("_id.")) {
    return "--field must not be _id: a document keeps its _id as long as it lives";
  }
  const std::string sort = order_of(request).field;
  if (sort.empty() || sort.starts_with('$')) {
    return "--sort must be a field, or -FIELD for descending order";
  }
  if (request.period_from.starts_with('$')) return "--period-from must be a field";
  return "";
}

std::string fault_of(const BackfillRequest& request, const rewrite::Rule& rule) {
  const std::string subject = "the rule for " + request.field + " in " + request.ns;
  if (rule.reserve) {
    return subject +
           " has a `reserve`, and a backfill reserves nothing: its values could be given "
           "out again";
  }
  const ids::SequenceOptions& sequences = ids::sequences_of(*rule.strategy);
  const bool resets = sequences.reset != ids::Reset::none;
  const bool shows_date = sequences.text && !sequences.text->is_timeless();
  if (!request.period_from.empty() && !resets && !shows_date) {
    return "--period-from is for rules with `reset`, or with a date in the `template`, which " +
           subject + " does not have";
  }
  if (request.period_from.empty() && resets) {
    return subject +
           " has a `reset`: --period-from must name the field with the date of each document";
  }
  return "";
}

boost::system::result<std::size_t, std::string> rule_for(const BackfillRequest& request,
                                                         const std::vector<rewrite::Rule>& rules) {
  std::string others;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!glob_matches(rules[i].ns, request.ns)) continue;
    if (rules[i].field == request.field) return i;
    others += (others.empty() ? "" : ", ") + rules[i].field;
  }
  return "no rule of " + request.file + " fills " + request.field + " in " + request.ns +
         (others.empty() ? "" : "; its rules fill " + others);
}

BackfillTarget target_of(const BackfillRequest& request, const rewrite::Assignment& assignment) {
  using rewrite::Assign;
  const Assign assign = assignment.rule->assign;
  BackfillTarget target{id_store::split_namespace(request.ns), request.field,
                        assign == Assign::always ? Assign::missing_or_null : assign};
  if (assignment.sequences != nullptr) target.beside = assignment.sequences->fields();
  if (!request.period_from.empty()) target.beside.push_back(request.period_from);
  return target;
}

BackfillOrder order_of(const BackfillRequest& request) {
  if (request.sort.starts_with('-')) return {request.sort.substr(1), -1};
  return {request.sort, 1};
}

}  // namespace idproxy::app
