#include "app/jobs/find_rule.hpp"

#include <utility>

#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::jobs {

std::string fault_of_ns(const std::string& ns) {
  const auto [db, collection] = split_ns(ns);
  if (db.empty() || collection.empty()) {
    return "--ns must be a database and a collection, such as shop.orders";
  }
  return has_wildcards(ns) ? "--ns must name one collection, without wildcards" : "";
}

void add_rule_of(const std::string& ns, std::vector<rewrite::Rule>& rules, std::size_t index) {
  if (!has_wildcards(rules[index].ns)) return;
  rewrite::Rule own = rules[index];
  own.ns = ns;
  rules.insert(rules.begin() + static_cast<std::ptrdiff_t>(index), std::move(own));
}

boost::system::result<std::size_t, std::string> find_rule(const std::string& file,
                                                          const std::string& ns,
                                                          const std::string& field,
                                                          const std::vector<rewrite::Rule>& rules) {
  std::string others;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!rules[i].matches(ns)) continue;
    if (rules[i].field == field) return i;
    others += (others.empty() ? "" : ", ") + rules[i].field;
  }
  return "no rule of " + file + " fills " + field + " in " + ns +
         (others.empty() ? "" : "; its rules fill " + others);
}

}  // namespace idproxy::app::jobs
