#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/glob.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

struct Namespace {
  std::string db;
  std::string collection;
  [[nodiscard]] std::string text() const { return db + "." + collection; }
};

/// The collection beside a counter's own that has its mark (counter_commands.hpp).
inline constexpr const char* kMarks = "idproxyCounterMarks";

/// The collection in the store's database that has the floors of sequences: {_id: "<ns>.<field>",
/// floor: int64}.
inline constexpr const char* kFloors = "gaplessFloors";

/// "db.collection", split at the first dot.
[[nodiscard]] Namespace split_namespace(std::string_view ns);

/// As mongosh names them: db.getSiblingDB("shop"), and with .getCollection("orders") behind.
[[nodiscard]] std::string in_mongosh(std::string_view db);
[[nodiscard]] std::string in_mongosh(const Namespace& ns);

/// Appends the names of the databases that the user may see.
[[nodiscard]] mongo::Reply list_databases(mongo::Client& client, std::vector<std::string>& names);

/// Finds the collections that match a glob over "db.collection" ('*' and '?'), without views,
/// time-series and system collections. A glob without wildcards is returned as it is, whether or
/// not the collection exists, without asking a server. Wildcards do not match where no rule
/// applies: in admin, local, config, the id store's database, the `counter`'s collection and
/// kMarks. `found` is valid if the reply is ok.
[[nodiscard]] mongo::Reply find_namespaces(mongo::Client& client, const Glob& glob,
                                           const ids::CounterPlace& counter,
                                           std::vector<Namespace>& found);

}  // namespace idproxy::id_store
