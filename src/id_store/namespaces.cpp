#include "idproxy/id_store/namespaces.hpp"

#include <algorithm>

#include "idproxy/base/glob.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

mongo::Reply list_collections(mongo::Client& client, const std::string& db, const Glob& glob,
                              std::vector<Namespace>& found) {
  // Without authorizedCollections, which would silently leave out collections that the user may not
  // read.
  return client.read_all(db, {{"listCollections", 1}, {"nameOnly", true}}, [&](Bytes entry) {
    const Namespace ns{db, std::string(bson::text_in(entry, "name"))};
    const bool counts =
        bson::text_in(entry, "type") == "collection" && !ns.collection.starts_with("system.");
    if (counts && glob.matches(ns.text())) found.push_back(ns);
    return true;
  });
}

}  // namespace

Namespace split_namespace(std::string_view ns) {
  const auto [db, collection] = split_ns(ns);
  return {std::string(db), std::string(collection)};
}

std::string in_mongosh(std::string_view db) {
  return "db.getSiblingDB(" + in_quotes(db) + ")";
}

std::string in_mongosh(const Namespace& ns) {
  return in_mongosh(ns.db) + ".getCollection(" + in_quotes(ns.collection) + ")";
}

mongo::Reply list_databases(mongo::Client& client, std::vector<std::string>& names) {
  mongo::Reply reply = client.read("admin", {{"listDatabases", 1}, {"nameOnly", true}});
  for (const Bytes database : bson::documents_in(reply.document.bytes(), "databases")) {
    names.emplace_back(bson::text_in(database, "name"));
  }
  return reply;
}

mongo::Reply find_namespaces(mongo::Client& client, const Glob& glob,
                             const ids::CounterPlace& counter, std::vector<Namespace>& found) {
  if (!has_wildcards(glob.pattern)) {
    found.push_back(split_namespace(glob.pattern));
    return {};
  }
  std::vector<std::string> dbs{split_namespace(glob.pattern).db};
  mongo::Reply reply;
  if (has_wildcards(dbs.front())) {
    dbs.clear();
    reply = list_databases(client, dbs);
    std::erase_if(dbs, [](const std::string& db) {
      return db == "admin" || db == "local" || db == "config";
    });
  }
  for (auto db = dbs.begin(); db != dbs.end() && reply.ok(); ++db) {
    reply = list_collections(client, *db, glob, found);
  }
  std::erase_if(found, [&](const Namespace& ns) {
    return ns.db == counter.store_db ||
           (ns.db == counter.db &&
            (ns.collection == counter.collection || ns.collection == kMarks));
  });
  return reply;
}

}  // namespace idproxy::id_store
