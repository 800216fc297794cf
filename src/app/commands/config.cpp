#include <unistd.h>

#include <boost/json.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "app/commands/command.hpp"
#include "app/config_file.hpp"
#include "app/json_view.hpp"
#include "app/system_clock.hpp"
#include "app/views/terminal.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/config/keys.hpp"

namespace idproxy::app::commands {
namespace {

struct ConfigRequest {
  std::string file{};
  bool as_json = false;
  bool schema = false;
};

namespace json = boost::json;
using config::KeyInUse;
using From = KeyInUse::From;

/// A text as it is, everything else as JSON has it, which is also YAML.
std::string text_of(const json::value& value) {
  if (value.is_double()) return number_text(value.as_double());
  const bool is_plain = value.is_string() && !value.as_string().empty();
  return is_plain ? std::string(value.as_string()) : json::serialize(value);
}

std::string origin_of(const KeyInUse& key) {
  switch (key.from) {
    case From::fallback:
      return "default";
    case From::file:
      return "line " + std::to_string(key.line);
    case From::variable:
      return "line " + std::to_string(key.line) + ", " + key.source;
    case From::secret_file:
      return key.source;
  }
  return {};
}

std::string section_of(const std::string& key) {
  return key.substr(0, key.find('.'));
}

views::TextTable new_table() {
  return views::TextTable({{"KEY"}, {"VALUE"}, {"DEFAULT"}, {"FROM"}});
}

void add_key(const KeyInUse& key, views::TextTable& table) {
  const bool differs = key.fallback && *key.fallback != key.value;
  const std::string name = key.key.substr(key.key.find('.') + 1);
  table.add({{name},
             {text_of(key.value), differs ? views::Tone::strong : views::Tone::plain},
             {differs ? text_of(*key.fallback) : "", views::Tone::faint},
             {origin_of(key), views::Tone::faint}});
}

void print_table(const std::string& file, const std::vector<KeyInUse>& keys) {
  const views::Terminal terminal = views::Terminal::at(STDOUT_FILENO);
  std::cout << printable(file) << '\n';
  for (auto key = keys.begin(); key != keys.end();) {
    const std::string section = section_of(key->key);
    views::TextTable table = new_table();
    for (; key != keys.end() && section_of(key->key) == section; ++key) add_key(*key, table);
    std::cout << '\n' << terminal.heading(section) << table.text(terminal);
  }
}

json::object key_json(const KeyInUse& key) {
  constexpr const char* kNames[] = {"default", "file", "variable", "secret file"};
  const auto from = static_cast<std::size_t>(key.from);
  json::object object{{"key", key.key}, {"value", key.value}, {"from", kNames[from]}};
  if (key.fallback) object["default"] = *key.fallback;
  if (key.line > 0) object["line"] = key.line;
  if (!key.source.empty()) object["source"] = key.source;
  return object;
}

void print_json(const std::string& file, const std::vector<KeyInUse>& keys) {
  json::array all;
  for (const KeyInUse& key : keys) all.push_back(key_json(key));
  std::cout << json_line(json::object{{"file", file}, {"keys", std::move(all)}});
}

ExitCode print_schema() {
  std::cout << json_line(config::json_schema(process_sources())) << std::flush;
  return ExitCode::ok;
}

ExitCode print_config(const ConfigRequest& request) {
  const auto file = ConfigFile::open(request.file, ConfigFile::Print::faults);
  if (!file) return file.error();
  const std::vector<KeyInUse> keys = config::keys_of(file->text, process_sources());
  request.as_json ? print_json(request.file, keys) : print_table(request.file, keys);
  std::cout << std::flush;
  return ExitCode::ok;
}

}  // namespace

const Command kConfig{
    "config",
    "Show each key, its value and where it is from",
    R"(Prints each key with its value, its default if that is another one, and where
the value comes from. Connection strings are shown without user and password.
--schema needs no file.

Examples:   mongo-idproxy config --config proxy.yaml
            mongo-idproxy config --schema > mongo-idproxy.schema.json)",
    {{0, "printed"}},
    nullptr,
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<ConfigRequest>();
      CLI::Option* json =
          options.add_flag("--json", request->as_json, "Print JSON")->option_text(" ");
      options
          .add_flag("--schema", request->schema, "Print the JSON Schema of the file, for editors")
          ->excludes(json)
          ->option_text(" ");
      add_config(options, config);
      return [request](const std::string& named) {
        return request->schema ? print_schema() : on_file(request, print_config)(named);
      };
    }};

}  // namespace idproxy::app::commands
