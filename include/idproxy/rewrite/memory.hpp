#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "idproxy/base/server_release.hpp"
#include "idproxy/base/spares.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/rewrite/insert.hpp"
#include "idproxy/rewrite/logins.hpp"
#include "idproxy/wire/compression.hpp"
#include "idproxy/wire/patched_message.hpp"

/// What exchanges share, one after the other: of an io thread, and of a connection.
namespace idproxy::rewrite {

/// Memory that the exchanges of one io thread share and reuse from message to message. Not
/// thread-safe.
struct Workspace {
  enum ReplyField : std::uint8_t { code, write_errors, n_errors };
  static constexpr std::array<std::string_view, 3> kReplyFields{"code", "writeErrors", "nErrors"};

  InsertRewriter insert;
  KnownFields reply_fields{kReplyFields};  ///< of writes
  Buffer reply;                            ///< the message of action::Reply
  Buffer spare;                            ///< memory for the next request that has to be copied
  std::uint32_t next_request_id = 1;  ///< the request id of the proxy's next own message; wraps
  BlockPool frames;                   ///< of the coroutines of writes, which must end first

  /// Returns a message to fill, usually with the memory of one that was given back.
  wire::PatchedMessage take_message() {
    return spare_.empty() ? wire::PatchedMessage() : spare_.take();
  }
  void give_back(wire::PatchedMessage&& message) {
    constexpr std::size_t kSpareMessages = 16;
    constexpr std::size_t kSpareBytes = std::size_t{4} * 1024 * 1024;
    const std::size_t size = message.capacity();
    if (size == 0 || spare_.size() == kSpareMessages) return;
    if (spare_.bytes() + size <= kSpareBytes) spare_.add(std::move(message));
  }
  /// The same for the values of a write. Behind a pointer, since moving their vectors costs more.
  std::unique_ptr<GivenValues> take_given() {
    return spare_given_.empty() ? std::make_unique<GivenValues>() : spare_given_.take();
  }
  void give_back(std::unique_ptr<GivenValues> given) {
    constexpr std::size_t kSpareBytes = std::size_t{1024} * 1024;
    if (spare_given_.bytes() + given->capacity() > kSpareBytes) return;
    given->clear();
    spare_given_.add(std::move(given));
  }
  /// Frees messages and values that nobody has needed since the last call.
  void free_unused() {
    spare_.free_unused();
    spare_given_.free_unused();
  }
  /// Frees the memory that a large message has left behind.
  void trim() {
    constexpr std::size_t kKept = std::size_t{256} * 1024;
    if (reply.capacity() > kKept) reply = Buffer();
    if (insert.capacity() > kKept) insert.free_memory();
  }

 private:
  Spares<wire::PatchedMessage> spare_;
  Spares<std::unique_ptr<GivenValues>> spare_given_;
};

/// What a user may do in a collection; each includes those before it. Servers ask for the rights
/// insert; insert and update; insert, update and find.
enum class Right : std::uint8_t { insert, upsert, find_and_modify };

/// Remembers for one client's connection what its user may do in which namespaces, as the server
/// has said on this connection. Forgets all of it with each message that may change the user. Times
/// are monotonic. Not thread-safe.
class Rights {
 public:
  /// How long an answer of the server counts where no write follows that the server checks itself.
  static constexpr std::chrono::seconds kTrusted{60};
  static constexpr std::chrono::seconds kRefused{10};
  /// How many namespaces are remembered, more than one command can have. Clients cannot invent any:
  /// the server has agreed to each.
  static constexpr std::size_t kMost = 16'384;

  [[nodiscard]] bool has(const std::string& ns, Right right) const;
  /// The same if the server has said so within kTrusted.
  [[nodiscard]] bool has_lately(const std::string& ns, Right right,
                                std::chrono::nanoseconds now) const;
  /// The server has said that the user may do this in `ns`. With kMost others, forgets one.
  void add(const std::string& ns, Right right, std::chrono::nanoseconds now);
  /// The server has said that the user may not do something in `ns`.
  void remove(const std::string& ns);
  /// The server has refused a command that changes these collections, for the lack of a right.
  void change_refused(const std::string& what, std::chrono::nanoseconds now);
  /// True if it has done so within kRefused: so it will do again.
  [[nodiscard]] bool refuses_change(const std::string& what, std::chrono::nanoseconds now) const;
  /// The connection's user may have changed.
  void forget() {
    known_.reset();
    refused_.clear();
  }

 private:
  struct Known {
    Right right;
    std::chrono::nanoseconds said;
  };
  // Null where nobody asks.
  std::unique_ptr<std::unordered_map<std::string, Known>> known_;
  struct Refused {
    std::string what;
    std::chrono::nanoseconds said;
  };
  std::vector<Refused> refused_;  // the newest last, at most kMostRefused
  static constexpr std::size_t kMostRefused = 8;
};

/// Who a client says it is, for operators.
struct ClientDescription {
  static constexpr std::size_t kLongestName = 128;  ///< each is cut off there

  std::string application;  ///< appName of its connection string
  std::string driver;       ///< with its version, "PyMongo 4.6.1"
  std::string user;         ///< the last that it logged in as, or tried to
};

/// State that the exchanges of one client's connection share, one after the other. Not thread-safe.
struct ConnectionMemory {
  std::uint64_t connection = 0;  ///< its id in the log
  Rights rights;
  /// The server's maxWireVersion, as its last reply to hello had it; 0: it is not known.
  std::int32_t wire_version = 0;
  std::int64_t majority = 0;                    ///< HelloReply::majority() of the same reply
  std::unique_ptr<ClientDescription> client{};  ///< null: it has said nothing
  /// A login has succeeded on this connection, as the server has said. A logout may be one of
  /// several users, and proves nothing.
  bool logged_in = false;
  wire::Compressors compressors{};       ///< that client and server have agreed on in hello
  Logins logins = Logins::not_enforced;  ///< whether the server enforces them

  /// False if the server lets everybody do everything: then nobody has to show a right.
  [[nodiscard]] bool enforces_logins() const { return logins != Logins::not_enforced; }
  /// True if the server refuses nearly everything that the client asks for.
  [[nodiscard]] bool is_stranger() const { return logins == Logins::enforced && !logged_in; }
  /// Of its client; empty until it has said something.
  [[nodiscard]] ClientDescription& description();
  /// The connection's user is this one from now on; empty: nobody.
  void user_changed(std::string_view user);
  /// True if replies to a repeated write name what an earlier attempt has executed
  /// (`retriedStmtIds`; MongoDB 6.0 and later).
  [[nodiscard]] bool tells_retried() const { return wire_version >= server_release::k6_0; }
  /// True if an unordered insert that a driver repeats may lose documents without an error
  /// (MongoDB 4.4; not 5.0). Not of a server that has not said what it is.
  [[nodiscard]] bool loses_writes() const {
    return wire_version > 0 && wire_version < server_release::k5_0;
  }
};

}  // namespace idproxy::rewrite
