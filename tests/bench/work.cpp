#include "work.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "document.hpp"

namespace idproxy::bench {
namespace {

constexpr std::string_view kDatabase = "bench";
constexpr std::string_view kCollection = "orders";
constexpr std::uint64_t kClusterTime = 0x6A0A1B2C00000001;
constexpr std::uint8_t kGeneric = 0;
constexpr std::uint8_t kUuid = 4;

/// Few connections suffice for the large messages: they keep the proxy busy by themselves.
constexpr std::size_t kManyConnections = 16;
constexpr std::size_t kSomeConnections = 8;
constexpr std::size_t kFewConnections = 4;
/// Of rows that say so.
constexpr std::array<std::size_t, 3> kOtherConnections{1, 200, 1000};

std::string op_msg(const Document& body, std::string_view sequence = {}) {
  const std::string document = body.bytes();
  const std::size_t size = kHeaderBytes + sizeof(std::uint32_t) + 1 + document.size();
  std::string out;
  append_raw(out, static_cast<std::int32_t>(size + sequence.size()));
  append_raw(out, std::int32_t{0});  // requestID
  append_raw(out, std::int32_t{0});  // responseTo
  append_raw(out, kOpMsg);
  append_raw(out, std::uint32_t{0});  // flagBits
  out.push_back('\0');                // section kind 0
  return out.append(document).append(sequence);
}

Document cluster_time() {
  Document signature;
  signature.binary("hash", kGeneric, std::string(20, '\x5a')).int64("keyId", 7301234567890123456);
  return Document().timestamp("clusterTime", kClusterTime).object("signature", signature);
}

/// What drivers add to every command of an implicit session.
Document with_session(Document command) {
  const Document lsid = Document().binary("id", kUuid, "0123456789abcdef");
  command.object("lsid", lsid).object("$clusterTime", cluster_time());
  return command.text("$db", kDatabase);
}

/// What a member of a replica set adds to every reply.
std::string op_msg_reply(Document body) {
  body.real("ok", 1.0).object("$clusterTime", cluster_time());
  return op_msg(body.timestamp("operationTime", kClusterTime));
}

Work ping() {
  return {"ping",
          "ping",
          0,
          kManyConnections,
          op_msg(with_session(Document().int32("ping", 1))),
          op_msg_reply({})};
}

/// A cursor reply with one batch of one document that holds `payload` bytes of text.
std::string cursor_reply(std::string_view batch, const Document& documents) {
  const Document cursor = Document()
                              .array(batch, documents)
                              .int64("id", 0)
                              .text("ns", std::string(kDatabase) + "." + std::string(kCollection));
  return op_msg_reply(Document().object("cursor", cursor));
}

Work find_of_1_kb() {
  const Document filter = Document().text("account", "DE-0000012345");
  const Document found =
      Document().text("account", "DE-0000012345").text("a", std::string(730, 'x'));
  const Document find = Document().text("find", kCollection).object("filter", filter);
  return {"find, reply of 1 KB",
          "find",
          0,
          kManyConnections,
          op_msg(with_session(Document(find).int32("limit", 1))),
          cursor_reply("firstBatch", Document().object("0", found))};
}

Work reply_of_1_mb() {
  constexpr std::size_t kDocuments = 1000;
  Document documents;
  for (std::size_t i = 0; i < kDocuments; ++i) {
    const Document found = Document().text("text", std::string(970, 'x'));
    documents.object(std::to_string(i), found);
  }
  const Document get_more = Document().int64("getMore", 42).text("collection", kCollection);
  return {"reply of 1 MB",
          "getMore",
          0,
          kFewConnections,
          op_msg(with_session(get_more)),
          cursor_reply("nextBatch", documents)};
}

/// Kind 1: size, identifier, documents.
std::string document_sequence(std::string_view identifier, const std::vector<std::string>& all) {
  std::string documents;
  for (const std::string& document : all) documents += document;
  const std::size_t size = sizeof(std::int32_t) + identifier.size() + 1 + documents.size();
  std::string out(1, '\1');
  append_raw(out, static_cast<std::int32_t>(size));
  out.append(identifier).push_back('\0');
  return out.append(documents);
}

std::string insert_reply(std::size_t count) {
  const Document op_time = Document().timestamp("ts", kClusterTime).int64("t", 1);
  Document reply;
  reply.int32("n", static_cast<std::int32_t>(count));
  return op_msg_reply(reply.object("opTime", op_time));
}

// ---- inserts -----------------------------------------------------------------------------------

constexpr std::string_view kRules =
    "  - {ns: 'bench.id-*', field: _id, strategy: uuid, version: 7}\n"
    "  - {ns: 'bench.number-*', field: number, strategy: uuid, version: 7, unique_index: warn}\n"
    "  - {ns: 'bench.both-*', field: _id, strategy: uuid, version: 7}\n"
    "  - {ns: 'bench.both-*', field: number, strategy: uuid, version: 7}\n"
    "  - {ns: 'bench.there-*', field: _id, strategy: uuid, version: 7}\n"
    "  - {ns: 'bench.there-*', field: number, strategy: uuid, version: 7}\n"
    "  - {ns: 'bench.dotted-*', field: address.number, strategy: uuid, version: 7}\n"
    "  - {ns: 'bench.replaced-*', field: _id, strategy: uuid, version: 7,\n"
    "     assign: driver, driver_window: 24h}\n";

enum class Values { id, number, both, there, dotted, replaced };
constexpr std::array<std::string_view, 6> kValues{"id",    "number", "both",
                                                  "there", "dotted", "replaced"};
/// The same, as the table shows them.
constexpr std::array<std::string_view, 6> kLabels{"_id",           "number",      "_id and number",
                                                  "nothing to do", "dotted path", "replaced _id"};
constexpr std::size_t kDifferent = 100;  // documents
/// Stands for a UUID.
const std::string kHole(16, '\xee');

/// As drivers make them: seconds, and what tells them apart.
std::string drivers_id(std::size_t index) {
  static const auto seconds = static_cast<std::uint32_t>(std::time(nullptr));
  std::string id;
  for (const int shift : {24, 16, 8, 0}) id.push_back(static_cast<char>(seconds >> shift));
  return id + std::to_string(10'000'000 + index);
}

/// Document `index` of about `size` bytes: ten fields besides `_id` and `number`, of which one is a
/// sub-document and one an array. `stored`: as the server must get it. `padding`: of the last
/// field.
Document document_of(Values values, std::size_t size, std::size_t index, bool stored,
                     std::size_t padding) {
  const bool sends_id = values != Values::id && values != Values::both;
  const bool gets_id = values == Values::id || values == Values::both || values == Values::replaced;
  Document order;
  if (stored && gets_id) {
    order.binary("_id", kUuid, kHole);
  } else if (sends_id) {
    order.object_id("_id", drivers_id(index));
  }
  Document address;
  address.text("street", "St James's Square 12").text("city", "London").text("zip", "SW1Y 4LB");
  if (stored && values == Values::dotted) address.binary("number", kUuid, kHole);
  Document items;
  for (const char* i : {"0", "1"}) {
    items.object(i, Document().text("sku", "A-1047").int32("quantity", 2));
  }
  const bool small = size < 400;
  order.text("customer", "customer-" + std::to_string(100'000 + index)).text("currency", "EUR");
  order.date("created", 1'795'288'406'000 + static_cast<std::int64_t>(index)).real("total", 19.95);
  order.boolean("paid", index % 2 == 0).int32("version", 3);
  order.object("address",
               small && values != Values::dotted ? Document().text("city", "Bath") : address);
  order.array("items", small ? Document().int32("0", 7) : items).text("channel", "web");
  order.text("note", std::string(padding, 'x'));
  if (values == Values::there) order.int64("number", static_cast<std::int64_t>(index));
  if (stored && (values == Values::number || values == Values::both)) {
    order.binary("number", kUuid, kHole);
  }
  return order;
}

StoredDocument stored_document(std::string bytes) {
  StoredDocument stored{std::move(bytes), {}};
  for (std::size_t at = 0; (at = stored.bytes.find(kHole, at)) != std::string::npos; ++at) {
    stored.uuids.push_back(at);
  }
  return stored;
}

Work insert_of(Values values, std::size_t count, std::size_t size, bool in_array, Limit limit) {
  const std::string name(kValues[static_cast<std::size_t>(values)]);
  Work work;
  work.name = "insert of " + std::to_string(count) + ", " + std::to_string(size) + " B, " +
              std::string(kLabels[static_cast<std::size_t>(values)]) + (in_array ? ", array" : "");
  work.command = "insert";
  work.documents = count;
  work.connections = count < 100    ? kManyConnections
                     : count < 1000 ? kSomeConnections
                                    : kFewConnections;
  work.collection = name + "-" + std::to_string(size) + (in_array ? "-array" : "");
  work.limit = limit;
  work.usual = size == 512;
  work.quick = size == 512 && (!in_array || (count == 100 && values == Values::number));
  const std::size_t bare = document_of(values, size, 0, false, 0).bytes().size();
  const std::size_t padding = size > bare ? size - bare : 0;
  std::vector<std::string> documents;
  for (std::size_t i = 0; i < std::min(count, kDifferent); ++i) {
    documents.push_back(document_of(values, size, i, false, padding).bytes());
    work.stored.push_back(stored_document(document_of(values, size, i, true, padding).bytes()));
  }
  Document insert;
  insert.text("insert", work.collection).boolean("ordered", true).int64("txnNumber", 1);
  std::string sequence;
  if (in_array) {
    std::string array;
    for (std::size_t i = 0; i < count; ++i) {
      array.append(1, '\x03').append(std::to_string(i)).append(1, '\0');
      array.append(documents[i % documents.size()]);
    }
    insert.raw_array("documents", array);
  } else {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(documents[i % documents.size()]);
    sequence = document_sequence("documents", all);
  }
  work.request = op_msg(with_session(insert), sequence);
  work.reply = insert_reply(count);
  return work;
}

void add_inserts(std::vector<Work>& works) {
  for (const std::size_t size : {512U, 200U, 2048U}) {
    for (const Values values : {Values::number, Values::id, Values::both}) {
      for (const bool in_array : {false, true}) {
        const bool plain = values == Values::number && !in_array;
        const Limit other{1.02, 0.95};
        works.push_back(insert_of(values, 1, size, in_array, plain ? Limit{0.97, 0.9} : other));
        works.push_back(insert_of(values, 100, size, in_array, plain ? Limit{0.62, 0.5} : other));
        works.push_back(insert_of(values, 1000, size, in_array, plain ? Limit{0.45, 0.4} : other));
      }
    }
    works.push_back(insert_of(Values::there, 100, size, false, {0.8, 0.7}));
    works.push_back(insert_of(Values::dotted, 100, size, false, {1.2, 1.0}));
    works.push_back(insert_of(Values::replaced, 100, size, false, {1.2, 1.0}));
  }
}

// ---- updates -----------------------------------------------------------------------------------

constexpr std::size_t kUpdated = 512;  // bytes of a document, about

/// `collection`: of updates with one statement.
Work update_of(std::string name, std::string_view command, std::string collection, Document body,
               const std::string& sequence, Document reply) {
  body.int64("txnNumber", 1);
  Work work{std::move(name),
            std::string(command),
            0,
            kManyConnections,
            op_msg(with_session(std::move(body)), sequence),
            op_msg_reply(std::move(reply))};
  work.collection = std::move(collection);
  return work;
}

Document filter_of(std::string_view account) {
  return Document().text("account", account);
}

/// What the upserts set: with a value of the rule in it, a new document.
Document changes() {
  const Document set = Document().text("note", std::string(kUpdated, 'x')).int32("version", 3);
  return Document().object("$set", set);
}

Work update_with_upsert() {
  const std::string collection = "number-update";
  const Document statement = Document()
                                 .object("q", filter_of("DE-0000012345"))
                                 .object("u", changes())
                                 .boolean("upsert", true);
  const Document upserted = Document().int32("index", 0).object_id("_id", drivers_id(0));
  return update_of("update with upsert, number", "update", collection,
                   Document().text("update", collection).boolean("ordered", true),
                   document_sequence("updates", {statement.bytes()}),
                   Document()
                       .int32("n", 1)
                       .int32("nModified", 0)
                       .array("upserted", Document().object("0", upserted)));
}

Work find_and_modify_with_upsert() {
  const std::string collection = "number-find";
  const Document found = Document()
                             .int32("n", 1)
                             .boolean("updatedExisting", false)
                             .object_id("upserted", drivers_id(0));
  return update_of("findAndModify with upsert, number", "findAndModify", collection,
                   Document()
                       .text("findAndModify", collection)
                       .object("query", filter_of("DE-0000012345"))
                       .object("update", changes())
                       .boolean("upsert", true),
                   {}, Document().object("lastErrorObject", found));
}

/// As ODMs save a document that is there: it keeps the number that the replacement lacks.
Work kept_replacement() {
  const std::string collection = "number-kept";
  const std::size_t bare = document_of(Values::number, kUpdated, 0, false, 0).bytes().size();
  const Document document = document_of(Values::number, kUpdated, 0, false, kUpdated - bare);
  const Document statement = Document()
                                 .object("q", Document().object_id("_id", drivers_id(0)))
                                 .object("u", document)
                                 .boolean("upsert", true);
  return update_of("replacement, 512 B, number kept", "update", collection,
                   Document().text("update", collection).boolean("ordered", true),
                   document_sequence("updates", {statement.bytes()}),
                   Document().int32("n", 1).int32("nModified", 1));
}

Work limited(Work work, Limit limit) {
  work.limit = limit;
  work.quick = true;
  work.usual = true;
  return work;
}

/// With so many connections, and a row of its own.
Work at(std::size_t connections, Work work, Limit limit) {
  work.name +=
      connections == 1 ? ", 1 connection" : ", " + std::to_string(connections) + " connections";
  work.connections = connections;
  work.limit = limit;
  work.usual = work.quick = false;
  return work;
}

/// A new connection for one ping, which comes back when both sides of a proxy have connected.
Work connect_work() {
  Work connect = ping();
  connect.name = "connect";
  connect.connects = true;
  connect.quick = true;
  return connect;
}

}  // namespace

std::string_view rules_of_works() {
  return kRules;
}

std::string order_document(std::size_t index) {
  const auto number = static_cast<std::int32_t>(index);
  const Document address = Document().text("city", "Rotterdam").text("zip", "3011 AA");
  Document order;
  order.text("customer", "customer-" + std::to_string(100000 + index)).text("status", "confirmed");
  order.int32("quantity", number % 50 + 1).real("price", 19.95 + number);
  order.date("created", 1795288406000 + number).boolean("paid", index % 2 == 0);
  order.object("address", address).text("note", "leave with the neighbours, please");
  return order.bytes();
}

std::vector<Work> make_works() {
  constexpr Limit kPing{0.92, 0.85};
  constexpr Limit kFind{0.95, 0.88};
  constexpr Limit kInsert{0.97, 0.9};
  std::vector<Work> works{limited(ping(), kPing), limited(find_of_1_kb(), kFind),
                          limited(reply_of_1_mb(), {0.6, 0.5})};
  add_inserts(works);
  for (const std::size_t connections : kOtherConnections) {
    works.push_back(at(connections, ping(), kPing));
    works.push_back(at(connections, find_of_1_kb(), kFind));
    works.push_back(at(connections, insert_of(Values::number, 1, 512, false, {}), kInsert));
  }
  for (Work work : {update_with_upsert(), find_and_modify_with_upsert()}) {
    work.limit = Limit{1.15, 1.0};
    works.push_back(std::move(work));
  }
  works.push_back(kept_replacement());
  works.back().limit = Limit{1.1, 1.0};
  return works;
}

std::vector<Work> make_tls_works(TlsSides sides) {
  constexpr std::size_t kSize = 512;
  const Work insert = insert_of(Values::number, 1, kSize, false, {});
  if (sides == TlsSides::client) return {limited(insert, {1.0, 0.9})};
  return {ping(), limited(insert, {1.1, 0.9}),
          limited(insert_of(Values::number, 100, kSize, false, {}), {1.0, 0.9}),
          limited(reply_of_1_mb(), {1.0, 0.9}), connect_work()};
}

std::string make_hello_reply() {
  Document hello;
  hello.boolean("isWritablePrimary", true).boolean("ismaster", true);
  hello.int32("maxBsonObjectSize", 16 * 1024 * 1024).int32("maxMessageSizeBytes", 48000000);
  hello.int32("maxWriteBatchSize", 100000).int32("minWireVersion", 0).int32("maxWireVersion", 17);
  return op_msg_reply(hello);
}

}  // namespace idproxy::bench
