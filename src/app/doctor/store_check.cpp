#include "app/doctor/store_check.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "app/jobs/counter_text.hpp"
#include "app/state/findings.hpp"
#include "app/state/run_out.hpp"
#include "app/system_clock.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/login_advice.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/stored_counters.hpp"

namespace idproxy::app::doctor {
namespace {

using namespace std::chrono_literals;
using id_store::StoredCounter;
using id_store::mongo::Document;
using id_store::mongo::Reply;

// A rule with scopes can have any number of counters.
constexpr std::size_t kMostCounters = 500;
constexpr std::chrono::seconds kCountersWithin = 5s;

const std::string kAdmin = id_store::in_mongosh("admin");

/// The user, as the server sees it.
struct User {
  std::string name{};
  std::string source{};                  ///< its database
  std::vector<std::string> own_roles{};  ///< of admin, and not built in
  std::vector<Privilege> privileges{};
};

// The built-in roles of the database admin and of all databases that a store's user may have.
constexpr auto kBuiltIn = std::to_array<std::string_view>({"read",
                                                           "readWrite",
                                                           "dbAdmin",
                                                           "dbOwner",
                                                           "userAdmin",
                                                           "readAnyDatabase",
                                                           "readWriteAnyDatabase",
                                                           "userAdminAnyDatabase",
                                                           "dbAdminAnyDatabase",
                                                           "clusterAdmin",
                                                           "clusterManager",
                                                           "clusterMonitor",
                                                           "hostManager",
                                                           "backup",
                                                           "restore",
                                                           "root",
                                                           "enableSharding",
                                                           "directShardOperations",
                                                           "__system",
                                                           "__queryableBackup"});

std::vector<std::string> texts_in(Bytes document, std::string_view key) {
  std::vector<std::string> texts;
  const auto array = bson::find(document, key);
  if (!array || array->type != bson::Type::array) return texts;
  bson::Elements elements(array->value);
  while (const auto each = elements.next()) {
    if (each->type == bson::Type::string) texts.emplace_back(each->text());
  }
  return texts;
}

User user_of(Bytes reply) {
  using bson::documents_in;
  using bson::text_in;
  User user;
  const auto info = bson::document_in(reply, "authInfo");
  if (!info) return user;
  for (const Bytes each : documents_in(*info, "authenticatedUsers")) {
    user.name = text_in(each, "user");
    user.source = text_in(each, "db");
  }
  for (const Bytes each : documents_in(*info, "authenticatedUserRoles")) {
    const std::string role(text_in(each, "role"));
    const bool is_own = std::ranges::find(kBuiltIn, role) == kBuiltIn.end();
    if (is_own && text_in(each, "db") == "admin") user.own_roles.push_back(role);
  }
  for (const Bytes each : documents_in(*info, "authenticatedUserPrivileges")) {
    const auto resource = bson::document_in(each, "resource");
    if (!resource || bson::is_true(*resource, "cluster")) continue;
    user.privileges.push_back({std::string(text_in(*resource, "db")),
                               std::string(text_in(*resource, "collection")),
                               texts_in(each, "actions")});
  }
  return user;
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& each : words) text += (text.empty() ? "" : ", ") + in_quotes(each);
  return "[" + text + "]";
}

/// One question after the other, until one has no answer.
class StoreCheck {
 public:
  explicit StoreCheck(const config::Config& config)
      : config_(config),
        pool_(config.id_store.uri, config.id_store.wtimeout, config.id_store.uri_key),
        client_(pool_.client()) {}

  StoreSaid run() {
    if (!look_at_user()) return std::move(said_);
    look_at_compatibility();
    if (auto proxies = id_store::read_proxies(client_, config_.id_store.db)) {
      said_.proxies = *std::move(proxies);
    }
    return std::move(said_);
  }

 private:
  /// False if nothing can be asked.
  bool look_at_user() {
    const Reply reply =
        client_.read("admin", Document().add("connectionStatus", 1).add("showPrivileges", true));
    const auto& login = client_.login();
    if (reply.kind == Reply::Kind::unreachable) {
      const bool is_login = reply.code == id_store::mongo::kNoLogin;
      if (is_login) login_refused(reply);
      const char* why = is_login ? "the login is refused" : "no primary answers";
      said_.user.what = why;
      said_.user.skipped = true;
      return false;
    }
    const User user = user_of(reply.document.bytes());
    if (user.name.empty()) return look_without_user(login.uri_key);
    look_at_roles(user);
    return true;
  }

  void login_refused(const Reply& reply) {
    const auto& login = client_.login();
    const std::string user = login.user.empty() ? "the certificate" : "user " + login.user;
    Commands commands;
    if (!login.user.empty()) {
      const std::string db = id_store::in_mongosh(login.source);
      const std::string name = in_quotes(login.user);
      commands.mongosh(db + ".getUser(" + name + ")", {login.source, login.user})
          .mongosh(db + ".changeUserPassword(" + name + ", passwordPrompt())",
                   {login.source, login.user});
    }
    said_.user.add(finding::kLoginRefused, login.uri_key,
                   "the servers refuse " + user + " of " + login.uri_key + ": " + reply.message +
                       ". Correct the user, its password or authSource there, or the user in the "
                       "servers",
                   std::move(commands));
  }

  bool look_without_user(const std::string& uri_key) {
    said_.user.what = "no user";
    const Reply reply =
        client_.read(config_.id_store.db, Document().add("find", "proxies").add("limit", 1));
    if (!reply.refused(ErrorCode::unauthorized)) {
      said_.user.what += ", and the servers ask for none";
      return true;
    }
    const std::string role = "\"idproxy\"";
    said_.user.add(
        finding::kLoginMissing, uri_key,
        "the servers require a login, and " + uri_key +
            " names no user: make one, and name it in id_store.uri_file or id_store.uri",
        Commands()
            .mongosh(kAdmin + ".createRole({role: " + role + ", roles: [{role: \"readWrite\"" +
                         ", db: " + in_quotes(config_.id_store.db) +
                         "}], privileges: " + all_privileges() + "})",
                     {config_.id_store.db})
            .mongosh(kAdmin + ".createUser({user: " + role + ", pwd: passwordPrompt(), roles: [" +
                     role + "]})"));
    return false;
  }

  /// "[{resource: {db: "shop", collection: ""}, actions: ["find"]}]"
  static std::string privileges_text(const std::map<std::string, std::vector<std::string>>& by_db) {
    std::string text;
    for (const auto& [db, actions] : by_db) {
      text += (text.empty() ? "" : ", ") + std::string("{resource: {db: ") + in_quotes(db) +
              ", collection: \"\"}, actions: " + quoted_list(actions) + "}";
    }
    return "[" + text + "]";
  }

  [[nodiscard]] std::string all_privileges() const {
    std::map<std::string, std::vector<std::string>> by_db;
    for (const NeededPrivileges& need : needs_of(config_.rules, config_.id_store.db)) {
      if (!need.by_role) add(by_db[need.db], need.actions);
    }
    return privileges_text(by_db);
  }

  static void add(std::vector<std::string>& to, const std::vector<std::string>& actions) {
    for (const std::string& each : actions) {
      if (std::ranges::find(to, each) == to.end()) to.push_back(each);
    }
  }

  void look_at_roles(const User& user) {
    said_.user.what = user.name + "@" + user.source;
    std::map<std::string, std::vector<std::string>> missing;
    for (const NeededPrivileges& need : needs_of(config_.rules, config_.id_store.db)) {
      const auto actions = lacking(need, user.privileges);
      if (actions.empty()) continue;
      if (need.by_role) {
        role_missing(user, need);
      } else {
        add(missing[need.db], actions);
      }
    }
    for (const auto& [db, actions] : missing) privileges_missing(user, db, actions);
  }

  void role_missing(const User& user, const NeededPrivileges& need) {
    id_store::mongo::Login login = client_.login();
    login.user = user.name;  // of a certificate only the server knows it
    login.source = user.source;
    const ids::Error needs = id_store::advice::needs_read_write(login, need.db);
    said_.user.add(finding::kRoleMissing, user.name + "@" + user.source,
                   needs.advice ? needs.advice->text : needs.reason,
                   needs.advice ? needs.advice->commands : Commands());
  }

  void privileges_missing(const User& user, const std::string& db,
                          const std::vector<std::string>& actions) {
    const std::string privileges = privileges_text({{db, actions}});
    Commands commands;
    const auto to_role = [&](const std::string& role) {
      commands.mongosh(
          kAdmin + ".grantPrivilegesToRole(" + in_quotes(role) + ", " + privileges + ")", {role});
    };
    if (!user.own_roles.empty()) {
      to_role(user.own_roles.front());
    } else if (std::exchange(makes_role_, true)) {
      to_role(user.name);
    } else {
      const std::string role = in_quotes(user.name);
      commands
          .mongosh(kAdmin + ".createRole({role: " + role +
                       ", roles: [], privileges: " + privileges + "})",
                   {user.name})
          .mongosh(id_store::in_mongosh(user.source) + ".grantRolesToUser(" + role +
                       ", [{role: " + role + ", db: \"admin\"}])",
                   {user.source, user.name});
    }
    said_.user.add(finding::kRoleMissing, user.name + "@" + user.source,
                   "the id store's user may not " + list_text(actions, actions.size(), " and ") +
                       " in " + (db.empty() ? "every database" : db) + ", where rules apply",
                   std::move(commands));
  }

  /// Not every user may know it.
  void look_at_compatibility() {
    const Reply fcv = client_.read(
        "admin", Document().add("getParameter", 1).add("featureCompatibilityVersion", 1));
    const Reply build = client_.read("admin", Document().add("buildInfo", 1));
    if (!fcv.ok() || !build.ok()) return;
    const auto set = bson::document_in(fcv.document.bytes(), "featureCompatibilityVersion");
    const std::string version(bson::text_in(build.document.bytes(), "version"));
    if (!set) return;
    const std::string is(server_release::series_of(bson::text_in(*set, "version")));
    const std::string may(server_release::series_of(version));
    if (is.empty() || may.empty() || is == may) return;
    // From 7.0 on the command must be confirmed.
    const bool asks = read_integer(std::string_view(may).substr(0, may.find('.'))).value >= 7;
    said_.user.add(finding::kFcvBehind, "featureCompatibilityVersion",
                   "the primary is MongoDB " + version + ", and keeps to what " + is +
                       " can do: an upgrade has not been finished",
                   Commands().mongosh("db.adminCommand({setFeatureCompatibilityVersion: " +
                                          in_quotes(may) + (asks ? ", confirm: true})" : "})"),
                                      {may}));
  }

  const config::Config& config_;
  const id_store::mongo::Pool pool_;
  id_store::mongo::Client client_;
  StoreSaid said_{{"user"}};
  bool makes_role_ = false;  // an earlier command has made a role of the user's name
};

/// True of a counter that has no number left; of all ranges of a rule, of the first one.
bool is_used_up(const StoredCounter& counter, const std::vector<StoredCounter>& all) {
  if (!counter.spec.place.is_range()) {
    return counter.value.is_number() && counter.left == 0 && !counter.is_past;
  }
  const auto is_of_it = [&](const StoredCounter& each) {
    return each.spec.place.is_range() && each.ns() == counter.ns();
  };
  return &*std::ranges::find_if(all, is_of_it) == &counter &&
         std::ranges::none_of(
             all, [&](const StoredCounter& each) { return is_of_it(each) && each.left > 0; });
}

void judge(const jobs::CounterView& view, bool is_used_up, const std::string& file,
           DoctorCheck& check) {
  if (!view.counter.exists()) return;
  const jobs::SyncTarget target = jobs::sync_target(view);
  const auto counters = [&](const char* act) {
    std::vector<std::string> words{"mongo-idproxy", "counters", act};
    if (!view.name.starts_with('-')) words.push_back(view.name);
    words.insert(words.end(), {"--config", as_path(file)});
    if (view.name.starts_with('-')) words.insert(words.end(), {"--", view.name});
    return Commands().shell(std::move(words));
  };
  if (target.next) {
    return check.add(finding::kCounterBehind, view.name,
                     "the counter's next number is " + std::to_string(*view.counter.next) +
                         ", and " + std::to_string(*view.stored.most) +
                         " is stored already: it was set back, or others write numbers",
                     counters("sync"));
  }
  const bool is_behind = view.counter.next && view.stored.most && !target.refusal.empty() &&
                         view.counter.value.is_number() && view.stored.unknown.empty();
  if (is_behind) {
    return check.add(finding::kCounterBehind, view.name, target.refusal, counters("get"));
  }
  if (is_used_up) {
    // As the rules say it, so that nobody says it twice.
    const auto& rules = view.counter.rules;
    const auto end = state::RunOut::end_of(view.counter.spec, view.counter.fields.front().format);
    const state::RunOut::Warning none{{}, {}, end, 0, 0};
    check.add(state::numbers_run_out(rules.empty() ? view.name : rules.front(), none.text(),
                                     std::string(none.way_out())),
              edit_and_reload(file));
  }
}

}  // namespace

std::vector<NeededPrivileges> needs_of(const std::vector<rewrite::Rule>& rules,
                                       const std::string& store_db) {
  std::vector<NeededPrivileges> needs;
  const auto add_role = [&](const std::string& db, const std::string& collection) {
    const bool is_known = std::ranges::any_of(
        needs, [&](const NeededPrivileges& each) { return each.by_role && each.db == db; });
    if (!is_known) needs.push_back({db, collection, {"find", "insert", "update", "remove"}, true});
  };
  for (const rewrite::Rule& rule : rules) {
    const ids::RuleSource::About& about = rule.strategy->about();
    const id_store::Namespace ns = id_store::split_namespace(rule.ns);
    const bool is_db = !has_wildcards(ns.db);
    const bool is_collection = is_db && !has_wildcards(ns.collection);
    NeededPrivileges need{is_db ? ns.db : "",
                          is_collection ? ns.collection : "",
                          {"listCollections", "find", "listIndexes"}};
    if (about.fills_up) need.actions.emplace_back("collStats");
    if (rule.unique_index == ids::UniqueIndex::create) {
      need.actions.insert(need.actions.end(), {"createIndex", "dropIndex"});
    }
    needs.push_back(std::move(need));
    if (about.counter) add_role(about.counter->place.db, about.counter->place.collection);
    if (rule.reserve) {
      needs.push_back({rule.reserve->db,
                       rule.reserve->collection,
                       {"find", "insert", "update", "remove", "createIndex"}});
    }
  }
  if (!rules.empty()) add_role(store_db, "proxies");
  return needs;
}

std::vector<std::string> lacking(const NeededPrivileges& need,
                                 const std::vector<Privilege>& privileges) {
  std::vector<std::string> missing;
  for (const std::string& action : need.actions) {
    // It is of a database, not of one of its collections.
    const bool is_of_database = action == "listCollections";
    const bool may = std::ranges::any_of(privileges, [&](const Privilege& each) {
      const bool covers_db = each.db.empty() || each.db == need.db;
      const bool covers =
          each.collection.empty() || (!is_of_database && each.collection == need.collection);
      return covers_db && covers && std::ranges::find(each.actions, action) != each.actions.end();
    });
    if (!may) missing.push_back(action);
  }
  return missing;
}

StoreSaid check_store(const config::Config& config) {
  return StoreCheck(config).run();
}

DoctorCheck check_counters(const config::Config& config, const std::string& file) {
  DoctorCheck check{"counters", "no rule has one", true};
  std::vector<const ids::RuleSource::About*> rules;
  for (const rewrite::Rule& rule : config.rules) {
    const ids::RuleSource::About& about = rule.strategy->about();
    if (about.counter || about.ranges) rules.push_back(&about);
  }
  if (rules.empty()) return check;
  id_store::StoredCounters store(config.id_store, process_sources().clock);
  const auto found = store.find(rules);
  check.skipped = !found || found->empty();
  check.what = !found ? found.error().reason : "none exists yet";
  if (check.skipped) return check;
  const auto names = jobs::names_of(*found);
  const auto until = std::chrono::steady_clock::now() + kCountersWithin;
  std::size_t looked = 0;
  for (const StoredCounter& counter : *found) {
    if (looked == kMostCounters || std::chrono::steady_clock::now() > until) break;
    auto stored = store.read(counter);
    if (!stored) break;
    judge({names[looked], counter, *std::move(stored)}, is_used_up(counter, *found), file, check);
    ++looked;
  }
  check.what = (looked == found->size() ? "" : std::to_string(looked) + " of ") +
               count_of(found->size(), "counter");
  return check;
}

}  // namespace idproxy::app::doctor
