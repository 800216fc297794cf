#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "idproxy/rewrite/statements.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/patched_message.hpp"
#include "rewrite/upsert_edit.hpp"

namespace idproxy::rewrite {

/// Writes the client's message anew, with other statements in their place.
///
///   WholeFrame frame(write, out);
///   out.keep(frame.at(), …);   // and what is new, up to `at` of the client's message
///   frame.close(at);
class WholeFrame {
 public:
  /// `expected`: as of PatchedMessage::start(). Borrows its arguments.
  WholeFrame(const WriteRequest& write, wire::PatchedMessage& out, std::size_t expected = 0);
  /// The position up to which it has written the client's message.
  [[nodiscard]] std::size_t at() const { return at_; }
  /// True if the body is too large with what it has got up to here, and was not before.
  [[nodiscard]] bool outgrows_body(std::size_t at) const;
  /// Writes the rest, and all lengths.
  void close(std::size_t at);

 private:
  void open(const std::uint8_t* length);
  [[nodiscard]] std::int64_t growth(std::size_t at) const {
    return static_cast<std::int64_t>(out_.size()) - static_cast<std::int64_t>(at);
  }

  /// Of what is around all statements.
  struct Length {
    std::size_t place;
    std::int32_t before;
  };

  const WriteRequest& write_;
  wire::PatchedMessage& out_;
  std::size_t at_ = 0;
  std::array<Length, 3> lengths_{};
  std::size_t count_ = 0;
};

/// Writes a command that carries some statements of a client's batch: a header, the client's body
/// without the statements, and a section of kind 1; of a bulkWrite, the one with its collections,
/// too. With a txnNumber, `stmtIds` names the statements.
///
///   PartFrame frame(write, part, out);
///   do {
///     out.keep(…);   // the next statement
///   } while (frame.has_room());
///   return frame.close();
///
/// A findAndModify has no section.
class PartFrame {
 public:
  /// `edit`: of a findAndModify. Borrows its arguments.
  PartFrame(const WriteRequest& write, const WritePart& part, wire::PatchedMessage& out,
            const UpsertEdit* edit = nullptr);
  /// Event: the next statement has been written. False if the message has become too large with it,
  /// for which the first one is no reason: then it has to be written again, with fewer.
  [[nodiscard]] bool has_room();
  /// Returns how many of the statements, from the first on, fit into one message; at least one.
  [[nodiscard]] std::size_t close();

 private:
  void body(const UpsertEdit* edit);
  void numbers(std::size_t body_size, Buffer& added);
  void ns_info();
  [[nodiscard]] bool is(WriteKind kind) const { return write_.command.kind == kind; }
  void begin_section(std::string_view identifier);
  void end_section();
  [[nodiscard]] std::size_t checksum_size() const {
    return client_.has(wire::flag::kChecksumPresent) ? 4 : 0;
  }

  const WriteRequest& write_;
  const wire::OpMsgView& client_;
  const WritePart& part_;
  wire::PatchedMessage& out_;
  std::size_t message_size_;
  std::size_t most_;  // statements whose numbers the body has room for
  std::size_t fit_ = 0;
  std::size_t section_start_ = 0;  // 0: there is none
  std::size_t section_size_ = 0;
};

}  // namespace idproxy::rewrite
