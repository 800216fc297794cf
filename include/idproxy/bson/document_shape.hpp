#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::bson {

/// The names that a document has, of up to kMost, each as a bit.
struct FoundNames {
  static constexpr std::size_t kMost = 32;
  /// By name: the first element that has it.
  using Places = std::array<Element, kMost>;

  std::uint32_t there = 0;
  std::uint32_t twice = 0;

  /// The element has these names.
  void note(std::uint32_t names, const Element& element, Places& places) {
    twice |= there & names;
    for (std::uint32_t left = names & ~there; left != 0; left &= left - 1) {
      places[static_cast<std::size_t>(std::countr_zero(left))] = element;
    }
    there |= names;
  }
};

/// The types and names of all elements of a document, in order. Tells of another document whether
/// it has the same, and where the elements are that are looked for, 32 bytes at a time: the values
/// of fixed size need no look of their own. Not thread-safe.
class DocumentShape {
 public:
  /// As no document is.
  void clear() { parts_.clear(); }
  /// Adds the next element of a document; `names`: those of its names that are looked for, as bits.
  /// False if shapes cannot have such an element, or not so many.
  [[nodiscard]] bool add(const Element& element, std::uint32_t names);

  /// Walks `document`, which must be whole, as document_at() returns it, until it has found all
  /// names of `enough`, or to its end. False if it differs from the shape or is malformed; `found`
  /// then says nothing.
  [[nodiscard]] bool fits(Bytes document, std::uint64_t enough, FoundNames& found,
                          FoundNames::Places& places) const;

 private:
  /// Bytes that are compared at once.
  static constexpr std::size_t kAtOnce = 32;
  using Pattern = std::array<std::uint8_t, 2 * kAtOnce>;  // the first half is 00: see fits()
  /// `size` bytes of one or more elements. If `counted`, a value of variable size ends it: an int32
  /// n at `count_at`, and behind the `size` bytes n more, at least `least`, the last one 00 in the
  /// bits of `last`.
  struct Part {
    Pattern bytes{};
    Pattern masks{};             // the bytes of types and names count
    std::uint32_t names = 0;     // of the first element
    std::uint8_t name_end = 0;   // of that: bytes of type and name, with the NUL
    std::uint8_t value_end = 0;  // of that: bytes in all; 0: to the end of the part
    std::uint8_t size = 0;
    std::uint8_t count_at = 0;
    std::uint8_t least = 0;
    std::uint8_t last = 0;
    bool counted = false;
  };
  static constexpr std::size_t kMostParts = 64;

  [[nodiscard]] bool append(Bytes bytes, std::uint8_t mask);
  [[nodiscard]] bool begin_part();
  [[nodiscard]] static bool differs(const Part& part, const std::uint8_t* at, std::size_t first);

  std::vector<Part> parts_;
};

}  // namespace idproxy::bson
