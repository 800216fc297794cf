#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

namespace idproxy::ids {

/// How much of a space of random numbers is in use in one collection, as far as it is known:
/// documents that the store has counted, and the share of duplicates among the last draws
/// (docs/strategies.md#random-digits). Thread-safe: one lock, held for a handful of instructions
/// per insert command.
class Fill {
 public:
  /// What its rule says. Fractions of `space`, 0 to 1.
  struct Limits {
    double space;      ///< how many different numbers there are, > 0
    double warn_fill;  ///< above it, the log says so
    double max_fill;   ///< above it, no number is drawn
  };
  /// Documents, and the last draws: never a value.
  struct Seen {
    std::optional<Limits> limits;
    std::uint64_t documents;
    double fraction;  ///< of the space, 0 to 1 and beyond; 0 while nothing is known
  };

  // ---- for strategies

  void limit(const Limits& limits);
  /// Notes that so many numbers are drawn. False if none may be: the fill is above max_fill.
  [[nodiscard]] bool draw(std::uint64_t numbers);
  /// So many of the numbers drawn were taken already.
  void collided(std::uint64_t numbers);
  /// How often a document should be sent again before its duplicate is the client's, so that one in
  /// 10^9 is: max(8, ln 1e-9 / ln fraction), at most 100.
  [[nodiscard]] std::uint32_t attempts() const;

  // ---- for the store

  /// An estimate of how many documents the collection has.
  void counted(std::uint64_t documents);
  /// To be called every minute or so, whether or not documents could be counted. Draws that none
  /// followed in all that time are forgotten: what was refused because of them is tried again.
  void age();
  [[nodiscard]] Seen seen() const;

  /// Documents, or the duplicates' share of the draws, as part of `space`; whichever is more.
  [[nodiscard]] double of(double space) const;

 private:
  /// Of the last 10,000 draws, in steps of a tenth.
  class Window {
   public:
    void draw(std::uint64_t numbers);
    void collide(std::uint64_t numbers) { steps_[newest_].collided += numbers; }
    /// 0 before there have been enough draws to tell.
    [[nodiscard]] double ratio() const;

   private:
    struct Step {
      std::uint64_t drawn = 0;
      std::uint64_t collided = 0;
    };
    std::array<Step, 11> steps_{};  // ten full ones, and the newest
    std::size_t newest_ = 0;
  };

  [[nodiscard]] double fraction(double space) const;

  mutable std::mutex mutex_;
  std::optional<Limits> limits_;
  std::uint64_t documents_ = 0;
  Window window_;
  bool drawn_since_ = false;  // since the last age()
};

}  // namespace idproxy::ids
