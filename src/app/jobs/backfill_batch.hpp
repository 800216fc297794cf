#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "app/jobs/backfill_commands.hpp"
#include "app/jobs/backfill_report.hpp"
#include "app/jobs/stop_signals.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/sequences.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/rewrite/given_values.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::app::jobs {

/// Asks for `n` values after Draw::need(), and waits for the answer, at most as long as an insert
/// does (StoreSource::patience). After Errc::unavailable another attempt may succeed.
[[nodiscard]] ids::Result<ids::Grant> await_grant(ids::StoreSource& source, std::size_t n);

/// Returns the sequence that gives an existing document its value, or why there is none, for people
/// and without the document's values. `document`: with the fields in Sequences::fields() and the
/// field `period_from`, the dotted path of a date or an ObjectId, whose time decides; if that path
/// is empty, the current time decides.
[[nodiscard]] boost::system::result<std::shared_ptr<ids::Source>, std::string> sequence_of(
    const ids::Sequences& sequences, const std::string& period_from, Bytes document);

/// The values of one update, one for each of its documents, in their order; and their sources: the
/// collection's, the sequences that the documents belong to, or the turn of a sequence without
/// gaps. A turn whose number was taken continues with the next draw from the same sequence. One
/// thread.
class BackfillValues {
 public:
  using Sequences = std::span<const std::shared_ptr<ids::Source>>;

  /// `plan`: the one assignment that gives the values. Borrows it.
  explicit BackfillValues(const rewrite::Plan& plan) : plan_(plan) {}

  /// Draws `count` values in place of those that it has. `sequences`: of the documents; empty if
  /// the rule has none. Waits for the id store, at most as long as an insert does. After an error
  /// it has no values; with Errc::unavailable another attempt may succeed.
  [[nodiscard]] ids::Result<void> draw(std::size_t count, Sequences sequences);
  /// True if the id store was preparing the values that were not there in time.
  [[nodiscard]] bool are_prepared() const { return is_prepared_; }
  [[nodiscard]] const ids::Values& all() const { return given_.values.front(); }

  /// Event: the values are sent.
  void sent();
  /// Event: the server has answered.
  void answered(const UpdateOutcome& outcome);
  /// Event: the value at this position is taken. `in_a_row`: how many values of this document have
  /// been taken, one after the other.
  void collided(std::size_t at, std::size_t in_a_row);
  /// Event: the first `count` were stored.
  void went_well(std::size_t count);

  /// True if the id store counts values as used that no document has.
  [[nodiscard]] bool leave_gaps() const { return lends_; }
  /// Returns these values, which are stored nowhere.
  void take_back(std::size_t from, std::size_t to);

 private:
  [[nodiscard]] ids::Result<void> draw_in_turn(std::size_t count, ids::Source& sequence);
  [[nodiscard]] ids::Result<ids::Grant> ask(ids::StoreSource& source, std::size_t count);
  using UseSource = std::function<void(ids::Source&, std::span<const std::uint32_t> which)>;
  void each_source(std::size_t from, std::size_t to, const UseSource& use) const;

  const rewrite::Plan& plan_;
  rewrite::GivenValues given_;
  std::unique_ptr<ids::Turn> turn_;        // of a sequence without gaps
  const ids::Source* sequence_ = nullptr;  // of the turn
  bool goes_on_ = false;                   // the turn, although a number was taken
  bool lends_ = false;
  bool is_prepared_ = false;
};

/// A document that needs a value.
struct BackfillDocument {
  BackfillId id;
  std::string beside{};  ///< {…} with BackfillTarget::beside; empty if that is
};

/// Gives documents their values, a batch at a time: draws as many values, and sends one ordered
/// update. If the server stops at a document, the values behind it return, and those documents get
/// the next ones, so that values keep the documents' order and a failed document leaves no gap.
///
/// No value is stored twice. Each update applies only while its document has no value, so it may be
/// carried out any number of times. A value that has been sent belongs to its document. It returns
/// only if the server has answered every command that carried it, and says that it is not stored;
/// otherwise nobody gets it, and it is a gap. The same holds if this process is killed: its values
/// are lost, and an update of it that is carried out late still names its documents.
///
/// A sequence without gaps gives one number at a time, always the next one, so that none can be
/// lost. After an update without an answer, its document gets the number that is then the next.
///
/// One thread.
class BackfillBatch {
 public:
  /// `plan`: the one assignment that gives the values. `period_from`: as for sequence_of(). Borrows
  /// its other arguments.
  BackfillBatch(const BackfillTarget& target, const rewrite::Plan& plan, std::string period_from,
                const id_store::mongo::Pool& pool, const StopSignals& stop, Patience& patience);

  /// Gives these documents their values, in their order. Waits as long as the patience lasts. If
  /// the process is told to stop, finishes what it can finish at once.
  void give(std::vector<BackfillDocument> documents);
  /// Why no further document can get a value; empty: they can.
  [[nodiscard]] const std::string& why_ended() const { return why_ended_; }
  /// Documents that are left, at most kMostRemembered.
  [[nodiscard]] const std::unordered_set<BackfillId>& failed() const { return failed_; }
  [[nodiscard]] const BackfillTally& tally() const { return tally_; }

 private:
  static constexpr std::size_t kMostRemembered = 100'000;

  /// The field's values in documents, by id. Empty: the document has none.
  using Found = std::unordered_map<BackfillId, std::string>;

  void take_in(BackfillDocument document);
  [[nodiscard]] std::size_t draw();
  [[nodiscard]] std::size_t most_at_once() const;
  [[nodiscard]] bool awaits(const ids::Error& error);
  [[nodiscard]] bool is_guarded();
  void send(std::size_t count);
  [[nodiscard]] std::optional<UpdateOutcome> update(std::size_t count);
  void settle(const UpdateOutcome& outcome, std::size_t count);
  void refused(std::int32_t code, std::size_t count);
  [[nodiscard]] bool tries_again(std::size_t taken);
  void gives_way(std::string number);
  [[nodiscard]] bool in_turn() const { return plan_.front().in_turn; }
  void note_given(bson::Type type, Bytes value);
  void read_back(std::size_t count);
  [[nodiscard]] std::optional<Found> find(std::size_t count);
  void leave(const std::string& reason);
  void note_left(const std::string& reason, BackfillId id);
  void drop(std::size_t count);
  void give_back(std::size_t from, std::size_t to);
  void count_gaps(std::size_t count);

  const BackfillTarget& target_;
  const rewrite::Plan& plan_;
  const std::string period_from_;
  id_store::mongo::Client client_;
  const StopSignals& stop_;
  Patience& patience_;

  std::vector<BackfillId> ids_;  // in order: documents that still need a value
  std::vector<std::shared_ptr<ids::Source>> sequences_;  // of these; empty: there are none
  std::optional<BackfillValues> values_;  // during give(): a turn must not outlast it
  std::size_t part_;                      // for how many of ids_ the next update is
  std::size_t duplicates_ = 0;            // in a row, of the first of them
  std::string taken_;  // the number that was taken last, of a sequence without gaps
  /// Numbers of a sequence without gaps that were sent for the first document, without an answer.
  std::unordered_set<std::string> unconfirmed_;
  bool may_run_ = false;  // an update without an answer may still be running
  std::unordered_set<BackfillId> failed_;
  BackfillTally tally_;
  std::optional<ids::CollectionUuid> uuid_;  // of the collection that the rule's index is in
  std::string why_ended_;
};

}  // namespace idproxy::app::jobs
