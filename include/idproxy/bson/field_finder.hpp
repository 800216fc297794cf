#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "idproxy/base/bytes.hpp"

namespace idproxy::bson {

/// Looks for several names at once among the elements at the top level of documents. Finds what a
/// walk with Elements would find, in about a third of the time: it compares eight bytes of a name
/// at a time.
class FieldFinder {
 public:
  /// The most names that it looks for.
  static constexpr std::size_t kMost = 32;

  /// What a document has, as a bit for each name in the order of add().
  struct Found {
    std::uint32_t there = 0;
    std::uint32_t twice = 0;
  };
  /// By name: the type byte of the first element that has it.
  using Places = std::array<const std::uint8_t*, kMost>;

  void clear() { count_ = 0; }
  /// Names may repeat. `name` must outlive the finder. At most kMost.
  void add(std::string_view name);
  [[nodiscard]] std::size_t size() const { return count_; }
  /// The bits of all names.
  [[nodiscard]] std::uint32_t all() const {
    return static_cast<std::uint32_t>((std::uint64_t{1} << count_) - 1);
  }

  /// How far to walk.
  enum class Until {
    all_found,  ///< what follows the last name that it looks for is not read
    the_end,
  };
  /// `document` must be whole, as document_at() returns it. Sets the places of the names that are
  /// there. Nothing if the part that was read is malformed, as Elements::malformed() says.
  [[nodiscard]] std::optional<Found> find(Bytes document, Until until, Places& places) const;

 private:
  struct Name {
    std::uint64_t word;  // its first eight bytes, with its NUL if that is among them
    std::uint64_t mask;  // the bytes of `word` that count
    std::string_view text;
  };
  std::array<Name, kMost> names_;
  std::size_t count_ = 0;
};

}  // namespace idproxy::bson
