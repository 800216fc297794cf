#include "id_store/namespaces.hpp"

#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

bool has_wildcard(std::string_view text) {
  return text.find_first_of("*?") != text.npos;
}

std::size_t character(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) ++size;
  return size;
}

/// As rewrite::glob_matches; short patterns only.
bool matches(std::string_view glob, std::string_view text) {
  if (glob.empty()) return text.empty();
  if (glob[0] == '*') {
    return matches(glob.substr(1), text) || (!text.empty() && matches(glob, text.substr(1)));
  }
  if (text.empty()) return false;
  if (glob[0] == '?') return matches(glob.substr(1), text.substr(character(text)));
  return glob[0] == text[0] && matches(glob.substr(1), text.substr(1));
}

std::string text_of(Bytes document, std::string_view key) {
  const auto element = bson::find(document, key);
  return element && element->type == bson::Type::string ? std::string(element->text())
                                                        : std::string();
}

mongo::Reply list_databases(mongo::Client& client, std::vector<std::string>& names) {
  mongo::Document command;
  command.add("listDatabases", 1).add("nameOnly", true).add("authorizedDatabases", true);
  mongo::Reply reply = client.read("admin", command);
  if (!reply.ok()) return reply;
  const auto databases = bson::find(reply.document.bytes(), "databases");
  if (!databases || databases->type != bson::Type::array) return reply;
  bson::Elements elements(databases->value);
  while (const auto element = elements.next()) names.push_back(text_of(element->value, "name"));
  return reply;
}

mongo::Reply list_collections(mongo::Client& client, const std::string& db, const std::string& glob,
                              std::vector<Namespace>& found) {
  mongo::Document command;
  command.add("listCollections", 1).add("nameOnly", true).add("authorizedCollections", true);
  return client.read_all(db, command, [&](Bytes entry) {
    const Namespace ns{db, text_of(entry, "name")};
    const bool counts =
        text_of(entry, "type") == "collection" && !ns.collection.starts_with("system.");
    if (counts && matches(glob, ns.text())) found.push_back(ns);
    return true;
  });
}

}  // namespace

Namespace split_namespace(std::string_view ns) {
  const std::size_t dot = ns.find('.');
  if (dot == std::string_view::npos) return {std::string(ns), {}};
  return {std::string(ns.substr(0, dot)), std::string(ns.substr(dot + 1))};
}

mongo::Reply find_namespaces(mongo::Client& client, const std::string& glob,
                             std::vector<Namespace>& found) {
  if (!has_wildcard(glob)) {
    found.push_back(split_namespace(glob));
    return {};
  }
  std::vector<std::string> dbs{split_namespace(glob).db};
  mongo::Reply reply;
  if (has_wildcard(dbs.front())) {
    dbs.clear();
    reply = list_databases(client, dbs);
  }
  for (auto db = dbs.begin(); db != dbs.end() && reply.ok(); ++db) {
    reply = list_collections(client, *db, glob, found);
  }
  return reply;
}

}  // namespace idproxy::id_store
