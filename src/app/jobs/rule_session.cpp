#include "app/jobs/rule_session.hpp"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "app/system_clock.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/id_store/server_hello.hpp"

namespace idproxy::app::jobs {
namespace {

// A resolver asks the second name server after five seconds.
constexpr std::chrono::seconds kNamesWithin{9};

}  // namespace

ExitCode find_store(ConfigFile& file) {
  const auto servers = file.find_servers(std::cerr);
  if (!servers) return servers.error();
  const id_store::Options& store = file.loaded.config.id_store;
  const std::string silent = id_store::names_not_told(store.uri, kNamesWithin);
  if (silent.empty()) return ExitCode::ok;
  return end_with(ExitCode::unavailable, "the id store (" + store.uri_key + "): " + silent);
}

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

boost::system::result<OpenedRule, ExitCode> open_rule(const RuleOptions& options,
                                                      ConfigFile::Print print) {
  const std::string fault = fault_of_ns(options.ns);
  if (!fault.empty()) return end_with(ExitCode::usage, fault);
  auto file = ConfigFile::open(options.file, print);
  if (!file) return file.error();
  const auto index = find_rule(options.file, options.ns, options.field, file->loaded.config.rules);
  if (!index) return end_with(ExitCode::usage, index.error());
  return OpenedRule{*std::move(file), *index};
}

RuleSession::RuleSession(config::Config config)
    : uri_key_(config.id_store.uri_key),
      store_(std::make_unique<id_store::Store>(config.id_store, process_sources().clock)),
      rules_(state::make_rules(std::move(config.rules), config.id_store.db, *store_)) {}

std::optional<id_store::MissingIndex> RuleSession::lacks_index(std::size_t index) const {
  const auto all = watch().lack_index();
  const auto found = all.find(index);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

std::string RuleSession::why_down() const {
  const auto why = watch().why_down();
  return why ? "the id store (" + uri_key_ + ") " + *why : "";
}

bool RuleSession::stop(std::chrono::milliseconds limit) {
  if (store_->stop(limit)) return true;
  store_.release();  // NOLINT(bugprone-unused-return-value): its thread goes on
  return false;
}

ExitCode RuleSession::end(ExitCode code, std::chrono::milliseconds limit) {
  if (!stop(limit)) leave(code);
  return code;
}

void leave(ExitCode code) {
  std::cout.flush();
  std::_Exit(static_cast<int>(code));
}

}  // namespace idproxy::app::jobs
