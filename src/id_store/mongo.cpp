#include "idproxy/id_store/mongo.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

#include "id_store/library.hpp"
#include "idproxy/base/bytes.hpp"
#include "idproxy/base/owned.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/server_hello.hpp"

#ifdef __SANITIZE_THREAD__
/// ThreadSanitizer does not see the synchronisation of libraries that are not built with it.
extern "C" const char* __tsan_default_suppressions();   // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:libmongoc-1.0.so\nrace:libbson-1.0.so\n";
}
#endif

namespace idproxy::id_store::mongo {
namespace {

// After a connection breaks, libmongoc takes a second to find the same server again, so a retry
// must wait longer. No caller waits longer than 2 s
// (docs/strategies.md#when-no-value-is-available).
constexpr std::int32_t kServerSelectionMs = 1500;
constexpr std::int32_t kConnectMs = 1000;
// How long libmongoc avoids a server that answered "not primary" or "shutting down", unless the
// server reports a change itself; the least that libmongoc allows.
constexpr std::int32_t kHeartbeatMs = 500;
constexpr std::int32_t kBeyondWtimeoutMs = 1000;  // for the reply that reports the wtimeout
constexpr std::uint32_t kMostConnections = 100;

// Options that only save work: who reads the reply makes the same of it without them. And the
// collation: a server that does not know it compares byte by byte.
constexpr auto kDispensable =
    std::to_array<std::string_view>({"projection", "limit", "hint", "maxTimeMS", "batchSize",
                                     "nameOnly", "includeBuildUUIDs", "collation"});
bool names(std::string_view text, std::string_view option) {
  for (std::size_t at = text.find(option); at != std::string_view::npos;
       at = text.find(option, at + 1)) {
    const std::string_view behind = text.substr(at + option.size());
    const bool begins =
        at > 0 && std::string_view("\"'`.").find(text[at - 1]) != std::string_view::npos;
    if (begins && !behind.empty() &&
        std::string_view("\"'`").find(behind.front()) != std::string_view::npos)
      return true;
  }
  return false;
}

/// The command without what the server, by its refusal, may not know; nothing: it has nothing to
/// leave out. A refused index of a hint (BadValue) is not meant.
std::optional<Document> without_refused_options(const Document& command, const Reply& reply) {
  if (reply.kind != Reply::Kind::refused) return std::nullopt;
  const auto is_named = [&](std::string_view option) { return names(reply.message, option); };
  const bool are_named = std::ranges::any_of(kDispensable, is_named);
  if (!are_named && !is(reply.code, CodeTrait::not_known)) return std::nullopt;
  Buffer rest;
  bson::Scope whole(rest);
  for (const bson::Element& element : bson::Elements(command.bytes())) {
    const bool is_dispensable = std::ranges::find(kDispensable, element.key) != kDispensable.end();
    if (is_dispensable && (!are_named || is_named(element.key))) continue;
    bson::append_copy(rest, element);
  }
  whole.close();
  if (rest.size() == command.bytes().size()) return std::nullopt;
  return Document(rest.view());
}

// libmongoc's types of servers.
constexpr auto kTakeWrites =
    std::to_array<std::string_view>({"RSPrimary", "Standalone", "Mongos", "LoadBalancer"});

/// Monitors the command that this thread sends: libmongoc sends some commands twice, but returns
/// the second result only. Ignores libmongoc's own commands, such as those of a login.
class CommandMonitor {
 public:
  explicit CommandMonitor(const Document& command)
      : name_(bson::Elements(command.bytes()).next()->key) {
    current_ = this;
  }
  ~CommandMonitor() { current_ = nullptr; }
  CommandMonitor(const CommandMonitor&) = delete;
  CommandMonitor& operator=(const CommandMonitor&) = delete;

  /// True if each server that got the command answered that it did not execute it.
  [[nodiscard]] bool came_to_nothing() const { return sent_ == sent_back_; }

  static void watch_all(mongoc_client_pool_t* pool) {
    const Owned<mongoc_apm_callbacks_t, mongoc_apm_callbacks_destroy> callbacks(
        mongoc_apm_callbacks_new());
    mongoc_apm_set_command_started_cb(callbacks.get(), started);
    mongoc_apm_set_command_failed_cb(callbacks.get(), failed);
    mongoc_client_pool_set_apm_callbacks(pool, callbacks.get(), nullptr);
  }

 private:
  static void started(const mongoc_apm_command_started_t* event) {
    if (is_current(mongoc_apm_command_started_get_command_name(event))) ++current_->sent_;
  }
  static void failed(const mongoc_apm_command_failed_t* event) {
    if (!is_current(mongoc_apm_command_failed_get_command_name(event))) return;
    bson_error_t error{};
    mongoc_apm_command_failed_get_error(event, &error);
    const auto code = static_cast<std::int32_t>(error.code);
    if (error.domain == MONGOC_ERROR_SERVER && is(code, CodeTrait::not_primary)) {
      ++current_->sent_back_;
    }
  }
  static bool is_current(std::string_view name) {
    return current_ != nullptr && name == current_->name_;
  }

  static thread_local CommandMonitor* current_;

  const std::string_view name_;  // of the command
  int sent_ = 0;
  int sent_back_ = 0;
};
thread_local CommandMonitor* CommandMonitor::current_ = nullptr;

void set_default(mongoc_uri_t* uri, const char* option, std::int32_t value) {
  if (!mongoc_uri_has_option(uri, option)) mongoc_uri_set_option_as_int32(uri, option, value);
}

/// The socket timeout must be longer than wtimeout, or a slow majority would look like a dead
/// server.
void set_socket_timeout(mongoc_uri_t* uri, std::chrono::milliseconds wtimeout) {
  const auto least = static_cast<std::int32_t>(wtimeout.count()) + kBeyondWtimeoutMs;
  const std::int32_t given = mongoc_uri_get_option_as_int32(uri, MONGOC_URI_SOCKETTIMEOUTMS, 0);
  mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SOCKETTIMEOUTMS, std::max(least, given));
}

/// Drops read and write concerns of the connection string, which are the application's; the store
/// sets its own.
void drop_concerns(mongoc_uri_t* uri) {
  const Owned<mongoc_write_concern_t, mongoc_write_concern_destroy> write(
      mongoc_write_concern_new());
  const Owned<mongoc_read_concern_t, mongoc_read_concern_destroy> read(mongoc_read_concern_new());
  const Owned<mongoc_read_prefs_t, mongoc_read_prefs_destroy> primary(
      mongoc_read_prefs_new(MONGOC_READ_PRIMARY));
  mongoc_uri_set_write_concern(uri, write.get());
  mongoc_uri_set_read_concern(uri, read.get());
  mongoc_uri_set_read_prefs_t(uri, primary.get());
}

Uri uri_of(const std::string& text, std::chrono::milliseconds wtimeout) {
  Uri uri(mongoc_uri_new(text.c_str()));
  if (!uri) std::abort();  // checked by config
  set_default(uri.get(), MONGOC_URI_SERVERSELECTIONTIMEOUTMS, kServerSelectionMs);
  set_default(uri.get(), MONGOC_URI_CONNECTTIMEOUTMS, kConnectMs);
  set_default(uri.get(), MONGOC_URI_HEARTBEATFREQUENCYMS, kHeartbeatMs);
  set_socket_timeout(uri.get(), wtimeout);
  drop_concerns(uri.get());
  mongoc_uri_set_option_as_bool(uri.get(), MONGOC_URI_RETRYWRITES, true);
  mongoc_uri_set_option_as_bool(uri.get(), MONGOC_URI_RETRYREADS, true);
  if (!mongoc_uri_get_option_as_bool(uri.get(), MONGOC_URI_DIRECTCONNECTION, false)) {
    mongoc_uri_set_option_as_bool(uri.get(), MONGOC_URI_DIRECTCONNECTION, false);
  }
  return uri;
}

/// libmongoc takes the file only together with all other TLS options, and those of the string count
/// no more.
void set_crl_file(mongoc_client_pool_t* pool, const mongoc_uri_t* uri, const std::string& file) {
  if (file.empty() || !mongoc_uri_get_tls(uri)) return;
  const auto text = [&](const char* name) {
    return mongoc_uri_get_option_as_utf8(uri, name, nullptr);
  };
  const auto is_set = [&](const char* name) {
    return mongoc_uri_get_option_as_bool(uri, name, false);
  };
  const bool insecure = is_set(MONGOC_URI_TLSINSECURE);
  mongoc_ssl_opt_t options = *mongoc_ssl_opt_get_default();
  options.pem_file = text(MONGOC_URI_TLSCERTIFICATEKEYFILE);
  options.pem_pwd = text(MONGOC_URI_TLSCERTIFICATEKEYFILEPASSWORD);
  options.ca_file = text(MONGOC_URI_TLSCAFILE);
  options.crl_file = file.c_str();
  options.weak_cert_validation = insecure || is_set(MONGOC_URI_TLSALLOWINVALIDCERTIFICATES);
  options.allow_invalid_hostname = insecure || is_set(MONGOC_URI_TLSALLOWINVALIDHOSTNAMES);
  mongoc_client_pool_set_ssl_opts(pool, &options);  // copies the texts
}

std::string text_or_nothing(const char* text) {
  return text != nullptr ? text : "";
}

Login login_of(const mongoc_uri_t* uri, std::string uri_key) {
  Login login{std::move(uri_key), false, text_or_nothing(mongoc_uri_get_username(uri)),
              text_or_nothing(mongoc_uri_get_auth_source(uri))};
  login.has_user = !login.user.empty() || mongoc_uri_get_auth_mechanism(uri) != nullptr;
  return login;
}

/// The kind of a server's error.
Reply::Kind kind_of(std::int32_t code) {
  return is(code, CodeTrait::unavailable) ? Reply::Kind::unreachable : Reply::Kind::refused;
}

Reply::Kind kind_of(const bson_error_t& error) {
  if (error.domain != MONGOC_ERROR_SERVER) return Reply::Kind::unreachable;
  return kind_of(static_cast<std::int32_t>(error.code));
}

void read_error(Bytes error, Reply& reply) {
  reply.code = static_cast<std::int32_t>(bson::integer_in(error, "code"));
  reply.message = bson::text_in(error, "errmsg");
}

/// {ok: 1, writeConcernError: {code, errmsg}}: the primary has executed the command.
void read_write_concern_error(Reply& reply) {
  const auto error = bson::document_in(reply.document.bytes(), "writeConcernError");
  if (!error) return;
  reply.kind = Reply::Kind::not_majority;
  read_error(*error, reply);
}

/// {ok: 1, writeErrors: [{code, errmsg}]}: the reply to an insert or update, also if the primary
/// stepped down during it (observed, 6.0.5: code 189).
void read_write_errors(Reply& reply) {
  const auto errors = bson::documents_in(reply.document.bytes(), "writeErrors");
  if (errors.empty()) return;
  read_error(errors.front(), reply);
  reply.kind = kind_of(reply.code);
}

/// The "cursor" part of a reply.
struct Batch {
  std::int64_t id = 0;
  std::string_view ns;
  Bytes documents;
};

std::optional<Batch> batch_of(const Reply& reply) {
  const auto cursor = bson::document_in(reply.document.bytes(), "cursor");
  if (!cursor) return std::nullopt;
  Batch batch;
  for (const bson::Element& element : bson::Elements(*cursor)) {
    if (element.key == "id") batch.id = element.as_integer().value_or(0);
    if (element.key == "ns") batch.ns = element.text();
    if (element.type == bson::Type::array) batch.documents = element.value;
  }
  return batch;
}

/// False if `use` stopped.
bool use_all(Bytes documents, const std::function<bool(Bytes)>& use) {
  if (documents.empty()) return true;
  for (const bson::Element& element : bson::Elements(documents)) {
    if (element.type == bson::Type::document && !use(element.value)) return false;
  }
  return true;
}

/// With the batchSize of `first`, the command that opened the cursor, if that has one.
Document get_more(const Batch& batch, const Document& first) {
  Document command{{"getMore", batch.id}, {"collection", split_ns(batch.ns).collection}};
  const std::int64_t size = bson::integer_in(first.bytes(), "batchSize");
  if (size != 0) command.add("batchSize", size);
  return command;
}

Document kill_cursors(const Batch& batch) {
  return {{"killCursors", split_ns(batch.ns).collection}, {"cursors", Array{batch.id}}};
}

Reply failure_of(const bson_error_t& error, SetNameCheck& set_name) {
  Reply reply;
  reply.kind = kind_of(error);
  reply.code = static_cast<std::int32_t>(error.code);
  reply.message = static_cast<const char*>(error.message);
  if (!reply.was_not_sent() || reply.code != kNoServer) return reply;
  if (std::string fault = set_name.fault(); !fault.empty()) {
    reply.code = kOtherSet;
    reply.message = std::move(fault);
  }
  return reply;
}

/// A refusal is not a failure: the collection may not exist, or another proxy may have been first.
void count_failure(const Reply& reply, RoundTrips* round_trips) {
  const bool failed = !reply.ok() && reply.kind != Reply::Kind::refused;
  if (failed && round_trips != nullptr) ++round_trips->failed;
}

}  // namespace

bool Reply::was_not_sent() const {
  return kind == Kind::unreachable && (code == kNoServer || code == kNoLogin || code == kOtherSet);
}

Client::Client(mongoc_client_pool_t* pool, const Pool& owner, RoundTrips* round_trips)
    : client_(mongoc_client_pool_pop(pool), Release{pool}),
      login_(&owner.login_),
      set_name_(owner.set_name_.get()),
      wtimeout_(owner.wtimeout_),
      round_trips_(round_trips) {}

/// A cursor belongs to the session that opened it. libmongoc takes implicit sessions from a pool
/// that all threads share, so that a getMore would sometimes use another one. Returns a failure.
std::optional<Reply> Client::open_session() {
  if (session_ || !has_sessions_) return std::nullopt;
  const Owned<mongoc_session_opt_t, mongoc_session_opts_destroy> options(mongoc_session_opts_new());
  mongoc_session_opts_set_causal_consistency(options.get(), false);
  bson_error_t error{};
  session_.reset(mongoc_client_start_session(client_.get(), options.get(), &error));
  has_sessions_ = session_ || error.code != MONGOC_ERROR_CLIENT_SESSION_FAILURE;
  if (session_ || !has_sessions_) return std::nullopt;
  return failure_of(error, *set_name_);
}

Reply Client::send(const Send& send) {
  if (auto failed = open_session()) {
    count_failure(*failed, round_trips_);
    return *std::move(failed);
  }
  bson_error_t error{};
  Document options;
  if (session_) mongoc_client_session_append(session_.get(), options.get(), nullptr);
  bson_t raw;
  const auto begun = std::chrono::steady_clock::now();
  const bool ok = send({options.get(), &raw, &error});
  if (round_trips_ != nullptr) {
    ++round_trips_->sent;
    round_trips_->duration.observe(std::chrono::steady_clock::now() - begun);
  }
  Document document(Bytes(bson_get_data(&raw), raw.len));
  bson_destroy(&raw);
  Reply reply =
      ok || error.domain == MONGOC_ERROR_WRITE_CONCERN ? Reply{} : failure_of(error, *set_name_);
  reply.document = std::move(document);
  count_failure(reply, round_trips_);
  return reply;
}

bool Client::knows_primary() const {
  std::size_t count = 0;
  mongoc_server_description_t** servers =
      mongoc_client_get_server_descriptions(client_.get(), &count);
  const std::span all(servers, count);
  const bool knows = std::ranges::any_of(all, [](const mongoc_server_description_t* each) {
    const std::string_view type = mongoc_server_description_type(each);
    return std::ranges::find(kTakeWrites, type) != kTakeWrites.end();
  });
  mongoc_server_descriptions_destroy_all(servers, count);
  return knows;
}

bool Client::has_replicas() const {
  bson_error_t error{};
  const Owned<mongoc_server_description_t, mongoc_server_description_destroy> server(
      mongoc_client_select_server(client_.get(), true, nullptr, &error));
  return !server || std::string_view(mongoc_server_description_type(server.get())) != "Standalone";
}

Reply Client::read(const std::string& db, const Document& command) {
  const auto send_one = [&](const Document& each) {
    return send([&](const Call& call) {
      return mongoc_client_read_command_with_opts(client_.get(), db.c_str(), each.get(), nullptr,
                                                  call.options, call.reply, call.error);
    });
  };
  Reply reply = send_one(command);
  auto rest = without_refused_options(command, reply);
  while (rest) {
    reply = send_one(*rest);
    rest = without_refused_options(*rest, reply);
  }
  return reply;
}

Reply Client::write(const std::string& db, const Document& command) {
  return send_write(db, command,
                    {{"w", "majority"}, {"wtimeout", std::int64_t{wtimeout_.count()}}});
}

Reply Client::write_to_primary(const std::string& db, const Document& command) {
  return send_write(db, command, {"w", 1});
}

Reply Client::send_write(const std::string& db, const Document& command, const Document& concern) {
  const Document whole{command, {"writeConcern", concern}};
  const CommandMonitor monitor(whole);
  Reply reply = send([&](const Call& call) {
    return mongoc_client_write_command_with_opts(client_.get(), db.c_str(), whole.get(),
                                                 call.options, call.reply, call.error);
  });
  const bool was_ok = reply.ok();
  if (was_ok) read_write_concern_error(reply);
  if (reply.kind != Reply::Kind::unreachable) read_write_errors(reply);
  if (was_ok) count_failure(reply, round_trips_);
  reply.not_carried_out = reply.kind == Reply::Kind::unreachable && monitor.came_to_nothing();
  return reply;
}

Reply Client::read_all(const std::string& db, const Document& command,
                       const std::function<bool(Bytes)>& use) {
  Reply reply = read(db, command);
  while (reply.ok()) {
    const auto batch = batch_of(reply);
    const bool goes_on = batch && use_all(batch->documents, use);
    if (!batch || batch->id == 0) break;
    if (!goes_on) {
      (void)read(db, kill_cursors(*batch));
      break;
    }
    reply = read(db, get_more(*batch, command));
  }
  return reply;
}

Reply Client::read_first(const std::string& db, const Document& command) {
  Document first;
  Reply reply = read_all(db, command, [&](Bytes document) {
    first = Document(document);
    return false;
  });
  if (reply.ok()) reply.document = std::move(first);
  return reply;
}

Reply Client::list_indexes(const std::string& db, const std::string& collection,
                           const std::function<bool(Bytes)>& use) {
  const Document command{{"listIndexes", collection}, {"includeBuildUUIDs", true}};
  return read_all(db, command, use);
}

std::int32_t Client::wire_version() {
  bson_error_t error{};
  const Owned<mongoc_server_description_t, mongoc_server_description_destroy> server(
      mongoc_client_select_server(client_.get(), true, nullptr, &error));
  if (!server) return 0;
  const bson_t* hello = mongoc_server_description_hello_response(server.get());
  return static_cast<std::int32_t>(
      bson::integer_in({bson_get_data(hello), hello->len}, "maxWireVersion"));
}

SetNameCheck::SetNameCheck(std::string uri, std::string uri_key)
    : uri_(std::move(uri)), uri_key_(std::move(uri_key)), expected_(replica_set_of(uri_)) {}

/// Silent if one of them is a member of the set that is meant: it may just have no primary.
std::string SetNameCheck::fault() {
  constexpr std::chrono::seconds kAskAgain{5};
  constexpr std::chrono::seconds kConnectWithin{1};
  if (expected_.empty()) return {};
  const std::scoped_lock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (asked_ && now - *asked_ < kAskAgain) return fault_;
  asked_ = now;
  fault_.clear();
  const std::vector<ServerHello> servers = ask_each(uri_, kConnectWithin);
  for (const ServerHello& server : servers) {
    const bool is_meant = server.fault.empty() && server.set_name == expected_;
    if (is_meant) return fault_ = {};
    if (fault_.empty()) fault_ = set_name_fault(server, expected_, uri_key_);
  }
  return fault_;
}

std::string crl_file_of(std::string_view uri) {
  constexpr std::string_view kOption = "tlscrlfile=";
  uri.remove_prefix(std::min(uri.find('?'), uri.size()));
  while (!uri.empty()) {
    uri.remove_prefix(1);
    const std::string option(uri.substr(0, uri.find_first_of("&;")));
    uri.remove_prefix(option.size());
    if (!ascii_lower(option).starts_with(kOption)) continue;
    const Owned<char, bson_free> value(mongoc_uri_unescape(option.c_str() + kOption.size()));
    return value ? value.get() : "";
  }
  return {};
}

Pool::Pool(const std::string& uri, std::chrono::milliseconds wtimeout, std::string uri_key)
    : wtimeout_(wtimeout), set_name_(std::make_unique<SetNameCheck>(uri, uri_key)) {
  open_library();
  const Uri parsed = uri_of(uri, wtimeout);
  login_ = login_of(parsed.get(), std::move(uri_key));
  pool_.reset(mongoc_client_pool_new(parsed.get()));
  if (!pool_) std::abort();  // checked by config
  set_crl_file(pool_.get(), parsed.get(), crl_file_of(uri));
  mongoc_client_pool_set_error_api(pool_.get(), MONGOC_ERROR_API_VERSION_2);
  CommandMonitor::watch_all(pool_.get());
  mongoc_client_pool_set_appname(pool_.get(), "mongo-idproxy");
  mongoc_client_pool_max_size(pool_.get(), kMostConnections);
}

}  // namespace idproxy::id_store::mongo
