#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "id_store/mongo.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

struct Namespace {
  std::string db;
  std::string collection;
  [[nodiscard]] std::string text() const { return db + "." + collection; }
};

/// "db.collection", split at the first dot.
[[nodiscard]] Namespace split_namespace(std::string_view ns);

/// True if a glob stands for more than one name.
[[nodiscard]] bool is_glob(std::string_view glob);

/// The collections whose name a glob over "db.collection" ('*' and '?') matches; views, time-series
/// and system collections are none. A glob without wildcards stands for itself, whether there is
/// such a collection or not, and asks nobody. `found` is filled if the reply is ok. Where no rule
/// applies, in admin, local, config, the id store's database and the collection of the `counter`,
/// no wildcard looks.
[[nodiscard]] mongo::Reply find_namespaces(mongo::Client& client, const std::string& glob,
                                           const ids::CounterPlace& counter,
                                           std::vector<Namespace>& found);

}  // namespace idproxy::id_store
