#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "certificates.hpp"
#include "report.hpp"

namespace idproxy::bench {

inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::int32_t kOpMsg = 2013;

/// A document as the server must get it: the client's, and UUIDs where the proxy puts values.
struct StoredDocument {
  std::string bytes;
  std::vector<std::size_t> uuids;  ///< where their 16 bytes stand
};

/// One kind of operation: a prebuilt OP_MSG and the OP_MSG that answers it, each with its header;
/// only requestID and responseTo are put in when they are sent.
struct Work {
  std::string name;         ///< as the table shows it
  std::string command;      ///< first key of the body, by which the stub server knows it
  std::size_t documents;    ///< of an insert; else 0
  std::size_t connections;  ///< in the CPU measurement
  std::string request;
  std::string reply;
  bool connects = false;     ///< in the CPU measurement, before each request
  std::string collection{};  ///< of a write; it tells which rules apply, and which work it is
  std::vector<StoredDocument> stored{};  ///< of an insert; document i is the one at i % size()
  std::optional<Limit> limit{};          ///< of the CPU beside haproxy
  bool quick = false;                    ///< a part of quick runs
  bool usual = false;  ///< measured with all programs, others without nginx and envoy
};

/// ping, find, reply of 1 MB, and inserts of 1, 100 and 1000 documents of three sizes: with rules
/// on `_id`, on another field and on both, in a sequence and in the body's array; and of 100 where
/// nothing is to do, a path is dotted, or an `_id` is replaced. ping, find and insert of 1 with
/// other numbers of connections, too; upserts, and a replacement that keeps its number.
std::vector<Work> make_works();
/// The rules that these inserts need: items of a list in YAML.
std::string_view rules_of_works();

/// What is measured with TLS: some of these, and connecting; with the client's side only, an insert
/// of 1.
std::vector<Work> make_tls_works(TlsSides sides);

/// The BSON document at position `index` of every insert: about 200 bytes, eight fields, no `_id`.
std::string order_document(std::size_t index);

/// An OP_MSG that answers whatever no Work stands for, hello above all.
std::string make_hello_reply();

}  // namespace idproxy::bench
