#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "idproxy/id_store/store.hpp"
#include "idproxy/ids/strategy.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/observability/log.hpp"
#include "idproxy/rewrite/rule.hpp"

/// YAML -> the Options of each module. The keys and their defaults: config/mongo-idproxy.yaml.
namespace idproxy::config {

struct Config {
  /// upstream.uri if it is a mongodb+srv string, whose hosts are in the DNS, else empty. Then `net`
  /// has no routes yet: parse() is to be called again with the list of hosts.
  std::string srv_uri;
  net::Options net;
  log::Options log;
  id_store::Options id_store;        ///< without its rules; no rule ever touches its database
  std::vector<rewrite::Rule> rules;  ///< in file order
};

/// What was found in a file, in the order of its lines. `line` and `column` count from 1; 0 when
/// the finding belongs to the file as a whole.
struct Finding {
  enum class Severity { warning, error };
  Severity severity;
  int line = 0;
  int column = 0;
  std::string message;  ///< "rules[2].digits: must be 1 to 18 with output int64, is 19"
};

struct Loaded {
  Config config;  ///< to be used only if there is no error among the findings
  std::vector<Finding> findings;
  [[nodiscard]] bool ok() const;
};

/// Reads a configuration from its text. Touches no network; reads files named by `*_file` keys.
/// `seed_list`, if not empty, is the mongodb:// string that upstream.uri, a mongodb+srv string,
/// stands for (with_seed_list).
[[nodiscard]] Loaded parse(const std::string& text, ids::Sources sources,
                           const std::string& seed_list = {});

/// "FILE:LINE:COLUMN: error: MESSAGE", as compilers print it.
[[nodiscard]] std::string format(const std::string& file, const Finding& finding);

}  // namespace idproxy::config
