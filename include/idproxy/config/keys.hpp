#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/config/config.hpp"
#include "idproxy/ids/source.hpp"

/// What the reader of the configuration knows of its own keys.
namespace idproxy::config {

/// A key that is in force. Connection strings are without user, password and options.
struct KeyInUse {
  enum class From {
    fallback,     ///< the default: the file does not have the key
    file,         ///< line `line`
    variable,     ///< line `line`, with the environment variables `source`
    secret_file,  ///< the file `source`, which another key names
  };
  std::string key;  ///< "listen.tls.mode", "rules[0].store.db"
  boost::json::value value;
  std::optional<boost::json::value> fallback;  ///< nothing for a key that must be there
  From from = From::fallback;
  int line = 0;
  std::string source{};
};

/// The keys of a configuration, in the order in which they are read; none if it has errors. For
/// `sources` see parse().
[[nodiscard]] std::vector<KeyInUse> keys_of(const std::string& text, ids::Sources sources);

/// A JSON Schema (draft 2020-12, without what draft-07 does not know) of the configuration, for
/// editors. The reader itself is asked for keys, types, bounds and defaults; the descriptions are
/// those of docs/configuration.md. It accepts whatever parse() accepts.
[[nodiscard]] boost::json::value json_schema(ids::Sources sources);

}  // namespace idproxy::config
