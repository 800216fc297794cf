#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

/// What a command line can ask for, and how a process can end.
namespace idproxy::app {

/// Exit codes: those of sysexits.h, which systemd and scripts know.
enum class ExitCode : int {
  ok = 0,
  left = 1,  ///< of a backfill: documents are left without a value
  /// Of a status, a doctor or a verification: something is wrong. Of counters: there is no such
  /// counter, or it must not be set so.
  findings = 1,
  usage = 64,  ///< the command line
  /// A listener, or admin.listen, cannot be opened. Of a check, a backfill or a verification: no
  /// server answers, or a rule is not ready. Of a command that asks the running proxy: it does not
  /// answer, or not in time.
  unavailable = 69,
  internal = 70,       ///< a fault of the proxy
  no_permission = 77,  ///< cannot read the configuration, or may not use a port
  config = 78,         ///< the configuration has errors
};

/// The scope of a check of a configuration.
enum class CheckWith {
  file,     ///< nothing but the file and the files that it names
  servers,  ///< also the servers: whether they answer, and whether each rule is ready
};

/// A check of a configuration.
struct CheckRequest {
  std::string file;
  CheckWith with = CheckWith::file;
  bool as_json = false;
};

/// An examination of all that a proxy depends on.
struct DoctorRequest {
  std::string file;  ///< the configuration
  bool as_json = false;
};

/// A backfill as the command line asks for it.
struct BackfillRequest {
  std::string file;           ///< the configuration
  std::string ns;             ///< "db.collection"
  std::string field;          ///< which a rule fills; dotted path
  std::string sort = "_id";   ///< documents get values in its order; "-created": descending
  std::string period_from{};  ///< the field whose date says a document's period; empty: not given
  std::uint32_t rate = 0;     ///< documents per second at most; 0: no limit
  enum class Mode { write, dry_run } mode = Mode::write;
};

/// A proof of what a collection has in the field of a rule.
struct VerifyRequest {
  std::string file;   ///< the configuration
  std::string ns;     ///< "db.collection"
  std::string field;  ///< which a rule fills; dotted path
  std::string scope;  ///< JSON: only the documents of this scope; empty: all
  std::string allow;  ///< a regular expression: values that no rule has made; empty: none
  bool as_json = false;
};

/// Which running proxy a command asks.
struct AdminOptions {
  std::string file;   ///< the configuration, for its admin.listen
  std::string admin;  ///< "HOST:PORT" in place of that; empty: not given
};

/// What to show of a running proxy; without any of the tables a summary.
struct StatusRequest {
  AdminOptions proxy;
  bool clients = false;
  bool servers = false;
  bool rules = false;
  std::string application;  ///< only its clients; empty: all
  bool as_json = false;
  enum class Repeat { once, each_second } repeat = Repeat::once;
};

/// A wait until a proxy is ready.
struct WaitRequest {
  AdminOptions proxy;
  std::chrono::milliseconds most{30'000};
  bool as_json = false;
};

/// A reload of a running proxy's configuration.
struct ReloadRequest {
  AdminOptions proxy;
  bool as_json = false;
};

/// What to do with the counters of the configuration's rules.
struct CountersRequest {
  std::string file;  ///< the configuration
  enum class Act { list, get, set, sync } act = Act::list;
  std::string name;        ///< as `list` prints it; not of list
  std::int64_t value = 0;  ///< set: the next number
  bool force = false;      ///< set: although numbers beyond it are stored
  bool as_json = false;
};

/// Which values to show.
struct IdsRequest {
  std::string file;   ///< the configuration
  std::string ns;     ///< "db.collection"
  std::string field;  ///< which a rule fills; dotted path
  std::uint32_t count = 5;
  bool as_json = false;
};

/// What to show of a configuration.
struct ConfigRequest {
  std::string file;  ///< the configuration; not needed for the schema
  enum class Show { keys, keys_as_json, schema } show = Show::keys;
};

/// What can be typed behind the program's name, for shells that complete it.
struct CommandSyntax {
  struct Option {
    std::vector<std::string> names;  ///< "-c", "--config"
    std::string argument;            ///< "FILE"; empty: it takes none
    std::string text;                ///< what it does, one line
  };
  std::string name;  ///< "status"; empty: of the program itself
  std::string text;
  std::vector<Option> options;
};

}  // namespace idproxy::app
