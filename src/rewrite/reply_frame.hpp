#pragma once

#include "idproxy/base/buffer.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::rewrite {

/// Appends an OP_MSG with one body. The constructor appends the header, the flags and the section's
/// kind; the caller then appends the document; close() sets the length and adds the checksum.
class ReplyFrame {
 public:
  ReplyFrame(Buffer& out, std::int32_t request_id, std::int32_t response_to, bool checksum);
  void close();

 private:
  Buffer& out_;
  std::size_t start_;
  bool checksum_;
};

}  // namespace idproxy::rewrite
