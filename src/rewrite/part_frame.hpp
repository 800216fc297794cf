#pragma once

#include <cstddef>

#include "idproxy/rewrite/statements.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// Writes a command that carries some statements of a client's batch: a header, the client's body
/// without the statements, and a section of kind 1; of a bulkWrite, the one with its collections,
/// too. With a txnNumber, `stmtIds` names the statements.
///
///   PartFrame frame(write, part, out);
///   out.keep(…);     // the statements
///   frame.close();
class PartFrame {
 public:
  /// `write`: an insert, update or bulkWrite. Borrows its arguments.
  PartFrame(const WriteRequest& write, const WritePart& part, wire::PatchedMessage& out);
  void close();

 private:
  void body();
  [[nodiscard]] bool leaves_out(const bson::Element& field) const;
  void ns_info();
  void begin_section(std::string_view identifier);
  void end_section();

  const WriteRequest& write_;
  const wire::OpMsgView& client_;
  const WritePart& part_;
  wire::PatchedMessage& out_;
  std::size_t message_size_;
  std::size_t section_start_ = 0;
  std::size_t section_size_ = 0;
};

}  // namespace idproxy::rewrite
