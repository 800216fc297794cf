#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/base/file_finding.hpp"
#include "idproxy/base/parameters.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/log/log.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/rewrite/rule.hpp"

/// YAML -> the Options of each module. The keys and their defaults: config/mongo-idproxy.yaml.
namespace idproxy::config {

/// Facts about the file that the Options do not preserve. May hold passwords.
struct Written {
  net::Endpoint listen;                  ///< the first listener
  std::string upstream_uri;              ///< as in the file, not its resolved seed list
  std::optional<std::string> store_uri;  ///< the id store's own connection string, if any
  std::string store_uri_key;             ///< its key: id_store.uri or id_store.uri_file
  Place upstream_uri_place{};            ///< of the keys
  Place store_uri_place{};
  std::shared_ptr<const net::tls::Context> store_tls;  ///< of store_uri; null: plain, or none
  std::vector<std::string> password_keys;              ///< the keys whose values contain a password
  bool threads_auto = true;
};

struct Config {
  /// If upstream.uri is a mongodb+srv string that is not resolved yet, that string; else empty. If
  /// it is not empty, `net` has no routes: call parse() again with a seed list.
  std::string srv_uri;
  net::Options net;
  log::Options log;
  id_store::Options id_store;            ///< rules never apply to its database
  std::optional<net::Endpoint> admin;    ///< the HTTP endpoint, if any; port 0: any free port
  std::vector<std::string> admin_hosts;  ///< names, beside its address, by which it may be asked
  bool watch = false;                    ///< reload when the content of a file has changed
  std::vector<rewrite::Rule> rules;      ///< in file order
  Written written;
};

struct Loaded {
  Config config;  ///< valid only if ok()
  std::vector<FileFinding> findings;
  std::vector<FileFinding> notes;  ///< in file order, for whoever has the file checked
  bool is_mapping = false;         ///< false: the text has no keys that could be read
  /// The files that it names, each with its state_of_file() just before it was read; also after
  /// errors.
  std::map<std::string, std::string> files;
  [[nodiscard]] bool ok() const;
};

/// Gets what has read the file, and knows its keys.
using Look = std::function<void(const Parameters& file, const Config& config)>;

/// Reads a configuration from its text. Does not use the network; reads the files that `*_file`
/// keys name. If upstream.uri is a mongodb+srv string, `seed_list` is the mongodb:// string that it
/// resolves to (with_seed_list), or empty if it is not resolved yet. Calls `look`, if there is one,
/// unless the text is not YAML.
[[nodiscard]] Loaded parse(const std::string& text, ids::Sources sources,
                           const std::string& seed_list = {}, const Look& look = {});

/// The keys whose changes from `running` to `next` need a restart and must not be applied, in the
/// order of the default file; names only, no values. A reload can change everything else: rules,
/// log.level, the files of listen.tls and its client_certificate, the files that upstream.uri
/// names, and listen.members except those for servers of upstream.uri. If the result has
/// listen.tls.mode or upstream.uri, keep the running TLS context of that side. Both configurations
/// must be ok().
[[nodiscard]] std::vector<std::string> needs_restart(const Config& running, const Config& next);

}  // namespace idproxy::config
