#include "idproxy/bson/field_finder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "end_of_key.hpp"
#include "value_size.hpp"

namespace idproxy::bson {
namespace {

constexpr std::size_t kWordBytes = 8;
constexpr std::ptrdiff_t kWord = kWordBytes;

std::uint64_t load_word(const std::uint8_t* at) {
  return static_cast<std::uint64_t>(load_i64(at));
}

/// The mask of the first `bytes` bytes of a word.
std::uint64_t first_of_word(std::size_t bytes) {
  return bytes >= kWordBytes ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
}

}  // namespace

FieldFinder::FieldFinder() {
  forget();
}

void FieldFinder::forget() {
  heads_.fill({});
}

bool FieldFinder::looks_for(std::span<const std::string_view> names) const {
  return std::ranges::equal(names, std::span(names_).first(count_), {}, {}, &Name::text);
}

void FieldFinder::look_for(std::span<const std::string_view> names) {
  if (looks_for(names)) return;
  forget();
  count_ = 0;
  for (const std::string_view text : names) {
    Name& its = names_[count_++];
    its.text = text;
    std::array<std::uint8_t, kWordBytes> bytes{};
    std::copy_n(text.begin(), std::min(text.size(), kWordBytes), bytes.begin());
    its.word = load_word(bytes.data());
    its.mask = first_of_word(text.size() + 1);
  }
}

/// Whether the element at `at` has this type and name. Reads two words behind the type.
bool FieldFinder::matches(const Head& head, const std::uint8_t* at) {
  const std::uint64_t first = (load_word(at + 1) ^ head.words[0]) & head.masks[0];
  const std::uint64_t second = (load_word(at + 1 + kWord) ^ head.words[1]) & head.masks[1];
  return (first | second) == 0 && *at == head.type;
}

/// Which names the key is, as bits. `end`: of the document's elements.
std::uint32_t FieldFinder::named(Bytes key, const std::uint8_t* end) const {
  std::uint32_t names = 0;
  const bool word_there = end - key.data() >= kWord;
  const std::uint64_t word = word_there ? load_word(key.data()) : 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const Name& name = names_[i];
    if (word_there && ((word ^ name.word) & name.mask) != 0) continue;
    if (as_text(key) == name.text) names |= std::uint32_t{1} << i;
  }
  return names;
}

/// Reads the type and name of the element at `at` without knowing them, and remembers them in
/// `head`. False if the name has no end.
bool FieldFinder::learn(const std::uint8_t* at, const std::uint8_t* end, Head& head) const {
  const std::uint8_t* const key = at + 1;
  const std::uint8_t* const nul = end_of_key(key, end);
  if (nul == end) return false;
  head.names = named({key, nul}, end);
  head.value_size = kFixedSizes[*at];
  head.size = static_cast<std::uint32_t>(nul + 1 - at);
  head.type = *at;
  const std::size_t name = head.size - 1;
  if (name > 2 * kWordBytes) {
    head.type = Head::kNoType;
    return true;
  }
  std::array<std::uint8_t, 2 * kWordBytes> bytes{};
  std::memcpy(bytes.data(), key, name);
  head.words = {load_word(bytes.data()), load_word(bytes.data() + kWord)};
  head.masks = {first_of_word(name), first_of_word(name - std::min(name, kWordBytes))};
  return true;
}

std::optional<FieldFinder::Found> FieldFinder::find(Bytes document, Until until, Places& places) {
  const std::uint8_t* at = document.data() + 4;
  const std::uint8_t* const end = document.data() + document.size() - 1;
  const std::uint32_t enough = until == Until::all_found ? all() : 0;
  Found found;
  Head* head = heads_.data();
  while (at != end) {
    if (end - at <= 2 * kWord || !matches(*head, at)) {
      if (!learn(at, end, *head)) return std::nullopt;
    }
    const std::uint8_t* const value = at + head->size;
    for (std::uint32_t left = head->names; left != 0; left &= left - 1) {
      const auto name = static_cast<std::size_t>(std::countr_zero(left));
      const std::uint32_t bit = std::uint32_t{1} << name;
      if ((found.there & bit) == 0) places[name] = at;
      found.twice |= found.there & bit;
      found.there |= bit;
    }
    const bool all_found = head->names != 0 && found.there == enough;
    if (head->value_size >= 0) {
      if (head->value_size > end - value) return std::nullopt;
      at = value + head->value_size;
    } else {
      at = end_of_value(static_cast<Type>(*at), value, end);
      if (at == nullptr) return std::nullopt;
    }
    if (all_found) break;
    if (head != &heads_.back()) ++head;  // the last one is that of all further elements
  }
  return found;
}

}  // namespace idproxy::bson
