#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/bson/field_finder.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// The fields that the assignments of a plan are for, and what the documents of its namespace
/// mostly look like.
struct PlanFields {
  explicit PlanFields(const std::shared_ptr<const Plan>& plan);

  /// The plan, which this keeps nothing of alive.
  std::weak_ptr<const Plan> plan;
  bool has_sequences = false;
  // Bits of assignments:
  std::uint32_t all = 0;
  std::uint32_t top_level = 0;     // the path has one name
  std::uint32_t stays = 0;         // that, and a value that is there stays, whatever it is
  std::uint32_t second_level = 0;  // likewise, but the path has two names
  std::uint32_t front = 0;         // for `_id`, the first element
  std::uint32_t ids = 0;           // for `_id`, by a rule of its own
  /// Of the first name on the path of each assignment. None: there are too many, or sequences.
  std::optional<bson::FieldFinder> first_names;
  /// Of the second name on the path, or the only one. None: no path has two.
  std::optional<bson::FieldFinder> second_names;
};

/// The fields of the plans that were used last, since applications insert into several collections
/// in turn. Not thread-safe.
class RecentPlans {
 public:
  /// Valid until the next call.
  PlanFields& of(const std::shared_ptr<const Plan>& plan);

 private:
  std::vector<std::unique_ptr<PlanFields>> plans_;  // the last one first
};

/// Puts generated values into the documents of an insert, as a Plan says. Each io thread has one,
/// which reuses its memory from message to message. Not thread-safe.
///
/// A document that cannot take its value (its dotted path leads through a scalar or an array) must
/// cause a write error of its own with the effects that it has in mongod: earlier documents are
/// stored, later ones are stored or not as `ordered` says, and a transaction is aborted. So mongod
/// gets another document in its place, one that mongod always refuses, and the proxy replaces the
/// error in mongod's reply (see reply_merge.hpp).
class InsertRewriter {
 public:
  /// Reads the documents, and records in `given`, which must be empty, which of them get values and
  /// how many each assignment needs (given.wanted). The caller then draws these into given.values,
  /// in the order of the documents.
  ScanResult scan(const WriteRequest& insert, GivenValues& given);
  /// Writes the documents with these values, and what is between them, from `at` of the message on.
  /// Returns up to where. Must follow scan() for the same insert.
  [[nodiscard]] std::size_t emit(const WriteRequest& insert, const GivenValues& given,
                                 std::size_t at, wire::PatchedMessage& out);
  /// About as many bytes as emit() copies.
  [[nodiscard]] std::size_t expected_copies(const GivenValues& given) const;

  /// Writes a command with the documents of `part`: a header, the client's body without
  /// `documents`, and a section of kind 1. With a txnNumber, `stmtIds` names the documents'
  /// statements. Returns how many of them, from the first on, fit into one message, at least one:
  /// if not all, it has to be written again with these. Nothing if a document is malformed, which
  /// cannot be after scan().
  [[nodiscard]] std::optional<std::size_t> emit_part(const WriteRequest& insert,
                                                     const GivenValues& given,
                                                     const WritePart& part,
                                                     wire::PatchedMessage& out);

  /// The same for the documents of a bulkWrite, one by one. `given` must have room for the values
  /// of its plan. Returns false if the document is malformed.
  [[nodiscard]] bool scan_one(const WriteRequest& write, const BulkNamespace& ns, Bytes document,
                              std::int32_t statement, GivenValues& given, ScanResult& result);
  /// Writes the document.
  [[nodiscard]] bool emit_one(const WriteRequest& write, const BulkNamespace& ns,
                              const GivenValues& given, std::int32_t statement, Bytes document,
                              wire::PatchedMessage& out);

  /// The bytes of memory that it holds, except for small parts.
  [[nodiscard]] std::size_t capacity() const {
    return records_.capacity() * sizeof(Record) + edits_.capacity() * sizeof(Edit) +
           element_.capacity();
  }
  /// Frees it. The next message must begin with scan() or emit_part().
  void free_memory() {
    records_ = {};
    edits_ = {};
    element_ = Buffer();
  }

 private:
  /// The changes of one document. Most only lack fields, at their top level or in one sub-document;
  /// the others have edits.
  struct Record {
    std::uint32_t at;           // position in the message
    std::uint32_t size;         // bytes
    std::uint32_t missing = 0;  // a bit for each assignment whose value becomes a new element
    std::uint32_t parent = 0;   // position of the document that these go into
    std::uint32_t edits = 0;    // end of its edits in edits_; they begin where those before it end
  };
  enum class EditKind : std::uint8_t { length, element, replacement, driver_id, refusal };
  /// One change of the message. The edits of a document are ordered by position.
  struct Edit {
    std::uint32_t at;      // position in the message
    std::uint32_t remove;  // bytes of the original that it replaces
    std::uint32_t from;    // length: end of that document; driver_id: position of the old value
    std::uint16_t assignment;
    std::uint8_t depth;  // element: how many documents on the path exist, without the root
    EditKind kind;
    [[nodiscard]] bool has_value() const {
      return kind == EditKind::element || kind == EditKind::replacement;
    }
  };
  struct Added;
  struct OpenLength {
    std::size_t place;   // position in the patched message
    std::int64_t value;  // as the client sent it, less the bytes added before it
    std::size_t end;     // end of the document in the original
  };
  /// The place in one document to which the path of an assignment leads.
  struct Site {
    enum class Found {
      absent,   // the value becomes a new element of parents.back()
      present,  // `element` is the field
      blocked,  // `element` is where the path needs a document, and is none
    };
    Found found = Found::absent;
    std::vector<Bytes> parents;  // documents that exist on the path, the root first
    bson::Element element;
    bool ambiguous = false;  // a name on the path occurs twice
    [[nodiscard]] std::size_t depth() const { return parents.size() - 1; }
  };

  // insert.cpp: reading
  void begin(const WriteRequest& write, const std::shared_ptr<const Plan>& plan, std::size_t first);
  [[nodiscard]] bool scan_documents(Statements documents, std::int32_t first, ScanResult& result,
                                    GivenValues& values);
  [[nodiscard]] bool plan_edits(Bytes document);
  [[nodiscard]] bool look_at(Bytes document, Record& record);
  [[nodiscard]] const bson::Element* common_parent(std::uint32_t below) const;
  void note_kept(std::uint32_t kept, const bson::FieldFinder::Places& places);
  void note_kept(const bson::Element& value, std::size_t assignment);
  inline void give(std::int32_t statement, std::uint32_t missing, std::size_t first_edit,
                   GivenValues& values);
  [[nodiscard]] bool locate(Bytes document, std::size_t assignment, Site& site);
  [[nodiscard]] bool follow(std::size_t assignment, std::size_t depth, Site& site, bool& found);
  [[nodiscard]] bool find_at_once(std::size_t assignment, std::size_t depth, Site& site,
                                  bool& found);
  void plan_edit(const Site& site, std::size_t assignment);
  void keep_driver_id(Bytes document, const Site& site, std::size_t assignment);
  [[nodiscard]] bool replaces(const Site& site, std::size_t assignment);
  void refuse(Bytes document, std::size_t first_edit, ErrorCode code, std::string why);
  void sort_edits(std::size_t first_edit);
  void add_lengths(const Site& site, std::size_t first_edit);

  // insert_emit.cpp: writing
  void emit_record(const Record& record, std::size_t& next, std::size_t& at,
                   wire::PatchedMessage& out);
  inline void emit_missing(const Record& record, std::size_t at, wire::PatchedMessage& out);
  void emit_slices(const Record& record, std::size_t grown, std::size_t at,
                   wire::PatchedMessage& out);
  Added next_value(std::uint32_t assignments);
  [[nodiscard]] bool changes_once(const Record& record, std::size_t next, std::size_t at) const;
  void emit_change(const Record& record, std::size_t& next, std::size_t& at,
                   wire::PatchedMessage& out);
  void emit_edits(wire::PatchedMessage& out, std::size_t& next, std::size_t& at, std::size_t end);
  void emit_elements(std::span<const Edit> edits, wire::PatchedMessage& out);
  void emit_level(std::span<const Edit* const> edits, std::size_t depth, Buffer& out);
  void emit_value(const Edit& edit, Buffer& out);
  void close_lengths(std::size_t end, std::size_t at, wire::PatchedMessage& out);
  [[nodiscard]] bool emit_document(Bytes document, wire::PatchedMessage& out);
  [[nodiscard]] std::size_t offset(const std::uint8_t* at) const {
    return static_cast<std::size_t>(at - message_.data());
  }

  // The state of the current message.
  Bytes message_;
  const Plan* assignments_ = nullptr;  // of the documents' namespace
  std::size_t first_ = 0;              // position of these in GivenValues
  std::chrono::seconds now_{};         // as WriteRequest::now
  PlanFields* plan_ = nullptr;         // in plans_
  // With sequences, of the document that was scanned last, by assignment: the fields that decide.
  std::vector<std::vector<ids::FieldValue>> fields_;
  std::span<const ids::Values> values_;  // one per assignment
  bson::FieldFinder::Found found_;       // by first_names in the document that was looked at last
  bson::FieldFinder::Places places_{};
  bson::FieldFinder::Found below_;  // by second_names in a sub-document of it
  bson::FieldFinder::Places below_places_{};
  std::vector<Record> records_;
  Site site_;
  std::vector<Edit> edits_;
  std::optional<RefusedDocument> refusal_;  // of the document that was scanned last
  std::vector<std::size_t> used_;           // per assignment: index of the next value in values_
  std::vector<std::size_t> driver_made_;    // per assignment: documents with a driver's ObjectId
  const Assignment* leaves_zero_ = nullptr;
  std::vector<OpenLength> lengths_;  // of the documents being written, outermost first
  Buffer element_;

  RecentPlans plans_;
};

}  // namespace idproxy::rewrite
