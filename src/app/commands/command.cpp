#include "app/commands/command.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <string_view>

#include "app/config_file.hpp"
#include "idproxy/app/version.hpp"

namespace idproxy::app::commands {
namespace {

constexpr std::string_view kUsualFile = "/etc/mongo-idproxy/mongo-idproxy.yaml";

/// Also one that must not be read.
bool is_there(const std::string& name) {
  struct stat status{};
  return ::stat(name.c_str(), &status) == 0 || errno != ENOENT;
}

}  // namespace

boost::system::result<std::string, ExitCode> config_file(const std::string& named) {
  if (!named.empty()) return named;
  const std::string usual(kUsualFile);
  const std::string installed(installed_config());
  for (const std::string& name : {usual, installed}) {
    if (is_there(name)) return name;
  }
  return end_with(ExitCode::no_permission, "no configuration: give --config FILE, or write " +
                                               usual +
                                               (usual != installed ? " or " + installed : ""));
}

void add_config(CLI::App& options, std::string& config) {
  add_value(options, "-c,--config", config, "FILE", "The YAML configuration");
}

void add_rule(CLI::App& options, jobs::RuleOptions& rule, const char* field_text) {
  add_value(options, "--ns", rule.ns, "DB.COLLECTION", "The collection")->required();
  add_value(options, "--field", rule.field, "FIELD", field_text)->required();
}

void require(const jobs::RuleOptions& rule) {
  if (rule.ns.empty()) throw CLI::RequiredError("--ns DB.COLLECTION");
  if (rule.field.empty()) throw CLI::RequiredError("--field FIELD");
}

std::vector<std::string> names_of(const CLI::App& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options.get_options()) {
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace idproxy::app::commands
