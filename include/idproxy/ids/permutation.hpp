#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace idproxy::ids {

class Ff1;

/// A text of one length for each number from 0 on, and the way back, which nobody finds without the
/// key (docs/permuted.md). No two numbers have the same text. Thread-safe.
class Permutation {
 public:
  enum class LeadingZeros { allowed, none };
  struct Space {
    std::string alphabet;  ///< the digits, the one for 0 first; 2 to 64
    std::size_t length = 0;
    LeadingZeros zeros = LeadingZeros::allowed;  ///< none: with ten digits only
    friend bool operator==(const Space&, const Space&) = default;
  };

  /// `key`: of 16, 24 or 32 bytes.
  Permutation(Space space, std::string tweak, std::string key);
  ~Permutation();

  [[nodiscard]] const Space& space() const { return space_; }
  /// The last number.
  [[nodiscard]] std::int64_t max() const { return max_; }
  /// Writes the text of a number, of space().length characters. Of one that
  /// is none of 0 to max(), writes blanks, which are no digits.
  void write(std::int64_t number, std::uint8_t* text) const;
  /// The number that has this text.
  [[nodiscard]] std::optional<std::int64_t> read(std::string_view text) const;

  /// How a counter's document says that its numbers are hidden by this permutation.
  struct Seal {
    std::string fpe{};    ///< of key and tweak
    std::string space{};  ///< "10^12", "10^12 nz", "3^20 abc"
    friend bool operator==(const Seal&, const Seal&) = default;
  };
  [[nodiscard]] Seal seal() const;

  friend bool operator==(const Permutation& a, const Permutation& b) {
    return a.space_ == b.space_ && a.tweak_ == b.tweak_ && a.key_ == b.key_;
  }

 private:
  const Space space_;
  const std::string tweak_;
  const std::string key_;
  const std::unique_ptr<const Ff1> cipher_;
  std::int64_t max_ = 0;
};

/// Equal where the permutations are.
struct SharedPermutation : std::shared_ptr<const Permutation> {
  using std::shared_ptr<const Permutation>::shared_ptr;
  friend bool operator==(const SharedPermutation& a, const SharedPermutation& b) {
    return a.get() == b.get() || (a && b && *a == *b);
  }
};

}  // namespace idproxy::ids
