#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backfill_commands.hpp"
#include "backfill_report.hpp"
#include "backfill_values.hpp"
#include "id_store/mongo.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "progress.hpp"

namespace idproxy::app {

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
/// A sequence without gaps gives one number at a time, and only the next one, which nobody can have
/// lost. After an update without an answer its document gets the number that is next then.
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

  /// What documents have in the field, by id. Empty: nothing.
  using Found = std::unordered_map<BackfillId, std::string>;

  void take_in(BackfillDocument document);
  [[nodiscard]] std::size_t draw(BackfillValues& values);
  [[nodiscard]] std::size_t most_at_once(const BackfillValues& values) const;
  [[nodiscard]] bool awaits(const ids::Error& error, const BackfillValues& values);
  [[nodiscard]] bool is_guarded();
  void send(std::size_t count, BackfillValues& values);
  [[nodiscard]] std::optional<UpdateOutcome> update(std::size_t count, const ids::Values& values);
  void settle(const UpdateOutcome& outcome, std::size_t count, BackfillValues& values);
  void refused(std::int32_t code, std::size_t count, BackfillValues& values);
  [[nodiscard]] bool tries_again(std::size_t taken, BackfillValues& values);
  void gives_way(std::string number);
  [[nodiscard]] bool in_turn() const;
  void note_given(bson::Type type, Bytes value);
  void read_back(std::size_t count, const BackfillValues& drawn);
  [[nodiscard]] std::optional<Found> find(std::size_t count);
  void leave(const std::string& reason);
  void note_left(const std::string& reason, BackfillId id);
  void drop(std::size_t count);
  void give_back(BackfillValues& values, std::size_t from, std::size_t to);
  void count_gaps(std::size_t count, const BackfillValues& values);

  const BackfillTarget& target_;
  const rewrite::Plan& plan_;
  const std::string period_from_;
  id_store::mongo::Client client_;
  const StopSignals& stop_;
  Patience& patience_;

  std::vector<BackfillId> ids_;  // in order: documents that still need a value
  std::vector<std::shared_ptr<ids::Strategy>> sequences_;  // of these; empty: there are none
  std::size_t part_;            // how many of them the next update is for
  std::size_t duplicates_ = 0;  // in a row, of the first of them
  std::string taken_;           // the number that was taken last, of a sequence without gaps
  /// Numbers of a sequence without gaps that were sent for the first document, without an answer.
  std::unordered_set<std::string> unconfirmed_;
  bool may_run_ = false;  // an update without an answer may still be running
  std::unordered_set<BackfillId> failed_;
  BackfillTally tally_;
  std::optional<ids::CollectionUuid> uuid_;  // of the collection that the rule's index is in
  std::string why_ended_;
};

}  // namespace idproxy::app
