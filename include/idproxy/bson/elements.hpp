#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/element_ends.hpp"
#include "idproxy/bson/type.hpp"

/// Bounds-checked reading of BSON (bsonspec.org, version 1.1).
///
///   document ::= int32 total  element*  00          total counts itself and the 00
///   element  ::= uint8 type   key 00    value       value's size follows from type and its head
///
/// Example, {a: 1}:  0C000000  10 61 00  01000000  00
///
/// Walking a document neither recurses nor allocates: embedded documents are skipped by their
/// length and read only on request.
namespace idproxy::bson {

/// Sizes that MongoDB allows, in bytes (observed on 6.0.5).
inline constexpr std::int64_t kMaxUserDocument = std::int64_t{16} * 1024 * 1024;
inline constexpr std::int64_t kMaxInternalDocument = kMaxUserDocument + std::int64_t{16} * 1024;
inline constexpr std::size_t kMinDocument = 5;

/// One element of a document; views into the document's buffer.
struct Element {
  Type type{};
  std::string_view key;
  Bytes value;  ///< the bytes after the key's NUL, as many as the type demands
  const std::uint8_t* begin = nullptr;  ///< the type byte
  [[nodiscard]] const std::uint8_t* end() const { return value.data() + value.size(); }

  /// Text of a string or symbol, without its length and final NUL; may contain NULs.
  [[nodiscard]] std::string_view text() const {
    return as_text(value.subspan(4, value.size() - 5));
  }
  /// The value of an int32, an int64, an integral double up to ±2^53 or a boolean; nothing for
  /// others.
  [[nodiscard]] std::optional<std::int64_t> as_integer() const;
  /// Its as_integer() is not 0, which is how servers read options.
  [[nodiscard]] bool is_true() const { return as_integer().value_or(0) != 0; }
};

/// The element from its type byte at `at` to `end`; `name_end`: bytes of type and key, with the
/// NUL.
[[nodiscard]] inline Element element_at(const std::uint8_t* at, std::size_t name_end,
                                        const std::uint8_t* end) {
  return {static_cast<Type>(*at), as_text({at + 1, name_end - 2}), {at + name_end, end}, at};
}

/// The bytes of the document at the front of `bytes`; nothing unless 5 <= length <= bytes.size()
/// and its last byte is 00.
[[nodiscard]] inline std::optional<Bytes> document_at(Bytes bytes) {
  if (bytes.size() < kMinDocument) return std::nullopt;
  const std::int64_t length = load_i32(bytes.data());
  if (length < static_cast<std::int64_t>(kMinDocument)) return std::nullopt;
  if (length > static_cast<std::int64_t>(bytes.size())) return std::nullopt;
  if (bytes[static_cast<std::size_t>(length) - 1] != 0) return std::nullopt;
  return bytes.first(static_cast<std::size_t>(length));
}

/// Walks the elements of one document in order.
///
///   Elements elements(document);
///   while (auto element = elements.next()) ...
///   if (elements.malformed()) ...
class Elements {
 public:
  /// `document` must be whole, as document_at() returns it, and must outlive the walk.
  explicit Elements(Bytes document)
      : at_(document.data() + 4), end_(document.data() + document.size() - 1) {}

  /// The next element; nothing at the end, or when something is malformed: an unknown type, a key
  /// or value that exceeds the document, a string without its NUL, a terminator too early.
  [[nodiscard]] std::optional<Element> next();
  /// The same for loops in which each nanosecond counts: false at the end.
  [[nodiscard]] bool next(Element& element) {
    if (at_ == end_ || malformed_) return false;
    const auto* const nul = end_of_key(at_ + 1, end_);
    const auto type = static_cast<Type>(*at_);
    const auto* value_end = nul < end_ ? end_of_frequent_value(type, nul + 1, end_) : nullptr;
    if (value_end == nullptr) value_end = end_of_rare_value(nul);
    malformed_ = value_end == nullptr;
    if (malformed_) return false;
    const auto* const begin = std::exchange(at_, value_end);
    element = element_at(begin, static_cast<std::size_t>(nul + 1 - begin), value_end);
    return true;
  }
  [[nodiscard]] bool malformed() const { return malformed_; }

  /// As next(), where it does not matter why a walk ends:
  ///
  ///   for (const Element& each : Elements(document)) ...
  class Iterator {
   public:
    explicit Iterator(Elements& all) : all_(&all), now_(all.next()) {}
    const Element& operator*() const { return *now_; }
    Iterator& operator++() {
      now_ = all_->next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !now_; }

   private:
    Elements* all_;
    std::optional<Element> now_;
  };
  [[nodiscard]] Iterator begin() { return Iterator(*this); }
  [[nodiscard]] static std::default_sentinel_t end() { return {}; }

 private:
  /// By itself, so that next() saves no registers for it.
  [[nodiscard]] const std::uint8_t* end_of_rare_value(const std::uint8_t* nul) const;

  const std::uint8_t* at_;
  const std::uint8_t* end_;  // the document's final 00
  bool malformed_ = false;
};

/// The form of a document and everything in it, to any depth.
enum class Form {
  good,        ///< BSON that mongod accepts (observed, 6.0.5)
  deprecated,  ///< it has a DBPointer or code with scope, into which nobody looked; the rest is
               ///< good
  malformed,   ///< or deeper than `levels`
};
[[nodiscard]] Form form_of(Bytes document, std::size_t levels);
[[nodiscard]] inline bool well_formed(Bytes document, std::size_t levels) {
  return form_of(document, levels) == Form::good;
}

/// The first element with this key; nothing if there is none or the document is malformed before
/// it.
[[nodiscard]] std::optional<Element> find(Bytes document, std::string_view key);
/// The same, if it is of this type; else nothing.
[[nodiscard]] std::optional<Element> find(Bytes document, std::string_view key, Type type);
/// Its as_integer(); nothing if there is none.
[[nodiscard]] std::optional<std::int64_t> find_integer(Bytes document, std::string_view key);
/// The same; 0 if it is none.
[[nodiscard]] std::int64_t integer_in(Bytes document, std::string_view key);
/// False if there is none, or Element::is_true() says so.
[[nodiscard]] bool is_true(Bytes document, std::string_view key);
/// The text of a string, as a view into the document; empty if it is none.
[[nodiscard]] std::string_view text_in(Bytes document, std::string_view key);
/// An embedded document, as a view.
[[nodiscard]] std::optional<Bytes> document_in(Bytes document, std::string_view key);
/// The documents in an array, as views.
[[nodiscard]] std::vector<Bytes> documents_in(Bytes document, std::string_view key);

}  // namespace idproxy::bson
