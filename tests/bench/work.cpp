#include "work.hpp"

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
constexpr std::size_t kFewConnections = 4;

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
std::string document_sequence(std::size_t count) {
  constexpr std::string_view kIdentifier = "documents";
  std::string documents;
  for (std::size_t i = 0; i < count; ++i) documents += order_document(i);
  const std::size_t size = sizeof(std::int32_t) + kIdentifier.size() + 1 + documents.size();
  std::string out(1, '\1');
  append_raw(out, static_cast<std::int32_t>(size));
  out.append(kIdentifier).push_back('\0');
  return out.append(documents);
}

std::string insert_reply(std::size_t count) {
  const Document op_time = Document().timestamp("ts", kClusterTime).int64("t", 1);
  Document reply;
  reply.int32("n", static_cast<std::int32_t>(count));
  return op_msg_reply(reply.object("opTime", op_time));
}

Work insert_of(std::size_t count, std::size_t connections) {
  Document insert;
  insert.text("insert", kCollection).boolean("ordered", true).int64("txnNumber", 1);
  return {"insert of " + std::to_string(count),
          "insert",
          count,
          connections,
          op_msg(with_session(insert), document_sequence(count)),
          insert_reply(count)};
}

}  // namespace

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
  return {ping(),
          find_of_1_kb(),
          insert_of(1, kManyConnections),
          insert_of(100, kManyConnections),
          insert_of(1000, kFewConnections),
          reply_of_1_mb()};
}

Work make_connect_work() {
  Work connect = ping();
  connect.name = "connect";
  connect.connects = true;
  return connect;
}

std::string make_hello_reply() {
  Document hello;
  hello.boolean("isWritablePrimary", true).boolean("ismaster", true);
  hello.int32("maxBsonObjectSize", 16 * 1024 * 1024).int32("maxMessageSizeBytes", 48000000);
  hello.int32("maxWriteBatchSize", 100000).int32("minWireVersion", 0).int32("maxWireVersion", 17);
  return op_msg_reply(hello);
}

}  // namespace idproxy::bench
