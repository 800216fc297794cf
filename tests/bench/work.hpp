#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace idproxy::bench {

inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::int32_t kOpMsg = 2013;

/// One kind of operation: a prebuilt OP_MSG and the OP_MSG that answers it, each with its header;
/// only requestID and responseTo are put in when they are sent.
struct Work {
  std::string name;         ///< as the table shows it
  std::string command;      ///< first key of the body, by which the stub server knows it
  std::size_t documents;    ///< in its kind-1 sequence
  std::size_t connections;  ///< in the CPU measurement
  std::string request;
  std::string reply;
  bool connects = false;  ///< in the CPU measurement, before each request
};

/// ping, find, insert of 1, 100 and 1000 documents, reply of 1 MB, in this order.
std::vector<Work> make_works();

/// A new connection for one ping, which comes back when both sides of a proxy have connected.
Work make_connect_work();

/// The BSON document at position `index` of every insert: about 200 bytes, eight fields, no `_id`.
std::string order_document(std::size_t index);

/// An OP_MSG that answers whatever no Work stands for, hello above all.
std::string make_hello_reply();

}  // namespace idproxy::bench
