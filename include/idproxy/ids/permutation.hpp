#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace idproxy::ids {

class Ff1;

/// A text of one length for each number from 0 on, and the way back, which nobody finds without the
/// key (docs/permuted.md). No two numbers of one epoch have the same text. Thread-safe.
class Permutation {
 public:
  enum class LeadingZeros { allowed, none };
  struct Space {
    std::string alphabet;  ///< the digits, the one for 0 first; 2 to 64
    bool is_named = true;  ///< it is one of those with a name
    std::size_t length = 0;
    LeadingZeros zeros = LeadingZeros::allowed;  ///< none: with ten digits only
    friend bool operator==(const Space&, const Space&) = default;
  };
  /// The numbers from `from` on have this key, of 16, 24 or 32 bytes.
  struct Epoch {
    std::int64_t from;
    std::string key;
    friend bool operator==(const Epoch&, const Epoch&) = default;
  };

  /// `epochs`: ascending, the first from 0 on.
  Permutation(Space space, std::string tweak, std::vector<Epoch> epochs);
  ~Permutation();

  [[nodiscard]] const Space& space() const { return space_; }
  /// The last number.
  [[nodiscard]] std::int64_t max() const { return max_; }
  /// Writes the text of a number, of space().length characters. `number`: 0 to max().
  void write(std::int64_t number, std::uint8_t* text) const;
  /// The numbers that have this text: one at most for each epoch.
  [[nodiscard]] std::vector<std::int64_t> numbers(std::string_view text) const;

  /// How a counter's document says that its numbers are hidden by this permutation.
  struct Seal {
    std::string keys{};   ///< of the first key and tweak; behind it " <from>:<key and tweak>" …
    std::string space{};  ///< "10^12", "10^12 nz", "62^8", "3^20 abc"
    /// The keys without the last epoch, without the last two, …, and where the one left out begins.
    struct Earlier {
      std::string keys;
      std::int64_t end;
      friend bool operator==(const Earlier&, const Earlier&) = default;
    };
    std::vector<Earlier> earlier{};
    friend bool operator==(const Seal&, const Seal&) = default;
  };
  [[nodiscard]] Seal seal() const;

  friend bool operator==(const Permutation& a, const Permutation& b) {
    return a.space_ == b.space_ && a.tweak_ == b.tweak_ && a.epochs_ == b.epochs_;
  }

 private:
  const Space space_;
  const std::string tweak_;
  const std::vector<Epoch> epochs_;
  std::vector<std::unique_ptr<const Ff1>> ciphers_;  // of the epochs
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
