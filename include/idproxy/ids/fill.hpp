#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

namespace idproxy::ids {

/// How much of a space of random numbers one collection uses, estimated from the documents that the
/// store has counted and from the share of duplicates among the last draws
/// (docs/strategies.md#random-digits). Thread-safe: one lock, held for a handful of instructions
/// per insert command.
class Fill {
 public:
  /// The rule's limits. The fills are fractions of `space`, 0 to 1.
  struct Limits {
    double space;      ///< how many different numbers there are, > 0
    double warn_fill;  ///< above it, the log warns
    double max_fill;   ///< above it, draws are refused
    friend bool operator==(const Limits&, const Limits&) = default;
  };
  /// The state for logs and messages; contains no value of a document.
  struct Seen {
    std::optional<Limits> limits;
    std::optional<std::uint64_t> documents;  ///< in the space; nothing: never counted
    double fraction;      ///< used part of the space, may exceed 1; 0 if nothing is known
    std::uint64_t drawn;  ///< numbers that may have been stored since the documents were counted
    bool is_full;  ///< numbers are refused: as far as can be told, more than max_fill is used
  };

  // ---- for strategies

  void limit(const Limits& limits) {
    const std::scoped_lock lock(mutex_);
    limits_ = limits;
  }
  /// True if no numbers may be drawn: the fill is above max_fill.
  [[nodiscard]] bool is_full() const {
    const std::scoped_lock lock(mutex_);
    return is_full_now();
  }
  /// Notes a blind draw of `numbers` numbers. False if it must not happen: is_full().
  [[nodiscard]] bool draw(std::uint64_t numbers);
  /// The same for numbers that a look-up has found to be free. They say nothing about the fill.
  [[nodiscard]] bool choose(std::uint64_t numbers);
  /// True if the documents have been counted, or there were enough draws to tell.
  [[nodiscard]] bool is_known() const;
  /// The share of a blind draw that is probably taken. Unlike Seen::fraction, goes by a handful of
  /// draws if nothing else is known; 0 if not even that.
  [[nodiscard]] double expected() const {
    const std::scoped_lock lock(mutex_);
    return expected_now();
  }
  /// True if so many of `numbers` numbers drawn blindly would be taken that a look-up costs less,
  /// or if only a look-up can tell.
  [[nodiscard]] bool expects_duplicates(std::uint64_t numbers) const;
  /// This share of a batch's draws was taken, and `others` have not been tried. True if by that so
  /// many of these are taken that a look-up costs less: then the share is expected() until the next
  /// look-up.
  bool suspect(double share, std::uint64_t others);
  /// `numbers` of the drawn numbers turned out to be taken.
  void collided(std::uint64_t numbers);
  /// How often to send a document again before the client gets the duplicate-key error, so that one
  /// document in 10^9 does: max(8, ln 1e-9 / ln fraction), at most 100.
  [[nodiscard]] std::uint32_t attempts() const;

  // ---- for the store

  /// Sets the estimated number of documents with a number of the space.
  void counted(std::uint64_t documents);
  /// Of `numbers` numbers drawn at random, `taken` are in use.
  void looked_up(std::uint64_t numbers, std::uint64_t taken);
  /// To be called about once a minute, whether or not documents could be counted. If there was no
  /// draw since the last call, forgets all draws, so that inserts that were refused because of them
  /// are tried again.
  void age();
  [[nodiscard]] Seen seen() const;

  /// The larger of documents / `space` and the share of duplicates among the last draws.
  [[nodiscard]] double of(double space) const {
    const std::scoped_lock lock(mutex_);
    return fraction(space);
  }

 private:
  /// Counts the last 10,000 draws in steps of 1,000.
  class Window {
   public:
    void draw(std::uint64_t numbers);
    void collide(std::uint64_t numbers) { steps_[newest_].collided += numbers; }
    /// So many draws, of which a share evenly spread over them was taken.
    void add(std::uint64_t numbers, std::uint64_t taken);
    struct Step {
      std::uint64_t drawn = 0;
      std::uint64_t collided = 0;
    };
    [[nodiscard]] Step sum() const;
    /// Share of duplicates; 0 until there are enough draws to tell.
    [[nodiscard]] double ratio() const;

   private:
    std::array<Step, 11> steps_{};  // ten full ones and the newest
    std::size_t newest_ = 0;
  };

  [[nodiscard]] double fraction(double space) const;
  [[nodiscard]] double expected_now() const;
  [[nodiscard]] bool is_full_now() const;

  mutable std::mutex mutex_;
  std::optional<Limits> limits_;
  std::optional<std::uint64_t> documents_;
  std::uint64_t drawn_ = 0;  // Seen::drawn
  Window window_;
  double suspected_ = 0;
  bool drawn_since_ = false;  // since the last age()
};

}  // namespace idproxy::ids
