#pragma once

#include <mongoc/mongoc.h>

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/server_codes.hpp"
#include "idproxy/bson/type.hpp"
#include "idproxy/metrics/metrics.hpp"

/// A wrapper of the parts of libmongoc that the id store needs. Everything here blocks.
namespace idproxy::id_store::mongo {

class Array;

/// An owned BSON document, for building commands; replies are read with idproxy::bson.
///
///   Document{{"find", "orders"}, {"filter", {"_id", "a"}}, {"limit", 1}}
class Document {
 public:
  Document() : bson_(bson_new()) {}
  /// {key: value}, of what add() takes.
  template <class... Value>
    requires(sizeof...(Value) > 0)
  Document(std::string_view key, const Value&... value) : Document() {
    add(key, value...);
  }
  Document(std::string_view key, const Document& value) : Document() { add(key, value); }
  /// The elements of all parts, in their order.
  Document(std::initializer_list<Document> parts) : Document() {
    for (const Document& part : parts) append(part);
  }
  /// A copy of `bytes`, which hold a whole document, or nothing: then it has no elements.
  explicit Document(Bytes bytes)
      : bson_(bytes.empty() ? bson_new() : bson_new_from_data(bytes.data(), bytes.size())) {}
  Document(const Document& other) : bson_(bson_copy(other.bson_)) {}
  /// Afterwards, `other` may only be assigned to or destroyed.
  Document(Document&& other) noexcept : bson_(std::exchange(other.bson_, nullptr)) {}
  Document& operator=(Document other) noexcept {
    std::swap(bson_, other.bson_);
    return *this;
  }
  ~Document() { bson_destroy(bson_); }

  Document& add(std::string_view key, std::string_view text);
  Document& add(std::string_view key, const char* text) { return add(key, std::string_view(text)); }
  Document& add(std::string_view key, std::int32_t value);
  Document& add(std::string_view key, std::int64_t value);
  Document& add(std::string_view key, double value);
  Document& add(std::string_view key, std::same_as<bool> auto value) {
    return add_bool(key, value);
  }
  Document& add(std::string_view key, const Document& value);
  Document& add(std::string_view key, const Array& value);
  /// A value of any type, from its bytes in BSON.
  Document& add(std::string_view key, bson::Type type, Bytes value);
  /// Appends the elements of `other`.
  Document& append(const Document& other);

  /// Valid until the next change.
  [[nodiscard]] Bytes bytes() const { return {bson_get_data(bson_), bson_->len}; }
  [[nodiscard]] bool empty() const { return bson_empty(bson_); }
  [[nodiscard]] const bson_t* get() const { return bson_; }
  [[nodiscard]] bson_t* get() { return bson_; }

 private:
  Document& add_bool(std::string_view key, bool value);

  bson_t* bson_;  // its alignment attribute forbids a unique_ptr
};

/// {locale: "simple"}: strings compare byte by byte, whatever the collection's default collation
/// is.
[[nodiscard]] Document simple_collation();

/// A document as JSON (relaxed extended JSON), on one line; "{}" if it is malformed.
[[nodiscard]] std::string json_of(Bytes document);

/// The document in a statement for mongosh, which takes no extended JSON as it is: plain JSON, or
/// EJSON.parse("…", {relaxed: false}) where it has ObjectIds, dates, 64-bit integers and such.
[[nodiscard]] std::string value_in_mongosh(Bytes document);

/// An array: Array{1, "text"}.
class Array {
 public:
  Array() = default;
  template <class... Value>
    requires(sizeof...(Value) > 0)
  explicit Array(const Value&... values) {
    (push(values), ...);
  }
  template <class... Value>
  Array& push(const Value&... value) {
    document_.add(std::to_string(size_++), value...);
    return *this;
  }
  [[nodiscard]] const Document& document() const { return document_; }

 private:
  Document document_;
  std::size_t size_ = 0;
};

/// The result of a command.
struct Reply {
  enum class Kind {
    ok,
    not_majority,  ///< writeConcernError: executed, but a failover may undo it
    refused,       ///< the server answered with an error: not executed
    unreachable,   ///< no server, no login, no primary, or no answer: perhaps executed
  };
  Kind kind = Kind::ok;
  std::int32_t code = 0;  ///< the server's (13 Unauthorized, 26 NamespaceNotFound …) or libmongoc's
  /// Empty if ok. May contain values of documents: server_text() has what the log may have.
  std::string message;
  Document document;  ///< empty if there is none
  /// With `unreachable`: certainly not executed, because nothing was sent, or because each server
  /// that got the command answered that it is not the primary.
  bool not_carried_out = false;

  [[nodiscard]] bool ok() const { return kind == Kind::ok; }
  /// True if the server refused with this code.
  [[nodiscard]] bool refused(ErrorCode with) const { return kind == Kind::refused && code == with; }
  /// True if nothing was sent: there is no server, or none that takes the login.
  [[nodiscard]] bool was_not_sent() const;
};

/// libmongoc's code if there was no server to send the command to, so that it was not executed.
inline constexpr std::int32_t kNoServer = MONGOC_ERROR_SERVER_SELECTION_FAILURE;
/// The same after a failed login. No server code with Kind::unreachable has this value.
inline constexpr std::int32_t kNoLogin = MONGOC_ERROR_CLIENT_AUTHENTICATE;
/// Instead of kNoServer if the servers belong to another replica set than the connection string
/// names, which libmongoc does not say.
inline constexpr std::int32_t kOtherSet = -1;

/// Counts and times commands. Thread-safe.
struct RoundTrips {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> failed{0};  ///< could not be sent, no answer, or no majority
  metrics::Histogram duration;
};

/// How the store logs in, for reasons that tell the operator what to change.
struct Login {
  std::string uri_key;  ///< the configuration's key of the connection string
  bool has_user;        ///< false: the connections do not log in
  std::string user;     ///< empty: none, or one that only a certificate names
  std::string source;   ///< the database that has the user
};

/// Finds out whether the servers belong to another replica set than a connection string names.
/// Thread-safe.
class SetNameCheck {
 public:
  SetNameCheck(std::string uri, std::string uri_key);

  /// Asks the servers, at most every few seconds, for a second at most. Returns what is wrong, with
  /// what to write; empty: not the name.
  [[nodiscard]] std::string fault();

 private:
  const std::string uri_;
  const std::string uri_key_;
  const std::string expected_;
  std::mutex mutex_;  // guards:
  std::optional<std::chrono::steady_clock::time_point> asked_;
  std::string fault_;
};

class Pool;

/// A connection to the primary, wherever that moves, with one session; taken from a pool and given
/// back when destroyed. One thread at a time.
class Client {
 public:
  Client(Client&&) noexcept = default;

  /// Sends a read command to the primary; once more if the connection breaks. If the server refuses
  /// an option that only saves work, such as a hint or a projection, sends the command without it:
  /// the reader of the reply must accept documents that are whole, and more of them.
  [[nodiscard]] Reply read(const std::string& db, const Document& command);
  /// Sends a write (or createIndexes) with {w: "majority", wtimeout} added. If the connection
  /// breaks, sends findAndModify once more as a retryable write: the server executes it only once
  /// and answers the same both times.
  [[nodiscard]] Reply write(const std::string& db, const Document& command);
  /// The same with {w: 1}: waits for no other member, and a failover may undo it.
  [[nodiscard]] Reply write_to_primary(const std::string& db, const Document& command);
  /// Sends a command that returns a cursor (find, aggregate, listCollections, listIndexes), and
  /// calls `use` for each document until it returns false. Returns the last reply, which is ok if
  /// `use` saw all documents or stopped. The `batchSize` of a find holds for all replies.
  [[nodiscard]] Reply read_all(const std::string& db, const Document& command,
                               const std::function<bool(Bytes document)>& use);
  /// The same for the first document alone, which becomes the reply's `document`; empty: there is
  /// none.
  [[nodiscard]] Reply read_first(const std::string& db, const Document& command);
  /// Calls `use` for each of the collection's indexes, like read_all(). An index that is being
  /// built is {spec: {…}, buildUUID}, if the server tells them apart (a standalone does not).
  [[nodiscard]] Reply list_indexes(const std::string& db, const std::string& collection,
                                   const std::function<bool(Bytes)>& use);
  /// maxWireVersion of the primary that libmongoc knows, which the next command goes to; 0: none.
  [[nodiscard]] std::int32_t wire_version();
  /// True if a server that takes writes answered when libmongoc last looked. Sends nothing and does
  /// not wait, unlike all other members.
  [[nodiscard]] bool knows_primary() const;
  /// True if the server is a member of a replica set, or may have one behind it.
  [[nodiscard]] bool has_replicas() const;
  /// Valid as long as the pool.
  [[nodiscard]] const Login& login() const { return *login_; }

 private:
  friend class Pool;
  struct Release {
    mongoc_client_pool_t* pool;
    void operator()(mongoc_client_t* client) const { mongoc_client_pool_push(pool, client); }
  };
  struct EndSession {
    void operator()(mongoc_client_session_t* session) const {
      mongoc_client_session_destroy(session);
    }
  };

  Client(mongoc_client_pool_t* pool, const Pool& owner, RoundTrips* round_trips);
  struct Call {
    const bson_t* options;
    bson_t* reply;
    bson_error_t* error;
  };
  using Send = std::function<bool(const Call& call)>;
  Reply send(const Send& send);
  [[nodiscard]] Reply send_write(const std::string& db, const Document& command,
                                 const Document& concern);
  [[nodiscard]] std::optional<Reply> open_session();

  std::unique_ptr<mongoc_client_t, Release> client_;
  std::unique_ptr<mongoc_client_session_t, EndSession> session_;  // ends before client_ returns
  const Login* login_;
  SetNameCheck* set_name_;
  std::chrono::milliseconds wtimeout_;
  RoundTrips* round_trips_;   // null: do not count
  bool has_sessions_ = true;  // false: the server has none
};

/// The value of tlsCRLFile in a connection string, an option that libmongoc's parser does not know;
/// empty: none.
[[nodiscard]] std::string crl_file_of(std::string_view uri);

/// A connection pool to one deployment, which libmongoc's threads monitor. Thread-safe. Overrides
/// the connection string where the store depends on it: reads go to the primary, writes are
/// retried, and a single host leads to its set's primary (unless directConnection=true).
class Pool {
 public:
  /// `uri` must have passed config's checks; `uri_key` is its key there. Does not connect.
  Pool(const std::string& uri, std::chrono::milliseconds wtimeout,
       std::string uri_key = "id_store.uri");

  /// `round_trips`, which must outlive the client, counts the commands that it sends.
  [[nodiscard]] Client client(RoundTrips* round_trips = nullptr) const {
    return {pool_.get(), *this, round_trips};
  }

 private:
  friend class Client;
  struct Destroy {
    void operator()(mongoc_client_pool_t* pool) const { mongoc_client_pool_destroy(pool); }
  };
  std::chrono::milliseconds wtimeout_;
  Login login_;
  std::unique_ptr<SetNameCheck> set_name_;
  std::unique_ptr<mongoc_client_pool_t, Destroy> pool_;
};

}  // namespace idproxy::id_store::mongo
