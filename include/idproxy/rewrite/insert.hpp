#pragma once

#include <span>
#include <vector>

#include "idproxy/rewrite/request.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// What became of one insert.
struct InsertResult {
  enum class Kind {
    unchanged,  ///< nothing is assigned, or mongod will refuse it: the bytes as they came
    assigned,   ///< values are to be drawn; then emit() or emit_part() follows
    failed,     ///< nothing may be sent; `error` is the reply
  };
  Kind kind = Kind::unchanged;
  CommandError error;
  std::size_t documents = 0;
  std::size_t size = 0;                     ///< of the message without the new values
  std::vector<RefusedDocument> refused;     ///< documents that mongod is made to refuse
  const Assignment* driver_made = nullptr;  ///< an `_id` rule that found only driver-made ObjectIds
};

/// Appends `count` values for an assignment.
[[nodiscard]] ids::Draw draw(const Assignment& assignment, std::size_t count, ids::Values& out);
/// The error of the whole insert if its values cannot be had.
[[nodiscard]] CommandError no_values(const InsertRequest& insert, const Assignment& assignment,
                                     const ids::Error& error);
/// The error of an insert that no message can carry any more.
[[nodiscard]] CommandError too_large();
/// What documents and ids may come to: beyond, the ids are more than what they are for.
inline constexpr std::size_t kMostValues = 2'000'000;  // 20 for each of 100,000 documents
inline constexpr std::size_t kMostWithIds = 2 * static_cast<std::size_t>(wire::kMaxMessageSize);

/// Puts the values of a plan into the documents of an insert. One per io thread: its memory is
/// reused from message to message. Not thread-safe.
///
/// A document that cannot take its value (a scalar or an array on the dotted path) must become that
/// document's own write error, in mongod's order of effects: earlier documents stored, later ones
/// stored or not as `ordered` says, a transaction aborted. So mongod is given a document in its
/// place that it always refuses, and the error in its reply is replaced (see reply_merge.hpp).
class InsertRewriter {
 public:
  /// Reads the documents, and notes in `given`, which is empty, which of them are to be given
  /// values. Those are then drawn into given.values, in the order of the documents.
  InsertResult scan(const InsertRequest& insert, GivenValues& given);
  /// The whole message, with these values. Only after scan() for the same insert.
  void emit(const InsertRequest& insert, const GivenValues& given, wire::PatchedMessage& out);

  /// How many of the documents fit into one message of at most kMaxMessageSize; one at least.
  [[nodiscard]] static std::size_t fitting(const InsertRequest& insert, const GivenValues& given,
                                           std::span<const std::int32_t> documents);
  /// A command with these documents: header, then the client's body without `documents`, and a
  /// section of kind 1. With a txnNumber it names the documents' statements in `stmtIds`. False if
  /// a document is malformed, as may be in an insert that needed no walk: mongod has refused it,
  /// and who says otherwise lies.
  [[nodiscard]] bool emit_part(const InsertRequest& insert, const GivenValues& given,
                               const WritePart& part, wire::PatchedMessage& out);

  /// The memory that it holds, but for small parts.
  [[nodiscard]] std::size_t capacity() const {
    return edits_.capacity() * sizeof(Edit) + element_.capacity();
  }

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
    [[nodiscard]] bool has_value() const {
      return kind == EditKind::element || kind == EditKind::replacement;
    }
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

  // insert.cpp: reading
  void begin(const InsertRequest& insert);
  [[nodiscard]] bool scan_documents(InsertResult& result, std::vector<Given>& given);
  [[nodiscard]] bool scan_document(Bytes document);
  [[nodiscard]] bool locate(Bytes document, std::size_t assignment, Site& site) const;
  void plan_edit(const Site& site, std::size_t assignment);
  void keep_driver_id(Bytes document, const Site& site, std::size_t assignment);
  [[nodiscard]] bool replaces(const Site& site, std::size_t assignment);
  [[nodiscard]] bool driver_made(const bson::Element& element, const Rule& rule) const;
  void refuse(Bytes document, const Site& site, std::size_t assignment);
  void sort_edits(std::size_t first_edit);
  void add_lengths(const Site& site, std::size_t first_edit);
  void number_values(GivenValues& given) const;

  // insert_emit.cpp: writing
  void emit_as_sequence(const InsertRequest& insert, const GivenValues& given,
                        wire::PatchedMessage& out);
  void emit_body(const WritePart& part, wire::PatchedMessage& out);
  void emit_edits(wire::PatchedMessage& out, std::size_t& next, std::size_t& at, std::size_t end);
  void emit_elements(std::span<const Edit> edits, wire::PatchedMessage& out);
  void emit_level(std::span<const Edit* const> edits, std::size_t depth, Buffer& out);
  void emit_value(const Edit& edit, Buffer& out);
  void open_length(std::size_t at, std::size_t end, wire::PatchedMessage& out);
  void close_lengths(std::size_t at, wire::PatchedMessage& out);
  void finish(std::size_t at, wire::PatchedMessage& out);
  [[nodiscard]] std::size_t offset(const std::uint8_t* at) const {
    return static_cast<std::size_t>(at - insert_->message.message().data());
  }

  // Of the message at hand.
  const InsertRequest* insert_ = nullptr;
  const std::vector<ids::Values>* values_ = nullptr;  // one per assignment
  Site site_;
  std::vector<Edit> edits_;
  std::optional<RefusedDocument> refusal_;  // of the document scanned last
  std::vector<std::size_t> used_;           // of values_: the next, per assignment
  std::vector<std::size_t> driver_made_;    // documents, per assignment
  bool plain_keys_ = true;                  // of the array in the body: "0", "1", …
  std::vector<OpenLength> lengths_;         // documents that are being emitted, outermost first
  Buffer element_;
};

}  // namespace idproxy::rewrite
