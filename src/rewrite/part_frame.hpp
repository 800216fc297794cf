#pragma once

#include <cstddef>

#include "idproxy/rewrite/statements.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// Writes a command that carries some statements of a client's batch: a header, the client's body
/// without the statements, and a section of kind 1. With a txnNumber, `stmtIds` names the
/// statements.
///
///   PartFrame frame(client, command, part, out);
///   out.keep(…);     // the statements
///   frame.close();
class PartFrame {
 public:
  /// `command`: an insert or update, in `client`. Borrows its arguments.
  PartFrame(const wire::OpMsgView& client, const WriteCommand& command, const WritePart& part,
            wire::PatchedMessage& out);
  void close();

 private:
  void body();

  const wire::OpMsgView& client_;
  const WriteCommand& command_;
  const WritePart& part_;
  wire::PatchedMessage& out_;
  std::size_t message_size_;
  std::size_t section_start_ = 0;
  std::size_t section_size_ = 0;
};

}  // namespace idproxy::rewrite
