#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/jobs/verify_allowed.hpp"
#include "app/jobs/verify_findings.hpp"
#include "app/jobs/verify_runs.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "idproxy/ids/sequences.hpp"

namespace idproxy::app::jobs {

/// A sequence whose documents have been read.
struct VerifiedSequence {
  std::string scope{};         ///< as Sequences::Chosen::scope
  std::string period{};        ///< as ids::period_of()
  ids::NumberFormat format{};  ///< of the last number that was read
  std::string range{};         ///< the key of a range's document, of which it has the numbers
};

/// A range of a rule with counter-ranges, as its document has it now.
struct VerifiedRange {
  std::string key;  ///< of the document
  std::int64_t first;
  std::int64_t last;
  std::optional<std::int64_t> next;  ///< what it hands out next; nothing: it gives no numbers
};

/// What the judgement has to ask beside the documents. A fake answers in tests.
class VerifyAnswers {
 public:
  virtual ~VerifyAnswers() = default;
  /// The number that the sequence's counter hands out next, or that is behind the floor of one
  /// without gaps; nothing: there is none, or it cannot be read.
  virtual std::optional<std::int64_t> next_number(const VerifiedSequence& sequence) = 0;
  /// The ranges of the rule, in ascending order; none if it has none, or they cannot be read.
  virtual std::vector<VerifiedRange> ranges() = 0;
  /// The command that sets this counter so that `next` is the next number.
  virtual std::string remedy(const VerifiedSequence& sequence, std::int64_t next) = 0;
  /// Looks once more which of these numbers, few enough for one command, documents have now.
  virtual std::vector<std::int64_t> stored(const VerifiedSequence& sequence,
                                           const VerifyRuns::Gap& among) = 0;
};

/// Judges documents by the rule of a field. It gets them in the order of the rule's scope and then
/// of the field, so that it only has to remember the value before, and the runs of numbers of one
/// scope's periods. One thread.
class VerifyJudge {
 public:
  /// The most numbers of a gap that are looked for once more.
  static constexpr std::uint16_t kMostLookedFor = 1000;

  /// Borrows its arguments, except `field`, a dotted path. `allowed`: values that are only
  /// compared; null: none.
  VerifyJudge(const ids::RuleSource& rule, std::string field, VerifyAnswers& answers,
              const VerifyAllowed* allowed = nullptr);

  /// `document`: with its _id, the field, and beside().
  void next(Bytes document);
  enum class Read { all, a_part };
  /// Event: there are no more documents, or no more are read. Then what is missing between the
  /// numbers is no finding.
  void end(Read read);

  /// The fields that it needs, dotted paths; those of the scope first.
  [[nodiscard]] const std::vector<std::string>& beside() const { return sequences_.fields(); }
  [[nodiscard]] const VerifyFindings& findings() const { return findings_; }

 private:
  using Number = std::optional<std::int64_t>;
  struct Sequence {
    VerifyRuns runs;
    ids::NumberFormat format;
  };

  void add(VerifyKind kind, VerifyExample example);
  void judge(Bytes document, const bson::Element& value);
  [[nodiscard]] bool enter_scope(Bytes document);
  void compare(const bson::Element& value);
  void judge_number(Bytes document, const bson::Element& value);
  void take(Bytes document, const bson::Element& value, ids::Fit fit);
  void close_scope(Read read);
  void close(const VerifiedSequence& sequence, VerifyRuns& runs, Read read);
  void read_on(const VerifiedSequence& sequence, std::int64_t end, VerifyRuns& runs);
  void note_gaps(const VerifiedSequence& sequence, VerifyRuns& runs);
  void note_position(const VerifiedSequence& sequence, const VerifyRuns& runs);
  void note_in_range(std::int64_t number);
  void note_ranges();
  void note_beyond(const VerifiedSequence& sequence, std::int64_t farthest, std::int64_t next);

  const ids::RuleSource& rule_;
  const ids::RuleSource::About& about_;
  const std::string field_;
  VerifyAnswers& answers_;
  const VerifyAllowed* const allowed_;
  const ids::Sequences sequences_;
  const std::chrono::year this_year_;  // as of the rule's dates
  const bool counts_;                  // the values are numbers
  const std::int64_t step_;
  VerifyFindings findings_;

  std::vector<ids::FieldValue> values_;  // of the document, by beside()
  std::string scope_;
  std::map<std::string, Sequence> periods_;           // of the scope
  std::optional<std::vector<VerifiedRange>> ranges_;  // as they were at the first number
  std::map<std::string, std::int64_t> largest_;       // of each range with numbers, by its key
  std::string last_value_;                            // of the scope
  std::uint64_t equal_ = 0;                           // documents that have it
};

/// The name of a BSON type as $type takes it: "int", "objectId".
[[nodiscard]] std::string type_alias(bson::Type type);

/// {"_id": …} of a document, as JSON.
[[nodiscard]] std::string verify_id_text(Bytes document);

/// A value as mongosh writes it, or as JSON, and not too long.
[[nodiscard]] std::string verify_value_text(const bson::Element& value);

}  // namespace idproxy::app::jobs
