#pragma once

#include <optional>
#include <string>
#include <vector>

#include "idproxy/config/finding.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/ids/strategy.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/observability/log.hpp"
#include "idproxy/rewrite/rule.hpp"

/// YAML -> the Options of each module. The keys and their defaults: config/mongo-idproxy.yaml.
namespace idproxy::config {

/// As it was written, what the Options do not tell any more. May hold passwords.
struct Written {
  net::Endpoint listen;                  ///< the first listener
  std::string upstream_uri;              ///< of the file, not the list of hosts that stands for it
  std::optional<std::string> store_uri;  ///< if the store has one of its own
  std::string store_uri_key;             ///< then where it is: id_store.uri or id_store.uri_file
  std::vector<std::string> password_keys;  ///< of strings with a password in them
  bool threads_auto = true;
};

struct Config {
  /// upstream.uri if it is a mongodb+srv string, whose hosts are in the DNS, else empty. Then `net`
  /// has no routes yet: parse() is to be called again with the list of hosts.
  std::string srv_uri;
  net::Options net;
  log::Options log;
  id_store::Options id_store;          ///< no rule ever touches its database
  std::optional<net::Endpoint> admin;  ///< the HTTP endpoint, if any; port 0: any free port
  std::vector<rewrite::Rule> rules;    ///< in file order
  Written written;
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

/// The keys by which a process that runs with `running` would have to be started anew to have all
/// of `next`, in the order of the default file: what they say now must not be applied. Names only,
/// no values. All else can be reloaded: rules, log.level, the files of listen.tls and its
/// client_certificate, the files that upstream.uri names, and listen.members but for servers of
/// upstream.uri. Where listen.tls.mode or upstream.uri is named, `next`'s Context of that side is
/// for what is not in force, and the old one stays. Both are free of errors.
[[nodiscard]] std::vector<std::string> needs_restart(const Config& running, const Config& next);

}  // namespace idproxy::config
