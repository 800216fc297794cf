#include "config/names.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

// https://www.mongodb.com/docs/manual/reference/limits/
constexpr std::size_t kMaxDatabaseBytes = 63;
constexpr std::size_t kMaxNamespaceBytes = 255;
// MongoDB stores documents nested up to 100 deep; the path's last part is a value.
constexpr std::ptrdiff_t kMaxPathParts = 100;

bool is_servers(std::string_view db) {
  return db == "admin" || db == "config" || db == "local";
}

/// Why no rule may apply to the collection, or "". `db` has no wildcards.
std::string why_untouchable(std::string_view db, std::string_view collection,
                            std::string_view store_db) {
  if (is_servers(db)) {
    return "is never touched: the databases admin, config and local belong to the server";
  }
  if (db == store_db) {
    return "is never touched: '" + shown(store_db) + "' is id_store.db, the proxy's own database";
  }
  if (collection.starts_with("system.")) {
    return "is never touched: collections named system.* belong to the server";
  }
  return {};
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string fault_of_part(std::string_view part) {
  if (part.empty()) return "has an empty part: a dot must stand between two names";
  if (part.starts_with('$')) return "must not have a part that begins with '$'";
  return {};
}

}  // namespace

std::string fault_of_database(std::string_view name) {
  const std::string what = "'" + shown(name) + "' is not a valid database name: ";
  if (name.empty()) return what + "it is empty";
  if (name.size() > kMaxDatabaseBytes) return what + "it has more than 63 bytes";
  if (name.find_first_of("/\\. \"$") != std::string_view::npos) {
    return what + "it must not contain / \\ . \" $ or a blank";
  }
  return {};
}

std::string fault_of_collection(std::string_view name) {
  if (name.starts_with('.') || name.ends_with('.') || name.find('$') != std::string_view::npos) {
    return "'" + shown(name) +
           "' is not a valid collection name: it must not begin or end with '.' or contain '$'";
  }
  return {};
}

std::string fault_of_own_database(std::string_view name) {
  if (!is_servers(name)) return fault_of_database(name);
  return "must not be '" + std::string(name) + "', which belongs to the server";
}

std::string fault_of_own_collection(std::string_view name) {
  if (!name.starts_with("system.")) return fault_of_collection(name);
  return "must not begin with system., as the server's own do";
}

std::string fault_of_pattern(std::string_view ns) {
  if (ns.size() > kMaxNamespaceBytes) return "must have at most 255 bytes";
  // A namespace is a name, a dot and a name.
  if (ns.starts_with('.') || ns.ends_with('.') || !globs_overlap(ns, "?*.?*")) {
    return "must name a database and a collection, as in shop.orders or \"shop.*\", is '" +
           shown(ns) + "'";
  }
  const auto [db, collection] = split_ns(ns);
  if (has_wildcards(db) || collection.empty()) return {};
  std::string fault = fault_of_database(db);
  if (fault.empty() && !has_wildcards(collection)) fault = fault_of_collection(collection);
  return fault;
}

std::string fault_of_ns(std::string_view ns, std::string_view store_db) {
  if (std::string fault = fault_of_pattern(ns); !fault.empty()) return fault;
  const auto [db, collection] = split_ns(ns);
  if (has_wildcards(db) || collection.empty()) return {};
  const std::string fault = why_untouchable(db, collection, store_db);
  return fault.empty() ? fault : "'" + shown(ns) + "' " + fault;
}

std::string fault_of_field(std::string_view field) {
  if (field == "_id") return {};
  if (field.starts_with("_id.")) {
    return "must be _id itself or a field outside of it: the proxy cannot assign parts of _id";
  }
  if (std::count(field.begin(), field.end(), '.') >= kMaxPathParts) {
    return "must have at most 100 parts";
  }
  for (std::size_t start = 0; start <= field.size();) {
    const std::size_t end = std::min(field.find('.', start), field.size());
    const std::string_view part = field.substr(start, end - start);
    if (std::string fault = fault_of_part(part); !fault.empty()) return fault;
    if (start > 0 && is_number(part)) {
      return "must not have a number as a part ('" + shown(part) +
             "'): a path makes sub-documents, never elements of arrays";
    }
    start = end + 1;
  }
  return {};
}

std::string fault_of_plain_field(std::string_view field) {
  if (field == "_id" || field.find('.') != std::string_view::npos || field.starts_with('$')) {
    return "must be a field of the document itself other than _id, without '.' and without '$' at "
           "its front";
  }
  return {};
}

bool is_prefix(std::string_view a, std::string_view b) {
  return b.starts_with(a) && (b.size() == a.size() || b[a.size()] == '.');
}

}  // namespace idproxy::config
