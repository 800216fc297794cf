#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// What matters of an insert command. Views into its message.
struct InsertCommand {
  std::string_view collection;
  std::string_view db;
  Bytes documents;      ///< the array's value, or the documents of the sequence
  Bytes array_element;  ///< with documents in the body: their element, type byte to end
  const wire::DocumentSequence* sequence = nullptr;  ///< with documents in a section of kind 1
  Bytes stmt_ids;  ///< the array's value; empty if the client sent none

  [[nodiscard]] bool in_body() const { return sequence == nullptr; }
  /// Two equal numbers make a primary abort (observed, 6.0.5: fassert 40526).
  [[nodiscard]] bool repeats_stmt_id() const;
  /// `insert` must outlive the result. Nothing if mongod will refuse the command: a name that is no
  /// text, repeated fields, documents twice or nowhere, a section that insert does not have.
  [[nodiscard]] static std::optional<InsertCommand> read(const wire::OpMsgView& insert);
};

/// What became of one insert.
struct InsertResult {
  enum class Kind {
    unchanged,  ///< nothing is assigned, or mongod will refuse it: the bytes as they came
    patched,    ///< the PatchedMessage is to be sent instead
    failed,     ///< nothing may be sent; `error` is the reply
  };
  Kind kind = Kind::unchanged;
  CommandError error;
  std::size_t assigned = 0;                 ///< values given
  std::vector<RefusedDocument> refused;     ///< documents that mongod is made to refuse
  const Assignment* driver_made = nullptr;  ///< an `_id` rule that found only driver-made ObjectIds
};

/// Puts the values of a plan into the documents of an insert. One per io thread: its memory is
/// reused from message to message. Not thread-safe.
///
/// A document that cannot take its value (a scalar or an array on the dotted path) must become that
/// document's own write error, in mongod's order of effects: earlier documents stored, later ones
/// stored or not as `ordered` says, a transaction aborted. So mongod is given a document in its
/// place that it always refuses, and the error in its reply is replaced (see reply.hpp).
class InsertRewriter {
 public:
  /// `command` was read from `insert`, and `plan` made for its namespace. `now`: since the Unix
  /// epoch. `out` is filled for `patched` and holds positions in the insert's message.
  InsertResult rewrite(const wire::OpMsgView& insert, const InsertCommand& command,
                       const Plan& plan, std::chrono::seconds now, wire::PatchedMessage& out);

 private:
  enum class EditKind : std::uint8_t { length, element, replacement, driver_id, refusal };
  /// One change of the message. Those of a document stand in the order of their positions.
  struct Edit {
    std::uint32_t at;      // position in the message
    std::uint32_t remove;  // bytes of the original that it stands for
    std::uint32_t from;    // length: end of that document; driver_id: the old value's position
    std::uint16_t assignment;
    std::uint8_t depth;  // element: segments of the path that exist already
    EditKind kind;
  };
  struct OpenLength {
    std::size_t place;  // in the patched message
    std::int64_t value;
    std::size_t end;  // in the original
  };
  /// Where the path of an assignment leads in one document.
  struct Site {
    enum class Found {
      absent,   // the value would be a new element of parents.back()
      present,  // `element` holds it
      blocked,  // `element` stands where a document would have to be
    };
    Found found = Found::absent;
    std::vector<Bytes> parents;  // existing documents on the path, the root first
    bson::Element element;
    bool ambiguous = false;  // a name on the path occurs twice
    [[nodiscard]] std::size_t depth() const { return parents.size() - 1; }
  };

  [[nodiscard]] bool rewrite_plain(InsertResult& result, wire::PatchedMessage& out);
  void emit_plain(std::size_t count, wire::PatchedMessage& out);
  [[nodiscard]] bool scan_documents(InsertResult& result);
  [[nodiscard]] bool scan_document(Bytes document, std::int32_t index, InsertResult& result);
  [[nodiscard]] bool locate(Bytes document, std::size_t assignment, Site& site) const;
  void plan_edit(const Site& site, std::size_t assignment);
  void keep_driver_id(Bytes document, const Site& site, std::size_t assignment);
  [[nodiscard]] bool replaces(const Site& site, std::size_t assignment);
  [[nodiscard]] bool driver_made(const bson::Element& element, const Rule& rule) const;
  void refuse(Bytes document, std::int32_t index, const Site& site, std::size_t assignment,
              InsertResult& result);
  void sort_edits(std::size_t first_edit);
  void add_lengths(const Site& site, std::size_t first_edit);
  [[nodiscard]] bool draw(std::size_t assignment, std::size_t count, InsertResult& result);
  static bool check_size(std::size_t size, InsertResult& result);
  [[nodiscard]] bool draw_values(InsertResult& result);

  void emit(wire::PatchedMessage& out);
  void emit_as_sequence(wire::PatchedMessage& out);
  void emit_edits(wire::PatchedMessage& out, std::size_t& next, std::size_t& at, std::size_t end);
  void emit_elements(std::span<const Edit> edits, wire::PatchedMessage& out);
  void emit_level(std::span<const Edit* const> edits, std::size_t depth, Buffer& out);
  void emit_value(const Edit& edit, Buffer& out);
  void open_length(std::size_t at, std::size_t end, wire::PatchedMessage& out);
  void close_lengths(std::size_t at, wire::PatchedMessage& out);
  void finish(std::size_t at, wire::PatchedMessage& out);
  [[nodiscard]] std::size_t offset(const std::uint8_t* at) const {
    return static_cast<std::size_t>(at - insert_->message().data());
  }

  // Of the message at hand.
  const wire::OpMsgView* insert_ = nullptr;
  const InsertCommand* command_ = nullptr;
  const Plan* plan_ = nullptr;
  std::chrono::seconds now_{};
  Site site_;
  std::vector<Edit> edits_;
  std::vector<ids::Values> values_;       // one per assignment
  std::vector<std::size_t> needed_;       // values, per assignment
  std::vector<std::size_t> used_;         // values emitted so far, per assignment
  std::vector<std::size_t> driver_made_;  // documents, per assignment
  bool plain_keys_ = true;                // of the array in the body: "0", "1", …
  std::vector<OpenLength> lengths_;       // documents that are being emitted, outermost first
  Buffer element_;
};

}  // namespace idproxy::rewrite
