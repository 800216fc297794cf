#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/rewrite/duplicates.hpp"
#include "idproxy/rewrite/stage.hpp"
#include "idproxy/rewrite/statements.hpp"
#include "rewrite/batch_progress.hpp"
#include "rewrite/earlier_attempts.hpp"
#include "rewrite/operation.hpp"

namespace idproxy::rewrite {

/// Identifies the client's transaction that a command is a part of, by its lsid and txnNumber;
/// nothing if these are missing or malformed.
[[nodiscard]] std::optional<std::string> transaction_of(Bytes body);

/// Appends {writeConcern: {w: "majority", j: true}}, with the client's j and wtimeout, and its `w`
/// if that names a tag or more members than `majority` is sure to be. Asks for the journal, which a
/// standalone server does not wait for otherwise. Returns the durability of the command's writes
/// once it has been answered without a writeConcernError.
ids::Durability append_write_concern(Bytes body, std::int64_t majority, Buffer& out);

/// The numbers of sequences without gaps in one write. The statements of each sequence get
/// consecutive numbers in their order, command by command: what a command does not store, the next
/// command uses. Takes the turns in the order of Source::name(), all of them before the first
/// command, and keeps them.
class NumbersInTurn {
 public:
  /// Borrows `plan` and `given`. The taker's `takes` does not matter.
  NumbersInTurn(const Plan& plan, GivenValues& given, ids::TurnTaker taker);

  /// Draws numbers for these statements, which are all that are still to be sent, where there are
  /// none. Returns nothing once all are there. Each statement then has a value that is at least as
  /// long as the one that send() gives it.
  [[nodiscard]] std::optional<Need> provide(std::span<const std::int32_t> statements);
  /// The store's numbers for the last Need.
  void accept(ids::Grant grant);

  /// True if some of the sequences have given their numbers.
  [[nodiscard]] bool has_some() const;

  /// Gives these statements the next numbers, with which they will be sent.
  void number(std::span<const std::int32_t> statements);
  /// Event: these statements are sent, and get the next numbers.
  void send(std::span<const std::int32_t> statements);
  /// Event: of the statements that were sent, the server has stored these and no others.
  void stored(std::span<const std::int32_t> statements, ids::Durability durability);
  /// The rule of a number of a sequence that is taken; null if the collision is of other values.
  [[nodiscard]] const Assignment* sequence_in(const Collision& collision) const;
  /// True if the server may answer what was sent only once a transaction of somebody else has
  /// ended.
  [[nodiscard]] bool may_wait() const { return may_wait_; }
  /// Event: the server says that numbers are taken.
  void taken(const Collision& collision);
  /// Event: it is not known which numbers are stored.
  void lost();

 private:
  /// The numbers of one sequence.
  struct Line {
    std::size_t assignment;
    std::uint32_t source;   // index in GivenSequences::all
    ids::Source* sequence;  // the same
    std::string name;       // of the sequence
    std::unique_ptr<ids::Turn> turn{};
    bool has_numbers = false;
    bool is_over = false;    // no statement that is still to be sent needs a number
    std::size_t next = 0;    // the first that is not stored: index in GivenValues::values
    std::size_t places = 0;  // of the statements at hand
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;

  void find_lines();
  void sort_lines();
  template <class Use>
  void each_place(std::span<const std::int32_t> statements, const Use& use) const;
  void count_places(std::span<const std::int32_t> statements);
  [[nodiscard]] std::optional<Need> draw(Line& line);
  void note_source(const Line& line);

  const Plan& plan_;
  GivenValues& given_;
  std::vector<Line> lines_;            // in the order in which turns are taken
  std::vector<std::uint32_t> places_;  // by GivenValues::given: index in lines_, or kNone
  bool is_counted_ = false;            // Line::places is of the statements to provide for
  std::size_t asked_ = 0;              // index in lines_
  bool may_wait_ = false;
};

/// The numbers without gaps of one write, and the order in which it sends its statements because of
/// them. Numbers that a command does not store go to the next command.
///
/// An upsert may find a document and need no number, so that the next statement's number would
/// leave a gap. The same happens if the server has executed a statement in an earlier attempt of
/// the client and skips it now. The statements that were executed then precede those that were not,
/// except for failed ones. So it is enough to ask the server about the first one, or to send
/// statements one by one until one is stored.
class TurnStage final : public Stage, public NumbersInTurn {
 public:
  /// Borrows its arguments but `memory`, which may be null. `command`, of so many `statements`, and
  /// `options`: the client's. `is_unsure`: the server does not tell which statements it had
  /// executed before.
  TurnStage(GivenValues& given, const Operation& command, std::size_t statements,
            const WriteOptions& options, bool is_unsure, const ConnectionMemory* memory);

  /// The numbers, then what the server has executed of these statements: an earlier attempt that is
  /// still on its way would get the same numbers, or none.
  [[nodiscard]] std::optional<Need> need(const Moment& moment) override;
  [[nodiscard]] Action ask(const Question& question) override;
  [[nodiscard]] std::optional<End> accept(const Answer& answer) override;
  /// True if the next command may have only one statement.
  [[nodiscard]] bool is_alone(const BatchProgress& progress) const;
  /// A document with the fields that the command must have beside the client's, or in their place;
  /// empty: none. Valid until the next call.
  [[nodiscard]] Bytes fields(const BatchProgress& progress);
  void sent(std::span<const std::int32_t> statements) override { send(statements); }
  void executed(Executed& command) override;
  [[nodiscard]] std::optional<Next> failed(const Failure& failure) override;

 private:
  const Operation& command_;
  const WriteOptions& options_;
  const bool is_unsure_;
  const std::int64_t majority_;   // of the server's set
  ids::Durability durability_{};  // of the last command's writes
  bool one_by_one_ = false;   // an earlier attempt of the client may have executed some statements
  bool is_repeated_ = false;  // one has
  std::int32_t first_statement_ = 0;
  /// Whether it has executed the first one.
  enum class First { unknown, asked, not_executed, unclear } first_ = First::unknown;
  std::optional<ExecutedQuestion> question_;           // under way, at a server before 6.0
  std::optional<std::vector<std::int32_t>> executed_;  // as it says: ascending
  Buffer fields_;
};

}  // namespace idproxy::rewrite
