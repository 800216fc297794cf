#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "id_store/index.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/ids/free_values.hpp"
#include "idproxy/ids/guard.hpp"
#include "idproxy/ids/index_room.hpp"

/// What the inspection of collections asks servers, and what they answer. ask() sends a request and
/// waits for the answer.
namespace idproxy::id_store {

/// What a server's answers have in common. What is found is valid if it is `answered`.
struct ServerAnswer {
  enum class Kind {
    answered,
    no_collection,
    not_permitted,
    refused,      ///< the server answered with another error
    unreachable,  ///< no server, no login, no primary, or no answer in time
  };
  Kind kind = Kind::answered;
  std::string reason{};  ///< why it was refused or is unreachable; never holds a document's value
  std::string told = kNoAnswer;  ///< unreachable: `reason` for clients, naming no server
  bool is_transient = false;     ///< refused: the server may do it a moment later
  bool has_user = true;          ///< false: the id store's connection string names no user
};

/// Why no rule applies to a collection.
enum class LeftAlone : std::uint8_t { view, time_series };
using LeftAloneByName = std::map<std::string, LeftAlone, std::less<>>;

struct DatabaseList : ServerAnswer {
  std::vector<std::string> names{};
};
struct ListDatabases {};

struct CollectionList : ServerAnswer {
  LeftAloneByName left_alone{};
  std::vector<std::string> others{};
};
struct ListCollections {
  std::string db;
  bool lists_all = false;  ///< the others, too
};

struct IndexList : ServerAnswer {
  std::vector<Index> indexes{};
  std::map<std::string, IndexOffer, std::less<>> offers{};  ///< by field
  std::optional<LeftAlone> left_alone{};                    ///< identifies; then no indexes
  std::optional<ids::CollectionUuid> uuid{};  ///< identifies; if the server takes it in writes
};
struct ListIndexes {
  Namespace ns;
  std::vector<UniqueField> advise{};  ///< unless an index guards them, find an IndexOffer
  bool identifies = false;            ///< which collection it is, too
  std::uint64_t epoch = 0;            ///< of the collection; see CollectionWatch
  std::chrono::nanoseconds at{};      ///< when it was sent, monotonic
};

struct DocumentCount : ServerAnswer {
  std::uint64_t documents = 0;
  /// Documents by the field that has a number or string in them; no entry: not known.
  std::map<std::string, std::uint64_t, std::less<>> with_value{};
  bool may_not_find = false;  ///< the reason why `with_value` is empty
};
struct CountDocuments {
  Namespace ns;
  std::vector<std::string> fields{};
};

struct MadeIndex : ServerAnswer {
  bool is_new = false;  ///< it was not there
};
/// Makes a unique index in the form that fits the documents.
struct MakeIndex {
  Namespace ns;
  UniqueField field;
};

struct DroppedIndex : ServerAnswer {
  std::string index{};  ///< empty: nothing was dropped
};
/// Drops the proxy's own index in favour of the application's, whose name is the answer.
struct YieldIndex {
  Namespace ns;
  UniqueField field;
};
/// Replaces the proxy's own indexes that are in the way of a client's. The answer is the name of
/// the one that has gone; the room gets one, too.
struct MakeRoom {
  Namespace ns;
  std::vector<UniqueField> made;  ///< those whose indexes the proxy makes
  std::shared_ptr<ids::IndexRoom> room;
};

/// Asks which of the values are taken. They get the answer themselves.
struct LookUpValues {
  std::shared_ptr<ids::FreeValues> values;
};

using InspectionRequest = std::variant<ListDatabases, ListCollections, ListIndexes, CountDocuments,
                                       MakeIndex, YieldIndex, MakeRoom, LookUpValues>;

[[nodiscard]] DatabaseList ask(mongo::Client& client, const ListDatabases& request);
[[nodiscard]] CollectionList ask(mongo::Client& client, const ListCollections& request);
[[nodiscard]] IndexList ask(mongo::Client& client, const ListIndexes& request);
[[nodiscard]] DocumentCount ask(mongo::Client& client, const CountDocuments& request);
[[nodiscard]] MadeIndex ask(mongo::Client& client, const MakeIndex& request);
[[nodiscard]] DroppedIndex ask(mongo::Client& client, const YieldIndex& request);
[[nodiscard]] DroppedIndex ask(mongo::Client& client, const MakeRoom& request);
[[nodiscard]] ServerAnswer ask(mongo::Client& client, const LookUpValues& request);

}  // namespace idproxy::id_store
