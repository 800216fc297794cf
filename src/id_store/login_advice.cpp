#include "idproxy/id_store/login_advice.hpp"

#include "idproxy/base/glob.hpp"

#include "id_store/counter_commands.hpp"

namespace idproxy::id_store::advice {
namespace {

/// `lacks`: what precedes the name of the role.
ids::Error needs(const std::string& lacks, const std::string& role, const std::string& db,
                 const mongo::Login& login) {
  const std::string needed = lacks + ' ' + role + " on " + db;
  if (!login.has_user) {
    return exhausted("the id store " + needed + ", and " + login.uri_key +
                     " names no user: name one in id_store.uri_file or id_store.uri");
  }
  const std::string reason = "the id store's user " + needed;
  if (login.user.empty()) return exhausted(reason);
  return exhausted(Reason{reason, ": ", grant(login.user, login.source, role, db)});
}

}  // namespace

ids::Error needs_read_write(const mongo::Login& login, const std::string& db) {
  return needs("needs", "readWrite", db, login);
}

ids::Error needs_read(const mongo::Login& login, const Namespace& ns) {
  const std::string lacks = "may not read " + ns.text() + " and needs";
  return has_wildcards(ns.db) ? needs(lacks, "readAnyDatabase", "admin", login)
                              : needs(lacks, "read", ns.db, login);
}

std::string check_login(const mongo::Login& login) {
  const std::string what =
      login.user.empty() ? "the certificate" : "user " + login.user + " and its password";
  return "(check " + what + " in " + login.uri_key + ")";
}

}  // namespace idproxy::id_store::advice
