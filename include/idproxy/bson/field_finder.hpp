#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/document_shape.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::bson {

/// Looks for several names at once among the elements at the top level of documents. Finds what a
/// walk with Elements would find, in a fraction of the time: documents of a collection mostly have
/// the same fields in the same order. So it tries the shape of an earlier document first. If that
/// does not fit, it compares the type and name of each element with those that earlier documents
/// had next; where they are the same, it knows the name's length without looking for its end. Not
/// thread-safe.
class FieldFinder {
 public:
  /// The most names that it looks for.
  static constexpr std::size_t kMost = FoundNames::kMost;

  /// Names may repeat. At most kMost.
  explicit FieldFinder(std::span<const std::string_view> names);
  FieldFinder(const FieldFinder&) = delete;
  FieldFinder& operator=(const FieldFinder&) = delete;

  /// The fields of a document, in the order of the names.
  using Found = FoundNames;
  using Places = FoundNames::Places;

  /// How far to walk.
  enum class Until {
    all_found,  ///< what follows the last name that it looks for is not read
    the_end,
  };
  /// `document` must be whole, as document_at() returns it. Sets the places of the names that are
  /// there. False if the part that was read is malformed, as Elements::malformed() says.
  [[nodiscard]] bool find(Bytes document, Until until, Found& found, Places& places);

 private:
  struct Name {
    std::uint64_t word = 0;  // its first eight bytes, with its NUL if that is among them
    std::uint64_t mask = 0;  // the bytes of `word` that count
    std::string text;
  };
  /// The way in which find() skips an element.
  enum class Kind : std::uint8_t {
    fixed,    // skips `size` bytes
    counted,  // `size` bytes and an int32 n, at least `least`; n more bytes, the last one 00
    other,    // not in a few instructions
  };
  static constexpr std::size_t kWords = 2;
  /// The longest type and name that it remembers, in bytes, with the NUL.
  static constexpr std::size_t kLongest = 36;
  /// The type and name of an element, and what they tell.
  struct alignas(64) Head {
    std::array<std::uint64_t, kWords> words{};  // the first sixteen bytes
    std::array<std::uint64_t, kWords> masks{};  // those of them that count
    std::uint32_t names = 0;                    // the names that it has, as bits
    std::uint16_t size = 0;                     // kinds fixed and counted: see there
    std::uint8_t least = 0;
    Kind kind = Kind::other;
    std::uint8_t name_end = 0;  // bytes of type and name, with the NUL; 0: no element matches
    std::array<std::uint8_t, kLongest - kWords * 8> rest{};  // of these
  };
  static constexpr std::size_t kHeads = 64;
  /// A walk through a document.
  struct Walk {
    const std::uint8_t* at;
    const std::uint8_t* end;  // the document's final 00
    Head* const* next;        // in order_: the head that is expected
  };

  [[nodiscard]] bool tries_shape() const;
  void learn_shape(Bytes document, std::uint64_t enough);
  [[nodiscard]] bool walk(Bytes document, std::uint64_t enough, Found& found, Places& places);
  [[nodiscard]] static bool matches(const Head& head, const std::uint8_t* at,
                                    const std::uint8_t* end);
  [[nodiscard]] static bool differs(const Head& head, const std::uint8_t* at);
  [[nodiscard]] std::uint32_t named(Bytes key, const std::uint8_t* end) const;
  [[nodiscard]] bool skip_any(Walk& walk, Found& found, Places& places);
  [[nodiscard]] bool expects(Walk& walk) const;
  void learn(const Walk& walk, std::size_t name_end, std::uint32_t names);

  std::vector<Name> names_;
  std::uint64_t all_;  // the bits of all names
  std::array<Head, kHeads + 1> heads_;
  // In the order in which they are expected. Behind those that are known, none matches an element.
  std::array<Head*, kHeads + 1> order_;
  std::size_t known_ = 0;
  DocumentShape shape_;
  std::uint32_t misfits_ = 0;  // documents since one had this shape
};

}  // namespace idproxy::bson
