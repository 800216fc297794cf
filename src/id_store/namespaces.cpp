#include "idproxy/id_store/namespaces.hpp"

#include "idproxy/base/glob.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

std::string text_of(Bytes document, std::string_view key) {
  const auto element = bson::find(document, key);
  return element && element->type == bson::Type::string ? std::string(element->text())
                                                        : std::string();
}

mongo::Reply list_databases(mongo::Client& client, std::vector<std::string>& names) {
  mongo::Document command;
  command.add("listDatabases", 1).add("nameOnly", true);
  mongo::Reply reply = client.read("admin", command);
  if (!reply.ok()) return reply;
  const auto databases = bson::find(reply.document.bytes(), "databases");
  if (!databases || databases->type != bson::Type::array) return reply;
  bson::Elements elements(databases->value);
  while (const auto element = elements.next()) {
    const std::string name = text_of(element->value, "name");
    if (name != "admin" && name != "local" && name != "config") names.push_back(name);
  }
  return reply;
}

mongo::Reply list_collections(mongo::Client& client, const std::string& db, const std::string& glob,
                              std::vector<Namespace>& found) {
  mongo::Document command;
  // Without authorizedCollections, which would silently leave out collections that the user may not
  // read.
  command.add("listCollections", 1).add("nameOnly", true);
  return client.read_all(db, command, [&](Bytes entry) {
    const Namespace ns{db, text_of(entry, "name")};
    const bool counts =
        text_of(entry, "type") == "collection" && !ns.collection.starts_with("system.");
    if (counts && glob_matches(glob, ns.text())) found.push_back(ns);
    return true;
  });
}

}  // namespace

bool is_glob(std::string_view glob) {
  return glob.find_first_of("*?") != glob.npos;
}

Namespace split_namespace(std::string_view ns) {
  const std::size_t dot = ns.find('.');
  if (dot == std::string_view::npos) return {std::string(ns), {}};
  return {std::string(ns.substr(0, dot)), std::string(ns.substr(dot + 1))};
}

mongo::Reply find_namespaces(mongo::Client& client, const std::string& glob,
                             const ids::CounterPlace& counter, std::vector<Namespace>& found) {
  if (!is_glob(glob)) {
    found.push_back(split_namespace(glob));
    return {};
  }
  std::vector<std::string> dbs{split_namespace(glob).db};
  mongo::Reply reply;
  if (is_glob(dbs.front())) {
    dbs.clear();
    reply = list_databases(client, dbs);
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
