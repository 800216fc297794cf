#include "idproxy/bson/field_finder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "idproxy/bson/element_ends.hpp"

namespace idproxy::bson {
namespace {

constexpr std::size_t kWordBytes = 8;
constexpr std::ptrdiff_t kWord = kWordBytes;
constexpr std::ptrdiff_t kRead = 2 * kWord;  // bytes of an element that are compared at once
/// The most documents between two for which a shape is learnt anew. A power of two.
constexpr std::uint32_t kRest = 256;

std::uint64_t load_word(const std::uint8_t* at) {
  return static_cast<std::uint64_t>(load_i64(at));
}

/// The mask of the first `bytes` bytes of a word.
std::uint64_t first_of_word(std::size_t bytes) {
  return bytes >= kWordBytes ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
}

}  // namespace

FieldFinder::FieldFinder(std::span<const std::string_view> names)
    : all_((std::uint64_t{1} << names.size()) - 1) {
  std::ranges::transform(heads_, order_.begin(), [](Head& head) { return &head; });
  for (const std::string_view text : names) {
    std::array<std::uint8_t, kWordBytes> bytes{};
    std::copy_n(text.begin(), std::min(text.size(), kWordBytes), bytes.begin());
    names_.push_back({load_word(bytes.data()), first_of_word(text.size() + 1), std::string(text)});
  }
}

/// Whether the element at `at` has this type and name.
bool FieldFinder::matches(const Head& head, const std::uint8_t* at, const std::uint8_t* end) {
  const std::ptrdiff_t left = end - at;
  if (head.name_end == 0 || head.name_end > left) return false;
  if (left >= kRead) {
    if (differs(head, at)) return false;
    if (head.name_end <= kRead) return true;
  }
  const std::size_t front = std::min<std::size_t>(head.name_end, sizeof head.words);
  return std::memcmp(at, head.words.data(), front) == 0 &&
         std::memcmp(at + front, head.rest.data(), head.name_end - front) == 0;
}

/// Compares the first sixteen bytes, as far as they belong to type and name.
bool FieldFinder::differs(const Head& head, const std::uint8_t* at) {
  const std::uint64_t first = (load_word(at) ^ head.words[0]) & head.masks[0];
  const std::uint64_t second = (load_word(at + kWord) ^ head.words[1]) & head.masks[1];
  return (first | second) != 0;
}

/// Returns the names that are equal to the key, as bits. `end`: of the document's elements.
std::uint32_t FieldFinder::named(Bytes key, const std::uint8_t* end) const {
  std::uint32_t names = 0;
  const bool word_there = end - key.data() >= kWord;
  const std::uint64_t word = word_there ? load_word(key.data()) : 0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const Name& name = names_[i];
    if (word_there && ((word ^ name.word) & name.mask) != 0) continue;
    if (as_text(key) == name.text) names |= std::uint32_t{1} << i;
  }
  return names;
}

/// Skips one element, of any kind. False if it is malformed.
bool FieldFinder::skip_any(Walk& walk, Found& found, Places& places) {
  const std::uint8_t* const element = walk.at;
  std::uint32_t names = 0;
  std::size_t name_end = 0;
  if (expects(walk)) {
    const Head& head = **walk.next;
    names = head.names;
    name_end = head.name_end;
    ++walk.next;
  } else {
    const std::uint8_t* const nul = end_of_key(element + 1, walk.end);
    if (nul == walk.end) return false;
    names = named({element + 1, nul}, walk.end);
    name_end = static_cast<std::size_t>(nul + 1 - element);
    if (name_end <= kLongest && walk.next != &order_.back()) {
      learn(walk, name_end, names);
      ++walk.next;
    }
  }
  walk.at = end_of_value(static_cast<Type>(*element), element + name_end, walk.end);
  if (walk.at == nullptr) return false;
  if (names != 0) found.note(names, element_at(element, name_end, walk.at), places);
  return true;
}

/// True if the element's head is the expected one, or one of those that come soon after it: the
/// document then lacks the fields in between. Sets walk.next.
bool FieldFinder::expects(Walk& walk) const {
  constexpr std::ptrdiff_t kLookAhead = 16;
  Head* const* const last = walk.next + std::min(kLookAhead, order_.data() + known_ - walk.next);
  for (Head* const* next = walk.next; next != last; ++next) {
    if (!matches(**next, walk.at, walk.end)) continue;
    walk.next = next;
    return true;
  }
  return false;
}

/// Remembers the type and name of the element as those that are expected here. The head that was
/// expected so far comes after it; if there are too many, the last head is forgotten.
void FieldFinder::learn(const Walk& walk, std::size_t name_end, std::uint32_t names) {
  const auto place = order_.begin() + (walk.next - order_.data());
  const auto unused = order_.begin() + static_cast<std::ptrdiff_t>(std::min(known_, kHeads - 1));
  known_ = std::min(known_ + 1, kHeads);
  std::rotate(place, unused, unused + 1);
  Head& head = **place;
  const std::uint8_t* const element = walk.at;
  std::array<std::uint8_t, kLongest> bytes{};
  std::memcpy(bytes.data(), element, name_end);
  std::memcpy(head.words.data(), bytes.data(), sizeof head.words);
  std::copy(bytes.begin() + sizeof head.words, bytes.end(), head.rest.begin());
  head.masks = {first_of_word(name_end), first_of_word(name_end - std::min(name_end, kWordBytes))};
  head.names = names;
  head.name_end = static_cast<std::uint8_t>(name_end);
  head.kind = Kind::other;
  if (name_end > sizeof head.words) return;
  const std::int16_t fixed = kFixedSizes[*element];
  const auto type = static_cast<Type>(*element);
  if (fixed >= 0) {
    head.kind = Kind::fixed;
    head.size = static_cast<std::uint16_t>(name_end + static_cast<std::size_t>(fixed));
    head.least = 0;
  } else if (const auto counted = counted_value(type); counted && counted->ends_with_nul) {
    head.kind = Kind::counted;
    head.size = static_cast<std::uint16_t>(name_end + counted->front);
    head.least = counted->least;
  }
}

bool FieldFinder::find(Bytes document, Until until, Found& found, Places& places) {
  constexpr std::uint64_t kNever = std::uint64_t{1} << kMost;
  const std::uint64_t enough = until == Until::all_found && all_ != 0 ? all_ : kNever;
  found = {};
  if (tries_shape()) {
    if (shape_.fits(document, enough, found, places)) {
      misfits_ = 0;
      return true;
    }
    found = {};
  }
  if (!walk(document, enough, found, places)) return false;
  if (++misfits_ == kRest * 2) misfits_ = kRest;
  if (misfits_ > 1 && std::has_single_bit(misfits_)) learn_shape(document, enough);
  return true;
}

/// Documents that differ all the time do not pay for each other's shapes: the longer none has had
/// the shape, the more rarely it is learnt anew.
bool FieldFinder::tries_shape() const {
  return misfits_ < 2 || std::has_single_bit(misfits_);
}

void FieldFinder::learn_shape(Bytes document, std::uint64_t enough) {
  shape_.clear();
  std::uint32_t found = 0;
  Elements elements(document);
  while (const auto element = elements.next()) {
    const std::uint32_t names = named({element->begin + 1, element->value.data() - 1},
                                      document.data() + document.size() - 1);
    if (!shape_.add(*element, names)) return shape_.clear();
    found |= names;
    if (found == enough) return;
  }
}

/// Element by element.
bool FieldFinder::walk(Bytes document, std::uint64_t enough, Found& found, Places& places) {
  const std::uint8_t* at = document.data() + 4;
  const std::uint8_t* const end = document.data() + document.size() - 1;
  Head* const* next = order_.data();
  std::array<std::uint8_t, kRead> last;  // of the bytes, where fewer than kRead are left
  while (true) {
    // Most elements are as expected.
    for (; at != end; ++next) {
      const Head& head = **next;
      const std::uint8_t* front = at;
      if (end - at < kRead) {
        last.fill(0);
        std::memcpy(last.data(), at, static_cast<std::size_t>(end - at));
        front = last.data();
      }
      if (differs(head, front) || head.kind == Kind::other) break;
      const std::ptrdiff_t left = end - at - head.size;
      if (left < head.least) break;
      std::ptrdiff_t length = 0;
      if (head.kind == Kind::counted) {
        length = load_i32(at + head.name_end);
        if (length < head.least || length > left || at[head.size + length - 1] != 0) break;
      }
      const std::uint8_t* const element = at;
      at += head.size + length;
      if (head.names == 0) continue;
      found.note(head.names, element_at(element, head.name_end, at), places);
      if (found.there == enough) return true;
    }
    if (at == end) return true;
    Walk walk{at, end, next};
    if (!skip_any(walk, found, places)) return false;
    if (found.there == enough) return true;
    at = walk.at;
    next = walk.next;
  }
}

}  // namespace idproxy::bson
