#pragma once

#include <mongoc/mongoc.h>

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "idproxy/base/bytes.hpp"
#include "idproxy/observability/metrics.hpp"

/// What the id store needs of libmongoc, with owners for its objects. Everything here blocks.
namespace idproxy::id_store::mongo {

class Array;

/// An owned BSON document, for building commands; replies are read with idproxy::bson.
///
///   Document().add("find", "orders").add("limit", 1).add("filter", Document().add("_id", "a"))
class Document {
 public:
  Document() : bson_(bson_new()) {}
  /// A copy of `bytes`, which hold a whole document.
  explicit Document(Bytes bytes) : bson_(bson_new_from_data(bytes.data(), bytes.size())) {}
  Document(const Document& other) : bson_(bson_copy(other.bson_)) {}
  /// `other` is only to be assigned to or destroyed afterwards.
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
  /// The elements of `other` behind those that are there.
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

/// An array: Array().push(1).push("text").
class Array {
 public:
  template <class T>
  Array& push(const T& value) {
    document_.add(std::to_string(size_++), value);
    return *this;
  }
  [[nodiscard]] const Document& document() const { return document_; }

 private:
  Document document_;
  std::size_t size_ = 0;
};

/// What a server, or the lack of one, answered.
struct Reply {
  enum class Kind {
    ok,
    not_majority,  ///< carried out, but it may be undone by a failover: a writeConcernError
    refused,       ///< the server answered with an error: nothing has been done
    unreachable,   ///< no server, no login, no primary, or no answer: it may have been done
  };
  Kind kind = Kind::ok;
  std::int32_t code = 0;  ///< the server's (13 Unauthorized, 26 NamespaceNotFound …) or libmongoc's
  std::string message;    ///< empty if ok. The server's may hold values of documents: log with care
  Document document;      ///< empty if there is none
  /// Proven, though `unreachable`: nothing was sent, or each server that got it said that it is not
  /// the primary.
  bool not_carried_out = false;

  [[nodiscard]] bool ok() const { return kind == Kind::ok; }
  /// True if the server refused with this code.
  [[nodiscard]] bool refused(std::int32_t with) const {
    return kind == Kind::refused && code == with;
  }
};

/// Server error codes that are told apart.
inline constexpr std::int32_t kBadValue = 2;
inline constexpr std::int32_t kUnauthorized = 13;
inline constexpr std::int32_t kTypeMismatch = 14;
inline constexpr std::int32_t kNamespaceNotFound = 26;
inline constexpr std::int32_t kIndexNotFound = 27;
inline constexpr std::int32_t kMaxTimeExpired = 50;
inline constexpr std::int32_t kConversionFailure = 241;
inline constexpr std::int32_t kDuplicateKey = 11000;

/// libmongoc's: there was nobody to send the command to, so that it has not been carried out.
inline constexpr std::int32_t kNoServer = MONGOC_ERROR_SERVER_SELECTION_FAILURE;
/// The same, for want of a login. No code of the server's that is `unreachable`.
inline constexpr std::int32_t kNoLogin = MONGOC_ERROR_CLIENT_AUTHENTICATE;

/// What has become of commands. Thread-safe.
struct RoundTrips {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> failed{0};  ///< could not be sent, no answer, or no majority
  metrics::Histogram duration;
};

/// One connection to the primary (found anew when it moves) with one session, taken from a pool for
/// as long as this lives. One thread at a time.
class Client {
 public:
  Client(Client&&) noexcept = default;

  /// Sends a command that only reads to the primary; once more if the connection breaks.
  [[nodiscard]] Reply read(const std::string& db, const Document& command);
  /// Sends a write (or createIndexes) with {w: "majority", wtimeout} added. findAndModify is sent
  /// once more if the connection breaks, so that the server recognises it: it is carried out once,
  /// and answers the same both times.
  [[nodiscard]] Reply write(const std::string& db, const Document& command);
  /// A command that answers with a cursor (find, aggregate, listCollections, listIndexes): `use` is
  /// called for each document, until it returns false. Returns the last reply, ok if all were seen
  /// or `use` wanted no more.
  [[nodiscard]] Reply read_all(const std::string& db, const Document& command,
                               const std::function<bool(Bytes document)>& use);
  /// The collection's indexes, as read_all() gives documents: those that are still being built as
  /// {spec: {…}, buildUUID}, if the server knows how to tell (a standalone lists them as the
  /// others).
  [[nodiscard]] Reply list_indexes(const std::string& db, const std::string& collection,
                                   const std::function<bool(Bytes)>& use);

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

  Client(mongoc_client_pool_t* pool, std::chrono::milliseconds wtimeout, RoundTrips* round_trips);
  struct Call {
    const bson_t* options;
    bson_t* reply;
    bson_error_t* error;
  };
  using Send = std::function<bool(const Call& call)>;
  Reply send(const Send& send);
  void count(const Reply& reply) const;

  std::unique_ptr<mongoc_client_t, Release> client_;
  std::unique_ptr<mongoc_client_session_t, EndSession> session_;  // ends before client_ returns
  std::chrono::milliseconds wtimeout_;
  RoundTrips* round_trips_;  // null: nobody counts
};

/// Connections to one deployment; libmongoc's threads watch over it. Thread-safe. Sets what the
/// store must rely on, whatever the connection string says: reads go to the primary, writes are
/// retried, one host leads to the primary (unless it says directConnection=true).
class Pool {
 public:
  /// `uri` has been checked (config). Does not connect.
  Pool(const std::string& uri, std::chrono::milliseconds wtimeout);

  /// `round_trips`, which outlives the client, counts the commands that it sends.
  [[nodiscard]] Client client(RoundTrips* round_trips = nullptr) const {
    return {pool_.get(), wtimeout_, round_trips};
  }

 private:
  struct Destroy {
    void operator()(mongoc_client_pool_t* pool) const { mongoc_client_pool_destroy(pool); }
  };
  std::chrono::milliseconds wtimeout_;
  std::unique_ptr<mongoc_client_pool_t, Destroy> pool_;
};

/// True if a field is there and neither false nor 0, as the server reads options.
[[nodiscard]] bool is_true(Bytes document, std::string_view key);

}  // namespace idproxy::id_store::mongo
